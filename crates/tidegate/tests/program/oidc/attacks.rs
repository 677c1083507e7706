//! What somebody would try who wants in, wants others out, or wants the provider asked a thousand times.

use super::browser::exchange;
use super::{ALICE, Answer, Browser, HOST, PROGRAM, host, is_alice, within};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use tidegate_testkit::openid::{CLIENT, OpenIdProvider, SECRET, Signs, TokenEndpointFault};
use tidegate_testkit::proxy::Proxy;

fn is_refused(answer: &Answer, status: u16, reason: &str, what: &str) {
    assert_eq!(answer.status, status, "{what}: {}\n{}", answer.head, answer.body);
    assert!(answer.body.contains(reason), "{what}: {}", answer.body);
}

/// Where the provider sends somebody who has begun at `target`.
fn callback(provider: &OpenIdProvider, at: SocketAddr, browser: &Browser, target: &str) -> String {
    let asked = browser.go(at, HOST, target);
    let target = asked.location()[provider.issuer().len()..].to_owned();
    let back = browser.go(provider.address, &provider.address.to_string(), &target);
    back.location().strip_prefix(&format!("http://{HOST}")).expect("the site").to_owned()
}

#[test]
fn a_hundred_requests_of_a_session_that_ends_are_one_refresh() {
    let provider = OpenIdProvider::start();
    provider.behave(|behaviour| {
        behaviour.expires_in = 2;
        behaviour.refresh_takes = Duration::from_millis(500);
    });
    let proxy = host(&provider, "", "", "");
    let browser = Browser::default();
    is_alice(&browser.follow(proxy.address, HOST, "/"));
    std::thread::sleep(Duration::from_millis(2100));
    provider.behave(|behaviour| behaviour.expires_in = 300);
    let begin = Barrier::new(100);
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..100)
            .map(|_| {
                // Each has the cookie from before.
                let (tab, begin) = (browser.copy(), &begin);
                scope.spawn(move || {
                    begin.wait();
                    tab.fetch(proxy.address, HOST, "/")
                })
            })
            .collect();
        for answer in asked {
            is_alice(&answer.join().expect("an answer"));
        }
    });
    assert_eq!(provider.asked("POST /token grant_type=refresh_token"), 1);
}

#[test]
fn nobody_comes_back_to_another_site() {
    let provider = OpenIdProvider::start();
    let proxy = host(&provider, "", "", "");
    // As the browser asks, and what somebody puts into a link.
    for target in [
        "//evil.example/",
        "//evil.example",
        "///evil.example/",
        "/\\evil.example/",
        "/%5Cevil.example/",
        "/%2f%2fevil.example/",
        "/%2Fevil.example",
        "/./%2f/evil.example",
        "/..//evil.example",
        "/a/..//evil.example/",
        "/a?next=//evil.example",
        "/;@evil.example",
        "/@evil.example",
        "/%0d%0aLocation:%20https://evil.example",
        "/%00",
        "/%E2%80%AEevil",
    ] {
        let begun = Browser::default().go(proxy.address, HOST, target);
        if begun.status != 302 {
            assert!(matches!(begun.status, 400 | 401 | 404), "{target}: {}", begun.head);
            continue;
        }
        let browser = Browser::default();
        let callback = callback(&provider, proxy.address, &browser, target);
        let arrived = browser.go(proxy.address, HOST, &callback);
        let location = arrived.location();
        assert_eq!(arrived.status, 302, "{target}: {}", arrived.head);
        let bytes = location.as_bytes();
        assert!(bytes[0] == b'/' && !matches!(bytes.get(1), Some(b'/' | b'\\')), "{target}: {location}");
        assert!(bytes.iter().all(u8::is_ascii_graphic), "{target}: {location}");
        assert_eq!(arrived.fields("location").count(), 1, "{target}");
        // Wherever that leads, it is no circle.
        assert!(!location.starts_with("/.tidegate/"), "{target}: {location}");
    }
    // A host that is another, or none.
    for fields in ["Host: app.example.com@evil.example", "Host: app.example.com/evil", "Host: app.example.com\\evil", "Host: a b"]
    {
        let request = format!("GET / HTTP/1.1\r\n{fields}\r\nConnection: close\r\nSec-Fetch-Mode: navigate\r\n\r\n");
        assert_eq!(exchange(proxy.address, &request).status, 400, "{fields}");
    }
    // Whoever is no trusted proxy does not say where people come back to.
    let more = "Sec-Fetch-Mode: navigate\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.example\r\nForwarded: host=evil.example;proto=https\r\n";
    let asked = Browser::default().ask(proxy.address, "GET", HOST, "/", more, "");
    assert!(asked.location().contains("redirect_uri=http%3A%2F%2Fapp.example.com%2F"), "{}", asked.location());
    // The log-in's own addresses are nowhere to come back to.
    for own in ["/.tidegate/oidc/logout", "/.tidegate/oidc/login?return=/", "/.tidegate/oidc/callback?state=a"] {
        let browser = Browser::default();
        let callback =
            callback(&provider, proxy.address, &browser, &format!("/.tidegate/oidc/login?return={}", own.replace('?', "%3F")));
        assert_eq!(browser.go(proxy.address, HOST, &callback).location(), "/", "{own}");
    }
}

