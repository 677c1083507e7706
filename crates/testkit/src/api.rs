//! What the emulated APIs of [`crate::docker`], [`crate::consul`] and [`crate::kubernetes`] have in common: one request
//! on each connection, read and answered by a thread that may block. It knows no API.

use std::io::{self, Read, Write};
use std::thread;

/// Of the head of a request; no test sends more.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Of a body; no test sends more.
const BODY_BYTES_MAX: usize = 4 << 20;

/// A request, as it was sent.
#[derive(Debug)]
pub struct Asked {
    pub method: String,
    /// With its query.
    pub target: String,
    head: String,
    pub body: Vec<u8>,
}

impl Asked {
    fn read(stream: &mut impl Read) -> io::Result<Asked> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() >= HEAD_BYTES_MAX || stream.read(&mut byte)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut words = head.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut asked = Asked { method, target, head, body: Vec::new() };
        let bytes: usize = asked.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        if bytes > BODY_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        asked.body.resize(bytes, 0);
        stream.read_exact(&mut asked.body)?;
        Ok(asked)
    }

    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// A parameter of the query, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let query = self.target.split_once('?')?.1;
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(decoded)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let is_it = |line: &&str| line.split_once(':').is_some_and(|(key, _)| key.eq_ignore_ascii_case(name));
        self.head.lines().find(is_it).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    }
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::new();
    let mut position = 0;
    while position < bytes.len() {
        let escaped = (bytes[position] == b'%').then(|| text.get(position + 1..position + 3)).flatten();
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                position += 3;
            }
            None => {
                decoded.push(bytes[position]);
                position += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Gives each connection a thread that reads a request and answers it. They end with the process of the test.
pub fn serve<S>(
    name: &str,
    mut accept: impl FnMut() -> io::Result<S> + Send + 'static,
    answer: impl Fn(&Asked, &mut S) -> io::Result<()> + Clone + Send + 'static,
) -> io::Result<()>
where
    S: Read + Write + Send + 'static,
{
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        while let Ok(mut stream) = accept() {
            let answer = answer.clone();
            // Whoever asked may be gone when it is answered, which is no fault of the test.
            thread::spawn(move || Asked::read(&mut stream).and_then(|asked| answer(&asked, &mut stream)));
        }
    })?;
    Ok(())
}

/// A whole answer with its length.
pub fn write_whole(stream: &mut impl Write, status: u16, headers: &[(&str, String)], body: &str) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes())
}

/// The head of an answer in chunks; [`write_chunk`] goes on, with an empty one at the end.
pub fn begin_chunks(stream: &mut impl Write) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
}

pub fn write_chunk(stream: &mut impl Write, data: &[u8]) -> io::Result<()> {
    stream.write_all(format!("{:x}\r\n", data.len()).as_bytes())?;
    stream.write_all(data)?;
    stream.write_all(b"\r\n")?;
    stream.flush()
}
