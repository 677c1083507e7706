//! All access logs of the process, each with a writer of its own, so that one that is slow holds up no other. They are
//! known by their position: a change of the configuration gives a position another target, or none.

use super::record::AccessRecord;
use super::sender::AccessLogSender;
use super::target::Target;
use super::writer::{AccessLogWriter, Inlet, OpenTarget};
use crate::metrics::{LogWriterMetrics, Registry, WorkerMetrics};
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tidegate_model::{AccessLog, AccessLogFormat, LogConditions, LogTarget};

/// The writing ends.
#[derive(Debug)]
pub struct AccessLogs {
    writers: Vec<AccessLogWriter>,
    metrics: Arc<LogWriterMetrics>,
}

/// What a change needs, opened. Dropped, it changes nothing.
#[derive(Debug)]
pub struct OpenLogs {
    other_targets: Vec<(usize, OpenTarget)>,
    more: Vec<AccessLogWriter>,
}

/// What a worker has to know: the settings of each log, and where its lines are handed in.
#[derive(Debug, Clone)]
pub struct LogPlan(Vec<(AccessLog, Inlet)>);

/// Which log cannot be opened, and why.
pub type LogFault = (LogTarget, io::Error);

impl AccessLogs {
    pub fn start(settings: &[AccessLog], registry: &Registry) -> Result<AccessLogs, LogFault> {
        let mut logs = AccessLogs { writers: Vec::new(), metrics: registry.log_writer() };
        let open = logs.open(&[], settings)?;
        logs.change(open);
        Ok(logs)
    }

    /// Opens what is another one than before.
    pub fn open(&self, before: &[AccessLog], now: &[AccessLog]) -> Result<OpenLogs, LogFault> {
        let (mut other_targets, mut more) = (Vec::new(), Vec::new());
        for position in 0..self.writers.len().max(now.len()) {
            let target = |logs: &[AccessLog]| logs.get(position).map_or(LogTarget::Off, |log| log.target.clone());
            let wanted = target(now);
            let is_there = position < self.writers.len();
            if is_there && target(before) == wanted {
                continue;
            }
            let opened = OpenTarget::open(&wanted).map_err(|error| (wanted.clone(), error))?;
            if is_there {
                other_targets.push((position, opened));
            } else {
                let writer = AccessLogWriter::start(opened.into_target(), Vec::new(), self.metrics.clone());
                more.push(writer.map_err(|error| (wanted, error))?);
            }
        }
        Ok(OpenLogs { other_targets, more })
    }

    /// To be called before the workers take on the plan: a log that was off would else lose their first lines.
    pub fn change(&mut self, open: OpenLogs) {
        for (position, target) in open.other_targets {
            self.writers[position].retarget(target);
        }
        self.writers.extend(open.more);
    }

    /// For [`AccessLogSenders::apply`].
    pub fn plan(&self, settings: &[AccessLog]) -> LogPlan {
        let off = || AccessLog { target: LogTarget::Off, format: AccessLogFormat::Json, when: LogConditions::default() };
        let of =
            |(position, writer): (usize, &AccessLogWriter)| (settings.get(position).cloned().unwrap_or_else(off), writer.inlet());
        LogPlan(self.writers.iter().enumerate().map(of).collect())
    }

    /// Opens files of the same names again: for logrotate, which renames the old ones.
    pub fn reopen(&self) {
        self.writers.iter().for_each(AccessLogWriter::reopen);
    }

    /// Writes what is in the rings and ends the threads; says whether everything was written by `deadline`.
    pub fn finish(self, deadline: Instant) -> bool {
        // Each is asked, also when one before it has no time left.
        self.writers.into_iter().map(|writer| writer.finish(deadline)).fold(true, |all, whole| all & whole)
    }
}

/// A worker's ends of all logs.
#[derive(Debug)]
pub struct AccessLogSenders {
    senders: Vec<AccessLogSender>,
    metrics: Arc<WorkerMetrics>,
}

impl AccessLogSenders {
    pub fn new(registry: &Registry, worker: usize, plan: &LogPlan) -> AccessLogSenders {
        let mut senders = AccessLogSenders { senders: Vec::new(), metrics: registry.worker(worker) };
        senders.apply(plan);
        senders
    }

    /// Takes on the settings of a new configuration.
    pub fn apply(&mut self, plan: &LogPlan) {
        for (position, (settings, inlet)) in plan.0.iter().enumerate() {
            match self.senders.get_mut(position) {
                Some(sender) => sender.apply(settings),
                None => {
                    let ring = inlet.new_ring();
                    self.senders.push(AccessLogSender::new(ring, self.metrics.clone(), settings));
                }
            }
        }
    }

