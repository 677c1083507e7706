//! What becomes of every statement of a file of another proxy in the lines of ours that are told for it: it is carried,
//! done here without a word, said otherwise, or not carried. Readers say what their statements are made into; what none
//! of them has claimed is not carried, so that nothing goes without a word.

use crate::alike::joined_alike;
use std::collections::{BTreeMap, BTreeSet};

/// One statement of a file: a line, an option on a line, a value behind names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStatement {
    /// Where it begins in the file.
    pub at: usize,
    /// The word that it begins with, and never what may be a secret behind it.
    pub name: String,
    pub kind: StatementKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// Done here without a word, or nothing that clients and servers notice.
    SameByDefault,
    /// Has to be said here as well.
    Needed(Weight),
}

/// How much it is when a statement is not carried; what weighs most comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Who may come in, and how often.
    Protection,
    /// Certificates, versions, and whether servers are verified.
    Tls,
    /// Where clients come in.
    Address,
    /// How much a client may send, how much a server gets.
    Limit,
    /// Who answers, and with what.
    Answer,
    /// Everything else.
    Setting,
}

/// Leaves one statement of those that begin at the same place, as what is written once and meant in several: the one
/// that weighs most.
pub fn once(statements: &mut Vec<FileStatement>) {
    let weight = |statement: &FileStatement| match statement.kind {
        StatementKind::Needed(weight) => (0, weight),
        StatementKind::SameByDefault => (1, Weight::Setting),
    };
    let mut kept: BTreeMap<usize, usize> = BTreeMap::new();
    for (index, statement) in statements.iter().enumerate() {
        let known = kept.entry(statement.at).or_insert(index);
        if weight(statement) < weight(&statements[*known]) {
            *known = index;
        }
    }
    let mut index = 0;
    statements.retain(|statement| {
        let is_kept = kept.get(&statement.at) == Some(&index);
        index += 1;
        is_kept
    });
}

/// Which statements of the file a part of the outline is made of, each by the place where it begins.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// All that have a say in it.
    pub within: BTreeSet<usize>,
    /// All that its lines say as well.
    pub carried: BTreeSet<usize>,
    /// All that its lines say otherwise, and what is different.
    pub differs: BTreeMap<usize, String>,
}

impl Origin {
    pub fn carry(&mut self, at: usize) {
        self.within.insert(at);
        self.carried.insert(at);
    }

    pub fn differ(&mut self, at: usize, how: impl Into<String>) {
        self.within.insert(at);
        self.differs.entry(at).or_insert_with(|| how.into());
    }

    /// Says what is different where something else may be as well.
    pub fn differ_too(&mut self, at: usize, how: impl Into<String>) {
        let how = how.into();
        self.within.insert(at);
        let known = self.differs.entry(at).or_default();
        if known.is_empty() {
            *known = how;
        } else if !known.contains(&how) {
            known.push_str("; and ");
            known.push_str(&how);
        }
    }

    /// All statements that begin there say the same here.
    pub fn carry_all(&mut self, places: impl IntoIterator<Item = usize>) {
        for at in places {
            self.carry(at);
        }
    }

    /// Takes back that these are said.
    pub fn lose(&mut self, places: &BTreeSet<usize>) {
        self.carried.retain(|at| !places.contains(at));
        self.differs.retain(|at, _| !places.contains(at));
    }

    /// Adds what is said of statements that have no say here, as where a handler is never asked.
    pub fn add_said(&mut self, other: &Origin) {
        let within = self.within.clone();
        self.add(other);
        self.within = within;
    }

    pub fn add(&mut self, other: &Origin) {
        self.within.extend(&other.within);
        self.carried.extend(&other.carried);
        for (at, how) in &other.differs {
            self.differ_too(*at, how.as_str());
        }
    }
}

/// What becomes of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account<'o> {
    Carried,
    SameByDefault,
    /// With what is different.
    Approximated(&'o str),
    NotCarried(Weight),
    /// Of another site or port, whose lines are not told.
    Elsewhere,
}

