//! `allow` and `deny`: which clients a route answers, by their address. The address is the one that is believed to be the client's: behind a trusted
//! proxy, the one that the proxy names.

use ipnet::IpNet;
use std::net::IpAddr;

/// One line. The first rule of a route that has the client's address decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRule {
    pub allows: bool,
    pub networks: Box<[IpNet]>,
}

/// What the rules of a route have said so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Access {
    decided: Option<bool>,
    /// Some rule allows somebody, so that everybody else is not meant.
    names_who_may: bool,
}

impl Access {
    pub fn hear(&mut self, rule: &AccessRule, client: IpAddr) {
        self.names_who_may |= rule.allows;
        // An IPv4 client of a socket that listens for both comes as `::ffff:192.0.2.1`.
        let client = client.to_canonical();
        if self.decided.is_none() && rule.networks.iter().any(|network| network.contains(&client)) {
            self.decided = Some(rule.allows);
        }
    }

    /// After the last rule. Who is named by none is refused where somebody is allowed, and let through where clients are only denied.
    pub fn is_refused(self) -> bool {
        !self.decided.unwrap_or(!self.names_who_may)
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, AccessRule};

    /// Rules as `+10.0.0.0/8` and `-10.0.0.5/32`.
    fn check(rules: &[&str], client: &str, expected: bool) {
        let mut access = Access::default();
        for rule in rules {
            let networks = rule[1..].split(' ').map(|network| network.parse().expect("a network")).collect();
            access.hear(&AccessRule { allows: rule.starts_with('+'), networks }, client.parse().expect("an address"));
        }
        assert_eq!(!access.is_refused(), expected, "{client} by {rules:?}");
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
