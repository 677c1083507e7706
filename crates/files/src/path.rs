//! From the path of a request to a path below the root: decoded once, checked, split. What it names is looked up in
//! `root`. A path that could mean different things to different servers is refused, so that a rule of a route cannot be
//! slipped past.

use crate::refused::Refused;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// No tree that people serve is deeper. The walk of `beneath` may hold one descriptor for each.
pub(crate) const SEGMENTS_MAX: usize = 64;

/// Everything but the unreserved characters of RFC 3986 section 2.3, so that no name becomes a scheme, a query or an
/// attribute's end.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePath {
    /// Names joined by single slashes, `.` for the root. None is empty, `.` or `..`.
    pub relative: Vec<u8>,
    pub ends_with_slash: bool,
    /// Whether a name on the way is hidden.
    pub is_hidden: bool,
}

/// Decodes the path of a request.
///
/// NUL, control bytes, encoded slashes, backslashes, `.` and `..` are refused; an empty segment names nothing.
pub(crate) fn parse(path: &[u8]) -> Result<FilePath, Refused> {
    let below = path.strip_prefix(b"/").unwrap_or(path);
    let ends_with_slash = path.ends_with(b"/");
    if below.is_empty() {
        return Ok(FilePath { relative: b".".to_vec(), ends_with_slash, is_hidden: false });
    }
    let names = below.strip_suffix(b"/").unwrap_or(below);
    let mut relative = Vec::with_capacity(names.len());
    let (mut is_hidden, mut has_empty, mut segments) = (false, false, 0);
    for segment in names.split(|byte| *byte == b'/') {
        let start = relative.len();
        decode(segment, &mut relative)?;
        let name = &relative[start..];
        if !is_servable(name) {
            return Err(Refused::BadPath);
        }
        is_hidden |= self::is_hidden(name);
        has_empty |= name.is_empty();
        segments += 1;
        relative.push(b'/');
    }
    if has_empty || segments > SEGMENTS_MAX {
        return Err(Refused::NotFound);
    }
    relative.pop();
    Ok(FilePath { relative, ends_with_slash, is_hidden })
}

/// A path below the root that an application names, decoded already; what no request may have is refused in the same
/// way.
pub(crate) fn named(path: &[u8]) -> Result<FilePath, Refused> {
    let relative = path.strip_prefix(b"/").unwrap_or(path);
    let names = || relative.split(|byte| *byte == b'/');
    if !names().all(is_servable) {
        return Err(Refused::BadPath);
    }
    if names().any(<[u8]>::is_empty) || names().count() > SEGMENTS_MAX {
        return Err(Refused::NotFound);
    }
    Ok(FilePath { relative: relative.to_vec(), ends_with_slash: false, is_hidden: names().any(is_hidden) })
}

/// A path of the configuration, as [`parse`] gives them; None when it has names that no request may have, or none at
/// all.
pub(crate) fn of_configuration(path: &str) -> Option<Vec<u8>> {
    let relative = path.strip_prefix('/').unwrap_or(path);
    let fits = |name: &str| !name.is_empty() && is_servable(name.as_bytes());
    (relative.split('/').all(fits) && relative.split('/').count() <= SEGMENTS_MAX).then(|| relative.as_bytes().to_vec())
}

/// The path of an entry of a folder.
pub(crate) fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match folder {
        b"." => name.to_vec(),
        folder => [folder, b"/", name].concat(),
    }
}

/// Whether a name is served only on request of the configuration.
pub(crate) fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b".") && name != b".well-known"
}

/// Whether a request may name this. A backslash separates names for some clients and servers on the way.
pub(crate) fn is_servable(name: &[u8]) -> bool {
    let is_odd = |byte: &u8| byte.is_ascii_control() || matches!(byte, b'/' | b'\\');
    name != b"." && name != b".." && !name.iter().any(is_odd)
}

/// A name as a segment of a URL.
pub(crate) fn encoded(name: &[u8]) -> String {
    percent_encode(name, SEGMENT).to_string()
}

/// Appends a segment, decoded once.
fn decode(segment: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    let mut bytes = segment.iter();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let (high, low) = (bytes.next().and_then(hex), bytes.next().and_then(hex));
                high.zip(low).map(|(high, low)| high << 4 | low).ok_or(Refused::BadPath)?
            }
            byte => *byte,
        });
    }
    Ok(())
}

