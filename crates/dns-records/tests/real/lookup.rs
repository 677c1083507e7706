//! Look-ups against a real name server, and against one that misbehaves.

use crate::named::{Named, Zone};
use crate::{lookup, run};
use tidegate_dns_records::LookupFault;
use tidegate_testkit::dns::{NameServer, NameServerConduct};

const TOP: Zone<'static> = Zone {
    name: "test",
    records: "@ NS ns1\nns1 A 127.0.0.1\n@ CAA 0 issue \"top.example\"\nexample NS ns1.example\nns1.example A 127.0.0.1\n",
    update: "",
};
const EXAMPLE: Zone<'static> = Zone {
    name: "example.test",
    records: "@ NS ns1\n@ NS ns2.other.test.\nns1 A 127.0.0.1\na A 10.0.0.1\na AAAA fd00::1\nalias CNAME a\nwords TXT \"one\" \"two\"\n\
              caa CAA 0 issue \"ca.example; validationmethods=dns-01\"\ncaa CAA 128 iodef \"mailto:a@a.example\"\nto-caa CNAME caa\n\
              chain CNAME chain2\nchain2 CNAME end.other.test.\nloop CNAME loop2\nloop2 CNAME loop\n",
    update: "",
};
/// A zone file that cannot be read: the server has the zone and says SERVFAIL.
const BROKEN: Zone<'static> = Zone { name: "broken.test", records: "this is no record\n", update: "" };
const OTHER: Zone<'static> =
    Zone { name: "other.test", records: "@ NS ns1.example.test.\nns2 A 127.0.0.2\nns2 AAAA ::1\n", update: "" };

#[test]
fn answers_of_all_kinds_are_told_apart() {
    let Some(named) = Named::start(&[TOP, EXAMPLE, OTHER, BROKEN]) else { return };
    let at = named.address;
    let check = |name: &str, expected: Result<&[&str], &str>| {
        let found = run(async { lookup(at).addresses(name).await });
        let found = found.map(|ips| ips.iter().map(ToString::to_string).collect::<Vec<_>>()).map_err(|fault| fault.to_string());
        let expected = expected.map(|ips| ips.iter().map(|ip| (*ip).to_owned()).collect()).map_err(str::to_owned);
        assert_eq!(found, expected, "{name}");
    };
    check("a.example.test", Ok(&["10.0.0.1", "fd00::1"]));
    check("A.Example.Test.", Ok(&["10.0.0.1", "fd00::1"]));
    check("alias.example.test", Ok(&["10.0.0.1", "fd00::1"]));
    check("none.example.test", Err(&format!("none.example.test does not exist: the resolver {at} says NXDOMAIN")));
    check("words.example.test", Err(&format!("words.example.test has no A record: the resolver {at} knows none")));
    check("a.broken.test", Err(&format!("a.broken.test cannot be looked up: the resolver {at} says SERVFAIL")));
    check("a.elsewhere", Err(&format!("a.elsewhere cannot be looked up: the resolver {at} says REFUSED")));
    check(
        "*.example.test",
        Err("`*.example.test` is not a name: it has characters other than letters, digits, hyphens and underscores"),
    );
}

#[test]
fn a_resolver_that_is_silent_is_told_from_one_that_refuses() {
    let server = NameServer::start().expect("a name server");
    server.set_conduct("a.test", NameServerConduct::Silent);
    let fault = run(async { lookup(server.address).addresses("a.test").await }).expect_err("no answer");
    assert!(matches!(fault, LookupFault::Silent { .. }), "{fault}");
    assert!(!fault.is_negative());
}

#[test]
fn caa_is_that_of_the_first_name_upwards_that_has_any() {
    let Some(named) = Named::start(&[TOP, EXAMPLE, OTHER, BROKEN]) else { return };
    let check = |name: &str, at: &str, records: &[(bool, &str, &str)]| {
        let set = run(async { lookup(named.address).caa(name).await }).expect("an answer");
        let mut found: Vec<_> =
            set.records.iter().map(|record| (record.is_critical, record.tag.as_str(), record.value.as_str())).collect();
        found.sort_unstable();
        assert_eq!((set.at.as_deref(), found), (Some(at), records.to_vec()), "{name}");
    };
    let own = [(false, "issue", "ca.example; validationmethods=dns-01"), (true, "iodef", "mailto:a@a.example")];
    check("caa.example.test", "caa.example.test", &own);
    check("not.there.caa.example.test", "caa.example.test", &own);
    check("to-caa.example.test", "to-caa.example.test", &own);
    check("a.example.test", "test", &[(false, "issue", "top.example")]);
    let fault = run(async { lookup(named.address).caa("a.broken.test").await }).expect_err("SERVFAIL is no permission");
    assert!(matches!(fault, LookupFault::Refused { .. }), "{fault}");
}

