//! The four forms of a request target (RFC 9112 section 3.2), and the one form they are kept in: authority, path and
//! query. The path's normal form is `path`'s business; agreement with `Host` is settled by the parent module.

use super::Stop;
use crate::authority::parse_authority;
use crate::error::HeadError;
use crate::head::{Method, RequestHead, Span};
use crate::path::{self, Normalised};
use crate::scan::target_end;

/// A target whose bytes are good. Spans count from the start of the window.
pub(super) struct Target {
    /// With the default port of its scheme; CONNECT's has none.
    pub authority: Option<(Span, Option<u16>)>,
    path: Path,
    query: Option<Span>,
    /// The space behind the target.
    pub end: usize,
}

enum Path {
    /// In the input, in normal form.
    Normal(Span),
    /// In the input, to be normalised.
    Raw(Span),
    /// Not in the input: `/` of an absolute-form target without a path, `*` of such an OPTIONS, nothing of CONNECT.
    Fixed(&'static [u8]),
}

#[inline]
pub(super) fn parse_target(window: &[u8], at: usize, method: Method) -> Result<Target, Stop> {
    let target = match window.get(at) {
        None => return Err(Stop::NeedMore),
        Some(_) if method == Method::Connect => authority_form(window, at)?,
        Some(b'/') => origin_form(window, at)?,
        Some(b'*') if method == Method::Options => {
            Target { authority: None, path: Path::Normal(Span::new(at, at + 1)), query: None, end: at + 1 }
        }
        Some(b'h' | b'H') => absolute_form(window, at, method)?,
        Some(b'\n') => return Err(HeadError::BareLf.into()),
        Some(_) => return Err(HeadError::BadTarget.into()),
    };
    match window.get(target.end) {
        None => Err(Stop::NeedMore),
        Some(b' ') => Ok(target),
        Some(b'\n') => Err(HeadError::BareLf.into()),
        Some(b'\r') => Err(HeadError::BadVersion.into()),
        Some(_) => Err(HeadError::BadTarget.into()),
    }
}

impl Target {
    /// Fills in path and query. The head's bytes must begin with those that the spans point into.
    #[inline]
    pub fn apply(&self, input: &[u8], head: &mut RequestHead) -> Result<(), HeadError> {
        head.query = self.query;
        head.path = match self.path {
            Path::Normal(span) => span,
            Path::Raw(span) => append_normalised(span, span.of(input), &mut head.fields.bytes)?,
            Path::Fixed(path) => head.fields.append(&[path]),
        };
        Ok(())
    }
}

/// Puts an origin-form target from elsewhere into a head, under the same rules as HTTP/1's.
pub fn append_origin_form(head: &mut RequestHead, target: &[u8]) -> Result<(), HeadError> {
    let span = head.fields.append(&[target]);
    origin_form_at(head, span)
}

/// As [`append_origin_form`], with a target that is in the head's bytes already (HTTP/2's `:path`).
pub fn origin_form_at(head: &mut RequestHead, target: Span) -> Result<(), HeadError> {
    let bytes = target.of(&head.fields.bytes);
    if bytes.first() != Some(&b'/') {
        return Err(HeadError::BadTarget);
    }
    let scanned = path::scan(bytes, 0);
    let rest = &bytes[scanned.end..];
    match rest {
        [] | [b'?', ..] if target_end(rest, 0) == rest.len() => {}
        [b'%', ..] => return Err(HeadError::BadPercentEncoding),
        _ => return Err(HeadError::BadTarget),
    }
    let start = target.start as usize;
    let (path_end, end) = (start + scanned.end, start + bytes.len());
    head.query = (path_end < end).then(|| Span::new(path_end + 1, end));
    head.path = Span::new(start, path_end);
    if !scanned.is_normal {
        head.path = append_normalised_within(head.path, &mut head.fields.bytes)?;
    }
    Ok(())
}

/// Normalising reads one buffer and writes another, so a path within the buffer is taken out first; few are not normal.
fn append_normalised_within(unchanged: Span, bytes: &mut Vec<u8>) -> Result<Span, HeadError> {
    let path = unchanged.of(bytes).to_vec();
    append_normalised(unchanged, &path, bytes)
}

fn append_normalised(unchanged: Span, path: &[u8], bytes: &mut Vec<u8>) -> Result<Span, HeadError> {
    let start = bytes.len();
    match path::normalise(path, bytes) {
        Normalised::Unchanged => Ok(unchanged),
        Normalised::Changed => Ok(Span::new(start, bytes.len())),
        Normalised::EscapesRoot => Err(HeadError::PathEscapesRoot),
        Normalised::DotsWithParameter => Err(HeadError::PathDotsWithParameter),
        Normalised::Bad => Err(HeadError::BadTarget),
    }
}

#[inline]
fn origin_form(window: &[u8], at: usize) -> Result<Target, Stop> {
    let scanned = path::scan(window, at);
    let span = Span::new(at, scanned.end);
    let path = if scanned.is_normal { Path::Normal(span) } else { Path::Raw(span) };
    match window.get(scanned.end) {
        Some(b'?') => {
            let end = target_end(window, scanned.end + 1);
            Ok(Target { authority: None, path, query: Some(Span::new(scanned.end + 1, end)), end })
        }
        Some(b'%') => Err(bad_escape(&window[scanned.end..])),
        _ => Ok(Target { authority: None, path, query: None, end: scanned.end }),
    }
}

/// A percent sign that does not start a valid escape, unless the input just ends in it.
fn bad_escape(rest: &[u8]) -> Stop {
    match rest {
        [b'%'] => Stop::NeedMore,
        [b'%', digit] if digit.is_ascii_hexdigit() => Stop::NeedMore,
        [_, b'\n', ..] | [_, _, b'\n', ..] => HeadError::BareLf.into(),
        _ => HeadError::BadPercentEncoding.into(),
    }
}

/// `host:port`, only with CONNECT; the port is part of the form.
fn authority_form(window: &[u8], at: usize) -> Result<Target, Stop> {
    let end = target_end(window, at);
    if end == window.len() {
        return Err(Stop::NeedMore);
    }
    if parse_authority(&window[at..end])?.port.is_none() {
        return Err(HeadError::BadAuthority.into());
    }
    Ok(Target { authority: Some((Span::new(at, end), None)), path: Path::Fixed(b""), query: None, end })
}

/// `http://host[:port][/path][?query]`.
fn absolute_form(window: &[u8], at: usize, method: Method) -> Result<Target, Stop> {
    let rest = &window[at..];
    let (scheme_len, default_port) = match scheme(rest) {
        Some(scheme) => scheme,
        None if target_end(rest, 0) == rest.len() && rest.len() < "https://".len() => return Err(Stop::NeedMore),
        None => return Err(HeadError::BadTarget.into()),
    };
    let start = at + scheme_len;
    let mut end = start;
    while end < window.len() && !matches!(window[end], b'/' | b'?' | b'#' | 0..=b' ' | 0x7f..) {
        end += 1;
    }
    if end == window.len() {
        return Err(Stop::NeedMore);
    }
    parse_authority(&window[start..end])?;
    let mut target = match window[end] {
        b'/' => origin_form(window, end)?,
        b'?' => {
            let query_end = target_end(window, end + 1);
            let query = Some(Span::new(end + 1, query_end));
            Target { authority: None, path: Path::Fixed(b"/"), query, end: query_end }
        }
        // RFC 9112 section 3.2.4: how a proxy is asked for the options of the whole server.
        _ if method == Method::Options => Target { authority: None, path: Path::Fixed(b"*"), query: None, end },
        _ => Target { authority: None, path: Path::Fixed(b"/"), query: None, end },
    };
    target.authority = Some((Span::new(start, end), Some(default_port)));
    Ok(target)
}

/// Length of `http://` or `https://` in any case, and the port it stands for.
fn scheme(rest: &[u8]) -> Option<(usize, u16)> {
    let starts_with = |scheme: &[u8]| rest.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if starts_with(b"http://") {
        Some((7, 80))
    } else if starts_with(b"https://") {
        Some((8, 443))
    } else {
        None
    }
}
