//! How paths are compared, and what servers see in their place.

use super::Annotations;
use super::variables::template;
use crate::manner::{Manner, MannerRewrite};
use tidegate_model::{Placeholder, Template, TemplatePart};

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    manner.has_expressions = annotations.switch("use-regex") == Some(true);
    let Some(target) = annotations.text("rewrite-target") else { return };
    let to = Some(target).and_then(|text| match template(text, true) {
        Ok(to) if is_path(&to) => Some(with_query(to)),
        Ok(_) => {
            annotations.leave_out("rewrite-target", "it is a path, as in `/$1`");
            None
        }
        Err(variable) => {
            annotations.leave_out("rewrite-target", &format!("the variable `{variable}` is not known"));
            None
        }
    });
    manner.rewrite = MannerRewrite { target: target.into(), to };
}

pub fn is_path(to: &Template) -> bool {
    let begins = match to.parts.first() {
        Some(TemplatePart::Literal(text)) => text.starts_with('/'),
        Some(TemplatePart::Placeholder(placeholder)) => matches!(placeholder, Placeholder::Path | Placeholder::Uri),
        Some(TemplatePart::Capture(_)) => true,
        None => false,
    };
    let is_odd =
        |part: &TemplatePart| matches!(part, TemplatePart::Literal(text) if text.chars().any(|c| c.is_control() || c == ' '));
    begins && !to.parts.iter().any(is_odd) && !to.has_dot_segments()
}

/// nginx puts the query of the request behind one that is written, unless that ends with `?`.
pub fn with_query(mut to: Template) -> Template {
    let has_query = |part: &TemplatePart| matches!(part, TemplatePart::Literal(text) if text.contains('?'));
    let ends = matches!(to.parts.last(), Some(TemplatePart::Literal(text)) if text.ends_with('?'));
    if to.parts.iter().any(has_query) && !ends {
        match to.parts.last_mut() {
            Some(TemplatePart::Literal(text)) => text.push('&'),
            Some(TemplatePart::Placeholder(_) | TemplatePart::Capture(_)) | None => {
                to.parts.push(TemplatePart::Literal("&".to_owned()));
            }
        }
        to.parts.push(TemplatePart::Placeholder(Placeholder::Query));
    }
    to
}
