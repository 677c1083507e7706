//! A cluster, followed: against an API server that is emulated at the wire, with everything that goes wrong there.

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tidegate_cluster::{
    Absence, Client, ClusterFollower, ConfigMapState, Fault, Key, Kind, Place, PortReference, Scope, SecretState,
    SnapshotOutcome, Token,
};
use tidegate_model::Secret;
use tidegate_model::discover::Namespaces;
use tidegate_outbound::Trust;
use tidegate_testkit::kubernetes::{ApiServer, TOKEN};

const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";
/// Far beyond any pause; a test that needs so long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

fn service(name: &str) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": name},
        "spec": {"type": "ClusterIP", "ports": [{"name": "http", "port": 80, "targetPort": "web"}]},
    })
}

fn slice(name: &str, service: &str, addresses: &[&str]) -> serde_json::Value {
    let endpoint = |address: &&str| serde_json::json!({"addresses": [address], "conditions": {"ready": true}});
    serde_json::json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": "shop", "name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

fn place(server: &ApiServer, token: Token) -> Place {
    Place { url: server.url(), trust: Trust::System, identity: None, token }
}

fn token() -> Token {
    Token::Fixed(Secret::new(TOKEN))
}

fn all() -> Scope {
    Scope { namespaces: Namespaces::All, kinds: Scope::ENDPOINTS }
}

struct Followed {
    server: ApiServer,
    follower: ClusterFollower,
}

impl Followed {
    fn new(server: ApiServer) -> Followed {
        let follower = ClusterFollower::start(place(&server, token()), all(), || {}).expect("a follower");
        Followed { server, follower }
    }

    /// One Service with one slice.
    fn of_one() -> Followed {
        let server = ApiServer::start().expect("a server");
        server.put(service("web"));
        server.put(slice("web-a", "web", &["10.0.0.1"]));
        let followed = Followed::new(server);
        followed.comes_to(&["10.0.0.1"]);
        followed
    }

    fn servers(&self) -> Result<Vec<SocketAddr>, Absence> {
        let port = PortReference::Name("http".into());
        let members = self.follower.cache().members(&Key::new("shop", "web"), &port, None)?;
        Ok(members.iter().map(|member| member.addresses[0]).collect())
    }

    fn comes_to(&self, addresses: &[&str]) {
        let expected: Vec<SocketAddr> =
            addresses.iter().map(|address| SocketAddr::new(address.parse().expect("an address"), 8080)).collect();
        until(|| self.servers().is_ok_and(|servers| servers == expected), || format!("{:?}", self.servers()));
    }

    fn state(&self, kind: &str) -> (bool, Option<Fault>) {
        let states = self.follower.states();
        let state = states.into_iter().find(|state| state.kind.name() == kind).expect("a kind");
        (state.is_listed, state.fault)
    }

    /// How many requests so far begin so.
    fn asked(&self, beginning: &str) -> usize {
        self.server.requests().iter().filter(|request| request.starts_with(beginning)).count()
    }
}

fn until(mut condition: impl FnMut() -> bool, seen: impl Fn() -> String) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "after {PATIENCE:?}: {}", seen());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_happens_to_a_service_is_known() {
    let followed = Followed::of_one();
    followed.server.put(slice("web-a", "web", &["10.0.0.1", "10.0.0.2"]));
    followed.comes_to(&["10.0.0.1", "10.0.0.2"]);
    followed.server.put(slice("web-b", "web", &["10.0.0.3"]));
    followed.comes_to(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    followed.server.remove(&slice("web-a", "web", &[]));
    followed.comes_to(&["10.0.0.3"]);
    followed.server.remove(&service("web"));
    until(|| followed.servers() == Err(Absence::NoService), || format!("{:?}", followed.servers()));
}

#[test]
fn news_name_whom_they_are_about_and_what_changes_nothing_is_no_news() {
    let followed = Followed::of_one();
    let _ = followed.follower.take_changes();
    let mut relabelled = slice("web-a", "web", &["10.0.0.1"]);
    relabelled["metadata"]["annotations"] = serde_json::json!({"touched": "yes"});
    followed.server.put(relabelled);
    followed.server.put(slice("api-a", "api", &["10.0.0.9"]));
    let mut changes = None;
    until(
        || {
            changes = changes.take().or_else(|| followed.follower.take_changes());
            changes.is_some()
        },
        || "nothing differs".to_owned(),
    );
    let services: Vec<String> = changes.into_iter().flat_map(|changes| changes.endpoints).map(|key| key.to_string()).collect();
    assert_eq!(services, ["shop/api"]);
}

#[test]
fn a_long_list_comes_in_pages_and_counts_when_it_is_whole() {
    let server = ApiServer::start().expect("a server");
    server.put(service("web"));
    let addresses: Vec<String> = (0..1200).map(|number| format!("10.1.{}.{}", number / 250, number % 250)).collect();
    for (number, address) in addresses.iter().enumerate() {
        server.put(slice(&format!("web-{number:04}"), "web", &[address]));
    }
    let followed = Followed::new(server);
    until(
        || followed.servers().is_ok_and(|servers| servers.len() == 1200),
        || format!("{:?}", followed.servers().map(|all| all.len())),
    );
    assert_eq!(followed.asked(&format!("GET {SLICES}?limit=500")), 3);
}

#[test]
fn a_server_that_is_away_takes_nothing_with_it() {
    let followed = Followed::of_one();
    followed.server.refuse("/", 503, None, None);
    followed.server.end_watches();
    until(|| followed.state("EndpointSlice").1.is_some(), || format!("{:?}", followed.state("EndpointSlice")));
    assert_eq!(followed.servers().map(|servers| servers.len()), Ok(1));
    followed.server.put(slice("web-a", "web", &["10.0.0.7"]));
    followed.server.relent();
    followed.comes_to(&["10.0.0.7"]);
    until(|| followed.state("EndpointSlice").1.is_none(), || format!("{:?}", followed.state("EndpointSlice")));
    // What happened meanwhile was told by the watch: the list was asked for once.
    assert_eq!(followed.asked(&format!("GET {SLICES}?limit=500")), 1);
}

#[test]
fn a_version_that_is_forgotten_is_listed_anew() {
    let followed = Followed::of_one();
    followed.server.refuse("/", 503, None, None);
    followed.server.end_watches();
    until(|| followed.state("EndpointSlice").1.is_some(), || "no fault".to_owned());
    followed.server.remove(&slice("web-a", "web", &[]));
    followed.server.put(slice("web-c", "web", &["10.0.0.3"]));
    followed.server.forget();
    followed.server.relent();
    followed.comes_to(&["10.0.0.3"]);
    assert_eq!(followed.asked(&format!("GET {SLICES}?limit=500")), 2);
}

#[test]
fn a_busy_server_is_left_alone_for_as_long_as_it_says() {
    let server = ApiServer::start().expect("a server");
    server.put(service("web"));
    server.put(slice("web-a", "web", &["10.0.0.1"]));
    server.refuse(SLICES, 429, Some(1), Some(2));
    let began = Instant::now();
    let followed = Followed::new(server);
    followed.comes_to(&["10.0.0.1"]);
    assert!(began.elapsed() >= Duration::from_secs(2));
    assert_eq!(followed.asked(&format!("GET {SLICES}?limit=500")), 2);
}

#[test]
fn rights_that_are_missing_are_said_and_asked_for_again_and_the_rest_runs() {
    let check = |verb: &'static str, kind: Kind, is_whole: bool| {
        let server = ApiServer::start().expect("a server");
        server.put(service("web"));
        server.put(slice("web-a", "web", &["10.0.0.1"]));
        server.forbid(verb, kind.plural(), None);
        const KINDS: &[Kind] = &[Kind::Service, Kind::EndpointSlice, Kind::Ingress, Kind::IngressClass, Kind::Secret];
        let scope = Scope { namespaces: Namespaces::All, kinds: KINDS };
        let follower = ClusterFollower::start(place(&server, token()), scope, || {}).expect("a follower");
        let followed = Followed { server, follower };
        let others = || KINDS.iter().filter(|other| **other != kind).all(|other| followed.state(other.name()).0);
        until(|| followed.state(kind.name()).1.is_some() && others(), || format!("{:?}", followed.follower.states()));
        if is_whole {
            until(|| followed.follower.is_whole(), || format!("{verb} {:?}", followed.follower.states()));
        } else {
            let asked = format!("GET {}?limit=500", kind.path(None));
            until(|| followed.asked(&asked) >= 4, || format!("{:?}", followed.server.requests()));
            assert!(!followed.follower.is_whole(), "{verb} {kind:?}");
        }
        let states = followed.follower.states();
        assert_eq!(states.iter().filter(|state| state.fault.is_some()).count(), 1, "{verb} {kind:?}: {states:?}");
        assert!(matches!(followed.state(kind.name()).1, Some(Fault::Forbidden { .. })), "{verb} {kind:?}");
        if verb == "list" && is_whole {
            return;
        }
        followed.server.relent();
        until(|| followed.follower.states().iter().all(|state| state.fault.is_none()), || "it is not asked for again".to_owned());
    };
    std::thread::scope(|checks| {
        let check = &check;
        for kind in [Kind::Service, Kind::EndpointSlice] {
            checks.spawn(move || check("list", kind, false));
            checks.spawn(move || check("watch", kind, true));
        }
        for kind in [Kind::Ingress, Kind::IngressClass, Kind::Secret] {
            checks.spawn(move || check("list", kind, true));
            checks.spawn(move || check("watch", kind, true));
        }
    });
}

