//! Labels of Traefik as they are: the reader of its files reads the routers of a container one by one, and what it
//! makes of each is held against the account of every label. Of a router of which one word is not carried, nothing is
//! served, and what it names is shut where another router would serve it.

mod checks;
mod entry_points;
mod refused;
mod words;

use super::offer::{Address, Offer, OfferDraft, text_of};
use super::reach::Reach;
use super::tree::{LabelText, text};
use super::trust;
use crate::diagnostics::{Diagnostic, FileId, Location, SourceFile, Sources, nearest, shortened};
use crate::syntax::{self, Node, Value};
use crate::table::Place;
use entry_points::EntryPoints;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_foreign::accounts::{Account, Origin, account};
use tidegate_foreign::beginning::settle_prefixes;
use tidegate_foreign::outline::{Outline, OutlinedAnswer, OutlinedSite, Service};
use tidegate_foreign::outline_of_labels;
use tidegate_foreign::written::{self, Bounds, Pools};
use tidegate_model::{
    ContainerGroup, ContainerGroups, Containers, HostPattern, LabelDialect, Scheme, SiteAddress, UpstreamAddress,
};
use words::WORDS;

/// Stands for the containers where a server would be written.
const SERVER: &str = "container-of-labels";
const BOUNDS: Bounds = Bounds { routes_max: 100, names_max: 100, servers_max: 1, servers_in_place_max: 1 };
/// Of a container; more are a list that somebody has made by mistake.
const ROUTERS_MAX: usize = 100;
/// What is read apart, or is said by the file.
const APART: &[&str] = &[
    "enable",
    "docker.network",
    "docker.lbswarm",
    "docker.visiblewhennotrunning",
    "docker.allownonrunning",
    "swarm.network",
    "swarm.lbswarm",
];

/// A label behind `traefik.`.
struct RouterLabel<'c> {
    key: &'c str,
    /// Without the provider that containers are of.
    value: String,
    text: LabelText,
}

impl RouterLabel<'_> {
    /// In small letters.
    fn last_word(&self) -> String {
        self.key.rsplit('.').next().unwrap_or_default().to_ascii_lowercase()
    }
}

/// What all containers together say of middlewares, by their owner: those of one project may use each other's.
pub fn shared_middlewares(groups: &ContainerGroups) -> BTreeMap<&str, Vec<(&str, &str)>> {
    let mut shared: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (_, group) in groups.iter() {
        let speaker = &group.members[0];
        let labels = speaker.labels.iter().filter_map(|(name, value)| {
            let key = name.strip_prefix("traefik.").filter(|key| key.to_ascii_lowercase().starts_with("http.middlewares."))?;
            Some((key, value.as_str()))
        });
        shared.entry(&speaker.owner).or_default().extend(labels);
    }
    shared
}

