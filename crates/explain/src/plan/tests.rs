//! What a plan says of two texts, line by line.

use super::plan;
use std::path::Path;
use tidegate_api::{ChangeKind, Effect, Plan};
use tidegate_config::load_text;
use tidegate_model::Configuration;

fn configuration(text: &str) -> Configuration {
    let loaded = load_text("test.kdl", text, Path::new("."));
    loaded.configuration.unwrap_or_else(|| panic!("{text}: {:?}", loaded.diagnostics))
}

fn planned(before: &str, after: &str) -> Plan {
    plan(&configuration(before), &configuration(after))
}

/// Both directions are planned: what is a difference one way must be one the other way.
fn check(before: &str, after: &str, expected: &[&str]) {
    let forth = planned(before, after);
    assert_eq!(forth.text.lines().collect::<Vec<_>>(), expected, "from {before}\nto {after}");
    let back = planned(after, before);
    assert_eq!(back.empty, forth.empty, "back from {after}\nto {before}");
    assert!(planned(before, before).empty && planned(after, after).empty);
}

fn check_summary(before: &str, after: &str, expected: &str) {
    assert_eq!(planned(before, after).summary, expected, "from {before}\nto {after}");
}

const SITE: &str = "site \"http://a.test:8080\" { respond 200 }\n";

fn with_site(text: &str) -> String {
    format!("{text}\n{SITE}")
}

/// Routes in one site, with two pools at hand.
fn with_routes(routes: &str) -> String {
    format!(
        "site \"http://a.test:8080\" {{\n{routes}\n}}\npool \"api\" {{ server \"10.0.0.4:80\" }}\npool \"web\" {{ server \"10.0.0.5:80\" }}\n\
         site \"http://uses-both.test:8080\" {{ route \"/a\" {{ proxy \"api\" }}; route \"/b\" {{ proxy \"web\" }} }}"
    )
}

fn with_pool(lines: &str) -> String {
    format!("pool \"api\" {{\n{lines}\n}}\nsite \"http://a.test:8080\" {{ proxy \"api\" }}")
}

#[test]
fn nothing_changes_where_nothing_means_anything_else() {
    check(SITE, SITE, &[]);
    check(SITE, &with_site("// a comment\ndrain \"30s\"\nlimits { header-count 128; }"), &[]);
    let other = "site \"http://b.test:8080\" { respond 201 }\n";
    check(&format!("{SITE}{other}"), &format!("{other}{SITE}"), &[]);
    check_summary(SITE, SITE, "nothing changes");
}

#[test]
fn settings_of_the_process() {
    let check = |before: &str, after: &str, expected: &[&str]| check(&with_site(before), &with_site(after), expected);
    check("drain \"30s\"", "drain \"1m\"", &["~ drain: 30s → 1m"]);
    check("", "admin \"unix:/run/t.sock\"", &["~ admin: not set → unix:/run/t.sock"]);
    check("", "log level=\"debug\"", &["~ log level: info → debug"]);
    check(
        "",
        "access-log \"/var/log/t.log\" format=\"common\" rotate=\"100MB\" keep=3",
        &[
            "~ access-log: stdout → /var/log/t.log",
            "~ access-log format: json → common",
            "~ access-log rotate: not set → 100MB",
            "~ access-log keep: not set → 3",
        ],
    );
    // Of several each is shown as a whole, and the same ones are no difference.
    check(
        "access-log \"stdout\"\naccess-log \"/var/log/a.log\" status=\"500-599\"",
        "access-log \"stdout\"\naccess-log \"/var/log/a.log\" format=\"common\"",
        &[
            "~ access-log: \"stdout\" format=\"json\"; \"/var/log/a.log\" format=\"json\" status=\"500-599\" → \"stdout\" format=\"json\"; \"/var/log/a.log\" format=\"common\"",
        ],
    );
    check(
        "limits { keep-alive \"75s\"; body-rate 0; }",
        "limits { header-bytes \"32KiB\"; keep-alive \"10s\"; h2-streams 100; }",
        &[
            "~ limits header-bytes: 64KiB → 32KiB",
            "~ limits keep-alive: 75s → 10s",
            "~ limits body-rate: 0B/s → 100B/s",
            "~ limits h2-streams: 256 → 100",
        ],
    );
}

