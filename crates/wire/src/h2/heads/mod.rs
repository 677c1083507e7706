//! Heads of messages over HTTP/2: what HPACK decodes becomes a head under the rules that HTTP/1 heads are read under,
//! so that nothing behind it need know the difference, and heads become field lists again. A head that breaks a rule
//! ends its stream; only a header block that cannot be decoded ends the connection (RFC 9113 section 8.1.1).

mod collector;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{AdmittedRequest, RequestReader, ResponseReader, TrailersReader, is_malformed};
pub use write::{RequestForm, fields_fit, request_fits, write_request, write_response, write_trailers};
