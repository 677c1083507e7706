//! A section of HAProxy that speaks HTTP, as sites: one for all names of which the same is said, and one for all
//! others.

use super::actions::Action;
use super::chains::{Chain, RuleCompiler};
use super::changed::Changed;
use super::compared_names;
use super::conditions::{Condition, Test};
use super::doors::{self, Certificates};
use super::fetches::{Comparison, HostTest};
use super::lexer::{HaProxyLine, Section, Sections};
use super::rules::{self, Rule, RuleKind};
use super::servers::group;
use super::settings;
use crate::accounts::Origin;
use crate::outline::{Door, Outline, OutlinedAnswer, OutlinedSetting, OutlinedSite, Service, TO_HTTPS, Whereabouts};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

const BY_MAP: &str = "which backend is asked is in a map of its own, or computed: `split to=` and `map` do that here";
const BEHIND: &str = "which backend is asked hangs on conditions that no line here is told for, and all else comes behind them";
const UNREACHED: &str = "a rule in front of it answers all that would come to it, there as here";
const FEWER_NAMES: &str = "a name with `*` is one more label here, and any number of them there";
const NO_BACKEND: &str = "the backend that it names is not in this file";
const NO_SERVERS: &str =
    "the backend that it names has no servers whose addresses are told: `proxy` asks a `pool`, and `fastcgi` scripts";
/// Of one frontend; a map of thousands is told of by its first.
const HOSTS_MAX: usize = 200;

/// A section that listens, with all that its rules lead to.
pub struct FrontedSite<'s> {
    section: &'s Section,
    sections: &'s Sections,
    rules: Vec<Rule>,
    /// Rules of the backends that it leads to.
    backends: BTreeMap<String, Vec<Rule>>,
    reasons: RefCell<BTreeMap<usize, String>>,
    /// Rules that are left out somewhere, so that they count as carried nowhere.
    lost: RefCell<BTreeSet<usize>>,
    /// Choices of servers that are not carried, and whether all that they would take is refused.
    kept: RefCell<BTreeMap<usize, bool>>,
    /// Rules that some site never asks.
    unreached: RefCell<BTreeSet<usize>>,
    port: Option<u16>,
}

/// What is asked of a request by the names of its site.
struct Scope<'n> {
    /// Of a site of names, the first; of that of all others none.
    name: Option<&'n str>,
    /// All names that have sites.
    names: &'n [String],
    /// Whether all clients come over TLS, or none.
    over_tls: Option<bool>,
    port: Option<u16>,
}

impl Scope<'_> {
    fn settle(&self, test: &Test) -> Option<bool> {
        match test {
            Test::OverTls => self.over_tls,
            Test::Port(ports) => self.port.map(|port| ports.contains(&port)),
            Test::Host(host) | Test::Sni(host) => match self.name {
                Some(name) => host.fits(name),
                None => {
                    let has_site =
                        host.comparison == Comparison::Whole && host.site_name().is_some_and(|name| self.names.contains(&name));
                    has_site.then_some(false)
                }
            },
            Test::Written(_)
            | Test::Loose { .. }
            | Test::Path(_)
            | Test::Source(_)
            | Test::Login(..)
            | Test::Rate(_)
            | Test::BodyBeyond(_)
            | Test::Status(_)
            | Test::Unknown(_) => None,
        }
    }

    fn settled(&self, rules: &[Rule]) -> Vec<Rule> {
        let settle = |rule: &Rule| Rule { condition: rule.condition.settled(&|test| self.settle(test)), ..rule.clone() };
        rules.iter().map(settle).filter(|rule| rule.condition != Condition::False && !self.is_sent_anyway(rule)).collect()
    }

    /// Whether it says of the client's scheme what is said without a word.
    fn is_sent_anyway(&self, rule: &Rule) -> bool {
        let Action::Request(text) = &rule.action else { return false };
        let Some(value) = text.strip_prefix("request-header \"X-Forwarded-Proto\" ") else { return false };
        match self.over_tls {
            None => true,
            Some(true) => value == "\"https\"",
            Some(false) => value == "\"http\"",
        }
    }
}

