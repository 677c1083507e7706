//! What errors look like by a Caddyfile: `handle_errors`, as far as pages and texts go. Conditions are those of a
//! status.

use super::matchers;
use super::placeholders::{fixed, template};
use super::words;
use crate::accounts::Origin;
use crate::braces::{Statement, named};
use tidegate_kdl::quoted;

const OF_PROXY: &str = "the page is read with the configuration, and is for what is answered here";
const STATUSES: [&str; 2] = ["{err.status_code}", "{http.error.status_code}"];

/// Lines for some statuses.
struct ErrorSection<'s> {
    /// As we write them; those of the whole block without any.
    statuses: Vec<String>,
    lines: Vec<&'s Statement>,
    /// Where what it is under stands.
    places: Vec<usize>,
}

/// `error-page` lines, with the folder of the site.
pub fn pages(errors: &Statement, root: Option<&str>, steps: &mut Vec<String>, origin: &mut Origin) {
    let statuses: Vec<String> = errors.arguments().iter().filter_map(|status| of_word(status)).collect();
    origin.within.extend(words::places([errors]));
    if statuses.len() < errors.arguments().len() {
        return;
    }
    let Some(sections) = sections(errors.inside(), &statuses) else { return };
    let own_root = root_of(errors.inside().iter());
    let mut is_all = true;
    for section in sections {
        let told = page(&section, own_root.as_ref().or(root.map(str::to_owned).as_ref()), origin);
        is_all &= told.is_some();
        for line in told.into_iter().flatten() {
            steps.push(line);
            origin.carry_all(section.places.iter().copied());
        }
    }
    if is_all {
        origin.carry(errors.start());
        origin.carry_all(named(errors.inside(), "root").flat_map(|line| words::places([line])));
    }
}

/// `404`, `4xx`
pub fn of_word(status: &str) -> Option<String> {
    match status.as_bytes() {
        [digit @ (b'4' | b'5'), b'x', b'x'] => Some(format!("\"{0}xx\"", char::from(*digit))),
        _ => status.parse::<u16>().ok().filter(|status| (400..=599).contains(status)).map(|status| status.to_string()),
    }
}

/// The lines by the statuses that they are for; those of all others are the last. `None` where a condition is another.
fn sections<'s>(inside: &'s [Statement], statuses: &[String]) -> Option<Vec<ErrorSection<'s>>> {
    let mut found: Vec<ErrorSection<'s>> = Vec::new();
    let mut rest = ErrorSection { statuses: statuses.to_vec(), lines: Vec::new(), places: Vec::new() };
    for line in inside.iter().filter(|line| !line.name().starts_with('@') && line.name() != "root") {
        let matcher = Some(line.argument()).filter(|word| word.starts_with('@'));
        let is_block = matches!(line.name(), "handle" | "route");
        if is_block && line.argument().starts_with('/') {
            return None;
        }
        let lines: Vec<&Statement> = if is_block { line.inside().iter().collect() } else { vec![line] };
        let Some(name) = matcher else {
            rest.lines.extend(lines);
            rest.places.extend(is_block.then_some(line.start()));
            continue;
        };
        let own = named(inside, name).next()?;
        let of_matcher = asked_for(own)?;
        let places = [own.start(), line.start()];
        match found.iter_mut().find(|section| section.statuses == of_matcher) {
            Some(section) => {
                section.lines.extend(lines);
                section.places.extend(places);
            }
            None => found.push(ErrorSection { statuses: of_matcher, lines, places: places.to_vec() }),
        }
    }
    // Files that are served for all are those of the pages.
    let files: Vec<&Statement> = rest.lines.iter().copied().filter(|line| line.name() == "file_server").collect();
    for section in &mut found {
        if named_in(&section.lines, "rewrite").is_some() && named_in(&section.lines, "file_server").is_none() {
            section.lines.extend(&files);
        }
    }
    if rest.lines.iter().any(|line| line.name() != "file_server") || found.is_empty() {
        found.push(rest);
    }
    Some(found)
}

fn named_in<'s>(lines: &[&'s Statement], name: &str) -> Option<&'s Statement> {
    lines.iter().copied().find(|line| line.name() == name)
}