#[test]
fn rights_that_are_taken_away_or_given_back_meanwhile_are_noticed_in_seconds() {
    let followed = Followed::of_one();
    let began = Instant::now();
    followed.server.forbid("list", "endpointslices", None);
    until(|| followed.state("EndpointSlice").1.is_some(), || format!("{:?}", followed.server.requests()));
    assert!(matches!(followed.state("EndpointSlice").1, Some(Fault::Forbidden { .. })), "{:?}", followed.state("EndpointSlice"));
    assert_eq!(followed.state("Service").1, None);
    // Once is not enough: one of several servers may be starting.
    assert!(followed.asked(&format!("GET {SLICES}?limit=1")) >= 2 && began.elapsed() > Duration::from_secs(8));
    assert_eq!(followed.servers().map(|servers| servers.len()), Ok(1), "what was known stays");
    followed.server.put(slice("web-a", "web", &["10.0.0.2"]));
    followed.server.relent();
    followed.comes_to(&["10.0.0.2"]);
}

#[test]
fn a_namespace_without_rights_takes_nothing_from_the_others() {
    let server = ApiServer::start().expect("a server");
    server.put(service("web"));
    server.put(slice("web-a", "web", &["10.0.0.1"]));
    server.forbid("list", "services", Some("bar"));
    server.forbid("list", "endpointslices", Some("bar"));
    let namespaces = Namespaces::named(["bar".to_owned(), "shop".to_owned()]);
    let scope = Scope { namespaces, kinds: Scope::ENDPOINTS };
    let follower = ClusterFollower::start(place(&server, token()), scope, || {}).expect("a follower");
    let followed = Followed { server, follower };
    followed.comes_to(&["10.0.0.1"]);
    until(|| followed.follower.is_whole(), || format!("{:?}", followed.follower.states()));
    let message = "refuses it: services is forbidden: User \"system:serviceaccount:edge:tidegate\" cannot list resource \
        \"services\" in API group \"\" in the namespace \"bar\"";
    until(|| followed.state("Service").1.is_some(), || "no fault".to_owned());
    assert_eq!(followed.state("Service").1.map(|fault| fault.to_string()), Some(message.to_owned()));
}

