//! Files and lines of other proxies that were given to us: which proxy's they are, what they begin with here, and where
//! to read on. A file is only looked at when it was refused, so that what is right costs nothing. Single words of
//! others are in `directives`; files are read by `tidegate_foreign`.

use crate::diagnostics::{Diagnostic, Location, Sources};
use crate::language::Language;
use std::collections::BTreeSet;
use tidegate_foreign::accounts::{self, FileStatement};
use tidegate_foreign::beginning::{self, Beginning, Telling};
use tidegate_foreign::outline::{self, Outline};
use tidegate_foreign::{Peer, Recognised, outline as outline_of, recognise, traefik_rule, within_manifest};
use tidegate_kdl::listed;

/// More of a line is not shown.
const MARKED_BYTES_MAX: usize = 80;
/// A head of a file tells as well as all of it.
const READ_BYTES_MAX: usize = 1024 * 1024;

/// One diagnostic in the place of all others of a file that is another proxy's. `accepts` is whether a text is a
/// configuration without errors.
pub fn of_whole_files(diagnostics: &mut Vec<Diagnostic>, sources: &Sources, accepts: &dyn Fn(&str) -> bool) {
    if !diagnostics.iter().any(Diagnostic::is_error) {
        return;
    }
    for file in sources.ids() {
        let is_refused = |fault: &Diagnostic| fault.primary.location.file == file && fault.is_error();
        if !diagnostics.iter().any(is_refused) {
            continue;
        }
        let text = head(&sources.file(file).text);
        let Some(Recognised { peer, at }) = recognise(text) else { continue };
        diagnostics.retain(|fault| fault.primary.location.file != file);
        let line_end = text[at.start..].find('\n').map_or(text.len(), |length| at.start + length);
        let end = boundary(text, at.end.min(at.start + MARKED_BYTES_MAX));
        let location = Location { file, span: at.start..end };
        // A file on one line may have all its secrets there.
        let behind = Location { file, span: end..line_end };
        let name = sources.file(file).name.clone();
        let diagnostic = of_file(peer, (&name, text), location, accepts);
        diagnostics.push(if end < at.end { diagnostic.hiding([behind]) } else { diagnostic });
    }
}

fn head(text: &str) -> &str {
    &text[..boundary(text, READ_BYTES_MAX.min(text.len()))]
}

/// The last place that is no later and between two characters.
fn boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn of_file(peer: Peer, (name, text): (&str, &str), location: Location, accepts: &dyn Fn(&str) -> bool) -> Diagnostic {
    let inner = (peer == Peer::Kubernetes).then(|| within_manifest(text)).flatten();
    let (message, peer, mut outline) = match &inner {
        Some((inner, text)) => {
            (format!("this is a ConfigMap of Kubernetes with {} in it", inner.describe()), *inner, outline_of(*inner, text))
        }
        None => (format!("this is {}", peer.describe()), peer, outline_of(peer, text)),
    };
    // A text in a manifest has its own lines further down.
    let above = inner.as_ref().map_or(0, |(_, inner)| lines_above(text, inner));
    let read = inner.as_ref().map_or(text, |(_, inner)| inner.as_str());
    let line_of = |at: usize| above + read[..boundary(read, at.min(read.len()))].matches('\n').count() + 1;
    outline.settle_ports();
    let telling = beginning::of(&outline, accepts);
    let mut diagnostic = Diagnostic::error("other-proxy", location, message).note(note(peer));
    for note in notes(peer, &outline, &telling, &line_of) {
        diagnostic = diagnostic.note(note);
    }
    let imported = imported(peer, inner.is_some(), name);
    diagnostic.help(match telling.beginning {
        Some(beginning) => begins(&imported, &beginning),
        None if !telling.withheld.is_empty() => {
            let page = peer.page().unwrap_or("docs/steps-elsewhere.md");
            format!("{imported}; {page} has the words for this one, those that keep clients out among them")
        }
        None => begins_nowhere(peer, &imported, &outline, &line_of),
    })
}

/// What is to be done with a file of another.
fn imported(peer: Peer, is_within_another: bool, name: &str) -> String {
    match peer.import_word() {
        Some(word) if !is_within_another => {
            let file = if name.starts_with('<') { "-" } else { name };
            format!("`tidegate import {word} {file}` writes all of it in our words")
        }
        Some(_) | None => "files of others are not read".to_owned(),
    }
}

