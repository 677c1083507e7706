//! Stands before pebble and adds what it does not have (renewal information, limits), and what CAs do on bad days. It
//! passes everything on with the `Host` that it was asked by, so that pebble writes its addresses as this proxy's.

use super::World;
use jiff::Timestamp;
use rcgen::{CertificateParams, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm, date_time_ymd};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;

/// What happens to a request whose path has the text.
#[derive(Debug, Clone)]
pub struct Rule {
    pub path: &'static str,
    pub action: Action,
    /// So often, and then never again.
    pub times: u32,
}

#[derive(Debug, Clone)]
pub enum Action {
    /// The request is never answered.
    Hang,
    /// The request is answered so, and pebble never sees it: status, a header, body.
    Answer(u16, String, String),
    /// Pebble does it, and the connection breaks before its answer.
    LoseAnswer,
    /// Pebble gets it when the test has been here twice: to see that it came, and to let it go on.
    Meet(Arc<Barrier>),
}

#[derive(Default)]
pub struct State {
    pub rules: Vec<Rule>,
    /// What renewal information says: start and end.
    pub window: Option<(String, String)>,
    /// The certificate with this serial number (base64url) is to be renewed at once.
    pub over_for: Option<String>,
    /// Lines of requests.
    pub requests: Vec<String>,
    /// What orders that were accepted said that they replace.
    pub replaced: Vec<String>,
    /// Names of profiles in the directory.
    pub profiles: Vec<&'static str>,
    /// Profiles that orders that were accepted asked for.
    pub profiles_asked: Vec<String>,
    /// Instead of pebble's, certificates with these dates are handed out, by another authority.
    pub dates: Option<(Timestamp, Timestamp)>,
    /// The last request to sign, in DER.
    request: Vec<u8>,
}

pub struct Proxy {
    pub directory: String,
    pub state: Arc<Mutex<State>>,
}

struct Way {
    upstream: SocketAddr,
    port: u16,
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    state: Arc<Mutex<State>>,
}

impl Proxy {
    pub fn start(world: &World) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let files = &world.pebble.certificate;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chain = vec![CertificateDer::from_pem_file(&files.cert).unwrap()];
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, PrivateKeyDer::from_pem_file(&files.key).unwrap())
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&world.pebble.root).unwrap()).unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let state = Arc::new(Mutex::new(State::default()));
        let way = Arc::new(Way {
            upstream: world.pebble.address(),
            port,
            server: Arc::new(server),
            client: Arc::new(client),
            state: state.clone(),
        });
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let way = way.clone();
                thread::spawn(move || way.serve(stream));
            }
        });
        Proxy { directory: format!("https://localhost:{port}/dir"), state }
    }

    pub fn add(&self, path: &'static str, action: Action, times: u32) {
        self.state.lock().unwrap().rules.push(Rule { path, action, times });
    }

    pub fn requests(&self, text: &str) -> usize {
        self.state.lock().unwrap().requests.iter().filter(|line| line.contains(text)).count()
    }
}

