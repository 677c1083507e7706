//! Conditions of HAProxy, as far as a route or a step of ours says the same.

use super::Section;
use crate::foreign::outline::{beginning_with, below};
use crate::forms::parse_network;
use std::collections::BTreeSet;

/// What one test is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Criterion {
    /// Names as we write them, and whether they take fewer than there.
    Host(Vec<String>, bool),
    Sni(Vec<String>, bool),
    /// Patterns, and the prefixes by bytes among them.
    Path(Vec<String>, Vec<(String, String)>),
    Source(Vec<String>),
    /// Whether the client came over TLS.
    OverTls,
    /// What is true of all that speak TLS.
    Hello,
    Other,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    pub is_negated: bool,
    pub criterion: Criterion,
}

/// The terms behind `if` or `unless`, all of which have to hold; none without a condition. `None`: not understood.
pub fn terms(section: &Section, rule: &[String]) -> Option<(Vec<Term>, BTreeSet<usize>)> {
    let mut places = BTreeSet::new();
    let Some(start) = rule.iter().position(|word| matches!(word.as_str(), "if" | "unless")) else {
        return Some((Vec::new(), places));
    };
    let mut alternatives: Vec<Vec<Term>> = vec![Vec::new()];
    let mut words = rule[start + 1..].iter().map(String::as_str);
    let mut is_negated = false;
    while let Some(word) = words.next() {
        let terms = alternatives.last_mut()?;
        match word {
            "||" | "or" => alternatives.push(Vec::new()),
            "!" => is_negated = !is_negated,
            "{" | "!{" => {
                let inner: Vec<&str> = words.by_ref().take_while(|word| *word != "}").collect();
                let is_negated = std::mem::take(&mut is_negated) != (word == "!{");
                terms.push(Term { is_negated, criterion: criterion(&inner) });
            }
            name => {
                let is_negated = std::mem::take(&mut is_negated) != name.starts_with('!');
                let criterion = named(section, name.trim_start_matches('!'), &mut places);
                terms.push(Term { is_negated, criterion });
            }
        }
    }
    let mut terms = any_of(alternatives)?;
    if rule[start] == "unless" {
        let [term] = terms.as_mut_slice() else { return None };
        term.is_negated = !term.is_negated;
    }
    let is_known = !terms.is_empty() && terms.iter().all(|term| term.criterion != Criterion::Other);
    is_known.then_some((terms, places))
}

/// Alternatives as one term, where each is about the same and none is turned round.
fn any_of(alternatives: Vec<Vec<Term>>) -> Option<Vec<Term>> {
    if alternatives.len() == 1 {
        return alternatives.into_iter().next();
    }
    let mut criteria = Vec::new();
    for terms in alternatives {
        match <[Term; 1]>::try_from(terms) {
            Ok([Term { is_negated: false, criterion }]) => criteria.push(criterion),
            Ok(_) | Err(_) => return None,
        }
    }
    let criterion = criteria.into_iter().reduce(either)?;
    Some(vec![Term { is_negated: false, criterion }])
}

/// Lines of one name are alternatives.
fn named(section: &Section, name: &str, places: &mut BTreeSet<usize>) -> Criterion {
    let acls: Vec<_> = section.lines_of("acl").filter(|acl| acl.word(1) == name).collect();
    places.extend(acls.iter().map(|acl| acl.start()));
    let criteria = acls.iter().map(|acl| criterion(&acl.words[2..].iter().map(String::as_str).collect::<Vec<_>>()));
    criteria.reduce(either).unwrap_or(Criterion::Other)
}

fn either(one: Criterion, other: Criterion) -> Criterion {
    use Criterion::{Hello, Host, Other, OverTls, Path, Sni, Source};
    match (one, other) {
        (Host(one, less), Host(other, fewer)) => Host([one, other].concat(), less || fewer),
        (Sni(one, less), Sni(other, fewer)) => Sni([one, other].concat(), less || fewer),
        (Path(one, prefixes), Path(other, more)) => Path([one, other].concat(), [prefixes, more].concat()),
        (Source(one), Source(other)) => Source([one, other].concat()),
        (OverTls, OverTls) => OverTls,
        (Hello, Hello) => Hello,
        (Host(..) | Sni(..) | Path(..) | Source(_) | OverTls | Hello | Other, _) => Other,
    }
}

/// How a value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Whole,
    Beginning,
    End,
    Part,
    Expression,
    Network,
}

