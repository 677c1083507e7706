//! An answer on a stream of HTTP/2.

use super::CLIENT_WRITE_IDLE;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;
use tidegate_message::h2::StreamHandle;
use tidegate_transport::Buf;
use tidegate_wire::h2::frame::ErrorCode;
use tidegate_wire::head::{Fields, ResponseHead};

pub struct H2Responder {
    stream: StreamHandle,
    pub(super) started: bool,
    /// Nothing may follow.
    ended: bool,
    pub(super) bytes_sent: u64,
    pub(super) write_idle: Duration,
}

impl H2Responder {
    pub fn new(stream: StreamHandle) -> H2Responder {
        H2Responder { stream, started: false, ended: false, bytes_sent: 0, write_idle: CLIENT_WRITE_IDLE }
    }

    pub(super) fn send_interim(&mut self, head: &ResponseHead) -> io::Result<()> {
        self.stream.send_response(head, false)
    }

    /// The head of an answer behind which the stream is a tunnel.
    pub(super) fn send_switch(&mut self, head: &ResponseHead) -> io::Result<()> {
        self.started = true;
        self.stream.send_response(head, false)
    }

    pub(super) fn stream(&self) -> &StreamHandle {
        &self.stream
    }

    pub(super) async fn send_head(&mut self, head: &ResponseHead, first: Option<Buf>, finished: bool) -> io::Result<()> {
        self.started = true;
        self.ended = finished && first.is_none();
        self.stream.send_response(head, self.ended)?;
        match first {
            Some(piece) => self.send_body(piece, finished).await,
            None => Ok(()),
        }
    }

    pub(super) async fn send_body(&mut self, piece: Buf, finished: bool) -> io::Result<()> {
        self.bytes_sent += piece.len() as u64;
        self.ended |= finished;
        self.stream.send_body(piece, finished, self.write_idle).await
    }

    /// Ends a body that no piece was the last of.
    pub fn finish(&mut self, trailers: Option<&Fields>) -> io::Result<()> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        self.stream.finish(trailers)
    }

    /// Ends the answer before its time.
    pub fn reset(&mut self, code: ErrorCode) {
        self.stream.reset(code);
    }

    /// Ready when the client has given up the stream.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.ended { Poll::Pending } else { self.stream.poll_gone(cx) }
    }
}
