//! A log-in at a provider as one of several ways, beside an auth server: who is asked, in which order, and which
//! refusal is the answer where nobody lets the client in.

use super::browser::{Answer, Browser};
use super::{HOST, PROGRAM};
use serde_json::json;
use tidegate_testkit::openid::{CLIENT, OpenIdProvider, SECRET};
use tidegate_testkit::proxy::Proxy;

/// A host that asks a route of its own whether a request may go on.
fn host(issuer: &str) -> Proxy {
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\"
threads 2
site \"http://{HOST}:{{port}}\" {{
    route \"/verify\" {{ match header=\"Cookie: ~pass=yes\"; auth \"off\"; header \"Remote-User\" \"bob\"; respond 200; }}
    route \"/verify\" {{ match header=\"Cookie: ~pass=away\"; auth \"off\"; respond 503; }}
    route \"/quick\" {{ timeout total=\"3s\"; respond 200 body=\"quick {{auth.user}}\"; }}
    route \"/verify\" {{ auth \"off\"; respond 403 body=\"not you\"; }}
    auth \"any\" {{
        forward-auth \"http://127.0.0.1:{{port}}/verify\" host=\"{HOST}\" user=\"Remote-User\" {{ copy \"Remote-User\"; retry \"off\"; outlier \"off\"; }}
        oidc issuer=\"{issuer}\" client=\"{CLIENT}\" secret=\"{SECRET}\" {{
            require \"groups\" contains=\"staff\"
            header \"X-Mail\" claim=\"email\"
        }}
        api-key {{ key \"ci\" \"7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed\"; }}
    }}
    respond 200 body=\"{{auth.user}} <{{request.header.X-Mail}}> <{{request.header.Remote-User}}>\"
}}
"
    );
    Proxy::start(PROGRAM, &config).expect("it starts")
}

const GO: &str = "Sec-Fetch-Mode: navigate\r\nAccept: text/html\r\n";
const FETCH: &str = "Sec-Fetch-Mode: cors\r\nAccept: */*\r\n";

fn check(answer: &Answer, status: u16, body: &str) {
    assert_eq!(answer.status, status, "{}\n{}", answer.head, answer.body);
    assert_eq!(answer.body, body, "{}", answer.head);
}

fn sets_no_cookie(answer: &Answer) {
    assert_eq!(answer.fields("set-cookie").count(), 0, "{}", answer.head);
}

#[test]
fn a_session_an_auth_server_or_a_key_lets_in_and_browsers_are_sent_to_log_in() {
    let provider = OpenIdProvider::start();
    let proxy = host(&provider.issuer());
    let at = proxy.address;
    let ask = |browser: &Browser, fields: &str| browser.ask(at, "GET", HOST, "/a", fields, "");
    let nobody = Browser::default();
    // Once the provider has said what its addresses are.
    let sent = nobody.follow(at, HOST, "/a");
    check(&sent, 200, "alice <alice@example.com> <>");
    let stranger = Browser::default();
    // Who is let in by a nearer way, or by the auth server, is sent nowhere and keeps nothing of a log-in.
    let by_key = ask(&stranger, &format!("{GO}X-API-Key: one\r\nX-Mail: root\r\nRemote_User: root\r\n"));
    check(&by_key, 200, "ci <> <>");
    sets_no_cookie(&by_key);
    let by_server = ask(&stranger, &format!("{GO}Cookie: pass=yes\r\nX-Mail: root\r\n"));
    check(&by_server, 200, "bob <> <bob>");
    sets_no_cookie(&by_server);
    // Who looks at a page is sent to the provider, also while the auth server is silent; a script hears the server.
    for fields in [GO.to_owned(), format!("{GO}Cookie: pass=away\r\n"), format!("{GO}X-API-Key: wrong\r\n")] {
        let sent = ask(&Browser::default(), &fields);
        assert_eq!(sent.status, 302, "{}", sent.head);
        assert!(sent.location().starts_with(&provider.issuer()), "{}", sent.head);
        assert_eq!(sent.fields("set-cookie").count(), 1, "one log-in is begun: {}", sent.head);
    }
    let script = ask(&stranger, FETCH);
    check(&script, 403, "not you");
    sets_no_cookie(&script);
    let silent = ask(&stranger, &format!("{FETCH}Cookie: pass=away\r\n"));
    assert_eq!(silent.status, 503, "{}", silent.head);
    // A session is found without a question to anybody.
    let asked = || provider.requests().len();
    let before = asked();
    check(&ask(&nobody, FETCH), 200, "alice <alice@example.com> <>");
    assert_eq!(asked(), before);
}

#[test]
fn a_session_that_is_not_enough_is_nobody_to_the_other_ways() {
    let provider = OpenIdProvider::start();
    provider.behave(|behaviour| behaviour.claims = vec![("groups".to_owned(), json!(["users"]))]);
    let proxy = host(&provider.issuer());
    let at = proxy.address;
    let browser = Browser::default();
    // The auth server has said no, and the session is no better.
    check(&browser.follow(at, HOST, "/a"), 403, "not you");
    let ask = |more: &str| browser.ask(at, "GET", HOST, "/a", &format!("{GO}{more}"), "");
    check(&ask(""), 403, "not you");
    check(&ask("Cookie: pass=yes\r\n"), 200, "bob <> <bob>");
    check(&ask("X-API-Key: one\r\n"), 200, "ci <> <>");
}

#[test]
fn a_provider_that_is_away_keeps_nobody_waiting_whom_the_auth_server_lets_in() {
    let proxy = host("http://127.0.0.1:1");
    let at = proxy.address;
    let ask = |target: &str, fields: &str| Browser::default().ask(at, "GET", HOST, target, fields, "");
    // Waiting for the provider would take all of the time that these have.
    check(&ask("/quick", &format!("{GO}Cookie: pass=yes\r\n")), 200, "quick bob");
    check(&ask("/quick", FETCH), 403, "not you");
    check(&ask("/a", GO), 403, "not you");
}
