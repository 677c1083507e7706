//! What is said in the end: differences of one kind together, with how often and for which requests.

use crate::difference::Difference;
use crate::readable::readable;
use crate::request::Request;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Kinds that are told apart; what comes beyond them is counted.
const GROUPS_MAX: usize = 500;
/// What is shown of a value or a target.
const SHOWN_BYTES_MAX: usize = 300;

/// All differences of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// `status`, `header`, `trailer`, `body` or `unanswered`.
    pub kind: &'static str,
    /// Which header or trailer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of a header `missing`, `added` or `changed`; of a status both, as in `200 → 404`.
    pub what: String,
    /// How many requests have it.
    pub count: usize,
    /// The first of them.
    pub examples: Vec<Example>,
}

/// A request, and what each side said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Example {
    pub line: usize,
    pub method: String,
    pub host: String,
    pub target: String,
    /// Of both answers, where they have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// Of a body: where they differ first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Report {
    /// Requests that both were asked.
    pub asked: usize,
    /// Requests whose answers differ.
    pub different: usize,
    /// Requests whose bodies were too long to be compared whole, with something left out of them.
    pub in_part: usize,
    /// Differences beyond the kinds that are told apart.
    pub untold: usize,
    examples_max: usize,
    groups: BTreeMap<Key, Group>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    rank: u8,
    name: Option<String>,
    what: String,
}

impl Report {
    /// With so many examples of each kind.
    pub fn new(examples_max: usize) -> Report {
        Report { examples_max, ..Report::default() }
    }

    /// Notes what came of a request, and with which status where that is the same.
    pub fn add(&mut self, request: &Request, status: Option<u16>, differences: &[Difference], is_in_part: bool) {
        self.asked += 1;
        self.in_part += usize::from(is_in_part);
        self.different += usize::from(!differences.is_empty());
        for difference in differences {
            self.note(request, status, difference);
        }
    }

    /// The kinds, with those first that matter most, and of those what is most frequent.
    pub fn groups(&self) -> Vec<&Group> {
        let mut groups: Vec<(&Key, &Group)> = self.groups.iter().collect();
        groups.sort_by_key(|(key, group)| (key.rank, std::cmp::Reverse(group.count)));
        groups.into_iter().map(|(_, group)| group).collect()
    }

    fn note(&mut self, request: &Request, status: Option<u16>, difference: &Difference) {
        let (rank, kind, name, what, old, new, at) = told(difference);
        let key = Key { rank, name: name.clone(), what: what.clone() };
        if !self.groups.contains_key(&key) && self.groups.len() == GROUPS_MAX {
            self.untold += 1;
            return;
        }
        let group = self.groups.entry(key).or_insert_with(|| Group { kind, name, what, count: 0, examples: Vec::new() });
        group.count += 1;
        // Lanes end out of order; the examples are those that stand first.
        if group.examples.len() == self.examples_max && group.examples.last().is_none_or(|last| last.line < request.line) {
            return;
        }
        let show = |bytes: Option<Vec<u8>>| bytes.map(|bytes| readable(&bytes, SHOWN_BYTES_MAX));
        let example = Example {
            line: request.line,
            method: request.method.clone(),
            host: request.host.as_deref().map(|host| readable(host, SHOWN_BYTES_MAX)).unwrap_or_default(),
            target: readable(&request.target, SHOWN_BYTES_MAX),
            status,
            old: show(old),
            new: show(new),
            at,
        };
        let place = group.examples.partition_point(|known| known.line <= request.line);
        group.examples.insert(place, example);
        group.examples.truncate(self.examples_max);
    }

    /// For people: the kinds and their examples.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for group in self.groups() {
            let name = group.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
            let plural = if group.count == 1 { "" } else { "s" };
            let _ = writeln!(text, "\n{}{name} {}: {} request{plural}", group.kind, group.what, group.count);
            for example in &group.examples {
                let Example { line, method, host, target, status, old, new, at } = example;
                let status = status.map(|status| format!(", {status}")).unwrap_or_default();
                let at = at.map(|at| format!(", from byte {at} on")).unwrap_or_default();
                let _ = writeln!(text, "  line {line}: {method} {target} at {host}{status}{at}");
                for (side, value) in [("old", old), ("new", new)] {
                    if let Some(value) = value {
                        let _ = writeln!(text, "    {side}: {value}");
                    }
                }
            }
        }
        if self.untold > 0 {
            let _ = writeln!(text, "\n{} more differences, of kinds beyond {GROUPS_MAX}", self.untold);
        }
        text
    }
}

type Columns = (u8, &'static str, Option<String>, String, Option<Vec<u8>>, Option<Vec<u8>>, Option<u64>);

/// Rank, kind, name, what, and both sides of an example.
fn told(difference: &Difference) -> Columns {
    let sides = |name: &String, old: &Option<Vec<u8>>, new: &Option<Vec<u8>>, rank: u8, kind: &'static str| {
        let what = match (old, new) {
            (Some(_), None) => "missing",
            (None, Some(_)) => "added",
            (Some(_), Some(_)) | (None, None) => "changed",
        };
        (rank, kind, Some(name.clone()), what.to_owned(), old.clone(), new.clone(), None)
    };
    match difference {
        Difference::Unanswered { old, new } => (0, "unanswered", None, format!("(old {old}, new {new})"), None, None, None),
        Difference::Status { old, new } => (1, "status", None, format!("{old} → {new}"), None, None, None),
        Difference::Header { name, old, new } => sides(name, old, new, 2, "header"),
        Difference::Body { at, old, new } => {
            (3, "body", None, "changed".to_owned(), Some(old.clone()), Some(new.clone()), Some(*at))
        }
        Difference::Trailer { name, old, new } => sides(name, old, new, 4, "trailer"),
    }
}
