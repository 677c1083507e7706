//! The handlers of a site of Caddy in the order in which it asks them, and the routes of ours that do the same. A
//! handler that answers ends the search; one that does not changes what comes behind it, so that what is done under a
//! condition becomes a route with all that follows, in front of the same without it.

mod answers;

use super::changed::{CHANGED, ChangedRequest};
use super::matchers;
use super::paths::{PathChange, PathView, may_be_tried};
use super::serving::{BELOW, FileServer, ScriptServer, ServedFolder};
use crate::accounts::{FileStatement, Origin, StatementKind, Weight};
use crate::beginning::OF_CASE;
use crate::claims::asks_claim;
use crate::matching::{Matching, WrittenClause};
use crate::outline::{DROPPED, OutlinedAnswer, OutlinedRoute};
use std::collections::{BTreeMap, BTreeSet};

/// Routes that one site comes to at most.
const ROUTES_MAX: usize = 4_000;
/// Conditions around one another under which something is changed.
const FORKS_MAX: usize = 5;
/// Handlers that are looked at for one site, each once for every way that leads to it: 700 that change something under
/// conditions of their own. Those beneath several conditions cost more, and there are more of them.
const LOOKS_MAX: usize = 256_000;
const LOOKS_OF_FORKS: usize = 8;
/// Blocks within blocks.
const DEPTH_MAX: usize = 24;

/// When a handler is asked.
#[derive(Debug, Clone)]
pub enum When {
    If(Matching),
    /// Where there is such a file, or where there is none.
    File {
        also: Matching,
        is_negated: bool,
    },
    /// What it is about is not known here; with the reason, and what to do.
    Unknown(&'static str),
}

/// What a handler does.
#[derive(Debug, Clone)]
pub enum Act {
    /// A step of ours.
    Step(String),
    /// A change of fields, in whose block conditions may stand.
    Change(String),
    Path(PathChange),
    Root(ServedFolder),
    /// What is looked for in place of the path.
    Tries(Vec<String>),
    /// What is not carried, and is looked at all the same.
    Nothing,
    /// A change of what is asked that is not carried: without it servers may let somebody in.
    Unsaid,
    Answer(ChainAnswer),
    Within(Vec<ChainOp>),
}

#[derive(Debug, Clone)]
pub enum ChainAnswer {
    /// With the steps that are its own.
    Ready(Vec<String>, OutlinedAnswer),
    Files(FileServer),
    /// What is no script and no file goes to the last of them.
    Scripts(ScriptServer),
}

#[derive(Debug, Clone)]
pub struct ChainOp {
    pub when: When,
    pub act: Act,
    /// Of one group only the first is asked whose condition holds; below 64.
    pub group: Option<u32>,
    pub origin: Origin,
}

/// Handlers that come one after another, and those that come behind them.
#[derive(Clone, Copy)]
struct Rest<'o> {
    ops: &'o [ChainOp],
    /// Of these groups none is asked any more, a bit for each.
    without: u64,
    next: Option<&'o Rest<'o>>,
}

/// What has been said on the way to where we are.
#[derive(Debug, Clone)]
struct Surroundings {
    taken: Matching,
    view: PathView,
    root: Option<(ServedFolder, Origin)>,
    tries: Option<(Vec<String>, Origin)>,
    changed: ChangedRequest,
    forks: usize,
    depth: usize,
}

/// A step, and what it is made of.
#[derive(Debug, Clone)]
struct ChainStep {
    line: String,
    origin: Origin,
    /// Whether it keeps somebody out, and no line says it.
    is_guard: bool,
}

impl ChainStep {
    /// Whether an answer behind it is another one without it.
    fn is_said(&self) -> bool {
        !self.line.is_empty() || self.is_guard
    }
}