#[test]
fn a_server_that_was_set_back_is_believed() {
    let followed = Followed::of_one();
    let backup = followed.server.backup();
    for address in ["10.0.0.2", "10.0.0.3", "10.0.0.4"] {
        followed.server.put(slice("web-a", "web", &[address]));
    }
    followed.comes_to(&["10.0.0.4"]);
    followed.server.restore(&backup);
    followed.comes_to(&["10.0.0.1"]);
    followed.server.put(slice("web-a", "web", &["10.0.0.5"]));
    followed.comes_to(&["10.0.0.5"]);
}

#[test]
fn a_server_that_comes_back_after_it_was_gone_is_followed_on() {
    let followed = Followed::of_one();
    followed.server.go_away();
    until(|| followed.state("EndpointSlice").1.is_some(), || format!("{:?}", followed.state("EndpointSlice")));
    followed.server.put(slice("web-a", "web", &["10.0.0.7"]));
    assert_eq!(followed.servers().map(|servers| servers.len()), Ok(1));
    followed.server.relent();
    followed.comes_to(&["10.0.0.7"]);
}

#[test]
fn a_bookmark_is_where_the_next_watch_begins() {
    let followed = Followed::of_one();
    followed.server.put(service("other"));
    let at = followed.server.put(service("another"));
    until(|| followed.asked(&format!("GET {SLICES}?watch")) == 1, || format!("{:?}", followed.server.requests()));
    let heard = || followed.follower.states().into_iter().filter_map(|state| state.heard).min();
    let before = heard();
    followed.server.bookmark();
    until(|| heard() > before, || "nothing is heard".to_owned());
    followed.server.end_watches();
    let again = format!("GET {SLICES}?watch=true&allowWatchBookmarks=true&resourceVersion={at}&");
    until(|| followed.asked(&again) == 1, || format!("{:?}", followed.server.requests()));
}

