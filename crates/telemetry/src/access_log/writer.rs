//! The thread that takes the lines out of the workers' rings and writes them, many at a time.
//! Nobody wakes it for a line: it looks every [`IDLE_SLEEP`], which costs nothing measurable and keeps workers free of
//! system calls.

use super::target::Target;
use super::{LINE_BYTES_MAX, RING_BYTES};
use crate::metrics::LogWriterMetrics;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use tidegate_model::LogTarget;

/// How long a line may wait when there was nothing to do before it.
const IDLE_SLEEP: Duration = Duration::from_millis(20);
/// What one write may hold. Larger ones are no faster.
const BATCH_BYTES: usize = 256 << 10;
/// What a log that is switched off may take for its last lines.
const SWITCH_OFF_PATIENCE: Duration = Duration::from_secs(1);
/// A target that cannot be written to is reported this often.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);

const LOST: &str = "lines of the access log were lost, since it could not be written";

const _: () = assert!(LINE_BYTES_MAX <= BATCH_BYTES, "each line fits into a batch");

/// Handle of the writer thread. Dropping it, and what was made of it, lets the thread write what is there and end.
pub(super) struct AccessLogWriter {
    commands: Sender<Command>,
}

/// A target that could be opened, for [`AccessLogWriter::retarget`]. Dropped, it changes nothing.
#[derive(Debug)]
pub(super) struct OpenTarget(pub(super) Target);

impl OpenTarget {
    pub fn open(target: &LogTarget) -> io::Result<OpenTarget> {
        Target::open(target).map(OpenTarget)
    }
}

#[derive(Debug)]
pub(super) enum Command {
    Reopen,
    Retarget(Target),
    Add(rtrb::Consumer<u8>),
    Finish { deadline: Instant, done: Sender<bool> },
}

impl AccessLogWriter {
    pub(super) fn start(
        target: Target,
        rings: Vec<rtrb::Consumer<u8>>,
        metrics: Arc<LogWriterMetrics>,
    ) -> io::Result<AccessLogWriter> {
        let (commands, receiver) = channel();
        let rings = Rings { rings, first: 0 };
        let mut output = Output::new(target, metrics);
        std::thread::Builder::new().name("access-log".into()).spawn(move || output.run(rings, &receiver))?;
        Ok(AccessLogWriter { commands })
    }

    /// Opens the file of the same name again: for logrotate, which renames the old one. Returns at once; what goes
    /// wrong is logged, and the old file stays in use.
    pub fn reopen(&self) {
        // The thread ends only after this handle, so somebody listens.
        let _ = self.commands.send(Command::Reopen);
    }

    /// Writes everything from now on to another target. The lines that are in the rings may still go to the old one. To
    /// be called before the workers [`apply`](super::AccessLogSenders::apply) the same settings: a log that was off
    /// would else lose their first lines.
    pub fn retarget(&self, target: OpenTarget) {
        let _ = self.commands.send(Command::Retarget(target.0));
    }

    /// Where workers hand in their lines.
    pub fn inlet(&self) -> Inlet {
        Inlet(self.commands.clone())
    }

    /// Writes what is in the rings and ends the thread; says whether everything was written by `deadline`.
    /// To be called when the workers have stopped.
    pub fn finish(self, deadline: Instant) -> bool {
        let (done, finished) = channel();
        let _ = self.commands.send(Command::Finish { deadline, done });
        // The thread may hang in a write to a pipe that nobody reads. It is left behind then.
        finished.recv_timeout(deadline.saturating_duration_since(Instant::now())).unwrap_or(false)
    }
}

impl fmt::Debug for AccessLogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLogWriter").finish_non_exhaustive()
    }
}

/// Gives rings to workers.
#[derive(Debug, Clone)]
pub(super) struct Inlet(Sender<Command>);

impl Inlet {
    /// A worker's end of a new ring, which is left out again when the worker has ended and its last line is written.
    /// Not touched, and so not in RAM, until there are lines.
    pub fn new_ring(&self) -> rtrb::Producer<u8> {
        let (producer, consumer) = rtrb::RingBuffer::new(RING_BYTES);
        // Without a writer nobody reads it, and its lines are dropped and counted once it is full.
        let _ = self.0.send(Command::Add(consumer));
        producer
    }
}

