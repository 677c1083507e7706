//! Undoes content codings, as a browser would: whole bodies, which have to end properly, and beginnings of streams.

use std::io::{self, Read};

/// `Err` says what is wrong with the body, an end that is missing included.
pub fn decode(coding: &str, body: &[u8]) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    let read = match coding {
        "zstd" => zstd::Decoder::new(body).and_then(|mut decoder| decoder.read_to_end(&mut plain)),
        "br" => brotli::Decompressor::new(body, 4096).read_to_end(&mut plain),
        "gzip" => flate2::read::GzDecoder::new(body).read_to_end(&mut plain),
        other => return Err(format!("`{other}` is no coding that is known here")),
    };
    read.map(|_| plain).map_err(|error| format!("the body is not {coding}: {error}"))
}

/// What can be read of a stream so far.
pub fn decode_beginning(coding: &str, body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let from: io::Result<Box<dyn Read + '_>> = match coding {
        "zstd" => zstd::Decoder::new(body).map(|decoder| Box::new(decoder) as Box<dyn Read>),
        "br" => Ok(Box::new(brotli::Decompressor::new(body, 4096))),
        _ => Ok(Box::new(flate2::read::GzDecoder::new(body))),
    };
    let Ok(mut from) = from else { return plain };
    let mut piece = [0; 1024];
    while let Ok(count) = from.read(&mut piece)
        && count > 0
    {
        plain.extend_from_slice(&piece[..count]);
    }
    plain
}