/// What a site comes to.
#[derive(Debug, Default)]
pub struct Compiled {
    pub steps: Vec<String>,
    pub routes: Vec<OutlinedRoute>,
    pub answer: Option<OutlinedAnswer>,
    /// Of the steps.
    pub origin: Origin,
    /// Of what answers all else.
    pub answer_origin: Origin,
    /// What stands under conditions that no line of ours has, and may keep somebody out.
    pub unknown_answers: BTreeSet<usize>,
    /// Why single statements are not carried.
    pub reasons: BTreeMap<usize, String>,
    pub is_too_long: bool,
}

struct FoundRoute {
    when: Matching,
    steps: Vec<ChainStep>,
    answer: OutlinedAnswer,
    origin: Origin,
}

#[derive(Default)]
struct FoundBlock {
    /// Whether its last route takes all that comes there.
    is_closed: bool,
    steps: Vec<ChainStep>,
    routes: Vec<FoundRoute>,
    answer: Option<(OutlinedAnswer, Origin)>,
}

/// What becomes of the handlers behind one.
enum Flow {
    On,
    /// Blocks of its group are not asked any more.
    Taken,
    /// None is asked.
    End,
}

/// Where it says that it is there.
fn place_of(op: &ChainOp) -> Option<usize> {
    op.origin.carried.iter().next_back().or(op.origin.within.first()).copied()
}

fn bit(group: Option<u32>) -> u64 {
    group.map_or(0, |group| 1 << group.min(63))
}

#[derive(Default)]
struct Compiler {
    /// Where statements begin that keep somebody out.
    protections: BTreeSet<usize>,
    /// All of the site is there, so that what nothing answers is known.
    is_whole: bool,
    looks: usize,
    is_too_long: bool,
    /// Not all of it was looked at, so that nothing of it can be said.
    is_given_up: bool,
    unknown_answers: BTreeSet<usize>,
    /// Where handlers begin that some way leads to.
    asked: BTreeSet<usize>,
    /// All that is said of them.
    asked_within: BTreeSet<usize>,
    /// What is said of a statement whose line is elsewhere.
    loose: Origin,
    reasons: BTreeMap<usize, String>,
    /// What no line says for some of what it is for, and so is not carried.
    lost: BTreeSet<usize>,
}

const NEVER_REACHED: &str = "what stands in front of it answers all that would come to it in these lines: it is left out";
const GIVEN_UP: &str =
    "what its site does under conditions comes to too many routes here: none of it is told, and the site answers 503";
const WHOLE_SEGMENTS: &str = "whole segments are taken off here, and there whatever begins so";
pub const OF_CONDITION: &str =
    "the condition that it is under is none of ours, or comes behind a change of the path: say it by `match` in a `route`";
const BOTH_SENT: &str = "where the server sends the field as well, Caddy sends both, and here this one takes its place: \
                         `add=` sends both";

/// The routes of a site, with all statements of the file; `is_whole` is whether all of it is there, so that what
/// nothing answers is known.
pub fn compiled(ops: &[ChainOp], is_whole: bool, statements: &[FileStatement]) -> Compiled {
    let mut compiler = Compiler { protections: protections(statements), is_whole, ..Compiler::default() };
    let around = Surroundings {
        taken: Matching::always(),
        view: PathView::Same,
        root: None,
        tries: None,
        changed: ChangedRequest::default(),
        forks: 0,
        depth: 0,
    };
    let block = compiler.block(Rest { ops, without: 0, next: None }, around);
    if compiler.is_given_up {
        return given_up(ops);
    }
    if !compiler.is_too_long {
        compiler.pass_over(ops);
    }
    let mut compiled = Compiled { is_too_long: compiler.is_too_long, ..Compiled::default() };
    for step in block.steps {
        compiled.origin.add(&step.origin);
        if !step.line.is_empty() {
            compiled.steps.push(step.line);
        }
    }
    compiled.origin.add(&compiler.loose);
    for route in block.routes {
        compiled.routes.extend(route.outlined());
    }
    if let Some((answer, origin)) = block.answer {
        compiled.answer_origin = origin;
        compiled.answer = Some(answer);
    } else if is_whole && !block.is_closed && (!compiled.routes.is_empty() || !compiled.steps.is_empty()) {
        compiled.answer = Some(OutlinedAnswer::status(200));
    }
    compiled.unknown_answers = compiler.unknown_answers;
    compiled.reasons = compiler.reasons;
    compiled.routes.iter_mut().for_each(|route| route.lose(&compiler.lost));
    compiled.origin.lose(&compiler.lost);
    compiled.answer_origin.lose(&compiler.lost);
    compiled.answer.iter_mut().for_each(|answer| answer.lose(&compiler.lost));
    compiled
}