/// The reading ends, by worker.
struct Rings {
    rings: Vec<rtrb::Consumer<u8>>,
    /// Whose turn is first, so that a busy worker does not always come before the others.
    first: usize,
}

impl Rings {
    /// Moves whole lines of all rings into the batch, as far as they fit.
    fn drain_into(&mut self, batch: &mut Vec<u8>) {
        let count = self.rings.len();
        for turn in 0..count {
            drain_ring(&mut self.rings[(self.first + turn) % count], batch);
        }
        self.first = (self.first + 1) % count.max(1);
    }
}

/// A ring holds whole lines at every moment, because a worker makes a line visible at once. So only a full batch can
/// cut one.
fn drain_ring(ring: &mut rtrb::Consumer<u8>, batch: &mut Vec<u8>) {
    let available = ring.slots();
    let wanted = available.min(BATCH_BYTES.saturating_sub(batch.len()));
    let Ok(chunk) = ring.read_chunk(wanted) else { return };
    let (first, second) = chunk.as_slices();
    let start = batch.len();
    batch.extend_from_slice(first);
    batch.extend_from_slice(second);
    if wanted < available {
        let end = memchr::memrchr(b'\n', &batch[start..]).map_or(start, |end| start + end + 1);
        batch.truncate(end);
    }
    chunk.commit(batch.len() - start);
}

/// What a step came to.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Wrote,
    /// The rings are empty.
    Idle,
    /// A target that does not block takes no more for the moment.
    Blocked,
}

/// The writing end: a batch, and how far it is written.
struct Output {
    target: Target,
    batch: Vec<u8>,
    written: usize,
    /// The target's last byte ended a line. Not so after a write that failed half way; the next line then starts on a
    /// new one.
    at_line_start: bool,
    metrics: Arc<LogWriterMetrics>,
    losses: Losses,
}

/// What of the lines that this target has lost was not said yet. The figures count those of all logs, since the start.
#[derive(Debug, Default)]
struct Losses {
    untold: u64,
    told: Option<Instant>,
}

