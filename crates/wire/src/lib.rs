//! Sans-IO codecs: heads, framing, chunked bodies, TLS ClientHello, HTTP/2 frame accounting. Bytes in, facts out.
//! Nothing here opens a socket, reads a clock or logs. The connections that use it are in `proxy`; the sockets in `transport`.

pub mod head;
