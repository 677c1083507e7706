//! The chunked transfer coding (RFC 9112 section 7.1), decoded where the bytes lie, in any fragmentation.
//! Which bodies are chunked is decided by `http1`'s framing; `body` puts all framings behind one decoder.
//!
//! ```text
//! Size ──CR──▶ SizeLf ──size > 0──▶ Data ──all read──▶ DataCr ──▶ DataLf ──▶ Size
//!   │ ;          ▲  │
//!   ▼            │  └──size = 0──▶ TrailerStart ──CR──▶ EndLf ──▶ Finished
//! Extension ─CR──┘                     └──other──▶ Trailers ──empty line──▶ Finished
//! ```

use crate::error::{BodyError, HeadError};
use crate::head::{Fields, NamedByConnection};
use crate::http1::{Stop, find_head_end, parse_fields};
use crate::limits::HeadLimits;
use crate::name_table::NameTable;
use crate::scan::is_token;
use std::ops::Range;

/// Digits of a chunk size, leading zeros included: 60 bits, so that no sum of lengths can overflow.
pub const CHUNK_SIZE_DIGITS_MAX: u8 = 15;
/// Extension bytes of a whole message. Nobody uses extensions; without a bound, one-byte chunks with long ones would
/// cost us much work for little data.
pub const CHUNK_EXTENSION_BYTES_MAX: u32 = 4 << 10;

/// What a stretch of the connection's bytes was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Where in the given bytes the body's own bytes are now.
    pub payload: Range<usize>,
    /// Bytes that belonged to this message; the rest is the next one's.
    pub consumed: usize,
    pub finished: bool,
}

/// Whose body it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Peer {
    #[default]
    Client,
    /// Some servers fill the size up with blanks to a fixed width. No grammar has that, and where nobody can smuggle it
    /// hurts nobody: the answers on our connection are in our order, and are written anew.
    Upstream,
}

/// Decodes one chunked body. After an error it must not be used further.
#[derive(Debug)]
pub struct ChunkedDecoder {
    peer: Peer,
    /// What a head may have, for the trailer section with its empty line: gRPC says there what went wrong, at length.
    trailer_bytes_max: u32,
    trailers_max: u32,
    state: ChunkState,
    /// Bytes that the current chunk still has; while its size is read, the value so far.
    chunk_left: u64,
    extension_bytes: u32,
    /// Allocated only when there are trailers: the raw section while it comes, the index of it once it is complete.
    trailers: Option<Box<Fields>>,
    /// Names that the head's `Connection` has: of the connection, wherever they stand (RFC 9110 section 7.6.1).
    named_by_connection: Option<Box<NamedByConnection>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    Size { digits: u8 },
    Extension(Extension),
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    Trailers,
    EndLf,
    Finished,
}

impl Default for ChunkState {
    fn default() -> Self {
        ChunkState::Size { digits: 0 }
    }
}

/// Where in ` ; name = value` or ` ; name = "quoted"` we are. Blanks may stand around the semicolon and the equals sign
/// (RFC 9112 section 7.1.1), and only there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extension {
    /// Blanks behind the size or behind a value: a semicolon has to follow.
    Blank,
    /// Blanks behind a name: a semicolon or an equals sign has to follow.
    NameBlank,
    NameStart,
    Name,
    ValueStart,
    Value,
    Quoted,
    QuotedPair,
    QuotedEnd,
}

