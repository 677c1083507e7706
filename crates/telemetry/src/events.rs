//! The log of events: what happens to the process and what goes wrong, never a line per request (that is the access
//! log). Written to standard error by a thread of its own through a bounded queue, so that nobody who logs waits for
//! whoever reads.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tidegate_model::LogLevel;
use tracing::Subscriber;
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
    filter: Filter,
    errors: ErrorCounter,
}

/// Writes what still waits when dropped; it waits at most a second for that.
#[derive(Debug)]
#[must_use = "events are lost once the guard is gone"]
pub struct EventsGuard(#[expect(dead_code, reason = "held for its drop")] WorkerGuard);

/// Begins to write events.
///
/// `Err` when a log of events runs already.
pub fn start(level: LogLevel, form: Form) -> Result<EventsGuard, String> {
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(WAITING_MAX).thread_name("events");
    let (writer, guard) = builder.finish(std::io::stderr());
    let errors = writer.error_counter();
    let (subscriber, filter) = subscriber(level, form, writer);
    subscriber.try_init().map_err(|error| error.to_string())?;
    let _ = RUNNING.set(Running { filter, errors });
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

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text { has_colour: bool },
    Json,
}

impl Form {
    /// Text for people, who sit at a terminal; JSON lines otherwise, or when that `is_wanted`.
    pub fn by(is_wanted: bool, has_colour: bool) -> Form {
        if is_wanted || !std::io::stderr().is_terminal() { Form::Json } else { Form::Text { has_colour } }
    }
}

/// JSON lines whose time is called as in the access log; their formatter has a name of its own for it.
struct TimeNamed<W>(W);

impl<W: io::Write> io::Write for TimeNamed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match bytes.strip_prefix(b"{\"timestamp\":") {
            // In one piece: the writer behind it takes each write as a line.
            Some(rest) => self.0.write_all(&[b"{\"time\":", rest].concat()).map(|()| bytes.len()),
            None => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<'a, M: fmt::MakeWriter<'a>> fmt::MakeWriter<'a> for TimeNamed<M> {
    type Writer = TimeNamed<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        TimeNamed(self.0.make_writer())
    }
}

type Filter = reload::Handle<Targets, Registry>;

fn subscriber<W>(level: LogLevel, form: Form, writer: W) -> (impl Subscriber + Send + Sync, Filter)
where
    W: for<'a> fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(filter_of(level));
    let lines = match form {
        Form::Text { has_colour } => fmt::layer().with_ansi(has_colour).with_writer(writer).with_target(false).boxed(),
        Form::Json => {
            let lines = fmt::layer().json().flatten_event(true).with_current_span(false).with_span_list(false);
            lines.with_writer(TimeNamed(writer)).boxed()
        }
    };
    (tracing_subscriber::registry().with(filter).with(lines), handle)
}

/// Libraries speak from `warn` on, whatever our own level: at `debug`, h2 alone writes several lines for each frame.
/// `trace` is for those who want to see that.
fn filter_of(level: LogLevel) -> Targets {
    let (ours, libraries) = match level {
        LogLevel::Error => (LevelFilter::ERROR, LevelFilter::ERROR),
        // Libraries warn of what a client did wrong; a hostile one could fill the log with that.
        LogLevel::Warn => (LevelFilter::WARN, LevelFilter::ERROR),
        LogLevel::Info => (LevelFilter::INFO, LevelFilter::ERROR),
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

#[cfg(test)]
mod tests {
    use super::{EventGate, Form, dropped, filter_of, set_level, start, subscriber};
    use std::io::Write;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};
    use tidegate_model::LogLevel;
    use tracing::Level;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut self.0.lock().expect("no panic"))).expect("UTF-8")
        }
    }

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn libraries_are_quiet_unless_traced() {
        let check = |level: LogLevel, target: &str, event: &Level, expected: bool| {
            assert_eq!(filter_of(level).would_enable(target, event), expected, "{level:?} {target} {event}");
        };
        check(LogLevel::Info, "tidegate_proxy::request", &Level::INFO, true);
        check(LogLevel::Info, "tidegate_proxy::request", &Level::DEBUG, false);
        check(LogLevel::Debug, "tidegate", &Level::DEBUG, true);
        check(LogLevel::Debug, "h2::proto", &Level::DEBUG, false);
        check(LogLevel::Debug, "rustls", &Level::WARN, true);
        check(LogLevel::Error, "rustls", &Level::WARN, false);
        check(LogLevel::Trace, "h2::proto", &Level::TRACE, true);
    }

    #[test]
    fn an_event_is_one_json_line_whatever_it_holds() {
        let lines = Lines::default();
        let writer = lines.clone();
        let (subscriber, _) = subscriber(LogLevel::Info, Form::Json, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(path = "a\n{\"level\":\"ERROR\"}\x1b[2J", "cannot open");
            tracing::debug!("not shown");
        });
        let text = lines.take();
        assert_eq!(text.lines().count(), 1, "{text}");
        let event: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(event["message"], "cannot open");
        assert_eq!(event["path"], "a\n{\"level\":\"ERROR\"}\x1b[2J");
        assert_eq!(event["level"], "INFO");
        assert!(event["time"].is_string() && event["timestamp"].is_null(), "as the access log calls it: {text}");
    }

    #[test]
    fn the_level_changes_while_running() {
        let lines = Lines::default();
        let writer = lines.clone();
        let (subscriber, filter) = subscriber(LogLevel::Warn, Form::Text { has_colour: false }, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("before");
            filter.reload(filter_of(LogLevel::Info)).expect("the subscriber is there");
            tracing::info!("after");
        });
        let text = lines.take();
        assert!(!text.contains("before") && text.contains("after"), "{text}");
    }

    #[test]
    fn there_is_one_log_of_events() {
        let guard = start(LogLevel::Error, Form::Json).expect("nothing else starts one here");
        assert!(start(LogLevel::Error, Form::Json).is_err());
        set_level(LogLevel::Warn);
        assert!(tracing::enabled!(target: "tidegate", Level::WARN) && !tracing::enabled!(target: "tidegate", Level::INFO));
        assert_eq!(dropped(), 0);
        drop(guard);
    }

    #[test]
    fn a_gate_lets_so_many_through_in_a_second_and_counts_the_others() {
        let gate = EventGate::new(2);
        let start = Instant::now();
        let check = |milliseconds: u64, expected: Option<u64>| {
            assert_eq!(gate.allow(start + Duration::from_millis(milliseconds)), expected, "after {milliseconds} ms");
        };
        check(0, Some(0));
        check(10, Some(0));
        check(20, None);
        check(999, None);
        check(1000, Some(2));
        check(1000, Some(0));
        check(1500, None);
        check(60_000, Some(1));
        check(60_999, Some(0));
    }

    #[test]
    fn a_closed_gate_stays_closed() {
        let gate = EventGate::new(0);
        assert_eq!(gate.allow(Instant::now()), None);
        assert_eq!(gate.allow(Instant::now() + Duration::from_secs(5)), None);
    }
}
