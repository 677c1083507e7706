//! The log of events: what happens to the process and what goes wrong, never a line per request (that is the access log).
//! Written to standard error by a thread of its own through a bounded queue, so that nobody who logs waits for whoever reads.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tidegate_model::LogLevel;
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// Events that may wait for a slow standard error; more are lost and counted.
const WAITING_MAX: usize = 4096;

static RUNNING: OnceLock<Running> = OnceLock::new();

struct Running {
    filter: reload::Handle<Targets, Registry>,
    errors: ErrorCounter,
}

/// Writes what still waits when dropped; it waits at most a second for that.
#[derive(Debug)]
#[must_use = "events are lost once the guard is gone"]
pub struct EventsGuard(#[expect(dead_code, reason = "held for its drop")] WorkerGuard);

/// Begins to write events. Human text when standard error is a terminal, JSON lines otherwise.
///
/// `Err` when a log of events runs already.
pub fn start(level: LogLevel) -> Result<EventsGuard, String> {
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(WAITING_MAX).thread_name("events");
    let (writer, guard) = builder.finish(std::io::stderr());
    let errors = writer.error_counter();
    let (filter, handle) = reload::Layer::new(filter_of(level));
    let format = if std::io::stderr().is_terminal() {
        fmt::layer().with_writer(writer).with_target(false).boxed()
    } else {
        fmt::layer().json().flatten_event(true).with_current_span(false).with_span_list(false).with_writer(writer).boxed()
    };
    tracing_subscriber::registry().with(filter).with(format).try_init().map_err(|error| error.to_string())?;
    let _ = RUNNING.set(Running { filter: handle, errors });
    Ok(EventsGuard(guard))
}

/// Takes effect at once, for every thread. Does nothing before [`start`].
pub fn set_level(level: LogLevel) {
    if let Some(running) = RUNNING.get() {
        // It fails only when the subscriber is gone, and then there is no level to set.
        let _ = running.filter.reload(filter_of(level));
    }
}

/// Events lost because standard error was too slow.
pub fn dropped() -> u64 {
    RUNNING.get().map_or(0, |running| running.errors.dropped_lines() as u64)
}

/// Libraries speak from `warn` on, whatever our own level: at `debug`, h2 alone writes several lines for each frame.
/// `trace` is for those who want to see that.
fn filter_of(level: LogLevel) -> Targets {
    let (ours, libraries) = match level {
        LogLevel::Error => (LevelFilter::ERROR, LevelFilter::ERROR),
        LogLevel::Warn => (LevelFilter::WARN, LevelFilter::WARN),
        LogLevel::Info => (LevelFilter::INFO, LevelFilter::WARN),
        LogLevel::Debug => (LevelFilter::DEBUG, LevelFilter::WARN),
        LogLevel::Trace => (LevelFilter::TRACE, LevelFilter::TRACE),
    };
    Targets::new().with_target("tidegate", ours).with_default(libraries)
}

/// Lets so many events of one kind through in a second, so that a flood of bad clients is not a flood of log lines.
/// One for each kind of event; threads may share it, and then a few more may pass at the turn of a second.
#[derive(Debug)]
pub struct EventGate {
    per_second: u32,
    base: OnceLock<Instant>,
    /// The current second since `base` in the upper half, the events let through in it in the lower.
    window: AtomicU64,
    suppressed: AtomicU64,
}

impl EventGate {
    pub const fn new(per_second: u32) -> EventGate {
        EventGate { per_second, base: OnceLock::new(), window: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// `Some` when the event may be logged, with how many were suppressed since the last that was.
    pub fn allow(&self, now: Instant) -> Option<u64> {
        let second = now.saturating_duration_since(*self.base.get_or_init(|| now)).as_secs() & u64::from(u32::MAX);
        let per_second = u64::from(self.per_second);
        let taken = self.window.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |window| {
            let (window_second, passed) = (window >> 32, window & u64::from(u32::MAX));
            let passed = if window_second == second { passed } else { 0 };
            (passed < per_second).then_some(second << 32 | (passed + 1))
        });
        if taken.is_ok() {
            Some(self.suppressed.swap(0, Ordering::Relaxed))
        } else {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}
