//! `tidegate run`: load, prepare everything that can fail, run.

use super::{fail, read_stdin, report};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tidegate_certs::default_state_dir;
use tidegate_config::LoadMemory;
use tidegate_control::succession::{Inheritance, inherit};
use tidegate_control::{Prepared, Source, StartOptions, prepare, source, systemd};
use tidegate_telemetry::events;

pub fn run(config: &Path, watch: bool) -> ExitCode {
    let config = config.to_owned();
    let source = move || {
        if config == Path::new("-") {
            Source::Text { name: "<stdin>".into(), text: read_stdin(), directory: std::env::current_dir().unwrap_or_default() }
        } else {
            Source::file(&config)
        }
    };
    serve(source, default_state_dir(), watch, || {})
}

/// Runs a configuration until it is told to stop. `started` is called once requests are served.
///
/// `source` is asked unless the process before has handed its own over: what came from standard input cannot be read
/// twice.
pub fn serve(source: impl FnOnce() -> Source, state_dir: PathBuf, watch: bool, started: impl FnOnce()) -> ExitCode {
    if let Err(fault) = tidegate_control::memory::check_address_space().and_then(|()| tidegate_control::descriptors::check()) {
        return fail(&fault);
    }
    // Before any thread runs: it changes the environment.
    let activation = systemd::activation_sockets();
    let inheritance = match inherit() {
        Ok(inheritance) => inheritance,
        Err(message) => return fail(&message),
    };
    let handed_over = inheritance.as_ref().and_then(|inheritance| inheritance.carried.source.clone());
    let source = handed_over.unwrap_or_else(source);
    let mut memory = LoadMemory::default();
    let loaded = source.load(&mut memory);
    report(&loaded);
    let Some(level) = loaded.configuration.as_ref().map(|configuration| configuration.log.level) else {
        return give_up(inheritance, "its configuration has errors");
    };
    let _events = match events::start(level) {
        Ok(guard) => guard,
        Err(error) => return fail(&error),
    };
    let read = match source::read(loaded) {
        Ok(read) => read,
        Err(diagnostics) => return fail(&diagnostics),
    };
    let options = StartOptions { source, memory, state_dir, version: env!("CARGO_PKG_VERSION"), watch, inheritance, activation };
    match prepare(read, options) {
        Ok(prepared) => live(prepared, started),
        // The process before hears of it by the end of this one.
        Err(fault) => fail(&fault.to_string()),
    }
}

fn live(mut prepared: Prepared, started: impl FnOnce()) -> ExitCode {
    let Some((listener, places)) = prepared.take_admin() else { return fail("the admin endpoint is served twice") };
    let admin = tidegate_admin::serve(listener, places, prepared.handle());
    let started = || {
        crate::image::let_go();
        started();
    };
    match prepared.run(admin, started) {
        Ok(code) => code,
        Err(error) => fail(&error.to_string()),
    }
}

fn give_up(inheritance: Option<Inheritance>, reason: &str) -> ExitCode {
    if let Some(inheritance) = inheritance {
        // It goes on, and can say why.
        let _ = inheritance.succession.failed(reason);
    }
    ExitCode::from(super::FAILED)
}
