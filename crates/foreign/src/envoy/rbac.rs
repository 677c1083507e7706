//! Rules of RBAC, by which requests are refused for what they say. Each filter is a refusal in front of what it guards,
//! so that several hold together; what a host or a route says in the place of a filter holds there alone.

use super::authority::Authority;
use super::known::kind;
use super::routes::of_header;
use crate::accounts::Origin;
use crate::matching::{Asked, AskedLiteral, Matching, PathPattern};
use crate::outline::{OutlinedAnswer, OutlinedRoute};
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_kdl::quoted;
use tidegate_model::{expression, is_claimed, parse_network};

const NO_EXPRESSION: &str = "its expression is none of ours: there are no look-arounds and no back-references";
const TOO_MANY: &str = "its policies have more alternatives than are written out: a `route` with `match` and `respond 403` refuses, \
                        in front of all others";
const BY_LANGUAGE: &str = "conditions in a language of their own are not read: a `route` with `match` and `respond 403` refuses";
const BY_PROXY: &str = "it asks for the address that a proxy in front names: say which by `trusted-proxies` in a `listener`, and write \
                        `allow` or `deny` for whom you mean";
const OF_PROXY: &str = "it asks for a field that only proxies say, which is taken out before conditions are asked: name that proxy with \
                        `trusted-proxies` in a `listener`, and ask `match client=`";

/// What a connection manager says of addresses and hosts.
#[derive(Clone, Copy)]
pub struct Addresses {
    /// Whether the address that is reported is that of the connection.
    pub is_of_connection: bool,
    pub authority: Authority,
}

impl Addresses {
    pub fn of(manager: &Tree, authority: Authority) -> Addresses {
        let is_of_connection = manager.get("use_remote_address").is_true()
            && manager.get("xff_num_trusted_hops").number().unwrap_or(0) == 0
            && !manager.has("original_ip_detection_extensions");
        Addresses { is_of_connection, authority }
    }
}

/// A filter that hosts or routes say something else in the place of.
pub struct AccessFilter<'t> {
    name: &'t str,
    settings: &'t Tree,
    is_off: bool,
    addresses: Addresses,
    places: BTreeSet<usize>,
}

/// What somebody is refused for, or why that is not told.
type Refused = Result<Matching, String>;

impl<'t> AccessFilter<'t> {
    pub fn of(filter: &'t Tree, addresses: Addresses) -> AccessFilter<'t> {
        let (_, settings) = kind(filter);
        let is_off = filter.get("disabled").is_true();
        let name = filter.get("name").text().unwrap_or_default();
        AccessFilter { name, settings, is_off, addresses, places: filter.statements() }
    }

    pub fn places(&self) -> &BTreeSet<usize> {
        &self.places
    }

    fn own(&self) -> Refused {
        if self.is_off { Ok(Matching::never()) } else { refused(self.settings, self.addresses) }
    }

    /// Whether a list of hosts, a host in it or one of its routes says something else.
    pub fn is_replaced(&self, config: &Tree) -> bool {
        let hosts = config.get("virtual_hosts").items();
        let routes = hosts.iter().flat_map(|host| host.get("routes").items());
        std::iter::once(config).chain(hosts).chain(routes).any(|place| self.said_by(place).is_some())
    }

    fn said_by<'p>(&self, place: &'p Tree) -> Option<&'p Tree> {
        let all = place.get("typed_per_filter_config").entries();
        all.iter().find(|(name, _)| name == self.name).map(|(_, said)| said)
    }

    /// Refuses in front of what a route answers; `places` are the route, its host and the list of hosts. Where that is
    /// not told, `reasons` say why, and the route is shut for what is left.
    pub fn guard(&self, places: [&Tree; 3], told: &mut OutlinedRoute, reasons: &mut BTreeMap<usize, String>) {
        let own = self.own();
        let said = places.into_iter().find_map(|place| self.said_by(place));
        let refused = match said {
            Some(said) if is_switched_on(said) => refused(self.settings, self.addresses),
            Some(said) => replaced(said, self.addresses),
            None => own.clone(),
        };
        if own.is_ok() {
            told.origin.carry_all(self.places.iter().copied());
        } else if said.is_none() {
            told.origin.within.extend(&self.places);
        }
        let refused = match refused {
            Ok(refused) => refused,
            Err(why) => {
                let places = said.map_or_else(|| self.places.clone(), Tree::statements);
                return reasons.extend(places.into_iter().map(|at| (at, why.clone())));
            }
        };
        told.origin.carry_all(self.said_by(places[0]).into_iter().flat_map(Tree::statements));
        if !refused.is_never() {
            let answer = std::mem::replace(&mut told.answer, OutlinedAnswer::status(403));
            let routes = refusals(&refused, &Origin::default());
            told.answer = OutlinedAnswer::Within { routes, steps: Vec::new(), otherwise: Some(Box::new(answer)) };
        }
    }

    /// What is said of all routes of a place, each of which has it in front.
    pub fn carry_of(&self, place: &Tree, origin: &mut Origin) {
        let is_told = |said: &&Tree| {
            let stands =
                if is_switched_on(said) { refused(self.settings, self.addresses) } else { replaced(said, self.addresses) };
            stands.is_ok()
        };
        if let Some(said) = self.said_by(place).filter(is_told) {
            origin.carry_all(said.statements());
        }
    }
}

