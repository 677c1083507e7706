//! A whole file of another proxy in our words, with its comments where they stood, and what became of each of its
//! statements and lines. What would stand open without something that is not carried is shut until its reader says it.

mod apart;
mod closing;
mod logs;
mod narrowing;
mod placing;
mod report;
mod sharing;
mod telling;

use super::accounts::{FileStatement, Origin, StatementKind, Weight, named, protections_left};
use super::beginning::settle_prefixes;
use super::gather::NotIncluded;
use super::outline::{Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, Service};
use super::source::SourceText;
use super::written::{self, Bounds, Pools, WrittenNode};
use super::{Peer, comments};
use logs::SiteLog;
use narrowing::NarrowedSite;
use placing::place;
pub use report::{AccountedLine, AccountedStatement, ImportAccount, LineAccount, Sums};
use sharing::{Together, joined, together};
use std::collections::{BTreeMap, BTreeSet};
pub use telling::as_text;

/// What the language says of lines and words.
pub struct Sayings<'s> {
    /// What `check` has against a text, in one line; nothing where it takes it.
    pub refused: &'s dyn Fn(&str) -> Option<String>,
    /// How a word of another proxy, and the word behind it, is said here.
    pub said_otherwise: &'s dyn Fn(&str, &str) -> Option<&'static str>,
}

/// A file of another proxy in our words.
#[derive(Debug)]
pub struct Imported {
    /// KDL that `check` takes.
    pub text: String,
    /// All statements of the file in their order.
    pub statements: Vec<AccountedStatement>,
    /// All lines of all files in their order.
    pub lines: Vec<AccountedLine>,
    /// What the reader has to do or to know beside single statements.
    pub remarks: Vec<String>,
    /// Whether the file has statements that keep clients out.
    pub keeps_out: bool,
}

/// Files of thousands of lines are carried as they are; what has more than this is no configuration.
const BOUNDS: Bounds = Bounds { routes_max: 10_000, names_max: 10_000, servers_max: 10_000, servers_in_place_max: 4 };
/// So many services are tried one with another where all of them together are refused.
const TRIED_TOGETHER_MAX: usize = 400;
/// Nobody comes in past this line.
const SHUT: &str = "deny \"0.0.0.0/0\" \"::/0\"";
const NO_EXPRESSION: &str = "its expression is none of ours: there are no look-arounds and no back-references";
const SECOND_REST: &str = "another one at the same address takes all hosts, there as here";
const NAME_IS_OPEN: &str = "the file does not say the name: write yours in the place of `example.com`";

/// `Err` says why nothing can be told of the file.
pub fn import(peer: Peer, source: &SourceText, not_included: &[NotIncluded], sayings: &Sayings<'_>) -> Result<Imported, String> {
    if let Some((at, fault)) = super::fault(peer, &source.text) {
        return Err(format!("{}: {fault}", source.written_place(&source.place(at))));
    }
    let mut outline = super::outline(peer, &source.text);
    super::unclaimed::add(peer, &source.text, &mut outline);
    let refusing = std::mem::take(&mut outline.refusing);
    outline.services.extend(refusing);
    outline.settle_guesses();
    outline.settle_ports();
    outline.settle_redirects();
    let named_ports = apart::named_ports(&outline.services);
    outline.services = apart::split(std::mem::take(&mut outline.services), &named_ports);
    let keeps_out = |statement: &&FileStatement| statement.kind == StatementKind::Needed(Weight::Protection);
    let mut importer = Importer {
        outline: &outline,
        protections: outline.statements.iter().filter(keeps_out).cloned().collect(),
        source,
        sayings,
        told: outline.told.clone(),
        pools: Pools::new(false, BOUNDS),
        nodes: Vec::new(),
        remarks: outline.remarks.clone(),
        logs: Vec::new(),
        has_unlogged: false,
        reasons: BTreeMap::new(),
        named_ports,
    };
    importer.write_settings();
    for one in together(&outline.services) {
        match one {
            Together::Alone(Service::Site(site)) => importer.write_site(site),
            Together::Alone(Service::Tcp(tcp)) => importer.write_tcp(tcp),
            Together::Moved(site) => importer.write_site(&site),
            Together::Shared(sites) => importer.write_shared(sites),
        }
    }
    for group in outline.groups.iter().chain(&outline.unused).filter(|group| !group.is_empty()) {
        importer.pools.named(group);
        importer.told.add(&group.origin);
    }
    if importer.nodes.is_empty() && importer.pools.nodes.is_empty() {
        return Err(outline.without.unwrap_or("nothing in it hands requests on").to_owned());
    }
    importer.write_logs();
    importer.turn_off_what_is_refused_together();
    importer.close_what_is_off();
    Ok(importer.finish(peer, not_included))
}

