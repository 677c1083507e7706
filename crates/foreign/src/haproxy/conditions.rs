//! Conditions of HAProxy as trees: words behind `if` and `unless`, with the lines of `acl` that they name; and how they
//! are written as conditions of ours.

use super::fetches::{self, HostTest, RateTest, Variables};
use super::lexer::{HaProxyLine, Section};
use crate::spelling;
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    True,
    False,
    Test(Test),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

/// What one test is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// As it stands behind `match`.
    Written(String),
    /// As it stands behind `match`, where it holds for more than there.
    Loose {
        text: String,
        how: &'static str,
    },
    /// A pattern of a path.
    Path(String),
    Host(HostTest),
    /// The name of a TLS handshake that is handed on as it is.
    Sni(HostTest),
    Source(Vec<String>),
    /// Whether the client came over TLS.
    OverTls,
    /// Where the client came in.
    Port(Vec<u16>),
    /// Who has logged in with a name of this list, of this group where one is named.
    Login(String, Vec<String>),
    Rate(RateTest),
    /// Bodies of requests that are longer.
    BodyBeyond(u64),
    /// Statuses of an answer.
    Status(String),
    /// None that a line of ours has, and why.
    Unknown(String),
}

impl Condition {
    pub fn all(of: Vec<Condition>) -> Condition {
        let mut all = Vec::new();
        for one in of {
            match one {
                Condition::True => {}
                Condition::False => return Condition::False,
                Condition::All(inner) => all.extend(inner),
                one => all.push(one),
            }
        }
        match all.len() {
            0 => Condition::True,
            1 => all.remove(0),
            _ => Condition::All(all),
        }
    }

    pub fn any(of: Vec<Condition>) -> Condition {
        let mut all: Vec<Condition> = Vec::new();
        for one in of {
            match one {
                Condition::False => {}
                Condition::True => return Condition::True,
                Condition::Any(inner) => all.extend(inner),
                one if all.contains(&one) => {}
                one => all.push(one),
            }
        }
        match all.len() {
            0 => Condition::False,
            1 => all.remove(0),
            _ => Condition::Any(all),
        }
    }

    pub fn negated(self) -> Condition {
        match self {
            Condition::True => Condition::False,
            Condition::False => Condition::True,
            Condition::Not(inner) => *inner,
            Condition::All(of) => Condition::any(of.into_iter().map(Condition::negated).collect()),
            Condition::Any(of) => Condition::all(of.into_iter().map(Condition::negated).collect()),
            test @ Condition::Test(_) => Condition::Not(Box::new(test)),
        }
    }

    /// With each test as this says it.
    pub fn settled(&self, settle: &dyn Fn(&Test) -> Option<bool>) -> Condition {
        match self {
            Condition::True => Condition::True,
            Condition::False => Condition::False,
            Condition::Test(test) => match settle(test) {
                Some(true) => Condition::True,
                Some(false) => Condition::False,
                None => self.clone(),
            },
            Condition::Not(inner) => inner.settled(settle).negated(),
            Condition::All(of) => Condition::all(of.iter().map(|one| one.settled(settle)).collect()),
            Condition::Any(of) => Condition::any(of.iter().map(|one| one.settled(settle)).collect()),
        }
    }

    pub fn tests(&self) -> Vec<&Test> {
        match self {
            Condition::True | Condition::False => Vec::new(),
            Condition::Test(test) => vec![test],
            Condition::Not(inner) => inner.tests(),
            Condition::All(of) | Condition::Any(of) => of.iter().flat_map(Condition::tests).collect(),
        }
    }

    /// Why it cannot be written as a condition of a request.
    pub fn unwritable(&self) -> Option<String> {
        self.tests().into_iter().find_map(|test| match test {
            Test::Unknown(why) => Some(why.clone()),
            Test::Login(..) => Some("who has logged in is asked by `basic-auth` of a route, and not by a condition".to_owned()),
            Test::Rate(rate) => Some(rate.why_not()),
            Test::BodyBeyond(_) => Some("how long a body is, is asked by `body-limit` of a route".to_owned()),
            Test::Port(_) => Some("the port is told by the address of a site: write one for each port".to_owned()),
            Test::Status(_) => Some("the answer is not known when its route is chosen".to_owned()),
            Test::Written(_)
            | Test::Loose { .. }
            | Test::Path(_)
            | Test::Host(_)
            | Test::Sni(_)
            | Test::Source(_)
            | Test::OverTls => None,
        })
    }

