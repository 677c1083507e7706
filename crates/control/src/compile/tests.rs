//! What is gathered again for a change, and what stays.

use super::{Material, News, Numbers, SharedState, gather, gather_with};
use crate::discovery::Followers;
use crate::names::tests::Resolver;
use crate::names::{Found, Name};
use crate::sticky::CookieKeys;
use jiff::Timestamp;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidegate_certs::TlsProcessState;
use tidegate_discovery::Endpoint;
use tidegate_model::{Configuration, Delta, Server, UpstreamAddress};
use tidegate_proxy::process_state::ProcessState;
use tidegate_telemetry::Registry;

const NUMBERS: Numbers = Numbers { generation: 1, serial: 1, workers: 1 };

fn configuration(pools: &str) -> Arc<Configuration> {
    let text = format!("{pools}\nsite \"http://:80\" {{ proxy \"a\" }}\n");
    let loaded = tidegate_config::load_text("test.kdl", &text, Path::new("."));
    Arc::new(loaded.configuration.unwrap_or_else(|| panic!("{text}: {:?}", loaded.diagnostics)))
}

/// How many addresses each server has, by pool.
fn addresses(material: &Material) -> Vec<(String, Vec<usize>)> {
    let pools = material.snapshot.pools.iter().flatten();
    let count = |pool: &Arc<super::CompiledPool>| pool.servers.iter().map(|server| server.addresses.tcp().len()).collect();
    let mut counts: Vec<_> = pools.map(|pool| (pool.name.to_string(), count(pool))).collect();
    counts.sort();
    counts
}

#[test]
fn a_server_that_is_leaving_when_it_is_found_gets_no_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let process = ProcessState::new(Arc::new(Registry::new("test")));
    let tls = TlsProcessState::new(folder.path().to_owned()).expect("a provider");
    let (names, _events) = Resolver::default().names(Duration::from_secs(60));
    let cookie_keys = CookieKeys::new(folder.path().to_owned());
    let followers = Followers::default();
    let state = SharedState { process: &process, tls: &tls, names: &names, cookie_keys: &cookie_keys, followers: &followers };
    let now = Timestamp::UNIX_EPOCH;
    let configuration = configuration("pool \"a\" { server \"192.0.2.1:80\"; discover file=\"/nowhere/servers.json\"; }");
    let before = gather(configuration.clone(), &Delta::all_of(&configuration), None, state, NUMBERS, now).expect("it compiles");
    let gathered = |is_leaving: bool| {
        let address = UpstreamAddress::parse("192.0.2.2:80").expect("an address");
        let found = Endpoint { server: Server::new(address), addresses: Vec::new(), is_leaving };
        let mut news = News::default();
        news.discovered.set(&configuration.pools[0].discover[0], vec![found]);
        news.pools.insert(configuration.pools[0].name.clone());
        gather_with(configuration.clone(), &Delta::default(), Some(&before), state, NUMBERS, now, &news).expect("it compiles")
    };
    let leaving = |material: &Material| -> Vec<bool> {
        let servers = material.snapshot.pools.iter().flatten().flat_map(|pool| &pool.servers);
        servers.map(|server| server.shared.health.is_leaving()).collect()
    };
    let found = gathered(true);
    assert_eq!(leaving(&found), [false, true]);
    assert_eq!(leaving(&gathered(false)), [false, false], "it stays after all");
    assert_eq!(leaving(&found), [false, false], "the same servers");
}

