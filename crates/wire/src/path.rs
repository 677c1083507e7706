//! One form for every path, so that what a route matches is what the upstream is sent (RFC 3986 section 6.2.2).
//! Only what cannot change the meaning is changed. Where a target comes from is in `http1`.

use std::borrow::Cow;

/// What [`normalise`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalised {
    /// The path was in its normal form; nothing was written.
    Unchanged,
    /// The normal form was appended.
    Changed,
    /// `..` above the root. Cutting it off silently would hide an attack.
    EscapesRoot,
    /// `.` or `..` with parameters, as in `/x/..;/admin`: servers in Java cut the parameters off and then resolve the
    /// dots, others take it for a name. Nobody is called so.
    DotsWithParameter,
    /// Not a path: no leading `/`, a byte that may not be in a path, or a percent sign without two hex digits or with
    /// `00`.
    Bad,
}

/// Appends the normal form of `path` to `out`, unless it is `path` itself.
///
/// Percent-encoded unreserved characters are decoded, the hex digits of all others are put in upper case, what may not
/// stand in a path (RFC 3986 section 3.3) is percent-encoded, then `.` and `..` segments are resolved. `%2F`, `%5C` and
/// `//` stay: servers disagree about them, so they are neither hidden nor created. A raw `\` becomes `%5C`: URLs of the
/// web read it as a slash (WHATWG). When the answer is not `Changed`, `out` is as it was.
pub fn normalise(path: &[u8], out: &mut Vec<u8>) -> Normalised {
    let scanned = scan(path, 0);
    if path.first() != Some(&b'/') || scanned.end != path.len() {
        return Normalised::Bad;
    }
    if scanned.is_normal {
        return Normalised::Unchanged;
    }
    let base = out.len();
    let answer = rewrite(path, out);
    if answer != Normalised::Changed {
        out.truncate(base);
    }
    answer
}

/// The bytes that a path stands for: every percent code decoded, once. A `%` without two digits stands for itself.
pub fn decoded(path: &[u8]) -> Cow<'_, [u8]> {
    if !path.contains(&b'%') {
        return Cow::Borrowed(path);
    }
    let (mut decoded, mut at) = (Vec::with_capacity(path.len()), 0);
    while at < path.len() {
        let (byte, next) = match path[at..] {
            [b'%', high, low, ..] if HEX[high as usize] < 16 && HEX[low as usize] < 16 => {
                ((HEX[high as usize] << 4) | HEX[low as usize], at + 3)
            }
            _ => (path[at], at + 1),
        };
        decoded.push(byte);
        at = next;
    }
    Cow::Owned(decoded)
}

/// What a server could read in a path that was put together of pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Climb {
    Nowhere,
    /// A segment of one or two dots, with parameters or without.
    DotSegment,
    Nul,
}

/// Whether anybody reads dot segments in `path`, however often it decodes it before it looks for them: slashes,
/// backslashes, dots and semicolons count in every encoding. For paths that were made of texts of others; in those of
/// requests, `%2F` is none of a segment's ends.
pub fn climb(path: &[u8]) -> Climb {
    let (mut dots, mut is_dots, mut at) = (0, true, 0);
    while at < path.len() {
        let (byte, next) = decode_deeply(path, at);
        match byte {
            0 => return Climb::Nul,
            b'/' | b'\\' | b';' if is_dots && matches!(dots, 1 | 2) => return Climb::DotSegment,
            b'/' | b'\\' => (dots, is_dots) = (0, true),
            b'.' => dots += 1,
            _ => is_dots = false,
        }
        at = next;
    }
    if is_dots && matches!(dots, 1 | 2) { Climb::DotSegment } else { Climb::Nowhere }
}

/// The byte at `at`, decoded as often as it was encoded (`%252E` is a dot), and where the next one begins.
fn decode_deeply(bytes: &[u8], at: usize) -> (u8, usize) {
    if bytes[at] != b'%' {
        return (bytes[at], at + 1);
    }
    let mut digits = at + 1;
    while bytes[digits..].starts_with(b"25") {
        digits += 2;
    }
    match bytes[digits..] {
        [high, low, ..] if HEX[high as usize] < 16 && HEX[low as usize] < 16 => {
            ((HEX[high as usize] << 4) | HEX[low as usize], digits + 2)
        }
        _ => (b'%', digits),
    }
}

/// How far a path goes, and whether it is in its normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scan {
    /// The first byte that does not belong to the path, which may be a `%` without its two digits.
    pub end: usize,
    pub is_normal: bool,
}

#[inline]
pub(crate) fn scan(bytes: &[u8], from: usize) -> Scan {
    let mut at = from;
    let mut is_normal = true;
    while at < bytes.len() {
        match CLASS[bytes[at] as usize] {
            Class::Plain => at += 1,
            Class::Encoded => {
                is_normal = false;
                at += 1;
            }
            Class::Dot => {
                if at > from && bytes[at - 1] == b'/' && is_dot_segment(bytes, at) {
                    is_normal = false;
                }
                at += 1;
            }
            Class::Percent => {
                let Some(decoded) = decode(bytes, at) else { break };
                if is_unreserved(decoded) || bytes[at + 1].is_ascii_lowercase() || bytes[at + 2].is_ascii_lowercase() {
                    is_normal = false;
                }
                at += 3;
            }
            Class::Stop => break,
        }
    }
    Scan { end: at, is_normal }
}

