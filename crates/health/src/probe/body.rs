//! Whether the body of an answer is the one that was expected. Pure; who reads it, and how much of it, is in `http`.

use crate::fault::ProbeFault;
use tidegate_model::{TextPattern, expression};

/// No more of a body is looked at. A page that says whether a server is well is far smaller.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// White space around a body is not looked at, because most end with a line end; a regular expression sees everything.
pub fn check_body(expect: &TextPattern, body: &[u8]) -> Result<(), ProbeFault> {
    let text = body.trim_ascii();
    let is_expected = match expect {
        TextPattern::Present => !text.is_empty(),
        TextPattern::Exact(exact) => text == exact.trim_ascii().as_bytes(),
        TextPattern::Prefix(prefix) => text.starts_with(prefix.as_bytes()),
        TextPattern::Suffix(suffix) => text.ends_with(suffix.as_bytes()),
        // Compiled for each check, which keeps nothing in memory for each server. That it compiles is known from the
        // configuration.
        TextPattern::Regex(regex) => {
            expression(regex).build().map_err(|error| ProbeFault::Request { why: error.to_string() })?.is_match(body)
        }
    };
    if is_expected { Ok(()) } else { Err(ProbeFault::Body { expect: expect.clone() }) }
}

#[cfg(test)]
mod tests {
    use super::check_body;
    use tidegate_model::TextPattern;

    #[track_caller]
    fn check(expect: &TextPattern, body: &[u8], is_expected: bool) {
        assert_eq!(check_body(expect, body).is_ok(), is_expected, "{expect:?} for {:?}", body.escape_ascii().to_string());
    }

    #[test]
    fn a_body_is_compared_without_the_white_space_around_it() {
        let exact = TextPattern::Exact("ok".into());
        check(&exact, b"ok", true);
        check(&exact, b" ok\r\n", true);
        check(&exact, b"okay", false);
        check(&exact, b"", false);
        check(&TextPattern::Prefix("ok".into()), b"\nokay", true);
        check(&TextPattern::Prefix("ok".into()), b"not ok", false);
        check(&TextPattern::Suffix("ok".into()), b"not ok\n", true);
        check(&TextPattern::Suffix("ok".into()), b"okay", false);
        check(&TextPattern::Present, b"x", true);
        check(&TextPattern::Present, b" \n", false);
        let regex = TextPattern::Regex("\"status\": *\"(up|ok)\"".into());
        check(&regex, b"{\"status\": \"up\"}", true);
        check(&regex, b"{\"status\": \"down\"}", false);
        check(&TextPattern::Regex("^ok\n$".into()), b"ok\n", true);
        check(&TextPattern::Regex("ok".into()), b"\xff\xfe ok \xff", true);
        check(&TextPattern::Regex("(".into()), b"(", false);
    }
}
