//! Mounts by their steps, and answers of applications beneath them, in rows.

use super::{Answerer, Mount};
use crate::fixtures::{request, template};
use crate::step::{Scope, compile_steps};
use tidegate_limiting::Tables;
use tidegate_model::{PathPolicy, Step};
use tidegate_wire::head::{Fields, RequestHead};

fn mount(steps: &[Step], path: &str) -> Mount {
    let scope = Scope { tables: &Tables::default(), site: "site", route: "route", path_policy: PathPolicy::DEFAULT };
    let steps = compile_steps(scope, &[], steps).expect("steps of the test");
    Mount::of(&steps, path.as_bytes())
}

fn strip(prefix: &str) -> Step {
    Step::StripPrefix(prefix.into())
}

fn add(prefix: &str) -> Step {
    Step::AddPrefix(prefix.into())
}

#[test]
fn a_mount_is_what_the_steps_take_off_and_put_in_its_place() {
    let check = |steps: &[Step], path: &str, seen: &str, inner: &str, is_bare: bool| {
        let expected = Mount { seen: seen.into(), inner: inner.into(), is_bare };
        assert_eq!(mount(steps, path), expected, "{steps:?} {path}");
    };
    check(&[], "/app/x", "", "", false);
    check(&[strip("/app")], "/app/x", "/app", "", false);
    check(&[strip("/app/")], "/app/", "/app", "", false);
    check(&[strip("/app")], "/app", "/app", "", true);
    check(&[strip("/app")], "/apps", "", "", false);
    check(&[strip("/app")], "*", "", "", false);
    check(&[strip("/a"), strip("/b")], "/a/b/c", "/a/b", "", false);
    check(&[strip("/a"), strip("/b")], "/a/c", "/a", "", false);
    check(&[add("/v1")], "/x", "", "/v1", false);
    check(&[strip("/app"), add("/v1")], "/app/x", "/app", "/v1", false);
    check(&[strip("/app"), add("/v1"), add("/api")], "/app", "/app", "/api/v1", true);
    check(&[add("/a/b"), strip("/a")], "/x", "", "/b", false);
    check(&[add("/a"), strip("/a/x")], "/x/y", "/x", "", false);
    check(&[add("/a"), strip("/a/x")], "/y", "", "/a", false);
    let rewrite = Step::Rewrite { pattern: None, to: template("/other") };
    check(&[strip("/app"), rewrite], "/app/x", "/app", "", false);
}

#[test]
fn a_root_that_was_asked_for_without_its_slash_is_known() {
    let check = |steps: &[Step], asked: &str, left: &str, expected: bool| {
        assert_eq!(mount(steps, asked).is_root_without_slash(left.as_bytes()), expected, "{steps:?} {asked} {left}");
    };
    check(&[strip("/app")], "/app", "/", true);
    check(&[strip("/app"), add("/v1")], "/app", "/v1/", true);
    check(&[strip("/app")], "/app/", "/", false);
    check(&[strip("/app")], "/app", "/rewritten", false);
    check(&[], "/", "/", false);
}

/// The request as the upstream has it.
fn asked(host: &str, scheme: &str) -> RequestHead {
    let (host, proto) = (format!("Host: {host}"), format!("X-Forwarded-Proto: {scheme}"));
    request("/x", "shop.example", &[&host, &proto, "X-Forwarded-Host: shop.example"])
}

const SERVERS: &[&str] = &["10.0.0.4:8080", "app.internal:80"];

fn translated(mount: &Mount, request: &RequestHead, name: &str, value: &str) -> String {
    let mut fields = Fields::default();
    fields.push(b"X-Before", b"1");
    fields.push(name.as_bytes(), value.as_bytes());
    fields.push(b"X-After", b"2");
    Answerer { mount, request, servers: SERVERS }.translate(&mut fields);
    let all: Vec<_> = fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    assert_eq!((&*all[0].1, &*all[2].1, all.len()), (&b"1"[..], &b"2"[..], 3), "{name}: {value}");
    assert_eq!(all[1].0, name.as_bytes());
    String::from_utf8(all[1].1.clone()).expect("text")
}

