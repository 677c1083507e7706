//! The verifier that takes any certificate of any name: for upstreams with `verify=#false`, and for connections that
//! only look at a server and send nothing. Whom a chain would be trusted by is in `trust.rs`.

use crate::provider::provider;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
    /// `None`: who cannot prove the key is refused.
    seen: Option<Mutex<Seen>>,
}

/// What one handshake showed beside the chain, which its connection tells.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    /// Bytes of a stapled answer about the certificate's standing.
    pub ocsp: Vec<u8>,
    /// Whether the server proved that it has the certificate's key, as far as that can be verified here: not for weak
    /// ones, and not for the certificate of an ACME challenge, whose critical extension nobody knows.
    pub is_proven: bool,
}

impl AnyCertificate {
    pub fn of_whoever_has_its_key() -> AnyCertificate {
        AnyCertificate { algorithms: provider().signature_verification_algorithms, seen: None }
    }

    /// Of whoever it is, for one handshake or for many whose proofs nobody asks for.
    pub fn of_anybody() -> AnyCertificate {
        AnyCertificate { seen: Some(Mutex::default()), ..AnyCertificate::of_whoever_has_its_key() }
    }

    /// Nothing where proof was demanded.
    pub fn seen(&self) -> Seen {
        self.seen.as_ref().map(|seen| seen.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }

    fn judge(&self, proof: Result<HandshakeSignatureValid, Error>) -> Result<HandshakeSignatureValid, Error> {
        let Some(seen) = &self.seen else { return proof };
        seen.lock().unwrap_or_else(PoisonError::into_inner).is_proven = proof.is_ok();
        Ok(HandshakeSignatureValid::assertion())
    }
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(seen) = &self.seen {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = Seen { ocsp: ocsp_response.to_vec(), is_proven: false };
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.judge(verify_tls12_signature(message, cert, dss, &self.algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.judge(verify_tls13_signature(message, cert, dss, &self.algorithms))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
