//! A request's body as records of STDIN. How they are made is in the crate `fastcgi`; when they are sent, in `reply`.

use std::io;
use tidegate_fastcgi::record::{CONTENT_BYTES_MAX, FIRST_REQUEST, HEADER_BYTES, encode_stdin_end, stdin_frame};
use tidegate_transport::{Buf, Sock, Stream};

/// What a record of STDIN takes beside its content: header, padding, and the record that ends the body.
const STDIN_EXTRA_BYTES: usize = HEADER_BYTES + 7 + HEADER_BYTES;

/// A piece of body as records, in place where it fits into one.
pub async fn send_stdin<S: Sock>(stream: &Stream<S>, piece: Buf, finished: bool) -> io::Result<()> {
    let fits = piece.len() <= CONTENT_BYTES_MAX && piece.room() >= STDIN_EXTRA_BYTES && piece.head_room() >= HEADER_BYTES;
    if fits {
        return stream.write(stdin(piece, finished)).await;
    }
    let mut parts = piece.chunks(CONTENT_BYTES_MAX / 2).peekable();
    while let Some(part) = parts.next() {
        stream.write(stdin(Buf::copy_of(part), finished && parts.peek().is_none())).await?;
    }
    Ok(())
}

fn stdin(mut piece: Buf, finished: bool) -> Buf {
    if let Some(frame) = stdin_frame(FIRST_REQUEST, piece.len()) {
        piece.prepend(&frame.header);
        piece.extend(frame.padding);
    }
    if finished {
        let mut end = Vec::with_capacity(HEADER_BYTES);
        encode_stdin_end(&mut end, FIRST_REQUEST);
        piece.extend(&end);
    }
    piece
}

/// The end of a body that no piece was the last of.
pub async fn send_stdin_end<S: Sock>(stream: &Stream<S>) -> io::Result<()> {
    stream.write(stdin(Buf::take(), true)).await
}
