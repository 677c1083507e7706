//! The client side of the generator: asks over HTTP/1.1 or HTTP/2, on TLS or plain connections, and checks every
//! answer. It knows nothing of rates, rounds and statistics; `load` does. HTTP/3 would be one more variant of
//! [`Client`], with its own connection beneath it; nothing above this module would change.

pub mod body;
pub mod connection;
pub mod failure;
pub mod http1;
pub mod http2;
pub mod response;
pub mod tls;

use std::rc::Rc;

use crate::client::body::Expected;
use crate::client::connection::Target;
use crate::client::failure::Failure;
use crate::client::http1::Http1Client;
use crate::client::http2::{Http2Client, Http2Connection};

/// What is asked, of whom, and what must come.
pub struct Question {
    pub target: Target,
    pub path: String,
    pub accept_encoding: Option<String>,
    pub expected: Expected,
}

/// What asks one question at a time: a connection, or one of the streams of a connection.
pub enum Client {
    Http1(Box<Http1Client>),
    Http2(Http2Client),
}

/// A right answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Answered {
    /// Whether it took a second sending, since the first met a connection that was just being closed.
    pub sent_again: bool,
    /// This request made a connection of its own; whether it resumed a session.
    pub handshake: Option<bool>,
}

impl Client {
    pub async fn ask(&mut self, question: &Question) -> Result<Answered, Failure> {
        match self {
            Client::Http1(client) => client.ask(question).await,
            Client::Http2(client) => client.ask(question).await,
        }
    }

    /// Opens what asking needs, so that connecting is not measured.
    pub async fn connect(&mut self, question: &Question) -> Result<(), Failure> {
        match self {
            Client::Http1(client) => client.connect(question).await,
            Client::Http2(client) => client.connect(question).await,
        }
    }

    /// One client for each stream of `connections` HTTP/2 connections.
    pub fn http2(connections: usize, streams: usize) -> Vec<Client> {
        let each = |_| {
            let connection = Rc::new(Http2Connection::default());
            (0..streams).map(move |_| Client::Http2(Http2Client::new(Rc::clone(&connection))))
        };
        (0..connections).flat_map(each).collect()
    }

    pub fn http1(connections: usize) -> Vec<Client> {
        (0..connections).map(|_| Client::one()).collect()
    }

    pub fn one() -> Client {
        Client::Http1(Box::default())
    }

    /// Each request on a connection of its own.
    pub fn handshakes(clients: usize) -> Vec<Client> {
        (0..clients).map(|_| Client::Http1(Box::new(Http1Client::connecting_each_time()))).collect()
    }
}
