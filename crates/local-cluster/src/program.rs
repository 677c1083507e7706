//! The program under test as a process: started, watched, and ended by its id when the guard goes away.

use crate::admin;
use crate::ports::FORKING;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a proxy may take until it is ready; generous, because tests share the machine with compilers.
const READY_WAIT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long what a process wrote may take to be read behind its end.
const OUTPUT_WAIT: Duration = Duration::from_secs(2);

/// A child of ours cannot be given a descriptor by its number without unsafe code; a shell does it with its standard
/// input, and becomes the program.
const ACTIVATE: &str = "exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$; export LISTEN_FDS LISTEN_PID; exec \"$@\"";

/// How a program is started, beside its arguments.
#[derive(Debug, Clone, Default)]
pub struct Surroundings<'a> {
    pub stdin: Option<&'a [u8]>,
    pub environment: Vec<(&'a str, String)>,
    /// Handed over as systemd hands over the socket of a unit: descriptor 3, with LISTEN_FDS.
    pub listener: Option<&'a TcpListener>,
    /// Whether the program may start others that outlive it: they are all in a process group of their own, and end with
    /// the guard.
    pub has_descendants: bool,
}

/// A running program. Dropping it kills the process, and its descendants if it was said to have some.
#[derive(Debug)]
pub struct Program {
    child: Child,
    has_descendants: bool,
    exit: Option<i32>,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

impl Program {
    /// Starts `binary` in `folder`.
    pub fn start(binary: &Path, arguments: &[String], folder: &Path, stdin: Option<&[u8]>) -> Result<Program, String> {
        Program::start_in(binary, arguments, folder, &Surroundings { stdin, ..Surroundings::default() })
    }

