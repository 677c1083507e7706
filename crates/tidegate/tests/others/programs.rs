//! Programs of others: found, run within a bound, heard. Nothing here knows what they are asked.

use std::ffi::OsStr;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// For a program that stays, until it listens. The machine may compile something at the same time.
const BOUND: Duration = Duration::from_secs(30);
/// For a client that ends by itself, beside compilers.
const CLIENT_SECONDS: &str = "60";

/// Where this machine has a program. Without it a test says so and passes.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Servers are in the folders of the system's programs, which users do not have in their PATH.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let found = folders.map(|folder| folder.join(program)).find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: there is no {program} on this machine");
    }
    found
}

/// What a program has said, and whether it ended well.
#[derive(Debug)]
pub struct Said {
    pub is_success: bool,
    pub text: String,
    /// What it wrote as its result, as it is.
    pub stdout: Vec<u8>,
}

/// Runs a client to its end; `timeout` of coreutils ends one that hangs. With input that begins with `R`, OpenSSL's
/// takes commands, so the input stays open until the program has ended.
pub fn run<A: AsRef<OsStr>>(program: &Path, arguments: &[A], input: &str) -> Said {
    let mut child = Command::new("timeout")
        .args(["--kill-after=2", CLIENT_SECONDS])
        .arg(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A client that was refused has ended before it reads.
    let _ = stdin.write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    drop(stdin);
    let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    Said { is_success: output.status.success(), text, stdout: output.stdout }
}

/// Runs a program that has to succeed; gives what it printed.
pub fn done<A: AsRef<OsStr> + std::fmt::Debug>(program: &Path, arguments: &[A]) -> String {
    let said = run(program, arguments, "");
    assert!(said.is_success, "{} {arguments:?}: {}", program.display(), said.text);
    said.text
}

pub fn wait_until_it_listens(address: SocketAddr) -> Result<(), String> {
    let begin = Instant::now();
    while let Err(error) = TcpStream::connect(address) {
        if begin.elapsed() > BOUND {
            return Err(format!("{address}: {error}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
