//! Values that another proxy takes apart, or puts together of several lines, before it compares them: whether an
//! expression may take what stands between two of them.

use regex_syntax::hir::{Class, Hir, HirKind};
use tidegate_model::expression_parser;

/// Whether an expression may go over one of the separators, so that what it finds may lie on both sides of it.
pub fn crosses(separators: &str, written: &str) -> bool {
    // Anything at its edges need not be there.
    let inner = written.strip_prefix("(?i)").unwrap_or(written).trim_start_matches('^');
    let inner = inner.strip_prefix(".*").unwrap_or(inner).trim_end_matches('$');
    let inner = inner.strip_suffix(".*").filter(|inner| !inner.ends_with('\\')).unwrap_or(inner);
    expression_parser().parse(inner).map_or(true, |parsed| takes_any(&parsed, separators.as_bytes()))
}

fn takes_any(hir: &Hir, bytes: &[u8]) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => false,
        HirKind::Literal(literal) => literal.0.iter().any(|byte| bytes.contains(byte)),
        HirKind::Class(Class::Bytes(class)) => {
            bytes.iter().any(|byte| class.iter().any(|range| (range.start()..=range.end()).contains(byte)))
        }
        HirKind::Class(Class::Unicode(class)) => {
            let has = |byte: &u8| class.iter().any(|range| (range.start()..=range.end()).contains(&char::from(*byte)));
            bytes.iter().any(has)
        }
        HirKind::Repetition(repetition) => takes_any(&repetition.sub, bytes),
        HirKind::Capture(capture) => takes_any(&capture.sub, bytes),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(|part| takes_any(part, bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::crosses;

    #[test]
    fn expressions_that_may_go_over_a_comma_are_known() {
        let check = |text: &str, expected: bool| assert_eq!(crosses(",", text), expected, "{text}");
        check("(bot|spider)", false);
        check("^.*bot.*$", false);
        check("a.*b", true);
        check("^[^ ]+$", true);
        check("a,b", true);
        check("a\\.*$", false);
    }
}
