//! What holds whatever the objects are: nothing panics, what is served depends on the objects and not on how they came,
//! and no object changes what it does not name.

use crate::cases::{filled, key};
use crate::kdl;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_cluster::{Changes, Key, Kind, WrittenCluster};
use tidegate_kubernetes::{Finding, HostOwner, Merged, ObjectReference, Settings, ToTell, Translation};
use tidegate_model::discover::{Cluster, Namespaces};
use tidegate_model::{Condition, ConditionKind, Configuration, Discover, Pool, Route, Scheme, Site, Step, Terminal};

const HOSTS: [&str; 7] = ["a.example", "b.example", "*.example", "c.b.example", "", "no host", "a..example"];
/// An alias, wherever there is one.
const ALIAS: &str = "alias.example";
const PATHS: [&str; 8] = ["/", "/a", "/a/", "/ab", "/a/b", "a", "/a//b", "/.well-known/acme-challenge/t"];
const KINDS: [&str; 4] = ["Exact", "Prefix", "ImplementationSpecific", "Odd"];
const SERVICES: [&str; 3] = ["web", "api", "gone"];
const NAMESPACES: [&str; 2] = ["blog", "shop"];
const SECRETS: [&str; 3] = ["a.example", "b.example", "c.b.example"];
const DATES: [&str; 3] = ["2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z", ""];

/// Something that happens to one object.
#[derive(Debug, Clone)]
pub enum Event {
    Put(Value),
    Remove(Kind, String),
}

fn backend() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => (select(&SERVICES[..]), select(&[80, 81][..])).prop_map(|(name, port)| json!({"service": {"name": name, "port": {"number": port}}})),
        1 => select(&SERVICES[..]).prop_map(|name| json!({"service": {"name": name, "port": {"name": "http"}}})),
        1 => Just(json!({"resource": {"kind": "Bucket", "name": "x"}})),
        1 => Just(json!({})),
    ]
}

fn rule() -> impl Strategy<Value = Value> {
    let path = (select(&PATHS[..]), select(&KINDS[..]), backend())
        .prop_map(|(path, kind, backend)| json!({"path": path, "pathType": kind, "backend": backend}));
    (select(&HOSTS[..]), vec(path, 0..4)).prop_map(|(host, paths)| json!({"host": host, "http": {"paths": paths}}))
}

fn tls() -> impl Strategy<Value = Value> {
    (option::of(vec(select(&HOSTS[..]), 0..3)), option::of(select(&["a.example", "b.example", "missing", "No name"][..])))
        .prop_map(|(hosts, secret)| json!({"hosts": hosts, "secretName": secret}))
}

/// Names behind the prefix, and values that some of them take.
fn annotations() -> impl Strategy<Value = Value> {
    const NAMES: [&str; 42] = [
        "ssl-redirect",
        "force-ssl-redirect",
        "use-regex",
        "rewrite-target",
        "app-root",
        "permanent-redirect",
        "temporal-redirect",
        "whitelist-source-range",
        "denylist-source-range",
        "enable-cors",
        "cors-allow-origin",
        "proxy-read-timeout",
        "proxy-body-size",
        "backend-protocol",
        "auth-type",
        "auth-secret",
        "auth-url",
        "auth-signin",
        "auth-response-headers",
        "canary",
        "limit-rps",
        "limit-connections",
        "limit-allowlist",
        "rewrite-targt",
        "canary-weight",
        "canary-by-header",
        "affinity",
        "load-balance",
        "upstream-hash-by",
        "service-upstream",
        "proxy-ssl-verify",
        "proxy-ssl-secret",
        "auth-tls-secret",
        "auth-tls-verify-client",
        "auth-tls-match-cn",
        "custom-http-errors",
        "default-backend",
        "mirror-target",
        "configuration-snippet",
        "server-snippet",
        "auth-snippet",
        "satisfy",
    ];
    const VALUES: [&str; 22] = [
        "any",
        "true",
        "false",
        "",
        "/$1",
        "/a",
        "https://a.example$request_uri",
        "10.0.0.0/8",
        "8m",
        "60",
        "HTTPS",
        "basic",
        "http://web.shop.svc:80/a",
        "https://$host/a",
        "a.example",
        "b.example",
        "on",
        "optional",
        "cookie",
        "web",
        "404,503",
        "http://web/$request_uri",
    ];
    let one = (select(&NAMES[..]), select(&VALUES[..])).prop_map(|(name, value)| (name, value.to_owned()));
    let of_snippet = (select(&["configuration-snippet", "server-snippet", "auth-snippet"][..]), snippet());
    let named = |(name, value): (&str, String)| (format!("nginx.ingress.kubernetes.io/{name}"), Value::from(value));
    prop_oneof![
        2 => Just(json!({})),
        3 => vec(prop_oneof![4 => one, 1 => of_snippet], 0..5)
            .prop_map(move |list| Value::Object(list.into_iter().map(named).collect())),
    ]
}

