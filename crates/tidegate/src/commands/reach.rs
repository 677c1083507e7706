//! How commands find the running process, prove that they may, and say what it answered. What it is asked is with each
//! command.

use super::{FAILED, report};
use crate::cli::{DEFAULT_CONFIG, Reach, Running};
use std::path::Path;
use std::process::ExitCode;
use tidegate_admin::client::{AdminAddress, Client, ClientFault};
use tidegate_admin::token::{self, Token};
use tidegate_certs::default_state_dir;
use tidegate_config::{Loaded, load_path};
use tidegate_model::{Admin, Secret};

/// Exit code when no process answers.
const UNREACHABLE: u8 = 2;
const TOKEN_VARIABLE: &str = "TIDEGATE_ADMIN_TOKEN";
/// The remedy for who types commands; that of the API speaks of header fields.
const WHICH_TOKEN: &str = "name the file with its token by --token-file: `admin-token` in the state folder of the process, or what `admin` has as `token=`";
/// The status of an answer to whoever has no token, or another one.
const UNAUTHORIZED: u16 = 401;

/// For commands without a configuration of their own.
pub fn running(running: &Running) -> Result<Client, String> {
    match &running.config {
        Some(config) => client(&running.reach, &load_path(config), config),
        None if Path::new(DEFAULT_CONFIG).is_file() => {
            client(&running.reach, &load_path(Path::new(DEFAULT_CONFIG)), Path::new(DEFAULT_CONFIG))
        }
        None => with_endpoint(&running.reach, None, || Ok(Admin::default())),
    }
}

/// The process that runs, or is to run, this configuration.
pub fn client(reach: &Reach, loaded: &Loaded, name: &Path) -> Result<Client, String> {
    let configured = loaded.configuration.as_ref().and_then(|configuration| configuration.admin_token.as_ref());
    with_endpoint(reach, configured, || admin_of(loaded, name))
}

fn with_endpoint(
    reach: &Reach,
    configured: Option<&Secret>,
    admin: impl FnOnce() -> Result<Admin, String>,
) -> Result<Client, String> {
    let endpoint = match &reach.admin {
        Some(text) => AdminAddress::parse(text)?,
        None => AdminAddress::of(&admin()?).ok_or(
            "the configuration says `admin \"off\"`, so its process cannot be asked\n  help: give it an endpoint, as in `admin \"unix:/run/tidegate.sock\"`",
        )?,
    };
    let token = token(reach, configured, &endpoint)?;
    Ok(Client { endpoint, token })
}

/// A configuration with errors still says where its process is: those errors may be only here, where its variables are
/// not set.
fn admin_of(loaded: &Loaded, name: &Path) -> Result<Admin, String> {
    if let Some(configuration) = &loaded.configuration {
        return Ok(configuration.admin.clone());
    }
    let Some(location) = &loaded.spans.admin else {
        report(loaded);
        let text =
            "so it is not known where its process is\n  help: correct them, or name the endpoint of the process with --admin";
        return Err(format!("{} has errors, {text}", name.display()));
    };
    let file = loaded.files.file(location.file);
    let text = file.text.get(location.span.clone()).unwrap_or_default().trim_matches('"');
    match text.strip_prefix("unix:") {
        Some(path) => Ok(Admin::Unix(file.directory.join(path))),
        None if text == "off" => Ok(Admin::Off),
        None => text.parse().map(Admin::Tcp).map_err(|_| {
            format!("{} has errors, and its `admin` is not an address\n  help: name the endpoint with --admin", name.display())
        }),
    }
}

fn token(reach: &Reach, configured: Option<&Secret>, endpoint: &AdminAddress) -> Result<Option<Token>, String> {
    if let Some(file) = &reach.token_file {
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("the token file {} cannot be read: {error}\n  help: {WHICH_TOKEN}", file.display()))?;
        return Ok(Some(Token::new(&text)));
    }
    if let Some(text) = std::env::var_os(TOKEN_VARIABLE) {
        return Ok(Some(Token::new(&text.to_string_lossy())));
    }
    // Tokens of the configuration and of the state folder are for this machine, unless the configuration itself names
    // the address.
    if let Some(secret) = configured.filter(|_| reach.admin.is_none() || endpoint.is_on_this_machine()) {
        return Ok(Some(Token::new(secret.reveal())));
    }
    if !endpoint.is_on_this_machine() {
        return Ok(None);
    }
    match token::read(&default_state_dir().join(token::FILE_NAME)) {
        Ok(token) => Ok(token),
        Err(fault) => {
            // The process says whether it needs one; on a socket it does not.
            if let AdminAddress::Tcp(_) = endpoint {
                eprintln!("note: {fault}");
            }
            Ok(None)
        }
    }
}

/// Says why nothing came of it.
pub fn failed(fault: &ClientFault) -> ExitCode {
    match fault {
        ClientFault::Unreachable { .. } | ClientFault::Unreadable { .. } => {
            eprintln!("error: {fault}");
            ExitCode::from(UNREACHABLE)
        }
        ClientFault::Refused(problem) => {
            match &problem.diagnostics {
                Some(diagnostics) => {
                    eprint!("{diagnostics}");
                    eprintln!("the running configuration stays");
                }
                None if problem.status == UNAUTHORIZED => eprintln!("error: {}\n  help: {WHICH_TOKEN}", problem.detail),
                None => eprintln!("error: {fault}"),
            }
            ExitCode::from(FAILED)
        }
    }
}

/// Runs what a command does with the process, and says what went wrong with either.
pub fn with(client: Result<Client, String>, work: impl FnOnce(&Client) -> Result<(), ClientFault>) -> ExitCode {
    match client {
        Err(message) => super::fail(&message),
        Ok(client) => match work(&client) {
            Ok(()) => ExitCode::SUCCESS,
            Err(fault) => failed(&fault),
        },
    }
}
