//! What becomes of requests by the statements that nginx runs before anybody is asked who that is: `set`, `if`,
//! `return`, `rewrite`, `break`. They are run beforehand, once for each answer that questions can have, so that what is
//! left for a request is a list of conditions. Those of a server run first, then those of its location.

use super::conditions::Verdict;
use super::texts::{Moment, Text, Values, template_of};
use super::{PlacedStatement, Rewriting, RewritingEnd, Snippet, Statement};
use crate::annotations::{is_path, is_usable, starts_well, with_query};
use tidegate_model::{Condition, ConditionKind, HostPattern, PathPattern, Placeholder, Step, Template, TemplatePart, Terminal};

/// What is answered that can be read in two ways.
const UNCLEAR: u16 = 400;
/// Branches of a snippet, each a route of every path.
const BRANCHES_MAX: usize = 32;

/// What is around a snippet.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'g> {
    /// Whom requests are for.
    pub host: &'g HostPattern,
    /// Whether anybody is believed what proxies say of clients.
    pub believes: bool,
    /// Whether an auth server is asked.
    pub is_asked: bool,
    /// Whether clients log in with a name and a password.
    pub has_login: bool,
    /// Whether the path is another one for servers anyway.
    pub rewrites: bool,
    /// Whether the Ingress names networks itself.
    pub has_networks: bool,
}

impl Ground<'_> {
    /// Of a host of which nothing else is known, where everything that depends on somebody else is there.
    pub fn of_any(host: &HostPattern) -> Ground<'_> {
        Ground { host, believes: true, is_asked: false, has_login: false, rewrites: false, has_networks: false }
    }
}

/// Requests for which all questions have the same answers.
#[derive(Debug, Clone)]
pub struct Branch<'s> {
    /// All of them hold, and of no other branch.
    pub conditions: Vec<Condition>,
    pub end: BranchEnd,
    /// The block of the `if` of the location that says what holds, if there is one.
    pub block: Option<&'s [PlacedStatement]>,
    pub values: Values,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchEnd {
    GoesOn,
    /// As `GoesOn`, with the path that this makes.
    Rewritten(Step),
    /// With its path as it is, whatever the Ingress makes of paths.
    Unchanged,
    Answered(BranchAnswer),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchAnswer {
    /// Whether that is said by the server, so that every path is answered so.
    pub is_of_server: bool,
    /// The statement that says it, behind the name of what it stands in: `configuration-snippet:3:return`.
    pub said_at: String,
    /// What makes the path that the client is sent to.
    pub rewrite: Option<Step>,
    pub terminal: Terminal,
}

/// What cannot be had of a statement that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub is_of_server: bool,
    pub line: usize,
    pub word: &'static str,
    /// Without a full stop.
    pub says: String,
}

