//! `allow` and `deny`: which clients a route answers, by their address. The address is the one that is believed to be
//! the client's: behind a trusted proxy, the one that the proxy names.

use ipnet::IpNet;
use std::net::IpAddr;
use tidegate_model::Step;

/// All rules of a route, its site's first. They are heard before every other step, wherever they stand: a client that
/// may not ask must not use up what a limit shares out, learn whether a password fits, or be told of a fault that
/// somebody else would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    rules: Box<[Rule]>,
    /// Some rule allows somebody, so that everybody else is not meant.
    names_who_may: bool,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    allows: bool,
    networks: Box<[IpNet]>,
}

impl Access {
    /// None where nobody is refused.
    pub fn of<'m>(steps: impl Iterator<Item = &'m Step>) -> Option<Access> {
        let rules: Box<[Rule]> = steps
            .filter_map(|step| match step {
                Step::Allow(networks) => Some(Rule { allows: true, networks: networks.as_slice().into() }),
                Step::Deny(networks) => Some(Rule { allows: false, networks: networks.as_slice().into() }),
                _ => None,
            })
            .collect();
        let names_who_may = rules.iter().any(|rule| rule.allows);
        (!rules.is_empty()).then_some(Access { rules, names_who_may })
    }

    /// The first rule that has the client's address decides. Who is named by none is refused where somebody is allowed,
    /// and let through where clients are only denied.
    pub fn lets_through(&self, client: IpAddr) -> bool {
        // An IPv4 client of a socket that listens for both comes as `::ffff:192.0.2.1`.
        let client = client.to_canonical();
        let fits = |rule: &&Rule| rule.networks.iter().any(|network| network.contains(&client));
        self.rules.iter().find(fits).map_or(!self.names_who_may, |rule| rule.allows)
    }
}

#[cfg(test)]
mod tests {
    use super::Access;
    use tidegate_model::Step;

    /// Rules as `+10.0.0.0/8` and `-10.0.0.5/32`.
    fn check(rules: &[&str], client: &str, expected: bool) {
        let step = |rule: &&str| {
            let networks = rule[1..].split(' ').map(|network| network.parse().expect("a network")).collect();
            if rule.starts_with('+') { Step::Allow(networks) } else { Step::Deny(networks) }
        };
        let steps: Vec<Step> = rules.iter().map(step).collect();
        let access = Access::of(steps.iter());
        let client = client.parse().expect("an address");
        assert_eq!(access.is_none_or(|access| access.lets_through(client)), expected, "{client} by {rules:?}");
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
