//! The language's own labels: `tidegate.site`, `tidegate.route` and their like, and `tidegate.config` with lines of the
//! language itself.

use super::offer::{Offer, OfferDraft, text_of};
use super::tree::{Fill, LabelText, line, quote_around, text};
use super::trust;
use crate::diagnostics::{Diagnostic, Location, Sources, nearest, shortened};
use crate::directives::LANGUAGE;
use crate::language::Lower;
use crate::syntax::{self, Literal, Node, Value};
use crate::table::Place;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{Container, ContainerGroup, LabelDialect};

/// What stands behind `tidegate.`, or behind `tidegate.NAME.`.
const OF_SECTION: &[&str] = &["site", "route", "port", "scheme", "config"];
/// Of the container as a whole.
const OF_CONTAINER: &[&str] = &["pool", "weight", "zone"];

/// What one site of a container says.
#[derive(Default)]
struct Section<'c> {
    site: Option<(&'c str, &'c str)>,
    route: Option<(&'c str, &'c str)>,
    port: Option<(&'c str, &'c str)>,
    scheme: Option<(&'c str, &'c str)>,
    config: Option<(&'c str, &'c str)>,
}

/// What the group offers, by the labels of the container that speaks for it.
pub fn offers(group: &Arc<ContainerGroup>, sources: &mut Sources, faults: &mut Vec<Diagnostic>) -> Vec<Offer> {
    let container = &*group.members[0];
    let mut sections: BTreeMap<&str, Section<'_>> = BTreeMap::new();
    let own = || container.labels.iter().filter(|(label, _)| LabelDialect::Tidegate.owns(label));
    let mut unclear = None;
    for (label, value) in own() {
        if let Err(fault) = sort_in(&mut sections, container, label, value, sources) {
            unclear.get_or_insert_with(|| fault.primary.location.clone());
            faults.push(*fault);
        }
    }
    let default_port = sections.get("").and_then(|section| section.port);
    let default_scheme = sections.get("").and_then(|section| section.scheme);
    let mut offers = Vec::new();
    for (name, mut section) in sections {
        section.port = section.port.or(default_port);
        section.scheme = section.scheme.or(default_scheme);
        let mut draft = OfferDraft::new(group, name);
        read_section(&section, container, &mut draft, sources, faults);
        let is_only_a_server = name.is_empty() && section.site.is_none() && section.config.is_none() && section.route.is_none();
        if !is_only_a_server {
            offers.extend(draft.offers);
        }
    }
    // What is said by a label that nobody knows may be the part that it is about, so that is not known either.
    if let Some(at) = unclear {
        let said = own().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("\n");
        return vec![Offer::unreadable(group, "", &said, !offers.is_empty(), at)];
    }
    offers
}

type Refused = Result<(), Box<Diagnostic>>;

fn sort_in<'c>(
    sections: &mut BTreeMap<&'c str, Section<'c>>,
    container: &Container,
    label: &'c str,
    value: &'c str,
    sources: &mut Sources,
) -> Refused {
    let mut refuse = |message: String, help: String| {
        let written = LabelText::new(sources, &container.name, &format!("label {}", shortened(label)), "");
        Err(Box::new(Diagnostic::error("bad-label", written.whole(), message).help(help)))
    };
    if label.starts_with(['"', '\'', ' ']) {
        let meant = label.trim_matches(['"', '\'', ' ']);
        let message = format!("the quotes or blanks are part of the name `{}`", shortened(label));
        return refuse(message, format!("in YAML, write `- {}=…` or `{}: …`", shortened(meant), shortened(meant)));
    }
    let rest = label.strip_prefix("tidegate.").unwrap_or(label);
    let (name, word) = rest.rsplit_once('.').unwrap_or(("", rest));
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let words = if name.is_empty() { [OF_SECTION, OF_CONTAINER].concat() } else { OF_SECTION.to_vec() };
    if !is_name || !words.contains(&word) {
        let message = format!("there is no label `{}`", shortened(label));
        let meant = nearest(word, words.iter().copied()).filter(|_| is_name);
        return refuse(
            message,
            match meant {
                Some(meant) if name.is_empty() => format!("did you mean `tidegate.{meant}`?"),
                Some(meant) => format!("did you mean `tidegate.{name}.{meant}`?"),
                None => format!("labels are `tidegate.{}`", words.join("`, `tidegate.")),
            },
        );
    }
    let section = sections.entry(name).or_default();
    let place = match word {
        "site" => &mut section.site,
        "route" => &mut section.route,
        "port" => &mut section.port,
        "scheme" => &mut section.scheme,
        "config" => &mut section.config,
        _ => return Ok(()),
    };
    *place = Some((label, value));
    Ok(())
}

