//! What only this machine can tell about a configuration: whether certificates fit, ports are free, names resolve. For
//! `tidegate check`; nothing is changed and nothing stays open. Addresses are in `listening`.

mod answering;
mod listening;
mod state_folder;

use crate::containers::Containers;
use crate::descriptors;
use crate::discovery::{FIRST_ANSWERS_LIMIT, FirstWord, first_words};
use crate::driver::{Chosen, DRIVER_HELP};
use crate::geo_files::{GeoFiles, read_databases, unknown_fields};
use crate::issuing::names_obtained;
use crate::map_files::faults_of_maps;
use crate::memory::check_address_space;
use crate::named_files::{api_key_file_of, api_keys, auths, file_of, key_file_of, key_sources, provider_authorities};
use crate::shared_certificates::{CertificateSharing, share_certificates};
use crate::source::Source;
use crate::workers::worker_count;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use tidegate_certs::trust::roots_of_file;
use tidegate_certs::{CertFinding, FileKeys, Severity, TlsProcessState, check_shared, check_site, check_upstream};
use tidegate_config::Labelled;
use tidegate_model::{
    Configuration, Discover, FastCgi, KeySource, LogTarget, Pool, SiteAddress, Storage, TcpAddress, Terminal, UpstreamAddress,
};
use tidegate_proxy::auth::{STRONGER_HASHES, read_api_keys, read_keys, read_users, weak_hashes_said};
use tidegate_transport::ring::Unavailable;

pub use answering::{Answering, HeldByRunning};

/// What there is to say of a configuration.
#[derive(Debug)]
pub struct Checked {
    pub findings: Vec<Finding>,
    /// What running processes hold that can take the configuration on: good to know, and nothing to mend.
    pub held: Vec<HeldByRunning>,
}

#[derive(Debug)]
pub struct Finding {
    pub severity: Severity,
    /// Kebab-case, as the codes of the configuration's own diagnostics.
    pub code: &'static str,
    pub place: Place,
    pub message: String,
    pub help: Option<String>,
}

/// What the finding is about; the caller knows where that is written.
#[derive(Debug, Clone)]
pub enum Place {
    Address(SiteAddress),
    /// By its position in [`Configuration::tcp`].
    Tcp(usize),
    /// With the site that uses it, where one does.
    File(PathBuf, Option<SiteAddress>),
    Server(UpstreamAddress),
    Source(Discover),
    /// By its position among those that are written; there is none for the one that nobody wrote.
    Admin(usize),
    AccessLog,
    Driver,
    Storage,
    /// The line of `docker`.
    Containers,
    Whole,
}

/// How the process is to run for which a configuration is checked.
#[derive(Clone, Copy)]
pub struct Circumstances<'a> {
    /// Where the configuration comes from: a process that runs with it already is no obstacle.
    pub source: &'a Source,
    /// As `run --share-port` has it.
    pub share_port: bool,
    /// The processes that may be the ones to take the configuration on, where they answer. Called when an address is
    /// taken.
    pub answering: &'a dyn Fn() -> Vec<Answering>,
}

