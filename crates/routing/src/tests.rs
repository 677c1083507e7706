//! The compiled tables must answer as reading the configuration from top to bottom would. The reader here is slow and
//! plain on purpose.

use crate::{Conditions, Reason, RequestFacts, RouteId, Router, Routes, SiteId};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::sample::select;
use std::net::IpAddr;
use tidegate_model::{
    Condition, ConditionKind, Field, HostPattern, MatchLine, PathPattern, PathPolicy, PoolName, Route, Scheme, Terminal,
    TextPattern,
};
use tidegate_tables::Maps;
use tidegate_wire::head::{Method, RequestHead, Span};

/// What a test says about a request.
#[derive(Debug, Clone)]
struct Request {
    method: &'static str,
    path: String,
    query: Option<String>,
    host: String,
    fields: Vec<(&'static str, String)>,
    scheme: Scheme,
    client_ip: IpAddr,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            method: "GET",
            path: "/".into(),
            query: None,
            host: "example.com".into(),
            fields: Vec::new(),
            scheme: Scheme::Https,
            client_ip: IpAddr::from([192, 0, 2, 1]),
        }
    }
}

impl Request {
    fn head(&self) -> RequestHead {
        let mut head = RequestHead { method: Method::of(self.method.as_bytes()), ..RequestHead::default() };
        head.method_name = head.fields.append(&[self.method.as_bytes()]);
        head.set_path(self.path.as_bytes());
        head.set_query(self.query.as_deref().map(str::as_bytes));
        for (name, value) in &self.fields {
            head.fields.push(name.as_bytes(), value.as_bytes());
        }
        assert_ne!(head.path, Span::default());
        head
    }
}

/// The only function of these tests that calls the compiled tables.
fn find_route(routes: &[Route], request: &Request) -> Option<u32> {
    let compiled = Routes::new(routes, PathPolicy::DEFAULT).expect("the patterns of the test compile");
    let head = request.head();
    let facts = RequestFacts {
        head: &head,
        path: head.path(),
        query: head.query(),
        host: request.host.as_bytes(),
        scheme: request.scheme,
        client_ip: request.client_ip,
        client_certificate: None,
        ja4: None,
        upgrade: None,
        geo: tidegate_geo::Whereabouts::none(),
        maps: Maps::none(),
        claims: None,
    };
    let found = compiled.find_route(&facts);
    let explained = compiled.explain(&facts);
    assert_eq!(explained.len(), routes.len());
    let taken: Vec<RouteId> = explained.iter().filter(|line| line.reason == Reason::Taken).map(|line| line.route).collect();
    assert_eq!(taken, found.into_iter().collect::<Vec<_>>(), "explain takes another route");
    found.map(|route| route.0)
}

/// The meaning of a configuration, read from top to bottom.
mod reader {
    use super::Request;
    use regex::bytes::Regex;
    use tidegate_model::address::parse_host_pattern;
    use tidegate_model::{Condition, ConditionKind, HostPattern, MatchLine, PathPattern, Route, TextPattern};

    pub(super) fn find_route(routes: &[Route], request: &Request) -> Option<u32> {
        let position = routes.iter().position(|route| {
            let path = route.paths.is_empty() || route.paths.iter().any(|pattern| path_fits(pattern, &request.path));
            path && (route.matches.is_empty() || any_line(&route.matches, request))
        });
        position.map(|position| position as u32)
    }

    fn any_line(lines: &[MatchLine], request: &Request) -> bool {
        let holds = |condition: &Condition| condition_holds(&condition.kind, request) != condition.negated;
        lines.iter().any(|line| line.conditions.iter().all(holds))
    }

    fn path_fits(pattern: &PathPattern, path: &str) -> bool {
        match pattern {
            PathPattern::Exact(text) => text == path,
            PathPattern::Prefix(text) => text == "/" || path.starts_with(text) || format!("{path}/") == *text,
            PathPattern::Beginning(text) => path.starts_with(text),
            PathPattern::Regex(text) => regex(text).is_match(path.as_bytes()),
        }
    }

