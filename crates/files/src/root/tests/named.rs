//! Files that an application names, for `send-file`: what it says they are, what the request wants of them, and that
//! nothing outside of the folder is sent.

use super::{Answer, Ask, ETAG_OF_HELLO, Root, Site, get, header, now, short};
use std::fs;
use std::os::unix::fs::symlink;

fn send(site: &Site, name: &str, media_type: Option<&str>, ask: &Ask) -> Answer {
    let root = Root::open(&site.settings).expect("a root");
    root.send(name.as_bytes(), media_type.map(str::to_owned), ask, now())
}

#[test]
fn a_file_is_what_the_application_says_it_is() {
    let site = Site::new(&[("a b/hello.bin", "hello")]);
    let check = |media_type: Option<&str>, ask: Ask, expected: &str, content_type: &str| {
        let answer = send(&site, "/a b/hello.bin", media_type, &ask);
        assert_eq!(short(&answer), expected, "{ask:?}");
        assert_eq!(header(&answer, "content-type"), content_type, "{ask:?}");
    };
    let own = Some("application/x-own");
    check(None, get("/x"), "200 hello", "application/octet-stream");
    check(own, get("/x"), "200 hello", "application/x-own");
    check(own, Ask { range: Some(b"bytes=1-2"), ..get("/x") }, "206 el", "application/x-own");
    check(own, Ask { if_none_match: Some(ETAG_OF_HELLO.as_bytes()), ..get("/x") }, "304", "");
    check(own, Ask { range: Some(b"bytes=9-"), ..get("/x") }, "416 RangeNotSatisfiable { length: 5 }", "");
    let parts = send(&site, "a b/hello.bin", own, &Ask { range: Some(b"bytes=0-0,4-4"), ..get("/x") });
    assert!(header(&parts, "content-type").starts_with("multipart/byteranges; boundary="));
    assert_eq!(short(&parts).matches("content-type: application/x-own\r\n").count(), 2);
}

#[test]
fn nothing_outside_of_the_folder_is_sent() {
    let site = Site::new(&[("sub/a.txt", "below"), (".hidden/b", "hidden")]);
    fs::write(site.folder.path().join("secret"), "secret").expect("a file");
    symlink("../secret", site.settings.root.join("out")).expect("a link");
    symlink("..", site.settings.root.join("up")).expect("a link");
    symlink("sub", site.settings.root.join("link")).expect("a link");
    let check = |name: &str, expected: &str| assert_eq!(short(&send(&site, name, None, &get("/x"))), expected, "{name}");
    check("/sub/a.txt", "200 below");
    check("/link/a.txt", "200 below");
    check("/sub", "404 NotFound");
    check("/", "404 NotFound");
    check("/none", "404 NotFound");
    check("/out", "404 NotFound");
    check("/up/secret", "404 NotFound");
    check("/.hidden/b", "404 NotFound");
    check("/../secret", "400 BadPath");
    check("/sub/../../secret", "400 BadPath");
    // Decoded already: what looks like a code is a name.
    check("/%2e%2e/secret", "404 NotFound");
    let site = site.set(|settings| settings.hidden = true);
    assert_eq!(short(&send(&site, "/.hidden/b", None, &get("/x"))), "200 hidden");
}
