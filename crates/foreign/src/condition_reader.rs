//! Conditions that are written with `&&`, `||`, `!` and parentheses, as Traefik's rules and Caddy's expressions are.
//! What stands between these marks is read by whoever knows it.

use crate::matching::Matching;

/// What a proxy has between the marks.
pub trait ConditionTerms {
    /// Reads one condition; `None` where it is none that is known.
    fn term(&self, reader: &mut ConditionReader<'_>) -> Option<Matching>;

    /// The condition behind a `!`, the other way round.
    fn negated(&self, matching: &Matching) -> Option<Matching> {
        matching.not()
    }
}

/// A text that is read from its beginning.
pub struct ConditionReader<'t> {
    pub rest: &'t str,
    /// How many `!` and parentheses may stand within one another.
    levels_left: usize,
}

impl<'t> ConditionReader<'t> {
    /// The whole text as one condition. `None` where a part of it is not known, or it goes too deep.
    pub fn read(text: &'t str, levels_max: usize, terms: &dyn ConditionTerms) -> Option<Matching> {
        let mut reader = ConditionReader { rest: text.trim(), levels_left: levels_max };
        let matching = reader.any(terms)?;
        reader.rest.trim().is_empty().then_some(matching)
    }

    /// Whether the mark comes next; what stands behind it is read then.
    pub fn takes(&mut self, mark: &str) -> bool {
        self.rest = self.rest.trim_start();
        let Some(rest) = self.rest.strip_prefix(mark) else { return false };
        self.rest = rest;
        true
    }

    fn any(&mut self, terms: &dyn ConditionTerms) -> Option<Matching> {
        let mut matching = self.all(terms)?;
        while self.takes("||") {
            matching = matching.or(&self.all(terms)?)?;
        }
        Some(matching)
    }

    fn all(&mut self, terms: &dyn ConditionTerms) -> Option<Matching> {
        let mut matching = self.one(terms)?;
        while self.takes("&&") {
            matching = matching.and(&self.one(terms)?)?;
        }
        Some(matching)
    }

    fn one(&mut self, terms: &dyn ConditionTerms) -> Option<Matching> {
        self.levels_left = self.levels_left.checked_sub(1)?;
        let matching = if self.takes("!") {
            terms.negated(&self.one(terms)?)?
        } else if self.takes("(") {
            let matching = self.any(terms)?;
            self.takes(")").then_some(matching)?
        } else {
            self.rest = self.rest.trim_start();
            terms.term(self)?
        };
        self.levels_left += 1;
        Some(matching)
    }
}
