//! Things of names that nobody here knows, where such a thing may stand between a client and what it asks for: a
//! filter, a middleware, a setting of what takes requests. Lists of what keeps clients out are never whole, since every
//! version of a proxy brings more and plugins have names of their own. So readers list what is known to keep nobody
//! out, or is looked at by itself, and all else counts as a guard: what stands behind it is shut, unless a line says
//! it.

use crate::accounts::{FileStatement, StatementKind, Weight, shown};
use crate::alike::joined_alike;
use crate::tree::Tree;
use std::collections::BTreeMap;

/// What is of an unknown name, with why it counts as a guard, by where its statements begin.
#[derive(Debug, Default)]
pub struct Strangers {
    all: BTreeMap<usize, (String, &'static str)>,
}

impl Strangers {
    /// All that is said in that place is of a thing of this name.
    pub fn add(&mut self, name: &str, said: &Tree) {
        self.add_because(name, said, UNKNOWN);
    }

    /// Guards for another reason than that nobody knows them.
    pub fn add_because(&mut self, name: &str, said: &Tree, why: &'static str) {
        let name = shown(name);
        for at in said.statements() {
            self.all.entry(at).or_insert_with(|| (name.clone(), why));
        }
    }

    /// Everything in a map whose key is none of the known ones, however their words are joined.
    pub fn add_others(&mut self, map: &Tree, known: &[&str]) {
        for (key, value) in map.entries().iter().filter(|(key, _)| !is_among(key, known)) {
            self.add(key, value);
        }
    }

    /// Makes guards of them, under their names.
    pub fn mark(self, statements: &mut [FileStatement], reasons: &mut BTreeMap<usize, String>) {
        for statement in statements {
            let Some((name, why)) = self.all.get(&statement.at) else { continue };
            let is_known_guard = statement.kind == StatementKind::Needed(Weight::Protection);
            statement.kind = StatementKind::Needed(Weight::Protection);
            if !is_known_guard {
                statement.name.clone_from(name);
                reasons.entry(statement.at).or_insert_with(|| (*why).to_owned());
            }
        }
    }
}

const UNKNOWN: &str = "it is of a name that is not known here, and may keep clients out: what it stands before is shut until a line \
                       says what it does";

/// Whether a word is one of these, however its parts are joined.
pub fn is_among(word: &str, known: &[&str]) -> bool {
    known.iter().any(|one| joined_alike(one) == joined_alike(word))
}

#[cfg(test)]
mod tests {
    use super::Strangers;
    use crate::accounts::{FileStatement, StatementKind, Weight};
    use crate::tree;
    use std::collections::BTreeMap;

    #[test]
    fn what_nobody_knows_is_a_guard() {
        let text = "{\"addPrefix\": {\"prefix\": \"/a\"}, \"some-door\": {\"key\": \"secret\", \"on\": true}}";
        let tree = tree::of_json(text);
        let statement = |at: usize| FileStatement { at, name: "x".into(), kind: StatementKind::SameByDefault };
        let mut statements: Vec<FileStatement> = tree.statements().into_iter().map(statement).collect();
        let mut strangers = Strangers::default();
        strangers.add_others(&tree, &["add_prefix"]);
        let mut reasons = BTreeMap::new();
        strangers.mark(&mut statements, &mut reasons);
        let guards: Vec<&str> = statements
            .iter()
            .filter(|statement| statement.kind == StatementKind::Needed(Weight::Protection))
            .map(|statement| statement.name.as_str())
            .collect();
        assert_eq!(guards, ["some-door", "some-door"]);
        assert_eq!(reasons.len(), 2);
    }
}
