//! What the proxy is to send. Header names are in lower case; `content-length`, `date` and `allow` are left to the
//! proxy.

use crate::listing::ListingAsk;
use crate::refused::{Headers, Refused};
use std::fs::File;

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