pub fn offers(
    group: &Arc<ContainerGroup>,
    shared: &BTreeMap<&str, Vec<(&str, &str)>>,
    settings: &Containers,
    sources: &mut Sources,
    faults: &mut Vec<Diagnostic>,
) -> Vec<Offer> {
    let container = &*group.members[0];
    let mut labels: Vec<RouterLabel<'_>> = Vec::new();
    // Whether there is a label of which nobody knows which router it is about.
    let mut is_unclear = false;
    let own = || container.labels.iter().filter(|(label, _)| LabelDialect::Traefik.owns(label));
    for (name, value) in own() {
        let text = LabelText::new(sources, &container.name, &format!("label {}", shortened(name)), value);
        let Some(key) = name.strip_prefix("traefik.") else {
            let message = format!("the quotes or blanks are part of the name `{}`", shortened(name));
            faults
                .push(Diagnostic::error("bad-label", text.whole(), message).help("quotes belong around the whole line in YAML"));
            is_unclear = true;
            continue;
        };
        labels.push(RouterLabel { key, value: without_provider(value), text });
    }
    match checks::is_enabled(&labels, settings.exposed_by_default) {
        Ok(true) => {}
        Ok(false) => return Vec::new(),
        Err(fault) => {
            faults.push(*fault);
            is_unclear = true;
        }
    }
    let without_router = checks::without_router(&labels);
    labels.retain(|label| !APART.contains(&label.key.to_ascii_lowercase().as_str()));
    labels.retain(|label| {
        let fault = checks::not_read(label);
        is_unclear |= fault.as_ref().is_some_and(Diagnostic::is_error);
        let is_read = fault.is_none();
        faults.extend(fault);
        is_read
    });
    faults.extend(without_router.filter(|_| !is_unclear));
    // What others of the project say stands behind a container's own, and counts for nothing where that says the same.
    for (key, value) in shared.get(container.owner.as_str()).into_iter().flatten() {
        if !labels.iter().any(|label| label.key == *key) {
            let text = LabelText::new(sources, &container.name, &format!("label traefik.{key} of its project"), value);
            labels.push(RouterLabel { key, value: without_provider(value), text });
        }
    }
    let routers: BTreeSet<&str> = labels.iter().filter_map(|label| named(label.key, "routers")).collect();
    let mut offers = Vec::new();
    for (count, router) in routers.into_iter().enumerate() {
        let mut found = Vec::new();
        let asked = AskedRouter { group, name: router, labels: &labels, points: EntryPoints::new(&settings.entry_points) };
        let of_router = if count < ROUTERS_MAX { asked.read(sources, &mut found) } else { asked.one_too_many(&mut found) };
        if is_unclear || found.iter().any(Diagnostic::is_error) {
            // How its lines would differ is nobody's concern.
            found.retain(Diagnostic::is_error);
            offers.extend(asked.refused(sources));
        } else {
            offers.extend(of_router);
        }
        faults.extend(found);
    }
    // Misspelt as a whole, it is about the hosts that it names.
    if is_unclear && offers.is_empty() {
        let said: Vec<&str> = own().map(|(_, value)| value.as_str()).collect();
        let at = faults.first().map(|fault| fault.primary.location.clone());
        offers.extend(at.map(|at| Offer::unreadable(group, "traefik", &said.join("\n"), false, at)));
    }
    offers
}

/// Names of this provider may say so.
fn without_provider(value: &str) -> String {
    let plain = |name: &str| {
        let name = name.trim();
        name.strip_suffix("@docker").or_else(|| name.strip_suffix("@swarm")).unwrap_or(name).to_owned()
    };
    if value.contains('@') && !value.contains(['(', '`', '"']) {
        value.split(',').map(plain).collect::<Vec<_>>().join(",")
    } else {
        value.to_owned()
    }
}

/// The name behind `http.routers.` and its kin.
fn named<'k>(key: &'k str, kind: &str) -> Option<&'k str> {
    let mut parts = key.splitn(4, '.');
    let is_it = parts.next()?.eq_ignore_ascii_case("http") && parts.next()?.eq_ignore_ascii_case(kind);
    parts.next().filter(|_| is_it)
}

/// The labels that have a say in a router: its own, those of its service, and those of its middlewares and of theirs.
fn of_router<'l, 'c>(router: &str, labels: &'l [RouterLabel<'c>]) -> Vec<&'l RouterLabel<'c>> {
    let is_own = |label: &&RouterLabel<'_>| named(label.key, "routers") == Some(router);
    let names_of = |label: &RouterLabel<'_>| label.value.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
    let service =
        labels.iter().filter(is_own).find(|label| label.last_word() == "service").map(|label| label.value.trim().to_owned());
    let mut wanted: Vec<String> =
        labels.iter().filter(is_own).filter(|label| label.last_word() == "middlewares").flat_map(names_of).collect();
    let mut used: BTreeSet<String> = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        let chain = labels
            .iter()
            .filter(|label| named(label.key, "middlewares") == Some(name.as_str()) && label.last_word() == "middlewares");
        if used.insert(name.clone()) {
            wanted.extend(chain.flat_map(names_of));
        }
    }
    let has_say = |label: &&RouterLabel<'_>| {
        is_own(label)
            || named(label.key, "services").is_some_and(|name| service.as_deref().is_none_or(|service| service == name))
            || named(label.key, "middlewares").is_some_and(|name| used.contains(name))
    };
    labels.iter().filter(has_say).collect()
}

