//! Expressions of nginx as ours: what they can begin with, what they leave out ahead, and their groups in texts.

use super::patterns::group_names;
use super::tables::number_of_group;
use super::variables::{TextPart, Values};
use crate::sent_paths::sent;
use tidegate_model::expression;

/// What all that an expression fits begins with; `None` where that is not one of a few texts.
pub fn beginnings(text: &str) -> Option<Vec<Vec<u8>>> {
    if !text.trim_start_matches("(?i)").starts_with('^') {
        return None;
    }
    let parsed = tidegate_model::expression_parser().parse(text).ok()?;
    let found = regex_syntax::hir::literal::Extractor::new().extract(&parsed);
    found.literals().map(|all| all.iter().map(|own| own.as_bytes().to_vec()).collect())
}

/// The expression of paths that a `rewrite` of `^/v1/(.*)$` to `/$1` makes begin so.
pub fn path_that_leads_to(from: &str, to: &str, prefix: &str) -> Option<String> {
    let stem = to.strip_suffix("$1").filter(|stem| !stem.contains('$'))?;
    let before = from.trim_end_matches('$').strip_suffix("(.*)").filter(|before| !before.contains('('))?;
    let behind = prefix.strip_prefix(stem)?;
    Some(format!("{before}{}", regex_syntax::escape(behind)))
}

/// An expression that begins with plain text and does not go on in some way, as the one without that and the one that
/// must not fit: `^/(?!api)`.
pub fn not_ahead(text: &str) -> Option<(String, String)> {
    let (before, behind) = text.split_once("(?!")?;
    let is_plain = before.starts_with('^') && before[1..].chars().all(|c| c.is_ascii_alphanumeric() || "/_-\\.".contains(c));
    let mut depth = 1_usize;
    let mut end = None;
    let mut is_escaped = false;
    for (at, c) in behind.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '(' => depth += 1,
            ')' => {
                depth -= 1;
                if depth == 0 {
                    end = Some(at);
                    break;
                }
            }
            _ => {}
        }
    }
    let end = end.filter(|_| is_plain)?;
    let (looked, rest) = (&behind[..end], &behind[end + 1..]);
    let (positive, negative) = (format!("{before}{rest}"), format!("{before}(?:{looked})"));
    let is_ours = expression(&positive).build().is_ok() && expression(&negative).build().is_ok();
    is_ours.then_some((positive, negative))
}

/// A hidden file or folder that is not one of these, as `/\.(?!well-known)`: the one without that, and the paths that
/// it leaves out, in which nothing else is hidden.
pub fn hidden_but(text: &str) -> Option<(String, String)> {
    let text = text.strip_prefix("(?i)").unwrap_or(text);
    let rest = text.strip_prefix("/\\.(?!")?;
    let (looked, rest) = rest.split_once(')').filter(|(looked, _)| !looked.contains('('))?;
    if !matches!(rest, "" | ".*" | ".*$" | ".+" | "[^/]*") {
        return None;
    }
    let open = "(?:[^/]|/[^./])*";
    let positive = format!("/\\.{}", if rest == ".+" { "." } else { "" });
    let negative = format!("^{open}/\\.(?:{}){open}/?$", sent(looked));
    let is_ours = expression(&positive).build().is_ok() && expression(&negative).build().is_ok();
    is_ours.then_some((positive, negative))
}

pub fn is_group(part: &TextPart<'_>, expression: &str) -> bool {
    matches!(part, TextPart::Variable(name) if number_of_group(expression, name).is_some())
}

/// The groups of an expression, by number and by name.
pub fn groups(expression: &str) -> Vec<(String, usize)> {
    let numbered = (1..=9).map(|number: usize| (number.to_string(), number));
    let names = group_names(expression).into_iter().filter_map(|name| {
        let number = number_of_group(expression, &name)?;
        Some((name, number))
    });
    numbered.chain(names).collect()
}

/// With groups of the expression as a `rewrite` of ours has them.
pub fn with_groups<'s>(values: &Values<'s>, expression: &str) -> Values<'s> {
    let mut values = values.clone();
    values.captures.extend(groups(expression).into_iter().map(|(name, number)| (name, format!("${number}"))));
    values
}

/// Whether every path fits.
pub fn is_everything(expression: &str) -> bool {
    matches!(
        expression,
        "^" | ".*"
            | "^.*"
            | "^.*$"
            | ".*$"
            | "(.*)"
            | "^(.*)$"
            | "^(.*)"
            | "(.*)$"
            | "^/(.*)$"
            | "^/(.*)"
            | "/(.*)"
            | "^/?(.*)$"
            | "^/"
            | "^(/.*)$"
            | "^/.*$"
            | "^(.+)$"
            | "/(.*)$"
            | ".+"
            | "^.+$"
    )
}

/// What an expression of everything found is the path itself.
pub fn without_groups(to: &str, from: &str) -> String {
    match from {
        "(.*)" | "^(.*)$" | "^(.*)" | "(.*)$" | "^(/.*)$" | "^(.+)$" => to.replace("/${1}", "${uri}").replace("${1}", "${uri}"),
        "^/(.*)$" | "^/(.*)" | "/(.*)" | "/(.*)$" | "^/?(.*)$" => to.replace("/${1}", "${uri}"),
        _ => to.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::hidden_but;
    use tidegate_model::expression;

    #[test]
    fn nothing_hidden_is_left_out_beside_what_is_named() {
        let (positive, negative) = hidden_but("/\\.(?!well-known).*").expect("an expression of ours");
        let fits = |text: &str, path: &str| expression(text).build().expect("an expression").is_match(path.as_bytes());
        let check = |path: &str, expected: bool| {
            assert_eq!(fits(&positive, path) && !fits(&negative, path), expected, "for {path}");
        };
        check("/.git/config", true);
        check("/a/.env", true);
        check("/.well-known/acme-challenge/x.y", false);
        check("/.well-known/.git", true);
        check("/.git/.well-known/a", true);
        check("/.well-known", false);
        check("/a.b", false);
        assert_eq!(hidden_but("/\\.(?!a|(b))"), None);
    }
}
