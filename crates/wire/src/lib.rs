//! Sans-IO codecs: HTTP/1 heads and framing, chunked, TLS ClientHello, HTTP/2 frame accounting. No IO.