/// Statements of nginx, of which some are known.
fn snippet() -> impl Strategy<Value = String> {
    const STATEMENTS: [&str; 27] = [
        "if ($arg_a = b) { return 403; }",
        "if ($cookie_c !~ ^(a|)$) { set $i 2; }",
        "if ($uri = /a) { add_header X-K k; }",
        "add_header X-A $host always;",
        "more_set_headers -s 404 'X-B: b';",
        "more_clear_headers X-C;",
        "proxy_hide_header X-D;",
        "proxy_set_header X-E $http_x_f;",
        "proxy_set_header Host a.example;",
        "more_set_input_headers 'X-G: g';",
        "auth_request_set $who $upstream_http_x_who;",
        "proxy_set_header X-Who $who;",
        "set $h $request_method;",
        "set $i 1;",
        "if ($h = POST) { set $i 2; }",
        "if ($http_x = a) { return 403; }",
        "if ($host = a.example) { add_header X-J j; }",
        "if ($i = 2) { return 301 https://a.example$request_uri; }",
        "return 200 text;",
        "rewrite ^/a(.*) /b$1 break;",
        "rewrite ^/c(.*) https://a.example/$1 permanent;",
        "allow 10.0.0.0/8;",
        "deny all;",
        "break;",
        "client_max_body_size 1m;",
        "gzip on;",
        "access_by_lua_block { ngx.exit(403) }",
    ];
    vec(select(&STATEMENTS[..]), 0..6).prop_map(|statements| statements.join("\n"))
}

/// Annotations that have other names stand for those of rules, or pass by what protects these.
fn of_names() -> impl Strategy<Value = Option<(&'static str, &'static str)>> {
    const OF_NAMES: [(&str, &str); 3] = [("server-alias", ALIAS), ("from-to-www-redirect", "true"), ("ssl-passthrough", "true")];
    option::weighted(0.3, select(&OF_NAMES[..]))
}

fn annotated() -> impl Strategy<Value = Value> {
    (annotations(), of_names()).prop_map(|(mut annotations, of_names)| {
        if let Some((name, value)) = of_names {
            annotations[format!("nginx.ingress.kubernetes.io/{name}")] = json!(value);
        }
        annotations
    })
}

fn ingress() -> impl Strategy<Value = Value> {
    let meta = (select(&NAMESPACES[..]), 0..4_u8, select(&DATES[..]), annotated());
    let spec =
        (select(&["edge", "edge", "edge", "other"][..]), vec(rule(), 0..3), vec(tls(), 0..3), option::weighted(0.3, backend()));
    (meta, spec).prop_map(|((namespace, number, created, annotations), (class, rules, tls, default))| {
        json!({"kind": "Ingress",
            "metadata": {"namespace": namespace, "name": format!("i{number}"), "creationTimestamp": created, "annotations": annotations},
            "spec": {"ingressClassName": class, "rules": rules, "tls": tls, "defaultBackend": default}})
    })
}

const DENYING: &str = "deny all;";
const ANSWERING: &str = "add_header X-A a;\nreturn 403;";
const REFUSING: &str = "if ($http_x_bad) { return 403; }";
const UNKNOWN: &str = "add_header X-A a;\naccess_by_lua_file a.lua;";

