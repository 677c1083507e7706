//! What keeps clients out of the index of a folder: nginx looks for the location of `/a/index.html` where `/a/` is
//! asked for and has one, so that an expression for `.html` guards the folder as well.

use super::NginxReader;
use super::draft::{AnswerKind, Draft};
use super::locations::{Location, Modifier};
use super::routes::{Coming, Place, ServerScope};
use super::scope::Levels;
use super::words;
use crate::accounts::Origin;
use crate::braces::{Statement, named};
use crate::outline::OutlinedAnswer;
use tidegate_model::expression;

const ASKED_FOR_INDEX: &str = "it keeps clients out of the index of a folder as well, which is asked for where the folder is: all folders whose \
                               index it may be about are refused here";

const SCRIPT_OF_FOLDER: &str = "the script of a folder that it leads to is kept by another location, which no route asks behind a path that was \
                                changed";

impl<'s> NginxReader<'s> {
    /// The first location that keeps clients out of an index of some folder, where requests come by a path that was
    /// changed: routes ask for the one that a client has sent, so that such folders have no index.
    pub(super) fn keeper_of_index<'l>(
        scope: &'l ServerScope<'s>,
        levels: &Levels<'s>,
        coming: &Coming,
    ) -> Option<&'l Location<'s>> {
        let names = index_names(levels);
        let keeps = |other: &&Location<'s>| {
            !std::ptr::eq(other.statement.inside(), levels.inner())
                && refuses(other)
                && names.iter().any(|name| folders_of(other, name).is_some())
        };
        scope.locations.iter().filter(|_| coming.changed()).find(keeps)
    }

    /// Answers behind a path that was changed, none of which runs the script of a folder that another location keeps.
    pub(super) fn without_kept_scripts(
        drafts: Vec<Draft>,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        coming: &Coming,
    ) -> Result<Vec<Draft>, String> {
        let runs_those_of_folders = |draft: &Draft| match &draft.answer {
            OutlinedAnswer::Lines(lines) => lines.iter().any(|line| line.text().contains(" static=#true")),
            _ => false,
        };
        let is_kept = drafts.iter().any(runs_those_of_folders) && Self::keeper_of_index(scope, levels, coming).is_some();
        if is_kept { Err(SCRIPT_OF_FOLDER.to_owned()) } else { Ok(drafts) }
    }

    /// Routes that refuse folders of a block whose index another location keeps for some.
    pub(super) fn guarded_folders(&self, scope: &ServerScope<'s>, levels: &Levels<'s>, place: Place<'_>) -> Vec<Draft> {
        let is_answered = |own: &Statement| own.name().ends_with("_pass") || own.name() == "return";
        let takes_no_folder = match place.modifier {
            Modifier::Exact => !place.path.ends_with('/'),
            Modifier::Sensitive | Modifier::Insensitive => ends_with_a_letter(place.path),
            Modifier::Before | Modifier::Prefix | Modifier::Named => false,
        };
        if takes_no_folder || levels.answering().any(is_answered) {
            return Vec::new();
        }
        let names = index_names(levels);
        let others =
            scope.locations.iter().filter(|other| !std::ptr::eq(other.statement.inside(), levels.inner()) && refuses(other));
        let mut drafts: Vec<Draft> = Vec::new();
        for other in others {
            for name in &names {
                let is_elsewhere = !other.is_expression() && place.path.starts_with('/') && !other.path.starts_with(place.path);
                let Some(folders) = folders_of(other, name).filter(|_| !is_elsewhere) else { continue };
                let mut draft = Draft::of(AnswerKind::Local, OutlinedAnswer::status(403));
                draft.paths = folders;
                if drafts.iter().any(|known| known.paths == draft.paths) {
                    continue;
                }
                self.say_more(&mut draft, scope, levels);
                draft.steps.retain(|step| !step.line.starts_with("error-page"));
                draft.origin.within.extend(words::places([other.statement]));
                draft.origin.differ(other.statement.start(), ASKED_FOR_INDEX);
                drafts.push(draft);
            }
        }
        drafts
    }
}