/// `hdr(host) -i a.com b.com`
fn criterion(words: &[&str]) -> Criterion {
    let Some((written, rest)) = words.split_first() else { return Criterion::Other };
    let fetch = written.split(',').next().unwrap_or_default().to_ascii_lowercase();
    let converters: Vec<&str> = written.split(',').skip(1).collect();
    if converters.iter().any(|converter| !matches!(*converter, "lower" | "field(1,:)" | "field(1" | ":)")) {
        return Criterion::Other;
    }
    match fetch.as_str() {
        "ssl_fc" if rest.is_empty() => return Criterion::OverTls,
        "req_ssl_hello_type" | "req.ssl_hello_type" if rest == ["1"] => return Criterion::Hello,
        _ => {}
    }
    let mut comparison = Comparison::Whole;
    let fetch = of_fetch(&fetch, &mut comparison);
    let mut is_case_blind = converters.contains(&"lower");
    let mut values = Vec::new();
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match *word {
            "-i" => is_case_blind = true,
            "--" | "-n" => {}
            "-m" => {
                comparison = match rest.next() {
                    Some(&"str") => Comparison::Whole,
                    Some(&"beg") => Comparison::Beginning,
                    Some(&"end") => Comparison::End,
                    Some(&"sub") => Comparison::Part,
                    Some(&"reg") => Comparison::Expression,
                    Some(&"ip") => Comparison::Network,
                    Some(_) | None => return Criterion::Other,
                }
            }
            word if word.starts_with('-') => return Criterion::Other,
            word => values.push(word.to_owned()),
        }
    }
    if values.is_empty() {
        return Criterion::Other;
    }
    match fetch {
        Fetch::Host => hosts(&values, comparison).map_or(Criterion::Other, |(names, less)| Criterion::Host(names, less)),
        Fetch::Sni => hosts(&values, comparison).map_or(Criterion::Other, |(names, less)| Criterion::Sni(names, less)),
        Fetch::Path => paths(&values, comparison, is_case_blind),
        Fetch::Source if values.iter().all(|value| parse_network(value).is_ok()) => Criterion::Source(values),
        Fetch::Source | Fetch::Other => Criterion::Other,
    }
}

enum Fetch {
    Host,
    Sni,
    Path,
    Source,
    Other,
}

fn of_fetch(fetch: &str, comparison: &mut Comparison) -> Fetch {
    match fetch {
        "hdr(host)" | "req.hdr(host)" | "req.fhdr(host)" | "var(txn.txnhost)" | "hdr(host" | "req.hdr(host" => Fetch::Host,
        "hdr_end(host)" => {
            *comparison = Comparison::End;
            Fetch::Host
        }
        "req_ssl_sni" | "req.ssl_sni" | "ssl_fc_sni" => Fetch::Sni,
        "ssl_fc_sni_end" => {
            *comparison = Comparison::End;
            Fetch::Sni
        }
        "path" => Fetch::Path,
        "path_beg" | "path_end" | "path_sub" | "path_reg" => {
            *comparison = match fetch {
                "path_beg" => Comparison::Beginning,
                "path_end" => Comparison::End,
                "path_sub" => Comparison::Part,
                _ => Comparison::Expression,
            };
            Fetch::Path
        }
        "src" => Fetch::Source,
        _ => Fetch::Other,
    }
}

/// Names as we write them, and whether they stand for fewer. What ends so has any number of labels in front there.
fn hosts(values: &[String], comparison: Comparison) -> Option<(Vec<String>, bool)> {
    let mut names = Vec::new();
    for value in values {
        let name = value.split(':').next().unwrap_or_default().to_owned();
        match (comparison, name.strip_prefix('.')) {
            (Comparison::Whole, None) => names.push(name),
            (Comparison::End, Some(domain)) => names.push(format!("*.{domain}")),
            (Comparison::End, None) if name.contains('.') => names.extend([name.clone(), format!("*.{name}")]),
            (
                Comparison::Whole
                | Comparison::End
                | Comparison::Beginning
                | Comparison::Part
                | Comparison::Expression
                | Comparison::Network,
                _,
            ) => return None,
        }
    }
    Some((names, comparison == Comparison::End))
}

fn paths(values: &[String], comparison: Comparison, is_case_blind: bool) -> Criterion {
    let (mut patterns, mut prefixes) = (Vec::new(), Vec::new());
    for value in values {
        let expression = |before: &str, behind: &str| {
            let blind = if is_case_blind { "(?i)" } else { "" };
            format!("~{blind}{before}{}{behind}", regex_syntax::escape(value))
        };
        match comparison {
            Comparison::Whole if is_case_blind => patterns.push(expression("^", "$")),
            Comparison::Whole => patterns.push(value.clone()),
            Comparison::Beginning if is_case_blind => patterns.push(expression("^", "")),
            Comparison::Beginning if !value.starts_with('/') => patterns.push(beginning_with(value)),
            Comparison::Beginning => {
                patterns.push(below(value));
                if !value.ends_with('/') {
                    prefixes.push((below(value), value.clone()));
                }
            }
            Comparison::End => patterns.push(expression("", "$")),
            Comparison::Part => patterns.push(expression("", "")),
            Comparison::Expression => patterns.push(format!("~{}{value}", if is_case_blind { "(?i)" } else { "" })),
            Comparison::Network => return Criterion::Other,
        }
    }
    Criterion::Path(patterns, prefixes)
}
