//! The header of the PROXY protocol, with which a connection says whose it is (haproxy.org, proxy-protocol.txt,
//! versions 1 and 2). Written here and read in `received`; who may be believed that sends one is not for a codec to
//! decide. `proxy` sends and takes it before anything else.

mod checksum;
mod extensions;
mod received;

pub use extensions::{CertificateSaid, Extensions, TlsSaid, encode_with};
pub use received::{HeaderFault, Introduction, RECEIVED_BYTES_MAX, Reading, Said, introduction, read};

use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The longest line of version 1 with addresses, and more than any header of version 2 has.
pub const HEADER_BYTES_MAX: usize = 107;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderVersion {
    /// One line of text.
    V1,
    /// Binary.
    V2,
}

/// An encoded header.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    bytes: [u8; HEADER_BYTES_MAX],
    len: usize,
}

impl Header {
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// The header of a TCP connection from `source` to `destination`. A header has one family: with one address of each,
/// the IPv4 one is written as IPv4-mapped IPv6. Mapped addresses on both sides are IPv4, as everybody else sees them.
pub fn encode(version: HeaderVersion, source: SocketAddr, destination: SocketAddr) -> Header {
    let ips = match (source.ip().to_canonical(), destination.ip().to_canonical()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Ips::V4(source.octets(), destination.octets()),
        (source, destination) => Ips::V6(as_v6(source), as_v6(destination)),
    };
    let mut header = Header { bytes: [0; HEADER_BYTES_MAX], len: 0 };
    match version {
        HeaderVersion::V1 => write_line(&mut header, &ips, source.port(), destination.port()),
        HeaderVersion::V2 => write_binary(&mut header, &ips, source.port(), destination.port()),
    }
    header
}

/// Both addresses, of one family.
enum Ips {
    V4([u8; 4], [u8; 4]),
    V6(Ipv6Addr, Ipv6Addr),
}

fn as_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

fn write_line(header: &mut Header, ips: &Ips, source_port: u16, destination_port: u16) {
    let written = match ips {
        Ips::V4(source, destination) => {
            let (source, destination) = (IpAddr::from(*source), IpAddr::from(*destination));
            write!(header, "PROXY TCP4 {source} {destination} {source_port} {destination_port}\r\n")
        }
        Ips::V6(source, destination) => {
            let (source, destination) = (Hexadecimal(*source), Hexadecimal(*destination));
            write!(header, "PROXY TCP6 {source} {destination} {source_port} {destination_port}\r\n")
        }
    };
    debug_assert!(written.is_ok(), "the longest line has room");
}

/// Without the dotted form of mapped addresses: section 2.1 knows hexadecimal groups only.
struct Hexadecimal(Ipv6Addr);

impl fmt::Display for Hexadecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.to_ipv4_mapped(), self.0.segments()) {
            (Some(_), [.., high, low]) => write!(f, "::ffff:{high:x}:{low:x}"),
            (None, _) => self.0.fmt(f),
        }
    }
}

impl Write for Header {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() > HEADER_BYTES_MAX - self.len {
            return Err(fmt::Error);
        }
        self.push(text.as_bytes());
        Ok(())
    }
}

/// Section 2.2: what no other protocol begins with.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, on behalf of somebody else.
const COMMAND_PROXY: u8 = 0x21;
const TCP_OVER_V4: u8 = 0x11;
const TCP_OVER_V6: u8 = 0x21;

fn write_binary(header: &mut Header, ips: &Ips, source_port: u16, destination_port: u16) {
    header.push(SIGNATURE);
    match ips {
        Ips::V4(source, destination) => {
            header.push(&[COMMAND_PROXY, TCP_OVER_V4, 0, 12]);
            header.push(source);
            header.push(destination);
        }
        Ips::V6(source, destination) => {
            header.push(&[COMMAND_PROXY, TCP_OVER_V6, 0, 36]);
            header.push(&source.octets());
            header.push(&destination.octets());
        }
    }
    header.push(&source_port.to_be_bytes());
    header.push(&destination_port.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::{HEADER_BYTES_MAX, HeaderVersion, encode};
    use std::net::SocketAddr;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn version_1_is_a_line_of_text() {
        let check = |source: &str, destination: &str, expected: &str| {
            let header = encode(HeaderVersion::V1, address(source), address(destination));
            assert_eq!(String::from_utf8_lossy(header.as_bytes()), expected);
        };
        check("192.0.2.1:1234", "198.51.100.2:443", "PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\n");
        check("[2001:db8::1]:65535", "[2001:db8:0:1::2]:80", "PROXY TCP6 2001:db8::1 2001:db8:0:1::2 65535 80\r\n");
        check("192.0.2.1:1", "[2001:db8::1]:2", "PROXY TCP6 ::ffff:c000:201 2001:db8::1 1 2\r\n");
        check("[2001:db8::1]:1", "192.0.2.1:2", "PROXY TCP6 2001:db8::1 ::ffff:c000:201 1 2\r\n");
        check("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:2", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n");
        check("[::ffff:192.0.2.1]:1", "[::1]:2", "PROXY TCP6 ::ffff:c000:201 ::1 1 2\r\n");
        check("[::102:304]:0", "[fe80::1%3]:0", "PROXY TCP6 ::102:304 fe80::1 0 0\r\n");
    }

    #[test]
    fn the_longest_line_fits() {
        let longest = address("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535");
        let header = encode(HeaderVersion::V1, longest, longest);
        assert!(header.as_bytes().ends_with(b" 65535 65535\r\n") && header.as_bytes().len() <= HEADER_BYTES_MAX);
    }

    #[test]
    fn version_2_is_binary() {
        let check = |source: &str, destination: &str, expected: &[u8]| {
            let header = encode(HeaderVersion::V2, address(source), address(destination));
            let expected = [&b"\r\n\r\n\0\r\nQUIT\n"[..], expected].concat();
            assert_eq!(header.as_bytes(), expected, "{source} {destination}");
        };
        check("192.0.2.1:258", "198.51.100.2:443", b"\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x02\x01\x02\x01\xbb");
        check(
            "[2001:db8::1]:1",
            "[::1]:2",
            b"\x21\x21\0\x24\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\x01\0\x02",
        );
        check(
            "192.0.2.1:1",
            "[::1]:2",
            b"\x21\x21\0\x24\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\x02\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\x01\0\x02",
        );
    }
}