    fn condition_holds(kind: &ConditionKind, request: &Request) -> bool {
        match kind {
            ConditionKind::Method(names) => names.iter().any(|name| name == request.method),
            ConditionKind::Path(patterns) => patterns.iter().any(|pattern| path_fits(pattern, &request.path)),
            ConditionKind::Header(field) => {
                let values = request.fields.iter().filter(|(name, _)| name.to_lowercase() == field.name);
                values.into_iter().any(|(_, value)| text_fits(&field.value, value.as_bytes()))
            }
            ConditionKind::WholeQuery(value) => text_fits(value, request.query.as_deref().unwrap_or_default().as_bytes()),
            ConditionKind::Query(field) => {
                let query = request.query.as_deref().unwrap_or_default();
                let pairs = query.split('&').filter(|pair| !pair.is_empty());
                let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
                pairs.any(|(name, value)| decode(name) == field.name.as_bytes() && text_fits(&field.value, &decode(value)))
            }
            ConditionKind::Cookie(field) => {
                let cookies = request.fields.iter().filter(|(name, _)| name.to_lowercase() == "cookie");
                let mut pairs = cookies.flat_map(|(_, value)| value.split(';')).filter_map(|pair| pair.split_once('='));
                pairs.any(|(name, value)| name.trim() == field.name && text_fits(&field.value, value.trim().as_bytes()))
            }
            ConditionKind::Client(networks) => networks.iter().any(|network| network.contains(&request.client_ip.to_canonical())),
            ConditionKind::Host(patterns) => patterns.iter().any(|pattern| host_fits(pattern, &request.host)),
            ConditionKind::Scheme(scheme) => *scheme == request.scheme,
            // None of these clients has one.
            ConditionKind::ClientCertificate { .. } => false,
            // Clients of this test come in plain text.
            ConditionKind::Ja4(_) => false,
            // There is none.
            ConditionKind::Map(_) | ConditionKind::Geo(_) | ConditionKind::Claim(_) => false,
            ConditionKind::Any(lines) => any_line(lines, request),
        }
    }

    fn text_fits(pattern: &TextPattern, value: &[u8]) -> bool {
        match pattern {
            TextPattern::Present => true,
            TextPattern::Exact(text) => value == text.as_bytes(),
            TextPattern::Prefix(text) => value.starts_with(text.as_bytes()),
            TextPattern::Suffix(text) => value.ends_with(text.as_bytes()),
            TextPattern::Regex(text) => regex(text).is_match(value),
        }
    }

    pub(super) fn host_fits(pattern: &HostPattern, host: &str) -> bool {
        let host = host.to_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host);
        match pattern {
            HostPattern::Any => true,
            HostPattern::Exact(name) => host == name,
            HostPattern::Wildcard(name) => host.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest == name),
            HostPattern::DeepWildcard(name) => {
                let front = host.strip_suffix(name.as_str()).and_then(|front| front.strip_suffix('.'));
                front.is_some_and(|front| front.split('.').all(|label| !label.is_empty()))
            }
            HostPattern::Ip(ip) => parse_host_pattern(host) == Ok(HostPattern::Ip(*ip)),
            // No client names one.
            HostPattern::Socket(_) => false,
        }
    }

    fn decode(text: &str) -> Vec<u8> {
        let bytes = text.replace('+', " ").into_bytes();
        let mut decoded = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let triplet = std::str::from_utf8(&bytes[at..])
                .ok()
                .and_then(|rest| rest.get(..3))
                .filter(|triplet| triplet.starts_with('%') && triplet[1..].chars().all(|digit| digit.is_ascii_hexdigit()));
            match triplet {
                Some(triplet) => {
                    decoded.push(u8::from_str_radix(&triplet[1..], 16).expect("two hexadecimal digits"));
                    at += 3;
                }
                None => {
                    decoded.push(bytes[at]);
                    at += 1;
                }
            }
        }
        decoded
    }

    fn regex(text: &str) -> Regex {
        tidegate_model::expression(text).build().expect("the patterns of the test compile")
    }
}

/// Few segments, so that patterns overlap; some of them prefixes of others.
fn path() -> impl Strategy<Value = String> {
    vec(select(vec!["a", "b", "ab", "abc", "v1", ""]), 0..4).prop_map(|segments| format!("/{}", segments.join("/")))
}

fn path_pattern() -> impl Strategy<Value = PathPattern> {
    let regexes = ["^/a", "^/ab?/", "^/a/b*$", "b$", "^/v[0-9]", "^/(a|b)/", "^/a|b$", "^/abc+", "/a/", "^/b{0,1}/a", "(?i)^/A"];
    prop_oneof![
        4 => path().prop_map(PathPattern::Exact),
        6 => path().prop_map(|path| PathPattern::Prefix(if path.ends_with('/') { path } else { path + "/" })),
        3 => path().prop_map(PathPattern::Beginning),
        2 => select(regexes.to_vec()).prop_map(|text| PathPattern::Regex(text.into())),
    ]
}