/// Of a site that comes to too much: refused, since what is missing might be what keeps somebody out.
fn given_up(ops: &[ChainOp]) -> Compiled {
    let mut origin = Origin::default();
    all_origins(ops, &mut origin.within);
    let reasons = origin.within.iter().map(|at| (*at, GIVEN_UP.to_owned())).collect();
    let answer = Some(OutlinedAnswer::status(503));
    Compiled { answer, origin, reasons, is_too_long: true, ..Compiled::default() }
}

fn protections(statements: &[FileStatement]) -> BTreeSet<usize> {
    let is_one = |statement: &&FileStatement| statement.kind == StatementKind::Needed(Weight::Protection);
    statements.iter().filter(is_one).map(|statement| statement.at).collect()
}

impl FoundRoute {
    /// A route for each of the alternatives.
    fn outlined(self) -> Vec<OutlinedRoute> {
        let mut origin = self.origin;
        // What answers is what its paths are said of.
        let own = origin.carried.first().or(origin.within.first()).copied();
        let mut lines = Vec::new();
        for step in self.steps {
            origin.add(&step.origin);
            let is_twice = step.line == super::serving::NO_LOG && lines.contains(&step.line);
            if !step.line.is_empty() && !is_twice {
                lines.push(step.line);
            }
        }
        let at = own.or(origin.within.first().copied()).unwrap_or_default();
        let when = matchers::with_blind_conditions(&self.when);
        let clauses = if when.is_always() { vec![WrittenClause::default()] } else { when.written() };
        let one = |clause: WrittenClause| {
            let (patterns, byte_prefixes, conditions) = clause.split(at);
            OutlinedRoute {
                byte_prefixes,
                conditions,
                case: Some(at),
                steps: lines.clone(),
                origin: origin.clone(),
                ..OutlinedRoute::of(patterns, self.answer.clone())
            }
        };
        clauses.into_iter().map(one).collect()
    }
}

/// What stands in front of the routes that come now.
struct Standing<'b> {
    block: &'b mut FoundBlock,
    /// Steps for what comes behind the first route.
    pending: Vec<ChainStep>,
}

impl Standing<'_> {
    fn step(&mut self, line: String, origin: Origin) {
        self.push(ChainStep { line, origin, is_guard: false });
    }

    fn push(&mut self, step: ChainStep) {
        if self.block.routes.is_empty() { self.block.steps.push(step) } else { self.pending.push(step) }
    }

    fn route(&mut self, when: Matching, steps: Vec<ChainStep>, answer: OutlinedAnswer, origin: Origin) {
        let steps = self.pending.iter().cloned().chain(steps).collect();
        self.block.routes.push(FoundRoute { when, steps, answer, origin });
    }

    /// Answers all that comes here.
    fn end(&mut self, steps: Vec<ChainStep>, answer: OutlinedAnswer, mut origin: Origin) {
        // What keeps somebody out of this answer is to shut it alone, and whether the routes in front are open or not.
        if !self.block.routes.is_empty() && !steps.iter().chain(&self.pending).any(ChainStep::is_said) {
            self.pending.iter().chain(&steps).for_each(|step| origin.add(&step.origin));
            self.block.answer = Some((answer, origin));
        } else if self.block.routes.is_empty() {
            self.block.steps.extend(steps);
            self.block.answer = Some((answer, origin));
        } else {
            self.route(Matching::always(), steps, answer, origin);
            self.block.is_closed = true;
        }
    }
}