impl ChunkedDecoder {
    pub fn new(peer: Peer, limits: &HeadLimits) -> ChunkedDecoder {
        ChunkedDecoder {
            peer,
            trailer_bytes_max: u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX),
            trailers_max: u32::try_from(limits.fields_max).unwrap_or(u32::MAX),
            state: ChunkState::default(),
            chunk_left: 0,
            extension_bytes: 0,
            trailers: None,
            named_by_connection: None,
        }
    }

    /// What the head's `Connection` names is dropped.
    pub fn drop_named(&mut self, named: NamedByConnection) {
        self.named_by_connection = Some(Box::new(named));
    }

    /// Decodes as much as there is. The payload is moved together within `data`: its first piece stays where it is,
    /// later ones follow it directly. Bytes from `consumed` on are untouched; less than everything is consumed only at
    /// the body's end.
    pub fn decode_in_place(&mut self, data: &mut [u8]) -> Result<Decoded, BodyError> {
        let mut payload = 0..0;
        let mut at = 0;
        while at < data.len() {
            match self.state {
                ChunkState::Finished => break,
                ChunkState::Data => {
                    let piece = usize::try_from(self.chunk_left).unwrap_or(usize::MAX).min(data.len() - at);
                    if payload.is_empty() {
                        payload = at..at + piece;
                    } else {
                        data.copy_within(at..at + piece, payload.end);
                        payload.end += piece;
                    }
                    at += piece;
                    self.chunk_left -= piece as u64;
                    if self.chunk_left == 0 {
                        self.state = ChunkState::DataCr;
                    }
                }
                ChunkState::Trailers => at += self.collect_trailers(&data[at..])?,
                _ => at += self.handle_framing_byte(data[at])?,
            }
        }
        Ok(Decoded { payload, consumed: at, finished: self.is_finished() })
    }

    pub fn is_finished(&self) -> bool {
        self.state == ChunkState::Finished
    }

    /// Whether trailer fields have come that were not taken.
    #[inline]
    pub fn has_trailers(&self) -> bool {
        self.trailers.is_some()
    }

    /// The trailer fields, once the body is finished. Those that could change how the message is framed, routed,
    /// authenticated or cached are not among them: RFC 9110 section 6.5.1 forbids to merge them, so they are dropped.
    pub fn take_trailers(&mut self) -> Option<Box<Fields>> {
        if self.is_finished() { self.trailers.take() } else { None }
    }

    /// One byte outside of data and trailers; says how much of the input it took, which is nothing when the byte
    /// belongs to the next state.
    #[inline]
    fn handle_framing_byte(&mut self, byte: u8) -> Result<usize, BodyError> {
        self.state = match (self.state, byte) {
            (ChunkState::Size { digits }, _) => self.after_size_byte(digits, byte)?,
            (ChunkState::Extension(part), _) => self.after_extension_byte(part, byte)?,
            (ChunkState::SizeLf, b'\n') if self.chunk_left > 0 => ChunkState::Data,
            (ChunkState::SizeLf, b'\n') => ChunkState::TrailerStart,
            (ChunkState::SizeLf, _) => return Err(BodyError::BadChunkSize),
            (ChunkState::DataCr, b'\r') => ChunkState::DataLf,
            (ChunkState::DataLf, b'\n') => ChunkState::Size { digits: 0 },
            (ChunkState::DataCr | ChunkState::DataLf, _) => return Err(BodyError::BadChunkEnd),
            (ChunkState::TrailerStart, b'\r') => ChunkState::EndLf,
            (ChunkState::TrailerStart, _) => {
                self.trailers = Some(Box::default());
                self.state = ChunkState::Trailers;
                return Ok(0);
            }
            (ChunkState::EndLf, b'\n') => ChunkState::Finished,
            (ChunkState::EndLf, _) => return Err(BodyError::BadTrailer),
            (ChunkState::Data | ChunkState::Trailers | ChunkState::Finished, _) => {
                unreachable!("these states take whole runs of bytes")
            }
        };
        Ok(1)
    }

    #[inline]
    fn after_size_byte(&mut self, digits: u8, byte: u8) -> Result<ChunkState, BodyError> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'\r' if digits > 0 => return Ok(ChunkState::SizeLf),
            b';' if digits > 0 => return self.after_extension_bytes(ChunkState::Extension(Extension::NameStart)),
            b' ' | b'\t' if digits > 0 => return self.after_extension_bytes(ChunkState::Extension(Extension::Blank)),
            _ => return Err(BodyError::BadChunkSize),
        };
        if digits == CHUNK_SIZE_DIGITS_MAX {
            return Err(BodyError::ChunkTooLarge);
        }
        self.chunk_left = (self.chunk_left << 4) | u64::from(digit);
        Ok(ChunkState::Size { digits: digits + 1 })
    }

    fn after_extension_byte(&mut self, part: Extension, byte: u8) -> Result<ChunkState, BodyError> {
        let next = match (part, byte) {
            (Extension::Name | Extension::Value | Extension::QuotedEnd, b'\r') => return Ok(ChunkState::SizeLf),
            (Extension::Blank | Extension::NameBlank, b'\r') if self.peer == Peer::Upstream => return Ok(ChunkState::SizeLf),
            (Extension::Name | Extension::Value | Extension::QuotedEnd | Extension::Blank | Extension::NameBlank, b';') => {
                Extension::NameStart
            }
            (Extension::Name | Extension::NameBlank, b' ' | b'\t') => Extension::NameBlank,
            (Extension::Value | Extension::QuotedEnd | Extension::Blank, b' ' | b'\t') => Extension::Blank,
            (Extension::NameStart | Extension::ValueStart, b' ' | b'\t') => part,
            (Extension::NameStart | Extension::Name, _) if is_token(byte) => Extension::Name,
            (Extension::Name | Extension::NameBlank, b'=') => Extension::ValueStart,
            (Extension::ValueStart, b'"') => Extension::Quoted,
            (Extension::ValueStart | Extension::Value, _) if is_token(byte) => Extension::Value,
            (Extension::Quoted, b'"') => Extension::QuotedEnd,
            (Extension::Quoted, b'\\') => Extension::QuotedPair,
            // A line end inside quotes is what tells parsers apart that skip to LF from those that read the quotes.
            (Extension::Quoted | Extension::QuotedPair, b'\t' | b' '..=b'~' | 0x80..) => Extension::Quoted,
            _ => return Err(BodyError::BadChunkExtension),
        };
        self.after_extension_bytes(ChunkState::Extension(next))
    }

    fn after_extension_bytes(&mut self, next: ChunkState) -> Result<ChunkState, BodyError> {
        self.extension_bytes += 1;
        if self.extension_bytes > CHUNK_EXTENSION_BYTES_MAX {
            return Err(BodyError::ChunkExtensionsTooLarge);
        }
        Ok(next)
    }

    /// Takes what belongs to the trailer section; the fields are indexed once all of it is there.
    fn collect_trailers(&mut self, data: &[u8]) -> Result<usize, BodyError> {
        let trailers = self.trailers.get_or_insert_default();
        let (collected, bytes_max) = (trailers.bytes.len(), self.trailer_bytes_max as usize);
        let piece = data.len().min(bytes_max - collected);
        trailers.bytes.extend_from_slice(&data[..piece]);
        let Some(end) = find_head_end(&trailers.bytes, collected) else {
            let is_full = trailers.bytes.len() == bytes_max;
            return if is_full { Err(BodyError::TrailersTooLarge) } else { Ok(piece) };
        };
        let section = std::mem::take(&mut trailers.bytes);
        let parsed = parse_fields(&section[..end], 0, self.trailers_max as usize, trailers);
        trailers.bytes = section;
        match parsed {
            Ok(at) if at == end => {}
            Err(Stop::Refused(HeadError::TooManyFields)) => return Err(BodyError::TrailersTooLarge),
            Ok(_) | Err(Stop::Refused(_) | Stop::NeedMore) => return Err(BodyError::BadTrailer),
        }
        drop_unsafe_trailers(trailers);
        if let Some(named) = &self.named_by_connection {
            trailers.remove_where(|name| named.has(name));
        }
        if trailers.iter().next().is_none() {
            self.trailers = None;
        }
        self.state = ChunkState::Finished;
        Ok(end - collected)
    }
}