/// An Ingress that is protected, perhaps by something that is not to be had.
fn protected_ingress() -> impl Strategy<Value = Value> {
    const PROTECTIONS: [&[(&str, &str)]; 16] = [
        &[("satisfy", "any"), ("whitelist-source-range", "10.0.0.0/8"), ("auth-type", "basic"), ("auth-secret", "a.example")],
        &[("satisfy", "any"), ("whitelist-source-range", "10.0.0.0/8"), ("auth-url", "https://auth.example.com/a")],
        &[("auth-tls-secret", "b.example")],
        &[("auth-tls-secret", "a.example")],
        &[("auth-tls-secret", "b.example"), ("auth-tls-match-cn", "CN=a")],
        &[("whitelist-source-range", "10.0.0.0/8"), ("canary", "true")],
        &[("proxy-ssl-verify", "on"), ("proxy-ssl-secret", "b.example"), ("backend-protocol", "HTTPS")],
        &[("auth-type", "basic"), ("auth-secret", "a.example")],
        &[("auth-url", "http://web.shop.svc:80/a"), ("canary", "true")],
        &[("auth-url", "https://$host/a")],
        &[("auth-url", "https://auth.example.com/a")],
        &[("configuration-snippet", DENYING)],
        &[("configuration-snippet", ANSWERING)],
        &[("configuration-snippet", REFUSING)],
        &[("configuration-snippet", UNKNOWN)],
        &[("server-snippet", UNKNOWN)],
    ];
    (ingress(), select(&PROTECTIONS[..])).prop_map(|(mut ingress, protection)| {
        for (name, value) in protection {
            ingress["metadata"]["annotations"][format!("nginx.ingress.kubernetes.io/{name}")] = json!(value);
        }
        ingress
    })
}

fn service() -> impl Strategy<Value = Value> {
    let spoken = select(vec![Value::Null, json!("https"), json!("kubernetes.io/h2c")]);
    (select(&NAMESPACES[..]), select(&SERVICES[..2]), select(&[80, 81][..]), spoken, any::<bool>()).prop_map(
        |(namespace, name, port, spoken, is_external)| {
            let of_type = if is_external && port == 81 { "ExternalName" } else { "ClusterIP" };
            json!({"kind": "Service", "metadata": {"namespace": namespace, "name": name},
                "spec": {"type": of_type, "externalName": "x.example", "ports": [{"port": port, "appProtocol": spoken}]}})
        },
    )
}

/// Secrets come and do not go: what they were would stay, which is a case.
fn secret() -> impl Strategy<Value = Value> {
    (select(&NAMESPACES[..]), select(&SECRETS[..])).prop_map(|(namespace, name)| secret_of(namespace, name))
}

fn secret_of(namespace: &str, name: &str) -> Value {
    let mut data = json!({"tls.crt": format!("certificate:{name}"), "tls.key": format!("key:{name}")});
    if name == "b.example" {
        data["ca.crt"] = json!("authority");
    }
    json!({"kind": "Secret", "metadata": {"namespace": namespace, "name": name}, "data": data})
}

fn all_secrets() -> Vec<Event> {
    let of = |namespace: &'static str| SECRETS.into_iter().map(move |name| Event::Put(secret_of(namespace, name)));
    NAMESPACES.into_iter().flat_map(of).collect()
}

fn class() -> impl Strategy<Value = Value> {
    (select(&["edge", "other"][..]), any::<bool>(), any::<bool>(), select(&DATES[..])).prop_map(
        |(name, is_ours, is_default, created)| {
            let controller = if is_ours { "tidegate.dev/ingress" } else { "example.net/other" };
            json!({"kind": "IngressClass",
            "metadata": {"name": name, "creationTimestamp": created,
                "annotations": {"ingressclass.kubernetes.io/is-default-class": is_default.to_string()}},
            "spec": {"controller": controller}})
        },
    )
}

