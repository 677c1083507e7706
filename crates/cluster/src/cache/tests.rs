//! What differs after news, and what stays.

use super::{Cache, Changes};
use crate::endpoints::Absence;
use crate::fault::Fault;
use crate::follower::Scope;
use crate::kind::{Kind, Part};
use crate::news::{KindNews, Told};
use crate::object::{EndpointSlice, Key, PortReference, Service};
use crate::page::{Line, Unreadable, line};
use crate::texts::Texts;
use crate::wanted::ConfigMapState;
use std::time::{Duration, Instant};
use tidegate_model::discover::Namespaces;

fn found<T: crate::object::Watched>(object: &str) -> crate::page::Found<T> {
    match line::<T>(format!(r#"{{"type":"ADDED","object":{object}}}"#).as_bytes(), &mut Texts::default()) {
        Ok(Line::Put(found)) => found,
        other => panic!("{object} is no object: {}", other.is_ok()),
    }
}

fn service(version: u32, port: u16) -> crate::page::Found<Service> {
    found(&format!(
        r#"{{"metadata":{{"name":"web","namespace":"shop","resourceVersion":"{version}"}},"spec":{{"ports":[{{"port":{port}}}]}}}}"#
    ))
}

fn slice(name: &str, service: &str, version: u32, address: &str) -> crate::page::Found<EndpointSlice> {
    found(&format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"shop","resourceVersion":"{version}","labels":{{"kubernetes.io/service-name":"{service}"}}}},
        "addressType":"IPv4","ports":[{{"port":8080}}],"endpoints":[{{"addresses":["{address}"]}}]}}"#
    ))
}

fn listed<T>(found: Vec<crate::page::Found<T>>) -> KindNews<T> {
    KindNews::Listed { found, unreadable: Vec::new() }
}

struct Known(Cache);

impl Known {
    /// One Service with two slices.
    fn new() -> Known {
        let mut known = Known(Cache::default());
        known.take(Told::Service(listed(vec![service(1, 80)])));
        known.take(Told::EndpointSlice(listed(vec![slice("a", "web", 2, "10.0.0.1"), slice("b", "web", 3, "10.0.0.2")])));
        known
    }

    fn take(&mut self, told: Told) -> Vec<String> {
        let Changes { endpoints, .. } = self.0.take_in(&None, told, Instant::now());
        endpoints.iter().map(ToString::to_string).collect()
    }

    fn servers(&self, port: u16) -> Result<Vec<String>, Absence> {
        let members = self.0.members(&Key::new("shop", "web"), &PortReference::Number(port), None)?;
        Ok(members.iter().map(|member| member.addresses[0].to_string()).collect())
    }
}

#[test]
fn nothing_is_known_before_all_of_it_is() {
    let mut known = Known(Cache::default());
    assert_eq!(known.servers(80), Err(Absence::NotListed));
    known.take(Told::Service(listed(vec![service(1, 80)])));
    assert_eq!(known.servers(80), Err(Absence::NotListed));
    assert!(!known.0.is_whole(Scope::ENDPOINTS));
    known.take(Told::EndpointSlice(listed(Vec::new())));
    assert_eq!(known.servers(80), Ok(Vec::new()));
    assert_eq!(known.servers(81), Err(Absence::NoPort));
    assert!(known.0.is_whole(Scope::ENDPOINTS));
}

#[test]
fn a_list_that_says_the_same_again_changes_nothing() {
    let mut known = Known::new();
    let same = || vec![slice("b", "web", 3, "10.0.0.2"), slice("a", "web", 2, "10.0.0.1")];
    assert_eq!(known.take(Told::EndpointSlice(listed(same()))), [""; 0]);
    // Another version in which nothing differs that anybody asks, as when labels change.
    assert_eq!(known.take(Told::EndpointSlice(KindNews::Put(slice("a", "web", 9, "10.0.0.1")))), [""; 0]);
    assert_eq!(known.take(Told::EndpointSlice(listed(vec![slice("a", "web", 9, "10.0.0.1")]))), ["shop/web"]);
    assert_eq!(known.servers(80), Ok(vec!["10.0.0.1:8080".to_owned()]));
}