/// Whether the dot at `at`, which follows a slash, is a whole segment, alone or with a second one, parameters apart. A
/// percent code behind it may be an encoded semicolon, which is looked at when the path is written.
fn is_dot_segment(bytes: &[u8], at: usize) -> bool {
    let next = if bytes.get(at + 1) == Some(&b'.') { at + 2 } else { at + 1 };
    match bytes.get(next) {
        None | Some(b'/' | b';') => true,
        Some(b'%') => bytes[next..].get(..3).is_some_and(|code| code.eq_ignore_ascii_case(b"%3B")),
        Some(byte) => CLASS[*byte as usize] == Class::Stop,
    }
}

/// The byte that the three bytes at `at` stand for. NUL is refused, because it ends a name for some servers.
fn decode(bytes: &[u8], at: usize) -> Option<u8> {
    let [b'%', high, low, ..] = bytes[at..] else { return None };
    let decoded = (HEX[high as usize] << 4) | HEX[low as usize];
    let both_are_digits = HEX[high as usize] < 16 && HEX[low as usize] < 16;
    (both_are_digits && decoded != 0).then_some(decoded)
}

/// Writes the normal form of a path that [`scan`] has seen, unless it is to be refused.
fn rewrite(path: &[u8], out: &mut Vec<u8>) -> Normalised {
    let base = out.len();
    out.push(b'/');
    let mut segment_start = out.len();
    let mut at = 1;
    loop {
        let byte = path.get(at).copied();
        match byte {
            Some(b'%') => {
                if let Some(decoded) = decode(path, at).filter(|decoded| is_unreserved(*decoded)) {
                    out.push(decoded);
                } else {
                    out.extend(path[at..at + 3].iter().map(u8::to_ascii_uppercase));
                }
                at += 3;
                continue;
            }
            Some(byte) if byte != b'/' => {
                if CLASS[byte as usize] == Class::Encoded {
                    out.extend_from_slice(&[b'%', DIGITS[(byte >> 4) as usize], DIGITS[(byte & 15) as usize]]);
                } else {
                    out.push(byte);
                }
                at += 1;
                continue;
            }
            _ => {}
        }
        match &out[segment_start..] {
            b"." => out.truncate(segment_start),
            b".." => {
                // The slash before this segment is the root's own when nothing is above it.
                let slash = segment_start - 1;
                let Some(parent_slash) = out[base..slash].iter().rposition(|byte| *byte == b'/') else {
                    return Normalised::EscapesRoot;
                };
                out.truncate(base + parent_slash + 1);
            }
            segment if has_dots_and_parameter(segment) => return Normalised::DotsWithParameter,
            _ if byte.is_some() => out.push(b'/'),
            _ => {}
        }
        if byte.is_none() {
            return Normalised::Changed;
        }
        segment_start = out.len();
        at += 1;
    }
}

/// Whether a segment in its normal form is dots to who cuts parameters off, before or after they are decoded.
fn has_dots_and_parameter(segment: &[u8]) -> bool {
    let Some(rest) = segment.strip_prefix(b".") else { return false };
    let rest = rest.strip_prefix(b".").unwrap_or(rest);
    rest.starts_with(b";") || rest.starts_with(b"%3B")
}

/// RFC 3986 section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    Dot,
    Percent,
    /// Visible, but no `pchar` (RFC 3986 section 3.3). Some clients send these raw.
    Encoded,
    /// Ends a path: `?`, `#`, white space, control bytes, everything above 0x7e.
    Stop,
}

