//! Snippets of a Caddyfile where they are imported, with what is handed to them, and which imports are of files.

use crate::braces::{self, Statement};
use std::collections::BTreeSet;

/// Snippets within snippets.
const DEPTH_MAX: usize = 12;
/// So many statements come of a file at most.
const STATEMENTS_MAX: usize = 20_000;

/// The snippets of a file by their names.
pub struct Snippets {
    all: Vec<(String, Vec<Statement>)>,
}

impl Snippets {
    pub fn of<'s>(statements: impl Iterator<Item = &'s Statement>) -> Snippets {
        let one = |statement: &Statement| {
            let name = statement.name().trim_start_matches('&').trim_matches(['(', ')']);
            (name.to_owned(), statement.inside().to_vec())
        };
        Snippets { all: statements.map(one).collect() }
    }

    /// The statements with those of snippets in the place of what imports them; where that stood is added.
    pub fn filled_in(&self, statements: &[Statement], imported: &mut BTreeSet<usize>) -> Vec<Statement> {
        let mut count = 0;
        self.within(statements, 0, &mut count, imported)
    }

    fn within(&self, inside: &[Statement], depth: usize, count: &mut usize, imported: &mut BTreeSet<usize>) -> Vec<Statement> {
        let mut all = Vec::new();
        for statement in inside {
            *count += 1;
            let is_import = matches!(statement.name(), "import" | "invoke") && depth < DEPTH_MAX && *count < STATEMENTS_MAX;
            let snippet = is_import.then(|| self.all.iter().find(|(name, _)| name == statement.argument())).flatten();
            match snippet {
                Some((_, snippet)) => {
                    imported.insert(statement.start());
                    let arguments = statement.arguments().get(1..).unwrap_or_default();
                    let filled: Vec<Statement> =
                        snippet.iter().flat_map(|own| filled(own.clone(), arguments, statement.inside())).collect();
                    all.extend(self.within(&filled, depth + 1, count, imported));
                }
                None => {
                    let block = statement.block.as_ref().map(|block| self.within(block, depth, count, imported));
                    all.push(Statement { block, ..statement.clone() });
                }
            }
        }
        all
    }
}

/// The statement with what is handed to the snippet: `{args[0]}`, `{args.0}`, `{args[:]}`, `{block}`.
fn filled(statement: Statement, arguments: &[String], given: &[Statement]) -> Vec<Statement> {
    match statement.name() {
        "{block}" => return given.to_vec(),
        name => {
            if let Some(key) = name.strip_prefix("{blocks.").and_then(|rest| rest.strip_suffix('}')) {
                return braces::named(given, key).flat_map(Statement::inside).cloned().collect();
            }
        }
    }
    let mut words = Vec::new();
    let mut starts = Vec::new();
    for (word, start) in statement.words.into_iter().zip(statement.starts) {
        if word == "{args[:]}" || word == "{args.*}" {
            starts.extend(arguments.iter().map(|_| start));
            words.extend(arguments.iter().cloned());
            continue;
        }
        if let Some(range) = slice(&word, arguments.len()) {
            starts.extend(range.clone().map(|_| start));
            words.extend(arguments[range].iter().cloned());
            continue;
        }
        let fill = |word: String, (index, argument): (usize, &String)| {
            word.replace(&format!("{{args[{index}]}}"), argument).replace(&format!("{{args.{index}}}"), argument)
        };
        words.push(arguments.iter().enumerate().fold(word, fill));
        starts.push(start);
    }
    let block = statement.block.map(|block| block.into_iter().flat_map(|own| filled(own, arguments, given)).collect());
    vec![Statement { words, starts, block }]
}

/// `{args[1:]}`, `{args[:2]}`, `{args[1:3]}`, as the arguments that they stand for.
fn slice(word: &str, count: usize) -> Option<std::ops::Range<usize>> {
    let (first, last) = word.strip_prefix("{args[")?.strip_suffix("]}")?.split_once(':')?;
    let first: usize = if first.is_empty() { 0 } else { first.parse().ok()? };
    let last: usize = if last.is_empty() { count } else { last.parse().ok()? };
    let last = last.min(count);
    (first <= last).then_some(first..last)
}

/// An import of files, and where it begins and ends.
pub struct FileImport {
    pub pattern: String,
    pub start: usize,
    pub end: usize,
}

/// The imports of files in a text: those that name no snippet of it.
pub fn includes(text: &str) -> Vec<FileImport> {
    let statements = braces::of_caddy(text);
    let mut found = Vec::new();
    collect(text, &statements, &mut found);
    found.sort_by_key(|import| import.start);
    found
}

fn collect(text: &str, statements: &[Statement], found: &mut Vec<FileImport>) {
    for statement in statements {
        let pattern = statement.argument();
        // A name alone is that of a snippet, which another file may have.
        let is_file = pattern.contains(['/', '.', '*']) && !pattern.contains(['{', '}']);
        if statement.name() == "import" && statement.arguments().len() == 1 && statement.block.is_none() && is_file {
            let end = text[statement.starts[1]..].find('\n').map_or(text.len(), |length| statement.starts[1] + length);
            found.push(FileImport { pattern: pattern.to_owned(), start: statement.start(), end });
        }
        collect(text, statement.inside(), found);
    }
}
