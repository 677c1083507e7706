//! One HTTP/1.1 request over a connection that its caller has opened (a unix socket, a check's own TLS), and its answer
//! piece by piece. No task is started: the connection moves while somebody waits for its answer, and is closed when
//! that is dropped. `client.rs` keeps connections, and opens them itself.

use bytes::{Bytes, BytesMut};
use http::{Request, Response, response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::pin::{Pin, pin};
use tokio::io::{AsyncRead, AsyncWrite};

/// Of the head of an answer, where its caller needs no narrower bound, and of what is read at once.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// Fields of an answer's head; as many as browsers see on a bad day.
const FIELDS_MAX: usize = 128;

pub type Sender = http1::SendRequest<Full<Bytes>>;

/// The head of an answer, and the body as it comes.
pub struct Answer {
    pub head: response::Parts,
    body: Incoming,
    connection: Connection,
}

/// What has to be polled for the body to come; nothing once it has ended, or where a task does it.
type Connection = Option<Pin<Box<dyn Future<Output = ()> + Send>>>;

/// Why a body is not there as a whole.
#[derive(Debug)]
pub enum BodyFault {
    TooLarge,
    Broken(hyper::Error),
}

/// Sends a request in origin form, with all its fields; waits for the head of the answer.
pub async fn ask<S>(stream: S, request: Request<Bytes>, head_bytes_max: usize) -> Result<Answer, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = open(stream, head_bytes_max).await?;
    let mut connection: Connection = Some(Box::pin(connection));
    let answer = beside(&mut connection, sender.send_request(request.map(Full::new))).await?;
    Ok(Answer { connection, ..Answer::of(answer) })
}

/// A connection that takes requests while its second half is polled. What goes wrong on it, the request is told.
pub async fn open<S>(stream: S, head_bytes_max: usize) -> Result<(Sender, impl Future<Output = ()> + Send), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(head_bytes_max).max_headers(FIELDS_MAX);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    Ok((sender, async move { _ = connection.await }))
}

impl Answer {
    /// Of a connection that a task polls.
    pub fn of(answer: Response<Incoming>) -> Answer {
        let (head, body) = answer.into_parts();
        Answer { head, body, connection: None }
    }

    /// The next bytes of the body, `None` at its end. Nothing is lost when this is dropped half way.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, hyper::Error> {
        loop {
            match beside(&mut self.connection, self.body.frame()).await.transpose()? {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The whole body, if it has no more than so many bytes.
    pub async fn whole(mut self, bytes_max: usize) -> Result<Bytes, BodyFault> {
        let mut body = BytesMut::new();
        while let Some(piece) = self.piece().await.map_err(BodyFault::Broken)? {
            if piece.len() > bytes_max - body.len() {
                return Err(BodyFault::TooLarge);
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }

    /// The beginning of the body; the rest is never asked for.
    pub async fn beginning(mut self, bytes_max: usize) -> Result<Vec<u8>, hyper::Error> {
        let mut body = Vec::new();
        while body.len() < bytes_max
            && let Some(piece) = self.piece().await?
        {
            body.extend_from_slice(&piece[..piece.len().min(bytes_max - body.len())]);
        }
        Ok(body)
    }
}

/// Waits for `work`, and polls the connection that it needs. When that has ended, what it brought is still taken; it
/// tells what waits for it by its end.
async fn beside<T>(connection: &mut Connection, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if let Some(polled) = connection {
        tokio::select! {
            biased;
            outcome = &mut work => return outcome,
            () = polled => *connection = None,
        }
    }
    work.await
}
