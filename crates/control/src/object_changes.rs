//! What objects of a cluster say, taken on while the process runs. One object that cannot run takes nothing away from
//! the others: what it is part of stays as it was.

use crate::applying::ApplyOptions;
use crate::control::Control;
use crate::generations::Origin;
use crate::held_back::{HeldBack, Unit};
use crate::objects::ObjectStage;
use crate::source::Proposal;
use crate::stopping::{DelayLength, OwnEndpoint, default_delay};
use std::time::{Duration, Instant};
use tidegate_telemetry::ReadinessState;

/// After a change that cost time the next one waits for so many times as long: a storm of events takes a fifth of a
/// core, and a change alone waits for nothing.
const PAUSE_FACTOR: u32 = 4;
const PAUSE_MOST: Duration = Duration::from_millis(500);
/// When what cannot run is tried again although nothing has changed.
const TRY_AGAIN: Duration = Duration::from_secs(10);

impl Control {
    /// Looks at what has changed in the cluster, and takes it on if it is time to.
    pub(crate) fn note_object_changes(&mut self) {
        let now = Instant::now();
        let changes = self.followers.clusters().take_object_changes();
        let Some(objects) = self.objects_mut() else { return };
        objects.note(changes, now);
        if objects.stage() == ObjectStage::Unlisted || objects.stage() == ObjectStage::AwaitsReferences {
            objects.look_at(now);
        }
        if objects.due_at().is_some_and(|at| at <= now) {
            self.take_objects();
        }
    }

    pub(crate) fn take_objects(&mut self) {
        let began = Instant::now();
        let Some(objects) = self.objects_mut() else { return };
        if !objects.take_in(began) {
            return;
        }
        objects.try_again(began);
        let was_served = objects.stage() == ObjectStage::Serves;
        self.adopt_objects();
        let Some(objects) = self.objects_mut() else { return };
        objects.rest_until(Instant::now() + (began.elapsed() * PAUSE_FACTOR).min(PAUSE_MOST));
        if objects.held_back().unfit().next().is_some() || objects.stage() == ObjectStage::Known {
            objects.try_again_at(Instant::now() + TRY_AGAIN);
        }
        if !was_served && objects.stage() == ObjectStage::Serves {
            self.readiness.set(ReadinessState::Ready);
            tracing::info!(sites = self.configuration().sites.len(), "ready: what the objects of the cluster say is served");
            self.say_where_it_listens();
        }
    }

    /// Once a second: how they do, for the log and for metrics.
    pub(crate) fn show_objects(&mut self) {
        if let Some(objects) = self.objects_mut() {
            objects.say();
        }
        let figures = self.objects.as_ref().map(|objects| objects.borrow().figures(Instant::now()));
        self.registry().kubernetes().set(figures);
    }

    /// All that differs at once, and where that cannot run, whatever of it can: half of it and then the other, down to
    /// the sites and pools that are at fault.
    fn adopt_objects(&mut self) {
        if self.apply_objects().is_ok() {
            return;
        }
        let changed = self.objects_mut().map(|objects| objects.held_back().changed()).unwrap_or_default();
        let mut left = halves(changed);
        while let Some(units) = left.pop() {
            self.hold_back(|held_back| held_back.leave_untried(left.iter().flatten().cloned()));
            match (self.apply_objects(), &units[..]) {
                (Ok(()), _) => {}
                (Err(why), [unit]) => {
                    tracing::error!(%unit, why, "what objects of the cluster ask for cannot run; it stays as it was");
                    self.hold_back(|held_back| held_back.note_unfit(unit.clone(), why));
                }
                (Err(_), _) => left.extend(halves(units)),
            }
        }
        self.hold_back(|held_back| held_back.leave_untried([]));
    }

    fn hold_back(&mut self, change: impl FnOnce(&mut HeldBack)) {
        if let Some(objects) = self.objects_mut() {
            change(objects.held_back_mut());
        }
    }

    pub(crate) fn objects_due_at(&self) -> Option<Instant> {
        self.objects.as_ref()?.borrow().due_at()
    }

    /// How long connections are taken after a stop was asked for.
    pub(crate) fn length_of_delay(&self) -> DelayLength {
        match (self.configuration().drain_delay, &self.objects) {
            (Some(length), _) => DelayLength::Fixed(length),
            (None, Some(objects)) => {
                let leaving = objects.borrow().leave_after();
                DelayLength::AfterLeaving { leaving, unseen: DelayLength::UNSEEN.max(leaving) }
            }
            (None, None) => DelayLength::Fixed(default_delay(|name| std::env::var_os(name).is_some())),
        }
    }

    pub(crate) fn own_endpoint(&self) -> OwnEndpoint {
        self.objects.as_ref().map_or(OwnEndpoint::Unseen, |objects| objects.borrow().own_endpoint())
    }

    fn apply_objects(&mut self) -> Result<(), String> {
        let outcome = self.apply(&Proposal::Additions, Origin::Objects, ApplyOptions::default());
        outcome.map(drop).map_err(|fault| fault.to_string())
    }
}

/// Neither is empty; of one unit it is that alone.
fn halves(units: Vec<Unit>) -> Vec<Vec<Unit>> {
    let (first, second) = units.split_at(units.len() / 2);
    [second, first].into_iter().filter(|half| !half.is_empty()).map(<[Unit]>::to_vec).collect()
}
