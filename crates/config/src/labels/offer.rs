//! What a group of containers offers to serve: addresses, perhaps a part of their paths, and what is done with
//! requests. Whoever reads labels makes these; who gets a host, and what becomes of all of them together, is decided
//! above. What an offer names that is refused is in `refused`.

use super::native::give_container;
use super::reach::Reach;
use super::refused::called;
use super::tree::{Fill, line, text};
use crate::diagnostics::{Diagnostic, Location};
use crate::directives::origin;
use crate::syntax::{Literal, Node, Value};
use std::sync::Arc;
use tidegate_model::{ContainerGroup, HostPattern, Origin, Scheme, SiteAddress};

/// Addresses of one label; more are a list that somebody has made by mistake.
const ADDRESSES_MAX: usize = 100;

/// An address, and where it is written.
pub type Address = (SiteAddress, Value);

/// What two sites cannot both have.
pub type Key = (Scheme, HostPattern, u16);

pub fn key(address: &SiteAddress) -> Key {
    (address.scheme, address.host.clone(), address.port)
}

/// Whether an offer is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Served,
    /// Refused. What it names is answered with 503 where others would serve it.
    Refused,
}

#[derive(Debug, Clone)]
pub struct Offer {
    pub group: Arc<ContainerGroup>,
    /// What tells it from others of the group.
    pub name: String,
    pub addresses: Vec<Address>,
    /// Other sites of its owner that it is a route of, without opening one.
    pub reaches: Vec<Reach>,
    pub standing: Standing,
    /// `None`: everything of the site that nobody else has.
    pub patterns: Option<Vec<Value>>,
    /// What else a request has to be, so that two may have the same pattern.
    pub conditions: Vec<Node>,
    /// Before others of the site when it is higher, whatever their patterns; those without are in between.
    pub priority: Option<i64>,
    /// The lines of the site, or of its route.
    pub content: Vec<Node>,
    pub at: Location,
}

impl Offer {
    /// As messages name it.
    pub fn container(&self) -> &str {
        &self.group.members[0].name
    }

    pub fn owner(&self) -> &str {
        &self.group.members[0].owner
    }

    /// The line that says whose it is; none for a name that stands in no line of a log.
    pub fn origin(&self) -> Option<Node> {
        let origin = Origin::of_containers(&self.group.members[0].group);
        let value = |value: &str| text(value, &self.at);
        origin::is_fit(&origin).then(|| line("origin", &self.at).argument(value(&origin.kind)).argument(value(&origin.object())))
    }

    /// The patterns as texts, for what two claim.
    pub fn claims(&self) -> Vec<&str> {
        match &self.patterns {
            None => vec![""],
            Some(patterns) => patterns.iter().filter_map(text_of).collect(),
        }
    }

    /// The offer as a route of a site that others have a part of; perhaps of one host of the site alone.
    pub fn as_route(&self, only_host: Option<&str>) -> Node {
        let mut route = line("route", &self.at);
        for pattern in self.patterns.iter().flatten() {
            route = route.argument(pattern.clone());
        }
        let said = self.conditions.iter().chain(&self.content).cloned();
        let route = route.block(self.origin().into_iter().chain(said).collect());
        let route = match only_host {
            None => route,
            Some(host) => {
                let only = line("match", &self.at).property("host", text(host, &self.at));
                line("route", &self.at).block(vec![only, route])
            }
        };
        match self.route_name() {
            Some(name) => called(route, &name),
            None => route,
        }
    }

    /// What goes first: what is said to, then the longer pattern, and everything else last. Of two that are alike the
    /// refused one.
    pub fn rank(&self) -> (std::cmp::Reverse<i64>, std::cmp::Reverse<usize>, bool) {
        let longest = self.claims().iter().map(|pattern| pattern.trim_end_matches('*').len()).max().unwrap_or(0);
        // Exactly one path goes before all that lie below it.
        let is_exact = self.claims().iter().any(|pattern| !pattern.is_empty() && !pattern.ends_with('*'));
        let weight = longest * 4 + usize::from(is_exact) * 2 + usize::from(!self.conditions.is_empty());
        (std::cmp::Reverse(self.priority.unwrap_or(weight as i64)), std::cmp::Reverse(weight), self.standing == Standing::Served)
    }