#[test]
fn locations_of_an_application_are_where_the_client_finds_them() {
    let (stripped, request) = (mount(&[strip("/app")], "/app/x"), asked("shop.example", "https"));
    let check = |value: &str, expected: &str| {
        for name in ["Location", "Content-Location", "content-location"] {
            assert_eq!(translated(&stripped, &request, name, value), expected, "{value}");
        }
    };
    check("/", "/app/");
    check("/login?next=/x#top", "/app/login?next=/x#top");
    check("/?q=/app/", "/app/?q=/app/");
    // The application knows its prefix, by `X-Forwarded-Prefix` or by its own settings.
    check("/app", "/app");
    check("/app/login", "/app/login");
    check("/application", "/app/application");
    // Relative to what the client sees already.
    check("login", "login");
    check("../x", "../x");
    check("?page=2", "?page=2");
    check("#top", "#top");
    check("", "");
    // The upstream's own address, in each of the ways in which it may name itself.
    check("http://10.0.0.4:8080/login", "/app/login");
    check("HTTP://10.0.0.4:8080", "/app/");
    check("//10.0.0.4:8080?a", "/app/?a");
    check("http://app.internal/login", "/app/login");
    check("http://APP.internal:80/login", "/app/login");
    check("http://app.internal:80/app/login", "/app/login");
    check("https://shop.example/login", "/app/login");
    check("https://shop.example:443/login", "/app/login");
    check("http://shop.example/login", "/app/login");
    check("//shop.example/app/", "/app/");
    // Others' are not touched.
    check("http://10.0.0.4/login", "http://10.0.0.4/login");
    check("http://10.0.0.4:8081/login", "http://10.0.0.4:8081/login");
    check("https://sso.example/login?back=https://shop.example/", "https://sso.example/login?back=https://shop.example/");
    check("https://shop.example@evil.example/", "https://shop.example@evil.example/");
    check("https://shop.example.evil.example/", "https://shop.example.evil.example/");
    check("https://shop.example\\@evil.example/", "https://shop.example\\@evil.example/");
    check("//sso.example/", "//sso.example/");
    check("mailto:a@shop.example", "mailto:a@shop.example");
    check("https:/login", "https:/login");
}

#[test]
fn a_host_that_a_step_has_set_is_the_upstreams_too_and_https_stays_https() {
    let stripped = mount(&[strip("/app")], "/app/x");
    let check = |scheme: &str, value: &str, expected: &str| {
        assert_eq!(translated(&stripped, &asked("own.internal:8080", scheme), "Location", value), expected, "{value}");
    };
    check("http", "http://own.internal:8080/x", "/app/x");
    check("http", "http://shop.example/x", "/app/x");
    check("http", "https://shop.example/x", "https://shop.example/app/x");
    check("http", "https://shop.example/app/x", "https://shop.example/app/x");
    check("https", "http://shop.example/x", "/app/x");
    check("http", "https://own.internal:8080/x", "/app/x");
}

#[test]
fn what_was_added_is_taken_off_again() {
    let check = |steps: &[Step], value: &str, expected: &str| {
        let mount = mount(steps, "/app/x");
        assert_eq!(translated(&mount, &asked("shop.example", "http"), "Location", value), expected, "{steps:?} {value}");
    };
    let both = [strip("/app"), add("/v1")];
    check(&both, "/v1/login", "/app/login");
    check(&both, "/v1", "/app");
    check(&both, "http://10.0.0.4:8080/v1/login", "/app/login");
    // Not beneath what is mounted: the client cannot get there by way of this route.
    check(&both, "/v10/x", "/v10/x");
    check(&both, "/login", "/login");
    check(&both, "http://10.0.0.4:8080/login", "http://10.0.0.4:8080/login");
    check(&both, "/app/login", "/app/login");
    check(&[add("/v1")], "/v1/login", "/login");
    check(&[add("/v1")], "/v1", "/");
    check(&[], "/login", "/login");
    check(&[], "http://10.0.0.4:8080/login", "/login");
}

