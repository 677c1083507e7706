//! One of the two servers: where it is, how it is trusted, and connections to it that are kept for the next request.

use super::{http1, http2};
use crate::cli::compare::CompareWanted;
use aws_lc_rs::digest::{Context, SHA256};
use rustls_pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tidegate_certs::any_certificate::AnyCertificate;
use tidegate_certs::provider;
use tidegate_compare::{Answer, Body, Failure, Outcome, Request};
use tidegate_outbound::{Stream, StreamClient, Trust};
use tidegate_transport::tls_fault::connection_words;
use tokio_rustls::TlsConnector;

/// Connections that a lane keeps to one server, under different names of it.
const KEPT_MAX: usize = 8;

pub struct Side {
    is_tls: bool,
    /// As in the URL, an IPv6 address without brackets.
    host: String,
    port: u16,
    client: StreamClient,
    /// For who takes any certificate.
    insecure: Option<Arc<rustls::ClientConfig>>,
    is_http2: bool,
}

/// What is asked, and how much of the answer is kept.
pub struct Asked<'a> {
    pub request: &'a Request,
    pub host: &'a [u8],
    pub scheme: &'static str,
    pub body_bytes: usize,
}

/// Why an exchange failed, and whether the connection may be why: it was kept, and nothing came on it.
pub struct Broken {
    pub failure: Failure,
    pub has_begun: bool,
}

impl Side {
    pub fn new(option: &str, url: &str, wanted: &CompareWanted) -> Result<Side, String> {
        let refused =
            |problem: &str| format!("`{option} {}` {problem}\n  help: as in `http://127.0.0.1:8080`", url.escape_debug());
        let (is_tls, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err(refused("begins with neither `http://` nor `https://`")),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '@']) {
            return Err(refused("says more than where the server is: a path comes from each request"));
        }
        let (host, port) = host_and_port(authority, is_tls).ok_or_else(|| refused("names no host and port"))?;
        let trust = match (&wanted.ca, is_tls && !wanted.insecure) {
            (Some(file), true) => Some(Trust::File(file.clone())),
            (None, true) => Some(Trust::System),
            (_, false) => None,
        };
        let client = StreamClient::new(&host, port, trust).map_err(|fault| format!("{option} {fault}"))?;
        let insecure = (is_tls && wanted.insecure).then(|| insecure(wanted.http2)).transpose()?;
        Ok(Side { is_tls, host, port, client, insecure, is_http2: wanted.http2 })
    }

    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.is_tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.authority())
    }

    fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// Whether it takes connections at all, before anything is sent.
    pub async fn look(&self, host: &[u8], time_max: Duration) -> Result<(), String> {
        match tokio::time::timeout(time_max, self.open(&self.name_for(host))).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(why)) => Err(format!("the server {why}")),
            Err(_) => Err(format!("the server at {} takes no connection within {time_max:?}", self.authority())),
        }
    }

    /// Whom a server is asked for in a handshake: the host of the request, as clients do.
    fn name_for(&self, host: &[u8]) -> String {
        if !self.is_tls {
            return String::new();
        }
        let text = String::from_utf8_lossy(host);
        let name = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => text.split(':').next().unwrap_or_default(),
        };
        name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
    }

    async fn open(&self, name: &str) -> Result<Link, String> {
        let protocol: &[u8] = if self.is_http2 { b"h2" } else { b"http/1.1" };
        let asked = if name.is_empty() { self.host.clone() } else { name.to_owned() };
        // A host that no certificate can have: the server is asked for itself.
        let server_name = ServerName::try_from(asked).or_else(|_| ServerName::try_from(self.host.clone()));
        let server_name = server_name.map_err(|error| format!("at {} cannot be asked: {error}", self.authority()))?;
        let stream = self.client.connect_as(server_name.clone(), &[protocol]).await.map_err(|fault| fault.to_string())?;
        let stream = match (stream, &self.insecure) {
            (Stream::Plain(tcp), Some(config)) => {
                let stream = TlsConnector::from(config.clone()).connect(server_name, tcp).await;
                let fault = |error| format!("at {} cannot be spoken to over TLS: {}", self.authority(), connection_words(&error));
                Stream::Tls(Box::new(stream.map_err(fault)?))
            }
            (stream, _) => stream,
        };
        if let Stream::Tls(stream) = &stream {
            let agreed = stream.get_ref().1.alpn_protocol();
            if self.is_http2 && agreed != Some(b"h2") {
                return Err(format!("at {} does not speak HTTP/2 over TLS", self.authority()));
            }
        }
        Ok(Link::new(stream, self.is_http2))
    }
}

/// `example.com:8080`, `[::1]:8080`, `[::1]`
fn host_and_port(authority: &str, is_tls: bool) -> Option<(String, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host.parse::<std::net::Ipv6Addr>().ok()?.to_string(), port.strip_prefix(':').or(port.is_empty().then_some(""))?)
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host.to_owned(), port),
            None => (authority.to_owned(), ""),
        },
    };
    let port = match port {
        "" => {
            if is_tls {
                443
            } else {
                80
            }
        }
        port => port.parse().ok().filter(|port| *port > 0)?,
    };
    (!host.is_empty()).then_some((host, port))
}

