//! Routes as they come about, with what every one of them says, and the site of them: what all say alike is said once.

use super::locations::Order;
use crate::accounts::Origin;
use crate::outline::{BytePrefix, OutlinedAnswer, OutlinedRoute, OutlinedSite};

/// What a step is about, in the order in which they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    Access,
    LogIn,
    Limit,
    Body,
    PathPolicy,
    RequestField,
    Field,
    Compression,
    Cache,
    Timeout,
    ErrorPage,
    SentFile,
    Mirror,
    Log,
    /// What changes the path, which is never said for all routes at once.
    Path,
}

/// All that may be said once for a site.
const SHARED: [Family; 14] = [
    Family::Access,
    Family::LogIn,
    Family::Limit,
    Family::Body,
    Family::PathPolicy,
    Family::RequestField,
    Family::Field,
    Family::Compression,
    Family::Cache,
    Family::Timeout,
    Family::ErrorPage,
    Family::SentFile,
    Family::Mirror,
    Family::Log,
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub family: Family,
    pub line: String,
    /// What counts together wherever it stands, and the statement that says so.
    pub zone: Option<(String, usize)>,
}

impl Step {
    pub fn of(family: Family, line: impl Into<String>) -> Step {
        Step { family, line: line.into(), zone: None }
    }
}

/// What answers, as far as it decides which steps mean anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// What is said by `return` and `rewrite`, before anybody is asked who he is.
    Local,
    Files,
    Proxy,
    Scripts,
}

/// A route that is not placed yet.
#[derive(Debug, Clone)]
pub struct Draft {
    pub kind: AnswerKind,
    /// Expressions that its path has to fit beside that of its location.
    pub paths: Vec<String>,
    pub conditions: Vec<String>,
    pub alternatives: Vec<String>,
    pub steps: Vec<Step>,
    pub answer: OutlinedAnswer,
    pub origin: Origin,
    /// Locations whose scripts it runs as well.
    pub absorbs: Vec<usize>,
    /// Why it answers nobody, where what answers is not carried.
    pub closed: Option<&'static str>,
}

impl Draft {
    pub fn of(kind: AnswerKind, answer: OutlinedAnswer) -> Draft {
        Draft {
            kind,
            paths: Vec::new(),
            conditions: Vec::new(),
            alternatives: Vec::new(),
            steps: Vec::new(),
            answer,
            origin: Origin::default(),
            absorbs: Vec::new(),
            closed: None,
        }
    }

    /// Whether requests that come to it go no further.
    pub fn is_for_all(&self) -> bool {
        self.paths.is_empty() && self.conditions.is_empty() && self.alternatives.is_empty() && !self.goes_on()
    }

    fn goes_on(&self) -> bool {
        match &self.answer {
            OutlinedAnswer::Lines(lines) => lines.iter().any(|line| line.text().contains("else=\"next\"")),
            OutlinedAnswer::Files { is_tried, .. } => *is_tried,
            _ => false,
        }
    }

    /// Whether a step of that family does nothing for it, so that it may stand around it.
    fn is_untouched_by(&self, family: Family) -> bool {
        if self.answer.is_refusal() {
            return !matches!(family, Family::Field | Family::ErrorPage | Family::Log);
        }
        match (self.kind, family) {
            (AnswerKind::Proxy, _) => false,
            (AnswerKind::Scripts, Family::SentFile | Family::PathPolicy) => true,
            (AnswerKind::Scripts, _) => false,
            (
                AnswerKind::Local | AnswerKind::Files,
                Family::RequestField | Family::Cache | Family::Timeout | Family::Mirror | Family::SentFile,
            ) => true,
            (AnswerKind::Local | AnswerKind::Files, _) => false,
        }
    }
}

/// A route in its place.
#[derive(Debug, Clone)]
pub struct PlacedDraft {
    pub order: Order,
    pub patterns: Vec<String>,
    pub byte_prefixes: Vec<BytePrefix>,
    pub draft: Draft,
}

impl PlacedDraft {
    fn is_all(&self) -> bool {
        self.patterns.is_empty() && self.draft.is_for_all()
    }
}

