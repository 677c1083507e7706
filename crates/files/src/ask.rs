//! What a request asks for, as far as files are concerned. All of it comes from the network and is hostile.

/// A request. Header values are as received, several lines of one name joined with a comma.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    pub method: Method,
    /// The path below the root, still percent-encoded. One slash at its start may be missing; empty is the root itself.
    pub path: &'a [u8],
    /// The whole path that the client asked for, still percent-encoded. A redirect to a folder is relative to it, so
    /// that prefixes which were cut off and rewrites stay as the client sees them.
    pub request_path: &'a [u8],
    /// Without the `?`. Kept by redirects.
    pub query: Option<&'a [u8]>,
    pub if_match: Option<&'a [u8]>,
    pub if_none_match: Option<&'a [u8]>,
    pub if_modified_since: Option<&'a [u8]>,
    pub if_unmodified_since: Option<&'a [u8]>,
    pub if_range: Option<&'a [u8]>,
    pub range: Option<&'a [u8]>,
    pub accept_encoding: Option<&'a [u8]>,
    pub accept: Option<&'a [u8]>,
}

impl<'a> Ask<'a> {
    /// A request for `path`, which is also what the client asked for, without query and headers.
    pub fn new(method: Method, path: &'a [u8]) -> Ask<'a> {
        Ask {
            method,
            path,
            request_path: path,
            query: None,
            if_match: None,
            if_none_match: None,
            if_modified_since: None,
            if_unmodified_since: None,
            if_range: None,
            range: None,
            accept_encoding: None,
            accept: None,
        }
    }
}

/// The methods that files know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Other,
}