impl Losses {
    /// How many there are to tell of; `None` when something was told a moment ago.
    fn due(&mut self, now: Instant) -> Option<u64> {
        if self.told.is_some_and(|told| now.saturating_duration_since(told) < COMPLAINT_INTERVAL) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

impl Output {
    fn new(target: Target, metrics: Arc<LogWriterMetrics>) -> Output {
        Output { target, batch: Vec::new(), written: 0, at_line_start: true, metrics, losses: Losses::default() }
    }

    fn run(&mut self, mut rings: Rings, commands: &Receiver<Command>) {
        loop {
            let command = match self.step(&mut rings) {
                Progress::Wrote => commands.recv_timeout(Duration::ZERO),
                // Switched off, it sleeps until it is told otherwise.
                Progress::Idle if matches!(self.target, Target::Off) => {
                    commands.recv().map_err(|_| RecvTimeoutError::Disconnected)
                }
                Progress::Idle | Progress::Blocked => commands.recv_timeout(IDLE_SLEEP),
            };
            match command {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Command::Reopen) => {
                    let reopened = self.target.reopen();
                    self.check("the access log cannot be opened again", reopened);
                }
                Ok(Command::Retarget(target)) => self.retarget(target, &mut rings),
                Ok(Command::Add(ring)) => {
                    rings.rings.retain(|ring| !ring.is_abandoned() || !ring.is_empty());
                    rings.rings.push(ring);
                }
                Ok(Command::Finish { deadline, done }) => {
                    let is_written = self.drain(&mut rings, deadline);
                    self.tell_last_losses();
                    let _ = done.send(is_written);
                    return;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.drain(&mut rings, Instant::now() + COMPLAINT_INTERVAL);
                    self.tell_last_losses();
                    return;
                }
            }
        }
    }

    /// Takes lines and makes one write. Without a target the rings are left alone: when a log is switched on, its first
    /// lines may be there before the command is.
    fn step(&mut self, rings: &mut Rings) -> Progress {
        if matches!(self.target, Target::Off) {
            return Progress::Idle;
        }
        if self.batch.is_empty() {
            if !self.at_line_start {
                self.batch.push(b'\n');
            }
            let empty = self.batch.len();
            rings.drain_into(&mut self.batch);
            if self.batch.len() == empty {
                self.batch.clear();
                return Progress::Idle;
            }
        }
        self.write()
    }

    fn write(&mut self) -> Progress {
        let rest = &self.batch[self.written..];
        let (portion, rotated) = self.target.prepare(rest, self.at_line_start);
        let result = self.target.write(&rest[..portion]);
        self.check("the access log cannot be rotated", rotated);
        match result {
            Ok(0) => self.lose("the access log cannot be written", io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                self.written += count;
                self.at_line_start = self.batch[self.written - 1] == b'\n';
                if self.written == self.batch.len() {
                    self.clear();
                }
                self.tell_losses(Instant::now());
                Progress::Wrote
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Progress::Wrote,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Progress::Blocked,
            Err(error) => self.lose("the access log cannot be written", error),
        }
    }

    /// Gives up the batch: what is broken now may be whole again for the next one (a full disk, a log collector that
    /// restarts).
    fn lose(&mut self, what: &str, error: io::Error) -> Progress {
        let rest = &self.batch[self.written..];
        let begun_before = usize::from(!self.at_line_start && self.written == 0 && rest.first() == Some(&b'\n'));
        let lines = memchr::memchr_iter(b'\n', rest).count() - begun_before;
        self.metrics.add_write_failed(lines as u64);
        self.losses.untold += lines as u64;
        self.clear();
        self.check(what, Err(error));
        Progress::Blocked
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.written = 0;
    }

    fn retarget(&mut self, target: Target, rings: &mut Rings) {
        if matches!(target, Target::Off) {
            // Nobody would write them later.
            self.drain(rings, Instant::now() + SWITCH_OFF_PATIENCE);
        }
        // A batch that is half written belongs to the old target.
        while !self.batch.is_empty() && self.write() == Progress::Wrote {}
        if !self.batch.is_empty() {
            self.lose("the access log's old target took not everything", io::ErrorKind::WouldBlock.into());
        }
        self.target = target;
        self.at_line_start = true;
    }

    /// Says whether all lines were written in time.
    fn drain(&mut self, rings: &mut Rings, deadline: Instant) -> bool {
        loop {
            match self.step(rings) {
                Progress::Idle => return true,
                Progress::Wrote => {}
                Progress::Blocked => std::thread::sleep(IDLE_SLEEP),
            }
            if Instant::now() >= deadline {
                return false;
            }
        }
    }

    fn check(&mut self, what: &str, result: io::Result<()>) {
        let Err(error) = result else { return };
        if let Some(lines_lost) = self.losses.due(Instant::now()) {
            let help = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "make room on its disk, or have less kept: `rotate` and `keep`"
                }
                _ => "these lines are gone; it is tried again for the next",
            };
            tracing::error!(log = %self.target, %error, lines_lost, help, "{what}");
        }
    }

    /// Says how many were lost behind those that were told of, once lines are written again.
    fn tell_losses(&mut self, now: Instant) {
        if self.losses.untold > 0
            && let Some(lines_lost) = self.losses.due(now)
        {
            tracing::error!(log = %self.target, lines_lost, "{LOST}");
        }
    }

