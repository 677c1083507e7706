//! Compares the body of an answer with the one that must come, whatever HTTP version and content coding brought it.
//! A compressed body is decoded the first time it is seen and compared byte by byte with what was decoded before from
//! then on, so that decoding costs the generator next to nothing while every answer is still checked.

use std::cell::RefCell;
use std::io::Read;

use crate::client::response::BadResponse;

/// Compressors give different bytes for the same page when input reaches them in other pieces; beyond so many, each is
/// decoded again.
const ENCODINGS_KEPT_MAX: usize = 64;

/// What must come.
#[derive(Debug)]
pub struct Expected {
    pub body: Vec<u8>,
    /// Encoded bodies that have been decoded and compared.
    verified: RefCell<Vec<(Coding, Vec<u8>)>>,
    compressed_only: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    Gzip,
    Brotli,
    Zstd,
}

/// One body on its way in.
#[derive(Debug, Default)]
pub enum BodyCheck {
    /// Between two answers, and for an answer whose status is wrong already.
    #[default]
    Ignored,
    Plain {
        received: usize,
    },
    Encoded {
        coding: Coding,
        bytes: Vec<u8>,
    },
}

impl Expected {
    pub fn new(body: Vec<u8>) -> Expected {
        Expected { body, verified: RefCell::default(), compressed_only: false }
    }

    /// A plain body is wrong then.
    pub fn compressed_only(self, compressed_only: bool) -> Expected {
        Expected { compressed_only, ..self }
    }

    fn check_encoded(&self, coding: Coding, bytes: Vec<u8>) -> Result<(), BadResponse> {
        let mut verified = self.verified.borrow_mut();
        if verified.iter().any(|(known, encoded)| *known == coding && *encoded == bytes) {
            return Ok(());
        }
        let decoded = coding.decode(&bytes, self.body.len() + 1).ok_or(BadResponse::NotDecodable)?;
        if decoded != self.body {
            let at = decoded.iter().zip(&self.body).take_while(|(left, right)| left == right).count();
            return Err(BadResponse::BodyDiffers { between: (at, decoded.len()) });
        }
        if verified.len() == ENCODINGS_KEPT_MAX {
            verified.remove(0);
        }
        verified.push((coding, bytes));
        Ok(())
    }
}

impl BodyCheck {
    /// `content_encoding` as the head has it; none is plain.
    pub fn begin(content_encoding: Option<&[u8]>, expected: &Expected) -> Result<BodyCheck, BadResponse> {
        match content_encoding {
            None | Some(b"identity") if expected.compressed_only => Err(BadResponse::NotCompressed),
            None | Some(b"identity") => Ok(BodyCheck::Plain { received: 0 }),
            Some(name) => Ok(BodyCheck::Encoded { coding: Coding::from_name(name)?, bytes: Vec::new() }),
        }
    }

    pub fn take(&mut self, piece: &[u8], expected: &Expected) -> Result<(), BadResponse> {
        match self {
            BodyCheck::Ignored => Ok(()),
            BodyCheck::Plain { received } => {
                let (start, end) = (*received, *received + piece.len());
                *received = end;
                match expected.body.get(start..end) {
                    None => Err(BadResponse::Length { received: end, expected: expected.body.len() }),
                    Some(wanted) if wanted != piece => Err(BadResponse::BodyDiffers { between: (start, end) }),
                    Some(_) => Ok(()),
                }
            }
            BodyCheck::Encoded { bytes, .. } => {
                bytes.extend_from_slice(piece);
                // No compressor doubles a page.
                let max = expected.body.len() * 2 + 1024;
                if bytes.len() > max { Err(BadResponse::Length { received: bytes.len(), expected: max }) } else { Ok(()) }
            }
        }
    }

    pub fn finish(&mut self, expected: &Expected) -> Result<(), BadResponse> {
        match std::mem::take(self) {
            BodyCheck::Ignored => Ok(()),
            BodyCheck::Plain { received } if received == expected.body.len() => Ok(()),
            BodyCheck::Plain { received } => Err(BadResponse::Length { received, expected: expected.body.len() }),
            BodyCheck::Encoded { coding, bytes } => expected.check_encoded(coding, bytes),
        }
    }
}

impl Coding {
    fn from_name(name: &[u8]) -> Result<Coding, BadResponse> {
        match name {
            b"gzip" => Ok(Coding::Gzip),
            b"br" => Ok(Coding::Brotli),
            b"zstd" => Ok(Coding::Zstd),
            _ => Err(BadResponse::UnknownCoding),
        }
    }

    /// At most `bytes_max` of it; `None` if it is not of this coding.
    fn decode(self, encoded: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
        let mut decoded = Vec::new();
        let limit = bytes_max as u64;
        match self {
            Coding::Gzip => flate2::read::GzDecoder::new(encoded).take(limit).read_to_end(&mut decoded),
            Coding::Brotli => brotli::Decompressor::new(encoded, 4096).take(limit).read_to_end(&mut decoded),
            Coding::Zstd => zstd::Decoder::new(encoded).and_then(|reader| reader.take(limit).read_to_end(&mut decoded)),
        }
        .ok()?;
        Some(decoded)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn check(encoding: Option<&str>, pieces: &[&[u8]], expected: &Expected) -> Result<(), BadResponse> {
        let mut body = BodyCheck::begin(encoding.map(str::as_bytes), expected)?;
        pieces.iter().try_for_each(|piece| body.take(piece, expected))?;
        body.finish(expected)
    }

    fn encoded(text: &[u8]) -> [(&'static str, Vec<u8>); 3] {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        let mut br = Vec::new();
        brotli::CompressorWriter::new(&mut br, 4096, 4, 20).write_all(text).unwrap();
        [("gzip", gzip.finish().unwrap()), ("br", br), ("zstd", zstd::encode_all(text, 1).unwrap())]
    }

    #[test]
    fn bodies_are_compared_in_every_coding() {
        let page = crate::content::Page::Html2K.body();
        let expected = Expected::new(page.clone());
        assert_eq!(check(None, &[&page[..100], &page[100..]], &expected), Ok(()));
        // Twice: decoded the first time, compared with what was decoded the second.
        for _ in 0..2 {
            for (name, bytes) in encoded(&page) {
                assert_eq!(check(Some(name), &[&bytes[..10], &bytes[10..]], &expected), Ok(()), "{name}");
            }
        }
    }

    #[test]
    fn wrong_bodies_are_named() {
        let expected = Expected::new(b"hello world".to_vec());
        assert_eq!(check(None, &[b"hello"], &expected), Err(BadResponse::Length { received: 5, expected: 11 }));
        assert_eq!(check(None, &[b"hello world", b"!"], &expected), Err(BadResponse::Length { received: 12, expected: 11 }));
        assert_eq!(check(None, &[b"hello_world"], &expected), Err(BadResponse::BodyDiffers { between: (0, 11) }));
        assert_eq!(check(Some("gzip"), &[b"hello world"], &expected), Err(BadResponse::NotDecodable));
        let compressed_only = Expected::new(b"hello world".to_vec()).compressed_only(true);
        assert_eq!(check(None, &[b"hello world"], &compressed_only), Err(BadResponse::NotCompressed));
        assert_eq!(check(Some("compress"), &[b"hello world"], &expected), Err(BadResponse::UnknownCoding));
        for (name, bytes) in encoded(b"hello there") {
            assert_eq!(check(Some(name), &[&bytes], &expected), Err(BadResponse::BodyDiffers { between: (6, 11) }), "{name}");
        }
    }
}
