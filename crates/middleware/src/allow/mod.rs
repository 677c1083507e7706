//! `allow` and `deny`: which clients a route answers, by their address. The address is the one that is believed to be
//! the client's: behind a trusted proxy, the one that the proxy names.

use crate::context::Context;
use ipnet::IpNet;
use std::net::IpAddr;
use tidegate_model::{AccessRule, GeoTest, Step};
use tidegate_routing::{MapTest, is_at};
use tidegate_wire::head::RequestHead;

/// All rules of a route, its site's first. They are heard before every other step, wherever they stand: a client that
/// may not ask must not use up what a limit shares out, learn whether a password fits, or be told of a fault that
/// somebody else would be.
#[derive(Debug)]
pub struct Access {
    rules: Box<[Rule]>,
    /// Some rule allows somebody, so that everybody else is not meant.
    names_who_may: bool,
}

/// One line.
#[derive(Debug)]
struct Rule {
    allows: bool,
    networks: Box<[IpNet]>,
    maps: Box<[MapTest]>,
    places: Box<[GeoTest]>,
}

impl Access {
    /// None where nobody is refused. Fails only on a regular expression that does not compile, which `config` refuses
    /// before.
    pub fn of<'m>(steps: impl Iterator<Item = &'m Step>) -> Result<Option<Access>, regex::Error> {
        let rule = |allows: bool, AccessRule { networks, maps, places }: &AccessRule| {
            let maps = maps.iter().map(MapTest::new).collect::<Result<_, _>>()?;
            Ok(Rule { allows, networks: networks.as_slice().into(), maps, places: places.as_slice().into() })
        };
        let rules = steps.filter_map(|step| match step {
            Step::Allow(rules) => Some(rule(true, rules)),
            Step::Deny(rules) => Some(rule(false, rules)),
            _ => None,
        });
        let rules: Box<[Rule]> = rules.collect::<Result<_, regex::Error>>()?;
        let names_who_may = rules.iter().any(|rule| rule.allows);
        Ok((!rules.is_empty()).then_some(Access { rules, names_who_may }))
    }

    /// The first rule that has the client's address or where that is, or a map of which has something for the request,
    /// decides. Who is named by none is refused where somebody is allowed, and let through where clients are only
    /// denied.
    pub fn lets_through(&self, request: &RequestHead, context: &Context<'_>) -> bool {
        let facts = || context.facts(request);
        let fits = |rule: &&Rule| {
            rule.has(context.client_ip)
                || rule.places.iter().any(|place| is_at(place, &facts()))
                || rule.maps.iter().any(|map| map.holds(&facts()))
        };
        self.rules.iter().find(fits).map_or(!self.names_who_may, |rule| rule.allows)
    }
}

impl Rule {
    fn has(&self, client: IpAddr) -> bool {
        // An IPv4 client of a socket that listens for both comes as `::ffff:192.0.2.1`.
        let client = client.to_canonical();
        self.networks.iter().any(|network| network.contains(&client))
    }
}

#[cfg(test)]
mod tests {
    use super::Access;
    use crate::context::Context;
    use crate::fixtures::{context, request, template};
    use std::sync::Arc;
    use tidegate_model::{AccessRule, Field, MapSettings, MapSource, Step, TextPattern};
    use tidegate_tables::{Map, Maps, TableDraft};

    /// Rules as `+10.0.0.0/8` and `-10.0.0.5/32`.
    fn check(rules: &[&str], client: &str, expected: bool) {
        let step = |rule: &&str| {
            let mut meant = AccessRule::default();
            for word in rule[1..].split(' ') {
                match word.split_once('=') {
                    Some((name, "")) => meant.maps.push(Field { name: name.into(), value: TextPattern::Present }),
                    Some((name, value)) => meant.maps.push(Field { name: name.into(), value: TextPattern::Exact(value.into()) }),
                    None => meant.networks.push(word.parse().expect("a network")),
                }
            }
            if rule.starts_with('+') { Step::Allow(meant) } else { Step::Deny(meant) }
        };
        let steps: Vec<Step> = rules.iter().map(step).collect();
        let access = Access::of(steps.iter()).expect("rules of the test");
        let (client_ip, maps) = (client.parse().expect("an address"), maps());
        let (context, head) = (Context { client_ip, maps: &maps, ..context() }, request("/", "example.com", &[]));
        assert_eq!(access.is_none_or(|access| access.lets_through(&head, &context)), expected, "{client} by {rules:?}");
    }

    /// A map by the client's address.
    fn maps() -> Maps {
        let mut draft = TableDraft::new(false);
        draft.add(1, "192.0.2.0/24", Some("bad")).expect("a row");
        draft.add(2, "198.51.100.7", Some("good")).expect("a row");
        let settings = MapSettings {
            name: "known".into(),
            key: template("{client.ip}"),
            default: Some("nobody".into()),
            ignores_case: false,
            source: MapSource::Listed(Vec::new()),
        };
        Maps::of([Arc::new(Map::new(settings, Arc::new(draft.finish().expect("rows"))))])
    }

    #[test]
    fn maps_name_clients_as_networks_do() {
        check(&["-known="], "192.0.2.9", false);
        check(&["-known="], "203.0.113.1", true);
        check(&["-known=bad"], "198.51.100.7", true);
        check(&["-known=nobody"], "203.0.113.1", false);
        check(&["+known=good 10.0.0.0/8"], "198.51.100.7", true);
        check(&["+known=good 10.0.0.0/8"], "10.0.0.1", true);
        check(&["+known=good 10.0.0.0/8"], "192.0.2.9", false);
        check(&["-other="], "192.0.2.9", true);
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        check(&["+10.0.0.5/32", "-10.0.0.0/8"], "10.0.0.5", true);
        check(&["+10.0.0.5/32", "-10.0.0.0/8"], "10.0.0.6", false);
        check(&["-10.0.0.5/32", "+10.0.0.0/8"], "10.0.0.5", false);
        check(&["-10.0.0.5/32", "+10.0.0.0/8"], "10.0.0.6", true);
        check(&["+10.0.0.0/8", "-0.0.0.0/0 ::/0"], "10.0.0.5", true);
        check(&["+10.0.0.0/8", "-0.0.0.0/0 ::/0"], "192.0.2.1", false);
    }

    #[test]
    fn who_is_not_named_is_refused_only_where_somebody_is_allowed() {
        check(&[], "192.0.2.1", true);
        check(&["-10.0.0.0/8"], "192.0.2.1", true);
        check(&["+10.0.0.0/8"], "192.0.2.1", false);
        check(&["-10.0.0.0/8", "+192.0.2.0/24"], "198.51.100.1", false);
    }

    #[test]
    fn both_families_are_known() {
        check(&["+2001:db8::/32"], "2001:db8::1", true);
        check(&["+2001:db8::/32"], "10.0.0.1", false);
        check(&["+10.0.0.0/8"], "::ffff:10.0.0.1", true);
        check(&["-10.0.0.0/8"], "::ffff:10.0.0.1", false);
    }
}
