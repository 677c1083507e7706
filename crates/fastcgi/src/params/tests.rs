//! The environment of requests and the scripts of paths, in rows.
//! Any path and any fields are tried in the crate's `tests` folder, and what PHP makes of them there too.

use super::{Choice, Mode, Params, PathError, Script, Scripts, SettingsError};
use crate::pairs::{Pairs, PairsTooLarge};
use std::net::SocketAddr;

fn scripts(mode: Mode) -> Scripts {
    Scripts::new(b"/srv/site/", b".php", b"index.php", mode).expect("good settings")
}

fn front_controller() -> Mode {
    Mode::FrontController { script: b"/index.php".to_vec() }
}

fn shown(script: &Script) -> (String, String) {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    (text(script.name()), text(script.path_info()))
}

#[test]
fn the_first_segment_with_the_suffix_is_the_script() {
    let scripts = scripts(Mode::Direct);
    let check = |path: &str, name: &str, path_info: &str| {
        let Ok(Choice::Script(script)) = scripts.find(path.as_bytes()) else { panic!("{path} is no script") };
        assert_eq!(shown(&script), (name.to_string(), path_info.to_string()), "{path}");
        assert_eq!(scripts.filename(&script).escape_ascii().to_string(), format!("/srv/site{name}"), "{path}");
    };
    check("/a.php", "/a.php", "");
    check("/a.php/", "/a.php", "/");
    check("/a/b.php/c/d", "/a/b.php", "/c/d");
    check("/a.php/b.php", "/a.php", "/b.php");
    check("/a.phpx/b.php", "/a.phpx/b.php", "");
    check("/a.php.txt/b.php/c", "/a.php.txt/b.php", "/c");
    check("/%61%2Ephp/x%20y", "/a.php", "/x y");
    check("/%C3%BC.php", "/\\xc3\\xbc.php", "");
    check("/a.php//b//", "/a.php", "//b//");
    check("/a.php/%25%32%46", "/a.php", "/%2F");
    check("/a.php/b%2Fc", "/a.php", "/b/c");
    check("/a.php/b%2fc/%2F", "/a.php", "/b/c//");
    check("/a.php/%2Fb.php", "/a.php", "//b.php");
    check("/...php", "/...php", "");
    check("/", "/index.php", "");
    check("/blog/", "/blog/index.php", "");
    check("/picture.jpg/x.php", "/picture.jpg/x.php", "");
}

#[test]
fn a_path_without_a_script_has_no_answer_or_goes_to_the_front_controller() {
    let (direct, front) = (scripts(Mode::Direct), scripts(front_controller()));
    for path in ["/style.css", "/a.PHP", "/a.php5", "/a/b", "/a.php%3Fx"] {
        assert_eq!(direct.find(path.as_bytes()), Ok(Choice::NoScript), "{path}");
        assert_eq!(direct.find(path.as_bytes()).unwrap().settle(true), None);
    }
    let check = |path: &str, is_file: bool, name: &str, path_info: &str| {
        let script = front.find(path.as_bytes()).expect("a choice").settle(is_file).expect("a script");
        assert_eq!(shown(&script), (name.to_string(), path_info.to_string()), "{path}");
    };
    check("/a/b", false, "/index.php", "");
    check("/a/b", true, "/index.php", "");
    check("/a.php/b", true, "/a.php", "/b");
    check("/a.php/b", false, "/index.php", "");
    check("/blog/", true, "/blog/index.php", "");
    check("/blog/", false, "/index.php", "");
    check("/index.php/x", true, "/index.php", "/x");
    check("/a%2Fb.php", true, "/index.php", "");
    check("//a.php", true, "/index.php", "");
}

#[test]
fn paths_that_could_name_another_file_than_they_seem_to_are_refused() {
    let check = |path: &str, in_direct_mode: PathError, in_both: bool| {
        assert_eq!(scripts(Mode::Direct).find(path.as_bytes()), Err(in_direct_mode), "{path}");
        assert_eq!(scripts(front_controller()).find(path.as_bytes()).is_err(), in_both, "{path}");
    };
    for path in ["", "a.php", "*", "?", "%2Fa.php", "..", "http://a/b.php"] {
        check(path, PathError::NotAbsolute, true);
    }
    for path in ["/%", "/%4", "/a.php/%4g", "/%g4", "/%%41", "/%+1.php"] {
        check(path, PathError::BadPercentEncoding, true);
    }
    for path in ["/%00", "/a.php%00.jpg", "/a.php/b%00", "/\0"] {
        check(path, PathError::Nul, true);
    }
    for path in [
        "/..",
        "/../a.php",
        "/a/../b.php",
        "/%2e%2e/a.php",
        "/.%2E/a.php",
        "/a.php/..",
        "/a.php/../../b",
        "/x/..%2F..%2Fa.php",
        "/a.php/..%2f..",
        "/a%2f%2e%2e/b.php",
        "/..\\a.php",
        "/a%5C..%5Cb.php",
        "/./a.php",
        "/%2e/a.php",
        "/a.php/.",
    ] {
        check(path, PathError::DotSegment, true);
    }
    for path in ["/a%2Fb.php", "/a%2fb/c.php", "/a%2Fb.php/c", "/%2F", "/a%2Fb/", "/a.php%2Fb", "/a.php%2F"] {
        check(path, PathError::EncodedSlash, false);
    }
    for path in ["//a.php", "/a//b.php", "/a///b/c.php/d", "//", "/a//"] {
        check(path, PathError::EmptySegment, false);
    }
}