pub fn check(configuration: &Configuration, circumstances: Circumstances<'_>, state_dir: PathBuf, now: Timestamp) -> Checked {
    let mut findings = Vec::new();
    for site in &configuration.sites {
        let place = || Place::Address(site.addresses[0].clone());
        let address = &site.addresses[0];
        findings.extend(check_site(site, now).into_iter().map(|finding| certificate_finding(finding, Some(address), place())));
    }
    let containers = Containers::first(configuration);
    let labelled = containers.labelled(configuration);
    check_containers(configuration, &containers, &labelled, &mut findings);
    // As it runs from here on.
    let configuration = &check_certificates_of_many(configuration, &containers, &labelled, now, &mut findings);
    match TlsProcessState::new(state_dir.clone()) {
        Ok(state) => {
            for pool in &configuration.pools {
                let found = check_upstream(&pool.tls, &state, now);
                findings.extend(found.into_iter().map(|finding| certificate_finding(finding, None, place_of(pool))));
            }
        }
        Err(error) => findings.push(Finding {
            severity: Severity::Error,
            code: "tls",
            place: Place::Whole,
            message: error.message(),
            help: error.help(),
        }),
    }
    check_limits(&mut findings);
    check_driver(configuration, &mut findings);
    let held = listening::check_listening(configuration, &state_dir, circumstances, &mut findings);
    check_access_log(configuration, &mut findings);
    state_folder::check_state_dir(configuration, &state_dir, &mut findings);
    check_storage(configuration, &state_dir, &mut findings);
    check_servers(configuration, &mut findings);
    check_sources(configuration, &containers, &mut findings);
    check_folders(configuration, &mut findings);
    check_users(configuration, &mut findings);
    check_api_keys(configuration, &mut findings);
    check_keys(configuration, &mut findings);
    check_maps(configuration, &mut findings);
    check_databases(configuration, &mut findings);
    check_ticket_keys(configuration, &mut findings);
    check_acme_roots(configuration, &mut findings);
    check_cache(configuration, &mut findings);
    Checked { findings, held }
}

/// Certificates that are given once, and wildcards that names share. Gives the configuration with those of its sites.
fn check_certificates_of_many(
    configuration: &Configuration,
    containers: &Containers,
    labelled: &Labelled,
    now: Timestamp,
    findings: &mut Vec<Finding>,
) -> Configuration {
    let mut shared = configuration.clone();
    for finding in check_shared(&configuration.certificates, now) {
        let place = finding.file.clone().map_or(Place::Whole, |file| Place::File(file, None));
        findings.push(certificate_finding(finding, None, place));
    }
    let warning = |place, message, help: &str| Finding {
        severity: Severity::Warning,
        code: "certificate",
        place,
        message,
        help: Some(help.to_owned()),
    };
    // What is wrong with files was said above.
    let sharing = share_certificates(&mut shared).unwrap_or_default();
    for (position, host) in &sharing.partly {
        let (message, help) = CertificateSharing::of_partly(host);
        findings.push(warning(Place::Address(configuration.sites[*position].addresses[0].clone()), message, help));
    }
    // Sites of labels have certificates too. As long as nobody knows them, nothing is known to be of no use.
    let mut with_labels = configuration.clone();
    with_labels.sites.extend(labelled.sites.iter().cloned());
    let is_known = containers.status().fault.is_none();
    let of_all = share_certificates(&mut with_labels).unwrap_or_default();
    for certificate in of_all.unused.iter().filter(|_| is_known) {
        let (message, help) = CertificateSharing::of_unused(certificate);
        findings.push(warning(Place::File(certificate.cert.name().to_owned(), None), message, help));
    }
    let obtained: Vec<String> = names_obtained(&with_labels).collect();
    let is_unused = |wildcard: &&String| is_known && !obtained.contains(wildcard);
    for wildcard in shared.acme.iter().flat_map(|acme| &acme.wildcards).filter(is_unused) {
        let message = format!("no site has a name that `wildcard \"{wildcard}\"` of `acme` covers, so it is not obtained");
        findings.push(warning(Place::Whole, message, "name it by the hosts of sites, or remove the line"));
    }
    shared
}

/// Limits of the process below which it does not start. Those of whoever checks are mostly those of whoever runs.
fn check_limits(findings: &mut Vec<Finding>) {
    for (code, checked) in [("address-space", check_address_space()), ("open-files", descriptors::check())] {
        let Err(said) = checked else { continue };
        let (message, help) = said.split_once("\n  help: ").unwrap_or((&said, ""));
        findings.push(Finding {
            severity: Severity::Error,
            code,
            place: Place::Whole,
            message: message.to_owned(),
            help: Some(help.to_owned()).filter(|help| !help.is_empty()),
        });
    }
}

fn check_driver(configuration: &Configuration, findings: &mut Vec<Finding>) {
    if let Err(Unavailable { reason }) = Chosen::by(configuration.driver, worker_count(configuration.threads)) {
        findings.push(Finding {
            severity: Severity::Error,
            code: "driver",
            place: Place::Driver,
            message: format!("`driver \"io-uring\"` cannot be had: {reason}"),
            help: Some(DRIVER_HELP.into()),
        });
    }
}

