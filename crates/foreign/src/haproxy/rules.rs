//! Rules of a section of HAProxy in the order in which it looks at them, each with what it does and when.

use super::actions::{self, Action};
use super::changed::{Changed, field_set};
use super::conditions::{self, Condition, Test};
use super::fetches::{RateTest, ReportedScheme, Variable, Variables, reported_scheme};
use super::lexer::{HaProxyLine, Section, Sections};
use super::logins;
use crate::outline::{DROPPED, OutlinedAnswer, REPORTED};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_kdl::quoted;

#[derive(Debug, Clone)]
pub struct Rule {
    pub at: usize,
    pub kind: RuleKind,
    pub condition: Condition,
    /// Other lines that it is made of: those of `acl`, of tables, of users.
    pub places: BTreeSet<usize>,
    pub action: Action,
    pub differs: Option<String>,
    /// Whether conditions behind it see another path.
    pub changes_path: bool,
    /// The field of requests that it sets anew, so that no client's own goes on.
    pub field: Option<String>,
}

impl Rule {
    /// What a section with servers does when none of its lines has answered.
    pub fn of_own_servers(section: &str) -> Rule {
        Rule {
            at: usize::MAX,
            kind: RuleKind::Default,
            condition: Condition::True,
            places: BTreeSet::new(),
            action: Action::Backend(section.to_owned()),
            differs: None,
            changes_path: false,
            field: None,
        }
    }
}

/// Kinds of rules; those of one kind are looked at one after another, and before all of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleKind {
    Connection,
    Monitor,
    Request,
    Redirect,
    Response,
    Backend,
    Default,
}

const BY_BUCKET: &str =
    "requests are counted by a bucket that fills up bit by bit, not in windows, and one that is refused does not count";
const AS_REQUESTS: &str = "requests on their way are counted, where connections are counted there";
const ASKED_FOR: &str = "who has not logged in is asked to, with 401";

fn kind_of(line: &HaProxyLine) -> Option<RuleKind> {
    Some(match line.word(0) {
        "monitor-uri" => RuleKind::Monitor,
        "tcp-request" if matches!(line.word(1), "connection" | "session" | "content") => RuleKind::Connection,
        "http-request" | "block" | "reqadd" | "reqiadd" | "reqdel" | "reqidel" | "reqrep" | "reqirep" => RuleKind::Request,
        "redirect" => RuleKind::Redirect,
        "http-response" | "http-after-response" | "rspadd" | "rspdel" | "rspidel" => RuleKind::Response,
        "use_backend" => RuleKind::Backend,
        "default_backend" => RuleKind::Default,
        _ => return None,
    })
}

/// A line that counts requests by a key.
struct Track<'s> {
    number: u32,
    key: &'s str,
    table: Option<&'s str>,
    condition: Condition,
    places: BTreeSet<usize>,
    is_of_requests: bool,
}

