//! What a connection sends: the frames that have gathered are sealed together and leave in one send, so that the small
//! answers of many streams share a record.

use super::shared::H2Shared;
use super::spare;
use std::io;
use std::task::{Context, Poll, ready};
use tidegate_transport::buffer::CAPACITY;
use tidegate_transport::{Buf, Sock, Stream};

#[derive(Default)]
pub struct FrameOutput {
    /// Frames that are being sent, from `at` on.
    frames: Vec<u8>,
    at: usize,
    sealed: Option<Buf>,
}

impl FrameOutput {
    /// Sends all that has gathered. Ready when the socket has taken it.
    pub fn poll_send<S: Sock>(&mut self, shared: &H2Shared, stream: &Stream<S>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.sealed.is_some() {
                ready!(stream.sock.poll_send(cx, &mut self.sealed))?;
            }
            if self.at == self.frames.len() {
                spare::give_back(std::mem::take(&mut self.frames));
                self.at = 0;
                let Some(frames) = shared.take_output() else { return Poll::Ready(Ok(())) };
                self.frames = frames;
            }
            let end = (self.at + CAPACITY).min(self.frames.len());
            self.sealed = Some(stream.seal_copy(self.frames.get(self.at..end).unwrap_or_default())?);
            self.at = end;
        }
    }
}
