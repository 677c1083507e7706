//! Where a browser is sent to log in, and where it returns to: only ever to the site that it asked.

use super::question::QuestionOf;
use tidegate_model::SignIn;
use tidegate_wire::head::{HeaderId, RequestHead};
use tidegate_wire::percent;

/// Whether a browser would show what it is redirected to. Scripts, tunnels and calls of gRPC cannot log in, and would
/// take the page of a log-in for their answer. Of clients that do not say (older ones, programs) a redirect is what
/// nginx and Traefik give them.
pub(super) fn is_navigation(head: &RequestHead) -> bool {
    let fields = &head.fields;
    let says = |name: &[u8], value: &[u8]| fields.all_named(name).any(|said| said.eq_ignore_ascii_case(value));
    let mode = fields.all_named(b"sec-fetch-mode").next();
    let is_of_script = says(b"x-requested-with", b"XMLHttpRequest")
        || mode.is_some_and(|mode| !mode.eq_ignore_ascii_case(b"navigate"))
        || fields.all_named(b"sec-websocket-version").next().is_some();
    !is_of_script && !fields.is_grpc() && !accepts_no_page(fields.get(HeaderId::Accept))
}

/// A client that says which kinds of answers it takes, and no page among them.
fn accepts_no_page(accept: Option<&[u8]>) -> bool {
    let Some(accept) = accept else { return false };
    let kinds = accept.split(|byte| *byte == b',').map(|kind| kind.split(|byte| *byte == b';').next().unwrap_or_default());
    !kinds.map(<[u8]>::trim_ascii).any(|kind| {
        [&b"text/html"[..], b"application/xhtml+xml", b"text/*", b"*/*"].iter().any(|page| kind.eq_ignore_ascii_case(page))
    })
}

/// The address of the log-in, which says where to return to: for one on the site itself path and query alone, which
/// servers take for their own without being told which hosts are; for another the whole URL.
pub(super) fn location(sign_in: &SignIn, of: &QuestionOf<'_>) -> Vec<u8> {
    let SignIn { url, redirect_param } = sign_in;
    let (url, fragment) = url.split_at(url.find('#').unwrap_or(url.len()));
    let mut location = url.as_bytes().to_vec();
    location.push(if url.contains('?') { b'&' } else { b'?' });
    location.extend_from_slice(redirect_param.as_bytes());
    location.push(b'=');
    if !url.starts_with('/') {
        for piece in [of.scheme, b"://", of.authority] {
            percent::encode(piece, &mut location);
        }
    }
    // A browser takes `//host` and `/\host` for another host's address.
    let slashes = of.path.iter().take_while(|byte| matches!(byte, b'/' | b'\\')).count();
    percent::encode(b"/", &mut location);
    percent::encode(&of.path[slashes..], &mut location);
    if let Some(query) = of.query {
        percent::encode(b"?", &mut location);
        percent::encode(query, &mut location);
    }
    location.extend_from_slice(fragment.as_bytes());
    location
}