/// Disjoint, and together all requests.
pub fn branches<'s>(server: &'s Snippet, location: &'s Snippet, ground: Ground<'_>) -> Result<Vec<Branch<'s>>, Fault> {
    let mut run = Run { blocks: [&server.statements, &location.statements], ground, found: Vec::new() };
    let unset = |statement: &PlacedStatement| match &statement.statement {
        Statement::Set { variable, .. } => vec![variable.clone()],
        Statement::If { inside, .. } => inside
            .iter()
            .filter_map(|inner| match &inner.statement {
                Statement::Set { variable, .. } => Some(variable.clone()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    let mut values: Values =
        server.statements.iter().chain(&location.statements).flat_map(unset).map(|name| (name, Text::default())).collect();
    // What an auth server answers is known where texts are used.
    for placed in &location.statements {
        if let Statement::AuthSet { variable, field } = &placed.statement {
            values.insert(variable.clone(), Text::auth_field(field));
        }
    }
    run.walk(0, 0, State { conditions: Vec::new(), block: None, values, path: Path::AsSent })?;
    Ok(run.found)
}

struct Run<'s, 'g> {
    /// Of the server, and of the location.
    blocks: [&'s [PlacedStatement]; 2],
    ground: Ground<'g>,
    found: Vec<Branch<'s>>,
}

#[derive(Clone)]
struct State<'s> {
    conditions: Vec<Condition>,
    block: Option<&'s [PlacedStatement]>,
    values: Values,
    path: Path,
}

#[derive(Clone, PartialEq)]
enum Path {
    AsSent,
    Unchanged,
    Rewritten(Step),
}

/// What a statement has done.
enum Done {
    GoesOn,
    /// Nothing behind it in its block runs.
    Breaks,
    Answers(Box<BranchAnswer>),
}

impl<'s> Run<'s, '_> {
    /// Runs the block from a statement on. An `if` whose answer depends on the request is gone through both ways.
    fn walk(&mut self, level: usize, from: usize, mut state: State<'s>) -> Result<(), Fault> {
        let block = self.blocks[level];
        for (index, placed) in block.iter().enumerate().skip(from) {
            let done = match &placed.statement {
                Statement::If { question, inside } => {
                    let verdict = question.verdict(&state.values, self.ground).map_err(|says| fault(level, placed, says))?;
                    let verdict = self.cleared(level, placed, verdict, &mut state)?;
                    match known(verdict, &state.conditions) {
                        Verdict::Is(false) => continue,
                        Verdict::Is(true) => self.enter(level, inside, &mut state)?,
                        Verdict::When(condition) | Verdict::WhenClear { condition, .. } => {
                            let mut other = state.clone();
                            other.conditions.push(Condition { negated: !condition.negated, ..condition.clone() });
                            state.conditions.push(condition);
                            let done = self.enter(level, inside, &mut state)?;
                            self.go_on(level, index + 1, state, done)?;
                            state = other;
                            continue;
                        }
                    }
                }
                Statement::Rewrite(rewriting) => {
                    let fits = ConditionKind::Path(vec![PathPattern::Regex(rewriting.pattern.clone())]);
                    let fits = Condition { negated: false, kind: fits };
                    match known(Verdict::When(fits), &state.conditions) {
                        Verdict::Is(false) => continue,
                        Verdict::Is(true) => rewrite(level, placed, rewriting, &mut state)?,
                        Verdict::When(condition) | Verdict::WhenClear { condition, .. } => {
                            let mut other = state.clone();
                            other.conditions.push(Condition { negated: true, ..condition.clone() });
                            state.conditions.push(condition);
                            let done = rewrite(level, placed, rewriting, &mut state)?;
                            self.go_on(level, index + 1, state, done)?;
                            state = other;
                            continue;
                        }
                    }
                }
                _ => self.run(level, placed, &mut state)?,
            };
            match done {
                Done::GoesOn => {}
                Done::Breaks | Done::Answers(_) => return self.go_on(level, block.len(), state, done),
            }
        }
        self.go_on(level, block.len(), state, Done::GoesOn)
    }

    /// Answers requests of which it is not clear what the question is about: one side would see another value than the
    /// other, and so a guard another one than the server behind it.
    fn cleared(
        &mut self,
        level: usize,
        placed: &PlacedStatement,
        verdict: Verdict,
        state: &mut State<'s>,
    ) -> Result<Verdict, Fault> {
        let Verdict::WhenClear { condition, unclear } = verdict else { return Ok(verdict) };
        if let Verdict::When(_) = known(Verdict::When(unclear.clone()), &state.conditions) {
            let mut odd = state.clone();
            odd.conditions.push(unclear.clone());
            let terminal = Terminal::Respond { status: UNCLEAR, body: Template::default(), content_type: None };
            let said_at = said_at(level, placed);
            let answer = BranchAnswer { is_of_server: level == 0, said_at, rewrite: None, terminal };
            self.add(level, odd, BranchEnd::Answered(answer))?;
            state.conditions.push(Condition { negated: true, ..unclear });
        }
        Ok(Verdict::When(condition))
    }

    /// Goes on behind what was done, or with the location, or is at the end.
    fn go_on(&mut self, level: usize, next: usize, state: State<'s>, done: Done) -> Result<(), Fault> {
        match done {
            Done::GoesOn if next < self.blocks[level].len() => self.walk(level, next, state),
            Done::GoesOn | Done::Breaks if level == 0 => self.walk(1, 0, state),
            Done::GoesOn | Done::Breaks => {
                let end = match &state.path {
                    Path::AsSent => BranchEnd::GoesOn,
                    Path::Unchanged => BranchEnd::Unchanged,
                    Path::Rewritten(step) => BranchEnd::Rewritten(step.clone()),
                };
                self.add(level, state, end)
            }
            Done::Answers(answer) => self.add(level, state, BranchEnd::Answered(*answer)),
        }
    }

    fn add(&mut self, level: usize, state: State<'s>, end: BranchEnd) -> Result<(), Fault> {
        if self.found.len() >= BRANCHES_MAX {
            let says = format!("its conditions come to more than {BRANCHES_MAX} cases");
            let line = self.blocks[level].first().map_or(1, |placed| placed.line);
            return Err(Fault { is_of_server: level == 0, line, word: "if", says });
        }
        let State { mut conditions, block, values, .. } = state;
        // As a file has them.
        conditions.sort_by_key(|condition| matches!(condition.kind, ConditionKind::Any(_)));
        self.found.push(Branch { conditions, end, block, values });
        Ok(())
    }

    /// Runs the block of an `if`, which says what holds from there on.
    fn enter(&mut self, level: usize, inside: &'s [PlacedStatement], state: &mut State<'s>) -> Result<Done, Fault> {
        if level == 1 {
            state.block = Some(inside);
        }
        for placed in inside {
            let done = match &placed.statement {
                Statement::Rewrite(rewriting) => {
                    // A rewrite behind another would be a question within a question.
                    let fits = ConditionKind::Path(vec![PathPattern::Regex(rewriting.pattern.clone())]);
                    let is_known = known(Verdict::When(Condition { negated: false, kind: fits }), &state.conditions);
                    match is_known {
                        Verdict::Is(false) => Done::GoesOn,
                        Verdict::When(_) | Verdict::WhenClear { .. } if !is_everything(&rewriting.pattern) => {
                            let says = "within an `if` its expression takes every path, as `^` does".to_owned();
                            return Err(fault(level, placed, says));
                        }
                        Verdict::Is(true) | Verdict::When(_) | Verdict::WhenClear { .. } => {
                            rewrite(level, placed, rewriting, state)?
                        }
                    }
                }
                _ => self.run(level, placed, state)?,
            };
            match done {
                Done::GoesOn => {}
                Done::Breaks | Done::Answers(_) => return Ok(done),
            }
        }
        Ok(Done::GoesOn)
    }

    fn run(&mut self, level: usize, placed: &PlacedStatement, state: &mut State<'s>) -> Result<Done, Fault> {
        let says = |says: String| fault(level, placed, says);
        let is_of_server = level == 0;
        let answer = |terminal| {
            Done::Answers(Box::new(BranchAnswer { is_of_server, said_at: said_at(level, placed), rewrite: None, terminal }))
        };
        Ok(match &placed.statement {
            Statement::Set { variable, value } => {
                let value = value.filled(&state.values).map_err(says)?;
                state.values.insert(variable.clone(), value);
                Done::GoesOn
            }
            Statement::Return { status, text } => {
                let body = template(text, state).map_err(says)?;
                let content_type = (!body.parts.is_empty()).then(|| self.content_type());
                answer(Terminal::Respond { status: *status, body, content_type })
            }
            Statement::Redirect { status, to } => {
                let to = template(to, state).map_err(says)?;
                if !leads_somewhere(&to) {
                    return Err(says("it leads to a URL, as in `https://example.com/`, or to a path".to_owned()));
                }
                answer(Terminal::Redirect { to, status: *status, prefix: None })
            }
            Statement::Break => {
                if level == 1 {
                    state.path = Path::Unchanged;
                }
                Done::Breaks
            }
            Statement::If { .. }
            | Statement::Rewrite(_)
            | Statement::AddHeader { .. }
            | Statement::ChangeHeaders(_)
            | Statement::HideHeader(_)
            | Statement::SetRequestHeader { .. }
            | Statement::ChangeInput(_)
            | Statement::AuthSet { .. }
            | Statement::Access { .. }
            | Statement::ContentType(_)
            | Statement::Setting(_) => Done::GoesOn,
        })
    }

    fn content_type(&self) -> String {
        let of = |block: &[PlacedStatement]| {
            block.iter().rev().find_map(|placed| match &placed.statement {
                Statement::ContentType(of_type) => Some(of_type.clone()),
                _ => None,
            })
        };
        of(self.blocks[1]).or_else(|| of(self.blocks[0])).unwrap_or_else(|| "text/html".to_owned())
    }
}

/// As if its expression had fitted.
fn rewrite(level: usize, placed: &PlacedStatement, rewriting: &Rewriting, state: &mut State<'_>) -> Result<Done, Fault> {
    let says = |says: &str| fault(level, placed, says.to_owned());
    let is_of_server = level == 0;
    let filled = rewriting.to.filled(&state.values).map_err(|why| says(&why))?;
    let to = template_of(&filled, Moment::Request, false).map_err(|why| says(&why))?;
    let (start, path) = split_at_path(&to);
    if path.parts.iter().any(|part| matches!(part, TemplatePart::Capture(number) if *number > rewriting.groups)) {
        return Err(says("its expression has fewer groups than it names"));
    }
    match rewriting.end {
        RewritingEnd::Redirect(status) => {
            let mut location = start;
            if let Some(()) = whole_path(&path) {
                location.parts.push(TemplatePart::Placeholder(Placeholder::Uri));
                let terminal = Terminal::Redirect { to: location, status, prefix: None };
                let said_at = said_at(level, placed);
                return Ok(Done::Answers(Box::new(BranchAnswer { is_of_server, said_at, rewrite: None, terminal })));
            }
            let has_group = location.parts.iter().any(|part| matches!(part, TemplatePart::Capture(_)));
            if has_group || !is_path(&path) || !(location.parts.is_empty() || starts_well(&location)) {
                return Err(says("it leads to a URL, as in `https://example.com/$1`, or to a path"));
            }
            location.parts.push(TemplatePart::Placeholder(Placeholder::Uri));
            let rewrite = Some(Step::Rewrite { pattern: Some(rewriting.pattern.clone()), to: with_query(path) });
            let terminal = Terminal::Redirect { to: location, status, prefix: None };
            let said_at = said_at(level, placed);
            Ok(Done::Answers(Box::new(BranchAnswer { is_of_server, said_at, rewrite, terminal })))
        }
        RewritingEnd::Break if level == 0 => Err(says("in a server it decides which path of the host takes the request")),
        RewritingEnd::Break if !start.parts.is_empty() || !is_path(&path) => Err(says("it is a path, as in `/$1`")),
        RewritingEnd::Break => {
            let step = Step::Rewrite { pattern: Some(rewriting.pattern.clone()), to: with_query(path) };
            state.path = Path::Rewritten(step);
            Ok(Done::Breaks)
        }
    }
}

fn said_at(level: usize, placed: &PlacedStatement) -> String {
    let text = match (level, placed.is_of_all) {
        (0, _) => "server-snippet",
        (_, false) => "configuration-snippet",
        (_, true) => "location-snippet",
    };
    format!("{text}:{}:{}", placed.line, placed.word)
}

fn fault(level: usize, placed: &PlacedStatement, says: String) -> Fault {
    placed.fault(level == 0, says)
}

fn template(text: &Text, state: &State<'_>) -> Result<Template, String> {
    let filled = text.filled(&state.values)?;
    // Nobody has been asked so far.
    let template = template_of(&filled, Moment::Request, false)?;
    if template.parts.iter().any(|part| matches!(part, TemplatePart::Capture(_))) {
        return Err("what an expression has found is not known there".to_owned());
    }
    Ok(template)
}

/// What conditions that hold say of it already.
fn known(verdict: Verdict, held: &[Condition]) -> Verdict {
    let Verdict::When(asked) = &verdict else { return verdict };
    for condition in held {
        if condition.kind == asked.kind {
            return Verdict::Is(condition.negated == asked.negated);
        }
        if let (ConditionKind::Method(known), ConditionKind::Method(asked_for), false) =
            (&condition.kind, &asked.kind, condition.negated)
        {
            if known.iter().all(|method| asked_for.contains(method)) {
                return Verdict::Is(!asked.negated);
            }
            if !known.iter().any(|method| asked_for.contains(method)) {
                return Verdict::Is(asked.negated);
            }
        }
    }
    verdict
}

/// Whether every path fits.
fn is_everything(pattern: &str) -> bool {
    matches!(pattern, "^" | ".*" | "^.*" | "^.*$" | "(.*)" | "^(.*)$" | "^(.*)" | "^/" | "^/(.*)$" | "^/(.*)" | "^(/.*)$")
}

/// Whether it is a URL, or a path of the host.
fn leads_somewhere(to: &Template) -> bool {
    let is_path = match to.parts.first() {
        Some(TemplatePart::Literal(text)) => text.starts_with('/') && !text.starts_with("//") && !text.starts_with("/\\"),
        Some(TemplatePart::Placeholder(_) | TemplatePart::Capture(_)) | None => false,
    };
    // A slash alone in front of what a client says may be the first of two.
    let is_open = is_path && matches!(&to.parts[..], [TemplatePart::Literal(text), _, ..] if text == "/");
    (is_path && !is_open || starts_well(to)) && is_usable(to)
}

/// The path that is asked for, and nothing else of it.
fn whole_path(path: &Template) -> Option<()> {
    let is_whole = |placeholder: &Placeholder| matches!(placeholder, Placeholder::AskedUri | Placeholder::Path);
    match &path.parts[..] {
        [TemplatePart::Placeholder(placeholder)] if is_whole(placeholder) => Some(()),
        [TemplatePart::Placeholder(Placeholder::AskedUri), TemplatePart::Literal(end)] if end == "?" => Some(()),
        _ => None,
    }
}

/// What stands in front of the path of a URL, and the path.
fn split_at_path(to: &Template) -> (Template, Template) {
    let mut start = Template::default();
    let is_url = starts_well(to);
    if !is_url {
        return (start, to.clone());
    }
    let mut parts = to.parts.iter();
    let mut is_behind_scheme = false;
    while let Some(part) = parts.next() {
        match part {
            TemplatePart::Literal(text) => {
                let from = if is_behind_scheme { 0 } else { text.find("://").map_or(text.len(), |at| at + 3) };
                is_behind_scheme |= from < text.len() || text.ends_with("://");
                if let Some(at) = text.get(from..).and_then(|rest| rest.find('/')) {
                    let (before, behind) = text.split_at(from + at);
                    start.parts.push(TemplatePart::Literal(before.to_owned()));
                    let first = TemplatePart::Literal(behind.to_owned());
                    return (start, Template { parts: std::iter::once(first).chain(parts.cloned()).collect() });
                }
                start.parts.push(part.clone());
            }
            TemplatePart::Placeholder(Placeholder::AskedUri | Placeholder::Path) => {
                return (start, Template { parts: std::iter::once(part.clone()).chain(parts.cloned()).collect() });
            }
            TemplatePart::Placeholder(_) | TemplatePart::Capture(_) => start.parts.push(part.clone()),
        }
    }
    (start, Template::default())
}
