//! A plain or encrypted stream to a server that speaks something else than HTTP, for crates that bring their protocol
//! themselves. Found, connected and trusted as `connect.rs` does it for requests; what goes over it is the caller's.

use crate::connect::connected;
use crate::connect::secured;
use crate::destination::Destination;
use crate::fault::OutboundFault;
use crate::trust::{Roots, Trust};
use rustls_pki_types::ServerName;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Opens streams to one server. How long that may take is the caller's.
pub struct StreamClient {
    destination: Destination,
    roots: Option<Roots>,
}

impl StreamClient {
    /// With `trust` there is TLS. Reads the file of `Trust::File`, so that what is wrong with it is known now.
    pub fn new(host: &str, port: u16, trust: Option<Trust>) -> Result<StreamClient, OutboundFault> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let destination = Destination { is_tls: trust.is_some(), host, port };
        destination.server_name()?;
        Ok(StreamClient { destination, roots: trust.map(|trust| Roots::new(trust, None)).transpose()? })
    }

    pub async fn connect(&self) -> Result<Stream, OutboundFault> {
        // What is offered to HTTP servers would be a reason to refuse for others.
        self.connect_as(self.destination.server_name()?, &[]).await
    }

    /// As [`connect`](Self::connect); with TLS the server is asked for, and verified as, `name`, which need not be the
    /// one that leads there, and for one of these protocols.
    pub async fn connect_as(&self, name: ServerName<'static>, protocols: &[&[u8]]) -> Result<Stream, OutboundFault> {
        let stream = connected(&self.destination, &|_| {}).await?;
        let Some(roots) = &self.roots else {
            return Ok(Stream::Plain(stream));
        };
        let mut config = rustls::ClientConfig::clone(&*roots.client_config().await?);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let stream = secured(stream, &self.destination, name, roots, Arc::new(config)).await?;
        Ok(Stream::Tls(Box::new(stream)))
    }
}

#[derive(Debug)]
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
