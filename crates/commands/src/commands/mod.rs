//! One file per command, and what several of them share: loading a configuration and saying what is wrong with it.

pub mod cert;
pub mod change;
pub mod check;
pub mod compare;
pub mod completions;
pub mod demo;
pub mod diagnostics;
pub mod drain;
pub mod explain;
pub mod explain_running;
pub mod facts;
pub mod fmt;
pub mod hash_key;
pub mod hash_password;
pub mod history;
pub mod import;
pub mod kubernetes;
mod kubernetes_check;
pub mod logs;
pub mod map;
pub mod proxy;
pub mod purge;
pub mod reach;
pub mod run;
pub mod serve;
pub mod status;
mod status_kubernetes;
pub mod table;
pub mod top;
pub mod upgrade;
mod whole_file;

use crate::output;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use tidegate_config::{Loaded, Severity, load_path, load_text, render};

/// Exit code of a configuration with errors, and of anything else that cannot be done.
pub const FAILED: u8 = 1;

/// Reads a configuration from a file or, for `-`, from standard input.
pub fn load(file: &Path) -> Loaded {
    if file != Path::new("-") {
        return load_path(file);
    }
    load_text("<stdin>", &read_stdin(), &std::env::current_dir().unwrap_or_default())
}

/// All of standard input; there is nothing to do without it.
pub fn read_stdin() -> String {
    let mut text = String::new();
    match std::io::stdin().read_to_string(&mut text) {
        Ok(_) => text,
        Err(error) => fail_loudly(&format!("standard input cannot be read: {error}")),
    }
}

/// Prints the diagnostics to standard error, and how many there are.
pub fn report(loaded: &Loaded) {
    if loaded.diagnostics.is_empty() {
        return;
    }
    if output::is_json() {
        eprintln!("{}", diagnostics::json_of(&loaded.diagnostics, &loaded.files));
        return;
    }
    eprint!("{}", render(&loaded.diagnostics, &loaded.files, output::has_colour()));
    let count = |severity| loaded.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count();
    let (errors, warnings, notes) = (count(Severity::Error), count(Severity::Warning), count(Severity::Note));
    eprint!("{errors} error{}, {warnings} warning{}", plural(errors), plural(warnings));
    if notes > 0 {
        eprint!(", {notes} note{}", plural(notes));
    }
    eprintln!();
}

pub fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

pub fn fail(message: &str) -> ExitCode {
    output::say_fault(message);
    ExitCode::from(FAILED)
}

/// For the one place that has nothing to return.
fn fail_loudly(message: &str) -> ! {
    output::say_fault(message);
    std::process::exit(i32::from(FAILED))
}
