//! Runs a command to its end, within a time: what a peer says of its version, a check, a download, a build.
//! Peers that serve are not started here.

use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use crate::stage::interrupt::Interrupt;

const POLL: Duration = Duration::from_millis(5);
/// Between being asked to end and being killed.
const STOP_TIME_MAX: Duration = Duration::from_secs(2);

/// Standard output and error of `command`, mixed. Fails when it cannot be started, exits with another status than 0, or
/// takes longer than `time_max`.
pub fn output(command: &mut Command, time_max: Duration) -> Result<String, String> {
    output_while(command, time_max, &|| true)
}

/// As [`output`], and fails as soon as the user wants an end. What the command has started ends with it then, before
/// this returns: a build of many processes would go on for minutes as nobody's child.
pub fn output_unless(interrupt: &Interrupt, command: &mut Command, time_max: Duration) -> Result<String, String> {
    output_while(command, time_max, &|| interrupt.check().is_ok())
}

fn output_while(command: &mut Command, time_max: Duration, is_wanted: &dyn Fn() -> bool) -> Result<String, String> {
    if !is_wanted() {
        return Err(INTERRUPTED.to_owned());
    }
    // A file and not a pipe: nobody has to read along so that the command does not stall.
    let mut file = tempfile::tempfile().map_err(|error| format!("no temporary file: {error}"))?;
    let clone = || file.try_clone().map_err(|error| format!("no temporary file: {error}"));
    // A group of its own, so that what it has started ends with it.
    command.stdin(Stdio::null()).stdout(clone()?).stderr(clone()?).process_group(0);
    let mut process = command.spawn().map_err(|error| error.to_string())?;
    let deadline = Instant::now() + time_max;
    let status = loop {
        if let Some(status) = process.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if !is_wanted() {
            end_group(&mut process);
            return Err(INTERRUPTED.to_owned());
        }
        if Instant::now() > deadline {
            end_group(&mut process);
            return Err(format!("not done after {} s", time_max.as_secs()));
        }
        std::thread::sleep(POLL);
    };
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(|error| format!("its output: {error}"))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if status.success() { Ok(text) } else { Err(format!("{status}: {}", last_lines(&text))) }
}

const INTERRUPTED: &str = "interrupted";

/// Asks all processes of the group to end, so that a compiler takes its half-written files with it, and kills those
/// that do not.
fn end_group(process: &mut Child) {
    let Some(group) = Pid::from_raw(process.id() as i32) else { return };
    kill_process_group(group, Signal::TERM).ok();
    let deadline = Instant::now() + STOP_TIME_MAX;
    // The first is waited for meanwhile: what is left of it would keep the group.
    while process.try_wait().is_ok_and(|status| status.is_none()) || test_kill_process_group(group).is_ok() {
        if Instant::now() > deadline {
            kill_process_group(group, Signal::KILL).ok();
            break;
        }
        std::thread::sleep(POLL);
    }
    process.wait().ok();
}

/// Enough to see what went wrong, without the story before.
fn last_lines(text: &str) -> String {
    const LINES: usize = 4;
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join(" | ")
}
