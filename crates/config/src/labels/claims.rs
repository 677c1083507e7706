//! Who gets which host. The file's sites come first, then whoever has a host already, then the older container; whoever
//! is refused is told of both. A host belongs to one project, whose containers may share its paths.

use super::offer::{Address, Key, Offer, Standing, key, text_of};
use super::reach::Reached;
use crate::diagnostics::{Diagnostic, Location};
use crate::syntax::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use tidegate_model::{Configuration, Containers, HostPattern, ListenerPlace, Scheme, Site, SiteAddress};

/// What offers are held against.
pub struct Claims<'a> {
    settings: &'a Containers,
    /// Sites of the file by their host.
    hosts: HashMap<&'a HostPattern, &'a Site>,
    /// Wildcards of the file, those of one label in front of those of any depth.
    wildcards: Vec<(&'a HostPattern, &'a Site)>,
    /// Ports that the file listens on. `None`: whatever is spoken there.
    ports: BTreeMap<u16, Option<Scheme>>,
    holders: &'a BTreeMap<String, String>,
}

impl<'a> Claims<'a> {
    pub fn new(settings: &'a Containers, file: &'a Configuration, holders: &'a BTreeMap<String, String>) -> Claims<'a> {
        let mut claims = Claims { settings, hosts: HashMap::new(), wildcards: Vec::new(), ports: BTreeMap::new(), holders };
        for options in &file.listeners {
            if let ListenerPlace::Tcp { port, .. } = options.place {
                claims.ports.insert(port, None);
            }
        }
        for tcp in &file.tcp {
            claims.ports.insert(tcp.port, Some(Scheme::Https));
        }
        for entry_point in &settings.entry_points {
            claims.ports.entry(entry_point.port).or_insert(None);
        }
        for site in &file.sites {
            for address in &site.addresses {
                claims.hosts.entry(&address.host).or_insert(site);
                match &address.host {
                    host @ (HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_)) => claims.wildcards.push((host, site)),
                    HostPattern::Any | HostPattern::Exact(_) | HostPattern::Ip(_) | HostPattern::Socket(_) => {}
                }
                let redirects = address.redirect_addresses().map(|(listen, _)| (listen, Scheme::Http));
                let places = redirects.chain(address.listen_addresses().map(|listen| (listen, address.scheme)));
                claims.ports.extend(places.filter_map(|(listen, scheme)| Some((listen.port()?, Some(scheme)))));
            }
        }
        claims.wildcards.sort_by_key(|(host, _)| matches!(host, HostPattern::DeepWildcard(_)));
        for scheme in [Scheme::Http, Scheme::Https] {
            claims.ports.entry(scheme.default_port()).or_insert(Some(scheme));
        }
        claims
    }

    /// Leaves those offers that may be served, and tells whose the hosts are.
    pub fn decide(
        mut self,
        offers: &mut Vec<Offer>,
        refused: &mut Vec<Offer>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> BTreeMap<String, String> {
        offers.sort_by_key(|offer| {
            let has_all = offer
                .addresses
                .iter()
                .all(|(address, _)| self.holders.get(&address.host.to_string()).is_some_and(|holder| holder == offer.owner()));
            let speaker = &offer.group.members[0];
            (!has_all, speaker.stage.is_ending(), speaker.created, speaker.id.clone())
        });
        let mut taken: BTreeMap<String, TakenHost> = BTreeMap::new();
        let mut paths: HashMap<Part, TakenHost> = HashMap::new();
        offers.retain(|offer| {
            if let Some(diagnostic) = self.refusal(offer).or_else(|| refused_by_others(offer, &taken, &paths)) {
                diagnostics.push(diagnostic);
                refused.extend(left_of(offer, &paths).map(Offer::refused));
                return false;
            }
            for (address, value) in &offer.addresses {
                let own =
                    TakenHost { owner: offer.owner().into(), container: offer.container().into(), at: value.location.clone() };
                for claim in offer.claims().iter().filter(|_| offer.conditions.is_empty()) {
                    paths.insert((key(address), (*claim).to_owned(), offer.priority), own.clone());
                }
                taken.entry(address.host.to_string()).or_insert(own);
                self.ports.insert(address.port, Some(address.scheme));
                if address.redirect_from_http {
                    self.ports.insert(Scheme::Http.default_port(), Some(Scheme::Http));
                }
            }
            true
        });
        taken.into_iter().map(|(host, taken)| (host, taken.owner)).collect()
    }

    /// What of the file, or of the rules for all labels, stands against it.
    fn refusal(&self, offer: &Offer) -> Option<Diagnostic> {
        offer.addresses.iter().find_map(|(address, value)| self.refused_address(address, &value.location))
    }

    /// The site of the file that has the hosts already, among others.
    fn wildcard_over(&self, host: &HostPattern) -> Option<&'a Site> {
        self.wildcards.iter().find(|(own, _)| own.covers(host)).map(|(_, site)| *site)
    }

