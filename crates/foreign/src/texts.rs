//! Texts of files as texts of ours.

use tidegate_model::expression;

/// A text in which nothing is a placeholder.
pub fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// Whether the expression is one of ours, and the text fits it.
pub fn fits(regex: &str, text: &str) -> bool {
    expression(regex).build().is_ok_and(|regex| regex.is_match(text.as_bytes()))
}
