//! Sites at one address of the machine, as one site with a route for the hosts of each: the language has each address
//! once, and other proxies as many servers there as they have names.

use crate::outline::{OutlinedSite, Service};
use crate::written::{WrittenNode, host_condition};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{HostPattern, SiteAddress};

/// What is written at once.
pub enum Together<'o> {
    Alone(&'o Service),
    /// A site without those of its addresses that others have as well.
    Moved(Box<OutlinedSite>),
    /// Sites at the same addresses, those for all hosts at the end.
    Shared(Vec<OutlinedSite>),
}

/// All services in their order.
pub fn together(services: &[Service]) -> Vec<Together<'_>> {
    let shared = shared_addresses(services);
    let mut all: Vec<(usize, Together<'_>)> = Vec::new();
    for (index, service) in services.iter().enumerate() {
        let Service::Site(site) = service else {
            all.push((index, Together::Alone(service)));
            continue;
        };
        let own: Vec<String> = site.addresses.iter().filter(|address| !shared.contains_key(*address)).cloned().collect();
        if own.len() == site.addresses.len() {
            all.push((index, Together::Alone(service)));
        } else if !own.is_empty() {
            // A name in an address says it; an expression is said by none.
            let is_said =
                !own.iter().any(|address| is_of_machine(address)) && !site.only_hosts.iter().any(|host| is_expression(host));
            let only_hosts = if is_said { Vec::new() } else { site.only_hosts.clone() };
            all.push((index, Together::Moved(Box::new(OutlinedSite { addresses: own, only_hosts, ..site.clone() }))));
        }
    }
    // Addresses of the same sites are those of one.
    let mut groups: BTreeMap<&Vec<usize>, Vec<String>> = BTreeMap::new();
    for (address, members) in &shared {
        groups.entry(members).or_default().push(address.clone());
    }
    for (members, addresses) in groups {
        let sites = members.iter().filter_map(|index| match &services[*index] {
            Service::Site(site) => Some(OutlinedSite { addresses: addresses.clone(), ..site.clone() }),
            Service::Tcp(_) => None,
        });
        let (named, rest): (Vec<OutlinedSite>, Vec<OutlinedSite>) = sites.partition(|site| !site.only_hosts.is_empty());
        let mut named = narrowest_first(named);
        named.extend(rest);
        all.push((members[0], Together::Shared(named)));
    }
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, one)| one).collect()
}

/// How many expressions stand in front, whether it is an ending, and the longer one first.
type Narrowness = (usize, bool, Reverse<usize>);

/// Sites by their hosts, in whose order the first that fits is the one with the narrowest name for it, as where each
/// has an address of its own: whole names, then longer endings. What may be narrower or wider than a name, an
/// expression, stays where its reader has put it. A site comes in parts where another stands between its names.
fn narrowest_first(sites: Vec<OutlinedSite>) -> Vec<OutlinedSite> {
    let mut parts: Vec<(Narrowness, usize, String)> = Vec::new();
    let mut expressions = 0;
    for (index, site) in sites.iter().enumerate() {
        for host in &site.only_hosts {
            let is_ending = host.contains('*') && !is_expression(host);
            let ending = if is_ending { host.trim_start_matches('*').len() } else { 0 };
            expressions += usize::from(is_expression(host));
            parts.push(((expressions, is_ending, Reverse(ending)), index, host.clone()));
            expressions += usize::from(is_expression(host));
        }
    }
    parts.sort_by_key(|(rank, index, _)| (*rank, *index));
    let mut ordered: Vec<(usize, OutlinedSite)> = Vec::new();
    for (_, index, host) in parts {
        match ordered.last_mut().filter(|(last, _)| *last == index) {
            Some((_, site)) => site.only_hosts.push(host),
            None => ordered.push((index, OutlinedSite { only_hosts: vec![host], ..sites[index].clone() })),
        }
    }
    ordered.into_iter().map(|(_, site)| site).collect()
}

/// Addresses of the machine that several sites have, with these sites.
fn shared_addresses(services: &[Service]) -> BTreeMap<String, Vec<usize>> {
    let mut sites: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    // Hosts that no address has are routes of the site for all hosts.
    let of_some_hosts = services.iter().filter_map(|service| match service {
        Service::Site(site) if !site.only_hosts.is_empty() => Some(site),
        Service::Site(_) | Service::Tcp(_) => None,
    });
    let routed = |site: &'_ OutlinedSite| {
        let is_any = site.only_hosts.iter().any(|host| is_expression(host));
        site.addresses.iter().filter(|address| is_any || address.contains("://:")).cloned().collect::<Vec<String>>()
    };
    let routed: BTreeSet<String> = of_some_hosts.flat_map(routed).collect();
    for (index, service) in services.iter().enumerate() {
        let Service::Site(site) = service else { continue };
        let own: BTreeSet<&String> =
            site.addresses.iter().filter(|address| is_of_machine(address) || routed.contains(*address)).collect();
        for address in own {
            sites.entry(address.clone()).or_default().push(index);
        }
    }
    sites.retain(|_, sites| sites.len() > 1);
    sites
}

