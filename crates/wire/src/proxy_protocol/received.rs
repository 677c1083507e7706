//! Reading the header of the PROXY protocol (versions 1 and 2), strictly and in pieces as they come. What is read is
//! only what the sender says: whether it may say so is decided by who it is, in `proxy`. Writing is in the parent
//! module.

use super::SIGNATURE;
use super::checksum::crc32c;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The longest header that is read. Section 2.2 asks senders to stay within one TCP segment; chains of client
/// certificates do not belong here.
pub const RECEIVED_BYTES_MAX: usize = 4096;
/// The longest line of version 1, its end included (section 2.1).
const LINE_BYTES_MAX: usize = 107;
const LINE_START: &[u8] = b"PROXY ";
/// Behind the signature: version and command, family, and the length of what follows in two bytes.
const BINARY_START_BYTES: usize = SIGNATURE.len() + 4;

/// What is known of a header after some of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    NeedMore,
    /// The bytes of the connection itself begin behind `consumed`.
    Whole {
        said: Said,
        consumed: usize,
    },
}

/// What a header says of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// The connection is made for a client with these two ends.
    Addresses { source: SocketAddr, destination: SocketAddr },
    /// The connection is the sender's own (`LOCAL`, as health checks are), or of a kind without IP addresses: its real
    /// ends are the ones to go by.
    Nothing,
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderFault {
    /// The bytes begin in another way.
    Missing,
    TooLong,
    BadLine,
    BadVersion,
    BadCommand,
    /// Neither TCP nor a unix socket, or a family that does not exist.
    BadFamily,
    /// Less is announced than the addresses need.
    TooShort,
    BadExtension,
    BadChecksum,
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeaderFault::Missing => "the connection does not begin with a header",
            HeaderFault::TooLong => "the header is longer than 4 KiB, or its line longer than 107 bytes",
            HeaderFault::BadLine => "the line of version 1 is not as it has to be",
            HeaderFault::BadVersion => "it is of a version other than 1 and 2",
            HeaderFault::BadCommand => "its command is neither LOCAL nor PROXY",
            HeaderFault::BadFamily => "it is not about a TCP connection",
            HeaderFault::TooShort => "it is too short for its addresses",
            HeaderFault::BadExtension => "its extensions do not fill it",
            HeaderFault::BadChecksum => "its checksum is wrong",
        })
    }
}

/// Looks at what came so far. More bytes never change an answer other than [`Reading::NeedMore`].
pub fn read(input: &[u8]) -> Result<Reading, HeaderFault> {
    let begins = |start: &[u8]| input.starts_with(&start[..start.len().min(input.len())]);
    match input.first() {
        None => Ok(Reading::NeedMore),
        Some(b'P') if begins(LINE_START) => read_line(input),
        Some(b'\r') if begins(SIGNATURE) => read_binary(input),
        Some(_) => Err(HeaderFault::Missing),
    }
}

/// `PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\n`
fn read_line(input: &[u8]) -> Result<Reading, HeaderFault> {
    let seen = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some(end) = memchr::memchr(b'\n', seen) else {
        return if seen.len() < LINE_BYTES_MAX { Ok(Reading::NeedMore) } else { Err(HeaderFault::TooLong) };
    };
    let line = seen[..end].strip_suffix(b"\r").ok_or(HeaderFault::BadLine)?;
    let said = line.strip_prefix(LINE_START).and_then(read_words).ok_or(HeaderFault::BadLine)?;
    Ok(Reading::Whole { said, consumed: end + 1 })
}

/// One space between two words, and nothing else (section 2.1).
fn read_words(line: &[u8]) -> Option<Said> {
    let line = std::str::from_utf8(line).ok()?;
    // Anything may stand behind it up to the end of the line, and is not looked at.
    if line == "UNKNOWN" || line.starts_with("UNKNOWN ") {
        return (!line.contains('\r')).then_some(Said::Nothing);
    }
    let mut words = line.split(' ');
    let mut word = || words.next();
    let (family, source, destination) = (word()?, word()?, word()?);
    let (source_port, destination_port) = (port(word()?)?, port(word()?)?);
    if word().is_some() {
        return None;
    }
    let ip = |text: &str| match family {
        "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        _ => None,
    };
    Some(addresses((ip(source)?, source_port), (ip(destination)?, destination_port)))
}

/// Decimal digits without zeros in front.
fn port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

/// An IPv4 address that is written as an IPv6 one is an IPv4 address, as everywhere: it must not be a second name for a
/// client.
fn addresses((source, source_port): (IpAddr, u16), (destination, destination_port): (IpAddr, u16)) -> Said {
    Said::Addresses {
        source: SocketAddr::new(source.to_canonical(), source_port),
        destination: SocketAddr::new(destination.to_canonical(), destination_port),
    }
}

fn read_binary(input: &[u8]) -> Result<Reading, HeaderFault> {
    // What is wrong early is said early: nobody has to send the rest of it.
    let [version_and_command, family, high, low] = match input.get(SIGNATURE.len()..) {
        Some([version, ..]) if version >> 4 != 2 => return Err(HeaderFault::BadVersion),
        Some([command, ..]) if command & 0x0f > 1 => return Err(HeaderFault::BadCommand),
        Some([first, second, third, fourth, ..]) => [*first, *second, *third, *fourth],
        Some(_) | None => return Ok(Reading::NeedMore),
    };
    let length = BINARY_START_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if length > RECEIVED_BYTES_MAX {
        return Err(HeaderFault::TooLong);
    }
    let Some(header) = input.get(..length) else { return Ok(Reading::NeedMore) };
    // Section 2.2: of LOCAL the whole block is to be skipped, the family included.
    let said = if version_and_command == COMMAND_LOCAL { Said::Nothing } else { read_block(header, family)? };
    Ok(Reading::Whole { said, consumed: length })
}

