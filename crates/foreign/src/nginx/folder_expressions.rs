//! Folders whose index an expression fits, as an expression of the folders: what is left of it once the name of the
//! index is taken off its end. Where that is not known exactly it is more folders, and never less.

use super::expressions::beginnings;
use super::looser::looser;
use crate::sent_paths::sent;
use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{AssertionKind, Ast, Flags, GroupKind, RepetitionKind, RepetitionRange};
use std::collections::BTreeSet;
use tidegate_model::expression;

/// Beyond as many texts that may be left, all folders are meant.
const TEXTS_MAX: usize = 64;

/// Which folders have an index that an expression fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Folders {
    None,
    All,
    /// The folders that an expression of sent paths fits.
    Of(String),
}

/// The folders whose index of that name the expression fits. `within` are those as well where it fits the folder
/// itself, and so all that lies below.
pub fn folders(pattern: &str, name: &str, within: bool) -> Folders {
    let (flags, text) = pattern.strip_prefix("(?i)").map_or(("", pattern), |rest| ("(?i)", rest));
    let wider = looser(text);
    let Ok(parsed) = Parser::new().parse(&wider) else { return Folders::All };
    let branches: Vec<&str> = if let Ast::Alternation(all) = &parsed {
        all.asts.iter().map(|own| text_of(&wider, own)).collect()
    } else {
        vec![&wider]
    };
    let end = End { is_blind: pattern.contains("(?i"), name };
    let mut found = BTreeSet::new();
    for branch in branches {
        let Some(left) = end.left_of(branch, within) else { return Folders::All };
        for text in left {
            match settled(flags, &text) {
                Folders::None => {}
                Folders::All => return Folders::All,
                Folders::Of(text) => drop(found.insert(text)),
            }
        }
    }
    let all: Vec<String> = found.into_iter().collect();
    if all.is_empty() { Folders::None } else { Folders::Of(format!("{flags}{}", all.join("|"))) }
}

/// What is left of an expression.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Left {
    text: String,
    /// Whether a folder ends where it does.
    is_to_end: bool,
}

/// Text of ours for what is left, where a folder can be so.
fn settled(flags: &str, left: &Left) -> Folders {
    let mut body = left.text.as_str();
    let mut is_to_end = left.is_to_end;
    while let Some(rest) = body.strip_suffix(".*").filter(|rest| !is_escaping(rest)) {
        (body, is_to_end) = (rest, false);
    }
    if matches!((body, is_to_end), ("" | "/", _) | ("^" | "^/", false)) {
        return Folders::All;
    }
    let is_path = |start: &Vec<u8>| start.is_empty() || start[0] == b'/';
    if beginnings(&format!("{flags}{body}")).is_some_and(|all| !all.iter().any(is_path)) {
        return Folders::None;
    }
    let of_sent = sent(&format!("{flags}{body}"));
    let of_sent = of_sent.strip_prefix(flags).unwrap_or(&of_sent);
    Folders::Of(format!("{of_sent}{}", if is_to_end { "$" } else { "" }))
}

/// Whether what follows has a backslash in front that is none by itself.
fn is_escaping(text: &str) -> bool {
    text.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

fn text_of<'t>(text: &'t str, own: &Ast) -> &'t str {
    &text[own.span().start.offset..own.span().end.offset]
}

/// The end that is taken off.
struct End<'n> {
    is_blind: bool,
    name: &'n str,
}

