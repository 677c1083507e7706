//! HTTP/2 (RFC 9113) without a socket: bytes go in and facts come out.
//! Header compression is in `hpack`. How fields become heads is in `heads`; heads of every version are
//! those of `head`.

pub mod heads;
pub mod hpack;