/// A router with all labels of its container and of the middlewares of its project.
struct AskedRouter<'a, 'c> {
    group: &'a Arc<ContainerGroup>,
    name: &'a str,
    labels: &'a [RouterLabel<'c>],
    points: EntryPoints<'a>,
}

impl<'a, 'c> AskedRouter<'a, 'c> {
    /// The router's own label of that last word.
    fn own(&self, word: &str) -> Option<&'a RouterLabel<'c>> {
        self.all_own().find(|label| label.last_word() == word)
    }

    fn all_own(&self) -> impl Iterator<Item = &'a RouterLabel<'c>> {
        self.labels.iter().filter(|label| named(label.key, "routers") == Some(self.name))
    }

    fn one_too_many(&self, faults: &mut Vec<Diagnostic>) -> Vec<Offer> {
        let message = format!("the container has more than {ROUTERS_MAX} routers, so this one is not served");
        let first = self.all_own().next().map(|label| label.text.whole());
        faults.extend(first.map(|at| Diagnostic::error("bad-label", at, message).help("spread them over several containers")));
        Vec::new()
    }

    fn read(&self, sources: &mut Sources, faults: &mut Vec<Diagnostic>) -> Vec<Offer> {
        // Each host has a certificate of its own, whatever names one would be asked for there.
        let is_of_certificates = |label: &&&RouterLabel<'_>| label.key.to_ascii_lowercase().contains(".tls.domains");
        let labels: Vec<&RouterLabel<'_>> = of_router(self.name, self.labels);
        let labels: Vec<&RouterLabel<'_>> = labels.iter().filter(|label| !is_of_certificates(label)).copied().collect();
        let Some(rule) = self.own("rule") else {
            faults.extend(checks::without_rule(self));
            return Vec::new();
        };
        checks::check(self, &labels, faults);
        let is_faulty = |text: &LabelText, faults: &[Diagnostic]| {
            faults.iter().any(|fault| fault.is_error() && fault.primary.location.file == text.file)
        };
        if is_faulty(&rule.text, faults) {
            return Vec::new();
        }
        let pairs: Vec<(&str, &str)> = labels.iter().map(|label| (label.key, label.value.as_str())).collect();
        let points = self.points.known(self.own("entrypoints").is_some());
        let mut outline = outline_of_labels(&pairs, &points, SERVER, &self.group.members[0].ports);
        let (mut sites, mut told) = (Vec::new(), Origin::default());
        told.carried.extend(&outline.done_without);
        for service in std::mem::take(&mut outline.services) {
            match service {
                Service::Site(mut site) => {
                    site.routes.iter_mut().for_each(settle_prefixes);
                    told.add(&site.whole_origin());
                    sites.push(site);
                }
                Service::Tcp(_) => {}
            }
        }
        if sites.is_empty() && outline.done_without.is_empty() {
            // What is wrong with it is told of already, as of an entry point that nobody has.
            if labels.iter().any(|label| is_faulty(&label.text, faults)) {
                return Vec::new();
            }
            let message = format!("the router `{}` is not understood", shortened(self.name));
            let why = outline.without.unwrap_or("its rule says what no line here does");
            faults.push(
                Diagnostic::error("router-not-understood", rule.text.whole(), message)
                    .note(why)
                    .help("say it with `tidegate.site` and `tidegate.config`, or in the file with `discover container=`"),
            );
            return Vec::new();
        }
        let told_of: BTreeSet<FileId> =
            labels.iter().map(|label| &label.text).filter(|text| is_faulty(text, faults)).map(|text| text.file).collect();
        // Whoever is only sent elsewhere comes to no service.
        let asks_service = sites.iter().flat_map(answers_of).any(|answer| !matches!(answer, OutlinedAnswer::Redirect { .. }));
        let counts = |label: &RouterLabel<'_>| {
            !told_of.contains(&label.text.file) && (asks_service || named(label.key, "services").is_none())
        };
        account_for(&outline, &told, &labels, &counts, faults);
        let mut offers: Vec<Offer> = sites.iter().flat_map(|site| self.offer(site, &rule.text, sources, faults)).collect();
        let (is_everywhere, has_tls) = (self.own("entrypoints").is_none(), self.has_tls());
        for offer in &mut offers {
            offer.reaches = self::reaches(&offer.addresses, is_everywhere, has_tls);
        }
        offers
    }

    /// As Traefik has it: the longer rule goes first, unless the label says otherwise. `None` where that is no number.
    fn priority(&self) -> Option<i64> {
        let said = self.own("priority").map(|label| label.value.trim().parse().ok());
        let length = self.own("rule").map_or(0, |rule| rule.value.len() as i64);
        match said {
            None | Some(Some(0)) => Some(length),
            Some(said) => said,
        }
    }

    fn has_tls(&self) -> bool {
        let prefix = format!("http.routers.{}.tls", self.name).to_ascii_lowercase();
        let is_it = |label: &RouterLabel<'_>| {
            let key = label.key.to_ascii_lowercase();
            key.strip_prefix(&prefix)
                .is_some_and(|rest| rest.starts_with('.') || (rest.is_empty() && label.value.trim() != "false"))
        };
        self.all_own().any(is_it)
    }

    /// A site of the reader, whose only server is the container, as an offer.
    fn offer(&self, site: &OutlinedSite, rule: &LabelText, sources: &mut Sources, faults: &mut Vec<Diagnostic>) -> Vec<Offer> {
        let at = rule.whole();
        // At a port of its own, all hosts are an address as well.
        let is_of_all = |address: &String| SiteAddress::parse(address).is_ok_and(|address| address.host == HostPattern::Any);
        if written::is_name_open(site) || !site.only_hosts.is_empty() || site.addresses.iter().any(is_of_all) {
            let message = format!("the rule of the router `{}` names no host", shortened(self.name));
            faults.push(
                Diagnostic::error("bad-label", at, message)
                    .help("add ``Host(`shop.example.com`)``: a label may not take all hosts"),
            );
            return Vec::new();
        }
        let Some(node) = site_node(site, &at, sources) else {
            faults.push(Diagnostic::error("router-not-understood", at, "what the rule says cannot be written here"));
            return Vec::new();
        };
        let addresses: Vec<Value> = node.entries.into_iter().map(|entry| entry.value).collect();
        let addresses = addresses.iter().filter_map(text_of).map(|address| text(self.points.address(address), &at)).collect();
        let mut content = node.children.unwrap_or_default();
        let mut draft = OfferDraft::new(self.group, &format!("traefik {}", self.name));
        for node in &mut content {
            take_server(node, &mut draft);
        }
        trust::refused(&content, Place::Site, faults);
        let (patterns, conditions, content) = as_route(content);
        draft.add(addresses, at, patterns, content, faults);
        for offer in &mut draft.offers {
            offer.conditions.clone_from(&conditions);
            offer.priority = self.priority();
        }
        draft.offers
    }
}

