//! Several providers of one site: a page that asks with which, and sessions of each.

use super::{Answer, Browser, HOST, PROGRAM};
use std::net::SocketAddr;
use tidegate_testkit::openid::{CLIENT, OpenIdProvider, SECRET, encoded};
use tidegate_testkit::proxy::Proxy;

fn host(providers: [&OpenIdProvider; 2]) -> Proxy {
    let [ours, others] = providers.map(OpenIdProvider::issuer);
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\"\nthreads 2\nsite \"http://{HOST}:{{port}}\" {{\n    \
         route \"/maybe\" {{ oidc optional=#true {{ provider \"Ours\" issuer=\"{ours}\" client=\"{CLIENT}\" secret=\"{SECRET}\"; \
         provider \"R & D\" issuer=\"{others}\" client=\"{CLIENT}\" secret=\"{SECRET}\"; }}; respond 200 body=\"<{{auth.user}}>\" }}\n    \
         route \"/ours\" {{ oidc issuer=\"{ours}\" client=\"{CLIENT}\" secret=\"{SECRET}\"; respond 200 body=\"ours {{auth.user}}\" }}\n    \
         oidc user=\"email\" {{\n        provider \"Ours\" issuer=\"{ours}\" client=\"{CLIENT}\" secret=\"{SECRET}\"\n        \
         provider \"R & D\" issuer=\"{others}\" client=\"{CLIENT}\" secret=\"{SECRET}\" {{ parameter \"prompt\" \"consent\"; }}\n        \
         require \"groups\" contains=\"staff\"\n    }}\n    respond 200 body=\"{{auth.user}} {{jwt.iss}} <{{request.header.Cookie}}>\"\n}}\n"
    );
    Proxy::start(PROGRAM, &config).expect("it starts")
}

/// The page for a path of the site.
fn page(at: SocketAddr, browser: &Browser, target: &str) -> Answer {
    let sent = browser.go(at, HOST, target);
    assert_eq!(sent.status, 302, "{}", sent.head);
    assert!(sent.location().starts_with("/.tidegate/oidc/login?with="), "{}", sent.head);
    assert_eq!(sent.fields("set-cookie").count(), 0, "no log-in has begun: {}", sent.head);
    browser.go(at, HOST, sent.location())
}

/// Where the link of that text leads.
fn link(page: &Answer, text: &str) -> String {
    let line = page.body.lines().find(|line| line.contains(&format!("<bdi>{text}</bdi>"))).expect("a link");
    let link = line.split("href=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an address");
    link.replace("&amp;", "&")
}

#[test]
fn a_page_asks_with_which_provider_and_leads_back_to_what_was_wanted() {
    let (ours, others) = (OpenIdProvider::start(), OpenIdProvider::start());
    others.behave(|behaviour| behaviour.subject = "bob".into());
    let proxy = host([&ours, &others]);
    let at = proxy.address;
    let browser = Browser::default();
    let shown = page(at, &browser, "/reports?of=a%20b&c=d");
    assert_eq!(shown.status, 200, "{}", shown.head);
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
    ] {
        assert_eq!(shown.field(name), Some(value), "{}", shown.head);
    }
    let policy = shown.field("content-security-policy").expect("a policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!shown.body.contains("<script") && !shown.body.contains("://"), "nothing of elsewhere: {}", shown.body);
    assert_eq!((ours.asked("GET /authorize"), others.asked("GET /authorize")), (0, 0));
    // Each link leads to its provider, and back.
    let chosen = link(&shown, "R &amp; D");
    assert!(chosen.contains("provider=R%20%26%20D&return=%2Freports%3Fof%3Da%2520b%26c%3Dd"), "{chosen}");
    let begun = browser.go(at, HOST, &chosen);
    assert!(begun.location().starts_with(&others.issuer()) && begun.location().contains("prompt=consent"), "{}", begun.head);
    let bob = browser.follow(at, HOST, &chosen);
    assert_eq!((bob.status, bob.body), (200, format!("bob@example.com {} <>", others.issuer())));
    let one = Browser::default();
    let alice = one.follow(at, HOST, &link(&page(at, &one, "/"), "Ours"));
    assert_eq!((alice.status, alice.body), (200, format!("alice@example.com {} <>", ours.issuer())));
    // Who has logged in with one of them is not asked again, and is nobody where another one is wanted.
    assert_eq!(browser.go(at, HOST, "/else").status, 200);
    assert_eq!(one.fetch(at, HOST, "/ours").body, "ours alice");
    assert_eq!(browser.fetch(at, HOST, "/ours").status, 401);
    assert_eq!(one.fetch(at, HOST, "/maybe").body, "<alice>");
    assert_eq!(Browser::default().fetch(at, HOST, "/maybe").body, "<>");
    // A session of each ends with a log-out.
    assert_eq!(browser.follow(at, HOST, &link(&page(at, &Browser::default(), "/"), "Ours")).status, 200);
    let out = browser.go(at, HOST, "/.tidegate/oidc/logout");
    assert!(out.location().contains("/end?id_token_hint="), "{}", out.head);
    assert_eq!(browser.cookies_for(HOST), "");
    assert_eq!(browser.fetch(at, HOST, "/").status, 401);
}

