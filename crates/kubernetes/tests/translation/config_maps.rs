//! What holds whatever the ConfigMap of ingress-nginx says: nothing panics, each of its keys is answered, and what it
//! has all Ingresses protected by guards every one of them, or shuts it.

use crate::cases::key;
use crate::kdl;
use crate::properties::{Event, World, annotation, assert_same, event, from_scratch, ingresses_after};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tidegate_cluster::Kind;
use tidegate_kubernetes::{Checked, Fate, KEYS, Merged, Settings};
use tidegate_model::discover::{Cluster, Namespaces};
use tidegate_model::{Configuration, Route, Step};

/// Keys that guard, which are drawn more often than others.
const GUARDING: [&str; 12] = [
    "whitelist-source-range",
    "denylist-source-range",
    "global-auth-url",
    "global-auth-method",
    "global-auth-signin",
    "no-auth-locations",
    "block-cidrs",
    "block-user-agents",
    "block-referers",
    "server-snippet",
    "location-snippet",
    "enable-modsecurity",
];
const VALUES: [&str; 24] = [
    "true",
    "false",
    "",
    "0",
    "10.0.0.0/8",
    "10.0.0.0/8, 192.0.2.1",
    "10.0.0.0/33",
    "http://web.shop.svc/check",
    "https://auth.example.com/check",
    "/a,/b",
    "curl,~*bot",
    "~*(bot",
    "shop/fields",
    "shop/missing",
    "TLSv1.3",
    "404,503",
    "60s",
    "100",
    "add_header X-A a;",
    "deny all;",
    "if ($http_x_bad) { return 403; }",
    "access_by_lua_file a.lua;",
    "$remote_addr $request",
    "POST",
];

fn entry() -> impl Strategy<Value = (String, String)> {
    let name = prop_oneof![
        4 => select(&GUARDING[..]).prop_map(str::to_owned),
        4 => (0..KEYS.len()).prop_map(|place| KEYS[place].name.to_owned()),
        1 => "[a-z-]{1,20}",
    ];
    let value = prop_oneof![8 => select(&VALUES[..]).prop_map(str::to_owned), 1 => ".{0,30}"];
    (name, value)
}

fn config_map(entries: &[(String, String)]) -> Value {
    let data: Map<String, Value> = entries.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({"kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "config"}, "data": data})
}

/// A ConfigMap whose fields are read, and go nowhere else.
fn fields() -> Event {
    Event::Put(json!({"kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "fields"}, "data": {"X-Field": "$host"}}))
}

/// Of the controller of ingress-nginx, so that the ConfigMap holds for its Ingresses.
fn class() -> Event {
    Event::Put(json!({"kind": "IngressClass", "metadata": {"name": "edge"}, "spec": {"controller": "k8s.io/ingress-nginx"}}))
}

fn settings() -> Settings {
    Settings {
        controllers: vec!["k8s.io/ingress-nginx".to_owned()],
        ingress_nginx_config: Some(key("shop/config")),
        ..Settings::new(Cluster { api: None, namespaces: Namespaces::All })
    }
}

/// Each key has a fate, and where that is not simply taken somebody says why.
fn assert_answered(checked: &Checked, entries: &BTreeMap<String, String>) {
    let config = checked.config.as_ref().expect("the ConfigMap");
    for name in entries.keys() {
        let of_it = config.keys.iter().find(|key| key.name == *name);
        let of_it = of_it.unwrap_or_else(|| panic!("`{name}` is not answered"));
        let is_said = matches!(of_it.fate, Fate::Taken | Fate::Needless) || !of_it.says.is_empty();
        assert!(is_said, "{of_it:?}");
    }
}

/// No route of an Ingress leads to a server without what the ConfigMap guards by, unless its Ingress says otherwise.
fn assert_guarded(merged: &Merged, checked: &Checked, entries: &BTreeMap<String, String>, ingresses: &BTreeMap<String, Value>) {
    let config = checked.config.as_ref().expect("the ConfigMap");
    let is_shut = config.keys.iter().any(|key| key.fate == Fate::Shut);
    let said = |name: &str| entries.get(name).is_some_and(|value| !value.trim().is_empty());
    for (site, route) in merged.sites.iter().flat_map(|site| site.routes.iter().map(move |route| (site, route))) {
        let Some(origin) = &route.origin else { continue };
        let Some(ingress) = ingresses.get(&format!("{}/{}", origin.namespace, origin.name)) else { continue };
        if route.terminal.pools().next().is_none() {
            continue;
        }
        assert!(!is_shut, "{config:?}\n{route:?}");
        let has = |is_one: fn(&Step) -> bool| route.steps.iter().flat_map(Step::parts).any(is_one);
        let is_silent = |name: &str| annotation(ingress, name).is_empty();
        if said("whitelist-source-range") && is_silent("whitelist-source-range") {
            assert!(has(|step| matches!(step, Step::Allow(_))), "{route:?}");
        }
        if said("denylist-source-range") && is_silent("denylist-source-range") {
            assert!(has(|step| matches!(step, Step::Deny(_))), "{route:?}");
        }
        if said("global-auth-url") && is_silent("auth-url") && is_silent("enable-global-auth") && !said("no-auth-locations") {
            let is_challenge = shown(route).contains("acme-challenge");
            assert!(is_challenge || has(|step| matches!(step, Step::ForwardAuth(Some(_)))), "{route:?}");
        }
        let denies = |name: &str| entries.get(name).is_some_and(|value| value == "deny all;");
        if denies("location-snippet") || denies("server-snippet") {
            // What an Ingress says of networks itself takes the place of it.
            assert!(has(|step| matches!(step, Step::Allow(_) | Step::Deny(_))), "{route:?}");
        }
        if said("block-cidrs") {
            assert!(site.steps.iter().any(|step| matches!(step, Step::Deny(_))), "{site:?}");
        }
    }
}

fn shown(route: &Route) -> String {
    format!("{:?}", route.paths)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_it_protects_by_guards_or_shuts_and_each_key_is_answered(
        before in vec(entry(), 0..4),
        now in vec(entry(), 0..8),
        events in vec(event(), 0..10),
    ) {
        // Later ones are those that a class of another controller would take away.
        let events: Vec<Event> = events.into_iter().filter(|event| !is_class(event)).collect();
        let all = |map: &[(String, String)]| {
            let map = Event::Put(config_map(map));
            [class(), fields(), map].into_iter().chain(events.iter().cloned()).collect::<Vec<_>>()
        };
        let mut world = World::new(settings());
        world.apply_all(&all(&before));
        world.merged();
        world.apply(&Event::Put(config_map(&now)));
        let served = world.all();
        // What came one after the other is as if it had come at once.
        assert_same(&served, &from_scratch(settings(), &all(&now)));
        kdl::check(&served.merged);
        let entries: BTreeMap<String, String> = now.into_iter().collect();
        let checked = world.translation.check(&Configuration::default());
        assert_answered(&checked, &entries);
        assert_guarded(&served.merged, &checked, &entries, &ingresses_after(&events));
        // Gone, what it said last holds.
        world.apply(&Event::Remove(Kind::ConfigMap, "shop/config".to_owned()));
        let after = world.all();
        assert_eq!(&served.merged.sites, &after.merged.sites);
    }
}

fn is_class(event: &Event) -> bool {
    matches!(event, Event::Put(object) if object["kind"] == "IngressClass")
}
