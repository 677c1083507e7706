//! From what containers say by their labels to sites and pools of a configuration. What labels offer is read in
//! `native` and its neighbours, what they may say is in `trust`; who gets which host is decided in `claims`. Here
//! offers of one site become a tree, and the tree what a file of those words would mean. What is wrong takes nothing
//! away but what said it, and lets nobody in to that by another way.

mod claims;
mod native;
mod nginx_proxy;
mod offer;
mod reach;
mod refused;
mod traefik;
mod tree;
mod trust;

#[cfg(test)]
mod tests;

use crate::diagnostics::{Diagnostic, FileId, Location, Severity, SourceFile, Sources, render};
use crate::directives::LANGUAGE;
use crate::language::{Lower, Seen};
use crate::lowering::{Environment, Lowering};
use crate::syntax::Node;
use crate::table::Place;
use claims::{Claims, Placed};
use offer::{Address, Offer, Standing};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_model::{
    Configuration, ContainerGroup, ContainerGroups, Containers, Discover, LabelDialect, Origin, Pool, Site, SiteAddress,
};
use tree::{Fill, line};

/// Of one label. A configuration of its own is smaller, and what is larger is a mistake or an attack.
const LABEL_BYTES_MAX: usize = 64 << 10;
/// Of all labels of a container that are read.
const CONTAINER_BYTES_MAX: usize = 256 << 10;

/// What the last reading of labels came to, for the next one: who had which host, and sites that were read.
#[derive(Debug, Clone, Default)]
pub struct LabelMemory {
    /// Owners of hosts, so that nobody takes a host from somebody who is just replacing a container.
    holders: BTreeMap<String, String>,
    sites: HashMap<String, Arc<LabelledSite>>,
}

/// What labels add to a configuration.
#[derive(Debug, Default)]
pub struct Labelled {
    pub sites: Vec<Arc<Site>>,
    pub pools: Vec<Arc<Pool>>,
    pub faults: Vec<LabelFault>,
    /// Groups that offer something, whatever becomes of it.
    pub asking: BTreeSet<String>,
    /// Groups of which something is served: by their labels, or as servers of a pool of the file.
    pub served: BTreeSet<String>,
    memory: LabelMemory,
}

impl Labelled {
    /// For the next reading, once this one runs.
    pub fn into_memory(self) -> LabelMemory {
        self.memory
    }
}

/// What is wrong with a label, or strange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelFault {
    pub severity: Severity,
    /// In one sentence.
    pub message: String,
    /// Container, label, line and column, as `container web-1, label tidegate.site:1:5`.
    pub place: String,
    pub help: Option<String>,
    /// All of it with an excerpt, as diagnostics of a file are shown.
    pub rendered: String,
}

/// One site as a file would have given it.
#[derive(Debug)]
struct LabelledSite {
    sites: Vec<Arc<Site>>,
    pools: Vec<Arc<Pool>>,
    /// Warnings.
    faults: Vec<LabelFault>,
}

/// The sites of all labels beside those of the file. Neither disk nor environment is looked at.
pub fn read_labels(groups: &ContainerGroups, settings: &Containers, file: &Configuration, memory: &LabelMemory) -> Labelled {
    let mut reading = LabelReading::default();
    let reads_traefik = settings.source.dialects.contains(&LabelDialect::Traefik);
    let shared = if reads_traefik { traefik::shared_middlewares(groups) } else { BTreeMap::new() };
    for (_, group) in groups.iter() {
        reading.read_group(group, settings, &shared);
    }
    let LabelReading { sources, mut offers, mut refused, files, mut diagnostics } = reading;
    let claims = Claims::new(settings, file, &memory.holders);
    let holders = claims.decide(&mut offers, &mut refused, &mut diagnostics);
    let mut labelled = Labelled::default();
    labelled.memory.holders = holders;
    let mut shut: BTreeMap<(String, String), (Offer, Vec<&SiteAddress>)> = BTreeMap::new();
    labelled.asking = offers.iter().chain(&refused).map(|offer| offer.group.members[0].group.clone()).collect();
    labelled.served = groups.iter().filter(|(_, group)| is_of_file(group, file)).map(|(name, _)| name.to_owned()).collect();
    for (addresses, of_site) in claims::by_address(&offers, &refused) {
        let lowered = lower_site(&addresses, of_site, &sources, &files, memory, &mut diagnostics);
        let Some((key, lowered, placed)) = lowered else { continue };
        for Placed { offer, .. } in placed {
            if offer.standing == Standing::Served {
                labelled.served.insert(offer.group.members[0].group.clone());
                continue;
            }
            let name = (offer.group.members[0].id.clone(), offer.name.clone());
            let (_, known) = shut.entry(name).or_insert_with(|| (offer.into_owned(), Vec::new()));
            known.extend(addresses.iter().copied().map(|(address, _)| address));
        }
        labelled.sites.extend(lowered.sites.iter().cloned());
        for pool in &lowered.pools {
            let is_known = |known: &Arc<Pool>| known.name == pool.name;
            if !labelled.pools.iter().any(is_known) && !file.pools.iter().any(is_known) {
                labelled.pools.push(pool.clone());
            }
        }
        labelled.faults.extend(lowered.faults.iter().cloned());
        labelled.memory.sites.insert(key, lowered);
    }
    diagnostics.extend(shut.values().map(|(offer, addresses)| refused::told(offer, addresses)));
    labelled.faults.extend(diagnostics.iter().map(|diagnostic| shown_alone(diagnostic, &sources)));
    labelled.faults.sort_by(|a, b| (&a.place, &a.message).cmp(&(&b.place, &b.message)));
    labelled.faults.dedup();
    labelled
}

