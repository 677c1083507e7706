//! Runs a command to its end, within a time: what a peer says of its version, a check, a download.
//! Peers that serve are not started here.

use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

const POLL: Duration = Duration::from_millis(5);

/// Standard output and error of `command`, mixed. Fails when it cannot be started, exits with another status than 0, or
/// takes longer than `time_max`.
pub fn output(command: &mut Command, time_max: Duration) -> Result<String, String> {
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
        if Instant::now() > deadline {
            if let Some(group) = Pid::from_raw(process.id() as i32) {
                kill_process_group(group, Signal::KILL).ok();
            }
            process.wait().ok();
            return Err(format!("not done after {} s", time_max.as_secs()));
        }
        std::thread::sleep(POLL);
    };
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(|error| format!("its output: {error}"))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if status.success() { Ok(text) } else { Err(format!("{status}: {}", last_lines(&text))) }
}

/// Enough to see what went wrong, without the story before.
fn last_lines(text: &str) -> String {
    const LINES: usize = 4;
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join(" | ")
}