impl Compiler {
    fn block(&mut self, rest: Rest<'_>, mut around: Surroundings) -> FoundBlock {
        let mut block = FoundBlock::default();
        let mut standing = Standing { block: &mut block, pending: Vec::new() };
        let mut frame = Some(rest);
        while let Some(mut rest) = frame {
            let Some((op, behind)) = rest.ops.split_first() else {
                frame = rest.next.copied();
                continue;
            };
            rest.ops = behind;
            frame = Some(rest);
            self.looks += if around.forks > 1 { LOOKS_OF_FORKS } else { 1 };
            self.is_given_up |= self.looks > LOOKS_MAX || around.depth > DEPTH_MAX;
            if self.is_given_up {
                return block;
            }
            if rest.without & bit(op.group) != 0 {
                self.loose.within.extend(&op.origin.within);
                continue;
            }
            match self.one(op, rest, &mut around, &mut standing) {
                Flow::On => {}
                Flow::Taken => {
                    rest.without |= bit(op.group);
                    frame = Some(rest);
                }
                Flow::End => return block,
            }
        }
        // Caddy answers what no route does with nothing, behind a log-in that stands in front of that.
        if (self.is_whole || around.depth > 0) && standing.pending.iter().any(ChainStep::is_said) {
            standing.end(Vec::new(), OutlinedAnswer::status(200), Origin::default());
            return block;
        }
        for step in std::mem::take(&mut standing.pending) {
            self.loose.add(&step.origin);
        }
        block
    }

    /// Says of handlers that no way leads to that they are never asked.
    fn pass_over(&mut self, ops: &[ChainOp]) {
        for op in ops.iter().filter(|op| matches!(op.act, Act::Answer(_) | Act::Within(_))) {
            let place = place_of(op);
            if let Some(at) = place.filter(|at| !self.asked.contains(at)) {
                let mut within = op.origin.within.clone();
                all_origins(std::slice::from_ref(op), &mut within);
                for at in within.iter().filter(|at| !self.asked_within.contains(at)).chain([&at]) {
                    self.loose.differ(*at, NEVER_REACHED);
                }
                continue;
            }
            if let Act::Within(inner) = &op.act {
                self.pass_over(inner);
            }
        }
    }

    fn one(&mut self, op: &ChainOp, rest: Rest<'_>, around: &mut Surroundings, standing: &mut Standing<'_>) -> Flow {
        self.asked.extend(place_of(op));
        self.asked_within.extend(&op.origin.within);
        let when = match &op.when {
            When::If(when) | When::File { also: when, .. } if around.changed.seen(when).is_none() => {
                self.unknown(op, CHANGED, standing);
                return Flow::On;
            }
            When::If(when) if around.tries.as_ref().is_some_and(|(tries, _)| may_be_tried(tries, when)) => {
                self.unknown(op, CHANGED, standing);
                return Flow::On;
            }
            When::If(when) => around.changed.seen(when).and_then(|when| around.view.seen(&when)),
            When::File { also, is_negated } => {
                return self.of_files(op, also, *is_negated, rest, around, standing);
            }
            When::Unknown(why) => {
                self.unknown(op, why, standing);
                return Flow::On;
            }
        };
        let Some(when) = when.and_then(|when| simplified(&around.taken, when)) else {
            self.unknown(op, OF_CONDITION, standing);
            return Flow::On;
        };
        if matches!(op.act, Act::Change(_)) && when.lines().iter().any(|line| asks_claim(line)) {
            self.unknown(op, DROPPED, standing);
            return Flow::On;
        }
        if when.is_never() {
            self.loose.add_said(&op.origin);
            return Flow::On;
        }
        if when.is_always() {
            return self.always(op, rest, around, standing);
        }
        self.sometimes(op, &when, rest, around, standing);
        Flow::On
    }

