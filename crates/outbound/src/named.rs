//! Trust in authorities, and in certificates themselves: one that stands in the file of roots byte for byte is trusted
//! when a server shows it, whoever signed it. Appliances sign their own, most of them as if they were an authority's
//! (CA:TRUE), which no verifier takes from a server.

use rustls::client::VerifierBuilderError;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::Arc;

/// Verifies as the library does; what it does not take is taken if it is named.
#[derive(Debug)]
pub struct NamedCertificates {
    authorities: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl NamedCertificates {
    /// `named` are the certificates of the file that the roots were read from.
    pub fn new(
        roots: Arc<RootCertStore>,
        named: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<NamedCertificates, VerifierBuilderError> {
        let authorities = WebPkiServerVerifier::builder_with_provider(roots, provider).build()?;
        Ok(NamedCertificates { authorities, named })
    }
}

impl ServerCertVerifier for NamedCertificates {
    /// A certificate that is named holds for whatever name was asked for, and whatever it says that it is for: there is
    /// nobody else who could show it. Its time is the library's first question, so that one past it is not taken here.
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict = self.authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verdict {
            Err(Error::InvalidCertificate(fault))
                if !is_of_time(&fault) && self.named.iter().any(|named| named == end_entity) =>
            {
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        self.authorities.root_hint_subjects()
    }
}

fn is_of_time(fault: &CertificateError) -> bool {
    matches!(
        fault,
        CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }
            | CertificateError::BadEncoding
    )
}
