//! What a program does at the least: it accepts a configuration, answers over HTTP/1.1, HTTP/2 and TLS, takes on a
//! changed configuration, and finishes what is in flight before it ends. For other machines under the emulator of qemu,
//! which shows that the program is right for the processor and its system calls, and nothing about its speed; the
//! kernel's pages stay those of this machine there.

use super::{CheckOutcome, asked, is_missing};
use crate::dist::{Distribution, failed, put};
use crate::process::Invocation;
use crate::release::Machine;
use crate::scratch::ScratchFolder;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// An emulated start takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);
/// How long the upstream of the last step takes to answer: the end has to be asked for meanwhile.
const SLOWNESS: Duration = Duration::from_secs(3);

type Step = fn(&mut Suite) -> Result<(), String>;

pub fn run(distribution: &Distribution, machine: Machine) -> Result<CheckOutcome, String> {
    let emulator = format!("qemu-{}-static", machine.architecture());
    if let Some(left) = is_missing("curl", "curl") {
        return Ok(left);
    }
    if !machine.is_this()
        && let Some(left) = is_missing(&emulator, "qemu-user-static")
    {
        return Ok(left);
    }
    let mut suite = Suite::new(distribution, machine, &emulator)?;
    let steps: [(&str, Step); 7] = [
        ("check", Suite::check),
        ("start", Suite::start),
        ("HTTP/1.1", Suite::http1),
        ("HTTP/2", Suite::http2),
        ("TLS", Suite::tls),
        ("reload", Suite::reload),
        ("drain", Suite::drain),
    ];
    for (name, step) in steps {
        step(&mut suite).map_err(|why| format!("{name}: {why}\n{}", suite.log()))?;
    }
    let how = if machine.is_this() { String::new() } else { format!(" under {emulator}") };
    Ok(CheckOutcome::Passed(format!("{}{how}", steps.map(|(name, _)| name).join(", "))))
}

struct Suite {
    /// The program, behind its emulator where it needs one.
    words: Vec<String>,
    folder: ScratchFolder,
    plain: u16,
    tls: u16,
    upstream: u16,
    slow: Option<JoinHandle<std::io::Result<()>>>,
    process: Option<Child>,
}

