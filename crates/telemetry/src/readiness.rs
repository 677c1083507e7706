//! Whether this process should be sent traffic. Set by the control plane, read by `/readyz` and by the workers.

use std::sync::atomic::{AtomicU8, Ordering};

/// Where the process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadinessState {
    /// Listeners are not all open yet.
    Starting,
    Ready,
    /// A stop was asked for: requests in flight go on, new traffic should go elsewhere.
    Draining,
}

impl ReadinessState {
    pub fn as_str(self) -> &'static str {
        match self {
            ReadinessState::Starting => "starting",
            ReadinessState::Ready => "ready",
            ReadinessState::Draining => "draining",
        }
    }
}

/// The state, shared in an `Arc`.
#[derive(Debug)]
pub struct Readiness(AtomicU8);

impl Readiness {
    pub const fn new() -> Readiness {
        Readiness(AtomicU8::new(ReadinessState::Starting as u8))
    }

    pub fn state(&self) -> ReadinessState {
        // Acquire: whoever sees `Ready` also sees the listeners that were opened before it was set.
        match self.0.load(Ordering::Acquire) {
            state if state == ReadinessState::Ready as u8 => ReadinessState::Ready,
            state if state == ReadinessState::Draining as u8 => ReadinessState::Draining,
            _ => ReadinessState::Starting,
        }
    }

    /// Draining is final: a start that completes while the process is asked to stop does not make it ready again.
    pub fn set(&self, state: ReadinessState) {
        let draining = ReadinessState::Draining as u8;
        let _ = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, |current| (current != draining).then_some(state as u8));
    }

    pub fn is_ready(&self) -> bool {
        self.state() == ReadinessState::Ready
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Readiness::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Readiness, ReadinessState};

    #[test]
    fn draining_is_final() {
        let readiness = Readiness::new();
        assert_eq!(readiness.state(), ReadinessState::Starting);
        assert!(!readiness.is_ready());
        readiness.set(ReadinessState::Ready);
        assert!(readiness.is_ready());
        readiness.set(ReadinessState::Draining);
        readiness.set(ReadinessState::Ready);
        assert_eq!(readiness.state(), ReadinessState::Draining);
        assert_eq!(readiness.state().as_str(), "draining");
    }
}
