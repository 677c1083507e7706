//! Texts that thousands of objects share, kept once: names of namespaces, Services, zones and ports.

use std::collections::HashSet;
use std::sync::Arc;

/// Beyond so many, those that nobody uses any more are let go.
const SWEPT_FROM: usize = 1024;

#[derive(Debug)]
pub struct Texts {
    known: HashSet<Arc<str>>,
    sweep_at: usize,
}

impl Default for Texts {
    fn default() -> Self {
        Texts { known: HashSet::new(), sweep_at: SWEPT_FROM }
    }
}

impl Texts {
    /// The one of all texts that read so.
    pub fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|text| Arc::strong_count(text) > 1);
            // Twice what is in use, so that each sweep is paid for by as many new texts.
            self.sweep_at = (self.known.len() * 2).max(SWEPT_FROM);
        }
        let text: Arc<str> = text.into();
        self.known.insert(text.clone());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{SWEPT_FROM, Texts};
    use std::sync::Arc;

    #[test]
    fn a_text_is_kept_once_and_as_long_as_somebody_has_it() {
        let mut texts = Texts::default();
        let shop = texts.shared("shop");
        assert!(Arc::ptr_eq(&shop, &texts.shared("shop")));
        for number in 0..4 * SWEPT_FROM {
            texts.shared(&number.to_string());
        }
        assert!(texts.known.len() <= SWEPT_FROM + 1);
        assert!(Arc::ptr_eq(&shop, &texts.shared("shop")));
    }
}
