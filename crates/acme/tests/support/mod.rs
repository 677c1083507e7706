//! What the tests with a real CA stand on: pebble, the engine, and answers to challenges as workers would give them.
//! The cases are in the files beside this folder.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, clippy::format_collect, reason = "a test that unwraps fails with the line that did")]

pub mod proxy;

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tidegate_acme::{Certificate, ChallengeChange, Fault, Issuing, Listens, NameStatus, News, Parts, Timing, Wanted, start};
use tidegate_model::{Acme, AcmeAuthority, AcmeChallenge, Storage};
use tidegate_testkit::pebble::{Options, Pebble};
use tidegate_testkit::ports::listen_beside;

/// Nothing in a test takes as long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A CA, answers to its challenges, and a folder for everything.
pub struct World {
    pub pebble: Pebble,
    pub answers: Arc<Answers>,
    pub folder: TempDir,
}

/// What workers would answer.
#[derive(Default)]
pub struct Answers {
    http: Mutex<HashMap<String, String>>,
    tls: Mutex<HashMap<String, Arc<CertifiedKey>>>,
    is_tls_refused: Mutex<bool>,
    /// Every change that was asked for.
    pub changes: Mutex<Vec<ChallengeChange>>,
}

/// The engine and what it tells.
pub struct Engine {
    pub issuing: Issuing,
    pub news: Receiver<News>,
    pub seen: Mutex<Vec<News>>,
    pub runtime: tokio::runtime::Runtime,
}

impl World {
    /// `None` where pebble is not installed; the reason was written then.
    pub fn new(options: Options) -> Option<World> {
        let world = World::without_answers(options)?;
        world.answers.serve(world.pebble.http_port, world.pebble.https_port);
        Some(world)
    }

    /// Nobody listens where the CA comes to.
    pub fn without_answers(options: Options) -> Option<World> {
        let folder = tempfile::tempdir().unwrap();
        let pebble = Pebble::start(folder.path(), options).unwrap()?;
        Some(World { pebble, answers: Arc::default(), folder })
    }

    pub fn authority(&self) -> AcmeAuthority {
        AcmeAuthority {
            name: "pebble".into(),
            directory: self.pebble.directory.clone(),
            staging: None,
            external_account: None,
            root: Some(self.pebble.root.clone()),
        }
    }

    /// Settings that fit the CA. Names of tests exist in its name server only, so nothing is looked at before.
    pub fn acme(&self, challenges: &[AcmeChallenge]) -> Acme {
        Acme {
            authorities: vec![self.authority()],
            challenges: challenges.to_vec(),
            http_port: self.pebble.http_port,
            https_port: self.pebble.https_port,
            preflight: false,
            ..Acme::default()
        }
    }

    pub fn storage(&self) -> std::path::PathBuf {
        self.folder.path().join("kept")
    }

    pub fn engine(&self) -> Engine {
        self.engine_in(&self.storage(), quick())
    }

    pub fn engine_in(&self, storage: &Path, timing: Timing) -> Engine {
        let (news_to, news) = channel();
        let answers = self.answers.clone();
        let parts = Parts {
            storage: Storage::Folder(storage.to_owned()),
            state_dir: self.folder.path().to_owned(),
            publish: Box::new(move |change| answers.change(change)),
            news: Box::new(move |one| {
                let _ = news_to.send(one);
            }),
            timing,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Engine { issuing: start(parts).unwrap(), news, seen: Mutex::default(), runtime }
    }
}

/// In more of a hurry than a CA on the internet would like.
pub fn quick() -> Timing {
    Timing {
        poll: Duration::from_millis(50),
        look_again_busy: Duration::from_millis(200),
        look_again: Duration::from_secs(600),
        back_off_factor: 0.01,
        ..Timing::default()
    }
}

pub fn wanted(name: &str, acme: &Acme) -> Wanted {
    Wanted { name: name.into(), acme: Arc::new(acme.clone()), listens: Listens { http: true, https: true } }
}

impl Engine {
    pub fn want(&self, names: &[&str], acme: &Acme) {
        let shared = Arc::new(acme.clone());
        let listens = Listens { http: true, https: true };
        let all = names.iter().map(|name| Wanted { name: (*name).into(), acme: shared.clone(), listens }).collect();
        self.runtime.block_on(self.issuing.want(all, Vec::new()));
    }

