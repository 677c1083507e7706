//! A CA with an OCSP responder for tests, both made of the program `openssl`, so that what is tested is what OpenSSL
//! signs and not what we think of it. The responder's HTTP is ours, on loopback: OpenSSL's own listens everywhere, and
//! never hangs or lies when asked to.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Of one question with its head.
const QUESTION_BYTES_MAX: usize = 16 << 10;

/// The program, if it is installed; otherwise a line says that a test is skipped.
pub fn installed() -> bool {
    let is_there =
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("openssl").is_file()));
    if !is_there {
        println!("skipped: there is no openssl on this machine");
    }
    is_there
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Ecdsa,
    Rsa,
}

/// What a certificate says.
#[derive(Debug, Clone, Default)]
pub struct Leaf {
    /// URL of its responder.
    pub responder: Option<String>,
    pub must_staple: bool,
}

/// Files of a certificate; a chain has the issuer behind it.
#[derive(Debug, Clone)]
pub struct Issued {
    pub certificate: PathBuf,
    pub chain: PathBuf,
    pub key: PathBuf,
    serial: String,
}

/// As OpenSSL's index has them, in front of the serial number.
const GOOD: &str = "V\t400101000000Z\t";
const REVOKED: &str = "R\t400101000000Z\t260101000000Z";

/// What signs answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signer {
    Issuer,
    /// With a certificate of the issuer for it.
    Delegate,
    /// With one of the issuer for something else.
    Undelegated,
}

/// A root that issues.
pub struct ResponderAuthority {
    folder: PathBuf,
    key: Key,
    /// `V` or `R` with the time, by serial.
    index: Mutex<BTreeMap<String, String>>,
}

impl ResponderAuthority {
    /// In a folder of its own below this one.
    pub fn new(folder: &Path, name: &str, key: Key) -> Result<ResponderAuthority, String> {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let authority = ResponderAuthority { folder, key, index: Mutex::default() };
        authority.make_key("ca.key")?;
        let subject = format!("/CN={name}");
        authority.openssl(&["req", "-x509", "-key", "ca.key", "-subj", &subject, "-days", "30", "-out", "ca.pem"])?;
        authority.issue_with("delegate", "extendedKeyUsage=OCSPSigning\nkeyUsage=digitalSignature\n")?;
        authority.issue_with("undelegated", "extendedKeyUsage=serverAuth\n")?;
        Ok(authority)
    }

    /// A responder that answers for another CA, whose certificate and key it is given later.
    pub fn for_another(folder: &Path, name: &str) -> Result<ResponderAuthority, String> {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        Ok(ResponderAuthority { folder, key: Key::Rsa, index: Mutex::default() })
    }

    /// In PEM.
    pub fn adopt(&self, certificate: &str, key: &str) -> Result<(), String> {
        let write = |name: &str, text: &str| fs::write(self.folder.join(name), text).map_err(|error| error.to_string());
        write("ca.key", key)?;
        write("ca.pem", certificate)
    }

    /// The serial number that is asked about counts as revoked if it is the first of all, and as good otherwise.
    fn revoke_first(&self, question: &[u8]) -> Result<(), String> {
        fs::write(self.folder.join("asked.der"), question).map_err(|error| error.to_string())?;
        let mut command = Command::new("openssl");
        command.args(["ocsp", "-reqin", "asked.der", "-req_text"]).current_dir(&self.folder);
        let output = command.output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let serial = text.lines().find_map(|line| line.trim().strip_prefix("Serial Number: "));
        let serial = serial.ok_or_else(|| format!("no serial number in {text}"))?.to_owned();
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let (is_first, is_known) = (index.is_empty(), index.contains_key(&serial));
        drop(index);
        match (is_known, is_first) {
            (true, _) => Ok(()),
            (false, true) => self.put(&serial, REVOKED),
            (false, false) => self.put(&serial, GOOD),
        }
    }