fn read_section(
    section: &Section<'_>,
    container: &Container,
    draft: &mut OfferDraft,
    sources: &mut Sources,
    faults: &mut Vec<Diagnostic>,
) {
    let read = |label: Option<(&str, &str)>, sources: &mut Sources| {
        label.map(|(label, value)| LabelText::new(sources, &container.name, &format!("label {label}"), value))
    };
    let (site, route) = (read(section.site, sources), read(section.route, sources));
    let (port, scheme) = (read(section.port, sources), read(section.scheme, sources));
    let config = read(section.config, sources);
    for label in [&site, &route, &port, &scheme].into_iter().flatten() {
        if let Some(quote) = quote_around(&label.text) {
            let message = format!("the {quote} is part of the value");
            let help = "quotes belong around the whole line in YAML, as in `- \"tidegate.site=shop.example.com\"`, or nowhere";
            faults.push(Diagnostic::error("bad-label", label.whole(), message).help(help));
            let said = [&site, &route, &config].into_iter().flatten().map(|label| label.text.as_str());
            draft.add_unreadable(&said.collect::<Vec<_>>().join("\n"), true, label.whole());
            return;
        }
    }
    draft.port = port.as_ref().and_then(|label| read_port(label, faults));
    draft.is_tls = scheme.as_ref().is_some_and(|label| is_tls(label, faults));
    let mut content = match &config {
        None => Vec::new(),
        Some(label) => match syntax::parse(sources, label.file) {
            Ok(nodes) => nodes,
            Err(found) => {
                faults.extend(found);
                // Where site and route stand beside it, what they name is known.
                if site.is_none() {
                    draft.add_unreadable(&label.text, true, label.whole());
                    return;
                }
                Vec::new()
            }
        },
    };
    match (&site, &route) {
        (Some(site), route) => {
            let place = if route.is_some() { Place::Route } else { Place::Site };
            trust::refused(&content, place, faults);
            let patterns = route.as_ref().map(|label| patterns(label, faults));
            complete(&mut content, &site.whole());
            draft.add(site.parts(&[',']), site.whole(), patterns, content, faults);
        }
        (None, Some(route)) => {
            let diagnostic = Diagnostic::error("bad-label", route.whole(), "a route of which site is not said");
            faults.push(
                diagnostic
                    .help("add the label `tidegate.site`, or with a name `tidegate.NAME.site` beside `tidegate.NAME.route`"),
            );
        }
        (None, None) => whole_sites(content, draft, faults),
    }
}

fn read_port(label: &LabelText, faults: &mut Vec<Diagnostic>) -> Option<u16> {
    let port = label.text.trim().parse().ok().filter(|port| *port != 0);
    if port.is_none() {
        let message = format!("`{}` is no port", shortened(label.text.trim()));
        faults
            .push(Diagnostic::error("bad-label", label.whole(), message).help("write 1 to 65535: the port within the container"));
    }
    port
}

