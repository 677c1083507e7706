//! An address at which nobody answers: connections to it neither come nor fail, as with a machine that is gone.

use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// As many as the system takes for a socket that has room for one.
const FILLED_MAX: usize = 16;
const LOOKED_AT_FOR: Duration = Duration::from_millis(200);

/// A socket whose places for connections are all taken by those that are kept here.
pub struct Unanswered {
    socket: Socket,
    _filling: Vec<Socket>,
}

impl Unanswered {
    pub fn new() -> io::Result<Unanswered> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        socket.listen(0)?;
        let address = socket.local_addr()?;
        let mut filling = Vec::new();
        // Until one of them hangs.
        while filling.len() < FILLED_MAX {
            let one = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            if one.connect_timeout(&address, LOOKED_AT_FOR).is_err() {
                return Ok(Unanswered { socket, _filling: filling });
            }
            filling.push(one);
        }
        Err(io::Error::other("the system takes every connection"))
    }

    pub fn port(&self) -> u16 {
        self.socket.local_addr().ok().and_then(|address| address.as_socket()).map_or(0, |address| address.port())
    }
}
