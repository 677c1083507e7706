//! A program of the user's: `COMMAND present NAME VALUE`, `COMMAND cleanup NAME VALUE`; exit code 0 is success. It runs
//! in a process group of its own with a cleared environment, has a time, and what it writes is read up to a bound and
//! otherwise thrown away.

use crate::fault::{DnsProblem, line_of};
use crate::name::Domain;
use crate::publisher::TTL_SECS;
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Some programs wait for their provider themselves.
const TIME_LIMIT: Duration = Duration::from_secs(180);
/// For what is still written after its end, and by whom it left behind.
const OUTPUT_LIMIT: Duration = Duration::from_secs(1);
/// Of each of its two outputs that is kept: the end.
const OUTPUT_BYTES_MAX: usize = 16 << 10;
/// Where programs are looked for when this process has no `PATH`.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub struct Exec {
    command: PathBuf,
    time_limit: Duration,
}

impl Exec {
    pub fn new(command: PathBuf) -> Exec {
        Exec { command, time_limit: TIME_LIMIT }
    }

    pub async fn run(&self, action: &str, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        let problem = |problem: String| DnsProblem::Command { problem };
        let shown = format!("`{} {action}`", self.command.display());
        let mut child =
            self.start(action, name, value).map_err(|error| problem(format!("{shown} cannot be started: {error}")))?;
        let mut group = Some(Group(child.id()));
        // Both are read all the time: a program that nobody listens to stops.
        let (stdout, stderr) = (child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from));
        let outputs = tokio::spawn(async move { tokio::join!(tail(stdout), tail(stderr)) });
        // In a thread, and not by tokio: as a feature of that, ends of processes are looked for whenever a worker has
        // nothing to do. Whatever ends this wait kills the program, and with it the thread's.
        let ended = timeout(self.time_limit, spawn_blocking(move || child.wait())).await;
        if ended.is_err() {
            group = None;
        }
        let outputs = timeout(OUTPUT_LIMIT, outputs).await;
        drop(group);
        let (_, stderr) = outputs.ok().and_then(Result::ok).unwrap_or_default();
        let last_line = last_line(&stderr).map(|line| format!(": {line}")).unwrap_or_default();
        match ended.map(|waited| waited.unwrap_or_else(|panic| Err(std::io::Error::other(panic)))) {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(problem(format!("{shown} {}{last_line}", ending(status)))),
            Ok(Err(error)) => Err(problem(format!("{shown} cannot be waited for: {error}"))),
            Err(_) => Err(problem(format!("{shown} was not finished within {:?} and was stopped{last_line}", self.time_limit))),
        }
    }

    fn start(&self, action: &str, name: &Domain, value: &str) -> std::io::Result<Child> {
        Command::new(&self.command)
            .args([action, name.as_str(), value])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| PATH_DEFAULT.into()))
            .env("TIDEGATE_ACTION", action)
            .env("TIDEGATE_NAME", name.as_str())
            .env("TIDEGATE_VALUE", value)
            .env("TIDEGATE_TTL", TTL_SECS.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
    }
}

/// The program and whatever it started; killed when this goes, also with a future that is dropped. As long as one of
/// them is there, nobody else gets the number.
struct Group(u32);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0.cast_signed()) {
            // Nobody left is the usual case.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

async fn tail(output: Option<OwnedFd>) -> Vec<u8> {
    let Some(Ok(mut output)) = output.map(Receiver::from_owned_fd) else { return Vec::new() };
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(length) = output.read(&mut buffer).await {
        if length == 0 {
            break;
        }
        kept.extend_from_slice(&buffer[..length]);
        let excess = kept.len().saturating_sub(OUTPUT_BYTES_MAX);
        kept.drain(..excess);
    }
    kept
}

fn last_line(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    text.lines().rev().find(|line| !line.trim().is_empty()).map(line_of)
}

fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended in a way that the system does not tell".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::Exec;
    use crate::fault::DnsProblem;
    use crate::name::Domain;
    use std::time::Duration;

    #[test]
    fn what_takes_too_long_is_stopped() {
        // It writes its arguments as fast as they are read.
        let exec = Exec { command: "/usr/bin/yes".into(), time_limit: Duration::from_millis(200) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let name = Domain::parse("a.example").expect("a name");
        let problem = runtime.block_on(exec.run("present", &name, "words")).expect_err("it goes on for ever");
        let expected = "`/usr/bin/yes present` was not finished within 200ms and was stopped";
        assert_eq!(problem, DnsProblem::Command { problem: expected.into() });
    }
}
