//! `Path` and `Domain` of cookies (RFC 6265 section 4.1): where the client sends them, and to whom.

use super::{Answerer, Seen, below};
use tidegate_wire::head::HeaderId;

/// In lower case.
const HOST_PREFIX: &[u8] = b"__host-";

impl Answerer<'_> {
    /// What is set in place of a cookie; `None` as it stands.
    pub(super) fn cookie(&self, value: &[u8]) -> Option<Vec<u8>> {
        let keeps_path = is_of_host(value);
        with_attributes(value, |name, text| {
            if name.eq_ignore_ascii_case(b"domain") && self.is_domain_of_upstream(text) {
                return NewAttribute::Nothing;
            }
            let path = if name.eq_ignore_ascii_case(b"path") && !keeps_path { self.cookie_path(text) } else { None };
            path.map_or(NewAttribute::AsItIs, NewAttribute::Path)
        })
    }

    /// A path that is above the application's root covers all of it, and so does the mount for the client: no other
    /// application of the host gets the cookie.
    fn cookie_path(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mount = self.mount;
        if path.first() != Some(&b'/') {
            return None;
        }
        let above = path.strip_suffix(b"/").unwrap_or(path);
        let placed = match mount.see(path) {
            Seen::At(seen) if seen.strip_suffix(b"/") == Some(&mount.seen) && !mount.seen.is_empty() => mount.seen.clone(),
            Seen::At(seen) => seen,
            Seen::Outside if below(&mount.inner, above).is_some() => mount.seen_with(b""),
            Seen::Already | Seen::Outside => return None,
        };
        (placed != path).then_some(placed)
    }

    /// Whether a domain is the upstream's and not the client's, who would refuse the cookie. Without it the cookie is
    /// for the host that the client has asked.
    fn is_domain_of_upstream(&self, domain: &[u8]) -> bool {
        let domain = domain.strip_prefix(b".").unwrap_or(domain);
        let fields = &self.request.fields;
        let client = fields.get(HeaderId::XForwardedHost).unwrap_or_else(|| self.request.authority());
        if domain.is_empty() || is_within(host_of(client), domain) {
            return false;
        }
        let asked = fields.get(HeaderId::Host).into_iter();
        asked.chain(self.servers.iter().map(|server| server.as_bytes())).any(|server| is_within(host_of(server), domain))
    }
}

/// What stands in the place of an attribute.
pub(crate) enum NewAttribute {
    AsItIs,
    Nothing,
    Path(Vec<u8>),
    Domain(Vec<u8>),
}

/// Whether a cookie's name begins with `__Host-`: browsers refuse it unless its path is the root, and with a domain.
pub(crate) fn is_of_host(cookie: &[u8]) -> bool {
    cookie.trim_ascii_start().get(..HOST_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(HOST_PREFIX))
}

/// The cookie with what `change` makes of each attribute, by name and value; `None` where all of them stay.
pub(crate) fn with_attributes(cookie: &[u8], change: impl Fn(&[u8], &[u8]) -> NewAttribute) -> Option<Vec<u8>> {
    let mut parts = cookie.split(|byte| *byte == b';');
    let mut made = parts.next()?.to_vec();
    let mut is_changed = false;
    for attribute in parts {
        let (name, text) = split_attribute(attribute);
        let (name, text): (&[u8], _) = match change(name, text) {
            NewAttribute::AsItIs => {
                made.push(b';');
                made.extend_from_slice(attribute);
                continue;
            }
            NewAttribute::Nothing => (b"", Vec::new()),
            NewAttribute::Path(path) => (b"; Path=", path),
            NewAttribute::Domain(domain) => (b"; Domain=", domain),
        };
        made.extend_from_slice(name);
        made.extend_from_slice(&text);
        is_changed = true;
    }
    is_changed.then_some(made)
}

/// Name and value, each without blanks around it.
fn split_attribute(attribute: &[u8]) -> (&[u8], &[u8]) {
    match attribute.iter().position(|byte| *byte == b'=') {
        Some(equals) => (attribute[..equals].trim_ascii(), attribute[equals + 1..].trim_ascii()),
        None => (attribute.trim_ascii(), b""),
    }
}

/// Whether a host is the domain, or one of its hosts (RFC 6265 section 5.1.3).
fn is_within(host: &[u8], domain: &[u8]) -> bool {
    let Some(start) = host.len().checked_sub(domain.len()) else { return false };
    host[start..].eq_ignore_ascii_case(domain) && (start == 0 || host[start - 1] == b'.')
}

/// Without the port, and without the brackets of an IPv6 address.
fn host_of(authority: &[u8]) -> &[u8] {
    if let Some(inside) = authority.strip_prefix(b"[") {
        return inside.split(|byte| *byte == b']').next().unwrap_or(inside);
    }
    authority.split(|byte| *byte == b':').next().unwrap_or(authority)
}
