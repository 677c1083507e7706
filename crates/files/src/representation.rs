//! An open file as an answer: its headers, and the pieces of it that are sent (RFC 9110 sections 8, 14 and 15.3.7).
//! Which file it is was decided in `root`.

use crate::answer::{Answer, FileAnswer, Piece};
use crate::ask::{Ask, Method};
use crate::coding::Coding;
use crate::conditions::{Validators, Verdict, evaluate};
use crate::range::{ByteRange, Selection, select};
use crate::refused::{Headers, Refused};
use std::borrow::Cow;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

/// A regular file, open for reading, and what the system said about it when it was opened.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub file: File,
    pub length: u64,
    pub modified: Modified,
}

/// Seconds since 1970 and nanoseconds after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Modified {
    pub seconds: i64,
    pub nanoseconds: i64,
}

/// What an open descriptor turned out to be.
#[derive(Debug)]
pub(crate) enum Kind {
    File(OpenFile),
    Folder,
    /// A device, a FIFO, a socket.
    Special,
}

impl Kind {
    pub fn of(file: File) -> io::Result<Kind> {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Ok(Kind::Folder);
        }
        if !metadata.is_file() {
            return Ok(Kind::Special);
        }
        let modified = Modified { seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec() };
        Ok(Kind::File(OpenFile { file, length: metadata.len(), modified }))
    }
}

/// The form of a file that a client gets.
#[derive(Debug)]
pub(crate) struct Representation {
    pub open: OpenFile,
    /// Of the original, also when a coded file is sent.
    pub media_type: Cow<'static, str>,
    pub coding: Option<Coding>,
    /// Whether another client may get another coding.
    pub varies: bool,
}

impl Representation {
    /// `seed` makes the boundaries of multipart bodies unknown to whoever wrote the file.
    pub fn answer(self, ask: &Ask, now: SystemTime, seed: &RandomState) -> Result<Answer, Refused> {
        let validators = Validators::new(self.etag(), self.open.modified.seconds, now);
        let may_be_partial = match evaluate(ask, &validators)? {
            Verdict::NotModified => return Ok(Answer::NotModified { headers: self.shared_headers(&validators) }),
            Verdict::Send { may_be_partial } => may_be_partial,
        };
        let selection = match ask.range.filter(|_| may_be_partial) {
            Some(range) => select(range, self.open.length),
            None => Selection::Whole,
        };
        let mut headers = self.shared_headers(&validators);
        headers.push(("last-modified", httpdate::fmt_http_date(validators.last_modified).into()));
        headers.push(("accept-ranges", "bytes".into()));
        headers.push(("x-content-type-options", "nosniff".into()));
        if let Some(coding) = self.coding {
            headers.push(("content-encoding", coding.name().into()));
        }
        match selection {
            Selection::Unsatisfiable => Err(Refused::RangeNotSatisfiable { length: self.open.length }),
            Selection::Part(range) => Ok(self.part(headers, range)),
            // `content-encoding` would be said of the multipart body, not of the parts, and no header of a part is for
            // it.
            Selection::Parts(_) if self.coding.is_some() => Ok(self.whole(headers, ask.method)),
            Selection::Parts(ranges) => Ok(self.parts(headers, &ranges, &boundary(seed, now, &validators.etag))),
            Selection::Whole => Ok(self.whole(headers, ask.method)),
        }
    }

    /// From what several hosts with the same copy agree about: no inode, no device.
    fn etag(&self) -> String {
        let Modified { seconds, nanoseconds } = self.open.modified;
        let coding = self.coding.map_or("", Coding::suffix).replace('.', "-");
        format!("\"{seconds:x}.{nanoseconds:x}-{:x}{coding}\"", self.open.length)
    }

    /// What 200, 206 and 304 have in common (RFC 9110 section 15.4.5).
    fn shared_headers(&self, validators: &Validators) -> Headers {
        let mut headers: Headers = vec![("etag", validators.etag.clone().into())];
        if self.varies {
            headers.push(("vary", "accept-encoding".into()));
        }
        headers
    }

    fn whole(self, mut headers: Headers, method: Method) -> Answer {
        headers.push(("content-type", self.media_type));
        let length = self.open.length;
        let pieces = if length > 0 && method == Method::Get { vec![Piece::Range { offset: 0, length }] } else { Vec::new() };
        Answer::File(FileAnswer { status: 200, headers, file: self.open.file, pieces, content_length: length })
    }

    fn part(self, mut headers: Headers, range: ByteRange) -> Answer {
        headers.push(("content-type", self.media_type));
        headers.push(("content-range", content_range(range, self.open.length).into()));
        let pieces = vec![piece(range)];
        Answer::File(FileAnswer { status: 206, headers, file: self.open.file, pieces, content_length: range.length() })
    }

    /// RFC 9110 section 14.6.
    fn parts(self, mut headers: Headers, ranges: &[ByteRange], boundary: &str) -> Answer {
        headers.push(("content-type", format!("multipart/byteranges; boundary={boundary}").into()));
        let mut pieces = Vec::with_capacity(2 * ranges.len() + 1);
        let mut content_length = 0;
        let mut line_end = "";
        for range in ranges {
            let content_range = content_range(*range, self.open.length);
            let media_type = &self.media_type;
            let head = format!("{line_end}--{boundary}\r\ncontent-type: {media_type}\r\ncontent-range: {content_range}\r\n\r\n");
            content_length += head.len() as u64 + range.length();
            pieces.push(Piece::Bytes(head.into_bytes()));
            pieces.push(piece(*range));
            line_end = "\r\n";
        }
        let end = format!("\r\n--{boundary}--\r\n");
        content_length += end.len() as u64;
        pieces.push(Piece::Bytes(end.into_bytes()));
        Answer::File(FileAnswer { status: 206, headers, file: self.open.file, pieces, content_length })
    }
}

fn piece(range: ByteRange) -> Piece {
    Piece::Range { offset: range.first, length: range.length() }
}

fn content_range(range: ByteRange, length: u64) -> String {
    format!("bytes {}-{}/{length}", range.first, range.last)
}

/// Nobody who does not know the seed can write a file that contains it.
fn boundary(seed: &RandomState, now: SystemTime, etag: &str) -> String {
    format!("{:016x}{:016x}", seed.hash_one((now, etag, 0)), seed.hash_one((now, etag, 1)))
}
