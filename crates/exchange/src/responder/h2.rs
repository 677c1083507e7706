//! An answer on a stream of HTTP/2.

use super::CLIENT_WRITE_IDLE;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;
use tidegate_message::h2::{StreamHandle, UntilSent};
use tidegate_transport::Buf;
use tidegate_wire::h2::frame::ErrorCode;
use tidegate_wire::head::{Fields, ResponseHead};

pub struct H2Responder {
    stream: StreamHandle,
    pub(super) started: bool,
    /// Nothing may follow.
    ended: bool,
    pub(super) bytes_sent: u64,
    /// How long the client may take none of the answer; no more precise than a second.
    write_idle_seconds: u32,
}

impl H2Responder {
    pub fn new(stream: StreamHandle) -> H2Responder {
        H2Responder { stream, started: false, ended: false, bytes_sent: 0, write_idle_seconds: seconds_of(CLIENT_WRITE_IDLE) }
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

    pub(super) fn set_write_idle(&mut self, idle: Duration) {
        self.write_idle_seconds = seconds_of(idle);
    }

    /// Whatever there is to wait for then.
    pub(super) fn send_head(
        &mut self,
        head: &ResponseHead,
        first: Option<Buf>,
        finished: bool,
    ) -> io::Result<Option<UntilSent<'_>>> {
        self.started = true;
        self.ended = finished && first.is_none();
        self.stream.send_response(head, self.ended)?;
        match first {
            Some(piece) => Ok(Some(self.send_body(piece, finished))),
            None => Ok(None),
        }
    }

    pub(super) fn send_body(&mut self, piece: Buf, finished: bool) -> UntilSent<'_> {
        self.bytes_sent += piece.len() as u64;
        self.ended |= finished;
        self.stream.send_body(piece, finished, Duration::from_secs(self.write_idle_seconds.into()))
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

fn seconds_of(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}