impl End<'_> {
    /// All that may be left of a branch; `None` where that is any folder, or too much to say.
    fn left_of(&self, branch: &str, within: bool) -> Option<BTreeSet<Left>> {
        let parsed = Parser::new().parse(branch).ok()?;
        let mut found = BTreeSet::new();
        if within && !ends_where_text_does(&parsed) {
            found.insert(Left { text: branch.to_owned(), is_to_end: false });
        }
        let letters: Vec<char> = self.name.chars().collect();
        // An expression that is open at its end may have come to it anywhere in the name.
        for count in 1..=letters.len() {
            let mut texts = BTreeSet::from([branch.to_owned()]);
            for (at, letter) in letters[..count].iter().enumerate().rev() {
                let is_end = at + 1 == letters.len();
                let mut shorter = BTreeSet::new();
                for text in &texts {
                    shorter.extend(self.without(text, &Parser::new().parse(text).ok()?, *letter, is_end));
                }
                texts = shorter;
                // What is nothing has begun within the name, so that the folder may be any.
                let is_open = |text: &String| Parser::new().parse(text).map_or(true, |own| may_be_empty(&own, false));
                if texts.len() > TEXTS_MAX || texts.iter().any(is_open) {
                    return None;
                }
            }
            for text in texts {
                if !self.without(&text, &Parser::new().parse(&text).ok()?, '/', false).is_empty() {
                    found.insert(Left { text, is_to_end: true });
                }
            }
        }
        Some(found)
    }

    /// What is left in front of a letter that the expression ends with: texts, of which each is one way.
    fn without(&self, text: &str, own: &Ast, letter: char, is_end: bool) -> Vec<String> {
        match own {
            Ast::Empty(_) | Ast::Flags(_) | Ast::Assertion(_) => Vec::new(),
            Ast::Literal(_) | Ast::Dot(_) | Ast::ClassUnicode(_) | Ast::ClassPerl(_) | Ast::ClassBracketed(_) => {
                if self.fits(text_of(text, own), letter) { vec![String::new()] } else { Vec::new() }
            }
            Ast::Group(group) => {
                let left = self.without(text, &group.ast, letter, is_end);
                match &group.kind {
                    GroupKind::NonCapturing(Flags { items, .. }) if !items.is_empty() => {
                        let opened = &text[group.span.start.offset..group.ast.span().start.offset];
                        left.into_iter().map(|left| format!("{opened}{left})")).collect()
                    }
                    GroupKind::NonCapturing(_) | GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => left,
                }
            }
            Ast::Repetition(repeated) => {
                let Some(before) = one_less(text_of(text, &repeated.ast), &repeated.op.kind) else { return Vec::new() };
                let left = self.without(text, &repeated.ast, letter, is_end);
                left.into_iter().map(|left| format!("{before}{left}")).collect()
            }
            Ast::Alternation(all) => all.asts.iter().flat_map(|own| self.without(text, own, letter, is_end)).collect(),
            Ast::Concat(all) => {
                let mut found = Vec::new();
                for own in all.asts.iter().rev() {
                    let before = &text[all.span.start.offset..own.span().start.offset];
                    found.extend(self.without(text, own, letter, is_end).into_iter().map(|left| format!("{before}{left}")));
                    if !may_be_empty(own, is_end) {
                        break;
                    }
                }
                found
            }
        }
    }

    fn fits(&self, written: &str, letter: char) -> bool {
        let flags = if self.is_blind { "(?i)" } else { "" };
        let built = expression(&format!("{flags}^(?:{written})$")).build();
        built.is_ok_and(|own| own.is_match(letter.encode_utf8(&mut [0; 4]).as_bytes()))
    }
}

/// A repetition with one less; `None` where there is none.
fn one_less(text: &str, kind: &RepetitionKind) -> Option<String> {
    Some(match kind {
        RepetitionKind::ZeroOrOne => String::new(),
        RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => format!("{text}*"),
        RepetitionKind::Range(RepetitionRange::Exactly(count)) => format!("{text}{{{}}}", count.checked_sub(1)?),
        RepetitionKind::Range(RepetitionRange::AtLeast(least)) => format!("{text}{{{},}}", least.saturating_sub(1)),
        RepetitionKind::Range(RepetitionRange::Bounded(least, most)) => {
            format!("{text}{{{},{}}}", least.saturating_sub(1), most.checked_sub(1)?)
        }
    })
}

/// Whether an expression may fit nothing at all there.
fn may_be_empty(own: &Ast, is_end: bool) -> bool {
    match own {
        Ast::Empty(_) | Ast::Flags(_) => true,
        Ast::Literal(_) | Ast::Dot(_) | Ast::ClassUnicode(_) | Ast::ClassPerl(_) | Ast::ClassBracketed(_) => false,
        Ast::Assertion(assertion) => match assertion.kind {
            AssertionKind::StartLine | AssertionKind::StartText => false,
            AssertionKind::EndLine | AssertionKind::EndText => is_end,
            AssertionKind::WordBoundary
            | AssertionKind::NotWordBoundary
            | AssertionKind::WordBoundaryStart
            | AssertionKind::WordBoundaryEnd
            | AssertionKind::WordBoundaryStartAngle
            | AssertionKind::WordBoundaryEndAngle
            | AssertionKind::WordBoundaryStartHalf
            | AssertionKind::WordBoundaryEndHalf => true,
        },
        Ast::Group(group) => may_be_empty(&group.ast, is_end),
        Ast::Repetition(repeated) => {
            let is_none = match &repeated.op.kind {
                RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore => true,
                RepetitionKind::OneOrMore => false,
                RepetitionKind::Range(
                    RepetitionRange::Exactly(least) | RepetitionRange::AtLeast(least) | RepetitionRange::Bounded(least, _),
                ) => *least == 0,
            };
            is_none || may_be_empty(&repeated.ast, is_end)
        }
        Ast::Alternation(all) => all.asts.iter().any(|own| may_be_empty(own, is_end)),
        Ast::Concat(all) => all.asts.iter().all(|own| may_be_empty(own, is_end)),
    }
}

