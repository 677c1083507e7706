//! Messages of HTTP/1 as they go out: a head and the first bytes of its body in one buffer, and chunks.

use std::io;
use tidegate_transport::{Buf, Sock, Stream};
use tidegate_wire::body::{CHUNK_HEAD_MAX, CHUNK_TAIL, LAST_CHUNK, chunk_head, encode_last_chunk};
use tidegate_wire::head::{Fields, RequestHead, ResponseHead};

/// A request as HTTP/1.1, with the first piece of its body behind the head if there is one.
pub fn encode_request(head: &RequestHead, first: Option<Buf>, chunked: bool, finished: bool) -> io::Result<Buf> {
    let body = match first {
        Some(piece) if chunked => Some(chunk(piece, finished)),
        None if chunked && finished => Some(Buf::copy_of(LAST_CHUNK)),
        first => first,
    };
    let mut message = body.unwrap_or_else(Buf::take);
    let len = head.encoded_len();
    head.encode(open_front(&mut message, len)?);
    Ok(message)
}

/// The head in front of the body's first piece, which stays where it is.
pub fn encode_response(head: &ResponseHead, body: Option<Buf>) -> io::Result<Buf> {
    let mut message = body.unwrap_or_else(Buf::take);
    let len = head.encoded_len();
    head.encode(open_front(&mut message, len)?);
    Ok(message)
}

fn open_front(message: &mut Buf, len: usize) -> io::Result<&mut [u8]> {
    if !message.fits_in_front(len) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a head larger than the buffer"));
    }
    Ok(message.open_front(len))
}

/// Makes a piece of body a chunk, in place; the last one takes the end of the body along.
pub fn chunk(mut piece: Buf, finished: bool) -> Buf {
    let mut line = [0; CHUNK_HEAD_MAX];
    let line_len = chunk_head(piece.len(), &mut line);
    if piece.room() < CHUNK_TAIL.len() + LAST_CHUNK.len() {
        // A piece that fills its buffer to the end: only one that was compacted behind a large head can.
        let moved = piece.len();
        let mut roomy = Buf::take_whole();
        roomy.spare()[CHUNK_HEAD_MAX..CHUNK_HEAD_MAX + moved].copy_from_slice(&piece);
        roomy.grow(CHUNK_HEAD_MAX + moved);
        roomy.advance(CHUNK_HEAD_MAX);
        piece = roomy;
    }
    piece.prepend(&line[..line_len]);
    piece.extend(CHUNK_TAIL);
    if finished {
        piece.extend(LAST_CHUNK);
    }
    piece
}

/// The end of a chunked body that no piece was the last of.
pub async fn send_last_chunk<S: Sock>(stream: &Stream<S>, trailers: Option<&Fields>) -> io::Result<()> {
    let mut last = Vec::new();
    encode_last_chunk(trailers, &mut last);
    for part in last.chunks(tidegate_transport::buffer::CAPACITY) {
        stream.write(Buf::copy_of(part)).await?;
    }
    Ok(())
}
