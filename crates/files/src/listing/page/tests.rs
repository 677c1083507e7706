//! How listings look, and what is kept out of them. That they are asked for is tested in `root`.

use super::{date, escaped_html, escaped_json, prefers_json};
use crate::ask::{Ask, Method};
use crate::listing::{Entry, EntryKind, Listing, ListingAsk};
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use std::time::{Duration, UNIX_EPOCH};

fn listing(names: &[&str]) -> Listing {
    let entry = |name: &&str| match name.strip_suffix('/') {
        Some(name) => Entry { name: name.into(), kind: EntryKind::Folder, modified_seconds: 0 },
        None => Entry { name: (*name).into(), kind: EntryKind::File { length: 12 }, modified_seconds: 784_111_777 },
    };
    Listing { is_root: false, entries: names.iter().map(entry).collect(), is_cut: false }
}

fn body(listing: &Listing, path: &str, accept: &str) -> String {
    let ask = Ask { accept: Some(accept.as_bytes()), ..Ask::new(Method::Get, path.as_bytes()) };
    String::from_utf8(listing.page(&ListingAsk::new(b".", &ask)).body).expect("text")
}

#[test]
fn names_cannot_leave_their_place_in_the_page() {
    let check = |name: &str, expected: &str| {
        let page = body(&listing(&[name]), "/x/", "text/html");
        assert!(page.contains(&format!("<tr><td><a href=\"{expected}</a></td>")), "{expected} in {page}");
    };
    check("a.txt", "./a.txt\"><bdi>a.txt</bdi>");
    check("sub/", "./sub/\"><bdi>sub</bdi>/");
    check("<script>\"&'", "./%3Cscript%3E%22%26%27\"><bdi>&lt;script&gt;&quot;&amp;&#39;</bdi>");
    check("javascript:alert(1)", "./javascript%3Aalert%281%29\"><bdi>javascript:alert(1)</bdi>");
    check("100%?#", "./100%25%3F%23\"><bdi>100%?#</bdi>");
    check("ü", "./%C3%BC\"><bdi>ü</bdi>");
}

#[test]
fn the_page_shows_the_path_sizes_and_dates() {
    let page = body(&listing(&["sub/", "a"]), "/x/%3Cb%3E/", "*/*");
    assert!(page.contains("<title>/x/&lt;b&gt;/</title>"), "{page}");
    assert!(page.contains("<td class=\"n\">12</td><td>1994-11-06 08:49:37</td>"), "{page}");
    assert!(page.contains("href=\"../\""), "{page}");
    assert!(!page.contains("there are more"), "{page}");
    let root = Listing { is_root: true, is_cut: true, ..listing(&["a"]) };
    let page = body(&root, "/", "*/*");
    assert!(!page.contains("href=\"../\""), "{page}");
    assert!(page.contains("Only 1 entries are shown; there are more."), "{page}");
}

#[test]
fn json_has_the_same() {
    let mut entries = listing(&["sub/", "a \"\\\n"]);
    let expected = "{\"entries\":[\
        {\"name\":\"sub\",\"href\":\"./sub/\",\"type\":\"folder\",\"modified\":\"1970-01-01T00:00:00Z\"},\
        {\"name\":\"a \\\"\\\\\\u000a\",\"href\":\"./a%20%22%5C%0A\",\"type\":\"file\",\"bytes\":12,\"modified\":\"1994-11-06T08:49:37Z\"}\
        ],\"truncated\":false}";
    assert_eq!(body(&entries, "/x/", "application/json"), expected);
    entries = Listing { is_cut: true, ..listing(&[]) };
    assert_eq!(body(&entries, "/x/", "application/json"), "{\"entries\":[],\"truncated\":true}");
}

#[test]
fn json_is_for_those_who_prefer_it() {
    let check = |accept: &str, expected: bool| assert_eq!(prefers_json(Some(accept.as_bytes())), expected, "{accept}");
    check("application/json", true);
    check("Application/JSON", true);
    check("application/*", true);
    check("application/json, text/html;q=0.9", true);
    check("application/json, */*;q=0.1", true);
    check("text/html;q=0, */*", true);
    check("application/json, text/html", false);
    check("text/html, application/json;q=0.9", false);
    check("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false);
    check("*/*", false);
    check("image/png", false);
    check("", false);
    assert!(!prefers_json(None));
}

#[test]
fn head_has_the_length_only() {
    let listing = listing(&["a"]);
    let page = |method| listing.page(&ListingAsk::new(b".", &Ask::new(method, b"/")));
    let (get, head) = (page(Method::Get), page(Method::Head));
    assert_eq!((head.body.len(), head.content_length, &head.headers), (0, get.body.len() as u64, &get.headers));
}

proptest! {
    #[test]
    fn escaped_text_has_nothing_that_ends_it(text in proptest::collection::vec(proptest::num::u8::ANY, 0..60)) {
        prop_assert!(!escaped_html(&text).contains(['<', '>', '"', '\'']));
        let json = escaped_json(&text);
        prop_assert!(!json.contains(|character: char| character.is_ascii_control() || character == '<'));
        prop_assert_eq!(json.replace("\\\\", "").replace("\\\"", "").matches('"').count(), 0);
    }

    #[test]
    fn dates_read_back_as_the_second(seconds in 0..253_402_300_800_i64) {
        let text = date(seconds);
        let fields: Vec<u64> = text.split(|character: char| !character.is_ascii_digit()).filter_map(|field| field.parse().ok()).collect();
        let [year, month, day, hour, minute, second] = fields[..] else { panic!("{text}") };
        let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(seconds / 86_400 % 7) as usize];
        let asctime = format!("{weekday} {} {day:2} {hour:02}:{minute:02}:{second:02} {year:04}", names[month as usize - 1]);
        let read = httpdate::parse_http_date(&asctime).expect("a date");
        prop_assert_eq!(read, UNIX_EPOCH + Duration::from_secs(seconds as u64));
    }
}

#[test]
fn impossible_dates_are_the_nearest_possible() {
    assert_eq!(date(-5), "1970-01-01T00:00:00Z");
    assert_eq!(date(i64::MAX), "9999-12-31T23:59:59Z");
}
