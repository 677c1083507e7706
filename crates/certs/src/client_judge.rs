//! Certificates of clients that are taken in the handshake without being verified (`mode="unverified"`), and who says
//! afterwards whether one is good. That the client has the key of what it shows is verified in the handshake as ever.

use crate::provider::provider;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};
use std::sync::Arc;

/// Says whether a certificate is one of somebody whom the site believes.
#[derive(Debug, Clone)]
pub struct ClientJudge {
    /// `None`: no authority is named, so no certificate is good.
    verifies: Option<Arc<dyn ClientCertVerifier>>,
}

impl ClientJudge {
    pub fn new(verifies: Option<Arc<dyn ClientCertVerifier>>) -> ClientJudge {
        ClientJudge { verifies }
    }

    /// What is wrong with a chain, the client's own certificate first, in the words of OpenSSL: what readers of
    /// nginx's `$ssl_client_verify` know. `None`: it is good.
    pub fn fault(&self, chain: &[Box<[u8]>], now: UnixTime) -> Option<&'static str> {
        let chain: Vec<CertificateDer<'_>> = chain.iter().map(|der| CertificateDer::from(&**der)).collect();
        let (Some((own, others)), Some(verifies)) = (chain.split_first(), &self.verifies) else {
            return Some(UNKNOWN_ISSUER);
        };
        verifies.verify_client_cert(own, others, now).err().map(|error| words(&error))
    }
}

const UNKNOWN_ISSUER: &str = "unable to verify the first certificate";

/// The kinds that rustls tells apart; what it knows more of is in none of them.
fn words(error: &Error) -> &'static str {
    let Error::InvalidCertificate(fault) = error else { return "application verification failure" };
    match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "certificate is not yet valid",
        CertificateError::Revoked => "certificate revoked",
        CertificateError::UnknownRevocationStatus => "unable to get certificate CRL",
        CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => "CRL has expired",
        CertificateError::UnknownIssuer => UNKNOWN_ISSUER,
        CertificateError::BadSignature => "certificate signature failure",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => "unsuitable certificate purpose",
        _ => "certificate rejected",
    }
}

/// Has every certificate in, and whoever shows none.
#[derive(Debug)]
pub struct TakesAny {
    /// The one whose authorities clients are told, so that browsers know which certificate to offer.
    hints: Option<Arc<dyn ClientCertVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl TakesAny {
    pub fn verifier(hints: Option<Arc<dyn ClientCertVerifier>>) -> Arc<dyn ClientCertVerifier> {
        Arc::new(TakesAny { hints, algorithms: provider().signature_verification_algorithms })
    }
}

impl ClientCertVerifier for TakesAny {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.hints.as_ref().map_or(&[], |hints| hints.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
