//! What servers behind us make of the paths that are forwarded: rules of other parsers, each as a small function or the
//! real one, must lead to the route that ours led to. And whatever is forwarded has only what a path may have.

use bolero::check;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};
use tidegate_model::{EncodedSlashes, PathParameters, PathPolicy, Slashes};
use tidegate_routing::path_policy::{path_as_sent, settle_path};
use tidegate_wire::path::{Normalised, decoded, normalise};

const PIECES: &[&str] = &[
    "/", "/", "/", "/", "a", "admin", "public", ".", "..", "..", "...", ";", ";x=1", "\\", "%5C", "%5c", "%2F", "%2f", "%2e",
    "%2E", "%3B", "%3b", "%25", "%252e", "%20", "%41", "\"", "<", ">", "[", "]", "^", "`", "{", "|", "}", "~", "!", "$", "&",
    "'", "(", ")", "*", "+", ",", "=", ":", "@", "%C3%A9", "%09", "%0D", "-", "_",
];

const STRICT: PathPolicy = PathPolicy {
    slashes: Slashes::Merge,
    encoded_slashes: EncodedSlashes::Refuse,
    parameters: PathParameters::Refuse,
    ..PathPolicy::DEFAULT
};
const DECODED: PathPolicy = PathPolicy { encoded_slashes: EncodedSlashes::Decode, ..PathPolicy::DEFAULT };
/// Slashes are matched as servers may read them, and go on as they were sent.
const PASSED: PathPolicy =
    PathPolicy { encoded_slashes: EncodedSlashes::Pass, parameters: PathParameters::Refuse, ..PathPolicy::DEFAULT };

/// A path as a client sends it.
fn drawn(choices: &[u8]) -> String {
    let pieces = choices.iter().map(|choice| PIECES[*choice as usize % PIECES.len()]);
    std::iter::once("/").chain(pieces).collect()
}

/// What is matched, and forwarded unless it goes on as it was sent.
fn forwarded(path: &str, policy: PathPolicy) -> Option<String> {
    let path = normal(path)?;
    let settled = settle_path(policy, &path).ok()?.unwrap_or(path);
    Some(String::from_utf8(settled).expect("paths are ASCII"))
}

/// How a path is forwarded that no step changes.
fn as_sent(path: &str, policy: PathPolicy) -> Option<String> {
    let spelled = path_as_sent(policy, &normal(path)?)?;
    Some(String::from_utf8(spelled).expect("paths are ASCII"))
}

fn normal(path: &str) -> Option<Vec<u8>> {
    let mut normal = Vec::new();
    match normalise(path.as_bytes(), &mut normal) {
        Normalised::Unchanged => Some(path.as_bytes().to_vec()),
        Normalised::Changed => Some(normal),
        Normalised::EscapesRoot | Normalised::DotsWithParameter | Normalised::Bad => None,
    }
}

/// RFC 3986 section 3.3.
fn is_pchar_or_slash(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&byte)
}