/// Whether a place has the filter as its chain has it, also where it is off there.
fn is_switched_on(said: &Tree) -> bool {
    let of_type = said.get("@type").text().unwrap_or_default();
    let is_bare = said.at(&["config", "@type"]).is_nothing() && !said.get("config").has("rbac");
    of_type.ends_with("route.v3.FilterConfig") && is_bare && !said.get("disabled").is_true()
}

/// What stands in the place of a filter, be it that there is none.
fn replaced(said: &Tree, addresses: Addresses) -> Refused {
    if said.get("disabled").is_true() {
        return Ok(Matching::never());
    }
    let said = if said.has("config") { said.get("config") } else { said };
    if said.has("rbac") { refused(said.get("rbac"), addresses) } else { Ok(Matching::never()) }
}

/// Routes that refuse, for a filter of all hosts.
pub fn refusing(settings: &Tree, addresses: Addresses, origin: &Origin) -> Result<Vec<OutlinedRoute>, String> {
    refused(settings, addresses).map(|refused| refusals(&refused, origin))
}

fn refusals(refused: &Matching, origin: &Origin) -> Vec<OutlinedRoute> {
    let lines = if refused.is_always() { vec![String::new()] } else { refused.lines() };
    let route = |line: String| OutlinedRoute {
        conditions: Some(line).filter(|line| !line.is_empty()).into_iter().collect(),
        origin: origin.clone(),
        ..OutlinedRoute::of(Vec::new(), OutlinedAnswer::status(403))
    };
    lines.into_iter().map(route).collect()
}

fn refused(settings: &Tree, addresses: Addresses) -> Refused {
    if settings.has("matcher") {
        return Err(BY_LANGUAGE.to_owned());
    }
    let rules = settings.get("rules");
    // Rules that are only tried out refuse nobody.
    if !settings.has("rules") {
        return Ok(Matching::never());
    }
    let terms = Terms { addresses };
    let mut taken = Matching::never();
    for (_, policy) in rules.get("policies").entries() {
        if policy.has("condition") || policy.has("checked_condition") || policy.has("cel_config") {
            return Err(BY_LANGUAGE.to_owned());
        }
        let permissions = terms.any(policy.get("permissions").items())?;
        let principals = terms.any(policy.get("principals").items())?;
        let both = permissions.and(&principals).ok_or(TOO_MANY)?;
        taken = taken.or(&both).ok_or(TOO_MANY)?;
    }
    match rules.get("action").text() {
        None | Some("ALLOW" | "0") => taken.not().ok_or_else(|| TOO_MANY.to_owned()),
        Some("DENY" | "1") => Ok(taken),
        Some("LOG" | "2") => Ok(Matching::never()),
        Some(_) => Err("its action is neither of ours: a rule lets in or refuses".to_owned()),
    }
}

struct Terms {
    addresses: Addresses,
}