#[test]
fn the_token_is_read_for_each_request() {
    let server = ApiServer::start().expect("a server");
    server.put(service("web"));
    server.put(slice("web-a", "web", &["10.0.0.1"]));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "one-that-has-ended\n").expect("a file");
    let follower = ClusterFollower::start(place(&server, Token::File(file.clone())), all(), || {}).expect("a follower");
    let followed = Followed { server, follower };
    until(
        || matches!(followed.state("Service").1, Some(Fault::Unauthorized { .. })),
        || format!("{:?}", followed.state("Service")),
    );
    std::fs::write(&file, format!("{TOKEN}\n")).expect("a file");
    followed.comes_to(&["10.0.0.1"]);
}

#[test]
fn one_namespace_is_asked_for_alone() {
    let server = ApiServer::start().expect("a server");
    server.put(service("web"));
    server.put(slice("web-a", "web", &["10.0.0.1"]));
    let scope = Scope { namespaces: Namespaces::named(["shop".to_owned()]), ..all() };
    let follower = ClusterFollower::start(place(&server, token()), scope, || {}).expect("a follower");
    let followed = Followed { server, follower };
    followed.comes_to(&["10.0.0.1"]);
    followed.server.put(slice("web-a", "web", &["10.0.0.2"]));
    followed.comes_to(&["10.0.0.2"]);
    let requests = followed.server.requests();
    assert!(requests.iter().all(|request| request.contains("/namespaces/shop/")), "{requests:?}");
}

#[test]
fn a_refusal_never_shows_the_token() {
    let server = ApiServer::start().expect("a server");
    let client = Client::new(place(&server, Token::Fixed(Secret::new("another-token")))).expect("a client");
    let runtime = tidegate_testkit::tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let fault = runtime.block_on(client.send(http::Method::GET, "/api/v1/services", None)).expect_err("a refusal");
    assert_eq!(fault, Fault::Unauthorized { message: "Unauthorized".to_owned() });
    assert!(!format!("{fault} {fault:?}").contains("another-token"));
}

