//! Leads a run: finds the peers, sets the stage, runs one experiment after the other, writes the report even when it is
//! interrupted. Also what every experiment needs: starting a participant, putting a load on it, noting what went wrong
//! and going on.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tidegate_local_cluster::network::is_inside_with;
use tidegate_transport::Driver;

use crate::experiments::Experiment;
use crate::experiments::options::{RunOptions, Size};
use crate::experiments::progress::Progress;
use crate::experiments::round;
use crate::load::PhaseReport;
use crate::net::Error;
use crate::peers::{PeerKind, Program, Search, Setup, missing_module};
use crate::procfs;
use crate::report;
use crate::results::{ExperimentRecord, FORMAT, Flavour, PeerRecord, PeerState, Report};
use crate::stage::interrupt::{Interrupt, Interrupted};
use crate::stage::running::{Participant, Running};
use crate::stage::{Stage, StageOptions, cores, read_report};

/// The largest experiments hold some ten thousand connections, and a proxy needs two descriptors for each.
const OPEN_FILES_WANTED: u64 = 65_536;
/// Below this even the small experiments fail.
const OPEN_FILES_MIN: u64 = 4_096;
/// How often a running load is looked at, and Ctrl-C noticed.
const LOOK: Duration = Duration::from_millis(20);

pub struct Session<'a> {
    pub options: &'a RunOptions,
    pub stage: Stage,
    pub programs: Vec<Program>,
    pub open_files: u64,
    pub progress: Progress,
    /// When the rounds of grids are to be over, in an experiment that has an end: a slow machine then has fewer of
    /// them.
    pub rounds_end_by: Option<Instant>,
    interrupt: Interrupt,
}

/// Why a load brought nothing.
pub enum Failed {
    Interrupted(Interrupted),
    /// In words for the report.
    Because(String),
}

impl From<Interrupted> for Failed {
    fn from(interrupted: Interrupted) -> Failed {
        Failed::Interrupted(interrupted)
    }
}

pub fn run(options: &RunOptions) -> Result<(), Error> {
    // Pods need a network that is nobody else's, and everything in it ends with this process.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if options.experiments().contains(&Experiment::Kubernetes) && !is_inside_with(&arguments)? {
        return Ok(());
    }
    let interrupt = Interrupt::watch()?;
    let _alone = run_alone()?;
    let open_files = raise_open_files()?;
    let started = Instant::now();
    let (records, programs) = find_peers(options)?;
    if programs.is_empty() {
        return Err("there is no proxy to measure; `tidegate-lab peers` says how to get them".into());
    }
    let cores = cores::assign(&cores::allowed()?, &options.cores.clone().unwrap_or_default())?;
    let mut report = empty_report(options, records, open_files);
    report.cores = cores.clone();
    report.warnings.extend(cores::warnings(&cores));
    // Found whether or not it is among the peers of this run.
    let nginx = match options.whereabouts.find(PeerKind::Nginx) {
        Search::Found(program) => Some(program.path),
        Search::Absent { .. } | Search::Broken { .. } | Search::Forbidden { .. } => None,
    };
    let stage = Stage::set_up(StageOptions {
        cores,
        backend: options.backend,
        nginx: nginx.as_deref(),
        cgroup: options.cgroup.as_deref(),
        templates: options.templates.clone(),
    })?;
    if let Some(cgroup) = stage.cgroup() {
        report.warnings.push(format!("The proxies ran in a control group of their own: {}.", cgroup.describe()));
    }
    let progress = Progress::new(0.0);
    let mut session = Session { options, stage, programs, open_files, progress, rounds_end_by: None, interrupt };
    let folder = output_folder(options, &report)?;
    if options.update {
        let earlier = Report::read(&folder.join("report.json"))?;
        report.take_over(earlier).map_err(|reason| format!("{}: {reason}", folder.display()))?;
    }
    let outcome = run_experiments(&mut session, &mut report, &folder, started);
    session.progress.end();
    if outcome.is_err() {
        report.warnings.insert(0, "The run was interrupted: what is missing was not measured.".to_owned());
    }
    report.seconds = started.elapsed().as_secs_f64();
    drop(session);
    // Shown first: should the folder have become unwritable meanwhile, the figures are not lost.
    println!("{}", report::markdown(&report));
    report::write(&folder, &report)?;
    eprintln!("kept in {}", folder.display());
    outcome.map_err(|Interrupted| "interrupted; the report has what was measured until then".into())
}