/// Whether a pool of the file has these containers for servers.
fn is_of_file(group: &ContainerGroup, file: &Configuration) -> bool {
    let speaker = &group.members[0];
    file.pools.iter().flat_map(|pool| &pool.discover).any(|source| match source {
        Discover::Containers(containers) => containers.group == speaker.group,
        Discover::Docker(docker) => speaker.labels.get("tidegate.pool").is_some_and(|pool| *pool == docker.label),
        Discover::Dns(_) | Discover::File { .. } | Discover::Consul(_) | Discover::Kubernetes(_) => false,
    })
}

#[derive(Default)]
struct LabelReading {
    sources: Sources,
    offers: Vec<Offer>,
    refused: Vec<Offer>,
    /// Which group a text belongs to, by its place in the list of texts.
    files: Vec<Arc<ContainerGroup>>,
    diagnostics: Vec<Diagnostic>,
}

impl LabelReading {
    fn read_group(&mut self, group: &Arc<ContainerGroup>, settings: &Containers, shared: &BTreeMap<&str, Vec<(&str, &str)>>) {
        let speaker = &group.members[0];
        self.note_dissenters(group);
        if let Some(fault) = too_large(speaker, &mut self.sources) {
            let at = fault.primary.location.clone();
            let values = speaker.labels.iter().chain(&speaker.variables).map(|(_, value)| value.as_str());
            let said: Vec<&str> = values.filter(|value| value.len() <= LABEL_BYTES_MAX).collect();
            self.refused.push(Offer::unreadable(group, "", &said.join("\n"), true, at));
            self.diagnostics.push(fault);
        } else {
            for dialect in &settings.source.dialects {
                let mut found = Vec::new();
                let offers = match dialect {
                    LabelDialect::Tidegate => native::offers(group, &mut self.sources, &mut found),
                    LabelDialect::NginxProxy => nginx_proxy::offers(group, &mut self.sources, &mut found),
                    LabelDialect::Traefik => traefik::offers(group, shared, settings, &mut self.sources, &mut found),
                };
                // Nothing is served half: a route that cannot be understood may be the one that lets nobody in. Routers
                // of Traefik stand each for itself.
                let is_whole = *dialect == LabelDialect::Traefik || !found.iter().any(Diagnostic::is_error);
                for offer in offers {
                    match offer.standing {
                        Standing::Served if is_whole => self.offers.push(offer),
                        Standing::Served => self.refused.push(offer.refused()),
                        Standing::Refused => self.refused.push(offer),
                    }
                }
                self.diagnostics.extend(found);
            }
        }
        self.files.resize(self.sources.len(), group.clone());
    }

    fn note_dissenters(&mut self, group: &Arc<ContainerGroup>) {
        let speaker = &group.members[0];
        for other in group.dissenters.iter().filter(|other| !other.stage.is_ending()) {
            let differs = other.labels.iter().find(|(name, value)| speaker.labels.get(*name) != Some(value));
            let lacks = || speaker.labels.iter().find(|(name, _)| !other.labels.contains_key(*name));
            let name = differs.or_else(lacks).map_or("", |(name, _)| name.as_str());
            let what = if name.is_empty() { "variables".to_owned() } else { format!("label {name}") };
            let value = other.labels.get(name).map_or("", |value| clipped(value));
            let written = tree::LabelText::new(&mut self.sources, &other.name, &what, value);
            let message = format!(
                "the container {} says otherwise than {}, which does the same work and is older",
                other.name, speaker.name
            );
            let diagnostic = Diagnostic::error("contradiction", written.whole(), message);
            self.diagnostics.push(diagnostic.help(format!(
                "{} gets no requests as long as {} is there; start them with the same labels, or give one another `tidegate.pool`",
                other.name, speaker.name
            )));
        }
    }
}

