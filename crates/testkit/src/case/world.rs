//! What the sections of a running case share: its folder, ports and certificates (the placeholders of the file), the
//! proxy, marks.

use super::script::{ClientProtocol, ClientTls, Matcher};
use super::text::escape;
use crate::authority::{Authority, CertificateFiles, KeyKind};
use crate::head::Head;
use crate::ports::Reservation;
use crate::program::Program;
use crate::tls;
use crate::upstream::Counters;
use regex::{Captures, Regex};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Name that certificates are made for when a case does not say one.
const DEFAULT_NAME: &str = "example.com";

/// The ports and files that a case speaks of, made when first spoken of.
pub struct Places {
    folder: tempfile::TempDir,
    reservations: HashMap<String, Reservation>,
    ports: HashMap<String, u16>,
    authorities: HashMap<String, Authority>,
    certificates: HashMap<String, CertificateFiles>,
    revocation_lists: HashMap<String, PathBuf>,
}

fn placeholder() -> Result<Regex, String> {
    Regex::new(r#"\{(port|upstream|closed|admin|dir|config|cert|key|pem|ca|crl|stale-crl)(?::([^{}\s"]*))?\}"#)
        .map_err(|error| error.to_string())
}

/// The text as it can be read where nothing is run: every place is `0`.
pub fn without_places(text: &str) -> Result<String, String> {
    let text = super::variants::text_for(text, ClientProtocol::Http1, true)?;
    Ok(placeholder()?.replace_all(&text, "0").into_owned())
}

impl Places {
    pub fn new() -> Result<Places, String> {
        let folder = tempfile::Builder::new().prefix("case-").tempdir().map_err(|error| error.to_string())?;
        Ok(Places {
            folder,
            reservations: HashMap::new(),
            ports: HashMap::new(),
            authorities: HashMap::new(),
            certificates: HashMap::new(),
            revocation_lists: HashMap::new(),
        })
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn config_file(&self) -> PathBuf {
        self.folder().join("tidegate.kdl")
    }

    /// Fills in the kit's placeholders. Braces with other words stay: they are the proxy's own.
    pub fn fill(&mut self, text: &str) -> Result<String, String> {
        let placeholder = placeholder()?;
        let mut fault = None;
        let filled = placeholder.replace_all(text, |found: &Captures<'_>| {
            self.place(&found[1], found.get(2).map(|name| name.as_str())).unwrap_or_else(|error| {
                fault = Some(format!("{}: {error}", &found[0]));
                String::new()
            })
        });
        let filled = filled.into_owned();
        fault.map_or(Ok(filled), Err)
    }

    fn place(&mut self, word: &str, name: Option<&str>) -> Result<String, String> {
        let shown = |path: &Path| path.display().to_string();
        Ok(match word {
            "port" | "upstream" | "closed" | "admin" => self.port(word, name.unwrap_or_default())?.to_string(),
            "dir" => shown(self.folder()),
            "config" => shown(&self.config_file()),
            "ca" => shown(self.authority(name.unwrap_or("main"))?.root_file()),
            "crl" | "stale-crl" => shown(&self.revocation_list(name.unwrap_or_default(), word == "stale-crl")?),
            "cert" => shown(&self.certificate(name.unwrap_or(DEFAULT_NAME))?.cert),
            "key" => shown(&self.certificate(name.unwrap_or(DEFAULT_NAME))?.key),
            _ => shown(&self.certificate(name.unwrap_or(DEFAULT_NAME))?.combined),
        })
    }

    fn port(&mut self, word: &str, name: &str) -> Result<u16, String> {
        let key = format!("{word}:{name}");
        if let Some(port) = self.ports.get(&key) {
            return Ok(*port);
        }
        let reservation = Reservation::new().map_err(|error| error.to_string())?;
        let port = reservation.port();
        self.ports.insert(key.clone(), port);
        self.reservations.insert(key, reservation);
        Ok(port)
    }

    pub fn admin_address(&mut self) -> Result<String, String> {
        Ok(format!("127.0.0.1:{}", self.port("admin", "")?))
    }

    pub fn main_address(&mut self) -> Result<String, String> {
        Ok(format!("127.0.0.1:{}", self.port("port", "")?))
    }

    /// The listener of an upstream. On another address than `127.0.0.1` the port is bound there anew.
    pub fn upstream_listener(&mut self, name: &str, ip: &str) -> Result<TcpListener, String> {
        let port = self.port("upstream", name)?;
        let reservation = self.reservations.remove(&format!("upstream:{name}")).ok_or("two upstreams of one name")?;
        if ip == "127.0.0.1" { reservation.listen() } else { TcpListener::bind((ip.trim_matches(['[', ']']), port)) }
            .map_err(|error| error.to_string())
    }

    /// Gives up the ports that the proxy will bind.
    pub fn release_proxy_ports(&mut self) {
        self.reservations.retain(|key, _| !key.starts_with("port:") && !key.starts_with("admin:"));
    }

    pub fn authority(&mut self, name: &str) -> Result<&Authority, String> {
        if !self.authorities.contains_key(name) {
            let authority = Authority::new(self.folder.path(), name)?;
            self.authorities.insert(name.to_owned(), authority);
        }
        self.authorities.get(name).ok_or_else(|| "just inserted".into())
    }

    /// `example.com`, `a.example+b.example`, `example.com:rsa`, `example.com:expired`, `example.com@other:client`.
    pub fn certificate(&mut self, name: &str) -> Result<CertificateFiles, String> {
        if let Some(files) = self.certificates.get(name) {
            return Ok(files.clone());
        }
        let (subjects, kind) = match name.rsplit_once(':') {
            Some((subjects, "rsa")) => (subjects, KeyKind::Rsa),
            Some((subjects, "expired")) => (subjects, KeyKind::Expired),
            Some((subjects, "self-signed")) => (subjects, KeyKind::SelfSigned),
            Some((subjects, "client")) => (subjects, KeyKind::Client),
            Some((subjects, "server")) => (subjects, KeyKind::Server),
            _ => (name, KeyKind::Ecdsa),
        };
        let (subjects, authority) = subjects.rsplit_once('@').unwrap_or((subjects, "main"));
        let files = self.authority(authority)?.issue(subjects, kind)?;
        self.certificates.insert(name.to_owned(), files.clone());
        Ok(files)
    }

    /// Of the main authority: with the certificate of that name, or with none; `@other` is another authority's with
    /// none.
    fn revocation_list(&mut self, name: &str, is_stale: bool) -> Result<PathBuf, String> {
        let key = format!("{name} {is_stale}");
        if let Some(file) = self.revocation_lists.get(&key) {
            return Ok(file.clone());
        }
        let (authority, revoked) = match name.strip_prefix('@') {
            Some(authority) => (authority, None),
            None if name.is_empty() => ("main", None),
            None => ("main", Some(self.certificate(name)?)),
        };
        let file_name = format!("list-{}", self.revocation_lists.len());
        let file = self.authority(authority)?.revoke(&file_name, revoked.iter().collect::<Vec<_>>().as_slice(), is_stale)?;
        self.revocation_lists.insert(key, file.clone());
        Ok(file)
    }
}

/// Shared by the sections of one running case.
pub struct World {
    pub places: RefCell<Places>,
    pub admin: String,
    pub main: String,
    pub access_log: PathBuf,
    pub folder: PathBuf,
    pub wait: Duration,
    /// See [`Over::driver`](super::run::Over::driver).
    pub driver: Option<&'static str>,
    pub program: RefCell<Option<Program>>,
    /// The case itself ended the proxy, or saw it end.
    pub exit_expected: Cell<bool>,
    pub marks: RefCell<HashSet<String>>,
    pub marked: Notify,
    /// What the upstreams of the case count.
    pub upstream_counters: RefCell<Vec<Arc<Counters>>>,
    /// Bodies that others are compared with, by name.
    bodies: RefCell<HashMap<String, Vec<u8>>>,
    /// Of clients that keep them, by the name of the jar and their own.
    cookies: RefCell<HashMap<String, BTreeMap<String, String>>>,
    tls_clients: RefCell<HashMap<String, Arc<rustls::ClientConfig>>>,
    /// Refusals that were expected, by what the access log has of them.
    refusals: RefCell<HashMap<String, usize>>,
}

impl World {
    pub fn new(mut places: Places, wait: Duration, driver: Option<&'static str>) -> Result<Rc<World>, String> {
        Ok(Rc::new(World {
            admin: places.admin_address()?,
            main: places.main_address()?,
            access_log: places.folder().join("access.log"),
            folder: places.folder().to_owned(),
            places: RefCell::new(places),
            wait,
            driver,
            program: RefCell::new(None),
            exit_expected: Cell::new(false),
            marks: RefCell::default(),
            upstream_counters: RefCell::default(),
            marked: Notify::new(),
            bodies: RefCell::default(),
            cookies: RefCell::default(),
            tls_clients: RefCell::default(),
            refusals: RefCell::default(),
        }))
    }

    pub fn mark(&self, name: &str) {
        self.marks.borrow_mut().insert(name.to_owned());
        self.marked.notify_waiters();
    }

    pub async fn wait_for_mark(&self, name: &str) {
        loop {
            let notified = self.marked.notified();
            if self.marks.borrow().contains(name) {
                return;
            }
            notified.await;
        }
    }

    /// The number of refusals with these fields of the log, with this one.
    pub fn count_refusal(&self, log: &[(String, Matcher)]) -> usize {
        let fields: Vec<String> = log.iter().map(|(name, matcher)| format!("{name}={matcher}")).collect();
        let mut refusals = self.refusals.borrow_mut();
        let count = refusals.entry(fields.join(" ")).or_default();
        *count += 1;
        *count
    }

    /// `expect-body-as` keeps the first body of a name, and compares the others with it.
    pub fn compare_body(&self, name: &str, is_same: bool, body: &[u8]) -> Result<(), String> {
        let mut bodies = self.bodies.borrow_mut();
        match bodies.get(name) {
            None if is_same => {
                bodies.insert(name.to_owned(), body.to_vec());
                Ok(())
            }
            None => Err(format!("there was no body of the name `{name}` before")),
            Some(known) if (known == body) == is_same => Ok(()),
            Some(known) => Err(format!("the body is {}, and that of `{name}` was {}", escape(body), escape(known))),
        }
    }

    /// As a browser does, as far as cases need it: by name, for all paths and for as long as the case lasts.
    pub fn keep_cookies(&self, jar: &str, head: &Head) {
        let mut jars = self.cookies.borrow_mut();
        let jar = jars.entry(jar.to_owned()).or_default();
        for (_, value) in head.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            let text = String::from_utf8_lossy(value);
            let pair = text.split(';').next().unwrap_or_default();
            if let Some((name, value)) = pair.split_once('=') {
                jar.insert(name.trim().to_owned(), value.trim().to_owned());
            }
        }
    }

    /// The value of `Cookie` that a client of this jar sends.
    pub fn cookies(&self, jar: &str) -> Option<String> {
        let jars = self.cookies.borrow();
        let pairs: Vec<String> = jars.get(jar)?.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }

    /// Clients with the same options share their configuration, and with it their TLS sessions.
    pub fn tls_client(&self, options: &ClientTls) -> Result<Arc<rustls::ClientConfig>, String> {
        let key = format!("{options:?}");
        if let Some(config) = self.tls_clients.borrow().get(&key) {
            return Ok(config.clone());
        }
        let versions: Vec<String> = ["1.2", "1.3"]
            .into_iter()
            .filter(|version| options.min.as_deref().is_none_or(|min| min <= *version))
            .filter(|version| options.max.as_deref().is_none_or(|max| *version <= max))
            .map(str::to_owned)
            .collect();
        let wanted = tls::ClientOptions {
            versions,
            alpn: options.alpn.clone(),
            only: options.only.clone(),
            send_sni: options.sni.is_some(),
            certificate: options.cert.as_ref().map(|path| PathBuf::from(String::from_utf8_lossy(path).as_ref())),
        };
        let root = match options.ca.as_str() {
            "internal" => None,
            path if path.starts_with('/') => Some(tls::root_of_file(Path::new(path))?),
            name => {
                let name = if name.is_empty() { "main" } else { name };
                Some(self.places.borrow_mut().authority(name)?.root().clone())
            }
        };
        let config = Arc::new(tls::client_config(root.as_ref(), &wanted)?);
        self.tls_clients.borrow_mut().insert(key, config.clone());
        Ok(config)
    }
}
