//! `tidegate run`: load, prepare everything that can fail, run.

use super::{diagnostics, fail, read_stdin, report};
use crate::cli::Sharing;
use crate::output;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tidegate_certs::default_state_dir;
use tidegate_config::LoadMemory;
use tidegate_control::objects::ObjectSource;
use tidegate_control::source::Remark;
use tidegate_control::succession::{Inheritance, inherit};
use tidegate_control::{Prepared, Source, StartOptions, prepare, source, systemd};
use tidegate_model::LogLevel;
use tidegate_telemetry::events;

pub fn run(config: &Path, watch: bool, sharing: Sharing) -> ExitCode {
    let config = config.to_owned();
    let source = move || {
        if config == Path::new("-") {
            Source::Text { name: "<stdin>".into(), text: read_stdin(), directory: std::env::current_dir().unwrap_or_default() }
        } else {
            Source::file(&config)
        }
    };
    serve(source, default_state_dir(), Life { watch, ends_with_terminal: false, sharing, objects: None }, || {})
}

/// What is no mistake in a file that stands beside the objects of a cluster: sites come, and listen, all the same.
const SAID_OF_FILES_ALONE: [&str; 2] = ["no-site", "unused-listener"];

/// What a process does of itself.
pub struct Life {
    /// A changed file of the configuration is applied.
    pub watch: bool,
    /// SIGHUP ends it, as when its terminal is closed.
    pub ends_with_terminal: bool,
    pub sharing: Sharing,
    /// Objects of a cluster say what is served, beside the configuration.
    pub objects: Option<ObjectSource>,
}

/// Runs a configuration until it is told to stop. `started` is called once requests are served.
///
/// `source` is asked unless the process before has handed its own over: what came from standard input cannot be read
/// twice.
pub fn serve(source: impl FnOnce() -> Source, state_dir: PathBuf, life: Life, started: impl FnOnce()) -> ExitCode {
    // Before any thread runs: it changes the environment.
    let activation = systemd::activation_sockets();
    // Before anything is said: what goes wrong at the start stands in the log like all that goes wrong later.
    let form = events::Form::by(output::is_json(), output::has_colour());
    let _events = match events::start(LogLevel::Info, form) {
        Ok(guard) => guard,
        Err(error) => return fail(&error),
    };
    let fail = |message: &str| fail_to_start(message, form);
    if let Err(fault) = tidegate_control::memory::check_address_space().and_then(|()| tidegate_control::descriptors::check()) {
        return fail(&fault);
    }
    let inheritance = match inherit() {
        Ok(inheritance) => inheritance,
        Err(message) => return fail(&message),
    };
    let handed_over = inheritance.as_ref().and_then(|inheritance| inheritance.carried.source.clone());
    let source = handed_over.unwrap_or_else(source);
    let mut memory = LoadMemory::default();
    let mut loaded = source.load(&mut memory);
    if life.objects.is_some() {
        loaded.diagnostics.retain(|diagnostic| !SAID_OF_FILES_ALONE.contains(&diagnostic.code));
    }
    match form {
        events::Form::Json => diagnostics::log(&loaded.diagnostics, &loaded.files),
        events::Form::Text { .. } => report(&loaded),
    }
    let Some(level) = loaded.configuration.as_ref().map(|configuration| configuration.log.level) else {
        return give_up(inheritance, "its configuration has errors");
    };
    events::set_level(level);
    let read = match source::read(loaded) {
        Ok(read) => read,
        Err(diagnostics) => return fail(&diagnostics),
    };
    if life.objects.is_none()
        && let Some(why) = inheritance.as_ref().and_then(|inheritance| inheritance.keeps_from(&read))
    {
        fail(&why);
        return give_up(inheritance, &why);
    }
    read.remarks.iter().for_each(Remark::log);
    let Life { watch, ends_with_terminal, sharing: Sharing { share_port }, objects } = life;
    let version = env!("CARGO_PKG_VERSION");
    let options = StartOptions {
        source,
        memory,
        state_dir,
        version,
        watch,
        share_port,
        ends_with_terminal,
        inheritance,
        objects,
        activation,
    };
    match prepare(read, options) {
        Ok(prepared) => live(prepared, started),
        // The process before hears of it by the end of this one.
        Err(fault) => fail(&fault.to_string()),
    }
}

/// Where the log is JSON, everything on standard error is.
fn fail_to_start(message: &str, form: events::Form) -> ExitCode {
    match form {
        events::Form::Text { .. } => fail(message),
        events::Form::Json => {
            // Of several faults each has its own remedy, and the text has them all.
            match message.split_once("\n  help: ") {
                Some((why, help)) if !help.contains("\n  help: ") => tracing::error!(help, "the process does not start: {why}"),
                Some(_) | None => tracing::error!("the process does not start: {message}"),
            }
            ExitCode::from(super::FAILED)
        }
    }
}

fn live(mut prepared: Prepared, started: impl FnOnce()) -> ExitCode {
    let Some(places) = prepared.take_admin() else { return fail("the admin endpoint is served twice") };
    let admin = tidegate_admin::serve(places, prepared.handle());
    let at_rest = || {
        // First what is allocated: that takes pages of the program itself.
        crate::allocator::purge();
        crate::image::let_go();
    };
    match prepared.run(admin, started, at_rest) {
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
