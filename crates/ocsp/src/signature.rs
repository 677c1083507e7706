//! Who signed something, as certificates and answers say it in the same three elements, and whether it is true.
//! The algorithms are those that certificates of handshakes are verified with; nothing weaker is accepted for answers.

use crate::der::{Element, Reader, tag};
use crate::fault::Fault;
use rustls::crypto::aws_lc_rs::default_provider;
use x509_parser::certificate::X509Certificate;

/// `SEQUENCE { what is signed, algorithm, signature, … }`
pub struct Signed<'a> {
    pub message: Element<'a>,
    algorithm: &'a [u8],
    signature: &'a [u8],
}

/// A public key as certificates have it.
#[derive(Debug, Clone, Copy)]
pub struct Key<'a> {
    /// Contents of its `AlgorithmIdentifier`.
    algorithm: &'a [u8],
    pub bits: &'a [u8],
}

impl<'a> Signed<'a> {
    /// Leaves what follows the signature in the reader.
    pub fn read(elements: &mut Reader<'a>) -> Result<Signed<'a>, Fault> {
        let message = elements.expect(tag::SEQUENCE, "what is signed")?;
        let algorithm = elements.expect(tag::SEQUENCE, "the signature's algorithm")?.content;
        let signature = elements.expect(tag::BIT_STRING, "the signature")?.bits("the signature")?;
        Ok(Signed { message, algorithm, signature })
    }

    pub fn of_certificate(der: &'a [u8]) -> Result<Signed<'a>, Fault> {
        let mut outer = Reader::new(der);
        let mut elements = outer.expect(tag::SEQUENCE, "a certificate")?.elements();
        Signed::read(&mut elements)
    }

    pub fn verify(&self, key: Key<'_>) -> Result<(), Fault> {
        let algorithms = default_provider().signature_verification_algorithms;
        let mut fitting = algorithms
            .all
            .iter()
            .filter(|known| *known.public_key_alg_id() == *key.algorithm && *known.signature_alg_id() == *self.algorithm)
            .peekable();
        if fitting.peek().is_none() {
            return Err(Fault::Algorithm);
        }
        let is_true = fitting.any(|known| known.verify_signature(key.bits, self.message.whole, self.signature).is_ok());
        if is_true { Ok(()) } else { Err(Fault::Signature) }
    }
}

pub fn key_of<'a>(certificate: &'a X509Certificate<'_>) -> Result<Key<'a>, Fault> {
    const WHAT: &str = "the key of a certificate";
    let mut outer = Reader::new(certificate.public_key().raw);
    let mut elements = outer.expect(tag::SEQUENCE, WHAT)?.elements();
    let algorithm = elements.expect(tag::SEQUENCE, WHAT)?.content;
    let bits = elements.expect(tag::BIT_STRING, WHAT)?.bits(WHAT)?;
    Ok(Key { algorithm, bits })
}