#[test]
fn fewer_threads_end_workers() {
    let check = |before: &str, after: &str, expected: Effect| {
        let plan = planned(&with_site(&format!("threads {before}")), &with_site(&format!("threads {after}")));
        assert_eq!(plan.settings[0].effect, expected, "{before} → {after}");
    };
    check("4", "2", Effect::WorkersLeave);
    check("2", "4", Effect::Untouched);
    check("\"auto\"", "2", Effect::WorkersLeave);
    check("2", "\"auto\"", Effect::WorkersLeave);
    let plan = planned(&with_site("threads 4"), &with_site("threads 2"));
    assert_eq!(plan.text, "~ threads: 4 → 2 (connections of workers that leave are kept until they end)\n");
}

#[test]
fn listening_addresses_follow_the_sites() {
    check(
        SITE,
        "site \"http://a.test:8081\" { respond 200 }",
        &[
            "- listener :8080, http: its connections are drained",
            "+ listener :8081, http",
            "- site http://a.test:8080",
            "+ site http://a.test:8081",
        ],
    );
    check(
        SITE,
        "site \"https://a.test:8080\" { respond 200 }",
        &[
            "~ listener :8080, https: its connections are drained",
            "    ~ scheme: http → https",
            "- site http://a.test:8080",
            "+ site https://a.test:8080",
        ],
    );
    check(
        SITE,
        &with_site("site \"127.0.0.1\" { tls \"internal\"; respond 200 }"),
        &["+ listener 127.0.0.1:80, http, for redirects to HTTPS", "+ listener 127.0.0.1:443, https", "+ site https://127.0.0.1"],
    );
    check(
        "site \"a.test\" { respond 200 }",
        "site \"a.test\" { respond 200 }\nsite \"http://b.test\" { respond 200 }",
        &["~ listener :80, http", "    ~ answers with: redirects to HTTPS only → sites", "+ site http://b.test"],
    );
    check(
        "site \"a.test\" { respond 200 }",
        "site \"https://a.test\" { respond 200 }",
        &[
            "- listener :80, http, for redirects to HTTPS: its connections are drained",
            "~ site https://a.test",
            "    ~ https://a.test redirected to from port 80: yes → no",
        ],
    );
}

#[test]
fn options_of_a_listener() {
    check(
        SITE,
        &with_site("listener \":8080\" { trusted-proxies \"10.0.0.0/8\" \"192.0.2.7\"; }"),
        &["~ listener :8080, http", "    ~ trusted-proxies: not set → 10.0.0.0/8 192.0.2.7"],
    );
}

#[test]
fn the_order_of_sites_decides_only_who_answers_the_nameless() {
    let site = |name: &str| format!("site \"https://{name}.test\" {{ respond 200 }}\n");
    check(
        &format!("{}{}", site("a"), site("b")),
        &format!("{}{}", site("b"), site("a")),
        &["~ listener :443, https", "    ~ certificate for clients that name no host: https://a.test → https://b.test"],
    );
    let catch_all = "site \"https://:443\" { respond 200 }\n";
    check(&format!("{catch_all}{}{}", site("a"), site("b")), &format!("{}{}{catch_all}", site("b"), site("a")), &[]);
}

#[test]
fn sites_change_in_their_parts() {
    check(
        "site \"https://a.test\" \"https://b.test\" { header \"A\" \"1\"; respond 200 }",
        "site \"https://a.test\" \"https://c.test\" { header \"A\" \"2\"; tls \"internal\" { min \"1.3\"; tickets #false; }; respond 200 }",
        &[
            "~ site https://a.test",
            "    - address https://b.test",
            "    + address https://c.test",
            "    ~ tls min: 1.2 → 1.3",
            "    ~ tls tickets: #true → #false",
            "    ~ tls: not set → internal",
            "    - response-header \"A\" \"1\"",
            "    + response-header \"A\" \"2\"",
        ],
    );
}

