//! Lines as messages of syslog (RFC 5424), one datagram each: to a socket of the system such as `/dev/log`, or over UDP
//! (RFC 5426).

use super::second::SecondText;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::{SystemTime, UNIX_EPOCH};
use tidegate_model::{Syslog, SyslogPlace};

/// What a message may hold of a line: more is nowhere sure to arrive in one datagram. The rest of the line is cut.
const MESSAGE_BYTES_MAX: usize = 32 << 10;
/// `informational`: a line says nothing about how grave it is.
const SEVERITY: u8 = 6;
/// RFC 5424 section 6.2.4.
const HOSTNAME_BYTES_MAX: usize = 255;

#[derive(Debug)]
pub(super) struct SyslogTarget {
    settings: Syslog,
    socket: Option<Socket>,
    /// ` HOSTNAME APP-NAME PROCID MSGID STRUCTURED-DATA `, which all messages have.
    middle: String,
    second: SecondText,
    message: Vec<u8>,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

impl SyslogTarget {
    /// An error says that nobody is there. Over UDP that is never known.
    pub fn open(settings: &Syslog) -> io::Result<SyslogTarget> {
        let socket = Some(Socket::open(&settings.place)?);
        let middle = format!(" {} {} {} access - ", hostname(), settings.tag, std::process::id());
        Ok(SyslogTarget { settings: settings.clone(), socket, middle, second: SecondText::default(), message: Vec::new() })
    }

    /// Sends the first line of `bytes`, and says how long it is. A daemon that was restarted is found again.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
        let line = bytes[..length].trim_ascii_end();
        if line.is_empty() {
            return Ok(length);
        }
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        self.message.clear();
        self.message.extend_from_slice(format!("<{}>1 ", self.settings.facility * 8 + SEVERITY).as_bytes());
        self.second.push_rfc3339(&mut self.message, now_us);
        self.message.extend_from_slice(self.middle.as_bytes());
        self.message.extend_from_slice(&line[..line.len().min(MESSAGE_BYTES_MAX)]);
        let is_kept = self.socket.is_some();
        if let Err(error) = self.send() {
            if !is_kept {
                return Err(error);
            }
            // Once more, to the one that has taken the place of the other.
            self.socket = None;
            self.send()?;
        }
        Ok(length)
    }

    fn send(&mut self) -> io::Result<()> {
        if self.socket.is_none() {
            self.socket = Some(Socket::open(&self.settings.place)?);
        }
        let sent = match &self.socket {
            Some(Socket::Unix(socket)) => socket.send(&self.message),
            Some(Socket::Udp(socket)) => socket.send(&self.message),
            None => Ok(0),
        };
        if sent.is_err() {
            self.socket = None;
        }
        sent.map(drop)
    }
}

impl Socket {
    fn open(place: &SyslogPlace) -> io::Result<Socket> {
        match place {
            SyslogPlace::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                Ok(Socket::Unix(socket))
            }
            SyslogPlace::Udp(address) => {
                let any: SocketAddr = if address.is_ipv6() { ([0u16; 8], 0).into() } else { ([0u8; 4], 0).into() };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                Ok(Socket::Udp(socket))
            }
        }
    }
}

/// Printable, as a header has to be; `-` where the system has none.
fn hostname() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name: String = name.chars().filter(char::is_ascii_graphic).take(HOSTNAME_BYTES_MAX).collect();
    if name.is_empty() { "-".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::SyslogTarget;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixDatagram;
    use tidegate_model::{Syslog, SyslogPlace};

    fn settings(place: SyslogPlace) -> Syslog {
        Syslog { place, facility: 16, tag: "edge".into() }
    }

    /// The message behind its header, which is held against RFC 5424.
    fn message(datagram: &[u8]) -> &str {
        let text = std::str::from_utf8(datagram).expect("UTF-8");
        let mut parts = text.splitn(8, ' ');
        let mut next = || parts.next().unwrap_or_else(|| panic!("a header with eight parts: {text}"));
        assert_eq!(next(), "<134>1");
        let time = next();
        assert!(time.len() == "2026-01-31T11:15:57.123Z".len() && time.ends_with('Z') && time.contains('T'), "{text}");
        assert!(next().chars().all(|c| c.is_ascii_graphic()));
        assert_eq!((next(), next()), ("edge", &*std::process::id().to_string()));
        assert_eq!((next(), next()), ("access", "-"));
        next()
    }

    #[test]
    fn each_line_is_a_datagram_and_a_daemon_that_is_restarted_gets_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        assert!(SyslogTarget::open(&settings(SyslogPlace::Unix(path.clone()))).is_err(), "nobody is there yet");
        let daemon = UnixDatagram::bind(&path).expect("a socket");
        let mut target = SyslogTarget::open(&settings(SyslogPlace::Unix(path.clone()))).expect("it is there");
        let mut datagram = [0; 1000];
        assert_eq!(target.write(b"{\"a\":1}\n{\"a\":2}\n").expect("sent"), 8);
        let length = daemon.recv(&mut datagram).expect("a datagram");
        assert_eq!(message(&datagram[..length]), "{\"a\":1}");
        drop(daemon);
        std::fs::remove_file(&path).expect("its name");
        assert!(target.write(b"lost\n").is_err());
        let daemon = UnixDatagram::bind(&path).expect("a socket");
        assert_eq!(target.write(b"{\"a\":3}\n").expect("sent"), 8);
        let length = daemon.recv(&mut datagram).expect("a datagram");
        assert_eq!(message(&datagram[..length]), "{\"a\":3}");
    }

    #[test]
    fn lines_go_over_udp() {
        let daemon = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let place = SyslogPlace::Udp(daemon.local_addr().expect("bound"));
        let mut target = SyslogTarget::open(&settings(place)).expect("a socket");
        target.write(b"GET / 200\n").expect("sent");
        let mut datagram = [0; 1000];
        let length = daemon.recv(&mut datagram).expect("a datagram");
        assert_eq!(message(&datagram[..length]), "GET / 200");
    }
}
