//! Patterns of media types, as `compress` and the conditions of `header` have them.

/// Some of `text/html`, `text/*`, `application/*+json`.
#[derive(Debug)]
pub(crate) struct TypePatterns(Box<[TypePattern]>);

#[derive(Debug)]
enum TypePattern {
    Exact(Box<str>),
    /// Everything of a top-level type, with the `/`.
    Top(Box<str>),
    /// Everything of a top-level type with a suffix, as in `application/` and `+json`.
    Suffix(Box<str>, Box<str>),
}

impl TypePatterns {
    pub fn new(patterns: &[String]) -> TypePatterns {
        TypePatterns(patterns.iter().map(|pattern| TypePattern::new(pattern)).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them fits a `Content-Type`, its parameters aside. None fits where there is none.
    pub fn fit(&self, content_type: Option<&[u8]>) -> bool {
        let Some(content_type) = content_type else { return false };
        let media_type = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        self.0.iter().any(|pattern| pattern.fits(media_type))
    }
}

impl TypePattern {
    fn new(pattern: &str) -> TypePattern {
        match pattern.split_once('*') {
            None => TypePattern::Exact(pattern.into()),
            Some((top, "")) => TypePattern::Top(top.into()),
            Some((top, suffix)) => TypePattern::Suffix(top.into(), suffix.into()),
        }
    }

    fn fits(&self, media_type: &[u8]) -> bool {
        let begins = |top: &str| media_type.get(..top.len()).is_some_and(|start| start.eq_ignore_ascii_case(top.as_bytes()));
        match self {
            TypePattern::Exact(exact) => media_type.eq_ignore_ascii_case(exact.as_bytes()),
            TypePattern::Top(top) => begins(top),
            TypePattern::Suffix(top, suffix) => {
                let end = media_type.len().checked_sub(suffix.len()).map(|start| &media_type[start..]);
                begins(top) && end.is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes()))
            }
        }
    }
}
