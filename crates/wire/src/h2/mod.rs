//! HTTP/2 (RFC 9113) without a socket: bytes go in and facts come out.
//! Header compression is in `hpack`. Message heads of every version are in `head`.

pub mod hpack;
