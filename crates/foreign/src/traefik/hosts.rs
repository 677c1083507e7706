//! Hosts of rules: names, and expressions that take names. Where a site can be for them, and what is left to ask there.

use super::rules::{has_variable, named_groups};
use crate::texts::fits;
use regex_syntax::hir::{Class, ClassUnicodeRange, Hir, HirKind, Look};
use tidegate_model::{expression, is_one_label_below};

/// In front of an expression among hosts.
const EXPRESSION: char = '~';
/// More names than these are not written out for an expression.
const NAMES_MAX: usize = 64;

/// The hosts that an expression takes: names, or itself behind `~`. None at all means that it takes every host.
pub fn of_expression(regex: &str) -> Option<Vec<String>> {
    let regex = regex.replace("\\\\", "\\");
    if has_variable(&regex) {
        return domain_with_variables(&regex).map(|domain| vec![domain]);
    }
    let is_named = regex.split('{').skip(1).all(|behind| behind.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'));
    let whole = if regex.contains('{') && !regex.starts_with('^') && is_named {
        format!("^{}$", named_groups(&regex, "[^.]+")?)
    } else {
        regex
    };
    expression(&whole).build().ok()?;
    let hir = regex_syntax::parse(&whole).ok()?;
    if is_total(&hir) {
        return Some(Vec::new());
    }
    Some(names(&hir).unwrap_or_else(|| vec![format!("{EXPRESSION}{whole}")]))
}

/// Whether names with more labels than the pattern of a site has are among those that it takes.
pub fn is_deep(host: &str) -> bool {
    let Some(hir) = host.strip_prefix(EXPRESSION).and_then(|regex| regex_syntax::parse(regex).ok()) else { return false };
    label_in_front(&hir).is_some_and(|label| has_char(label, '.'))
}

/// Where sites are for a host of a rule; `None` stands for all names.
pub fn places(host: &str) -> Vec<Option<String>> {
    let Some(regex) = host.strip_prefix(EXPRESSION) else { return vec![Some(host.to_owned())] };
    let Some(end) = regex_syntax::parse(regex).ok().as_ref().and_then(literal_end) else { return vec![None] };
    let below = |domain: &str| Some(format!("*.{domain}"));
    match end.strip_prefix('.') {
        Some(domain) => vec![below(domain)],
        None if fits(regex, &end) => vec![Some(end.clone()), below(&end)],
        None => match end.split_once('.') {
            Some((_, domain)) => vec![below(domain)],
            None => vec![None],
        },
    }
}

/// Whether a host of a rule takes what comes to a site.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    Always,
    Never,
    /// Where the expression takes the host.
    Where(String),
    /// Where the host is this name.
    Named(String),
}

/// What a host of a rule takes of a site of this name; `None` is that of all other names.
pub fn taken(host: &str, site: Option<&str>) -> Taken {
    let Some(regex) = host.strip_prefix(EXPRESSION) else {
        return match site {
            Some(site) if site == host || is_below(site, host) => Taken::Always,
            Some(site) if !site.starts_with("*.") || !is_below(host, site) => Taken::Never,
            Some(_) | None => Taken::Named(host.to_owned()),
        };
    };
    match site {
        Some(site) if site.starts_with("*.") => {
            let Ok(hir) = regex_syntax::parse(regex) else { return Taken::Never };
            let own = &site[1..];
            if covers(&hir, own) {
                return Taken::Always;
            }
            match literal_end(&hir) {
                Some(end) if !own.ends_with(&end) && !end.ends_with(own) => Taken::Never,
                Some(_) | None => Taken::Where(regex.to_owned()),
            }
        }
        // A variable's value is not known.
        Some(site) if site.contains('$') => Taken::Where(regex.to_owned()),
        Some(site) if fits(regex, site) => Taken::Always,
        Some(_) => Taken::Never,
        // All that it takes has a site of its own.
        None if is_one_label(regex) => Taken::Never,
        None => Taken::Where(regex.to_owned()),
    }
}

fn is_one_label(regex: &str) -> bool {
    regex_syntax::parse(regex).is_ok_and(|hir| label_in_front(&hir).is_some_and(|label| !has_char(label, '.')))
}

/// Whether the name is one of those that the pattern stands for.
pub fn is_below(name: &str, pattern: &str) -> bool {
    pattern.strip_prefix("*.").is_some_and(|domain| is_one_label_below(name, domain))
}

fn parts(hir: &Hir) -> &[Hir] {
    match hir.kind() {
        HirKind::Concat(parts) => parts,
        _ => std::slice::from_ref(hir),
    }
}

