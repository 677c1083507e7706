//! Requests as people write them: one a line, with fields and a body in lines below it that are indented.
//!
//! ```text
//! # a comment
//! GET /news?page=2
//! /robots.txt
//! HEAD https://shop.example.com/
//! POST /cart
//!     Host: shop.example.com
//!     Content-Type: application/json
//!
//!     {"article": 17}
//! ```

use crate::request::{FIELDS_MAX, Request, is_host, is_of_connection, is_token, is_value, split_target};

/// Of one request.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Lines of requests, of which one may be under way.
#[derive(Debug, Default)]
pub struct PlainReader {
    request: Option<Request>,
    part: Part,
}

/// Where the next indented line belongs.
#[derive(Debug, Default)]
enum Part {
    #[default]
    Fields,
    /// Behind the fields was an empty line, and empty lines since.
    Body { indent: Option<Vec<u8>>, empty: usize },
}

impl PlainReader {
    /// Takes a line; gives the request before it, which is whole now. An error is a sentence about this line.
    pub fn line(&mut self, number: usize, line: &[u8]) -> Result<Option<Request>, String> {
        let trimmed = line.trim_ascii();
        if trimmed.is_empty() {
            self.note_empty();
            return Ok(None);
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            self.indented(line)?;
            return Ok(None);
        }
        if line.starts_with(b"#") {
            return Ok(None);
        }
        let begun = request_line(number, trimmed)?;
        let before = self.request.replace(begun);
        self.part = Part::Fields;
        Ok(before)
    }

    /// The last request.
    pub fn end(&mut self) -> Option<Request> {
        self.request.take()
    }

    fn note_empty(&mut self) {
        match &mut self.part {
            Part::Fields if self.request.is_some() => self.part = Part::Body { indent: None, empty: 0 },
            Part::Fields => {}
            Part::Body { indent, empty } => *empty += usize::from(indent.is_some()),
        }
    }

    fn indented(&mut self, line: &[u8]) -> Result<(), String> {
        let Some(request) = &mut self.request else {
            return Err("it is indented, and there is no request above it that it could belong to".to_owned());
        };
        match &mut self.part {
            Part::Fields => field_line(request, line.trim_ascii()),
            Part::Body { indent, empty } => {
                let first = indent.is_none();
                let blanks = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
                let indent = indent.get_or_insert_with(|| line[..blanks].to_vec());
                let Some(text) = line.strip_prefix(indent.as_slice()) else {
                    return Err("it belongs to a body, and is indented less than the body's first line".to_owned());
                };
                let breaks = if first { 0 } else { *empty + 1 };
                if request.body.len() + breaks + text.len() > BODY_BYTES_MAX {
                    return Err(format!("with it the body has more than {} MiB", BODY_BYTES_MAX >> 20));
                }
                request.body.resize(request.body.len() + breaks, b'\n');
                request.body.extend_from_slice(text);
                *empty = 0;
                Ok(())
            }
        }
    }
}

/// Whether a file that begins with this line is one of requests.
pub fn is_request_line(line: &[u8]) -> bool {
    request_line(0, line.trim_ascii()).is_ok()
}

fn request_line(number: usize, line: &[u8]) -> Result<Request, String> {
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let (method, target) = match words.next() {
        None => (&b"GET"[..], first),
        Some(target) => (first, target),
    };
    let version = words.next();
    if words.next().is_some() || version.is_some_and(|version| !version.starts_with(b"HTTP/")) {
        return Err("behind the target stands more; a blank within it is written as %20".to_owned());
    }
    if !is_token(method) {
        return Err("it begins with no method; a request is `GET /path`, its fields and body are indented below it".to_owned());
    }
    if method == b"CONNECT" {
        return Err("CONNECT opens a tunnel, which has no answer to compare".to_owned());
    }
    let Some((target, host)) = split_target(target) else {
        return Err("its target is none; it begins with `/`, `http://` or `https://`".to_owned());
    };
    let method = String::from_utf8_lossy(method).into_owned();
    Ok(Request { line: number, method, target, host, fields: Vec::new(), body: Vec::new() })
}

fn field_line(request: &mut Request, line: &[u8]) -> Result<(), String> {
    if line.starts_with(b"#") {
        return Ok(());
    }
    let Some((name, value)) = field(line) else {
        return Err("a field is `Name: value`; a body comes behind an empty line".to_owned());
    };
    if is_of_connection(&name) {
        return Err(format!("`{name}` belongs to the connection or to the body's length, and is written for each server"));
    }
    if name.eq_ignore_ascii_case("host") {
        if !is_host(&value) {
            return Err("its value is no host".to_owned());
        }
        request.host = Some(value);
        return Ok(());
    }
    if request.fields.len() == FIELDS_MAX {
        return Err(format!("the request has more than {FIELDS_MAX} fields"));
    }
    request.fields.push((name, value));
    Ok(())
}

/// `Name: value`
pub fn field(line: &[u8]) -> Option<(String, Vec<u8>)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let is_field = is_token(name) && is_value(value);
    is_field.then(|| (String::from_utf8_lossy(name).into_owned(), value.to_vec()))
}