/// The statuses that a condition is about: `{err.status_code} == 404`, `… in [404, 410]`, `… >= 500`, and several with
/// `||` between them.
fn asked_for(matcher: &Statement) -> Option<Vec<String>> {
    let criteria = matchers::criteria(matcher);
    let [one] = criteria.as_slice() else { return None };
    let text = match (one.name(), one.arguments()) {
        ("expression", words) => words.join(" "),
        (text, []) => text.to_owned(),
        (text, words) => format!("{text} {}", words.join(" ")),
    };
    let text = STATUSES.iter().fold(text, |text, name| text.replace(name, "status"));
    let mut all = Vec::new();
    for part in text.split("||") {
        let part = part.trim().trim_matches(['(', ')', ' ']).strip_prefix("status")?.trim();
        let number = |text: &str| text.trim().trim_matches(['\'', '"']).parse::<u16>().ok().filter(|n| (400..=599).contains(n));
        if let Some(list) = part.strip_prefix("in").and_then(|rest| rest.trim().strip_prefix('[')?.strip_suffix(']')) {
            for status in list.split(',') {
                all.push(number(status)?.to_string());
            }
        } else if let Some(status) = part.strip_prefix("==") {
            all.push(number(status)?.to_string());
        } else if let Some(first) = part.strip_prefix(">=") {
            all.push(quoted(&format!("{}-599", number(first)?)));
        } else {
            return None;
        }
    }
    (!all.is_empty()).then_some(all)
}

/// The folder that the lines name.
fn root_of<'s>(lines: impl Iterator<Item = &'s Statement>) -> Option<String> {
    let mut roots = lines.filter(|line| line.name() == "root");
    Some(roots.next()?.arguments().last().and_then(|folder| fixed(folder)).unwrap_or_default())
}

/// What a section comes to; `None` where no line of ours says it.
fn page(section: &ErrorSection<'_>, root: Option<&String>, origin: &mut Origin) -> Option<Vec<String>> {
    let statuses = if section.statuses.is_empty() { "\"4xx\" \"5xx\"".to_owned() } else { section.statuses.join(" ") };
    let lines = &section.lines;
    if let Some(respond) = named_in(lines, "respond") {
        let words: Vec<&String> = respond.arguments().iter().filter(|word| *word != "*" && !word.starts_with('@')).collect();
        let is_status = |word: &&&String| word.len() == 3 && word.parse::<u16>().is_ok();
        let body = words.iter().find(|word| !is_status(word)).filter(|body| !body.starts_with('/'))?;
        let status = words.iter().find(is_status).map(|status| format!(" status={status}"));
        let status = status.filter(|own| section.statuses.as_slice() != [own.trim_start_matches(" status=").to_owned()]);
        let line = format!("error-page {statuses} body={}{}", quoted(&template(body)?), status.unwrap_or_default());
        origin.carry_all(words::places([respond]));
        return Some(vec![line]);
    }
    let own = root_of(lines.iter().copied());
    let root = own.as_ref().or(root).filter(|root| !root.is_empty())?;
    let rewrite = named_in(lines, "rewrite")?;
    let page = rewrite.arguments().last().filter(|page| page.starts_with('/'))?;
    named_in(lines, "file_server")?;
    let page = page.split('?').next().unwrap_or_default();
    let folder = root.trim_end_matches('/');
    let mut told = Vec::new();
    match STATUSES.iter().find(|name| page.contains(**name)) {
        // A page for each status that is named.
        Some(name) => {
            let is_one = |status: &String| status.parse::<u16>().is_ok();
            if section.statuses.is_empty() || !section.statuses.iter().all(is_one) {
                return None;
            }
            for status in &section.statuses {
                told.push(format!("error-page {status} file={}", quoted(&format!("{folder}{}", page.replace(name, status)))));
            }
        }
        None if page.contains('{') => return None,
        None => told.push(format!("error-page {statuses} file={}", quoted(&format!("{folder}{page}")))),
    }
    for line in lines.iter().filter(|line| matches!(line.name(), "rewrite" | "file_server" | "root")) {
        origin.carry_all(words::places([*line]));
    }
    origin.differ(rewrite.start(), OF_PROXY);
    Some(told)
}
