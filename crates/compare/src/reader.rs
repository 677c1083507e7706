//! From lines to the requests that are sent. A file of requests is read whole before anything is sent, and one bad line
//! is an error; of a log, which is full of what scanners send, a line that makes no request is counted.

use crate::log;
use crate::plain::{self, PlainReader};
use crate::request::{LeftOut, Request};
use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Of a line of a log; longer ones are left out, and are an error in a file of requests.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Of all requests that are kept before they are sent.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// Which of the requests are wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Whether those are sent, too, that may change something.
    pub all_methods: bool,
    /// Whether lines that ask the same are asked again.
    pub repeats: bool,
    /// How many are sent at most.
    pub requests_max: usize,
}

/// A line that stops everything.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct Fault {
    pub line: usize,
    pub problem: String,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Read {
    pub requests: Vec<Request>,
    /// Requests and lines of a log, with those that are not sent.
    pub found: usize,
    /// How many ask what another before them did.
    pub repeated: usize,
    /// How many there are, and on which line the first is.
    pub left_out: BTreeMap<LeftOut, (usize, usize)>,
    /// Methods of those that are left out for them, a few.
    pub methods: Vec<String>,
    /// Whether there were more than are sent.
    pub is_cut: bool,
}

/// How many methods are named.
const METHODS_MAX: usize = 8;

enum FileForm {
    /// Nothing but comments was there.
    Unknown,
    Plain(PlainReader),
    Log,
}

pub struct Reader {
    wanted: Wanted,
    form: FileForm,
    read: Read,
    seen: HashSet<u64>,
    kept_bytes: usize,
    number: usize,
}

impl Reader {
    pub fn new(wanted: Wanted) -> Reader {
        Reader { wanted, form: FileForm::Unknown, read: Read::default(), seen: HashSet::new(), kept_bytes: 0, number: 0 }
    }

    /// Takes the next line, without its end. No more are wanted once there are enough requests.
    pub fn line(&mut self, line: &[u8]) -> Result<bool, Fault> {
        self.number += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = if self.number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        if let FileForm::Unknown = self.form {
            self.form = self.form_of(line)?;
        }
        match &mut self.form {
            FileForm::Unknown => {}
            FileForm::Log => self.log_line(line),
            FileForm::Plain(_) if line.len() > LINE_BYTES_MAX => return Err(self.fault(too_long())),
            FileForm::Plain(reader) => match reader.line(self.number, line) {
                Ok(whole) => self.keep_written(whole),
                Err(problem) => return Err(self.fault(problem)),
            },
        }
        Ok(!self.read.is_cut)
    }

    pub fn end(mut self) -> Read {
        if let FileForm::Plain(reader) = &mut self.form {
            let last = reader.end();
            self.keep_written(last);
        }
        self.read
    }

    fn fault(&self, problem: String) -> Fault {
        Fault { line: self.number, problem }
    }

    /// Of the whole, by its first line that is neither empty nor a comment.
    fn form_of(&self, line: &[u8]) -> Result<FileForm, Fault> {
        if line.starts_with(b"\xff\xfe") || line.starts_with(b"\xfe\xff") {
            return Err(self.fault("the text is UTF-16; it has to be UTF-8".to_owned()));
        }
        if line.trim_ascii().is_empty() || line.starts_with(b"#") {
            return Ok(FileForm::Unknown);
        }
        if plain::is_request_line(line) {
            return Ok(FileForm::Plain(PlainReader::default()));
        }
        if log::is_log_line(line) {
            return Ok(FileForm::Log);
        }
        let known = "is neither a request (`GET /path`) nor a line of an access log that is known";
        Err(self.fault(format!("it {known}: common or combined, HAProxy's httplog, Envoy's, or JSON")))
    }

    fn log_line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        self.read.found += 1;
        if line.len() > LINE_BYTES_MAX {
            return self.leave_out(LeftOut::TooLong, self.number);
        }
        match log::read_line(self.number, line) {
            Ok(request) => self.keep(request),
            Err(why) => self.leave_out(why, self.number),
        }
    }

    fn keep_written(&mut self, request: Option<Request>) {
        if let Some(request) = request {
            self.read.found += 1;
            self.keep(request);
        }
    }

    fn keep(&mut self, request: Request) {
        if !request.is_safe() && !self.wanted.all_methods {
            if self.read.methods.len() < METHODS_MAX && !self.read.methods.contains(&request.method) {
                self.read.methods.push(request.method.clone());
            }
            return self.leave_out(LeftOut::Unsafe, request.line);
        }
        // To do something twice is not to ask twice.
        if !self.wanted.repeats && request.is_safe() && !self.seen.insert(hash_of(&request)) {
            self.read.repeated += 1;
            return;
        }
        let bytes = bytes_of(&request);
        if self.read.requests.len() == self.wanted.requests_max || self.kept_bytes + bytes > KEPT_BYTES_MAX {
            self.read.found -= 1;
            self.read.is_cut = true;
            return;
        }
        self.kept_bytes += bytes;
        self.read.requests.push(request);
    }

    fn leave_out(&mut self, why: LeftOut, line: usize) {
        self.read.left_out.entry(why).or_insert((0, line)).0 += 1;
    }
}

fn too_long() -> String {
    format!("it is longer than {} KiB", LINE_BYTES_MAX >> 10)
}

/// Of what is asked, wherever it stands.
fn hash_of(request: &Request) -> u64 {
    let Request { line: _, method, target, host, fields, body } = request;
    let mut hasher = DefaultHasher::new();
    (method, target, host, fields, body).hash(&mut hasher);
    hasher.finish()
}

fn bytes_of(request: &Request) -> usize {
    let fields: usize =
        request.fields.iter().map(|(name, value)| name.len() + value.len() + size_of::<(String, Vec<u8>)>()).sum();
    size_of::<Request>() + request.method.len() + request.target.len() + request.body.len() + fields
}
