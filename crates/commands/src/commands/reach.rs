//! How commands find the running process, prove that they may, and say what it answered. What it is asked is with each
//! command.

use super::{FAILED, report};
use crate::cli::{DEFAULT_CONFIG, Reach, Running};
use crate::output;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use tidegate_admin::client::{AdminAddress, Client, ClientFault};
use tidegate_admin::token::{self, Token};
use tidegate_api::Status;
use tidegate_certs::{SYSTEM_STATE_DIR, default_state_dir};
use tidegate_config::{Loaded, load_path};
use tidegate_model::{Admin, AdminEndpoint, AdminPlace, AdminServes, Configuration, Secret};

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
        None => with_endpoint(&running.reach, &Admin::Default),
    }
}

/// The process that runs, or is to run, this configuration. A file that has changed may say another place than the one
/// where its process still is, or be so broken that it says none.
pub fn client(reach: &Reach, loaded: &Loaded, name: &Path) -> Result<Client, String> {
    let client = configured(reach, loaded, name);
    if reach.admin.is_some() || client.as_ref().is_ok_and(Client::is_answered) {
        return client;
    }
    match at_state_folder(name) {
        Some(known) => {
            if client.as_ref().map_or(true, |client| client.endpoint != known.endpoint) {
                eprintln!("note: the process of {} is asked at {}", name.display(), known.endpoint);
            }
            Ok(known)
        }
        None if client.is_err() && loaded.spans.admin.is_empty() => {
            report(loaded);
            client
        }
        None => client,
    }
}

/// Where the file says that its process is; nobody is asked.
pub fn configured(reach: &Reach, loaded: &Loaded, name: &Path) -> Result<Client, String> {
    match &loaded.configuration {
        Some(configuration) => with_endpoint(reach, &configuration.admin),
        // Nothing of it is needed.
        None if reach.admin.is_some() => with_endpoint(reach, &Admin::Default),
        None => with_endpoint(reach, &admin_of_faulty(loaded, name)?),
    }
}

/// Whoever answers on the socket of the state folder, where that is the process of this file.
fn at_state_folder(name: &Path) -> Option<Client> {
    let reach = Reach { admin: None, token_file: None };
    let endpoints = Admin::Default.endpoints(&default_state_dir());
    let socket = endpoints.iter().map(|configured| AdminAddress::of(&configured.place));
    let endpoint = socket.into_iter().find(|endpoint| matches!(endpoint, AdminAddress::Unix(_)))?;
    let token = token(&reach, None, &endpoint).unwrap_or_default();
    let client = Client { endpoint, token };
    let status: Status = client.fetch_soon("/v1/status").ok()?;
    let of_process = Path::new(&status.source).canonicalize().ok()?;
    (name.canonicalize().ok()? == of_process).then_some(client)
}

fn with_endpoint(reach: &Reach, admin: &Admin) -> Result<Client, String> {
    let endpoints = admin.endpoints(&default_state_dir());
    let configured = match &reach.admin {
        Some(text) => return named(reach, AdminAddress::parse(text)?, &endpoints),
        None => best(&endpoints).ok_or(
            "the configuration says `admin \"off\"`, so its process cannot be asked\n  help: give it an endpoint, as in `admin \"unix:/run/tidegate.sock\"`",
        )?,
    };
    let endpoint = AdminAddress::of(&configured.place);
    let token = token(reach, configured.token.as_ref(), &endpoint)?;
    Ok(Client { endpoint, token })
}

/// Every place where a process may be asked that is to take a configuration on: those that it names itself, and the
/// socket of the state folder.
pub fn candidates(configuration: &Configuration) -> Vec<Client> {
    let state_dir = default_state_dir();
    let reach = Reach { admin: None, token_file: None };
    let mut clients: Vec<Client> = Vec::new();
    let of_default = Admin::Default.endpoints(&state_dir);
    for configured in configuration.admin.endpoints(&state_dir).iter().chain(&of_default) {
        let endpoint = AdminAddress::of(&configured.place);
        // Without a token it may answer all the same.
        let token = token(&reach, configured.token.as_ref(), &endpoint).unwrap_or_default();
        if configured.serves == AdminServes::Everything && clients.iter().all(|known| known.endpoint != endpoint) {
            clients.push(Client { endpoint, token });
        }
    }
    clients
}

