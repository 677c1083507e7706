//! Bodies of HTTP/2 as they go out: DATA frames as the peer's window opens, and trailers.

use crate::h2_head;
use bytes::Bytes;
use h2::SendStream;
use std::future::poll_fn;
use std::io;
use std::time::Duration;
use tidegate_transport::{Buf, rt};
use tidegate_wire::head::Fields;

/// Sends a piece as DATA frames as the peer's window opens; `idle` is how long it may stay shut.
pub async fn send_data(sending: &mut SendStream<Bytes>, piece: Buf, finished: bool, idle: Duration) -> io::Result<()> {
    // Copied, because a piece that waits for the peer's window must not pin a buffer many times its size.
    let mut data = Bytes::copy_from_slice(&piece);
    drop(piece);
    loop {
        sending.reserve_capacity(data.len());
        if sending.capacity() == 0 {
            match rt::timeout(idle, poll_fn(|cx| sending.poll_capacity(cx))).await {
                Some(Some(Ok(_))) => {}
                Some(Some(Err(error))) => return Err(io::Error::other(error)),
                Some(None) => return Err(io::ErrorKind::BrokenPipe.into()),
                None => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        let count = sending.capacity().min(data.len());
        let part = data.split_to(count);
        let last = data.is_empty();
        sending.send_data(part, last && finished).map_err(io::Error::other)?;
        if last {
            return Ok(());
        }
    }
}

/// The end of a body that no piece was the last of.
pub fn send_end(sending: &mut SendStream<Bytes>, trailers: Option<&Fields>) -> io::Result<()> {
    match trailers {
        Some(trailers) => sending.send_trailers(h2_head::header_map(trailers)).map_err(io::Error::other),
        None => sending.send_data(Bytes::new(), true).map_err(io::Error::other),
    }
}