#[test]
fn zones_and_who_serves_them_are_found() {
    let Some(named) = Named::start(&[TOP, EXAMPLE, OTHER]) else { return };
    let port = named.address.port();
    run(async {
        let lookup = lookup(named.address);
        for name in ["example.test", "a.example.test", "not.there.example.test", "alias.example.test"] {
            assert_eq!(lookup.zone_of(name).await.as_deref(), Ok("example.test"), "{name}");
        }
        assert_eq!(lookup.zone_of("else.test").await.as_deref(), Ok("test"));
        let servers = lookup.authoritative_servers("example.test").await.expect("servers");
        let spelt: Vec<String> = servers.iter().map(|server| format!("{} {:?}", server.name, server.addresses)).collect();
        let expected =
            [format!("ns1.example.test [127.0.0.1:{port}]"), format!("ns2.other.test [127.0.0.2:{port}, [::1]:{port}]")];
        assert_eq!(spelt, expected);
    });
}

#[test]
fn aliases_are_followed_to_their_end() {
    let Some(named) = Named::start(&[TOP, EXAMPLE, OTHER]) else { return };
    run(async {
        let lookup = lookup(named.address);
        let check =
            async |name: &str, expected: &str| assert_eq!(lookup.behind_aliases(name).await.as_deref(), Ok(expected), "{name}");
        check("a.example.test", "a.example.test").await;
        check("not.there.example.test", "not.there.example.test").await;
        check("chain.example.test", "end.other.test").await;
        let fault = lookup.behind_aliases("loop.example.test").await.expect_err("no end");
        assert_eq!(fault.to_string(), "loop.example.test is an alias of an alias, more than 8 times over");
    });
}

#[test]
fn aliases_are_those_of_the_zones_own_servers() {
    const RECORDS: &str = "@ NS ns2\nns2 A 127.0.0.2\n";
    let stale = Zone { name: "own.test", records: RECORDS, update: "" };
    let Some(resolver) = Named::start(&[TOP, stale]) else { return };
    let records = format!("{RECORDS}alias CNAME end.own.test.\n");
    let _server = resolver.beside(&[Zone { name: "own.test", records: &records, update: "" }]);
    run(async {
        let lookup = lookup(resolver.address);
        assert_eq!(lookup.behind_aliases("alias.own.test").await.as_deref(), Ok("end.own.test"));
    });
}

#[test]
fn one_server_is_asked_for_what_it_serves_itself() {
    let Some(named) = Named::start(&[TOP, EXAMPLE, OTHER, BROKEN]) else { return };
    let at = named.address;
    let check = |name: &str, expected: Result<&[&str], &str>| {
        let found = run(async { lookup(at).txt_at(at, name).await }).map_err(|fault| fault.to_string());
        let expected =
            expected.map(|values| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>()).map_err(str::to_owned);
        assert_eq!(found, expected, "{name}");
    };
    check("words.example.test", Ok(&["onetwo"]));
    check("a.example.test", Ok(&[]));
    check("none.example.test", Ok(&[]));
    check("chain.example.test", Ok(&[]));
    check("a.broken.test", Err(&format!("a.broken.test cannot be looked up: {at} says SERVFAIL")));
    check("a.elsewhere", Err(&format!("a.elsewhere cannot be looked up: {at} says REFUSED")));
}

#[test]
fn answers_that_do_not_fit_come_over_tcp_and_others_are_not_believed() {
    let server = NameServer::start().expect("a name server");
    server.set_addresses("a.test", 60, &["10.0.0.1"]);
    server.set_conduct("a.test", NameServerConduct::Truncated);
    run(async {
        let lookup = lookup(server.address);
        assert_eq!(lookup.txt_at(server.address, "a.test").await, Ok(Vec::new()));
        assert_eq!(server.count("TXT a.test"), 2);
        server.set_conduct("b.test", NameServerConduct::WrongId);
        let fault = lookup.txt_at(server.address, "b.test").await.expect_err("another's answer");
        assert!(matches!(fault, LookupFault::Silent { .. }), "{fault}");
    });
}
