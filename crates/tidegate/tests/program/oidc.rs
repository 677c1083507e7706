//! `oidc` between scripted browsers and a scripted provider: one host and two, several tabs, refresh tokens that
//! rotate, log-outs, and everything that providers and strangers do wrong.

mod attacks;
mod borders;
mod browser;
mod faults;
mod several;
mod user_info;
mod ways;

use browser::{Answer, Browser};
use std::net::SocketAddr;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use tidegate_testkit::openid::{CLIENT, OpenIdProvider, SECRET};
use tidegate_testkit::proxy::Proxy;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const HOST: &str = "app.example.com";
/// A revoked session is refused by every host within so long.
const REVOKED_WITHIN: Duration = Duration::from_secs(5);

/// A host whose pages say who has asked. `more` are properties of `oidc`, `block` lines of its block.
fn host(provider: &OpenIdProvider, top: &str, more: &str, block: &str) -> Proxy {
    let oidc = format!(
        "oidc issuer=\"{}\" client=\"{CLIENT}\" secret=\"{SECRET}\" {more} {{ {block}header \"X-Mail\" claim=\"email\"; }}",
        provider.issuer()
    );
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\"\nthreads 2\n{top}\nsite \"http://{HOST}:{{port}}\" {{\n    \
         route \"/public\" {{ oidc \"off\"; respond 200 body=\"public <{{request.header.Cookie}}>\" }}\n    \
         {oidc}\n    respond 200 body=\"{{auth.user}} {{jwt.groups}} <{{request.header.X-Mail}}> <{{request.header.Cookie}}>\"\n}}\n"
    );
    Proxy::start(PROGRAM, &config).expect("it starts")
}

const ALICE: &str = "alice staff,users <alice@example.com> <>";

fn is_alice(answer: &Answer) {
    assert_eq!((answer.status, answer.body.as_str()), (200, ALICE), "{}", answer.head);
}

/// Two hosts with one storage, as behind a load balancer.
fn two_hosts(provider: &OpenIdProvider, folder: &tempfile::TempDir) -> [Proxy; 2] {
    let storage = format!("storage {:?}", folder.path().join("storage").display().to_string());
    [(); 2].map(|()| host(provider, &storage, "", ""))
}

fn at(hosts: &[Proxy; 2]) -> [SocketAddr; 2] {
    [hosts[0].address, hosts[1].address]
}

#[test]
fn two_tabs_on_two_hosts_refresh_one_session_again_and_again() {
    let provider = OpenIdProvider::start();
    // Each request finds the access token about to end, and a refresh token that comes twice ends it all.
    provider.behave(|behaviour| {
        behaviour.expires_in = 2;
        behaviour.refresh_takes = Duration::from_millis(200);
    });
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = two_hosts(&provider, &folder);
    let browser = Browser::default();
    is_alice(&browser.follow(hosts[0].address, HOST, "/"));
    is_alice(&browser.go(hosts[1].address, HOST, "/"));
    let log_ins = provider.asked("POST /token grant_type=authorization_code");
    assert_eq!(log_ins, 1);
    for round in 0..6 {
        std::thread::sleep(Duration::from_millis(2100));
        let begin = Barrier::new(6);
        std::thread::scope(|scope| {
            let tabs: Vec<_> = (0..6)
                .map(|tab| {
                    let (browser, begin, place) = (browser.clone(), &begin, at(&hosts)[tab % 2]);
                    scope.spawn(move || {
                        begin.wait();
                        if tab < 4 { browser.fetch(place, HOST, "/") } else { browser.go(place, HOST, "/") }
                    })
                })
                .collect();
            for (tab, answer) in tabs.into_iter().enumerate() {
                let answer = answer.join().expect("an answer");
                assert_eq!((answer.status, answer.body.as_str()), (200, ALICE), "round {round}, tab {tab}: {}", answer.head);
            }
        });
    }
    let refreshes = provider.asked("POST /token grant_type=refresh_token");
    assert_eq!(refreshes, 6, "one for each round:\n{}", provider.requests().join("\n"));
    assert_eq!(provider.asked("POST /token grant_type=authorization_code"), log_ins, "nobody had to log in again");
}

