//! `request-id`: by which name a request's identifier goes to servers and back to clients, and whether traces begin
//! here.

use crate::traffic::Sample;

/// Without a line of it: the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestIds {
    /// The field's name, as written.
    pub header: String,
    /// Clients get it as well.
    pub client: bool,
    /// Requests that bring no `traceparent` get one, of which so many ask to be recorded. `None`: none is made.
    pub trace: Option<Sample>,
}

impl RequestIds {
    pub const HEADER: &str = "X-Request-Id";
    /// What is taken over of somebody else's identifier.
    pub const BYTES_MAX: usize = 128;
}

impl Default for RequestIds {
    fn default() -> RequestIds {
        RequestIds { header: RequestIds::HEADER.to_owned(), client: false, trace: None }
    }
}
