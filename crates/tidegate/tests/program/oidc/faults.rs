//! Everything that providers and strangers do wrong.

use super::{ALICE, Answer, Browser, HOST, host, is_alice, two_hosts, within};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tidegate_testkit::openid::{OpenIdProvider, TokenEndpointFault, encoded, parameters};
use tidegate_testkit::proxy::Proxy;

/// Sends somebody to the provider and back, and gives the answer to that.
fn come_back(provider: &OpenIdProvider, proxy: &Proxy, browser: &Browser) -> Answer {
    let callback = callback(provider, proxy, browser);
    browser.go(proxy.address, HOST, &callback)
}

fn callback(provider: &OpenIdProvider, proxy: &Proxy, browser: &Browser) -> String {
    let asked = browser.go(proxy.address, HOST, "/page");
    let target = asked.location()[provider.issuer().len()..].to_owned();
    let back = browser.go(provider.address, &provider.address.to_string(), &target);
    back.location().strip_prefix(&format!("http://{HOST}")).expect("the site").to_owned()
}

fn is_refused(answer: &Answer, status: u16, reason: &str, what: &str) {
    assert_eq!(answer.status, status, "{what}: {}\n{}", answer.head, answer.body);
    assert!(answer.body.contains(reason), "{what}: {}", answer.body);
}

#[test]
fn tokens_that_are_not_for_this_log_in_log_nobody_in() {
    let provider = OpenIdProvider::start();
    let proxy = host(&provider, "", "", "");
    let check = |name: &str, value: Value| {
        provider.behave(|behaviour| behaviour.claims = vec![(name.to_owned(), value.clone())]);
        let browser = Browser::default();
        is_refused(&come_back(&provider, &proxy, &browser), 502, "oidc_bad_answer", &format!("{name} {value}"));
        assert_eq!(browser.fetch(proxy.address, HOST, "/").status, 401);
    };
    check("nonce", json!("other"));
    check("nonce", Value::Null);
    check("aud", json!("other"));
    check("aud", json!(["other"]));
    check("aud", Value::Null);
    check("iss", json!("https://other.example"));
    check("aud", json!(["tidegate", "other"]));
    check("azp", json!("other"));
    check("iat", Value::Null);
    check("iat", json!(4_000_000_000_u64));
    check("iat", json!(1_000_000_000));
    check("at_hash", json!("AAAAAAAAAAAAAAAAAAAAAA"));
    check("at_hash", json!(""));
    check("sub", Value::Null);
    check("sub", json!(""));
    check("exp", Value::Null);
    check("exp", json!(1));
    provider.behave(|behaviour| behaviour.claims.clear());
    for kind in [Value::Null, json!("DPoP"), json!("mac"), json!("")] {
        provider.behave(|behaviour| behaviour.token_members = vec![("token_type".into(), kind.clone())]);
        is_refused(&come_back(&provider, &proxy, &Browser::default()), 502, "oidc_bad_answer", &format!("{kind}"));
    }
    // What is said otherwise and means the same.
    provider.behave(|behaviour| {
        behaviour.token_members = vec![("token_type".into(), json!("bEaReR"))];
        behaviour.claims = vec![("aud".into(), json!(["other", "tidegate"])), ("azp".into(), json!("tidegate"))];
    });
    is_alice(&Browser::default().follow(proxy.address, HOST, "/"));
    provider.behave(|behaviour| {
        behaviour.token_members.clear();
        behaviour.claims = vec![("at_hash".into(), Value::Null)];
    });
    is_alice(&Browser::default().follow(proxy.address, HOST, "/"));
    provider.behave(|behaviour| behaviour.claims.clear());
    // A clock that is ten minutes off, either way; a minute is fine.
    for (ahead, is_taken) in [(600, false), (-600, false), (30, true)] {
        provider.behave(|behaviour| behaviour.clock_ahead = ahead);
        let answer = come_back(&provider, &proxy, &Browser::default());
        if is_taken {
            assert_eq!((answer.status, answer.location()), (302, "/page"), "{ahead} s: {}", answer.head);
        } else {
            is_refused(&answer, 502, "oidc_bad_answer", &format!("{ahead} s"));
        }
    }
}

