//! The start of a TLS connection: which site its ClientHello names decides the configuration of the handshake.

use super::Connection;
use crate::failure::Refusal;
use crate::snapshot::{CompiledSite, Listener, TlsIdentity};
use rustls::ServerConfig;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tidegate_model::TlsVersion;
use tidegate_routing::SiteId;
use tidegate_telemetry::{HandshakeFailure, HandshakeKind};
use tidegate_transport::{Buf, ReadLimit, Sock, TlsFacts, rt};
use tidegate_wire::client_hello::{
    CLIENT_HELLO_BYTES_MAX, DECODE_ERROR, Sniffed, UNRECOGNIZED_NAME, fatal_alert, is_plain_http, sniff,
};
use tidegate_wire::head::RequestHead;

/// Brings the handshake to its end. `None`: the connection is over, and why was counted.
pub async fn accept<S: Sock>(connection: &mut Connection<S>) -> Option<TlsFacts> {
    let (snapshot, position) = connection.current_snapshot();
    let header_timeout = snapshot.shared.limits.header_timeout;
    connection.stream.sock.set_read_limit(ReadLimit::Until(rt::now() + header_timeout));
    let listener = &snapshot.shared.listeners[position];
    let outcome = match read_client_hello(connection, listener, &snapshot.shared.sites).await {
        Ok(Hello { first, config, identity, server_name }) => {
            connection.tls_identity = Some(identity);
            connection.server_name = server_name;
            handshake(connection, &config, &first).await
        }
        Err(failure) => Err(failure),
    };
    let metrics = &connection.worker.metrics;
    match outcome {
        Ok(facts) => {
            let kind = if facts.resumed { HandshakeKind::Resumed } else { HandshakeKind::Full };
            let version = if facts.version == "1.3" { TlsVersion::V1_3 } else { TlsVersion::V1_2 };
            metrics.handshake(kind, version);
            Some(facts)
        }
        Err(failure) => {
            metrics.handshake_failed(failure);
            connection.account_bytes();
            tracing::debug!(client = %connection.client, reason = failure.reason(), "the TLS handshake with a client failed");
            None
        }
    }
}

struct Hello {
    first: Buf,
    config: Arc<ServerConfig>,
    identity: Arc<TlsIdentity>,
    server_name: Option<Box<str>>,
}

async fn read_client_hello<S: Sock>(
    connection: &Connection<S>,
    listener: &Listener,
    sites: &[Arc<CompiledSite>],
) -> Result<Hello, HandshakeFailure> {
    let mut scratch = Vec::new();
    loop {
        let first = connection.stream.read().await.map_err(|error| io_failure(&error))?;
        if first.is_empty() {
            return Err(HandshakeFailure::ClientClosed);
        }
        let server_name: Option<Box<str>> = match sniff(&first, &mut scratch) {
            Sniffed::NeedMore if first.len() <= CLIENT_HELLO_BYTES_MAX => {
                connection.stream.need_more(first);
                continue;
            }
            Sniffed::ClientHello { server_name, .. } => server_name.map(Into::into),
            Sniffed::NotTls if is_plain_http(&first) => {
                // In plain text, since the client speaks nothing else; without it the browser shows a blank page.
                super::h1::refuse_head(connection, &RequestHead::default(), Refusal::PLAIN_HTTP_TO_TLS, rt::now()).await;
                connection.linger().await;
                return Err(HandshakeFailure::PlainHttp);
            }
            Sniffed::NeedMore | Sniffed::NotTls | Sniffed::Bad => {
                return Err(refuse(connection, DECODE_ERROR, HandshakeFailure::BadMessage).await);
            }
        };
        let site = choose_site(connection, listener, server_name.as_deref());
        let chosen = site.and_then(|site| {
            let site = sites.get(site.0 as usize)?;
            Some((site.tls.clone()?, site.tls_identity.clone()))
        });
        return match chosen {
            Some((config, identity)) => Ok(Hello { first, config, identity, server_name }),
            None => Err(refuse(connection, UNRECOGNIZED_NAME, HandshakeFailure::UnknownName).await),
        };
    }
}

/// The site of that name; without a name the one of the local address or the catch-all, else the listener's first.
fn choose_site<S: Sock>(connection: &Connection<S>, listener: &Listener, server_name: Option<&str>) -> Option<SiteId> {
    let found = listener.router.find_site(server_name.unwrap_or_default().as_bytes(), connection.local_ip(listener));
    if server_name.is_none() { found.or(Some(listener.first_site)) } else { found }
}

async fn refuse<S: Sock>(connection: &Connection<S>, alert: u8, failure: HandshakeFailure) -> HandshakeFailure {
    let _ = connection.stream.write(Buf::copy_of(&fatal_alert(alert))).await;
    connection.linger().await;
    failure
}

async fn handshake<S: Sock>(
    connection: &Connection<S>,
    config: &Arc<ServerConfig>,
    first: &[u8],
) -> Result<TlsFacts, HandshakeFailure> {
    connection.stream.begin_tls_server(config, first).map_err(|_| HandshakeFailure::Internal)?;
    match connection.stream.handshake().await {
        Ok(facts) => Ok(facts),
        Err(error) => {
            // The alert that tells the client why.
            let _ = connection.stream.flush().await;
            if let Some(suppressed) = connection.worker.gates.accept.allow(Instant::now()) {
                tracing::debug!(client = %connection.client, %error, suppressed, "TLS handshake");
            }
            Err(io_failure(&error))
        }
    }
}

fn io_failure(error: &io::Error) -> HandshakeFailure {
    use rustls::{AlertDescription, Error, PeerIncompatible};
    match error.kind() {
        io::ErrorKind::TimedOut => return HandshakeFailure::Timeout,
        io::ErrorKind::InvalidData => {}
        _ => return HandshakeFailure::ClientClosed,
    }
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::PeerIncompatible(PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon)) => {
            HandshakeFailure::ClientCertificate
        }
        Some(Error::PeerIncompatible(_) | Error::NoApplicationProtocol) => HandshakeFailure::NothingInCommon,
        Some(Error::AlertReceived(AlertDescription::CloseNotify | AlertDescription::UserCanceled)) => {
            HandshakeFailure::ClientClosed
        }
        Some(Error::AlertReceived(_)) => HandshakeFailure::ClientAlert,
        Some(Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => HandshakeFailure::ClientCertificate,
        Some(Error::General(_)) => HandshakeFailure::Internal,
        _ => HandshakeFailure::BadMessage,
    }
}