#[test]
fn routes_come_go_and_change() {
    let check = |before: &str, after: &str, expected: &[&str]| {
        let expected: Vec<&str> = std::iter::once("~ site http://a.test:8080").chain(expected.iter().copied()).collect();
        check(&with_routes(before), &with_routes(after), &expected);
    };
    check(
        "route \"/a\" { respond 200 }\nroute { respond 404 }",
        "route \"/a\" { respond 200 }\nroute \"/api/*\" { proxy \"api\" }\nroute { respond 404 }",
        &["    + 2: route \"/api/*\" → pool api"],
    );
    check(
        "route \"/a\" { respond 200 }\nroute \"/api/*\" { proxy \"api\" }\nroute { respond 404 }",
        "route { respond 404 }",
        &["    - 1: route \"/a\" → respond 200", "    - 2: route \"/api/*\" → pool api"],
    );
    check(
        "route \"/api/*\" { strip-prefix \"/api\"; proxy \"api\" }",
        "route \"/api/*\" { match method=\"GET\"; strip-prefix \"/api\"; proxy \"web\" }",
        &[
            "    ~ 1: route \"/api/*\" match method=\"GET\" → pool web",
            "        - proxy \"api\"",
            "        + match method=\"GET\"",
            "        + proxy \"web\"",
        ],
    );
    check(
        "respond 200 body=\"a\"",
        "respond 200 body=\"b\"",
        &["    ~ 1: route → respond 200", "        - respond 200 body=\"a\"", "        + respond 200 body=\"b\""],
    );
}

#[test]
fn a_step_that_changed_places_went_and_came() {
    check(
        &with_routes("route \"/a\" { strip-prefix \"/a\"; add-prefix \"/b\"; body-limit \"1KB\"; proxy \"api\" }"),
        &with_routes("route \"/a\" { add-prefix \"/b\"; body-limit \"1KB\"; strip-prefix \"/a\"; proxy \"api\" }"),
        &[
            "~ site http://a.test:8080",
            "    ~ 1: route \"/a\" → pool api",
            "        - strip-prefix \"/a\"",
            "        + strip-prefix \"/a\"",
        ],
    );
}

#[test]
fn routes_that_changed_places_are_moved() {
    let check = |before: &str, after: &str, expected: &[&str]| {
        let routes = |order: &str| {
            let route = |c: char| format!("route \"/{c}/*\" {{ respond 200 }}\n");
            with_routes(&order.chars().map(route).collect::<String>())
        };
        let expected: Vec<String> = expected.iter().map(|line| format!("    {line}")).collect();
        let expected: Vec<&str> =
            std::iter::once("~ site http://a.test:8080").chain(expected.iter().map(String::as_str)).collect();
        check(&routes(before), &routes(after), &expected);
    };
    check("abcd", "dabc", &["~ 1: route \"/d/*\" → respond 200 (moved from 4)"]);
    check("abcd", "acbd", &["~ 2: route \"/c/*\" → respond 200 (moved from 3)"]);
    check("abc", "xcab", &["+ 1: route \"/x/*\" → respond 200", "~ 2: route \"/c/*\" → respond 200 (moved from 3)"]);
}

#[test]
fn pools_and_their_servers() {
    let server = "server \"10.0.0.4:80\"";
    let check = |before: &str, after: &str, expected: &[&str]| {
        let expected: Vec<&str> = std::iter::once("~ pool api").chain(expected.iter().copied()).collect();
        check(&with_pool(before), &with_pool(after), &expected);
    };
    check(
        &format!("{server}\nserver \"10.0.0.5:80\""),
        &format!("{server} weight=2 backup=#true\nserver \"10.0.0.6:80\""),
        &[
            "    - server 10.0.0.5:80: requests in flight on it finish, its idle connections close",
            "    ~ server 10.0.0.4:80 weight: 1 → 2, priority: 0 → 1",
            "    + server 10.0.0.6:80",
        ],
    );
    check(
        server,
        &format!(
            "{server}\nbalance \"hash\" key=\"{{client.ip}}\"\ntimeout connect=\"1s\" idle=\"2h\"\nmax-connections 9\nprotocol \"h2c\""
        ),
        &[
            "    ~ balance: p2c → hash",
            "    ~ timeout connect: 5s → 1s",
            "    ~ timeout idle: 1h → 2h",
            "    ~ protocol: auto → h2c",
            "    ~ balance key: not set → {client.ip}",
            "    ~ max-connections: not set → 9",
            "    ~ max-connections queue: not set → 1024",
            "    ~ max-connections queue-timeout: not set → 5s",
        ],
    );
    check(
        "server \"10.0.0.4:80\" priority=2 zone=\"eu-1\"\nserver \"10.0.0.5:80\"",
        "server \"10.0.0.4:80\" priority=3 zone=\"eu-2\"\nserver \"10.0.0.5:80\" zone=\"eu-1\"",
        &["    ~ server 10.0.0.4:80 priority: 2 → 3, zone: eu-1 → eu-2", "    ~ server 10.0.0.5:80 zone: not set → eu-1"],
    );
    check(
        &format!("{server}\nretry \"off\"\nhedge \"100ms\"\nhealth \"/a\" rise=1"),
        &format!("{server}\noutlier \"off\"\nhealth \"/b\" fall=5\nsend-proxy-protocol \"v2\""),
        &[
            "    ~ health: /a → /b",
            "    ~ health rise: 1 → 2",
            "    ~ health fall: 3 → 5",
            "    ~ outlier failures: 5 → not set",
            "    ~ outlier eject: 10s → not set",
            "    ~ outlier eject-max: 5m → not set",
            "    ~ outlier max-ejected: 50% → not set",
            "    ~ outlier success-rate: #true → not set",
            "    ~ retry: off → not set",
            "    ~ hedge: 100ms → not set",
            "    ~ outlier: not set → off",
            "    ~ retry attempts: not set → 2",
            "    ~ retry on: not set → connect,reset",
            "    ~ retry budget: not set → 20%",
            "    ~ send-proxy-protocol: not set → v2",
        ],
    );
    check(
        "server \"https://a.test\"",
        "server \"https://a.test\"\ntls sni=\"b.test\" verify=#false",
        &["    ~ tls verify: #true → #false", "    ~ tls sni: not set → b.test"],
    );
}

