//! Conditional requests in the order of RFC 9110 section 13.2.2. What a range selects is read in `range`.

use crate::ask::{Ask, Method};
use crate::refused::Refused;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second that a date of HTTP can name: the end of year 9999.
const SECONDS_MAX: u64 = 253_402_300_799;

/// What a client may remember a representation by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Validators {
    /// Strong, with its quotes.
    pub etag: String,
    /// In whole seconds and never later than now, which section 8.8.2.1 demands.
    pub last_modified: SystemTime,
    /// Whether the second of `last_modified` is over. Before that the file may change again without its date (section
    /// 8.8.2.2).
    pub is_date_strong: bool,
}

impl Validators {
    /// `modified_seconds` since 1970 are what the file system says, and may be any number.
    pub fn new(etag: String, modified_seconds: i64, now: SystemTime) -> Validators {
        let now_seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()).min(SECONDS_MAX);
        let seconds = u64::try_from(modified_seconds).unwrap_or(0).min(now_seconds);
        Validators { etag, last_modified: UNIX_EPOCH + Duration::from_secs(seconds), is_date_strong: seconds < now_seconds }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// To be sent, and only in part when the request has a range.
    Send {
        may_be_partial: bool,
    },
    NotModified,
}

/// Decides for a representation that exists.
pub(crate) fn evaluate(ask: &Ask, validators: &Validators) -> Result<Verdict, Refused> {
    let is_unchanged = match (ask.if_match, ask.if_unmodified_since.and_then(date)) {
        (Some(list), _) => lists(list, &validators.etag, Comparison::Strong),
        (None, Some(since)) => validators.last_modified <= since,
        (None, None) => true,
    };
    if !is_unchanged {
        return Err(Refused::PreconditionFailed);
    }
    let is_known = match (ask.if_none_match, ask.if_modified_since.and_then(date)) {
        (Some(list), _) => lists(list, &validators.etag, Comparison::Weak),
        (None, Some(since)) => validators.last_modified <= since,
        (None, None) => false,
    };
    if is_known {
        return Ok(Verdict::NotModified);
    }
    // Section 14.2: a range means something for GET only.
    let may_be_partial = ask.method == Method::Get && ask.if_range.is_none_or(|value| is_same(value, validators));
    Ok(Verdict::Send { may_be_partial })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Whether a list of entity tags contains ours. What follows a malformed one is not looked at.
fn lists(list: &[u8], etag: &str, comparison: Comparison) -> bool {
    let mut rest = list.trim_ascii();
    if rest == b"*" {
        return true;
    }
    loop {
        while let [b',' | b' ' | b'\t', after @ ..] = rest {
            rest = after;
        }
        let Some((tag, after)) = Tag::parse(rest) else { return false };
        if tag.quoted == etag.as_bytes() && !(tag.is_weak && comparison == Comparison::Strong) {
            return true;
        }
        rest = after;
    }
}

struct Tag<'a> {
    is_weak: bool,
    quoted: &'a [u8],
}

impl Tag<'_> {
    /// The tag at the start of `text`, and what follows it.
    fn parse(text: &[u8]) -> Option<(Tag<'_>, &[u8])> {
        let (is_weak, quoted) = text.strip_prefix(b"W/").map_or((false, text), |quoted| (true, quoted));
        let opaque = quoted.strip_prefix(b"\"")?;
        let end = opaque.iter().position(|byte| *byte == b'"')? + 2;
        Some((Tag { is_weak, quoted: &quoted[..end] }, &quoted[end..]))
    }
}

/// Whether the value of `If-Range` names exactly this representation (section 13.1.5).
fn is_same(value: &[u8], validators: &Validators) -> bool {
    let value = value.trim_ascii();
    match Tag::parse(value) {
        Some((tag, b"")) => !tag.is_weak && tag.quoted == validators.etag.as_bytes(),
        Some(_) => false,
        None => validators.is_date_strong && date(value) == Some(validators.last_modified),
    }
}

/// A date in one of the three forms of section 5.6.7; what is none is ignored wherever one is allowed.
fn date(value: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(str::from_utf8(value).ok()?.trim_ascii()).ok()
}

#[cfg(test)]
mod tests {
    use super::{Validators, Verdict, evaluate};
    use crate::ask::{Ask, Method};
    use crate::refused::Refused;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    const BEFORE: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";
    /// 784111777 seconds after 1970.
    const MODIFIED: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &[u8] = b"Sun, 06 Nov 1994 08:49:38 GMT";
    const WHOLE: Result<Verdict, Refused> = Ok(Verdict::Send { may_be_partial: false });
    const SEND: Result<Verdict, Refused> = Ok(Verdict::Send { may_be_partial: true });
    const NOT_MODIFIED: Result<Verdict, Refused> = Ok(Verdict::NotModified);
    const FAILED: Result<Verdict, Refused> = Err(Refused::PreconditionFailed);

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn validators() -> Validators {
        Validators::new("\"a\"".into(), 784_111_777, at(800_000_000))
    }

    fn check(ask: Ask, expected: Result<Verdict, Refused>) {
        assert_eq!(evaluate(&ask, &validators()), expected, "{ask:?}");
    }