fn text_pattern() -> impl Strategy<Value = TextPattern> {
    let text = select(vec!["", "x", "xy", "y z"]).prop_map(String::from);
    prop_oneof![
        Just(TextPattern::Present),
        text.clone().prop_map(TextPattern::Exact),
        text.clone().prop_map(TextPattern::Prefix),
        text.prop_map(TextPattern::Suffix),
        select(vec!["^x", "y$", "^$", "[a-z] "]).prop_map(|text| TextPattern::Regex(text.into())),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    let field = |names: &'static [&'static str]| {
        (select(names), text_pattern()).prop_map(|(name, value)| Field { name: name.into(), value })
    };
    let networks = ["192.0.2.0/24", "198.51.100.7/32", "2001:db8::/32", "0.0.0.0/0", "::/0"];
    let network = select(networks.to_vec()).prop_map(|text| text.parse().expect("a network of the test"));
    let kind = prop_oneof![
        vec(select(vec!["GET", "POST", "PURGE"]).prop_map(String::from), 1..3).prop_map(ConditionKind::Method),
        vec(path_pattern(), 1..3).prop_map(ConditionKind::Path),
        field(&["x-a", "cookie", "accept"]).prop_map(ConditionKind::Header),
        field(&["a", "a b", ""]).prop_map(ConditionKind::Query),
        field(&[""]).prop_map(|field| ConditionKind::WholeQuery(field.value)),
        field(&["a", "b"]).prop_map(ConditionKind::Cookie),
        vec(network, 1..3).prop_map(ConditionKind::Client),
        vec(host_pattern(), 1..3).prop_map(ConditionKind::Host),
        select(vec![Scheme::Http, Scheme::Https]).prop_map(ConditionKind::Scheme),
    ];
    let kind = kind.prop_recursive(3, 12, 3, |inner| {
        let condition = (any::<bool>(), inner).prop_map(|(negated, kind)| Condition { negated, kind });
        let line = vec(condition, 1..3).prop_map(|conditions| MatchLine { conditions });
        vec(line, 1..3).prop_map(ConditionKind::Any)
    });
    (any::<bool>(), kind).prop_map(|(negated, kind)| Condition { negated, kind })
}

fn host_pattern() -> impl Strategy<Value = HostPattern> {
    let name = select(vec!["example.com", "a.example.com", "com"]).prop_map(String::from);
    prop_oneof![
        Just(HostPattern::Any),
        name.clone().prop_map(HostPattern::Exact),
        name.clone().prop_map(HostPattern::Wildcard),
        name.prop_map(HostPattern::DeepWildcard),
        ip().prop_map(HostPattern::Ip),
    ]
}

fn host() -> impl Strategy<Value = String> {
    let hosts = [
        "example.com",
        "EXAMPLE.com.",
        "a.example.com",
        "b.A.example.com",
        "d.c.b.a.example.com",
        "c.example.com",
        "a..com",
        "com",
        "192.0.2.1",
        "::1",
        "[::1]",
        ".com",
    ];
    select(hosts.to_vec()).prop_map(String::from)
}

fn ip() -> impl Strategy<Value = IpAddr> {
    select(vec!["192.0.2.1", "198.51.100.7", "2001:db8::1", "::1"]).prop_map(|text| text.parse().expect("an address of the test"))
}

fn route() -> impl Strategy<Value = Route> {
    let line = vec(condition(), 1..3).prop_map(|conditions| MatchLine { conditions });
    (vec(path_pattern(), 0..3), prop_oneof![1 => Just(Vec::new()), 1 => vec(line, 1..3)]).prop_map(|(paths, matches)| {
        let (pool, retry) = (PoolName("p".into()), tidegate_model::RouteRetry::OfPool);
        let terminal = Terminal::Proxy { pool, retry, rewrites_location: false };
        Route { paths, matches, ..Route::of_all(terminal) }
    })
}

