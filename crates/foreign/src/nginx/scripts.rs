//! Scripts of their own location that the answer for all else runs as well: one line, where nobody is kept out of a
//! part of the site; else a route for each, so that no other spelling of a path runs a script past what protects it.

use super::draft::{AnswerKind, Draft, Family, PlacedDraft, Step, is_partly_guarded};
use super::files::index_script;
use super::locations::{Location, Modifier, find, turns};
use super::routes::Place;
use super::scope::Levels;
use crate::outline::{AnswerLine, OutlinedAnswer};
use tidegate_kdl::quoted;
use tidegate_model::expression;

const ONE_LINE: &str = "a path that goes on behind the name of a script runs it, with the rest as `PATH_INFO`; a script that is not there \
                        is answered by `fallback=`, as a POST to a file is";
/// Paths that go on behind the name of a script.
const BEHIND_A_SCRIPT: &str = "\\.php/";
/// Names of scripts that no location is about.
const SAMPLES: [&str; 3] = ["x.php", "d/x.php", "d/e/x-1.php"];

/// Whether a location takes all scripts that the answer of a block would find by their ending: it runs none by itself,
/// so that those which another location takes, as in a folder of uploads, must not be run by it.
pub fn takes_all_scripts(locations: &[Location<'_>], index: usize, block: Place<'_>, levels: &Levels<'_>) -> bool {
    let is_found = |path: String| find(locations, &path) == Some(index);
    match block.modifier {
        Modifier::Exact if block.path.ends_with('/') => {
            index_script(levels).is_some_and(|script| is_found(format!("{}{script}", block.path)))
        }
        Modifier::Before | Modifier::Prefix if locations[index].is_expression() => {
            let slash = if block.path.ends_with('/') { "" } else { "/" };
            let is_below = |name: &str| is_found(format!("{}{slash}{name}", block.path));
            SAMPLES.iter().all(|name| is_below(name) && is_found(format!("{}{name}", block.path)))
        }
        Modifier::Exact | Modifier::Before | Modifier::Prefix | Modifier::Sensitive | Modifier::Insensitive | Modifier::Named => {
            false
        }
    }
}

pub fn absorb(locations: &[Location<'_>], placed: &mut Vec<PlacedDraft>) {
    if is_partly_guarded(placed) {
        go_on_behind_scripts(locations, placed);
        return;
    }
    let absorbing: Vec<(usize, Draft)> = placed
        .iter()
        .filter(|own| own.patterns.is_empty() && own.draft.is_for_all())
        .flat_map(|own| own.draft.absorbs.iter().map(|index| (*index, own.draft.clone())))
        .collect();
    let turns = if absorbing.is_empty() { Vec::new() } else { turns(locations) };
    for (index, around) in absorbing {
        let location = &locations[index];
        if !location.is_expression() {
            continue;
        }
        let Some(place) = turns.iter().find(|turn| turn.index == index).map(|turn| turn.order) else { continue };
        let count = placed.len();
        let lines = |steps: &[Step]| {
            let mut lines: Vec<String> = steps.iter().map(|step| step.line.clone()).collect();
            lines.sort();
            lines
        };
        placed.retain(|other| {
            let is_alike = lines(&other.draft.steps) == lines(&around.steps) && other.draft.conditions.is_empty();
            other.order != place || other.draft.kind != AnswerKind::Scripts || !is_alike
        });
        let has_fallback = |draft: &Draft| options(draft).is_some_and(|options| options.contains(" fallback="));
        if placed.len() < count && has_fallback(&around) {
            let own = placed.iter_mut().find(|own| own.draft.absorbs.contains(&index));
            if let Some(own) = own {
                own.draft.origin.differ(location.statement.start(), ONE_LINE);
            }
        }
    }
}

/// Paths that go on behind the name of a script, in front of each answer that would run it for them: they have the
/// place of that answer, so that what protects a folder is asked before.
fn go_on_behind_scripts(locations: &[Location<'_>], placed: &mut Vec<PlacedDraft>) {
    let mut all = Vec::with_capacity(placed.len());
    for own in placed.drain(..) {
        for index in &own.draft.absorbs {
            if let Some(mut draft) = behind_a_script(&locations[*index], &own.draft) {
                draft.paths.push(BEHIND_A_SCRIPT.to_owned());
                all.push(PlacedDraft { draft, ..own.clone() });
            }
        }
        if own.draft.absorbs.is_empty()
            && own.draft.kind == AnswerKind::Scripts
            && own.patterns.iter().any(|text| ends_at_script(text))
        {
            let mut draft = Draft { answer: OutlinedAnswer::status(404), ..own.draft.clone() };
            draft.paths.push(BEHIND_A_SCRIPT.to_owned());
            all.push(PlacedDraft { draft, ..own.clone() });
        }
        all.push(own);
    }
    *placed = all;
}

/// Whether a pattern takes scripts by the end of the path, so that in `/x.php/y.php` the second one is meant, and never
/// the first, which is found here.
fn ends_at_script(pattern: &str) -> bool {
    let built = pattern.strip_prefix('~').and_then(|text| expression(text).build().ok());
    built.is_some_and(|own| own.is_match(b"/x.php/y.php") && !own.is_match(b"/x.php/"))
}

fn options(draft: &Draft) -> Option<&str> {
    let OutlinedAnswer::Lines(lines) = &draft.answer else { return None };
    lines.iter().find_map(|line| match line {
        AnswerLine::Servers { options, .. } => Some(options.as_str()),
        AnswerLine::Text(_) | AnswerLine::Block { .. } => None,
    })
}

/// What answers where a path goes on behind the name of a script, which the location of scripts does not take.
fn behind_a_script(location: &Location<'_>, around: &Draft) -> Option<Draft> {
    let built = expression(&location.expression()?).build().ok()?;
    if built.is_match(b"/x.php/") {
        return None;
    }
    let options = options(around)?.to_owned();
    let fallback = options.split_once(" fallback=\"").and_then(|(_, rest)| rest.split_once('"')).map(|(script, _)| script);
    let mut draft = Draft { absorbs: Vec::new(), ..around.clone() };
    let Some(fallback) = fallback else {
        draft.answer = OutlinedAnswer::status(404);
        return Some(draft);
    };
    let bare = options.replace(&format!(" fallback={}", quoted(fallback)), "").replace(" static=#true", "");
    if let OutlinedAnswer::Lines(lines) = &mut draft.answer {
        for line in lines {
            if let AnswerLine::Servers { options, .. } = line {
                options.clone_from(&bare);
            }
        }
    }
    draft.steps.push(Step::of(Family::Path, format!("rewrite {}", quoted(fallback))));
    Some(draft)
}