/// Folders that `files`, `fastcgi` and `send-file` answer from.
fn check_folders(configuration: &Configuration, findings: &mut Vec<Finding>) {
    for site in &configuration.sites {
        let address = &site.addresses[0];
        let sent = site.all_options().flat_map(|options| &options.send_files.folders);
        findings.extend(sent.filter_map(|folder| check_served(&folder.root, address)));
        for route in &site.routes {
            match &route.terminal {
                Terminal::Files(files) => findings.extend(check_served(&files.root, address)),
                Terminal::FastCgi(fastcgi) => check_fastcgi(fastcgi, address, findings),
                Terminal::Respond { .. } | Terminal::Redirect { .. } | Terminal::Proxy { .. } | Terminal::Split(_) => {}
            }
        }
    }
}

fn check_served(folder: &Path, site: &SiteAddress) -> Option<Finding> {
    let error = std::fs::read_dir(folder).err()?;
    Some(Finding {
        severity: Severity::Error,
        code: "folder",
        place: Place::File(folder.to_owned(), Some(site.clone())),
        message: format!("the folder {} cannot be served: {error}", folder.display()),
        help: Some("name a folder that exists and that this user may read".into()),
    })
}

/// A warning, unless files are served as well: the servers may see other folders.
fn check_fastcgi(fastcgi: &FastCgi, site: &SiteAddress, findings: &mut Vec<Finding>) {
    if fastcgi.serves_files {
        findings.extend(check_served(&fastcgi.root, site));
    } else if !fastcgi.root.is_dir() {
        findings.push(Finding {
            severity: Severity::Warning,
            code: "folder",
            place: Place::File(fastcgi.root.clone(), Some(site.clone())),
            message: format!("there is no folder {} here, so whether a script exists is not looked up", fastcgi.root.display()),
            help: Some(
                "that is right when the FastCGI server runs elsewhere; it must then refuse what is no script (`security.limit_extensions` of PHP-FPM)"
                    .into(),
            ),
        });
    }
}

/// A warning: the process starts without the disk, and keeps answers in memory.
fn check_cache(configuration: &Configuration, findings: &mut Vec<Finding>) {
    let Some(disk) = &configuration.cache.disk else { return };
    let nearest = disk.folder.ancestors().find(|folder| folder.exists());
    if let Some(Err(why)) = nearest.map(can_write_into) {
        findings.push(Finding {
            severity: Severity::Warning,
            code: "cache-folder",
            place: Place::File(disk.folder.clone(), None),
            message: format!("the cache cannot keep answers in {}: {why}", disk.folder.display()),
            help: Some(
                "name a folder that this user may write to, or one that can be made; without it answers are kept in memory alone"
                    .into(),
            ),
        });
    }
}

/// Files of `basic-auth`, each once.
fn check_users(configuration: &Configuration, findings: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    for (site, auth) in auths(configuration.sites.iter()) {
        let Some(path) = file_of(&auth.users).filter(|path| seen.insert(path.to_path_buf())) else { continue };
        let (severity, code, message, help) = match read_users(path) {
            Err(fault) => (Severity::Error, "users", fault.to_string(), fault.help()),
            Ok(users) => match weak_hashes_said(path, &users) {
                Some(said) => (Severity::Warning, "weak-hash", said, STRONGER_HASHES),
                None => continue,
            },
        };
        let place = Place::File(path.to_owned(), Some(site.addresses[0].clone()));
        findings.push(Finding { severity, code, place, message, help: Some(help.into()) });
    }
}

/// Files of `api-key`, each once.
fn check_api_keys(configuration: &Configuration, findings: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    for (site, auth) in api_keys(configuration.sites.iter()) {
        let Some(path) = api_key_file_of(&auth.keys).filter(|path| seen.insert(path.to_path_buf())) else { continue };
        if let Err(fault) = read_api_keys(path) {
            findings.push(Finding {
                severity: Severity::Error,
                code: "api-keys",
                place: Place::File(path.to_owned(), Some(site.addresses[0].clone())),
                message: fault.to_string(),
                help: Some(fault.help().into()),
            });
        }
    }
}