    fn refused_address(&self, address: &SiteAddress, at: &Location) -> Option<Diagnostic> {
        // Labels say nothing of where they listen.
        let SiteAddress { scheme, host, port, redirect_from_http, listen: _ } = address;
        let refuse = |code, message: String, help: String| Some(Diagnostic::error(code, at.clone(), message).help(help));
        if !matches!(host, HostPattern::Exact(_) | HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_)) {
            let message = "a label names a host: not an address, and not all hosts".to_owned();
            return refuse("not-for-labels", message, "for example `tidegate.site=shop.example.com`".into());
        }
        if let Some(site) = self.hosts.get(host) {
            let message = format!("the host `{host}` is that of a site of the file, {}", site.addresses[0]);
            return refuse("host-of-file", message, "remove the label, or the site from the file".into());
        }
        if let Some(site) = self.wildcard_over(host)
            && !self.settings.allows(host)
        {
            let message = format!("the host `{host}` is one of the file's site {}", site.addresses[0]);
            return refuse("host-of-file", message, format!("let containers have it with `allow \"{host}\"` in `docker`"));
        }
        if *scheme == Scheme::Https && host.is_public() && !self.settings.allows(host) {
            let message = format!("the file does not let containers have a certificate for `{host}`");
            return refuse("host-not-allowed", message, format!("write `docker {{ allow \"{host}\"; }}` in the file"));
        }
        let wanted =
            std::iter::once((*port, *scheme)).chain(redirect_from_http.then(|| (Scheme::Http.default_port(), Scheme::Http)));
        for (port, scheme) in wanted {
            match self.ports.get(&port) {
                None => {
                    let message = format!("a label cannot open the port {port}");
                    let ports: Vec<String> = self.ports.keys().map(u16::to_string).collect();
                    let help = format!("use one of {}, or write `listener \":{port}\"` in the file", ports.join(", "));
                    return refuse("port-not-open", message, help);
                }
                Some(Some(spoken)) if *spoken != scheme => {
                    let spoken = if *spoken == Scheme::Https { "TLS" } else { "plain HTTP" };
                    let message = format!("on port {port}, {spoken} is spoken");
                    return refuse("mixed-port", message, "say `http://` or `https://` accordingly, or use another port".into());
                }
                Some(_) => {}
            }
        }
        None
    }
}

/// What of a site one offer alone can have: a pattern, at a priority where one is said.
type Part = (Key, String, Option<i64>);

#[derive(Debug, Clone)]
struct TakenHost {
    owner: String,
    container: String,
    at: Location,
}

fn refused_by_others(offer: &Offer, taken: &BTreeMap<String, TakenHost>, paths: &HashMap<Part, TakenHost>) -> Option<Diagnostic> {
    for (address, value) in &offer.addresses {
        let host = address.host.to_string();
        if let Some(first) = taken.get(&host).filter(|first| first.owner != offer.owner()) {
            let message = format!(
                "the host `{host}` is that of the container {}, and not of {}: who had it first has it",
                first.container,
                offer.container()
            );
            let diagnostic =
                Diagnostic::error("host-of-another", value.location.clone(), message).label(first.at.clone(), "taken here");
            let help = "containers of one project of compose may share a host; others need hosts of their own";
            return Some(diagnostic.help(help));
        }
        for claim in offer.claims().into_iter().filter(|_| offer.conditions.is_empty()) {
            let Some(first) = paths.get(&(key(address), claim.to_owned(), offer.priority)) else { continue };
            let what = if claim.is_empty() { "all of it".to_owned() } else { format!("`{claim}`") };
            let message =
                format!("on `{host}`, {what} is that of the container {}, and not of {}", first.container, offer.container());
            let diagnostic =
                Diagnostic::error("contradiction", value.location.clone(), message).label(first.at.clone(), "taken here");
            let help = "say which part each has with `tidegate.route`, or join them with `tidegate.pool`";
            return Some(diagnostic.help(help));
        }
    }
    None
}