    /// Whether nothing that comes behind it is ever reached.
    pub fn takes_all(&self) -> bool {
        let is_part = |node: &Node| node.name.text == "route";
        self.patterns.is_none() && self.conditions.is_empty() && !self.content.iter().all(is_part)
    }
}

pub fn text_of(value: &Value) -> Option<&str> {
    match &value.literal {
        Literal::Text(text) => Some(text),
        Literal::Integer(_) | Literal::Float(_) | Literal::Switch(_) | Literal::Null => None,
    }
}

/// The offers of one section of labels while they are read.
#[derive(Debug)]
pub struct OfferDraft {
    group: Arc<ContainerGroup>,
    /// Of the section, or of the router.
    name: String,
    pub group_name: String,
    pub port: Option<u16>,
    /// Whether TLS is spoken with the containers.
    pub is_tls: bool,
    pub offers: Vec<Offer>,
}

impl OfferDraft {
    pub fn new(group: &Arc<ContainerGroup>, name: &str) -> OfferDraft {
        let group_name = group.members[0].group.clone();
        OfferDraft { group: group.clone(), name: name.to_owned(), group_name, port: None, is_tls: false, offers: Vec::new() }
    }

    /// What is served there, by lines of which one answers.
    pub fn add(
        &mut self,
        addresses: Vec<Value>,
        at: Location,
        patterns: Option<Vec<Value>>,
        mut content: Vec<Node>,
        faults: &mut Vec<Diagnostic>,
    ) {
        let said: Vec<String> = addresses.iter().filter_map(text_of).map(str::to_owned).collect();
        let addresses = read_addresses(addresses, &at, faults);
        for node in &mut content {
            give_container(node, self);
        }
        // Of addresses that nobody can read, what they name is looked for among those that are served.
        let reaches = if addresses.is_empty() { vec![Reach::named(&said.join(" "), true)] } else { Vec::new() };
        let name = format!("{} {}", self.name, self.offers.len());
        self.offers.push(Offer {
            group: self.group.clone(),
            name,
            addresses,
            reaches,
            standing: Standing::Served,
            patterns,
            conditions: Vec::new(),
            priority: None,
            content,
            at,
        });
    }

    /// Adds an offer that cannot be read, with all that its labels say.
    pub fn add_unreadable(&mut self, said: &str, or_all: bool, at: Location) {
        let offer = Offer::unreadable(&self.group, &self.name, said, or_all, at);
        self.offers.push(offer);
    }
}

fn read_addresses(values: Vec<Value>, at: &Location, faults: &mut Vec<Diagnostic>) -> Vec<Address> {
    if values.is_empty() {
        let diagnostic = Diagnostic::error("bad-label", at.clone(), "the site has no address");
        faults.push(diagnostic.help("for example `tidegate.site=shop.example.com`"));
    }
    if values.len() > ADDRESSES_MAX {
        let message = format!("there are more than {ADDRESSES_MAX} addresses");
        faults.push(Diagnostic::error("bad-label", at.clone(), message).help("use `*.example.com`, or several containers"));
        return Vec::new();
    }
    let mut addresses: Vec<Address> = Vec::with_capacity(values.len());
    for value in values {
        match text_of(&value).map(SiteAddress::parse) {
            Some(Ok(address)) if addresses.iter().any(|(known, _)| key(known) == key(&address)) => {}
            Some(Ok(address)) => addresses.push((address, value)),
            Some(Err(reason)) => {
                let diagnostic = Diagnostic::error("bad-address", value.location, reason);
                faults.push(diagnostic.help("for example `shop.example.com`, or `http://shop.example.com` for plain HTTP"));
            }
            None => faults.push(Diagnostic::error("bad-address", value.location, "an address is a text")),
        }
    }
    addresses
}
