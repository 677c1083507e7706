//! The list of reasoned exceptions: one a line, `<rule> <place> <why, in words>`. A place is a path, or
//! `path::function`. Some rules have exceptions up to a figure, which then stands between the place and the reason.

use crate::finding::Finding;
use std::sync::atomic::{AtomicBool, Ordering};

/// The rules that know exceptions. The others have none.
pub const FILE_LENGTH: &str = "file-length";
pub const FUNCTION_LENGTH: &str = "function-length";
pub const MACHINE_PATH: &str = "machine-path";
pub const NAME: &str = "name";
pub const ROOM: &str = "room";
pub const UNSAFE: &str = "unsafe";
pub const WORDS: &str = "words";

const RULES: &[&str] = &[FILE_LENGTH, FUNCTION_LENGTH, MACHINE_PATH, NAME, ROOM, UNSAFE, WORDS];
/// Rules whose exceptions are up to a figure, which stands behind the place.
const WITH_FIGURE: &[&str] = &[ROOM];

/// A reason shorter than this says nothing.
const REASON_WORDS_MIN: usize = 4;

#[derive(Debug, Default)]
pub struct AllowList {
    path: String,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    line: usize,
    rule: String,
    place: String,
    /// Of the rules that have one.
    figure: usize,
    used: AtomicBool,
}

impl AllowList {
    /// Reads the list; lines that are not understood come back as findings.
    pub fn parse(path: &str, text: &str) -> (AllowList, Vec<Finding>) {
        let mut list = AllowList { path: path.into(), entries: Vec::new() };
        let mut findings = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let (Some(rule), Some(place)) = (words.next(), words.next()) else {
                findings.push(Finding::at(path, index + 1, "allow-list", "expected `<rule> <place> <why>`"));
                continue;
            };
            let figure = if WITH_FIGURE.contains(&rule) { words.next().and_then(|word| word.parse().ok()) } else { Some(0) };
            if !RULES.contains(&rule) {
                let known = RULES.join(", ");
                findings.push(Finding::at(path, index + 1, "allow-list", format!("no rule `{rule}`; there are {known}")));
                continue;
            }
            let Some(figure) = figure else {
                findings.push(Finding::at(path, index + 1, "allow-list", format!("say up to which figure `{place}` is allowed")));
                continue;
            };
            if words.count() < REASON_WORDS_MIN {
                findings.push(Finding::at(path, index + 1, "allow-list", format!("say why `{place}` is an exception")));
                continue;
            }
            let entry = Entry { line: index + 1, rule: rule.into(), place: place.into(), figure, used: AtomicBool::new(false) };
            list.entries.push(entry);
        }
        (list, findings)
    }

    /// Whether the place is an exception to the rule; remembers that the entry was needed.
    pub fn permits(&self, rule: &str, place: &str) -> bool {
        let mut permitted = false;
        for entry in self.entries.iter().filter(|entry| entry.rule == rule && entry.place == place) {
            entry.used.store(true, Ordering::Relaxed);
            permitted = true;
        }
        permitted
    }

    /// Up to which figure the place is an exception to the rule; remembers that the entry was needed.
    pub fn figure(&self, rule: &str, place: &str) -> Option<usize> {
        let entry = self.entries.iter().find(|entry| entry.rule == rule && entry.place == place)?;
        entry.used.store(true, Ordering::Relaxed);
        Some(entry.figure)
    }

    /// Entries that nothing asked for: the exception is gone, so its line must go as well.
    pub fn unused(&self) -> Vec<Finding> {
        let stale = self.entries.iter().filter(|entry| !entry.used.load(Ordering::Relaxed));
        stale
            .map(|entry| {
                Finding::at(&self.path, entry.line, "allow-list", format!("`{} {}` is not needed", entry.rule, entry.place))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::AllowList;

    fn check(text: &str, expected: &[&str]) {
        let (list, findings) = AllowList::parse("allow.txt", text);
        list.permits("unsafe", "a.rs");
        let seen: Vec<String> = findings.iter().chain(&list.unused()).map(ToString::to_string).collect();
        assert_eq!(seen, expected, "for {text:?}");
    }

    #[test]
    fn every_line_needs_a_rule_a_place_a_reason_and_a_use() {
        check("", &[]);
        check("# a comment\n\nunsafe a.rs the counting allocator needs GlobalAlloc", &[]);
        check("unsafe", &["allow.txt:1: allow-list: expected `<rule> <place> <why>`"]);
        check("unsafe a.rs", &["allow.txt:1: allow-list: say why `a.rs` is an exception"]);
        check("unsafe a.rs because reasons", &["allow.txt:1: allow-list: say why `a.rs` is an exception"]);
        check(
            "speed a.rs it is so very slow",
            &[
                "allow.txt:1: allow-list: no rule `speed`; there are file-length, function-length, machine-path, name, room, unsafe, words",
            ],
        );
        check(
            "room crates/a they are rebuilt next week",
            &["allow.txt:1: allow-list: say up to which figure `crates/a` is allowed"],
        );
        check("room crates/a 900 because", &["allow.txt:1: allow-list: say why `crates/a` is an exception"]);
        check("unsafe b.rs once it was needed here", &["allow.txt:1: allow-list: `unsafe b.rs` is not needed"]);
    }

    #[test]
    fn an_exception_is_for_one_rule_and_one_place() {
        let (list, _) = AllowList::parse("allow.txt", "unsafe a.rs it wraps one system call");
        assert!(list.permits("unsafe", "a.rs"));
        assert!(!list.permits("unsafe", "b.rs"));
        assert!(!list.permits("file-length", "a.rs"));
        let (list, _) = AllowList::parse("allow.txt", "room crates/a 900 they are rebuilt next week");
        assert_eq!((list.figure("room", "crates/a"), list.figure("room", "crates/b")), (Some(900), None));
    }
}
