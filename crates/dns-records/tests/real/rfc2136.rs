//! Dynamic updates of a real name server, and what it says when it refuses them.

use crate::named::{KEY_NAME, KEY_SECRET, Named, UPDATE, Zone};
use crate::{lookup, published, publisher_with, run};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use tidegate_dns_records::{DnsFault, Lookup};
use tidegate_model::{DnsProvider, Rfc2136, Secret, TsigAlgorithm, TsigKey};

const NAME: &str = "_acme-challenge.example.test";
const RECORDS: &str = "@ NS ns1\nns1 A 127.0.0.1\n_acme-challenge.alias CNAME x.other.test.\n";

fn zones() -> [Zone<'static>; 3] {
    [
        Zone { name: "example.test", records: RECORDS, update: UPDATE },
        Zone { name: "other.test", records: "@ NS ns1\nns1 A 127.0.0.1\n", update: UPDATE },
        Zone { name: "closed.test", records: "@ NS ns1\nns1 A 127.0.0.1\n", update: "" },
    ]
}

struct Settings<'a> {
    key: Option<(&'a str, &'a str, TsigAlgorithm)>,
    zone: Option<&'a str>,
}

const RIGHT: Settings<'static> = Settings { key: Some((KEY_NAME, KEY_SECRET, TsigAlgorithm::HmacSha256)), zone: None };

fn provider(server: SocketAddr, settings: &Settings) -> DnsProvider {
    let key = settings.key.map(|(name, secret, algorithm)| TsigKey { name: name.into(), algorithm, secret: Secret::new(secret) });
    DnsProvider::Rfc2136(Rfc2136 { server, key, zone: settings.zone.map(Into::into) })
}

async fn values(lookup: &Lookup, server: SocketAddr, name: &str) -> Vec<String> {
    let values = lookup.txt_at(server, name).await.expect("an answer");
    values.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}

#[test]
fn values_stand_beside_each_other_and_go_one_by_one() {
    let check = |algorithm: TsigAlgorithm, spelt: &str| {
        let Some(named) = Named::start_with(spelt, &zones()) else { return };
        run(async {
            let lookup = lookup(named.address);
            let settings = Settings { key: Some((KEY_NAME, KEY_SECRET, algorithm)), zone: None };
            let publisher = publisher_with(provider(named.address, &settings), lookup.clone()).expect("a publisher");
            let first = publisher.publish(NAME, "first").await.expect("published");
            let second = publisher.publish(NAME, "second").await.expect("published");
            publisher.publish(NAME, "first").await.expect("published again");
            assert_eq!(values(&lookup, named.address, NAME).await, ["first", "second"]);
            publisher.withdraw(&first).await.expect("withdrawn");
            publisher.withdraw(&first).await.expect("withdrawn again");
            assert_eq!(values(&lookup, named.address, NAME).await, ["second"]);
            publisher.withdraw(&second).await.expect("withdrawn");
            assert!(values(&lookup, named.address, NAME).await.is_empty());
        });
    };
    check(TsigAlgorithm::HmacSha256, "hmac-sha256");
    check(TsigAlgorithm::HmacSha384, "hmac-sha384");
    check(TsigAlgorithm::HmacSha512, "hmac-sha512");
}

#[test]
fn an_alias_says_where_the_record_is_published() {
    let Some(named) = Named::start(&zones()) else { return };
    run(async {
        let lookup = lookup(named.address);
        let publisher = publisher_with(provider(named.address, &RIGHT), lookup.clone()).expect("a publisher");
        let done = publisher.publish("_acme-challenge.alias.example.test", "words").await.expect("published");
        assert_eq!(done, published("x.other.test", "words"));
        assert_eq!(values(&lookup, named.address, "x.other.test").await, ["words"]);
        publisher.withdraw(&done).await.expect("withdrawn");
        assert!(values(&lookup, named.address, "x.other.test").await.is_empty());
    });
}

#[test]
fn refusals_say_what_to_do() {
    let Some(named) = Named::start(&zones()) else { return };
    let at = named.address;
    let check = |name: &str, settings: &Settings, expected: &str| {
        let outcome: Result<_, DnsFault> =
            run(async { publisher_with(provider(at, settings), lookup(at))?.publish(name, "words").await });
        let fault = outcome.expect_err(expected);
        assert_eq!(fault.to_string(), expected);
        assert!(!format!("{fault:?}").contains(KEY_SECRET));
    };
    let sha256 = TsigAlgorithm::HmacSha256;
    let key = |name: &'static str, secret: &'static str| Settings { key: Some((name, secret, sha256)), zone: None };
    check(
        NAME,
        &key("unknown.key", KEY_SECRET),
        &format!(
            "rfc2136: for {NAME} the credentials are not accepted: {at} says BADKEY; check `key-name=` and `key-algorithm=` against the server's `key` statement"
        ),
    );
    check(
        NAME,
        &key(KEY_NAME, "b3RoZXI="),
        &format!(
            "rfc2136: for {NAME} the credentials are not accepted: {at} says BADSIG; check `key-secret=`: the server has another secret for this key"
        ),
    );
    check(NAME, &key(KEY_NAME, "no base64!"), "rfc2136: `key-secret=` is no base64; give it as `tsig-keygen` writes it");
    let refused = |zone: &str, name: &str| {
        format!(
            "rfc2136: changing {name} is not permitted: {at} says REFUSED; let the key update TXT records of {zone}: `update-policy` or `allow-update` of the zone"
        )
    };
    check(NAME, &key("other.key", KEY_SECRET), &refused("example.test", NAME));
    check(NAME, &Settings { key: None, zone: None }, &refused("example.test", NAME));
    check("a.closed.test", &RIGHT, &refused("closed.test", "a.closed.test"));
    check(
        NAME,
        &Settings { zone: Some("far.test"), ..RIGHT },
        &format!("rfc2136: {at} is not the primary server of far.test: it says NOTAUTH; check `server=` and `zone=`"),
    );
    check(
        NAME,
        &Settings { zone: Some("other.test"), ..RIGHT },
        &format!("rfc2136: {at} is not the primary server of other.test: it says NOTZONE; check `server=` and `zone=`"),
    );
}

#[test]
fn a_server_that_is_not_there_is_a_fault_for_now() {
    // A port that was free a moment ago may be a name server's of the next test.
    let closed = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let settings = Settings { zone: Some("example.test"), ..RIGHT };
    let fault = run(async {
        publisher_with(provider(closed, &settings), lookup(closed)).expect("a publisher").publish(NAME, "words").await
    });
    let fault = fault.expect_err("nobody listens");
    assert_eq!(fault.to_string(), format!("rfc2136: {NAME} is not changed: {closed} refuses to be asked"));
}
