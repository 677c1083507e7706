//! `tidegate-bench`: the upstream, the load generator and the runner behind `cargo xtask bench`.
//! Every proxy is driven as a process, Tidegate like the others; no crate of the proxy is used here. How to read the figures: README.md.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test says by panicking that something was not as expected"))]

mod backend;
mod client;
mod content;
mod load;
mod net;
mod procfs;
mod relay;
mod run;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::load::LoadOptions;
use crate::load::idle::IdleOptions;
use crate::run::RunOptions;
use crate::run::child::PinnedOptions;

#[derive(Debug, Parser)]
#[command(name = "tidegate-bench", about, version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves the benchmark's pages over HTTP/1.1, as cheaply as it can.
    Backend {
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Copies bytes between clients and an upstream, without looking at them.
    Relay {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        to: SocketAddr,
    },
    Load(LoadOptions),
    Idle(IdleOptions),
    Run(RunOptions),
    #[command(hide = true)]
    Pinned(PinnedOptions),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Backend { listen } => backend::serve(listen),
        Command::Relay { listen, to } => relay::serve(listen, to),
        Command::Load(options) => load::run(&options),
        Command::Idle(options) => load::idle::run(&options),
        Command::Run(options) => run::run(&options),
        Command::Pinned(options) => run::child::become_pinned(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