impl<'s> FrontedSite<'s> {
    pub fn of(section: &'s Section, sections: &'s Sections, port: Option<u16>) -> FrontedSite<'s> {
        let mut changed = Changed::of(section, sections);
        let mut rules = rules::of_section(section, sections, &mut changed);
        let has_default = rules.iter().any(|rule| rule.kind == RuleKind::Default);
        let is_listen = section.kind == "listen"
            && (section.lines_of("server").next().is_some() || section.lines_of("server-template").next().is_some());
        if is_listen && !has_default {
            rules.push(Rule::of_own_servers(&section.name));
        }
        let mut backends = BTreeMap::new();
        for rule in &rules {
            let Action::Backend(name) = &rule.action else { continue };
            if let Some(backend) = sections.backend(name).filter(|backend| !std::ptr::eq(*backend, section)) {
                let known = backends.contains_key(name);
                if !known {
                    backends.insert(name.clone(), rules::of_section(backend, sections, &mut changed.clone()));
                }
            }
        }
        let is_guarded = |(_, rules): &(&String, &Vec<Rule>)| rules.iter().any(compared_names::guards);
        let guarded: BTreeSet<String> = backends.iter().filter(is_guarded).map(|(name, _)| name.clone()).collect();
        compared_names::settle(&mut rules, &guarded);
        for rules in backends.values_mut() {
            compared_names::settle(rules, &guarded);
        }
        let (reasons, lost, kept, unreached) = Default::default();
        FrontedSite { section, sections, rules, backends, reasons, lost, kept, unreached, port }
    }

    /// Says which choices of servers are not carried, and take nobody elsewhere.
    pub fn tell(self, doors: &[(Door, usize)], outline: &mut Outline) -> BTreeSet<usize> {
        let has_tls = doors.iter().any(|(door, _)| door.is_tls);
        let redirect = self.redirect();
        if redirect.is_some_and(|(_, is_first)| is_first)
            && doors.iter().all(|(door, _)| *door == Door::HTTP)
            && !doors.is_empty()
        {
            outline.without.get_or_insert(TO_HTTPS);
            let mut origin = Origin::default();
            // What stands in front of the redirect, and is none of it, is not done.
            let in_front = self.rules.iter().take_while(|rule| redirect.is_none_or(|(at, _)| rule.at != at));
            let others: BTreeSet<usize> = in_front.map(|rule| rule.at).collect();
            outline.done_without.extend(self.section.places().difference(&others));
            origin.carry_all(doors.iter().map(|(_, at)| *at).chain(redirect.map(|(at, _)| at)));
            outline.redirects.push((vec!["http://:80".to_owned()], origin));
            outline.reasons.extend(self.reasons.into_inner());
            return BTreeSet::new();
        }
        let has_both = doors.iter().any(|(door, _)| *door == Door::HTTPS) && doors.iter().any(|(door, _)| *door == Door::HTTP);
        let redirect = redirect.filter(|_| has_tls && has_both && doors.iter().all(|(door, _)| door.ip.is_none()));
        let rules: Vec<Rule> = self.rules.iter().filter(|rule| redirect.is_none_or(|(at, _)| rule.at != at)).cloned().collect();
        for (line, origin) in doors::behind_others(self.section) {
            outline.settings.push(OutlinedSetting { line, origin });
        }
        let count = outline.services.len();
        let names = self.names(&rules, outline);
        let redirect = redirect.map(|(at, _)| at);
        for doors in self.apart(doors) {
            let is_of_one = doors.iter().any(|(door, _)| door.ip.is_some());
            // An address of the machine is one site, whose routes ask for names.
            let names = if is_of_one { &[] } else { names.as_slice() };
            let groups = self.grouped(names, &rules);
            let named = groups.iter().map(Some).chain([None]);
            let sites = named.filter_map(|group| self.site(&rules, names, group, &doors, redirect, outline)).collect();
            open(sites, outline);
        }
        self.at_sockets(&rules, outline);
        let kept = self.kept.take().into_iter().filter_map(|(at, is_kept)| is_kept.then_some(at)).collect();
        self.explain(outline, count);
        kept
    }

    /// The doors by what has to be said of them in a site of its own.
    fn apart(&self, doors: &[(Door, usize)]) -> Vec<Vec<(Door, usize)>> {
        let kind = |door: Door| (door.ip, doors::is_closed_to_v4(self.section, door));
        let mut apart: Vec<Vec<(Door, usize)>> = Vec::new();
        for (door, at) in doors {
            match apart.iter_mut().find(|known| kind(known[0].0) == kind(*door)) {
                Some(known) => known.push((*door, *at)),
                None => apart.push(vec![(*door, *at)]),
            }
        }
        apart
    }

    fn explain(self, outline: &mut Outline, count: usize) {
        let lost = self.lost.take();
        outline.services[count..].iter_mut().chain(&mut outline.refusing).for_each(|service| service.lose(&lost));
        let mut reasons = self.reasons.into_inner();
        for at in self.unreached.into_inner() {
            reasons.entry(at).or_insert_with(|| UNREACHED.to_owned());
        }
        let is_chosen =
            |rule: &&Rule| rule.kind == RuleKind::Backend && reasons.get(&rule.at).is_some_and(|why| why != UNREACHED);
        if let Some(rule) = self.rules.iter().find(is_chosen) {
            let line = self.section.lines_of("use_backend").find(|line| line.start() == rule.at);
            outline.without.get_or_insert(if line.is_some_and(|line| line.word(1).contains("%[")) { BY_MAP } else { BEHIND });
            if outline.stopped_at.is_none() {
                outline.stopped_at = line.map(shown);
            }
        }
        let is_by_map = self.section.lines_of("use_backend").any(|rule| rule.word(1).contains("%["));
        if outline.services.len() == count && is_by_map {
            outline.without = Some(BY_MAP);
        }
        outline.reasons.extend(reasons);
    }

    /// `redirect scheme https if !{ ssl_fc }`, and whether nothing answers in front of it.
    fn redirect(&self) -> Option<(usize, bool)> {
        let is_plain = |condition: &Condition| match condition {
            Condition::True => true,
            Condition::Not(inner) => matches!(inner.as_ref(), Condition::Test(Test::OverTls)),
            _ => false,
        };
        let index = self.rules.iter().position(|rule| {
            let to_https = matches!(&rule.action, Action::Answer(OutlinedAnswer::Redirect { to, .. }, steps) if to == "https://{host}{uri}" && steps.is_empty());
            to_https && is_plain(&rule.condition)
        })?;
        let answers = |rule: &Rule| matches!(&rule.action, Action::Answer(answer, _) if !answer.is_refusal());
        Some((self.rules[index].at, !self.rules[..index].iter().any(answers)))
    }

    /// Names of which all conditions say the same.
    fn grouped(&self, names: &[String], rules: &[Rule]) -> Vec<Vec<String>> {
        let mut groups: Vec<(Vec<Condition>, Vec<String>)> = Vec::new();
        for name in names {
            let scope = Scope { name: Some(name), names, over_tls: None, port: None };
            let all = rules.iter().chain(self.backends.values().flatten());
            let settled: Vec<Condition> = all.map(|rule| rule.condition.settled(&|test| scope.settle(test))).collect();
            match groups.iter_mut().find(|(known, _)| *known == settled) {
                Some((_, group)) => group.push(name.clone()),
                None => groups.push((settled, vec![name.clone()])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    fn host_tests(&self, rules: &[Rule]) -> Vec<HostTest> {
        let mut tests = Vec::new();
        for rule in rules.iter().chain(self.backends.values().flatten()) {
            for test in rule.condition.tests() {
                if let Test::Host(host) | Test::Sni(host) = test
                    && !tests.contains(host)
                {
                    tests.push(host.clone());
                }
            }
        }
        tests
    }

    fn names(&self, rules: &[Rule], outline: &mut Outline) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.host_tests(rules).iter().filter_map(HostTest::site_name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.len() > HOSTS_MAX {
            outline.uncounted += names.len() - HOSTS_MAX;
            outline.remarks.push(format!(
                "{} asks for {} names: the first {HOSTS_MAX} have sites, and the others are routes of that for all names",
                self.section.kind,
                names.len()
            ));
            names.truncate(HOSTS_MAX);
        }
        names
    }

    fn site(
        &self,
        rules: &[Rule],
        names: &[String],
        group: Option<&Vec<String>>,
        doors: &[(Door, usize)],
        redirect: Option<usize>,
        outline: &mut Outline,
    ) -> Option<FilledSite> {
        let over_tls = match (doors.iter().any(|(door, _)| door.is_tls), doors.iter().all(|(door, _)| door.is_tls)) {
            _ if redirect.is_some() => Some(true),
            (false, _) => Some(false),
            (true, true) => Some(true),
            (true, false) => None,
        };
        let first = doors.first().map(|(door, _)| door.port);
        let port = first.filter(|port| doors.iter().all(|(door, _)| door.port == *port));
        let scope = Scope { name: group.map(|group| group[0].as_str()), names, over_tls, port };
        let rules_here = scope.settled(rules);
        if group.is_none() && !names.is_empty() && !is_worth(&rules_here, names) {
            for rule in rules_here.iter().filter(|rule| rule.condition.tests().iter().any(|test| matches!(test, Test::Host(_)))) {
                outline.told.differ(rule.at, FEWER_NAMES);
            }
            return None;
        }
        let chosen = group.cloned().unwrap_or_default();
        let mut site = OutlinedSite::default();
        site.origin.within.clone_from(self.section.places());
        site.origin.within.extend(rules.iter().map(|rule| rule.at).filter(|at| *at != usize::MAX));
        // Rules for other names have no say here.
        let here: BTreeSet<usize> = rules_here.iter().map(|rule| rule.at).collect();
        for rule in rules.iter().filter(|rule| !here.contains(&rule.at)) {
            site.origin.within.remove(&rule.at);
        }
        for at in all_binds(self.section).filter(|at| !doors.iter().any(|(_, own)| own == at)) {
            site.origin.within.remove(&at);
        }
        site.origin.carry_all(redirect);
        let certificates = Certificates::of(self.section, self.sections);
        let has_certificate = certificates.is_for_all();
        if let Some(at) = redirect.filter(|_| chosen.is_empty() && has_certificate) {
            let mut origin = Origin::default();
            origin.carry_all(doors.iter().filter(|(door, _)| *door == Door::HTTP).map(|(_, at)| *at).chain([at]));
            outline.redirects.push((vec!["http://:80".to_owned()], origin));
        }
        let Whereabouts { addresses, only_hosts, .. } =
            doors::placed(doors, &chosen, redirect.is_some(), has_certificate, &mut site.origin)?;
        (site.addresses, site.only_hosts) = (addresses, only_hosts);
        if doors.iter().any(|(door, _)| door.is_tls) {
            site.steps.extend(certificates.lines(&chosen, &mut site.origin));
        }
        if redirect.is_none() && doors.iter().any(|(door, _)| *door == Door::HTTP) {
            // Plain HTTP is served there, and no site of a name alone may take it.
            outline.opens_no_http = true;
        }
        self.of_protocols(doors, &mut site);
        self.fill(&scope, &rules_here, &mut site);
        Some(FilledSite { site, is_rest: group.is_none(), has_names: !names.is_empty() })
    }

    /// What a `bind` says of IPv4 and IPv6.
    fn of_protocols(&self, doors: &[(Door, usize)], site: &mut OutlinedSite) {
        let is_shut = doors.iter().any(|(door, _)| doors::is_closed_to_v4(self.section, *door));
        let places = self.section.lines_of("bind").filter(|bind| doors.iter().any(|(_, at)| *at == bind.start()));
        for at in places.filter_map(doors::of_v6_alone) {
            if is_shut {
                site.origin.differ(at, doors::V4_REFUSED);
            } else {
                site.origin.carry(at);
            }
        }
        if is_shut {
            site.steps.push(doors::V4_SHUT.to_owned());
        }
    }

    /// What is said of the section, and what its rules come to.
    fn fill(&self, scope: &Scope<'_>, rules: &[Rule], site: &mut OutlinedSite) {
        settings::of_section(self.section, &mut site.steps, &mut site.origin);
        let backend = |name: &str| self.backend(name, scope);
        let compiler =
            RuleCompiler { backend: &backend, reasons: &self.reasons, lost: &self.lost, kept: &self.kept, is_within: false };
        let mut chain = compiler.chain(rules);
        site.routes = std::mem::take(&mut chain.routes);
        site.answer = chain.answer.take();
        *site.answer_origin = std::mem::take(&mut chain.answer_origin);
        // Rules that no route has a part in have no say here, but for those that all come by.
        site.leave_to_routes();
        site.origin.add(&chain.origin);
        for at in chain.unreached.iter().filter(|at| !site.origin.carried.contains(at)) {
            site.origin.within.remove(at);
            self.unreached.borrow_mut().insert(*at);
        }
        site.steps.extend(chain.steps);
    }

    fn at_sockets(&self, rules: &[Rule], outline: &mut Outline) {
        let sockets = doors::sockets(self.section);
        if sockets.is_empty() {
            return;
        }
        let scope = Scope { name: None, names: &[], over_tls: Some(false), port: None };
        let mut site = OutlinedSite::default();
        site.origin.within.clone_from(self.section.places());
        site.origin.carry_all(sockets.iter().map(|(_, at)| *at));
        site.addresses = sockets.into_iter().map(|(address, _)| address).collect();
        self.fill(&scope, &scope.settled(rules), &mut site);
        open(vec![FilledSite { site, is_rest: true, has_names: false }], outline);
    }

    /// What a backend answers: its own rules, then its servers.
    fn backend(&self, name: &str, scope: &Scope<'_>) -> Result<Chain, String> {
        if name.contains("%[") {
            return Err(BY_MAP.to_owned());
        }
        let section = self.sections.backend(name).ok_or(NO_BACKEND)?;
        let servers = group(section, self.port);
        // What its rules come to in the end: without it, steps behind a rule that answers would have nobody to lead to.
        let own_servers = |_: &str| Ok(Chain { answer: Some(OutlinedAnswer::proxy(servers.clone())), ..Chain::default() });
        let mut chain = Chain::default();
        if let Some(rules) = self.backends.get(name) {
            // `deny` and `allow` of a route come behind those of the site, so that routes refuse within routes.
            let compiler = RuleCompiler {
                backend: &own_servers,
                reasons: &self.reasons,
                lost: &self.lost,
                kept: &self.kept,
                is_within: true,
            };
            let mut own: Vec<Rule> = scope.settled(rules).into_iter().filter(|rule| rule.kind < RuleKind::Backend).collect();
            own.extend((!servers.is_empty()).then(|| Rule::of_own_servers(name)));
            let count = chain.steps.len();
            chain = compiler.chain(&own);
            let mut steps = Vec::new();
            settings::of_section(section, &mut steps, &mut chain.origin);
            chain.steps.splice(count..count, steps);
        }
        if servers.is_empty() && chain.answer.is_none() {
            if has_servers(section) {
                return Err(NO_SERVERS.to_owned());
            }
            // Whom nobody is there to answer gets 503, which is what such a backend is for.
            chain.answer = Some(OutlinedAnswer::status(503));
        }
        chain.origin.within.extend(servers.origin.within.difference(&chain.unreached));
        if !servers.is_empty() && chain.answer.is_none() && chain.routes.is_empty() {
            chain.answer = Some(OutlinedAnswer::proxy(servers));
        }
        Ok(chain)
    }
}

/// A site with all that its rules come to.
struct FilledSite {
    site: OutlinedSite,
    /// Whether it is that of all names that no other has.
    is_rest: bool,
    has_names: bool,
}

impl FilledSite {
    fn serves(&self) -> bool {
        let answers = self.site.answer.iter().chain(self.site.routes.iter().map(|route| &route.answer));
        answers.into_iter().any(|answer| !answer.is_refusal())
    }

    fn is_empty(&self) -> bool {
        self.site.answer.is_none() && self.site.routes.is_empty()
    }
}

/// Adds the sites of one address. A name that is refused has a site of its own where another would answer in its place.
fn open(sites: Vec<FilledSite>, outline: &mut Outline) {
    let serves = sites.iter().any(FilledSite::serves);
    for mut filled in sites {
        // Whoever comes to no backend is answered with 503 there.
        if serves && !filled.is_rest && filled.is_empty() {
            filled.site.answer = Some(OutlinedAnswer::status(503));
        }
        // Who asks for a name that nobody has may be refused as the file says.
        let refuses = !filled.is_empty() && (serves || filled.is_rest && filled.has_names);
        if filled.serves() || refuses {
            outline.services.push(Service::Site(filled.site));
        } else if !filled.is_empty() {
            outline.refusing.push(Service::Site(filled.site));
        }
    }
}

/// Whether it hands requests on, be it to whom no line of ours can name.
pub fn has_servers(section: &Section) -> bool {
    let words = ["server", "server-template", "dispatch", "use-server"];
    let is_by_address = |line: &HaProxyLine| {
        line.word(0) == "option" && matches!(line.word(1), "transparent" | "http_proxy") || line.word(0) == "transparent"
    };
    section.lines.iter().chain(section.inherited.iter()).any(|line| words.contains(&line.word(0)) || is_by_address(line))
}

/// Whether others than those with names are answered by something that is not said of all hosts that nobody names.
fn is_worth(rules: &[Rule], names: &[String]) -> bool {
    // Names with one more label have sites, and those with more are told as fewer.
    let is_of_sites = |condition: &Condition| {
        let tests = condition.tests();
        let has_site = |host: &HostTest| host.site_name().is_some_and(|name| names.contains(&name));
        tests.iter().any(|test| matches!(test, Test::Host(host) if has_site(host)))
            && tests.iter().all(|test| !matches!(test, Test::Host(host) if !has_site(host)))
    };
    rules.iter().any(|rule| match &rule.action {
        Action::Answer(answer, _) if answer.is_refusal() => {
            rule.kind < RuleKind::Response && rule.condition.tests().iter().all(|test| matches!(test, Test::Host(_)))
        }
        Action::Answer(..) => rule.kind != RuleKind::Monitor && !rule.condition.parts().iter().any(is_of_sites),
        Action::Backend(_) => !rule.condition.parts().iter().any(is_of_sites),
        _ => false,
    })
}

fn all_binds(section: &Section) -> impl Iterator<Item = usize> {
    section.lines_of("bind").map(HaProxyLine::start)
}

/// As much of a rule as has no values, which may be secrets.
pub fn shown(rule: &HaProxyLine) -> (usize, String) {
    let is_name = |word: &&String| word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '!'));
    let words: Vec<&str> = rule.words.iter().take(8).take_while(is_name).map(String::as_str).collect();
    (rule.start(), words.join(" "))
}
