//! Rows for what unsafe requests make invalid.
//! Keys are compared by the URLs that they show.

use super::invalidated;
use crate::key::Key;
use crate::message::{Field, RequestHead, ResponseHead};

#[test]
fn unsafe_methods_invalidate_their_target_and_what_they_name_on_the_same_origin() {
    let check = |method: &str, status: u16, response: &[(&str, &str)], expected: &[&str]| {
        let fields: Vec<Field<'_>> = response.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let target = Key::new(b"https", b"a.example", b"/dir/page?q=1").unwrap();
        let request = RequestHead::new(method.as_bytes(), &[]);
        let keys = invalidated(&target, request, ResponseHead { status, fields: &fields });
        let found: Vec<_> = keys.iter().map(|key| std::str::from_utf8(key.url()).unwrap()).collect();
        assert_eq!(found, expected, "{method} {status} {response:?}");
    };
    const TARGET: &str = "https://a.example/dir/page?q=1";
    for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "post"] {
        check(method, 200, &[], &[TARGET]);
        check(method, 303, &[], &[TARGET]);
        check(method, 404, &[], &[]);
        check(method, 500, &[], &[]);
    }
    for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
        check(method, 200, &[("location", "/x")], &[]);
    }
    let post = |name: &str, value: &str, expected: &[&str]| check("POST", 201, &[(name, value)], expected);
    for name in ["location", "content-location"] {
        post(name, "https://A.example:443/new", &[TARGET, "https://a.example/new"]);
        post(name, "/new#part", &[TARGET, "https://a.example/new"]);
        post(name, "new", &[TARGET, "https://a.example/dir/new"]);
        post(name, "../up/./x", &[TARGET, "https://a.example/up/x"]);
        post(name, "?q=2", &[TARGET, "https://a.example/dir/page?q=2"]);
        post(name, "//a.example/new", &[TARGET, "https://a.example/new"]);
        for foreign in
            ["https://b.example/new", "http://a.example/new", "//b.example/", "https://a.example:8443/", "ftp://x", "a:b", ""]
        {
            post(name, foreign, &[TARGET]);
        }
    }
    check("POST", 200, &[("location", "/x"), ("location", "/y")], &[TARGET]);
}