fn request() -> impl Strategy<Value = Request> {
    let value = || select(vec!["", "x", "xy", "xyy z", "a=x; b=y", "b=xy;a="]).prop_map(String::from);
    let query = "(a|a\\+b|%61|)(=|%3d|)(x|xy|%78|y\\+z|y%20z|%|%4)?(&(a|b)=(x|y))?";
    let mapped = ip().prop_map(|ip| if let IpAddr::V4(ip) = ip { IpAddr::V6(ip.to_ipv6_mapped()) } else { ip });
    (
        select(vec!["GET", "POST", "PURGE", "get"]),
        path(),
        option::of(query),
        host(),
        vec((select(vec!["X-A", "x-a", "Cookie", "Accept"]), value()), 0..4),
        select(vec![Scheme::Http, Scheme::Https]),
        prop_oneof![ip(), mapped],
    )
        .prop_map(|(method, path, query, host, fields, scheme, client_ip)| Request {
            method,
            path,
            query,
            host,
            fields,
            scheme,
            client_ip,
        })
}

proptest! {
    #[test]
    fn the_route_is_the_one_a_reader_of_the_file_would_take(
        routes in vec(route(), 0..24),
        requests in vec(request(), 1..8),
    ) {
        for request in requests {
            assert_eq!(find_route(&routes, &request), reader::find_route(&routes, &request), "{request:?}");
        }
    }

    #[test]
    fn the_site_is_the_most_specific_that_names_the_host(
        patterns in vec(host_pattern(), 0..8),
        host in host(),
        local_ip in ip(),
    ) {
        let router = Router::new(patterns.iter().enumerate().map(|(position, pattern)| (SiteId(position as u32), pattern)));
        let first = |wanted: fn(&HostPattern) -> bool| {
            patterns.iter().position(|pattern| {
                let fits = if let HostPattern::Ip(ip) = pattern { *ip == local_ip } else { reader::host_fits(pattern, &host) };
                wanted(pattern) && fits
            })
        };
        let expected = first(|pattern| matches!(pattern, HostPattern::Exact(_)))
            .or_else(|| {
                // The reader's own words for `HostPattern::closeness`.
                let closeness = |pattern: &HostPattern| match pattern {
                    HostPattern::Wildcard(name) => Some((name.len(), 1)),
                    HostPattern::DeepWildcard(name) => Some((name.len(), 0)),
                    _ => None,
                };
                let fitting = patterns.iter().enumerate().filter(|(_, pattern)| reader::host_fits(pattern, &host));
                let found = fitting.filter_map(|(position, pattern)| Some((closeness(pattern)?, std::cmp::Reverse(position))));
                found.max().map(|(_, std::cmp::Reverse(position))| position)
            })
            .or_else(|| first(|pattern| matches!(pattern, HostPattern::Ip(_))))
            .or_else(|| first(|pattern| matches!(pattern, HostPattern::Any)));
        assert_eq!(router.find_site(host.as_bytes(), local_ip), expected.map(|position| SiteId(position as u32)));
    }
}

fn route_of(paths: &[PathPattern], lines: &[&[(bool, ConditionKind)]]) -> Route {
    let condition = |(negated, kind): &(bool, ConditionKind)| Condition { negated: *negated, kind: kind.clone() };
    let line = |conditions: &&[(bool, ConditionKind)]| MatchLine { conditions: conditions.iter().map(condition).collect() };
    let (pool, retry) = (PoolName("p".into()), tidegate_model::RouteRetry::OfPool);
    let terminal = Terminal::Proxy { pool, retry, rewrites_location: false };
    Route { paths: paths.to_vec(), matches: lines.iter().map(line).collect(), ..Route::of_all(terminal) }
}

fn prefix(text: &str) -> PathPattern {
    PathPattern::Prefix(text.into())
}

#[test]
fn file_order_wins_over_specificity() {
    let routes = [
        route_of(&[prefix("/a/"), PathPattern::Exact("/z".into())], &[&[(false, ConditionKind::Method(vec!["POST".into()]))]]),
        route_of(&[PathPattern::Regex("^/a/[0-9]+$".into())], &[]),
        route_of(&[prefix("/a/")], &[]),
        route_of(&[PathPattern::Exact("/a/b".into())], &[]),
        route_of(&[], &[&[(true, ConditionKind::Scheme(Scheme::Http))]]),
    ];
    let check = |method: &'static str, path: &str, scheme: Scheme, expected: Option<u32>| {
        let request = Request { method, path: path.into(), scheme, ..Request::default() };
        assert_eq!(find_route(&routes, &request), expected, "{method} {path}");
    };
    check("GET", "/a/b", Scheme::Https, Some(2));
    check("POST", "/a/b", Scheme::Https, Some(0));
    check("POST", "/z", Scheme::Https, Some(0));
    check("GET", "/z", Scheme::Https, Some(4));
    check("GET", "/z", Scheme::Http, None);
    check("GET", "/a/12", Scheme::Https, Some(1));
    check("GET", "/a", Scheme::Https, Some(2));
}

