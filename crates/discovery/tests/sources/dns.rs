//! DNS, asked of a name server that the test changes.

use crate::followed::{Followed, until};
use std::path::Path;
use std::time::Duration;
use tidegate_model::discover::{DnsDiscover, DnsQuestion};
use tidegate_model::{Discover, Scheme};
use tidegate_testkit::dns::{NameServer, NameServerConduct, Service};

const NAME: &str = "api.test";

fn server() -> NameServer {
    NameServer::start().expect("a name server")
}

/// Records of no time are asked for again after 20 ms.
fn follow(server: &NameServer, question: DnsQuestion) -> Followed {
    let discover = DnsDiscover {
        scheme: Scheme::Http,
        question,
        resolver: Some(server.address),
        ttl_least: Duration::from_millis(20),
        ttl_most: Duration::from_secs(300),
    };
    Followed::new(Discover::Dns(discover), Path::new("/"))
}

fn addresses(server: &NameServer) -> Followed {
    follow(server, DnsQuestion::Addresses { name: NAME.into(), port: 80 })
}

fn services(server: &NameServer) -> Followed {
    follow(server, DnsQuestion::Services { name: format!("_http._tcp.{NAME}") })
}

fn set_services(server: &NameServer, services: &[(u16, u16, u16, &str)]) {
    let services: Vec<Service> =
        services.iter().map(|(priority, weight, port, target)| Service::new(*priority, *weight, *port, target)).collect();
    server.set_services(&format!("_http._tcp.{NAME}"), 0, &services);
}

/// Some more look-ups have been made and understood.
fn asked_again(server: &NameServer) {
    let question = format!("A {NAME}");
    let before = server.count(&question);
    until("the name is asked for again", || server.count(&question) >= before + 3);
}

#[test]
fn addresses_of_both_families_are_servers_and_change_with_the_answer() {
    let server = server();
    server.set_addresses(NAME, 0, &["10.0.0.2", "10.0.0.1", "fd00::1"]);
    let followed = addresses(&server);
    followed.expect("10.0.0.1:80, 10.0.0.2:80, [fd00::1]:80");
    // The server gives them in another order each time.
    asked_again(&server);
    followed.expect_nothing();
    server.set_addresses(NAME, 0, &["10.0.0.3"]);
    // Between A and AAAA of one look-up the table may have changed.
    followed.expect_at_last("10.0.0.3:80");
}

#[test]
fn a_name_is_asked_for_again_when_its_time_is_over() {
    let server = server();
    server.set_addresses(NAME, 3600, &["10.0.0.1"]);
    let long = addresses(&server);
    long.expect("10.0.0.1:80");
    server.set_addresses("short.test", 1, &["10.0.0.1"]);
    let short = follow(&server, DnsQuestion::Addresses { name: "short.test".into(), port: 80 });
    short.expect("10.0.0.1:80");
    server.set_addresses("short.test", 1, &["10.0.0.2"]);
    short.expect("10.0.0.2:80");
    assert_eq!(server.count(&format!("A {NAME}")), 1);
}

#[test]
fn the_least_time_of_an_alias_counts() {
    let server = server();
    server.set_alias(NAME, 0, "real.test");
    server.set_addresses("real.test", 3600, &["10.0.0.1"]);
    let followed = addresses(&server);
    followed.expect("10.0.0.1:80");
    server.set_addresses("other.test", 3600, &["10.0.0.2"]);
    server.set_alias(NAME, 0, "other.test");
    followed.expect("10.0.0.2:80");
}

#[test]
fn the_last_good_answer_stands_while_there_is_none() {
    let server = server();
    let address = server.address;
    server.set_addresses(NAME, 0, &["10.0.0.1"]);
    let followed = addresses(&server);
    followed.expect("10.0.0.1:80");
    server.remove(NAME);
    followed.expect(&format!("fault {NAME}: the resolver {address} says NXDOMAIN"));
    server.set_addresses(NAME, 0, &[]);
    followed.expect(&format!("fault {NAME}: the resolver {address} knows no such record of this name"));
    server.set_conduct(NAME, NameServerConduct::Fails);
    followed.expect(&format!("fault {NAME}: the resolver {address} says SERVFAIL"));
    server.set_addresses(NAME, 0, &["10.0.0.1"]);
    server.set_conduct(NAME, NameServerConduct::Honest);
    followed.expect("recovered");
    asked_again(&server);
    followed.expect_nothing();
}

#[test]
fn a_name_that_does_not_exist_yet_is_found_when_it_does() {
    let server = server();
    server.set_negative_ttl(Some(0));
    let followed = addresses(&server);
    followed.expect(&format!("fault {NAME}: the resolver {} says NXDOMAIN", server.address));
    server.set_addresses(NAME, 0, &["10.0.0.1"]);
    followed.expect("10.0.0.1:80");
    followed.expect("recovered");
}

fn check_no_answer(conduct: NameServerConduct) {
    let server = server();
    server.set_addresses(NAME, 0, &["10.0.0.1"]);
    let followed = addresses(&server);
    followed.expect("10.0.0.1:80");
    server.set_conduct(NAME, conduct);
    server.set_addresses(NAME, 0, &["10.0.0.66"]);
    followed.expect(&format!("fault {NAME}: the resolver {} does not answer", server.address));
    server.set_addresses(NAME, 0, &["10.0.0.2"]);
    server.set_conduct(NAME, NameServerConduct::Honest);
    followed.expect("10.0.0.2:80");
    followed.expect("recovered");
}

#[test]
fn silence_is_no_answer() {
    check_no_answer(NameServerConduct::Silent);
}