#[test]
fn a_server_that_is_leaving_gets_requests_while_no_other_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let process = ProcessState::new(Arc::new(Registry::new("test")));
    let tls = TlsProcessState::new(folder.path().to_owned()).expect("a provider");
    let (names, _events) = Resolver::default().names(Duration::from_secs(60));
    let cookie_keys = CookieKeys::new(folder.path().to_owned());
    let followers = Followers::default();
    let state = SharedState { process: &process, tls: &tls, names: &names, cookie_keys: &cookie_keys, followers: &followers };
    let now = Timestamp::UNIX_EPOCH;
    let configuration = configuration("pool \"a\" { discover file=\"/nowhere/servers.json\"; }");
    let before = gather(configuration.clone(), &Delta::all_of(&configuration), None, state, NUMBERS, now).expect("it compiles");
    let check = |leave: &[bool], expected: &[bool]| {
        let found = leave.iter().enumerate().map(|(number, is_leaving)| {
            let address = UpstreamAddress::parse(&format!("192.0.2.{number}:80")).expect("an address");
            Endpoint { server: Server::new(address), addresses: Vec::new(), is_leaving: *is_leaving }
        });
        let mut news = News::default();
        news.discovered.set(&configuration.pools[0].discover[0], found.collect());
        news.pools.insert(configuration.pools[0].name.clone());
        let gathered = gather_with(configuration.clone(), &Delta::default(), Some(&before), state, NUMBERS, now, &news);
        let material = gathered.expect("it compiles");
        let servers = material.snapshot.pools.iter().flatten().flat_map(|pool| &pool.servers);
        let found: Vec<bool> = servers.map(|server| server.shared.health.is_leaving()).collect();
        assert_eq!(found, expected, "{leave:?}");
    };
    check(&[true, false], &[true, false]);
    check(&[true, true], &[false, false]);
    check(&[false, true], &[false, true]);
    check(&[true], &[false]);
    check(&[], &[]);
}

#[test]
fn news_of_one_pool_do_not_wait_for_files_of_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = rcgen::generate_simple_self_signed(["a.test".to_owned()]).expect("a certificate").cert.pem();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, authority).expect("written");
    let process = ProcessState::new(Arc::new(Registry::new("test")));
    let tls = TlsProcessState::new(folder.path().to_owned()).expect("a provider");
    let (names, _events) = Resolver::default().names(Duration::from_secs(60));
    let cookie_keys = CookieKeys::new(folder.path().to_owned());
    let followers = Followers::default();
    let state = SharedState { process: &process, tls: &tls, names: &names, cookie_keys: &cookie_keys, followers: &followers };
    let now = Timestamp::UNIX_EPOCH;
    let a = format!("pool \"a\" {{ server \"https://192.0.2.1\"; tls ca=\"{}\" }}", file.display());
    let b = "pool \"b\" { discover file=\"/nowhere/servers.json\"; }";
    let configuration = configuration(&format!("{a}\n{b}"));
    let before = gather(configuration.clone(), &Delta::all_of(&configuration), None, state, NUMBERS, now).expect("it compiles");
    std::fs::remove_file(&file).expect("removed");
    let mut news = News::default();
    let address = UpstreamAddress::parse("192.0.2.2:80").expect("an address");
    let found = Endpoint { server: Server::new(address), addresses: Vec::new(), is_leaving: false };
    news.discovered.set(&configuration.pools[1].discover[0], vec![found]);
    news.pools = configuration.pools.iter().map(|pool| pool.name.clone()).collect();
    let after =
        gather_with(configuration.clone(), &Delta::default(), Some(&before), state, NUMBERS, now, &news).expect("it compiles");
    assert_eq!(addresses(&after), [("a".to_owned(), vec![1]), ("b".to_owned(), vec![1])]);
    let trust = |material: &Material| {
        let pool = material.snapshot.pool_named(&tidegate_model::PoolName("a".into())).expect("there");
        pool.tls.as_ref().expect("it has TLS").any.clone()
    };
    assert!(Arc::ptr_eq(&trust(&before), &trust(&after)), "what was read before is used");
    let of_all = Delta::all_of(&configuration);
    assert!(gather(configuration, &of_all, Some(&before), state, NUMBERS, now).is_err(), "a change is refused");
}

