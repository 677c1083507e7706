//! The load generator: some threads, one kind of load, one JSON report.
//! Who asks when is decided in `closed` and `open` (with the pure `schedule`); what is counted is in `tally`, and when
//! in `timeline`. `conduct` runs the threads; `foreign` drives other people's generators, so that ours can be checked
//! against them.

pub mod closed;
pub mod conduct;
pub mod foreign;
pub mod idle;
pub mod open;
pub mod schedule;
pub mod tally;
pub mod timeline;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::client::failure::Failure;
use crate::client::{Answered, Client, Question};
use crate::content::Page;
use crate::load::foreign::Tool;
use crate::load::tally::{Latency, Meter};
use crate::net::Error;
use crate::procfs::ProcessId;

/// Puts load on an HTTP server that serves the lab's pages, and prints what it saw as JSON.
#[derive(Debug, Clone, Args)]
pub struct LoadOptions {
    /// Address of the server.
    #[arg(long)]
    pub to: SocketAddr,
    /// Plain TCP instead of TLS 1.3.
    #[arg(long)]
    pub plain: bool,
    /// PEM file with the authority that signed the server's certificate. Without it any certificate is taken.
    #[arg(long)]
    pub ca: Option<PathBuf>,
    /// `/`, `/11b`, `/1k`, `/2k`, `/10k`, `/100k`, `/1m`, `/10m`, each of them beneath `/chunked`, or
    /// `/delay/MILLISECONDS`.
    #[arg(long, default_value = "/2k", value_parser = Asked::parse)]
    pub path: Asked,
    /// `http/1.1` or `h2`.
    #[arg(long, default_value = "http/1.1")]
    pub alpn: Alpn,
    /// `gzip`, `br` or `zstd`; compressed answers are decoded and compared.
    #[arg(long)]
    pub accept_encoding: Option<String>,
    /// An answer that is not compressed is wrong.
    #[arg(long, requires = "accept_encoding")]
    pub compressed_only: bool,
    /// Of all threads together.
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// Concurrent requests on each connection; HTTP/2 only.
    #[arg(long, default_value_t = 16)]
    pub streams: usize,
    /// Threads that make load, each with its share of the connections.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// How long is measured.
    #[arg(long, default_value = "3s", value_parser = parse_duration)]
    pub duration: Duration,
    /// Load before anything is counted.
    #[arg(long, default_value = "300ms", value_parser = parse_duration)]
    pub warmup: Duration,
    /// How long one request may take.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub timeout: Duration,
    /// Stop after so many requests, counted from the first and without a warm-up; closed loop only. With `--handshakes`
    /// each is a new connection.
    #[arg(long)]
    pub requests: Option<u64>,
    /// Requests per second that arrive whether or not earlier ones are answered (open loop).
    #[arg(long, conflicts_with_all = ["requests", "handshakes"])]
    pub rate: Option<u32>,
    /// Open loop as k6 does it: connections are opened when they are needed, an arrival that finds none free is
    /// dropped, and up to so many another one joins in.
    #[arg(long, requires = "rate", value_name = "CONNECTIONS")]
    pub connections_max: Option<usize>,
    /// A new connection for each request.
    #[arg(long)]
    pub handshakes: Option<Handshakes>,
    /// Each line of standard input begins a phase of that name, counted for itself; its end ends the load. Prints
    /// `ready` when all connections stand and the load runs.
    #[arg(long, conflicts_with = "requests")]
    pub phases: bool,
    /// `NAME=PID[,PID…]`: report the CPU time and memory of these processes. Repeatable.
    #[arg(long, value_parser = Observed::parse)]
    pub observe: Vec<Observed>,
    /// Have another generator make the load, if it is installed.
    #[arg(long)]
    pub tool: Option<Tool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Alpn {
    #[value(name = "http/1.1")]
    Http1,
    H2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Handshakes {
    /// Each a full handshake.
    Full,
    /// Each with a ticket of an earlier connection.
    Resumed,
}

/// A path of the backend and the page that it answers with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub path: String,
    pub page: Page,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    pub name: String,
    pub processes: Vec<ProcessId>,
}

/// What `load` prints: one entry for each phase, in order. Without `--phases` there is one, without a name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadReport {
    pub phases: Vec<PhaseReport>,
    /// All phases together, where there are several.
    pub whole: Option<PhaseReport>,
    /// Failures before the first phase, by kind; they are in no other count.
    pub warmup_failures: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PhaseReport {
    pub name: String,
    pub seconds: f64,
    /// Answered rightly within the phase.
    pub requests: u64,
    pub statuses: BTreeMap<u16, u64>,
    /// Requests without a right answer, by kind.
    pub failures: BTreeMap<String, u64>,
    pub first_failure: Option<String>,
    /// Open loop: due within the phase, but never sent.
    pub dropped: u64,
    /// Sent a second time, because a kept connection was closed before a byte of the answer came. They count as
    /// requests.
    pub sent_again: u64,
    /// On the wire, TLS included.
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub handshakes: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
    /// Of requests that were answered; `None` where there was none.
    pub latency_us: Option<Latency>,
    /// Open loop: from the intended start to the sending by a connection that was free. It is part of the latency, and
    /// the generator's own doing.
    pub sent_late_us: Option<Latency>,
    /// CPU time that all processors of the machine were busy, whoever had them.
    pub machine_cpu_us: f64,
    /// CPU time of each observed process, user and system, and of the generator itself.
    pub cpu_us: BTreeMap<String, f64>,
    /// Resident memory of each observed process at the end.
    pub resident_bytes: BTreeMap<String, u64>,
}

/// What the clients of one thread share.
pub struct Work {
    pub question: Question,
    pub meter: Meter,
    pub timeout: Duration,
}

/// Runs the load and prints the report.
pub fn run(options: &LoadOptions) -> Result<(), Error> {
    let report = match options.tool {
        Some(tool) => foreign::run(tool, options)?,
        None => conduct::generate(options)?,
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

pub async fn ask_in_time(client: &mut Client, work: &Work) -> Result<Answered, Failure> {
    timeout(work.timeout, client.ask(&work.question)).await.unwrap_or(Err(Failure::TimedOut))
}

impl Asked {
    pub fn parse(text: &str) -> Result<Asked, String> {
        let asked = |page| Asked { path: text.to_owned(), page };
        if let Some(page) = Page::from_path(text.as_bytes()) {
            return Ok(asked(page));
        }
        if let Some(page) = text.strip_prefix("/chunked").and_then(|path| Page::from_path(path.as_bytes())) {
            return Ok(asked(page));
        }
        if text.strip_prefix("/delay/").is_some_and(|digits| digits.parse::<u32>().is_ok()) {
            return Ok(asked(Page::Hello11B));
        }
        let pages = Page::ALL.map(Page::path).join(", ");
        Err(format!("there are only {pages}, each of them beneath /chunked, and /delay/MILLISECONDS"))
    }
}

impl Observed {
    pub fn parse(text: &str) -> Result<Observed, String> {
        let (name, list) = text.split_once('=').ok_or("write NAME=PID[,PID…]")?;
        let processes = list.split(',').map(|id| id.parse().map_err(|_| format!("`{id}` is not a process id")));
        Ok(Observed { name: name.to_owned(), processes: processes.collect::<Result<_, _>>()? })
    }
}

impl PhaseReport {
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}

pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let scale = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err("write a duration as 500ms, 3s or 1m".into()),
    };
    let number: f64 = digits.parse().map_err(|_| format!("`{digits}` is not a number"))?;
    Duration::try_from_secs_f64(number * scale).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
