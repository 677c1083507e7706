//! Why there is nothing to send, with the status and the fields that say so. What there is to send is in `answer`.

use rustix::io::Errno;
use std::borrow::Cow;

/// Names and values. No value contains control bytes, whatever the request and the names of files were.
pub type Headers = Vec<(&'static str, Cow<'static, str>)>;

/// Why there is nothing to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Nothing there, or nothing that is served: a hidden name, a device, a symlink that leaves the root.
    NotFound,
    /// The system does not let this process read it.
    Forbidden,
    /// The method is neither GET nor HEAD.
    MethodNotAllowed,
    /// The path has bytes or segments that no name below the root can have.
    BadPath,
    /// No range lies within the file, which has `length` bytes.
    RangeNotSatisfiable { length: u64 },
    /// The client wants another version than there is.
    PreconditionFailed,
    /// The system failed: no descriptors left, a broken disk. `os_error` is for [`std::io::Error::from_raw_os_error`].
    Unreadable { os_error: i32 },
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

/// What an error of the system means for a request.
pub(crate) fn refusal(error: Errno) -> Refused {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::ILSEQ => Refused::NotFound,
        // A symlink that is not followed, a socket, a device without a driver.
        Errno::LOOP | Errno::XDEV | Errno::MLINK | Errno::NXIO | Errno::NODEV => Refused::NotFound,
        Errno::ACCESS | Errno::PERM => Refused::Forbidden,
        error => Refused::Unreadable { os_error: error.raw_os_error() },
    }
}
