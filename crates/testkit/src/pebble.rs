//! A real CA for tests: Debian's `pebble` and `pebble-challtestsrv`, started on free ports in a folder of their own,
//! ended by their ids when the guard goes away. Where the programs are missing there is none, and the test says so.
//! Pebble trusts nobody and is trusted by nobody: its root is made here.

use crate::authority::{Authority, CertificateFiles, KeyKind};
use crate::ports::{FORKING, Reservation};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

/// Generous, because tests share the machine with compilers.
const READY_WAIT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How a pebble is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// Of 100 good nonces, so many are called bad. Pebble's own default is 5.
    pub nonces_rejected: u32,
    /// Of 100 authorisations that are valid already, so many are used again.
    pub authorisations_reused: u32,
    /// Waits of up to so many seconds before each validation; 0 is none.
    pub sleep_secs: u32,
    /// Key ids and HMAC keys (base64url); accounts must be bound to one of them, if there are any.
    pub external_accounts: Vec<(String, String)>,
    /// How long certificates are valid.
    pub validity_secs: Option<u64>,
    /// Certificates name this OCSP responder.
    pub responder: Option<String>,
    /// The CA's own certificate for HTTPS is one whose time is over.
    pub is_expired: bool,
    /// It is signed by itself, and as if it were an authority's; [`Pebble::root`] is the certificate itself then.
    pub is_self_signed: bool,
    /// Where it comes to for `http-01`; 0 is a free port.
    pub http_port: u16,
    /// The port at which pebble asks for `tls-alpn-01`.
    pub https_port: u16,
    /// The folder of its programs; none: where the shell finds them.
    pub programs: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            nonces_rejected: 5,
            authorisations_reused: 50,
            sleep_secs: 0,
            external_accounts: Vec::new(),
            validity_secs: None,
            responder: None,
            is_expired: false,
            is_self_signed: false,
            http_port: 0,
            https_port: 0,
            programs: None,
        }
    }
}

impl Options {
    fn program(&self, name: &str) -> PathBuf {
        self.programs.as_ref().map_or_else(|| PathBuf::from(name), |folder| folder.join(name))
    }
}

/// A running CA and the name server that it asks.
pub struct Pebble {
    /// URL of the ACME directory.
    pub directory: String,
    /// PEM file with the root of the CA's own HTTPS.
    pub root: PathBuf,
    /// What its HTTPS shows: for `localhost` and `127.0.0.1`, by that root.
    pub certificate: CertificateFiles,
    /// Where it comes to for `http-01`.
    pub http_port: u16,
    /// The port at which pebble asks for `tls-alpn-01`.
    pub https_port: u16,
    /// The name server, UDP and TCP; every name has the address 127.0.0.1 there until told otherwise.
    pub dns: SocketAddr,
    /// `http://…`, the name server's management: `/set-txt`, `/clear-txt`, `/add-a`, `/add-caa`, `/set-servfail`, …
    pub dns_management: String,
    ca: Child,
    name_server: Child,
    log: PathBuf,
    ports: Ports,
    folder: PathBuf,
    options: Options,
}

struct Ports {
    acme: u16,
    management: u16,
    /// Nobody else may get the ports of the challenges while the CA lives.
    _challenges: [Reservation; 2],
}

/// The programs, if both are installed.
pub fn installed() -> bool {
    ["pebble", "pebble-challtestsrv"].iter().all(|program| {
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
    })
}