#[test]
fn states_of_others_and_from_before_are_refused() {
    let provider = OpenIdProvider::start();
    let (proxy, other) = (host(&provider, "", "", ""), host(&provider, "", "scope=\"email\"", ""));
    let (browser, stranger) = (Browser::default(), Browser::default());
    let tokens = || provider.asked("POST /token");
    let address = callback(&provider, &proxy, &browser);
    let (path, query) = address.split_once('?').expect("a query");
    let good = parameters(query);
    let with = |change: &[(&str, Option<&str>)]| {
        let mut changed = good.clone();
        for (name, value) in change {
            match value {
                Some(value) => changed.insert((*name).to_owned(), (*value).to_owned()),
                None => changed.remove(*name),
            };
        }
        let pairs: Vec<String> = changed.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        format!("{path}?{}", pairs.join("&"))
    };
    // Somebody else's browser, to which the whole address was sent.
    is_refused(&stranger.go(proxy.address, HOST, &address), 400, "oidc_state_unknown", "stranger");
    // Another site, with its own keys.
    is_refused(&browser.go(other.address, HOST, &address), 400, "oidc_state_unknown", "another site");
    let mut torn = good["state"].clone();
    torn.replace_range(40..41, if &torn[40..41] == "A" { "B" } else { "A" });
    for (what, change) in
        [("torn", ("state", Some(torn.as_str()))), ("made up", ("state", Some("AAAA"))), ("empty", ("state", Some("")))]
    {
        is_refused(&browser.go(proxy.address, HOST, &with(&[change])), 400, "oidc_state_unknown", what);
    }
    is_refused(&browser.go(proxy.address, HOST, &with(&[("state", None)])), 400, "oidc_bad_request", "none");
    is_refused(&browser.go(proxy.address, HOST, &format!("{address}&state=b")), 400, "oidc_bad_request", "twice");
    // A provider that has been exchanged (RFC 9207). The log-in has been used by that.
    let copy = browser.copy();
    is_refused(&copy.go(proxy.address, HOST, &with(&[("iss", Some("https://evil.example"))])), 400, "oidc_state_unknown", "iss");
    let copy = browser.copy();
    is_refused(&copy.go(proxy.address, HOST, &with(&[("iss", None)])), 400, "oidc_state_unknown", "no iss");
    let copy = browser.copy();
    is_refused(&copy.go(proxy.address, HOST, &with(&[("code", None)])), 400, "oidc_bad_request", "no code");
    assert_eq!(tokens(), 0);
    // A code that somebody has made up, or has used.
    let copy = browser.copy();
    is_refused(&copy.go(proxy.address, HOST, &with(&[("code", Some("made-up"))])), 502, "oidc_bad_answer", "code");
    assert_eq!(tokens(), 1);
    assert_eq!(browser.go(proxy.address, HOST, &address).location(), "/page");
    assert_eq!(tokens(), 2);
    // What the provider says instead of a code.
    provider.behave(|behaviour| behaviour.authorization_error = Some("access_denied".into()));
    is_refused(&come_back(&provider, &proxy, &Browser::default()), 403, "oidc_denied", "denied");
    assert_eq!(tokens(), 2);
}

#[test]
fn cookies_that_were_changed_are_no_session() {
    let provider = OpenIdProvider::start();
    let proxy = host(&provider, "", "", "");
    let browser = Browser::default();
    is_alice(&browser.follow(proxy.address, HOST, "/"));
    let check = |what: &str, change: &dyn Fn(&str) -> String| {
        let copy = browser.copy();
        copy.change("tidegate-", change);
        assert_eq!(copy.fetch(proxy.address, HOST, "/").status, 401, "{what}");
    };
    let flip = |text: &str, at: usize| {
        let mut bytes = text.as_bytes().to_vec();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).expect("text")
    };
    check("the end", &|value| flip(value, value.len() - 2));
    check("the middle", &|value| flip(value, value.len() / 2));
    check("the key", &|value| flip(value, 5));
    check("cut", &|value| value[..value.len() / 2].to_owned());
    check("longer", &|value| format!("{value}AAAA"));
    check("more pieces", &|value| format!("5{}", &value[1..]));
    check("none", &|_| String::new());
    is_alice(&browser.fetch(proxy.address, HOST, "/"));
}

#[test]
fn long_tokens_lie_in_several_cookies_and_too_long_ones_log_nobody_in() {
    let provider = OpenIdProvider::start();
    let proxy = host(&provider, "", "forward-access=\"Authorization\" forward-id=\"X-Id\"", "");
    let groups = |count: usize| {
        let groups: Vec<String> = (0..count).map(|number| format!("/a/group/of/many/{number:05}")).collect();
        vec![("roles".to_owned(), json!(groups))]
    };
    // As of a provider that puts everything into its tokens.
    provider.behave(|behaviour| behaviour.claims = groups(240));
    let browser = Browser::default();
    is_alice(&browser.follow(proxy.address, HOST, "/"));
    let cookies = browser.cookies_for(HOST);
    assert!(cookies.len() > 6000 && cookies.contains("-1=") && !cookies.contains("-flows"), "{} bytes", cookies.len());
    // Shorter ones leave no pieces of those before.
    provider.behave(|behaviour| behaviour.claims.clear());
    assert_eq!(come_back_again(&provider, &proxy, &browser), "/page");
    let cookies = browser.cookies_for(HOST);
    assert!(cookies.len() < 3800 && !cookies.contains("-1="), "{cookies}");
    is_alice(&browser.fetch(proxy.address, HOST, "/"));
    provider.behave(|behaviour| behaviour.claims = groups(700));
    is_refused(&come_back(&provider, &proxy, &Browser::default()), 502, "oidc_", "too long");
}

