//! The records of FastCGI 1.0: what we send (`encode`) and what the application answers (`decode`), for one request at
//! a time on a connection. What is in PARAMS comes from `params`; what is in STDOUT is for `answer`.
//!
//! A record is eight bytes of header (version, type, request id, content length, padding length, a reserved byte), its
//! content, its padding.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub use decode::{Decoder, Event, ProtocolStatus, RecordError};
pub use encode::{Frame, KeepConnection, encode_begin_request, encode_params, encode_stdin, encode_stdin_end, stdin_frame};

use std::num::NonZeroU16;

/// Which request of a connection a record belongs to; zero is the connection itself. Responders serve one request at a
/// time, and [`FIRST_REQUEST`] is the usual number. On a connection that is kept each request has another, so that a
/// record that comes too late is known for what it is.
pub type RequestId = NonZeroU16;

pub const FIRST_REQUEST: RequestId = NonZeroU16::MIN;

pub const HEADER_BYTES: usize = 8;

/// Content of one record that we send: of the 65,535 bytes that the length field can say, as many as need no padding.
pub const CONTENT_BYTES_MAX: usize = 65_528;

const VERSION: u8 = 1;
/// Records are padded to this, so that what the application reads is aligned.
const ALIGNMENT: usize = 8;

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const GET_VALUES_RESULT: u8 = 10;
const UNKNOWN_TYPE: u8 = 11;
