//! Expressions of nginx, which are PCRE's, as ours: the same bytes fit, or it is said that they cannot be had. What one
//! of the two reads as something else than the other does is none.

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassSetBinaryOp, ClassSetItem, Flag, Flags, FlagsItemKind, GroupKind, HexLiteralKind, Literal,
    LiteralKind, Repetition, RepetitionKind, SpecialLiteralKind, Visitor,
};

/// The expression as ours, without regard to case and unanchored. `None`: it is none here, or means something else.
pub fn translated(expression: &str) -> Option<String> {
    let parsed = Parser::new().parse(expression).ok()?;
    let ends = ast::visit(&parsed, Walk { expression, ends: Vec::new() }).ok()?;
    // A dot is no line feed there.
    let mut text = "(?i-s)".to_owned();
    let mut copied = 0;
    for end in ends {
        text.push_str(&expression[copied..end]);
        // With PCRE the end of the text is in front of a last line feed as well.
        text.push_str(r"(?:\n?\z)");
        copied = end + 1;
    }
    text.push_str(&expression[copied..]);
    Some(text)
}

/// An expression while it is gone through.
struct Walk<'e> {
    expression: &'e str,
    /// Where a `$` stands.
    ends: Vec<usize>,
}

/// Something is not the same in both.
struct Unlike;

impl Visitor for Walk<'_> {
    type Output = Vec<usize>;
    type Err = Unlike;

    fn finish(self) -> Result<Vec<usize>, Unlike> {
        Ok(self.ends)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Unlike> {
        let is_alike = match ast {
            Ast::Empty(_) | Ast::Dot(_) | Ast::ClassPerl(_) | Ast::ClassBracketed(_) | Ast::Alternation(_) | Ast::Concat(_) => {
                true
            }
            Ast::Flags(set) => is_without_case(&set.flags),
            Ast::Literal(literal) => is_literal_alike(literal),
            Ast::Assertion(assertion) => match assertion.kind {
                AssertionKind::StartLine
                | AssertionKind::StartText
                | AssertionKind::EndText
                | AssertionKind::WordBoundary
                | AssertionKind::NotWordBoundary => true,
                AssertionKind::EndLine => {
                    self.ends.push(assertion.span.start.offset);
                    true
                }
                AssertionKind::WordBoundaryStart
                | AssertionKind::WordBoundaryEnd
                | AssertionKind::WordBoundaryStartAngle
                | AssertionKind::WordBoundaryEndAngle
                | AssertionKind::WordBoundaryStartHalf
                | AssertionKind::WordBoundaryEndHalf => false,
            },
            Ast::ClassUnicode(_) => false,
            Ast::Repetition(repetition) => self.is_repetition_alike(repetition),
            Ast::Group(group) => match &group.kind {
                GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => true,
                GroupKind::NonCapturing(flags) => is_without_case(flags),
            },
        };
        if is_alike { Ok(()) } else { Err(Unlike) }
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Unlike> {
        let is_one_byte = |literal: &Literal| is_literal_alike(literal) && literal.c.is_ascii();
        let is_alike = match item {
            ClassSetItem::Empty(_) | ClassSetItem::Ascii(_) | ClassSetItem::Perl(_) | ClassSetItem::Union(_) => true,
            ClassSetItem::Literal(literal) => is_one_byte(literal),
            ClassSetItem::Range(range) => is_one_byte(&range.start) && is_one_byte(&range.end),
            // With PCRE a bracket within brackets is itself.
            ClassSetItem::Unicode(_) | ClassSetItem::Bracketed(_) => false,
        };
        if is_alike { Ok(()) } else { Err(Unlike) }
    }

    /// Refuses `&&`, `--` and `~~`, which are letters of the class with PCRE.
    fn visit_class_set_binary_op_pre(&mut self, _: &ClassSetBinaryOp) -> Result<(), Unlike> {
        Err(Unlike)
    }
}

impl Walk<'_> {
    fn is_repetition_alike(&self, repetition: &Repetition) -> bool {
        let of_what = match &*repetition.ast {
            // Of a letter of several bytes the last one is repeated there; a second sign of repetition is possessive.
            Ast::Literal(literal) => literal.c.is_ascii() || matches!(literal.kind, LiteralKind::HexFixed(_)),
            Ast::Dot(_) | Ast::ClassPerl(_) | Ast::ClassBracketed(_) | Ast::Group(_) => true,
            Ast::Empty(_)
            | Ast::Flags(_)
            | Ast::Assertion(_)
            | Ast::ClassUnicode(_)
            | Ast::Repetition(_)
            | Ast::Alternation(_)
            | Ast::Concat(_) => false,
        };
        let span = repetition.op.span;
        let written = &self.expression[span.start.offset..span.end.offset];
        of_what
            && match repetition.op.kind {
                RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => true,
                // `{,3}` and `{ 3 }` are letters there.
                RepetitionKind::Range(_) => !written.contains("{,") && !written.contains(' '),
            }
    }
}

