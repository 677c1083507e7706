//! How sets of keys do that tokens are verified with. Which set it is stands in `status`: its address may be long, and
//! no label.

use super::number::SharedNumber;

/// Words for the states of a set, in the order of [`TokenKeyMetrics::set_states`].
pub(super) const STATES: [&str; 3] = ["ready", "failing", "missing"];

/// Written by the control thread.
#[derive(Debug, Default)]
pub struct TokenKeyMetrics {
    pub(super) sets: [SharedNumber; STATES.len()],
    pub(super) keys: SharedNumber,
    /// 0 where there is none.
    pub(super) oldest_read_unix_seconds: SharedNumber,
}

impl TokenKeyMetrics {
    /// Sets that were had at the last attempt; that were not, and whose keys of before are used; and without any key.
    pub fn set_states(&self, sets: [usize; STATES.len()]) {
        for (number, count) in self.sets.iter().zip(sets) {
            number.set(count as i64);
        }
    }

    pub fn set_keys(&self, keys: usize) {
        self.keys.set(keys as i64);
    }

    /// When the set was had that has not been had for longest.
    pub fn set_oldest_read(&self, unix_seconds: u64) {
        self.oldest_read_unix_seconds.set(unix_seconds as i64);
    }
}