#[test]
fn a_cluster_without_objects_is_followed_too() {
    let followed = Followed::new(ApiServer::start().expect("a server"));
    until(|| followed.servers() == Err(Absence::NoService), || format!("{:?}", followed.servers()));
    followed.server.put(slice("web-a", "web", &["10.0.0.1"]));
    followed.server.put(service("web"));
    followed.comes_to(&["10.0.0.1"]);
}

#[test]
fn kinds_that_nobody_needs_are_not_asked_for() {
    let server = ApiServer::start().expect("a server");
    let scope = Scope { namespaces: Namespaces::named(["shop".to_owned()]), kinds: &[Kind::Ingress, Kind::IngressClass] };
    let follower = ClusterFollower::start(place(&server, token()), scope, || {}).expect("a follower");
    let class = serde_json::json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "edge"},
        "spec": {"controller": "tidegate.dev/ingress"}});
    server.put(class);
    let ingress = serde_json::json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "web", "namespace": "shop"}, "spec": {"ingressClassName": "edge"}});
    server.put(ingress);
    until(
        || {
            let cache = follower.cache();
            cache.ingresses().count() == 1 && cache.ingress_classes().any(|(key, _)| key.to_string() == "edge")
        },
        || format!("{:?}", server.requests()),
    );
    let requests = server.requests();
    assert!(!requests.iter().any(|request| request.contains("services") || request.contains("slices")), "{requests:?}");
    // Classes belong to no namespace.
    assert!(requests.iter().any(|request| request.starts_with("GET /apis/networking.k8s.io/v1/ingressclasses?")), "{requests:?}");
}

#[test]
fn objects_are_made_changed_and_removed_and_who_is_late_is_told() {
    let server = ApiServer::start().expect("a server");
    let client = Client::new(place(&server, token())).expect("a client");
    let runtime = tidegate_testkit::tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let path = "/api/v1/namespaces/shop/services";
    let send = |method: http::Method, path: &str, body: Option<serde_json::Value>| {
        let answer = runtime.block_on(client.send(method, path, body.as_ref()))?;
        Ok::<serde_json::Value, Fault>(serde_json::from_slice(&answer).expect("JSON"))
    };
    let made = send(http::Method::POST, path, Some(service("web"))).expect("it is made");
    assert!(matches!(send(http::Method::POST, path, Some(service("web"))), Err(Fault::Conflict { .. })));
    let version = made["metadata"]["resourceVersion"].clone();
    let one = format!("{path}/web");
    let patch = serde_json::json!({"metadata": {"resourceVersion": version}, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}});
    let changed = send(http::Method::PATCH, &format!("{one}/status"), Some(patch.clone())).expect("it is changed");
    assert_eq!(changed["status"], patch["status"]);
    assert_eq!(changed["spec"], made["spec"], "a merge leaves what it does not name");
    assert!(matches!(send(http::Method::PATCH, &one, Some(patch)), Err(Fault::Conflict { .. })), "the version is an old one");
    assert_eq!(send(http::Method::GET, &one, None).expect("it is there")["metadata"]["name"], "web");
    send(http::Method::DELETE, &one, None).expect("it is removed");
    assert!(matches!(send(http::Method::GET, &one, None), Err(Fault::Missing { .. })));
}

/// With `value` in base64.
fn secret(name: &str, value: &str) -> serde_json::Value {
    serde_json::json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": name},
        "type": "kubernetes.io/tls", "data": {"tls.key": value}})
}

impl Followed {
    fn with_secrets(server: ApiServer) -> Followed {
        let scope = Scope { namespaces: Namespaces::All, kinds: &[Kind::Secret] };
        let follower = ClusterFollower::start(place(&server, token()), scope, || {}).expect("a follower");
        Followed { server, follower }
    }