/// The site of these routes, which are in their order.
pub fn settle(mut site: OutlinedSite, mut placed: Vec<PlacedDraft>) -> OutlinedSite {
    // What stands behind what takes everything is never asked.
    if let Some(index) = placed.iter().position(PlacedDraft::is_all) {
        for unreached in placed.drain(index + 1..) {
            site.origin.within.extend(unreached.draft.origin.within);
            site.origin.carry_all(unreached.draft.origin.carried);
        }
    }
    for own in &mut placed {
        let draft = &mut own.draft;
        let untouched: Vec<Family> = SHARED.into_iter().filter(|family| draft.is_untouched_by(*family)).collect();
        draft.steps.retain(|step| !untouched.contains(&step.family));
        draft.steps.sort_by_key(|step| step.family);
    }
    let is_partly_guarded = is_partly_guarded(&placed);
    if is_partly_guarded {
        let policies = placed.iter_mut().flat_map(|own| &mut own.draft.steps).filter(|step| step.family == Family::PathPolicy);
        policies.for_each(|step| step.line.push_str(PASSED));
    }
    for family in SHARED {
        site.steps.extend(shared(&mut placed, family));
    }
    if is_partly_guarded && !site.steps.iter().any(|line| line.ends_with(PASSED)) {
        site.steps.push(format!("path-policy{PASSED}"));
    }
    name_zones(&mut placed);
    let count = placed.len();
    for (index, own) in placed.into_iter().enumerate() {
        let is_last = index + 1 == count;
        // What changes the path for this answer stays in a route of its own beside others.
        let is_bare = count == 1 || !matches!(&own.draft.answer, OutlinedAnswer::Lines(lines) if lines.len() > 1);
        if is_last && own.is_all() && own.draft.steps.iter().all(|step| step.family == Family::Path) && count == 1
            || is_last && own.is_all() && own.draft.steps.is_empty() && is_bare
        {
            let draft = own.draft;
            site.steps.extend(draft.steps.into_iter().map(|step| step.line));
            *site.answer_origin = draft.origin;
            site.answer = Some(draft.answer);
        } else {
            site.routes.push(route(own));
        }
    }
    site
}

/// An encoded slash is one when a location is looked for, and goes on as it was sent.
const PASSED: &str = " encoded-slashes=\"pass\"";

/// Whether somebody is kept out of some routes and let into others that are told apart by their paths, so that no other
/// spelling of a path may lead to the wrong one.
pub fn is_partly_guarded(placed: &[PlacedDraft]) -> bool {
    let guards = |draft: &Draft| -> (bool, Vec<Step>) {
        let is_guard = |step: &&Step| matches!(step.family, Family::Access | Family::LogIn | Family::Limit);
        (draft.answer.is_refusal(), draft.steps.iter().filter(is_guard).cloned().collect())
    };
    let is_by_path = placed.iter().any(|own| !own.patterns.is_empty() || !own.draft.paths.is_empty());
    let mut all = placed.iter().map(|own| guards(&own.draft));
    let first = all.next();
    is_by_path && all.any(|own| Some(&own) != first.as_ref())
}

/// The lines of a family that all routes have alike, taken out of them.
fn shared(placed: &mut [PlacedDraft], family: Family) -> Vec<String> {
    let of = |draft: &Draft| -> Vec<Step> { draft.steps.iter().filter(|step| step.family == family).cloned().collect() };
    let mut touched = placed.iter().filter(|own| !own.draft.is_untouched_by(family)).map(|own| of(&own.draft));
    let Some(first) = touched.next() else { return Vec::new() };
    if first.is_empty() || touched.any(|own| own != first) {
        return Vec::new();
    }
    for own in placed.iter_mut() {
        own.draft.steps.retain(|step| step.family != family);
    }
    first.into_iter().map(|step| step.line).collect()
}

const COUNTED_APART: &str =
    "each route counts for itself here, where one zone counts for all: limits of one name have to be alike";

/// Limits of one zone count together, also where they stand in several routes, as long as they are alike.
fn name_zones(placed: &mut [PlacedDraft]) {
    let steps = placed.iter().flat_map(|own| &own.draft.steps);
    let all: Vec<(String, String)> =
        steps.filter_map(|step| step.zone.as_ref().map(|(zone, _)| (zone.clone(), step.line.clone()))).collect();
    for own in placed {
        for step in &mut own.draft.steps {
            let Some((zone, at)) = &step.zone else { continue };
            let lines: Vec<&String> = all.iter().filter(|(other, _)| other == zone).map(|(_, line)| line).collect();
            if lines.iter().any(|line| **line != step.line) {
                own.draft.origin.differ(*at, COUNTED_APART);
            } else if lines.len() > 1 {
                step.line.push_str(&format!(" name={}", tidegate_kdl::quoted(zone)));
            }
        }
    }
}

fn route(own: PlacedDraft) -> OutlinedRoute {
    let PlacedDraft { mut patterns, byte_prefixes, draft, .. } = own;
    let mut paths = draft.paths;
    // The path of a route says it where there is no other.
    if patterns.is_empty() && paths.len() == 1 {
        patterns = paths.drain(..).map(|text| format!("~{text}")).collect();
    }
    let mut route = OutlinedRoute::of(patterns, draft.answer);
    route.byte_prefixes = byte_prefixes;
    route.conditions = paths.iter().map(|text| format!("path={}", tidegate_kdl::quoted(&format!("~{text}")))).collect();
    route.conditions.extend(draft.conditions);
    route.alternatives = draft.alternatives;
    route.steps = draft.steps.into_iter().map(|step| step.line).collect();
    route.origin = draft.origin;
    route.closed = draft.closed;
    route
}
