//! Where an application is mounted: what `strip-prefix` has taken off the path that a client sees, what `add-prefix`
//! has put in its place, and the way back for `proxy … rewrite-location=#true`. How the fields of an answer are taken
//! apart is in `references` and `cookies`; what the steps do to a request is in `rewrite`.
//!
//! A `rewrite` is not undone: what it does to one path says nothing about others.

pub(crate) use self::cookies::{NewAttribute, is_of_host, with_attributes};
pub(crate) use self::references::refreshed;

mod cookies;
mod references;
#[cfg(test)]
mod tests;

use crate::step::CompiledStep;
use tidegate_wire::head::{Fields, HeaderId, RequestHead};

/// Both prefixes are without a slash at their end, and empty for the root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mount {
    /// What a client sees in front of the application's paths.
    pub seen: Vec<u8>,
    /// What the application sees there.
    pub inner: Vec<u8>,
    /// Whether the prefix is the whole path that was asked for, and without a slash behind it.
    pub is_bare: bool,
}

/// Where a path of the application's is for the client.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    At(Vec<u8>),
    /// As it stands: the application knows its prefix.
    Already,
    /// Nowhere, since it is not beneath what is mounted.
    Outside,
}

/// Who an answer comes from, and what it was asked.
#[derive(Debug, Clone, Copy)]
pub struct Answerer<'a> {
    pub mount: &'a Mount,
    /// The request as the upstream got it: `Host` and forwarding fields name what it may take for itself.
    pub request: &'a RequestHead,
    /// Servers of the pool, each as `host:port`.
    pub servers: &'a [&'a str],
}

impl Mount {
    /// `path` is the one that the route was found by, before its steps.
    pub fn of(steps: &[CompiledStep], path: &[u8]) -> Mount {
        let (mut taken, mut inner) = (0, Vec::new());
        if path.first() != Some(&b'/') {
            return Mount::default();
        }
        for step in steps {
            match step {
                CompiledStep::StripPrefix(strip) => taken += strip_one(strip.prefix(), &mut inner, &path[taken..]),
                CompiledStep::AddPrefix(add) => drop(inner.splice(0..0, add.prefix().iter().copied())),
                CompiledStep::RequestHeader(_)
                | CompiledStep::ResponseHeader(_)
                | CompiledStep::Rewrite(_)
                | CompiledStep::BodyLimit(_)
                | CompiledStep::Preflight
                | CompiledStep::Access(_)
                | CompiledStep::Cors(_)
                | CompiledStep::BasicAuth(_)
                | CompiledStep::Csrf(_)
                | CompiledStep::Jwt(_)
                | CompiledStep::Oidc(_)
                | CompiledStep::ForwardAuth(_)
                | CompiledStep::ApiKey(_)
                | CompiledStep::AuthAny(_)
                | CompiledStep::ClientAuth
                | CompiledStep::RateLimit(_)
                | CompiledStep::ConcurrencyLimit(_) => {}
            }
        }
        Mount { seen: path[..taken].to_vec(), inner, is_bare: taken > 0 && taken == path.len() }
    }

    /// Whether the steps leave the path of a mount that was asked for without a slash as a folder, which is its root.
    pub fn is_root_without_slash(&self, path: &[u8]) -> bool {
        self.is_bare && path.strip_suffix(b"/") == Some(&self.inner)
    }

    /// Of a path without query and fragment.
    fn see(&self, path: &[u8]) -> Seen {
        let found = match below(path, &self.inner) {
            Some(rest) if !self.inner.is_empty() => rest,
            _ if !self.seen.is_empty() && below(path, &self.seen).is_some() => return Seen::Already,
            None => return Seen::Outside,
            Some(rest) => rest,
        };
        Seen::At(self.seen_with(found))
    }

    fn seen_with(&self, rest: &[u8]) -> Vec<u8> {
        let mut path = [&self.seen, rest].concat();
        // `//host` is another host to who reads it, and a backslash is a slash to browsers.
        let slashes = path.iter().take_while(|byte| matches!(byte, b'/' | b'\\')).count();
        path.drain(1.min(slashes)..slashes);
        if path.is_empty() { b"/".to_vec() } else { path }
    }
}

impl Answerer<'_> {
    /// Translates what fields of the answer say of where something is.
    pub fn translate(&self, fields: &mut Fields) {
        fields.change_values(|id, name, value| match id {
            HeaderId::Location => self.reference(value),
            HeaderId::SetCookie => self.cookie(value),
            HeaderId::Other if name.eq_ignore_ascii_case(b"content-location") => self.reference(value),
            HeaderId::Other if name.eq_ignore_ascii_case(b"refresh") => self.refresh(value),
            _ => None,
        });
    }
}

/// Takes a prefix off, as the step does it, and says how much of `rest` that takes: what clients have sent, of which
/// `inner` stands in front.
fn strip_one(prefix: &[u8], inner: &mut Vec<u8>, rest: &[u8]) -> usize {
    if below(inner, prefix).is_some() {
        inner.drain(..prefix.len());
        return 0;
    }
    match below(prefix, inner) {
        Some(more) if below(rest, more).is_some() => {
            inner.clear();
            more.len()
        }
        Some(_) | None => 0,
    }
}

/// What follows a prefix of whole segments: nothing, or a slash and more.
pub(crate) fn below<'p>(path: &'p [u8], prefix: &[u8]) -> Option<&'p [u8]> {
    path.strip_prefix(prefix).filter(|rest| matches!(rest.first(), None | Some(b'/')))
}
