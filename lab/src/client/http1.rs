//! Asks over HTTP/1.1: one request at a time on a connection that is kept, or a new connection for each.
//! A request that meets a connection being closed is sent again once, as browsers and Go's client do, and counted as
//! such.

use crate::client::connection::Connection;
use crate::client::failure::Failure;
use crate::client::response::Response;
use crate::client::{Answered, Question};

#[derive(Default)]
pub struct Http1Client {
    connection: Option<Kept>,
    request: Vec<u8>,
    response: Response,
    connects_each_time: bool,
}

struct Kept {
    connection: Connection,
    /// Whether the connection has brought an answer. On one that never has, a failure is a failure.
    has_answered: bool,
}

impl Http1Client {
    pub fn connecting_each_time() -> Http1Client {
        Http1Client { connects_each_time: true, ..Http1Client::default() }
    }

    pub async fn connect(&mut self, question: &Question) -> Result<(), Failure> {
        if self.connection.is_none() && !self.connects_each_time {
            self.connection = Some(Kept { connection: Connection::open(&question.target).await?, has_answered: false });
        }
        Ok(())
    }

    /// Gives buffers back while nothing is asked for long.
    pub fn rest(&mut self) {
        if let Some(kept) = &mut self.connection {
            kept.connection.rest();
        }
        self.request = Vec::new();
    }

    pub async fn ask(&mut self, question: &Question) -> Result<Answered, Failure> {
        if self.request.is_empty() {
            self.request = request(question);
        }
        if let Some(Kept { connection, has_answered }) = self.connection.take() {
            match self.exchange(connection, question).await {
                Err(failure) if has_answered && failure.may_be_sent_again() => {
                    let connection = Connection::open(&question.target).await?;
                    self.exchange(connection, question).await?;
                    return Ok(Answered { sent_again: true, handshake: None });
                }
                outcome => return outcome.map(|()| Answered::default()),
            }
        }
        let connection = Connection::open(&question.target).await?;
        let handshake = self.connects_each_time.then(|| connection.is_resumed());
        self.exchange(connection, question).await?;
        Ok(Answered { sent_again: false, handshake })
    }

    /// Keeps the connection if it may be used again.
    async fn exchange(&mut self, mut connection: Connection, question: &Question) -> Result<(), Failure> {
        let exchanged = connection.exchange(&self.request, &mut self.response, &question.expected).await?;
        if self.connects_each_time {
            connection.close().await?;
        } else if !exchanged.close {
            self.connection = Some(Kept { connection, has_answered: true });
        }
        if exchanged.status == 200 { Ok(()) } else { Err(Failure::Status(exchanged.status)) }
    }
}

/// About what a command-line client sends; browsers send ten times as much, of which a proxy looks at the same few
/// fields.
fn request(question: &Question) -> Vec<u8> {
    let accept_encoding = match &question.accept_encoding {
        Some(coding) => format!("Accept-Encoding: {coding}\r\n"),
        None => String::new(),
    };
    let path = &question.path;
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: tidegate-lab\r\nAccept: */*\r\n{accept_encoding}\r\n")
        .into_bytes()
}
