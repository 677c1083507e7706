//! Sockets: listen, connect, TLS, leased buffers, timers.