fn check_keys(configuration: &Configuration, findings: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    let of_keys = key_sources(configuration.sites.iter()).filter_map(|(site, keys)| match keys {
        KeySource::Url { ca, .. } => Some((site, ca.as_ref()?)),
        KeySource::File(_) => None,
    });
    for (site, path) in of_keys.chain(provider_authorities(configuration.sites.iter())) {
        if seen.insert(path.clone())
            && let Err(fault) = roots_of_file(path)
        {
            findings.push(Finding {
                severity: Severity::Error,
                code: "token-keys",
                place: Place::File(path.clone(), Some(site.addresses[0].clone())),
                message: fault.to_string(),
                help: Some("name a file of certificates in PEM".into()),
            });
        }
    }
    for (site, keys) in key_sources(configuration.sites.iter()) {
        let Some(path) = key_file_of(keys).filter(|path| seen.insert(path.to_path_buf())) else { continue };
        if let Err(fault) = read_keys(path) {
            findings.push(Finding {
                severity: Severity::Error,
                code: "token-keys",
                place: Place::File(path.to_owned(), Some(site.addresses[0].clone())),
                message: fault.to_string(),
                help: Some(fault.help().into()),
            });
        }
    }
}

/// Files of maps.
fn check_maps(configuration: &Configuration, findings: &mut Vec<Finding>) {
    for fault in faults_of_maps(configuration) {
        findings.push(Finding {
            severity: Severity::Error,
            code: "map",
            place: fault.file.clone().map_or(Place::Whole, |path| Place::File(path, None)),
            message: fault.to_string(),
            help: Some(fault.help().into()),
        });
    }
}

/// Files of `geoip`, and what is asked of them.
fn check_databases(configuration: &Configuration, findings: &mut Vec<Finding>) {
    let (read, faults) = read_databases(configuration, &GeoFiles::default());
    // What a file knows that cannot be read is not known.
    let unknown = if faults.is_empty() { unknown_fields(configuration, &read) } else { Vec::new() };
    for fault in faults {
        findings.push(Finding {
            severity: Severity::Error,
            code: "geoip",
            place: Place::File(fault.file.clone(), None),
            message: fault.to_string(),
            help: Some(fault.help().into()),
        });
    }
    for field in unknown {
        let name = field.name();
        findings.push(Finding {
            severity: Severity::Warning,
            code: "geoip",
            place: configuration.geoip.files.first().map_or(Place::Whole, |path| Place::File(path.clone(), None)),
            message: format!("conditions ask for `{name}`, and no file of `geoip` seems to know it"),
            help: Some(format!(
                "name one that does as well, such as `GeoLite2-{}.mmdb`",
                if name == "asn" { "ASN" } else { "Country" }
            )),
        });
    }
}

fn check_ticket_keys(configuration: &Configuration, findings: &mut Vec<Finding>) {
    for error in FileKeys::load(configuration.ticket_keys.files()).err().into_iter().flatten() {
        let finding = certificate_finding(CertFinding::from(&error), None, Place::Whole);
        findings.push(Finding { code: "ticket-key", ..finding });
    }
}

/// Whom the CAs that certificates are obtained from are trusted by.
fn check_acme_roots(configuration: &Configuration, findings: &mut Vec<Finding>) {
    let of_sites = configuration.sites.iter().filter_map(|site| configuration.acme_of(site));
    let roots: BTreeSet<PathBuf> = of_sites
        .flat_map(|acme| acme.authorities.iter().filter_map(|authority| authority.root.clone()).collect::<Vec<_>>())
        .collect();
    for root in roots {
        if let Err(error) = roots_of_file(&root) {
            findings.push(certificate_finding(CertFinding::from(&error), None, Place::File(root, None)));
        }
    }
}