fn is_tls(label: &LabelText, faults: &mut Vec<Diagnostic>) -> bool {
    match label.text.trim() {
        "https" => true,
        "http" => false,
        other => {
            let message = format!("`{}` is no scheme", shortened(other));
            faults.push(Diagnostic::error("bad-label", label.whole(), message).help("write `http` or `https`"));
            false
        }
    }
}

/// Patterns have no blanks; those that are regular expressions may have commas.
fn patterns(label: &LabelText, faults: &mut Vec<Diagnostic>) -> Vec<Value> {
    let separators: &[char] = if label.text.contains('~') { &[] } else { &[','] };
    let patterns = label.parts(separators);
    if patterns.is_empty() {
        let diagnostic = Diagnostic::error("bad-label", label.whole(), "the route has no pattern");
        faults.push(diagnostic.help("for example `tidegate.route=/api/*`; leave the label out for all of the site"));
    }
    patterns
}

/// `tidegate.config` without a site beside it.
fn whole_sites(content: Vec<Node>, draft: &mut OfferDraft, faults: &mut Vec<Diagnostic>) {
    for node in content {
        if node.name.text != "site" {
            trust::refused(std::slice::from_ref(&node), Place::Top, faults);
            let said = node.entries.iter().filter_map(|entry| text_of(&entry.value)).collect::<Vec<_>>().join(" ");
            draft.add_unreadable(&said, false, node.location.clone());
            let diagnostic = Diagnostic::error("bad-label", node.location, "lines of which site is not said");
            faults.push(diagnostic.help("add the label `tidegate.site`, or write `site \"shop.example.com\" { … }` around them"));
            return;
        }
        let Node { entries, children, location, .. } = node;
        let addresses: Vec<Value> = entries.into_iter().filter(|entry| entry.name.is_none()).map(|entry| entry.value).collect();
        let mut content = children.unwrap_or_default();
        trust::refused(&content, Place::Site, faults);
        complete(&mut content, &location);
        draft.add(addresses, location, None, content, faults);
    }
}

/// Puts a `proxy` behind lines that nothing answers.
pub fn complete(content: &mut Vec<Node>, at: &Location) {
    if !content.iter().any(answers) {
        content.push(line("proxy", at));
    }
}

/// Whether requests that come to it are answered by it.
pub fn answers(node: &Node) -> bool {
    let is_of = |place| LANGUAGE.find(&node.name.text, place).map(|directive| directive.lower);
    match is_of(Place::Route).or(is_of(Place::Site)) {
        Some(Lower::Terminal(_)) => true,
        Some(_) => is_whole_route(node) || is_denial(node),
        None => false,
    }
}

/// A `route` that takes everything.
fn is_whole_route(node: &Node) -> bool {
    let has_conditions = |children: &Vec<Node>| children.iter().any(|child| child.name.text == "match");
    node.name.text == "route"
        && node.entries.iter().all(|entry| entry.name.is_some())
        && !node.children.as_ref().is_some_and(has_conditions)
}

fn is_denial(node: &Node) -> bool {
    let is_all = |entry: &crate::syntax::Entry| entry.value.literal == Literal::Text("all".into());
    node.name.text == "deny" && node.entries.iter().any(is_all)
}

/// Gives a bare `proxy`, and those within the node, its container.
pub fn give_container(node: &mut Node, draft: &OfferDraft) {
    if node.name.text != "proxy" {
        node.children.iter_mut().flatten().for_each(|child| give_container(child, draft));
        return;
    }
    let at = node.location.clone();
    let settings = node.children.get_or_insert_default();
    if !settings.iter().any(|setting| setting.name.text == "retry") {
        settings.push(line("retry", &at).argument(text("wait", &at)).property("for", text("5s", &at)));
    }
    let mut discover = line("discover", &at).property("container", text(draft.group_name.as_str(), &at));
    if let Some(port) = draft.port {
        discover = discover.property("port", super::tree::number(port, &at));
    }
    if draft.is_tls {
        discover = discover.property("scheme", text("https", &at));
    }
    settings.push(discover);
}
