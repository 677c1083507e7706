//! Binding every listening address before anything runs, so that a taken port is known while the old state still stands.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use tidegate_proxy::snapshot::Listener;
use tidegate_transport::tokio_sock::{ListenOptions, bind};

/// The sockets of one worker: one per listener of the snapshot, in its order. `None` where an implied listener could not be bound.
pub type Bound = Vec<Option<TcpListener>>;

#[derive(Debug)]
pub struct BindFault {
    pub address: SocketAddr,
    pub error: io::Error,
}

impl BindFault {
    /// What to do about it.
    pub fn help(&self) -> String {
        let port = self.address.port();
        match self.error.kind() {
            io::ErrorKind::AddrInUse => format!("another program listens on port {port}; `ss -ltnp 'sport = :{port}'` names it"),
            io::ErrorKind::PermissionDenied => format!(
                "ports below 1024 need privileges: run as root, give the binary CAP_NET_BIND_SERVICE, or set net.ipv4.ip_unprivileged_port_start to {port}"
            ),
            io::ErrorKind::AddrNotAvailable => format!("no interface of this machine has the address {}", self.address.ip()),
            _ => "see the error of the operating system".to_owned(),
        }
    }
}

impl BindFault {
    /// One sentence without a full stop.
    pub fn what(&self) -> String {
        let why = match self.error.kind() {
            io::ErrorKind::AddrInUse => "it is already taken".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => self.error.to_string(),
        };
        format!("cannot listen on {}: {why}", self.address)
    }
}

impl fmt::Display for BindFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  help: {}", self.what(), self.help())
    }
}

/// Binds every listener once per worker. All faults are reported; a fault of an implied listener is only a warning in the log.
pub fn bind_all(listeners: &[Listener], workers: usize) -> Result<Vec<Bound>, Vec<BindFault>> {
    let mut bound: Vec<Bound> = (0..workers).map(|_| Vec::with_capacity(listeners.len())).collect();
    let mut faults = Vec::new();
    for listener in listeners {
        if is_shared(listener.address) {
            tracing::warn!(
                address = %listener.address,
                "another process listens on this address as well; the system gives each of them a part of the connections"
            );
        }
        let sockets: io::Result<Vec<_>> = (0..workers).map(|_| bind_one(listener.address)).collect();
        match sockets {
            Ok(sockets) => {
                for (worker, socket) in bound.iter_mut().zip(sockets) {
                    worker.push(Some(socket));
                }
            }
            Err(error) if listener.implied => {
                tracing::warn!(address = %listener.address, %error, "plain HTTP is not redirected to HTTPS: its port cannot be listened on");
                for worker in &mut bound {
                    worker.push(None);
                }
            }
            Err(error) => faults.push(BindFault { address: listener.address, error }),
        }
    }
    if faults.is_empty() { Ok(bound) } else { Err(faults) }
}

/// Whether another process of this user listens there already and shares: the kernel would spread connections over both without a word.
pub fn is_shared(address: SocketAddr) -> bool {
    let alone = ListenOptions { reuse_port: false, ..ListenOptions::default() };
    bind(address, alone).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) && probe(address).is_ok()
}

/// Whether the address can be listened on now. Another Tidegate that shares it is no obstacle.
pub fn probe(address: SocketAddr) -> io::Result<()> {
    bind_one(address).map(drop)
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    match bind(address, ListenOptions::default()) {
        // A machine without IPv6: every address means every IPv4 address there.
        Err(error) if address.ip().is_unspecified() && address.is_ipv6() && lacks_ipv6(&error) => {
            bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port()), ListenOptions::default())
        }
        outcome => outcome,
    }
}

fn lacks_ipv6(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}