    /// How it differs from what was written.
    pub fn differs(&self) -> Option<&'static str> {
        self.tests().into_iter().find_map(|test| {
            if let Test::Loose { how, .. } = test {
                return Some(*how);
            }
            let is_raw = matches!(test, Test::Path(pattern) if spelling::asks_for_raw(&expression_of(pattern)));
            is_raw.then_some(spelling::RAW)
        })
    }

    /// The parts that all have to hold.
    pub fn parts(&self) -> Vec<Condition> {
        match self {
            Condition::True => Vec::new(),
            Condition::All(of) => of.clone(),
            one => vec![one.clone()],
        }
    }

    /// Patterns of a route and what stands behind each of its `match` lines, one of which has to hold.
    pub fn written(&self) -> (Vec<String>, Vec<String>) {
        let mut parts = self.parts();
        let patterns = parts.iter().position(|part| patterns(part).is_some()).map(|index| parts.remove(index));
        let patterns = patterns.as_ref().and_then(self::patterns).unwrap_or_default();
        let lines = match parts.as_slice() {
            [] => Vec::new(),
            [Condition::Any(of)] => of.iter().map(|one| line(&one.parts())).collect(),
            parts => vec![line(parts)],
        };
        (patterns, lines)
    }

    /// What stands behind each `match` in the block of a step.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Condition::True => Vec::new(),
            Condition::Any(of) => of.iter().map(|one| line(&one.parts())).collect(),
            one => vec![line(&one.parts())],
        }
    }
}

/// A pattern of a path as an expression.
fn expression_of(pattern: &str) -> String {
    pattern.strip_prefix('~').map_or_else(|| regex_syntax::escape(pattern), str::to_owned)
}

/// The patterns of a part that is about the path alone.
fn patterns(part: &Condition) -> Option<Vec<String>> {
    match part {
        Condition::Test(Test::Path(pattern)) => Some(vec![pattern.clone()]),
        Condition::Any(of) => of.iter().map(patterns).collect::<Option<Vec<_>>>().map(|all| all.concat()),
        Condition::True | Condition::False | Condition::Test(_) | Condition::Not(_) | Condition::All(_) => None,
    }
}

/// All parts on one line; those that have several ways to hold in its block.
fn line(parts: &[Condition]) -> String {
    let (mut words, mut blocks) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Condition::Test(test) => words.push(test.written()),
            Condition::Not(inner) => match inner.as_ref() {
                Condition::Test(test) => words.push(format!("not {}", test.written())),
                other => blocks.push(format!("not {{ match {} }}", line(&other.parts()))),
            },
            Condition::Any(of) => {
                let lines: Vec<String> = of.iter().map(|one| format!("match {}", line(&one.parts()))).collect();
                blocks.push(format!("any {{ {} }}", lines.join("; ")));
            }
            Condition::All(of) => blocks.push(format!("all {{ match {} }}", line(of))),
            Condition::True | Condition::False => {}
        }
    }
    if !blocks.is_empty() {
        words.push(format!("{{ {}; }}", blocks.join("; ")));
    }
    words.join(" ")
}

impl Test {
    fn written(&self) -> String {
        let quoted = tidegate_kdl::quoted;
        match self {
            Test::Written(text) | Test::Loose { text, .. } => text.clone(),
            Test::Path(pattern) => format!("path={}", quoted(pattern)),
            Test::Host(host) | Test::Sni(host) => host.written(),
            Test::Source(networks) => format!("client={}", quoted(&networks.join(","))),
            Test::OverTls => "scheme=\"https\"".to_owned(),
            // None of these is ever written: `unwritable` has said so before.
            Test::Port(_) | Test::Login(..) | Test::Rate(_) | Test::BodyBeyond(_) | Test::Status(_) | Test::Unknown(_) => {
                String::new()
            }
        }
    }
}

/// A condition with the places of the `acl` lines that it names.
#[derive(Debug, Clone)]
pub struct Read {
    pub condition: Condition,
    pub places: BTreeSet<usize>,
}

/// What stands behind `if` or `unless` of a line.
pub fn of_line(section: &Section, line: &HaProxyLine, variables: &Variables) -> Read {
    let mut places = BTreeSet::new();
    let start = line.words.iter().position(|word| matches!(word.as_str(), "if" | "unless"));
    let Some(start) = start else { return Read { condition: Condition::True, places } };
    let reader = Reader { acls: section.acls_beside(line), variables };
    let condition = reader.read(&line.words[start + 1..], &mut places, 0);
    let condition = if line.word(start) == "unless" { condition.negated() } else { condition };
    Read { condition, places }
}

