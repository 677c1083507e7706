//! What the lines of a pool mean, in a `pool` and in the block of a `proxy`: texts on one side, the model they become
//! on the other.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidegate_config::{Environment, load_with, render};
use tidegate_model::discover::{
    Cluster, ConsulDiscover, DnsDiscover, DnsQuestion, DockerDiscover, KubernetesDiscover, Namespaces, ServicePort,
};
use tidegate_model::{
    Adaptive, Balance, Bounds, Configuration, CookieSecure, Discover, Health, Hedge, HttpProbe, KeepAlive, KubernetesApi,
    Outlier, Placeholder, Pool, Probe, Protocol, ProxyFacts, ProxyProtocol, Retry, RetryOn, RouteRetry, SameSite, Scheme, Secret,
    Server, StatusRange, Sticky, Talk, Template, TemplatePart, Terminal, TextPattern, UpstreamAddress,
};

fn loaded(text: &str) -> Configuration {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics");
    let loaded = load_with("test.kdl", text, &directory, &Environment::Given([].into()));
    let shown = render(&loaded.diagnostics, &loaded.files, false);
    loaded.configuration.unwrap_or_else(|| panic!("{shown}\nfor\n{text}"))
}

/// The pool `api` of these lines, which a site uses.
fn pool(lines: &str) -> Pool {
    Arc::unwrap_or_clone(
        loaded(&format!("site \"localhost\" {{ proxy \"api\"; }}\npool \"api\" {{\n{lines}\n}}")).pools.remove(0),
    )
}

#[test]
fn a_pool_as_it_is_meant_to_be_written() {
    let pool = pool(
        r#"
        server "10.0.0.4:8080" weight=2
        server "10.0.0.5:8080"
        server "https://10.0.0.6:8443" backup=#true
        discover dns="api.internal:8080"          // re-resolved by TTL
        balance "p2c"                             // default
        sticky cookie="tg_route"
        health "/healthz" interval="2s" timeout="1s" rise=2 fall=3 expect="200-399"
        outlier failures=5 eject="10s" max-ejected="50%"
        slow-start "30s"
        timeout connect="5s" first-byte="60s" idle="1h"
        retry attempts=2 on="connect,reset,502,503,504" budget="20%"
        max-connections 1000 queue=1000 queue-timeout="5s"     // per server
        protocol "auto"
        tls ca="pem/cert.pem" sni="api.internal" cert="pem/cert.pem" key="pem/key.pem" verify=#true
        send-proxy-protocol "v2"
        "#,
    );
    let server = |text: &str| Server::new(UpstreamAddress::parse(text).expect("an address"));
    let mut expected = Pool::new(
        pool.name.clone(),
        vec![
            Server { weight: 2, ..server("10.0.0.4:8080") },
            server("10.0.0.5:8080"),
            Server { priority: 1, ..server("https://10.0.0.6:8443") },
        ],
    );
    expected.discover = vec![Discover::Dns(DnsDiscover {
        scheme: Scheme::Http,
        question: DnsQuestion::Addresses { name: "api.internal".into(), port: 8080 },
        resolver: None,
        ttl_least: DnsDiscover::TTL_LEAST,
        ttl_most: DnsDiscover::TTL_MOST,
    })];
    expected.sticky = Some(Sticky::default());
    expected.health = Some(health(Probe::Http(http_probe("/healthz"))));
    expected.slow_start = Duration::from_secs(30);
    expected.retry = Some(Retry { on: RetryOn { statuses: vec![502, 503, 504], ..RetryOn::default() }, ..Retry::default() });
    expected.bounds.connections_per_server = Some(1000);
    expected.bounds.queue = 1000;
    expected.tls = pool.tls.clone();
    expected.send_proxy_protocol = Some(ProxyProtocol::V2(ProxyFacts::NONE));
    assert_eq!(pool, expected);
    assert!(pool.tls.ca.is_some() && pool.tls.client_certificate.is_some());
}

