//! The first message of a TLS connection, read just far enough to know which site it is for.
//! The handshake itself is rustls's business; this is for what must be decided before it starts.

/// The longest ClientHello that is looked at. Post-quantum key shares make about 2 KiB; nothing real comes near this.
pub const CLIENT_HELLO_BYTES_MAX: usize = 16 << 10;
/// Records that a ClientHello may be spread over, so that one-byte records cannot make us walk through thousands.
pub const CLIENT_HELLO_RECORDS_MAX: usize = 32;

/// Alert descriptions (RFC 8446 section 6).
pub const DECODE_ERROR: u8 = 50;
pub const INTERNAL_ERROR: u8 = 80;
pub const UNRECOGNIZED_NAME: u8 = 112;

/// What the first bytes of a connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sniffed<'a> {
    NeedMore,
    ClientHello {
        /// As it was sent, in any case. `None` when there is no name in it, or an IP address, which may not be one.
        server_name: Option<&'a str>,
        /// Behind the name stands a port (`a.example:8443`), which may not be: some clients put there what they would
        /// in `Host`. It counts as none.
        has_port: bool,
        alpn_h2: bool,
        alpn_http11: bool,
        /// A CA looks for the answer to its challenge (RFC 8737), and wants nothing else.
        alpn_acme_tls: bool,
        /// TLS 1.3 is among its versions.
        offers_tls13: bool,
        /// Whether the client takes session tickets of TLS 1.2; those of 1.3 need no offer.
        offers_tickets: bool,
    },
    NotTls,
    /// Starts as TLS does, and is no valid ClientHello.
    Bad,
}

/// Looks at what a client sent so far. A message that is spread over several records is put together in `scratch`.
pub fn sniff<'a>(input: &'a [u8], scratch: &'a mut Vec<u8>) -> Sniffed<'a> {
    let first = match next_record(input) {
        Record::Whole { content, .. } | Record::Cut { content } => content,
        Record::HeaderCut => return Sniffed::NeedMore,
        Record::NotTls => return Sniffed::NotTls,
        Record::Bad => return Sniffed::Bad,
    };
    match message(first) {
        Message::Whole(body) => read_client_hello(body).unwrap_or(Sniffed::Bad),
        Message::Bad => Sniffed::Bad,
        Message::Cut => match gather(input, scratch) {
            Message::Whole(body) => read_client_hello(body).unwrap_or(Sniffed::Bad),
            Message::Bad => Sniffed::Bad,
            Message::Cut => Sniffed::NeedMore,
        },
    }
}

/// The whole message behind its type and length, out of its records; `None` when it is cut or none.
pub(crate) fn client_hello_body<'a>(input: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let (Record::Whole { content, .. } | Record::Cut { content }) = next_record(input) else { return None };
    match message(content) {
        Message::Whole(body) => Some(body),
        Message::Bad => None,
        Message::Cut => match gather(input, scratch) {
            Message::Whole(body) => Some(body),
            Message::Cut | Message::Bad => None,
        },
    }
}

/// A fatal alert as a plaintext record.
pub fn fatal_alert(description: u8) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, description]
}

/// Whether the first bytes look like an HTTP/1 request, to answer one that came to the TLS port. Needs four bytes.
pub fn is_plain_http(input: &[u8]) -> bool {
    const STARTS: [&[u8; 4]; 10] = [b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"TRAC", b"CONN", b"PRI "];
    input.first_chunk::<4>().is_some_and(|start| STARTS.contains(&start))
}

enum Record<'a> {
    Whole { content: &'a [u8], rest: &'a [u8] },
    Cut { content: &'a [u8] },
    HeaderCut,
    NotTls,
    Bad,
}

