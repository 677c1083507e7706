//! The certificate that a client has shown in its handshake, as the rest of the program speaks of it: names, dates,
//! fingerprint, and the fields that upstreams are told of it in. Whether it is trusted was decided before; how
//! names are written is in `name`.

mod forwarding;
mod name;

#[cfg(test)]
mod tests;

use self::name::{distinguished_name, subject_names};
use std::cell::OnceCell;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

/// A certificate chain and what is read from it. Reading happens when somebody asks, and once: most connections are
/// never asked.
#[derive(Debug)]
pub struct ClientCertificate {
    /// As the client sent them, its own first; never empty.
    chain: Box<[Box<[u8]>]>,
    sha256: fn(&[u8]) -> [u8; 32],
    facts: OnceCell<Option<Box<Facts>>>,
    fingerprint: OnceCell<Box<str>>,
    client_cert: OnceCell<Box<[u8]>>,
    client_cert_chain: OnceCell<Box<[u8]>>,
    xfcc: OnceCell<Box<[u8]>>,
    escaped_pem: OnceCell<Box<[u8]>>,
}

/// What the client's own certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// As in RFC 4514, the most specific part first: `CN=ops,O=Example`.
    pub subject: String,
    pub issuer: String,
    /// The most specific one of the subject.
    pub common_name: Option<String>,
    /// In upper case hexadecimal digits, as OpenSSL shows it.
    pub serial: String,
    /// Each of one form only: nothing that is a URI here stood as anything else in the certificate.
    pub names: Vec<SubjectName>,
    /// The names, joined by commas.
    pub names_joined: String,
    /// The end of the shortest validity in the chain, so that a session is not resumed beyond it.
    pub chain_not_after_unix: i64,
    /// `2026-11-22T08:53:16Z`
    pub not_after: String,
}

/// A subject alternative name. Without commas, quotes, backslashes, spaces and control characters: such bytes are
/// percent-encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectName {
    pub kind: SubjectNameKind,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubjectNameKind {
    Dns,
    Ip,
    Email,
    Uri,
}

impl ClientCertificate {
    /// `chain` is the client's own certificate and then what it sent along; `None` when it sent none.
    pub fn new(chain: Vec<Box<[u8]>>, sha256: fn(&[u8]) -> [u8; 32]) -> Option<ClientCertificate> {
        if chain.is_empty() {
            return None;
        }
        Some(ClientCertificate {
            chain: chain.into(),
            sha256,
            facts: OnceCell::new(),
            fingerprint: OnceCell::new(),
            client_cert: OnceCell::new(),
            client_cert_chain: OnceCell::new(),
            xfcc: OnceCell::new(),
            escaped_pem: OnceCell::new(),
        })
    }

    /// `None` when it cannot be read as a certificate, though TLS has accepted it.
    pub fn facts(&self) -> Option<&Facts> {
        self.facts.get_or_init(|| read(&self.chain).map(Box::new)).as_deref()
    }

    /// Whether it, or another of its chain, is past its time. What cannot be read counts as that.
    pub fn is_over_at(&self, unix_secs: i64) -> bool {
        self.facts().is_none_or(|facts| facts.chain_not_after_unix < unix_secs)
    }

    /// SHA-256 of the whole certificate, in 64 lower case hexadecimal digits.
    pub fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| hex(&(self.sha256)(&self.chain[0]), b"0123456789abcdef").into())
    }
}

fn read(chain: &[Box<[u8]>]) -> Option<Facts> {
    let leaf = parse(&chain[0])?;
    let names = subject_names(&leaf);
    let texts: Vec<&str> = names.iter().map(|name| name.text.as_str()).collect();
    // Of what the client sent along, a piece that is no certificate took no part in the verification.
    let ends = chain.iter().filter_map(|der| parse(der)).map(|certificate| certificate.validity().not_after.timestamp());
    Some(Facts {
        subject: distinguished_name(leaf.subject()),
        issuer: distinguished_name(leaf.issuer()),
        common_name: leaf.subject().iter_common_name().last().and_then(|name| Some(name.as_str().ok()?.to_owned())),
        serial: serial(leaf.raw_serial()),
        names_joined: texts.join(","),
        chain_not_after_unix: ends.min()?,
        not_after: time(leaf.validity().not_after),
        names,
    })
}

fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Some(certificate),
        _ => None,
    }
}

/// The sign byte that DER puts before a large number is no part of it.
fn serial(raw: &[u8]) -> String {
    let digits = match raw {
        [0, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    hex(digits, b"0123456789ABCDEF")
}

fn time(at: ASN1Time) -> String {
    let at = at.to_datetime();
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", at.hour(), at.minute(), at.second())
}

fn hex(bytes: &[u8], digits: &[u8; 16]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]).map(|digit| char::from(digits[digit as usize])).collect()
}