#[test]
fn each_news_names_whom_it_is_about() {
    let mut known = Known::new();
    assert_eq!(known.take(Told::EndpointSlice(KindNews::Put(slice("a", "web", 4, "10.0.0.9")))), ["shop/web"]);
    assert_eq!(known.take(Told::EndpointSlice(KindNews::Put(slice("a", "api", 5, "10.0.0.9")))), ["shop/api", "shop/web"]);
    assert_eq!(known.servers(80), Ok(vec!["10.0.0.2:8080".to_owned()]));
    assert_eq!(known.take(Told::EndpointSlice(KindNews::Gone(Key::new("shop", "a")))), ["shop/api"]);
    assert_eq!(known.take(Told::EndpointSlice(KindNews::Gone(Key::new("shop", "a")))), [""; 0]);
    assert_eq!(known.take(Told::Service(KindNews::Put(service(6, 81)))), ["shop/web"]);
    assert_eq!(known.servers(81), Ok(vec!["10.0.0.2:8080".to_owned()]));
    assert_eq!(known.take(Told::Service(KindNews::Gone(Key::new("shop", "web")))), ["shop/web"]);
    assert_eq!(known.servers(81), Err(Absence::NoService));
}

#[test]
fn servers_alone_are_no_other_object() {
    let mut cache = Known::new().0;
    let mut take = |told: Told| {
        let changes = cache.take_in(&None, told, Instant::now());
        (changes.is_of_objects(), changes.is_empty())
    };
    assert_eq!(take(Told::EndpointSlice(KindNews::Put(slice("a", "web", 4, "10.0.0.9")))), (false, false));
    assert_eq!(take(Told::Service(KindNews::Put(service(6, 81)))), (true, false));
}

#[test]
fn what_cannot_be_read_stays_what_it_was() {
    let mut known = Known::new();
    let unreadable = || Unreadable { key: Some(Key::new("shop", "a")), problem: "it is odd".to_owned() };
    assert_eq!(known.take(Told::EndpointSlice(KindNews::Unreadable(unreadable()))), [""; 0]);
    let news = KindNews::Listed { found: vec![slice("b", "web", 3, "10.0.0.2")], unreadable: vec![unreadable()] };
    assert_eq!(known.take(Told::EndpointSlice(news)), [""; 0]);
    assert_eq!(known.servers(80), Ok(vec!["10.0.0.1:8080".to_owned(), "10.0.0.2:8080".to_owned()]));
    assert_eq!(known.0.state(Kind::EndpointSlice).unreadable.len(), 1);
    known.take(Told::EndpointSlice(KindNews::Put(slice("a", "web", 7, "10.0.0.1"))));
    assert_eq!(known.0.state(Kind::EndpointSlice).unreadable.len(), 0);
}

#[test]
fn a_fault_takes_nothing_away() {
    let mut known = Known::new();
    let fault = Fault::Forbidden { message: "no".to_owned() };
    assert_eq!(known.take(Told::EndpointSlice(KindNews::Fault(fault.clone()))), [""; 0]);
    assert_eq!(known.servers(80).map(|servers| servers.len()), Ok(2));
    assert_eq!(known.0.state(Kind::EndpointSlice).fault, Some(fault));
    known.take(Told::EndpointSlice(KindNews::Heard));
    assert_eq!(known.0.state(Kind::EndpointSlice).fault, None);
}