fn is_expression(host: &str) -> bool {
    host.starts_with('~')
}

/// Whether an address says where on the machine, and nothing of names.
fn is_of_machine(address: &str) -> bool {
    SiteAddress::parse(address).is_ok_and(|address| matches!(address.host, HostPattern::Ip(_)))
}

const OTHER_TLS: &str = "what it says of TLS is not what the others at this address say, and one site has it once";

/// The site with one more, as a route for its hosts; `Err` says why the two are no one site.
pub fn joined(site: &WrittenNode, hosts: &[String], member: WrittenNode) -> Result<WrittenNode, String> {
    let mut joined = site.clone();
    joined.text.clone_from(&member.text);
    let (own, rest): (Vec<WrittenNode>, Vec<WrittenNode>) =
        member.inside.into_iter().flatten().partition(|line| is_of_site(&line.text));
    let mut inside = joined.inside.take().unwrap_or_default();
    let count = inside.iter().take_while(|line| is_of_site(&line.text)).count();
    let known_block = block_of_tls(&inside[..count]);
    if let (Some(known), Some(block)) = (known_block, block_of_tls(&own))
        && known != block
    {
        return Err(OTHER_TLS.to_owned());
    }
    let is_first = count == 0;
    let mut added = Vec::new();
    for mut line in own {
        if !is_first && line.text.starts_with("tls") {
            without_block(&line.text.clone()).clone_into(&mut line.text);
        }
        let word = line.text.split(' ').next().unwrap_or_default();
        let is_known = inside[..count].iter().any(|known| without_block(&known.text) == line.text);
        let is_once = word == "path-policy" && inside[..count].iter().any(|known| known.text.starts_with("path-policy"));
        if !(is_known || is_once || line.text == "tls") {
            added.push(line);
        }
    }
    inside.splice(count..count, added);
    // What is said of one of them holds for its own route alone.
    let condition = (!hosts.is_empty()).then(|| WrittenNode::line(format!("match {}", host_condition(hosts))));
    let mut route = WrittenNode::block("route", condition.into_iter().chain(rest).collect()).made_of(&member.within);
    route.comments.clone_from(&member.comments);
    inside.push(route);
    joined.within.extend(member.within);
    joined.inside = Some(inside);
    Ok(joined)
}

/// Lines that stand in a site alone, or decide before any route does.
fn is_of_site(line: &str) -> bool {
    line == "tls" || ["tls ", "path-policy", "listen "].iter().any(|start| line.starts_with(start))
}

fn without_block(line: &str) -> &str {
    line.split_once(" {").map_or(line, |(text, _)| text)
}

/// What lines of TLS say beside certificates; none where there are no such lines.
fn block_of_tls(lines: &[WrittenNode]) -> Option<&str> {
    let mut tls = lines.iter().filter(|line| line.text.starts_with("tls")).peekable();
    tls.peek()?;
    Some(tls.find_map(|line| line.text.split_once(" {")).map_or("", |(_, block)| block))
}

#[cfg(test)]
mod tests {
    use super::narrowest_first;
    use crate::outline::OutlinedSite;

    #[test]
    fn a_narrower_name_is_asked_for_first() {
        let check = |sites: &[&[&str]], expected: &[&[&str]]| {
            let named = |hosts: &&[&str]| OutlinedSite {
                only_hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
                ..OutlinedSite::default()
            };
            let ordered = narrowest_first(sites.iter().map(named).collect());
            let hosts: Vec<Vec<String>> = ordered.into_iter().map(|site| site.only_hosts).collect();
            assert_eq!(hosts, expected, "{sites:?}");
        };
        check(&[&["a.test", "**.a.test"], &["admin.a.test"]], &[&["a.test"], &["admin.a.test"], &["**.a.test"]]);
        check(&[&["**.test"], &["*.a.test"], &["b"], &["~^x"]], &[&["b"], &["*.a.test"], &["**.test"], &["~^x"]]);
        check(&[&["~^b:1$"], &["*.b"], &["b"]], &[&["~^b:1$"], &["b"], &["*.b"]]);
        check(&[&["b.test"], &["a.test", "*.a.test"]], &[&["b.test"], &["a.test", "*.a.test"]]);
    }
}
