//! When the process has come to rest: after its start, after a change of the configuration, after many clients. What
//! only those needed is given back then, by whoever runs the process. Pure: the clock is its caller's.

use std::time::{Duration, Instant};

/// After the start: what it began has ended by then.
const AFTER_START: Duration = Duration::from_millis(50);
/// After a change: workers have let go of what was before.
const AFTER_CHANGE: Duration = Duration::from_secs(1);
/// How often it is looked at what clients took, and how long they have taken little when they are at rest.
const PERIOD: Duration = Duration::from_secs(5);
/// What clients take in a period of rest at the most: a hundred connections. They fit into what is free for long before
/// anything is asked of the system.
const CALM_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Rest {
    /// When it will have come, if nothing happens until then.
    pub due_at: Option<Instant>,
    looked_at: Instant,
    ever_taken: u64,
}

impl Rest {
    pub fn after_start(now: Instant) -> Rest {
        Rest { due_at: Some(now + AFTER_START), looked_at: now, ever_taken: 0 }
    }

    pub fn changed(&mut self, now: Instant) {
        self.due_at = Some(now + AFTER_CHANGE);
    }

    /// Takes note of what clients have ever taken of memory. Whoever asks often is asked to go on: only what a whole
    /// period brings counts.
    pub fn look(&mut self, now: Instant, ever_taken: u64) {
        if now.saturating_duration_since(self.looked_at) < PERIOD {
            return;
        }
        if ever_taken.saturating_sub(self.ever_taken) > CALM_BYTES_MAX {
            // Later than the next look, which puts it off again while they go on.
            self.due_at = Some(now + PERIOD + PERIOD / 2);
        }
        (self.looked_at, self.ever_taken) = (now, ever_taken);
    }

    /// Whether rest has come. If so, the next one comes when something has happened again.
    pub fn take_due(&mut self, now: Instant) -> bool {
        self.due_at.take_if(|at| *at <= now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::{CALM_BYTES_MAX, Rest};
    use std::time::{Duration, Instant};

    #[test]
    fn rest_comes_once_after_each_thing_that_happened() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let mut rest = Rest::after_start(start);
        assert!(!rest.take_due(start) && rest.take_due(at(0.1)) && !rest.take_due(at(1.0)));
        rest.changed(at(2.0));
        rest.changed(at(2.5));
        assert!(!rest.take_due(at(3.2)) && rest.take_due(at(3.5)) && !rest.take_due(at(9.0)));
        // Looked at four times a second, while clients take much for twenty seconds and then little.
        let mut due = Vec::new();
        let mut ever_taken = 0;
        for quarter in 40..400 {
            let now = at(f64::from(quarter) / 4.0);
            ever_taken += if quarter < 120 { CALM_BYTES_MAX } else { CALM_BYTES_MAX / 100 };
            rest.look(now, ever_taken);
            if rest.take_due(now) {
                due.push(quarter / 4);
            }
        }
        assert!(due.len() == 1 && (34..45).contains(&due[0]), "{due:?}");
    }
}