#[test]
fn who_may_not_see_a_kind_waits_for_it_only_if_nothing_can_be_served_without() {
    let check = |kind: Kind, told: &dyn Fn(Fault) -> Told, is_whole: bool| {
        let mut known = Known(Cache::default());
        known.take(told(Fault::Busy { message: "later".to_owned(), retry_after: None }));
        assert!(!known.0.is_whole(&[kind]), "{kind:?}");
        for (fault, refusals) in
            [(Fault::Forbidden { message: "no".to_owned() }, 4), (Fault::Missing { message: "none".to_owned() }, 0)]
        {
            for _ in 0..refusals {
                known.take(told(fault.clone()));
                assert!(!known.0.is_whole(&[kind]), "{kind:?}: a server that starts says so of rights that are there");
            }
            known.take(told(fault));
            assert_eq!(known.0.is_whole(&[kind]), is_whole, "{kind:?}");
            assert!(known.0.state(kind).is_closed && !known.0.state(kind).is_listed, "{kind:?}");
        }
    };
    check(Kind::Service, &|fault| Told::Service(KindNews::Fault(fault)), false);
    check(Kind::EndpointSlice, &|fault| Told::EndpointSlice(KindNews::Fault(fault)), false);
    check(Kind::Ingress, &|fault| Told::Ingress(KindNews::Fault(fault)), true);
    check(Kind::IngressClass, &|fault| Told::IngressClass(KindNews::Fault(fault)), true);
    check(Kind::Secret, &|fault| Told::Secret(KindNews::Fault(fault)), true);
    check(Kind::ConfigMap, &|fault| Told::ConfigMap(KindNews::Fault(fault)), true);
    assert_eq!(Known(Cache::default()).servers(80), Err(Absence::NotListed));
}

#[test]
fn a_server_that_shows_one_kind_is_believed_sooner_of_another() {
    let mut known = Known(Cache::default());
    let forbidden = || Fault::Forbidden { message: "no".to_owned() };
    known.take(Told::Service(listed(vec![service(1, 80)])));
    known.take(Told::Secret(KindNews::Fault(forbidden())));
    assert!(!known.0.is_whole(&[Kind::Service, Kind::Secret]));
    known.take(Told::Secret(KindNews::Fault(forbidden())));
    assert!(known.0.is_whole(&[Kind::Service, Kind::Secret]));
    let key = Key::new("shop", "tls");
    let later = Instant::now() + Duration::from_secs(60);
    known.0.want_secrets([key.clone()].into());
    for is_answered in [false, true] {
        let _ = known.0.secrets_mut().take_due(later, 1);
        known.take(Told::FetchedSecret(key.clone(), Err(forbidden())));
        assert_eq!(known.0.has_answered(), is_answered);
    }
    known.0.want_config_maps([key.clone()].into());
    for is_answered in [false, true] {
        let _ = known.0.config_maps_mut().take_due(later, 1);
        known.take(Told::FetchedConfigMap(key.clone(), Err(forbidden())));
        assert_eq!(known.0.has_answered(), is_answered);
    }
    assert_eq!(known.0.config_map(&key), ConfigMapState::Fault(forbidden()));
}

#[test]
fn news_are_as_old_as_what_was_heard_least_of() {
    let mut cache = Cache::default();
    let (kinds, began) = ([Kind::Service, Kind::EndpointSlice, Kind::Secret], Instant::now());
    let after = |seconds: u64| began + Duration::from_secs(seconds);
    cache.take_in(&None, Told::Service(listed(vec![service(1, 80)])), after(1));
    assert_eq!(cache.news_of(&kinds), None, "not all of it is known");
    cache.take_in(&None, Told::EndpointSlice(KindNews::Recalled(Vec::new())), after(2));
    cache.take_in(&None, Told::Secret(KindNews::Fault(Fault::Forbidden { message: "no".to_owned() })), after(2));
    assert_eq!(cache.news_of(&kinds), None, "it is known as it was once");
    cache.take_in(&None, Told::EndpointSlice(listed(Vec::new())), after(3));
    assert_eq!(cache.news_of(&kinds), Some(after(1)), "what may not be seen has no news");
    cache.take_in(&None, Told::Service(KindNews::Heard), after(9));
    cache.take_in(&None, Told::Service(KindNews::Fault(Fault::NoCluster)), after(10));
    assert_eq!(cache.news_of(&kinds), Some(after(3)));
    cache.want_secrets([Key::new("shop", "tls")].into());
    assert_eq!(cache.news_of(&kinds), None, "one that is wanted was not answered for");
}

