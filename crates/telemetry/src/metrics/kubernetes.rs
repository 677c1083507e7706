//! How the objects of a cluster do that say what is served. Written by the control thread, once a second and with each
//! change of them.

use super::histogram::{Histogram, HistogramTotals};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is known of the objects.
#[derive(Debug, Default)]
pub struct KubernetesMetrics {
    /// `None`: no objects say what is served.
    figures: Mutex<Option<KubernetesFigures>>,
    /// From when a change of objects came from the API server until workers have what comes of it. **Single writer**.
    published: Histogram,
}

/// One look at the objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KubernetesFigures {
    /// By kind, each kind that is followed.
    pub objects: Vec<(&'static str, usize)>,
    /// By kind: how long nothing was heard of it, in seconds. A watch that lives is heard of every minute or so.
    pub silence_seconds: Vec<(&'static str, f64)>,
    /// By code: what is wrong with objects.
    pub findings: BTreeMap<&'static str, usize>,
    /// Sites and pools that are served as they were, since what they are to be cannot run.
    pub kept_last_good: usize,
    /// What is written into the cluster. `None`: nothing is to be.
    pub writing: Option<WritingFigures>,
}

/// Statuses and Events that one of several processes writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WritingFigures {
    /// Whether this process is the one.
    pub is_leader: bool,
    pub statuses_written: u64,
    pub statuses_pending: usize,
    pub events_written: u64,
    /// Secrets with certificates that were obtained.
    pub secrets_written: u64,
    /// Writes that failed.
    pub faults: u64,
}

impl KubernetesMetrics {
    /// What objects say was given to workers, that long after the first of it came.
    pub fn note_published(&self, lag: Duration) {
        self.published.record(lag);
    }

    pub(super) fn published(&self) -> HistogramTotals {
        let mut totals = HistogramTotals::default();
        totals.add(&self.published);
        totals
    }

    pub fn set(&self, figures: Option<KubernetesFigures>) {
        *self.figures() = figures;
    }

    pub(super) fn get(&self) -> Option<KubernetesFigures> {
        self.figures().clone()
    }

    fn figures(&self) -> MutexGuard<'_, Option<KubernetesFigures>> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
