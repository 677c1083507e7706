//! The start of a TLS connection: which site its ClientHello names decides the configuration of the handshake.

use crate::challenges::SHARED_WAIT;
use crate::connection::{Connection, UnverifiedCertificate};
use crate::inquiry::{Answer, Question};
use crate::persistent::PersistentVec;
use crate::server_configs::ClientJudge;
use crate::snapshot::{CompiledSite, Listener};
use rustls::{CertificateError, ServerConfig};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tidegate_middleware::Refusal;
use tidegate_model::{Rate, TlsVersion};
use tidegate_routing::SiteId;
use tidegate_routing::decision::TlsIdentity;
use tidegate_telemetry::{HandshakeFailure, HandshakeKind};
use tidegate_transport::tls_fault::connection_words;
use tidegate_transport::{Buf, ReadLimit, Sock, TlsFacts, rt};
use tidegate_wire::ClientCertificate;
use tidegate_wire::client_hello::{
    CLIENT_HELLO_BYTES_MAX, DECODE_ERROR, INTERNAL_ERROR, Sniffed, UNRECOGNIZED_NAME, fatal_alert, is_plain_http, sniff,
};
use tidegate_wire::head::RequestHead;
use tidegate_wire::ja4::ja4;

/// Brings the handshake to its end. `None`: the connection is over, and why was counted.
pub async fn accept<S: Sock>(connection: &mut Connection<S>) -> Option<TlsFacts> {
    let (snapshot, position) = connection.current_snapshot();
    let header_timeout = snapshot.shared.limits.header_timeout;
    connection.stream.sock.set_read_limit(ReadLimit::Until(connection.handshake_until(header_timeout)));
    let listener = &snapshot.shared.listeners[position];
    let (mut is_challenge, mut judge) = (false, None);
    let limit = snapshot.shared.limits.handshakes_per_network;
    let hello = read_client_hello(connection, listener, &snapshot.shared.sites, limit).await;
    let began = rt::now();
    let outcome = match hello {
        Ok(Hello::Site { first, config, judge: of_site, identity, server_name }) => {
            judge = of_site;
            if snapshot.shared.needs_ja4 {
                connection.ja4 = ja4(&first, &mut Vec::new(), sha256).map(Into::into);
            }
            connection.tls_identity = Some(identity);
            connection.server_name = server_name;
            handshake(connection, &config, &first).await
        }
        Ok(Hello::Challenge { first, config }) => {
            is_challenge = true;
            handshake(connection, &config, &first).await
        }
        Err(failure) => Err(failure),
    };
    let outcome = outcome.and_then(|facts| see_certificate(connection, facts, judge.as_deref()));
    let metrics = &connection.worker.metrics;
    match outcome {
        Ok(facts) => {
            let kind = if facts.resumed { HandshakeKind::Resumed } else { HandshakeKind::Full };
            let version = if facts.version == "1.3" { TlsVersion::V1_3 } else { TlsVersion::V1_2 };
            metrics.handshake(kind, version, rt::now().saturating_duration_since(began));
            if is_challenge {
                // The CA has seen what it wanted to see; there is no request to come.
                connection.linger().await;
                connection.account_bytes();
                return None;
            }
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

enum Hello {
    Site {
        first: Buf,
        config: Arc<ServerConfig>,
        judge: Option<Arc<ClientJudge>>,
        identity: Arc<TlsIdentity>,
        server_name: Option<Box<str>>,
    },
    /// A CA looks for the answer to its challenge.
    Challenge { first: Buf, config: Arc<ServerConfig> },
}

/// Asked when nothing was computed so far, and not before the site is known: who is passed through costs no signature.
/// There is no alert for "too many", and any alert makes browsers show a fault of the site; a closed connection they
/// try again.
fn may_begin<S: Sock>(connection: &Connection<S>, rate: Option<Rate>) -> bool {
    let Some(rate) = rate else { return true };
    let now = Instant::now();
    let process = &connection.worker.process;
    if process.handshakes.try_begin(connection.client.ip(), rate, process.since_start(now)) {
        return true;
    }
    if let Some(suppressed) = connection.worker.gates.accept.allow(now) {
        tracing::warn!(client = %connection.client.ip(), suppressed, setting = "limits handshakes-per-network", "a client network begins too many handshakes");
    }
    false
}

/// What the client has shown. A session that is resumed is not verified again, and each resumption is given a new
/// ticket: it must not go on beyond the time of the certificate that it began with. The client's next attempt is a full
/// handshake, since it has got no new ticket.
fn see_certificate<S: Sock>(
    connection: &mut Connection<S>,
    facts: TlsFacts,
    judge: Option<&ClientJudge>,
) -> Result<TlsFacts, HandshakeFailure> {
    let chain = connection.stream.peer_certificates();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // Also of a session that is resumed: what was good, or bad, may be so no more.
    if let Some(why) = judge.filter(|_| !chain.is_empty()).and_then(|judge| judge.fault(&chain, now())) {
        connection.worker.metrics.unverified_certificates.increment();
        let unverified = |certificate| Box::new(UnverifiedCertificate { certificate, why });
        connection.unverified_certificate = ClientCertificate::new(chain, sha256).map(unverified);
        return Ok(facts);
    }
    let certificate = ClientCertificate::new(chain, sha256);
    if facts.resumed && certificate.as_ref().is_some_and(|certificate| certificate.is_over_at(now() as i64)) {
        let error = io::Error::other("the certificate of a resumed session is past its time");
        if let Some(suppressed) = connection.worker.gates.handshakes.allow(Instant::now()) {
            note_failure(connection, HandshakeFailure::ClientCertificateExpired, &error, suppressed);
        }
        return Err(HandshakeFailure::ClientCertificateExpired);
    }
    connection.client_certificate = certificate.map(Box::new);
    Ok(facts)
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref());
    digest
}

async fn read_client_hello<S: Sock>(
    connection: &Connection<S>,
    listener: &Listener,
    sites: &PersistentVec<Arc<CompiledSite>>,
    limit: Option<Rate>,
) -> Result<Hello, HandshakeFailure> {
    let mut scratch = Vec::new();
    loop {
        let first = connection.stream.read().await.map_err(|error| io_failure(&error))?;
        if first.is_empty() {
            return Err(HandshakeFailure::ClientClosed);
        }
        let (server_name, has_port, offers_tls13, offers_tickets, asks_for_challenge) = match sniff(&first, &mut scratch) {
            Sniffed::NeedMore if first.len() <= CLIENT_HELLO_BYTES_MAX => {
                connection.stream.need_more(first);
                continue;
            }
            Sniffed::ClientHello { server_name, has_port, offers_tls13, offers_tickets, alpn_acme_tls, .. } => {
                (server_name.map(Box::<str>::from), has_port, offers_tls13, offers_tickets, alpn_acme_tls)
            }
            Sniffed::NotTls if is_plain_http(&first) => {
                // In plain text, since the client speaks nothing else; without it the browser shows a blank page.
                super::h1::refuse_head(connection, &RequestHead::default(), Refusal::PlainHttpToTls, rt::now()).await;
                connection.linger().await;
                return Err(HandshakeFailure::PlainHttp);
            }
            Sniffed::NeedMore | Sniffed::NotTls | Sniffed::Bad => {
                return Err(refuse(connection, DECODE_ERROR, (HandshakeFailure::BadMessage, None)).await);
            }
        };
        // rustls takes no such name (`ServerNameMustContainOneHostName`); its own alert would not say what is wrong.
        if has_port {
            return Err(refuse(connection, UNRECOGNIZED_NAME, (HandshakeFailure::NameWithPort, None)).await);
        }
        if asks_for_challenge
            && let Some(name) = &server_name
            && let Some(config) = challenge_config(connection, name).await
        {
            return Ok(Hello::Challenge { first, config });
        }
        let site = choose_site(connection, listener, server_name.as_deref()).and_then(|site| sites.get(site.0 as usize));
        let chosen = site.and_then(|site| {
            let configs = site.tls.as_ref()?.load();
            Some((site, configs.for_client(offers_tls13, offers_tickets).clone(), configs.judge.clone()))
        });
        let Some((site, config, judge)) = chosen else {
            let unknown = (HandshakeFailure::UnknownName, server_name.as_deref());
            return Err(refuse(connection, UNRECOGNIZED_NAME, unknown).await);
        };
        if !may_begin(connection, limit) {
            return Err(HandshakeFailure::RateLimited);
        }
        let first = match (site.on_demand_wait, &server_name) {
            (Some(wait), Some(name)) => await_certificate(connection, (&site.name, name, wait), first).await?,
            (Some(_) | None, _) => first,
        };
        return Ok(Hello::Site { first, config, judge, identity: site.rules.tls.clone(), server_name });
    }
}

/// What the challenge of that name is answered with, if there is one.
async fn challenge_config<S: Sock>(connection: &Connection<S>, name: &str) -> Option<Arc<ServerConfig>> {
    let name = name.to_ascii_lowercase();
    let process = &connection.worker.process;
    if let Some(config) = process.challenges.tls(&name) {
        return Some(config);
    }
    if !process.challenges.is_shared() {
        return None;
    }
    match Box::pin(process.inquiries.ask(Question::TlsChallenge { name }, SHARED_WAIT)).await {
        Answer::TlsChallenge(config) => Some(config),
        Answer::Certificate | Answer::HttpChallenge(_) | Answer::No | Answer::NotNow => None,
    }
}

/// Where certificates are obtained on demand, the first client of a name waits for it. The ClientHello waits in a copy
/// of its own size: the buffer that it came in is the worker's, and a thousand may wait.
async fn await_certificate<S: Sock>(
    connection: &Connection<S>,
    (site, asked, wait): (&Arc<str>, &str, Duration),
    first: Buf,
) -> Result<Buf, HandshakeFailure> {
    let name = asked.to_ascii_lowercase();
    let process = &connection.worker.process;
    if process.challenges.is_at_hand(&name) {
        return Ok(first);
    }
    let hello: Box<[u8]> = first[..].into();
    drop(first);
    match Box::pin(process.inquiries.ask(Question::Certificate { site: site.clone(), name }, wait)).await {
        Answer::Certificate => Ok(Buf::copy_of(&hello)),
        Answer::No => Err(refuse(connection, UNRECOGNIZED_NAME, (HandshakeFailure::UnknownName, Some(asked))).await),
        // It may be there when the client comes again.
        Answer::NotNow | Answer::HttpChallenge(_) | Answer::TlsChallenge(_) => {
            Err(refuse(connection, INTERNAL_ERROR, (HandshakeFailure::NoCertificate, Some(asked))).await)
        }
    }
}

/// The site of that name; without a name the one of the local address or the catch-all, else the listener's first.
fn choose_site<S: Sock>(connection: &Connection<S>, listener: &Listener, server_name: Option<&str>) -> Option<SiteId> {
    let found = listener.router.find_site(server_name.unwrap_or_default().as_bytes(), connection.local_ip(listener));
    if server_name.is_none() { found.or(listener.first_site) } else { found }
}

async fn refuse<S: Sock>(
    connection: &Connection<S>,
    alert: u8,
    (failure, name): (HandshakeFailure, Option<&str>),
) -> HandshakeFailure {
    if let Some(suppressed) = connection.worker.gates.handshakes.allow(Instant::now()) {
        let (client, reason) = (connection.client, failure.reason());
        tracing::info!(%client, reason, name, suppressed, "a TLS handshake was refused");
    }
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
            let failure = io_failure(&error);
            if let Some(suppressed) = connection.worker.gates.handshakes.allow(Instant::now()) {
                note_failure(connection, failure, &error, suppressed);
            }
            // A client of TLS 1.3 sends its request along with its certificate. Closed over that, the kernel would send
            // a reset, and the client would see a broken connection instead of the alert.
            if failure.is_of_client_certificate() {
                connection.stream.abandon_tls();
                Box::pin(connection.linger()).await;
            }
            Err(failure)
        }
    }
}

