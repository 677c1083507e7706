//! The I/O traits that the `h2` crate speaks, over a stream: writes are gathered and sealed once per turn of the
//! connection, so that many streams share a record and a send.

use crate::buffer::{Buf, CAPACITY};
use crate::sock::Sock;
use crate::stream::Stream;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub struct H2Io<S> {
    output: Rc<H2Output<S>>,
    /// Plaintext that did not fit into h2's buffer.
    reading: Option<Buf>,
}

impl<S: Sock> H2Io<S> {
    pub fn new(stream: Rc<Stream<S>>) -> H2Io<S> {
        let output = H2Output { stream, gathered: RefCell::default(), sending: RefCell::default(), failed: Cell::new(None) };
        H2Io { output: Rc::new(output), reading: None }
    }

    pub fn output(&self) -> Rc<H2Output<S>> {
        self.output.clone()
    }
}

impl<S: Sock> AsyncRead for H2Io<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, space: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let mut data = match this.reading.take() {
            Some(data) => data,
            None => ready!(this.output.stream.poll_read(cx))?,
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

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.output.is_full() {
            ready!(self.output.poll_send(cx))?;
        }
        Poll::Ready(self.output.gather(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Sends nothing yet. h2 flushes after every DATA frame; whoever drives the connection sends once it has nothing
    /// more to say, so that the answers of many streams share a record and a system call.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.output.poll_send(cx))?;
        if let Some(closing) = self.output.stream.seal_close()? {
            *self.output.sending.borrow_mut() = Some(closing);
            ready!(self.output.poll_send(cx))?;
        }
        self.output.stream.sock.shutdown();
        Poll::Ready(Ok(()))
    }
}

/// What an HTTP/2 connection has to send, shared with whoever drives it.
pub struct H2Output<S> {
    stream: Rc<Stream<S>>,
    /// At most [`CAPACITY`] bytes.
    gathered: RefCell<Option<Buf>>,
    sending: RefCell<Option<Buf>>,
    /// Sending has failed; h2 learns it at its next write.
    failed: Cell<Option<io::ErrorKind>>,
}

impl<S: Sock> H2Output<S> {
    /// Sends what was gathered: one seal, one send. To be called whenever the connection's own future has nothing more
    /// to do.
    pub fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut sending = self.sending.borrow_mut();
        loop {
            if sending.is_some() {
                ready!(self.stream.sock.poll_send(cx, &mut sending)).inspect_err(|error| self.failed.set(Some(error.kind())))?;
            }
            let Some(gathered) = self.gathered.take() else { return Poll::Ready(Ok(())) };
            *sending = Some(self.stream.seal(gathered)?);
        }
    }

    fn is_full(&self) -> bool {
        self.gathered.borrow().as_ref().is_some_and(|gathered| gathered.len() >= CAPACITY)
    }

    fn gather(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        if let Some(kind) = self.failed.get() {
            return Err(kind.into());
        }
        let mut gathered = self.gathered.borrow_mut();
        let gathered = gathered.get_or_insert_with(Buf::take);
        let mut taken = 0;
        for slice in slices {
            let count = slice.len().min(CAPACITY - gathered.len());
            gathered.extend(&slice[..count]);
            taken += count;
            if count < slice.len() {
                break;
            }
        }
        Ok(taken)
    }
}

/// Polls a future of an h2 connection, and sends what it has left to send whenever it waits and when it ends.
pub async fn drive<S: Sock, F: Future>(output: &H2Output<S>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        // A failure to send is kept, and h2 is told at its next write; reading notices a broken connection anyway.
        let _ = output.poll_send(cx);
        polled
    })
    .await
}
