//! The TLS handshake with a server, verified as requests verify it: a check in itself, and the beginning of those over
//! https. The connection beneath is made in `tcp`.

use crate::fault::{ProbeFault, Stage, io_words};
use crate::probe::tcp::Connection;
use crate::probe::{Limit, Target, TlsTarget, tcp};
use rustls::ClientConfig;
use std::sync::Arc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What the server agreed to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreed {
    Http1,
    Http2,
}

pub async fn check(target: &Target, limit: &Limit) -> Result<(), ProbeFault> {
    let tls = target.tls.as_ref().ok_or(ProbeFault::NoTls)?;
    let stream = tcp::connect(target, limit).await?;
    handshake(stream, tls, &tls.config_http1, limit).await?;
    Ok(())
}

pub async fn handshake(
    stream: Box<dyn Connection>,
    tls: &TlsTarget,
    config: &Arc<ClientConfig>,
    limit: &Limit,
) -> Result<TlsStream<Box<dyn Connection>>, ProbeFault> {
    let connecting = TlsConnector::from(config.clone()).connect(tls.name.clone(), stream);
    limit.hold(Stage::Handshake, async { connecting.await.map_err(|error| ProbeFault::Tls { why: io_words(&error) }) }).await
}

/// A server without ALPN speaks HTTP/1.1, if that was on offer.
pub fn agreed(stream: &TlsStream<Box<dyn Connection>>, config: &ClientConfig) -> Result<Agreed, ProbeFault> {
    let is_http1_offered = config.alpn_protocols.is_empty() || config.alpn_protocols.iter().any(|name| name == b"http/1.1");
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => Ok(Agreed::Http2),
        _ if is_http1_offered => Ok(Agreed::Http1),
        _ => Err(ProbeFault::NotHttp2),
    }
}