/// What becomes of the statement in lines of this origin. `elsewhere` are those that only others are made of.
pub fn account<'o>(statement: &FileStatement, told: &'o Origin, is_elsewhere: &dyn Fn(usize) -> bool) -> Account<'o> {
    if let Some(how) = told.differs.get(&statement.at) {
        return Account::Approximated(how);
    }
    match statement.kind {
        _ if told.carried.contains(&statement.at) => Account::Carried,
        StatementKind::SameByDefault => Account::SameByDefault,
        StatementKind::Needed(_) if !told.within.contains(&statement.at) && is_elsewhere(statement.at) => Account::Elsewhere,
        StatementKind::Needed(weight) => Account::NotCarried(weight),
    }
}

/// What keeps clients out in that part of a file, and that nothing in it has carried.
pub fn protections_left<'o>(statements: &'o [FileStatement], origin: &Origin) -> Vec<&'o FileStatement> {
    let is_left = |statement: &&FileStatement| {
        statement.kind == StatementKind::Needed(Weight::Protection)
            && origin.within.contains(&statement.at)
            && !origin.carried.contains(&statement.at)
            && !origin.differs.contains_key(&statement.at)
    };
    statements.iter().filter(is_left).collect()
}

/// The statements of a file of names and values, by the words that they stand behind.
pub struct WordTable {
    /// Whatever stands behind these keeps clients out.
    pub protections: &'static [&'static str],
    pub same: &'static [&'static str],
    pub tls: &'static [&'static str],
    pub addresses: &'static [&'static str],
    pub limits: &'static [&'static str],
    pub answers: &'static [&'static str],
}

impl WordTable {
    /// The statement behind these names: that which is nearest says what it is about.
    pub fn statement(&self, at: usize, path: &[&str]) -> FileStatement {
        let is_in = |words: &[&str], key: &str| words.iter().any(|word| joined_alike(word) == joined_alike(key));
        let named = |name: &str, kind: StatementKind| FileStatement { at, name: shown(name), kind };
        if let Some(key) = path.iter().rev().find(|key| is_in(self.protections, key)) {
            return named(key, StatementKind::Needed(Weight::Protection));
        }
        let of = [
            (self.tls, Weight::Tls),
            (self.addresses, Weight::Address),
            (self.limits, Weight::Limit),
            (self.answers, Weight::Answer),
        ];
        // What a file is for is said by what it stands behind.
        let is_file = |key: &&&str| !matches!(joined_alike(key).as_str(), "filename" | "inlinestring" | "inlinebytes");
        let own = path.iter().rev().find(is_file).copied().unwrap_or_default();
        for key in path.iter().rev() {
            if is_in(self.same, key) {
                return named(own, StatementKind::SameByDefault);
            }
            if let Some((_, weight)) = of.iter().find(|(words, _)| is_in(words, key)) {
                return named(own, StatementKind::Needed(*weight));
            }
        }
        named(own, StatementKind::Needed(Weight::Setting))
    }
}

/// Words, each with a sentence for all of them: why nothing has to be said here, or what to do. A beginning ends with
/// `*`.
pub type Reasons = &'static [(&'static [&'static str], &'static str)];

/// The first sentence for the word.
pub fn reason(table: Reasons, name: &str) -> Option<&'static str> {
    let is = |word: &&str| match word.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *word,
    };
    table.iter().find(|(words, _)| words.iter().any(is)).map(|(_, sentence)| *sentence)
}

/// A word that is one; what may be anything else is not repeated.
pub fn shown(name: &str) -> String {
    let is_word = !name.is_empty() && name.len() <= 48 && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-@".contains(c));
    if is_word { name.to_owned() } else { "…".to_owned() }
}

/// Statements that are not carried, and what is different of others, for whoever reads the lines.
#[derive(Debug, Default)]
pub struct Remainder<'o> {
    /// How many statements the file has.
    pub count: usize,
    /// By weight, then as they stand in the file.
    pub not_carried: Vec<(Weight, &'o FileStatement)>,
    pub differs: Vec<(&'o FileStatement, &'o str)>,
    /// Where those stand that only other sites and ports are made of.
    pub elsewhere: Vec<usize>,
}