fn health(probe: Probe) -> Health {
    Health {
        probe,
        interval: Duration::from_secs(2),
        interval_down: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        rise: 2,
        fall: 3,
        port: None,
    }
}

fn http_probe(path: &str) -> HttpProbe {
    HttpProbe {
        path: path.into(),
        method: "GET".into(),
        host: None,
        headers: Vec::new(),
        expect: vec![StatusRange { first: 200, last: 399 }],
        body: None,
    }
}

#[test]
fn servers_are_asked_whether_they_are_well() {
    let check = |line: &str, expected: Health| {
        let seen = pool(&format!("server \"https://10.0.0.4:8443\"\n{line}")).health;
        assert_eq!(seen, Some(expected), "for {line}");
    };
    check(
        "health type=\"tcp\" port=81 rise=1 fall=5",
        Health { rise: 1, fall: 5, port: Some(81), ..health(Probe::Tcp(Talk::default())) },
    );
    check("health type=\"tls\"", health(Probe::Tls));
    check("health type=\"grpc\"", health(Probe::Grpc { service: None }));
    check("health type=\"grpc\" service=\"shop.Orders\"", health(Probe::Grpc { service: Some("shop.Orders".into()) }));
    check(
        "health \"/a?b=c\" method=\"POST\" host=\"a.test:81\" header=\"X-A: b: c\" header=\"X-D:e\" expect=\"200, 300-304,401\" body=\"ok*\"",
        health(Probe::Http(HttpProbe {
            method: "POST".into(),
            host: Some("a.test:81".into()),
            headers: vec![("X-A".into(), "b: c".into()), ("X-D".into(), "e".into())],
            expect: [(200, 200), (300, 304), (401, 401)].map(|(first, last)| StatusRange { first, last }).to_vec(),
            body: Some(TextPattern::Prefix("ok".into())),
            ..http_probe("/a?b=c")
        })),
    );
    let body = HttpProbe { body: Some(TextPattern::Regex("^\\d{2}$".into())), ..http_probe("/") };
    check(r##"health "/" body=#"~^\d{2}$"#"##, health(Probe::Http(body)));
    // Times that are left out fit those that are written.
    let times = |interval, interval_down, timeout| Health {
        interval: Duration::from_millis(interval),
        interval_down: Duration::from_millis(interval_down),
        timeout: Duration::from_millis(timeout),
        ..health(Probe::Tcp(Talk::default()))
    };
    check("health type=\"tcp\" interval=\"200ms\"", times(200, 200, 200));
    check("health type=\"tcp\" interval=\"10s\"", times(10_000, 1000, 1000));
    check("health type=\"tcp\" interval=\"10s\" timeout=\"5s\"", times(10_000, 5000, 5000));
    check("health type=\"tcp\" interval-down=\"500ms\" timeout=\"100ms\"", times(2000, 500, 100));
}

#[test]
fn servers_come_from_elsewhere() {
    let check = |line: &str, expected: Discover| assert_eq!(pool(line).discover, [expected], "for {line}");
    check(
        "discover dns=\"srv+_https._tcp.api.internal\" resolver=\"10.0.0.2\" ttl-min=\"5s\" ttl-max=\"10s\"",
        Discover::Dns(DnsDiscover {
            scheme: Scheme::Https,
            question: DnsQuestion::Services { name: "_https._tcp.api.internal".into() },
            resolver: Some("10.0.0.2:53".parse().expect("an address")),
            ttl_least: Duration::from_secs(5),
            ttl_most: Duration::from_secs(10),
        }),
    );
    let resolver = |text: &str| match pool(&format!("discover dns=\"https://a.test\" resolver=\"{text}\"")).discover.remove(0) {
        Discover::Dns(dns) => dns.resolver.map(|address| address.to_string()),
        other => panic!("{other:?} asks no DNS"),
    };
    assert_eq!(resolver("[2001:db8::1]").as_deref(), Some("[2001:db8::1]:53"));
    assert_eq!(resolver("2001:db8::1").as_deref(), Some("[2001:db8::1]:53"));
    assert_eq!(resolver("[2001:db8::1]:5353").as_deref(), Some("[2001:db8::1]:5353"));
    check("discover file=\"/etc/servers.json\"", Discover::File { path: "/etc/servers.json".into() });
    check(
        "discover docker=\"api\"",
        Discover::Docker(DockerDiscover { label: "api".into(), socket: None, network: None, port: None }),
    );
    check(
        "discover docker=\"api\" socket=\"unix:///run/podman.sock\" network=\"front\" port=80",
        Discover::Docker(DockerDiscover {
            label: "api".into(),
            socket: Some("/run/podman.sock".into()),
            network: Some("front".into()),
            port: Some(80),
        }),
    );
    let consul =
        ConsulDiscover { service: "api".into(), agent: ConsulDiscover::AGENT.into(), tag: None, datacenter: None, token: None };
    check("discover consul=\"api\"", Discover::Consul(consul.clone()));
    check(
        "discover consul=\"api\" agent=\"10.0.0.9:8500\" tag=\"v2\" datacenter=\"dc1\" token=\"abc\"",
        Discover::Consul(ConsulDiscover {
            agent: "http://10.0.0.9:8500".into(),
            tag: Some("v2".into()),
            datacenter: Some("dc1".into()),
            token: Some(Secret::new("abc")),
            ..consul
        }),
    );
    let of_pod = KubernetesDiscover {
        cluster: Cluster { api: None, namespaces: Namespaces::named(["shop".to_owned()]) },
        namespace: "shop".into(),
        service: "web".into(),
        port: ServicePort::Name("http".into()),
        scheme: Scheme::Http,
        zone: None,
    };
    check("discover kubernetes=\"shop/web:http\"", Discover::Kubernetes(of_pod.clone()));
    check(
        "zone \"eu-1\"\ndiscover kubernetes=\"shop/web:http\"",
        Discover::Kubernetes(KubernetesDiscover { zone: Some("eu-1".into()), ..of_pod.clone() }),
    );
    let url = "https://10.0.0.1:6443".to_owned();
    let api = KubernetesApi { url, token: Secret::new("abc"), root: Some("/etc/ca.pem".into()) };
    check(
        "discover kubernetes=\"shop/web:8080\" api=\"https://10.0.0.1:6443/\" ca=\"/etc/ca.pem\" token=\"abc\" scheme=\"https\"",
        Discover::Kubernetes(KubernetesDiscover {
            cluster: Cluster { api: Some(api), namespaces: Namespaces::named(["shop".to_owned()]) },
            port: ServicePort::Number(8080),
            scheme: Scheme::Https,
            ..of_pod
        }),
    );
    let both = pool("server \"10.0.0.4:80\"\ndiscover consul=\"a\"\ndiscover consul=\"b\"");
    assert_eq!((both.servers.len(), both.discover.len()), (1, 2));
}

#[test]
fn how_a_pool_bears_failure_and_load() {
    let check = |lines: &str, set: fn(&mut Pool)| {
        let seen = pool(&format!("server \"10.0.0.4:80\"\nserver \"10.0.0.5:80\"\n{lines}"));
        let mut expected = Pool::new(seen.name.clone(), seen.servers.clone());
        set(&mut expected);
        assert_eq!(seen, expected, "for {lines}");
    };
    check("outlier \"off\"", |pool| pool.outlier = None);
    check("outlier eject=\"10m\" success-rate=\"off\"", |pool| {
        let times = Duration::from_secs(600);
        pool.outlier = Some(Outlier { eject: times, eject_max: times, success_rate: false, ..Outlier::default() });
    });
    check("retry \"off\"\nhedge \"200ms\"", |pool| {
        pool.retry = None;
        pool.hedge = Some(Hedge { after: Duration::from_millis(200) });
    });
    check("retry on=\"timeout\" try-timeout=\"2s\"", |pool| {
        let on = RetryOn { connect: false, reset: false, timeout: true, statuses: Vec::new() };
        pool.retry = Some(Retry { on, try_timeout: Some(Duration::from_secs(2)), ..Retry::default() });
    });
    check("max-requests 100 total=1000 queue=0 queue-timeout=\"1s\"\nmax-connections 10", |pool| {
        pool.bounds = Bounds {
            connections_per_server: Some(10),
            requests_per_server: Some(100),
            requests_per_pool: Some(1000),
            queue: 0,
            queue_timeout: Duration::from_secs(1),
            adaptive: None,
        };
    });
    check("max-requests total=1000", |pool| pool.bounds.requests_per_pool = Some(1000));
    check("adaptive-concurrency", |pool| pool.bounds.adaptive = Some(Adaptive::default()));
    check("adaptive-concurrency max=2", |pool| pool.bounds.adaptive = Some(Adaptive { least: 2, most: 2 }));
    check("keep-alive idle=\"1s\" requests=10 age=\"1h\" warm=2 ping=\"off\"", |pool| {
        pool.keep_alive = KeepAlive {
            idle: Duration::from_secs(1),
            requests: Some(10),
            age: Some(Duration::from_secs(3600)),
            warm: 2,
            ping: None,
            ..KeepAlive::default()
        };
    });
    check("keep-alive connections=3", |pool| pool.keep_alive.connections = 3);
    check("keep-alive ping=\"5s\"", |pool| pool.keep_alive.ping = Some(Duration::from_secs(5)));
    check("sticky secret=\"0123456789abcdef\" max-age=\"1h\"", |pool| {
        let secret = Some(Secret::new("0123456789abcdef"));
        pool.sticky = Some(Sticky { secret, max_age_seconds: Some(3600), ..Sticky::default() });
    });
    check("sticky path=\"/app\" domain=\".Example.com\" same-site=\"none\" secure=\"on\" change-on-failure=#false", |pool| {
        pool.sticky = Some(Sticky {
            path: "/app".into(),
            domain: Some("example.com".into()),
            same_site: SameSite::None,
            secure: CookieSecure::Always,
            change_on_failure: false,
            ..Sticky::default()
        });
    });
    check("balance \"ewma\"", |pool| pool.balance = Balance::Ewma);
    check("send-proxy-protocol \"v1\"\nslow-start \"0s\"", |pool| pool.send_proxy_protocol = Some(ProxyProtocol::V1));
    let zoned = pool("zone \"eu-1\"\nserver \"10.0.0.4:80\" zone=\"eu-1\"\nserver \"10.0.0.5:80\" priority=7");
    assert_eq!((zoned.zone.as_deref(), zoned.servers[0].zone.as_deref()), (Some("eu-1"), Some("eu-1")));
    assert_eq!((zoned.servers[1].priority, zoned.servers[1].zone.as_deref()), (7, None));
}

#[test]
fn a_route_may_send_again_in_its_own_way() {
    let check = |block: &str, expected: RouteRetry| {
        let text = format!("site \"localhost\" {{ proxy \"api\" {block}; }}\npool \"api\" {{ server \"10.0.0.4:80\"; }}");
        let configuration = loaded(&text);
        let Terminal::Proxy { retry, .. } = &configuration.sites[0].routes[0].terminal else { panic!("no proxy in {text}") };
        assert_eq!(*retry, expected, "for {block}");
        assert_eq!(configuration.pools[0].retry, Some(Retry::default()));
    };
    check("", RouteRetry::OfPool);
    check("{ retry \"off\"; }", RouteRetry::Off);
    check("{ retry attempts=4; }", RouteRetry::Own(Retry { attempts: 4, ..Retry::default() }));
    let in_place = loaded("site \"localhost\" { proxy \"10.0.0.4:80\" { retry attempts=4; }; }");
    assert_eq!(in_place.pools[0].retry.as_ref().map(|retry| retry.attempts), Some(4));
}

#[test]
fn pools_with_all_their_settings() {
    let configuration = loaded(
        r#"site "localhost" { proxy "api"; }
        pool "api" {
            server "10.0.0.4:8080" weight=2
            server "10.0.0.5:8080"
            server "https://10.0.0.6:8443" backup=#true
            balance "hash" key="{client.ip}"
            timeout connect="2s" first-byte="1m"
            max-connections 1000
            protocol "http1"
            tls ca="pem/cert.pem" sni="API.internal" cert="pem/cert.pem" key="pem/key.pem" verify=#true
        }"#,
    );
    let pool = &configuration.pools[0];
    let servers: Vec<(String, u32, bool)> =
        pool.servers.iter().map(|server| (server.address.to_string(), server.weight, server.priority > 0)).collect();
    assert_eq!(
        servers,
        [("10.0.0.4:8080".to_string(), 2, false), ("10.0.0.5:8080".into(), 1, false), ("https://10.0.0.6:8443".into(), 1, true)]
    );
    assert_eq!(
        pool.balance,
        Balance::Hash { key: Template { parts: vec![TemplatePart::Placeholder(Placeholder::ClientIp)] }, load_percent_max: None }
    );
    assert_eq!(pool.timeouts.connect, Duration::from_secs(2));
    assert_eq!(pool.timeouts.first_byte, Duration::from_secs(60));
    assert_eq!(pool.timeouts.idle, Duration::from_secs(3600));
    assert_eq!(pool.bounds.connections_per_server, Some(1000));
    assert_eq!(pool.protocol, Protocol::Http1);
    assert_eq!(pool.tls.sni.as_deref(), Some("api.internal"));
    assert!(pool.tls.verify && pool.tls.ca.is_some() && pool.tls.client_certificate.is_some());
}

#[test]
fn pools_written_in_place_are_shared_when_they_are_equal() {
    let configuration = loaded(
        r#"site "localhost" {
            route "/a" { proxy "10.0.0.4:8080"; }
            route "/b" { proxy "http://10.0.0.4:8080"; }
            route "/c" { proxy "10.0.0.4:8080" { balance "random"; }; }
            route "/d" { proxy { server "10.0.0.4:8080"; balance "random"; }; }
            route "/e" { proxy "10.0.0.4:8080" { balance "p2c"; }; }
        }"#,
    );
    let names: Vec<&str> = configuration.pools.iter().map(|pool| &*pool.name.0).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[0], "10.0.0.4:8080");
    assert!(names[1].starts_with("10.0.0.4:8080#"));
    let used: Vec<&str> = configuration.sites[0]
        .routes
        .iter()
        .map(|route| match &route.terminal {
            Terminal::Proxy { pool, .. } => &*pool.0,
            other => panic!("{other:?} is no proxy"),
        })
        .collect();
    assert_eq!(used, [names[0], names[0], names[1], names[1], names[0]]);
}

#[test]
fn secrets_tell_pools_written_in_place_apart_without_being_named() {
    let names = |first: &str, second: &str| {
        let text = format!("site \"localhost\" {{\nroute \"/a\" {{ proxy {first}; }}\nroute \"/b\" {{ proxy {second}; }}\n}}");
        let configuration = loaded(&text);
        configuration.pools.iter().map(|pool| pool.name.to_string()).collect::<Vec<_>>()
    };
    let check = |pool: &dyn Fn(&str) -> String, begins: &str| {
        let (one, other) = (pool("hunter2-hunter2-hunter2"), pool("hunter3-hunter3-hunter3"));
        assert_eq!(names(&one, &one).len(), 1, "for {one}");
        let names = names(&one, &other);
        assert_eq!(names.len(), 2, "for {one}: {names:?}");
        assert!(names.iter().all(|name| name.starts_with(begins) && !name.contains("hunter")), "{names:?}");
    };
    check(&|secret| format!("\"10.0.0.4:80\" \"10.0.0.5:80\" {{ sticky secret=\"{secret}\"; }}"), "10.0.0.4:80,10.0.0.5:80#");
    check(&|secret| format!("{{ discover consul=\"api\" token=\"{secret}\"; }}"), "consul:api#");
}
