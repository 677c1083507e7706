//! Where connections of clients come in: an address and port, or a socket of this machine. Both are small and copied,
//! since connections ask for them. Which sites answer there is in `listening`.

use std::ffi::OsStr;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The name of a unix socket: an absolute path, or `@` and a name that no file has (unix(7), "abstract").
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketName {
    length: u8,
    /// Zeros behind the name.
    bytes: [u8; SocketName::BYTES_MAX],
}

impl SocketName {
    /// What fits into `sockaddr_un` with its NUL.
    pub const BYTES_MAX: usize = 107;

    /// Reads what stands behind `unix:`. `Err` says in one sentence what is wrong.
    pub fn parse(text: &str) -> Result<SocketName, String> {
        // `unix:///run/x` is a URL of the same.
        let text = text.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(text);
        if text.contains('\0') {
            return Err("the path of a socket has no NUL".into());
        }
        if text.len() > SocketName::BYTES_MAX {
            return Err(format!("the path of a socket has at most {} bytes", SocketName::BYTES_MAX));
        }
        match text.strip_prefix('@') {
            Some("") => Err("the name of an abstract socket is missing, as in `unix:@app`".into()),
            Some(_) => Ok(SocketName::of_bytes(text.as_bytes())),
            None if text.starts_with('/') => {
                // `//` and `/./` lead to the same socket.
                let path: PathBuf = Path::new(text).components().collect();
                Ok(SocketName::of_bytes(path.as_os_str().as_bytes()))
            }
            None => Err("the path of a socket begins with `/`, as in `unix:/run/app.sock`".into()),
        }
    }

    /// The name that a socket has by the system's word, in the form that [`path`](Self::path) gives back; `None` is one
    /// that nobody can write.
    pub fn of_path(path: &Path) -> Option<SocketName> {
        let bytes = path.as_os_str().as_bytes();
        (1..=SocketName::BYTES_MAX).contains(&bytes.len()).then(|| SocketName::of_bytes(bytes))
    }

    fn of_bytes(name: &[u8]) -> SocketName {
        let mut bytes = [0; SocketName::BYTES_MAX];
        bytes[..name.len()].copy_from_slice(name);
        SocketName { length: name.len() as u8, bytes }
    }

    /// The path of the file, or `@` and the abstract name.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.bytes[..usize::from(self.length)]))
    }

    /// The file that stands for the socket; an abstract one has none.
    pub fn file(&self) -> Option<&Path> {
        Some(self.path()).filter(|_| !self.is_abstract())
    }

    pub fn is_abstract(&self) -> bool {
        self.bytes[0] == b'@'
    }
}

impl fmt::Display for SocketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix:{}", self.path().display())
    }
}

impl fmt::Debug for SocketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListenAddress {
    Tcp(SocketAddr),
    Unix(SocketName),
}

impl ListenAddress {
    /// `None`: it has no ports.
    pub fn port(&self) -> Option<u16> {
        self.tcp().map(|address| address.port())
    }

    pub fn ip(&self) -> Option<IpAddr> {
        self.tcp().map(|address| address.ip())
    }

    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        }
    }

    pub fn socket(&self) -> Option<&SocketName> {
        match self {
            ListenAddress::Tcp(_) => None,
            ListenAddress::Unix(name) => Some(name),
        }
    }

    /// `:443` for every address of the machine, as `listener` has it; else `192.0.2.1:443`, or `unix:/run/x.sock`.
    pub fn shown(&self) -> String {
        match self {
            ListenAddress::Tcp(address) if address.ip().is_unspecified() => format!(":{}", address.port()),
            ListenAddress::Tcp(address) => address.to_string(),
            ListenAddress::Unix(name) => name.to_string(),
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> ListenAddress {
        ListenAddress::Tcp(address)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(f),
            ListenAddress::Unix(name) => name.fmt(f),
        }
    }
}

/// What a `listener` block is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListenerPlace {
    Tcp {
        /// `None` is every address.
        ip: Option<IpAddr>,
        port: u16,
    },
    Unix(SocketName),
}

impl ListenerPlace {
    /// Whether the options are for what listens there.
    pub fn covers(&self, listen: ListenAddress) -> bool {
        match (self, listen) {
            (ListenerPlace::Tcp { ip, port }, ListenAddress::Tcp(address)) => {
                *port == address.port() && ip.is_none_or(|ip| ip == address.ip())
            }
            (ListenerPlace::Unix(own), ListenAddress::Unix(name)) => *own == name,
            (ListenerPlace::Tcp { .. }, ListenAddress::Unix(_)) | (ListenerPlace::Unix(_), ListenAddress::Tcp(_)) => false,
        }
    }
}

/// Who may connect to a socket of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketAccess {
    /// Permission bits of the file.
    pub mode: u32,
    /// A user's name or number; `None` leaves it to the system.
    pub owner: Option<String>,
    /// A group's name or number.
    pub group: Option<String>,
}

impl SocketAccess {
    pub const MODE: u32 = 0o660;
}

impl Default for SocketAccess {
    fn default() -> Self {
        SocketAccess { mode: SocketAccess::MODE, owner: None, group: None }
    }
}

#[cfg(test)]
mod tests {
    use super::SocketName;

    #[test]
    fn names_of_sockets() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let read = SocketName::parse(text).map(|name| name.to_string());
            assert_eq!(read.as_deref().map_err(String::as_str), expected, "{text}");
        };
        check("/run/app.sock", Ok("unix:/run/app.sock"));
        check("//run/./app.sock", Ok("unix:/run/app.sock"));
        check("///run/app.sock", Ok("unix:/run/app.sock"));
        check("@app", Ok("unix:@app"));
        check("@", Err("the name of an abstract socket is missing, as in `unix:@app`"));
        check("", Err("the path of a socket begins with `/`, as in `unix:/run/app.sock`"));
        check("run/app.sock", Err("the path of a socket begins with `/`, as in `unix:/run/app.sock`"));
        check("/a\0b", Err("the path of a socket has no NUL"));
        check(&format!("/{}", "a".repeat(107)), Err("the path of a socket has at most 107 bytes"));
        let longest = format!("/{}", "a".repeat(106));
        check(&longest, Ok(&format!("unix:{longest}")));
        assert!(SocketName::parse("@app").is_ok_and(|name| name.file().is_none()));
    }
}
