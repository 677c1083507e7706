//! What applications name, and which paths are whose, in rows.

use super::{NamedFile, SendRule, leave_body_out};
use crate::fixtures::{lines, push_lines};
use tidegate_model::SendFile;
use tidegate_wire::head::Fields;

fn fields(given: &[&str]) -> Fields {
    let mut fields = Fields::default();
    push_lines(&mut fields, given);
    fields
}

#[test]
fn a_file_is_named_by_either_field_and_neither_is_left() {
    let check = |given: &[&str], expected: Option<NamedFile>| {
        let mut fields = fields(given);
        assert_eq!(NamedFile::take(&mut fields), expected, "{given:?}");
        assert_eq!(lines(&fields), ["A: 1"], "{given:?}");
    };
    let (path, file) = (NamedFile::ByPath(b"/p".to_vec()), NamedFile::ByFile(b"/f".to_vec()));
    check(&["A: 1", "X-Accel-Redirect: /p"], Some(NamedFile::ByPath(b"/p".to_vec())));
    check(&["x-sendfile: /f", "A: 1"], Some(file));
    check(&["X-Sendfile: /f", "X-Accel-Redirect: /p", "X-Accel-Redirect: /q", "A: 1"], Some(path));
    check(&["A: 1", "X-Accel-Redirect: "], None);
    check(&["A: 1"], None);
}

#[test]
fn paths_are_decoded_as_their_field_has_them() {
    let check = |named: NamedFile, expected: &[&str]| {
        let paths: Vec<String> = named.paths().iter().map(|path| path.escape_ascii().to_string()).collect();
        assert_eq!(paths, expected, "{named:?}");
    };
    let (by_path, by_file) = (|text: &str| NamedFile::ByPath(text.into()), |text: &str| NamedFile::ByFile(text.into()));
    check(by_path("/a%20b.pdf"), &["/a b.pdf"]);
    check(by_path("/a b.pdf?x=1#y"), &["/a b.pdf"]);
    check(by_path("/a%3Fb"), &["/a?b"]);
    check(by_path("/%2e%2e/a"), &["/../a"]);
    check(by_path("/100%"), &[]);
    check(by_path("/%4g"), &[]);
    check(by_file("/srv/a b"), &["/srv/a b"]);
    check(by_file("/srv/a%20b"), &["/srv/a%20b", "/srv/a b"]);
    check(by_file("/srv/100%"), &["/srv/100%"]);
    check(by_file("/srv/a?b"), &["/srv/a?b"]);
}

#[test]
fn a_folder_has_the_paths_that_begin_as_it_says() {
    let check = |under: Option<&str>, named: NamedFile, expected: Option<&str>| {
        let rule = SendRule::new(&SendFile { root: "/srv/files".into(), under: under.map(str::to_owned), hidden: false });
        let path = named.paths().swap_remove(0);
        let found = rule.below(&named, &path).map(|rest| String::from_utf8_lossy(rest).into_owned());
        assert_eq!(found.as_deref(), expected, "{under:?} {named:?}");
    };
    let (by_path, by_file) = (|text: &str| NamedFile::ByPath(text.into()), |text: &str| NamedFile::ByFile(text.into()));
    check(None, by_path("/a/b"), Some("/a/b"));
    check(None, by_path("a/b"), None);
    check(None, by_path("@name"), None);
    check(None, by_file("/srv/files/a/b"), Some("/a/b"));
    check(None, by_file("/srv/filesystem"), None);
    check(None, by_file("/etc/passwd"), None);
    check(None, by_file("files/a"), None);
    check(Some("/protected"), by_path("/protected/a"), Some("/a"));
    check(Some("/protected"), by_path("/protected"), None);
    check(Some("/protected"), by_path("/a"), None);
    check(Some("/var/www/storage"), by_file("/var/www/storage/a"), Some("/a"));
    check(Some("/var/www/storage"), by_file("/srv/files/a"), None);
}

#[test]
fn what_describes_the_body_of_the_application_goes() {
    let given = [
        "Content-Type: application/pdf",
        "Content-Length: 3",
        "Content-Encoding: gzip",
        "ETag: \"a\"",
        "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
        "Accept-Ranges: none",
        "Content-Disposition: attachment; filename=a.pdf",
        "Cache-Control: private",
        "Set-Cookie: a=1",
        "Set-Cookie: b=2",
        "Content-Security-Policy: sandbox",
    ];
    let mut fields = fields(&given);
    assert_eq!(leave_body_out(&mut fields).as_deref(), Some("application/pdf"));
    assert_eq!(lines(&fields), given[6..]);
    assert_eq!(leave_body_out(&mut self::fields(&["A: 1"])), None);
    let mut odd = Fields::default();
    odd.push(b"Content-Type", b"text/\xff");
    assert_eq!(leave_body_out(&mut odd), None);
    assert_eq!(lines(&odd), [""; 0]);
}
