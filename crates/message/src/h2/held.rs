//! What the streams of one connection hold of memory: their state, heads, what came of bodies and was not read, what is
//! to go out and has not gone. Counted as it is taken; beyond what is usual the process's account learns of it as well.

use tidegate_transport::memory;

/// What the streams of a connection may hold whatever others do: a piece of an answer that waits, and heads.
const ALWAYS_BYTES: usize = 128 << 10;
/// What the process's account is not told of: most connections hold less, and have nothing to tell.
const UNTOLD_BYTES: usize = 32 << 10;
/// Beyond it the process's account is told in steps of this size, so that it is seldom written.
const STEP_BYTES: usize = 64 << 10;
/// What the heads of a connection may take for each stream that it may have; a usual one has less. Without such a bound
/// the heads of 256 streams were 16 MiB, for 12 KB that the client had to send.
const HEAD_BYTES_OF_STREAM: usize = 4 << 10;

/// The account of one connection.
pub(super) struct HeldAccount {
    bytes: usize,
    head_bytes: usize,
    head_bytes_max: usize,
    /// Of a head that has not come whole.
    unfinished_bytes: usize,
    /// What the process knows of.
    told_bytes: usize,
}

impl HeldAccount {
    /// `streams_max`: streams that the peer may open; a server may open none.
    pub(super) fn new(streams_max: u32) -> HeldAccount {
        let head_bytes_max = HEAD_BYTES_OF_STREAM.saturating_mul(streams_max as usize);
        HeldAccount { bytes: 0, head_bytes: 0, head_bytes_max, unfinished_bytes: 0, told_bytes: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What a stream holds is another amount than before.
    #[inline]
    pub(super) fn change(&mut self, before: Held, after: Held) {
        self.head_bytes = (self.head_bytes + after.head_bytes as usize).saturating_sub(before.head_bytes as usize);
        self.bytes = (self.bytes + after.bytes()).saturating_sub(before.bytes());
        if self.bytes > UNTOLD_BYTES || self.told_bytes > 0 {
            self.tell();
        }
    }

    /// What came of a head that has not come whole takes as much as that.
    #[inline]
    pub(super) fn set_unfinished(&mut self, bytes: usize) {
        if bytes != self.unfinished_bytes {
            self.bytes = (self.bytes + bytes).saturating_sub(self.unfinished_bytes);
            self.unfinished_bytes = bytes;
            self.change(Held::default(), Held::default());
        }
    }

    /// A step below what is told there is no need to tell less: streams that come and go would do so all the time.
    fn tell(&mut self) {
        let beyond = self.bytes.saturating_sub(UNTOLD_BYTES);
        if beyond > self.told_bytes {
            let more = (beyond - self.told_bytes).next_multiple_of(STEP_BYTES);
            self.told_bytes += more;
            memory::hold(more);
        } else if self.told_bytes - beyond >= 2 * STEP_BYTES || self.bytes < UNTOLD_BYTES / 2 {
            let less = self.told_bytes - beyond.next_multiple_of(STEP_BYTES);
            self.told_bytes -= less;
            memory::let_go(less);
        }
    }

    /// Whether no stream may be opened: the heads of those that are there take as much as they may.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.head_bytes >= self.head_bytes_max || self.is_short()
    }

    /// Whether nothing more may be kept for this connection: it holds more than it may always, and all connections
    /// together hold as much as they may. Never of one to a server, whose streams are those of many clients: one that
    /// takes all memory must not have the uploads of the others reset.
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        self.head_bytes_max > 0 && self.bytes > ALWAYS_BYTES && memory::is_short_for_streams()
    }
}

impl Drop for HeldAccount {
    fn drop(&mut self) {
        // Most connections have told nothing, and write nothing that workers share.
        if self.told_bytes > 0 {
            memory::let_go(self.told_bytes);
        }
    }
}

/// What one stream holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) head_bytes: u32,
    pub(super) other_bytes: u32,
}

impl Held {
    fn bytes(self) -> usize {
        self.head_bytes as usize + self.other_bytes as usize
    }
}

#[cfg(test)]
mod tests {
    use super::{ALWAYS_BYTES, HEAD_BYTES_OF_STREAM, Held, HeldAccount, STEP_BYTES, UNTOLD_BYTES};
    use tidegate_transport::memory;

    fn heads(bytes: usize) -> Held {
        Held { head_bytes: bytes as u32, other_bytes: 0 }
    }

    /// One test, since the account of the process is one.
    #[test]
    fn the_process_learns_of_what_is_more_than_usual() {
        let mut account = HeldAccount::new(256);
        let mut before = Held::default();
        let mut check = |account: &mut HeldAccount, now: Held, told: usize| {
            account.change(std::mem::replace(&mut before, now), now);
            assert_eq!((account.told_bytes, memory::taken_bytes()), (told, told as u64), "{now:?}");
        };
        let body = |bytes: usize| Held { head_bytes: 0, other_bytes: bytes as u32 };
        check(&mut account, heads(1000), 0);
        check(&mut account, body(UNTOLD_BYTES), 0);
        check(&mut account, body(UNTOLD_BYTES + 1), STEP_BYTES);
        check(&mut account, body(UNTOLD_BYTES - 1), STEP_BYTES);
        check(&mut account, body(UNTOLD_BYTES + STEP_BYTES), STEP_BYTES);
        check(&mut account, body(UNTOLD_BYTES + 3 * STEP_BYTES + 1), 4 * STEP_BYTES);
        check(&mut account, body(UNTOLD_BYTES + 2 * STEP_BYTES + 1), 4 * STEP_BYTES);
        check(&mut account, body(UNTOLD_BYTES + STEP_BYTES), STEP_BYTES);
        check(&mut account, body(1), 0);

        // What came of a head that is not whole counts as well, once.
        account.set_unfinished(UNTOLD_BYTES + STEP_BYTES);
        account.set_unfinished(UNTOLD_BYTES + 1);
        assert_eq!((account.bytes(), account.told_bytes), (UNTOLD_BYTES + 2, 2 * STEP_BYTES));
        account.set_unfinished(0);
        assert_eq!((account.bytes(), memory::taken_bytes()), (1, 0));

        // Heads have a bound of their own.
        check(&mut account, heads(256 * HEAD_BYTES_OF_STREAM - 1), 1 << 20);
        assert!(!account.is_full());
        account.change(heads(1), heads(2));
        assert!(account.is_full() && !account.is_short());
        account.change(heads(2), heads(1));

        // The process has little: a connection has what it may always, and no more.
        memory::set_budget(Some(1 << 20));
        assert!(account.is_full() && account.is_short());
        let mut other = HeldAccount::new(256);
        assert!(!other.is_full());
        other.change(heads(0), heads(ALWAYS_BYTES));
        assert!(!other.is_full());
        other.change(heads(0), heads(1));
        assert!(other.is_full());
        // To a server.
        let mut shared = HeldAccount::new(0);
        shared.change(heads(0), heads(2 * ALWAYS_BYTES));
        assert!(!shared.is_short());
        drop(shared);
        drop(account);
        assert!(!other.is_full());
        memory::set_budget(None);
        drop(other);
        assert_eq!(memory::taken_bytes(), 0);
    }
}