#[test]
fn programs_are_told_where_to_log_in_and_links_lead_nowhere_else() {
    let (ours, others) = (OpenIdProvider::start(), OpenIdProvider::start());
    let proxy = host([&ours, &others]);
    let at = proxy.address;
    let refused = Browser::default().fetch(at, HOST, "/");
    assert_eq!(refused.status, 401, "{}", refused.head);
    let challenge = refused.field("www-authenticate").expect("where to log in");
    let address = challenge.strip_prefix("OpenID login=\"").and_then(|rest| rest.strip_suffix('"')).expect("an address");
    assert_eq!(Browser::default().go(at, HOST, address).status, 200, "the page");
    assert_eq!(Browser::default().fetch(at, HOST, address).status, 401, "a script gets no page");
    // By its name, without the page.
    let begun = Browser::default().go(at, HOST, "/.tidegate/oidc/login?provider=Ours&return=/a");
    assert!(begun.location().starts_with(&ours.issuer()), "{}", begun.head);
    let unknown = Browser::default().go(at, HOST, "/.tidegate/oidc/login?provider=evil&return=/a");
    assert_eq!(unknown.status, 400, "{}", unknown.head);
    let unknown = Browser::default().go(at, HOST, &format!("{address}&provider=evil&return=/a"));
    assert_eq!((unknown.status, unknown.body.contains("provider=Ours")), (200, true), "the page again");
    for hostile in
        ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", "/\"><script>alert(1)</script>"]
    {
        let shown = Browser::default().go(at, HOST, &format!("{address}&return={}", encoded(hostile)));
        assert_eq!(shown.status, 200, "{hostile}");
        assert!(
            !shown.body.contains("evil") && !shown.body.contains("<script") && !shown.body.contains("\"><s"),
            "{}",
            shown.body
        );
    }
    // What comes back for one provider is not for the other, whoever has mixed them up.
    let browser = Browser::default();
    let begun = browser.go(at, HOST, "/.tidegate/oidc/login?provider=Ours&return=/a");
    let query = begun.location().split_once('?').expect("a query").1;
    let mixed = browser.go(others.address, &others.address.to_string(), &format!("/authorize?{query}"));
    let callback = mixed.location().strip_prefix(&format!("http://{HOST}")).expect("the site").to_owned();
    let answer = browser.go(at, HOST, &callback);
    assert!(answer.status == 400 && answer.body.contains("oidc_state_unknown"), "{}\n{}", answer.head, answer.body);
    assert_eq!((ours.asked("POST /token"), others.asked("POST /token")), (0, 0));
}
