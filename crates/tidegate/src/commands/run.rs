//! `tidegate run`: load, prepare everything that can fail, run.

use super::{fail, load, report};
use std::path::Path;
use std::process::ExitCode;
use tidegate_certs::default_state_dir;
use tidegate_control::prepare;
use tidegate_model::{Admin, Configuration};
use tidegate_telemetry::events;

pub fn run(config: &Path) -> ExitCode {
    let loaded = load(config);
    report(&loaded);
    match loaded.configuration {
        Some(configuration) => serve(configuration, default_state_dir(), || {}),
        None => ExitCode::from(super::FAILED),
    }
}

/// Runs a configuration until it is told to stop. `started` is called once requests are served.
pub fn serve(configuration: Configuration, state_dir: std::path::PathBuf, started: impl FnOnce()) -> ExitCode {
    let _events = match events::start(configuration.log.level) {
        Ok(guard) => guard,
        Err(error) => return fail(&error),
    };
    let admin_socket = match &configuration.admin {
        Admin::Unix(path) => Some(path.clone()),
        Admin::Off | Admin::Tcp(_) => None,
    };
    let admin = match tidegate_admin::bind(&configuration.admin) {
        Ok(admin) => admin,
        Err(error) => return fail(&admin_fault(&configuration.admin, &error)),
    };
    let prepared = match prepare(configuration, state_dir, env!("CARGO_PKG_VERSION")) {
        Ok(prepared) => prepared,
        Err(fault) => return fail(&fault.to_string()),
    };
    let admin = tidegate_admin::serve(admin, prepared.admin_state());
    let outcome = prepared.run(admin, started);
    if let Some(path) = admin_socket {
        // Nobody answers there any more.
        let _ = std::fs::remove_file(path);
    }
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

fn admin_fault(admin: &Admin, error: &std::io::Error) -> String {
    let (place, help) = match admin {
        Admin::Off => ("nowhere".to_owned(), ""),
        Admin::Tcp(address) => (address.to_string(), "choose another with `admin \"127.0.0.1:PORT\"`, or `admin \"off\"`"),
        Admin::Unix(path) => {
            (path.display().to_string(), "name a socket in a folder that exists and that this user may write to")
        }
    };
    format!("the admin endpoint cannot listen on {place}: {error}\n  help: {help}")
}
