//! The program: reads the command line and hands over. Each command has a file in `commands`.

mod allocator;
mod cli;
mod commands;
mod image;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

/// Memory that is free is given back to the system: what the process uses is what its budget is compared with.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    tidegate_control::memory::set_purge(allocator::purge);
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => return refuse_arguments(&error),
    };
    match command {
        Command::Run { config, watch } => commands::run::run(&config, watch),
        Command::Proxy { from, to, admin } => commands::proxy::run(&from, &to, admin.as_deref()),
        Command::Serve { folder, from, listing, fallback, admin } => {
            commands::serve::run(&commands::serve::ServeWanted { folder, from, listing, fallback, admin })
        }
        Command::Demo { port } => commands::demo::run(port),
        Command::Check { file, config } => commands::check::run(&config.unwrap_or(file)),
        Command::Explain { config, request: Some(id), reach, .. } => commands::explain_running::past(&config, &reach, &id),
        Command::Explain { config, method, url, header, from, running, reach, request: None } => {
            let (method, url) = (method.unwrap_or_default(), url.unwrap_or_default());
            if running {
                return commands::explain_running::run(&config, &reach, method, url, header, from);
            }
            commands::explain::run(&config, &method, &url, &header, from.as_deref())
        }
        Command::Plan { file, reach } => commands::change::plan(&file, &reach),
        Command::Apply { file, confirm, max_error_rise, reach } => {
            commands::change::apply(&file, confirm, max_error_rise, &reach)
        }
        Command::Confirm { running } => commands::change::confirm(&running),
        Command::Rollback { to, running } => commands::change::roll_back(to, &running),
        Command::History { from, to, running } => commands::history::run(from, to, &running),
        Command::Status { json, running } => commands::status::run(json, &running),
        Command::Top { running } => commands::top::run(&running),
        Command::Drain { server, running } => commands::drain::run(&server, "drain", &running),
        Command::Logs(wanted) => commands::logs::run(&wanted),
        Command::Purge { urls, tags, all, soft, running } => {
            commands::purge::run(commands::purge::PurgeWanted { urls, tags, all, soft }, &running)
        }
        Command::Undrain { server, running } => commands::drain::run(&server, "undrain", &running),
        Command::Upgrade { binary, running } => commands::upgrade::run(binary.as_deref(), &running),
        Command::Fmt { file, check } => commands::fmt::run(&file, check),
        Command::Cert { command } => commands::cert::run(command),
        Command::HashPassword { name, algorithm } => commands::hash_password::run(name.as_deref(), algorithm),
        Command::Schema => commands::facts::schema(),
        Command::Completions { shell } => commands::facts::completions(shell),
        Command::Version => commands::facts::version(),
    }
}

/// Prints what clap has to say: help for who asks for it, else what is wrong.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    // Nothing can be done for somebody who closed standard error.
    let _ = error.print();
    // `explain` says with clap's exit code, 2, that nobody takes the request.
    let is_explain = std::env::args_os().nth(1).is_some_and(|word| word == "explain");
    match u8::try_from(error.exit_code()) {
        Ok(code) if code == 0 || !is_explain => ExitCode::from(code),
        _ => ExitCode::from(commands::FAILED),
    }
}
