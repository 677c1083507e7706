//! Lines out of pieces of a stream, each with a bound. Pure.

use bytes::{Bytes, BytesMut};

/// What has come of a stream and was not given out.
#[derive(Debug)]
pub struct LineBuffer {
    bytes: BytesMut,
    /// Bytes that are known to have no line break.
    searched: usize,
    bytes_max: usize,
}

/// A line has more bytes than a line may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineTooLong;

impl LineBuffer {
    /// For lines of at most so many bytes.
    pub fn new(bytes_max: usize) -> LineBuffer {
        LineBuffer { bytes: BytesMut::new(), searched: 0, bytes_max }
    }

    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
    }

    /// The next line that is not empty, with its end, as far as it has come whole.
    pub fn take_line(&mut self) -> Result<Option<Bytes>, LineTooLong> {
        while let Some(found) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') {
            let line = self.bytes.split_to(self.searched + found + 1).freeze();
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
        self.searched = self.bytes.len();
        if self.searched > self.bytes_max { Err(LineTooLong) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::{LineBuffer, LineTooLong};

    fn check(pieces: &[&[u8]], expected: &[&str], end: Result<(), LineTooLong>) {
        let (mut buffer, mut seen) = (LineBuffer::new(100), Vec::new());
        let mut ended = Ok(());
        for piece in pieces {
            buffer.push(piece);
            loop {
                match buffer.take_line() {
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
        check(&[b"one\n", &[b'a'; 101]], &["one"], Err(LineTooLong));
    }
}