    fn unknown(&mut self, op: &ChainOp, why: &'static str, standing: &mut Standing<'_>) {
        let mut origin = Origin { within: op.origin.within.clone(), ..Origin::default() };
        for at in &op.origin.carried {
            self.reasons.entry(*at).or_insert_with(|| why.to_owned());
        }
        // Who is taken there does not come to what is behind, or comes as somebody else.
        let is_unknown = matches!(op.when, When::Unknown(_)) || why == CHANGED;
        let is_elsewhere = if is_unknown { leads_elsewhere(&op.act) } else { turns_away(&op.act) };
        if is_elsewhere {
            self.unknown_answers.extend(op.origin.carried.first().or(op.origin.within.first()));
        }
        if let Act::Within(inner) = &op.act {
            all_origins(inner, &mut origin.within);
            self.asked.extend(&origin.within);
            for at in &origin.within {
                self.reasons.entry(*at).or_insert_with(|| why.to_owned());
            }
        }
        self.left(origin, standing);
    }

    fn unsaid(&mut self, op: &ChainOp, standing: &mut Standing<'_>) {
        let mut origin = op.origin.clone();
        // The condition of such a line is its own, where nothing else asks it.
        origin.carried.clear();
        self.unknown_answers.extend(op.origin.within.difference(&op.origin.carried));
        self.left(origin, standing);
    }

    /// What no line says.
    fn left(&self, origin: Origin, standing: &mut Standing<'_>) {
        let is_left = |at: &&usize| !origin.carried.contains(*at) && !origin.differs.contains_key(*at);
        let mut left = origin.within.iter().filter(is_left);
        let is_guard = left.any(|at| self.unknown_answers.contains(at) || self.protections.contains(at));
        standing.push(ChainStep { line: String::new(), origin, is_guard });
    }

    fn always(&mut self, op: &ChainOp, rest: Rest<'_>, around: &mut Surroundings, standing: &mut Standing<'_>) -> Flow {
        match &op.act {
            Act::Step(line) => {
                around.changed.note(line, true);
                standing.step(line.clone(), op.origin.clone());
            }
            Act::Change(line) => {
                around.changed.note(line, true);
                standing.step(line.clone(), changed(op, rest));
            }
            Act::Nothing => self.left(op.origin.clone(), standing),
            Act::Unsaid => self.unsaid(op, standing),
            Act::Root(root) => {
                let mut origin = op.origin.clone();
                if let Some(at) = origin.carried.first().copied().filter(|_| root.is_relative()) {
                    origin.differ(at, BELOW);
                }
                around.root = Some((root.clone(), origin));
                self.loose.within.extend(&op.origin.within);
            }
            Act::Tries(tries) => around.tries = Some((tries.clone(), op.origin.clone())),
            Act::Path(change) => {
                let mut origin = op.origin.clone();
                if let Some(at) = origin.carried.first().copied().filter(|_| change.is_of_segments(&around.taken)) {
                    origin.differ(at, WHOLE_SEGMENTS);
                }
                around.view = around.view.after(change, &around.taken);
                around.changed.note_path(&change.line());
                standing.step(change.line(), origin);
            }
            Act::Within(inner) => {
                let mut own = around.clone();
                own.depth += 1;
                let behind = Rest { without: rest.without | bit(op.group), ..rest };
                let block = self.block(Rest { ops: inner, without: 0, next: Some(&behind) }, own);
                self.join(Matching::always(), block, &op.origin, standing);
                return Flow::End;
            }
            Act::Answer(answer) => {
                let is_end = self.answer(answer, op, rest, around, (None, standing));
                return if is_end { Flow::End } else { Flow::On };
            }
        }
        Flow::Taken
    }

