//! A section of HAProxy that hands connections on as they are.

use super::actions::Action;
use super::changed::Changed;
use super::conditions::{Condition, Test};
use super::lexer::{Section, Sections};
use super::rules::{self, Rule};
use super::servers::group;
use super::sites::shown;
use crate::accounts::Origin;
use crate::outline::{Door, Outline, OutlinedTcp, ServerGroup, Service, tcp_address};

const BEHIND: &str = "which backend is asked hangs on conditions that no line here is told for, and all else comes behind them";
const BY_MAP: &str = "which backend is asked is in a map of its own, or computed: `split to=` and `map` do that here";
const FEWER_NAMES: &str = "a name with `*` is one more label here, and any number of them there";
const TLS_OF_TCP: &str =
    "`tcp` hands connections on as they are, so TLS in front of a server that speaks no HTTP is not ended here";
const NO_TLS: &str = "what begins without TLS goes where all go that ask for no name";
const OF_V6_ALONE: &str =
    "`tcp` listens for clients of IPv4 as well, who would find it open: name the address, as in `tcp \"[2001:db8::1]:5432\"`";
const NO_SERVERS: &str = "the backend that it names has no servers whose addresses are told";

pub fn tell(section: &Section, sections: &Sections, doors: &[(Door, usize)], own: Option<&ServerGroup>, outline: &mut Outline) {
    if doors.iter().any(|(door, _)| door.is_tls) {
        outline.without.get_or_insert(TLS_OF_TCP);
        for (_, _, at) in section.lines_of("bind").flat_map(|bind| bind.options(2)).filter(|(option, _, _)| *option == "crt") {
            outline.reasons.insert(at, TLS_OF_TCP.to_owned());
        }
        section.lines_of("bind").for_each(|bind| {
            outline.reasons.insert(bind.start(), TLS_OF_TCP.to_owned());
        });
        return;
    }
    let rules = rules::of_section(section, sections, &mut Changed::of(section, sections));
    for (line, origin) in super::doors::behind_others(section) {
        outline.settings.push(crate::outline::OutlinedSetting { line, origin });
    }
    // Each port hands on by itself; a line for one does not open the others.
    for (door, at) in doors {
        if super::doors::is_closed_to_v4(section, *door) {
            outline.reasons.insert(*at, OF_V6_ALONE.to_owned());
            continue;
        }
        let address = tcp_address(door.ip, door.port);
        // An address of IPv6 beside that of IPv4 is the same one here.
        let known = outline.services.iter_mut().find_map(|service| match service {
            Service::Tcp(tcp) if tcp.address == address && tcp.origin.within.is_superset(section.places()) => Some(tcp),
            Service::Tcp(_) | Service::Site(_) => None,
        });
        if let Some(known) = known {
            tell_bind(section, *at, &mut known.origin);
            continue;
        }
        let mut tcp = OutlinedTcp { address, ..OutlinedTcp::default() };
        tcp.origin.within.clone_from(section.places());
        tcp.origin.within.extend(rules.iter().map(|rule| rule.at));
        tell_bind(section, *at, &mut tcp.origin);
        let teller = PortTeller { section, sections, door: *door };
        teller.fill(&rules, own, &mut tcp, outline);
        if tcp.otherwise.is_some() || !tcp.by_name.is_empty() {
            outline.services.push(Service::Tcp(tcp));
        } else {
            outline.without.get_or_insert(BY_MAP);
        }
    }
}

/// The `bind` that begins there is said.
fn tell_bind(section: &Section, at: usize, origin: &mut Origin) {
    origin.carry(at);
    let bind = section.lines_of("bind").find(|bind| bind.start() == at);
    origin.carry_all(bind.and_then(super::doors::of_v6_alone));
}

struct PortTeller<'s> {
    section: &'s Section,
    sections: &'s Sections,
    door: Door,
}