fn run_experiments(session: &mut Session, report: &mut Report, folder: &Path, started: Instant) -> Result<(), Interrupted> {
    let experiments = session.options.experiments();
    let estimates: Vec<f64> = experiments.iter().map(|experiment| experiment.seconds(session)).collect();
    session.progress = Progress::new(estimates.iter().sum());
    for (experiment, seconds) in experiments.into_iter().zip(estimates) {
        session.progress.begin(experiment.name(), seconds);
        let mut record = empty_record(experiment, report);
        let began = Instant::now();
        let outcome = experiment.run(session, &mut record);
        record.seconds = began.elapsed().as_secs_f64();
        if let Some(disturbance) = round::disturbance(&record.cells) {
            session.remark(&mut record, disturbance);
        }
        if outcome.is_err() {
            record.remarks.insert(0, "Interrupted: the rest of this experiment was not measured.".to_owned());
        }
        report.experiments.retain(|earlier| earlier.name != record.name);
        report.experiments.push(record);
        report.experiments.sort_by_key(|record| Experiment::ALL.iter().position(|experiment| experiment.name() == record.name));
        report.seconds = started.elapsed().as_secs_f64();
        outcome?;
        // Kept after each experiment: should the machine go down, what was measured is there.
        if let Err(error) = report::write(folder, report) {
            session.progress.say(&format!("{}: {error}", folder.display()));
        }
    }
    report.complete = true;
    Ok(())
}

