//! What the proxy is to send. Header names are in lower case; `content-length`, `date` and `allow` are left to the
//! proxy.

use crate::listing::ListingAsk;
use std::borrow::Cow;
use std::fs::File;

/// Names and values. No value contains control bytes, whatever the request and the names of files were.
pub type Headers = Vec<(&'static str, Cow<'static, str>)>;

#[derive(Debug)]
pub enum Answer {
    File(FileAnswer),
    /// A page that was made here: the listing of a folder.
    Page(Page),
    /// A folder that has yet to be listed, which takes as long as it has names: [`Root::list`](crate::Root::list) does
    /// it.
    Folder(ListingAsk),
    /// 301 to the same path with a slash at its end. The value is a relative reference that begins with `./`, so that
    /// no path, `//evil` included, names another host.
    Redirect {
        location: String,
    },
    /// 304.
    NotModified {
        headers: Headers,
    },
    /// Without a body, so that the proxy can send its own error page.
    Refused(Refused),
}

impl Answer {
    pub fn status(&self) -> u16 {
        match self {
            Answer::File(file) => file.status,
            Answer::Page(page) => page.status,
            Answer::Folder(_) => 200,
            Answer::Redirect { .. } => 301,
            Answer::NotModified { .. } => 304,
            Answer::Refused(refused) => refused.status(),
        }
    }
}

/// A file, or parts of one.
#[derive(Debug)]
pub struct FileAnswer {
    /// 200 or 206.
    pub status: u16,
    pub headers: Headers,
    /// A regular file, open for reading. It may shrink while it is sent.
    pub file: File,
    /// The body in order. Empty for HEAD and for an empty file.
    pub pieces: Vec<Piece>,
    /// The sum of all pieces in bytes; for HEAD, what it would be for GET.
    pub content_length: u64,
}

/// A piece of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// The heads between the parts of a multipart body.
    Bytes(Vec<u8>),
    /// Bytes of the file; `length` is never zero.
    Range { offset: u64, length: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub status: u16,
    pub headers: Headers,
    /// Empty for HEAD.
    pub body: Vec<u8>,
    /// The length of the body in bytes; for HEAD, what it would be for GET.
    pub content_length: u64,
}

/// Why there is nothing to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Nothing there, or nothing that is served: a hidden name, a device, a symlink that leaves the root.
    NotFound,
    /// The system does not let this process read it.
    Forbidden,
    MethodNotAllowed,
    /// The path has bytes or segments that no name below the root can have.
    BadPath,
    /// No range lies within the file, which has `length` bytes.
    RangeNotSatisfiable {
        length: u64,
    },
    PreconditionFailed,
    /// The system failed: no descriptors left, a broken disk. `os_error` is for [`std::io::Error::from_raw_os_error`].
    Unreadable {
        os_error: i32,
    },
}

impl Refused {
    pub fn status(&self) -> u16 {
        match self {
            Refused::BadPath => 400,
            Refused::Forbidden => 403,
            Refused::NotFound => 404,
            Refused::MethodNotAllowed => 405,
            Refused::PreconditionFailed => 412,
            Refused::RangeNotSatisfiable { .. } => 416,
            Refused::Unreadable { .. } => 500,
        }
    }

    /// What the answer has to say beside its status: the length with 416 (RFC 9110 section 15.5.17).
    pub fn headers(&self) -> Headers {
        match self {
            Refused::RangeNotSatisfiable { length } => vec![("content-range", format!("bytes */{length}").into())],
            Refused::NotFound
            | Refused::Forbidden
            | Refused::MethodNotAllowed
            | Refused::BadPath
            | Refused::PreconditionFailed
            | Refused::Unreadable { .. } => Vec::new(),
        }
    }
}