/// `index=` of files whose folders have none, since nothing here asks who keeps it. What begins with a dot is not sent.
pub fn without_index(keeper: &Location<'_>, origin: &mut Origin) -> &'static str {
    origin.differ(keeper.statement.start(), ASKED_FOR_INDEX);
    " index=\".none\""
}

/// Files that answer for their folder.
fn index_names<'s>(levels: &Levels<'s>) -> Vec<&'s str> {
    match levels.one("index") {
        Some(index) => index.arguments().iter().map(String::as_str).filter(|name| !name.contains(['$', '/'])).collect(),
        None => vec!["index.html"],
    }
}

/// Whether what an expression fits ends with a letter or a digit, as with `\.php$`.
fn ends_with_a_letter(pattern: &str) -> bool {
    let end = pattern.strip_suffix('$').map(|rest| rest.trim_end_matches(')'));
    end.is_some_and(|rest| rest.ends_with(|c: char| c.is_ascii_alphanumeric()))
}

/// Whether a location lets only some in, or nobody.
fn refuses(location: &Location<'_>) -> bool {
    let is_guard = |own: &Statement| match own.name() {
        "deny" | "internal" => true,
        "auth_basic" | "auth_request" | "auth_jwt" => own.argument() != "off",
        "return" => own.argument().starts_with('4'),
        "if" => words::protects(own),
        _ => false,
    };
    location.modifier != Modifier::Named
        && location.statement.inside().iter().any(is_guard)
        && named(location.statement.inside(), "satisfy").all(|own| own.argument() != "any")
}

/// Expressions that all fit folders whose index of that name may be taken by the location, beside others perhaps;
/// `None` where it takes none.
fn folders_of(location: &Location<'_>, name: &str) -> Option<Vec<String>> {
    let Some(pattern) = location.expression() else {
        let (folder, last) = location.path.rsplit_once('/')?;
        let is_exact = location.modifier == Modifier::Exact;
        let fits = if is_exact { last == name } else { !last.is_empty() && name.starts_with(last) };
        return fits.then(|| vec![format!("^{}/$", regex_syntax::escape(folder))]);
    };
    let (flags, pattern) = match pattern.strip_prefix("(?i)") {
        Some(rest) => ("(?i)", rest),
        None => ("", pattern.as_str()),
    };
    let elements = elements(pattern);
    let fits_text = |written: &str, text: &str| {
        expression(&format!("{flags}{written}")).build().is_ok_and(|built| built.is_match(text.as_bytes()))
    };
    let fits = |written: &str| fits_text(written, name);
    // What is not bound to the beginning may lie in the name as a whole.
    let has_alternatives = elements.len() == 1 && pattern.contains('|');
    if (has_alternatives || !pattern.starts_with('^')) && fits(pattern) {
        return Some(vec!["/$".to_owned()]);
    }
    let split = (0..elements.len()).find(|at| {
        let behind = elements[at + 1..].concat();
        let whole = elements[*at..].concat();
        // Where the path of the folder ends in front of the element, or within it.
        (!whole.starts_with('^') && fits(&format!("^(?:{whole})")))
            || (is_of_many(elements[*at]) && fits(&format!("(?:{behind})")))
            || ends_within(elements[*at], name).any(|rest| fits_text(&format!("^(?:{behind})"), rest))
    })?;
    let head = elements[..split].concat();
    if expression(&head).build().is_err() {
        return Some(vec!["/$".to_owned()]);
    }
    let mut folders = vec!["/$".to_owned()];
    if !matches!(head.as_str(), "" | "^" | "/" | "^/") {
        folders.push(format!("{flags}{head}"));
    }
    Some(folders)
}

/// Whether a part of an expression may fit any text of some length.
fn is_of_many(element: &str) -> bool {
    let is_repeated = |at: usize| element[at..].starts_with(['*', '+', '{']);
    (1..element.len()).filter(|at| element.is_char_boundary(*at) && is_repeated(*at)).any(|at| {
        let before = &element[..at];
        let is_class =
            before.ends_with([']', ')']) || ["\\w", "\\W", "\\S", "\\D", "\\d"].iter().any(|class| before.ends_with(class));
        is_class || (before.ends_with('.') && !before.ends_with("\\."))
    })
}