#[test]
fn secrets_of_a_pool_are_changed_without_being_said() {
    let check = |line: &dyn Fn(&str) -> String, expected: &str| {
        let pool = |secret: &str| with_pool(&format!("server \"10.0.0.4:80\"\nserver \"10.0.0.5:80\"\n{}", line(secret)));
        let (before, after) = (pool("hunter2-hunter2-hunter2"), pool("hunter3-hunter3-hunter3"));
        check(&before, &after, &["~ pool api", expected]);
        let said = format!("{:?}", planned(&before, &after));
        assert!(!said.contains("hunter"), "{said}");
        check(&before, &before, &[]);
    };
    check(&|secret| format!("sticky secret=\"{secret}\""), "    ~ sticky secret: (changed)");
    check(&|secret| format!("discover consul=\"api\" token=\"{secret}\""), "    ~ discover: (changed)");
    check(&|secret| format!("health \"/\" header=\"Authorization: {secret}\""), "    ~ health header: (changed)");
}

#[test]
fn a_route_sends_again_as_it_says_itself() {
    let route = |retry: &str| with_routes(&format!("route \"/a\" {{ proxy \"api\" {retry}; }}"));
    check(
        &route("{ retry \"off\"; }"),
        &route("{ retry attempts=1 on=\"connect,503\" try-timeout=\"2s\"; }"),
        &[
            "~ site http://a.test:8080",
            "    ~ 1: route \"/a\" → pool api",
            "        - proxy \"api\" { retry \"off\" }",
            "        + proxy \"api\" { retry attempts=1 on=\"connect,503\" budget=\"20%\" try-timeout=\"2s\" }",
        ],
    );
}

#[test]
fn a_pool_written_in_place_is_its_addresses() {
    let site = |server: &str| format!("site \"http://a.test:8080\" {{ proxy \"{server}\" }}");
    check(
        &site("10.0.0.4:80"),
        &site("10.0.0.5:80"),
        &[
            "~ site http://a.test:8080",
            "    ~ 1: route → pool 10.0.0.5:80",
            "        - proxy \"10.0.0.4:80\"",
            "        + proxy \"10.0.0.5:80\"",
            "- pool 10.0.0.4:80: requests in flight on it finish, its idle connections close",
            "+ pool 10.0.0.5:80",
        ],
    );
}

#[test]
fn what_is_secret_is_not_said() {
    let site = |secret: &str| {
        with_routes(&format!(
            "request-header \"Authorization\" \"{secret}\"\nroute \"/a\" {{ match header=\"X-Api-Key: {secret}\"; respond 200 }}"
        ))
    };
    let check = |before: &str, after: &str| {
        check(
            &site(before),
            &site(after),
            &[
                "~ site http://a.test:8080",
                "    ~ request-header \"Authorization\" \"…\" (changed)",
                "    ~ 1: route \"/a\" match header=\"x-api-key: …\" → respond 200",
                "        ~ match header=\"x-api-key: …\" (changed)",
            ],
        );
        let said = format!("{:?}", planned(&site(before), &site(after)));
        assert!(!said.contains(before) && !said.contains(after), "{said}");
    };
    check("hunter2", "hunter3");
    let token = |secret: &str| with_site(&format!("admin \"127.0.0.1:9180\" token=\"{secret}-{secret}-{secret}\""));
    let said = planned(&token("hunter2"), &token("hunter3"));
    assert_eq!(said.text, "~ admin token: (changed)\n");
    assert!(!format!("{said:?}").contains("hunter"), "{said:?}");
}

