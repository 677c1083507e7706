//! Claims that a provider has in no ID token: asked for at each log-in and each refresh, and never for a request.

use super::{Answer, Browser, HOST, PROGRAM};
use serde_json::{Value, json};
use std::time::Duration;
use tidegate_testkit::openid::{CLIENT, OpenIdProvider, SECRET, TokenEndpointFault};
use tidegate_testkit::proxy::Proxy;

fn host(provider: &OpenIdProvider, more: &str) -> Proxy {
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\"\nthreads 2\nsite \"http://{HOST}:{{port}}\" {{\n    oidc issuer=\"{}\" client=\"{CLIENT}\" secret=\"{SECRET}\" \
         {more} user=\"email\" {{ require \"teams\" contains=\"red\"; header \"X-Teams\" claim=\"teams\"; }}\n    \
         respond 200 body=\"{{auth.user}} {{jwt.teams}} <{{request.header.X-Teams}}>\"\n}}\n",
        provider.issuer()
    );
    Proxy::start(PROGRAM, &config).expect("it starts")
}

fn is(answer: &Answer, status: u16, text: &str, what: &str) {
    assert_eq!(answer.status, status, "{what}: {}\n{}", answer.head, answer.body);
    assert!(answer.body.contains(text), "{what}: {}", answer.body);
}

#[test]
fn claims_beside_the_token_are_asked_for_once_for_each_log_in_and_refresh() {
    let provider = OpenIdProvider::start();
    provider.behave(|behaviour| {
        behaviour.user_info = vec![("teams".into(), json!(["red", "blue"])), ("email".into(), json!("root@b"))];
    });
    let plain = host(&provider, "");
    is(&Browser::default().follow(plain.address, HOST, "/"), 403, "oidc_not_enough", "nobody asks for them");
    assert_eq!(provider.asked("GET /userinfo"), 0);
    let proxy = host(&provider, "userinfo=#true");
    let browser = Browser::default();
    // What the token says itself counts.
    const PAGE: &str = "alice@example.com red,blue <red,blue>";
    for _ in 0..5 {
        is(&browser.follow(proxy.address, HOST, "/"), 200, PAGE, "logged in");
    }
    assert_eq!(provider.asked("GET /userinfo"), 1, "not for each request");
    // A refresh brings what is said by then.
    provider.behave(|behaviour| behaviour.expires_in = 2);
    let browser = Browser::default();
    is(&browser.follow(proxy.address, HOST, "/"), 200, PAGE, "logged in");
    std::thread::sleep(Duration::from_millis(2100));
    provider.behave(|behaviour| {
        behaviour.user_info = vec![("teams".into(), json!("red"))];
        behaviour.expires_in = 300;
    });
    is(&browser.fetch(proxy.address, HOST, "/"), 200, "alice@example.com red <red>", "refreshed");
    is(&browser.fetch(proxy.address, HOST, "/"), 200, "alice@example.com red <red>", "refreshed");
    assert_eq!(provider.asked("GET /userinfo"), 3);
}

#[test]
fn what_is_said_of_somebody_else_or_not_at_all_logs_nobody_in() {
    let provider = OpenIdProvider::start();
    let proxy = host(&provider, "userinfo=#true");
    let good = vec![("teams".to_owned(), json!("red"))];
    let check = |what: &str, said: &[(String, Value)], fault: Option<(u16, &str, String)>, expected: (u16, &str)| {
        provider.behave(|behaviour| {
            behaviour.user_info = said.to_vec();
            behaviour.user_info_fault = fault.map(|(status, fields, body)| (status, fields.to_owned(), body));
        });
        let browser = Browser::default();
        is(&browser.follow(proxy.address, HOST, "/"), expected.0, expected.1, what);
    };
    let (bad, away) = ((502, "oidc_bad_answer"), (503, "oidc_provider_away"));
    check("good", &good, None, (200, "alice@example.com red"));
    check("another subject", &[("sub".into(), json!("bob")), good[0].clone()], None, bad);
    check("no subject", &[("sub".into(), Value::Null), good[0].clone()], None, bad);
    check("claims of tokens", &[good[0].clone(), ("exp".into(), json!(1)), ("sid".into(), json!("x"))], None, (200, "red"));
    check("HTML", &good, Some((200, "Content-Type: text/html\r\n", "<html>".into())), bad);
    check("signed", &good, Some((200, "Content-Type: application/jwt\r\n", "a.b.c".into())), bad);
    check("refused", &good, Some((401, "", String::new())), bad);
    check("away", &good, Some((503, "", String::new())), away);
    check("sent on", &good, Some((302, "Location: http://127.0.0.1/\r\n", String::new())), away);
    let long = |bytes: usize| format!("{{\"sub\":\"alice\",\"teams\":\"red\",\"a\":\"{}\"}}", "a".repeat(bytes));
    check("long", &good, Some((200, "", long(20_000))), bad);
    check("endless", &good, Some((200, "", long(400_000))), away);
    let deep = format!("{{\"sub\":\"alice\",\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    check("deep", &good, Some((200, "", deep)), bad);
    check("good again", &good, None, (200, "alice@example.com red"));
}

#[test]
fn a_refresh_goes_on_without_a_word_and_ends_by_one_of_somebody_else() {
    let provider = OpenIdProvider::start();
    let proxy = host(&provider, "userinfo=#true");
    let good = vec![("teams".to_owned(), json!("red"))];
    let refreshed = |change: &dyn Fn()| {
        provider.behave(|behaviour| {
            behaviour.expires_in = 2;
            behaviour.user_info = good.clone();
            behaviour.user_info_fault = None;
            behaviour.token_fault = None;
        });
        let browser = Browser::default();
        is(&browser.follow(proxy.address, HOST, "/"), 200, "alice@example.com red", "logged in");
        std::thread::sleep(Duration::from_millis(2100));
        change();
        browser.fetch(proxy.address, HOST, "/")
    };
    let away = || provider.behave(|behaviour| behaviour.user_info_fault = Some((503, String::new(), String::new())));
    is(&refreshed(&away), 200, "alice@example.com red <red>", "what was said before counts on");
    let bob = || provider.behave(|behaviour| behaviour.user_info = vec![("sub".into(), json!("bob")), good[0].clone()]);
    let answer = refreshed(&bob);
    assert!(matches!(answer.status, 307 | 401), "{}", answer.head);
    let no_type = || provider.behave(|behaviour| behaviour.token_fault = Some(TokenEndpointFault::NoJson));
    is(&refreshed(&no_type), 200, "alice@example.com red <red>", "the token endpoint is out of its mind");
}
