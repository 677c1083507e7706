//! What requests a rule or a matcher of another proxy takes, whatever it was written in: alternatives of conditions,
//! all of which have to hold. Alternatives become routes of ours, conditions their patterns and what stands behind
//! `match`.

use crate::outline::BytePrefix;
use tidegate_kdl::quoted;

/// More alternatives than these are not written out.
const CLAUSES_MAX: usize = 24;

/// A path as a pattern of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    pub pattern: String,
    /// What begins so is taken there, also within a segment.
    pub byte_prefix: Option<String>,
}

/// One thing that a request is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Any of these paths.
    Paths(Vec<PathPattern>),
    /// Any of these hosts.
    Hosts(Vec<String>),
    /// Another condition, as it stands behind `match`.
    Condition(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedLiteral {
    pub asked: Asked,
    pub is_negated: bool,
}

/// All of these have to hold; none is always so.
pub type AskedClause = Vec<AskedLiteral>;

impl AskedLiteral {
    /// The hosts of which a request has to be for one.
    pub fn hosts(&self) -> Option<&Vec<String>> {
        match &self.asked {
            Asked::Hosts(hosts) if !self.is_negated => Some(hosts),
            Asked::Hosts(_) | Asked::Paths(_) | Asked::Condition(_) => None,
        }
    }
}

/// Clauses of which one has to hold; without any it is never so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matching {
    pub clauses: Vec<AskedClause>,
}

impl PathPattern {
    pub fn of(pattern: impl Into<String>) -> PathPattern {
        PathPattern { pattern: pattern.into(), byte_prefix: None }
    }

    /// `/api/*`, which stands for whatever begins with `/api`.
    pub fn beginning(prefix: &str) -> PathPattern {
        let byte_prefix = (!prefix.ends_with('/')).then(|| prefix.to_owned());
        PathPattern { pattern: crate::outline::below(prefix), byte_prefix }
    }

    /// Whether all that it takes is below the other, or is the other.
    fn is_within(&self, other: &PathPattern) -> bool {
        if self == other {
            return true;
        }
        let Some(stem) = other.pattern.strip_suffix('*').filter(|_| !other.pattern.starts_with('~')) else { return false };
        let own = self.pattern.strip_suffix('*').unwrap_or(&self.pattern);
        !self.pattern.starts_with('~') && (own.starts_with(stem) || own == stem.trim_end_matches('/'))
    }

    /// Whether it is known that no path is taken by both, be letters the same large and small or not.
    fn is_apart(&self, other: &PathPattern) -> bool {
        let is_plain = |one: &PathPattern| !one.pattern.starts_with('~') && one.byte_prefix.is_none();
        let folded = |one: &PathPattern| PathPattern::of(one.pattern.to_ascii_lowercase());
        let (own, its) = (folded(self), folded(other));
        is_plain(self) && is_plain(other) && !own.is_within(&its) && !its.is_within(&own)
    }
}

impl AskedLiteral {
    pub fn of(asked: Asked) -> AskedLiteral {
        AskedLiteral { asked, is_negated: false }
    }

    fn negated(&self) -> AskedLiteral {
        AskedLiteral { asked: self.asked.clone(), is_negated: !self.is_negated }
    }

    /// As it stands behind `match`; `None` where one line cannot say it.
    fn condition(&self) -> Option<String> {
        let not = if self.is_negated { "not " } else { "" };
        match &self.asked {
            Asked::Hosts(hosts) => Some(format!("{not}host={}", quoted(&hosts.join(",")))),
            Asked::Condition(text) => Some(format!("{not}{text}")),
            Asked::Paths(paths) if paths.len() == 1 || self.is_negated => {
                let all: Vec<String> = paths.iter().map(|path| format!("{not}path={}", quoted(&exact(path)))).collect();
                Some(all.join(" "))
            }
            Asked::Paths(_) => None,
        }
    }
}

/// The pattern that takes no less than what was written.
fn exact(path: &PathPattern) -> String {
    path.byte_prefix.as_ref().map_or_else(|| path.pattern.clone(), |prefix| crate::outline::beginning_with(prefix))
}

impl Matching {
    /// With another thing asked in the place of each; `None` where one of them cannot be said.
    pub fn replaced(&self, of: impl Fn(&AskedLiteral) -> Option<Matching>) -> Option<Matching> {
        let mut all = Matching::never();
        for clause in &self.clauses {
            let mut replaced = Matching::always();
            for literal in clause {
                replaced = replaced.and(&of(literal)?)?;
            }
            all = all.or(&replaced)?;
        }
        Some(all)
    }