fn is_look(hir: &Hir, look: Look) -> bool {
    matches!(hir.kind(), HirKind::Look(own) if *own == look)
}

/// The parts between the beginning of the text and its end, where the expression says both.
fn anchored(hir: &Hir) -> Option<&[Hir]> {
    match parts(hir) {
        [first, inner @ .., last] if is_look(first, Look::Start) && is_look(last, Look::End) => Some(inner),
        _ => None,
    }
}

fn bare(hir: &Hir) -> &Hir {
    match hir.kind() {
        HirKind::Capture(capture) => bare(&capture.sub),
        _ => hir,
    }
}

fn has_char(class: &Class, c: char) -> bool {
    match class {
        Class::Unicode(class) => class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&c)),
        Class::Bytes(class) => {
            u8::try_from(c).is_ok_and(|byte| class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&byte)))
        }
    }
}

/// The characters of which any number stands there, from one or none on.
fn repeated(hir: &Hir) -> Option<&Class> {
    let HirKind::Repetition(repetition) = bare(hir).kind() else { return None };
    match bare(&repetition.sub).kind() {
        HirKind::Class(class) if repetition.min <= 1 && repetition.max.is_none() => Some(class),
        _ => None,
    }
}

fn has_all_of_labels(class: &Class) -> bool {
    ('a'..='z').chain('0'..='9').chain(['-', '_']).all(|c| has_char(class, c))
}

fn is_total(hir: &Hir) -> bool {
    let inner: Vec<&Hir> = parts(hir).iter().filter(|part| !matches!(part.kind(), HirKind::Look(_))).collect();
    match inner.as_slice() {
        [] => true,
        [one] => repeated(one).is_some_and(|class| has_all_of_labels(class) && has_char(class, '.')),
        _ => false,
    }
}

/// The characters of the label in front of a domain.
fn label_in_front(hir: &Hir) -> Option<&Class> {
    match anchored(hir)? {
        [label, end] if matches!(end.kind(), HirKind::Literal(_)) => repeated(label),
        _ => None,
    }
}

/// Whether it takes all names that end so and have one label more.
fn covers(hir: &Hir, end: &str) -> bool {
    label_in_front(hir).is_some_and(has_all_of_labels) && literal_end(hir).as_deref() == Some(end)
}

/// The text that all names end with.
fn literal_end(hir: &Hir) -> Option<String> {
    let [.., literal, last] = parts(hir) else { return None };
    let HirKind::Literal(literal) = literal.kind() else { return None };
    let text = std::str::from_utf8(&literal.0).ok()?;
    let is_host = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    (is_look(last, Look::End) && is_host && text != ".").then(|| text.to_ascii_lowercase())
}

/// All names that it takes, where they can be counted.
fn names(hir: &Hir) -> Option<Vec<String>> {
    let mut all = vec![String::new()];
    for part in anchored(hir)? {
        all = each_with(&all, &texts(part)?)?;
    }
    all.retain(|name| !name.is_empty());
    (!all.is_empty()).then_some(all)
}

fn each_with(all: &[String], more: &[String]) -> Option<Vec<String>> {
    let joined: Vec<String> = all.iter().flat_map(|one| more.iter().map(move |other| format!("{one}{other}"))).collect();
    (joined.len() <= NAMES_MAX).then_some(joined)
}

fn texts(hir: &Hir) -> Option<Vec<String>> {
    match hir.kind() {
        HirKind::Empty => Some(vec![String::new()]),
        HirKind::Literal(literal) => Some(vec![std::str::from_utf8(&literal.0).ok()?.to_ascii_lowercase()]),
        HirKind::Class(Class::Unicode(class)) => {
            let count: usize = class.ranges().iter().map(ClassUnicodeRange::len).sum();
            let all = || class.ranges().iter().flat_map(|range| range.start()..=range.end());
            let mut texts: Vec<String> = if count <= NAMES_MAX { all().map(String::from).collect() } else { return None };
            for text in &mut texts {
                text.make_ascii_lowercase();
            }
            texts.dedup();
            Some(texts)
        }
        HirKind::Class(Class::Bytes(_)) | HirKind::Look(_) => None,
        HirKind::Repetition(repetition) => {
            let mut all = texts(&repetition.sub).filter(|_| repetition.min == 0 && repetition.max == Some(1))?;
            all.push(String::new());
            Some(all)
        }
        HirKind::Capture(capture) => texts(&capture.sub),
        HirKind::Concat(parts) => parts.iter().try_fold(vec![String::new()], |all, part| each_with(&all, &texts(part)?)),
        HirKind::Alternation(parts) => {
            let all: Option<Vec<Vec<String>>> = parts.iter().map(texts).collect();
            Some(all?.concat()).filter(|all| all.len() <= NAMES_MAX)
        }
    }
}