    /// Nobody counts them later.
    fn tell_last_losses(&mut self) {
        self.losses.told = None;
        self.tell_losses(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH_BYTES, COMPLAINT_INTERVAL, Losses, Output, Progress, Rings, drain_ring};
    use crate::access_log::target::Target;
    use crate::metrics::LogWriterMetrics;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Instant;
    use tidegate_model::LogTarget;

    fn open(path: &Path) -> Target {
        Target::open(&LogTarget::File { path: path.to_owned(), rotation: None }).expect("a target that can be opened")
    }

    fn rings(capacity: usize, contents: &[&[u8]]) -> Rings {
        let ring = |lines: &&[u8]| {
            let (mut producer, consumer) = rtrb::RingBuffer::new(capacity);
            producer.push_entire_slice(lines).expect("room for the lines");
            consumer
        };
        Rings { rings: contents.iter().map(ring).collect(), first: 0 }
    }

    #[test]
    fn a_batch_ends_with_a_line_whatever_is_in_the_rings() {
        let line = [[b'x'; 99].as_slice(), b"\n"].concat();
        let many = line.repeat(BATCH_BYTES / 100 - 1);
        let mut rings = rings(BATCH_BYTES, &[&many, &many]);
        let mut batch = Vec::new();
        drain_ring(&mut rings.rings[0], &mut batch);
        assert_eq!(batch, many);
        drain_ring(&mut rings.rings[1], &mut batch);
        assert_eq!(batch.len(), BATCH_BYTES / 100 * 100, "one more line fits, and not half of another");
        batch.clear();
        drain_ring(&mut rings.rings[1], &mut batch);
        assert_eq!(batch.len(), many.len() - 100, "the rest is still there");
    }

    #[test]
    fn busy_rings_take_turns() {
        let full = vec![b'\n'; BATCH_BYTES];
        let mut rings = rings(BATCH_BYTES, &[&full, b"second\n"]);
        let mut batch = Vec::new();
        rings.drain_into(&mut batch);
        assert_eq!(batch, full);
        batch.clear();
        rings.drain_into(&mut batch);
        assert_eq!(batch, b"second\n");
    }

    #[test]
    fn a_line_torn_by_an_error_is_ended_before_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("access.log");
        let metrics = Arc::new(LogWriterMetrics::default());
        let mut output = Output::new(open(&path), metrics.clone());
        output.batch.extend_from_slice(b"torn");
        assert_eq!(output.write(), Progress::Wrote);
        // The disk is full half way through the line, and still when the next comes.
        output.batch.extend_from_slice(b" line\n");
        let file = std::mem::replace(&mut output.target, open(Path::new("/dev/full")));
        assert_eq!(output.write(), Progress::Blocked);
        assert_eq!(metrics.write_failed(), 1);
        assert_eq!(output.step(&mut rings(100, &[b"second\nthird\n"])), Progress::Blocked);
        assert_eq!(metrics.write_failed(), 3);
        output.target = file;
        let mut last = rings(100, &[b"fourth\n"]);
        assert_eq!(output.step(&mut last), Progress::Wrote);
        assert_eq!(output.step(&mut last), Progress::Idle);
        assert_eq!(std::fs::read_to_string(&path).expect("the log"), "torn\nfourth\n");
        assert_eq!(metrics.write_failed(), 3);
    }

    #[test]
    fn each_lost_line_is_told_once_and_of_its_own_log() {
        let begin = Instant::now();
        let mut losses = Losses { untold: 3, told: None };
        assert_eq!(losses.due(begin), Some(3));
        losses.untold += 4;
        assert_eq!(losses.due(begin + COMPLAINT_INTERVAL / 2), None);
        losses.untold += 5;
        assert_eq!(losses.due(begin + COMPLAINT_INTERVAL), Some(9));
        assert_eq!(losses.due(begin + COMPLAINT_INTERVAL * 2), Some(0));
        // Figures are those of all logs.
        let metrics = Arc::new(LogWriterMetrics::default());
        metrics.add_write_failed(100);
        let mut output = Output::new(open(Path::new("/dev/full")), metrics.clone());
        output.losses.told = Some(Instant::now());
        assert_eq!(output.step(&mut rings(100, &[b"first\nsecond\n"])), Progress::Blocked);
        assert_eq!((output.losses.untold, metrics.write_failed()), (2, 102));
        // What was not told while it could not be written is told when it can.
        output.losses.told = None;
        output.target = Target::Off;
        output.batch.extend_from_slice(b"third\n");
        assert_eq!(output.write(), Progress::Wrote);
        assert_eq!((output.losses.untold, metrics.write_failed()), (0, 102));
    }
}
