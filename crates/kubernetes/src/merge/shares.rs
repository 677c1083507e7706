//! Routes of a path of which a canary has a share.

use super::variants::with_conditions;
use crate::canary::{Canary, CanaryHeader, CanaryValue};
use crate::pool_manner::MannerSticky;
use tidegate_model::{
    ArmEnd, Condition, ConditionKind, Field, HeaderChange, HeaderOperation, HeaderStep, Route, Split, SplitArm, Step, Sticky,
    Template, Terminal, TextPattern,
};

/// The words by which a header or a cookie decides.
const ALWAYS: &str = "always";
const NEVER: &str = "never";

/// A share of what a path takes.
pub struct Share<'s> {
    pub canary: &'s Canary,
    /// How its requests end.
    pub end: Terminal,
    /// How clients of the path stay where they are, if they do.
    pub sticky: Option<&'s MannerSticky>,
}

/// Each of the routes as several: by what decides first, to the canary or not.
pub fn shared(routes: Vec<Route>, share: &Share<'_>) -> Vec<Route> {
    let several = |route: Route| {
        let ways = ways(&route.terminal, share);
        ways.into_iter().map(move |(conditions, terminal)| with_conditions(Route { terminal, ..route.clone() }, &conditions))
    };
    routes.into_iter().flat_map(several).collect()
}

fn ways(own: &Terminal, Share { canary, end, sticky }: &Share<'_>) -> Vec<(Vec<Condition>, Terminal)> {
    let Canary { header, cookie, weight, total } = canary;
    let mut ways = Vec::new();
    let mut by = |kind: ConditionKind, to: &Terminal| ways.push((vec![Condition { negated: false, kind }], to.clone()));
    let marker = sticky.map(|sticky| format!("{}-canary", sticky.cookie));
    for (name, is_header) in
        [(marker.as_ref(), false), (header.as_ref().map(|header| &header.name), true), (cookie.as_ref(), false)]
    {
        let Some(name) = name else { continue };
        let value = header.as_ref().filter(|_| is_header).map(|CanaryHeader { value, .. }| value);
        let field = |value: TextPattern| {
            let field = Field { name: name.clone(), value };
            if is_header { ConditionKind::Header(field) } else { ConditionKind::Cookie(field) }
        };
        match value {
            None | Some(CanaryValue::Words) => {
                by(field(TextPattern::Exact(ALWAYS.to_owned())), end);
                by(field(TextPattern::Exact(NEVER.to_owned())), own);
            }
            Some(CanaryValue::Exactly(value)) => by(field(TextPattern::Exact(value.clone())), end),
            Some(CanaryValue::Expression(pattern)) => by(field(TextPattern::Regex(pattern.clone())), end),
        }
    }
    ways.push((Vec::new(), by_weight(own, end, (*weight, *total), marker.as_deref().zip(*sticky))));
    ways
}

/// Of `total` requests so many end there. Whoever stays with a server is told by a cookie on which side that is.
fn by_weight(own: &Terminal, end: &Terminal, (weight, total): (u32, u32), marker: Option<(&str, &MannerSticky)>) -> Terminal {
    let arm = |end: &Terminal, weight: u32, word: &str| {
        let steps = marker.map(|(name, sticky)| mark(name, word, sticky)).into_iter().collect();
        ArmEnd::of(end.clone()).map(|end| SplitArm { name: None, weight, steps, end })
    };
    let arms = (arm(own, total.saturating_sub(weight), NEVER), arm(end, weight, ALWAYS));
    match (weight, arms) {
        (0, _) => own.clone(),
        (weight, _) if weight >= total => end.clone(),
        (_, (Some(stays), Some(leaves))) if own != end => {
            let mut arms = vec![stays, leaves];
            arms.sort_by_key(|arm| !arm.is_plain());
            Terminal::Split(Split { to: None, by: None, arms })
        }
        (_, (_, _)) => own.clone(),
    }
}

fn mark(name: &str, word: &str, sticky: &MannerSticky) -> Step {
    let path = sticky.path.as_deref().unwrap_or(Sticky::PATH);
    let age = sticky.max_age_seconds.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
    let value = Template::literal(format!("{name}={word}; Path={path}{age}; HttpOnly; SameSite=Lax"));
    let change = HeaderChange { operation: HeaderOperation::Add, name: "Set-Cookie".to_owned(), value };
    Step::ResponseHeader(HeaderStep::from(vec![change]))
}
