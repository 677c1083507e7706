//! Whether addresses can be listened on: those of sites, of `tcp` and of the admin endpoint. What a process holds that
//! runs this configuration already, or that can take it on, is no fault. What another holds is a warning here, since it
//! may be gone by the time of the start, where it is an error.

use super::answering::{HeldByRunning, Taken};
use super::{Circumstances, Finding, Place, can_write_into};
use crate::bind::{BindFault, Obstacle, is_shared, probe};
use crate::company::{Running, Whose};
use crate::open_sockets::listening_on;
use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use tidegate_certs::Severity;
use tidegate_model::{AdminEndpoint, AdminPlace, Configuration, ListenAddress, SiteAddress, SocketName};
use tidegate_transport::sockets::{self, ListenOptions};

const SEEN_BY_ITS_USER: &str = "as root `check` sees whose it is; what another program holds cannot be listened on";

/// Addresses on this machine, and who has them.
struct Addresses<'a> {
    /// The processes that run this configuration.
    running: Running,
    taken: Taken<'a>,
    /// Whether it is to run beside whoever listens, so that no process takes it on.
    share_port: bool,
}

/// Tells what the processes hold that can take the configuration on.
pub(super) fn check_listening(
    configuration: &Configuration,
    state_dir: &Path,
    circumstances: Circumstances<'_>,
    findings: &mut Vec<Finding>,
) -> Vec<HeldByRunning> {
    let addresses = Addresses {
        running: Running::of(circumstances.source),
        taken: Taken::new(circumstances.answering),
        share_port: circumstances.share_port,
    };
    let of_sites = configuration.sites.iter().flat_map(|site| &site.addresses);
    let of_sites =
        of_sites.flat_map(|address| address.listen_addresses().map(|listen| (listen, Place::Address(address.clone()))));
    let of_tcp = configuration.tcp.iter().enumerate().map(|(position, tcp)| (tcp.listen_address(), Place::Tcp(position)));
    let mut seen = BTreeSet::new();
    for (listen, place) in of_sites.chain(of_tcp) {
        if seen.insert(listen) {
            findings.extend(addresses.check(listen, place));
        }
    }
    addresses.check_admin(configuration, state_dir, findings);
    addresses.taken.noted()
}