static CLASS: [Class; 256] = {
    let mut table = [Class::Stop; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        table[byte] = match byte as u8 {
            b'.' => Class::Dot,
            b'%' => Class::Percent,
            b'?' | b'#' => Class::Stop,
            b'"' | b'<' | b'>' | b'[' | b'\\' | b']' | b'^' | b'`' | b'{' | b'|' | b'}' => Class::Encoded,
            _ => Class::Plain,
        };
        byte += 1;
    }
    table
};

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// The value of a hex digit, 255 for every other byte.
static HEX: [u8; 256] = {
    let mut table = [255; 256];
    let mut digit = 0;
    while digit < 16 {
        table[b"0123456789abcdef"[digit] as usize] = digit as u8;
        table[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::{Climb, Normalised, climb, normalise};

    fn normalised(path: &str) -> (Normalised, String) {
        let mut out = b"before".to_vec();
        let answer = normalise(path.as_bytes(), &mut out);
        let written = out.strip_prefix(b"before").expect("what was there stays");
        (answer, String::from_utf8(written.to_vec()).expect("paths are ASCII"))
    }

    #[test]
    fn normal_paths_stay() {
        for path in [
            "/",
            "/a",
            "/a/b",
            "/a/",
            "//",
            "/a//b",
            "/.well-known/acme-challenge/x",
            "/...",
            "/..a",
            "/a..",
            "/a.",
            "/a/.b",
            "/a/..b/c",
            "/%2F",
            "/a%2F..%2Fb",
            "/%5C",
            "/%C3%BC",
            "/%20",
            "/%25",
            "/%2541",
            "/-._~",
            "/a;b=c,d",
            "/a:b@c",
            "/!$&'()*+,=",
            "/a;/..b;c/.d;",
            "/...;",
            "/.%2F",
            "/..%2F",
            "/%01",
        ] {
            assert_eq!(normalised(path), (Normalised::Unchanged, String::new()), "{path}");
        }
    }

    #[test]
    fn equivalent_paths_become_one() {
        let check = |path: &str, expected: &str| assert_eq!(normalised(path), (Normalised::Changed, expected.into()), "{path}");
        check("/%41", "/A");
        check("/%7Euser", "/~user");
        check("/%7euser", "/~user");
        check("/%2d%2E%5f", "/-._");
        check("/%2f", "/%2F");
        check("/%c3%bc", "/%C3%BC");
        check("/a%2fb%5cc", "/a%2Fb%5Cc");
        check("/%25%34%31", "/%2541");
        check("/.", "/");
        check("/./", "/");
        check("/./a", "/a");
        check("/a/.", "/a/");
        check("/a/./b", "/a/b");
        check("/a/..", "/");
        check("/a/../", "/");
        check("/a/../b", "/b");
        check("/a/b/../../c", "/c");
        check("/a/b/..", "/a/");
        check("/a//../b", "/a/b");
        check("//..", "/");
        check("/a/%2e%2e/b", "/b");
        check("/a/.%2e/b", "/b");
        check("/a/%2E./b", "/b");
        check("/%2e/a", "/a");
        check("/a/..b/../c", "/a/c");
        check("/a/.../../c", "/a/c");
        check("/a/%2E%2E%2Fb/../c", "/a/c");
        check("/%61/%2e%2e%2fb", "/a/..%2Fb");
        check("/\"<>[]^`{|}", "/%22%3C%3E%5B%5D%5E%60%7B%7C%7D");
        check("/a\\b", "/a%5Cb");
        check("/..\\a", "/..%5Ca");
        check("/\\a/../b", "/b");
    }

    #[test]
    fn dots_with_parameters_are_refused() {
        for path in [
            "/..;/a",
            "/a/..;/b",
            "/a/..;x=1/b",
            "/a/..;",
            "/.;",
            "/a/.;x/b",
            "/%2e%2e;/a",
            "/.%2E;/a",
            "/..%3b/a",
            "/..%3Bx/a",
            "/%2E%3B",
            "/a/b/..;/..;/c",
        ] {
            assert_eq!(normalised(path), (Normalised::DotsWithParameter, String::new()), "{path}");
        }
    }

    #[test]
    fn nothing_leads_above_the_root() {
        for path in
            ["/..", "/../", "/../a", "/a/../..", "/a/../../b", "/./..", "/%2e%2e/a", "/.%2E", "/a/b/../../../c/d", "//../.."]
        {
            assert_eq!(normalised(path), (Normalised::EscapesRoot, String::new()), "{path}");
        }
    }

    /// Whoever decodes once, twice or not at all, and takes `\` for a slash or not, sees no dot segment.
    #[test]
    fn dot_segments_are_seen_in_every_encoding() {
        let check = |path: &str, expected: Climb| assert_eq!(climb(path.as_bytes()), expected, "{path}");
        for path in [
            "/a/..",
            "/a/./b",
            "..",
            ".",
            "/../a",
            "/a/..\\b",
            "/a/%2e%2e/b",
            "/a/.%2E",
            "/a/..%2Fb",
            "/a%2f..%5Cb",
            "/a/%252e./b",
            "/a/..%25252fb",
            "/a/..;x",
            "/a/.%3bx",
            "/a/..%253B",
        ] {
            check(path, Climb::DotSegment);
        }
        for path in ["", "/", "/a/...", "/..a/a..", "/a/;..", "/a//b", "/a/%2ea", "/%25/.a", "/%zz/%", "/a%2", "/a/x..;y", "/%25"]
        {
            check(path, Climb::Nowhere);
        }
        for path in ["/%00", "/a%00/..", "/%2500"] {
            check(path, Climb::Nul);
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [
            "", "a", "*", "?", ".", "..", "%2F", "/%", "/%4", "/%4g", "/%g4", "/%%41", "/%00", "/a%00b", "/a b", "/a?b", "/a#b",
            "/\t", "/\r\n", "/\0", "/\u{7f}", "/ü",
        ] {
            assert_eq!(normalised(path), (Normalised::Bad, String::new()), "{path}");
        }
    }
}
