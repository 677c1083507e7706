//! Cookies out of requests, and which requests are pages.

use super::{CompiledOidc, OidcAddress, OidcOfSite, cookie_host, is_navigation};
use crate::fixtures::{lines, oidc, push_lines, request};
use std::time::Duration;
use tidegate_access::Claims;
use tidegate_access::oidc::Session;
use tidegate_model::{Oidc, OidcProvider, Step};
use tidegate_wire::Fields;
use tidegate_wire::head::Method;

fn session() -> Session {
    let mut bytes = vec![2];
    bytes.extend_from_slice(&[7; 16]);
    bytes.extend_from_slice(&[0; 48]);
    Session::read(&bytes).expect("a session of nothing")
}

fn site(oidcs: &[Oidc]) -> OidcOfSite {
    let steps: Vec<Step> = oidcs.iter().map(|oidc| Step::Oidc(Some(Box::new(oidc.clone())))).collect();
    *OidcOfSite::of(steps.iter()).expect("there is one")
}

#[test]
fn cookies_of_log_ins_are_taken_out_and_others_stay() {
    let site = site(&[oidc("https://a.example"), oidc("https://b.example")]);
    let names = &site.all()[1].names;
    let (session, flows) = (&names.session, &names.flows);
    let check = |sent: &[&str], expected: &[&str], session_expected: Option<&str>| {
        let mut fields = Fields::default();
        push_lines(&mut fields, sent);
        let taken = site.take_cookies(&mut fields);
        assert_eq!(lines(&fields), expected, "{sent:?}");
        assert_eq!(taken.sessions(names).next().as_deref(), session_expected.map(str::as_bytes), "{sent:?}");
    };
    check(&[], &[], None);
    check(&["Cookie: a=b; c=d", "Cookie: e"], &["Cookie: a=b; c=d", "Cookie: e"], None);
    check(&["Cookie: a=b; __Host-other=1"], &["Cookie: a=b; __Host-other=1"], None);
    check(&[&format!("Cookie: {session}0=1.x")], &[], Some("x"));
    check(&[&format!("Cookie: a=b; {session}0=2.x;c=d;  {session}1=y ; {flows}=f")], &["cookie: a=b; c=d"], Some("xy"));
    check(
        &[&format!("Cookie: {session}1=y"), "A: b", &format!("Cookie: {session}0=2.x; z=1")],
        &["A: b", "cookie: z=1"],
        Some("xy"),
    );
    check(&[&format!("Cookie: {session}0=2.x")], &[], None);
    check(&[&format!("Cookie: {session}0")], &[], None);
}

