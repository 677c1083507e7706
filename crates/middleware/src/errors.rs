//! Answers that the proxy makes itself: a status line and one sentence that says why, with the code that the log and
//! metrics repeat. Pages that an administrator writes are steps (`respond`), not these.

use tidegate_wire::head::ResponseHead;
use tidegate_wire::reason_phrase;

/// Writes a plain text answer into `head` and returns its body, which is kept in `buffer`.
///
/// `sentence` says what happened ("no route matches this request"), `code` is the reason in log and metrics
/// (`no_route`). Neither may hold text from the request. The caller frames the body, and adds `Connection: close` where
/// the connection cannot go on.
pub fn error_answer<'a>(status: u16, sentence: &str, code: &str, head: &mut ResponseHead, buffer: &'a mut Vec<u8>) -> &'a [u8] {
    begin_answer(status, head);
    head.fields.push(b"content-type", PLAIN_TEXT);
    buffer.clear();
    write_status(status, buffer);
    for piece in ["\n", sentence, " (", code, ")\n"] {
        buffer.extend_from_slice(piece.as_bytes());
    }
    buffer
}

pub(crate) const PLAIN_TEXT: &[u8] = b"text/plain; charset=utf-8";

/// Empties `head` and gives it a status with its standard reason phrase.
pub fn begin_answer(status: u16, head: &mut ResponseHead) {
    head.clear();
    head.status = status;
    head.reason = head.fields.append(&[reason_phrase(status).as_bytes()]);
}

/// `404 Not Found`
pub(crate) fn write_status(status: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    let reason = reason_phrase(status);
    if !reason.is_empty() {
        out.push(b' ');
        out.extend_from_slice(reason.as_bytes());
    }
}

/// RFC 9110 section 15.1: an answer to these ends with its head.
pub(crate) fn has_no_body(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

#[cfg(test)]
mod tests {
    use super::error_answer;
    use tidegate_wire::head::ResponseHead;
    use tidegate_wire::reason_phrase;

    #[test]
    fn an_error_says_what_happened_and_its_code() {
        let check = |status: u16, sentence: &str, code: &str, expected_body: &str| {
            let (mut head, mut buffer) = (ResponseHead::default(), b"left over".to_vec());
            head.fields.push(b"x-left", b"over");
            let body = error_answer(status, sentence, code, &mut head, &mut buffer);
            assert_eq!(body, expected_body.as_bytes());
            assert_eq!((head.status, head.reason()), (status, reason_phrase(status).as_bytes()));
            let fields: Vec<_> = head.fields.iter().collect();
            assert_eq!(fields, [(b"content-type".as_slice(), b"text/plain; charset=utf-8".as_slice())]);
        };
        check(404, "no route matches this request", "no_route", "404 Not Found\nno route matches this request (no_route)\n");
        check(
            503,
            "no server of the pool is up",
            "no_server",
            "503 Service Unavailable\nno server of the pool is up (no_server)\n",
        );
        check(499, "the client went away", "client_gone", "499\nthe client went away (client_gone)\n");
    }
}
