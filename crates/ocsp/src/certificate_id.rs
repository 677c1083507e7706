//! Whom a question is about: a certificate by its serial number, and its issuer by name and key (RFC 6960 section
//! 4.1.1). No trust is decided here; that the issuer signed the certificate, the client of the handshake finds out.

use crate::der::{element, tag};
use crate::fault::Fault;
use crate::signature::key_of;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN, digest};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// `id-sha1`, 1.3.14.3.2.26.
const SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];

type Sha1Digest = [u8; SHA1_OUTPUT_LEN];

/// SHA-1 identifies here and proves nothing; responders that make their answers beforehand know no other (RFC 5019
/// section 2.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateId {
    issuer_name_hash: Sha1Digest,
    issuer_key_hash: Sha1Digest,
    serial: Box<[u8]>,
}

impl CertificateId {
    /// `None` when one of them is no certificate, or the second cannot have issued the first.
    pub fn of(certificate: &[u8], issuer: &[u8]) -> Option<CertificateId> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let (_, issuer) = X509Certificate::from_der(issuer).ok()?;
        if certificate.issuer().as_raw() != issuer.subject().as_raw() {
            return None;
        }
        Some(CertificateId {
            issuer_name_hash: sha1(issuer.subject().as_raw()),
            issuer_key_hash: sha1(key_of(&issuer).ok()?.bits),
            serial: certificate.raw_serial().into(),
        })
    }

    pub(crate) fn to_der(&self) -> Vec<u8> {
        let algorithm = element(tag::SEQUENCE, &[&element(tag::OBJECT_IDENTIFIER, &[SHA1]), &element(tag::NULL, &[])]);
        let name = element(tag::OCTET_STRING, &[&self.issuer_name_hash]);
        let key = element(tag::OCTET_STRING, &[&self.issuer_key_hash]);
        element(tag::SEQUENCE, &[&algorithm, &name, &key, &element(tag::INTEGER, &[&self.serial])])
    }

    /// Whether these elements of an answer's `CertID` are the same.
    pub(crate) fn is(&self, asked: crate::der::Element<'_>) -> Result<bool, Fault> {
        const WHAT: &str = "the certificate that it is about";
        let mut parts = asked.elements();
        let mut algorithm = parts.expect(tag::SEQUENCE, WHAT)?.elements();
        let is_sha1 = algorithm.expect(tag::OBJECT_IDENTIFIER, WHAT)?.content == SHA1;
        let name = parts.expect(tag::OCTET_STRING, WHAT)?.content;
        let key = parts.expect(tag::OCTET_STRING, WHAT)?.content;
        let serial = parts.expect(tag::INTEGER, WHAT)?.content;
        parts.end(WHAT)?;
        Ok(is_sha1 && name == self.issuer_name_hash && key == self.issuer_key_hash && *serial == *self.serial)
    }
}

pub fn sha1(bytes: &[u8]) -> Sha1Digest {
    let mut hash = [0; SHA1_OUTPUT_LEN];
    hash.copy_from_slice(digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref());
    hash
}