/// As [`come_back`], of somebody who is logged in already.
fn come_back_again(provider: &OpenIdProvider, proxy: &Proxy, browser: &Browser) -> String {
    let asked = browser.go(proxy.address, HOST, "/.tidegate/oidc/login?return=/page");
    let target = asked.location()[provider.issuer().len()..].to_owned();
    let back = browser.go(provider.address, &provider.address.to_string(), &target);
    let callback = back.location().strip_prefix(&format!("http://{HOST}")).expect("the site").to_owned();
    browser.go(proxy.address, HOST, &callback).location().to_owned()
}

#[test]
fn upstreams_get_tokens_where_they_are_asked_for_and_clients_set_none() {
    let provider = OpenIdProvider::start();
    let page = "{auth.user}|{request.header.Authorization}|{request.header.X-Id}|{request.header.X-Mail}";
    let config = |optional: &str| {
        format!(
            "admin \"127.0.0.1:{{admin}}\"\nsite \"http://{HOST}:{{port}}\" {{\n    oidc issuer=\"{}\" client=\"tidegate\" secret=\"{}\" user=\"email\" \
             forward-access=\"Authorization\" forward-id=\"X-Id\" {optional} {{ header \"X-Mail\" claim=\"email\" }}\n    respond 200 body=\"{page}\"\n}}\n",
            provider.issuer(),
            tidegate_testkit::openid::SECRET
        )
    };
    let mut proxy = Proxy::start(super::PROGRAM, &config("")).expect("it starts");
    let browser = Browser::default();
    let answer = browser.follow(proxy.address, HOST, "/");
    let parts: Vec<&str> = answer.body.split('|').collect();
    assert_eq!((parts[0], parts[3]), ("alice@example.com", "alice@example.com"), "{}", answer.body);
    assert!(parts[1].starts_with("Bearer access-") && parts[2].split('.').count() == 3, "{}", answer.body);
    let forged = "Sec-Fetch-Mode: navigate\r\nX-Id: forged\r\nX_Mail: root\r\nX-Mail: root\r\n";
    let answer = browser.ask(proxy.address, "GET", HOST, "/", forged, "");
    assert!(answer.status == 200 && !answer.body.contains("forged") && !answer.body.contains("root"), "{}", answer.body);
    proxy.apply(&config("optional=#true")).expect("applied");
    let answer =
        Browser::default().ask(proxy.address, "GET", HOST, "/", &format!("{forged}Authorization: Bearer forged\r\n"), "");
    assert_eq!((answer.status, answer.body.as_str()), (200, "|||"), "{}", answer.head);
}

#[test]
fn claims_decide_who_may() {
    let provider = OpenIdProvider::start();
    let proxy = host(&provider, "", "", "require \"groups\" contains=\"admins\"; ");
    let answer = Browser::default().follow(proxy.address, HOST, "/");
    is_refused(&answer, 403, "oidc_not_enough", "without the group");
    provider.behave(|behaviour| behaviour.claims = vec![("groups".into(), json!(["admins"]))]);
    let answer = Browser::default().follow(proxy.address, HOST, "/");
    assert_eq!((answer.status, answer.body.as_str()), (200, "alice admins <alice@example.com> <>"));
}

