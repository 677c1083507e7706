//! Rows for keys and variants: which requests share, and which must not.
//! Secondary keys are compared, never looked into.

use super::vary::accepted_codings;
use super::{KEY_BYTES_MAX, Key, Vary};
use crate::message::Field;

fn fields<'a>(lines: &'a [(&'a str, &'a str)]) -> Vec<Field<'a>> {
    lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
}

#[test]
fn a_key_is_the_url_with_the_host_in_lower_case() {
    let check = |scheme: &str, host: &str, target: &str, expected: Option<&str>| {
        let key = Key::new(scheme.as_bytes(), host.as_bytes(), target.as_bytes());
        assert_eq!(key.as_ref().map(|key| std::str::from_utf8(key.url()).unwrap()), expected, "{scheme} {host} {target}");
        if let Some(key) = key {
            assert_eq!(Key::from_url(key.url()), Some(key));
        }
    };
    check("HTTPS", "Example.ORG", "/A?b=C", Some("https://example.org/A?b=C"));
    check("http", "a:80", "/", Some("http://a/"));
    check("http", "a:8080", "/", Some("http://a:8080/"));
    check("https", "a:443", "", Some("https://a/"));
    check("http", "[::1]", "/", Some("http://[::1]/"));
    check("ftp", "a", "/", None);
    for host in ["", "a/b", "a?b", "u@a", "a b", "a\n"] {
        check("http", host, "/", None);
    }
    check("http", "a", "*", None);
    check("http", "a", "/#x", None);
    check("http", "a", &"/".repeat(KEY_BYTES_MAX), None);
}

#[test]
fn accepted_codings_are_the_set_of_three() {
    let check = |lines: &[&str], expected: &str| {
        let lines: Vec<Field<'_>> = lines.iter().map(|line| (&b"accept-encoding"[..], line.as_bytes())).collect();
        let bits = ["zstd", "br", "gzip"].iter().enumerate().filter(|(_, name)| expected.contains(**name));
        assert_eq!(accepted_codings(&lines), bits.map(|(place, _)| 1 << place).sum::<u8>(), "{lines:?}");
    };
    check(&[], "");
    check(&[""], "");
    check(&["identity"], "");
    check(&["gzip, deflate, br"], "gzip br");
    check(&["br;q=0.5, GZIP ; q=1.0"], "gzip br");
    check(&["gzip", "zstd"], "gzip zstd");
    check(&["x-gzip"], "gzip");
    check(&["gzip;q=0, br"], "br");
    check(&["gzip;q=0.000"], "");
    check(&["gzip;q=x"], "");
    check(&["*"], "gzip br zstd");
    check(&["*;q=0, gzip"], "gzip");
    check(&["*, br;q=0"], "gzip zstd");
}

#[test]
fn requests_that_say_the_same_share_a_variant() {
    let check = |vary: &str, one: &[(&str, &str)], other: &[(&str, &str)], expected: bool| {
        let vary = Vary::read(&[(b"vary", vary.as_bytes())]).unwrap();
        let is_same = vary.secondary(&fields(one)) == vary.secondary(&fields(other));
        assert_eq!(is_same, expected, "{vary:?} {one:?} {other:?}");
    };
    check("", &[("a", "1")], &[("a", "2")], true);
    check("A", &[("a", "1")], &[("a", "2")], false);
    check("a", &[("a", "1")], &[], false);
    check("a", &[("a", "")], &[], false);
    check("a", &[("a", "1,2")], &[("a", "1 ,\t2")], true);
    check("a", &[("a", "1"), ("a", "2")], &[("a", "1, 2")], true);
    check("a", &[("a", "1, 2")], &[("a", "2, 1")], false);
    check("a, b", &[("a", "1"), ("b", "2")], &[("b", "2"), ("a", "1")], true);
    check("a, b", &[("a", "12")], &[("a", "1"), ("b", "2")], false);
    check("a, b", &[("a", "x")], &[("b", "x")], false);
    check("accept-encoding", &[("accept-encoding", "gzip, br")], &[("accept-encoding", "br;q=1, gzip;q=0.1, deflate")], true);
    check("accept-encoding", &[("accept-encoding", "gzip")], &[("accept-encoding", "br")], false);
    check("accept", &[("cookie", "1"), ("authorization", "a")], &[("cookie", "2")], true);
    check("cookie", &[("cookie", "1")], &[("cookie", "2")], false);
}

#[test]
fn a_vary_that_no_request_can_match_or_that_is_too_long_is_refused() {
    let check = |vary: &str, expected: bool| assert_eq!(Vary::read(&[(b"vary", vary.as_bytes())]).is_some(), expected, "{vary}");
    check("accept, Accept ,ACCEPT", true);
    check("*", false);
    check("accept, *", false);
    check("a b", false);
    check("a=\"b\"", false);
    let many = |count: usize| (0..count).map(|number| format!("x{number}")).collect::<Vec<_>>().join(",");
    check(&many(16), true);
    check(&many(17), false);
    let vary = Vary::read(&[(b"vary", b"a")]).unwrap();
    assert!(vary.secondary(&[(b"a", &vec![b'x'; 9000])]).is_none());
    assert!(vary.secondary(&[(b"a", &b"x,".repeat(5000))]).is_none());
    assert!(vary.secondary(&vec![(&b"a"[..], &b"x"[..]); 100_000]).is_none());
}

#[test]
fn any_bytes_make_a_variant_that_is_stable_and_bounded() {
    bolero::check!().with_iterations(5_000).for_each(|bytes: &[u8]| {
        let (names, values) = bytes.split_at(bytes.len() / 2);
        let Some(vary) = Vary::read(&[(b"vary", names)]) else { return };
        let again = Vary::from_names(vary.names()).expect("its own names");
        assert_eq!(vary, again);
        let request: Vec<Field<'_>> =
            vary.names().map(|name| (name, values)).chain([(&b"accept-encoding"[..], values)]).collect();
        let secondary = vary.secondary(&request);
        assert_eq!(secondary, again.secondary(&request));
        assert!(secondary.is_none_or(|secondary| secondary.len() <= 16 << 10));
        assert!(accepted_codings(&request) < 8);
        let _ = Key::from_url(bytes).and_then(|key| key.resolve(values));
    });
}

/// `fits` has a shorter way than `secondary`; both must say the same.
#[test]
fn what_fits_is_what_has_the_same_secondary_key() {
    let partition = |text: &'static str| (super::PARTITION, text.as_bytes());
    let language = |text: &'static str| (&b"accept-language"[..], text.as_bytes());
    let requests: [&[Field<'_>]; 7] = [
        &[],
        &[partition("a")],
        &[partition("a, b")],
        &[partition("a,b")],
        &[language("de"), partition("a")],
        &[partition("a"), language("en")],
        &[language("de")],
    ];
    for names in [&[][..], &[super::PARTITION], &[super::PARTITION, b"accept-language"], &[b"accept-language"]] {
        let vary = Vary::from_kept(names.iter().copied()).expect("names of the test");
        for kept in requests {
            let Some(secondary) = vary.secondary(kept) else { continue };
            for asked in requests {
                let expected = vary.secondary(asked).as_ref() == Some(&secondary);
                assert_eq!(vary.fits(asked, &secondary), expected, "{names:?}: {asked:?} for what {kept:?} has fetched");
            }
        }
    }
    let vary = Vary::from_kept(std::iter::once(super::PARTITION)).expect("a name");
    assert_ne!(vary.secondary(requests[2]), vary.secondary(requests[3]), "a partition is no list");
}
