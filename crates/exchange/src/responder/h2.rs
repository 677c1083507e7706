//! An answer on a stream of HTTP/2.

use super::CLIENT_WRITE_IDLE;
use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;
use std::io;
use std::task::{Context, Poll};
use tidegate_message::h2_data::{send_data, send_end};
use tidegate_message::h2_head;
use tidegate_transport::Buf;
use tidegate_wire::head::{Fields, ResponseHead};

pub struct H2Responder {
    pub(super) respond: Option<SendResponse<Bytes>>,
    sending: Option<SendStream<Bytes>>,
    pub(super) bytes_sent: u64,
}

impl H2Responder {
    pub fn new(respond: SendResponse<Bytes>) -> H2Responder {
        H2Responder { respond: Some(respond), sending: None, bytes_sent: 0 }
    }

    pub(super) fn send_interim(&mut self, head: &ResponseHead) -> io::Result<()> {
        let (Some(respond), Some(response)) = (&mut self.respond, h2_head::response(head)) else { return Ok(()) };
        respond.send_informational(response).map_err(io::Error::other)
    }

    pub(super) async fn send_head(&mut self, head: &ResponseHead, first: Option<Buf>, finished: bool) -> io::Result<()> {
        let Some(mut respond) = self.respond.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let Some(response) = h2_head::response(head) else {
            respond.send_reset(h2::Reason::INTERNAL_ERROR);
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer that HTTP/2 cannot carry"));
        };
        let ends = finished && first.is_none();
        let sending = respond.send_response(response, ends).map_err(io::Error::other)?;
        if !ends {
            self.sending = Some(sending);
        }
        match first {
            Some(piece) => self.send_body(piece, finished).await,
            None => Ok(()),
        }
    }

    pub(super) async fn send_body(&mut self, piece: Buf, finished: bool) -> io::Result<()> {
        self.bytes_sent += piece.len() as u64;
        let Some(sending) = &mut self.sending else { return Err(io::ErrorKind::BrokenPipe.into()) };
        send_data(sending, piece, finished, CLIENT_WRITE_IDLE).await
    }

    pub(super) fn finish(&mut self, trailers: Option<&Fields>) -> io::Result<()> {
        let Some(mut sending) = self.sending.take() else { return Ok(()) };
        send_end(&mut sending, trailers)
    }

    pub(super) fn reset(&mut self, reason: h2::Reason) {
        if let Some(respond) = &mut self.respond {
            respond.send_reset(reason);
        }
        if let Some(sending) = &mut self.sending {
            sending.send_reset(reason);
        }
    }

    /// Ready when the client has given up the stream.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match (&mut self.respond, &mut self.sending) {
            (Some(respond), _) => respond.poll_reset(cx).map(|_| ()),
            (None, Some(sending)) => sending.poll_reset(cx).map(|_| ()),
            (None, None) => Poll::Pending,
        }
    }
}