    fn want(&self, names: &[&str]) {
        self.follower.want_secrets(names.iter().map(|name| Key::new("shop", name)).collect());
    }

    /// What is held under `tls.key`, or why nothing is.
    fn secret(&self, name: &str) -> String {
        match self.follower.cache().secret(&Key::new("shop", name)) {
            SecretState::Unasked => "unasked".to_owned(),
            SecretState::Missing => "missing".to_owned(),
            SecretState::Fault(Fault::Forbidden { .. }) => "forbidden".to_owned(),
            SecretState::Fault(fault) => fault.to_string(),
            SecretState::Held(secret) => String::from_utf8_lossy(secret.data["tls.key"].reveal()).into_owned(),
        }
    }

    fn secret_comes_to(&self, name: &str, expected: &str) {
        until(|| self.secret(name) == expected, || format!("{name}: {}", self.secret(name)));
    }
}

#[test]
fn secrets_are_fetched_when_they_are_wanted_and_when_they_change() {
    let server = ApiServer::start().expect("a server");
    server.put(secret("tls", "YQ=="));
    server.put(secret("other", "Yg=="));
    let followed = Followed::with_secrets(server);
    until(|| followed.follower.is_whole(), || "no list".to_owned());
    assert_eq!(followed.asked("GET /api/v1/namespaces"), 0, "nobody wants one");
    followed.want(&["tls", "none"]);
    followed.secret_comes_to("tls", "a");
    followed.secret_comes_to("none", "missing");
    assert!(followed.follower.has_answered());
    assert_eq!(followed.secret("other"), "unasked");
    assert_eq!(followed.asked("GET /api/v1/namespaces/shop/secrets/none"), 0, "the list does not have it");
    let _ = followed.follower.take_changes();
    followed.server.put(secret("tls", "Yw=="));
    followed.server.put(secret("none", "ZA=="));
    followed.secret_comes_to("tls", "c");
    followed.secret_comes_to("none", "d");
    let changed = followed.follower.take_changes().map(|changes| changes.secrets.into_iter().collect());
    assert_eq!(changed, Some(vec![Key::new("shop", "none"), Key::new("shop", "tls")]));
    followed.server.remove(&secret("tls", ""));
    followed.secret_comes_to("tls", "missing");
    followed.want(&["tls"]);
    assert_eq!(followed.secret("none"), "unasked", "what nobody wants is let go");
}

#[test]
fn config_maps_are_fetched_as_secrets_are() {
    let map = |value: &str| {
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "nginx"},
            "data": {"hsts": value}})
    };
    let server = ApiServer::start().expect("a server");
    server.put(map("false"));
    let scope = Scope { namespaces: Namespaces::All, kinds: &[Kind::Secret, Kind::ConfigMap] };
    let follower = ClusterFollower::start(place(&server, token()), scope, || {}).expect("a follower");
    let followed = Followed { server, follower };
    let key = |name: &str| Key::new("shop", name);
    let said = |name: &str| match followed.follower.cache().config_map(&key(name)) {
        ConfigMapState::Unasked => "unasked".to_owned(),
        ConfigMapState::Missing => "missing".to_owned(),
        ConfigMapState::Fault(fault) => fault.to_string(),
        ConfigMapState::Held(map) => map.data["hsts"].to_string(),
    };
    let comes_to = |name: &str, expected: &str| until(|| said(name) == expected, || format!("{name}: {}", said(name)));
    until(|| followed.follower.is_whole(), || "no list".to_owned());
    assert_eq!(followed.asked("GET /api/v1/namespaces"), 0, "nobody wants one");
    followed.follower.want_config_maps([key("nginx"), key("none")].into());
    comes_to("nginx", "false");
    comes_to("none", "missing");
    assert!(followed.follower.has_answered());
    assert_eq!(followed.asked("GET /api/v1/namespaces/shop/configmaps/none"), 0, "the list does not have it");
    let _ = followed.follower.take_changes();
    followed.server.put(map("true"));
    comes_to("nginx", "true");
    until(
        || followed.follower.take_changes().is_some_and(|changes| changes.config_maps == [key("nginx")].into()),
        || "no change is told".to_owned(),
    );
    followed.server.remove(&map(""));
    comes_to("nginx", "missing");
}

