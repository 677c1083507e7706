//! What an offer has a say in beside the addresses that it opens: other sites of its owner. A router of Traefik that
//! names no entry point is on all of them, one of many hosts is looked at beside those of one, and what is refused
//! shuts what it names wherever others would serve it.

use tidegate_model::{HostPattern, Scheme, SiteAddress};

/// Sites of which an offer is a route, as long as there are some.
#[derive(Debug, Clone)]
pub struct Reach {
    pub host: ReachedHost,
    /// `None`: whatever is spoken there.
    pub scheme: Option<Scheme>,
    /// `None`: wherever it listens.
    pub port: Option<u16>,
}

#[derive(Debug, Clone)]
pub enum ReachedHost {
    One(HostPattern),
    /// Hosts that stand in a text that nobody can read.
    Named {
        text: String,
        /// Whether all are meant where it names none of them.
        or_all: bool,
    },
    All,
}

/// How a site is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached<'r> {
    Whole,
    /// One host of many.
    Host(&'r str),
}

impl Reach {
    pub fn named(text: &str, or_all: bool) -> Reach {
        Reach { host: ReachedHost::Named { text: text.to_lowercase(), or_all }, scheme: None, port: None }
    }

    pub fn of_address(address: &SiteAddress) -> Reach {
        let host = match &address.host {
            HostPattern::Any => ReachedHost::All,
            host @ (HostPattern::Exact(_)
            | HostPattern::Wildcard(_)
            | HostPattern::DeepWildcard(_)
            | HostPattern::Ip(_)
            | HostPattern::Socket(_)) => ReachedHost::One(host.clone()),
        };
        Reach { host, scheme: Some(address.scheme), port: Some(address.port) }
    }

    /// How it reaches these sites, which are all of its owner.
    pub fn all<'r>(&'r self, addresses: &[&SiteAddress]) -> Vec<Option<Reached<'r>>> {
        let is_all = match &self.host {
            ReachedHost::All => true,
            ReachedHost::Named { text, or_all } => *or_all && !addresses.iter().any(|address| names(text, &address.host)),
            ReachedHost::One(_) => false,
        };
        addresses.iter().map(|address| self.one(address, is_all)).collect()
    }

    fn one<'r>(&'r self, address: &SiteAddress, is_all: bool) -> Option<Reached<'r>> {
        let is_there =
            self.scheme.is_none_or(|scheme| scheme == address.scheme) && self.port.is_none_or(|port| port == address.port);
        if !is_there {
            return None;
        }
        match &self.host {
            ReachedHost::All => Some(Reached::Whole),
            ReachedHost::Named { text, .. } => (is_all || names(text, &address.host)).then_some(Reached::Whole),
            ReachedHost::One(host) if host.covers(&address.host) => Some(Reached::Whole),
            ReachedHost::One(host @ HostPattern::Exact(name)) => address.host.covers(host).then_some(Reached::Host(name)),
            ReachedHost::One(
                HostPattern::Wildcard(_)
                | HostPattern::DeepWildcard(_)
                | HostPattern::Any
                | HostPattern::Ip(_)
                | HostPattern::Socket(_),
            ) => None,
        }
    }
}

/// Whether the host stands in the text, which has small letters, with nothing around it that names have. Of all names
/// of a domain the domain is enough.
fn names(text: &str, host: &HostPattern) -> bool {
    let (wanted, is_domain) = match host {
        HostPattern::Exact(name) => (name.as_str(), false),
        HostPattern::Wildcard(domain) | HostPattern::DeepWildcard(domain) => (domain.as_str(), true),
        HostPattern::Any | HostPattern::Ip(_) | HostPattern::Socket(_) => return false,
    };
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    text.match_indices(wanted).any(|(at, _)| {
        let (before, behind) = (text[..at].chars().next_back(), text[at + wanted.len()..].chars().next());
        let begins = before.is_none_or(|c| !is_of_name(c) && (is_domain || c != '.'));
        begins && behind.is_none_or(|c| !is_of_name(c))
    })
}

#[cfg(test)]
mod tests {
    use super::{Reach, Reached, names};
    use tidegate_model::SiteAddress;

    fn address(text: &str) -> SiteAddress {
        SiteAddress::parse(text).expect("an address")
    }

    #[test]
    fn hosts_are_found_in_texts_that_nobody_reads() {
        let check = |text: &str, host: &str, expected: bool| {
            assert_eq!(names(&text.to_lowercase(), &address(host).host), expected, "{host} in {text}");
        };
        check("Host(`A.test`", "a.test", true);
        check("\"a.test\"", "a.test", true);
        check("ba.test a.testing x.a.test", "a.test", false);
        check("Host(`x.a.test`)", "*.a.test", true);
        check("", "a.test", false);
        check("ä.test", "a.test", false);
    }

    #[test]
    fn an_address_is_reached_where_it_is_meant() {
        let served = ["https://a.test", "http://a.test", "https://*.b.test", "https://x.b.test"].map(address);
        let check = |reach: &Reach, expected: [Option<Reached<'_>>; 4]| {
            let all: Vec<&SiteAddress> = served.iter().collect();
            assert_eq!(reach.all(&all), expected, "{reach:?}");
        };
        let whole = Some(Reached::Whole);
        check(&Reach::of_address(&address("https://a.test")), [whole, None, None, None]);
        check(&Reach::of_address(&address("https://*.b.test")), [None, None, whole, whole]);
        check(&Reach::of_address(&address("https://y.b.test")), [None, None, Some(Reached::Host("y.b.test")), None]);
        // Of all hosts, at the port alone that it says.
        check(&Reach::of_address(&address("https://:443")), [whole, None, whole, whole]);
        check(&Reach::of_address(&address("https://:8443")), [None, None, None, None]);
        check(&Reach { scheme: None, port: None, ..Reach::of_address(&address("a.test")) }, [whole, whole, None, None]);
        check(&Reach::named("a.test", true), [whole, whole, None, None]);
        check(&Reach::named("z.test", true), [whole, whole, whole, whole]);
        check(&Reach::named("z.test", false), [None, None, None, None]);
    }
}