/// What is left of a name behind what may be the end of a text that a group names.
fn ends_within<'n>(element: &str, name: &'n str) -> impl Iterator<Item = &'n str> {
    let texts: Vec<&str> = if element.starts_with('(') { element.split(['(', ')', '|', ':', '?']).collect() } else { Vec::new() };
    let texts: Vec<String> = texts.into_iter().map(|text| text.replace('\\', "").to_ascii_lowercase()).collect();
    (1..=name.len()).filter(move |end| texts.iter().any(|text| text.ends_with(&name[..*end]))).map(|end| &name[end..])
}

/// An expression in parts that fit one behind another; all of it is one part where it has alternatives.
fn elements(pattern: &str) -> Vec<&str> {
    let bytes = pattern.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let start = at;
        at = end_of_one(bytes, at);
        if bytes[start] == b'|' {
            return vec![pattern];
        }
        while at < bytes.len() && matches!(bytes[at], b'*' | b'+' | b'?' | b'{') {
            at = if bytes[at] == b'{' { pattern[at..].find('}').map_or(bytes.len(), |end| at + end + 1) } else { at + 1 };
        }
        match pattern.get(start..at) {
            Some(element) => found.push(element),
            None => return vec![pattern],
        }
    }
    found
}

/// Where a character, a class or a group that begins there ends.
fn end_of_one(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth, mut is_class) = (start, 0_usize, false);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'[' if !is_class => is_class = true,
            b']' if is_class => is_class = false,
            b'(' if !is_class => depth += 1,
            b')' if !is_class => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        // Characters of several bytes stay whole.
        while at < bytes.len() && bytes[at] & 0xc0 == 0x80 {
            at += 1;
        }
        if depth == 0 && !is_class {
            break;
        }
    }
    at.min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::{elements, folders_of};
    use crate::braces::of_nginx;
    use crate::nginx::locations::of_server;

    #[test]
    fn an_expression_is_its_parts() {
        let check = |pattern: &str, expected: &[&str]| assert_eq!(elements(pattern), expected, "for {pattern}");
        check("^/(?:a|b)/.*\\.php$", &["^", "/", "(?:a|b)", "/", ".*", "\\.", "p", "h", "p", "$"]);
        check("[^/]+x{2,3}?é", &["[^/]+", "x{2,3}?", "é"]);
        check("a|b", &["a|b"]);
    }

    #[test]
    fn folders_are_those_whose_index_is_kept() {
        let check = |location: &str, name: &str, expected: Option<&[&str]>| {
            let text = format!("location {location} {{ deny all; }}");
            let statements = of_nginx(&text);
            let seen = folders_of(&of_server(&statements)[0], name);
            let seen: Option<Vec<&str>> = seen.as_ref().map(|all| all.iter().map(String::as_str).collect());
            assert_eq!(seen.as_deref(), expected, "for {location}");
        };
        check("~ \\.html$", "index.html", Some(&["/$"]));
        check("~ \\.html$", "index.php", None);
        check("~* /(?:uploads|files)/.*\\.php$", "index.php", Some(&["/$", "(?i)/(?:uploads|files)/"]));
        check("~ ^/a/[^/]+\\.php$", "index.php", Some(&["/$", "^/a/"]));
        check("~ /\\.ht", "index.php", None);
        check("= /a/index.html", "index.html", Some(&["^/a/$"]));
        check("= /a/other.html", "index.html", None);
        check("/a/ind", "index.html", Some(&["^/a/$"]));
        check("/a/", "index.html", None);
        check("~ ^/(?:build|lib|data)(?:$|/)", "index.php", None);
        check("~ ^/(?:\\.|occ|indie|console)", "index.php", None);
        check("~ ^/(b|a/in)dex\\.html$", "index.html", Some(&["/$"]));
        check("~ ^/a|\\.html$", "index.html", Some(&["/$"]));
    }
}