#[test]
fn only_names_that_are_new_are_looked_up_and_those_found_later_are_taken_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let process = ProcessState::new(Arc::new(Registry::new("test")));
    let tls = TlsProcessState::new(folder.path().to_owned()).expect("a provider");
    let resolver = Resolver::default();
    let (names, _events) = resolver.names(Duration::from_secs(60));
    let cookie_keys = CookieKeys::new(folder.path().to_owned());
    let followers = Followers::default();
    let state = SharedState { process: &process, tls: &tls, names: &names, cookie_keys: &cookie_keys, followers: &followers };
    let now = Timestamp::UNIX_EPOCH;
    let expect = |seen: &Material, a: &[usize], b: &[usize]| {
        assert_eq!(addresses(seen), [("a".to_owned(), a.to_vec()), ("b".to_owned(), b.to_vec())]);
    };
    let a = "pool \"a\" { server \"good.test:80\"; server \"dead.test:80\"; server \"192.0.2.1:80\" }";
    let b = "pool \"b\" { server \"dead.test:81\" }";
    let of_two = configuration(&format!("{a}\n{b}"));
    let first = gather(of_two.clone(), &Delta::all_of(&of_two), None, state, NUMBERS, now).expect("it compiles");
    expect(&first, &[1, 0, 1], &[0]);
    assert_eq!(resolver.take_asked(), ["dead.test", "dead.test", "good.test"]);
    // Another pool changes: what has no address in this one does not hold up the change.
    let b = "pool \"b\" { server \"dead.test:81\"; server \"other.test:80\" }";
    let changed = configuration(&format!("{a}\n{b}"));
    let delta = Delta::between(&of_two, &changed);
    let second = gather(changed, &delta, Some(&first), state, NUMBERS, now).expect("it compiles");
    expect(&second, &[1, 0, 1], &[0, 1]);
    assert_eq!(resolver.take_asked(), ["dead.test", "other.test"]);
    let found = Found::from([(Name { host: "dead.test".into(), port: 80 }, vec![SocketAddr::from(([127, 0, 0, 1], 80))])]);
    let pools = second.configuration.pools.iter().map(|pool| pool.name.clone()).collect();
    let news = News { found, pools, ..News::default() };
    let third = gather_with(second.configuration.clone(), &Delta::default(), Some(&second), state, NUMBERS, now, &news)
        .expect("it compiles");
    expect(&third, &[1, 1, 1], &[0, 1]);
    assert!(resolver.take_asked().is_empty());
    let pool = |material: &Material, name: &str| material.snapshot.pool_named(&tidegate_model::PoolName(name.into())).cloned();
    let (before, after) = (pool(&second, "b").expect("there"), pool(&third, "b").expect("there"));
    assert!(Arc::ptr_eq(&before, &after), "a pool without news stays as it is");
}

#[test]
fn with_more_workers_each_site_has_counters_for_all_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let process = ProcessState::new(Arc::new(Registry::new("test")));
    let tls = TlsProcessState::new(folder.path().to_owned()).expect("a provider");
    let (names, _events) = Resolver::default().names(Duration::from_secs(60));
    let cookie_keys = CookieKeys::new(folder.path().to_owned());
    let followers = Followers::default();
    let state = SharedState { process: &process, tls: &tls, names: &names, cookie_keys: &cookie_keys, followers: &followers };
    let now = Timestamp::UNIX_EPOCH;
    let text = "site \"a.test\" { tls \"internal\"; respond 200; }\nsite \"http://b.test\" { respond 200; }\n";
    let loaded = tidegate_config::load_text("test.kdl", text, Path::new("."));
    let configuration = Arc::new(loaded.configuration.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics)));
    let first = gather(configuration.clone(), &Delta::all_of(&configuration), None, state, NUMBERS, now).expect("it compiles");
    let more = Numbers { workers: 3, ..NUMBERS };
    let second = gather(configuration, &Delta::default(), Some(&first), state, more, now).expect("it compiles");
    let counters =
        |material: &Material| -> Vec<usize> { material.snapshot.sites.iter().map(|site| site.counters.len()).collect() };
    let names_of =
        |material: &Material| -> Vec<Arc<str>> { material.snapshot.sites.iter().map(|site| site.name.clone()).collect() };
    assert_eq!(counters(&first), [1, 1, 1], "two sites, and the redirects to HTTPS");
    assert_eq!(counters(&second), [3, 3, 3]);
    assert_eq!(names_of(&first), names_of(&second));
}