#[test]
fn tokens_that_the_provider_has_not_signed_log_nobody_in() {
    let provider = OpenIdProvider::start();
    let proxy = host(&provider, "", "", "");
    for signs in [
        Signs::Nobody,
        Signs::PublicKeyAsSecret,
        Signs::OwnKeyBesideIt,
        Signs::OwnKey,
        Signs::KeyNamed("../../../../dev/null"),
        Signs::KeyNamed("' OR 1=1 --"),
        Signs::KeyNamed(""),
    ] {
        provider.behave(|behaviour| behaviour.signs = signs);
        let browser = Browser::default();
        let callback = callback(&provider, proxy.address, &browser, "/");
        let answer = browser.go(proxy.address, HOST, &callback);
        assert!(matches!(answer.status, 502 | 503), "{signs:?}: {}", answer.head);
        assert_eq!(browser.fetch(proxy.address, HOST, "/").status, 401, "{signs:?}");
    }
    provider.behave(|behaviour| behaviour.signs = Signs::AsItSays);
    is_alice(&Browser::default().follow(proxy.address, HOST, "/"));
    // Names that nobody knows have the keys asked for anew, and not once for each token.
    assert!(provider.asked("GET /keys") <= 3, "{}", provider.requests().join("\n"));
}

#[test]
fn a_token_endpoint_that_is_out_of_its_mind_logs_nobody_in_and_ends_no_session() {
    let provider = OpenIdProvider::start();
    let proxy = host(&provider, "", "", "");
    const FAULTS: [&str; 9] = [
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"access_token\"",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 9\r\n\r\n{}",
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
        "HTTP/9.9 nonsense\r\n\r\n",
        "",
    ];
    for fault in FAULTS {
        provider.behave(|behaviour| {
            behaviour.token_fault = None;
            behaviour.expires_in = 2;
        });
        let session = Browser::default();
        is_alice(&session.follow(proxy.address, HOST, "/"));
        provider.behave(|behaviour| behaviour.token_fault = Some(TokenEndpointFault::Raw(fault)));
        let browser = Browser::default();
        let callback = callback(&provider, proxy.address, &browser, "/");
        let answer = browser.go(proxy.address, HOST, &callback);
        assert!(matches!(answer.status, 502 | 503), "{fault:?}: {}\n{}", answer.head, answer.body);
        assert_eq!(browser.fetch(proxy.address, HOST, "/").status, 401, "{fault:?}");
        std::thread::sleep(Duration::from_millis(2100));
        let answer = session.fetch(proxy.address, HOST, "/");
        assert_eq!((answer.status, answer.body.as_str()), (200, ALICE), "{fault:?}: {}", answer.head);
    }
}