impl Session<'_> {
    pub fn check(&self) -> Result<(), Interrupted> {
        self.interrupt.check()
    }

    pub fn peers(&self) -> usize {
        self.programs.len()
    }

    /// One column for each build, for what a driver has no part in.
    pub fn builds(&self) -> Vec<Program> {
        let mut builds: Vec<Program> = Vec::new();
        for program in &self.programs {
            if !builds.iter().any(|other| (other.kind, &other.path) == (program.kind, &program.path)) {
                builds.push(program.clone());
            }
        }
        builds
    }

    /// Of those that are measured, each once; epoll's always.
    pub fn drivers(&self) -> Vec<Driver> {
        let has_ring = self.programs.iter().any(|program| program.driver == Some(Driver::IoUring));
        [Driver::Epoll].into_iter().chain(has_ring.then_some(Driver::IoUring)).collect()
    }

    /// Worker threads of an equalised proxy.
    pub fn threads(&self) -> usize {
        self.options.threads.map_or(self.stage.cores().proxy.len(), NonZeroUsize::get)
    }

    /// The rates of E1.
    pub fn rates(&self) -> Vec<u32> {
        self.options.rates(Size::of(self.stage.cores().proxy.len()))
    }

    pub fn rate_time(&self) -> Duration {
        self.options.rate_time(Size::of(self.stage.cores().proxy.len()))
    }

    pub fn generator_threads(&self) -> usize {
        self.stage.cores_of_generator().len()
    }

    /// Rests for so long, unless the user wants the run to end.
    pub fn pause(&self, time: Duration) -> Result<(), Interrupted> {
        let until = Instant::now() + time;
        loop {
            self.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// All peers with this setup, as far as they start; who does not is noted, and the others go on.
    pub fn start_peers(
        &mut self,
        record: &mut ExperimentRecord,
        setup: impl Fn(PeerKind) -> Result<Setup, String>,
    ) -> Result<Vec<Running>, Interrupted> {
        let mut running = Vec::new();
        for program in self.programs.clone() {
            self.check()?;
            match setup(program.kind) {
                Ok(setup) => running.extend(self.start(record, Participant::Peer { program, setup })),
                Err(reason) => record.remarks.push(format!("{}: {reason}.", program.name)),
            }
        }
        Ok(running)
    }

    /// `None` when it does not start; the report says why.
    pub fn start(&mut self, record: &mut ExperimentRecord, participant: Participant) -> Option<Running> {
        let name = participant.name();
        let kind = match &participant {
            Participant::Peer { program, .. } => Some(program.kind),
            Participant::Relay(_) | Participant::Backend => None,
        };
        self.progress.spend(0.5, &format!("starting {name}"));
        match Running::start(&self.stage, participant) {
            Ok(running) => {
                note_configuration(record, &running);
                Some(running)
            }
            Err(error) => {
                let error = error.to_string();
                let lacks = kind.and_then(|kind| missing_module(kind, &error)).map(|sentence| format!("{sentence}. It said: "));
                self.remark(record, format!("{name} did not start: {}{error}", lacks.unwrap_or_default()));
                None
            }
        }
    }

    /// A load with its time, on a participant that is alive.
    pub fn load(&mut self, running: &mut Running, arguments: &[String], seconds: f64, what: &str) -> Result<PhaseReport, Failed> {
        self.check()?;
        self.progress.spend(seconds, &format!("{}: {what}", running.name()));
        if let Err(ended) = running.check_alive() {
            // It ended while nobody looked. This case is told so; the next one finds it started again.
            let again = running.start_again(&self.stage).err().map(|error| format!("; it did not start again: {error}"));
            return Err(Failed::Because(format!("{ended}{}", again.unwrap_or_default())));
        }
        let outcome = self.load_until_interrupted(running, arguments);
        self.check()?;
        if let Err(error) = running.check_alive().and_then(|()| self.stage.check_backend()) {
            return Err(Failed::Because(error.to_string()));
        }
        outcome.map_err(|error| Failed::Because(error.to_string()))
    }

    fn load_until_interrupted(&self, running: &Running, arguments: &[String]) -> Result<PhaseReport, Error> {
        let mut command = self.stage.generator("load", running, arguments)?;
        command.args(self.stage.observe(running)?).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        // What it prints fits into a pipe, so nobody has to read meanwhile.
        while child.try_wait()?.is_none() {
            if self.check().is_err() {
                child.kill()?;
            }
            std::thread::sleep(LOOK);
        }
        let report = read_report(child.wait_with_output()?)?;
        if !report.warmup_failures.is_empty() {
            let kinds: Vec<_> = report.warmup_failures.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            self.progress.say(&format!("{}: failed while warming up: {}", running.name(), kinds.join(", ")));
        }
        report.phases.into_iter().next().ok_or_else(|| "the generator reported nothing".into())
    }

    pub fn remark(&self, record: &mut ExperimentRecord, text: String) {
        self.progress.say(&text);
        if !record.remarks.contains(&text) {
            record.remarks.push(text);
        }
    }
}

pub fn note_configuration(record: &mut ExperimentRecord, running: &Running) {
    if let Some(configuration) = running.configuration()
        && !record.configurations.contains(&configuration)
    {
        record.configurations.push(configuration);
    }
}

fn find_peers(options: &RunOptions) -> Result<(Vec<PeerRecord>, Vec<Program>), Error> {
    let mut records = Vec::new();
    let mut programs = Vec::new();
    for (name, search) in options.whereabouts.columns(&options.peers)? {
        let mut record = PeerRecord {
            name: name.clone(),
            state: PeerState::Found,
            path: String::new(),
            version: String::new(),
            tls_library: String::new(),
        };
        match search {
            Search::Found(program) => {
                note_program(&mut record, &program);
                programs.push(program);
            }
            Search::Absent { how_to_get } => {
                eprintln!("{name} is absent: {how_to_get}");
                record.state = PeerState::Absent { how_to_get };
            }
            Search::Broken { path, reason } => {
                eprintln!("{name} does not run: {}: {reason}", path.display());
                record.path = procfs::without_private_folders(&path.display().to_string());
                record.state = PeerState::Broken { reason };
            }
            Search::Forbidden { program, reason } => {
                eprintln!("{name} is not measured: {reason}");
                note_program(&mut record, &program);
                record.state = PeerState::Forbidden { reason };
            }
        }
        records.push(record);
    }
    Ok((records, programs))
}

fn note_program(record: &mut PeerRecord, program: &Program) {
    record.path = procfs::without_private_folders(&program.path.display().to_string());
    record.version.clone_from(&program.version);
    record.tls_library.clone_from(&program.tls_library);
}

fn empty_report(options: &RunOptions, peers: Vec<PeerRecord>, open_files: u64) -> Report {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    Report {
        format: FORMAT,
        began: now(),
        seconds: 0.0,
        complete: false,
        command: procfs::without_private_folders(&format!("tidegate-lab {}", arguments.join(" "))),
        preset: options.preset.name().to_owned(),
        machine: procfs::machine(),
        cores: crate::results::Cores::default(),
        open_files,
        warnings: Vec::new(),
        peers,
        experiments: Vec::new(),
    }
}

fn empty_record(experiment: Experiment, report: &Report) -> ExperimentRecord {
    let found = report.peers.iter().filter(|peer| peer.state == PeerState::Found);
    ExperimentRecord {
        name: experiment.name().to_owned(),
        title: experiment.title().to_owned(),
        began: now(),
        command: report.command.clone(),
        versions: found.map(|peer| (peer.name.clone(), peer.version.clone())).collect(),
        seconds: 0.0,
        description: Vec::new(),
        fairness: Vec::new(),
        configurations: Vec::new(),
        cells: Vec::new(),
        remarks: Vec::new(),
        judgements: Vec::new(),
    }
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string()
}

fn output_folder(options: &RunOptions, report: &Report) -> Result<PathBuf, Error> {
    // Within the repository beside the others, elsewhere in a folder of their own.
    let base = if Path::new("lab/reports").is_dir() { "lab/reports" } else { "tidegate-lab-reports" };
    let folder = options.output.clone().unwrap_or_else(|| report::default_folder(report, Path::new(base)));
    // Before hours are spent on a report that cannot be written.
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("{}: {error}; name another folder with --output", folder.display()))?;
    Ok(folder)
}