/// How many lines of the file stand above a text in it, which may be indented there.
fn lines_above(text: &str, inner: &str) -> usize {
    let Some(first) = inner.lines().find(|line| !line.trim().is_empty()) else { return 0 };
    let skipped = inner.lines().take_while(|line| line.trim().is_empty()).count();
    text.lines().position(|line| line.trim() == first.trim()).map_or(0, |line| line.saturating_sub(skipped))
}

/// More of what is different is a number.
const DIFFERS_MAX: usize = 4;

/// What the lines that are told do not say, or say otherwise.
fn notes(peer: Peer, outline: &Outline, telling: &Telling<'_>, line_of: &dyn Fn(usize) -> usize) -> Vec<String> {
    let Telling { beginning, withheld, withheld_too } = telling;
    let mut notes = Vec::new();
    if !withheld.is_empty() {
        let first = (&withheld[0].name, line_of(withheld[0].at));
        let is_one = withheld.iter().all(|one| (&one.name, line_of(one.at)) == first);
        let (keeps, is) = if is_one { ("keeps", "is") } else { ("keep", "are") };
        let (what, part) =
            if beginning.is_some() { (" of a part of this file", "for that part, which") } else { ("", "for what") };
        notes.push(format!(
            "{} {keeps} clients out{what}, and {is} not carried: no line is told {part} would stand open",
            accounts::named(withheld, line_of),
        ));
    }
    if !withheld_too.is_empty() {
        let also = if withheld.is_empty() { "" } else { "too" };
        let keep = if withheld_too.len() == 1 { "keeps" } else { "keep" };
        let what = accounts::named(withheld_too, line_of);
        notes.push(format!("{what} {keep} clients out {also}").trim_end().to_owned());
    }
    let Some(beginning) = beginning else { return notes };
    // What is not told of the file, beside what is told.
    if let Some(why) = outline.without.filter(|why| *why != outline::TO_HTTPS) {
        notes.push(format!("of a part of this file no line is told: {why}{}", stopped(outline, line_of)));
    }
    let elsewhere: BTreeSet<usize> = outline
        .services
        .iter()
        .flat_map(|service| service.whole_origin().within)
        .chain(outline.done_without.iter().copied())
        .collect();
    let remainder = accounts::remainder(&outline.statements, &beginning.origin, &|at| elsewhere.contains(&at));
    let is_named = |statement: &&FileStatement| !withheld.contains(statement);
    let left: Vec<&FileStatement> = remainder.not_carried.iter().map(|(_, statement)| *statement).filter(is_named).collect();
    if !left.is_empty() {
        let page = peer.page().unwrap_or("docs/steps-elsewhere.md");
        let (are, count) = if left.len() == 1 { ("is", "one".to_owned()) } else { ("are", left.len().to_string()) };
        notes.push(format!(
            "{count} of its {} statements {are} not in what is told below: {}; {page} has the words",
            remainder.count,
            accounts::named(&left, line_of)
        ));
    }
    let is_done = |at: &usize| outline.done_without.contains(at);
    let others = remainder.elsewhere.iter().filter(|at| !is_done(at)).count() + remainder.not_carried.len() - left.len();
    if others > 0 {
        let (more, of) =
            if left.is_empty() { ("", format!("its {} statements", remainder.count)) } else { ("more ", "them".into()) };
        let stand = if others == 1 { "stands" } else { "stand" };
        let others = if others == 1 { "one".to_owned() } else { others.to_string() };
        notes.push(format!("{others} {more}of {of} {stand} in parts of the file for which no line is told"));
    }
    let mut different: Vec<(&FileStatement, &str, Vec<usize>)> = Vec::new();
    for (statement, how) in &remainder.differs {
        match different.iter_mut().find(|(_, known, _)| known == how) {
            Some((_, _, lines)) => lines.push(line_of(statement.at)),
            None => different.push((statement, how, vec![line_of(statement.at)])),
        }
    }
    let different: Vec<String> = different
        .into_iter()
        .map(|(statement, how, lines)| format!("{}, `{}`: {how}", accounts::written_lines(&lines), statement.name))
        .collect();
    let rest = different.len().saturating_sub(DIFFERS_MAX);
    notes.extend(different.into_iter().take(DIFFERS_MAX));
    if rest > 0 {
        notes.push(format!("{rest} more statements are said otherwise"));
    }
    notes
}