#[test]
fn documents_that_are_too_long_lead_away_or_never_end_are_not_followed() {
    let provider = OpenIdProvider::start();
    let place = format!("http://{}", provider.address);
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let long = format!("{json}Content-Length: 10000000\r\n\r\n{{\"issuer\":\"{place}\",\"a\":\"{}", "a".repeat(10_000_000));
    let deep = "[".repeat(100_000);
    let faults = [
        ("ten megabytes", long),
        (
            "sent on",
            format!("HTTP/1.1 302 Found\r\nLocation: {place}/internal\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        ),
        (
            "sent on for ever",
            format!("HTTP/1.1 308 Permanent Redirect\r\nLocation: {place}/internal\r\nContent-Length: 0\r\n\r\n"),
        ),
        (
            "sent to metadata",
            "HTTP/1.1 307 Go\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n".to_owned(),
        ),
        ("HTML", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>".to_owned()),
        ("deep", format!("{json}Content-Length: {}\r\n\r\n{deep}", deep.len())),
        ("switched", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n".to_owned()),
        ("never", String::new()),
    ];
    for (what, fault) in faults {
        provider.behave(|behaviour| behaviour.discovery_fault = Some(fault.clone()));
        let proxy = host(&provider, "", "", "");
        let begin = Instant::now();
        is_refused(&Browser::default().go(proxy.address, HOST, "/"), 503, "oidc_provider_away", what);
        assert!(begin.elapsed() < Duration::from_secs(30), "{what}");
        assert_eq!(Browser::default().go(proxy.address, HOST, "/public").status, 200, "{what}");
    }
    assert_eq!(provider.asked("GET /internal"), 0);
    // Of places that are less protected, or no addresses, none is used.
    provider.behave(|behaviour| behaviour.discovery_fault = None);
    for (name, value) in [
        ("token_endpoint", "file:///etc/passwd"),
        ("token_endpoint", "http://user@127.0.0.1/"),
        ("jwks_uri", "gopher://127.0.0.1/"),
        ("authorization_endpoint", "javascript:alert(1)"),
        ("authorization_endpoint", "http://a\r\nSet-Cookie: a=b"),
        ("end_session_endpoint", "//evil.example"),
    ] {
        provider.behave(|behaviour| behaviour.metadata = vec![(name.into(), value.into())]);
        let proxy = host(&provider, "", "", "");
        is_refused(&Browser::default().go(proxy.address, HOST, "/"), 503, "oidc_provider_away", value);
    }
}

/// Sites whose limits stand in front of the log-in.
fn limited(provider: &OpenIdProvider, lines: &str) -> Proxy {
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\"\nsite \"http://{HOST}:{{port}}\" {{\n    {lines}\n    \
         oidc issuer=\"{}\" client=\"{CLIENT}\" secret=\"{SECRET}\"\n    respond 200 body=\"{{auth.user}}\"\n}}\n",
        provider.issuer()
    );
    Proxy::start(PROGRAM, &config).expect("it starts")
}

#[test]
fn who_is_refused_by_address_or_asks_too_often_has_no_provider_asked() {
    let provider = OpenIdProvider::start();
    const OWN: [&str; 4] = [
        "/.tidegate/oidc/login?return=/",
        "/.tidegate/oidc/callback?state=a&code=b",
        "/.tidegate/oidc/logout",
        "/.tidegate/oidc/back-channel",
    ];
    let proxy = limited(&provider, "allow \"192.0.2.1\"");
    for address in OWN {
        let answer = Browser::default().go(proxy.address, HOST, address);
        is_refused(&answer, 403, "denied", address);
        assert_eq!(answer.fields("set-cookie").count(), 0, "{address}");
    }
    let proxy = limited(&provider, "rate-limit \"4/h\"");
    let browser = Browser::default();
    let begun: Vec<u16> = (0..6).map(|_| browser.go(proxy.address, HOST, OWN[0]).status).collect();
    assert_eq!(begun, [302, 302, 302, 302, 429, 429]);
    for address in OWN {
        is_refused(&browser.go(proxy.address, HOST, address), 429, "rate_limited", address);
    }
    // A log-in within the limits goes through, and is counted with all else.
    let proxy = limited(&provider, "rate-limit \"4/h\"; csrf; deny \"192.0.2.1\"");
    let browser = Browser::default();
    assert_eq!(browser.follow(proxy.address, HOST, "/").body, "alice");
    assert_eq!(browser.fetch(proxy.address, HOST, "/").body, "alice");
    assert_eq!(browser.fetch(proxy.address, HOST, "/").status, 429);
}

#[test]
fn a_provider_that_hangs_gathers_no_requests_without_end() {
    let provider = OpenIdProvider::start();
    provider.behave(|behaviour| behaviour.expires_in = 2);
    let proxy = host(&provider, "", "", "");
    let session = Browser::default();
    is_alice(&session.follow(proxy.address, HOST, "/"));
    let browser = Browser::default();
    let address = callback(&provider, proxy.address, &browser, "/");
    provider.behave(|behaviour| behaviour.token_fault = Some(TokenEndpointFault::Hangs));
    // One log-in that has been begun is enough for all of them.
    let request = format!("GET {address} HTTP/1.1\r\nHost: {HOST}\r\nCookie: {}\r\n\r\n", browser.cookies_for(HOST));
    let mut flood: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = TcpStream::connect(proxy.address).expect("it listens");
            stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a bound");
            stream.write_all(request.as_bytes()).expect("sent");
            stream
        })
        .collect();
    // Log-ins that are too many are told so at once, and do not wait with the others.
    let begin = Instant::now();
    let mut told = String::new();
    while !told.contains("oidc_busy") {
        assert!(begin.elapsed() < Duration::from_secs(60), "nobody is told: {told}");
        for stream in &mut flood {
            let mut piece = [0; 2048];
            let length = stream.read(&mut piece).unwrap_or(0);
            told.push_str(&String::from_utf8_lossy(&piece[..length]));
        }
    }
    assert!(told.to_ascii_lowercase().contains("retry-after: 1"), "{told}");
    // Who has a session keeps it.
    is_alice(&session.fetch(proxy.address, HOST, "/"));
    drop(flood);
    provider.behave(|behaviour| behaviour.token_fault = None);
    // Browsers that have left take nobody's place when it is there again.
    let before = provider.asked("POST /token");
    let back = || Browser::default().follow(proxy.address, HOST, "/");
    within(Duration::from_secs(40), back, |answer| answer.status == 200);
    assert!(provider.asked("POST /token") - before < 50, "{}", provider.asked("POST /token") - before);
}