    fn get() -> Ask<'static> {
        Ask::new(Method::Get, b"/")
    }

    #[test]
    fn without_conditions_a_file_is_sent() {
        check(get(), SEND);
        check(Ask { method: Method::Head, ..get() }, WHOLE);
    }

    #[test]
    fn if_match_compares_strongly() {
        let check = |list: &str, expected| check(Ask { if_match: Some(list.as_bytes()), ..get() }, expected);
        check("\"a\"", SEND);
        check("*", SEND);
        check(" * ", SEND);
        check("\"x\", \"a\"", SEND);
        check("\"x,\\\",,\"a\"", SEND);
        check("W/\"a\"", FAILED);
        check("\"b\"", FAILED);
        check("", FAILED);
        check("a", FAILED);
        check("\"a", FAILED);
        check("x, \"a\"", FAILED);
        check("*, \"b\"", FAILED);
    }

    #[test]
    fn if_none_match_compares_weakly() {
        let check = |list: &str, expected| check(Ask { if_none_match: Some(list.as_bytes()), ..get() }, expected);
        check("\"a\"", NOT_MODIFIED);
        check("W/\"a\"", NOT_MODIFIED);
        check("\"x\",W/\"y\",\"a\"", NOT_MODIFIED);
        check("*", NOT_MODIFIED);
        check("\"b\"", SEND);
        check("w/\"a\"", SEND);
        check("a", SEND);
    }

    #[test]
    fn dates_count_to_the_second() {
        let modified = |date, expected| check(Ask { if_modified_since: Some(date), ..get() }, expected);
        modified(BEFORE, SEND);
        modified(MODIFIED, NOT_MODIFIED);
        modified(AFTER, NOT_MODIFIED);
        modified(b"Sunday, 06-Nov-94 08:49:37 GMT", NOT_MODIFIED);
        modified(b"Sun Nov  6 08:49:37 1994", NOT_MODIFIED);
        modified(b"yesterday", SEND);
        modified(b"\xff", SEND);
        let unmodified = |date, expected| check(Ask { if_unmodified_since: Some(date), ..get() }, expected);
        unmodified(BEFORE, FAILED);
        unmodified(MODIFIED, SEND);
        unmodified(AFTER, SEND);
        unmodified(b"yesterday", SEND);
    }

    #[test]
    fn tags_come_before_dates_and_failing_before_knowing() {
        check(Ask { if_match: Some(b"\"a\""), if_unmodified_since: Some(BEFORE), ..get() }, SEND);
        check(Ask { if_match: Some(b"\"b\""), if_unmodified_since: Some(AFTER), ..get() }, FAILED);
        check(Ask { if_none_match: Some(b"\"b\""), if_modified_since: Some(AFTER), ..get() }, SEND);
        check(Ask { if_none_match: Some(b"\"a\""), if_modified_since: Some(BEFORE), ..get() }, NOT_MODIFIED);
        check(Ask { if_match: Some(b"\"b\""), if_none_match: Some(b"\"a\""), ..get() }, FAILED);
        check(Ask { if_match: Some(b"\"a\""), if_none_match: Some(b"\"a\""), ..get() }, NOT_MODIFIED);
        check(Ask { if_unmodified_since: Some(BEFORE), if_none_match: Some(b"\"a\""), ..get() }, FAILED);
        check(Ask { if_none_match: Some(b"\"a\""), if_range: Some(b"\"a\""), ..get() }, NOT_MODIFIED);
    }

    #[test]
    fn if_range_needs_exactly_this_representation() {
        let check = |value, expected| check(Ask { if_range: Some(value), ..get() }, expected);
        check(b"\"a\"", SEND);
        check(b"W/\"a\"", WHOLE);
        check(b"\"b\"", WHOLE);
        check(b"\"a\", \"b\"", WHOLE);
        check(b"*", WHOLE);
        check(MODIFIED, SEND);
        check(BEFORE, WHOLE);
        check(AFTER, WHOLE);
        check(b"", WHOLE);
    }

    #[test]
    fn a_date_within_its_own_second_is_no_strong_validator() {
        let check = |now: SystemTime, expected| {
            let validators = Validators::new("\"a\"".into(), 784_111_777, now);
            assert_eq!(evaluate(&Ask { if_range: Some(MODIFIED), ..get() }, &validators), expected);
        };
        check(at(784_111_777) + Duration::from_millis(999), WHOLE);
        check(at(784_111_778), SEND);
    }

    #[test]
    fn dates_of_files_become_dates_that_http_can_name() {
        let check = |modified: i64, now: SystemTime, expected: u64| {
            assert_eq!(Validators::new(String::new(), modified, now).last_modified, at(expected));
        };
        check(1000, at(2000), 1000);
        check(3000, at(2000), 2000);
        check(-1, at(2000), 0);
        check(i64::MIN, at(2000), 0);
        check(i64::MAX, at(i64::MAX as u64), 253_402_300_799);
        check(5, UNIX_EPOCH - Duration::from_secs(5), 0);
    }

    #[test]
    fn no_header_panics() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|value: &Vec<u8>| {
            let ask = Ask { if_none_match: Some(value), if_unmodified_since: Some(value), if_range: Some(value), ..get() };
            let _ = evaluate(&ask, &validators());
            let _ = evaluate(&Ask { if_match: Some(value), if_modified_since: Some(value), ..get() }, &validators());
        });
    }
}