/// Version 2, on the sender's own behalf.
const COMMAND_LOCAL: u8 = 0x20;
/// Family and transport of a TCP connection over IPv4 and over IPv6, and of a unix socket; and where nothing is said of
/// either.
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNIX_STREAM: u8 = 0x31;
const UNSPECIFIED: u8 = 0x00;
/// Two paths of 108 bytes.
const UNIX_ADDRESSES_BYTES: usize = 216;

fn read_block(header: &[u8], family: u8) -> Result<Said, HeaderFault> {
    let block = &header[BINARY_START_BYTES..];
    let (said, extensions) = match family {
        TCP4 => {
            let (both, rest) = block.split_first_chunk::<12>().ok_or(HeaderFault::TooShort)?;
            let [a, b, c, d, e, f, g, h, source_high, source_low, high, low] = *both;
            let ports = (u16::from_be_bytes([source_high, source_low]), u16::from_be_bytes([high, low]));
            let ips = (Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h));
            (addresses((ips.0.into(), ports.0), (ips.1.into(), ports.1)), rest)
        }
        TCP6 => {
            let (source, rest) = block.split_first_chunk::<16>().ok_or(HeaderFault::TooShort)?;
            let (destination, rest) = rest.split_first_chunk::<16>().ok_or(HeaderFault::TooShort)?;
            let ([source_high, source_low, high, low], rest) = rest.split_first_chunk().ok_or(HeaderFault::TooShort)?;
            let ports = (u16::from_be_bytes([*source_high, *source_low]), u16::from_be_bytes([*high, *low]));
            let ips = (IpAddr::from(*source), IpAddr::from(*destination));
            (addresses((ips.0, ports.0), (ips.1, ports.1)), rest)
        }
        UNIX_STREAM => (Said::Nothing, block.get(UNIX_ADDRESSES_BYTES..).ok_or(HeaderFault::TooShort)?),
        // Nobody knows where addresses would end here, so nothing of it is looked at.
        UNSPECIFIED => return Ok(Said::Nothing),
        _ => return Err(HeaderFault::BadFamily),
    };
    check_extensions(header, extensions)?;
    Ok(said)
}

/// The type of the extension that holds a CRC-32C of the whole header, taken with zeros in its place (section 2.2.3).
const CHECKSUM: u8 = 0x03;

/// What a header of version 2 says of a connection besides its addresses, as far as it is of use here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Introduction {
    authority: Box<str>,
    unique_id: Box<[u8]>,
    unique_id_text: Box<str>,
}

impl Introduction {
    /// The name that the client has asked for; empty where nobody says it.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// As it came, at most 128 bytes.
    pub fn unique_id(&self) -> &[u8] {
        &self.unique_id
    }

    /// As it came where it is printable ASCII, else in hexadecimal digits.
    pub fn unique_id_text(&self) -> &str {
        &self.unique_id_text
    }
}

/// Types of extensions.
const AUTHORITY: u8 = 0x02;
const UNIQUE_ID: u8 = 0x05;
const AUTHORITY_BYTES_MAX: usize = 255;
/// Section 2.2.5.
const UNIQUE_ID_BYTES_MAX: usize = 128;

/// Of a header that [`read`] has found whole. `None` where it says nothing more; of several of one type the first
/// counts, and what cannot be a name or is too long is not looked at.
pub fn introduction(header: &[u8]) -> Option<Introduction> {
    let is_of_two = header.starts_with(SIGNATURE) && header.get(SIGNATURE.len()) != Some(&COMMAND_LOCAL);
    let addresses = match header.get(SIGNATURE.len() + 1).filter(|_| is_of_two)? {
        &TCP4 => 12,
        &TCP6 => 36,
        _ => return None,
    };
    let length = BINARY_START_BYTES + usize::from(u16::from_be_bytes([header[14], header[15]]));
    let mut rest = header.get(BINARY_START_BYTES + addresses..length)?;
    let mut found = Introduction::default();
    while let Some((kind, value, behind)) = next_extension(rest) {
        let is_printable = || value.iter().all(u8::is_ascii_graphic);
        match kind {
            AUTHORITY if found.authority.is_empty() && value.len() <= AUTHORITY_BYTES_MAX && is_printable() => {
                found.authority = str::from_utf8(value).unwrap_or_default().into();
            }
            UNIQUE_ID if found.unique_id.is_empty() && value.len() <= UNIQUE_ID_BYTES_MAX => {
                let text = str::from_utf8(value).ok().filter(|_| is_printable()).map(str::to_owned);
                let hex = || value.iter().map(|byte| format!("{byte:02x}")).collect();
                found.unique_id_text = text.unwrap_or_else(hex).into();
                found.unique_id = value.into();
            }
            _ => {}
        }
        rest = behind;
    }
    (found != Introduction::default()).then_some(found)
}

/// Type and value of the first one, and what is behind it.
fn next_extension(extensions: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [kind, high, low, rest @ ..] = extensions else { return None };
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
    Some((*kind, value, rest))
}

fn check_extensions(header: &[u8], mut extensions: &[u8]) -> Result<(), HeaderFault> {
    while let Some((kind, value, rest)) = next_extension(extensions) {
        if kind == CHECKSUM {
            let expected = value.try_into().map(u32::from_be_bytes).map_err(|_| HeaderFault::BadExtension)?;
            let (before, after) = header.split_at(header.len() - rest.len() - value.len());
            if crc32c([before, &[0; 4], &after[value.len()..]]) != expected {
                return Err(HeaderFault::BadChecksum);
            }
        }
        extensions = rest;
    }
    if extensions.is_empty() { Ok(()) } else { Err(HeaderFault::BadExtension) }
}

#[cfg(test)]
mod tests;
