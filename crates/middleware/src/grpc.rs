//! Refusals as clients of gRPC read them. Their library looks for `grpc-status`, and takes an answer of HTTP without it
//! for a broken server: what it shows is guessed from the status, and the sentence is lost. Which requests are calls of
//! gRPC says `Fields::is_grpc`.

use tidegate_wire::head::{HeaderId, ResponseHead};
use tidegate_wire::reason_phrase;

/// The status of gRPC that a client's library makes of one of HTTP, by its own document "HTTP to gRPC Status Code
/// Mapping"; Envoy answers so, too.
fn grpc_status(http: u16) -> &'static [u8] {
    match http {
        // INTERNAL: the request was malformed, which no caller of a library can help.
        400 => b"13",
        // UNAUTHENTICATED
        401 => b"16",
        // PERMISSION_DENIED
        403 => b"7",
        // UNIMPLEMENTED
        404 => b"12",
        // UNAVAILABLE: the call may be made again.
        429 | 502..=504 => b"14",
        // UNKNOWN
        _ => b"2",
    }
}

/// Makes of the head of a refusal, with its fields and what steps have added, the whole answer of a call: "Trailers-
/// Only", one head with status 200 that ends the stream. `sentence` and `code` are those of
/// [`error_answer`](crate::error_answer).
pub fn become_grpc(sentence: &str, code: &str, head: &mut ResponseHead) {
    let status = grpc_status(head.status);
    head.status = 200;
    head.reason = head.fields.append(&[reason_phrase(200).as_bytes()]);
    for id in [HeaderId::ContentType, HeaderId::ContentLength] {
        head.fields.remove_id(id);
    }
    for name in ["grpc-status", "grpc-message"] {
        head.fields.remove(name.as_bytes());
    }
    head.fields.push_id(HeaderId::ContentType, b"application/grpc");
    head.fields.push(b"grpc-status", status);
    let mut message = Vec::with_capacity(sentence.len() + code.len() + 3);
    for piece in [sentence, " (", code, ")"] {
        percent_encode(piece, &mut message);
    }
    head.fields.push(b"grpc-message", &message);
}

/// As `grpc-message` has it: what is no visible ASCII, and `%` itself.
fn percent_encode(text: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        match byte {
            b'%' | ..b' ' | 0x7f.. => {
                out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]]);
            }
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::become_grpc;
    use crate::errors::begin_answer;
    use tidegate_wire::head::{HeaderId, ResponseHead};

    #[test]
    fn a_refusal_has_the_status_of_grpc_that_belongs_to_its_own() {
        let check = |http: u16, expected: &str| {
            let mut head = ResponseHead::default();
            begin_answer(http, &mut head);
            become_grpc("why", "code", &mut head);
            let seen = head.fields.all_named(b"grpc-status").next().map(String::from_utf8_lossy);
            assert_eq!((head.status, head.reason(), seen.as_deref()), (200, b"OK".as_slice(), Some(expected)), "{http}");
        };
        for (http, expected) in [(400, "13"), (401, "16"), (403, "7"), (404, "12"), (429, "14"), (502, "14"), (503, "14")] {
            check(http, expected);
        }
        for (http, expected) in [(504, "14"), (405, "2"), (408, "2"), (412, "2"), (413, "2"), (421, "2"), (431, "2")] {
            check(http, expected);
        }
        for (http, expected) in [(500, "2"), (501, "2"), (507, "2"), (418, "2")] {
            check(http, expected);
        }
    }

    #[test]
    fn fields_of_the_refusal_stay_and_those_of_its_text_go() {
        let mut head = ResponseHead::default();
        begin_answer(429, &mut head);
        head.fields.push(b"content-type", b"text/plain");
        head.fields.push(b"content-length", b"7");
        head.fields.push(b"grpc-status", b"0");
        head.fields.push(b"retry-after", b"2");
        become_grpc("100 % at\n once \u{e4}", "rate_limited", &mut head);
        let fields: Vec<_> = head.fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        let expected = [
            ("retry-after", "2"),
            ("content-type", "application/grpc"),
            ("grpc-status", "14"),
            ("grpc-message", "100 %25 at%0A once %C3%A4 (rate_limited)"),
        ];
        assert_eq!(fields, expected.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())));
        assert!(!head.fields.has(HeaderId::ContentLength));
    }
}