/// Why a handshake came to nothing. Scanners and checks of health that leave in the middle say nothing of note.
fn note_failure<S: Sock>(connection: &Connection<S>, failure: HandshakeFailure, error: &io::Error, suppressed: u64) {
    let (client, reason, error) = (connection.client, failure.reason(), connection_words(error));
    let identity = connection.tls_identity.as_deref();
    let site = identity.map_or("", |identity| &identity.site);
    let origin = identity.and_then(|identity| identity.origin.as_ref()).map(tracing::field::display);
    if failure.is_of_client_certificate() {
        tracing::info!(%client, site, origin, reason, %error, setting = "tls client-auth", suppressed, "a client was not let in");
    } else if matches!(failure, HandshakeFailure::ClientClosed | HandshakeFailure::Timeout) {
        tracing::debug!(%client, site, reason, %error, suppressed, "a TLS handshake was broken off");
    } else {
        let name = connection.server_name.as_deref();
        tracing::info!(%client, site, origin, name, reason, %error, suppressed, "a TLS handshake failed");
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
        Some(Error::NoCertificatesPresented) => HandshakeFailure::ClientCertificateMissing,
        Some(Error::InvalidCertificate(fault)) => certificate_failure(fault),
        Some(Error::General(_)) => HandshakeFailure::Internal,
        _ => HandshakeFailure::BadMessage,
    }
}

fn certificate_failure(fault: &CertificateError) -> HandshakeFailure {
    match fault {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => HandshakeFailure::ClientCertificateUnknownCa,
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => HandshakeFailure::ClientCertificateExpired,
        CertificateError::Revoked => HandshakeFailure::ClientCertificateRevoked,
        CertificateError::UnknownRevocationStatus
        | CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => HandshakeFailure::ClientCertificateRevocationUnknown,
        // The library's list is open.
        _ => HandshakeFailure::ClientCertificate,
    }
}
