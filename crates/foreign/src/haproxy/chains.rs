//! Rules in their order as routes in theirs. Rules fall through in HAProxy until one answers; here the first route that
//! fits is taken, so that a step on conditions, and all that comes behind it, is a route with routes in it.

use super::actions::{Action, REWRITE_LOCATION};
use super::conditions::{Condition, Test};
use super::rules::{Rule, RuleKind};
use crate::accounts::Origin;
use crate::outline::{OutlinedAnswer, OutlinedRoute};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_kdl::quoted;

/// What a part of a site is made of.
#[derive(Debug, Default)]
pub struct Chain {
    pub steps: Vec<String>,
    pub routes: Vec<OutlinedRoute>,
    pub answer: Option<OutlinedAnswer>,
    /// Of its steps, and of rules that all have to come by.
    pub origin: Origin,
    /// Of what answers all that no route takes.
    pub answer_origin: Origin,
    /// Rules that are never asked, since one in front of them answers all.
    pub unreached: BTreeSet<usize>,
}

/// Conditions of steps nest no deeper: each doubles what comes behind it.
const GUARDS_MAX: usize = 3;
const LOCATION_OF_ALL: &str = "`rewrite-location` holds for all answers of a route or a site, and has no conditions";
const TOO_MANY: &str = "there are too many steps on conditions in front of it, each of which would double all that comes behind: write a route \
                        for what it is about";

/// Where in the rules somebody is.
#[derive(Clone, Copy)]
struct State<'s> {
    /// Lines on answers that are still to be written.
    responses: &'s [String],
    /// How many steps on conditions are around.
    guards: usize,
    /// What the path begins with, where a step in front has changed it.
    rewritten: Option<&'s str>,
}

impl<'s> State<'s> {
    fn without_responses(self) -> State<'s> {
        State { responses: &[], ..self }
    }

    /// Behind this step.
    fn behind(self, step: &'s str) -> State<'s> {
        State { guards: self.guards + 1, rewritten: rewritten_to(step).or(self.rewritten), ..self }
    }
}

/// What a path begins with behind a `rewrite`, as far as it is said.
fn rewritten_to(step: &str) -> Option<&str> {
    let rest = step.strip_prefix("rewrite \"")?;
    // The new path is the last of its texts.
    let new = rest.rsplit(" \"").next()?;
    Some(new.split(['{', '$', '"', '\\']).next().unwrap_or_default())
}

/// Whether a pattern takes a path that begins so; `None` where that is not told.
fn takes(pattern: &str, beginning: &str) -> Option<bool> {
    let literal: String = match pattern.strip_prefix("~^") {
        Some(expression) => {
            expression.chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_')).collect()
        }
        None if pattern.starts_with('~') => return None,
        None => pattern.to_owned(),
    };
    let is_apart = !literal.starts_with(beginning) && !beginning.starts_with(&literal);
    is_apart.then_some(false)
}

const TAKEN_OUT: &str = ": the field is taken out of requests, so that no client sends its own in its place";
const CHANGED: &str =
    "where a line before it has changed the path it is not asked: routes are chosen by what the client has asked for";

pub struct RuleCompiler<'c> {
    /// What a backend answers, by its name, and where its lines are; `Err` says why it has no answer.
    pub backend: &'c dyn Fn(&str) -> Result<Chain, String>,
    /// Why single rules are not carried.
    pub reasons: &'c RefCell<BTreeMap<usize, String>>,
    /// Rules that are left out where the path was changed in front of them.
    pub lost: &'c RefCell<BTreeSet<usize>>,
    /// Choices of servers that are not carried, and whether all that they would take is refused.
    pub kept: &'c RefCell<BTreeMap<usize, bool>>,
    /// Whether what it comes to stands in routes, which have `deny` and `allow` behind those of their site.
    pub is_within: bool,
}

