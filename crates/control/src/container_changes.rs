//! What an engine tells of its containers, taken on while the process runs: a change of the configuration where routes
//! differ, and news of servers where only those do.

use crate::applying::ApplyOptions;
use crate::control::Control;
use crate::generations::Origin;
use crate::source::Proposal;
use std::time::{Duration, Instant};

/// After a change that cost time the next one waits for so many times as long, so that a storm of events takes a
/// twentieth of a core.
const PAUSE_FACTOR: u32 = 20;
const PAUSE_MOST: Duration = Duration::from_secs(1);
/// The follower of the engine waits so long for what comes together.
const WAITED_ALREADY: Duration = Duration::from_millis(50);
/// When what was told and could not run is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

impl Control {
    pub(crate) fn take_containers(&mut self) {
        let mut is_changed = false;
        for told in self.containers.take_told() {
            is_changed |= self.containers.take_in(told);
        }
        if is_changed {
            self.read_labels_again();
        }
    }

    /// Once a second: whether what could not run is to be tried again.
    pub(crate) fn look_at_containers(&mut self) {
        if self.containers.is_time_to_try_again() {
            self.read_labels_again();
        }
        self.containers.show(self.process.registry.configuration());
    }

    fn read_labels_again(&mut self) {
        if self.configuration().containers.is_none() {
            return;
        }
        let began = Instant::now();
        let outcome = self.apply(&Proposal::Additions, Origin::Containers, ApplyOptions::default());
        let unfit = outcome.err().map(|fault| format!("what the labels say does not run: {fault}"));
        let try_again_at = unfit.as_ref().map(|_| Instant::now() + TRY_AGAIN);
        let pause = (began.elapsed() * PAUSE_FACTOR).min(PAUSE_MOST).saturating_sub(WAITED_ALREADY);
        self.containers.note_outcome(unfit, try_again_at, Instant::now() + pause);
    }
}
