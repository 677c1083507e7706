//! Processes that the runner starts: pinned to a core, watched, and stopped by their own id.
//! They go through a small step of this program that pins itself, asks to be stopped when the runner dies, and then
//! becomes the real command; so nothing is left behind even if the runner is killed.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal};

use crate::net::Error;
use crate::procfs::{self, ProcessId};
use crate::stage::cores;

/// After SIGTERM; then SIGKILL.
const STOP_TIME_MAX: Duration = Duration::from_secs(3);
const STOP_POLL: Duration = Duration::from_millis(10);
/// Of its output, enough to see why a process ended.
const LAST_LINES: usize = 5;

/// What a program needs to be found, to find its libraries and to write.
const KEPT_ENVIRONMENT: [&str; 7] = ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "USER", "LANG", "RUST_BACKTRACE"];

/// Pins itself to processors and becomes the given command.
#[derive(Debug, Args)]
pub struct PinnedOptions {
    #[arg(long, value_delimiter = ',', required = true)]
    cores: Vec<usize>,
    /// A cgroup (version 2) to join first.
    #[arg(long)]
    cgroup: Option<PathBuf>,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Returns only when it fails.
pub fn become_pinned(options: &PinnedOptions) -> Result<(), Error> {
    if let Some(cgroup) = &options.cgroup {
        let procs = cgroup.join("cgroup.procs");
        std::fs::write(&procs, "0").map_err(|error| format!("{}: {error}", procs.display()))?;
    }
    rustix::thread::sched_setaffinity(None, &cores::set_of(&options.cores))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    let error = Command::new(&options.command[0]).args(&options.command[1..]).exec();
    Err(format!("{}: {error}", options.command[0].display()).into())
}

/// The command that becomes `program`, pinned.
pub fn pinned(cores: &[usize], program: &Path) -> Result<Command, Error> {
    pinned_within(cores, None, program)
}

/// A command pinned to cores, as a member of a cgroup.
pub fn pinned_within(cores: &[usize], cgroup: Option<&Path>, program: &Path) -> Result<Command, Error> {
    let cores = cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["pinned", "--cores", &cores]).stdin(Stdio::null());
    // What a user has in the environment (GOGC, GODEBUG, OPENSSL_CONF) would tune some peers and not others.
    command.env_clear();
    command.envs(KEPT_ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    // A Ctrl-C at the terminal is for the runner, which stops its children in order and still writes what it has.
    command.process_group(0);
    if let Some(cgroup) = cgroup {
        command.arg("--cgroup").arg(cgroup);
    }
    command.arg("--").arg(program);
    Ok(command)
}

/// A running child. Dropping it stops it and all that it started.
pub struct Child {
    name: String,
    process: Process,
    log: PathBuf,
}

impl Child {
    /// Starts `command`, whose output goes to `log`.
    pub fn spawn(name: &str, mut command: Command, log: &Path) -> Result<Child, Error> {
        let output = File::create(log)?;
        command.stdout(output.try_clone()?).stderr(output);
        let process = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        Ok(Child { name: name.to_owned(), process, log: log.to_owned() })
    }

    pub fn process_id(&self) -> ProcessId {
        self.process.id()
    }

    /// True once it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    pub fn processes(&self) -> Result<Vec<ProcessId>, Error> {
        Ok(procfs::with_descendants(self.process.id())?)
    }

    /// Fails with what the process last said, once it has ended.
    pub fn check_alive(&mut self) -> Result<(), Error> {
        match self.process.try_wait()? {
            None => Ok(()),
            Some(status) => {
                let text = std::fs::read_to_string(&self.log).unwrap_or_default();
                let lines: Vec<_> = text.lines().collect();
                let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
                Err(format!("{} ended with {status}: {}", self.name, last.join(" | ")).into())
            }
        }
    }

    /// Moves the process, with all its threads, to other processors.
    pub fn pin(&self, cores: &[usize]) -> Result<(), Error> {
        for process in self.processes()? {
            for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
                let task = task?.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
                rustix::thread::sched_setaffinity(task, &cores::set_of(cores))?;
            }
        }
        Ok(())
    }

    /// Sends `signal` and waits for the end; after [`STOP_TIME_MAX`] it is killed, with its descendants.
    pub fn stop(&mut self, signal: Signal) {
        if self.has_ended() {
            return;
        }
        signal_process(self.process.id(), signal);
        let deadline = Instant::now() + STOP_TIME_MAX;
        while !self.has_ended() {
            if Instant::now() > deadline {
                return self.kill();
            }
            std::thread::sleep(STOP_POLL);
        }
    }

    /// At once, with its descendants: a master that is killed alone leaves its workers behind.
    pub fn kill(&mut self) {
        if self.has_ended() {
            return;
        }
        for process in self.processes().unwrap_or_default() {
            signal_process(process, Signal::KILL);
        }
        self.process.wait().ok();
    }
}

impl Drop for Child {
    /// Whoever wants a graceful end asks for it before.
    fn drop(&mut self) {
        self.kill();
    }
}

fn signal_process(process: ProcessId, signal: Signal) {
    if let Some(process) = Pid::from_raw(process as i32) {
        // It may have ended by itself meanwhile, which is what was wanted.
        rustix::process::kill_process(process, signal).ok();
    }
}
