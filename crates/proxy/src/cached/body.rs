//! A body from the cache, as pieces that an answer is sent in: whole and in memory, or read along while another request
//! fetches it.

use bytes::Bytes;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tidegate_cache::Reader;
use tidegate_exchange::{BodySource, NextPiece};
use tidegate_message::body::BodyFault;
use tidegate_transport::Buf;

pub struct StoredBody {
    source: Source,
    /// Of the body: what comes before the part that is sent.
    skip: u64,
    /// Of the part that is sent; `u64::MAX` while its end is not known.
    left: u64,
}

enum Source {
    Kept { chunks: Arc<[Bytes]>, next: usize },
    Along(Box<Reader>),
}

impl<S> BodySource<S> for StoredBody {
    fn read(&mut self) -> NextPiece<'_> {
        Box::pin(poll_fn(|cx| self.poll(cx)))
    }

    fn at_hand(&mut self) -> Result<Option<Buf>, BodyFault> {
        match self.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(piece) => piece,
            Poll::Pending => Ok(None),
        }
    }

    fn is_finished(&self) -> bool {
        self.left == 0
    }
}

impl StoredBody {
    /// `length` bytes from `skip` on.
    pub fn kept(chunks: &Arc<[Bytes]>, skip: u64, length: u64) -> StoredBody {
        StoredBody { source: Source::Kept { chunks: chunks.clone(), next: 0 }, skip, left: length }
    }

    /// `length`: `None` is up to its end, wherever that is.
    pub fn along(reader: Reader, skip: u64, length: Option<u64>) -> StoredBody {
        StoredBody { source: Source::Along(Box::new(reader)), skip, left: length.unwrap_or(u64::MAX) }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, BodyFault>> {
        while self.left > 0 {
            let chunk = match &mut self.source {
                Source::Kept { chunks, next } => {
                    *next += 1;
                    chunks.get(*next - 1).cloned()
                }
                Source::Along(reader) => match reader.poll_chunk(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(BodyFault::Reset(None))),
                    Poll::Ready(chunk) => chunk.transpose().unwrap_or_default(),
                },
            };
            let Some(chunk) = chunk else {
                // The end of what had no length; a length that was promised and does not come is a body that was cut.
                let is_whole = self.left == u64::MAX;
                self.left = 0;
                return Poll::Ready(if is_whole { Ok(None) } else { Err(BodyFault::Reset(None)) });
            };
            let before = self.skip.min(chunk.len() as u64);
            self.skip -= before;
            let rest = &chunk[before as usize..];
            let rest = &rest[..(rest.len() as u64).min(self.left) as usize];
            if !rest.is_empty() {
                if self.left != u64::MAX {
                    self.left -= rest.len() as u64;
                }
                return Poll::Ready(Ok(Some(Buf::copy_of(rest))));
            }
        }
        Poll::Ready(Ok(None))
    }
}
