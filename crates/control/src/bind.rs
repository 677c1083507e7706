//! Binding one listening address, and what stands in the way of it. Which sockets there are is in `sockets`.

use crate::descriptors;
use crate::socket_file;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use tidegate_model::{ListenAddress, SocketName};
use tidegate_transport::descriptors::is_used_up;
use tidegate_transport::sockets::{self, ListenOptions};

#[derive(Debug)]
pub struct BindFault {
    pub address: ListenAddress,
    pub obstacle: Obstacle,
}

/// What stands in the way of listening on an address.
#[derive(Debug)]
pub enum Obstacle {
    System(io::Error),
    /// A process of this user listens there, which runs another configuration, and nobody has said that they share.
    OtherConfiguration,
}

impl From<io::Error> for Obstacle {
    fn from(error: io::Error) -> Obstacle {
        Obstacle::System(error)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::System(error) => error.fmt(f),
            Obstacle::OtherConfiguration => f.write_str("a process with another configuration listens there"),
        }
    }
}

impl BindFault {
    /// Whether somebody else listens there.
    pub fn is_taken(&self) -> bool {
        match &self.obstacle {
            Obstacle::System(error) => error.kind() == io::ErrorKind::AddrInUse,
            Obstacle::OtherConfiguration => true,
        }
    }

    /// Whether this user may not listen there, and another one may.
    pub fn is_forbidden(&self) -> bool {
        match &self.obstacle {
            Obstacle::System(error) => error.kind() == io::ErrorKind::PermissionDenied,
            Obstacle::OtherConfiguration => false,
        }
    }

    /// What to do about it.
    pub fn help(&self) -> String {
        let address = match &self.address {
            ListenAddress::Tcp(address) => address,
            ListenAddress::Unix(name) => return self.help_about_socket(name),
        };
        let port = address.port();
        let Obstacle::System(error) = &self.obstacle else {
            return format!(
                "`ss -ltnp 'sport = :{port}'` names it: end it, or choose another port; `--share-port` has the system give each of them a part of the connections"
            );
        };
        match error.kind() {
            io::ErrorKind::AddrInUse => format!("another program listens on port {port}; `ss -ltnp 'sport = :{port}'` names it"),
            io::ErrorKind::PermissionDenied => format!(
                "ports below 1024 need privileges, which the unit `tidegate.service` has: run as root, give the binary CAP_NET_BIND_SERVICE, or set net.ipv4.ip_unprivileged_port_start to {port}"
            ),
            io::ErrorKind::AddrNotAvailable => format!("no interface of this machine has the address {}", address.ip()),
            _ if is_used_up(error) => descriptors::REMEDY.to_owned(),
            _ => "see the error of the operating system".to_owned(),
        }
    }
}

impl BindFault {
    fn help_about_socket(&self, name: &SocketName) -> String {
        let path = name.path().display();
        let folder = name.path().parent().unwrap_or(name.path()).display();
        let Obstacle::System(error) = &self.obstacle else { unreachable!("sockets of this machine are never shared") };
        match error.kind() {
            io::ErrorKind::AddrInUse => format!("another process answers there; `ss -lxp src {path}` names it"),
            io::ErrorKind::AlreadyExists => format!("{path} is a file and no socket; remove it or choose another path"),
            io::ErrorKind::PermissionDenied => {
                format!(
                    "let this user write into {folder}; for an `owner` of another user, or a `group` that this user is not in, it has to be root or have CAP_CHOWN"
                )
            }
            io::ErrorKind::NotFound if folder_exists(name) => {
                "`owner` and `group` are names of /etc/passwd and /etc/group, or numbers".to_owned()
            }
            _ if !name.is_abstract() && !folder_exists(name) => {
                format!("create the folder {folder}, as `RuntimeDirectory=` of systemd does")
            }
            _ => "see the error of the operating system".to_owned(),
        }
    }

    /// One sentence without a full stop.
    pub fn what(&self) -> String {
        let why = match &self.obstacle {
            Obstacle::System(error) => match error.kind() {
                io::ErrorKind::AddrInUse => "it is already taken".to_owned(),
                io::ErrorKind::AlreadyExists => "something else is there".to_owned(),
                io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
                _ => error.to_string(),
            },
            Obstacle::OtherConfiguration => self.obstacle.to_string(),
        };
        format!("cannot listen on {}: {why}", self.address)
    }
}

impl fmt::Display for BindFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  help: {}", self.what(), self.help())
    }
}

fn folder_exists(name: &SocketName) -> bool {
    name.path().parent().is_some_and(std::path::Path::is_dir)
}

/// Whether another process of this user listens there already and shares: the kernel would spread connections over both
/// without a word. Sockets of this machine cannot be shared so.
pub fn is_shared(address: ListenAddress) -> bool {
    let Some(address) = address.tcp() else { return false };
    let alone = ListenOptions { reuse_port: false, ..ListenOptions::default() };
    sockets::probe(address, alone).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) && probe(address.into()).is_ok()
}

/// Whether the address can be listened on now. Another Tidegate that shares it is no obstacle, and does not notice.
pub fn probe(address: ListenAddress) -> io::Result<()> {
    match address {
        ListenAddress::Tcp(address) => on_this_machine(address, sockets::probe),
        ListenAddress::Unix(name) => socket_file::probe(&name),
    }
}

/// Binds a further socket on the address, beside those that share it already.
pub fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    on_this_machine(address, sockets::bind)
}

fn on_this_machine<T>(address: SocketAddr, bind: impl Fn(SocketAddr, ListenOptions) -> io::Result<T>) -> io::Result<T> {
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

#[cfg(test)]
mod tests {
    use super::{bind_one, is_shared, probe};
    use std::io::{ErrorKind, Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::mpsc::{TryRecvError, channel};

    fn any_port() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[test]
    fn an_address_is_free_or_taken_or_shared() {
        fn check(address: SocketAddr, expected: Result<(), ErrorKind>, expected_shared: bool) {
            assert_eq!(probe(address.into()).map_err(|error| error.kind()), expected, "{address}");
            assert_eq!(is_shared(address.into()), expected_shared, "{address}");
        }
        let sharing = bind_one(any_port()).expect("a port");
        let address = sharing.local_addr().expect("an address");
        check(address, Ok(()), true);
        drop(sharing);
        check(address, Ok(()), false);
        let alone = TcpListener::bind(any_port()).expect("a port");
        check(alone.local_addr().expect("an address"), Err(ErrorKind::AddrInUse), false);
        // No interface has an address for documentation (RFC 5737).
        check(SocketAddr::from(([192, 0, 2, 1], 8443)), Err(ErrorKind::AddrNotAvailable), false);
    }

    #[test]
    fn whoever_looks_at_a_shared_address_takes_no_connection_from_it() {
        const CLIENTS: usize = 300;
        let live = bind_one(any_port()).expect("a port");
        live.set_nonblocking(false).expect("blocking");
        let address = live.local_addr().expect("an address");
        // Neither is waited for, so that a client that landed elsewhere fails the test.
        std::thread::spawn(move || while live.accept().is_ok_and(|(mut accepted, _)| accepted.write_all(b"a").is_ok()) {});
        let (looking, done) = channel::<()>();
        std::thread::spawn(move || {
            while done.try_recv() == Err(TryRecvError::Empty) {
                assert!(is_shared(address.into()));
            }
        });
        for _ in 0..CLIENTS {
            let mut client = TcpStream::connect(address).expect("a connection");
            client.read_exact(&mut [0]).expect("an answer of the only one that listens");
        }
        drop(looking);
    }
}