fn insecure(is_http2: bool) -> Result<Arc<rustls::ClientConfig>, String> {
    let builder = rustls::ClientConfig::builder_with_provider(provider()).with_protocol_versions(rustls::ALL_VERSIONS);
    let builder = builder.map_err(|error| error.to_string())?;
    // `dangerous` because whoever gave `--insecure` wants it so, for servers whose certificates nobody signed.
    let verifier = Arc::new(AnyCertificate::of_anybody());
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![if is_http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    Ok(Arc::new(config))
}

/// A connection, whichever protocol it speaks.
pub enum Link {
    Http1(http1::Http1Link),
    Http2(Box<http2::Http2Link>),
}

impl Link {
    fn new(stream: Stream, is_http2: bool) -> Link {
        if is_http2 { Link::Http2(Box::new(http2::Http2Link::new(stream))) } else { Link::Http1(http1::Http1Link::new(stream)) }
    }

    /// The answer, and whether the connection takes another request.
    async fn ask(&mut self, asked: &Asked<'_>) -> Result<(Answer, bool), Broken> {
        match self {
            Link::Http1(link) => link.ask(asked).await,
            Link::Http2(link) => link.ask(asked).await,
        }
    }
}

/// The connections of one lane to one server.
#[derive(Default)]
pub struct Links(Vec<(String, Link)>);

impl Links {
    /// Asks over a kept connection or a new one. What a server may have closed meanwhile is asked for anew, as every
    /// client does (RFC 9110 section 9.2.2).
    pub async fn ask(&mut self, side: &Side, request: &Request, host: &[u8], time_max: Duration, body_bytes: usize) -> Outcome {
        let asked = Asked { request, host, scheme: side.scheme(), body_bytes };
        match tokio::time::timeout(time_max, self.ask_untimed(side, &asked)).await {
            Ok(Ok(answer)) => Outcome::Answered(answer),
            Ok(Err(failure)) => Outcome::Failed(failure),
            Err(_) => Outcome::Failed(Failure::TimedOut),
        }
    }

    async fn ask_untimed(&mut self, side: &Side, asked: &Asked<'_>) -> Result<Answer, Failure> {
        let name = side.name_for(asked.host);
        let kept = self.0.iter().position(|(known, _)| *known == name).map(|at| self.0.remove(at).1);
        // What may change something goes over a connection that is known to be there.
        if let Some(mut link) = kept.filter(|_| asked.request.is_safe()) {
            match link.ask(asked).await {
                Ok((answer, is_kept)) => return Ok(self.keep(name, link, answer, is_kept)),
                Err(Broken { failure, has_begun: true }) => return Err(failure),
                Err(Broken { has_begun: false, .. }) => {}
            }
        }
        let mut link = side.open(&name).await.map_err(Failure::Other)?;
        match link.ask(asked).await {
            Ok((answer, is_kept)) => Ok(self.keep(name, link, answer, is_kept)),
            Err(Broken { failure, .. }) => Err(failure),
        }
    }

    fn keep(&mut self, name: String, link: Link, answer: Answer, is_kept: bool) -> Answer {
        if is_kept {
            if self.0.len() == KEPT_MAX {
                self.0.remove(0);
            }
            self.0.push((name, link));
        }
        answer
    }
}

/// A body that comes: its beginning is kept, all of it digested.
pub struct BodyIn {
    body: Body,
    digest: Context,
    kept_max: usize,
}

impl BodyIn {
    pub fn new(kept_max: usize) -> BodyIn {
        BodyIn { body: Body::default(), digest: Context::new(&SHA256), kept_max }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.body.bytes += bytes.len() as u64;
        let room = self.kept_max - self.body.kept.len();
        self.body.kept.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }

    pub fn end(self) -> Body {
        Body { digest: self.digest.finish().as_ref().to_vec(), ..self.body }
    }
}

#[cfg(test)]
mod tests {
    use super::host_and_port;

    #[test]
    fn urls_say_where_a_server_is() {
        let check = |authority: &str, is_tls: bool, expected: Option<(&str, u16)>| {
            let expected = expected.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(host_and_port(authority, is_tls), expected, "{authority}");
        };
        check("a.example", false, Some(("a.example", 80)));
        check("a.example", true, Some(("a.example", 443)));
        check("127.0.0.1:8080", true, Some(("127.0.0.1", 8080)));
        check("[::1]:8080", false, Some(("::1", 8080)));
        check("[::1]", false, Some(("::1", 80)));
        check("[::1]8080", false, None);
        check("::1", false, None);
        check("a.example:0", false, None);
        check("a.example:65536", false, None);
        check("", false, None);
    }
}