/// The rules of a section; `changed` is what others before have changed.
pub fn of_section(section: &Section, sections: &Sections, changed: &mut Changed) -> Vec<Rule> {
    let mut lines: Vec<(RuleKind, &HaProxyLine)> = section.lines.iter().filter_map(|line| Some((kind_of(line)?, line))).collect();
    let is_handed_on = |kind: RuleKind| kind != RuleKind::Monitor || section.kind != "backend";
    let inherited = section.inherited.iter().filter_map(|line| Some((kind_of(line)?, line)));
    let inherited = inherited.filter(|(kind, _)| is_handed_on(*kind));
    // Rules of `defaults` are asked before those of the section, and what it says once takes the place of theirs.
    let (settings, rules): (Vec<_>, Vec<_>) =
        inherited.partition(|(kind, _)| matches!(kind, RuleKind::Default | RuleKind::Monitor));
    lines.splice(0..0, rules);
    lines.extend(settings);
    lines.sort_by_key(|(kind, _)| *kind);
    let mut variables = Variables::new();
    let mut before = changed.clone();
    let tracks = tracks(section, &lines);
    let reader = SectionRules { section, sections, tracks };
    let mut rules = Vec::new();
    for (kind, line) in lines {
        let Some(done) = actions::of_line(line, &variables) else { continue };
        let read = conditions::of_line(section, line, &variables);
        let monitored = (kind == RuleKind::Monitor).then(|| Condition::Test(Test::Path(line.word(1).to_owned())));
        let condition = monitored.unwrap_or(read.condition);
        let condition = if kind == RuleKind::Response { condition } else { before.looked_at(condition) };
        let source = before.source();
        let mut places = read.places;
        if let Action::Variable(name, expression) = &done.action {
            places.insert(line.start());
            set(&mut variables, name, expression, condition, places);
            continue;
        }
        if kind != RuleKind::Response {
            changed.note(line, section);
            // What a rule of the same section has done with the path is seen when its routes are made.
            before = changed.with_path_of(&before);
        }
        let (condition, differs) = match (reported_scheme(&condition), &done.action) {
            (ReportedScheme::No, _) => (condition, done.differs),
            (ReportedScheme::OfPlain, Action::Answer(..)) => (condition, Some(done.differs.unwrap_or(REPORTED))),
            (ReportedScheme::OfPlain | ReportedScheme::Otherwise, _) => {
                (Condition::Test(Test::Unknown(DROPPED.to_owned())), done.differs)
            }
        };
        let differs = differs.or(condition.differs()).map(str::to_owned);
        let changes_path = kind == RuleKind::Request && Changed::changes_path(line, section);
        // An address that is the proxy's in front, in the place of the client's, is none to send on.
        let action = match (&done.action, source) {
            (Action::Request(text), Some(why)) if text.contains("{client.ip}") => Action::Unknown(why.to_owned()),
            _ => done.action,
        };
        let condition = match done.found {
            Some(found) => Condition::all(vec![condition, Condition::Test(Test::Written(found))]),
            None => condition,
        };
        let rule = Rule { at: line.start(), kind, condition, places, action, differs, changes_path, field: field_set(line) };
        reader.settle(rule, &mut rules);
    }
    keep_unset(section, &mut rules);
    rules
}

/// A field of answers that is set anew by a line that is not carried is not taken out either.
fn keep_unset(section: &Section, rules: &mut [Rule]) {
    let named = |rule: &Rule| {
        if rule.kind != RuleKind::Response {
            return None;
        }
        let line = section.lines.iter().chain(section.inherited.iter()).find(|line| line.start() == rule.at)?;
        matches!(line.word(0), "http-response" | "http-after-response")
            .then(|| (line.word(1).to_owned(), line.word(2).to_ascii_lowercase()))
    };
    let is_unsaid = |rule: &Rule| {
        let parts = rule.condition.parts();
        let others = parts.into_iter().filter(|part| !matches!(part, Condition::Test(Test::Status(_))));
        matches!(rule.action, Action::Unknown(_)) || Condition::all(others.collect()).unwritable().is_some()
    };
    let sets = |word: &str| matches!(word, "set-header" | "add-header" | "replace-header" | "replace-value");
    let left: BTreeSet<String> = rules
        .iter()
        .filter(|rule| is_unsaid(rule))
        .filter_map(named)
        .filter_map(|(word, field)| sets(&word).then_some(field))
        .collect();
    for rule in rules {
        if named(rule).is_some_and(|(word, field)| word == "del-header" && left.contains(&field)) {
            rule.action = Action::Unknown(SET_ANEW.to_owned());
        }
    }
}

const SET_ANEW: &str = "the line that sets the field anew is not carried, and without it the field would be gone";

/// A variable that is set twice, or on a condition, holds what no other place knows; but for one that says yes.
fn set(variables: &mut Variables, name: &str, expression: &str, condition: Condition, places: BTreeSet<usize>) {
    let says_yes = matches!(expression, "bool(true)" | "bool(1)" | "int(1)" | "str(1)" | "str(true)" | "always_true");
    let known = variables.get(name).cloned();
    let variable = match (known, condition) {
        (None, Condition::True) => Variable { expression: expression.to_owned(), condition: None, places },
        (None, condition) if says_yes => Variable { expression: String::new(), condition: Some(condition), places },
        (Some(Variable { condition: Some(before), places: known, .. }), condition) if says_yes => Variable {
            expression: String::new(),
            condition: Some(Condition::any(vec![before, condition])),
            places: known.union(&places).copied().collect(),
        },
        (_, _) => {
            let why = "what a variable holds is set on conditions".to_owned();
            Variable { expression: String::new(), condition: Some(Condition::Test(Test::Unknown(why))), places }
        }
    };
    variables.insert(name.to_owned(), variable);
}

