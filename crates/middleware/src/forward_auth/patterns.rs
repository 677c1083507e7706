//! Names that a line of `forward-auth` lists, compiled: whole ones, and beginnings of others.

use tidegate_model::NamePattern;
use tidegate_wire::name_table::is_alike;

/// As written, and compared as it suits.
#[derive(Debug, Default)]
pub(crate) struct FieldPatterns(Box<[(Box<[u8]>, bool)]>);

impl FieldPatterns {
    pub fn new(patterns: &[NamePattern]) -> FieldPatterns {
        FieldPatterns(patterns.iter().map(|pattern| (pattern.text.as_bytes().into(), pattern.is_prefix)).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fields, whose names have no case.
    pub fn has(&self, name: &[u8]) -> bool {
        self.any(name, <[u8]>::eq_ignore_ascii_case)
    }

    /// Cookies, whose names have it.
    pub fn has_exactly(&self, name: &[u8]) -> bool {
        self.any(name, <[u8]>::eq)
    }

    /// In whatever spelling a server behind us may read as one of them.
    pub fn is_like(&self, name: &[u8]) -> bool {
        self.any(name, is_alike)
    }

    fn any(&self, name: &[u8], is_same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        self.0.iter().any(|(text, is_prefix)| match is_prefix {
            true => name.get(..text.len()).is_some_and(|start| is_same(start, text)),
            false => is_same(name, text),
        })
    }
}