pub fn event() -> impl Strategy<Value = Event> {
    let object = prop_oneof![6 => ingress(), 2 => service(), 2 => secret(), 1 => class()];
    let name = (select(&NAMESPACES[..]), 0..4_u8).prop_map(|(namespace, number)| format!("{namespace}/i{number}"));
    let service = (select(&NAMESPACES[..]), select(&SERVICES[..])).prop_map(|(namespace, name)| format!("{namespace}/{name}"));
    prop_oneof![
        6 => object.prop_map(Event::Put),
        2 => name.prop_map(|name| Event::Remove(Kind::Ingress, name)),
        1 => service.prop_map(|name| Event::Remove(Kind::Service, name)),
    ]
}

fn event_of_protected() -> impl Strategy<Value = Event> {
    prop_oneof![1 => event(), 1 => protected_ingress().prop_map(Event::Put)]
}

fn settings() -> impl Strategy<Value = Settings> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(is_owned, has_certificate, has_backend)| Settings {
        class_names: vec!["edge".to_owned()],
        host_owner: if is_owned { HostOwner::Oldest } else { HostOwner::Shared },
        default_certificate: has_certificate.then(|| key("shop/a.example")),
        default_backend: has_backend.then(|| (key("shop/web"), tidegate_cluster::PortReference::Number(80))),
        ..Settings::new(Cluster { api: None, namespaces: Namespaces::All })
    })
}

/// A cluster and what is made of it, event by event.
pub struct World {
    cluster: WrittenCluster,
    pub translation: Translation,
    now: Instant,
    /// What was told of, difference by difference.
    told: Told,
}

/// What is to be said of objects, and which Secrets are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    findings: BTreeMap<ObjectReference, Vec<Finding>>,
    served: BTreeSet<Key>,
    wanted: BTreeSet<Key>,
}

/// Everything that comes of objects.
pub struct All {
    pub merged: Merged,
    told: Told,
}

impl World {
    pub fn new(settings: Settings) -> World {
        let now = Instant::now();
        let (cluster, translation) = (WrittenCluster::new(now), Translation::new(settings));
        let mut world = World { cluster, translation, now, told: Told::default() };
        world.look(None);
        world
    }

    fn look(&mut self, changes: Option<&Changes>) {
        self.translation.take_in(self.cluster.cache(), changes, self.now);
        let mut changes = self.cluster.want_secrets(self.translation.wanted_secrets().clone());
        changes.merge(self.cluster.want_config_maps(self.translation.wanted_config_maps().clone()));
        self.translation.take_in(self.cluster.cache(), Some(&changes), self.now);
        // As long as anything may wait.
        self.now += Duration::from_secs(1);
        self.translation.take_in(self.cluster.cache(), Some(&Changes::default()), self.now);
    }

    pub fn apply(&mut self, event: &Event) {
        let changes = put(&mut self.cluster, event);
        self.look(Some(&changes));
    }

    pub fn apply_all(&mut self, events: &[Event]) {
        for event in events {
            self.apply(event);
        }
    }

    pub fn merged(&mut self) -> Merged {
        self.all().merged
    }

    /// Differences that were told make the whole, each time.
    pub fn all(&mut self) -> All {
        let World { translation, told, .. } = self;
        let merged = translation.merged(&Configuration::default());
        let ToTell { findings, served } = translation.take_to_tell();
        for object in findings {
            match translation.findings_of(&object) {
                [] => _ = told.findings.remove(&object),
                now => _ = told.findings.insert(object, now.to_vec()),
            }
        }
        for key in served {
            if translation.is_served(&key) {
                told.served.insert(key)
            } else {
                told.served.remove(&key)
            };
        }
        let (came, went) = translation.turn_secrets();
        told.wanted.retain(|key| !went.contains(key));
        told.wanted.extend(came);
        let mut findings: BTreeMap<ObjectReference, Vec<Finding>> = BTreeMap::new();
        for (object, finding) in translation.findings() {
            findings.entry(object.clone()).or_default().push(finding.clone());
        }
        let (served, wanted) = (translation.served().cloned().collect(), translation.wanted_secrets().clone());
        assert_eq!(*told, Told { findings, served, wanted });
        All { merged, told: told.clone() }
    }
}