/// As much of a text as a message shows.
fn clipped(text: &str) -> &str {
    let end = text.char_indices().nth(200).map_or(text.len(), |(end, _)| end);
    &text[..end]
}

fn too_large(container: &tidegate_model::Container, sources: &mut Sources) -> Option<Diagnostic> {
    let all = container.labels.iter().chain(&container.variables);
    let large = all.clone().find(|(name, value)| value.len() > LABEL_BYTES_MAX || name.len() > LABEL_BYTES_MAX / 64);
    let total: usize = all.map(|(name, value)| name.len() + value.len()).sum();
    let (name, message) = match large {
        Some((name, value)) => {
            (clipped(name), format!("the label has {} bytes; at most {LABEL_BYTES_MAX} are read", value.len()))
        }
        None if total > CONTAINER_BYTES_MAX => {
            ("", format!("the labels have {total} bytes together; at most {CONTAINER_BYTES_MAX} are read"))
        }
        None => return None,
    };
    let what = if name.is_empty() { "all labels".to_owned() } else { format!("label {name}") };
    let written = tree::LabelText::new(sources, &container.name, &what, "");
    let diagnostic = Diagnostic::error("label-too-large", written.whole(), message);
    Some(diagnostic.help("put what is this long into the file, as a site of its own"))
}

/// Lowers the site of these offers; one that cannot be meant is refused, and the others are tried with that. With the
/// site comes what it is made of.
fn lower_site<'o>(
    addresses: &[&Address],
    mut placed: Vec<Placed<'o>>,
    sources: &Sources,
    files: &[Arc<ContainerGroup>],
    memory: &LabelMemory,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<(String, Arc<LabelledSite>, Vec<Placed<'o>>)> {
    // Each round takes something away from an offer, and there are two steps down.
    for _ in 0..=placed.len() * 2 {
        if !placed.iter().any(|placed| placed.offer.standing == Standing::Served) {
            return None;
        }
        placed.sort_by_key(|placed| placed.offer.rank());
        // Behind one that takes all, nothing has to be shut; and what comes behind one that is shut as a whole is
        // reached by nobody.
        let all = placed.iter().position(|placed| placed.only_host.is_none() && placed.offer.takes_all());
        let mut end = placed.len();
        if let Some(all) = all {
            let behind = placed.split_off(all + 1).into_iter().filter(|placed| placed.offer.standing == Standing::Served);
            placed.extend(behind);
            end = if placed[all].offer.standing == Standing::Served { placed.len() } else { all + 1 };
        }
        let key = key_of(addresses, &placed[..end]);
        if let Some(known) = memory.sites.get(&key) {
            return Some((key, known.clone(), placed));
        }
        let site = site_of(addresses, &placed[..end]);
        let (sites, pools, found) = lowered_alone(&site, sources);
        let errors: Vec<&Diagnostic> = found.iter().filter(|diagnostic| diagnostic.is_error()).collect();
        if errors.is_empty() {
            let faults = found.iter().map(|diagnostic| shown_alone(diagnostic, sources)).collect();
            return Some((key, Arc::new(LabelledSite { sites, pools, faults }), placed));
        }
        let group_of = |at: &Location| files.get(at.file.0);
        let is_faulty = |offer: &Offer| {
            errors.iter().any(|error| {
                group_of(&error.primary.location).is_none_or(|group| group.members[0].id == offer.group.members[0].id)
            })
        };
        if !placed[..end].iter().any(|placed| is_faulty(&placed.offer)) {
            diagnostics.extend(found.into_iter().filter(Diagnostic::is_error));
            return None;
        }
        for Placed { offer, .. } in placed.iter_mut().filter(|placed| is_faulty(&placed.offer)) {
            // An offer that is refused already cannot even be shut as it is.
            *offer = Cow::Owned(match offer.standing {
                Standing::Served => offer.clone().into_owned().refused(),
                Standing::Refused => offer.clone().into_owned().blunt(),
            });
        }
        diagnostics.extend(found.into_iter().filter(Diagnostic::is_error));
    }
    None
}