#[test]
fn the_summary_counts_each_thing_once() {
    check_summary(
        &with_pool("server \"10.0.0.4:80\""),
        &with_pool("server \"10.0.0.4:80\"\nserver \"10.0.0.5:80\""),
        "1 server added, no listener touched",
    );
    check_summary(
        &with_routes("route \"/a\" { respond 200 }\nroute \"/b\" { respond 200 }"),
        &with_routes("route \"/a\" { respond 201 }\nroute \"/b\" { respond 201 }"),
        "2 routes changed, no listener touched",
    );
    check_summary(SITE, &with_site("drain \"1m\"\nthreads 2"), "2 settings changed, no listener touched");
    check_summary(SITE, "", "1 listener removed, 1 site removed");
    check_summary(
        &with_pool("server \"10.0.0.4:80\""),
        "site \"http://a.test:8080\" { header \"A\" \"b\"; proxy \"10.0.0.9:80\" }",
        "1 site changed, 1 route changed, 1 pool added, 1 pool removed, no listener touched",
    );
}

#[test]
fn one_difference_among_many_sites_is_all_there_is() {
    let many = |odd: &str| {
        let site = |number: usize| format!("site \"http://s{number}.test:8080\" {{ respond 200 body=\"{number}\" }}\n");
        let mut text: String = (0..300).map(site).collect();
        text.push_str(odd);
        text.extend((300..600).map(site));
        text
    };
    let odd = |status: u16| format!("site \"http://odd.test:8080\" {{ respond {status} }}\n");
    let found = planned(&many(&odd(200)), &many(&odd(201)));
    assert!(matches!(found.sites.as_slice(), [site] if site.change == ChangeKind::Changed), "{found:?}");
    let found = planned(&many(&odd(200)), &many(""));
    assert!(matches!(found.sites.as_slice(), [site] if site.change == ChangeKind::Removed), "{found:?}");
}

#[test]
fn connections_that_are_passed_on() {
    let pools = "pool \"a\" { server \"10.0.0.4:443\"; }\npool \"b\" { server \"10.0.0.5:443\"; }";
    let site = "site \"https://example.com\" { respond 200; }\n";
    let unused = "tcp \":9\" { proxy \"a\"; sni \"x.test\" { proxy \"b\"; }; }";
    let with = |text: &str| format!("{site}{text}\n{unused}\n{pools}");
    check(&with(""), &with("tcp \":5432\" { proxy \"a\"; }"), &["+ listener :5432, tcp"]);
    check(&with("tcp \":5432\" { proxy \"a\"; }"), &with(""), &["- listener :5432, tcp: its connections are drained"]);
    check(
        &with("tcp \":443\" { sni \"a.test\" { proxy \"a\"; }; sni \"b.test\" { proxy \"a\"; }; }"),
        &with("tcp \":443\" { sni \"a.test\" { proxy \"b\"; }; proxy \"a\"; }"),
        &[
            "~ listener :443, https",
            "    ~ sni a.test: proxy \"a\" → proxy \"b\"",
            "    ~ sni b.test: proxy \"a\" → not set (its connections are drained)",
            "    ~ tcp: not set → proxy \"a\"",
        ],
    );
    // Those that are passed on do not ask whether there are sites beside them.
    check(
        &format!("tcp \":8443\" {{ sni \"a.test\" {{ proxy \"a\"; }}; }}\n{unused}\n{pools}"),
        &format!(
            "tcp \":8443\" {{ sni \"a.test\" {{ proxy \"a\"; }}; }}\nsite \"https://b.test:8443\" {{ respond 200; }}\n{unused}\n{pools}"
        ),
        &["~ listener :8443, https", "    ~ scheme: tcp → https", "+ site https://b.test:8443"],
    );
    check(
        &with("listener \":443\" { trusted-proxies \"10.0.0.0/8\"; }"),
        &with("listener \":443\" { trusted-proxies \"10.0.0.0/8\"; accept-proxy-protocol from=\"10.0.0.1\"; }"),
        &["~ listener :443, https", "    ~ accept-proxy-protocol: not set → 10.0.0.1"],
    );
}