#[test]
fn settings_that_name_no_files_are_refused() {
    let check = |root: &str, suffix: &str, index: &str, front: Option<&str>, expected: Option<SettingsError>| {
        let mode = front.map_or(Mode::Direct, |script| Mode::FrontController { script: script.into() });
        let made = Scripts::new(root.as_bytes(), suffix.as_bytes(), index.as_bytes(), mode);
        assert_eq!(made.err(), expected, "{root} {suffix} {index} {front:?}");
    };
    check("/", ".php", "index.php", Some("/a/b.php"), None);
    check("srv", ".php", "index.php", None, Some(SettingsError::Root));
    check("", ".php", "index.php", None, Some(SettingsError::Root));
    check("/a\0", ".php", "index.php", None, Some(SettingsError::Root));
    check("/a", "", "index.php", None, Some(SettingsError::Suffix));
    check("/a", "/x.php", "index.php", None, Some(SettingsError::Suffix));
    check("/a", ".php", "", None, Some(SettingsError::Index));
    check("/a", ".php", "a/b.php", None, Some(SettingsError::Index));
    check("/a", ".php", "..", None, Some(SettingsError::Index));
    for front in ["index.php", "", "/", "/a//b.php", "/../b.php", "/a/", "/a\0b"] {
        check("/a", ".php", "index.php", Some(front), Some(SettingsError::FrontController));
    }
}

const REQUEST: Params<'_> = Params {
    method: b"GET",
    raw_target: b"/a.php/b%20c?x=%32",
    query: b"x=%32",
    protocol: "HTTP/1.1",
    authority: b"site.example:8080",
    server_name: b"site.example",
    client: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 1234),
    server: SocketAddr::new(std::net::IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), 8080),
    is_https: false,
    content_length: None,
    user: None,
    software: "tidegate/1",
    extra: &[],
};

/// The environment as lines, in order.
fn environment(
    request: &Params<'_>,
    path: &str,
    fields: &[(&str, &str)],
    bytes_max: usize,
) -> Result<Vec<String>, PairsTooLarge> {
    let scripts = scripts(Mode::Direct);
    let script = scripts.find(path.as_bytes()).unwrap().settle(false).unwrap();
    let mut pairs = Pairs::new(bytes_max);
    pairs.push([&b"OLD"[..]], [&b"value"[..]]).ok();
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    let request = Params { ..*request };
    request.write(&mut pairs, &scripts, &script, fields)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    Ok(pairs.iter().map(|(name, value)| format!("{}={}", text(name), text(value))).collect())
}

#[test]
fn a_request_has_the_whole_environment() {
    let expected = "SCRIPT_FILENAME=/srv/site/a.php
SCRIPT_NAME=/a.php
DOCUMENT_ROOT=/srv/site
DOCUMENT_URI=/a.php/b c
PATH_INFO=/b c
PATH_TRANSLATED=/srv/site/b c
GATEWAY_INTERFACE=CGI/1.1
SERVER_SOFTWARE=tidegate/1
SERVER_PROTOCOL=HTTP/1.1
REQUEST_METHOD=POST
REQUEST_URI=/a.php/b%20c?x=%32
QUERY_STRING=x=%32
REDIRECT_STATUS=200
CONTENT_LENGTH=12
SERVER_NAME=site.example
REMOTE_ADDR=192.0.2.1
REMOTE_PORT=1234
SERVER_ADDR=::1
SERVER_PORT=8080
AUTH_TYPE=Basic
REMOTE_USER=alice
HTTPS=on
CONTENT_TYPE=text/plain
HTTP_HOST=site.example:8080
HTTP_ACCEPT=*/*";
    let request = Params { method: b"POST", is_https: true, content_length: Some(12), user: Some("alice"), ..REQUEST };
    let fields = [("Accept", "*/*"), ("Content-Type", "text/plain"), ("content-length", "99"), ("Host", "other.example")];
    let written = environment(&request, "/a.php/b%20c", &fields, 64 << 10).unwrap();
    assert_eq!(written.join("\n"), expected);
}

