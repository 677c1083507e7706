//! Commands that print a fact about the program: `schema`, `completions`, `version`.

use crate::cli::Cli;
use clap::CommandFactory;
use clap_complete::Shell;
use std::process::ExitCode;

pub fn schema() -> ExitCode {
    println!("{:#}", tidegate_config::schema());
    ExitCode::SUCCESS
}

pub fn completions(shell: Shell) -> ExitCode {
    clap_complete::generate(shell, &mut Cli::command(), "tidegate", &mut std::io::stdout());
    ExitCode::SUCCESS
}

pub fn version() -> ExitCode {
    println!("tidegate {}", env!("CARGO_PKG_VERSION"));
    println!("TLS: rustls with aws-lc-rs");
    println!("HTTP: 1.0, 1.1, 2");
    println!("drivers: {}", tidegate_control::drivers_here());
    println!("target: {}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let profile = if cfg!(debug_assertions) { "with debug assertions" } else { "optimised" };
    println!("built: {profile}");
    ExitCode::SUCCESS
}
