//! One request on a new connection, and the head of its answer: how the lab sees whether a change has reached a proxy.
//! Blocking and plain; no load is made with it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;

use crate::client::tls::{self, SessionTickets};
use crate::net::Error;

const TIME_MAX: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: usize = 16 * 1024;

pub struct Probe {
    config: Arc<ClientConfig>,
    address: SocketAddr,
}

impl Probe {
    pub fn new(ca: &Path, address: SocketAddr) -> Result<Probe, Error> {
        Ok(Probe { config: tls::client_config(Some(ca), "http/1.1", SessionTickets::Ignored)?, address })
    }

    /// The head of the answer in lower case.
    pub fn head(&self, path: &str) -> Result<String, Error> {
        let socket = TcpStream::connect_timeout(&self.address, TIME_MAX)?;
        socket.set_read_timeout(Some(TIME_MAX))?;
        let session = ClientConnection::new(Arc::clone(&self.config), ServerName::try_from("localhost")?)?;
        let mut stream = StreamOwned::new(session, socket);
        stream.write_all(
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: https://example.com\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )?;
        let mut received = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let count = stream.read(&mut piece)?;
            received.extend_from_slice(&piece[..count]);
            if let Some(end) = memchr::memmem::find(&received, b"\r\n\r\n") {
                return Ok(String::from_utf8_lossy(&received[..end + 2]).to_lowercase());
            }
            if count == 0 || received.len() > HEAD_BYTES_MAX {
                return Err("no answer".into());
            }
        }
    }
}