/// What nobody of its project has instead of it, address by address.
fn left_of<'o>(offer: &'o Offer, paths: &'o HashMap<Part, TakenHost>) -> impl Iterator<Item = Offer> + 'o {
    offer.addresses.iter().filter_map(move |address| {
        let is_taken =
            |claim: &str| offer.conditions.is_empty() && paths.contains_key(&(key(&address.0), claim.to_owned(), offer.priority));
        let patterns = match &offer.patterns {
            None if is_taken("") => return None,
            None => None,
            // Addresses that cannot be read are none.
            Some(patterns) if patterns.is_empty() => Some(Vec::new()),
            Some(patterns) => {
                let is_left = |pattern: &&Value| !text_of(pattern).is_some_and(is_taken);
                Some(patterns.iter().filter(is_left).cloned().collect()).filter(|left: &Vec<Value>| !left.is_empty())?.into()
            }
        };
        Some(Offer { addresses: vec![address.clone()], patterns, ..offer.clone() })
    })
}

/// An offer in a site, of which it may be meant for one host alone.
#[derive(Debug, Clone)]
pub struct Placed<'o> {
    pub offer: Cow<'o, Offer>,
    pub only_host: Option<&'o str>,
}

/// By position in the list of offers, and for one host of the site alone where it says so.
type PlacedAt<'o> = (usize, Option<&'o str>);

/// Sites with their offers: addresses that the same offers have are one site. What is refused opens none.
pub fn by_address<'o>(offers: &'o [Offer], refused: &'o [Offer]) -> Vec<(Vec<&'o Address>, Vec<Placed<'o>>)> {
    let mut of_address: Vec<(&Address, Vec<PlacedAt<'_>>)> = Vec::new();
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut of_owner: HashMap<&str, Vec<usize>> = HashMap::new();
    for (position, offer) in offers.iter().enumerate() {
        for address in &offer.addresses {
            let place = *places.entry(key(&address.0)).or_insert_with(|| {
                of_address.push((address, Vec::new()));
                of_owner.entry(offer.owner()).or_default().push(of_address.len() - 1);
                of_address.len() - 1
            });
            if of_address[place].1.last() != Some(&(position, None)) {
                of_address[place].1.push((position, None));
            }
        }
    }
    let all: Vec<&Offer> = offers.iter().chain(refused).collect();
    for (position, offer) in all.iter().enumerate().filter(|(_, offer)| !offer.reaches.is_empty()) {
        let own = of_owner.get(offer.owner()).map_or(&[][..], Vec::as_slice);
        join_reached(&mut of_address, own, position, &all);
    }
    of_address.sort_by_key(|(address, _)| address.0.to_string());
    let mut sites: Vec<(Vec<&Address>, Vec<PlacedAt<'_>>)> = Vec::new();
    let mut known: HashMap<Vec<PlacedAt<'_>>, usize> = HashMap::new();
    for (address, of_it) in of_address {
        let place = *known.entry(of_it.clone()).or_insert_with(|| {
            sites.push((Vec::new(), of_it));
            sites.len() - 1
        });
        sites[place].0.push(address);
    }
    let placed = |(position, only_host): PlacedAt<'o>| Placed { offer: Cow::Borrowed(all[position]), only_host };
    sites.into_iter().map(|(addresses, of_it)| (addresses, of_it.into_iter().map(placed).collect())).collect()
}

/// Puts an offer into those sites of its owner that it reaches and is not in.
fn join_reached<'o>(of_address: &mut [(&'o Address, Vec<PlacedAt<'o>>)], own: &[usize], position: usize, all: &[&'o Offer]) {
    let offer = all[position];
    let addresses: Vec<&SiteAddress> = own.iter().map(|place| &of_address[*place].0.0).collect();
    let reached: Vec<Vec<Option<Reached<'o>>>> = offer.reaches.iter().map(|reach| reach.all(&addresses)).collect();
    for (index, place) in own.iter().enumerate() {
        let of_it = &mut of_address[*place].1;
        let is_alike = |(other, _): &PlacedAt<'_>| {
            *other == position || (offer.standing == Standing::Served && is_same_part(offer, all[*other]))
        };
        if of_it.iter().any(is_alike) {
            continue;
        }
        let reached: Vec<Reached<'o>> = reached.iter().filter_map(|of_reach| of_reach[index]).collect();
        if reached.contains(&Reached::Whole) {
            of_it.push((position, None));
            continue;
        }
        of_it.extend(reached.into_iter().filter_map(|reached| match reached {
            Reached::Host(host) => Some((position, Some(host))),
            Reached::Whole => None,
        }));
    }
}

/// Whether two take the same, equally early: who has the address of its own has it there.
fn is_same_part(one: &Offer, other: &Offer) -> bool {
    one.rank() == other.rank() && one.claims() == other.claims() && one.conditions.is_empty() && other.conditions.is_empty()
}