    pub fn always() -> Matching {
        Matching { clauses: vec![Vec::new()] }
    }

    pub fn never() -> Matching {
        Matching { clauses: Vec::new() }
    }

    pub fn of(asked: Asked) -> Matching {
        Matching { clauses: vec![vec![AskedLiteral::of(asked)]] }
    }

    pub fn condition(text: impl Into<String>) -> Matching {
        Matching::of(Asked::Condition(text.into()))
    }

    pub fn is_always(&self) -> bool {
        self.clauses.iter().any(Vec::is_empty)
    }

    pub fn is_never(&self) -> bool {
        self.clauses.is_empty()
    }

    /// `None` where there would be too many alternatives.
    pub fn and(&self, other: &Matching) -> Option<Matching> {
        let mut clauses = Vec::new();
        for one in &self.clauses {
            for two in &other.clauses {
                if clauses.len() >= CLAUSES_MAX {
                    return None;
                }
                if let Some(clause) = both(one, two).filter(|clause| !clauses.contains(clause)) {
                    clauses.push(clause);
                }
            }
        }
        Some(Matching { clauses })
    }

    pub fn or(&self, other: &Matching) -> Option<Matching> {
        let mut clauses = self.clauses.clone();
        for clause in &other.clauses {
            let is_joined = clauses.iter_mut().any(|known| join(known, clause));
            if !is_joined {
                clauses.push(clause.clone());
            }
        }
        (clauses.len() <= CLAUSES_MAX).then_some(Matching { clauses })
    }

    pub fn not(&self) -> Option<Matching> {
        self.clauses.iter().try_fold(Matching::always(), |all, clause| {
            let none = Matching { clauses: clause.iter().map(|literal| vec![literal.negated()]).collect() };
            all.and(&none)
        })
    }

    /// Each clause as patterns of a route and what stands behind its `match`. Several lists of paths that all have to
    /// hold are more clauses.
    pub fn written(&self) -> Vec<WrittenClause> {
        let mut all = Vec::new();
        for clause in self.clauses.iter().flat_map(spread) {
            let mut written = WrittenClause::default();
            let mut has_paths = false;
            for literal in &clause {
                match &literal.asked {
                    Asked::Paths(paths) if !literal.is_negated && !has_paths => {
                        has_paths = true;
                        written.patterns.clone_from(paths);
                    }
                    Asked::Paths(_) | Asked::Hosts(_) | Asked::Condition(_) => written.conditions.extend(literal.condition()),
                }
            }
            all.push(written);
        }
        all
    }

    /// As lines behind `match`, of which one is enough.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for WrittenClause { patterns, conditions } in self.written() {
            let conditions = conditions.join(" ");
            if patterns.is_empty() {
                lines.push(conditions);
                continue;
            }
            for pattern in &patterns {
                lines.push(format!("path={} {conditions}", quoted(&exact(pattern))).trim_end().to_owned());
            }
        }
        lines
    }
}

/// A clause in the form that a route has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenClause {
    pub patterns: Vec<PathPattern>,
    pub conditions: Vec<String>,
}

impl WrittenClause {
    /// The patterns, and which of them stand for what begins so; `at` is where the file says it.
    pub fn split(self, at: usize) -> (Vec<String>, Vec<BytePrefix>, Vec<String>) {
        let mut prefixes = Vec::new();
        let mut patterns: Vec<String> = Vec::new();
        for PathPattern { pattern, byte_prefix } in self.patterns {
            if patterns.contains(&pattern) {
                continue;
            }
            prefixes.extend(byte_prefix.map(|prefix| BytePrefix { pattern: pattern.clone(), prefix, at }));
            patterns.push(pattern);
        }
        (patterns, prefixes, self.conditions)
    }
}

/// A clause whose second list of paths is spread over several.
fn spread(clause: &AskedClause) -> Vec<AskedClause> {
    let is_list =
        |literal: &AskedLiteral| matches!(&literal.asked, Asked::Paths(paths) if !literal.is_negated && paths.len() > 1);
    let is_paths = |literal: &AskedLiteral| matches!(&literal.asked, Asked::Paths(_)) && !literal.is_negated;
    let first = clause.iter().position(is_paths);
    let second = clause.iter().enumerate().find(|(index, literal)| Some(*index) != first && is_list(literal));
    let Some((index, AskedLiteral { asked: Asked::Paths(paths), .. })) = second else { return vec![clause.clone()] };
    let one = |path: &PathPattern| {
        let mut clause = clause.clone();
        clause[index] = AskedLiteral::of(Asked::Paths(vec![path.clone()]));
        clause
    };
    paths.iter().map(one).flat_map(|clause| spread(&clause)).take(CLAUSES_MAX).collect()
}