#[test]
fn namespaces_that_are_followed_one_by_one_do_not_wait_for_each_other() {
    let mut cache = Cache::of(&Namespaces::named(["gone".to_owned(), "shop".to_owned()]));
    let (gone, shop): (Part, Part) = (Some("gone".into()), Some("shop".into()));
    let servers = |cache: &Cache, namespace: &str| {
        cache.members(&Key::new(namespace, "web"), &PortReference::Number(80), None).map(|members| members.len())
    };
    let forbidden = || Fault::Forbidden { message: "no".to_owned() };
    let now = Instant::now();
    for _ in 0..5 {
        cache.take_in(&gone, Told::Service(KindNews::Fault(forbidden())), now);
        cache.take_in(&gone, Told::EndpointSlice(KindNews::Fault(forbidden())), now);
    }
    assert!(!cache.is_whole(Scope::ENDPOINTS));
    cache.take_in(&shop, Told::Service(listed(vec![service(1, 80)])), now);
    assert_eq!(servers(&cache, "shop"), Err(Absence::NotListed));
    cache.take_in(&shop, Told::EndpointSlice(listed(vec![slice("a", "web", 2, "10.0.0.1")])), now);
    assert_eq!(servers(&cache, "shop"), Ok(1));
    assert!(cache.is_whole(Scope::ENDPOINTS), "who deletes a namespace, and the rights in it, keeps nobody else waiting");
    assert_eq!(servers(&cache, "gone"), Err(Absence::NotListed));
    assert_eq!(servers(&cache, "other"), Err(Absence::NotListed));
    cache.take_in(&gone, Told::EndpointSlice(listed(Vec::new())), now);
    assert_eq!(servers(&cache, "shop"), Ok(1), "a list of one namespace says nothing of others");
    cache.take_in(&shop, Told::EndpointSlice(listed(Vec::new())), now);
    assert_eq!(servers(&cache, "shop"), Ok(0));
}

#[test]
fn a_pod_finds_out_that_others_know_of_its_end() {
    let with = |name: &str, conditions: &str| {
        found::<EndpointSlice>(&format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"shop"}},"addressType":"IPv4","endpoints":[
            {{"addresses":["10.0.0.6"]}},{{"addresses":["10.0.0.7"],"conditions":{conditions}}}]}}"#
        ))
    };
    let check = |slices: &[&str], expected: Option<bool>| {
        let mut known = Known::new();
        for (number, conditions) in slices.iter().enumerate() {
            known.take(Told::EndpointSlice(KindNews::Put(with(&format!("own-{number}"), conditions))));
        }
        let leaving = |address: &str| known.0.is_leaving(address.parse().expect("an address"));
        assert_eq!((leaving("10.0.0.7"), leaving("10.0.0.99")), (expected, None), "{slices:?}");
    };
    let ends = r#"{"ready":false,"serving":true,"terminating":true}"#;
    check(&[], None);
    check(&["{}"], Some(false));
    check(&[r#"{"ready":false}"#], Some(false));
    check(&[ends], Some(true));
    check(&[r#"{"ready":false,"serving":false,"terminating":true}"#], Some(true));
    check(&[r#"{"ready":true,"serving":true,"terminating":true}"#], Some(true));
    check(&["{}", ends], Some(true));
}

#[test]
fn a_version_that_comes_again_may_mean_something_else() {
    let mut known = Known::new();
    assert_eq!(known.take(Told::EndpointSlice(KindNews::Rewound)), [""; 0]);
    let list = vec![slice("a", "web", 2, "10.0.0.7"), slice("b", "web", 3, "10.0.0.2")];
    assert_eq!(known.take(Told::EndpointSlice(listed(list))), ["shop/web"]);
    assert_eq!(known.servers(80), Ok(vec!["10.0.0.2:8080".to_owned(), "10.0.0.7:8080".to_owned()]));
}
