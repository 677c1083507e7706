//! Scripts of their own location that the answer for all else runs as well: one line, where nobody is kept out of a
//! part of the site; else a route for each, so that no other spelling of a path runs a script past what protects it.

use super::draft::{AnswerKind, Draft, Family, PlacedDraft, Step, is_partly_guarded};
use super::locations::{Location, turns};
use crate::outline::{AnswerLine, OutlinedAnswer};
use tidegate_kdl::quoted;
use tidegate_model::expression;

const ONE_LINE: &str = "a script that is not there is answered by `fallback=`, as a path is that goes on behind the name of a script, and \
                        a POST to a file";
/// Paths that go on behind the name of a script.
const BEHIND_A_SCRIPT: &str = "\\.php/";

pub fn absorb(locations: &[Location<'_>], placed: &mut Vec<PlacedDraft>) {
    let is_guarded = is_partly_guarded(placed);
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
        if is_guarded {
            if let Some(draft) = behind_a_script(location, &around) {
                let at = placed.iter().position(|own| own.order == place).unwrap_or(placed.len());
                let patterns = vec![format!("~{BEHIND_A_SCRIPT}")];
                placed.insert(at, PlacedDraft { order: place, patterns, byte_prefixes: Vec::new(), draft });
            }
            continue;
        }
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