    /// All that is done under a condition is a route with what comes behind it.
    fn sometimes(
        &mut self,
        op: &ChainOp,
        when: &Matching,
        rest: Rest<'_>,
        around: &mut Surroundings,
        standing: &mut Standing<'_>,
    ) {
        match &op.act {
            Act::Change(line) if !line.contains('{') || !line.ends_with('}') => {
                // What servers are sent may let somebody in.
                let is_asked = line.starts_with("request-header");
                let exact = matchers::in_any_case(when);
                let mut origin = changed(op, rest);
                if let Some(at) = op.origin.carried.first().filter(|_| !is_asked && exact.lines() != when.lines()) {
                    origin.differ_too(*at, OF_CASE);
                }
                let when = if is_asked { exact } else { when.clone() };
                let lines: Vec<String> = when.lines().iter().map(|line| format!("match {line}")).collect();
                around.changed.note(line, false);
                let line = format!("{line} {{ {}; }}", lines.join("; "));
                return standing.step(line, origin);
            }
            Act::Nothing => {
                // The condition is for a part alone, and that the part is not there is said of all.
                return self.left(op.origin.clone(), standing);
            }
            Act::Answer(answer) => {
                self.answer(answer, op, rest, around, (Some(when), standing));
                return;
            }
            Act::Change(_) | Act::Step(_) | Act::Path(_) | Act::Root(_) | Act::Tries(_) | Act::Within(_) | Act::Unsaid => {}
        }
        let mut own = around.clone();
        own.forks += 1;
        own.depth += 1;
        let taken = around.taken.and(when);
        let is_bounded = matches!(op.act, Act::Within(_)) || own.forks <= FORKS_MAX;
        let Some(taken) = taken.filter(|_| is_bounded && standing.block.routes.len() < ROUTES_MAX) else {
            self.is_too_long |= !is_bounded;
            return self.unknown(op, OF_CONDITION, standing);
        };
        own.taken = taken;
        let behind = Rest { without: rest.without | bit(op.group), ..rest };
        let first = ChainOp { when: When::If(Matching::always()), group: None, ..op.clone() };
        let block = match &op.act {
            Act::Within(inner) => self.block(Rest { ops: inner, without: 0, next: Some(&behind) }, own),
            Act::Step(_)
            | Act::Change(_)
            | Act::Path(_)
            | Act::Root(_)
            | Act::Tries(_)
            | Act::Nothing
            | Act::Unsaid
            | Act::Answer(_) => {
                let ops = [first];
                self.block(Rest { ops: &ops, without: 0, next: Some(&behind) }, own)
            }
        };
        let own = if matches!(op.act, Act::Within(_)) { op.origin.clone() } else { Origin::default() };
        self.join(when.clone(), block, &own, standing);
    }

    /// The routes of a block that is asked under a condition.
    fn join(&mut self, when: Matching, block: FoundBlock, own: &Origin, standing: &mut Standing<'_>) {
        let head = ChainStep { line: String::new(), origin: own.clone(), is_guard: false };
        if when.is_always() {
            // What stands in front of its routes stands in front of all that comes now.
            standing.step(String::new(), own.clone());
            for step in block.steps {
                standing.push(step);
            }
            for route in block.routes {
                standing.route(route.when, route.steps, route.answer, route.origin);
            }
            match block.answer {
                Some((answer, origin)) => standing.end(Vec::new(), answer, origin),
                None if block.is_closed => standing.block.is_closed = true,
                None => standing.end(Vec::new(), OutlinedAnswer::status(200), Origin::default()),
            }
            return;
        }
        let steps = |steps: Vec<ChainStep>| -> Vec<ChainStep> {
            [head.clone()].into_iter().chain(block.steps.iter().cloned()).chain(steps).collect()
        };
        for route in block.routes {
            match when.and(&route.when) {
                Some(both) if both.is_never() => self.loose.add_said(&route.origin),
                Some(both) => standing.route(both, steps(route.steps), route.answer, route.origin),
                None => {
                    self.is_too_long = true;
                    self.loose.within.extend(route.origin.within);
                }
            }
        }
        if block.answer.is_none() && block.is_closed {
            return;
        }
        let (answer, origin) = block.answer.unwrap_or((OutlinedAnswer::status(200), Origin::default()));
        standing.route(when, steps(Vec::new()), answer, origin);
    }
}