/// A plaintext handshake record (RFC 8446 section 5.1).
fn next_record(input: &[u8]) -> Record<'_> {
    const HANDSHAKE: u8 = 22;
    const RECORD_BYTES_MAX: usize = 1 << 14;
    match input {
        [] | [HANDSHAKE] => Record::HeaderCut,
        [HANDSHAKE, 3, rest @ ..] => {
            let [_, high, low, rest @ ..] = rest else { return Record::HeaderCut };
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            if len == 0 || len > RECORD_BYTES_MAX {
                return Record::Bad;
            }
            match rest.split_at_checked(len) {
                Some((content, rest)) => Record::Whole { content, rest },
                None => Record::Cut { content: rest },
            }
        }
        _ => Record::NotTls,
    }
}

enum Message<'a> {
    /// Without the four bytes of type and length.
    Whole(&'a [u8]),
    Cut,
    Bad,
}

fn message(content: &[u8]) -> Message<'_> {
    const CLIENT_HELLO: u8 = 1;
    match content {
        [] => Message::Cut,
        [CLIENT_HELLO, rest @ ..] => {
            let [a, b, c, body @ ..] = rest else { return Message::Cut };
            let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if len > CLIENT_HELLO_BYTES_MAX {
                return Message::Bad;
            }
            body.get(..len).map_or(Message::Cut, Message::Whole)
        }
        _ => Message::Bad,
    }
}

/// Puts the contents of the records together until the message is whole.
fn gather<'a>(input: &[u8], scratch: &'a mut Vec<u8>) -> Message<'a> {
    scratch.clear();
    let mut rest = input;
    let mut is_cut = false;
    for _ in 0..CLIENT_HELLO_RECORDS_MAX {
        match next_record(rest) {
            Record::Whole { content, rest: after } => {
                scratch.extend_from_slice(content);
                rest = after;
            }
            Record::Cut { content } => {
                scratch.extend_from_slice(content);
                is_cut = true;
            }
            Record::HeaderCut => is_cut = true,
            Record::NotTls | Record::Bad => return Message::Bad,
        }
        match message(scratch) {
            Message::Cut if is_cut => return Message::Cut,
            Message::Cut => {}
            // Asked for again below, because a borrow from inside a loop cannot be returned.
            Message::Whole(_) | Message::Bad => break,
        }
    }
    match message(scratch) {
        Message::Cut => Message::Bad,
        other => other,
    }
}

/// The body of a ClientHello (RFC 8446 section 4.1.2).
fn read_client_hello(body: &[u8]) -> Result<Sniffed<'_>, Malformed> {
    const SERVER_NAME: u16 = 0;
    const ALPN: u16 = 16;
    const SESSION_TICKET: u16 = 35;
    const SUPPORTED_VERSIONS: u16 = 43;
    let mut body = Reader(body);
    body.take(2 + 32)?;
    body.take_short_vector()?;
    body.take_long_vector()?;
    body.take_short_vector()?;
    let mut server_name = ServerName::None;
    let (mut has_server_name, mut has_alpn) = (false, false);
    let mut protocols = Protocols::default();
    let (mut offers_tls13, mut offers_tickets) = (false, false);
    if !body.0.is_empty() {
        let mut extensions = Reader(body.take_long_vector()?);
        if !body.0.is_empty() {
            return Err(Malformed);
        }
        while !extensions.0.is_empty() {
            let kind = extensions.take_u16()?;
            let data = extensions.take_long_vector()?;
            match kind {
                SERVER_NAME if !std::mem::replace(&mut has_server_name, true) => server_name = read_server_name(data)?,
                ALPN if !std::mem::replace(&mut has_alpn, true) => protocols = read_protocols(data)?,
                SERVER_NAME | ALPN => return Err(Malformed),
                SESSION_TICKET => offers_tickets = true,
                SUPPORTED_VERSIONS => offers_tls13 = read_versions(data)?,
                _ => {}
            }
        }
    }
    let Protocols { h2, http11, acme_tls } = protocols;
    Ok(Sniffed::ClientHello {
        server_name: match server_name {
            ServerName::Name(name) => Some(name),
            ServerName::None | ServerName::WithPort => None,
        },
        has_port: server_name == ServerName::WithPort,
        alpn_h2: h2,
        alpn_http11: http11,
        alpn_acme_tls: acme_tls,
        offers_tls13,
        offers_tickets,
    })
}