impl RuleCompiler<'_> {
    /// All rules, whose conditions were settled as far as this site tells.
    pub fn chain(&self, rules: &[Rule]) -> Chain {
        let responses: Vec<&Rule> = rules.iter().filter(|rule| rule.kind == RuleKind::Response).collect();
        let others: Vec<&Rule> = rules.iter().filter(|rule| rule.kind != RuleKind::Response).collect();
        let mut chain = Chain::default();
        let mut limits: Vec<String> = Vec::new();
        let others: Vec<Rule> = others.into_iter().map(|rule| named_apart(rule, &mut limits)).collect();
        let others: Vec<&Rule> = others.iter().collect();
        let responses = self.responses(&responses, &mut chain.origin);
        self.add(&mut chain, &others, State { responses: &responses, guards: 0, rewritten: None });
        chain
    }

    fn reason(&self, rule: &Rule, why: impl Into<String>) {
        self.reasons.borrow_mut().entry(rule.at).or_insert_with(|| why.into());
    }

    /// Lines on answers, which hold for all that servers answer.
    fn responses(&self, rules: &[&Rule], origin: &mut Origin) -> Vec<String> {
        let mut lines = Vec::new();
        for rule in rules {
            let text = match &rule.action {
                Action::Response(text) => text.clone(),
                Action::Unknown(why) => {
                    self.reason(rule, why.clone());
                    continue;
                }
                _ => continue,
            };
            // The status of an answer is a property, all else are conditions of the request.
            let mut parts = rule.condition.parts();
            let index = parts.iter().position(|part| matches!(part, Condition::Test(Test::Status(_))));
            let status = match index.map(|index| parts.remove(index)) {
                Some(Condition::Test(Test::Status(status))) => format!(" status={}", quoted(&status)),
                _ => String::new(),
            };
            let condition = Condition::all(parts);
            let line = with_block(format!("{text}{status}"), &condition);
            match condition.unwritable() {
                Some(why) => self.reason(rule, why),
                None if text.starts_with(REWRITE_LOCATION) && line != text => self.reason(rule, LOCATION_OF_ALL),
                None => {
                    lines.push(line);
                    told(rule, origin);
                }
            }
        }
        lines
    }

    fn add(&self, chain: &mut Chain, rules: &[&Rule], state: State<'_>) {
        let mut state = state;
        // Steps that are not on conditions change the path for all behind them.
        let mut rewritten: Option<String> = None;
        for (index, rule) in rules.iter().enumerate() {
            let rest = &rules[index + 1..];
            let state_here = State { rewritten: rewritten.as_deref().or(state.rewritten), ..state };
            let is_chosen = matches!(rule.kind, RuleKind::Backend | RuleKind::Default);
            if is_chosen && !state.responses.is_empty() {
                if !chain.routes.is_empty() {
                    self.wrap(chain, state.responses.to_vec(), &rules[index..], state_here.without_responses());
                    return;
                }
                chain.steps.extend(state.responses.iter().cloned());
                state = state.without_responses();
            }
            let Some(settled) = self.looked_at(rule, state_here.rewritten) else {
                if self.lost.borrow().contains(&rule.at) {
                    self.drop_from(chain, rule);
                    Self::withhold(chain, rule, None);
                }
                continue;
            };
            let rule = &settled;
            let unknown = match &rule.action {
                Action::Unknown(why) => Some(why.clone()),
                _ => rule.condition.unwritable(),
            };
            if let Some(why) = unknown {
                let taken_out = if rule.field.is_some() { TAKEN_OUT } else { "" };
                self.reason(rule, format!("{why}{taken_out}"));
                self.drop_from(chain, rule);
                Self::withhold(chain, rule, rule.condition.unwritable().is_none().then_some(&rule.condition));
                // What it makes of the path is not known to those behind it.
                if rule.changes_path {
                    rewritten = Some(String::new());
                }
                continue;
            }
            match &rule.action {
                Action::Nothing if rule.differs.is_some() => told(rule, &mut chain.origin),
                Action::Nothing | Action::Variable(..) | Action::Response(_) | Action::Unknown(_) | Action::LogIn(_) => {}
                Action::Request(text) => {
                    chain.steps.push(with_block(text.clone(), &rule.condition));
                    told(rule, &mut chain.origin);
                }
                Action::Answer(..) | Action::Backend(_) => {
                    let is_last = match &rule.action {
                        Action::Backend(name) => self.backend(chain, rule, name),
                        _ => self.answer(chain, rule, state.guards),
                    };
                    if is_last {
                        chain.unreached.extend(rest.iter().map(|rule| rule.at));
                        return;
                    }
                }
                Action::Guard(step) if rule.condition == Condition::True && chain.routes.is_empty() => {
                    chain.steps.push(step.clone());
                    rewritten = rewritten_to(step).map(str::to_owned).or(rewritten);
                    told(rule, &mut chain.origin);
                }
                Action::Guard(_) if state.guards >= GUARDS_MAX => {
                    self.reason(rule, TOO_MANY);
                    self.lost.borrow_mut().insert(rule.at);
                    chain.origin.within.insert(rule.at);
                    if rule.changes_path {
                        rewritten = Some(String::new());
                    }
                }
                Action::Guard(step) if rule.condition == Condition::True => {
                    told(rule, &mut chain.origin);
                    self.wrap(chain, vec![step.clone()], rest, state_here.behind(step));
                    return;
                }
                Action::Guard(step) => self.branch(chain, rule, vec![step.clone()], rest, state_here.behind(step)),
                Action::Allow => {
                    if self.allow(chain, rule, rest, state_here) {
                        return;
                    }
                }
            }
        }
        if !state.responses.is_empty() && !chain.routes.is_empty() {
            self.wrap(chain, state.responses.to_vec(), &[], state.without_responses());
        } else {
            chain.steps.extend(state.responses.iter().cloned());
        }
    }

    /// Whether no rule behind it is asked.
    fn answer(&self, chain: &mut Chain, rule: &Rule, guards: usize) -> bool {
        let Action::Answer(answer, steps) = &rule.action else { return false };
        if let Some(step) = self.network_step(rule, answer, chain, guards) {
            chain.steps.push(step);
            told(rule, &mut chain.origin);
            return false;
        }
        let answer = match steps.as_slice() {
            [] => answer.clone(),
            steps => within(steps.to_vec(), Vec::new(), Some(answer.clone())),
        };
        Self::answered(chain, rule, answer)
    }

    /// Whether all that comes behind a rule that hands on is never asked.
    fn backend(&self, chain: &mut Chain, rule: &Rule, name: &str) -> bool {
        let inner = match (self.backend)(name) {
            Ok(inner) => inner,
            Err(why) => {
                let is_kept = rule.kind == RuleKind::Backend;
                self.reason(rule, if is_kept { format!("{why}: what it would take is answered with 503") } else { why });
                return is_kept && self.keep(chain, rule);
            }
        };
        let origin = inner.whole_origin();
        let Some(answer) = inner.into_answer() else { return false };
        let count = chain.routes.len();
        let is_last = Self::answered(chain, rule, answer);
        match chain.routes.get_mut(count) {
            Some(route) => route.origin.add(&origin),
            None => chain.answer_origin.add(&origin),
        }
        is_last
    }

    /// Who would have come to the rule comes to what is behind it.
    fn drop_from(&self, chain: &mut Chain, rule: &Rule) {
        chain.origin.within.insert(rule.at);
        self.kept.borrow_mut().insert(rule.at, false);
    }

    /// Refuses what would go to servers that no line names: another backend is none that the file has chosen.
    fn keep(&self, chain: &mut Chain, rule: &Rule) -> bool {
        self.kept.borrow_mut().entry(rule.at).or_insert(true);
        let origin = Origin { within: BTreeSet::from([rule.at]), ..Origin::default() };
        let refusal = OutlinedAnswer::status(503);
        if rule.condition == Condition::True {
            chain.origin.add(&origin);
            chain.answer = Some(refusal);
            return true;
        }
        let mut route = route(&rule.condition, refusal);
        route.origin.add(&origin);
        chain.routes.push(route);
        false
    }

    /// Takes a field out that a line sets which is not carried, so that no client's own goes on in its place; always,
    /// where the condition cannot be asked.
    fn withhold(chain: &mut Chain, rule: &Rule, condition: Option<&Condition>) {
        let Some(field) = &rule.field else { return };
        let is_set = format!("request-header {} ", quoted(field)).to_ascii_lowercase();
        if chain.steps.iter().any(|step| step.to_ascii_lowercase().starts_with(&is_set) && !step.ends_with('}')) {
            return;
        }
        let text = format!("request-header remove={}", quoted(field));
        let step = with_block(text, condition.unwrap_or(&Condition::True));
        if !chain.steps.contains(&step) {
            chain.steps.push(step);
        }
    }

    /// Whether what is left was added: that of other kinds, where nothing else of its kind is asked.
    fn allow(&self, chain: &mut Chain, rule: &Rule, rest: &[&Rule], state: State<'_>) -> bool {
        let left: Vec<&Rule> = rest.iter().copied().filter(|other| other.kind > rule.kind).collect();
        let skips = rest.iter().any(|other| other.kind == rule.kind && !matches!(other.action, Action::Nothing));
        if !skips {
            told(rule, &mut chain.origin);
        } else if rule.condition == Condition::True {
            told(rule, &mut chain.origin);
            self.add(chain, &left, state);
            return true;
        } else if state.guards >= GUARDS_MAX {
            self.reason(rule, TOO_MANY);
            self.lost.borrow_mut().insert(rule.at);
            chain.origin.within.insert(rule.at);
        } else {
            self.branch(chain, rule, Vec::new(), &left, state.behind(""));
            // Steps of the site would be taken on who is let through as well.
            if rest.iter().any(|other| other.kind == rule.kind && matches!(other.action, Action::Request(_) | Action::Unknown(_)))
            {
                self.wrap(chain, Vec::new(), rest, state.behind(""));
                return true;
            }
        }
        false
    }

    /// The rule as it is where the path was changed in front of it; none where it never holds, or cannot be told.
    fn looked_at(&self, rule: &Rule, rewritten: Option<&str>) -> Option<Rule> {
        let Some(beginning) = rewritten else { return Some(rule.clone()) };
        let settle = |test: &Test| match test {
            Test::Path(pattern) => takes(pattern, beginning),
            _ => None,
        };
        let condition = rule.condition.settled(&settle);
        if condition == Condition::False {
            return None;
        }
        if condition.tests().iter().any(|test| matches!(test, Test::Path(_))) {
            self.reason(rule, CHANGED);
            // Elsewhere it may be carried, and here it is not.
            self.lost.borrow_mut().insert(rule.at);
            return None;
        }
        Some(Rule { condition, ..rule.clone() })
    }

    /// Whether all that comes behind is never asked.
    fn answered(chain: &mut Chain, rule: &Rule, answer: OutlinedAnswer) -> bool {
        if rule.condition == Condition::True {
            told(rule, &mut chain.origin);
            // Steps of what answers are not those of the routes in front.
            let has_steps = matches!(&answer, OutlinedAnswer::Within { .. });
            if has_steps && !chain.routes.is_empty() {
                let mut route = OutlinedRoute::of(Vec::new(), answer);
                told(rule, &mut route.origin);
                chain.routes.push(route);
            } else {
                chain.answer = Some(answer);
            }
            return true;
        }
        let mut route = route(&rule.condition, answer);
        told(rule, &mut route.origin);
        chain.routes.push(route);
        false
    }

    /// A route for all, with these steps, around what the rules come to.
    fn wrap(&self, chain: &mut Chain, steps: Vec<String>, rules: &[&Rule], state: State<'_>) {
        let mut inner = Chain { steps, ..Chain::default() };
        self.add(&mut inner, rules, state);
        chain.unreached.extend(&inner.unreached);
        let origin = inner.whole_origin();
        if let Some(answer) = inner.into_answer() {
            let mut route = OutlinedRoute::of(Vec::new(), answer);
            route.origin.add(&origin);
            chain.routes.push(route);
        }
    }

    /// A route where the rule's condition holds, with these steps and what the rules behind come to.
    fn branch(&self, chain: &mut Chain, rule: &Rule, steps: Vec<String>, rules: &[&Rule], state: State<'_>) {
        let mut inner = Chain { steps, ..Chain::default() };
        self.add(&mut inner, rules, state);
        let origin = inner.whole_origin();
        let Some(answer) = inner.into_answer() else {
            self.reason(rule, "nothing behind it answers");
            return;
        };
        let mut route = route(&rule.condition, answer);
        route.origin.add(&origin);
        told(rule, &mut route.origin);
        chain.routes.push(route);
    }

    /// `deny` and `allow` for refusals by address, as long as nothing answers in front.
    fn network_step(&self, rule: &Rule, answer: &OutlinedAnswer, chain: &Chain, guards: usize) -> Option<String> {
        let is_plain = matches!(answer, OutlinedAnswer::Respond { status: 403, body: None });
        if !is_plain || guards > 0 || !chain.routes.is_empty() || self.is_within || rule.kind > RuleKind::Redirect {
            return None;
        }
        let has_allow = chain.steps.iter().any(|step| step.starts_with("allow "));
        let listed = |networks: &[String]| {
            let networks: Vec<String> = networks.iter().map(|network| quoted(network)).collect();
            networks.join(" ")
        };
        match &rule.condition {
            Condition::Test(Test::Source(networks)) if !has_allow => Some(format!("deny {}", listed(networks))),
            Condition::Not(inner) => match inner.as_ref() {
                Condition::Test(Test::Source(networks)) if !has_allow => Some(format!("allow {}", listed(networks))),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Chain {
    /// Without its routes.
    fn whole_origin(&self) -> Origin {
        let mut origin = self.origin.clone();
        origin.add(&self.answer_origin);
        origin
    }

    /// As what a route answers.
    pub fn into_answer(self) -> Option<OutlinedAnswer> {
        match (self.steps.is_empty(), self.routes.is_empty(), self.answer) {
            (true, true, answer) => answer,
            (false, true, None) => None,
            (_, _, answer) => Some(within(self.steps, self.routes, answer)),
        }
    }
}

fn within(steps: Vec<String>, routes: Vec<OutlinedRoute>, answer: Option<OutlinedAnswer>) -> OutlinedAnswer {
    match answer {
        // Routes in what answers would stand beside those in front, which have no steps of theirs.
        Some(OutlinedAnswer::Within { routes: inner, steps: own, otherwise }) if routes.is_empty() => {
            OutlinedAnswer::Within { routes: inner, steps: [steps, own].concat(), otherwise }
        }
        answer => OutlinedAnswer::Within { routes, steps, otherwise: answer.map(Box::new) },
    }
}

/// Limits that count the same are told apart by a name.
fn named_apart(rule: &Rule, limits: &mut Vec<String>) -> Rule {
    let Action::Guard(step) = &rule.action else { return rule.clone() };
    let word = step.split(' ').next().unwrap_or_default();
    if !matches!(word, "rate-limit" | "concurrency-limit") {
        return rule.clone();
    }
    limits.push(word.to_owned());
    let number = limits.iter().filter(|limit| *limit == word).count();
    if number == 1 {
        return rule.clone();
    }
    Rule { action: Action::Guard(format!("{step} name=\"limit-{number}\"")), ..rule.clone() }
}

fn route(condition: &Condition, answer: OutlinedAnswer) -> OutlinedRoute {
    // The pattern of a route would confine those of the routes in it.
    let (patterns, alternatives) = if answer.has_patterns() { (Vec::new(), condition.lines()) } else { condition.written() };
    let mut route = OutlinedRoute::of(patterns, answer);
    match alternatives.as_slice() {
        [one] => route.conditions = vec![one.clone()],
        _ => route.alternatives = alternatives,
    }
    route
}

fn with_block(text: String, condition: &Condition) -> String {
    let lines: Vec<String> = condition.lines().into_iter().map(|line| format!("match {line}")).collect();
    if lines.is_empty() { text } else { format!("{text} {{ {}; }}", lines.join("; ")) }
}

/// The rule is said, with what is different of it.
pub fn told(rule: &Rule, origin: &mut Origin) {
    origin.carry(rule.at);
    origin.carry_all(rule.places.iter().copied());
    if let Some(how) = &rule.differs {
        origin.differ(rule.at, how.clone());
    }
}