fn place_of(pool: &Pool) -> Place {
    let server = pool.servers.first().map(|server| Place::Server(server.address.clone()));
    server.or_else(|| pool.discover.first().cloned().map(Place::Source)).unwrap_or(Place::Whole)
}

/// Warnings all, since the process starts and waits for what comes later.
fn check_sources(configuration: &Configuration, containers: &Containers, findings: &mut Vec<Finding>) {
    let mut sources: Vec<(&Discover, &Pool)> = Vec::new();
    for pool in &configuration.pools {
        for source in &pool.discover {
            if let Discover::Containers(wanted) = source
                && !containers.board().endpoints(wanted).is_empty()
            {
                continue;
            }
            if !sources.iter().any(|(known, _)| *known == source) {
                sources.push((source, pool));
            }
        }
    }
    let words = first_words(sources.iter().map(|(source, _)| (*source).clone()).collect());
    for ((source, pool), word) in sources.into_iter().zip(words) {
        let what = match word {
            FirstWord::Members { remark: Some(remark), .. } => {
                format!("a part of what names its servers cannot be used: {remark}")
            }
            FirstWord::Members { endpoints, .. } if endpoints.is_empty() => "no server is named".to_owned(),
            FirstWord::Members { .. } => continue,
            FirstWord::Fault(fault) => format!("no server is found: {fault}"),
            FirstWord::None => format!("nothing is said within {FIRST_ANSWERS_LIMIT:?}"),
        };
        let help = if pool.servers.is_empty() && pool.discover.len() == 1 {
            "Tidegate starts all the same and keeps asking; requests are answered with 503 until there is a server"
        } else {
            "Tidegate starts all the same and keeps asking; the pool's other servers get the requests"
        };
        findings.push(Finding {
            severity: Severity::Warning,
            code: "discovery",
            place: Place::Source(source.clone()),
            message: format!("the pool `{}`: {what}", pool.name),
            help: Some(help.into()),
        });
    }
}

/// The code of what is wrong with a label, so that nothing of it is served.
pub const NOT_SERVED: &str = "label-not-served";

/// Warnings all: what a label says wrong keeps nothing of the file from running.
fn check_containers(configuration: &Configuration, containers: &Containers, labelled: &Labelled, findings: &mut Vec<Finding>) {
    if configuration.containers.is_none() {
        return;
    }
    let warning = |code: &'static str, message: String, help: Option<String>| Finding {
        severity: Severity::Warning,
        code,
        place: Place::Containers,
        message,
        help,
    };
    if let Some(fault) = containers.status().fault {
        let help = "Tidegate starts all the same and keeps asking; sites of labels come when the engine answers";
        findings.push(warning("containers", format!("no container is found: {fault}"), Some(help.into())));
    }
    findings.extend(labelled.faults.iter().map(|fault| {
        let said = format!("{}: {}", fault.place, fault.message);
        match fault.severity {
            tidegate_config::Severity::Error => warning(NOT_SERVED, format!("NOT SERVED: {said}"), fault.help.clone()),
            tidegate_config::Severity::Warning | tidegate_config::Severity::Note => {
                warning("containers", said, fault.help.clone())
            }
        }
    }));
}

fn certificate_finding(finding: CertFinding, site: Option<&SiteAddress>, otherwise: Place) -> Finding {
    Finding {
        severity: finding.severity,
        code: "certificate",
        place: finding.file.map_or(otherwise, |file| Place::File(file, site.cloned())),
        message: finding.message,
        help: finding.help,
    }
}

fn check_access_log(configuration: &Configuration, findings: &mut Vec<Finding>) {
    for log in &configuration.access_logs {
        if let LogTarget::File { path, .. } = &log.target {
            check_log_file(path, findings);
        }
    }
}