impl Terms {
    fn any(&self, all: &[Tree]) -> Refused {
        let mut taken = Matching::never();
        let mut networks = Vec::new();
        for one in all {
            match self.network(one)? {
                Some(network) => networks.push(network),
                None => taken = taken.or(&self.one(one)?).ok_or(TOO_MANY)?,
            }
        }
        if networks.is_empty() {
            return Ok(taken);
        }
        let clients = Matching::condition(format!("client={}", quoted(&networks.join(","))));
        taken.or(&clients).ok_or_else(|| TOO_MANY.to_owned())
    }

    fn all(&self, all: &[Tree]) -> Refused {
        all.iter().try_fold(Matching::always(), |known, one| known.and(&self.one(one)?).ok_or_else(|| TOO_MANY.to_owned()))
    }

    /// One permission or one principal.
    fn one(&self, term: &Tree) -> Refused {
        let [(name, value)] = term.entries() else { return Err("one of its rules says nothing, or two things".to_owned()) };
        match super::snake(name).as_str() {
            "any" if value.is_true() => Ok(Matching::always()),
            "any" => Ok(Matching::never()),
            "and_rules" => self.all(value.get("rules").items()),
            "or_rules" => self.any(value.get("rules").items()),
            "and_ids" => self.all(value.get("ids").items()),
            "or_ids" => self.any(value.get("ids").items()),
            "not_rule" | "not_id" => self.one(value)?.not().ok_or_else(|| TOO_MANY.to_owned()),
            "direct_remote_ip" | "source_ip" | "remote_ip" => self.any(std::slice::from_ref(term)),
            "header" => header(value, self.addresses.authority),
            "url_path" => path(value.get("path")),
            name => Err(format!("`{name}` of its rules is asked by none of our conditions")),
        }
    }

    /// A network of clients, where it is one.
    fn network(&self, term: &Tree) -> Result<Option<String>, String> {
        let [(name, value)] = term.entries() else { return Ok(None) };
        match super::snake(name).as_str() {
            "remote_ip" if !self.addresses.is_of_connection => Err(BY_PROXY.to_owned()),
            "direct_remote_ip" | "source_ip" | "remote_ip" => {
                let address = value.get("address_prefix").text().unwrap_or_default();
                let network = value.get("prefix_len").number().unwrap_or(0);
                let network = format!("{address}/{network}");
                if parse_network(&network).is_err() {
                    return Err("one of its networks is none".to_owned());
                }
                Ok(Some(network))
            }
            _ => Ok(None),
        }
    }
}

fn header(header: &Tree, authority: Authority) -> Refused {
    if header.get("name").text().is_some_and(is_claimed) {
        return Err(OF_PROXY.to_owned());
    }
    let literal = |text: String| {
        let is_negated = text.starts_with("not ");
        let condition = text.strip_prefix("not ").unwrap_or(&text).to_owned();
        AskedLiteral { is_negated, ..AskedLiteral::of(Asked::Condition(condition)) }
    };
    Ok(Matching { clauses: vec![of_header(header, authority)?.into_iter().map(literal).collect()] })
}

/// A text that the path is compared with.
fn path(matched: &Tree) -> Refused {
    let blind = if matched.get("ignore_case").is_true() { "(?i)" } else { "" };
    let of = |name: &str| matched.get(name).text().map(regex_syntax::escape);
    let pattern = if let Some(text) = matched.at(&["safe_regex", "regex"]).text() {
        format!("~{blind}^(?:{text})$")
    } else if let Some(text) = of("exact") {
        format!("~{blind}^{text}$")
    } else if let Some(text) = of("prefix") {
        format!("~{blind}^{text}")
    } else if let Some(text) = of("suffix") {
        format!("~{blind}{text}$")
    } else if let Some(text) = of("contains") {
        format!("~{blind}{text}")
    } else {
        return Err("a path is compared as none of our conditions does".to_owned());
    };
    expression(pattern.trim_start_matches('~')).build().map_err(|_| NO_EXPRESSION)?;
    Ok(Matching::of(Asked::Paths(vec![PathPattern::of(pattern)])))
}
