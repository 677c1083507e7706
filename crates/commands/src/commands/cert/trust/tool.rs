//! Programs of the system that keep its stores, run with a bound: what comes in is given by us, what they print is for
//! the report.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// All of a store is written anew in seconds; a program that asks for a password waits for ever.
const TIME_MAX: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);
/// What a report quotes is a line or two.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// A program, found in `PATH` or where administrators' programs are.
pub struct Call<'a> {
    pub program: &'a str,
    pub arguments: Vec<String>,
    pub stdin: &'a [u8],
    /// User, group and home folder, when it is to run as somebody else.
    pub user: Option<(u32, u32, std::path::PathBuf)>,
}

pub enum Failure {
    /// There is no such program.
    Missing,
    /// What it said last.
    Failed(String),
}

/// Gives what it wrote to standard output.
pub fn run(call: Call<'_>) -> Result<Vec<u8>, Failure> {
    let mut command = Command::new(call.program);
    command.args(&call.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Those who are not root often have no `sbin` in their path.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin:/usr/bin:/bin"));
    // Without a terminal nobody is asked for anything.
    command.process_group(0);
    if let Some((user, group, home)) = call.user {
        command.uid(user).gid(group).env("HOME", home).current_dir("/");
    }
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::Missing,
        _ => Failure::Failed(error.to_string()),
    })?;
    let reader = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(stream) = stream {
                // What cannot be read is not in the report; whether it worked is said by its exit code.
                let _ = stream.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
            }
            bytes
        })
    };
    let stdout = reader(child.stdout.take().map(|stream| Box::new(stream) as _));
    let stderr = reader(child.stderr.take().map(|stream| Box::new(stream) as _));
    if let Some(mut stdin) = child.stdin.take() {
        // Who does not read it has something to say about it.
        let _ = stdin.write_all(call.stdin);
    }
    let begin = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begin.elapsed() < TIME_MAX => std::thread::sleep(PAUSE),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Failure::Failed(format!("{} did not end within {} seconds", call.program, TIME_MAX.as_secs())));
            }
            Err(error) => return Err(Failure::Failed(error.to_string())),
        }
    };
    let [stdout, stderr] = [stdout, stderr].map(|reader| reader.join().unwrap_or_default());
    if status.success() {
        return Ok(stdout);
    }
    let said = String::from_utf8_lossy(if stderr.is_empty() { &stdout } else { &stderr }).into_owned();
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned);
    Err(Failure::Failed(last.unwrap_or_else(|| format!("{} ended with {status}", call.program))))
}