#[test]
fn a_refresh_lost_to_a_host_of_another_storage_is_retried_with_the_newer_cookie() {
    let provider = OpenIdProvider::start();
    provider.behave(|behaviour| {
        behaviour.expires_in = 2;
        behaviour.detects_reuse = false;
    });
    let folder = tempfile::tempdir().expect("a folder");
    let [first, _] = two_hosts(&provider, &folder);
    let browser = Browser::default();
    is_alice(&browser.follow(first.address, HOST, "/"));
    // The refresh of another host whose answer is on its way, and of which this one knows nothing.
    let late = browser.copy();
    std::thread::sleep(Duration::from_millis(2100));
    is_alice(&browser.go(first.address, HOST, "/"));
    let storage = folder.path().join("storage/oidc/refreshed");
    let kept = std::fs::read_dir(&storage).expect("what was refreshed").count();
    assert_eq!(kept, 1);
    std::fs::remove_dir_all(&storage).expect("removed");
    let other = host(&provider, &format!("storage {:?}", folder.path().join("storage").display().to_string()), "", "");
    let answer = late.fetch(other.address, HOST, "/page?a=b");
    assert_eq!((answer.status, answer.location()), (307, "/page?a=b"), "{}", answer.head);
    // By now the browser has the newer cookie.
    is_alice(&browser.fetch(other.address, HOST, "/page?a=b"));
    // Who has not is logged out, and not sent around for ever.
    let answer = late.fetch(other.address, HOST, "/page?a=b");
    assert_eq!(answer.status, 401, "{}", answer.head);
    assert!(answer.body.contains("oidc_log_in"), "{}", answer.body);
}

#[test]
fn a_log_in_returns_to_the_page_and_a_session_is_good_on_every_host() {
    let provider = OpenIdProvider::start();
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = two_hosts(&provider, &folder);
    let browser = Browser::default();
    let asked = browser.go(hosts[0].address, HOST, "/reports?year=2026&of=a%20b");
    assert_eq!(asked.status, 302, "{}", asked.head);
    assert_eq!(asked.field("cache-control"), Some("no-store"));
    let location = asked.location().to_owned();
    for wanted in
        ["response_type=code", "client_id=tidegate", "scope=openid%20profile%20email", "code_challenge_method=S256", "nonce="]
    {
        assert!(location.contains(wanted), "{wanted} is not in {location}");
    }
    let query = location.split_once('?').expect("a query").1;
    let redirect = tidegate_testkit::openid::parameters(query)["redirect_uri"].clone();
    assert_eq!(redirect, format!("http://{HOST}/.tidegate/oidc/callback"));
    // Each step may meet another host.
    let back = browser.go(provider.address, &provider.address.to_string(), &location[provider.issuer().len()..]);
    let callback = back.location().strip_prefix(&format!("http://{HOST}")).expect("the site").to_owned();
    let arrived = browser.go(hosts[1].address, HOST, &callback);
    assert_eq!((arrived.status, arrived.location()), (302, "/reports?year=2026&of=a%20b"), "{}", arrived.head);
    is_alice(&browser.go(hosts[0].address, HOST, "/reports?year=2026&of=a%20b"));
    is_alice(&browser.fetch(hosts[1].address, HOST, "/reports"));
    let public = browser.go(hosts[1].address, HOST, "/public");
    assert_eq!(public.body, "public <>", "what is of the log-in goes to no upstream");
    // The code and the state are used up; who comes back to that address is where he wanted to go.
    let again = browser.go(hosts[1].address, HOST, &callback);
    assert_eq!((again.status, again.location()), (302, "/reports?year=2026&of=a%20b"), "{}", again.head);
    assert_eq!(provider.asked("POST /token"), 1);
    let stranger = Browser::default();
    let refused = stranger.go(hosts[0].address, HOST, &callback);
    assert_eq!(refused.status, 400, "{}", refused.head);
    assert!(refused.body.contains("oidc_state"), "{}", refused.body);
    assert_eq!(provider.asked("POST /token"), 1);
}

