//! Which hosts come to which virtual host. Envoy takes the whole name first, then what ends as the longest `*…` says,
//! then what begins as the longest `…*` says, and `*` for all others. Names of ours have a `*.` in front at most: hosts
//! of other patterns are routes of the sites that would take them.

use crate::outline::{Door, OutlinedSite, Service, any_depth};
use std::cmp::Reverse;

/// How early a pattern is looked at, and the longest of a kind first.
type DomainPrecedence = (u8, Reverse<usize>);

/// A virtual host for what fits patterns, or for names at one address of the machine.
pub struct PatternedHost {
    pub precedence: DomainPrecedence,
    pub door: Door,
    /// What all of its names end with.
    pub end: Option<String>,
    /// Names whose sites it stands in alone.
    pub within: Vec<String>,
    pub site: OutlinedSite,
}

/// The hosts of a virtual host.
#[derive(Default)]
pub struct DomainList {
    pub names: Vec<String>,
    /// `*-x.b.test`, `pre.*`
    pub patterns: Vec<String>,
    /// `a.test:8443`, where the same name without that port is of another host; with the names whose requests may ask
    /// for it.
    pub with_ports: Vec<(String, Vec<String>)>,
    pub is_all: bool,
    /// Whether other spellings of its names are of another host.
    pub is_of_spellings: bool,
}

/// Of each virtual host the hosts that come to it, in a chain for these server names; without any it is one for all.
///
/// What is asked for with a port that `is_seen` is apart from the same name without it.
pub fn of_chain(all: &[Vec<String>], server_names: &[String], is_seen: impl Fn(&str) -> bool) -> Vec<DomainList> {
    let names_of = |index: usize, domain: &str| -> Vec<String> {
        let own = without_port(domain);
        let is_taken = |name: &&String| {
            let is_bare = without_port(name) == name.as_str();
            is_bare && (covers(own, name) || (is_pattern(own) && name.as_str() != "*"))
        };
        if own == domain || own == "*" || !is_seen(&domain[own.len() + 1..]) {
            return Vec::new();
        }
        let others = all.iter().enumerate().filter(|(other, _)| *other != index).flat_map(|(_, domains)| domains);
        others.filter(is_taken).cloned().collect()
    };
    let mut lists: Vec<DomainList> = all
        .iter()
        .enumerate()
        .map(|(index, domains)| {
            let (apart, own): (Vec<&String>, Vec<&String>) =
                domains.iter().partition(|domain| !names_of(index, domain).is_empty());
            let with_ports = apart.into_iter().map(|domain| (domain.to_lowercase(), names_of(index, domain))).collect();
            DomainList { with_ports, ..of_domains(&own) }
        })
        .collect();
    if server_names.is_empty() {
        return lists;
    }
    for list in &mut lists {
        list.names.retain(|name| server_names.iter().any(|server| covers(server, name)));
        list.is_all = false;
    }
    for server in server_names.iter().filter(|server| !lists.iter().any(|list| list.names.contains(server))).collect::<Vec<_>>() {
        let best = (0..all.len()).filter_map(|index| Some((taking(&all[index], server)?, index))).min();
        if let Some((_, index)) = best {
            lists[index].names.push(server.clone());
        }
    }
    lists
}

fn of_domains(domains: &[&String]) -> DomainList {
    let mut list = DomainList::default();
    for domain in domains {
        let domain = without_port(domain);
        let of = match domain {
            "*" => {
                list.is_all = true;
                continue;
            }
            _ if is_pattern(domain) => &mut list.patterns,
            _ => &mut list.names,
        };
        if !of.iter().any(|known| known == domain) {
            of.push(domain.to_owned());
        }
    }
    list
}

/// Names are compared without a port here, whichever it is.
fn without_port(domain: &str) -> &str {
    match domain.rsplit_once(':') {
        Some((host, port)) if port == "*" || (!port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())) => host,
        Some(_) | None => domain,
    }
}

fn is_pattern(domain: &str) -> bool {
    domain.strip_prefix("*.").unwrap_or(domain).contains('*')
}

/// Whether all that a name stands for is of the other.
fn covers(pattern: &str, name: &str) -> bool {
    pattern == name || pattern.strip_prefix('*').is_some_and(|end| name.ends_with(end) && name.len() > end.len())
}

/// How well the domains of a virtual host fit a server name; the least is best.
fn taking(domains: &[String], server: &str) -> Option<DomainPrecedence> {
    let fits = |domain: &String| {
        let domain = without_port(domain);
        let is_taken = match domain.strip_suffix('*') {
            Some("") => true,
            Some(start) => !server.starts_with('*') && server.starts_with(start),
            None => covers(domain, server),
        };
        is_taken.then(|| precedence(domain))
    };
    domains.iter().filter_map(fits).min()
}

fn precedence(domain: &str) -> DomainPrecedence {
    let kind = match (domain.starts_with('*'), domain.ends_with('*')) {
        (false, false) => 0,
        (true, false) => 1,
        (false, true) => 2,
        (true, true) => 3,
    };
    // Whole names are apart.
    (kind, Reverse(if kind == 0 { 0 } else { domain.len() }))
}

