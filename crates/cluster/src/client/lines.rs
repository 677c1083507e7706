//! Lines out of pieces of a stream, each with a bound. Pure.

use crate::fault::Fault;
use bytes::{Bytes, BytesMut};

/// Of one line of a watch: an object of the greatest size, in JSON, with what stands around it.
pub const LINE_BYTES_MAX: usize = 2 << 20;

#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: BytesMut,
    /// Bytes that are known to have no line break.
    searched: usize,
}

impl LineBuffer {
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
    }

    /// The next line that is not empty, as far as it has come whole.
    pub fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        while let Some(found) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') {
            let line = self.bytes.split_to(self.searched + found + 1).freeze();
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
        self.searched = self.bytes.len();
        if self.searched > LINE_BYTES_MAX { Err(Fault::LineTooLong { bytes_max: LINE_BYTES_MAX }) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, LineBuffer};
    use crate::fault::Fault;

    fn check(pieces: &[&[u8]], expected: &[&str], end: Result<(), Fault>) {
        let (mut buffer, mut seen) = (LineBuffer::default(), Vec::new());
        let mut ended = Ok(());
        for piece in pieces {
            buffer.push(piece);
            loop {
                match buffer.next() {
                    Ok(Some(line)) => seen.push(String::from_utf8_lossy(&line).trim().to_owned()),
                    Ok(None) => break,
                    Err(fault) => {
                        ended = Err(fault);
                        break;
                    }
                }
            }
        }
        assert_eq!(seen, expected);
        assert_eq!(ended, end);
    }

    #[test]
    fn lines_come_as_they_end_and_have_a_bound() {
        check(&[b"one\ntwo\r\n\n", b"thr", b"ee\nno end"], &["one", "two", "three"], Ok(()));
        let long = vec![b'a'; LINE_BYTES_MAX + 1];
        check(&[b"one\n", &long], &["one"], Err(Fault::LineTooLong { bytes_max: LINE_BYTES_MAX }));
    }
}
