//! Where clients are sent instead of being answered: to HTTPS, to the root of an application, elsewhere.

use super::Annotations;
use super::variables::object_text;
use crate::manner::{Manner, ManneredRedirect, ToHttps};
use crate::object_text::{ObjectPart, ObjectText};
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
    manner.names_port = annotations.switch("use-port-in-redirects") == Some(true);
    // A slash at the end of a path stays in any case.
    annotations.switch("preserve-trailing-slash");
    let is_relative = annotations.switch("relative-redirects") == Some(true);
    let temporal = redirect(annotations, "temporal-redirect", "temporal-redirect-code", 302);
    let permanent = redirect(annotations, "permanent-redirect", "permanent-redirect-code", 301);
    manner.redirect = temporal.or(permanent).map(|redirect| if is_relative { redirect } else { with_origin(redirect) });
}

/// Of a path, with the host that was asked for in front of it.
fn with_origin(redirect: ManneredRedirect) -> ManneredRedirect {
    if !is_path(&redirect.to) {
        return redirect;
    }
    let separator = TemplatePart::Literal("://".to_owned());
    let [scheme, host] = [Placeholder::Scheme, Placeholder::Host].map(TemplatePart::Placeholder);
    let origin = [scheme, separator, host].map(ObjectPart::Template);
    let to = ObjectText::new(origin.into_iter().chain(redirect.to.parts().iter().cloned()).collect());
    ManneredRedirect { to, ..redirect }
}

fn redirect(annotations: &mut Annotations<'_>, name: &str, code: &str, usual: u16) -> Option<ManneredRedirect> {
    let text = annotations.text(name)?;
    // ingress-nginx looks at the scheme of temporal ones alone.
    let may_be_path = usual == 301;
    let to = match object_text(text, annotations.key, false) {
        Ok(to) if (starts_well(&to.at(None)) || may_be_path && is_path(&to)) && is_usable(&to.at(None)) => to,
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

fn is_path(to: &ObjectText) -> bool {
    let Some(ObjectPart::Template(TemplatePart::Literal(text))) = to.parts().first() else { return false };
    text.starts_with('/') && !text.starts_with("//")
}

pub fn is_usable(to: &Template) -> bool {
    let is_control = |part: &TemplatePart| match part {
        TemplatePart::Literal(text) => text.chars().any(|c| c.is_control() || c == ' '),
        TemplatePart::Placeholder(_) | TemplatePart::Capture(_) => false,
    };
    !to.parts.iter().any(is_control) && !to.has_dot_segments()
}
