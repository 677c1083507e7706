//! URLs and paths in `Location`, `Content-Location` and `Refresh`: whose they are, and where the client finds them.

use super::{Answerer, Seen};
use tidegate_model::Scheme;
use tidegate_wire::head::HeaderId;

/// A reference that names a host.
struct Absolute<'v> {
    /// `None` for `//host/path`.
    scheme: Option<Scheme>,
    authority: &'v [u8],
    /// The path, with what follows it.
    rest: &'v [u8],
}

impl Answerer<'_> {
    /// What a client is to be told in place of a reference; `None` as it stands.
    ///
    /// Where the application names itself, the host is left out: the client's own is the right one. It stays where the
    /// application sends a client from http to https.
    pub(super) fn reference(&self, value: &[u8]) -> Option<Vec<u8>> {
        let Some(absolute) = Absolute::read(value) else {
            return match value {
                [b'/', ..] => self.placed(value),
                _ => None,
            };
        };
        if !self.is_own(&absolute) {
            return None;
        }
        let changes_scheme = absolute.scheme == Some(Scheme::Https) && self.client_scheme() != Scheme::Https;
        if changes_scheme && self.is_seen(absolute.authority, Scheme::Https) {
            let path = self.placed(absolute.rest)?;
            return Some([b"https://", absolute.authority, &path].concat());
        }
        match self.place(absolute.rest) {
            (Seen::At(path), tail) => Some([&path, tail].concat()),
            (Seen::Already, _) if !absolute.rest.is_empty() => Some(absolute.rest.to_vec()),
            (Seen::Already | Seen::Outside, _) => None,
        }
    }

    pub(super) fn refresh(&self, value: &[u8]) -> Option<Vec<u8>> {
        refreshed(value, |address| self.reference(address))
    }

    /// A path with query and fragment, where the client finds it; `None` where that is the same.
    fn placed(&self, target: &[u8]) -> Option<Vec<u8>> {
        match self.place(target) {
            (Seen::At(path), tail) => Some([&path, tail].concat()).filter(|placed| placed != target),
            (Seen::Already | Seen::Outside, _) => None,
        }
    }

    fn place<'t>(&self, target: &'t [u8]) -> (Seen, &'t [u8]) {
        let end = target.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(target.len());
        let (path, tail) = target.split_at(end);
        (self.mount.see(if path.is_empty() { b"/" } else { path }), tail)
    }

    /// Whether the application names itself: by an address of a server, or by a host that it was asked for.
    fn is_own(&self, absolute: &Absolute<'_>) -> bool {
        let scheme = absolute.scheme.unwrap_or_else(|| self.client_scheme());
        let is_server = |server: &&str| is_same(server.as_bytes(), scheme, absolute.authority, scheme);
        let asked = self.request.fields.get(HeaderId::Host);
        let is_asked = asked.is_some_and(|asked| is_same(asked, self.client_scheme(), absolute.authority, scheme));
        is_asked || self.is_seen(absolute.authority, scheme) || self.servers.iter().any(is_server)
    }

    /// Whether it is the host that the client sees. Which port is meant where none is written depends on the scheme,
    /// and applications behind a proxy are often wrong about that.
    fn is_seen(&self, authority: &[u8], scheme: Scheme) -> bool {
        let said = self.request.fields.get(HeaderId::XForwardedHost);
        let mut seen = said.into_iter().chain([self.request.authority()]);
        seen.any(|seen| is_same(seen, self.client_scheme(), authority, scheme))
    }

    /// As the upstream was told.
    fn client_scheme(&self) -> Scheme {
        let said = self.request.fields.get(HeaderId::XForwardedProto);
        if said.is_some_and(|said| said.eq_ignore_ascii_case(b"https")) { Scheme::Https } else { Scheme::Http }
    }
}

/// What becomes of `5; url=/next` where its address changes, with the URL in quotes or without (HTML section 4.2.5.3).
pub(crate) fn refreshed(value: &[u8], change: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let after_time = value.iter().position(|byte| matches!(byte, b';' | b','))? + 1;
    let skip = |from: usize| from + value[from..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let word = skip(after_time);
    if !value.get(word..word + 3)?.eq_ignore_ascii_case(b"url") {
        return None;
    }
    let equals = skip(word + 3);
    if value.get(equals) != Some(&b'=') {
        return None;
    }
    let mut start = skip(equals + 1);
    let mut end = value.len();
    if let Some(quote @ (b'"' | b'\'')) = value.get(start) {
        start += 1;
        end = value[start..].iter().position(|byte| byte == quote).map_or(end, |length| start + length);
    }
    let translated = change(&value[start..end])?;
    Some([&value[..start], &translated, &value[end..]].concat())
}

impl<'v> Absolute<'v> {
    /// `None`: a path, or a reference that is relative to one, or of another scheme.
    fn read(value: &'v [u8]) -> Option<Absolute<'v>> {
        let (scheme, rest) = match value.iter().position(|byte| *byte == b':') {
            _ if value.starts_with(b"//") => (None, value),
            Some(colon) if value[..colon].eq_ignore_ascii_case(b"http") => (Some(Scheme::Http), &value[colon + 1..]),
            Some(colon) if value[..colon].eq_ignore_ascii_case(b"https") => (Some(Scheme::Https), &value[colon + 1..]),
            Some(_) | None => return None,
        };
        let rest = rest.strip_prefix(b"//")?;
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
        // Browsers take a backslash for a slash.
        let authority = Some(&rest[..end]).filter(|authority| !authority.contains(&b'\\'))?;
        Some(Absolute { scheme, authority, rest: &rest[end..] })
    }
}

/// Whether two authorities are one, each without the port that its scheme has anyway.
fn is_same(one: &[u8], of_one: Scheme, other: &[u8], of_other: Scheme) -> bool {
    !one.is_empty() && without_port(one, of_one).eq_ignore_ascii_case(without_port(other, of_other))
}

fn without_port(authority: &[u8], scheme: Scheme) -> &[u8] {
    let port: &[u8] = match scheme {
        Scheme::Http => b":80",
        Scheme::Https => b":443",
    };
    authority.strip_suffix(port).unwrap_or(authority)
}