/// By `--admin`. A token of the configuration is for the place that has it, and for this machine.
fn named(reach: &Reach, endpoint: AdminAddress, endpoints: &[AdminEndpoint]) -> Result<Client, String> {
    let is_named = |configured: &&AdminEndpoint| AdminAddress::of(&configured.place) == endpoint;
    let of_place = endpoints.iter().find(is_named).or_else(|| best(endpoints).filter(|_| endpoint.is_on_this_machine()));
    let token = token(reach, of_place.and_then(|configured| configured.token.as_ref()), &endpoint)?;
    Ok(Client { endpoint, token })
}

/// The one that is most likely to let a command of this machine in.
fn best(endpoints: &[AdminEndpoint]) -> Option<&AdminEndpoint> {
    let with_api = endpoints.iter().filter(|endpoint| endpoint.serves == AdminServes::Everything);
    with_api.min_by_key(|endpoint| match &endpoint.place {
        AdminPlace::Unix(_) => 0,
        AdminPlace::Tcp(address) if address.ip().is_loopback() => 1,
        AdminPlace::Tcp(address) if address.ip().is_unspecified() => 2,
        AdminPlace::Tcp(_) => 3,
    })
}

/// A configuration with errors still says where its process is: those errors may be only here, where its variables are
/// not set.
fn admin_of_faulty(loaded: &Loaded, name: &Path) -> Result<Admin, String> {
    if loaded.spans.admin.is_empty() {
        let text =
            "so it is not known where its process is\n  help: correct them, or name the endpoint of the process with --admin";
        return Err(format!("{} has errors, {text}", name.display()));
    }
    let mut written = Vec::new();
    for (serves, location) in &loaded.spans.admin {
        let file = loaded.files.file(location.file);
        let text = file.text.get(location.span.clone()).unwrap_or_default().trim_matches('"');
        let place = match text.strip_prefix("unix:") {
            Some(path) => AdminPlace::Unix(file.directory.join(path)),
            None if text == "off" => return Ok(Admin::Off),
            None => text.parse().map(AdminPlace::Tcp).map_err(|_| {
                format!(
                    "{} has errors, and its `admin` is not an address\n  help: name the endpoint with --admin",
                    name.display()
                )
            })?,
        };
        written.push(AdminEndpoint::new(place, *serves));
    }
    Ok(Admin::At(written))
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
    if let Some(secret) = configured {
        return Ok(Some(Token::new(secret.reveal())));
    }
    // The token of the state folder is for this machine.
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
        ClientFault::Unreachable { .. } | ClientFault::Forbidden { .. } | ClientFault::Unreadable { .. } => {
            output::say_fault(&told(fault));
            ExitCode::from(UNREACHABLE)
        }
        ClientFault::Refused(problem) => {
            if output::is_json() {
                eprintln!("{}", serde_json::json!({ "error": problem }));
                return ExitCode::from(FAILED);
            }
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

/// Without `admin` in the file, a process is asked by the socket of its state folder: the service's is closed to
/// others, and the one of this user has nobody behind it.
fn told(fault: &ClientFault) -> String {
    let closed = Path::new(SYSTEM_STATE_DIR);
    let is_closed = std::fs::read_dir(closed).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    match fault {
        ClientFault::Unreachable { endpoint: AdminAddress::Unix(socket), .. }
            if is_closed && socket.starts_with(default_state_dir()) =>
        {
            format!(
                "permission: the service has its socket in {}, which this user may not enter, and nobody answers at {}\n  help: run this with sudo; or have the service say `admin \"unix:/run/tidegate/admin.sock\"` and join its group",
                closed.display(),
                socket.display()
            )
        }
        ClientFault::Unreachable { .. }
        | ClientFault::Forbidden { .. }
        | ClientFault::Unreadable { .. }
        | ClientFault::Refused(_) => fault.to_string(),
    }
}

/// Runs what a command does with the process, and says what went wrong with either.
pub fn with(client: Result<Client, String>, work: impl FnOnce(&Client) -> Result<(), ClientFault>) -> ExitCode {
    with_code(client, |client| work(client).map(|()| ExitCode::SUCCESS))
}

/// Runs what a command does that has exit codes of its own.
pub fn with_code(client: Result<Client, String>, work: impl FnOnce(&Client) -> Result<ExitCode, ClientFault>) -> ExitCode {
    match client {
        Err(message) => super::fail(&message),
        Ok(client) => work(&client).unwrap_or_else(|fault| failed(&fault)),
    }
}
