//! Waiting until every server of a zone has a value: real name servers, two of them on different addresses with
//! different contents.

use crate::named::{KEY_NAME, KEY_SECRET, Named, UPDATE, Zone};
use crate::{lookup, publisher_with, run};
use std::time::Duration;
use tidegate_dns_records::{Confirmation, PropagationFault, Publisher, Seen, await_published};
use tidegate_model::{DnsProvider, Rfc2136, Secret, TsigAlgorithm, TsigKey};
use tidegate_testkit::tokio;

/// Only ever reached by a test that fails.
const LONG: Duration = Duration::from_secs(60);

const ONE: Zone<'static> =
    Zone { name: "one.test", records: "@ NS ns1\nns1 A 127.0.0.1\nalias CNAME x.two.one.test.\n", update: UPDATE };
const TWO: Zone<'static> =
    Zone { name: "two.test", records: "@ NS ns1\n@ NS ns2\nns1 A 127.0.0.1\nns2 A 127.0.0.2\n", update: UPDATE };
const HALF: Zone<'static> = Zone {
    name: "half.test",
    records: "@ NS ns1\n@ NS ns3\n@ NS gone.one.test.\nns1 A 127.0.0.1\nns3 A 127.0.0.3\n",
    update: UPDATE,
};
const FAR: Zone<'static> = Zone { name: "far.test", records: "@ NS ns3\nns3 A 127.0.0.3\n", update: UPDATE };
const TOP: Zone<'static> = Zone { name: "test", records: "@ NS ns1.one.test.\n", update: "" };

fn publisher(named: &Named) -> Publisher {
    let key = TsigKey { name: KEY_NAME.into(), algorithm: TsigAlgorithm::HmacSha256, secret: Secret::new(KEY_SECRET) };
    let provider = DnsProvider::Rfc2136(Rfc2136 { server: named.address, key: Some(key), zone: None });
    publisher_with(provider, lookup(named.address)).expect("a publisher")
}

async fn publish(named: &Named, name: &str) -> Result<Confirmation, PropagationFault> {
    let done = publisher(named).publish(name, "words").await.expect("published");
    await_published(&lookup(named.address), &done.name, "words", LONG).await
}

fn authoritative(zone: &str, servers: &[&str], unreached: &[String]) -> Confirmation {
    let servers = servers.iter().map(|server| (*server).to_owned()).collect();
    Confirmation { seen: Seen::Authoritative { zone: zone.into(), servers }, unreached: unreached.to_vec() }
}

#[test]
fn every_server_of_the_zone_has_to_have_it() {
    let Some(first) = Named::start(&[TOP, ONE, TWO]) else { return };
    let second = first.beside(&[TWO]);
    run(async {
        assert_eq!(publish(&first, "a.one.test").await, Ok(authoritative("one.test", &["ns1.one.test"], &[])));
        // The second server hears of nothing until it is told by itself, which is while the first is being waited for.
        let done = publisher(&first).publish("a.two.test", "words").await.expect("published");
        publisher(&second).publish("a.two.test", "other").await.expect("published");
        let lookup = lookup(first.address);
        let missing = await_published(&lookup, &done.name, "words", Duration::from_secs(4)).await.expect_err("one lacks it");
        assert_eq!(missing.to_string(), "the TXT record of a.two.test is not there after 4s: ns2.two.test has other");
        let waiting = tokio::spawn(async move { await_published(&lookup, "a.two.test", "words", LONG).await });
        tokio::task::yield_now().await;
        publisher(&second).publish("a.two.test", "words").await.expect("published");
        let mut confirmed = waiting.await.expect("no panic").expect("both have it");
        if let Seen::Authoritative { servers, .. } = &mut confirmed.seen {
            servers.sort();
        }
        assert_eq!(confirmed, authoritative("two.test", &["ns1.two.test", "ns2.two.test"], &[]));
    });
}

#[test]
fn an_alias_leads_to_the_servers_of_another_zone() {
    let Some(first) = Named::start(&[
        TOP,
        ONE,
        Zone { records: "@ NS ns1\nns1 A 127.0.0.1\n", ..TWO },
        Zone { name: "x.two.one.test", records: "@ NS ns1.one.test.\n", update: UPDATE },
    ]) else {
        return;
    };
    run(async {
        let done = publisher(&first).publish("alias.one.test", "words").await.expect("published");
        let confirmed = await_published(&lookup(first.address), "alias.one.test", "words", LONG).await;
        assert_eq!(
            (done.name.as_str(), confirmed),
            ("x.two.one.test", Ok(authoritative("x.two.one.test", &["ns1.one.test"], &[])))
        );
    });
}

#[test]
fn servers_out_of_reach_are_left_aside_and_named() {
    let Some(named) = Named::start(&[TOP, ONE, HALF]) else { return };
    let silent =
        format!("ns3.half.test: a.half.test cannot be looked up: 127.0.0.3:{} refuses to be asked", named.address.port());
    run(async {
        let unreached = ["gone.one.test: its name has no address".to_owned(), silent];
        assert_eq!(publish(&named, "a.half.test").await, Ok(authoritative("half.test", &["ns1.half.test"], &unreached)));
    });
}

#[test]
fn with_all_servers_out_of_reach_the_resolver_is_asked() {
    let Some(named) = Named::start(&[TOP, ONE, FAR]) else { return };
    let why = format!("ns3.far.test: a.far.test cannot be looked up: 127.0.0.3:{} refuses to be asked", named.address.port());
    run(async {
        let confirmed = publish(&named, "a.far.test").await;
        let seen = Seen::Recursive { whom: format!("the resolver {}", named.address), why: why.clone() };
        assert_eq!(confirmed, Ok(Confirmation { seen, unreached: vec![why] }));
        // What a resolver lacks, it may have been told before: that is no fault, and no proof.
        let other = await_published(&lookup(named.address), "a.far.test", "other", Duration::from_secs(2)).await;
        let other = other.expect("nobody says that it is not there");
        assert_eq!(other.seen, Seen::Nobody { whom: format!("the resolver {}", named.address), why: other.unreached.join("; ") });
    });
}
