//! `redirect`: sends the client elsewhere. The location is made of placeholders and percent-encoded, so that no client
//! can put a line break or a second header into it.

use crate::context::View;
use crate::errors::{PLAIN_TEXT, begin_answer, write_status};
use crate::mount::below;
use crate::refusal::Refusal;
use crate::template::{CompiledTemplate, Target, append_to_url};
use tidegate_model::Template;
use tidegate_wire::head::ResponseHead;
use tidegate_wire::path::{Climb, climb};

#[derive(Debug)]
pub struct Redirect {
    status: u16,
    to: CompiledTemplate,
    /// The status line's text: shown by clients that do not follow.
    body: Box<[u8]>,
    /// `//host/…` was written so: the location may begin with two slashes.
    names_host_without_scheme: bool,
    /// Whole segments in whose place the target stands, without a slash at their end.
    prefix: Option<Box<[u8]>>,
}

impl Redirect {
    pub fn new(to: &Template, status: u16) -> Redirect {
        let to = CompiledTemplate::new(to, Target::Url);
        let mut body = Vec::new();
        write_status(status, &mut body);
        body.push(b'\n');
        Redirect { status, names_host_without_scheme: to.literal_start().starts_with(b"//"), to, body: body.into(), prefix: None }
    }

    /// What of the path the target stands for; what follows it and the query stay.
    #[must_use]
    pub fn in_place_of(self, prefix: Option<&str>) -> Redirect {
        Redirect { prefix: prefix.map(|prefix| prefix.trim_end_matches('/').as_bytes().into()), ..self }
    }

    /// Whether the location stands in the place of a part of the path that was matched.
    pub fn has_prefix(&self) -> bool {
        self.prefix.is_some()
    }

    /// Writes the answer into `head`, using `buffer`, and returns its body. Where dots of a client's text would lead
    /// elsewhere than was written, there is none: browsers resolve them, in any encoding. Neither is there where the
    /// location would be empty.
    pub fn answer<'a>(&'a self, view: View<'_>, head: &mut ResponseHead, buffer: &mut Vec<u8>) -> Result<&'a [u8], Refusal> {
        begin_answer(self.status, head);
        if let Some(literal) = self.to.as_literal().filter(|_| self.prefix.is_none()) {
            head.fields.push(b"location", literal);
        } else {
            buffer.clear();
            self.to.render(view, buffer);
            if self.leads_nowhere(buffer) || !self.add_rest(view, buffer) {
                return Err(Refusal::RedirectNowhere);
            }
            let path = buffer.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
            if climb(path) != Climb::Nowhere {
                return Err(Refusal::RedirectEscapesRoot);
            }
            head.fields.push(b"location", self.own_location(buffer));
        }
        head.fields.push(b"content-type", PLAIN_TEXT);
        Ok(&self.body)
    }

    /// Puts what follows the prefix behind the target, with one slash between the two. False: it begins otherwise.
    fn add_rest(&self, view: View<'_>, location: &mut Vec<u8>) -> bool {
        let Some(prefix) = &self.prefix else { return true };
        let Some(rest) = below(view.request.path(), prefix) else { return false };
        if !rest.is_empty() {
            let kept = location.trim_ascii_end().strip_suffix(b"/").unwrap_or(location).len();
            location.truncate(kept);
        }
        append_to_url(rest, view.request.query(), location);
        true
    }

    /// Whether nothing is said of this request where the host should be (browsers take the next piece for the host
    /// then, which a client may have chosen), or all of it is empty: a map has no row, a field did not come. A scheme
    /// that is not the configuration's own may run a script.
    fn leads_nowhere(&self, location: &[u8]) -> bool {
        let is_empty_host = |rest: &[u8]| matches!(rest.first(), None | Some(b'/' | b'\\' | b'?' | b'#'));
        let colon = location.iter().position(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'+' | b'-' | b'.'));
        match colon.filter(|at| location[*at] == b':').map(|at| location.split_at(at + 1)) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"https:") || scheme.eq_ignore_ascii_case(b"http:") => {
                rest.strip_prefix(b"//").is_none_or(is_empty_host)
            }
            Some(_) => !self.to.literal_start().contains(&b':'),
            None if self.names_host_without_scheme => location.strip_prefix(b"//").is_none_or(is_empty_host),
            None => location.is_empty(),
        }
    }

    /// `redirect "{path}"` for a request of `//evil.example/` must stay on this host: several slashes at the start,
    /// which a browser takes for the beginning of another host, become one.
    fn own_location<'a>(&self, location: &'a [u8]) -> &'a [u8] {
        let slashes = location.iter().take_while(|byte| **byte == b'/').count();
        if slashes < 2 || self.names_host_without_scheme { location } else { &location[slashes - 1..] }
    }
}

#[cfg(test)]
mod tests;
