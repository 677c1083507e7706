//! One server's checks, one after the other, for as long as somebody runs them. It starts no task and decides nothing:
//! `state` decides. What a check does is in `probe`.

use crate::probe::{Target, probe};
use crate::state::{CheckState, Seen, Transition};
use std::convert::Infallible;
use tidegate_model::Health;
use tokio::time::{Instant, sleep_until};

/// The checks of one server.
pub struct Checker {
    target: Target,
    settings: Health,
    state: CheckState,
    servers: usize,
}

/// What one check brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The server came up or went down by it.
    pub transition: Option<Transition>,
    pub seen: Seen,
}

impl Checker {
    /// `state` is new, or resumed when the same server was checked before. `servers` counts those whose checks begin
    /// together. A port in the settings holds unless the target has one of its own.
    pub fn new(mut target: Target, settings: Health, state: CheckState, servers: usize) -> Checker {
        target.port = target.port.or(settings.port);
        Checker { target, settings, state, servers }
    }

    /// Checks at once and then at every interval, each check within the timeout and never two at a time. Ends only by
    /// being dropped; a check under way ends with it. `random` is asked once a check.
    pub async fn run(mut self, mut random: impl FnMut() -> u64, mut report: impl FnMut(Report)) -> Infallible {
        let mut due = self.state.first_due(random(), self.servers, now());
        loop {
            sleep_until(Instant::from_std(due)).await;
            let outcome = probe(&self.target, &self.settings.probe, self.settings.timeout).await;
            let transition = self.state.note(&outcome, &self.settings, now());
            due = self.state.next_due(&self.settings, random(), now());
            report(Report { transition, seen: self.state.seen().clone() });
        }
    }
}

/// The runtime's clock, which tests may hold.
fn now() -> std::time::Instant {
    Instant::now().into_std()
}
