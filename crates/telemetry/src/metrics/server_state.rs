//! What is known about one server of a pool, whoever found it out: its state, its weight, and how often checks and
//! ejections happened. What is sent to it is counted in [`server`](super::server).

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The state of a server in one word. The same words stand in metrics and log lines, and never change once released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServerWord {
    /// The server takes requests.
    Serving,
    /// No check has ended yet.
    Unknown,
    /// The server has come back and gets a growing share of requests.
    Starting,
    /// Somebody drains it: it gets no new clients.
    Draining,
    /// Discovery says that it is about to end.
    Leaving,
    /// Checks say that it does not answer.
    Down,
    /// The server's answers to requests were too bad.
    Ejected,
    /// The server gets no requests for a while, such as after an answer with `Retry-After`.
    Resting,
}

impl ServerWord {
    pub const ALL: [ServerWord; 8] = [
        ServerWord::Serving,
        ServerWord::Unknown,
        ServerWord::Starting,
        ServerWord::Draining,
        ServerWord::Leaving,
        ServerWord::Down,
        ServerWord::Ejected,
        ServerWord::Resting,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ServerWord::Serving => "serving",
            ServerWord::Unknown => "unknown",
            ServerWord::Starting => "starting",
            ServerWord::Draining => "draining",
            ServerWord::Leaving => "leaving",
            ServerWord::Down => "down",
            ServerWord::Ejected => "ejected",
            ServerWord::Resting => "resting",
        }
    }
}

/// Any thread may write. `unknown` with weight 0 until somebody says more.
#[derive(Debug)]
pub struct ServerStateMetrics {
    word: AtomicU8,
    weight: AtomicU32,
    ejections: AtomicU64,
    checks_passed: AtomicU64,
    checks_failed: AtomicU64,
}

impl ServerStateMetrics {
    pub fn set_state(&self, word: ServerWord) {
        self.word.store(word as u8, Ordering::Relaxed);
    }

    pub fn state(&self) -> ServerWord {
        ServerWord::ALL[usize::from(self.word.load(Ordering::Relaxed))]
    }

    /// As written or discovered, beside the weights of the pool's other servers.
    pub fn set_weight(&self, weight: u32) {
        self.weight.store(weight, Ordering::Relaxed);
    }

    /// Counts how many times more the server was taken out because of its answers.
    pub fn ejected(&self, times: u64) {
        self.ejections.fetch_add(times, Ordering::Relaxed);
    }

    /// A health check has ended.
    pub fn checked(&self, is_passed: bool) {
        let total = if is_passed { &self.checks_passed } else { &self.checks_failed };
        total.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn numbers(&self) -> ServerStateNumbers {
        ServerStateNumbers {
            word: self.state(),
            weight: self.weight.load(Ordering::Relaxed),
            ejections: self.ejections.load(Ordering::Relaxed),
            checks_passed: self.checks_passed.load(Ordering::Relaxed),
            checks_failed: self.checks_failed.load(Ordering::Relaxed),
        }
    }
}

impl Default for ServerStateMetrics {
    fn default() -> Self {
        ServerStateMetrics {
            word: AtomicU8::new(ServerWord::Unknown as u8),
            weight: AtomicU32::default(),
            ejections: AtomicU64::default(),
            checks_passed: AtomicU64::default(),
            checks_failed: AtomicU64::default(),
        }
    }
}

/// What stood there at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerStateNumbers {
    pub word: ServerWord,
    pub weight: u32,
    pub ejections: u64,
    pub checks_passed: u64,
    pub checks_failed: u64,
}

#[cfg(test)]
mod tests {
    use super::{ServerStateMetrics, ServerWord};
    use std::collections::BTreeSet;

    #[test]
    fn every_state_is_read_back_and_has_its_word() {
        let server = ServerStateMetrics::default();
        assert_eq!(server.state(), ServerWord::Unknown);
        for word in ServerWord::ALL {
            server.set_state(word);
            assert_eq!(server.state(), word);
        }
        let words: BTreeSet<_> = ServerWord::ALL.iter().map(|word| word.as_str()).collect();
        assert_eq!(words.len(), ServerWord::ALL.len());
    }

    #[test]
    fn threads_may_count_at_the_same_time() {
        const EACH: u64 = 10_000;
        let server = ServerStateMetrics::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let server = &server;
                scope.spawn(move || {
                    for _ in 0..EACH {
                        server.ejected(1);
                        server.checked(thread == 0);
                    }
                });
            }
        });
        let numbers = server.numbers();
        assert_eq!((numbers.ejections, numbers.checks_passed, numbers.checks_failed), (4 * EACH, EACH, 3 * EACH));
    }
}