/// Whether it fits nothing but what goes to the end.
fn ends_where_text_does(own: &Ast) -> bool {
    match own {
        Ast::Assertion(assertion) => matches!(assertion.kind, AssertionKind::EndLine | AssertionKind::EndText),
        Ast::Group(group) => ends_where_text_does(&group.ast),
        Ast::Alternation(all) => all.asts.iter().all(ends_where_text_does),
        Ast::Concat(all) => all.asts.iter().any(ends_where_text_does),
        Ast::Empty(_)
        | Ast::Flags(_)
        | Ast::Literal(_)
        | Ast::Dot(_)
        | Ast::ClassUnicode(_)
        | Ast::ClassPerl(_)
        | Ast::ClassBracketed(_)
        | Ast::Repetition(_) => false,
    }
}

/// Whether an expression that fits a path fits it as well with more behind it.
pub fn is_open_at_end(pattern: &str) -> bool {
    !pattern.contains(['$']) && !["\\b", "\\B", "\\z", "\\Z", "(?!", "(?<!", "(?="].iter().any(|word| pattern.contains(word))
}

#[cfg(test)]
mod tests {
    use super::{Folders, folders};
    use tidegate_model::expression;

    #[test]
    fn folders_are_those_whose_index_fits() {
        let check = |pattern: &str, name: &str, expected: &str| {
            let seen = match folders(pattern, name, true) {
                Folders::None => "none".to_owned(),
                Folders::All => "all".to_owned(),
                Folders::Of(text) => text,
            };
            assert_eq!(seen, expected, "for {pattern} and {name}");
        };
        check("\\.html$", "index.html", "all");
        check("\\.html$", "index.php", "none");
        check("(?i)/(?:uploads|files)/.*\\.php$", "index.php", "(?i)/(?:uploads|files)/");
        check("^/a/[^/]+\\.php$", "index.php", "^/a/[^/]*$");
        check("/\\.ht", "index.php", "/\\.ht");
        check("/\\.(?!well-known).*", "index.php", "/\\.");
        check("^/a/index\\.html$", "index.html", "^/a/$");
        check("^/a/other\\.html$", "index.html", "none");
        check("^/(b|a/in)dex\\.html$", "index.html", "^/a/$");
        check("^/a|\\.html$", "index.html", "all");
        check("(?i)\\.(engine|inc)$|^(\\..*|Entries.*)$", "index.php", "none");
        check("^/(?:build|lib)(?:$|/)", "index.php", "^/(?:build|lib)(?:(?:%0A)?$|/)");
        check("^/(?:\\.|occ|indie|console)", "index.php", "^/(?:\\.|occ|indie|console)");
        check("/(in)?dex.php", "index.php", "all");
        check("x{2}\\.php$", "xx.php", "all");
        check("x{3}\\.php$", "xx.php", "none");
        check("^(a", "index.php", "all");
        check("", "index.php", "all");
    }

    /// Against the expression itself, asked for the index of every folder.
    #[test]
    fn no_folder_is_left_out() {
        let patterns = [
            "\\.php$",
            "^/a/.+\\.php$",
            "^/(a|b/)+in",
            "/d?index\\.(php|html)$",
            "^/a(/|$)",
            "(?i)/INDEX",
            "x\\.php",
            "/\\.",
            "^/[a-b]/(.*/)?index\\.php$",
            "^/.{3}.*p$",
            "(^|/)index",
            "^/(a/){2}index.php$",
            "/(?:a|b)/[^/]*$",
            "//",
            "^/$",
        ];
        let all =
            ["/", "/a/", "/b/", "/a/b/", "/a/a/", "/b/a/", "/a/a/a/", "/.x/", "/index.php/", "/d/", "/b/indexes/", "/x.php/"];
        for pattern in patterns {
            let own = expression(pattern).build().expect("an expression");
            let found = folders(pattern, "index.php", true);
            for folder in all {
                let is_one = own.is_match(format!("{folder}index.php").as_bytes());
                let is_found = match &found {
                    Folders::None => false,
                    Folders::All => true,
                    Folders::Of(text) => expression(text).build().expect("an expression").is_match(folder.as_bytes()),
                };
                assert!(is_found || !is_one, "{pattern} for {folder}: {found:?}");
                let is_exact = !pattern.contains("|$");
                assert!(!is_exact || is_found == is_one || found == Folders::All, "{pattern} for {folder}: {found:?}");
            }
        }
    }
}
