//! Whether the peer of an HTTP/2 connection is still there when requests were put on it: silence is answered with a
//! PING, silence after that with the end. Pure; `upstream::h2` looks at each connection with every sweep.

use std::time::{Duration, Instant};

/// What one look adds to the silence at most. A worker that was held up for a minute has not read for a minute, which
/// is not the peer's silence.
const LOOK_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub struct Vitals {
    looked_at: Instant,
    silent_for: Duration,
    /// Something was asked of the peer since it was heard last. It stays so when the requests are given up: on a
    /// connection to nobody, all of them may be over by their own timeouts whenever it is looked at.
    owes_a_sign: bool,
    is_asked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Fine,
    /// A PING is to be sent now.
    Ask,
    /// Nobody is there.
    GiveUp,
}

impl Vitals {
    pub fn new(now: Instant) -> Vitals {
        Vitals { looked_at: now, silent_for: Duration::ZERO, owes_a_sign: false, is_asked: false }
    }

    /// `has_received` since the last look; `has_requests`: some are on the connection, or were since the last look;
    /// `ping`: how long it may be silent before it is asked, and again before it is given up.
    pub fn look(&mut self, now: Instant, has_received: bool, has_requests: bool, ping: Duration) -> Verdict {
        let since = now.saturating_duration_since(self.looked_at);
        self.looked_at = now;
        if has_received {
            *self = Vitals::new(now);
            return Verdict::Fine;
        }
        self.owes_a_sign |= has_requests;
        if !self.owes_a_sign {
            return Verdict::Fine;
        }
        self.silent_for += since.min(LOOK_MAX);
        if self.silent_for < ping {
            return Verdict::Fine;
        }
        self.silent_for = Duration::ZERO;
        if std::mem::replace(&mut self.is_asked, true) { Verdict::GiveUp } else { Verdict::Ask }
    }
}

#[cfg(test)]
mod tests {
    use super::{Verdict, Vitals};
    use std::time::{Duration, Instant};

    /// What comes of one look a second; `.` is silence, `r` something received, `i` no request on the connection.
    fn looks(looks: &str) -> String {
        let start = Instant::now();
        let mut vitals = Vitals::new(start);
        let mut verdict = |(second, what)| {
            let now = start + Duration::from_secs(second as u64 + 1);
            match vitals.look(now, what == 'r', what != 'i', Duration::from_secs(3)) {
                Verdict::Fine => '-',
                Verdict::Ask => 'A',
                Verdict::GiveUp => 'X',
            }
        };
        looks.chars().enumerate().map(&mut verdict).collect()
    }

    #[test]
    fn silence_is_asked_about_and_then_final() {
        let check = |what: &str, expected: &str| assert_eq!(looks(what), expected, "{what}");
        check("......", "--A--X");
        check("..r...r...r", "-----A---A-");
        check("...r.....", "--A---A--");
        check(".....r", "--A---");
        // Requests that come and are given up between two looks are asked all the same.
        check("...i......", "--A--X--X-");
        check(".iiiiiii", "--A--X--");
        check("i.iiii", "---A--");
        check("iii.iriiiiii", "------------");
        check(".ir..i.", "-----A-");
        check("iiiiiiiii", "---------");
    }

    #[test]
    fn a_worker_that_was_held_up_does_not_take_it_for_silence() {
        let start = Instant::now();
        let ping = Duration::from_secs(3);
        let mut vitals = Vitals::new(start);
        let minute = Duration::from_mins(1);
        assert_eq!(vitals.look(start + minute, false, true, ping), Verdict::Fine);
        assert_eq!(vitals.look(start + minute * 2, false, true, ping), Verdict::Fine);
        assert_eq!(vitals.look(start + minute * 3, false, true, ping), Verdict::Ask);
    }
}