#[test]
fn tabs_that_begin_at_the_same_time_all_arrive() {
    let provider = OpenIdProvider::start();
    let proxy = host(&provider, "", "", "");
    let browser = Browser::default();
    // All are sent before the first answer comes, so that each answer's cookie takes the place of the one before.
    let fresh = || browser.copy();
    let begun: Vec<Answer> = (0..12).map(|tab| fresh().go(proxy.address, HOST, &format!("/{tab}"))).collect();
    let follow = |answer: &Answer| {
        let target = answer.location()[provider.issuer().len()..].to_owned();
        let back = browser.go(provider.address, &provider.address.to_string(), &target);
        back.location().strip_prefix(&format!("http://{HOST}")).expect("the site").to_owned()
    };
    // One of the cookies is what the browser has in the end.
    is_alice(&browser.follow(proxy.address, HOST, "/other"));
    for (tab, answer) in begun.iter().enumerate() {
        let callback = follow(answer);
        let arrived = browser.go(proxy.address, HOST, &callback);
        assert_eq!((arrived.status, arrived.location()), (302, format!("/{tab}").as_str()), "{}", arrived.head);
    }
    // One after the other they are all in the cookie, up to eight.
    let orderly = Browser::default();
    let begun: Vec<Answer> = (0..50).map(|tab| orderly.go(proxy.address, HOST, &format!("/{tab}"))).collect();
    assert!(orderly.cookies_for(HOST).len() < 1000, "{}", orderly.cookies_for(HOST));
    let before = provider.asked("POST /token");
    let callback = follow(&begun[49]);
    assert_eq!(orderly.go(proxy.address, HOST, &callback).location(), "/49");
    let callback = follow(&begun[42]);
    assert_eq!(orderly.go(proxy.address, HOST, &callback).location(), "/42");
    assert_eq!(provider.asked("POST /token"), before + 2);
    // The oldest were dropped; it is logged in by now.
    let callback = follow(&begun[0]);
    assert_eq!(orderly.go(proxy.address, HOST, &callback).location(), "/0");
    assert_eq!(provider.asked("POST /token"), before + 2);
}

#[test]
fn what_is_no_navigation_begins_no_log_in() {
    let provider = OpenIdProvider::start();
    let proxy = host(&provider, "", "", "");
    let browser = Browser::default();
    let check = |method: &str, fields: &str, body: &str, expected: u16| {
        let answer = browser.ask(proxy.address, method, HOST, "/", fields, body);
        assert_eq!(answer.status, expected, "{method} {fields}\n{}", answer.head);
        assert_eq!(answer.fields("set-cookie").count() > 0, expected == 302, "{method} {fields}\n{}", answer.head);
        if expected == 401 {
            let challenge = answer.field("www-authenticate").expect("where to log in");
            assert!(challenge.starts_with("OpenID ") && challenge.contains("/.tidegate/oidc/login"), "{challenge}");
            assert!(answer.body.contains("oidc_log_in"), "{}", answer.body);
        }
    };
    check("GET", "Sec-Fetch-Mode: navigate\r\n", "", 302);
    check("GET", "Accept: text/html,application/xhtml+xml\r\n", "", 302);
    check("HEAD", "Sec-Fetch-Mode: navigate\r\n", "", 302);
    check("GET", "", "", 401);
    check("GET", "Accept: */*\r\n", "", 401);
    check("GET", "Accept: application/json\r\n", "", 401);
    check("GET", "Sec-Fetch-Mode: cors\r\nAccept: text/html\r\n", "", 401);
    check("GET", "Sec-Fetch-Mode: no-cors\r\nAccept: text/html\r\n", "", 401);
    check("GET", "Sec-Fetch-Mode: navigate\r\nSec-Purpose: prefetch;prerender\r\n", "", 401);
    check("GET", "Accept: text/html\r\nX-Requested-With: XMLHttpRequest\r\n", "", 401);
    check("POST", "Sec-Fetch-Mode: navigate\r\nAccept: text/html\r\nContent-Type: text/plain\r\n", "a", 401);
    check("PUT", "Accept: text/html\r\n", "a", 401);
    check(
        "GET",
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-Fetch-Mode: websocket\r\n",
        "",
        401,
    );
}

