//! `$request_uri`, which is what a client has asked for whatever became of its path since: `{asked.uri}`. Where nothing
//! changes a path the short word is the same, and is written.

use crate::outline::{AnswerLine, Outline, OutlinedAnswer, OutlinedRoute, Service};

pub const ASKED: &str = "{asked.uri}";
const SHORT: &str = "{uri}";

/// A template as it reads where no path is changed.
pub fn short(template: &str) -> String {
    template.replace(ASKED, SHORT)
}

/// Writes the short word wherever it says the same.
pub fn settle(outline: &mut Outline) {
    let mut is_changed_anywhere = false;
    for service in &outline.services {
        let Service::Site(site) = service else { continue };
        is_changed_anywhere |= site.steps.iter().any(|step| changes(step))
            || site.routes.iter().any(changes_in_route)
            || site.answer.as_ref().is_some_and(changes_in_answer);
    }
    for service in &mut outline.services {
        let Service::Site(site) = service else { continue };
        let is_changed_around = site.steps.iter().any(|step| changes(step));
        let is_changed =
            is_changed_around || site.routes.iter().any(changes_in_route) || site.answer.as_ref().is_some_and(changes_in_answer);
        if !is_changed {
            site.steps.iter_mut().for_each(shorten);
        }
        site.logs.iter_mut().for_each(|log| shorten(&mut log.line));
        let is_answer_changed = is_changed_around || site.answer.as_ref().is_some_and(changes_in_answer);
        site.answer.iter_mut().for_each(|answer| shorten_answer(answer, is_answer_changed, is_changed_anywhere));
        for route in &mut site.routes {
            let is_changed = is_changed_around || changes_in_route(route);
            if !is_changed {
                route.steps.iter_mut().for_each(shorten);
            }
            shorten_answer(&mut route.answer, is_changed, is_changed_anywhere);
        }
    }
    // A line of the log has what was asked for by either word.
    let settings = outline.settings.iter_mut().map(|setting| &mut setting.line);
    settings.filter(|line| !is_changed_anywhere || line.starts_with("access-log")).for_each(shorten);
    if !is_changed_anywhere {
        let groups = outline.groups.iter_mut().chain(&mut outline.unused);
        groups.flat_map(|group| &mut group.lines).for_each(shorten);
    }
}

fn changes(line: &str) -> bool {
    let word = line.split(' ').next().unwrap_or_default();
    matches!(word, "rewrite" | "strip-prefix" | "add-prefix")
}

fn changes_in_route(route: &OutlinedRoute) -> bool {
    route.steps.iter().any(|step| changes(step)) || changes_in_answer(&route.answer)
}

fn changes_in_answer(answer: &OutlinedAnswer) -> bool {
    match answer {
        OutlinedAnswer::Lines(lines) => lines.iter().any(|line| changes(line.text())),
        OutlinedAnswer::Proxy { strip, add, .. } => strip.is_some() || add.is_some(),
        OutlinedAnswer::Files { strip, .. } => strip.is_some(),
        OutlinedAnswer::Within { routes, steps, otherwise } => {
            steps.iter().any(|step| changes(step))
                || routes.iter().any(changes_in_route)
                || otherwise.as_deref().is_some_and(changes_in_answer)
        }
        OutlinedAnswer::Scripts { .. }
        | OutlinedAnswer::Redirect { .. }
        | OutlinedAnswer::Respond { .. }
        | OutlinedAnswer::Split { .. } => false,
    }
}

/// Servers are those of a pool, which other routes may have as well.
fn shorten_answer(answer: &mut OutlinedAnswer, is_changed: bool, is_changed_anywhere: bool) {
    match answer {
        OutlinedAnswer::Redirect { to: text, .. } | OutlinedAnswer::Respond { body: Some(text), .. } if !is_changed => {
            shorten(text);
        }
        OutlinedAnswer::Lines(lines) => {
            for line in lines {
                shorten_line(line, is_changed, is_changed_anywhere);
            }
        }
        OutlinedAnswer::Redirect { .. }
        | OutlinedAnswer::Respond { .. }
        | OutlinedAnswer::Proxy { .. }
        | OutlinedAnswer::Files { .. }
        | OutlinedAnswer::Scripts { .. }
        | OutlinedAnswer::Split { .. }
        | OutlinedAnswer::Within { .. } => {}
    }
}

fn shorten_line(line: &mut AnswerLine, is_changed: bool, is_changed_anywhere: bool) {
    match line {
        AnswerLine::Text(text) if !is_changed => shorten(text),
        AnswerLine::Text(_) => {}
        AnswerLine::Servers { group, options, inside, .. } => {
            if !is_changed {
                shorten(options);
                inside.iter_mut().for_each(shorten);
            }
            if !is_changed_anywhere {
                group.lines.iter_mut().for_each(shorten);
            }
        }
        AnswerLine::Block { text, inside } => {
            if !is_changed {
                shorten(text);
            }
            for line in inside {
                shorten_line(line, is_changed, is_changed_anywhere);
            }
        }
    }
}

fn shorten(line: &mut String) {
    if line.contains(ASKED) {
        *line = short(line);
    }
}