    /// Whether there is any use in making a record.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.senders.iter().any(AccessLogSender::is_on)
    }

    /// Whether a format shows header fields, so that a record needs its lookups.
    pub fn needs_headers(&self) -> bool {
        self.senders.iter().any(|sender| sender.is_on() && sender.needs_headers())
    }

    /// Logs one request, in each log that wants it.
    #[inline]
    pub fn record(&mut self, record: &AccessRecord<'_>) {
        self.senders.iter_mut().for_each(|sender| sender.record(record));
    }
}

impl OpenTarget {
    fn into_target(self) -> Target {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{AccessLogSenders, AccessLogs};
    use crate::access_log::AccessRecord;
    use crate::access_log::tests::plain;
    use crate::metrics::Registry;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};
    use tidegate_model::{
        AccessLog, AccessLogFormat, LogConditions, LogTarget, Placeholder, StatusRange, Template, TemplatePart,
    };

    fn log(path: &Path, when: LogConditions) -> AccessLog {
        let part = TemplatePart::Placeholder(Placeholder::Path);
        let format = AccessLogFormat::Template(Template { parts: vec![part] });
        AccessLog { target: LogTarget::File { path: path.to_owned(), rotation: None }, format, when }
    }

    fn finish(logs: AccessLogs) {
        assert!(logs.finish(Instant::now() + Duration::from_secs(20)));
    }

    fn lines(path: &Path) -> Vec<String> {
        std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_log_has_the_requests_that_it_wants() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| -> PathBuf { folder.path().join(name) };
        let errors = StatusRange { first: 500, last: 599 };
        let settings = [
            log(&path("all"), LogConditions::default()),
            log(&path("errors"), LogConditions { statuses: vec![errors], ..LogConditions::default() }),
            log(&path("slow"), LogConditions { slower_than: Some(Duration::from_secs(1)), ..LogConditions::default() }),
            log(&path("shop"), LogConditions { sites: vec!["https://shop.example".into()], ..LogConditions::default() }),
        ];
        let registry = Registry::new("test");
        let logs = AccessLogs::start(&settings, &registry).expect("files");
        let mut senders = AccessLogSenders::new(&registry, 0, &logs.plan(&settings));
        assert!(senders.is_on());
        senders.record(&AccessRecord { path: b"/fine", ..plain() });
        senders.record(&AccessRecord { path: b"/bad", status: Some(502), ..plain() });
        senders.record(&AccessRecord { path: b"/slow", duration_us: 1_000_000, ..plain() });
        senders.record(&AccessRecord { path: b"/shop", site: "https://shop.example", ..plain() });
        senders.record(&AccessRecord { path: b"/passed", status: None, ..plain() });
        finish(logs);
        assert_eq!(lines(&path("all")), ["/fine", "/bad", "/slow", "/shop", "/passed"]);
        assert_eq!(lines(&path("errors")), ["/bad"]);
        assert_eq!(lines(&path("slow")), ["/slow"]);
        assert_eq!(lines(&path("shop")), ["/shop"]);
    }

    #[test]
    fn logs_come_and_go_while_running() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| -> PathBuf { folder.path().join(name) };
        let (first, second) = (log(&path("first"), LogConditions::default()), log(&path("second"), LogConditions::default()));
        let registry = Registry::new("test");
        let mut logs = AccessLogs::start(&[], &registry).expect("nothing to open");
        let mut senders = AccessLogSenders::new(&registry, 0, &logs.plan(&[]));
        assert!(!senders.is_on());
        let mut before: Vec<AccessLog> = Vec::new();
        let changes: [&[AccessLog]; 4] =
            [std::slice::from_ref(&first), &[first.clone(), second.clone()], std::slice::from_ref(&second), &[]];
        for (number, now) in changes.into_iter().enumerate() {
            let open = logs.open(&before, now).expect("files");
            logs.change(open);
            senders.apply(&logs.plan(now));
            senders.record(&AccessRecord { path: number.to_string().as_bytes(), ..plain() });
            before = now.to_vec();
        }
        assert!(!senders.is_on());
        let refused = logs.open(&before, &[log(&path("none/x"), LogConditions::default())]);
        assert!(refused.is_err(), "a folder that does not exist is told at once");
        finish(logs);
        // A line that is in a ring when its log moves may go to either place.
        let mut all = [lines(&path("first")), lines(&path("second"))].concat();
        all.sort();
        assert_eq!(all, ["0", "1", "1", "2"]);
    }
}
