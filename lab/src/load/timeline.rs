//! When what is measured: warm-up, one or more phases, the end. One thread moves it on, the threads that make load only
//! look. Everything that is counted is counted for the phase that is on at that moment, so all figures of a phase begin
//! and end at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What `now` returns before the first phase.
const WARMING_UP: usize = 0;
const OVER: usize = usize::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now {
    /// Load runs, nothing is counted but failures.
    WarmingUp,
    /// Counted from zero.
    Phase(usize),
    /// Nothing new begins.
    Over,
}

#[derive(Debug, Default)]
pub struct Timeline {
    /// 0 while warming up, then the number of the phase from 1 on.
    state: AtomicUsize,
    /// When the load began.
    began: OnceLock<Instant>,
    /// When the first phase began.
    measured_from: OnceLock<Instant>,
}

impl Timeline {
    pub fn now(&self) -> Now {
        match self.state.load(Ordering::Relaxed) {
            WARMING_UP => Now::WarmingUp,
            OVER => Now::Over,
            number => Now::Phase(number - 1),
        }
    }

    pub fn is_over(&self) -> bool {
        self.now() == Now::Over
    }

    /// The load begins; arrivals are counted from here.
    pub fn begin(&self) {
        self.began.get_or_init(Instant::now);
    }

    /// When the load began; `None` before.
    pub fn began(&self) -> Option<Instant> {
        self.began.get().copied()
    }

    /// Whether what was meant to begin at `intended` belongs to what is measured.
    pub fn measures(&self, intended: Instant) -> bool {
        self.measured_from.get().is_some_and(|from| intended >= *from)
    }

    pub fn next_phase(&self) {
        self.measured_from.get_or_init(Instant::now);
        self.state.fetch_add(1, Ordering::Relaxed);
    }

    pub fn end(&self) {
        self.state.store(OVER, Ordering::Relaxed);
    }
}
