//! Reading an HTTP/1 head that may come in pieces, for requests and for answers. A head that is all there is parsed once; one that trickles
//! in is searched for its end piece by piece, so that many small pieces cost no more than their sum.

use std::io;
use std::time::Instant;
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

/// Parses a head that begins with `first` and returns what follows it. A head that is not all there must be by `until`.
pub async fn read_head<S: Sock>(
    stream: &Stream<S>,
    first: Buf,
    head_bytes_max: usize,
    until: Option<Instant>,
    mut parse: impl FnMut(&[u8]) -> Result<Parsed, HeadError>,
) -> Result<Buf, HeadFault> {
    let mut data = first;
    loop {
        match parse(&data).map_err(HeadFault::Bad)? {
            Parsed::Complete { consumed } => {
                data.advance(consumed);
                return Ok(data);
            }
            Parsed::Partial => {}
        }
        if let Some(until) = until {
            stream.sock.set_read_limit(ReadLimit::Until(until));
        }
        let mut searched = data.len();
        loop {
            stream.need_more(data);
            data = stream.read().await.map_err(HeadFault::Io)?;
            if data.is_empty() {
                return Err(HeadFault::Cut);
            }
            if data.len() > head_bytes_max || find_head_end(&data, searched).is_some() {
                break;
            }
            searched = data.len();
        }
    }
}