#[test]
fn an_answer_to_another_question_is_none() {
    check_no_answer(NameServerConduct::WrongId);
}

#[test]
fn a_family_that_fails_keeps_its_servers() {
    let server = server();
    server.set_addresses(NAME, 0, &["10.0.0.1", "fd00::1"]);
    let followed = addresses(&server);
    followed.expect("10.0.0.1:80, [fd00::1]:80");
    server.set_conduct(&format!("AAAA {NAME}"), NameServerConduct::Fails);
    asked_again(&server);
    server.set_addresses(NAME, 0, &["10.0.0.2"]);
    followed.expect("10.0.0.2:80, [fd00::1]:80");
    server.set_conduct(&format!("AAAA {NAME}"), NameServerConduct::Honest);
    followed.expect("10.0.0.2:80");
}

#[test]
fn a_truncated_answer_goes_on_over_tcp() {
    let server = server();
    let many: Vec<String> = (100..250).map(|number| format!("10.0.0.{number}")).collect();
    server.set_addresses(NAME, 3600, &many.iter().map(String::as_str).collect::<Vec<_>>());
    server.set_conduct(NAME, NameServerConduct::Truncated);
    let followed = addresses(&server);
    let expected: Vec<String> = many.iter().map(|ip| format!("{ip}:80")).collect();
    followed.expect(&expected.join(", "));
}

#[test]
fn an_address_needs_no_look_up() {
    let server = server();
    let followed = follow(&server, DnsQuestion::Addresses { name: "10.0.0.7".into(), port: 80 });
    followed.expect("10.0.0.7:80");
    assert_eq!(server.count("A 10.0.0.7"), 0);
}

#[test]
fn names_of_this_machine_come_from_its_own_file() {
    let discover = DnsDiscover {
        scheme: Scheme::Https,
        question: DnsQuestion::Addresses { name: "localhost".into(), port: 8443 },
        resolver: None,
        ttl_least: DnsDiscover::TTL_LEAST,
        ttl_most: DnsDiscover::TTL_MOST,
    };
    let followed = Followed::new(Discover::Dns(discover), Path::new("/"));
    followed.expect_one_of(&["https://127.0.0.1:8443", "https://127.0.0.1:8443, https://[::1]:8443"]);
}

#[test]
fn service_records_bring_ports_weights_and_ranks() {
    let server = server();
    server.set_addresses("a.test", 0, &["10.0.0.1", "fd00::1"]);
    server.set_addresses("b.test", 0, &["10.0.0.2"]);
    set_services(&server, &[(10, 0, 8080, "a.test"), (10, 20, 8081, "B.test"), (99, 1, 8082, "a.test")]);
    let followed = services(&server);
    followed.expect("a.test:8080 at 10.0.0.1 and fd00::1, a.test:8082 at 10.0.0.1 and fd00::1 ^1, b.test:8081 at 10.0.0.2 *20");
    // They came with the records.
    assert_eq!(server.count("A a.test"), 0);
    server.set_additional(false);
    set_services(&server, &[(10, 0, 8080, "a.test")]);
    followed.expect("a.test:8080 at 10.0.0.1 and fd00::1");
    until("the target is asked for", || server.count("AAAA a.test") > 0);
    server.set_addresses("a.test", 0, &["10.0.0.9"]);
    followed.expect("a.test:8080 at 10.0.0.9");
}

#[test]
fn service_records_are_found_behind_an_alias() {
    let server = server();
    server.set_addresses("a.test", 0, &["10.0.0.1"]);
    server.set_services("_http._tcp.real.test", 3600, &[Service::new(0, 1, 80, "a.test")]);
    server.set_alias("middle.test", 3600, "_http._tcp.real.test");
    server.set_alias(&format!("_http._tcp.{NAME}"), 0, "middle.test");
    let followed = services(&server);
    followed.expect("a.test:80 at 10.0.0.1");
    // An alias that leads to itself ends.
    server.set_alias("middle.test", 0, "middle.test");
    followed.expect_fault_with("more than 8 times over");
}

#[test]
fn a_target_without_addresses_is_left_out_or_keeps_its_last() {
    let server = server();
    server.set_additional(false);
    server.set_addresses("a.test", 0, &["10.0.0.1"]);
    set_services(&server, &[(0, 1, 80, "a.test"), (0, 1, 80, "b.test")]);
    let followed = services(&server);
    let says = format!("the resolver {} says NXDOMAIN", server.address);
    followed.expect("a.test:80 at 10.0.0.1");
    followed.expect(&format!("remark _http._tcp.{NAME}: b.test: {says}; it is left out"));
    server.set_addresses("b.test", 0, &["10.0.0.2"]);
    followed.expect("a.test:80 at 10.0.0.1, b.test:80 at 10.0.0.2");
    followed.expect("recovered");
    server.remove("b.test");
    followed.expect(&format!("remark _http._tcp.{NAME}: b.test: {says}; its last addresses are used"));
    set_services(&server, &[(0, 1, 80, "a.test")]);
    followed.expect("a.test:80 at 10.0.0.1");
    followed.expect("recovered");
}

#[test]
fn a_service_that_is_not_offered_or_not_known_is_a_fault() {
    let server = server();
    let followed = services(&server);
    followed.expect(&format!("fault _http._tcp.{NAME}: the resolver {} says NXDOMAIN", server.address));
    set_services(&server, &[(0, 0, 0, ".")]);
    followed.expect(&format!("fault _http._tcp.{NAME}: the service is not offered, says its SRV record"));
}