impl Way {
    /// One request, one connection.
    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut stream = StreamOwned::new(ServerConnection::new(self.server.clone()).ok()?, stream);
        let (head, body) = read_request(&mut stream).ok()?;
        let line = head.lines().next()?.to_owned();
        let path = line.split(' ').nth(1)?.to_owned();
        let action = {
            let mut state = self.state.lock().unwrap();
            state.requests.push(line);
            if path.contains("/finalize-order/") {
                state.request = decoded(payload(&body)["csr"].as_str().unwrap_or_default());
            }
            let rule = state.rules.iter_mut().find(|rule| rule.times > 0 && path.contains(rule.path));
            rule.map(|rule| {
                rule.times -= 1;
                rule.action.clone()
            })
        };
        match action {
            Some(Action::Hang) => {
                thread::sleep(Duration::from_secs(3600));
                None
            }
            Some(Action::Answer(status, header, text)) => answer(&mut stream, status, &header, &text),
            Some(Action::LoseAnswer) => self.forward(&head, &body).ok().map(|_| ()),
            None if path.starts_with("/ari/") => self.renewal_info(&mut stream, &path),
            action => {
                if let Some(Action::Meet(barrier)) = action {
                    barrier.wait();
                    barrier.wait();
                }
                let (head, text) = self.forward(&head, &body).ok()?;
                let text = self.added(&path, text, &body);
                let kept = head.lines().filter(|line| {
                    let lower = line.to_ascii_lowercase();
                    !["content-length", "connection", "transfer-encoding"].iter().any(|name| lower.starts_with(name))
                });
                let head: String = kept.map(|line| format!("{line}\r\n")).collect();
                write!(stream, "{head}Content-Length: {}\r\nConnection: close\r\n\r\n", text.len()).ok()?;
                stream.write_all(&text).ok()?;
                stream.conn.send_close_notify();
                stream.flush().ok()
            }
        }
    }

    fn renewal_info(&self, stream: &mut StreamOwned<ServerConnection, TcpStream>, path: &str) -> Option<()> {
        let (window, over_for) = {
            let state = self.state.lock().unwrap();
            (state.window.clone(), state.over_for.clone())
        };
        let is_over = over_for.is_some_and(|serial| path.ends_with(&format!(".{serial}")));
        let over = ("2026-01-01T00:00:00Z".to_owned(), "2026-01-02T00:00:00Z".to_owned());
        match if is_over { Some(over) } else { window } {
            Some((start, end)) => {
                let text = json!({"suggestedWindow": {"start": start, "end": end}, "explanationURL": "https://ca.example/why"});
                answer(stream, 200, "Retry-After: 21600", &text.to_string())
            }
            None => answer(stream, 404, "X-None: 1", "{}"),
        }
    }

    /// What pebble's answers lack.
    fn added(&self, path: &str, text: Vec<u8>, body: &[u8]) -> Vec<u8> {
        let dates = self.state.lock().unwrap().dates;
        // It may be that a nonce is refused.
        if let (true, Some(dates)) = (path.contains("/certZ/") && text.starts_with(b"-----BEGIN"), dates) {
            return signed_again(&self.state.lock().unwrap().request, dates).into_bytes();
        }
        let Ok(mut json) = serde_json::from_slice::<Value>(&text) else { return text };
        let is_order = json.get("finalize").is_some();
        match path {
            "/dir" => {
                let state = self.state.lock().unwrap();
                if state.window.is_some() {
                    json["renewalInfo"] = format!("https://localhost:{}/ari", self.port).into();
                }
                if !state.profiles.is_empty() {
                    json["meta"]["profiles"] = state.profiles.iter().map(|name| (*name, "for a test")).collect();
                }
            }
            // An order that pebble refused for its nonce comes again, and counts once.
            "/order-plz" if is_order => {
                let asked = payload(body);
                let mut state = self.state.lock().unwrap();
                state.profiles_asked.extend(asked["profile"].as_str().map(str::to_owned));
                let Some(replaces) = asked["replaces"].as_str() else { return text };
                state.replaced.push(replaces.to_owned());
                json["replaces"] = replaces.into();
            }
            _ => return text,
        }
        json.to_string().into_bytes()
    }

    fn forward(&self, head: &str, body: &[u8]) -> io::Result<(String, Vec<u8>)> {
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let connection = ClientConnection::new(self.client.clone(), name).map_err(io::Error::other)?;
        let mut upstream = StreamOwned::new(connection, TcpStream::connect(self.upstream)?);
        let kept = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
        let head: String = kept.map(|line| format!("{line}\r\n")).collect();
        write!(upstream, "{head}Connection: close\r\n\r\n")?;
        upstream.write_all(body)?;
        let mut all = Vec::new();
        match upstream.read_to_end(&mut all) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
            _ => {}
        }
        let end = all.windows(4).position(|window| window == b"\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
        let head = String::from_utf8_lossy(&all[..end]).into_owned();
        let mut text = all[end + 4..].to_vec();
        if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            text = unchunked(&text);
        }
        Ok((head, text))
    }
}

fn answer(stream: &mut StreamOwned<ServerConnection, TcpStream>, status: u16, header: &str, text: &str) -> Option<()> {
    let kind = if text.starts_with('{') { "application/problem+json" } else { "text/html" };
    let length = text.len();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\n{header}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
    .ok()?;
    stream.conn.send_close_notify();
    stream.flush().ok()
}

fn read_request(stream: &mut impl Read) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&chunk[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
        let length: usize = length.unwrap_or(0);
        while bytes.len() < end + 4 + length {
            let count = stream.read(&mut chunk)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend_from_slice(&chunk[..count]);
        }
        return Ok((head, bytes[end + 4..].to_vec()));
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(String::from_utf8_lossy(&rest[..end]).trim(), 16).unwrap_or(0);
        if size == 0 || rest.len() < end + 2 + size {
            break;
        }
        whole.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = rest.get(end + 4 + size..).unwrap_or_default();
    }
    whole
}

/// A certificate for the key and the names of a request, with these dates.
fn signed_again(request: &[u8], (not_before, not_after): (Timestamp, Timestamp)) -> String {
    let (_, request) = X509CertificationRequest::from_der(request).unwrap();
    let key = RequestedKey(request.certification_request_info.subject_pki.subject_public_key.data.to_vec());
    let name = request.requested_extensions().unwrap().find_map(|extension| match extension {
        ParsedExtension::SubjectAlternativeName(names) => names.general_names.first().map(ToString::to_string),
        _ => None,
    });
    let name = name.unwrap().trim_start_matches("DNSName(").trim_end_matches(')').to_owned();
    let mut params = CertificateParams::new(vec![name]).unwrap();
    let date = |at: Timestamp| date_time_ymd(1970, 1, 1) + Duration::from_secs(at.as_second() as u64);
    (params.not_before, params.not_after) = (date(not_before), date(not_after));
    params.serial_number = Some(rand::random::<u64>().into());
    let issuer = Issuer::new(CertificateParams::new(Vec::new()).unwrap(), KeyPair::generate().unwrap());
    params.signed_by(&key, &issuer).unwrap().pem()
}

/// On P-256, as keys are by default.
struct RequestedKey(Vec<u8>);

impl PublicKeyData for RequestedKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

fn decoded(text: &str) -> Vec<u8> {
    use base64::Engine;
    base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(text).unwrap_or_default()
}

/// What is inside of a signed request.
fn payload(body: &[u8]) -> Value {
    let signed: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = signed["payload"].as_str().unwrap_or_default();
    serde_json::from_slice(&decoded(text)).unwrap_or_default()
}