#[test]
fn a_log_in_is_asked_for_by_its_address_and_returns_to_this_site_only() {
    let provider = OpenIdProvider::start();
    let proxy = host(&provider, "", "", "");
    let check = |given: &str, expected: &str| {
        let browser = Browser::default();
        let asked = browser.go(proxy.address, HOST, &format!("/.tidegate/oidc/login?return={given}"));
        assert_eq!(asked.status, 302, "{given}: {}", asked.head);
        let target = asked.location()[provider.issuer().len()..].to_owned();
        let back = browser.go(provider.address, &provider.address.to_string(), &target);
        let callback = back.location().strip_prefix(&format!("http://{HOST}")).expect("the site").to_owned();
        assert_eq!(browser.go(proxy.address, HOST, &callback).location(), expected, "{given}");
    };
    check("/reports?a=b", "/reports?a=b");
    check("%2Freports%3Fa%3Db", "/reports?a=b");
    for refused in [
        "//evil.example",
        "%2F%2Fevil.example",
        "/%5Cevil.example",
        "%5C%5Cevil.example",
        "https://evil.example/",
        "evil",
        "/%09/evil.example",
        "/a%0D%0ASet-Cookie:x",
        "",
    ] {
        check(refused, "/");
    }
}

/// Until the answer is as it should be, within the bound.
fn within(bound: Duration, ask: impl Fn() -> Answer, is_so: impl Fn(&Answer) -> bool) -> Answer {
    let begin = Instant::now();
    loop {
        let answer = ask();
        if is_so(&answer) {
            return answer;
        }
        assert!(begin.elapsed() < bound, "not within {bound:?}: {}\n{}", answer.head, answer.body);
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_log_out_ends_the_session_everywhere_and_goes_to_the_provider() {
    let provider = OpenIdProvider::start();
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = two_hosts(&provider, &folder);
    let browser = Browser::default();
    is_alice(&browser.follow(hosts[0].address, HOST, "/"));
    let stolen = browser.copy();
    let answer = browser.go(hosts[0].address, HOST, "/.tidegate/oidc/logout");
    assert_eq!(answer.status, 302, "{}", answer.head);
    let location = answer.location();
    assert!(location.starts_with(&format!("{}/end?", provider.issuer())), "{location}");
    for wanted in ["id_token_hint=ey", "client_id=tidegate", "post_logout_redirect_uri=http%3A%2F%2Fapp.example.com%2F"] {
        assert!(location.contains(wanted), "{wanted} is not in {location}");
    }
    assert_eq!(browser.cookies_for(HOST), "");
    assert_eq!(browser.fetch(hosts[0].address, HOST, "/").status, 401);
    for host in at(&hosts) {
        within(REVOKED_WITHIN, || stolen.fetch(host, HOST, "/"), |answer| answer.status == 401);
    }
    // An image of another site logs nobody out.
    is_alice(&browser.follow(hosts[0].address, HOST, "/"));
    let fields = "Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: image\r\n";
    assert_eq!(browser.ask(hosts[0].address, "GET", HOST, "/.tidegate/oidc/logout", fields, "").status, 403);
    is_alice(&browser.go(hosts[0].address, HOST, "/"));
}

#[test]
fn the_provider_ends_sessions_on_every_host() {
    let provider = OpenIdProvider::start();
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = two_hosts(&provider, &folder);
    let log_in = |subject: &str, session: &str| {
        provider.behave(|behaviour| {
            subject.clone_into(&mut behaviour.subject);
            session.clone_into(&mut behaviour.session);
        });
        let browser = Browser::default();
        assert!(browser.follow(hosts[0].address, HOST, "/").body.starts_with(subject));
        browser
    };
    let tell = |place: SocketAddr, token: &str, expected: u16| {
        let fields = "Content-Type: application/x-www-form-urlencoded\r\n";
        let body = format!("logout_token={token}");
        let answer = Browser::default().ask(place, "POST", HOST, "/.tidegate/oidc/back-channel", fields, &body);
        assert_eq!(answer.status, expected, "{}\n{}", answer.head, answer.body);
        assert_eq!(answer.field("cache-control"), Some("no-store"));
    };
    let (one, two, bob) = (log_in("alice", "s1"), log_in("alice", "s2"), log_in("bob", "s3"));
    tell(hosts[0].address, &provider.logout_token(&[("sid", "s1".into())]), 200);
    for host in at(&hosts) {
        within(REVOKED_WITHIN, || one.fetch(host, HOST, "/"), |answer| answer.status == 401);
        assert_eq!(two.fetch(host, HOST, "/").status, 200);
        assert_eq!(bob.fetch(host, HOST, "/").status, 200);
    }
    let everybody = provider.logout_token(&[("sub", "alice".into())]);
    tell(hosts[1].address, &everybody, 200);
    for host in at(&hosts) {
        within(REVOKED_WITHIN, || two.fetch(host, HOST, "/"), |answer| answer.status == 401);
        assert_eq!(bob.fetch(host, HOST, "/").status, 200);
    }
    // Who logs in anew is in again; a clock counts in seconds.
    std::thread::sleep(Duration::from_millis(1100));
    let again = log_in("alice", "s4");
    // What was said before is believed once, whichever host hears it again.
    for place in at(&hosts) {
        tell(place, &everybody, 400);
    }
    for host in at(&hosts) {
        assert_eq!(again.fetch(host, HOST, "/").status, 200);
    }
    // What is no such token ends nobody's session.
    let events = serde_json::json!({ "http://example.com/other": {} });
    for wrong in [
        provider.logout_token(&[("sid", "s4".into()), ("nonce", "a".into())]),
        provider.logout_token(&[("sid", "s4".into()), ("aud", "other".into())]),
        provider.logout_token(&[("sid", "s4".into()), ("iss", "https://other.example".into())]),
        provider.logout_token(&[("sid", "s4".into()), ("events", events)]),
        provider.logout_token(&[("sid", "s4".into()), ("iat", 1.into()), ("exp", 2.into())]),
        provider.logout_token(&[]),
        provider.logout_token(&[("sid", "s4".into()), ("jti", serde_json::Value::Null)]),
        provider.logout_token(&[("sid", "s4".into()), ("jti", "".into())]),
        "nothing".to_owned(),
        format!("{}x", provider.logout_token(&[("sid", "s4".into())])),
    ] {
        tell(hosts[0].address, &wrong, 400);
    }
    std::thread::sleep(REVOKED_WITHIN);
    for host in at(&hosts) {
        assert_eq!(again.fetch(host, HOST, "/").status, 200);
    }
    // After a restart of a host it is known all the same.
    let [mut first, second] = hosts;
    first.restart(PROGRAM).expect("it starts again");
    assert_eq!(one.fetch(first.address, HOST, "/").status, 401);
    assert_eq!(again.fetch(first.address, HOST, "/").status, 200, "sessions outlive a restart");
    drop(second);
}