/// What may not come after the body, because it would be acted on too late or by someone else than intended.
const UNSAFE_TRAILERS: NameTable<()> = NameTable::new(&[
    (b"connection", ()),
    (b"content-length", ()),
    (b"transfer-encoding", ()),
    (b"keep-alive", ()),
    (b"proxy-connection", ()),
    (b"te", ()),
    (b"upgrade", ()),
    (b"http2-settings", ()),
    (b"host", ()),
    (b"trailer", ()),
    (b"proxy-authenticate", ()),
    (b"proxy-authorization", ()),
    (b"expect", ()),
    (b"via", ()),
    (b"x-forwarded-for", ()),
    (b"x-forwarded-proto", ()),
    (b"x-forwarded-host", ()),
    (b"x-forwarded-port", ()),
    (b"forwarded", ()),
    (b"x-real-ip", ()),
    (b"content-type", ()),
    (b"content-encoding", ()),
    (b"cookie", ()),
    (b"set-cookie", ()),
    (b"authorization", ()),
    (b"cache-control", ()),
    (b"location", ()),
    (b"range", ()),
    (b"vary", ()),
    (b"age", ()),
    (b"content-range", ()),
    (b"expires", ()),
    (b"max-forwards", ()),
    (b"pragma", ()),
    (b"retry-after", ()),
    (b"warning", ()),
    (b"www-authenticate", ()),
    // CGI-like servers read it as who has logged in.
    (b"remote-user", ()),
    // Whether the request is what it says (RFC 9110 section 13): too late when the body is there.
    (b"if-match", ()),
    (b"if-modified-since", ()),
    (b"if-none-match", ()),
    (b"if-range", ()),
    (b"if-unmodified-since", ()),
    // What a proxy says of a request.
    (b"early-data", ()),
    // What an application says to the proxy in front of it, and to caches: taken out of heads where it is obeyed.
    (b"x-accel-buffering", ()),
    (b"x-accel-charset", ()),
    (b"x-accel-expires", ()),
    (b"x-accel-limit-rate", ()),
    (b"x-accel-redirect", ()),
    (b"x-lighttpd-send-file", ()),
    (b"x-sendfile", ()),
    (b"cache-tag", ()),
    (b"cdn-cache-control", ()),
    (b"surrogate-control", ()),
    (b"surrogate-key", ()),
]);

/// Removes what may not come after the body, in every spelling that servers fold together. Done here for chunked
/// bodies; trailers that came over HTTP/2 need it as well. One look at each trailer, since calls of gRPC all end with
/// some.
pub fn drop_unsafe_trailers(trailers: &mut Fields) {
    trailers.remove_where(|name| UNSAFE_TRAILERS.find(name).is_some());
}

#[cfg(test)]
mod tests;