impl Pebble {
    /// `Ok(None)`, and a line on stderr, where it is not installed.
    pub fn start(folder: &Path, options: Options) -> Result<Option<Pebble>, String> {
        if options.programs.is_none() && !installed() {
            eprintln!("skipped: pebble and pebble-challtestsrv are not installed (Debian: apt-get install pebble)");
            return Ok(None);
        }
        let text = |error: io::Error| error.to_string();
        let authority = Authority::new(folder, "pebble")?;
        let kind = match (options.is_expired, options.is_self_signed) {
            (true, _) => KeyKind::Expired,
            (false, true) => KeyKind::SelfSigned,
            (false, false) => KeyKind::Ecdsa,
        };
        let files = authority.issue("localhost+127.0.0.1", kind)?;
        let reserve = || Reservation::shared().map_err(text);
        let (acme, management, dns, dns_management) = (reserve()?, reserve()?, reserve()?, reserve()?);
        let challenges = [reserve()?, reserve()?];
        let or_free = |port: u16, free: &Reservation| if port == 0 { free.port() } else { port };
        let (http_port, https_port) = (or_free(options.http_port, &challenges[0]), or_free(options.https_port, &challenges[1]));
        let config = json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{}", acme.port()),
            "managementListenAddress": format!("127.0.0.1:{}", management.port()),
            "certificate": files.cert,
            "privateKey": files.key,
            "httpPort": http_port,
            "tlsPort": https_port,
            "ocspResponderURL": options.responder.clone().unwrap_or_default(),
            "externalAccountBindingRequired": !options.external_accounts.is_empty(),
            "externalAccountMACKeys": options.external_accounts.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "certificateValidityPeriod": options.validity_secs.unwrap_or(90 * 24 * 3600),
        }});
        fs::write(folder.join("pebble.json"), config.to_string()).map_err(text)?;
        let ports = Ports { acme: acme.port(), management: management.port(), _challenges: challenges };
        let dns_address = SocketAddr::from(([127, 0, 0, 1], dns.port()));
        let dns_management_address = SocketAddr::from(([127, 0, 0, 1], dns_management.port()));
        // These programs do not share ports, so what was reserved is given up just before.
        drop((acme, management, dns, dns_management));
        let name_server = start_name_server(folder, dns_address, dns_management_address, &options).map_err(text)?;
        let log = folder.join("pebble.log");
        let ca = start_ca(folder, dns_address, &log, &options).map_err(text)?;
        let mut pebble = Pebble {
            directory: format!("https://localhost:{}/dir", ports.acme),
            root: if options.is_self_signed { files.cert.clone() } else { authority.root_file().to_owned() },
            certificate: files,
            http_port,
            https_port,
            dns: dns_address,
            dns_management: format!("http://{dns_management_address}"),
            ca,
            name_server,
            log,
            ports,
            folder: folder.to_owned(),
            options,
        };
        pebble.await_ready(dns_management_address)?;
        Ok(Some(pebble))
    }

    /// What it wrote since it was started.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Orders that were made.
    pub fn orders(&self) -> usize {
        self.log().matches("Added order \"").count()
    }

    /// Certificates that were issued.
    pub fn issued(&self) -> usize {
        self.log().matches("Issued certificate serial").count()
    }

    /// Requests with this text in their line of the log, as in `POST /order-plz`.
    pub fn requests(&self, text: &str) -> usize {
        self.log().lines().filter(|line| line.contains(text)).count()
    }

    /// Ends the CA at once and starts it again on the same ports; it has then forgotten everything.
    pub fn restart(&mut self) -> Result<(), String> {
        end(&mut self.ca);
        self.ca = start_ca(&self.folder, self.dns, &self.log, &self.options).map_err(|error| error.to_string())?;
        let address = self.dns_management.trim_start_matches("http://").parse::<SocketAddr>();
        self.await_ready(address.map_err(|error| error.to_string())?)
    }

    /// A call of the name server's management, as `("set-servfail", json!({"host": "a.example."}))`.
    pub fn dns(&self, call: &str, body: &Value) -> Result<(), String> {
        let address = self.dns_management.trim_start_matches("http://");
        let body = body.to_string();
        let request = format!(
            "POST /{call} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let exchange = || -> io::Result<String> {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(request.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = exchange().map_err(|error| format!("{call}: {error}"))?;
        if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(format!("{call}: {answer}")) }
    }

    /// Where the directory is served.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports.acme))
    }

    /// Address of pebble's own management over HTTPS, with the same root: `/roots/0`, `/cert-status-by-serial/…`.
    pub fn management(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports.management))
    }

    fn await_ready(&mut self, dns_management: SocketAddr) -> Result<(), String> {
        let until = Instant::now() + READY_WAIT;
        for address in [dns_management, SocketAddr::from(([127, 0, 0, 1], self.ports.acme)), self.management()] {
            while TcpStream::connect(address).is_err() {
                let is_over = self.ca.try_wait().ok().flatten().is_some() || self.name_server.try_wait().ok().flatten().is_some();
                if is_over || Instant::now() > until {
                    return Err(format!("pebble did not start at {address}: {}", self.log()));
                }
                thread::sleep(POLL_INTERVAL);
            }
        }
        Ok(())
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        end(&mut self.ca);
        end(&mut self.name_server);
    }
}

fn start_name_server(folder: &Path, dns: SocketAddr, management: SocketAddr, options: &Options) -> io::Result<Child> {
    let log = File::create(folder.join("challtestsrv.log"))?;
    let mut command = Command::new(options.program("pebble-challtestsrv"));
    command.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", ""]);
    command.arg("-dns01").arg(dns.to_string()).arg("-management").arg(management.to_string());
    spawn(command.stdout(log.try_clone()?).stderr(log))
}

fn start_ca(folder: &Path, dns: SocketAddr, log: &Path, options: &Options) -> io::Result<Child> {
    let log = File::create(log)?;
    let mut command = Command::new(options.program("pebble"));
    command.arg("-config").arg(folder.join("pebble.json")).arg("-dnsserver").arg(dns.to_string());
    command.env("PEBBLE_WFE_NONCEREJECT", options.nonces_rejected.to_string());
    command.env("PEBBLE_AUTHZREUSE", options.authorisations_reused.to_string());
    match options.sleep_secs {
        0 => command.env("PEBBLE_VA_NOSLEEP", "1"),
        secs => command.env("PEBBLE_VA_SLEEPTIME", secs.to_string()),
    };
    spawn(command.stdout(log.try_clone()?).stderr(log))
}

fn spawn(command: &mut Command) -> io::Result<Child> {
    let _alone = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    command.stdin(Stdio::null()).spawn()
}

fn end(child: &mut Child) {
    // It is ours, and it may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}