/// The domain of an expression with variables of the environment, where it is one of all names below it.
fn domain_with_variables(regex: &str) -> Option<String> {
    let whole = if regex.contains(['{']) && !regex.starts_with('^') && !regex.contains("${") {
        named_groups(regex, "[^.]+")?
    } else {
        regex.trim_start_matches('^').strip_suffix('$').unwrap_or(regex.trim_start_matches('^')).to_owned()
    };
    let unescaped = |text: &str| text.replace("\\.", ".").replace("\\-", "-");
    let is_host = |text: &str| {
        !text.is_empty()
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '$' | '_' | '{' | '}' | ':'))
    };
    let literal = unescaped(&whole);
    if is_host(&literal) {
        return Some(literal);
    }
    let (label, rest) = whole.split_once("\\.")?;
    let domain = unescaped(rest);
    let hir = regex_syntax::parse(label).ok()?;
    (is_host(&domain) && repeated(&hir).is_some_and(has_all_of_labels)).then(|| format!("*.{domain}"))
}

#[cfg(test)]
mod tests {
    use super::{Taken, is_deep, of_expression, places, taken};

    #[test]
    fn expressions_are_names_where_they_can_be() {
        let check = |regex: &str, expected: Option<&[&str]>| {
            let expected = expected.map(|all| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
            assert_eq!(of_expression(regex), expected, "{regex}");
        };
        check("^(www|app)\\.h\\.test$", Some(&["www.h.test", "app.h.test"]));
        check("^(www\\.)?h\\.test$", Some(&["www.h.test", "h.test"]));
        check("^.+$", Some(&[]));
        check("{any:.*}", Some(&[]));
        check("^[a-z]+\\.g\\.test$", Some(&["~^[a-z]+\\.g\\.test$"]));
        check("{sub:[a-z]+}.g.test", Some(&["~^(?:[a-z]+)\\.g\\.test$"]));
        check("^[a-z]{2}\\.g\\.test$", Some(&["~^[a-z]{2}\\.g\\.test$"]));
        check("^.+\\.${DOMAIN}$", Some(&["*.${DOMAIN}"]));
        check("^[a-z]+\\.${DOMAIN}$", None);
        check("(", None);
    }

    #[test]
    fn expressions_are_asked_where_their_names_are() {
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(places("~^[a-z]+\\.g\\.test$"), [some("*.g.test")]);
        assert_eq!(places("~^(.+\\.)?g\\.test$"), [some("g.test"), some("*.g.test")]);
        assert_eq!(places("~^app-[0-9]+-x\\.g\\.test$"), [some("*.g.test")]);
        assert_eq!(places("~g\\.test"), [None]);
        let regex = || Taken::Where("^[a-z]+\\.g\\.test$".to_owned());
        let check = |host: &str, site: Option<&str>, expected: Taken| assert_eq!(taken(host, site), expected, "{host} {site:?}");
        check("~^[a-z]+\\.g\\.test$", Some("*.g.test"), regex());
        check("~^[^.]+\\.g\\.test$", Some("*.g.test"), Taken::Always);
        check("~^.+\\.g\\.test$", Some("*.g.test"), Taken::Always);
        check("~^[a-z]+\\.g\\.test$", Some("a.g.test"), Taken::Always);
        check("~^[a-z]+\\.g\\.test$", Some("a1.g.test"), Taken::Never);
        check("~^[a-z]+\\.g\\.test$", None, Taken::Never);
        check("~^.+\\.g\\.test$", None, Taken::Where("^.+\\.g\\.test$".into()));
        check("~^[a-z]+\\.g\\.test$", Some("*.h.test"), Taken::Never);
        check("a.test", Some("a.test"), Taken::Always);
        check("a.test", Some("b.test"), Taken::Never);
        check("a.test", Some("*.test"), Taken::Named("a.test".into()));
        check("*.test", Some("a.test"), Taken::Always);
        check("a.test", None, Taken::Named("a.test".into()));
        assert!(is_deep("~^.+\\.g\\.test$"));
        assert!(!is_deep("~^[^.]+\\.g\\.test$"));
    }
}
