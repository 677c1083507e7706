//! Lines of access logs, each by itself: what can be known of the request that it tells of. Bodies never can, cookies
//! and most other fields seldom. Lines with a quoted request line are read in `quoted.rs`, JSON in `json.rs`.

mod json;
mod quoted;

use crate::request::{LeftOut, Request, is_of_connection, is_token, is_value, split_target};

/// The request of a line; `Err` for one that is not to be sent.
pub fn read_line(number: usize, line: &[u8]) -> Result<Request, LeftOut> {
    let line = line.trim_ascii();
    if line.starts_with(b"{") { json::read(number, line) } else { quoted::read(number, line) }
}

/// Whether a file that begins with this line is a log.
pub fn is_log_line(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.starts_with(b"{") || line.contains(&b'"')
}

/// What a line tells, before it is known whether it makes a request.
#[derive(Debug, Default)]
struct Told {
    method: Vec<u8>,
    target: Vec<u8>,
    host: Option<Vec<u8>>,
    status: Option<u16>,
    fields: Vec<(String, Vec<u8>)>,
}

/// What became another protocol.
const SWITCHED: u16 = 101;

impl Told {
    fn request(self, number: usize) -> Result<Request, LeftOut> {
        if self.status == Some(SWITCHED) || self.method == b"CONNECT" {
            return Err(LeftOut::Tunnel);
        }
        if !is_token(&self.method) {
            return Err(LeftOut::NoRequest);
        }
        let (target, named) = split_target(&self.target).ok_or(LeftOut::NoRequest)?;
        let host = named.or(self.host).filter(|host| crate::request::is_host(host) && host != b"-" && host != b"_");
        let method = String::from_utf8_lossy(&self.method).into_owned();
        let mut request = Request { line: number, method, target, host, fields: Vec::new(), body: Vec::new() };
        for (name, value) in self.fields {
            request.note(&name, &value);
        }
        Ok(request)
    }
}

impl Request {
    /// A field as a log has it, if it can be sent again: some have `-` for none, and `REDACTED` for a secret.
    fn note(&mut self, name: &str, value: &[u8]) {
        let is_told = !value.is_empty() && value != b"-" && value != b"REDACTED" && is_value(value);
        let is_ours = is_of_connection(name) || name.eq_ignore_ascii_case("host") || !is_token(name.as_bytes());
        if is_told && !is_ours && self.fields.len() < crate::request::FIELDS_MAX {
            self.fields.push((name.to_owned(), value.to_vec()));
        }
    }
}