    /// The next news that `pick` takes; the others are kept in `seen`.
    pub fn until<T>(&self, what: &str, mut pick: impl FnMut(&News) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.news.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(news) => {
                    let picked = pick(&news);
                    self.seen.lock().unwrap().push(news);
                    if let Some(picked) = picked {
                        return picked;
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no {what}; seen: {:#?}; status: {:#?}", self.seen.lock().unwrap(), self.issuing.status())
                }
            }
        }
    }

    pub fn certificate(&self, name: &str) -> Certificate {
        self.until(&format!("certificate of {name}"), |news| match news {
            News::Certificate(certificate) if certificate.name == name => Some(certificate.clone()),
            _ => None,
        })
    }

    pub fn failure(&self, name: &str) -> Fault {
        self.until(&format!("failure of {name}"), |news| match news {
            News::Failed { name: failed, fault } if failed == name => Some(fault.clone()),
            _ => None,
        })
    }

    pub fn read(&self) {
        self.until("end of reading", |news| matches!(news, News::Read).then_some(()));
    }

    pub fn status(&self, name: &str) -> NameStatus {
        self.issuing.status().into_iter().find(|status| status.name == name).unwrap()
    }
}

impl Answers {
    pub fn change(&self, change: ChallengeChange) {
        match change.clone() {
            ChallengeChange::AddHttp { token, key_authorization } => {
                self.http.lock().unwrap().insert(token, key_authorization);
            }
            ChallengeChange::RemoveHttp { token } => {
                self.http.lock().unwrap().remove(&token);
            }
            ChallengeChange::AddTls { server_name, subject, digest } => {
                self.tls.lock().unwrap().insert(server_name, challenge_certificate(&subject, &digest));
            }
            ChallengeChange::RemoveTls { server_name } => {
                self.tls.lock().unwrap().remove(&server_name);
            }
        }
        self.changes.lock().unwrap().push(change);
    }

    /// What was put in place and not taken away.
    pub fn left(&self) -> usize {
        self.http.lock().unwrap().len() + self.tls.lock().unwrap().len()
    }

    pub fn serve(self: &Arc<Self>, http_port: u16, https_port: u16) {
        let listen = |port| listen_beside(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        let (http, https) = (listen(http_port), listen(https_port));
        let answers = self.clone();
        thread::spawn(move || serve_http(&http, &answers));
        let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ByName(self.clone())));
        config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
        let config = Arc::new(config);
        thread::spawn(move || {
            for stream in https.incoming() {
                let (Ok(mut stream), Ok(mut connection)) = (stream, rustls::ServerConnection::new(config.clone())) else {
                    continue;
                };
                thread::spawn(move || {
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                    let _ = rustls::Stream::new(&mut connection, &mut stream).read(&mut [0; 1]);
                });
            }
        });
    }
}

fn serve_http(listener: &TcpListener, answers: &Arc<Answers>) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { continue };
        let answers = answers.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).unwrap_or(0);
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            let path = text.split(' ').nth(1).unwrap_or_default();
            let token = path.strip_prefix("/.well-known/acme-challenge/").unwrap_or_default();
            let known = answers.http.lock().unwrap().get(token).cloned();
            let (status, body) = known.map_or(("404 Not Found", String::new()), |known| ("200 OK", known));
            let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        });
    }
}

struct ByName(Arc<Answers>);

impl std::fmt::Debug for ByName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ByName")
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if *self.0.is_tls_refused.lock().unwrap_or_else(PoisonError::into_inner) {
            return None;
        }
        let tls = self.0.tls.lock().unwrap_or_else(PoisonError::into_inner);
        tls.get(hello.server_name()?).cloned()
    }
}

fn challenge_certificate(subject: &str, digest: &[u8; 32]) -> Arc<CertifiedKey> {
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![match subject.parse::<IpAddr>() {
        Ok(ip) => rcgen::SanType::IpAddress(ip),
        Err(_) => rcgen::SanType::DnsName(subject.to_owned().try_into().unwrap()),
    }];
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
    Arc::new(CertifiedKey::new(vec![certificate.der().clone()], key))
}

