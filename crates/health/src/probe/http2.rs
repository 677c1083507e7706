//! One request over HTTP/2, with every bound far below the protocol's defaults. It is used without hyper, which would
//! start tasks of its own. What is asked is in `http` and `grpc`.

use crate::fault::{ProbeFault, causes};
use crate::probe::HEAD_BYTES_MAX;
use ::http::{Request, Response};
use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, Connection, SendRequest};
use tokio::io::{AsyncRead, AsyncWrite};

/// What the server may send before it is read; the whole of a body that is looked at.
const WINDOW_BYTES: u32 = 64 << 10;

pub async fn open<S>(stream: S) -> Result<(SendRequest<Bytes>, Connection<S, Bytes>), ProbeFault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    Builder::new()
        .enable_push(false)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .handshake(stream)
        .await
        .map_err(|error| http2_fault(&error))
}

/// The answer's head. `sender` goes with it, so that the connection ends when the answer does.
pub async fn send(
    sender: SendRequest<Bytes>,
    request: Request<()>,
    body: Option<Bytes>,
) -> Result<Response<RecvStream>, ProbeFault> {
    let mut sender = sender.ready().await.map_err(|error| http2_fault(&error))?;
    let (answer, mut sending) = sender.send_request(request, body.is_none()).map_err(|error| http2_fault(&error))?;
    if let Some(body) = body {
        // h2 keeps what the server's window does not take yet.
        sending.send_data(body, true).map_err(|error| http2_fault(&error))?;
    }
    answer.await.map_err(|error| http2_fault(&error))
}

/// The beginning of a body, at most `bytes_max`.
pub async fn read(incoming: &mut RecvStream, bytes_max: usize) -> Result<Vec<u8>, ProbeFault> {
    let mut body = Vec::new();
    while let Some(data) = incoming.data().await {
        let data = data.map_err(|error| http2_fault(&error))?;
        let wanted = data.len().min(bytes_max - body.len());
        body.extend_from_slice(&data[..wanted]);
        if body.len() == bytes_max {
            break;
        }
        incoming.flow_control().release_capacity(data.len()).map_err(|error| http2_fault(&error))?;
    }
    Ok(body)
}

pub fn http2_fault(error: &h2::Error) -> ProbeFault {
    ProbeFault::Http { why: causes(error) }
}
