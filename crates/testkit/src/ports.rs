//! Free TCP ports: bound by number 0 and kept until the one who needs the port is about to bind it.

use std::io;
use std::net::{SocketAddr, TcpListener};

/// A port of `127.0.0.1` that nobody else gets while this lives. Not listening for long: connections to it are refused
/// only once it is turned into one of the two below.
#[derive(Debug)]
pub struct Reservation {
    socket: socket2::Socket,
    port: u16,
}

impl Reservation {
    /// Bound, not listening: whoever connects is refused.
    pub fn new() -> io::Result<Reservation> {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
        let port = socket.local_addr()?.as_socket().map_or(0, |address| address.port());
        Ok(Reservation { socket, port })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts to listen.
    pub fn listen(self) -> io::Result<TcpListener> {
        self.socket.listen(1024)?;
        Ok(self.socket.into())
    }
}

/// A port that was free a moment ago.
pub fn free_port() -> io::Result<u16> {
    Reservation::new().map(|reservation| reservation.port())
}
