//! Which site answers which server name.

use super::support::{TinyCa, certificates};
use crate::listener::{Choice, ListenerTls, SiteTlsId};
use crate::server::server_config;
use crate::survivors::TlsSurvivors;
use std::sync::Arc;
use tempfile::TempDir;
use tidegate_model::Tls;
use tidegate_model::address::parse_host_pattern;

/// A listener with these hosts, and what each `(server name, local address)` gets: the host as it was given, or `unknown`.
fn check(hosts: &[&str], cases: &[(Option<&str>, &str, &str)]) {
    let dir = TempDir::new().expect("a folder");
    let survivors = TlsSurvivors::new(dir.path().to_owned()).expect("survivors");
    let pair = TinyCa::new().issue(&["a.test"]).write(&dir, "server");
    let config = server_config(&Tls::default(), certificates(&[pair]), &survivors).expect("a configuration");
    let listener =
        ListenerTls::new(hosts.iter().enumerate().map(|(index, host)| {
            (parse_host_pattern(host).expect("a valid host"), SiteTlsId(index as u32), Arc::clone(&config))
        }));
    for (server_name, local_ip, expected) in cases {
        let seen = match listener.choose(*server_name, local_ip.parse().expect("an address")) {
            Choice::Config(_, SiteTlsId(index)) => hosts[index as usize],
            Choice::UnknownName => "unknown",
        };
        assert_eq!(seen, *expected, "for {server_name:?} at {local_ip}");
    }
}

#[test]
fn names_find_their_site() {
    let hosts = ["www.a.test", "*.a.test", "a.test", "*.b.a.test"];
    check(
        &hosts,
        &[
            (Some("www.a.test"), "127.0.0.1", "www.a.test"),
            (Some("WWW.A.Test"), "127.0.0.1", "www.a.test"),
            (Some("www.a.test."), "127.0.0.1", "www.a.test"),
            (Some("api.a.test"), "127.0.0.1", "*.a.test"),
            (Some("API.A.TEST"), "127.0.0.1", "*.a.test"),
            (Some("a.test"), "127.0.0.1", "a.test"),
            (Some("b.a.test"), "127.0.0.1", "*.a.test"),
            (Some("x.b.a.test"), "127.0.0.1", "*.b.a.test"),
            (Some("x.c.a.test"), "127.0.0.1", "unknown"),
            (Some("test"), "127.0.0.1", "unknown"),
            (Some(""), "127.0.0.1", "unknown"),
            (Some("other.test"), "127.0.0.1", "unknown"),
            (Some(&"a".repeat(300)), "127.0.0.1", "unknown"),
            (None, "127.0.0.1", "www.a.test"),
        ],
    );
}

#[test]
fn a_catch_all_takes_the_rest() {
    check(
        &["a.test", ""],
        &[
            (Some("a.test"), "127.0.0.1", "a.test"),
            (Some("other.test"), "127.0.0.1", ""),
            (Some(&"a".repeat(300)), "127.0.0.1", ""),
            (None, "127.0.0.1", ""),
        ],
    );
}

#[test]
fn addresses_are_found_by_where_the_client_connected() {
    check(
        &["a.test", "192.0.2.1", "[2001:db8::1]"],
        &[
            (None, "192.0.2.1", "192.0.2.1"),
            (None, "::ffff:192.0.2.1", "192.0.2.1"),
            (None, "2001:db8::1", "[2001:db8::1]"),
            (None, "192.0.2.9", "a.test"),
            (Some("192.0.2.1"), "192.0.2.1", "192.0.2.1"),
            (Some("a.test"), "192.0.2.1", "a.test"),
            (Some("other.test"), "192.0.2.1", "unknown"),
        ],
    );
}

#[test]
fn of_equal_hosts_the_first_counts_and_an_empty_listener_knows_nobody() {
    check(&["a.test", "A.test"], &[(Some("a.test"), "127.0.0.1", "a.test")]);
    check(&[], &[(None, "127.0.0.1", "unknown"), (Some("a.test"), "127.0.0.1", "unknown")]);
}