#[test]
fn no_translation_names_another_host() {
    let check = |mount: &Mount, value: &str, expected: &str| {
        assert_eq!(translated(mount, &asked("shop.example", "http"), "Location", value), expected, "{value}");
    };
    let added = mount(&[add("/v1")], "/x");
    check(&added, "/v1//evil.example", "/evil.example");
    check(&added, "/v1/\\evil.example", "/evil.example");
    check(&added, "http://shop.example/v1//evil.example", "/evil.example");
    let plain = mount(&[], "/x");
    check(&plain, "http://shop.example//evil.example", "/evil.example");
    check(&plain, "//shop.example//evil.example", "/evil.example");
}

#[test]
fn a_refresh_is_translated_in_its_url() {
    let (stripped, request) = (mount(&[strip("/app")], "/app/x"), asked("shop.example", "http"));
    let check = |value: &str, expected: &str| {
        assert_eq!(translated(&stripped, &request, "Refresh", value), expected, "{value}");
    };
    check("5; url=/next", "5; url=/app/next");
    check("0;URL='/next?a=b'", "0;URL='/app/next?a=b'");
    check("0, url = \"http://10.0.0.4:8080/\"", "0, url = \"/app/\"");
    check("5", "5");
    check("5; /next", "5; /next");
    check("5; url", "5; url");
    check("5; url=https://sso.example/", "5; url=https://sso.example/");
    check("5; url='/next", "5; url='/app/next");
}

#[test]
fn cookies_are_sent_to_where_the_application_is() {
    let request = asked("shop.example", "https");
    let check = |steps: &[Step], value: &str, expected: &str| {
        assert_eq!(translated(&mount(steps, "/app/x"), &request, "Set-Cookie", value), expected, "{steps:?} {value}");
    };
    let stripped = [strip("/app")];
    check(&stripped, "id=1; Path=/; HttpOnly", "id=1; Path=/app; HttpOnly");
    check(&stripped, "id=1;path=/admin;Secure", "id=1; Path=/app/admin;Secure");
    check(&stripped, "id=1; Path=/admin/", "id=1; Path=/app/admin/");
    check(&stripped, "id=1; Path=/app", "id=1; Path=/app");
    check(&stripped, "id=1; Path=/app/admin", "id=1; Path=/app/admin");
    // Without a path, and with one that is none, it is that of the request as the client sees it.
    check(&stripped, "id=1; HttpOnly", "id=1; HttpOnly");
    check(&stripped, "id=1; Path=; Secure", "id=1; Path=; Secure");
    check(&stripped, "path=/; Path=/x", "path=/; Path=/app/x");
    // Refused by browsers with any other path.
    check(&stripped, "__Host-id=1; Secure; Path=/", "__Host-id=1; Secure; Path=/");
    check(&stripped, "__Secure-id=1; Secure; Path=/", "__Secure-id=1; Secure; Path=/app");
    let both = [strip("/app"), add("/v1")];
    check(&both, "id=1; Path=/v1", "id=1; Path=/app");
    check(&both, "id=1; Path=/v1/admin", "id=1; Path=/app/admin");
    check(&both, "id=1; Path=/", "id=1; Path=/app");
    check(&both, "id=1; Path=/v2", "id=1; Path=/v2");
    check(&[add("/v1")], "id=1; Path=/v1", "id=1; Path=/");
    check(&[], "id=1; Path=/", "id=1; Path=/");
}

#[test]
fn a_domain_of_the_upstream_is_left_out() {
    let stripped = mount(&[strip("/app")], "/app/x");
    let check = |host: &str, value: &str, expected: &str| {
        assert_eq!(translated(&stripped, &asked(host, "https"), "Set-Cookie", value), expected, "{host} {value}");
    };
    check("shop.example", "id=1; Domain=app.internal; Path=/", "id=1; Path=/app");
    check("shop.example", "id=1; domain=.internal; Secure", "id=1; Secure");
    check("shop.example", "id=1; Domain=10.0.0.4", "id=1");
    check("own.test:8080", "id=1; Domain=own.test", "id=1");
    // The client's own, and those that are nobody's here.
    check("shop.example", "id=1; Domain=shop.example", "id=1; Domain=shop.example");
    check("shop.example", "id=1; Domain=.example", "id=1; Domain=.example");
    check("shop.example", "id=1; Domain=sso.other", "id=1; Domain=sso.other");
    check("shop.example", "id=1; Domain=", "id=1; Domain=");
}