impl Addresses<'_> {
    fn check(&self, listen: ListenAddress, place: Place) -> Option<Finding> {
        let obstacle = if is_shared(listen) { Obstacle::OtherConfiguration } else { probe(listen).err()?.into() };
        let is_shared = matches!(obstacle, Obstacle::OtherConfiguration);
        let fault = BindFault { address: listen, obstacle };
        // The system says that a port is forbidden before it says that somebody has it.
        let is_taken = fault.is_taken() || (fault.is_forbidden() && has_listener(listen));
        if !is_taken {
            // Who checks may have fewer rights than who runs.
            let severity = if fault.is_forbidden() { Severity::Warning } else { Severity::Error };
            let (message, help) = (fault.what(), Some(fault.help()));
            return Some(Finding { severity, code: "address-in-use", place, message, help });
        }
        let warning = |code, message, help| Some(Finding { severity: Severity::Warning, code, place, message, help: Some(help) });
        match self.running.whose(listen) {
            Whose::Own => None,
            // Who shares with this process is of its user, and there is one of this configuration.
            Whose::Unknown if is_shared && self.running.has_own_user() => None,
            Whose::Another if is_shared && self.share_port => {
                let message = format!("another process of this user listens on {listen} already, and would share it");
                warning("address-shared", message, "that is what `--share-port` is for".to_owned())
            }
            Whose::Unknown | Whose::Another if self.can_be_handed_over(listen) => None,
            Whose::Unknown => {
                let message = self.cannot_be_seen(listen);
                warning("address-shared", message, SEEN_BY_ITS_USER.to_owned())
            }
            Whose::Another => warning("address-in-use", self.held(listen, &fault), self.remedy(listen, &fault)),
        }
    }

    /// Whether a process has it that can take the configuration on.
    fn can_be_handed_over(&self, listen: ListenAddress) -> bool {
        !self.share_port && self.taken.is_by_answering(listen)
    }

    fn cannot_be_seen(&self, listen: ListenAddress) -> String {
        format!("{listen} is taken, perhaps by {}, which runs this configuration", self.running.shown())
    }

    fn held(&self, listen: ListenAddress, fault: &BindFault) -> String {
        match (self.taken.by(listen).shown(), &fault.obstacle) {
            (Some(who), _) => format!("{listen} is held by {who}"),
            (None, Obstacle::OtherConfiguration) => format!("{listen} is held by another process of this user"),
            (None, Obstacle::System(_)) => format!("{listen} is held by a process that this user may not see"),
        }
    }

    fn remedy(&self, listen: ListenAddress, fault: &BindFault) -> String {
        let held = self.taken.by(listen);
        if held.is_by_init() {
            return "right where its unit hands sockets over, as `tidegate.socket` does; any other process is refused at its start"
                .to_owned();
        }
        let begin = "a start is refused until it has gone, or this has another address";
        match (&fault.obstacle, held.shown()) {
            (Obstacle::OtherConfiguration, _) => format!(
                "{begin}; with `--share-port` the system gives each of them a part of the connections; a Tidegate that is to take this on answers where `admin` says"
            ),
            (Obstacle::System(_), Some(_)) => begin.to_owned(),
            (Obstacle::System(_), None) => format!("{begin}; {}", fault.help()),
        }
    }

    fn check_admin(&self, configuration: &Configuration, state_dir: &Path, findings: &mut Vec<Finding>) {
        let written: Vec<AdminEndpoint> = configuration.admin.endpoints(state_dir);
        for (position, endpoint) in written.iter().filter(|endpoint| !endpoint.is_implied).enumerate() {
            let error = |code, message: String, help: String| Finding {
                severity: Severity::Error,
                code,
                place: Place::Admin(position),
                message,
                help: Some(help),
            };
            match &endpoint.place {
                AdminPlace::Unix(path) => {
                    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                    if self.running.has_any() && is_forbidden(folder) {
                        // A process of this configuration has made it, whose folder is none of this user's.
                    } else if let Err(why) = can_write_into(folder) {
                        let message = format!("the admin socket {} cannot be made: {why}", path.display());
                        let help = format!("create {} and let this user write there", folder.display());
                        findings.push(error("admin-socket", message, help));
                    } else if let Some(name) = SocketName::of_path(path) {
                        let listen = ListenAddress::Unix(name);
                        findings.extend(probe(listen).err().and_then(|error| self.check_taken_admin(listen, error, position)));
                    }
                }
                AdminPlace::Tcp(address) => {
                    let alone = ListenOptions { reuse_port: false, ..ListenOptions::default() };
                    if let Some(site) = site_at(configuration, *address) {
                        let message = format!("the admin endpoint {address} is on the address of the site {site}");
                        findings.push(error("duplicate-listener", message, "give one of them another port".into()));
                    } else if let Err(error) = sockets::probe(*address, alone) {
                        findings.extend(self.check_taken_admin((*address).into(), error, position));
                    }
                }
            }
        }
    }

    /// Nothing to say where the process has it whose configuration is being checked, or that can take it on.
    fn check_taken_admin(&self, listen: ListenAddress, error: io::Error, position: usize) -> Option<Finding> {
        let fault = BindFault { address: listen, obstacle: error.into() };
        let finding = |severity, message, help| {
            Some(Finding { severity, code: "admin-address-in-use", place: Place::Admin(position), message, help: Some(help) })
        };
        if !fault.is_taken() {
            return finding(Severity::Error, fault.what(), fault.help());
        }
        match self.running.whose(listen) {
            Whose::Own => None,
            Whose::Unknown | Whose::Another if self.can_be_handed_over(listen) => None,
            Whose::Unknown if listen.tcp().is_none_or(answers_as_tidegate) => {
                finding(Severity::Warning, self.cannot_be_seen(listen), SEEN_BY_ITS_USER.to_owned())
            }
            Whose::Unknown | Whose::Another if listen.tcp().is_some_and(answers_as_tidegate) => {
                let message = format!("{}: a Tidegate with another configuration answers there", self.held(listen, &fault));
                let help = "end it, or give one of them another address with `admin`, which is never shared".to_owned();
                finding(Severity::Warning, message, help)
            }
            Whose::Unknown | Whose::Another => finding(Severity::Warning, self.held(listen, &fault), self.remedy(listen, &fault)),
        }
    }
}

fn has_listener(listen: ListenAddress) -> bool {
    listening_on(listen).is_ok_and(|sockets| !sockets.is_empty())
}

/// Whether the folder is there, and none of this user's.
fn is_forbidden(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK) == Err(rustix::io::Errno::ACCESS)
}

fn site_at(configuration: &Configuration, address: SocketAddr) -> Option<&SiteAddress> {
    configuration.sites.iter().flat_map(|site| &site.addresses).find(|site| {
        site.listen_addresses()
            .filter_map(|listen| listen.tcp())
            .any(|listen| listen.port() == address.port() && (listen.ip().is_unspecified() || listen.ip() == address.ip()))
    })
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