#[test]
fn a_secret_that_cannot_be_fetched_is_asked_for_again_and_others_do_not_wait() {
    let server = ApiServer::start().expect("a server");
    for name in ["tls", "slow", "shut"] {
        server.put(secret(name, "YQ=="));
    }
    let followed = Followed::with_secrets(server);
    followed.server.refuse("/api/v1/namespaces/shop/secrets/tls", 503, Some(1), None);
    followed.server.refuse("/api/v1/namespaces/shop/secrets/shut", 403, None, None);
    followed.server.stall("/api/v1/namespaces/shop/secrets/slow");
    followed.want(&["tls", "slow", "shut"]);
    followed.secret_comes_to("shut", "forbidden");
    followed.secret_comes_to("tls", "a");
    assert_eq!(followed.secret("slow"), "unasked");
    assert!(!followed.follower.has_answered());
    followed.server.relent();
    followed.secret_comes_to("slow", "a");
    // What may not be seen is answered for, when the server has said so for some seconds.
    until(|| followed.follower.has_answered(), || format!("{:?}", followed.server.requests()));
    followed.server.refuse("/api/v1/namespaces/shop/secrets", 503, None, None);
    followed.server.put(secret("tls", "Yg=="));
    until(|| followed.asked("GET /api/v1/namespaces/shop/secrets/tls") >= 3, || format!("{:?}", followed.server.requests()));
    assert_eq!(followed.secret("tls"), "a", "a fault takes nothing away");
}

#[test]
fn secrets_that_may_not_be_listed_are_fetched_all_the_same() {
    let server = ApiServer::start().expect("a server");
    server.put(secret("tls", "YQ=="));
    server.forbid("list", "secrets", None);
    let followed = Followed::with_secrets(server);
    followed.want(&["tls", "none", "../tls", ""]);
    followed.secret_comes_to("tls", "a");
    followed.secret_comes_to("none", "missing");
    followed.secret_comes_to("../tls", "missing");
    until(|| followed.follower.has_answered(), || format!("{:?}", followed.server.requests()));
    assert_eq!(followed.asked("GET /api/v1/namespaces/shop/secrets/"), 2, "what is no name is not asked for");
}

impl Followed {
    fn with_snapshot(server: ApiServer, folder: &std::path::Path) -> Followed {
        let scope = Scope { namespaces: Namespaces::All, kinds: &[Kind::Service, Kind::EndpointSlice, Kind::Secret] };
        let follower = ClusterFollower::start_with(place(&server, token()), scope, Some(folder.to_owned()), || {});
        Followed { server, follower: follower.expect("a follower") }
    }

    fn outcome(&self) -> SnapshotOutcome {
        self.follower.snapshot().expect("a snapshot").outcome
    }
}

/// When the snapshot's news are of.
fn as_of(folder: &std::path::Path) -> String {
    let text = std::fs::read_to_string(folder.join("objects.jsonl")).unwrap_or_default();
    let first = text.lines().next().and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    first.map(|first| first["as_of"].as_str().expect("a time").to_owned()).unwrap_or_default()
}

