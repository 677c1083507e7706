//! Connections to the server that is looked at: TLS as a client that takes any certificate and remembers what it was
//! shown. What the certificates are worth is for `judge.rs`.

use super::{Target, old_hello};
use rustls::{ClientConfig, SupportedProtocolVersion};
use rustls_pki_types::CertificateDer;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tidegate_certs::any_certificate::{AnyCertificate, Seen};
use tidegate_certs::provider;
use tidegate_transport::tls_fault::{tls_fault, tls_words};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Of each connection: until it is there, and until its handshake is over.
pub const TIME_MAX: Duration = Duration::from_secs(10);

/// What the server made of a client of today.
pub struct Answer {
    pub version: &'static str,
    pub cipher: String,
    pub key_exchange: String,
    pub alpn: Option<String>,
    pub chain: Vec<CertificateDer<'static>>,
    /// Whether the server proved that it has the certificate's key, as far as that can be verified here: not for weak
    /// ones.
    pub is_proven: bool,
    /// Bytes of a stapled answer about the certificate's standing.
    pub ocsp: Vec<u8>,
    /// Whether a client that knows no TLS 1.3 is served; `None` when that could not be found out.
    pub takes_tls12: Option<bool>,
}

/// What it made of clients that know only versions that nobody should speak.
pub struct Oldest {
    pub tls11: old_hello::Reply,
    pub tls10: old_hello::Reply,
}

pub fn ask(target: &Target, resolve: Option<IpAddr>) -> Result<(SocketAddr, Answer, Oldest), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let (address, stream) = connect(target, resolve).await?;
        let mut answer = handshake(target, stream, rustls::ALL_VERSIONS).await?;
        answer.takes_tls12 = match answer.version {
            TLS13 => takes_tls12(target, address).await,
            _ => Some(true),
        };
        let tls11 = old_hello::ask(address, &target.name, old_hello::TLS11).await;
        let tls10 = old_hello::ask(address, &target.name, old_hello::TLS10).await;
        Ok((address, answer, Oldest { tls11, tls10 }))
    })
}

pub const TLS13: &str = "TLS 1.3";

/// The first of the host's addresses that takes a connection.
async fn connect(target: &Target, resolve: Option<IpAddr>) -> Result<(SocketAddr, TcpStream), String> {
    let addresses: Vec<SocketAddr> = match resolve {
        Some(ip) => vec![SocketAddr::new(ip, target.port)],
        None => {
            let found = tokio::time::timeout(TIME_MAX, tokio::net::lookup_host((target.host.as_str(), target.port))).await;
            let found =
                found.map_err(|_| format!("nobody says within {} seconds where {} is", TIME_MAX.as_secs(), target.host))?;
            found
                .map_err(|error| format!("{} is not found: {error}\n  help: name its address with --resolve", target.host))?
                .collect()
        }
    };
    let mut last = format!("{} has no address", target.host);
    for address in addresses {
        match tokio::time::timeout(TIME_MAX, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok((address, stream)),
            Ok(Err(error)) => last = format!("cannot connect to {address}: {}", plain(&error)),
            Err(_) => last = format!("cannot connect to {address}: no answer within {} seconds", TIME_MAX.as_secs()),
        }
    }
    Err(format!("{last}\n  help: is the server up, and is this its port? without one it is 443"))
}

async fn takes_tls12(target: &Target, address: SocketAddr) -> Option<bool> {
    let stream = tokio::time::timeout(TIME_MAX, TcpStream::connect(address)).await.ok()?.ok()?;
    Some(handshake(target, stream, &[&rustls::version::TLS12]).await.is_ok())
}

async fn handshake(target: &Target, stream: TcpStream, versions: &[&'static SupportedProtocolVersion]) -> Result<Answer, String> {
    let verifier = Arc::new(AnyCertificate::of_anybody());
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions);
    let builder = builder.map_err(|error| error.to_string())?;
    // `dangerous` because every certificate is taken: this one is only looked at, and no byte of ours goes over the
    // connection.
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier.clone()).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let connecting = TlsConnector::from(Arc::new(config)).connect(target.name.clone(), stream);
    let stream = match tokio::time::timeout(TIME_MAX, connecting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(format!("the TLS handshake failed: {}", refusal(&error))),
        Err(_) => return Err(format!("the TLS handshake was not over within {} seconds", TIME_MAX.as_secs())),
    };
    let (_, connection) = stream.get_ref();
    let version = match connection.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_3) => TLS13,
        _ => "TLS 1.2",
    };
    let cipher = connection.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite())).unwrap_or_default();
    let group = connection.negotiated_key_exchange_group().map(|group| format!("{:?}", group.name())).unwrap_or_default();
    let alpn = connection.alpn_protocol().map(|protocol| String::from_utf8_lossy(protocol).into_owned());
    let chain = connection.peer_certificates().unwrap_or_default().to_vec();
    let Seen { ocsp, is_proven } = verifier.seen();
    Ok(Answer { version, cipher, key_exchange: group, alpn, chain, is_proven, ocsp, takes_tls12: None })
}

/// Why there was no handshake.
fn refusal(error: &std::io::Error) -> String {
    match tls_fault(error) {
        Some(rustls::Error::AlertReceived(rustls::AlertDescription::UnrecognisedName)) => {
            "the server has nothing under this name (alert unrecognized_name)".to_owned()
        }
        Some(rustls::Error::AlertReceived(rustls::AlertDescription::ProtocolVersion)) => {
            "the server speaks neither TLS 1.2 nor 1.3 (alert protocol_version)".to_owned()
        }
        Some(rustls::Error::AlertReceived(rustls::AlertDescription::HandshakeFailure)) => {
            "the server has no cipher in common with clients of today, or no certificate for this name (alert handshake_failure)"
                .to_owned()
        }
        Some(rustls::Error::InvalidMessage(_)) => "what came is not TLS; is it the right port?".to_owned(),
        Some(other) => format!("the handshake failed: {}", tls_words(other)),
        None => plain(error),
    }
}

fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        std::io::ErrorKind::ConnectionReset => "the connection was reset".to_owned(),
        std::io::ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
        _ => error.to_string(),
    }
}
