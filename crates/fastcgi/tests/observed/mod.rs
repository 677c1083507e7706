//! What the decoders say about a stream of bytes that comes in given pieces, with what depends on the pieces joined
//! again. Shared by the property tests and the fuzz targets; it says nothing about what is right.

use tidegate_fastcgi::record::FIRST_REQUEST;
use tidegate_fastcgi::{AnswerError, AnswerHead, AnswerParser, Decoder, Event, Progress, RecordError};

/// Events with their content joined where the same stream goes on, then how it ended: whether the connection can be
/// used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    pub events: Vec<(&'static str, Vec<u8>)>,
    pub outcome: Result<bool, RecordError>,
}

pub fn events(bytes: &[u8], pieces: &[usize]) -> Observed {
    let mut decoder = Decoder::new(FIRST_REQUEST);
    let mut events: Vec<(&'static str, Vec<u8>)> = Vec::new();
    for piece in cut(bytes, pieces) {
        let mut input = piece;
        loop {
            let before = input.len();
            let (kind, content) = match decoder.feed(&mut input) {
                Err(error) => return Observed { events, outcome: Err(error) },
                Ok(None) => break,
                Ok(Some(Event::Stdout(content))) => ("stdout", content.to_vec()),
                Ok(Some(Event::Stderr(content))) => ("stderr", content.to_vec()),
                Ok(Some(Event::Values(content))) => ("values", content.to_vec()),
                Ok(Some(Event::UnknownType(kind))) => ("unknown type", vec![kind]),
                Ok(Some(Event::End { app_status, protocol_status })) => {
                    ("end", format!("{app_status} {protocol_status}").into_bytes())
                }
            };
            assert!(!content.is_empty() && input.len() < before, "each event is progress");
            match events.last_mut() {
                Some((last, joined)) if *last == kind && matches!(kind, "stdout" | "stderr" | "values") => joined.extend(content),
                _ => events.push((kind, content)),
            }
        }
        assert!(input.is_empty());
    }
    Observed { events, outcome: decoder.end_of_input().map(|()| decoder.is_reusable()) }
}

/// The head, and the length of it; `None` when it is not complete.
pub fn head(bytes: &[u8], pieces: &[usize]) -> Result<Option<(AnswerHead, usize)>, AnswerError> {
    let mut parser = AnswerParser::new();
    let mut read = 0;
    for piece in cut(bytes, pieces) {
        let mut input = piece;
        let progress = parser.feed(&mut input)?;
        read += piece.len() - input.len();
        match progress {
            Progress::Complete(head) => return Ok(Some((head, read))),
            Progress::NeedMore => assert!(input.is_empty()),
        }
    }
    Ok(None)
}

/// `bytes` in pieces of these lengths, over and over; whole when there are none.
fn cut<'a>(mut bytes: &'a [u8], pieces: &[usize]) -> Vec<&'a [u8]> {
    let mut cut = Vec::new();
    let mut lengths = pieces.iter().cycle();
    while !bytes.is_empty() {
        let length = lengths.next().map_or(bytes.len(), |length| (*length).clamp(1, bytes.len()));
        let (piece, rest) = bytes.split_at(length);
        cut.push(piece);
        bytes = rest;
    }
    cut
}
