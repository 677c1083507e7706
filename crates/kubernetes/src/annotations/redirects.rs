//! Where clients are sent instead of being answered: to HTTPS, to the root of an application, elsewhere.

use super::Annotations;
use super::variables::template;
use crate::manner::{Manner, ManneredRedirect, ToHttps};
use tidegate_model::{Placeholder, Template, TemplatePart};

const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    let is_wanted = annotations.switch("ssl-redirect");
    let is_forced = annotations.switch("force-ssl-redirect");
    manner.to_https = match (is_forced, is_wanted) {
        (Some(true), _) => ToHttps::Always,
        (Some(false) | None, Some(false)) => ToHttps::Never,
        (Some(false) | None, Some(true) | None) => ToHttps::WhereTls,
    };
    manner.app_root = annotations.text("app-root").and_then(|path| {
        if path.starts_with('/') && !path.starts_with("//") && is_usable(&Template::literal(path)) {
            return Some(Template::literal(path));
        }
        annotations.leave_out("app-root", "it is a path, as in `/app`");
        None
    });
    let temporal = redirect(annotations, "temporal-redirect", "temporal-redirect-code", 302);
    let permanent = redirect(annotations, "permanent-redirect", "permanent-redirect-code", 301);
    manner.redirect = temporal.or(permanent);
}

fn redirect(annotations: &mut Annotations<'_>, name: &str, code: &str, usual: u16) -> Option<ManneredRedirect> {
    let text = annotations.text(name)?;
    let to = match template(text, false) {
        Ok(to) if starts_well(&to) && is_usable(&to) => to,
        Ok(_) => {
            annotations.leave_out(name, "it is a URL, as in `https://example.com/`");
            return None;
        }
        Err(variable) => {
            annotations.leave_out(name, &format!("the variable `{variable}` is not known"));
            return None;
        }
    };
    let status = annotations.text(code).map_or(Some(usual), |text| text.parse().ok().filter(|code| STATUSES.contains(code)));
    let status = status.unwrap_or_else(|| {
        annotations.leave_out(code, &format!("it is 301, 302, 303, 307 or 308, and {usual} without it"));
        usual
    });
    Some(ManneredRedirect { to, status })
}

/// Whether it leads to a host by HTTP.
pub fn starts_well(to: &Template) -> bool {
    match to.parts.first() {
        Some(TemplatePart::Literal(text)) => text.starts_with("http://") || text.starts_with("https://"),
        Some(TemplatePart::Placeholder(placeholder)) => *placeholder == Placeholder::Scheme,
        Some(TemplatePart::Capture(_)) | None => false,
    }
}

pub fn is_usable(to: &Template) -> bool {
    let is_control = |part: &TemplatePart| match part {
        TemplatePart::Literal(text) => text.chars().any(|c| c.is_control() || c == ' '),
        TemplatePart::Placeholder(_) | TemplatePart::Capture(_) => false,
    };
    !to.parts.iter().any(is_control) && !to.has_dot_segments()
}
