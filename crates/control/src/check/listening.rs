//! Whether addresses can be listened on: those of sites, of `tcp` and of the admin endpoint. What a process holds that
//! runs this configuration already is no fault; what another holds is, as it is at the start.

use super::{Circumstances, Finding, Place, can_write_into};
use crate::bind::{BindFault, Obstacle, is_shared, probe};
use crate::company::{Running, Whose};
use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use tidegate_certs::Severity;
use tidegate_model::listening::listen_address;
use tidegate_model::{AdminEndpoint, AdminPlace, Configuration, ListenAddress, SocketName};
use tidegate_transport::sockets::{self, ListenOptions};

pub(super) fn check_listening(
    configuration: &Configuration,
    state_dir: &Path,
    circumstances: Circumstances<'_>,
    findings: &mut Vec<Finding>,
) {
    let running = Running::of(circumstances.source);
    let of_sites = configuration.sites.iter().flat_map(|site| &site.addresses);
    let of_sites = of_sites.map(|address| (listen_address(&address.host, address.port), Place::Address(address.clone())));
    let of_tcp = configuration.tcp.iter().enumerate().map(|(position, tcp)| (tcp.listen_address(), Place::Tcp(position)));
    let mut seen = BTreeSet::new();
    for (listen, place) in of_sites.chain(of_tcp) {
        if seen.insert(listen) {
            findings.extend(check_address(listen, place, &running, circumstances.share_port));
        }
    }
    check_admin(configuration, state_dir, &running, findings);
}

fn check_address(listen: ListenAddress, place: Place, running: &Running, share_port: bool) -> Option<Finding> {
    let obstacle = if is_shared(listen) { Obstacle::OtherConfiguration } else { probe(listen).err()?.into() };
    let is_shared = matches!(obstacle, Obstacle::OtherConfiguration);
    let warning =
        |message, help| Finding { severity: Severity::Warning, code: "address-shared", place: place.clone(), message, help };
    if is_shared || is_taken(&obstacle) {
        match running.whose(listen) {
            Whose::Own => return None,
            // Who shares with this process is of its user, and there is one of this configuration.
            Whose::Unknown if is_shared && running.has_own_user() => return None,
            Whose::Unknown => return Some(warning(cannot_be_seen(listen, running), Some(SEEN_BY_ITS_USER.into()))),
            Whose::Another if is_shared && share_port => {
                let message = format!("another process of this user listens on {listen} already, and would share it");
                return Some(warning(message, Some("that is what `--share-port` is for".into())));
            }
            Whose::Another => {}
        }
    }
    let fault = BindFault { address: listen, obstacle };
    Some(Finding { severity: Severity::Error, code: "address-in-use", place, message: fault.what(), help: Some(fault.help()) })
}

fn is_taken(obstacle: &Obstacle) -> bool {
    matches!(obstacle, Obstacle::System(error) if error.kind() == io::ErrorKind::AddrInUse)
}

fn cannot_be_seen(listen: ListenAddress, running: &Running) -> String {
    format!("{listen} is taken, perhaps by {}, which runs this configuration", running.shown())
}

const SEEN_BY_ITS_USER: &str = "as root `check` sees whose it is; what another program holds cannot be listened on";

fn check_admin(configuration: &Configuration, state_dir: &Path, running: &Running, findings: &mut Vec<Finding>) {
    let written: Vec<AdminEndpoint> = configuration.admin.endpoints(state_dir);
    for (position, endpoint) in written.iter().filter(|endpoint| !endpoint.is_implied).enumerate() {
        let finding = |code, message: String, help: String| Finding {
            severity: Severity::Error,
            code,
            place: Place::Admin(position),
            message,
            help: Some(help),
        };
        match &endpoint.place {
            AdminPlace::Unix(path) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                if let Err(why) = can_write_into(folder) {
                    let message = format!("the admin socket {} cannot be made: {why}", path.display());
                    let help = format!("create {} and let this user write there", folder.display());
                    findings.push(finding("admin-socket", message, help));
                } else if let Some(name) = SocketName::of_path(path) {
                    let listen = ListenAddress::Unix(name);
                    findings.extend(probe(listen).err().and_then(|error| taken_admin_place(listen, error, running, position)));
                }
            }
            AdminPlace::Tcp(address) => {
                let site = configuration.sites.iter().flat_map(|site| &site.addresses).find(|site| {
                    let Some(listen) = listen_address(&site.host, site.port).tcp() else { return false };
                    listen.port() == address.port() && (listen.ip().is_unspecified() || listen.ip() == address.ip())
                });
                let alone = ListenOptions { reuse_port: false, ..ListenOptions::default() };
                if let Some(site) = site {
                    let message = format!("the admin endpoint {address} is on the address of the site {site}");
                    findings.push(finding("duplicate-listener", message, "give one of them another port".into()));
                } else if let Err(error) = sockets::probe(*address, alone) {
                    findings.extend(taken_admin_place((*address).into(), error, running, position));
                }
            }
        }
    }
}

/// Nothing to say where the process has it whose configuration is being checked; another is an error, as at the start.
fn taken_admin_place(listen: ListenAddress, error: io::Error, running: &Running, position: usize) -> Option<Finding> {
    let is_taken = error.kind() == io::ErrorKind::AddrInUse;
    let whose = if is_taken { running.whose(listen) } else { Whose::Another };
    let fault = BindFault { address: listen, obstacle: error.into() };
    let (severity, message, help) = match whose {
        Whose::Own => return None,
        Whose::Unknown if listen.tcp().is_none_or(answers_as_tidegate) => {
            (Severity::Warning, cannot_be_seen(listen, running), SEEN_BY_ITS_USER.to_owned())
        }
        Whose::Unknown | Whose::Another if listen.tcp().is_some_and(|address| is_taken && answers_as_tidegate(address)) => {
            let help =
                "a Tidegate with another configuration answers there: end it, or give one of them another address with `admin`";
            (Severity::Error, fault.what(), help.to_owned())
        }
        Whose::Unknown | Whose::Another => (Severity::Error, fault.what(), fault.help()),
    };
    Some(Finding { severity, code: "admin-address-in-use", place: Place::Admin(position), message, help: Some(help) })
}

/// Whether `/readyz` says there what ours says. A process on this machine answers at once.
fn answers_as_tidegate(mut address: SocketAddr) -> bool {
    const PATIENCE: Duration = Duration::from_secs(1);
    const ANSWER_BYTES_MAX: u64 = 4096;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    let asked = || -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
        Ok(answer)
    };
    let words = ["starting\n", "ready\n", "draining\n"];
    asked().is_ok_and(|answer| words.iter().any(|word| answer.ends_with(&format!("\r\n\r\n{word}"))))
}
