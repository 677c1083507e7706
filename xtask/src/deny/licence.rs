//! SPDX licence expressions, evaluated against what Apache-2.0 software may contain. `OR` lets us choose, `AND` binds
//! us to both. The grammar is SPDX 2.3 annex D: `WITH` binds tighter than `AND`, `AND` tighter than `OR`; the old `/`
//! of crates means `OR`.

/// Each with why it is here.
const ALLOWED: &[(&str, &str)] = &[
    ("Apache-2.0", "our own"),
    ("MIT", "notice only"),
    ("MIT-0", "no condition"),
    ("ISC", "notice only"),
    ("BSD-2-Clause", "notice only"),
    ("BSD-3-Clause", "notice, and no use of names"),
    ("Zlib", "notice in source only"),
    ("0BSD", "no condition"),
    ("BSL-1.0", "notice in source only"),
    ("CC0-1.0", "public domain"),
    ("Unlicense", "public domain"),
    ("Unicode-3.0", "tables of the Unicode character database"),
    ("CDLA-Permissive-2.0", "data: Mozilla's root certificates"),
    ("MPL-2.0", "binds changes to its own files; we change none"),
];

/// Each of these only takes conditions away.
const ALLOWED_EXCEPTIONS: &[&str] = &["LLVM-exception"];

/// Parentheses nest no deeper in any sane manifest; the bound keeps the recursion finite.
const DEPTH_MAX: usize = 16;

/// `None` when the expression can be satisfied with allowed licences; else what stands in the way.
pub fn refusal(expression: &str) -> Option<String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, position: 0, depth: 0 };
    match parser.any_of() {
        Err(message) => Some(format!("`{expression}` is no licence expression: {message}")),
        Ok(_) if parser.position < words.len() => {
            Some(format!("`{expression}` is no licence expression: unexpected `{}`", words[parser.position]))
        }
        Ok(LicenceVerdict::Allowed) => None,
        Ok(LicenceVerdict::Refused(names)) => Some(format!("`{}` is not allowed", names.join("`, `"))),
    }
}

enum LicenceVerdict {
    Allowed,
    Refused(Vec<String>),
}

struct Parser<'a> {
    words: &'a [&'a str],
    position: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn any_of(&mut self) -> Result<LicenceVerdict, String> {
        let mut verdict = self.all_of()?;
        while self.take("OR") {
            verdict = match (verdict, self.all_of()?) {
                (LicenceVerdict::Refused(mut left), LicenceVerdict::Refused(right)) => {
                    left.extend(right);
                    LicenceVerdict::Refused(left)
                }
                (LicenceVerdict::Allowed, _) | (_, LicenceVerdict::Allowed) => LicenceVerdict::Allowed,
            };
        }
        Ok(verdict)
    }

    fn all_of(&mut self) -> Result<LicenceVerdict, String> {
        let mut verdict = self.one()?;
        while self.take("AND") {
            verdict = match (verdict, self.one()?) {
                (LicenceVerdict::Allowed, other) | (other, LicenceVerdict::Allowed) => other,
                (LicenceVerdict::Refused(mut left), LicenceVerdict::Refused(right)) => {
                    left.extend(right);
                    LicenceVerdict::Refused(left)
                }
            };
        }
        Ok(verdict)
    }

    fn one(&mut self) -> Result<LicenceVerdict, String> {
        if self.take("(") {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err("too many parentheses".into());
            }
            let inside = self.any_of()?;
            self.depth -= 1;
            return if self.take(")") { Ok(inside) } else { Err("`(` without `)`".into()) };
        }
        let licence = self.identifier()?;
        let exception = if self.take("WITH") { Some(self.identifier()?) } else { None };
        let allowed = ALLOWED.iter().any(|(name, _)| *name == licence)
            && exception.is_none_or(|exception| ALLOWED_EXCEPTIONS.contains(&exception));
        let name = exception.map_or(licence.to_owned(), |exception| format!("{licence} WITH {exception}"));
        Ok(if allowed { LicenceVerdict::Allowed } else { LicenceVerdict::Refused(vec![name]) })
    }

    fn identifier(&mut self) -> Result<&'a str, String> {
        match self.words.get(self.position) {
            None => Err("a name is missing at the end".into()),
            Some(word @ (&"OR" | &"AND" | &"WITH" | &"(" | &")")) => Err(format!("unexpected `{word}`")),
            Some(word) => {
                self.position += 1;
                Ok(word)
            }
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.get(self.position) == Some(&word);
        self.position += usize::from(found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::refusal;

    fn check(expression: &str, expected: &str) {
        assert_eq!(refusal(expression).unwrap_or_else(|| "allowed".into()), expected, "for {expression:?}");
    }

    #[test]
    fn choices_and_obligations() {
        check("MIT", "allowed");
        check("GPL-3.0-only", "`GPL-3.0-only` is not allowed");
        check("MIT OR GPL-3.0-only", "allowed");
        check("GPL-2.0-only OR GPL-3.0-only", "`GPL-2.0-only`, `GPL-3.0-only` is not allowed");
        check("MIT AND GPL-3.0-only", "`GPL-3.0-only` is not allowed");
        check("MIT/Apache-2.0", "allowed");
        check("MIT / Apache-2.0", "allowed");
    }

    #[test]
    fn with_binds_before_and_before_or() {
        check("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", "allowed");
        check("Apache-2.0 WITH Odd-exception", "`Apache-2.0 WITH Odd-exception` is not allowed");
        check("GPL-3.0-only WITH LLVM-exception", "`GPL-3.0-only WITH LLVM-exception` is not allowed");
        check("MIT OR GPL-3.0-only AND LGPL-3.0-only", "allowed");
        check("(MIT OR GPL-3.0-only) AND LGPL-3.0-only", "`LGPL-3.0-only` is not allowed");
        check("(MIT OR Apache-2.0) AND Unicode-3.0", "allowed");
        check("ISC AND (Apache-2.0 OR ISC) AND OpenSSL", "`OpenSSL` is not allowed");
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        check("", "`` is no licence expression: a name is missing at the end");
        check("MIT OR", "`MIT OR` is no licence expression: a name is missing at the end");
        check("MIT Apache-2.0", "`MIT Apache-2.0` is no licence expression: unexpected `Apache-2.0`");
        check("(MIT", "`(MIT` is no licence expression: `(` without `)`");
        check("MIT)", "`MIT)` is no licence expression: unexpected `)`");
        check("AND MIT", "`AND MIT` is no licence expression: unexpected `AND`");
        let deep = "(".repeat(20);
        check(&deep, &format!("`{deep}` is no licence expression: too many parentheses"));
    }
}
