//! Everything that the command line can ask for: reads it and hands over. Each command has a file in `commands`.

mod allocator;
mod cli;
mod commands;
mod image;
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
mod name_service;
mod output;

use clap::Parser;
use clap::error::ErrorKind;
use cli::{Cli, Command};
use std::path::Path;
use std::process::ExitCode;

/// Does what the arguments of the process ask for, and gives the status that it ends with. Called once, by the first
/// thread, before there are others.
pub fn run() -> ExitCode {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    name_service::keep_to_files_and_dns();
    tidegate_control::memory::set_purge(allocator::purge);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(&error),
    };
    output::set(output::Output { is_json: cli.json, colour: cli.color });
    match cli.command {
        Command::Run { config, watch, sharing } => commands::run::run(config.path(), watch, sharing),
        Command::Proxy { from, to, admin, sharing } => commands::proxy::run(&from, &to, admin.as_deref(), sharing),
        Command::Serve { folder, from, listing, fallback, admin, sharing } => {
            commands::serve::run(&commands::serve::ServeWanted { folder, from, listing, fallback, admin, sharing })
        }
        Command::Demo { port } => commands::demo::run(port),
        Command::Check { config, sharing } => commands::check::run(config.path(), sharing),
        Command::Explain { config, request: Some(id), reach, .. } => commands::explain_running::past(&config, &reach, &id),
        Command::Explain { config, method, url, header, from, running, reach, request: None } => {
            let (method, url) = (method.unwrap_or_default(), url.unwrap_or_default());
            if running {
                return commands::explain_running::run(&config, &reach, method, url, header, from);
            }
            commands::explain::run(&config, &method, &url, &header, from.as_deref())
        }
        Command::Compare(wanted) => commands::compare::run(&wanted),
        Command::Plan { config, exit_code, reach } => commands::change::plan(config.path(), exit_code, &reach),
        Command::Apply { config, confirm, max_error_rise, reach } => {
            commands::change::apply(config.path(), confirm, max_error_rise, &reach)
        }
        Command::Confirm { running } => commands::change::confirm(&running.running()),
        Command::Rollback { to, running } => commands::change::roll_back(to, &running),
        Command::History { from, to, since, running } => commands::history::run(from, to, since, &running),
        Command::Status { all, running } => commands::status::run(all, &running.running()),
        Command::Top { running } => commands::top::run(&running.running()),
        Command::Drain { server, running } => commands::drain::run(&server, "drain", &running),
        Command::Logs(wanted) => commands::logs::run(&wanted),
        Command::Purge { urls, tags, all, soft, running } => {
            commands::purge::run(commands::purge::PurgeWanted { urls, tags, all, soft }, &running)
        }
        Command::Undrain { server, running } => commands::drain::run(&server, "undrain", &running),
        Command::Upgrade { binary, running } => commands::upgrade::run(binary.as_deref(), &running.running()),
        Command::Fmt { config, check } => commands::fmt::run(config.path(), check),
        Command::Import { from, files, base, report, questions } => {
            commands::import::run(&commands::import::Wanted { peer: from, files, base, report, questions })
        }
        Command::Cert { command } => commands::cert::run(command),
        Command::Kubernetes { command } => commands::kubernetes::run(command),
        Command::Map { command } => commands::map::run(command),
        Command::HashPassword { name, algorithm } => commands::hash_password::run(name.as_deref(), algorithm),
        Command::HashKey { name, expires, stdin } => commands::hash_key::run(&name, expires.as_deref(), stdin),
        Command::Schema => commands::facts::schema(),
        Command::Completions { shell } => commands::completions::run(shell),
        Command::Man { folder } => commands::facts::manual(&folder),
        Command::Names { of, running } => commands::completions::names(of, &running),
        Command::Version => commands::facts::version(),
    }
}

/// Words of other servers, or of other times, that are a command here.
const CALLED_OTHERWISE: &[(&[&str], &str)] = &[
    (
        &["validate", "test", "configtest", "-t", "-T", "--test"],
        "`tidegate check FILE` says everything that is wrong with a configuration",
    ),
    (
        &["reload", "-s"],
        "`tidegate apply` has the running process take on its configuration, and says what changes; `systemctl reload tidegate` and SIGHUP do it, too",
    ),
    (&["reverse-proxy"], "`tidegate proxy --from :8443 --to 127.0.0.1:9000` proxies without a file"),
    (&["file-server", "file_server"], "`tidegate serve DIR` serves the files of a folder"),
    (&["start"], "`tidegate run FILE` runs in the foreground; `systemctl start tidegate` in the background"),
    (&["stop", "quit"], "SIGTERM ends a process gently: `systemctl stop tidegate`, or `kill PID`"),
    (
        &["restart"],
        "`tidegate upgrade` starts the program anew and loses no connection; `systemctl restart tidegate` does it with a pause",
    ),
    (&["diff"], "`tidegate plan FILE` says what a configuration would change"),
    (&["format"], "`tidegate fmt FILE` writes a configuration in its canonical layout"),
    (&["trust", "untrust"], "`tidegate cert trust` has this machine trust the internal CA, and `--uninstall` takes it out again"),
    (&["healthcheck", "health"], "`tidegate status` asks the running process; `/healthz` and `/readyz` are for probes"),
    (
        &["adapt", "convert", "migrate"],
        "`tidegate import nginx FILE` writes a configuration of nginx in this language, and so for caddy, haproxy, traefik, envoy and compose",
    ),
];

/// Whether a word on its own is a file rather than a command.
fn is_configuration(word: &str) -> bool {
    let path = Path::new(word);
    path.extension().is_some_and(|extension| extension == "kdl") || path.is_file()
}

/// Prints what clap has to say: help for who asks for it, else what is wrong.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    let word = std::env::args().nth(1).unwrap_or_default();
    let is_unknown = matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument);
    let known = CALLED_OTHERWISE.iter().find(|(words, _)| is_unknown && words.contains(&word.as_str()));
    match known {
        Some((_, help)) => eprintln!("error: there is no `tidegate {word}`\n  help: {help}"),
        None if is_unknown && is_configuration(&word) => {
            let word = word.escape_debug();
            eprintln!(
                "error: what to do with {word} is not said\n  help: `tidegate run {word}` runs it, `tidegate check {word}` says what is wrong with it"
            );
        }
        // Nothing can be done for somebody who closed standard error.
        None => drop(error.print()),
    }
    // `explain` says with clap's exit code, 2, that nobody takes the request.
    let is_explain = word == "explain";
    match u8::try_from(error.exit_code()) {
        Ok(code) if code == 0 || !is_explain => ExitCode::from(code),
        _ => ExitCode::from(commands::FAILED),
    }
}