/// What stands in a ClientHello as the name of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerName<'a> {
    /// None, or an IP address.
    None,
    Name(&'a str),
    WithPort,
}

/// RFC 6066 section 3: a list with at most one host name in it.
fn read_server_name(data: &[u8]) -> Result<ServerName<'_>, Malformed> {
    const HOST_NAME: u8 = 0;
    let mut data = Reader(data);
    let mut list = Reader(data.take_long_vector()?);
    if !data.0.is_empty() || list.0.is_empty() {
        return Err(Malformed);
    }
    let mut host_name: Option<&str> = None;
    let mut has_port = false;
    while !list.0.is_empty() {
        let kind = list.take(1)?[0];
        let name = list.take_long_vector()?;
        if kind != HOST_NAME {
            continue;
        }
        if host_name.is_some() || has_port {
            return Err(Malformed);
        }
        if !is_host_name(name) {
            has_port = is_host_with_port(name);
            if !has_port {
                return Err(Malformed);
            }
            continue;
        }
        host_name = Some(std::str::from_utf8(name).map_err(|_| Malformed)?);
    }
    Ok(match host_name.filter(|name| name.parse::<std::net::Ipv4Addr>().is_err()) {
        Some(name) => ServerName::Name(name),
        None if has_port => ServerName::WithPort,
        None => ServerName::None,
    })
}

/// A name or an IPv4 address with a port behind it.
fn is_host_with_port(name: &[u8]) -> bool {
    let Some(colon) = name.iter().rposition(|byte| *byte == b':') else { return false };
    let (host, port) = name.split_at(colon);
    is_host_name(host) && (2..=6).contains(&port.len()) && port[1..].iter().all(u8::is_ascii_digit)
}

/// Letters, digits, `-` and `_` in labels of at least one byte, without a final dot.
fn is_host_name(name: &[u8]) -> bool {
    const HOST_NAME_BYTES_MAX: usize = 253;
    let is_label_byte = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    name.len() <= HOST_NAME_BYTES_MAX
        && name.split(|byte| *byte == b'.').all(|label| !label.is_empty() && label.iter().all(is_label_byte))
}

/// Which protocols a client offers, of those that mean something here.
#[derive(Default)]
struct Protocols {
    h2: bool,
    http11: bool,
    acme_tls: bool,
}

/// RFC 7301 section 3.1.
fn read_protocols(data: &[u8]) -> Result<Protocols, Malformed> {
    let mut data = Reader(data);
    let mut list = Reader(data.take_long_vector()?);
    if !data.0.is_empty() || list.0.is_empty() {
        return Err(Malformed);
    }
    let mut protocols = Protocols::default();
    while !list.0.is_empty() {
        match list.take_short_vector()? {
            b"" => return Err(Malformed),
            b"h2" => protocols.h2 = true,
            b"http/1.1" => protocols.http11 = true,
            b"acme-tls/1" => protocols.acme_tls = true,
            _ => {}
        }
    }
    Ok(protocols)
}

/// RFC 8446 section 4.2.1: whether TLS 1.3 is among the versions.
fn read_versions(data: &[u8]) -> Result<bool, Malformed> {
    const TLS13: [u8; 2] = [3, 4];
    let mut data = Reader(data);
    let (versions, []) = data.take_short_vector()?.as_chunks::<2>() else { return Err(Malformed) };
    if !data.0.is_empty() || versions.is_empty() {
        return Err(Malformed);
    }
    Ok(versions.contains(&TLS13))
}

pub(crate) struct Malformed;

pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn take_u16(&mut self) -> Result<u16, Malformed> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Bytes behind their length in one byte.
    pub fn take_short_vector(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.take(1)?[0];
        self.take(usize::from(len))
    }

    /// Bytes behind their length in two bytes.
    pub fn take_long_vector(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.take_u16()?;
        self.take(usize::from(len))
    }
}

#[cfg(test)]
mod tests;