impl PortTeller<'_> {
    fn fill(&self, rules: &[Rule], own: Option<&ServerGroup>, tcp: &mut OutlinedTcp, outline: &mut Outline) {
        for rule in rules {
            let settle = |test: &Test| match test {
                Test::Port(ports) => Some(ports.contains(&self.door.port)),
                Test::OverTls => Some(false),
                _ => None,
            };
            let condition = rule.condition.settled(&settle);
            match (&rule.action, condition) {
                (_, Condition::False) => self.never(rule, tcp),
                (Action::Backend(name), condition) => {
                    let is_last = self.backend(rule, name, &condition, tcp, outline);
                    if is_last {
                        return;
                    }
                }
                (Action::Unknown(why), _) => {
                    outline.reasons.entry(rule.at).or_insert_with(|| why.clone());
                }
                (Action::Answer(answer, _), _) if answer.is_refusal() => {
                    let why = "connections are not refused by what they are: a firewall keeps addresses out, and `limits` bounds how many one may have";
                    outline.reasons.entry(rule.at).or_insert_with(|| why.to_owned());
                }
                _ => {}
            }
        }
        if tcp.otherwise.is_none() {
            tcp.otherwise = own.cloned();
        }
    }

    /// A rule whose condition never holds, such as that for connections without TLS.
    fn never(&self, rule: &Rule, tcp: &mut OutlinedTcp) {
        let line = self.section.lines.iter().find(|line| line.start() == rule.at);
        let is_about_tls = line.is_some_and(|line| line.words.iter().any(|word| word.contains("ssl_hello_type")));
        if matches!(rule.action, Action::Backend(_)) {
            tcp.origin.within.remove(&rule.at);
        } else if is_about_tls {
            tcp.origin.differ(rule.at, NO_TLS);
        } else {
            tcp.origin.carry(rule.at);
        }
    }

    /// Whether no rule behind it is asked.
    fn backend(&self, rule: &Rule, name: &str, condition: &Condition, tcp: &mut OutlinedTcp, outline: &mut Outline) -> bool {
        let mut told = Origin::default();
        super::chains::told(rule, &mut told);
        let found = self.sections.backend(name);
        let servers = found.map(|section| group(section, Some(self.door.port))).filter(|group| !group.is_empty());
        let (Some(servers), Some(names)) = (servers, names(condition)) else {
            let line = self.section.lines_of("use_backend").find(|line| line.start() == rule.at);
            let why = match line {
                Some(line) if line.word(1).contains("%[") => BY_MAP,
                _ => BEHIND,
            };
            outline.without.get_or_insert(why);
            outline.stopped_at = outline.stopped_at.take().or(line.map(shown));
            let why = condition.unwritable().unwrap_or_else(|| if name.contains("%[") { BY_MAP } else { NO_SERVERS }.to_owned());
            outline.reasons.entry(rule.at).or_insert(why);
            return false;
        };
        tcp.origin.add(&told);
        if condition == &Condition::True {
            tcp.otherwise = Some(servers);
            return true;
        }
        if names.iter().any(|name| name.starts_with('*')) {
            tcp.origin.differ(rule.at, FEWER_NAMES);
        }
        tcp.by_name.push((names, servers));
        false
    }
}

/// The names that a condition takes, where it is about nothing else.
fn names(condition: &Condition) -> Option<Vec<String>> {
    match condition {
        Condition::True => Some(Vec::new()),
        Condition::Test(Test::Sni(host) | Test::Host(host)) => {
            let is_whole_domain = host.comparison == super::fetches::Comparison::End && !host.value.starts_with('.');
            if is_whole_domain && host.value.contains('.') {
                return Some(vec![host.value.clone(), format!("*.{}", host.value)]);
            }
            host.site_name().map(|name| vec![name])
        }
        Condition::Any(of) => of.iter().map(names).collect::<Option<Vec<_>>>().map(|all| all.concat()),
        Condition::False | Condition::Test(_) | Condition::Not(_) | Condition::All(_) => None,
    }
}
