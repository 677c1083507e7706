//! The program: reads the command line and hands over. Each command has a file in `commands`.

mod cli;
mod commands;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run { config } => commands::run::run(&config),
        Command::Proxy { from, to, admin } => commands::proxy::run(&from, &to, admin.as_deref()),
        Command::Demo { port } => commands::demo::run(port),
        Command::Check { file, config } => commands::check::run(&config.unwrap_or(file)),
        Command::Fmt { file, check } => commands::fmt::run(&file, check),
        Command::Schema => commands::facts::schema(),
        Command::Completions { shell } => commands::facts::completions(shell),
        Command::Version => commands::facts::version(),
    }
}