#[test]
fn explain_says_why_each_other_route_was_not_taken() {
    let header = ConditionKind::Header(Field { name: "x-a".into(), value: TextPattern::Present });
    let get = ConditionKind::Method(vec!["GET".into()]);
    let post = ConditionKind::Method(vec!["POST".into()]);
    let routes = [
        route_of(&[prefix("/b/")], &[]),
        route_of(&[prefix("/a/")], &[&[(false, get.clone()), (false, header)], &[(false, post)]]),
        route_of(&[prefix("/a/")], &[&[(false, get)]]),
        route_of(&[], &[]),
    ];
    let compiled = Routes::new(&routes, PathPolicy::DEFAULT).expect("the patterns of the test compile");
    let head = Request { path: "/a/x".into(), ..Request::default() }.head();
    let facts = RequestFacts {
        head: &head,
        path: head.path(),
        query: head.query(),
        host: b"example.com",
        scheme: Scheme::Https,
        client_ip: IpAddr::from([192, 0, 2, 1]),
        client_certificate: None,
        ja4: None,
        upgrade: None,
        geo: tidegate_geo::Whereabouts::none(),
        maps: Maps::none(),
        claims: None,
    };
    let reasons: Vec<Reason> = compiled.explain(&facts).into_iter().map(|line| line.reason).collect();
    let expected = [Reason::Path, Reason::Conditions { failed: vec![1, 0] }, Reason::Taken, Reason::Shadowed { by: RouteId(2) }];
    assert_eq!(reasons, expected);
}

#[test]
fn networks_written_in_the_mapped_form_are_ipv4() {
    let routes = [route_of(&[], &[&[(false, ConditionKind::Client(vec!["::ffff:192.0.2.0/120".parse().expect("a network")]))]])];
    let check = |client_ip: &str, expected: Option<u32>| {
        let request = Request { client_ip: client_ip.parse().expect("an address"), ..Request::default() };
        assert_eq!(find_route(&routes, &request), expected, "{client_ip}");
    };
    check("192.0.2.77", Some(0));
    check("::ffff:192.0.2.77", Some(0));
    check("192.0.3.77", None);
    check("::1", None);
}

#[test]
fn ten_thousand_routes_keep_their_order() {
    let mut routes: Vec<Route> = (0..10_000).map(|number| route_of(&[prefix(&format!("/service/{number}/"))], &[])).collect();
    routes.push(route_of(&[prefix("/service/")], &[]));
    for (path, expected) in [("/service/0/x", 0), ("/service/9999", 9_999), ("/service/77/", 77), ("/service/10000/", 10_000)] {
        assert_eq!(find_route(&routes, &Request { path: path.into(), ..Request::default() }), Some(expected), "{path}");
    }
}

#[test]
fn a_handshake_fits_by_any_of_its_patterns_and_plain_text_by_none() {
    let check = |patterns: &[TextPattern], ja4: Option<&str>, expected: bool| {
        let kind = ConditionKind::Ja4(patterns.to_vec());
        let line = |negated| MatchLine { conditions: vec![Condition { negated, kind: kind.clone() }] };
        let head = Request::default().head();
        let client = IpAddr::from([192, 0, 2, 1]);
        let facts = RequestFacts { ja4, ..RequestFacts::of(&head, Scheme::Https, client) };
        let holds = |line| Conditions::new(&[line], PathPolicy::DEFAULT).expect("patterns of the test").hold(&facts);
        assert_eq!((holds(line(false)), holds(line(true))), (expected, !expected), "{patterns:?} {ja4:?}");
    };
    let curl = "t13d3112h2_e8f1e7e78f70_b26ce05bbdd6";
    let exact = |text: &str| TextPattern::Exact(text.to_owned());
    let (prefix, suffix) = (TextPattern::Prefix("t13d3112h2_".into()), TextPattern::Suffix("_b26ce05bbdd6".into()));
    check(&[exact(curl)], Some(curl), true);
    check(&[exact("t13d1516h2_8daaf6152771_d8a2da3f94cd"), prefix.clone()], Some(curl), true);
    check(&[suffix], Some(curl), true);
    check(&[TextPattern::Regex("^t13.*h2_".into())], Some(curl), true);
    check(&[exact("t13d1516h2_8daaf6152771_d8a2da3f94cd")], Some(curl), false);
    check(&[prefix, TextPattern::Present], None, false);
}
