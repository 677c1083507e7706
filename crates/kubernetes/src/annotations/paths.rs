//! How paths are compared, and what servers see in their place.

use super::Annotations;
use super::variables::object_text;
use crate::manner::{Manner, MannerRewrite};
use crate::object_text::{ObjectPart, ObjectText};
use tidegate_model::{Placeholder, Template, TemplatePart};

const TARGET: &str = "rewrite-target";

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    manner.has_expressions = annotations.switch("use-regex") == Some(true);
    let Some(text) = annotations.text(TARGET) else { return };
    let (origin, path) = origin_of(text).map_or((None, text), |(origin, path)| (Some(origin), path));
    let to = match object_text(path, annotations.key, true) {
        Ok(to) if is_path(&to.at(None)) && !begins_with_name(&to) && origin.is_none_or(is_origin) => Some(to),
        Ok(_) => {
            annotations.leave_out(TARGET, "it is a path, as in `/$1`");
            None
        }
        Err(variable) => {
            annotations.leave_out(TARGET, &format!("the variable `{variable}` is not known"));
            None
        }
    };
    manner.rewrite = MannerRewrite { target: text.into(), origin: origin.map(Box::from), to };
}

/// Of a URL: nginx sends clients there.
fn origin_of(text: &str) -> Option<(&str, &str)> {
    let scheme = ["https://", "http://"].into_iter().find(|scheme| text.starts_with(scheme))?;
    let host = text[scheme.len()..].find('/').unwrap_or(text.len() - scheme.len());
    let (origin, path) = text.split_at(scheme.len() + host);
    Some((origin, if path.is_empty() { "/" } else { path }))
}

/// Whether a host stands there, and nothing that a request brings.
fn is_origin(origin: &str) -> bool {
    let host = origin.split_once("://").map_or("", |(_, host)| host);
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte))
}

fn begins_with_name(to: &ObjectText) -> bool {
    match to.parts().first() {
        Some(ObjectPart::ServiceName | ObjectPart::ServicePort | ObjectPart::UpstreamName) => true,
        Some(ObjectPart::Template(_)) | None => false,
    }
}

pub fn is_path(to: &Template) -> bool {
    let begins = match to.parts.first() {
        Some(TemplatePart::Literal(text)) => text.starts_with('/'),
        Some(TemplatePart::Placeholder(placeholder)) => {
            matches!(placeholder, Placeholder::Path | Placeholder::Uri | Placeholder::AskedUri)
        }
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
