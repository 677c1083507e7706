//! Where a session ends to be one: at another host, at another provider, and beside cookies that somebody else has put
//! under its names.

use super::browser::exchange;
use super::{Answer, Browser, PROGRAM, is_alice};
use std::net::SocketAddr;
use tidegate_testkit::openid::{CLIENT, OpenIdProvider, SECRET};
use tidegate_testkit::proxy::Proxy;

/// A site of these hosts.
fn site(provider: &OpenIdProvider, hosts: &[&str], more: &str) -> String {
    let addresses: Vec<String> = hosts.iter().map(|host| format!("\"http://{host}:{{port}}\"")).collect();
    format!(
        "site {} {{\n    oidc issuer=\"{}\" client=\"{CLIENT}\" secret=\"{SECRET}\" {more} {{ header \"X-Mail\" claim=\"email\"; }}\n    \
         respond 200 body=\"{{auth.user}} {{jwt.groups}} <{{request.header.X-Mail}}> <{{request.header.Cookie}}>\"\n}}\n",
        addresses.join(" "),
        provider.issuer()
    )
}

fn start(sites: &[String]) -> Proxy {
    Proxy::start(PROGRAM, &format!("admin \"127.0.0.1:{{admin}}\"\n{}", sites.concat())).expect("it starts")
}

/// The part of cookies' names that tells log-ins apart, as a site sets them.
fn mark(at: SocketAddr, host: &str) -> String {
    let answer = Browser::default().go(at, host, "/");
    let line = answer.fields("set-cookie").find(|line| line.contains("-flows=")).expect("a log-in begins").to_owned();
    line["__Host-tidegate-".len()..].split('-').next().expect("a mark").to_owned()
}

/// Where the provider sends somebody who has begun there.
fn callback(provider: &OpenIdProvider, at: SocketAddr, browser: &Browser, host: &str) -> String {
    let asked = browser.go(at, host, "/page");
    let target = asked.location()[provider.issuer().len()..].to_owned();
    let back = browser.go(provider.address, &provider.address.to_string(), &target);
    back.location().strip_prefix(&format!("http://{host}")).expect("the site").to_owned()
}

#[test]
fn cookies_that_are_carried_to_another_site_or_provider_are_worth_nothing() {
    let provider = OpenIdProvider::start();
    let proxy = start(&[
        site(&provider, &["a.example.com", "www.a.example.com"], ""),
        site(&provider, &["b.example.com"], ""),
        site(&provider, &["c.example.com"], "scope=\"email\""),
    ]);
    let at = proxy.address;
    let own = mark(at, "a.example.com");
    let browser = Browser::default();
    is_alice(&browser.follow(at, "a.example.com", "/"));
    for host in ["b.example.com", "www.a.example.com", "c.example.com"] {
        let thief = browser.copy();
        let other = mark(at, host);
        assert_eq!(other == own, host != "c.example.com", "sites with the same provider have the same names");
        thief.carry("a.example.com", host, |name| name.replace(&own, &other));
        assert!(thief.cookies_for(host).contains(&format!("__Host-tidegate-{other}-0=1.")), "{}", thief.cookies_for(host));
        let answer = thief.fetch(at, host, "/");
        assert_eq!(answer.status, 401, "{host}: {}", answer.body);
        // Where it was made it is good, whatever letters the host is written in.
        is_alice(&thief.fetch(at, "a.example.com", "/"));
        let cookies = browser.cookies_for("a.example.com");
        let request = format!("GET / HTTP/1.1\r\nHost: A.Example.COM:80\r\nConnection: close\r\nCookie: {cookies}\r\n\r\n");
        is_alice(&exchange(at, &request));
        // A log-in that was begun at one host comes to its end there.
        let thief = Browser::default();
        let address = callback(&provider, at, &thief, "a.example.com");
        thief.carry("a.example.com", host, |name| name.replace(&own, &other));
        let asked = provider.asked("POST /token");
        let answer = thief.go(at, host, &address);
        assert!(answer.status == 400 && answer.body.contains("oidc_state_unknown"), "{host}: {}\n{}", answer.head, answer.body);
        assert_eq!(provider.asked("POST /token"), asked, "{host}");
    }
    is_alice(&browser.fetch(at, "a.example.com", "/"));
}

#[test]
fn a_session_of_a_domain_is_good_in_that_domain_alone() {
    let provider = OpenIdProvider::start();
    let domain = "domain=\"example.com\"";
    let proxy = start(&[
        site(&provider, &["a.example.com", "a.other.test"], domain),
        site(&provider, &["b.example.com", "evilexample.com"], domain),
    ]);
    let browser = Browser::default();
    is_alice(&browser.follow(proxy.address, "a.example.com", "/"));
    is_alice(&browser.fetch(proxy.address, "b.example.com", "/"));
    for host in ["a.other.test", "evilexample.com"] {
        browser.carry("example.com", host, str::to_owned);
        assert!(browser.cookies_for(host).contains("__Secure-tidegate-"));
        assert_eq!(browser.fetch(proxy.address, host, "/").status, 401, "{host}");
    }
}