#[test]
fn a_provider_that_is_away_holds_up_no_start_and_ends_no_session() {
    let provider = OpenIdProvider::start();
    provider.behave(|behaviour| {
        behaviour.is_away = true;
        behaviour.expires_in = 2;
    });
    let proxy = host(&provider, "", "", "");
    assert_eq!(Browser::default().go(proxy.address, HOST, "/public").body, "public <>");
    let answer = Browser::default().go(proxy.address, HOST, "/");
    is_refused(&answer, 503, "oidc_provider_away", "at the start");
    assert_eq!(answer.field("retry-after"), Some("1"));
    provider.behave(|behaviour| behaviour.is_away = false);
    let there = || Browser::default().go(proxy.address, HOST, "/");
    within(Duration::from_secs(40), there, |answer| answer.status == 302);
    // It goes away again, and the access token ends.
    use TokenEndpointFault::{Endless, Hangs, NoJson, Status500};
    for fault in [Status500, NoJson, Endless, Hangs] {
        provider.behave(|behaviour| behaviour.token_fault = None);
        let browser = Browser::default();
        is_alice(&browser.follow(proxy.address, HOST, "/"));
        std::thread::sleep(Duration::from_millis(2100));
        provider.behave(|behaviour| behaviour.token_fault = Some(fault));
        let before = provider.asked("POST /token grant_type=refresh_token");
        for _ in 0..3 {
            let answer = browser.fetch(proxy.address, HOST, "/");
            assert_eq!((answer.status, answer.body.as_str()), (200, ALICE), "{fault:?}: {}", answer.head);
        }
        assert_eq!(provider.asked("POST /token grant_type=refresh_token"), before + 1, "not for each request");
    }
    let answered = |fault: TokenEndpointFault| {
        provider.behave(|behaviour| behaviour.token_fault = Some(fault));
        come_back(&provider, &proxy, &Browser::default())
    };
    is_refused(&answered(Status500), 503, "oidc_provider_away", "500");
    is_refused(&answered(Endless), 503, "oidc_provider_away", "endless");
    is_refused(&answered(NoJson), 502, "oidc_bad_answer", "no JSON");
    let begin = Instant::now();
    is_refused(&answered(Hangs), 503, "oidc_provider_away", "hangs");
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_revoked_refresh_token_ends_the_session() {
    let provider = OpenIdProvider::start();
    provider.behave(|behaviour| behaviour.expires_in = 2);
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = two_hosts(&provider, &folder);
    let browser = Browser::default();
    is_alice(&browser.follow(hosts[0].address, HOST, "/"));
    provider.revoke_all();
    std::thread::sleep(Duration::from_millis(2100));
    let answer = browser.go(hosts[0].address, HOST, "/page");
    assert_eq!((answer.status, answer.location()), (307, "/page"), "it might have a newer cookie: {}", answer.head);
    let answer = browser.fetch(hosts[1].address, HOST, "/page");
    is_refused(&answer, 401, "oidc_log_in_needed", "a script");
    // A page logs in again.
    is_alice(&browser.follow(hosts[1].address, HOST, "/page"));
    is_alice(&browser.fetch(hosts[0].address, HOST, "/page"));
}

#[test]
fn documents_of_others_are_not_believed() {
    let provider = OpenIdProvider::start();
    provider.behave(|behaviour| behaviour.metadata = vec![("issuer".into(), json!("https://other.example"))]);
    let mut proxy = host(&provider, "", "", "");
    proxy.wait_for_log("has to be the issuer that was asked, to the letter").expect("it is said");
    is_refused(&Browser::default().go(proxy.address, HOST, "/"), 503, "oidc_provider_away", "issuer");
}

#[test]
fn sites_of_one_domain_have_one_log_in() {
    let provider = OpenIdProvider::start();
    let oidc = format!(
        "oidc issuer=\"{}\" client=\"tidegate\" secret=\"{}\" domain=\"example.com\" callback=\"http://login.example.com/back\"",
        provider.issuer(),
        tidegate_testkit::openid::SECRET
    );
    let sites = ["app.example.com", "login.example.com", "www.example.com"];
    let site =
        |host: &str| format!("site \"http://{host}:{{port}}\" {{ {oidc}; respond 200 body=\"{{host}} {{auth.user}}\" }}\n");
    let config = format!("admin \"127.0.0.1:{{admin}}\"\n{}", sites.map(site).concat());
    let proxy = Proxy::start(super::PROGRAM, &config).expect("it starts");
    let browser = Browser::default();
    let answer = browser.follow(proxy.address, "app.example.com", "/a?b=c");
    assert_eq!((answer.status, answer.body.as_str()), (200, "app.example.com alice"), "{}", answer.head);
    for host in sites {
        assert_eq!(browser.fetch(proxy.address, host, "/").body, format!("{host} alice"));
    }
    assert_eq!(provider.asked("GET /authorize"), 1);
    let log_out = |method: &str, fields: &str| {
        browser.ask(proxy.address, method, "www.example.com", "/.tidegate/oidc/logout", fields, "").status
    };
    // What is embedded or fetched ahead logs nobody out, and neither does a form of another site.
    for fields in [
        "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n",
        "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n",
        "Sec-Purpose: prefetch\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n",
    ] {
        assert_eq!(log_out("GET", fields), 403, "{fields}");
    }
    assert_eq!(log_out("POST", "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"), 403);
    assert_eq!(browser.fetch(proxy.address, "app.example.com", "/").body, "app.example.com alice");
    assert_eq!(log_out("GET", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"), 302);
    assert_eq!(browser.fetch(proxy.address, "app.example.com", "/").status, 401);
}