#[test]
fn what_is_not_there_has_no_param() {
    let written = environment(&REQUEST, "/a.php", &[], 64 << 10).unwrap();
    for name in ["PATH_INFO", "PATH_TRANSLATED", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTPS", "REMOTE_USER", "AUTH_TYPE", "OLD"] {
        assert!(!written.iter().any(|line| line.starts_with(&format!("{name}="))), "{name}");
    }
    let mapped = Params { client: "[::ffff:192.0.2.7]:1".parse().unwrap(), ..REQUEST };
    assert!(environment(&mapped, "/a.php", &[], 64 << 10).unwrap().contains(&"REMOTE_ADDR=192.0.2.7".to_string()));
}

#[test]
fn header_fields_become_params_that_cannot_be_forged() {
    let check = |fields: &[(&str, &str)], expected: &[&str]| {
        let request = Params { authority: b"", ..REQUEST };
        let written = environment(&request, "/a.php", fields, 64 << 10).unwrap();
        let http: Vec<_> = written.iter().filter(|line| line.starts_with("HTTP_") || line.starts_with("CONTENT_")).collect();
        assert_eq!(http, expected, "{fields:?}");
    };
    check(&[("X-a-B", "v")], &["HTTP_X_A_B=v"]);
    check(&[("x", "")], &["HTTP_X="]);
    check(&[("x", "1"), ("y", "2"), ("X", ""), ("x", "3, 4")], &["HTTP_X=1, , 3, 4", "HTTP_Y=2"]);
    check(&[("Cookie", "a=b"), ("cookie", "c=d")], &["HTTP_COOKIE=a=b; c=d"]);
    check(&[("Proxy", "http://evil.example"), ("PROXY", "x"), ("proxy-x", "y")], &["HTTP_PROXY_X=y"]);
    check(
        &[("x_a", "1"), ("x-a", "2"), ("_", "3"), ("x.a", "4"), ("x a", "5"), ("x[a", "6"), ("", "7"), ("x\0", "8")],
        &["HTTP_X_A=2"],
    );
    check(
        &[("content_length", "5"), ("Content-Length", "6"), ("content-type", "a/b"), ("Content-Type", "c/d")],
        &["CONTENT_TYPE=a/b"],
    );
    check(&[("host", "one.example")], &["HTTP_HOST=one.example"]);
    check(&[("https", "on"), ("Authorization", "Basic eA==")], &["HTTP_AUTHORIZATION=Basic eA==", "HTTP_HTTPS=on"]);
}

#[test]
fn params_of_the_configuration_win() {
    let extra: &[(&[u8], &[u8])] =
        &[(b"HTTPS", b"off"), (b"HTTP_X_A", b"ours"), (b"SCRIPT_FILENAME", b"/other.php"), (b"APP", b"")];
    let request = Params { is_https: true, extra, ..REQUEST };
    let written = environment(&request, "/a.php", &[("X-A", "theirs"), ("x-a", "again"), ("x-ab", "kept")], 64 << 10).unwrap();
    let of = |names: &[&str]| {
        let named = |line: &&String| names.iter().any(|name| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')));
        written.iter().filter(named).cloned().collect::<Vec<_>>()
    };
    assert_eq!(of(&["HTTPS"]), ["HTTPS=off"]);
    assert_eq!(of(&["HTTP_X_A", "HTTP_X_AB"]), ["HTTP_X_AB=kept", "HTTP_X_A=ours"]);
    assert_eq!(of(&["SCRIPT_FILENAME"]), ["SCRIPT_FILENAME=/other.php"]);
    assert_eq!(of(&["APP"]), ["APP="]);
}

#[test]
fn the_bound_is_kept_to_the_byte() {
    let fields = [("x-a", "12345"), ("x-b", "67"), ("x-a", "89"), ("x-c", "")];
    let written = environment(&REQUEST, "/a.php/b", &fields, 64 << 10).unwrap();
    let bytes: usize = written.iter().map(|line| line.len() - 1).sum();
    assert_eq!(environment(&REQUEST, "/a.php/b", &fields, bytes).as_ref(), Ok(&written));
    for bytes_max in 0..bytes {
        assert_eq!(environment(&REQUEST, "/a.php/b", &fields, bytes_max), Err(PairsTooLarge { bytes_max }));
    }
    let many = vec![("x", ""); 40_000];
    assert_eq!(environment(&REQUEST, "/a.php", &many, 64 << 10), Err(PairsTooLarge { bytes_max: 64 << 10 }));
}
