//! Heads as the cache is given them and as it keeps them, and the time. Parsing messages is the proxy's; here are only
//! the few ways of looking at field values that all of the cache shares. What directives mean is in `policy`.

use bytes::{Bytes, BytesMut};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A name, and a value without blanks around it. Names of answers are in lower case; those of requests may have any.
pub type Field<'a> = (&'a [u8], &'a [u8]);

/// Field lines of a head that is stored; one with more is not.
pub const FIELDS_MAX: usize = 256;
/// Names and values of a head that is stored; one with more is not.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// The end of the year 9999, beyond which there are no HTTP dates.
const DATE_SECONDS_MAX: u64 = 253_402_300_799;

/// The time, as the caller's clocks show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Seconds since 1970 by a clock that never jumps: the wall clock when the program started, plus the monotonic time
    /// since. How long an answer has been here is told by it, so that a corrected wall clock neither ages nor refreshes
    /// the cache.
    pub seconds: u64,
    /// Only compared with dates that others sent, and kept in files.
    pub wall: SystemTime,
}

impl Now {
    /// Both clocks at that many seconds since 1970.
    pub fn at(seconds: u64) -> Now {
        let wall = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH);
        Now { seconds, wall }
    }

    /// The wall clock as a field says it. A clock that is outside what dates can express shows the nearest one that is
    /// not.
    pub fn http_date(self) -> String {
        let seconds = self.wall_seconds().min(DATE_SECONDS_MAX);
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    pub fn wall_seconds(self) -> u64 {
        unix_seconds(self.wall)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    pub method: &'a [u8],
    pub fields: &'a [Field<'a>],
    /// Whether its client has said or shown who it is, where no `Authorization` among the fields says so.
    pub has_credentials: bool,
}

impl<'a> RequestHead<'a> {
    pub fn new(method: &'a [u8], fields: &'a [Field<'a>]) -> RequestHead<'a> {
        RequestHead { method, fields, has_credentials: false }
    }

    /// Whether an answer to it is for its client alone, as long as the answer does not say otherwise (RFC 9111 section
    /// 3.5).
    pub fn is_authorized(&self) -> bool {
        self.has_credentials || has(self.fields, "authorization")
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    pub status: u16,
    pub fields: &'a [Field<'a>],
}

/// A response head that the cache owns. All names and values are parts of one buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHead {
    pub status: u16,
    fields: Box<[(Bytes, Bytes)]>,
    bytes: usize,
}

impl StoredHead {
    /// `None` when there are more than [`FIELDS_MAX`] fields or [`HEAD_BYTES_MAX`] bytes.
    pub fn new<'a>(status: u16, fields: impl Iterator<Item = Field<'a>>) -> Option<StoredHead> {
        let mut buffer = BytesMut::new();
        let mut spans = Vec::new();
        for (name, value) in fields {
            if spans.len() == FIELDS_MAX || buffer.len() + name.len() + value.len() > HEAD_BYTES_MAX {
                return None;
            }
            buffer.extend_from_slice(name);
            let middle = buffer.len();
            buffer.extend_from_slice(value);
            spans.push((middle - name.len(), middle, buffer.len()));
        }
        // A copy of the exact size: what the buffer grew beyond it would be memory that nobody counts.
        let buffer = Bytes::copy_from_slice(&buffer);
        let slices = spans.iter().map(|&(start, middle, end)| (buffer.slice(start..middle), buffer.slice(middle..end)));
        Some(StoredHead { status, fields: slices.collect(), bytes: buffer.len() })
    }

    pub fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        self.fields.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// The first value of that name.
    pub fn get(&self, name: &str) -> Option<&Bytes> {
        self.fields.iter().find(|field| field.0 == name.as_bytes()).map(|field| &field.1)
    }

    /// Memory that this head takes.
    pub fn bytes(&self) -> usize {
        self.bytes + self.fields.len() * size_of::<(Bytes, Bytes)>()
    }
}

/// All values of that name, in the order they came.
pub fn values<'a>(fields: &'a [Field<'a>], name: &'static str) -> impl Iterator<Item = &'a [u8]> + Clone {
    fields.iter().filter(move |field| field.0.eq_ignore_ascii_case(name.as_bytes())).map(|field| field.1)
}

pub fn has(fields: &[Field<'_>], name: &'static str) -> bool {
    values(fields, name).next().is_some()
}

/// A field that may be there once. Lines that say the same count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sole<'a> {
    Absent,
    One(&'a [u8]),
    Conflicting,
}

pub fn sole<'a>(fields: &'a [Field<'a>], name: &'static str) -> Sole<'a> {
    let mut values = values(fields, name);
    match values.next() {
        None => Sole::Absent,
        Some(first) if values.all(|other| other == first) => Sole::One(first),
        Some(_) => Sole::Conflicting,
    }
}