fn percent_decoded(path: &str) -> String {
    let bytes = path.as_bytes();
    let (mut decoded, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let digits = path.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Go's `path.Clean` of a rooted path, to which its `ServeMux` adds a last slash again.
fn cleaned(path: &str) -> String {
    let mut kept = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let is_folder = path.ends_with('/') && !kept.is_empty();
    format!("/{}{}", kept.join("/"), if is_folder { "/" } else { "" })
}

fn without_parameters(path: &str) -> String {
    let cut: Vec<&str> = path.split('/').map(|segment| segment.split(';').next().unwrap_or_default()).collect();
    cut.join("/")
}

/// Servlet containers: parameters go first, then percent codes are decoded, then slashes and dots are settled.
fn of_a_servlet(path: &str) -> String {
    cleaned(&percent_decoded(&without_parameters(path)))
}

/// Servlet containers that decode first.
fn of_a_servlet_that_decodes_first(path: &str) -> String {
    cleaned(&without_parameters(&percent_decoded(path)))
}

fn of_go(path: &str) -> String {
    cleaned(&percent_decoded(path))
}

/// URLs of the web (WHATWG), as Node and browsers read them; the real parser.
fn of_the_web(path: &str) -> (String, String) {
    let base = url::Url::parse("http://a.test/base/x").expect("a base");
    let url = base.join(path).expect("a path is a relative URL");
    (url.host_str().unwrap_or_default().to_owned(), url.path().to_owned())
}

/// What nginx holds locations and expressions against, slashes merged: each code is decoded once, and a slash or a dot
/// that comes of it is one. `None`: 400.
fn of_nginx(path: &str) -> Option<Vec<u8>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Behind {
        Slash,
        Dot,
        TwoDots,
        Anything,
    }
    let up = |read: &mut Vec<u8>| {
        read.truncate(read.len() - 3);
        let slash = read.iter().rposition(|byte| *byte == b'/')?;
        read.truncate(slash + 1);
        Some(())
    };
    let (bytes, mut read, mut behind, mut at) = (path.as_bytes(), Vec::new(), Behind::Anything, 0);
    while at < bytes.len() {
        let code = path.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let code = code.map(|digits| u8::from_str_radix(digits, 16).ok());
        let byte = match code {
            Some(byte) => byte.filter(|byte| *byte != 0)?,
            None if bytes[at] == b'%' => return None,
            None => bytes[at],
        };
        at += if code.is_some() { 3 } else { 1 };
        behind = match (behind, byte) {
            (Behind::Slash, b'/') => Behind::Slash,
            (Behind::Dot, b'/') => {
                read.pop();
                Behind::Slash
            }
            (Behind::TwoDots, b'/') => {
                up(&mut read)?;
                Behind::Slash
            }
            (Behind::Slash | Behind::Dot, b'.') => {
                read.push(b'.');
                if behind == Behind::Slash { Behind::Dot } else { Behind::TwoDots }
            }
            (_, byte) => {
                read.push(byte);
                if byte == b'/' { Behind::Slash } else { Behind::Anything }
            }
        };
    }
    match behind {
        Behind::Dot => drop(read.pop()),
        Behind::TwoDots => up(&mut read)?,
        Behind::Slash | Behind::Anything => {}
    }
    Some(read)
}

/// What expressions see with `expressions="decoded"` is what nginx holds them against, unless the path is refused.
/// Where `..` takes back a segment of nothing, or one with an encoded slash, nginx takes back another one: there the
/// two part, and what is handed on is what was matched.
#[test]
fn nginx_holds_expressions_against_the_same() {
    check!().with_type::<Vec<u8>>().for_each(|choices: &Vec<u8>| {
        let sent = drawn(choices);
        let Some(path) = forwarded(&sent, PASSED) else { return };
        let once = String::from_utf8_lossy(&decoded(sent.as_bytes())).into_owned();
        if once.contains("..") && (once.contains("//") || sent.to_ascii_lowercase().contains("%2f")) {
            return;
        }
        let ours = decoded(path.as_bytes()).into_owned();
        assert_eq!(of_nginx(&sent).map(|read| read.escape_ascii().to_string()), Some(ours.escape_ascii().to_string()), "{sent}");
    });
}

#[test]
fn what_is_forwarded_has_only_what_a_path_may_have() {
    check!().with_type::<Vec<u8>>().for_each(|choices: &Vec<u8>| {
        let raw = format!("/{}", String::from_utf8_lossy(choices));
        for sent in [drawn(choices), raw] {
            for policy in [PathPolicy::DEFAULT, STRICT, DECODED, PASSED] {
                let Some(path) = forwarded(&sent, policy) else { continue };
                assert!(path.starts_with('/') && path.bytes().all(is_pchar_or_slash), "{sent} became {path}");
                assert!(!path.split('/').any(|segment| segment == "." || segment == ".."), "{sent} became {path}");
            }
        }
    });
}

/// Whatever the policy, URLs of the web read it as we do: same host, same path.
#[test]
fn urls_of_the_web_are_the_same() {
    check!().with_type::<Vec<u8>>().for_each(|choices: &Vec<u8>| {
        let sent = drawn(choices);
        for policy in [PathPolicy::DEFAULT, STRICT, DECODED] {
            let Some(path) = forwarded(&sent, policy) else { continue };
            assert_eq!(of_the_web(&path), ("a.test".to_owned(), path.clone()), "{sent}");
        }
    });
}

/// Under the strict policy nobody cuts, decodes or resolves another path out of it. Under the usual one nobody does who
/// neither cuts parameters off nor decodes slashes, and those who cut find no dots to resolve.
#[test]
fn no_rules_of_others_lead_to_another_route() {
    check!().with_type::<Vec<u8>>().for_each(|choices: &Vec<u8>| {
        let sent = drawn(choices);
        if let Some(path) = forwarded(&sent, STRICT) {
            let ours = percent_decoded(&path);
            assert_eq!(of_a_servlet(&path), ours, "{sent} became {path}");
            assert_eq!(of_a_servlet_that_decodes_first(&path), ours, "{sent} became {path}");
            assert_eq!(of_go(&path), ours, "{sent} became {path}");
        }
        if let Some(matched) = forwarded(&sent, PASSED) {
            let path = as_sent(&sent, PASSED).unwrap_or_else(|| matched.clone());
            assert_eq!(of_go(&path), percent_decoded(&matched), "{sent} became {path}");
            assert_eq!(of_a_servlet(&path), percent_decoded(&matched), "{sent} became {path}");
        }
        if let Some(path) = forwarded(&sent, PathPolicy::DEFAULT)
            && !path.contains("%2F")
        {
            assert_eq!(of_go(&path), percent_decoded(&path), "{sent} became {path}");
            let cut = without_parameters(&percent_decoded(&path));
            assert!(!cut.split('/').any(|segment| segment == "." || segment == ".."), "{sent} became {path}");
        }
    });
}

/// A line is a path; of each, what the functions make of it that programs in Python read paths by, in hex.
const PYTHON: &str = r"
import posixpath, sys
from urllib.parse import urlsplit, unquote_to_bytes, urljoin
for line in sys.stdin.read().split('\n'):
    path = posixpath.normpath(unquote_to_bytes(urlsplit(line).path))
    joined = urlsplit(urljoin('http://a.test/base/x', line))
    print(path.hex(), joined.netloc, joined.path)
";

/// The real functions of Python. Without it the test says so and passes.
#[test]
fn python_reads_the_same_paths() {
    let mut state: u32 = 7;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as u8
    };
    let mut paths = BTreeSet::new();
    for _ in 0..20_000 {
        let choices: Vec<u8> = (0..next() % 9).map(|_| next()).collect();
        paths.extend(forwarded(&drawn(&choices), STRICT));
    }
    let child = Command::new("python3").args(["-c", PYTHON]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else { return println!("there is no python3: skipped") };
    let lines: Vec<&str> = paths.iter().map(String::as_str).collect();
    // All of it is read before anything is written.
    child.stdin.take().expect("a pipe").write_all(lines.join("\n").as_bytes()).expect("python3 reads");
    let output = child.wait_with_output().expect("python3 ends");
    let read = String::from_utf8(output.stdout).expect("hex and paths");
    assert!(lines.len() > 1000 && read.lines().count() == lines.len(), "{} of {}", read.lines().count(), lines.len());
    for (path, read) in lines.iter().zip(read.lines()) {
        // `normpath` has no last slash.
        let ours = percent_decoded(path);
        let ours = if ours == "/" { "/" } else { ours.strip_suffix('/').unwrap_or(&ours) };
        let hex = ours.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        assert_eq!(read, format!("{hex} a.test {path}"), "{path}");
    }
}