fn put(cluster: &mut WrittenCluster, event: &Event) -> Changes {
    match event {
        Event::Put(object) => {
            cluster.put(filled(object.clone()).to_string().as_bytes()).unwrap_or_else(|problem| panic!("{problem}"))
        }
        Event::Remove(kind, name) => cluster.remove(*kind, &key(name)),
    }
}

/// From nothing, with everything there at once.
pub fn from_scratch(settings: Settings, events: &[Event]) -> All {
    let mut world = World::new(settings.clone());
    for event in events {
        put(&mut world.cluster, event);
    }
    world.translation = Translation::new(settings);
    world.look(None);
    world.all()
}

fn name_of(object: &Value) -> (String, String) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/kind"), format!("{}/{}", text("/metadata/namespace"), text("/metadata/name")))
}

pub fn assert_same(left: &All, right: &All) {
    assert_eq!(left.merged.sites, right.merged.sites);
    assert_eq!(left.merged.pools, right.merged.pools);
    assert_eq!(left.merged.tcp, right.merged.tcp);
    assert_eq!(left.told, right.told);
}

/// Hosts of an Ingress, as sites name them; those of certificates as well.
fn hosts_of(object: &Value) -> BTreeSet<String> {
    let texts = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let rules = texts(object.pointer("/spec/rules"));
    let tls = texts(object.pointer("/spec/tls"));
    let of_rules = rules.iter().map(|rule| rule["host"].as_str().unwrap_or_default().to_owned());
    let of_tls = tls.iter().flat_map(|entry| texts(entry.get("hosts"))).map(|host| host.as_str().unwrap_or_default().to_owned());
    let rest = object.pointer("/spec/defaultBackend").is_some().then(String::new);
    let named: Vec<String> = of_rules.chain(of_tls).chain(rest).collect();
    // Names that may stand for these change with them.
    let with_www = named.iter().map(|host| format!("www.{host}"));
    with_www.chain([ALIAS.to_owned()]).chain(named.iter().cloned()).collect()
}

fn by_address(merged: &Merged) -> BTreeMap<String, Arc<Site>> {
    merged.sites.iter().map(|site| (site.addresses[0].to_string(), site.clone())).collect()
}

/// Ingresses as they are after all of these.
pub fn ingresses_after(events: &[Event]) -> BTreeMap<String, Value> {
    let mut ingresses = BTreeMap::new();
    for event in events {
        match event {
            Event::Put(object) => {
                let (kind, name) = name_of(object);
                if kind == "Ingress" {
                    ingresses.insert(name, object.clone());
                }
            }
            Event::Remove(Kind::Ingress, name) => _ = ingresses.remove(name),
            Event::Remove(_, _) => {}
        }
    }
    ingresses
}

/// Nothing is handed on past what an Ingress of the host is protected by.
fn assert_not_passed(merged: &Merged, ingresses: &BTreeMap<String, Value>) {
    const PROTECTING: [&str; 4] = ["whitelist-source-range", "auth-type", "auth-url", "auth-tls-secret"];
    for name in merged.tcp.iter().flat_map(|tcp| &tcp.by_name).flat_map(|route| &route.names) {
        for ingress in ingresses.values().filter(|ingress| ingress["spec"]["ingressClassName"] == "edge") {
            let rules = ingress["spec"]["rules"].as_array().cloned().unwrap_or_default();
            let is_of_it = rules.iter().any(|rule| rule["host"] == name.to_string()) && annotation(ingress, "canary") != "true";
            let protects = PROTECTING.iter().any(|protecting| !annotation(ingress, protecting).is_empty());
            assert!(!is_of_it || !protects, "{name} is handed on past {ingress}");
        }
    }
}