/// Whether it answers, or changes who answers and what servers are asked, by which they may let somebody in.
fn leads_elsewhere(act: &Act) -> bool {
    match act {
        Act::Change(line) => line.starts_with("request-header"),
        Act::Path(_) | Act::Root(_) | Act::Tries(_) | Act::Answer(_) | Act::Within(_) | Act::Unsaid => true,
        Act::Step(_) | Act::Nothing => false,
    }
}

/// Whether somebody is refused or sent elsewhere by it, or comes as somebody else.
fn turns_away(act: &Act) -> bool {
    match act {
        Act::Answer(ChainAnswer::Ready(_, answer)) => match answer {
            OutlinedAnswer::Redirect { .. } | OutlinedAnswer::Respond { .. } | OutlinedAnswer::Lines(_) => true,
            OutlinedAnswer::Proxy { .. }
            | OutlinedAnswer::Files { .. }
            | OutlinedAnswer::Scripts { .. }
            | OutlinedAnswer::Split { .. }
            | OutlinedAnswer::Within { .. } => false,
        },
        Act::Within(inner) => inner.iter().any(|op| turns_away(&op.act)),
        Act::Change(_) | Act::Path(_) | Act::Root(_) | Act::Unsaid => leads_elsewhere(act),
        Act::Answer(_) | Act::Tries(_) | Act::Step(_) | Act::Nothing => false,
    }
}

/// What is left to ask of a condition where this is known to hold.
fn simplified(taken: &Matching, when: Matching) -> Option<Matching> {
    if when.is_always() {
        return Some(when);
    }
    let both = taken.and(&when)?;
    if both.is_never() {
        return Some(both);
    }
    Some(if both == *taken { Matching::always() } else { when })
}

/// A field that a server sends as well is there twice.
fn changed(op: &ChainOp, rest: Rest<'_>) -> Origin {
    let mut origin = op.origin.clone();
    let Act::Change(line) = &op.act else { return origin };
    let is_set = line.strip_prefix("header \"").is_some_and(|rest| !rest.starts_with("set=")) && !line.contains("add=");
    let is_proxied = proxied(Some(rest));
    if let Some(at) = origin.carried.first().copied().filter(|_| is_set && is_proxied && !line.contains("remove=")) {
        origin.differ(at, BOTH_SENT);
    }
    origin
}

/// Whether a server may answer.
fn proxied(mut frame: Option<Rest<'_>>) -> bool {
    let mut found = false;
    while let Some(rest) = frame {
        found |= rest.ops.iter().any(is_proxied_in);
        frame = rest.next.copied();
    }
    found
}

fn is_proxied_in(op: &ChainOp) -> bool {
    match &op.act {
        Act::Answer(ChainAnswer::Scripts(_)) => true,
        Act::Answer(ChainAnswer::Ready(_, answer)) => matches!(answer, OutlinedAnswer::Proxy { .. }),
        Act::Within(inner) => inner.iter().any(is_proxied_in),
        Act::Answer(ChainAnswer::Files(_))
        | Act::Step(_)
        | Act::Change(_)
        | Act::Path(_)
        | Act::Root(_)
        | Act::Tries(_)
        | Act::Nothing
        | Act::Unsaid => false,
    }
}

fn all_origins(ops: &[ChainOp], within: &mut BTreeSet<usize>) {
    for op in ops {
        within.extend(op.origin.within.iter().chain(&op.origin.carried));
        if let Act::Within(inner) = &op.act {
            all_origins(inner, within);
        }
    }
}
