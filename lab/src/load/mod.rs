//! The load generator: one thread, one kind of load, one JSON report.
//! The kinds are in `closed`, `open`, `handshakes` and `http2`; what they count is in `meter`; who sends what when in open loop is the pure `schedule`.

pub mod closed;
pub mod handshakes;
pub mod http2;
pub mod idle;
pub mod meter;
pub mod open;
pub mod schedule;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::client::connection::Target;
use crate::client::tls::{self, SessionTickets};
use crate::content::Page;
use crate::load::meter::{LoadReport, Meter, Observed};
use crate::net::{self, Error};

/// How long connecting may take, and how long requests under way at the end may still be answered.
pub const GRACE: Duration = Duration::from_secs(5);

/// Puts load on an HTTP server that serves the benchmark's pages, and prints what it saw as JSON.
#[derive(Debug, Args)]
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
    /// `/11b`, `/2k`, `/100k` or `/1m`.
    #[arg(long, default_value = "/2k", value_parser = parse_page)]
    pub path: Page,
    /// `http/1.1` or `h2`.
    #[arg(long, default_value = "http/1.1")]
    pub alpn: Alpn,
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// Concurrent requests on each connection; HTTP/2 only.
    #[arg(long, default_value_t = 16)]
    pub streams: usize,
    /// How long is measured.
    #[arg(long, default_value = "3s", value_parser = parse_duration)]
    pub duration: Duration,
    /// Load before anything is counted.
    #[arg(long, default_value = "300ms", value_parser = parse_duration)]
    pub warmup: Duration,
    /// Stop after so many requests, counted from the first and without a warm-up; closed loop over HTTP/1.1 only.
    #[arg(long)]
    pub requests: Option<u64>,
    /// Requests per second that arrive whether or not earlier ones are answered (open loop).
    #[arg(long, conflicts_with_all = ["requests", "handshakes"])]
    pub rate: Option<u32>,
    /// A new connection for each request.
    #[arg(long, conflicts_with = "requests")]
    pub handshakes: Option<Handshakes>,
    /// `NAME=PID[,PID…]`: report the CPU time that these processes use while the load is measured. Repeatable.
    #[arg(long, value_parser = Observed::parse)]
    pub observe: Vec<Observed>,
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

/// What the kinds of load need: where to, what to send, what must come back, where to count.
pub struct Work {
    pub target: Target,
    pub page: Page,
    pub request: Vec<u8>,
    pub expected_body: Vec<u8>,
    pub meter: Meter,
}

/// Runs the load and prints the report.
pub fn run(options: &LoadOptions) -> Result<(), Error> {
    let report = generate(options)?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

pub fn generate(options: &LoadOptions) -> Result<LoadReport, Error> {
    let tickets = if options.handshakes == Some(Handshakes::Resumed) { SessionTickets::Used } else { SessionTickets::Ignored };
    let target = target(options, tickets)?;
    let work = Rc::new(Work {
        target,
        page: options.path,
        request: http1_request(options.path),
        expected_body: options.path.body(),
        meter: Meter::new(options.observe.clone()),
    });
    let runtime = net::runtime()?;
    runtime.block_on(async {
        match (options.rate, options.handshakes, options.alpn) {
            (Some(rate), None, Alpn::Http1) => open::run(options, rate, &work).await,
            (None, Some(_), Alpn::Http1) => handshakes::run(options, &work).await,
            (None, None, Alpn::H2) if options.requests.is_none() => http2::run(options, &work).await,
            (None, None, Alpn::Http1) => closed::run(options, &work).await,
            (_, _, Alpn::H2) | (Some(_), Some(_), Alpn::Http1) => Err("over HTTP/2 there is only the timed closed loop".into()),
        }
    })?;
    work.meter.report()
}

fn target(options: &LoadOptions, tickets: SessionTickets) -> Result<Target, Error> {
    let alpn = match options.alpn {
        Alpn::Http1 => "http/1.1",
        Alpn::H2 => "h2",
    };
    let tls = if options.plain { None } else { Some(tls::client_config(options.ca.as_deref(), alpn, tickets)?) };
    Ok(Target { address: options.to, tls })
}

/// About what a command-line client sends; browsers send ten times as much, of which a proxy looks at the same few fields.
pub fn http1_request(page: Page) -> Vec<u8> {
    format!("GET {} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: tidegate-lab\r\nAccept: */*\r\n\r\n", page.path()).into_bytes()
}

pub fn parse_page(text: &str) -> Result<Page, String> {
    Page::from_path(text.as_bytes()).ok_or_else(|| format!("there are only {}", Page::ALL.map(Page::path).join(", ")))
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