/// Nothing leads to a server past what the Ingress of the route is protected by.
fn assert_guarded(merged: &Merged, ingresses: &BTreeMap<String, Value>) {
    let has_canary = ingresses.values().any(|one| annotation(one, "canary") == "true");
    for route in merged.sites.iter().flat_map(|site| &site.routes) {
        let Some(origin) = &route.origin else { continue };
        let Some(ingress) = ingresses.get(&format!("{}/{}", origin.namespace, origin.name)) else { continue };
        if route.terminal.pools().next().is_none() {
            continue;
        }
        let said = |name: &str| Some(annotation(ingress, name)).filter(|value| !value.is_empty());
        // One of several is enough where that is said, and none of them is missing then.
        let is_any = route.steps.iter().any(|step| matches!(step, Step::AuthAny(_)));
        assert!(!is_any || said("satisfy") == Some("any"), "{route:?}");
        let has = |is_one: fn(&Step) -> bool| route.steps.iter().flat_map(Step::parts).any(is_one);
        assert!(said("whitelist-source-range").is_none() || has(|step| matches!(step, Step::Allow(_))), "{route:?}");
        assert!(said("auth-type").is_none() || has(|step| matches!(step, Step::BasicAuth(Some(_)))), "{route:?}");
        assert!(said("auth-url").is_none() || has(|step| matches!(step, Step::ForwardAuth(Some(_)))), "{route:?}");
        if said("auth-tls-secret").is_some() && matches!(said("auth-tls-verify-client"), None | Some("on")) {
            let is_shown =
                |condition: &Condition| !condition.negated && matches!(condition.kind, ConditionKind::ClientCertificate { .. });
            let all = !route.matches.is_empty() && route.matches.iter().all(|line| line.conditions.iter().any(is_shown));
            assert!(all, "{route:?}");
        }
        if let Some(snippet) = said("configuration-snippet") {
            assert!(snippet != UNKNOWN && snippet != ANSWERING, "{route:?}");
            assert!(
                snippet != DENYING || route.steps.iter().any(|step| matches!(step, Step::Allow(_) | Step::Deny(_))),
                "{route:?}"
            );
            assert!(snippet != REFUSING || is_refused_before(merged, route), "{route:?}");
        }
        assert!(said("server-snippet") != Some(UNKNOWN), "{route:?}");
        for pool in merged.pools.iter().filter(|pool| !has_canary && route.terminal.pools().any(|name| *name == pool.name)) {
            if said("proxy-ssl-verify") == Some("on") {
                assert!(pool.tls.verify, "{pool:?}");
                assert!(!is_over_tls(pool) || pool.tls.ca.is_some(), "{pool:?}");
            }
        }
    }
}

/// Whether a route of the same paths stands in front that answers requests with the field.
fn is_refused_before(merged: &Merged, route: &Route) -> bool {
    let is_bad = |condition: &Condition| {
        !condition.negated && matches!(&condition.kind, ConditionKind::Header(field) if field.name == "x-bad")
    };
    let refuses = |before: &&Route| {
        let is_for_bad = before.matches.iter().all(|line| line.conditions.iter().any(is_bad)) && !before.matches.is_empty();
        before.paths == route.paths && matches!(before.terminal, Terminal::Respond { .. }) && is_for_bad
    };
    merged.sites.iter().any(|site| {
        let place = site.routes.iter().position(|own| std::ptr::eq(own, route));
        place.is_some_and(|place| site.routes[..place].iter().any(|before| refuses(&before)))
    })
}

fn is_over_tls(pool: &Pool) -> bool {
    let of_lookup = pool.discover.iter().map(|discover| match discover {
        Discover::Kubernetes(asked) => asked.scheme,
        other => panic!("nobody looks servers up by {other:?}"),
    });
    of_lookup.chain(pool.servers.iter().map(|server| server.address.scheme())).any(|scheme| scheme == Scheme::Https)
}

