//! Two servers that are asked the same: which requests a file or an access log holds, how two answers differ, and what
//! is said of all of them together. Pure: who sends the requests is the command `compare` of the program. Start in
//! `reader.rs` for requests, in `difference.rs` for answers.

#![forbid(unsafe_code)]

mod answer;
mod body;
mod difference;
mod headers;
mod log;
mod plain;
mod readable;
mod reader;
mod report;
mod request;
#[cfg(test)]
mod tests;

pub use answer::{Answer, Body, Failure, Outcome};
pub use difference::{Difference, Origins, compare};
pub use headers::{Asked, HEADERS_IGNORED, Rules};
pub use reader::{Fault, LINE_BYTES_MAX, Read, Reader, Wanted};
pub use report::{Example, Group, Report};
pub use request::{LeftOut, Request, is_field, is_host, is_of_connection};
