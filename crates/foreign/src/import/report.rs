//! What became of each statement and each line of an imported file. Sums are of what is there: every line has one
//! account, and every statement too.

use super::Sayings;
use crate::Peer;
use crate::accounts::{Account, FileStatement, Origin, Weight, account};
use crate::outline::Outline;
use crate::source::{FilePlace, SourceText};
use std::collections::BTreeMap;

/// A statement of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountedStatement {
    /// Where it begins in the whole text.
    pub at: usize,
    pub place: FilePlace,
    /// The word that it begins with.
    pub name: String,
    pub account: ImportAccount,
}

/// What became of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportAccount {
    Carried,
    /// With the reason.
    SameByDefault(String),
    /// With what is different.
    Approximated(String),
    /// With what it is about, and what to do.
    NotCarried(Weight, String),
}

/// What became of a line; of several statements on it, what weighs most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineAccount {
    /// Braces, names that others stand behind, and the rest of a statement that began above.
    Structure,
    /// Comments and empty lines.
    Comment,
    SameByDefault,
    Carried,
    Approximated,
    NotCarried,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountedLine {
    pub place: FilePlace,
    pub account: LineAccount,
}

/// How many there are of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    pub carried: usize,
    pub same_by_default: usize,
    pub approximated: usize,
    pub not_carried: usize,
    pub comments: usize,
    pub structure: usize,
}

impl AccountedStatement {
    /// What the reader has to know of it.
    pub fn told(&self) -> Option<String> {
        match &self.account {
            ImportAccount::Carried | ImportAccount::SameByDefault(_) => None,
            ImportAccount::Approximated(how) => Some(format!("is said otherwise: {how}")),
            ImportAccount::NotCarried(_, what) => Some(format!("is not carried: {what}")),
        }
    }
}

impl Sums {
    pub fn of(lines: &[AccountedLine]) -> Sums {
        let mut sums = Sums::default();
        for line in lines {
            match line.account {
                LineAccount::Structure => sums.structure += 1,
                LineAccount::Comment => sums.comments += 1,
                LineAccount::SameByDefault => sums.same_by_default += 1,
                LineAccount::Carried => sums.carried += 1,
                LineAccount::Approximated => sums.approximated += 1,
                LineAccount::NotCarried => sums.not_carried += 1,
            }
        }
        sums
    }

    pub fn total(&self) -> usize {
        self.carried + self.same_by_default + self.approximated + self.not_carried + self.comments + self.structure
    }
}

const SAME: &str = "done here without a word, or nothing that clients and servers notice";
const TO_HTTPS: &str = "a site sends plain HTTP to HTTPS without a word";
const NO_WORD: &str = "nothing here does the same; leave it out, or say what it is for in your own lines";

pub fn statements(
    peer: Peer,
    outline: &Outline,
    told: &Origin,
    source: &SourceText,
    sayings: &Sayings<'_>,
) -> Vec<AccountedStatement> {
    let remedy = |statement: &FileStatement| {
        let own = outline.reasons.get(&statement.at).cloned();
        own.or_else(|| crate::remedy(peer, &statement.name).map(str::to_owned))
    };
    let of = |statement: &FileStatement| {
        let (word, behind) = statement.name.split_once(' ').unwrap_or((&statement.name, ""));
        let said = || (sayings.said_otherwise)(word, behind).map(str::to_owned);
        let account = match account(statement, told, &|_| false) {
            Account::Carried => ImportAccount::Carried,
            Account::SameByDefault => {
                ImportAccount::SameByDefault(crate::why_same(peer, &statement.name).unwrap_or(SAME).to_owned())
            }
            Account::Approximated(how) => ImportAccount::Approximated(how.to_owned()),
            Account::NotCarried(_) | Account::Elsewhere if outline.done_without.contains(&statement.at) => {
                ImportAccount::SameByDefault(TO_HTTPS.to_owned())
            }
            Account::NotCarried(weight) => {
                ImportAccount::NotCarried(weight, remedy(statement).or_else(said).unwrap_or_else(|| NO_WORD.to_owned()))
            }
            Account::Elsewhere => ImportAccount::NotCarried(Weight::Setting, NO_WORD.to_owned()),
        };
        AccountedStatement { at: statement.at, place: source.place(statement.at), name: statement.name.clone(), account }
    };
    let mut statements: Vec<AccountedStatement> = outline.statements.iter().map(of).collect();
    statements.extend(parts(outline, source, &statements));
    statements.sort_by_key(|statement| statement.at);
    statements
}

/// Lines within statements, where these are said as a whole.
fn parts(outline: &Outline, source: &SourceText, statements: &[AccountedStatement]) -> Vec<AccountedStatement> {
    let known: BTreeMap<usize, &AccountedStatement> = statements.iter().map(|statement| (statement.at, statement)).collect();
    let of = |(at, whole): (&usize, &usize)| {
        let whole = known.get(whole).filter(|_| !known.contains_key(at))?;
        Some(AccountedStatement { at: *at, place: source.place(*at), ..(*whole).clone() })
    };
    outline.parts.iter().filter_map(of).collect()
}

pub fn lines(source: &SourceText, statements: &[AccountedStatement]) -> Vec<AccountedLine> {
    let mut of_line: BTreeMap<FilePlace, LineAccount> = BTreeMap::new();
    for statement in statements {
        let account = match statement.account {
            ImportAccount::Carried => LineAccount::Carried,
            ImportAccount::SameByDefault(_) => LineAccount::SameByDefault,
            ImportAccount::Approximated(_) => LineAccount::Approximated,
            ImportAccount::NotCarried(..) => LineAccount::NotCarried,
        };
        let known = of_line.entry(statement.place.clone()).or_insert(account);
        *known = account.max(*known);
    }
    let mut lines = Vec::new();
    for (file, (_, text)) in source.files().enumerate() {
        for (index, line) in text.lines().enumerate() {
            let place = FilePlace { file, line: index + 1 };
            let line = line.trim();
            let without = if line.is_empty() || line.starts_with('#') { LineAccount::Comment } else { LineAccount::Structure };
            let account = of_line.get(&place).copied().unwrap_or(without);
            lines.push(AccountedLine { place, account });
        }
    }
    lines
}
