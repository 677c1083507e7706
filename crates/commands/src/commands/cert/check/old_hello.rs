//! The first message of a client that knows nothing newer than TLS 1.1 or 1.0, written by hand since rustls speaks
//! neither, and what the server says to it. A server that goes on with such a client is found out by the version in its
//! answer.

use super::ask::TIME_MAX;
use rustls_pki_types::ServerName;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub const TLS10: u16 = 0x0301;
pub const TLS11: u16 = 0x0302;

const HANDSHAKE: u8 = 22;
const ALERT: u8 = 21;
const SERVER_HELLO: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// By an alert or by ending the connection.
    Refused,
    /// The server goes on with it.
    Accepted,
    /// The server could not be asked, or answered something else.
    Unknown,
}

pub async fn ask(address: SocketAddr, name: &ServerName<'_>, version: u16) -> Reply {
    let asking = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(&client_hello(name, version)).await.ok()?;
        let mut start = [0; 11];
        let mut length = 0;
        while length < start.len() {
            match stream.read(&mut start[length..]).await {
                Ok(0) | Err(_) => break,
                Ok(more) => length += more,
            }
        }
        Some(reply(&start[..length], version))
    };
    tokio::time::timeout(TIME_MAX, asking).await.ok().flatten().unwrap_or(Reply::Unknown)
}

/// By the beginning of what came: the header of a record (RFC 5246 section 6.2.1), and that of a message with its
/// version (section 7.4.1.3).
fn reply(bytes: &[u8], version: u16) -> Reply {
    match bytes {
        // It closed the connection, in order or not.
        [] => Reply::Refused,
        [ALERT, ..] => Reply::Refused,
        [HANDSHAKE, _, _, _, _, SERVER_HELLO, _, _, _, high, low] if u16::from_be_bytes([*high, *low]) <= version => {
            Reply::Accepted
        }
        _ => Reply::Unknown,
    }
}

/// RFC 4346 section 7.4.1.2, with the suites that servers of that time had, and the extensions that decide which site
/// answers.
fn client_hello(name: &ServerName<'_>, version: u16) -> Vec<u8> {
    // ECDHE and RSA with AES-CBC and 3DES; the last is not a suite: no renegotiation (RFC 5746).
    const SUITES: [u16; 9] = [0xc00a, 0xc009, 0xc014, 0xc013, 0x0035, 0x002f, 0xc008, 0x000a, 0x00ff];
    const GROUPS: &[u8] = &[0, 10, 0, 8, 0, 6, 0, 29, 0, 23, 0, 24];
    const POINT_FORMATS: &[u8] = &[0, 11, 0, 2, 1, 0];
    let mut extensions = Vec::new();
    if let ServerName::DnsName(name) = name {
        let name = name.as_ref().as_bytes();
        let length = name.len() as u16;
        extensions.extend([0, 0]);
        extensions.extend((length + 5).to_be_bytes());
        extensions.extend((length + 3).to_be_bytes());
        extensions.push(0);
        extensions.extend(length.to_be_bytes());
        extensions.extend(name);
    }
    extensions.extend(GROUPS);
    extensions.extend(POINT_FORMATS);
    let mut body = version.to_be_bytes().to_vec();
    // Nothing is agreed upon with it, so it need not be random.
    body.extend([0x5a; 32]);
    body.push(0);
    body.extend((SUITES.len() as u16 * 2).to_be_bytes());
    body.extend(SUITES.iter().flat_map(|suite| suite.to_be_bytes()));
    body.extend([1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut record = vec![HANDSHAKE, 3, 1];
    record.extend((body.len() as u16 + 4).to_be_bytes());
    record.push(1);
    record.extend(&(body.len() as u32).to_be_bytes()[1..]);
    record.extend(body);
    record
}

#[cfg(test)]
mod tests {
    use super::{Reply, TLS10, TLS11, reply};

    #[test]
    fn what_servers_say_to_old_clients() {
        let check = |bytes: &[u8], version: u16, expected: Reply| assert_eq!(reply(bytes, version), expected, "{bytes:?}");
        check(&[21, 3, 1, 0, 2, 2, 70], TLS11, Reply::Refused);
        check(&[], TLS11, Reply::Refused);
        check(&[22, 3, 2, 0, 80, 2, 0, 0, 70, 3, 2], TLS11, Reply::Accepted);
        check(&[22, 3, 1, 0, 80, 2, 0, 0, 70, 3, 1], TLS11, Reply::Accepted);
        check(&[22, 3, 3, 0, 80, 2, 0, 0, 70, 3, 3], TLS10, Reply::Unknown);
        check(b"HTTP/1.1 400", TLS10, Reply::Unknown);
    }
}