pub fn remainder<'o>(statements: &'o [FileStatement], told: &'o Origin, is_elsewhere: &dyn Fn(usize) -> bool) -> Remainder<'o> {
    let mut remainder = Remainder { count: statements.len(), ..Remainder::default() };
    for statement in statements {
        match account(statement, told, is_elsewhere) {
            Account::Carried | Account::SameByDefault => {}
            Account::Elsewhere => remainder.elsewhere.push(statement.at),
            Account::Approximated(how) => remainder.differs.push((statement, how)),
            Account::NotCarried(weight) => remainder.not_carried.push((weight, statement)),
        }
    }
    remainder.not_carried.sort_by_key(|(weight, statement)| (*weight, statement.at));
    remainder
}

/// More names are a number.
const NAMES_MAX: usize = 6;
const LINES_MAX: usize = 4;

/// `` `deny` (lines 4 and 9), `ssl_certificate` (line 2) and 3 more ``; `line_of` is the line of a place.
pub fn named(statements: &[&FileStatement], line_of: &dyn Fn(usize) -> usize) -> String {
    let mut order: Vec<&str> = Vec::new();
    let mut lines: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for statement in statements {
        if !order.contains(&statement.name.as_str()) {
            order.push(&statement.name);
        }
        lines.entry(&statement.name).or_default().push(line_of(statement.at));
    }
    let shown: Vec<&str> = order.into_iter().take(NAMES_MAX).collect();
    let rest = statements.len() - shown.iter().map(|name| lines[name].len()).sum::<usize>();
    let mut parts: Vec<String> = shown.iter().map(|name| format!("`{name}` ({})", written_lines(&lines[name]))).collect();
    if rest > 0 {
        parts.push(format!("{rest} more"));
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    tidegate_kdl::listed(&parts, "and")
}

pub fn written_lines(lines: &[usize]) -> String {
    let mut lines = lines.to_vec();
    lines.sort_unstable();
    lines.dedup();
    match lines.as_slice() {
        [line] => format!("line {line}"),
        lines if lines.len() <= LINES_MAX => {
            let texts: Vec<String> = lines.iter().map(usize::to_string).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            format!("lines {}", tidegate_kdl::listed(&texts, "and"))
        }
        [first, .., last] => format!("{} times, lines {first} to {last}", lines.len()),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Account, FileStatement, Origin, StatementKind, Weight, account, named, protections_left, remainder};

    fn statement(at: usize, name: &str, kind: StatementKind) -> FileStatement {
        FileStatement { at, name: name.into(), kind }
    }

    #[test]
    fn every_statement_has_its_account() {
        let mut told = Origin { within: (0..6).collect(), ..Origin::default() };
        told.carry(0);
        told.differ(1, "less");
        let seen = |at: usize, kind: StatementKind| account(&statement(at, "a", kind), &told, &|at| at == 8);
        assert_eq!(seen(0, StatementKind::Needed(Weight::Tls)), Account::Carried);
        assert_eq!(seen(1, StatementKind::Needed(Weight::Tls)), Account::Approximated("less"));
        assert_eq!(seen(2, StatementKind::Needed(Weight::Tls)), Account::NotCarried(Weight::Tls));
        assert_eq!(seen(3, StatementKind::SameByDefault), Account::SameByDefault);
        assert_eq!(seen(7, StatementKind::Needed(Weight::Limit)), Account::NotCarried(Weight::Limit));
        assert_eq!(seen(8, StatementKind::Needed(Weight::Limit)), Account::Elsewhere);
    }

    #[test]
    fn what_weighs_most_is_named_first() {
        let statements = [
            statement(0, "timeout", StatementKind::Needed(Weight::Setting)),
            statement(1, "deny", StatementKind::Needed(Weight::Protection)),
            statement(2, "cert", StatementKind::Needed(Weight::Tls)),
            statement(3, "deny", StatementKind::Needed(Weight::Protection)),
        ];
        let told = Origin { within: (0..4).collect(), ..Origin::default() };
        let left = remainder(&statements, &told, &|_| false);
        let left: Vec<&FileStatement> = left.not_carried.iter().map(|(_, statement)| *statement).collect();
        assert_eq!(named(&left, &|at| at + 1), "`deny` (lines 2 and 4), `cert` (line 3) and `timeout` (line 1)");
        assert_eq!(protections_left(&statements, &told).len(), 2);
    }
}