impl Suite {
    fn new(distribution: &Distribution, machine: Machine, emulator: &str) -> Result<Suite, String> {
        let program = distribution.program(machine)?.display().to_string();
        let words = if machine.is_this() { vec![program] } else { vec![emulator.to_owned(), program] };
        let bound = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string());
        let port =
            |listener: &TcpListener| listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string());
        let (slow, first, second) = (bound()?, bound()?, bound()?);
        let (upstream, plain, tls) = (port(&slow)?, port(&first)?, port(&second)?);
        let slow = Some(spawn(move || answer_slowly(&slow)));
        let suite = Suite { words, folder: ScratchFolder::new("suite")?, plain, tls, upstream, slow, process: None };
        suite.configure("first")?;
        Ok(suite)
    }

    fn configure(&self, body: &str) -> Result<(), String> {
        let socket = self.folder.path().join("admin.sock").display().to_string();
        let Suite { plain, tls, upstream, .. } = self;
        let text = format!(
            "admin \"unix:{socket}\"\ndrain \"20s\"\nsite \"http://127.0.0.1:{plain}\" {{\n    route \"/slow\" {{ proxy \"127.0.0.1:{upstream}\"; }}\n    \
             respond 200 body=\"{body}\"\n}}\nsite \"https://localhost:{tls}\" {{\n    tls \"internal\"\n    respond 200 body=\"{body}\"\n}}\n"
        );
        put(self.folder.path(), "tidegate.kdl", &text)
    }

    fn check(&mut self) -> Result<(), String> {
        let output = self.command(&["check", "tidegate.kdl"]).output().map_err(|error| error.to_string())?;
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }

    fn start(&mut self) -> Result<(), String> {
        let path = self.folder.path().join("log");
        let log = File::create(&path).map_err(failed(&path))?;
        let mut command = self.command(&["run", "--config", "tidegate.kdl"]);
        command.stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().map_err(|error| format!("{}: {error}", self.words[0]))?);
        self.await_body("first")
    }

    fn http1(&mut self) -> Result<(), String> {
        let address = format!("http://127.0.0.1:{}/", self.plain);
        expect(&["--http1.1", &address], "first 200 1.1")
    }

    fn http2(&mut self) -> Result<(), String> {
        let address = format!("http://127.0.0.1:{}/", self.plain);
        expect(&["--http2-prior-knowledge", &address], "first 200 2")
    }

    fn tls(&mut self) -> Result<(), String> {
        let address = format!("https://localhost:{}/", self.tls);
        let root = self.folder.path().join("state/internal-ca/root.crt").display().to_string();
        for (version, expected) in [("--http1.1", "first 200 1.1"), ("--http2", "first 200 2")] {
            expect(&["--cacert", &root, version, &address], expected)?;
        }
        Ok(())
    }

    fn reload(&mut self) -> Result<(), String> {
        self.configure("second")?;
        self.signal("-HUP")?;
        self.await_body("second")
    }

    /// A request that is in flight is answered, and the process ends by itself.
    fn drain(&mut self) -> Result<(), String> {
        let address = format!("http://127.0.0.1:{}/slow", self.plain);
        let client = spawn(move || curl(&[&address]));
        sleep(SLOWNESS / 2);
        self.signal("-TERM")?;
        let answer = client.join().map_err(|_| "the client has stopped".to_owned())??;
        if answer != "slow 200 1.1" {
            return Err(format!("`{answer}` for the request that was in flight"));
        }
        let upstream = self.slow.take().map(JoinHandle::join);
        if !matches!(upstream, Some(Ok(Ok(())))) {
            return Err(format!("the upstream: {upstream:?}"));
        }
        let mut process = self.process.take().ok_or("it does not run")?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match process.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("it ended with {status}")),
                None if Instant::now() > deadline => {
                    self.process = Some(process);
                    return Err("it does not end".into());
                }
                None => sleep(LOOK),
            }
        }
    }

    fn command(&self, task: &[&str]) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(task).stdin(Stdio::null());
        command.current_dir(self.folder.path()).env("STATE_DIRECTORY", self.folder.path().join("state"));
        command
    }

    fn signal(&self, name: &str) -> Result<(), String> {
        let process = self.process.as_ref().ok_or("it does not run")?;
        Invocation::new("kill", &[name, &process.id().to_string()]).run(self.folder.path())
    }

    fn await_body(&mut self, body: &str) -> Result<(), String> {
        let address = format!("http://127.0.0.1:{}/", self.plain);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = curl(&[&address]);
            if answer.as_ref().is_ok_and(|answer| *answer == format!("{body} 200 1.1")) {
                return Ok(());
            }
            let ended = self.process.as_mut().and_then(|process| process.try_wait().ok().flatten());
            if ended.is_some() || Instant::now() > deadline {
                return Err(format!("{answer:?} in place of `{body}`; ended: {ended:?}"));
            }
            sleep(LOOK);
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            drop(process.kill());
            drop(process.wait());
        }
    }
}

fn expect(words: &[&str], expected: &str) -> Result<(), String> {
    let answer = curl(words)?;
    if answer == expected { Ok(()) } else { Err(format!("`{answer}` in place of `{expected}`")) }
}

/// The body, the status and the version of HTTP.
fn curl(words: &[&str]) -> Result<String, String> {
    let common =
        ["--silent", "--show-error", "--max-time", "30", "--noproxy", "*", "--write-out", " %{http_code} %{http_version}"];
    asked(&Invocation::new("curl", &[&common, words].concat()), Path::new("/"))
}

/// One request, whose head is read.
fn answer_slowly(listener: &TcpListener) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    sleep(SLOWNESS);
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nslow")
}
