//! Questions and answers of Envoy's `ext_authz` over gRPC (`envoy.service.auth.v3`), as bytes of protobuf: the few
//! messages that there are, written and read by hand. Fields that are not known are passed over, as protobuf has it.

use super::AuthFault;
use super::question::QuestionOf;
use std::net::IpAddr;
use tidegate_wire::head::{HeaderId, RequestHead, ResponseHead};

/// The method that is called.
pub const CHECK_PATH: &str = "/envoy.service.auth.v3.Authorization/Check";
/// The most fields and cookies that one answer may have.
const FIELDS_MAX: usize = 200;
/// `google.rpc.Code.OK`
const OK: u64 = 0;

/// What a question says of the connection.
#[derive(Debug, Clone, Copy)]
pub struct CheckFacts<'a> {
    pub client: (IpAddr, u16),
    pub local: Option<(IpAddr, u16)>,
    pub id: &'a str,
    /// `HTTP/1.1`
    pub protocol: &'a str,
    pub now_unix_ms: u64,
    /// As the client has declared it.
    pub size: Option<u64>,
    pub body: &'a [u8],
}

/// Writes a `CheckRequest` with the prefix of a message of gRPC. `question` is what would be asked over HTTP.
pub fn write_check(of: &QuestionOf<'_>, question: &RequestHead, method: &[u8], facts: &CheckFacts<'_>) -> Vec<u8> {
    let mut http = Vec::with_capacity(1024);
    text(&mut http, 1, facts.id.as_bytes());
    text(&mut http, 2, method);
    each_header(of, question, method, |name, value| {
        let mut entry = Vec::with_capacity(name.len() + value.len() + 8);
        text(&mut entry, 1, name);
        text(&mut entry, 2, value);
        message(&mut http, 3, &entry);
    });
    let mut path = of.path.to_vec();
    if let Some(query) = of.query {
        path.push(b'?');
        path.extend_from_slice(query);
    }
    text(&mut http, 4, &path);
    text(&mut http, 5, of.authority);
    text(&mut http, 6, of.scheme);
    // Envoy says -1 of a body whose length is not declared: ten bytes as protobuf has negative numbers.
    number(&mut http, 9, facts.size.unwrap_or(u64::MAX));
    text(&mut http, 10, facts.protocol.as_bytes());
    if !facts.body.is_empty() {
        bytes(&mut http, 12, facts.body);
    }
    let mut time = Vec::new();
    number(&mut time, 1, facts.now_unix_ms / 1000);
    number(&mut time, 2, facts.now_unix_ms % 1000 * 1_000_000);
    let mut request = Vec::with_capacity(http.len() + 32);
    message(&mut request, 1, &time);
    message(&mut request, 2, &http);
    let mut attributes = Vec::with_capacity(request.len() + 128);
    message(&mut attributes, 1, &peer(facts.client));
    if let Some(local) = facts.local {
        message(&mut attributes, 2, &peer(local));
    }
    message(&mut attributes, 4, &request);
    let mut check = Vec::with_capacity(attributes.len() + 16);
    // The prefix: not compressed, and how long the message is.
    check.extend_from_slice(&[0; 5]);
    message(&mut check, 1, &attributes);
    let length = (check.len() - 5) as u32;
    check[1..5].copy_from_slice(&length.to_be_bytes());
    check
}

/// Names in lower case and several values of one as one, since it is a map; and what is no field with a colon in front,
/// as Envoy has it.
fn each_header(of: &QuestionOf<'_>, question: &RequestHead, method: &[u8], mut see: impl FnMut(&[u8], &[u8])) {
    see(b":authority", of.authority);
    see(b":method", method);
    see(b":scheme", of.scheme);
    let path = [of.path, if of.query.is_some() { b"?" } else { b"" }, of.query.unwrap_or_default()].concat();
    see(b":path", &path);
    let fields: Vec<(Vec<u8>, &[u8])> = question
        .fields
        .iter()
        .filter(|(name, _)| HeaderId::of(name) != HeaderId::Host)
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect();
    for (position, (name, value)) in fields.iter().enumerate() {
        if fields[..position].iter().any(|(before, _)| before == name) {
            continue;
        }
        let between: &[u8] = if name == b"cookie" { b"; " } else { b"," };
        let mut joined = value.to_vec();
        for (_, more) in fields[position + 1..].iter().filter(|(other, _)| other == name) {
            joined.extend_from_slice(between);
            joined.extend_from_slice(more);
        }
        see(name, &joined);
    }
}

