//! Reading an HTTP/1 head that may come in pieces, for requests and for answers. A head that is all there is parsed
//! once; one that trickles in is searched for its end piece by piece, so that many small pieces cost no more than their
//! sum.

use std::io;
use std::time::Instant;
use tidegate_transport::memory::TakenShare;
use tidegate_transport::{Buf, ReadLimit, Sock, Stream};
use tidegate_wire::http1::find_head_end;
use tidegate_wire::{HeadError, Parsed};

#[derive(Debug)]
pub enum HeadFault {
    Io(io::Error),
    /// The stream ended inside the head.
    Cut,
    Bad(HeadError),
}

/// Reads on where `data` was parsed and found to be only the beginning of a head; returns what follows the head. With
/// `until` it must be all there by then.
///
/// The caller parses first and comes here, boxed, only when that was not enough: most heads come in one piece, and
/// their futures need not carry this.
pub async fn read_rest_of_head<S: Sock>(
    stream: &Stream<S>,
    mut data: Buf,
    head_bytes_max: usize,
    until: Option<Instant>,
    mut parse: impl FnMut(&[u8]) -> Result<Parsed, HeadError>,
) -> Result<Buf, HeadFault> {
    if let Some(until) = until {
        stream.sock.set_read_limit(ReadLimit::Until(until));
    }
    // A client may leave thousands of heads half sent.
    let mut taken = TakenShare::default();
    loop {
        let searched = data.len();
        taken.set(searched);
        stream.need_more(data);
        data = stream.read().await.map_err(HeadFault::Io)?;
        if data.is_empty() {
            return Err(HeadFault::Cut);
        }
        if data.len() <= head_bytes_max && find_head_end(&data, searched).is_none() {
            continue;
        }
        if let Parsed::Complete { consumed } = parse(&data).map_err(HeadFault::Bad)? {
            data.advance(consumed);
            return Ok(data);
        }
    }
}
