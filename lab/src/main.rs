//! `tidegate-lab`: published comparisons of reverse proxies, repeated side by side on this machine.
//! Every proxy is driven as a process, Tidegate like the others; of the proxy's crates only the relay uses one. How to
//! read the figures: README.md.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test says by panicking that something was not as expected"))]

mod backend;
mod certificates;
mod client;
mod content;
mod experiments;
mod load;
mod net;
mod peers;
mod procfs;
mod relay;
mod report;
mod results;
mod stage;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidegate_transport::Driver;

use crate::experiments::RunOptions;
use crate::load::LoadOptions;
use crate::load::idle::IdleOptions;
use crate::peers::PeersOptions;
use crate::report::{ReadmeOptions, RenderOptions};
use crate::results::compare::CompareOptions;
use crate::stage::child::PinnedOptions;

#[derive(Debug, Parser)]
#[command(
    name = "tidegate-lab",
    about = "Published comparisons of reverse proxies, repeated side by side on this machine.",
    version
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<RunOptions>),
    Peers(PeersOptions),
    Compare(CompareOptions),
    Render(RenderOptions),
    Readme(ReadmeOptions),
    Load(Box<LoadOptions>),
    Idle(IdleOptions),
    /// Serves the lab's pages over HTTP/1.1, as cheaply as it can.
    Backend {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long, default_value_t = 1)]
        threads: usize,
        /// Serves on for so long after SIGTERM, and ends then.
        #[arg(long, value_parser = load::parse_duration)]
        leave_after: Option<std::time::Duration>,
    },
    /// Copies bytes between clients and an upstream, without looking at them.
    Relay {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        to: SocketAddr,
        /// What moves the bytes: `epoll` or `io-uring`.
        #[arg(long, default_value = "epoll", value_parser = peers::parse_driver)]
        driver: Driver,
    },
    #[command(hide = true)]
    Pinned(PinnedOptions),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(options) => experiments::run(&options),
        Command::Peers(options) => peers::run(&options),
        Command::Compare(options) => results::compare::run(&options),
        Command::Render(options) => report::rerender(&options),
        Command::Readme(options) => report::readme(&options),
        Command::Load(options) => load::run(&options),
        Command::Idle(options) => load::idle::run(&options),
        Command::Backend { listen, threads, leave_after } => backend::serve(listen, threads, leave_after),
        Command::Relay { listen, to, driver } => relay::serve(driver, listen, to),
        Command::Pinned(options) => stage::child::become_pinned(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate-lab: {error}");
            ExitCode::FAILURE
        }
    }
}