/// The site for each pattern; `addresses` are those of all hosts there. At one address of the machine all names are
/// asked one after another.
pub fn patterned(list: &DomainList, door: Door, addresses: &[String], site: &OutlinedSite) -> Vec<PatternedHost> {
    let of = |host: String, domain: &str| PatternedHost {
        precedence: precedence(domain),
        door,
        end: domain.strip_prefix('*').map(str::to_owned),
        within: Vec::new(),
        site: OutlinedSite { addresses: addresses.to_vec(), only_hosts: vec![host], ..site.clone() },
    };
    let with_ports = list.with_ports.iter().map(|(domain, within)| {
        let text = regex_syntax::escape(domain.trim_matches('*'));
        let start = if domain.starts_with('*') { ".+" } else { "" };
        let end = if domain.ends_with('*') { "." } else { "$" };
        // In front of the name without a port.
        let precedence = (precedence(domain).0, Reverse(domain.len()));
        PatternedHost { precedence, within: within.clone(), end: None, ..of(format!("~(?i)^{start}{text}{end}"), domain) }
    });
    let names = list.names.iter().filter(|_| door.ip.is_some());
    let patterns = list.patterns.iter().map(|pattern| of(expression_of(pattern), pattern));
    with_ports.chain(names.map(|name| of(any_depth(&name.to_ascii_lowercase()), name))).chain(patterns).collect()
}

/// `~(?i)^.+\-x\.b\.test$` of `*-x.b.test`
fn expression_of(pattern: &str) -> String {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => format!("~(?i)^.+{}\\.?(:[0-9]+)?$", regex_syntax::escape(end)),
        (None, Some(start)) => format!("~(?i)^{}.", regex_syntax::escape(start)),
        (None, None) => format!("~(?i)^{}\\.?(:[0-9]+)?$", regex_syntax::escape(pattern)),
    }
}

/// Adds them behind all others, in the order in which they are looked at, and also where a shorter name than theirs has
/// a site of its own.
pub fn settle(mut all: Vec<PatternedHost>, services: &mut Vec<Service>) {
    all.sort_by_key(|own| own.precedence);
    let has = |services: &[Service], address: &String| {
        services.iter().any(|service| match service {
            Service::Site(site) => site.only_hosts.is_empty() && site.addresses.contains(address),
            Service::Tcp(_) => false,
        })
    };
    let mut added = Vec::new();
    for PatternedHost { door, end, within, mut site, .. } in all {
        if !within.is_empty() && door.ip.is_none() {
            let own = within.iter().filter_map(|name| door.address(Some(&any_depth(name))));
            site.addresses = own.filter(|address| has(services, address)).collect();
        }
        let dots = end.iter().flat_map(|end| end.match_indices('.').map(|(at, _)| &end[at + 1..]));
        for domain in dots.filter(|_| door.ip.is_none()) {
            let wider = door.address(Some(&format!("**.{domain}")));
            site.addresses.extend(wider.filter(|wider| has(services, wider) && !site.addresses.contains(wider)));
        }
        if !site.addresses.is_empty() {
            added.push(Service::Site(site));
        }
    }
    services.extend(added);
}

#[cfg(test)]
mod tests {
    use super::of_chain;

    #[test]
    fn hosts_come_to_the_longest_that_takes_them() {
        let domains = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<String>>();
        let hosts = [domains(&["*"]), domains(&["*.b.test", "a.b.test:443"]), domains(&["pre.*"]), domains(&["c.test"])];
        let check = |servers: &[&str], expected: [&[&str]; 4]| {
            let lists = of_chain(&hosts, &domains(servers), |_| true);
            let names: Vec<Vec<String>> = lists.into_iter().map(|list| list.names).collect();
            assert_eq!(names, expected.map(&domains), "for {servers:?}");
        };
        check(&[], [&[], &["*.b.test", "a.b.test"], &[], &["c.test"]]);
        check(&["x.b.test", "d.test", "pre.d.test"], [&["d.test"], &["x.b.test"], &["pre.d.test"], &[]]);
        check(&["*.test"], [&["*.test"], &["*.b.test", "a.b.test"], &[], &["c.test"]]);
    }

    #[test]
    fn hosts_with_ports_are_apart_from_those_without() {
        let domains = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<String>>();
        let check = |all: [&[&str]; 2], is_seen: bool, expected: &[(&str, &[&str])]| {
            let lists = of_chain(&all.map(domains), &[], |_| is_seen);
            let found: Vec<(String, Vec<String>)> = lists.into_iter().flat_map(|list| list.with_ports).collect();
            let expected: Vec<(String, Vec<String>)> =
                expected.iter().map(|(own, names)| ((*own).to_owned(), domains(names))).collect();
            assert_eq!(found, expected, "{all:?}");
        };
        check([&["p.test"], &["p.test:8443"]], true, &[("p.test:8443", &["p.test"])]);
        check([&["p.test"], &["p.test:8443"]], false, &[]);
        check([&["q.test"], &["p.test:8443"]], true, &[]);
        check([&["p.test", "p.test:8443"], &["q.test"]], true, &[]);
        check([&["q.test", "*"], &["*.test:8443", "q.test:*"]], true, &[("*.test:8443", &["q.test"]), ("q.test:*", &["q.test"])]);
    }
}