/// Two runs at a time would measure each other. The lock is the kernel's and goes with this process, however it ends.
fn run_alone() -> Result<File, Error> {
    let path = std::env::temp_dir().join("tidegate-lab.lock");
    let opened = File::options().create(true).append(true).open(&path);
    let file = opened.map_err(|error| format!("{}: {error}; set TMPDIR to a folder of your own", path.display()))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(_) => Err(format!(
            "another run of tidegate-lab is measuring on this machine ({} is locked); wait for its end",
            path.display()
        )
        .into()),
    }
}

/// Many systems start programs with a low soft limit beneath a high hard one.
fn raise_open_files() -> Result<u64, Error> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    if hard < OPEN_FILES_MIN {
        return Err(format!(
            "the limit of open files is {hard}, and the lab needs {OPEN_FILES_MIN}; raise it with `ulimit -Hn` or in /etc/security/limits.conf"
        )
        .into());
    }
    let wanted = hard.min(OPEN_FILES_WANTED);
    // Left alone where it suffices: some programs size their tables by it.
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })?;
        return Ok(wanted);
    }
    Ok(limit.current.unwrap_or(u64::MAX))
}

/// A setup with the flavour's usual threads: as the peer wants out of the box, `threads` when equalised.
pub fn usual(flavour: Flavour, threads: usize) -> Setup {
    let threads = match flavour {
        Flavour::Equalised | Flavour::Tuned => Some(threads),
        Flavour::OutOfTheBox | Flavour::Floor => None,
    };
    Setup { threads, ..Setup::of(flavour) }
}
