//! Sans-IO codecs: heads, framing, chunked bodies, TLS ClientHello, PROXY protocol, HTTP/2 and WebSocket frame
//! accounting. Bytes in, facts out. Nothing here opens a socket, reads a clock or logs. The connections that use it are
//! in `proxy`; the sockets in `transport`.

#![forbid(unsafe_code)]

pub mod authority;
pub mod body;
pub mod chunked;
pub mod client_certificate;
pub mod client_hello;
pub mod error;
pub mod h2;
pub mod head;
mod header_id;
pub mod http1;
pub mod ja4;
pub mod limits;
pub mod name_table;
pub mod path;
pub mod percent;
pub mod preferences;
pub mod proxy_protocol;
mod refused;
mod scan;
mod status;
pub mod websocket;

pub use authority::{Authority, parse_authority};
pub use body::BodyDecoder;
pub use chunked::Decoded;
pub use client_certificate::ClientCertificate;
pub use error::{BodyError, HeadError};
pub use h2::floods::Flood;
pub use head::{Field, Fields, HeaderId, Method, RequestHead, ResponseHead, Span, Version};
pub use http1::{BodyFraming, Parsed};
pub use limits::HeadLimits;
pub use status::reason_phrase;
