//! The I/O traits that the `h2` crate speaks, over a stream: writes are gathered and sealed once per flush, which keeps a request at
//! three socket calls. Inbound bytes pass the frame accounting of `wire::h2_guard` before h2 sees them.

use crate::buffer::{Buf, CAPACITY};
use crate::sock::Sock;
use crate::stream::Stream;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tidegate_wire::h2_guard::{Flood, H2Guard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub struct H2Io<S> {
    stream: Rc<Stream<S>>,
    /// Plaintext that did not fit into h2's buffer.
    reading: Option<Buf>,
    gathered: Option<Buf>,
    sending: Option<Buf>,
    /// Present on client connections; upstreams are trusted not to flood us.
    guard: Option<Guard>,
}

const PREFACE_BYTES: usize = 24;

struct Guard {
    accounting: H2Guard,
    /// The client's preface (RFC 9113 section 3.4) comes before the first frame.
    preface_left: usize,
    on_flood: Box<dyn Fn(Flood)>,
}

impl<S: Sock> H2Io<S> {
    pub fn new(stream: Rc<Stream<S>>) -> H2Io<S> {
        H2Io { stream, reading: None, gathered: None, sending: None, guard: None }
    }

    /// With frame accounting; `on_flood` is told before the connection fails.
    pub fn guarded(stream: Rc<Stream<S>>, on_flood: impl Fn(Flood) + 'static) -> H2Io<S> {
        let accounting = H2Guard::new(Instant::now());
        H2Io { guard: Some(Guard { accounting, preface_left: PREFACE_BYTES, on_flood: Box::new(on_flood) }), ..H2Io::new(stream) }
    }
}

impl Guard {
    fn observe(&mut self, data: &[u8]) -> io::Result<()> {
        let preface = self.preface_left.min(data.len());
        self.preface_left -= preface;
        self.accounting.observe(&data[preface..], Instant::now()).map_err(|flood| {
            (self.on_flood)(flood);
            io::Error::new(io::ErrorKind::ConnectionAborted, flood.reason())
        })
    }
}

impl<S: Sock> AsyncRead for H2Io<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, space: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let mut data = match this.reading.take() {
            Some(data) => data,
            None => {
                let data = ready!(this.stream.poll_read(cx))?;
                if let Some(guard) = &mut this.guard {
                    guard.observe(&data)?;
                }
                data
            }
        };
        let count = data.len().min(space.remaining());
        space.put_slice(&data[..count]);
        data.advance(count);
        if !data.is_empty() {
            this.reading = Some(data);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Sock> AsyncWrite for H2Io<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(data)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.gathered.as_ref().is_some_and(|gathered| gathered.len() >= CAPACITY) {
            ready!(self.as_mut().poll_flush(cx))?;
        }
        let gathered = self.gathered.get_or_insert_with(Buf::take);
        let mut taken = 0;
        for slice in slices {
            let count = slice.len().min(CAPACITY - gathered.len());
            gathered.extend(&slice[..count]);
            taken += count;
            if count < slice.len() {
                break;
            }
        }
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if this.sending.is_some() {
                ready!(this.stream.sock.poll_send(cx, &mut this.sending))?;
            }
            let Some(gathered) = this.gathered.take() else { return Poll::Ready(Ok(())) };
            if let Some(guard) = &mut this.guard {
                guard.accounting.note_sent(gathered.len());
            }
            this.sending = Some(this.stream.seal(gathered)?);
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        if let Some(closing) = self.stream.seal_close()? {
            self.sending = Some(closing);
            ready!(self.as_mut().poll_flush(cx))?;
        }
        self.stream.sock.shutdown();
        Poll::Ready(Ok(()))
    }
}
