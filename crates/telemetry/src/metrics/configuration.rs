//! What became of the configuration while the process runs. Written by the control thread.

use super::number::SharedNumber;
use strum::{IntoStaticStr, VariantArray};
use tidegate_model::ContainerStage;

/// How a change ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ChangeResult {
    Applied,
    /// The change said what the running configuration says.
    Unchanged,
    /// The running configuration stays as it was.
    Refused,
    /// The change was taken back: nobody confirmed it, or it did harm.
    RolledBack,
}

impl ChangeResult {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Any thread may write.
#[derive(Debug, Default)]
pub struct ConfigurationMetrics {
    pub(super) generation: SharedNumber,
    pub(super) applied_unix_seconds: SharedNumber,
    /// In the order of [`ChangeResult`].
    pub(super) results: [SharedNumber; ChangeResult::VARIANTS.len()],
    pub(super) is_refused: SharedNumber,
    pub(super) is_drifted: SharedNumber,
    pub(super) workers: SharedNumber,
    /// Whether containers are asked what they serve; the numbers below mean nothing otherwise.
    pub(super) asks_containers: SharedNumber,
    /// In the order of [`ContainerStage::ALL`].
    pub(super) containers: [SharedNumber; ContainerStage::ALL.len()],
    pub(super) label_faults: SharedNumber,
}

impl ConfigurationMetrics {
    pub fn note(&self, result: ChangeResult) {
        self.results[result as usize].add(1);
    }

    /// Whether what is written where the process was started from was tried, and does not run.
    pub fn set_refused(&self, refused: bool) {
        self.is_refused.set(refused.into());
    }

    pub fn set_generation(&self, generation: u64, applied_unix_seconds: i64) {
        self.generation.set(generation as i64);
        self.applied_unix_seconds.set(applied_unix_seconds);
    }

    /// Whether the running configuration is another one than a restart would bring.
    pub fn set_drifted(&self, drifted: bool) {
        self.is_drifted.set(drifted.into());
    }

    /// Containers with labels that are read, by how they are, and what is wrong with labels. `None`: nobody asks.
    pub fn set_containers(&self, seen: Option<(&[usize; ContainerStage::ALL.len()], usize)>) {
        self.asks_containers.set(seen.is_some().into());
        if let Some((counts, faults)) = seen {
            for (number, count) in self.containers.iter().zip(counts) {
                number.set(*count as i64);
            }
            self.label_faults.set(faults as i64);
        }
    }

    pub fn set_workers(&self, workers: usize) {
        self.workers.set(workers as i64);
    }
}
