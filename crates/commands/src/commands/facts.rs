//! Commands that print a fact about the program: `schema`, `man`, `version`.

use crate::cli::Cli;
use crate::output;
use clap::CommandFactory;
use std::path::Path;
use std::process::ExitCode;

pub fn schema() -> ExitCode {
    println!("{:#}", tidegate_config::schema());
    ExitCode::SUCCESS
}

/// A page for each command that is shown, `tidegate-cert-show.1` for one within another.
pub fn manual(folder: &Path) -> ExitCode {
    let pages = || -> std::io::Result<usize> {
        std::fs::create_dir_all(folder)?;
        clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), folder)?;
        let entries = std::fs::read_dir(folder)?.filter_map(Result::ok);
        Ok(entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "1")).count())
    };
    match pages() {
        Ok(count) => {
            println!("{count} pages in {}", folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => super::fail(&format!("the pages cannot be written to {}: {error}", folder.display())),
    }
}

pub fn version() -> ExitCode {
    let version = env!("CARGO_PKG_VERSION");
    let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let drivers = tidegate_control::drivers_here();
    let profile = if cfg!(debug_assertions) { "with debug assertions" } else { "optimised" };
    let facts = serde_json::json!({
        "version": version,
        "tls": "rustls with aws-lc-rs",
        "http": ["1.0", "1.1", "2"],
        "drivers": &drivers,
        "target": target,
        "built": profile,
    });
    output::say(&facts, || {
        format!(
            "tidegate {version}\nTLS: rustls with aws-lc-rs\nHTTP: 1.0, 1.1, 2\ndrivers: {drivers}\ntarget: {target}\nbuilt: {profile}\n"
        )
    });
    ExitCode::SUCCESS
}
