//! The generator's TLS client: configuration, and rustls driven through its unbuffered interface. No socket here.
//! Every peer gets the same hello: TLS 1.3, AES-128-GCM, X25519, so that no peer does other cryptography than its
//! neighbour.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue, UnbufferedClientConnection,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{CipherSuite, ClientConfig, DigitallySignedStruct, HandshakeKind, NamedGroup, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::net::Error;

/// Header, content type and tag of a TLS 1.3 record with AES-GCM, and some to spare.
const RECORD_OVERHEAD_BYTES: usize = 64;
const RECORD_PAYLOAD_BYTES_MAX: usize = 16 * 1024;
/// Servers send one or two for each connection that spends one, so the store fills up.
const TICKETS_MAX: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionTickets {
    /// Every handshake is a full one.
    Ignored,
    /// Kept by this configuration and spent by its later connections.
    Used,
}

/// Without a `ca`, any certificate is taken: the lab then measures a proxy whose certificate it does not know.
pub fn client_config(ca: Option<&Path>, alpn: &str, tickets: SessionTickets) -> Result<Arc<ClientConfig>, Error> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
    let provider = Arc::new(provider);
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&[&rustls::version::TLS13])?;
    let mut config = match ca {
        Some(path) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(path).map_err(|error| format!("{}: {error}", path.display()))?)?;
            builder.with_root_certificates(roots).with_no_client_auth()
        }
        None => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))).with_no_client_auth(),
    };
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    config.resumption = match tickets {
        SessionTickets::Ignored => Resumption::disabled(),
        SessionTickets::Used => Resumption::store(Arc::new(Tickets::default())),
    };
    Ok(Arc::new(config))
}

pub struct Tls {
    connection: UnbufferedClientConnection,
    ready: bool,
    closed: bool,
}

impl Tls {
    pub fn new(config: &Arc<ClientConfig>, name: ServerName<'static>) -> Result<Tls, rustls::Error> {
        let connection = UnbufferedClientConnection::new(Arc::clone(config), name)?;
        Ok(Tls { connection, ready: false, closed: false })
    }

    /// The handshake is complete.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// The server said that nothing more will come.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    pub fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub fn alpn(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Takes received records, hands their plaintext to `sink`, appends what must be sent to `outgoing`, and returns
    /// how many bytes of `incoming` are spent. The rest is the beginning of a record.
    pub fn handle_incoming(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, rustls::Error> {
        let mut spent = 0;
        loop {
            let UnbufferedStatus { mut discard, state, .. } = self.connection.process_tls_records(&mut incoming[spent..]);
            let finished = match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        sink(record.payload);
                    }
                    false
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    let start = outgoing.len();
                    if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
                        outgoing.resize(start + size.required_size, 0);
                        data.encode(&mut outgoing[start..]).map_err(|error| rustls::Error::General(error.to_string()))?;
                    }
                    false
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    false
                }
                ConnectionState::BlockedHandshake => true,
                ConnectionState::WriteTraffic(_) => {
                    self.ready = true;
                    true
                }
                ConnectionState::PeerClosed | ConnectionState::Closed => {
                    self.closed = true;
                    true
                }
                other => return Err(rustls::Error::General(format!("unexpected TLS state {other:?}"))),
            };
            spent += discard;
            if finished {
                return Ok(spent);
            }
        }
    }

    /// Appends `plaintext` to `outgoing` as records. Only once the handshake is complete.
    pub fn seal(&mut self, plaintext: &[u8], outgoing: &mut Vec<u8>) -> Result<(), rustls::Error> {
        let start = outgoing.len();
        let room = plaintext.len() + (plaintext.len() / RECORD_PAYLOAD_BYTES_MAX + 1) * RECORD_OVERHEAD_BYTES;
        outgoing.resize(start + room, 0);
        let sealed = self.while_writable(|traffic| traffic.encrypt(plaintext, &mut outgoing[start..]));
        outgoing.truncate(start + *sealed.as_ref().unwrap_or(&0));
        sealed.map(|_| ())
    }

    pub fn seal_close(&mut self, outgoing: &mut Vec<u8>) -> Result<(), rustls::Error> {
        let start = outgoing.len();
        outgoing.resize(start + RECORD_OVERHEAD_BYTES, 0);
        let sealed = self.while_writable(|traffic| traffic.queue_close_notify(&mut outgoing[start..]));
        outgoing.truncate(start + *sealed.as_ref().unwrap_or(&0));
        sealed.map(|_| ())
    }

    fn while_writable(
        &mut self,
        write: impl FnOnce(
            &mut rustls::unbuffered::WriteTraffic<'_, rustls::client::ClientConnectionData>,
        ) -> Result<usize, rustls::unbuffered::EncryptError>,
    ) -> Result<usize, rustls::Error> {
        match self.connection.process_tls_records(&mut []).state? {
            ConnectionState::WriteTraffic(mut traffic) => {
                write(&mut traffic).map_err(|error| rustls::Error::General(error.to_string()))
            }
            other => Err(rustls::Error::General(format!("cannot send in TLS state {other:?}"))),
        }
    }
}

/// The tickets of one server. The library's own store keeps eight, too few for sixteen connections at a time.
#[derive(Debug, Default)]
struct Tickets(Mutex<Vec<Tls13ClientSessionValue>>);

impl ClientSessionStore for Tickets {
    // The lab's TLS 1.3 handshakes always use one group, and there is no TLS 1.2 to remember anything of.
    fn set_kx_hint(&self, _server_name: ServerName<'static>, _group: NamedGroup) {}

    fn kx_hint(&self, _server_name: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _server_name: ServerName<'static>, _value: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _server_name: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _server_name: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tickets.len() < TICKETS_MAX {
            tickets.push(value);
        }
    }

    fn take_tls13_ticket(&self, _server_name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// Takes every certificate, yet still checks that the server holds its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
