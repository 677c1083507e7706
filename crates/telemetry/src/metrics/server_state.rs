//! What is known about one server of a pool, whoever found it out: its state, its weight, and how often checks and
//! ejections happened. What is sent to it is counted in [`server`](super::server).

use super::number::SharedNumber;
use strum::{IntoStaticStr, VariantArray};

/// The state of a server in one word. The same words stand in metrics and log lines, and never change once released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ServerWord {
    /// No check has ended yet.
    Unknown,
    /// The server takes requests.
    Serving,
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
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Any thread may write. `unknown` with weight 0 until somebody says more.
#[derive(Debug, Default, Clone)]
pub struct ServerStateMetrics {
    word: SharedNumber,
    pub(super) weight: SharedNumber,
    pub(super) ejections: SharedNumber,
    pub(super) checks_passed: SharedNumber,
    pub(super) checks_failed: SharedNumber,
}

impl ServerStateMetrics {
    pub fn set_state(&self, word: ServerWord) {
        self.word.set(word as i64);
    }

    pub fn state(&self) -> ServerWord {
        ServerWord::VARIANTS[self.word.value() as usize]
    }

    /// As written or discovered, beside the weights of the pool's other servers.
    pub fn set_weight(&self, weight: u32) {
        self.weight.set(weight.into());
    }

    /// Counts how many times more the server was taken out because of its answers.
    pub fn ejected(&self, times: u64) {
        self.ejections.add(times as i64);
    }

    /// A health check has ended.
    pub fn checked(&self, is_passed: bool) {
        if is_passed { &self.checks_passed } else { &self.checks_failed }.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::{ServerStateMetrics, ServerWord, SharedNumber};
    use std::collections::BTreeSet;
    use strum::VariantArray;

    #[test]
    fn every_state_is_read_back_and_has_its_word() {
        let server = ServerStateMetrics::default();
        assert_eq!(server.state(), ServerWord::Unknown);
        for word in ServerWord::VARIANTS.iter().copied() {
            server.set_state(word);
            assert_eq!(server.state(), word);
        }
        let words: BTreeSet<_> = ServerWord::VARIANTS.iter().map(|word| word.as_str()).collect();
        assert_eq!(words.len(), ServerWord::VARIANTS.len());
    }

    #[test]
    fn threads_may_count_at_the_same_time() {
        const EACH: i64 = 10_000;
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
        let numbers = [&server.ejections, &server.checks_passed, &server.checks_failed];
        assert_eq!(numbers.map(SharedNumber::value), [4 * EACH, EACH, 3 * EACH]);
    }
}
