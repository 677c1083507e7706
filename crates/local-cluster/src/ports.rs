//! Free TCP ports: bound here first, and kept until the one who needs the port is about to bind it.
//! They lie below the range from which the system takes ports for outgoing connections: between giving a port up and
//! its being bound again, one of the many connections of a test run would otherwise take it now and then.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// Below are ports that services are likely to have.
const LOWEST: u32 = 10_000;
/// Where the range for outgoing connections begins on a system that does not say.
const EPHEMERAL_DEFAULT: u32 = 32_768;
/// `demo` takes the ports behind the one it is given; they are nobody else's.
const STEP: u32 = 4;
/// So many taken ports in a row mean that something else is wrong.
const ATTEMPTS_MAX: u32 = 1_000;

/// A port of `127.0.0.1` that nobody else gets while this lives.
#[derive(Debug)]
pub struct Reservation {
    /// `None` once it was handed on.
    socket: Option<socket2::Socket>,
    port: u16,
}

/// Held while a program is started and while a reservation ends. Between fork and exec a child has copies of all
/// sockets, and a port that is given up at that moment stays taken for a little longer than its owner expects.
pub static FORKING: Mutex<()> = Mutex::new(());

impl Drop for Reservation {
    fn drop(&mut self) {
        let _no_child_has_it = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
        self.socket = None;
    }
}

impl Reservation {
    /// Bound, not listening: whoever connects is refused.
    pub fn new() -> io::Result<Reservation> {
        Reservation::bind(false)
    }

    /// A reservation that stays when somebody listens there who asks for `SO_REUSEPORT` as well ([`listen_beside`]).
    /// For processes that end and come back: nobody else gets the port while they are away.
    pub fn shared() -> io::Result<Reservation> {
        Reservation::bind(true)
    }

    fn bind(is_shared: bool) -> io::Result<Reservation> {
        let mut last_error = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..ATTEMPTS_MAX {
            let port = next_candidate();
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
            if is_shared {
                share(&socket)?;
            }
            match socket.bind(&SocketAddr::from(([127, 0, 0, 1], port)).into()) {
                Ok(()) => return Ok(Reservation { socket: Some(socket), port }),
                Err(error) => last_error = error,
            }
        }
        Err(last_error)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts to listen.
    pub fn listen(mut self) -> io::Result<TcpListener> {
        let socket = self.socket.take().ok_or(io::ErrorKind::NotConnected)?;
        socket.listen(1024)?;
        Ok(socket.into())
    }
}

/// Listens on a port that a [`Reservation::shared`] holds, perhaps in another process.
pub fn listen_beside(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    share(&socket)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

fn share(socket: &socket2::Socket) -> io::Result<()> {
    // What is left of connections of the process before must not keep the port.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)
}

/// How many sockets of this machine listen on the port, whosever they are and on whatever address; `None` where the
/// system has no `/proc/net`.
pub fn listening_sockets(port: u16) -> Option<usize> {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    let mut count = 0;
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(table).ok()?;
        let columns = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        count += columns.filter(|columns| columns.len() > 3 && columns[1].ends_with(&suffix) && columns[3] == LISTEN).count();
    }
    Some(count)
}

/// Every call another one; each process begins somewhere else.
fn next_candidate() -> u16 {
    static NEXT: OnceLock<AtomicU32> = OnceLock::new();
    let next = NEXT.get_or_init(|| {
        let nanoseconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        AtomicU32::new(nanoseconds.wrapping_add(std::process::id().wrapping_mul(977)))
    });
    let offset = next.fetch_add(STEP, Ordering::Relaxed) % (ephemeral_begin() - LOWEST);
    (LOWEST + offset) as u16
}

fn ephemeral_begin() -> u32 {
    static BEGIN: OnceLock<u32> = OnceLock::new();
    *BEGIN.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let begin = text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(EPHEMERAL_DEFAULT);
        begin.clamp(LOWEST + 2 * ATTEMPTS_MAX, u32::from(u16::MAX))
    })
}