fn hex(digit: &u8) -> Option<u8> {
    char::from(*digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::{FilePath, encoded, named, of_configuration, parse};
    use crate::refused::Refused;

    #[test]
    fn a_path_is_decoded_once() {
        let check = |path: &str, relative: &str, ends_with_slash: bool| {
            let expected = FilePath { relative: relative.into(), ends_with_slash, is_hidden: false };
            assert_eq!(parse(path.as_bytes()), Ok(expected), "{path}");
        };
        check("", ".", false);
        check("/", ".", true);
        check("/a", "a", false);
        check("a", "a", false);
        check("/a/", "a", true);
        check("/a/b.txt", "a/b.txt", false);
        check("/a%20b", "a b", false);
        check("/%2541", "%41", false);
        check("/%C3%BC", "ü", false);
        check("/ü", "ü", false);
        check("/a..b", "a..b", false);
        check("/.well-known/x", ".well-known/x", false);
        check("/a:b@c;d", "a:b@c;d", false);
    }

    #[test]
    fn hidden_names_are_marked() {
        for path in ["/.git", "/.git/config", "/a/.b", "/%2egit", "/.well-known/.x", "/.well-knownx", "/..a", "/..."] {
            assert!(parse(path.as_bytes()).expect("a path").is_hidden, "{path}");
        }
    }

    #[test]
    fn what_servers_could_read_differently_is_refused() {
        for path in [
            "/..",
            "/../",
            "/a/../b",
            "/%2e%2e/a",
            "/.%2E",
            "/.",
            "/./a",
            "/a/%2e",
            "/a%2Fb",
            "/a%2fb",
            "/%2F",
            "/a\\b",
            "/a%5Cb",
            "/..\\a",
            "/%00",
            "/a%00.txt",
            "/\0",
            "/%0a",
            "/\r\n",
            "/%7f",
            "/\u{7f}",
            "/%",
            "/%4",
            "/%4g",
            "/%%41",
        ] {
            assert_eq!(parse(path.as_bytes()), Err(Refused::BadPath), "{path}");
        }
    }

    #[test]
    fn empty_segments_and_endless_paths_name_nothing() {
        for path in ["//", "//a", "/a//b", "/a//", "///", &"/a".repeat(65)] {
            assert_eq!(parse(path.as_bytes()), Err(Refused::NotFound), "{path}");
        }
        assert!(parse("/a".repeat(64).as_bytes()).is_ok());
    }

    #[test]
    fn a_configured_path_is_a_path_below_the_root() {
        let check = |path: &str, expected: Option<&str>| assert_eq!(of_configuration(path), expected.map(Into::into), "{path}");
        check("/index.html", Some("index.html"));
        check("app/index.html", Some("app/index.html"));
        check("/a b%20.html", Some("a b%20.html"));
        for path in ["", "/", "//a", "a/", "/../a", "a/./b", "a\\b", "a\0"] {
            check(path, None);
        }
    }

    #[test]
    fn what_an_application_names_is_below_the_root() {
        let check = |path: &str, expected: Result<(&str, bool), Refused>| {
            let found = named(path.as_bytes());
            let found = found.as_ref().map(|path| (std::str::from_utf8(&path.relative).expect("text"), path.is_hidden));
            assert_eq!(found.map_err(|refused| *refused), expected, "{path}");
        };
        check("/a b/c%20d.pdf", Ok(("a b/c%20d.pdf", false)));
        check("a.pdf", Ok(("a.pdf", false)));
        check("/a/.b/c", Ok(("a/.b/c", true)));
        for path in ["/../a", "/a/..", "..", "/a/./b", "/a\\b", "/a\0.pdf", "/a\nb", "/."] {
            check(path, Err(Refused::BadPath));
        }
        for path in ["", "/", "//a", "/a/", "/a//b", &"/a".repeat(65)] {
            check(path, Err(Refused::NotFound));
        }
    }

    #[test]
    fn a_name_becomes_one_segment() {
        let check = |name: &str, expected: &str| assert_eq!(encoded(name.as_bytes()), expected);
        check("a-b_c~d.txt", "a-b_c~d.txt");
        check("a b", "a%20b");
        check("javascript:x", "javascript%3Ax");
        check("\"><'&?#%", "%22%3E%3C%27%26%3F%23%25");
        check("ü", "%C3%BC");
    }
}