#[test]
fn cookies_of_one_name_are_looked_at_in_their_turn_and_never_many() {
    let site = site(&[oidc("https://a.example")]);
    let names = &site.all()[0].names;
    let check = |pairs: &[(usize, &str)], expected: &[&str]| {
        let pairs: Vec<String> = pairs.iter().map(|(number, value)| format!("{}{number}={value}", names.session)).collect();
        let mut fields = Fields::default();
        push_lines(&mut fields, &[&format!("Cookie: {}", pairs.join("; "))]);
        let taken = site.take_cookies(&mut fields);
        let found: Vec<String> = taken.sessions(names).map(|one| String::from_utf8(one).expect("text")).collect();
        assert_eq!(found, expected, "{pairs:?}");
    };
    check(&[(0, "1.x")], &["x"]);
    check(&[(0, "1.forged"), (0, "1.x")], &["forged", "x"]);
    check(&[(0, "rubbish"), (0, "1.x")], &["x"]);
    // Of one piece there is another in front, behind, or nothing at all.
    check(&[(0, "2.x"), (1, "forged"), (1, "y")], &["xforged", "xy"]);
    check(&[(0, "2.x"), (1, "y"), (1, "forged")], &["xy", "xforged"]);
    check(&[(0, "2.forged"), (0, "2.x"), (1, "forged"), (1, "y")], &["forgedforged", "xy"]);
    check(&[(1, "y"), (2, "z")], &[]);
    let many: Vec<(usize, &str)> = (0..50).map(|_| (0, "1.x")).collect();
    check(&many, &["x"; 4]);
    // Pieces that no session has.
    check(&[(0, "6.x"), (1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")], &[]);
    check(&[(0, "1.x"), (9, "y"), (50, "z")], &["x"]);
}

#[test]
fn what_is_sealed_is_of_a_host_or_of_the_domain() {
    let own = CompiledOidc::new(&oidc("https://a.example"));
    let shared = CompiledOidc::new(&Oidc { domain: Some("example.com".into()), ..oidc("https://a.example") });
    let check = |authority: &str, own_expected: &str, shared_expected: &str| {
        let head = request("/", authority, &[]);
        let host = cookie_host(&head);
        let found = [&own, &shared].map(|oidc| String::from_utf8_lossy(oidc.realm(&host).host).into_owned());
        assert_eq!(found, [own_expected, shared_expected], "{authority}");
    };
    check("app.example.com", "app.example.com", "example.com");
    check("APP.Example.com:8443", "app.example.com", "example.com");
    check("app.example.com.", "app.example.com", "example.com");
    check("example.com", "example.com", "example.com");
    check("evilexample.com", "evilexample.com", "evilexample.com");
    check("other.example", "other.example", "other.example");
    check("[2001:DB8::1]:8443", "2001:db8::1", "2001:db8::1");
    assert_ne!(own.realm(b"example.com"), shared.realm(b"example.com"));
}

#[test]
fn a_page_that_somebody_looks_at_is_told_from_what_its_scripts_ask() {
    let check = |fields: &[&str], expected: bool| {
        assert_eq!(is_navigation(&request("/", "example.com", fields), false), expected, "{fields:?}");
    };
    check(&["Sec-Fetch-Mode: navigate"], true);
    check(&["Sec-Fetch-Mode: cors", "Accept: text/html"], false);
    check(&["Sec-Fetch-Mode: navigate", "Sec-Purpose: prefetch"], false);
    check(&["Sec-Fetch-Mode: navigate", "Purpose: prefetch"], false);
    check(&["Accept: application/xml, text/html;q=0.9"], true);
    check(&["Accept: application/xml", "Accept: Text/HTML"], true);
    check(&["Accept: text/html", "X-Requested-With: XMLHttpRequest"], false);
    check(&["Accept: */*"], false);
    check(&[], false);
    assert!(!is_navigation(&request("/", "example.com", &["Sec-Fetch-Mode: navigate"]), true));
    let mut post = request("/", "example.com", &["Sec-Fetch-Mode: navigate"]);
    post.method = Method::Post;
    assert!(!is_navigation(&post, false));
}

#[test]
fn addresses_are_the_log_ins_own() {
    let other = Oidc { callback: "https://login.example.com/back".into(), logout: "/bye".into(), ..oidc("https://b.example") };
    let site = site(&[oidc("https://a.example"), other]);
    let check = |path: &str, expected: Option<OidcAddress>| assert_eq!(site.address(path.as_bytes()), expected, "{path}");
    check("/.tidegate/oidc/callback", Some(OidcAddress::Callback));
    check("/back", Some(OidcAddress::Callback));
    check("/bye", Some(OidcAddress::LogOut));
    check("/.tidegate/oidc/logout", Some(OidcAddress::LogOut));
    check("/.tidegate/oidc/login", Some(OidcAddress::LogIn));
    check("/.tidegate/oidc/back-channel", Some(OidcAddress::BackChannel));
    check("/.tidegate/oidc/", None);
    check("/.tidegate/oidc/callback/", None);
    check("/", None);
}

#[test]
fn sessions_are_apart_where_what_is_asked_for_differs() {
    let base = CompiledOidc::new(&oidc("https://a.example"));
    let check = |change: &dyn Fn(&mut Oidc), is_same: bool| {
        let mut other = oidc("https://a.example");
        change(&mut other);
        assert_eq!(CompiledOidc::new(&other).id == base.id, is_same, "{other:?}");
    };
    check(&|oidc| oidc.user = "sub".into(), true);
    check(&|oidc| oidc.session = Duration::from_secs(60), true);
    check(&|oidc| oidc.provider.issuer = "https://b.example".into(), false);
    check(&|oidc| oidc.provider.client = "you".into(), false);
    check(&|oidc| oidc.provider.scopes.push("email".into()), false);
    check(&|oidc| oidc.access_token = Some("Authorization".into()), false);
    check(&|oidc| oidc.domain = Some("example.com".into()), false);
    assert!(base.is_called(&base.challenge.as_bytes()[base.challenge.len() - 9..base.challenge.len() - 1]));
    assert!(!base.is_called(b"00000000") && !base.is_called(b""));
}

#[test]
fn somebody_is_called_by_a_claim_or_else_by_the_subject() {
    let oidc = CompiledOidc::new(&oidc("https://a.example"));
    let check = |claims: &str, expected: &str| {
        assert_eq!(oidc.user(&Claims::of_text(claims).expect("claims"), &session()), expected, "{claims}");
    };
    check(r#"{"sub":"1","email":"a@example.com"}"#, "a@example.com");
    check(r#"{"sub":"1"}"#, "1");
    check(r#"{"sub":"1","email":""}"#, "1");
    check(r#"{"sub":"1","email":"a\nb"}"#, "1");
    check(r#"{"sub":"1\r2","email":null}"#, "session:07070707070707070707070707070707");
}

#[test]
fn several_providers_are_log_ins_of_their_own_behind_one_page() {
    let named = |name: &str, issuer: &str| OidcProvider { name: name.into(), ..oidc(issuer).provider };
    let several = Oidc {
        provider: named("Ours", "https://a.example"),
        others: vec![named("<b>\"R & D\"</b>", "https://b.example")],
        ..oidc("https://a.example")
    };
    let (one, compiled) = (CompiledOidc::new(&oidc("https://a.example")), CompiledOidc::new(&several));
    let ids: Vec<_> = compiled.ways().map(|way| way.id).collect();
    assert_eq!((ids.len(), ids[0], compiled.has_several(), one.has_several()), (2, one.id, true, false));
    assert_ne!(ids[0], ids[1]);
    assert_ne!(compiled.challenge, one.challenge, "a page is another address than a provider's log-in");
    let page = compiled.page("app.example.com", "/a?b=c&d=\"'<script>");
    assert!(page.contains("&lt;b&gt;&quot;R &amp; D&quot;&lt;/b&gt;</bdi>"), "{page}");
    assert!(page.contains("&amp;provider=Ours&amp;return=%2Fa%3Fb%3Dc%26d%3D%22%27%3Cscript%3E\""), "{page}");
    assert!(!page.contains("<script") && !page.contains("http"), "nothing comes from elsewhere: {page}");
    assert_eq!(page.matches("<a href=\"/.tidegate/oidc/login?").count(), 2);
    // A site that asks with one of them alone in a route has all of their addresses.
    let all = site(&[several, oidc("https://b.example"), oidc("https://a.example")]);
    assert_eq!(all.all().len(), 3, "that of one provider, those of the page");
    assert_eq!(all.all().iter().filter(|one| one.has_several()).count(), 1);
}
