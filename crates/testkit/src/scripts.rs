//! The other end of FastCGI: a request as it stands in the bytes of a connection, and an answer to it.

use std::fmt::Write;

const BEGIN: u8 = 1;
const END: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const HEADER: usize = 8;

/// What a script would be told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AskedScript {
    pub params: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    pub keeps: bool,
    /// What the request is called on its connection.
    pub id: u16,
}

impl AskedScript {
    /// The request that the bytes begin with, and how many of them are its; `None` where more have to come.
    pub fn parse(bytes: &[u8]) -> Result<Option<(AskedScript, usize)>, String> {
        let (mut asked, mut params, mut at) = (AskedScript::default(), Vec::new(), 0);
        while let Some(header) = bytes.get(at..at + HEADER) {
            let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
            let end = at + HEADER + length + usize::from(header[6]);
            let Some(content) = bytes.get(at + HEADER..at + HEADER + length).filter(|_| bytes.len() >= end) else { break };
            at = end;
            match (header[1], content.is_empty()) {
                (BEGIN, _) => {
                    asked.keeps = content.get(2).is_some_and(|flags| flags & 1 == 1);
                    asked.id = u16::from_be_bytes([header[2], header[3]]);
                }
                (PARAMS, false) => params.extend_from_slice(content),
                (PARAMS, true) => asked.params = pairs(&params).ok_or("params that are cut off")?,
                (STDIN, false) => asked.body.extend_from_slice(content),
                (STDIN, true) => return Ok(Some((asked, at))),
                (kind, _) => return Err(format!("a record of type {kind}")),
            }
        }
        Ok(None)
    }

    pub fn param(&self, name: &str) -> Option<&[u8]> {
        self.params.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_slice())
    }

    /// Records of a whole answer, whose head is that of CGI.
    pub fn answered(&self, stdout: &[u8]) -> Vec<u8> {
        let mut records = Vec::new();
        for piece in stdout.chunks(usize::from(u16::MAX)).chain([&b""[..]]) {
            records.extend(self.record(STDOUT, piece));
        }
        records.extend(self.record(END, &[0; 8]));
        records
    }

    fn record(&self, kind: u8, content: &[u8]) -> Vec<u8> {
        let [high, low] = u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes();
        let [id_high, id_low] = self.id.to_be_bytes();
        [&[1, kind, id_high, id_low, high, low, 0, 0][..], content].concat()
    }

    /// All params as lines, for whoever reads a failure.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.params {
            let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(value));
        }
        text
    }
}

fn pairs(mut bytes: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let mut pairs = Vec::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes)?, length(&mut bytes)?);
        let (pair, rest) = bytes.split_at_checked(name.checked_add(value)?)?;
        pairs.push((String::from_utf8_lossy(&pair[..name]).into_owned(), pair[name..].to_vec()));
        bytes = rest;
    }
    Some(pairs)
}

/// One byte, or four of which the first has its highest bit.
fn length(bytes: &mut &[u8]) -> Option<usize> {
    let (length, used) = match **bytes {
        [short @ 0..0x80, ..] => (usize::from(short), 1),
        [first, second, third, fourth, ..] => (u32::from_be_bytes([first & 0x7f, second, third, fourth]) as usize, 4),
        _ => return None,
    };
    *bytes = &bytes[used..];
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::AskedScript;

    #[test]
    fn a_request_is_whole_with_its_last_record() {
        let long = "v".repeat(200);
        let param = [&[4, 0x80, 0, 0, 200][..], b"NAME", long.as_bytes()].concat();
        let begin = [&[1, 1, 0, 7, 0, 8, 0, 0, 0, 1, 1][..], &[0; 5]].concat();
        let params = [&[1, 4, 0, 7, 0, param.len() as u8, 2, 0][..], &param, &[0, 0]].concat();
        let rest = [1, 4, 0, 7, 0, 0, 0, 0, 1, 5, 0, 7, 0, 0, 0, 0];
        let whole = [&begin[..], &params, &rest].concat();
        for end in 0..whole.len() {
            assert_eq!(AskedScript::parse(&whole[..end]), Ok(None), "{end} bytes");
        }
        let (asked, used) = AskedScript::parse(&[&whole[..], b"more"].concat()).expect("FastCGI").expect("a request");
        assert_eq!((used, asked.id, asked.keeps), (whole.len(), 7, true));
        assert_eq!(asked.param("NAME"), Some(long.as_bytes()));
        assert_eq!(asked.answered(b""), [&[1, 6, 0, 7, 0, 0, 0, 0, 1, 3, 0, 7, 0, 8, 0, 0][..], &[0; 8]].concat());
    }
}