    pub fn root(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    pub fn issue(&self, name: &str, leaf: &Leaf) -> Result<Issued, String> {
        let mut extensions = format!("subjectAltName=DNS:{name}\nextendedKeyUsage=serverAuth\n");
        if let Some(url) = &leaf.responder {
            extensions += &format!("authorityInfoAccess=OCSP;URI:{url}\n");
        }
        if leaf.must_staple {
            extensions += "tlsfeature=status_request\n";
        }
        self.issue_with(name, &extensions)
    }

    /// From the next answer on.
    pub fn revoke(&self, issued: &Issued) -> Result<(), String> {
        self.put(&issued.serial, REVOKED)
    }

    /// Answers from now on as a responder does that has never heard of the certificate (RFC 6960 section 2.2).
    pub fn disown(&self, issued: &Issued) -> Result<(), String> {
        self.put(&issued.serial, "R\t400101000000Z\t700101000000Z,certificateHold")
    }

    /// What is answered to a question, in DER; `days` until the next update.
    pub fn answer(&self, question: &[u8], signer: Signer, days: u32) -> Result<Vec<u8>, String> {
        // Questions may come at the same time.
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (asked, answered) = (format!("question-{number}.der"), format!("answer-{number}.der"));
        fs::write(self.folder.join(&asked), question).map_err(|error| error.to_string())?;
        let (certificate, key) = match signer {
            Signer::Issuer => ("ca.pem", "ca.key"),
            Signer::Delegate => ("delegate.pem", "delegate.key"),
            Signer::Undelegated => ("undelegated.pem", "undelegated.key"),
        };
        let days = days.to_string();
        self.openssl(&[
            "ocsp",
            "-index",
            "index.txt",
            "-CA",
            "ca.pem",
            "-rsigner",
            certificate,
            "-rkey",
            key,
            "-reqin",
            &asked,
            "-respout",
            &answered,
            "-ndays",
            &days,
        ])?;
        fs::read(self.folder.join(answered)).map_err(|error| error.to_string())
    }

    /// OpenSSL's own question about a certificate.
    pub fn question(&self, issued: &Issued) -> Result<Vec<u8>, String> {
        let certificate = issued.certificate.display().to_string();
        self.openssl(&["ocsp", "-issuer", "ca.pem", "-cert", &certificate, "-no_nonce", "-reqout", "question.der"])?;
        fs::read(self.folder.join("question.der")).map_err(|error| error.to_string())
    }

    fn issue_with(&self, name: &str, extensions: &str) -> Result<Issued, String> {
        let of = |suffix: &str| format!("{name}.{suffix}");
        let serial = format!("{:02X}", 0x10 + self.index.lock().unwrap_or_else(PoisonError::into_inner).len());
        self.make_key(&of("key"))?;
        fs::write(self.folder.join(of("cnf")), extensions).map_err(|error| error.to_string())?;
        let subject = format!("/CN={name}");
        self.openssl(&["req", "-new", "-key", &of("key"), "-subj", &subject, "-out", &of("csr")])?;
        let number = format!("0x{serial}");
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &of("csr"),
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-set_serial",
            &number,
            "-days",
            "20",
            "-extfile",
            &of("cnf"),
            "-out",
            &of("pem"),
        ])?;
        self.put(&serial, GOOD)?;
        let path = |suffix: &str| self.folder.join(of(suffix));
        let read = |file: PathBuf| fs::read_to_string(file).map_err(|error| error.to_string());
        let chain = read(path("pem"))? + &read(self.root())?;
        fs::write(path("chain.pem"), chain).map_err(|error| error.to_string())?;
        Ok(Issued { certificate: path("pem"), chain: path("chain.pem"), key: path("key"), serial })
    }

    fn put(&self, serial: &str, state: &str) -> Result<(), String> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.insert(serial.to_owned(), state.to_owned());
        let line = |(serial, state): (&String, &String)| format!("{state}\t{serial}\tunknown\t/CN={serial}\n");
        fs::write(self.folder.join("index.txt"), index.iter().map(line).collect::<String>()).map_err(|error| error.to_string())
    }

    fn make_key(&self, file: &str) -> Result<(), String> {
        let kind: &[&str] = match self.key {
            Key::Ecdsa => &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
            Key::Rsa => &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
        };
        self.openssl(&[&["genpkey", "-out", file], kind].concat())
    }

    fn openssl(&self, arguments: &[&str]) -> Result<(), String> {
        let output =
            Command::new("openssl").args(arguments).current_dir(&self.folder).output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// How a responder behaves.
#[derive(Clone)]
pub enum Manner {
    Answers(Arc<ResponderAuthority>, Signer),
    /// The first certificate that it is asked about is revoked, all others are good.
    RevokesFirst(Arc<ResponderAuthority>),
    /// Takes connections and says nothing.
    Hangs,
    Sends(Vec<u8>),
}

/// Over HTTP, until it goes away.
pub struct Responder {
    pub url: String,
    asked: Arc<AtomicUsize>,
    has_ended: Arc<AtomicBool>,
    port: u16,
}

impl Responder {
    pub fn start(manner: Manner) -> Result<Responder, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let responder =
            Responder { url: format!("http://127.0.0.1:{port}/ocsp"), asked: Arc::default(), has_ended: Arc::default(), port };
        let (asked, has_ended) = (responder.asked.clone(), responder.has_ended.clone());
        std::thread::spawn(move || {
            // Connections of those that hang.
            let mut held = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                if has_ended.load(Ordering::Acquire) {
                    return;
                }
                asked.fetch_add(1, Ordering::AcqRel);
                held.extend(serve(stream, &manner));
            }
        });
        Ok(responder)
    }

    /// Connections that came.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Acquire)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Release);
        // Wakes it.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// One question; gives the connection back if it is to stay open.
fn serve(mut stream: TcpStream, manner: &Manner) -> Option<TcpStream> {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
    let question = read_question(&mut stream)?;
    let (status, body) = match manner {
        Manner::Hangs => return Some(stream),
        Manner::Sends(bytes) => (200, bytes.clone()),
        Manner::Answers(authority, signer) => answered(authority, *signer, &question),
        Manner::RevokesFirst(authority) => match authority.revoke_first(&question) {
            Ok(()) => answered(authority, Signer::Issuer, &question),
            Err(problem) => (500, problem.into_bytes()),
        },
    };
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/ocsp-response\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(&[head.as_bytes(), &body].concat());
    None
}

fn answered(authority: &ResponderAuthority, signer: Signer, question: &[u8]) -> (u16, Vec<u8>) {
    match authority.answer(question, signer, 7) {
        Ok(body) => (200, body),
        Err(problem) => (500, problem.into_bytes()),
    }
}

/// By GET or POST, in DER.
fn read_question(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    let mut piece = [0; 2048];
    loop {
        if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).into_owned();
            let body = &read[end + 4..];
            if let Some(target) = head.strip_prefix("GET ") {
                let encoded = target.split(' ').next()?.rsplit('/').next()?;
                let encoded = encoded.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
                return STANDARD.decode(encoded).ok();
            }
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                if name.eq_ignore_ascii_case("content-length") { value.trim().parse::<usize>().ok() } else { None }
            })?;
            if body.len() >= length {
                return Some(body[..length].to_vec());
            }
        }
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        read.extend_from_slice(&piece[..count]);
        if read.len() > QUESTION_BYTES_MAX {
            return None;
        }
    }
}