struct Importer<'i> {
    outline: &'i Outline,
    /// The statements that keep clients out.
    protections: Vec<FileStatement>,
    source: &'i SourceText,
    sayings: &'i Sayings<'i>,
    /// What is written, and has an effect.
    told: Origin,
    pools: Pools,
    nodes: Vec<WrittenNode>,
    remarks: Vec<String>,
    logs: Vec<SiteLog>,
    /// Whether a site has no log of its own.
    has_unlogged: bool,
    /// Why statements are not carried, where that is known better than by their words.
    reasons: BTreeMap<usize, String>,
    /// Ports on which a site of all addresses names a host.
    named_ports: BTreeSet<u16>,
}

impl Importer<'_> {
    fn write_settings(&mut self) {
        for setting in &self.outline.settings {
            let mut node = WrittenNode::line(&setting.line).made_of(&setting.origin.within);
            match (self.sayings.refused)(&setting.line) {
                None => self.told.add(&setting.origin),
                Some(fault) => turn_off(&mut node, &fault),
            }
            self.nodes.push(node);
        }
    }

    fn write_site(&mut self, site: &OutlinedSite) {
        let count = self.pools.nodes.len();
        let written = self.site(site, &NarrowedSite::default());
        self.write(written, count, Some(site));
    }

    fn write_tcp(&mut self, tcp: &OutlinedTcp) {
        let count = self.pools.nodes.len();
        let written = self.tcp(tcp);
        self.write(written, count, None);
    }

    fn write(&mut self, written: Option<(WrittenNode, Origin)>, count: usize, site: Option<&OutlinedSite>) {
        let Some((mut node, origin)) = written else {
            self.pools.nodes.truncate(count);
            return;
        };
        match (self.sayings.refused)(&self.alone(&node)) {
            _ if node.is_off => {}
            None => self.told.add(&origin),
            Some(fault) => match site.and_then(|site| self.narrowed(site)) {
                Some(narrowed) => {
                    self.pools.nodes.truncate(count);
                    let Some((narrow, origin)) = self.site(&narrowed.site, &narrowed) else { return };
                    self.told.add(&origin);
                    self.note_left_out(narrowed.reasons);
                    node = narrow;
                }
                None => turn_off(&mut node, &fault),
            },
        }
        site.iter().filter(|_| !node.is_off).for_each(|site| self.note_logs(site));
        if node.is_off {
            // Pools that it is the first to name come with it.
            self.pools.nodes[count..].iter_mut().for_each(|pool| pool.is_off = true);
        }
        self.nodes.push(node);
    }

    /// A statement that other lines say as well is said in part.
    fn note_left_out(&mut self, reasons: BTreeMap<usize, String>) {
        for (at, why) in &reasons {
            if self.told.carried.remove(at) {
                self.told.differs.insert(*at, why.clone());
            }
        }
        self.reasons.extend(reasons);
    }

    /// Sites at the same addresses as one; those that cannot be in it have no effect.
    fn write_shared(&mut self, sites: Vec<OutlinedSite>) {
        let mut node = WrittenNode::block("", Vec::new());
        let mut off = Vec::new();
        let mut has_rest = false;
        // What all of them say alike is said of the one that they are.
        let lines = |site: &OutlinedSite| site.logs.iter().map(|log| log.line.clone()).collect::<Vec<String>>();
        let of_all = sites.first().filter(|first| sites.iter().all(|site| lines(site) == lines(first))).cloned();
        for mut site in sites {
            let hosts = std::mem::take(&mut site.only_hosts);
            let count = self.pools.nodes.len();
            let Some((mut member, mut origin)) = self.site(&site, &NarrowedSite::default()) else {
                self.pools.nodes.truncate(count);
                continue;
            };
            let is_second_rest = has_rest && hosts.is_empty();
            let mut found = self.joined_whole(&node, &hosts, &member);
            // Each of its routes is looked at alone, which only a refusal is worth.
            if found.is_err()
                && !is_second_rest
                && let Some(narrowed) = self.narrowed(&site).filter(|narrowed| !narrowed.reasons.is_empty())
            {
                self.pools.nodes.truncate(count);
                let Some((narrow, of_narrow)) = self.site(&narrowed.site, &narrowed) else { continue };
                found = self.joined_whole(&node, &hosts, &narrow);
                self.note_left_out(narrowed.reasons);
                (member, origin) = (narrow, of_narrow);
            }
            match found {
                Ok(joined) if !is_second_rest => {
                    node = joined;
                    has_rest |= hosts.is_empty();
                    self.told.add(&origin);
                    if of_all.is_none() {
                        self.leave_logs(&site);
                    }
                }
                found => {
                    self.pools.nodes[count..].iter_mut().for_each(|pool| pool.is_off = true);
                    // Hosts of a site that is off must not come to the one that takes all others.
                    let closed = WrittenNode::block(&member.text, vec![WrittenNode::line("respond 503")]);
                    if !hosts.is_empty()
                        && let Ok(joined) = self.joined_whole(&node, &hosts, &closed)
                    {
                        node = joined;
                    }
                    turn_off(&mut member, &found.err().unwrap_or_else(|| SECOND_REST.to_owned()));
                    off.push(member);
                }
            }
        }
        if node.inside.as_ref().is_some_and(|inside| !inside.is_empty()) {
            if let Some(site) = &of_all {
                self.note_logs(site);
            }
            self.nodes.push(node);
        }
        self.nodes.extend(off);
    }

    /// The site with one more; `Err` says why it does not go.
    fn joined_whole(&self, node: &WrittenNode, hosts: &[String], member: &WrittenNode) -> Result<WrittenNode, String> {
        let joined = joined(node, hosts, member.clone())?;
        match (self.sayings.refused)(&self.alone(&joined)) {
            Some(fault) => Err(fault),
            None => Ok(joined),
        }
    }

    /// The node with the pools that it names.
    fn alone(&self, node: &WrittenNode) -> String {
        let line = node.on_one_line();
        // Names of pools have no quotes in them.
        let named: BTreeSet<&str> = line.split('"').collect();
        let pools = named.into_iter().filter_map(|name| self.pools.of_name(name)).map(WrittenNode::on_one_line).collect();
        // What is said at the top level, as a map, may be what it names.
        let settings = self.nodes.iter().filter(|node| !node.is_off && node.text.starts_with("map "));
        let settings: Vec<String> = settings.map(WrittenNode::on_one_line).collect();
        [settings, pools, vec![line]].concat().join("\n")
    }

    /// `narrowed` is what is left out of it, where `check` refuses something.
    fn site(&mut self, site: &OutlinedSite, narrowed: &NarrowedSite) -> Option<(WrittenNode, Origin)> {
        let mut site = site.clone();
        site.steps.extend(std::mem::take(&mut site.unsaid));
        if !site.environment_addresses.is_empty() {
            site.addresses = std::mem::take(&mut site.environment_addresses);
            // Variables stand there as the file has them.
            site.is_name_open = false;
        }
        // What answers all else is shut by itself, and not with the routes in front of it.
        let is_answer_open = !protections_left(&self.protections, &site.whole_answer_origin()).is_empty()
            && !site.answer.as_ref().is_some_and(OutlinedAnswer::is_refusal);
        if is_answer_open && !site.routes.is_empty() {
            site.with_answer_as_route();
        }
        // Whom the site lets in by his address is let in before a route is asked.
        let lets_in = site.steps.iter().any(|step| step.starts_with("allow "));
        let mut shut: Vec<Option<String>> = site.routes.iter_mut().map(|route| self.shut_route(route, lets_in)).collect();
        for (route, shut) in site.routes.iter().zip(&mut shut) {
            if let Some(why) = route.closed {
                shut.get_or_insert_with(|| why.to_owned());
            }
        }
        // A route that answers 503 stands for all that was to keep clients out of it.
        for (index, why) in narrowed.routes.iter().filter(|(index, _)| site.routes[**index].answer.is_refusal()) {
            shut[*index].get_or_insert_with(|| why.clone());
        }
        let is_readable: Vec<bool> = site.routes.iter().map(OutlinedRoute::is_readable).collect();
        let mut origin = site.own_origin();
        for (route, _) in site.routes.iter().zip(&is_readable).filter(|(_, is_readable)| **is_readable) {
            origin.add(&route.whole_origin());
        }
        let of_site = self.shut_site(&mut site, &is_readable);
        if let Some(line) = apart::alone(&site, &self.named_ports) {
            site.steps.insert(0, line);
        }
        let mut node = written::site(&site, &mut self.pools)?;
        let mut shut_parts: Vec<(String, String)> = Vec::new();
        let inside = node.inside.as_mut()?;
        if let Some(why) = of_site {
            shut_parts.push((node.text.clone(), why.clone()));
            explain_shut(inside, why);
        }
        for (index, route) in inside.iter_mut().skip(site.steps.len()).take(site.routes.len()).enumerate() {
            if let Some(why) = narrowed.routes.get(&index) {
                route.comments.push(why.clone());
            } else if let (Some(why), Some(inside)) = (&shut[index], &mut route.inside) {
                shut_parts.push((format!("{} of {}", route.text, node.text), why.clone()));
                // What is not carried is said above the route already.
                if site.routes[index].closed.is_none() {
                    explain_shut(inside, why.clone());
                }
            }
            if !is_readable[index] {
                turn_off(route, NO_EXPRESSION);
            }
        }
        node.comments.extend(narrowed.lines.iter().cloned());
        written::say_times_once(&mut node, site.steps.len());
        for (part, why) in shut_parts {
            let said = format!("`{part}` lets nobody in: {why}");
            if !self.remarks.contains(&said) {
                self.remarks.push(said);
            }
        }
        if written::is_name_open(&site) {
            node.comments.push(NAME_IS_OPEN.to_owned());
            self.remarks.push(NAME_IS_OPEN.to_owned());
        }
        Some((node, origin))
    }

    /// Lets nobody into a route that something is not carried of that keeps clients out; says what.
    fn shut_route(&self, route: &mut OutlinedRoute, lets_in: bool) -> Option<String> {
        let left = protections_left(&self.protections, &route.whole_origin());
        let why = (!left.is_empty() && !route.answer.is_refusal()).then(|| self.why_shut(&left));
        if why.is_some() {
            route.answer.end_there();
        }
        if why.is_some() && lets_in {
            let refused = OutlinedRoute::of(Vec::new(), OutlinedAnswer::status(403));
            let answer = std::mem::replace(&mut route.answer, OutlinedAnswer::status(403));
            route.answer = OutlinedAnswer::Within { routes: vec![refused], steps: Vec::new(), otherwise: Some(Box::new(answer)) };
        } else if why.is_some() {
            route.steps.insert(0, SHUT.to_owned());
        }
        settle_prefixes(route);
        why
    }

    /// Lets nobody into a site that would stand open, be it for what a route that is left out takes. What keeps clients
    /// out of all of it is missed in all of it, also where a route is shut for the same.
    fn shut_site(&self, site: &mut OutlinedSite, is_readable: &[bool]) -> Option<String> {
        let mut left = protections_left(&self.protections, &site.own_origin());
        let keeps_out = OutlinedRoute::is_guarded;
        let without = site.routes.iter().zip(is_readable).filter(|(route, is_readable)| !**is_readable && keeps_out(route));
        for (route, _) in without {
            let own = route.origin.carried.first();
            left.extend(self.outline.statements.iter().find(|statement| Some(&statement.at) == own));
        }
        if left.is_empty() {
            return None;
        }
        site.steps.insert(0, SHUT.to_owned());
        Some(self.why_shut(&left))
    }

    fn why_shut(&self, left: &[&FileStatement]) -> String {
        let (keeps, is) = if left.len() == 1 { ("keeps", "is") } else { ("keep", "are") };
        format!(
            "{} {keeps} clients out and {is} not carried: nobody comes in here until you say it and take this line away",
            named(left, &|at| self.source.place(at).line)
        )
    }

    fn tcp(&mut self, tcp: &OutlinedTcp) -> Option<(WrittenNode, Origin)> {
        let mut node = written::tcp(tcp, &mut self.pools)?;
        let origin = tcp.whole_origin();
        let left = protections_left(&self.protections, &origin);
        if !left.is_empty() {
            let what = named(&left, &|at| self.source.place(at).line);
            turn_off(&mut node, &format!("{what} keeps clients out and is not carried, and it would stand open"));
        }
        Some((node, origin))
    }

    /// Two sites of one name, for one, are each right alone.
    fn turn_off_what_is_refused_together(&mut self) {
        let mut kept = String::new();
        let mut add = |node: &WrittenNode| node.write(0, &mut kept);
        self.pools.nodes.iter().for_each(&mut add);
        let pools = kept.clone();
        self.nodes.iter().for_each(|node| node.write(0, &mut kept));
        let Some(fault) = (self.sayings.refused)(&kept) else { return };
        if self.nodes.len() > TRIED_TOGETHER_MAX {
            self.remarks.push(format!("`check` has something against all of it together: {fault}"));
            return;
        }
        let mut kept = pools;
        for node in self.nodes.iter_mut().filter(|node| !node.is_off) {
            let length = kept.len();
            node.write(0, &mut kept);
            if let Some(fault) = (self.sayings.refused)(&kept) {
                kept.truncate(length);
                turn_off(node, &fault);
            }
        }
        // What others are made of as well is said by these.
        let of = |is_off: bool, nodes: &[WrittenNode]| -> BTreeSet<usize> {
            nodes.iter().filter(|node| node.is_off == is_off).flat_map(|node| node.within.iter().copied()).collect()
        };
        let live: BTreeSet<usize> = of(false, &self.nodes).union(&of(false, &self.pools.nodes)).copied().collect();
        let lost: BTreeSet<usize> = of(true, &self.nodes).difference(&live).copied().collect();
        self.told.lose(&lost);
        self.told.within.retain(|at| !lost.contains(at));
    }

    /// Whatever stands in a block without effect is missing for the block's reason, not for one of its own.
    fn explain_what_is_off(&mut self) {
        let elsewhere: BTreeSet<usize> =
            self.nodes.iter().filter(|node| !node.is_off).flat_map(|node| node.within.iter().copied()).collect();
        for node in self.nodes.iter().filter(|node| node.is_off) {
            let Some(why) = &node.why_off else { continue };
            let said = format!("`{}` stands without effect: {why}", node.text);
            let own = format!("a part of `{}`, which stands without effect: the report begins with the reason", node.text);
            for at in node.within.difference(&elsewhere).filter(|at| !self.outline.reasons.contains_key(*at)) {
                self.reasons.entry(*at).or_insert_with(|| own.clone());
            }
            if !self.remarks.contains(&said) {
                self.remarks.push(said);
            }
        }
    }

    fn finish(mut self, peer: Peer, not_included: &[NotIncluded]) -> Imported {
        self.explain_what_is_off();
        let mut statements = report::statements(peer, self.outline, &self.told, self.source, self.sayings);
        for statement in &mut statements {
            let whole = self.outline.parts.get(&statement.at).unwrap_or(&statement.at);
            if let (ImportAccount::NotCarried(_, what), Some(why)) = (&mut statement.account, self.reasons.get(whole)) {
                what.clone_from(why);
            }
        }
        for include in not_included {
            let own = statements.iter_mut().find(|statement| statement.at == include.at);
            if let Some(statement) = own {
                let weight = match &statement.account {
                    ImportAccount::NotCarried(weight, _) => *weight,
                    ImportAccount::Carried | ImportAccount::SameByDefault(_) | ImportAccount::Approximated(_) => Weight::Answer,
                };
                statement.account = ImportAccount::NotCarried(weight, include.why.clone());
            }
        }
        let mut nodes = std::mem::take(&mut self.pools.nodes);
        nodes.append(&mut self.nodes);
        let mut head = Vec::new();
        let mut tail = Vec::new();
        let is_whole = |at: &usize| !self.outline.parts.contains_key(at);
        let starts: Vec<usize> = statements.iter().map(|statement| statement.at).filter(is_whole).collect();
        for comment in comments::of(peer, &self.source.text) {
            let index = starts.partition_point(|at| *at < comment.at);
            let index = if comment.is_behind { index.checked_sub(1) } else { Some(index) };
            match index.and_then(|index| starts.get(index)) {
                Some(at) if place(&mut nodes, *at, comment.text.clone()) => {}
                Some(_) if index == Some(0) => head.push(comment.text),
                Some(_) | None => tail.push(comment.text),
            }
        }
        placing::say(&mut nodes, &statements, self.source);
        let lines = report::lines(self.source, &statements);
        let keeps_out = !self.protections.is_empty();
        Imported { text: written_text(&head, &nodes, &tail), statements, lines, remarks: self.remarks, keeps_out }
    }
}

fn turn_off(node: &mut WrittenNode, why: &str) {
    node.is_off = true;
    node.why_off = Some(why.to_owned());
    node.comments.push(format!("without effect, until `/-` is taken away: {why}"));
}

fn explain_shut(inside: &mut [WrittenNode], why: String) {
    if let Some(line) = inside.iter_mut().find(|line| line.text == SHUT || line.text == "route") {
        line.comments.push(why);
    }
}

fn written_text(head: &[String], nodes: &[WrittenNode], tail: &[String]) -> String {
    let mut text = String::new();
    let comments = |text: &mut String, all: &[String]| {
        for comment in all {
            text.push_str(&format!("{}\n", format!("// {comment}").trim_end()));
        }
    };
    comments(&mut text, head);
    if !head.is_empty() {
        text.push('\n');
    }
    text.push_str("edition \"2026\"\n");
    for node in nodes {
        text.push('\n');
        node.write(0, &mut text);
    }
    if !tail.is_empty() {
        text.push('\n');
        comments(&mut text, tail);
    }
    text
}