    pub fn start_in(
        binary: &Path,
        arguments: &[String],
        folder: &Path,
        surroundings: &Surroundings<'_>,
    ) -> Result<Program, String> {
        let Surroundings { stdin, environment, listener, has_descendants } = surroundings;
        let mut command = Command::new(if listener.is_some() { Path::new("/bin/sh") } else { binary });
        if listener.is_some() {
            command.args(["-c", ACTIVATE, "sh"]).arg(binary);
        }
        if *has_descendants {
            command.process_group(0);
        }
        let forking = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut child = command
            .args(arguments)
            .current_dir(folder)
            // The internal CA of a test belongs to the test, not to the machine.
            .env("STATE_DIRECTORY", folder.join("state"))
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(match listener {
                Some(listener) => Stdio::from(OwnedFd::from(listener.try_clone().map_err(|error| error.to_string())?)),
                None if stdin.is_some() => Stdio::piped(),
                None => Stdio::null(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", binary.display()))?;
        // It runs its own program now, with none of our sockets.
        drop(forking);
        if let (Some(mut pipe), Some(text)) = (child.stdin.take(), *stdin) {
            // A program that does not want its input may close it; its own message says more than the broken pipe
            // would.
            let _ = pipe.write_all(text);
        }
        let stdout = collect(child.stdout.take());
        let stderr = collect(child.stderr.take());
        Ok(Program { child, has_descendants: *has_descendants, exit: None, stdout, stderr })
    }

    /// Starts `tidegate run` on a configuration and waits until `admin` says it is ready.
    pub fn start_proxy(binary: &Path, config: &Path, admin: &str) -> Result<Program, String> {
        Program::start_proxy_with(binary, config, admin, &[])
    }

    /// As [`Program::start_proxy`], with options of `run`.
    pub fn start_proxy_with(binary: &Path, config: &Path, admin: &str, options: &[&str]) -> Result<Program, String> {
        let folder = config.parent().unwrap_or(Path::new("."));
        let config = config.display().to_string();
        let arguments: Vec<String> =
            ["run", "--config", &config].iter().chain(options).map(|argument| (*argument).to_owned()).collect();
        let mut program = Program::start(binary, &arguments, folder, None)?;
        program.wait_until("ready", || matches!(admin::get(admin, "/readyz"), Ok((200, _))))?;
        Ok(program)
    }

    /// Polls until `condition` holds; fails when the process ends first or takes too long.
    pub fn wait_until(&mut self, what: &str, mut condition: impl FnMut() -> bool) -> Result<(), String> {
        let begin = Instant::now();
        while !condition() {
            if let Some(code) = self.poll_exit() {
                return Err(format!("the program ended with {code} before it was {what}\n{}", self.output()));
            }
            if begin.elapsed() > READY_WAIT {
                return Err(format!("the program was not {what} after {READY_WAIT:?}\n{}", self.output()));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name without `SIG`.
    pub fn signal(&self, name: &str) -> Result<(), String> {
        signal_process(self.child.id(), name)
    }

    /// The exit code once the process has ended; a death by signal is 128 and its number, as shells have it.
    pub fn poll_exit(&mut self) -> Option<i32> {
        if self.exit.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            use std::os::unix::process::ExitStatusExt;
            self.exit = Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
        }
        self.exit
    }

    /// Waits for the end of the process, and for what it wrote.
    pub fn wait_exit(&mut self, bound: Duration) -> Result<i32, String> {
        let begin = Instant::now();
        loop {
            if let Some(code) = self.poll_exit() {
                self.wait_for_output();
                return Ok(code);
            }
            if begin.elapsed() > bound {
                return Err(format!("still running after {bound:?}"));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Until both pipes were read to their end, which one that the process has started may hold open.
    fn wait_for_output(&self) {
        let (begin, is_read) = (Instant::now(), |collected: &Arc<Mutex<Vec<u8>>>| Arc::strong_count(collected) == 1);
        let is_all_read = || is_read(&self.stdout) && is_read(&self.stderr);
        while !self.has_descendants && !is_all_read() && begin.elapsed() < OUTPUT_WAIT {
            thread::sleep(POLL_INTERVAL);
        }
    }

    pub fn stdout(&self) -> String {
        text(&self.stdout)
    }

    pub fn stderr(&self) -> String {
        text(&self.stderr)
    }

    /// Both streams, for failure messages.
    pub fn output(&self) -> String {
        format!("--- stdout\n{}--- stderr\n{}", self.stdout(), self.stderr())
    }

    /// Resident memory in KiB.
    pub fn resident_kib(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().trim_end_matches(" kB").trim().parse().ok()
    }

    /// Open file descriptors.
    pub fn open_files(&self) -> Option<usize> {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).ok().map(Iterator::count)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.has_descendants
            && let Some(group) = rustix::process::Pid::from_raw(self.child.id() as i32)
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        if self.poll_exit().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Sends a signal to a process that one of ours has started.
pub fn signal_process(id: u32, name: &str) -> Result<(), String> {
    let signal = match name {
        "TERM" => rustix::process::Signal::TERM,
        "INT" => rustix::process::Signal::INT,
        "KILL" => rustix::process::Signal::KILL,
        "HUP" => rustix::process::Signal::HUP,
        "QUIT" => rustix::process::Signal::QUIT,
        "USR1" => rustix::process::Signal::USR1,
        "USR2" => rustix::process::Signal::USR2,
        "STOP" => rustix::process::Signal::STOP,
        "CONT" => rustix::process::Signal::CONT,
        other => return Err(format!("unknown signal {other}")),
    };
    let id = rustix::process::Pid::from_raw(id as i32).ok_or("the process has no id")?;
    rustix::process::kill_process(id, signal).map_err(|error| error.to_string())
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> Arc<Mutex<Vec<u8>>> {
    let collected = Arc::new(Mutex::new(Vec::new()));
    if let Some(mut pipe) = pipe {
        let collected = collected.clone();
        thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                collected.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..length]);
            }
        });
    }
    collected
}

fn text(collected: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&collected.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}
