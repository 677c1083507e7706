//! What answers of servers say of where something is, said otherwise.

use super::Annotations;
use super::variables::template;
use crate::manner::Manner;
use tidegate_cluster::Key;
use tidegate_model::{AnswerPart, AnswerRewrite, Placeholder, RewrittenText, Template, TemplatePart, expression};

const TEXT_BYTES_MAX: usize = 1000;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    let rewrites = &mut manner.options.answer_rewrites;
    rewrites.extend(location(annotations));
    for (name, part) in [("proxy-cookie-path", AnswerPart::CookiePath), ("proxy-cookie-domain", AnswerPart::CookieDomain)] {
        rewrites.extend(of_cookie(annotations, name, part));
    }
}

fn location(annotations: &mut Annotations<'_>) -> Option<AnswerRewrite> {
    const FROM: &str = "proxy-redirect-from";
    const TO: &str = "proxy-redirect-to";
    let (from, to) = match (annotations.text(FROM), annotations.text(TO)) {
        (None, None) | (Some("off"), _) | (_, Some("off")) => return None,
        // Of an upstream by its name, which no server says of itself.
        (Some("default"), _) | (_, Some("default")) => return None,
        (Some(from), Some(to)) => (from, to),
        (Some(_), None) => {
            annotations.leave_out(FROM, &format!("there is no `{TO}` beside it"));
            return None;
        }
        (None, Some(_)) => {
            annotations.leave_out(TO, &format!("there is no `{FROM}` beside it"));
            return None;
        }
    };
    let found = rule(from, to, AnswerPart::Location, annotations.key);
    let at_fault = if template(to, annotations.key, true).is_err() { TO } else { FROM };
    found.map_err(|problem| annotations.leave_out(at_fault, problem)).ok()
}

fn of_cookie(annotations: &mut Annotations<'_>, name: &str, part: AnswerPart) -> Option<AnswerRewrite> {
    let written = annotations.text(name)?;
    let words: Vec<&str> = written.split_whitespace().collect();
    let found = match words[..] {
        ["off"] => return None,
        [from, to] => rule(from, to, part, annotations.key),
        _ => Err("it is two texts with a blank between them, or `off`"),
    };
    found.map_err(|problem| annotations.leave_out(name, problem)).ok()
}

fn rule(from: &str, to: &str, part: AnswerPart, ingress: &Key) -> Result<AnswerRewrite, &'static str> {
    if from.len() > TEXT_BYTES_MAX || to.len() > TEXT_BYTES_MAX {
        return Err("a text in it is too long");
    }
    let (text, groups) = match (from.strip_prefix("~*"), from.strip_prefix('~')) {
        (Some(pattern), _) => pattern_of(format!("(?i){pattern}"))?,
        (None, Some(pattern)) => pattern_of(pattern.to_owned())?,
        (None, None) => (RewrittenText::Plain(from.to_owned()), 0),
    };
    let to = template(to, ingress, groups > 0).map_err(|_| "a variable in it is not known: there are `$host` and `$scheme`")?;
    let begins_with_slash = |to: &Template| match to.parts.first() {
        Some(TemplatePart::Literal(text)) => text.starts_with('/'),
        Some(TemplatePart::Capture(_)) => true,
        Some(TemplatePart::Placeholder(_)) | None => false,
    };
    let is_plain = matches!(text, RewrittenText::Plain(_));
    let is_odd = |text: &str| text.contains(|c: char| c.is_control() || c == ' ' || c == ';');
    let has_odd_part = |to: &Template| to.parts.iter().any(|part| matches!(part, TemplatePart::Literal(text) if is_odd(text)));
    let is_known = |part: &TemplatePart| match part {
        TemplatePart::Placeholder(placeholder) => matches!(placeholder, Placeholder::Host | Placeholder::Scheme),
        TemplatePart::Capture(number) => *number <= groups,
        TemplatePart::Literal(_) => true,
    };
    match part {
        _ if !to.parts.iter().all(is_known) => Err("a variable in it is not known: there are `$host` and `$scheme`"),
        _ if is_plain && (is_odd(from) || from.contains('$')) || has_odd_part(&to) => Err("no answer has that there"),
        AnswerPart::CookiePath
            if is_plain && !from.starts_with('/') || !begins_with_slash(&to) && part == AnswerPart::CookiePath =>
        {
            Err("paths begin with `/`")
        }
        AnswerPart::CookieDomain if is_plain && from.contains('/') || to.parts.is_empty() && part == AnswerPart::CookieDomain => {
            Err("a domain is written as `example.com`")
        }
        AnswerPart::Location | AnswerPart::CookiePath | AnswerPart::CookieDomain => Ok(AnswerRewrite { part, from: text, to }),
    }
}

/// With the number of its groups.
fn pattern_of(pattern: String) -> Result<(RewrittenText, usize), &'static str> {
    let compiled = expression(&pattern).build().map_err(|_| "it is no expression that can be had")?;
    Ok((RewrittenText::Expression(pattern), compiled.captures_len() - 1))
}