/// The site as a file of ours has it.
fn site_node(site: &OutlinedSite, at: &Location, sources: &mut Sources) -> Option<Node> {
    let lines = written::site(site, &mut Pools::new(false, BOUNDS))?.on_one_line();
    let file = sources.add(SourceFile { name: String::new(), text: lines.into(), directory: PathBuf::from("/") });
    let mut nodes = syntax::parse(sources, file).ok()?;
    let mut node = nodes.pop().filter(|_| nodes.is_empty())?;
    node.relocate(&|_| at.clone());
    Some(node)
}

fn answers_of(site: &OutlinedSite) -> impl Iterator<Item = &OutlinedAnswer> {
    site.routes.iter().map(|route| &route.answer).chain(&site.answer)
}

/// Other sites that a router is on: one of many hosts is looked at for each of them, and one without entry points is at
/// all of them.
fn reaches(addresses: &[Address], is_everywhere: bool, has_tls: bool) -> Vec<Reach> {
    let reach = |(address, _): &Address| {
        let is_of_many = matches!(address.host, HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_));
        let own = Reach::of_address(address);
        match (is_everywhere, is_of_many) {
            (true, _) => Some(Reach { scheme: has_tls.then_some(Scheme::Https), port: None, ..own }),
            (false, true) => Some(own),
            (false, false) => None,
        }
    };
    addresses.iter().filter_map(reach).collect()
}