fn check_log_file(path: &Path, findings: &mut Vec<Finding>) {
    let why = if path.is_dir() {
        Err("it is a folder".to_owned())
    } else if path.exists() {
        can_write(path)
    } else {
        can_write_into(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))
    };
    if let Err(why) = why {
        findings.push(Finding {
            severity: Severity::Error,
            code: "access-log",
            place: Place::AccessLog,
            message: format!("the access log {} cannot be written: {why}", path.display()),
            help: Some("name a file in a folder that exists and that this user may write to, or `\"stdout\"`".into()),
        });
    }
}

/// A warning: the process starts all the same, uses what it has, and obtains nothing until storage can be used.
fn check_storage(configuration: &Configuration, state_dir: &Path, findings: &mut Vec<Finding>) {
    let is_in_state = configuration.storage == Storage::State;
    let is_told = is_in_state && findings.iter().any(|finding| finding.code == "state-folder");
    if is_told || (is_in_state && !crate::issuing::obtains(configuration)) {
        return;
    }
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let found = runtime.block_on(tidegate_storage::inspect(&configuration.storage, state_dir));
    // A folder of a file server that hangs keeps its thread.
    runtime.shutdown_background();
    if let Err(fault) = found {
        findings.push(Finding {
            severity: Severity::Warning,
            code: "storage",
            place: Place::Storage,
            message: format!("certificates and keys cannot be kept in {}: {}", fault.place(), fault.problem()),
            help: Some(format!("{}; until then no certificate is obtained", fault.remedy())),
        });
    }
}

fn can_write_into(folder: &Path) -> Result<(), String> {
    match std::fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => can_write(folder),
        Ok(_) => Err(format!("{} is no folder", folder.display())),
        Err(error) => Err(format!("{}: {error}", folder.display())),
    }
}

/// Whether there is a socket that this user may write to, which is what connecting needs. Nobody is connected to: that
/// would cost PHP-FPM a process.
fn can_connect(socket: &Path) -> Result<(), String> {
    let metadata = std::fs::metadata(socket).map_err(|error| error.to_string())?;
    if metadata.file_type().is_socket() { can_write(socket) } else { Err("it is no socket".into()) }
}

fn can_write(path: &Path) -> Result<(), String> {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(|error| io::Error::from(error).to_string())
}

fn check_servers(configuration: &Configuration, findings: &mut Vec<Finding>) {
    let listening: Vec<SocketAddr> = configuration
        .sites
        .iter()
        .flat_map(|site| &site.addresses)
        .flat_map(|address| address.listen_addresses().filter_map(|listen| listen.tcp()))
        .collect();
    for pool in &configuration.pools {
        for server in &pool.servers {
            let finding = |severity, code, message, help: &str| Finding {
                severity,
                code,
                place: Place::Server(server.address.clone()),
                message,
                help: Some(help.into()),
            };
            let TcpAddress { host, port, .. } = match &server.address {
                UpstreamAddress::Tcp(address) => address,
                UpstreamAddress::Unix(path) => {
                    if let Err(why) = can_connect(path) {
                        let message = format!("the socket {} cannot be connected to: {why}", path.display());
                        let help = "connections to it fail until it listens there and this user may connect";
                        findings.push(finding(Severity::Warning, "socket", message, help));
                    }
                    continue;
                }
            };
            let Ok(addresses) = (host.as_str(), *port).to_socket_addrs() else {
                let message = format!("the name of the server `{}` in the pool `{}` has no address", server.address, pool.name);
                let help = "requests to it fail with 502 until the name resolves; a running Tidegate looks every ten seconds";
                findings.push(finding(Severity::Warning, "unresolved", message, help));
                continue;
            };
            let is_own = |address: SocketAddr| {
                listening.iter().any(|listen| {
                    listen.port() == address.port()
                        && (listen.ip() == address.ip() || (listen.ip().is_unspecified() && address.ip().is_loopback()))
                })
            };
            if addresses.into_iter().any(is_own) {
                let message = format!(
                    "the server `{}` in the pool `{}` is an address that Tidegate itself listens on",
                    server.address, pool.name
                );
                let help =
                    "that is right only if the request then finds another site; else it goes round until descriptors run out";
                findings.push(finding(Severity::Warning, "own-address", message, help));
            }
        }
    }
}