/// What tells a site from every other: its addresses, and all that is said of it.
fn key_of(addresses: &[&Address], placed: &[Placed<'_>]) -> String {
    let mut key = String::new();
    for address in addresses {
        key.push_str(&format!("{}\n", address.0));
    }
    for Placed { offer, only_host } in placed {
        let speaker = &offer.group.members[0];
        let (labels, variables) = (&speaker.labels, &speaker.variables);
        let names = (&speaker.name, &speaker.group, &offer.name, &speaker.ports, only_host, offer.standing);
        key.push_str(&format!("{names:?}\n{labels:?}\n{variables:?}\n"));
        // Middlewares of Traefik may be on containers of which nothing stands here.
        offer.as_route(*only_host).write_shape(&mut key);
    }
    key
}

/// The offers are in the order in which they are looked at.
fn site_of(addresses: &[&Address], placed: &[Placed<'_>]) -> Node {
    let at = &placed[0].offer.at;
    let mut site = line("site", at);
    for address in addresses {
        site = site.argument(address.1.clone());
    }
    match placed {
        [Placed { offer, only_host: None }]
            if offer.standing == Standing::Served && offer.patterns.is_none() && offer.conditions.is_empty() =>
        {
            site.block(offer.origin().into_iter().chain(offer.content.iter().cloned()).collect())
        }
        several => site.block(several.iter().map(|placed| placed.offer.as_route(placed.only_host)).collect()),
    }
}

/// As the only site of a file that knows of nothing.
fn lowered_alone(site: &Node, sources: &Sources) -> (Vec<Arc<Site>>, Vec<Arc<Pool>>, Vec<Diagnostic>) {
    let environment = Environment::Nothing;
    let mut lowering = Lowering::new(sources, &environment);
    if let Some(line) = LANGUAGE.line(&mut lowering, site, Place::Top, &mut Seen::default())
        && let Lower::Top(lower) = line.directive.lower
    {
        lower(&mut lowering, &line);
    }
    // What may be said is decided before; this is for what was overlooked there.
    let spans = &lowering.spans;
    let looks_at = spans.files.first().map(|(_, at)| at.clone()).or_else(|| spans.geo_used.first().cloned());
    let looks_at = looks_at.or_else(|| spans.maps_used.first().map(|(_, at)| at.clone()));
    let is_alone = lowering.read_files.is_empty() && !lowering.looks_outside && lowering.pools_used.is_empty();
    if looks_at.is_some() || !is_alone {
        let at = looks_at.unwrap_or_else(|| site.location.clone());
        lowering.report(Diagnostic::error("not-for-labels", at, "labels may not say what looks beyond them"));
    }
    lowering.diagnostics.iter_mut().for_each(Diagnostic::hide_passwords);
    let pools = lowering.pools_in_place.into_values().map(with_origin).collect();
    (lowering.configuration.sites, pools, lowering.diagnostics)
}

/// Whose containers its servers are. Its name, which it is known by, says so already.
fn with_origin(mut pool: Arc<Pool>) -> Arc<Pool> {
    let group = pool.discover.iter().find_map(|source| match source {
        Discover::Containers(containers) => Some(containers.group.clone()),
        Discover::Dns(_) | Discover::File { .. } | Discover::Docker(_) | Discover::Consul(_) | Discover::Kubernetes(_) => None,
    });
    if let Some(group) = group {
        Arc::make_mut(&mut pool).origin = Some(Arc::new(Origin::of_containers(&group)));
    }
    pool
}

/// With nothing but the texts that it is about: there may be thousands of others.
fn shown_alone(diagnostic: &Diagnostic, sources: &Sources) -> LabelFault {
    let mut alone = Sources::default();
    alone.hide(LANGUAGE.secret_properties(), LANGUAGE.with_secret_arguments(), LANGUAGE.property_names(), |word| {
        LANGUAGE.is_known_word(word)
    });
    let mut known: BTreeMap<FileId, FileId> = BTreeMap::new();
    let mut shown = diagnostic.clone();
    let places = std::iter::once(&mut shown.primary).chain(&mut shown.labels).map(|label| &mut label.location);
    for at in places.chain(&mut shown.hidden) {
        let file = at.file;
        at.file = *known.entry(file).or_insert_with(|| {
            let nowhere = || SourceFile { name: "labels".into(), text: "".into(), directory: PathBuf::from("/") };
            alone.add(if file.0 < sources.len() { sources.file(file).clone() } else { nowhere() })
        });
    }
    let (line, column) = alone.position(&shown.primary.location);
    let place = format!("{}:{line}:{column}", alone.file(shown.primary.location.file).name);
    let rendered = render(std::slice::from_ref(&shown), &alone, false);
    let help = shown.help.as_ref().map(ToString::to_string);
    LabelFault { severity: shown.severity, message: shown.message.into_owned(), place, help, rendered }
}