/// Members of comma-separated lists, trimmed, without empty ones. Commas within quotes do not separate.
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    value
        .split(move |&byte| {
            if is_escaped {
                is_escaped = false;
                return false;
            }
            is_escaped = is_quoted && byte == b'\\';
            is_quoted ^= byte == b'"';
            byte == b',' && !is_quoted
        })
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

/// An HTTP date in any of its three forms, in seconds since 1970. Letters may be large or small (RFC 9111 section 4.2),
/// and the day of the week may be another one: whoever writes it by hand gets it wrong, and nothing depends on it.
pub fn date_seconds(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    if let Ok(date) = httpdate::parse_http_date(text) {
        return Some(unix_seconds(date));
    }
    let end = text.bytes().position(|byte| !byte.is_ascii_alphabetic())?;
    let (weekday, rest) = text.split_at(end);
    WEEKDAYS.iter().find(|name| name.eq_ignore_ascii_case(weekday) || name[..3].eq_ignore_ascii_case(weekday))?;
    let rest = in_usual_case(rest);
    WEEKDAYS.iter().find_map(|name| {
        let name = if weekday.len() == 3 { &name[..3] } else { name };
        httpdate::parse_http_date(&format!("{name}{rest}")).ok().map(unix_seconds)
    })
}

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Words of a date behind its day of the week with the letters large that are: `06 Nov 1994`, `GMT`.
fn in_usual_case(text: &str) -> String {
    let mut begins = true;
    let changed = text.chars().map(|letter| {
        let changed = if begins { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
        begins = !letter.is_ascii_alphabetic();
        changed
    });
    changed.collect::<String>().replace("Gmt", "GMT")
}

pub fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::{FIELDS_MAX, HEAD_BYTES_MAX, Now, StoredHead, date_seconds, members};

    #[test]
    fn commas_in_quotes_do_not_separate() {
        let check = |value: &str, expected: &[&str]| {
            let found: Vec<_> = members(value.as_bytes()).map(|member| std::str::from_utf8(member).unwrap()).collect();
            assert_eq!(found, expected, "{value}");
        };
        check("a, b", &["a", "b"]);
        check(" ,a,,\tb ,", &["a", "b"]);
        check("a=\"x, y\", b", &["a=\"x, y\"", "b"]);
        check("a=\"x\\\", y\", b", &["a=\"x\\\", y\"", "b"]);
        check("a=\"x, b", &["a=\"x, b"]);
        check("", &[]);
    }

    #[test]
    fn a_head_beyond_its_bounds_is_not_stored() {
        let field: (&[u8], &[u8]) = (b"a", b"b");
        assert!(StoredHead::new(200, std::iter::repeat_n(field, FIELDS_MAX)).is_some());
        assert!(StoredHead::new(200, std::iter::repeat_n(field, FIELDS_MAX + 1)).is_none());
        let long = vec![b'x'; HEAD_BYTES_MAX];
        assert!(StoredHead::new(200, std::iter::once((&b"a"[..], &long[..]))).is_none());
        assert!(StoredHead::new(200, std::iter::once((&b"a"[..], &long[1..]))).is_some());
    }

    #[test]
    fn a_clock_that_is_far_off_still_makes_a_date() {
        assert_eq!(Now::at(784_111_777).http_date(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(Now::at(1 << 40).http_date(), "Fri, 31 Dec 9999 23:59:59 GMT");
        let before = std::time::UNIX_EPOCH - std::time::Duration::from_secs(5);
        assert_eq!(Now { seconds: 0, wall: before }.http_date(), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn dates_are_read_in_their_three_forms_and_nothing_else() {
        let check = |value: &str, expected: Option<u64>| assert_eq!(date_seconds(value.as_bytes()), expected, "{value}");
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check("Sun Nov  6 08:49:37 1994", Some(784_111_777));
        check("sun, 06 nov 1994 08:49:37 gmt", Some(784_111_777));
        check("SUN, 06 NOV 1994 08:49:37 GMT", Some(784_111_777));
        check("Mon, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("MONDAY, 06-NOV-94 08:49:37 gmt", Some(784_111_777));
        check("sat nov  6 08:49:37 1994", Some(784_111_777));
        for refused in [
            "",
            "0",
            "-1",
            "Mon",
            "Foo, 06 Nov 1994 08:49:37 GMT",
            "Mon, 31 Feb 1994 08:49:37 GMT",
            "Mon, 06 Nov 1994 25:49:37 GMT",
            "now",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "1994-11-06T08:49:37Z",
        ] {
            check(refused, None);
        }
    }
}