/// Makes two clauses one that differ in their paths or hosts alone.
fn join(known: &mut AskedClause, other: &AskedClause) -> bool {
    if known == other {
        return true;
    }
    if known.len() != other.len() {
        return false;
    }
    let apart: Vec<usize> = (0..known.len()).filter(|index| known[*index] != other[*index]).collect();
    let [index] = apart.as_slice() else { return false };
    match (&mut known[*index], &other[*index]) {
        (
            AskedLiteral { asked: Asked::Paths(paths), is_negated: false },
            AskedLiteral { asked: Asked::Paths(more), is_negated: false },
        ) => paths.extend(more.iter().cloned()),
        (
            AskedLiteral { asked: Asked::Hosts(hosts), is_negated: false },
            AskedLiteral { asked: Asked::Hosts(more), is_negated: false },
        ) => hosts.extend(more.iter().cloned()),
        _ => return false,
    }
    true
}

/// Both of them; `None` where they cannot hold together.
fn both(one: &AskedClause, two: &AskedClause) -> Option<AskedClause> {
    let mut clause = one.clone();
    for literal in two {
        if clause.contains(literal) {
            continue;
        }
        if clause.contains(&literal.negated()) {
            return None;
        }
        let paths = |literal: &AskedLiteral| match &literal.asked {
            Asked::Paths(paths) if !literal.is_negated => Some(paths.clone()),
            Asked::Paths(_) | Asked::Hosts(_) | Asked::Condition(_) => None,
        };
        let known = clause.iter().position(|known| paths(known).is_some());
        let (Some(own), Some(index)) = (paths(literal), known) else {
            clause.push(literal.clone());
            continue;
        };
        let outer = paths(&clause[index]).unwrap_or_default();
        let is_apart = |path: &PathPattern| outer.iter().all(|outer| outer.is_apart(path));
        let own: Vec<PathPattern> = own.into_iter().filter(|path| !is_apart(path)).collect();
        if own.is_empty() {
            return None;
        }
        if own.iter().all(|path| outer.iter().any(|outer| path.is_within(outer))) {
            clause[index] = AskedLiteral::of(Asked::Paths(own));
        } else if !outer.iter().all(|path| own.iter().any(|own| path.is_within(own))) {
            clause.push(AskedLiteral::of(Asked::Paths(own)));
        }
    }
    Some(clause)
}

#[cfg(test)]
mod tests {
    use super::{Asked, Matching, PathPattern};

    fn paths(all: &[&str]) -> Matching {
        Matching::of(Asked::Paths(all.iter().map(|path| PathPattern::of(*path)).collect()))
    }

    #[test]
    fn conditions_are_put_together() {
        let check = |matching: Option<Matching>, expected: &[&str]| {
            assert_eq!(matching.expect("few alternatives").lines(), expected);
        };
        let get = Matching::condition("method=\"GET\"");
        let host = Matching::of(Asked::Hosts(vec!["a.test".into()]));
        check(paths(&["/a"]).and(&get), &["path=\"/a\" method=\"GET\""]);
        check(paths(&["/a/*"]).and(&paths(&["/a/b/*", "/c"])), &["path=\"/a/b/*\""]);
        check(paths(&["/a"]).and(&paths(&["/b"])), &[]);
        check(paths(&["/A/*"]).and(&paths(&["/a/b"])), &["path=\"/A/*\" path=\"/a/b\""]);
        check(paths(&["/a"]).or(&paths(&["/b"])), &["path=\"/a\"", "path=\"/b\""]);
        check(paths(&["/a"]).and(&get).and_then(|both| both.not()), &["not path=\"/a\"", "not method=\"GET\""]);
        check(host.or(&get).and_then(|any| any.not()), &["not host=\"a.test\" not method=\"GET\""]);
        check(host.and(&host.not().expect("one")), &[]);
        check(
            paths(&["~^/a", "/b"]).and(&paths(&["~b$", "~c$"])),
            &["path=\"~^/a\" path=\"~b$\"", "path=\"/b\" path=\"~b$\"", "path=\"~^/a\" path=\"~c$\"", "path=\"/b\" path=\"~c$\""],
        );
    }
}