#[test]
fn who_starts_while_the_server_is_away_begins_with_the_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ApiServer::start().expect("a server");
    for object in [service("web"), slice("web-a", "web", &["10.0.0.1"]), secret("tls", "YQ==")] {
        server.put(object);
    }
    let followed = Followed::with_snapshot(server.clone(), folder.path());
    followed.want(&["tls", "none"]);
    followed.comes_to(&["10.0.0.1"]);
    followed.secret_comes_to("tls", "a");
    followed.secret_comes_to("none", "missing");
    assert_eq!(followed.outcome(), SnapshotOutcome::Absent);
    let writes = || followed.follower.snapshot().expect("a snapshot").writes;
    until(|| writes() > 0, || format!("{:?}", followed.follower.snapshot()));
    let Followed { follower, .. } = followed;
    drop(follower);
    server.go_away();
    server.put(slice("web-a", "web", &["10.0.0.2"]));
    let written = as_of(folder.path());
    let followed = Followed::with_snapshot(server, folder.path());
    followed.comes_to(&["10.0.0.1"]);
    let wanted = ["tls", "none", "new"].map(|name| Key::new("shop", name));
    let known = followed.follower.want_secrets(wanted.clone().into());
    assert_eq!(known, [wanted[0].clone(), wanted[1].clone()].into(), "of the others nothing is known");
    assert_eq!((followed.secret("tls"), followed.secret("none")), ("a".to_owned(), "missing".to_owned()));
    assert!(followed.follower.is_whole() && followed.follower.has_answered());
    let outcome = SnapshotOutcome::Taken { objects: 4, as_of: written.clone() };
    assert_eq!(followed.outcome(), outcome);
    assert!(followed.follower.states().iter().all(|state| state.is_recalled && !state.is_listed));
    assert!(followed.follower.fault().is_some(), "and says that nothing is heard");
    // A write would come after five seconds.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(as_of(folder.path()), written, "there are no news");
    followed.server.relent();
    followed.comes_to(&["10.0.0.2"]);
    until(|| !followed.follower.states().iter().any(|state| state.is_recalled), || "as it was".to_owned());
    until(|| followed.secret("new") == "missing", || followed.secret("new"));
    until(|| as_of(folder.path()) > written, || as_of(folder.path()));
}

#[test]
fn what_may_not_be_seen_keeps_nobody_waiting_now_or_at_a_start_from_the_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ApiServer::start().expect("a server");
    for object in [service("web"), slice("web-a", "web", &["10.0.0.1"]), secret("tls", "YQ==")] {
        server.put(object);
    }
    for verb in ["list", "get"] {
        server.forbid(verb, "secrets", None);
    }
    let began = Instant::now();
    let followed = Followed::with_snapshot(server.clone(), folder.path());
    followed.want(&["tls"]);
    until(|| followed.follower.is_whole() && followed.follower.has_answered(), || format!("{:?}", followed.server.requests()));
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    let forbidden = followed.follower.cache().forbidden_secrets();
    assert!(matches!(forbidden, Some((1, _, Fault::Forbidden { .. }))), "{forbidden:?}");
    until(|| !as_of(folder.path()).is_empty(), || "no snapshot".to_owned());
    server.relent();
    server.go_away();
    let again = Followed::with_snapshot(server, folder.path());
    until(|| again.follower.is_whole(), || format!("{:?}", again.outcome()));
    again.want(&["tls"]);
    assert!(again.follower.has_answered());
}

#[test]
fn a_snapshot_that_is_damaged_or_not_needed_is_not_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("objects.jsonl"), "{\"half\":").expect("a file");
    let server = ApiServer::start().expect("a server");
    server.go_away();
    let followed = Followed::with_snapshot(server, folder.path());
    let ignored = SnapshotOutcome::Ignored("is damaged: it ends in the middle".to_owned());
    until(|| followed.outcome() == ignored, || format!("{:?}", followed.outcome()));
    assert!(!followed.follower.is_whole());
    followed.server.relent();
    followed.server.put(service("web"));
    followed.server.put(slice("web-a", "web", &["10.0.0.1"]));
    followed.comes_to(&["10.0.0.1"]);
    until(
        || followed.follower.snapshot().is_some_and(|state| state.writes > 0),
        || format!("{:?}", followed.follower.snapshot()),
    );
    let again = Followed::with_snapshot(followed.server.clone(), folder.path());
    until(|| again.outcome() == SnapshotOutcome::Unneeded, || format!("{:?}", again.outcome()));
}