/// What of the labels is not carried, and what is different of those that are.
fn account_for(
    outline: &Outline,
    told: &Origin,
    labels: &[&RouterLabel<'_>],
    counts: &dyn Fn(&RouterLabel<'_>) -> bool,
    faults: &mut Vec<Diagnostic>,
) {
    for statement in &outline.statements {
        let Some(label) = labels.get(statement.at).filter(|label| counts(label)) else { continue };
        match account(statement, told, &|_| false) {
            Account::Carried | Account::SameByDefault | Account::Elsewhere => {}
            // That entry points are not in the labels is no news.
            Account::Approximated(how) if how.contains("in another file") || how.contains("are in another file") => {}
            Account::Approximated(how) => {
                faults.push(
                    Diagnostic::warning("label-differs", label.text.whole(), "this is not quite the same here")
                        .help(how.to_owned()),
                );
            }
            Account::NotCarried(_) => {
                let word = label.last_word();
                let word = word.split('[').next().unwrap_or_default();
                let message = format!("nothing here does what `{}` says, so its router is not served", shortened(word));
                let diagnostic = Diagnostic::error("label-not-carried", label.text.whole(), message);
                let meant = nearest(word, WORDS.iter().copied()).filter(|_| !WORDS.contains(&word));
                faults.push(match (meant, outline.reasons.get(&statement.at)) {
                    (Some(meant), _) => diagnostic.help(format!("did you mean `{meant}`?")),
                    (None, Some(reason)) => diagnostic.help(reason.clone()),
                    (None, None) => diagnostic.help("leave it out, or say the rest in the file with `discover container=`"),
                });
            }
        }
    }
}

/// The port and scheme of the placeholder for the container, which a bare `proxy` stands for.
fn take_server(node: &mut Node, draft: &mut OfferDraft) {
    if node.name.text == "proxy" {
        let address =
            node.entries.iter().filter_map(|entry| text_of(&entry.value)).find_map(|text| UpstreamAddress::parse(text).ok());
        if let Some(UpstreamAddress::Tcp(address)) = address.filter(|address| address.authority().starts_with(SERVER)) {
            draft.port = Some(address.port);
            draft.is_tls = address.scheme == tidegate_model::Scheme::Https;
            node.entries.clear();
        }
        return;
    }
    node.children.iter_mut().flatten().for_each(|child| take_server(child, draft));
}

/// The only route of a site as what it takes and what it does, so that others may stand beside it.
fn as_route(mut content: Vec<Node>) -> (Option<Vec<Value>>, Vec<Node>, Vec<Node>) {
    if content.len() != 1 || content[0].name.text != "route" {
        return (None, Vec::new(), content);
    }
    let route = content.remove(0);
    let patterns: Vec<Value> = route.entries.into_iter().filter(|entry| entry.name.is_none()).map(|entry| entry.value).collect();
    let (conditions, rest) = route.children.unwrap_or_default().into_iter().partition(|node| node.name.text == "match");
    ((!patterns.is_empty()).then_some(patterns), conditions, rest)
}
