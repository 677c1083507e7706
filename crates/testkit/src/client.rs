//! A plain HTTP/1.1 client for tests written in Rust: one connection, one request after the other.

use crate::connection::{Connection, Socket};
use crate::head::Head;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, TlsStream};

pub struct Client {
    pub connection: Connection,
}

/// An answer read to its end.
#[derive(Debug)]
pub struct ClientAnswer {
    pub status: u16,
    pub head: Head,
    pub body: Vec<u8>,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Result<Client, String> {
        let tcp = TcpStream::connect(address).await.map_err(|error| format!("connect: {error}"))?;
        Ok(Client { connection: Connection::new(Socket::Plain(tcp)) })
    }

    /// Over TLS; the name is asked for and, depending on the configuration, verified.
    pub async fn connect_tls(address: SocketAddr, config: Arc<ClientConfig>, name: &str) -> Result<Client, String> {
        let socket = tls_socket(address, config, name).await?;
        Ok(Client { connection: Connection::new(socket) })
    }

    pub async fn send(&mut self, method: &str, host: &str, path: &str, body: &[u8]) -> Result<(), String> {
        let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{length}\r\n").into_bytes();
        request.extend_from_slice(body);
        self.connection.write(&request).await.map_err(|error| format!("send: {error}"))
    }

    pub async fn receive(&mut self) -> Result<ClientAnswer, String> {
        let head = self.connection.read_head().await?;
        let body = self.connection.read_body().await?;
        Ok(ClientAnswer { status: head.status().ok_or("no status")?, head, body })
    }

    pub async fn get(&mut self, host: &str, path: &str) -> Result<ClientAnswer, String> {
        self.send("GET", host, path, &[]).await?;
        self.receive().await
    }
}

/// A TLS connection for whatever protocol.
pub async fn tls_socket(address: SocketAddr, config: Arc<ClientConfig>, name: &str) -> Result<Socket, String> {
    let tcp = TcpStream::connect(address).await.map_err(|error| format!("connect: {error}"))?;
    let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(config).connect(name, tcp).await.map_err(|error| format!("handshake: {error}"))?;
    Ok(Socket::Tls(Box::new(TlsStream::Client(stream))))
}