pub fn annotation<'o>(object: &'o Value, name: &str) -> &'o str {
    object["metadata"]["annotations"][format!("nginx.ingress.kubernetes.io/{name}")].as_str().unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_is_protected_is_protected_or_shut(settings in settings(), events in vec(event_of_protected(), 0..20)) {
        let is_shared = settings.host_owner == HostOwner::Shared;
        let mut world = World::new(settings);
        world.apply_all(&all_secrets());
        world.apply_all(&events);
        let merged = world.merged();
        assert_guarded(&merged, &ingresses_after(&events));
        if is_shared {
            assert_not_passed(&merged, &ingresses_after(&events));
        }
    }

    #[test]
    fn what_came_event_by_event_is_as_if_it_had_come_at_once(settings in settings(), events in vec(event(), 0..14)) {
        let mut world = World::new(settings.clone());
        for event in &events {
            world.apply(event);
            world.merged();
        }
        let all = world.all();
        assert_same(&all, &from_scratch(settings, &events));
        kdl::check(&all.merged);
    }

    #[test]
    fn the_order_in_which_objects_come_is_nothing(settings in settings(), objects in vec(prop_oneof![4 => ingress(), 2 => service(), 2 => secret(), 1 => class()], 0..12), seed in any::<u64>()) {
        // The last of each name is the one that is there.
        let last: BTreeMap<_, _> = objects.iter().map(|object| (name_of(object), object.clone())).collect();
        let mut events: Vec<Event> = last.into_values().map(Event::Put).collect();
        let mut world = World::new(settings.clone());
        world.apply_all(&events);
        let all = world.all();
        let length = events.len().max(1);
        events.rotate_left(seed as usize % length);
        if seed % 2 == 1 {
            events.reverse();
        }
        let mut other = World::new(settings);
        other.apply_all(&events);
        assert_same(&all, &other.all());
    }

    #[test]
    fn an_ingress_that_came_and_went_has_changed_nothing(settings in settings(), events in vec(event(), 0..10), ingress in ingress()) {
        let (_, name) = name_of(&ingress);
        let mut world = World::new(settings);
        world.apply_all(&events);
        world.apply(&Event::Remove(Kind::Ingress, name.clone()));
        let before = world.all();
        world.apply(&Event::Put(ingress));
        world.merged();
        world.apply(&Event::Remove(Kind::Ingress, name));
        let after = world.all();
        assert_same(&before, &after);
    }

    #[test]
    fn an_ingress_changes_nothing_that_it_does_not_name(settings in settings(), events in vec(event(), 0..10), ingress in ingress()) {
        let (_, name) = name_of(&ingress);
        let hosts = hosts_of(&ingress);
        let mut world = World::new(settings);
        world.apply_all(&events);
        world.apply(&Event::Remove(Kind::Ingress, name));
        let before = by_address(&world.merged());
        world.apply(&Event::Put(ingress));
        let after = by_address(&world.merged());
        for address in before.keys().chain(after.keys()) {
            let site = before.get(address).or(after.get(address)).expect("a site");
            if hosts.contains(&site.addresses[0].host.to_string()) {
                continue;
            }
            let (Some(before), Some(after)) = (before.get(address), after.get(address)) else {
                panic!("{address} came or went");
            };
            // Nothing was even looked at.
            assert!(Arc::ptr_eq(before, after), "{address}");
        }
    }

    #[test]
    fn nothing_that_an_object_says_makes_it_panic(host in ".{0,20}", path in ".{0,20}", name in ".{0,12}", port in ".{0,8}", secret in ".{0,12}", pem in ".{0,40}") {
        let mut world = World::new(Settings {
            class_names: vec!["edge".to_owned()],
            ..Settings::new(Cluster { api: None, namespaces: Namespaces::All })
        });
        let paths: Vec<Value> = KINDS.iter().map(|kind| json!({"path": path, "pathType": kind,
            "backend": {"service": {"name": name, "port": {"name": port}}}})).collect();
        let ingress = json!({"kind": "Ingress", "metadata": {"namespace": "shop", "name": "x"}, "spec": {"ingressClassName": "edge",
            "rules": [{"host": host, "http": {"paths": paths}}, {"http": {"paths": paths}}],
            "tls": [{"hosts": [host], "secretName": secret}, {"secretName": "tls"}]}});
        let secret = json!({"kind": "Secret", "metadata": {"namespace": "shop", "name": "tls"}, "data": {"tls.crt": pem, "tls.key": pem}});
        for object in [ingress, secret] {
            world.apply(&Event::Put(object));
        }
        world.merged();
    }
}