/// Why words behind `if` are none of a condition.
fn half_written(words: &[String]) -> Option<&'static str> {
    const NO_END: &str = "a `{` of its condition has no `}`, and HAProxy does not start with it";
    const NO_TERM: &str = "its condition lacks what it asks, and HAProxy does not start with it";
    let (mut is_within, mut has_term) = (false, false);
    for word in words.iter().map(String::as_str) {
        match (word, is_within) {
            ("}", true) => (is_within, has_term) = (false, true),
            ("}", false) => return Some(NO_END),
            (_, true) => {}
            ("{" | "!{", false) => is_within = true,
            ("||" | "or" | "OR", false) if !has_term => return Some(NO_TERM),
            ("||" | "or" | "OR" | "!", false) => has_term = false,
            ("&&" | "and" | "AND", false) => {}
            (_, false) => has_term = true,
        }
    }
    if is_within { Some(NO_END) } else { (!has_term).then_some(NO_TERM) }
}

struct Reader<'s> {
    acls: Vec<&'s HaProxyLine>,
    variables: &'s Variables,
}

impl Reader<'_> {
    fn read(&self, words: &[String], places: &mut BTreeSet<usize>, depth: usize) -> Condition {
        let mut alternatives: Vec<Vec<Condition>> = vec![Vec::new()];
        let mut is_negated = false;
        // HAProxy does not start with what is half written, so that nobody knows what it would ask.
        if let Some(why) = half_written(words) {
            return Condition::Test(Test::Unknown(why.to_owned()));
        }
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let one = match word {
                "||" | "or" | "OR" => {
                    alternatives.push(Vec::new());
                    continue;
                }
                "&&" | "and" | "AND" => continue,
                "!" => {
                    is_negated = !is_negated;
                    continue;
                }
                "{" | "!{" => {
                    let inner: Vec<&str> = words.by_ref().take_while(|word| *word != "}").collect();
                    let test = self.test(&inner, places, depth);
                    if word == "!{" { test.negated() } else { test }
                }
                name => {
                    let test = self.named(name.trim_start_matches('!'), places, depth);
                    if name.starts_with('!') { test.negated() } else { test }
                }
            };
            let one = if std::mem::take(&mut is_negated) { one.negated() } else { one };
            alternatives.last_mut().into_iter().for_each(|terms| terms.push(one.clone()));
        }
        Condition::any(alternatives.into_iter().map(Condition::all).collect())
    }

    /// Lines of one name are alternatives; some names are known without a line.
    fn named(&self, name: &str, places: &mut BTreeSet<usize>, depth: usize) -> Condition {
        let acls: Vec<_> = self.acls.iter().filter(|acl| acl.word(1) == name).collect();
        if acls.is_empty() {
            return fetches::predefined(name);
        }
        places.extend(acls.iter().map(|acl| acl.start()));
        let all = acls.iter().map(|acl| {
            let words: Vec<&str> = acl.words[2..].iter().map(String::as_str).collect();
            self.test(&words, places, depth)
        });
        Condition::any(all.collect())
    }

    fn test(&self, words: &[&str], places: &mut BTreeSet<usize>, depth: usize) -> Condition {
        const DEPTH_MAX: usize = 8;
        let fetch = words.first().copied().unwrap_or_default();
        let name = fetch.strip_prefix("var(").and_then(|rest| rest.split(')').next());
        // As pfSense calls it, in a line that parts of its files lack.
        if name == Some("txn.txnhost") && !self.variables.contains_key("txn.txnhost") {
            let all: Vec<&str> = std::iter::once("hdr(host)").chain(words[1..].iter().copied()).collect();
            return fetches::test(&all);
        }
        if let Some(known) = name.and_then(|name| self.variables.get(name)).filter(|_| depth < DEPTH_MAX) {
            let converters = fetch.split_once(')').map_or("", |(_, converters)| converters);
            places.extend(known.places.iter().copied());
            return match (&known.condition, words.get(1..)) {
                // A variable that is true where the condition holds, and not set elsewhere.
                (Some(condition), Some(["-m", "bool" | "found"] | [])) => condition.clone(),
                (Some(_), _) => Condition::Test(Test::Unknown(fetches::of_variable(fetch))),
                (None, _) => {
                    let fetch = format!("{}{converters}", known.expression);
                    let all: Vec<&str> = std::iter::once(fetch.as_str()).chain(words[1..].iter().copied()).collect();
                    self.test(&all, places, depth + 1)
                }
            };
        }
        if depth > 0 && fetches::has_many_values(words) {
            return Condition::Test(Test::Unknown(fetches::ONE_OF_MANY.to_owned()));
        }
        fetches::test(words)
    }
}