fn begins(imported: &str, beginning: &Beginning) -> String {
    let lines: Vec<String> = beginning.lines.iter().map(|line| format!("`{line}`")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut help = format!("{imported}; here it begins with {}", listed(&lines, "and"));
    if beginning.is_name_open {
        help.push_str(", with your name in the place of `example.com`");
    }
    match beginning.others {
        0 => {}
        1 => help.push_str("; one more site or port of the file follows"),
        others => help.push_str(&format!("; {others} more sites and ports of the file follow")),
    }
    match beginning.routes_left_out {
        0 => {}
        1 => help.push_str("; one of its parts is left out"),
        count => help.push_str(&format!("; {count} of its parts are left out")),
    }
    help
}

/// Behind a reason, the place of it.
fn stopped(outline: &Outline, line_of: &dyn Fn(usize) -> usize) -> String {
    let shown = |(at, written): &(usize, String)| format!("; the first is `{written}` (line {})", line_of(*at));
    outline.stopped_at.as_ref().map(shown).unwrap_or_default()
}

fn begins_nowhere(peer: Peer, imported: &str, outline: &Outline, line_of: &dyn Fn(usize) -> usize) -> String {
    let stopped = stopped(outline, line_of);
    match (outline.without, peer.page()) {
        (Some(why), Some(page)) => {
            format!("{imported}, and what it begins with here cannot be told: {why}{stopped}. Both side by side: {page}")
        }
        (Some(why), None) => {
            format!("{imported}, and what it begins with here cannot be told: {why}{stopped}")
        }
        (None, Some(page)) => format!("{imported}; what it says stands side by side with ours in {page}"),
        (None, None) => "here a configuration is, for example, `site \"example.com\" { proxy \"127.0.0.1:9000\" }`".to_owned(),
    }
}

fn note(peer: Peer) -> String {
    match (peer, peer.page()) {
        (Peer::TraefikLabels, Some(page)) => format!(
            "routes stand in a file of our own; servers of a pool can be found by labels, with `discover docker=\"api\"`. Its words and ours, \
             side by side: {page}"
        ),
        (_, Some(page)) => {
            format!("its words and ours, and one configuration written twice: {page}; step by step: docs/steps-elsewhere.md")
        }
        (Peer::Apache, None) => "step by step, as nginx and others have it: docs/steps-elsewhere.md".to_owned(),
        (Peer::Kubernetes, None) => {
            "no Ingress and no Gateway is read in this version; what stands in a file is in docs/getting-started.md".to_owned()
        }
        (Peer::Json, None) => {
            "a configuration as JSON is what the API takes, at `/v1/config` of `admin`: docs/admin-api.md".to_owned()
        }
        (_, None) => "a configuration is KDL: names, values in quotes and blocks in braces; docs/getting-started.md".to_owned(),
    }
}

/// A line that is no KDL is told of by its word where that is another proxy's: quotes are not what it lacks. The word
/// that begins the line says most, then the one that is nearest.
pub fn of_a_line(language: &Language, text: &str, fault: Diagnostic) -> Diagnostic {
    let at = fault.primary.location.span.start;
    let file = fault.primary.location.file;
    let before = &text[..at];
    let starts =
        [before.rfind('\n'), before.rfind(['\n', ';', '{', '}'])].map(|position| position.map_or(0, |position| position + 1));
    let line = &text[starts[0]..];
    if let Some(rule) = line
        .split(" {")
        .next()
        .and_then(|head| head.split_once(' '))
        .and_then(|(_, rule)| traefik_rule::help(rule.lines().next()?))
    {
        return Diagnostic { help: Some(rule.into()), ..fault };
    }
    for start in starts {
        let rest = text[start..].trim_start_matches([' ', '\t']);
        let start = text.len() - rest.len();
        let mut words =
            rest.lines().next().unwrap_or_default().split(|c: char| c.is_whitespace() || matches!(c, ';' | '{' | '(' | '='));
        let word = words.next().unwrap_or_default();
        let behind = words.next().unwrap_or_default();
        // What is a word of ours too is another's by the one behind it, unless that is a property.
        let is_property =
            !behind.is_empty() && rest[rest.find(behind).unwrap_or(0) + behind.len()..].trim_start().starts_with('=');
        let said = match language.places_of(word).is_empty() {
            true => language.said_otherwise(word, behind),
            false if is_property => None,
            false => language.said_of_both(word, behind),
        };
        if word.is_empty() || start > at {
            continue;
        }
        if let Some(help) = said {
            let is_ours = !language.places_of(word).is_empty();
            let length = if is_ours { rest.find(behind).unwrap_or(0) + behind.len() } else { word.len() };
            let location = Location { file, span: start..start + length };
            let written = if is_ours { format!("{word} {behind}") } else { word.to_owned() };
            return Diagnostic::error("unknown-word", location, format!("unknown word `{written}`")).help(help);
        }
    }
    fault
}
