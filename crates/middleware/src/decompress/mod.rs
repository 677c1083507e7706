//! `decompress`: bodies of requests are decoded before they go on. Whether one is, and what its head says then, is
//! decided here; the codecs are in the crate `coding`, and bodies go through them in `proxy`.

use tidegate_wire::head::{HeaderId, RequestHead};

/// The only coding of the body, in the letters that the client used. `None`: it has none, or several, which are left to
/// the upstream.
pub fn sole_coding(request: &RequestHead) -> Option<&[u8]> {
    let mut codings = request.fields.all(HeaderId::ContentEncoding).flat_map(|line| line.split(|byte| *byte == b','));
    let first = codings.next().map(<[u8]>::trim_ascii)?;
    codings.next().is_none().then_some(first)
}

/// Makes the head that of the decoded body, whose length nobody knows.
pub fn settle(request: &mut RequestHead) {
    for gone in [&b"content-encoding"[..], b"content-length", b"content-md5", b"content-digest", b"digest"] {
        request.fields.remove(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::{settle, sole_coding};
    use crate::fixtures::{lines, request};

    #[test]
    fn one_coding_is_decoded_and_several_are_left() {
        let check = |fields: &[&str], expected: Option<&str>| {
            let head = request("/", "a.test", fields);
            assert_eq!(sole_coding(&head), expected.map(str::as_bytes), "{fields:?}");
        };
        check(&[], None);
        check(&["Content-Encoding: gzip"], Some("gzip"));
        check(&["Content-Encoding:  BR "], Some("BR"));
        check(&["Content-Encoding: gzip, br"], None);
        check(&["Content-Encoding: gzip", "Content-Encoding: br"], None);
    }

    #[test]
    fn what_was_said_of_the_coded_body_is_gone() {
        let mut head = request("/", "a.test", &["Content-Encoding: gzip", "Content-Length: 9", "Digest: x", "A: b"]);
        settle(&mut head);
        assert_eq!(lines(&head.fields), ["A: b"]);
    }
}
