//! What a client gets of a stored answer: the whole, a part, or word that it has it already (RFC 9110 sections 13.2.2
//! and 14.2, RFC 9111 section 4.3.2). Conditions that are the upstream's to judge, `If-Match` and
//! `If-Unmodified-Since`, never come here.

use crate::message::{RequestHead, Sole, StoredHead, date_seconds, has, members, sole, values};

/// Fields that a 304 does not repeat (RFC 9110 section 15.4.5).
const NOT_IN_304: [&[u8]; 6] =
    [b"content-encoding", b"content-language", b"content-length", b"content-range", b"content-type", b"last-modified"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Whole,
    /// 304: the stored head without the fields that [`is_in_304`] refuses, and no body.
    NotModified,
    /// 206 with `Content-Range: bytes first-last/length`.
    Part {
        first: u64,
        last: u64,
    },
    /// 416 with `Content-Range: bytes */length`.
    NotSatisfiable,
}

/// `length` is that of the stored body; without one, ranges are not answered, which a server is free to do.
pub fn answer(request: RequestHead<'_>, stored: &StoredHead, length: Option<u64>) -> Answer {
    if stored.status != 200 {
        return Answer::Whole;
    }
    if is_not_modified(request, stored) {
        return Answer::NotModified;
    }
    match length {
        Some(length) if request.method == b"GET" && applies(request, stored) => range(request, length),
        Some(_) | None => Answer::Whole,
    }
}

/// Whether the stored field goes into a 304.
pub fn is_in_304(name: &[u8], stored: &StoredHead) -> bool {
    // Without a tag, the date is the only validator that there is.
    !NOT_IN_304.contains(&name) || (name == b"last-modified" && stored.get("etag").is_none())
}

/// Two entity tags that are the same but for being weak (RFC 9110 section 8.8.3.2).
pub fn weakly_equal(one: &[u8], other: &[u8]) -> bool {
    one.strip_prefix(b"W/").unwrap_or(one) == other.strip_prefix(b"W/").unwrap_or(other)
}

fn is_not_modified(request: RequestHead<'_>, stored: &StoredHead) -> bool {
    // With If-None-Match, the date is not looked at, whatever becomes of the tags.
    if has(request.fields, "if-none-match") {
        let tag = stored.get("etag");
        return values(request.fields, "if-none-match")
            .flat_map(members)
            .any(|asked| asked == b"*" || tag.is_some_and(|tag| weakly_equal(asked, tag)));
    }
    let Sole::One(since) = sole(request.fields, "if-modified-since") else { return false };
    let modified = stored.get("last-modified").or_else(|| stored.get("date")).and_then(|date| date_seconds(date));
    date_seconds(since).zip(modified).is_some_and(|(since, modified)| modified <= since)
}

/// Whether `If-Range` allows a part; it takes strong validators only (RFC 9110 section 13.1.5).
fn applies(request: RequestHead<'_>, stored: &StoredHead) -> bool {
    match sole(request.fields, "if-range") {
        Sole::Absent => true,
        Sole::Conflicting => false,
        Sole::One(tag) if tag.starts_with(b"\"") => stored.get("etag").is_some_and(|ours| ours == tag),
        Sole::One(date) => {
            let of = |name| stored.get(name).and_then(|date| date_seconds(date));
            // A date is strong once a second has passed (RFC 9110 section 8.8.2.2).
            let is_strong = of("last-modified").zip(of("date")).is_some_and(|(modified, made)| modified < made);
            is_strong && stored.get("last-modified").is_some_and(|ours| ours == date)
        }
    }
}

/// One range; of several, and of what is malformed, the whole is served.
fn range(request: RequestHead<'_>, length: u64) -> Answer {
    let Sole::One(value) = sole(request.fields, "range") else { return Answer::Whole };
    let Some((unit, set)) = value.split_at_checked(6) else { return Answer::Whole };
    let set = set.trim_ascii();
    let Some(dash) = set.iter().position(|byte| *byte == b'-') else { return Answer::Whole };
    let (first, last) = (&set[..dash], &set[dash + 1..]);
    let is_single = unit.eq_ignore_ascii_case(b"bytes=") && [first, last].iter().all(|end| end.iter().all(u8::is_ascii_digit));
    match (is_single, number(first), number(last)) {
        (false, _, _) | (_, None, None) => Answer::Whole,
        (true, Some(first), Some(last)) if last < first => Answer::Whole,
        (true, Some(first), _) if first >= length => Answer::NotSatisfiable,
        (true, Some(first), last) => Answer::Part { first, last: last.unwrap_or(u64::MAX).min(length - 1) },
        (true, None, Some(0)) => Answer::NotSatisfiable,
        (true, None, Some(_)) if length == 0 => Answer::NotSatisfiable,
        (true, None, Some(suffix)) => Answer::Part { first: length.saturating_sub(suffix), last: length - 1 },
    }
}

/// `None` if there are no digits; what is too large is as good as the largest.
fn number(digits: &[u8]) -> Option<u64> {
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then(|| digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests;
