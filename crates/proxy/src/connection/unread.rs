//! What a client still sends of a request that has its answer. Most clients write their whole request before they read,
//! and take a connection, or a stream of HTTP/2, that ends under their hands for the failure of the request. So what
//! comes is read on and thrown away, within these bounds, over every version of HTTP. What is done between them is in
//! `serve::unread`.

use std::time::{Duration, Instant};
use tidegate_exchange::TURN_BYTES;

/// What is read on of one request: an upload of 200 MB learns that it was refused. One that is longer learns so from a
/// connection that ends.
pub const UNREAD_BYTES_MAX: u64 = 256 << 20;
/// How long, however the client sends: its connection has to come to an end.
pub const UNREAD_TIME_MAX: Duration = Duration::from_secs(30);

/// How much more is read of what nobody wants.
#[derive(Debug, Clone, Copy)]
pub struct UnreadBounds {
    until: Instant,
    bytes: u64,
    turn: usize,
}

impl UnreadBounds {
    pub fn new(now: Instant) -> UnreadBounds {
        UnreadBounds::within(now, UNREAD_TIME_MAX)
    }

    /// The bounds for an end that may take less time.
    pub fn within(now: Instant, time: Duration) -> UnreadBounds {
        UnreadBounds { until: now + time.min(UNREAD_TIME_MAX), bytes: 0, turn: 0 }
    }

    /// How long the next piece may take of a client that may be silent for so long; `None` at the end of the time or of
    /// the bytes.
    pub fn left(&self, now: Instant, silence: Duration) -> Option<Duration> {
        let left = self.until.saturating_duration_since(now);
        (!self.is_over(now) && self.bytes <= UNREAD_BYTES_MAX).then(|| left.min(silence))
    }

    /// So much was read. Whether it is the turn of other connections.
    pub fn note(&mut self, bytes: usize) -> bool {
        self.bytes += bytes as u64;
        self.turn += bytes;
        let is_turn = self.turn > TURN_BYTES;
        if is_turn {
            self.turn = 0;
        }
        is_turn
    }

    /// Whether the time is over.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// What was read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{UNREAD_BYTES_MAX, UNREAD_TIME_MAX, UnreadBounds};
    use std::time::{Duration, Instant};

    #[test]
    fn time_and_bytes_end_it_and_silence_is_never_longer_than_what_is_left() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let mut bounds = UnreadBounds::new(began);
        assert_eq!(bounds.left(began, second), Some(second));
        let late = (began + UNREAD_TIME_MAX).checked_sub(second / 2).unwrap();
        assert_eq!(bounds.left(late, second), Some(second / 2));
        assert_eq!(bounds.left(began + UNREAD_TIME_MAX, second), None);
        bounds.note(UNREAD_BYTES_MAX as usize);
        assert_eq!(bounds.left(began, second), Some(second));
        bounds.note(1);
        assert_eq!(bounds.left(began, second), None);
        assert_eq!(bounds.bytes(), UNREAD_BYTES_MAX + 1);
    }

    #[test]
    fn others_get_a_turn_after_each_megabyte() {
        let mut bounds = UnreadBounds::new(Instant::now());
        let turns = (0..64).filter(|_| bounds.note(128 << 10)).count();
        assert!((6..=8).contains(&turns), "{turns}");
    }
}