fn peer((ip, port): (IpAddr, u16)) -> Vec<u8> {
    let mut socket = Vec::new();
    text(&mut socket, 2, ip.to_string().as_bytes());
    number(&mut socket, 3, port.into());
    let (mut address, mut peer) = (Vec::new(), Vec::new());
    message(&mut address, 1, &socket);
    message(&mut peer, 1, &address);
    peer
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

/// Strings of protobuf are UTF-8, and what clients send may be anything.
fn text(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    match std::str::from_utf8(value) {
        Ok(text) => bytes(out, field, text.as_bytes()),
        Err(_) => bytes(out, field, String::from_utf8_lossy(value).as_bytes()),
    }
}

fn message(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    bytes(out, field, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// What a `CheckResponse` says, as an answer over HTTP that means the same: its head goes into `head`, and the body is
/// given back. What lets the request go on is 200 with the fields for the upstream, and cookies for the client.
pub fn read_check(framed: &[u8], head: &mut ResponseHead) -> Result<Vec<u8>, AuthFault> {
    let mut check = unframed(framed).and_then(Check::read).ok_or(AuthFault::Broken)?;
    head.clear();
    let Denied { status, body } = match (check.code, check.denied.take()) {
        (OK, None) => Denied { status: 200, body: Vec::new() },
        // A refusal that is none, or the other way round, lets nobody in.
        (OK, Some(_)) => return Err(AuthFault::Broken),
        (_, Some(denied)) => denied,
        (_, None) => {
            // The fields read so far were for an upstream.
            check.fields.clear();
            Denied { status: 403, body: Vec::new() }
        }
    };
    head.status = match status {
        // Nothing that is refused looks like success, which would open a tunnel over HTTP/2.
        0..=299 if check.code != OK => 403,
        status => u16::try_from(status).map_err(|_| AuthFault::Broken)?,
    };
    for (name, value) in &check.fields {
        let is_field =
            !name.is_empty() && name.iter().all(|byte| is_token_byte(*byte)) && value.iter().all(|byte| is_value_byte(*byte));
        if !is_field {
            return Err(AuthFault::Broken);
        }
        head.fields.push(name, value.trim_ascii());
    }
    Ok(body)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || byte >= b' ' && byte != 0x7f
}

/// One message, not compressed, and nothing behind it.
fn unframed(framed: &[u8]) -> Option<&[u8]> {
    let (prefix, message) = framed.split_at_checked(5)?;
    let length = u32::from_be_bytes(prefix[1..].try_into().ok()?);
    (prefix[0] == 0 && length as usize == message.len()).then_some(message)
}

#[derive(Debug, Default)]
struct Check {
    code: u64,
    denied: Option<Denied>,
    /// For the upstream where it is let through, for the client where it is refused.
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct Denied {
    status: u64,
    body: Vec<u8>,
}

impl Check {
    fn read(message: &[u8]) -> Option<Check> {
        let mut check = Check::default();
        each_field(message, |field, value| {
            match (field, value) {
                (1, Value::Bytes(status)) => check.code = code(status)?,
                (2, Value::Bytes(denied)) => check.read_denied(denied)?,
                (3, Value::Bytes(ok)) => check.read_ok(ok)?,
                _ => {}
            }
            Some(())
        })?;
        Some(check)
    }

    fn read_denied(&mut self, message: &[u8]) -> Option<()> {
        let mut denied = Denied { status: 403, body: Vec::new() };
        let mut fields = Vec::new();
        each_field(message, |field, value| {
            match (field, value) {
                (1, Value::Bytes(status)) => denied.status = code(status)?,
                (2, Value::Bytes(option)) => fields.push(option_of(option)?),
                (3, Value::Bytes(body)) => denied.body = body.to_vec(),
                _ => {}
            }
            (fields.len() <= FIELDS_MAX).then_some(())
        })?;
        (self.denied, self.fields) = (Some(denied), fields);
        Some(())
    }

    fn read_ok(&mut self, message: &[u8]) -> Option<()> {
        let mut fields = Vec::new();
        each_field(message, |field, value| {
            match (field, value) {
                (2, Value::Bytes(option)) => fields.push(option_of(option)?),
                // For the client: of these, cookies are what a log-in renews.
                (6, Value::Bytes(option)) => {
                    let told = option_of(option)?;
                    if told.0.eq_ignore_ascii_case(b"set-cookie") {
                        fields.push(told);
                    }
                }
                _ => {}
            }
            (fields.len() <= FIELDS_MAX).then_some(())
        })?;
        (self.denied, self.fields) = (None, fields);
        Some(())
    }
}

/// Field 1 of a `Status`, and of an `HttpStatus`.
fn code(message: &[u8]) -> Option<u64> {
    let mut code = 0;
    each_field(message, |field, value| {
        if let (1, Value::Number(number)) = (field, value) {
            code = number;
        }
        Some(())
    })?;
    Some(code)
}

/// Name and value of a `HeaderValueOption`.
fn option_of(message: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut name, mut value, mut raw) = (Vec::new(), Vec::new(), Vec::new());
    each_field(message, |field, header| {
        let (1, Value::Bytes(header)) = (field, header) else { return Some(()) };
        each_field(header, |field, part| {
            if let Value::Bytes(part) = part {
                match field {
                    1 => name = part.to_vec(),
                    2 => value = part.to_vec(),
                    3 => raw = part.to_vec(),
                    _ => {}
                }
            }
            Some(())
        })
    })?;
    Some((name, if raw.is_empty() { value } else { raw }))
}

enum Value<'m> {
    Number(u64),
    Bytes(&'m [u8]),
    /// Of a fixed length.
    Other,
}

/// Calls back with each field of a message. None: it is none, or what is called back says so.
fn each_field<'m>(mut message: &'m [u8], mut see: impl FnMut(u64, Value<'m>) -> Option<()>) -> Option<()> {
    while !message.is_empty() {
        let tag = take_varint(&mut message)?;
        let value = match tag & 7 {
            0 => Value::Number(take_varint(&mut message)?),
            1 => {
                take(&mut message, 8)?;
                Value::Other
            }
            2 => {
                let length = take_varint(&mut message)?;
                Value::Bytes(take(&mut message, usize::try_from(length).ok()?)?)
            }
            5 => {
                take(&mut message, 4)?;
                Value::Other
            }
            _ => return None,
        };
        if tag >> 3 == 0 {
            return None;
        }
        see(tag >> 3, value)?;
    }
    Some(())
}

fn take<'m>(message: &mut &'m [u8], length: usize) -> Option<&'m [u8]> {
    let (taken, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some(taken)
}

fn take_varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (position, byte) in message.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            *message = &message[position + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{CheckFacts, bytes, message, number, read_check, varint, write_check};
    use crate::fixtures::{lines, request};
    use crate::forward_auth::{AuthFault, QuestionOf};
    use tidegate_wire::head::ResponseHead;

    fn made(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat()
    }

    fn option(name: &str, value: &str) -> Vec<u8> {
        let header = made(|out| {
            bytes(out, 1, name.as_bytes());
            bytes(out, 2, value.as_bytes());
        });
        made(|out| {
            message(out, 1, &header);
            number(out, 3, 2);
        })
    }

    fn status(code: u64) -> Vec<u8> {
        made(|out| number(out, 1, code))
    }

    #[test]
    fn an_answer_means_what_one_over_http_would() {
        let check = |response: &[u8], expected: Result<(u16, &[&str], &str), AuthFault>| {
            let mut head = ResponseHead::default();
            let told = read_check(&framed(response), &mut head).map(|body| String::from_utf8(body).expect("text"));
            let fields = lines(&head.fields);
            let told = told.as_deref().map(|body| (head.status, fields.iter().map(String::as_str).collect::<Vec<_>>(), body));
            let expected = expected.map(|(status, fields, body)| (status, fields.to_vec(), body));
            assert_eq!(told.map_err(|fault| *fault), expected, "{response:?}");
        };
        check(&[], Ok((200, &[], "")));
        let ok = made(|out| {
            message(out, 2, &option("x-user", "alice"));
            bytes(out, 5, b"x-removed");
            message(out, 6, &option("Set-Cookie", "a=1"));
            message(out, 6, &option("X-Told", "b"));
        });
        let allowed = made(|out| {
            message(out, 1, &status(0));
            message(out, 3, &ok);
        });
        check(&allowed, Ok((200, &["x-user: alice", "Set-Cookie: a=1"], "")));
        check(&made(|out| message(out, 1, &status(7))), Ok((403, &[], "")));
        let denied = |code: u64, http: u64| {
            let denied = made(|out| {
                message(out, 1, &status(http));
                message(out, 2, &option("Location", "https://a.test/"));
                bytes(out, 3, b"no");
            });
            made(|out| {
                message(out, 1, &status(code));
                message(out, 2, &denied);
            })
        };
        check(&denied(16, 302), Ok((302, &["Location: https://a.test/"], "no")));
        check(&denied(7, 401), Ok((401, &["Location: https://a.test/"], "no")));
        for harmless in [0, 100, 101, 200, 204, 299] {
            check(&denied(7, harmless), Ok((403, &["Location: https://a.test/"], "no")));
        }
        check(&denied(0, 403), Err(AuthFault::Broken));
        check(&denied(7, 1 << 20), Err(AuthFault::Broken));
        let bad = |name: &str, value: &str| {
            let ok = made(|out| message(out, 2, &option(name, value)));
            made(|out| message(out, 3, &ok))
        };
        for (name, value) in [("x y", "a"), ("", "a"), ("x", "a\r\nx-user: root"), ("x", "a\0")] {
            check(&bad(name, value), Err(AuthFault::Broken));
        }
    }

    #[test]
    fn what_is_no_message_lets_nobody_in() {
        let check = |framed: &[u8]| {
            assert_eq!(read_check(framed, &mut ResponseHead::default()).err(), Some(AuthFault::Broken), "{framed:?}");
        };
        check(&[]);
        check(&[0, 0, 0, 0]);
        check(&[1, 0, 0, 0, 0]);
        check(&[0, 0, 0, 0, 1]);
        check(&[0, 0, 0, 0, 0, 0]);
        check(&framed(&[0x0a, 0x05, 0x08]));
        check(&framed(&[0xff; 11]));
        check(&framed(&[0x0b, 0x0c]));
        check(&framed(&[0x02, 0x00]));
        check(&framed(&made(|out| {
            varint(out, 1 << 3 | 2);
            varint(out, u64::MAX);
        })));
    }

    #[test]
    fn no_bytes_of_a_server_end_the_process() {
        bolero::check!().for_each(|bytes| {
            let mut head = ResponseHead::default();
            if read_check(&framed(bytes), &mut head).is_ok() {
                assert!((200..=u16::MAX).contains(&head.status));
            }
        });
    }

    #[test]
    fn a_question_is_what_envoy_would_write() {
        let of = QuestionOf { scheme: b"https", authority: b"a.test", path: b"/p", query: Some(b"q") };
        let head = request("/x", "a.test", &["Host: a.test", "Cookie: a=b", "X-A: 1", "cookie: c=d", "x-a: 2"]);
        let facts = CheckFacts {
            client: ([192, 0, 2, 1].into(), 40_000),
            local: Some(([127, 0, 0, 1].into(), 443)),
            id: "id",
            protocol: "HTTP/2",
            now_unix_ms: 1_500,
            size: None,
            body: b"",
        };
        let written = write_check(&of, &head, b"POST", &facts);
        let entry = |name: &str, value: &str| {
            let entry = made(|out| {
                bytes(out, 1, name.as_bytes());
                bytes(out, 2, value.as_bytes());
            });
            made(|out| message(out, 3, &entry))
        };
        for (name, value) in [
            (":authority", "a.test"),
            (":method", "POST"),
            (":scheme", "https"),
            (":path", "/p?q"),
            ("cookie", "a=b; c=d"),
            ("x-a", "1,2"),
        ] {
            let entry = entry(name, value);
            assert!(written.windows(entry.len()).any(|window| window == entry), "{name}");
        }
        assert!(!written.windows(4).any(|window| window == b"host"));
        assert_eq!(&written[..5], [&[0][..], &(written.len() as u32 - 5).to_be_bytes()].concat());
        // The size that is not known, and the ports.
        for piece in [
            &[0x48, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..],
            &[0x18, 0xc0, 0xb8, 0x02],
            &[0x18, 0xbb, 0x03],
        ] {
            assert!(written.windows(piece.len()).any(|window| window == piece), "{piece:?}");
        }
    }
}
