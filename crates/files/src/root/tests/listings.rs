//! What is in the listing of a real folder. How it is escaped is tested in `listing`.

use super::{Site, body, get, header};
use crate::Symlinks;
use crate::ask::{Ask, Method};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

fn listed(site: &Site, path: &str) -> Vec<String> {
    let page = body(&site.answer(&Ask { accept: Some(b"application/json"), ..get(path) }));
    page.split("\"href\":\"./").skip(1).map(|after| after.split('"').next().expect("a name").to_owned()).collect()
}

fn site() -> Site {
    Site::new(&[("b", "12"), ("a", ""), ("Z/x", ""), ("c/index.html", "index"), (".hidden", ""), (".well-known/x", "")])
        .set(|settings| settings.listing = true)
}

#[test]
fn folders_come_first_and_hidden_names_not_at_all() {
    let site = site();
    assert_eq!(listed(&site, "/"), [".well-known/", "Z/", "c/", "a", "b"]);
    assert_eq!(listed(&site, "/Z/"), ["x"]);
    let site = site.set(|settings| settings.hidden = true);
    assert_eq!(listed(&site, "/"), [".well-known/", "Z/", "c/", ".hidden", "a", "b"]);
}

#[test]
fn an_index_comes_before_a_listing_and_a_listing_before_the_fallback() {
    let site = site().set(|settings| settings.fallback = Some("b".into()));
    site.check(get("/c/"), "200 index");
    site.check(get("/Z"), "301 ./Z/");
    site.check(get("/none/"), "200 12");
    let answer = site.answer(&get("/Z/"));
    assert_eq!(header(&answer, "content-type"), "text/html; charset=utf-8");
    assert_eq!(header(&answer, "vary"), "accept");
    assert_eq!(header(&answer, "x-content-type-options"), "nosniff");
    assert!(body(&answer).contains("<a href=\"./x\">"));
    assert_eq!(body(&site.answer(&Ask { method: Method::Head, ..get("/Z/") })), "");
}

#[test]
fn only_what_a_request_could_have_is_listed() {
    let site = Site::new(&[("a", ""), ("sub/x", "")]).set(|settings| settings.listing = true);
    let root = site.settings.root.clone();
    for (target, link) in
        [("a", "to_file"), ("sub", "to_folder"), ("/etc/passwd", "absolute"), ("..", "out"), ("none", "dangling")]
    {
        symlink(target, root.join(link)).expect("a symlink");
    }
    rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), rustix::fs::FileType::Fifo, 0o644.into(), 0).expect("a FIFO");
    for name in ["back\\slash", "new\nline"] {
        File::create(root.join(name)).expect("a file");
    }
    File::create(root.join(OsStr::from_bytes(b"\xff"))).expect("a file");
    let check = |site: &Site, expected: &[&str]| {
        let names = listed(site, "/");
        assert_eq!(names, expected);
        for name in names {
            assert!(site.answer(&get(&format!("/{name}"))).status() < 400, "{name}");
        }
    };
    let mut site = site;
    check(&site, &["sub/", "to_folder/", "a", "to_file", "%FF"]);
    site.settings.symlinks = Symlinks::Refuse;
    check(&site, &["sub/", "a", "%FF"]);
    site.settings.symlinks = Symlinks::Follow;
    check(&site, &["out/", "sub/", "to_folder/", "a", "absolute", "to_file", "%FF"]);
}

#[test]
fn a_huge_folder_is_cut_and_says_so() {
    let site = Site::new(&[]).set(|settings| settings.listing = true);
    for index in 0..10_000 {
        File::create(site.settings.root.join(format!("{index:05}"))).expect("a file");
    }
    let page = |site: &Site| body(&site.answer(&get("/")));
    assert!(!page(&site).contains("there are more"));
    fs::create_dir(site.settings.root.join("one_more")).expect("a folder");
    assert!(page(&site).contains("Only 10000 entries are shown; there are more."));
    assert_eq!(page(&site).matches("<a href=\"./").count(), 10_000);
}