impl World {
    /// dns-01 by a program that talks to the name server's management.
    pub fn acme_with_dns(&self) -> Acme {
        use std::os::unix::fs::PermissionsExt;
        let command = self.folder.path().join("dns-hook");
        // `cleanup` only notes that it was called: the name server cannot take one value away and leave another.
        let script = format!(
            "#!/bin/sh\necho \"$1 $2 $3\" >> '{log}'\n[ \"$1\" = present ] || exit 0\nexec curl -sf -d \"{{\\\"host\\\":\\\"$2.\\\",\\\"value\\\":\\\"$3\\\"}}\" {management}/set-txt\n",
            log = self.folder.path().join("dns-calls").display(),
            management = self.pebble.dns_management,
        );
        std::fs::write(&command, script).unwrap();
        std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o700)).unwrap();
        let dns = tidegate_model::AcmeDns {
            provider: tidegate_model::DnsProvider::Exec { command },
            propagation: Duration::from_secs(30),
            resolver: Some(self.pebble.dns),
        };
        Acme { dns: Some(dns), ..self.acme(&[AcmeChallenge::Dns01]) }
    }

    pub fn dns_calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("dns-calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Engine {
    /// The certificates of two names, whichever comes first.
    pub fn both(&self, one: &str, other: &str) {
        let mut missing = vec![one, other];
        self.until(&format!("certificates of {one} and {other}"), |news| {
            if let News::Certificate(certificate) = news {
                missing.retain(|name| *name != certificate.name);
            }
            missing.is_empty().then_some(())
        });
    }
}

impl World {
    /// Files below a part of the storage, without locks.
    pub fn files(&self, part: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.storage().join(part)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else {
                    found.push(entry.path().display().to_string());
                }
            }
        }
        found
    }
}

impl Answers {
    /// From now on handshakes of tls-alpn-01 find nothing.
    pub fn refuse_tls(&self) {
        *self.is_tls_refused.lock().unwrap() = true;
    }
}

impl Engine {
    /// The next failure that is the one meant; those of before may still be under way.
    pub fn failure_after(&self, name: &str, is_meant: impl Fn(&Fault) -> bool) -> Fault {
        self.until(&format!("failure of {name}"), |news| match news {
            News::Failed { name: failed, fault } if failed == name && is_meant(fault) => Some(fault.clone()),
            _ => None,
        })
    }
}

impl World {
    /// The same CA behind a proxy that can do more, and worse.
    pub fn acme_behind(&self, proxy: &proxy::Proxy) -> Acme {
        let authority = AcmeAuthority { directory: proxy.directory.clone(), ..self.authority() };
        Acme { authorities: vec![authority], ..self.acme(&[AcmeChallenge::Http01]) }
    }
}

impl Engine {
    /// Waits until the table of names says so.
    pub fn until_status(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < deadline, "no {what}; status: {:#?}", self.issuing.status());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Engine {
    pub fn demand(&self, name: &str, acme: &Acme, settings: &tidegate_model::OnDemand) -> Result<(), tidegate_acme::Refusal> {
        let asked = self.issuing.on_demand(wanted(name, acme), settings);
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await }).expect("an answer")
    }

    pub fn renew(&self, name: &str) -> Result<(), tidegate_acme::Refusal> {
        let asked = self.issuing.renew(name);
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await }).expect("an answer")
    }
}

/// A folder in which nothing can be written: by its rights, or for root, whom those do not bind, by the file system's
/// own flag.
pub struct ReadOnly<'a>(&'a Path);

impl ReadOnly<'_> {
    pub fn make(folder: &Path) -> Option<ReadOnly<'_>> {
        let guard = ReadOnly(folder);
        run(&["chmod", "-R", "a-w"], folder);
        if std::fs::write(folder.join("probe"), "x").is_ok() {
            run(&["chattr", "-R", "+i"], folder);
        }
        std::fs::write(folder.join("probe"), "x").is_err().then_some(guard)
    }
}

impl Drop for ReadOnly<'_> {
    fn drop(&mut self) {
        run(&["chattr", "-R", "-i"], self.0);
        run(&["chmod", "-R", "u+w"], self.0);
    }
}

fn run(command: &[&str], folder: &Path) {
    let _ = Command::new(command[0]).args(&command[1..]).arg(folder).stderr(Stdio::null()).status();
}