/// Nothing but what holds already.
fn is_without_case(flags: &Flags) -> bool {
    flags.items.iter().all(|item| match item.kind {
        FlagsItemKind::Flag(Flag::CaseInsensitive) => true,
        FlagsItemKind::Negation
        | FlagsItemKind::Flag(
            Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed | Flag::Unicode | Flag::CRLF | Flag::IgnoreWhitespace,
        ) => false,
    })
}

fn is_literal_alike(literal: &Literal) -> bool {
    match &literal.kind {
        LiteralKind::Verbatim | LiteralKind::Meta | LiteralKind::Superfluous => true,
        LiteralKind::HexFixed(HexLiteralKind::X) => true,
        LiteralKind::HexBrace(HexLiteralKind::X) => literal.c.is_ascii(),
        LiteralKind::Special(special) => match special {
            SpecialLiteralKind::Bell
            | SpecialLiteralKind::FormFeed
            | SpecialLiteralKind::Tab
            | SpecialLiteralKind::LineFeed
            | SpecialLiteralKind::CarriageReturn => true,
            // With PCRE `\v` is any end of a line, and `\ ` a space in an expression with spaces.
            SpecialLiteralKind::VerticalTab | SpecialLiteralKind::Space => false,
        },
        LiteralKind::Octal
        | LiteralKind::HexFixed(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong)
        | LiteralKind::HexBrace(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::translated;

    #[test]
    fn expressions_are_the_same_or_none() {
        let check = |text: &str, expected: Option<&str>| {
            let expected = expected.map(|expected| format!("(?i-s){expected}"));
            assert_eq!(translated(text), expected, "{text}");
        };
        for same in [
            "/admin",
            "/foo(/|)(.*)",
            r"/a\.b\d+[^/]*",
            "/[a-z0-9_-]+/x",
            "/[[:alpha:]]{2,3}?",
            "/(?:a|b)+",
            "/(?<name>a)",
            "/é",
            r"/\xe9+",
            r"/[\x41-\x5a]\x{41}",
            "/(?i)a",
            r"/a\b",
            r"/\/\-\_",
            "/a{2,}",
            r"/[\[\]]&&--",
            r"/[]a]",
            r"/a\z",
        ] {
            check(same, Some(same));
        }
        check("/foo(/|$)(.*)$", Some(r"/foo(/|(?:\n?\z))(.*)(?:\n?\z)"));
        check(r"/a\$$", Some(r"/a\$(?:\n?\z)"));
        for other in [
            "/a(?!b)",
            r"/(a)\1",
            "/[a&&b]",
            "/[a--b]",
            "/[a~~b]",
            "/[a[b]]",
            "/a++",
            "/a*+",
            "/a{2}+",
            "/a{,3}",
            "/é+",
            "/[é]",
            r"/\pL",
            r"/\x{e9}",
            r"/\u0041",
            r"/\v",
            r"/\<a",
            r"/\b{start}a",
            "/(?m)a$",
            "/(?-i)a",
            "/(?s).",
            "/(?x)a b",
            "/(?U)a*",
            "/(?R)",
            "/(",
            "/a{",
            "/$*",
            "/a{ 2 }",
            r"/a\Z",
            "/(?#x)",
        ] {
            check(other, None);
        }
    }
}
