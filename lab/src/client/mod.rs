//! The client side of the generator: a TLS or plain connection, and a strict reader of HTTP/1.1 answers.
//! It knows nothing of rates, rounds and statistics; `load` does.

pub mod connection;
pub mod response;
pub mod tls;