/// A request as a browser sends it after somebody beside the site has set cookies of its names.
fn ask(at: SocketAddr, cookies: &[String], fields: &str) -> Answer {
    let cookies = cookies.join("; ");
    exchange(at, &format!("GET /page HTTP/1.1\r\nHost: a.example.com\r\nConnection: close\r\n{fields}Cookie: {cookies}\r\n\r\n"))
}

#[test]
fn cookies_of_a_neighbour_log_nobody_out_and_nobody_in() {
    let provider = OpenIdProvider::start();
    let domain = "domain=\"example.com\"";
    let sites = [site(&provider, &["a.example.com"], &format!("{domain} forward-id=\"X-Id\""))];
    let proxy = start(&sites);
    let groups: Vec<String> = (0..200).map(|number| format!("/a/group/of/many/{number:05}")).collect();
    provider.behave(|behaviour| behaviour.claims = vec![("roles".into(), serde_json::json!(groups))]);
    let browser = Browser::default();
    is_alice(&browser.follow(proxy.address, "a.example.com", "/"));
    let ours: Vec<String> = browser.cookies_for("a.example.com").split("; ").map(str::to_owned).collect();
    let name = |number: usize| format!("{}{number}", ours[0].split_once("0=").expect("the first piece").0);
    assert_eq!(ours.len(), 2, "a session of two pieces");
    let with = |more: &[String], is_in_front: bool| {
        let all = if is_in_front { [more, &ours[..]].concat() } else { [&ours[..], more].concat() };
        ask(proxy.address, &all, "")
    };
    let check = |what: &str, more: &[String]| {
        for is_in_front in [true, false] {
            let answer = with(more, is_in_front);
            assert_eq!(answer.status, 200, "{what}: {}\n{}", answer.head, answer.body);
            is_alice(&answer);
        }
    };
    check("rubbish", &[format!("{}=rubbish", name(0))]);
    check("an empty one", &[format!("{}=", name(0))]);
    check("the second piece alone", &[format!("{}=AAAA", name(1))]);
    check("both", &[format!("{}=2.AAAA", name(0)), format!("{}=AAAA", name(1))]);
    check("five pieces", &(0..5).map(|number| format!("{}=5.AAAA", name(number))).collect::<Vec<_>>());
    check("a number that no session has", &[format!("{}=AAAA", name(9)), format!("{}=6.AAAA", name(0))]);
    check("a long one", &[format!("{}=1.{}", name(0), "A".repeat(4000))]);
    // Pieces of another session of the same person, mixed with those of this one, are none.
    let other = Browser::default();
    is_alice(&other.follow(proxy.address, "a.example.com", "/"));
    let others: Vec<String> = other.cookies_for("a.example.com").split("; ").map(str::to_owned).collect();
    for mixed in [[ours[0].clone(), others[1].clone()], [others[0].clone(), ours[1].clone()]] {
        assert_eq!(ask(proxy.address, &mixed, "").status, 401);
    }
    // Fifty of each: some are looked at, and what is left is no session.
    let flood: Vec<String> = (0..50).map(|number| format!("{}=1.{number}", name(0))).collect();
    let answer = with(&flood, true);
    assert!(matches!(answer.status, 200 | 401), "{}", answer.head);
    // A head that is too long is refused before anything of it is looked at.
    let flood: Vec<String> = (0..50).map(|number| format!("{}=1.{}", name(number % 5), "A".repeat(3800))).collect();
    let answer = with(&flood, true);
    assert_eq!(answer.status, 431, "{}", answer.head);
    is_alice(&ask(proxy.address, &ours, ""));
    // A log-in that was begun is not undone by another cookie of its name either.
    let fresh = Browser::default();
    let address = callback(&provider, proxy.address, &fresh, "a.example.com");
    let flows = fresh.cookies_for("a.example.com");
    let (flows_name, _) = flows.split_once('=').expect("a cookie");
    let request = format!(
        "GET {address} HTTP/1.1\r\nHost: a.example.com\r\nConnection: close\r\nCookie: {flows_name}=rubbish; {flows}\r\n\r\n"
    );
    let arrived = exchange(proxy.address, &request);
    assert_eq!((arrived.status, arrived.location()), (302, "/page"), "{}\n{}", arrived.head, arrived.body);
    // Nobody gets a session out of a flow, a state or a refreshed session of the storage.
    let state = address.split("state=").nth(1).expect("a state").split('&').next().expect("its end");
    for sealed in [flows.split_once('=').expect("a cookie").1, state] {
        assert_eq!(ask(proxy.address, &[format!("{}=1.{sealed}", name(0))], "").status, 401);
    }
}
