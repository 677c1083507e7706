//! A stream to a server whose answers have a bound, since the library collects an answer before it gives it: 500 MB
//! that somebody on the way sends would be 2 GB of memory. How long an answer may take is bounded in `connection`.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Between two questions. Several may be on their way at once, each for a value of [`crate::VALUE_BYTES_MAX`] at most.
pub(super) const ANSWER_BYTES_MAX: usize = 16 * crate::VALUE_BYTES_MAX;

pub(super) struct BoundedAnswers<S> {
    stream: S,
    bytes_left: usize,
}

impl<S> BoundedAnswers<S> {
    pub(super) fn new(stream: S) -> BoundedAnswers<S> {
        BoundedAnswers { stream, bytes_left: ANSWER_BYTES_MAX }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedAnswers<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let Some(left) = self.bytes_left.checked_sub(buffer.filled().len() - before) else {
            let message = format!("more than {} MiB came without a question", ANSWER_BYTES_MAX >> 20);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, message)));
        };
        self.bytes_left = left;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedAnswers<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.bytes_left = ANSWER_BYTES_MAX;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