fn tracks<'s>(section: &'s Section, lines: &[(RuleKind, &'s HaProxyLine)]) -> Vec<Track<'s>> {
    let of = |line: &&'s HaProxyLine| {
        let index = line.words.iter().position(|word| word.starts_with("track-sc"))?;
        let read = conditions::of_line(section, line, &Variables::new());
        let condition = match reported_scheme(&read.condition) {
            ReportedScheme::No => read.condition,
            ReportedScheme::OfPlain | ReportedScheme::Otherwise => Condition::Test(Test::Unknown(DROPPED.to_owned())),
        };
        let mut places = read.places;
        places.insert(line.start());
        Some(Track {
            number: line.word(index).trim_start_matches("track-sc").trim_matches(['(', ')']).parse().ok()?,
            key: line.word(index + 1),
            table: line.behind("table"),
            condition,
            places,
            is_of_requests: line.word(0) == "http-request",
        })
    };
    lines.iter().map(|(_, line)| *line).collect::<Vec<_>>().iter().filter_map(of).collect()
}

struct SectionRules<'s> {
    section: &'s Section,
    sections: &'s Sections,
    tracks: Vec<Track<'s>>,
}

impl SectionRules<'_> {
    /// Adds the rule; a refusal that asks who somebody is, or how often he comes, as the step that does so here.
    fn settle(&self, rule: Rule, rules: &mut Vec<Rule>) {
        let is_refusal = matches!(&rule.action, Action::Answer(answer, _) if answer.is_refusal());
        let is_special = |test: &&Test| {
            matches!(test, Test::Rate(_) | Test::BodyBeyond(_)) || matches!((test, is_refusal), (Test::Login(..), true))
        };
        let asks = matches!(rule.action, Action::LogIn(_));
        if !(asks || is_refusal && rule.condition.tests().iter().any(is_special)) {
            rules.push(rule);
            return;
        }
        // Each way to be refused is a rule of its own; one that cannot be said leaves all of them to the reader.
        let ways = match &rule.condition {
            Condition::Any(of) => of.clone(),
            one => vec![one.clone()],
        };
        let mut own: Vec<Rule> = ways.into_iter().map(|condition| Rule { condition, ..rule.clone() }).collect();
        match own.iter_mut().try_for_each(|way| self.guard(way)) {
            Ok(()) => rules.append(&mut own),
            Err(why) => rules.push(Rule { action: Action::Unknown(why), ..rule }),
        }
    }

    fn guard(&self, rule: &mut Rule) -> Result<(), String> {
        let mut parts = rule.condition.parts();
        let index = parts.iter().position(|part| match part {
            Condition::Test(Test::Rate(_) | Test::BodyBeyond(_)) => true,
            Condition::Not(inner) => matches!(inner.as_ref(), Condition::Test(Test::Login(..))),
            _ => false,
        });
        let Some(index) = index else {
            return if matches!(rule.action, Action::Answer(..)) && rule.condition.unwritable().is_none() {
                Ok(())
            } else if matches!(rule.action, Action::LogIn(_)) {
                Err("it asks on other conditions than whether somebody has logged in: `basic-auth` stands in the route that needs it".to_owned())
            } else {
                Err("what it asks for at once is more than a step of ours: write a route for each".to_owned())
            };
        };
        let special = parts.remove(index);
        let status = match &rule.action {
            Action::Answer(OutlinedAnswer::Respond { status, .. }, _) => *status,
            _ => 401,
        };
        let text = match special {
            Condition::Test(Test::Rate(rate)) => self.limit(&rate, status, &mut parts, rule)?,
            Condition::Test(Test::BodyBeyond(bytes)) => {
                if status != 413 {
                    rule.differs = Some("a body that is too long is answered with 413".to_owned());
                }
                format!("body-limit {}", quoted(&format!("{bytes}B")))
            }
            Condition::Not(inner) => {
                let Condition::Test(Test::Login(list, groups)) = *inner else { return Err(String::new()) };
                let realm = match &rule.action {
                    Action::LogIn(realm) => realm.clone(),
                    _ => {
                        rule.differs = Some(ASKED_FOR.to_owned());
                        None
                    }
                };
                logins::step(self.sections, &list, &groups, realm.as_deref().unwrap_or(&list), &mut rule.places)?
            }
            _ => return Err(String::new()),
        };
        rule.condition = Condition::all(parts);
        rule.action = Action::Guard(text);
        Ok(())
    }

    /// The limit of ours for what is counted there.
    fn limit(&self, rate: &RateTest, status: u16, parts: &mut Vec<Condition>, rule: &mut Rule) -> Result<String, String> {
        let track = rate.number.and_then(|number| self.tracks.iter().find(|track| track.number == number));
        if rate.number.is_some() && track.is_none() {
            return Err("no `track-sc` says whose requests it counts".to_owned());
        }
        let by = track.map_or(Ok("client-ip".to_owned()), |track| key(track.key))?;
        let table = rate.table.as_deref().or(track.and_then(|track| track.table));
        let stored = self.table(table).ok_or("the `stick-table` that it asks is not in this file")?;
        rule.places.insert(stored.start());
        if let Some(track) = track {
            rule.places.extend(&track.places);
            parts.extend(track.condition.parts());
        }
        let allowed = rate.allowed.clamp(1, 1_000_000);
        let status = if (400..=599).contains(&status) { status } else { 429 };
        match rate.counter.as_str() {
            "http_req_rate" => {
                let period = stored.words.iter().find_map(|word| {
                    let list = word.split("http_req_rate(").nth(1)?;
                    list.split(')').next()
                });
                let period = period.and_then(super::durations::of_milliseconds).ok_or("the table does not say in which time")?;
                let per = period.strip_prefix("1").filter(|unit| matches!(*unit, "s" | "m" | "h" | "d")).unwrap_or(&period);
                rule.differs = Some(BY_BUCKET.to_owned());
                let status = if status == 429 { String::new() } else { format!(" status={status}") };
                let by = if by == "client-ip" { String::new() } else { format!(" by={}", quoted(&by)) };
                Ok(format!("rate-limit {}{by}{status}", quoted(&format!("{allowed}/{per}"))))
            }
            "conn_cur" => {
                if track.is_none_or(|track| !track.is_of_requests) {
                    rule.differs = Some(AS_REQUESTS.to_owned());
                }
                let by = if by == "client-ip" { String::new() } else { format!(" by={}", quoted(&by)) };
                let status = if status == 429 { String::new() } else { format!(" status={status}") };
                Ok(format!("concurrency-limit {allowed}{by}{status}"))
            }
            other => Err(format!(
                "`{other}` is not counted: `rate-limit` counts requests, `concurrency-limit` those on their way, and `limits {{ connections-per-ip 100 }}` bounds connections"
            )),
        }
    }

    fn table(&self, name: Option<&str>) -> Option<&HaProxyLine> {
        let section = match name {
            None => self.section,
            Some(name) => self.sections.all.iter().find(|section| section.name == name && section.kind != "defaults")?,
        };
        section.lines_of("stick-table").next()
    }
}

/// By what is counted.
fn key(key: &str) -> Result<String, String> {
    let known: BTreeMap<&str, &str> = BTreeMap::from([
        ("src", "client-ip"),
        ("base32+src", "{client.ip} {host}{path}"),
        ("url32+src", "{client.ip} {host}{uri}"),
        ("base32", "{host}{path}"),
        ("base", "{host}{path}"),
        ("url32", "{host}{uri}"),
        ("path", "{path}"),
        ("url", "{uri}"),
    ]);
    if let Some(known) = known.get(key) {
        return Ok((*known).to_owned());
    }
    if key.starts_with("int(") || key.starts_with("str(") || matches!(key, "fe_id" | "be_id" | "dst_port" | "dst") {
        return Ok("all".to_owned());
    }
    if key.starts_with("src,ipmask") {
        return Ok("client-ip".to_owned());
    }
    super::templates::template(&format!("%[{key}]"), &Variables::new())
}
