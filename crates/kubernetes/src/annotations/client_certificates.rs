//! Which certificates clients have to show. What cannot be had shuts: it would let in everybody.

use super::Annotations;
use super::redirects::is_usable;
use super::variables::template;
use crate::clients::{ClientDemand, MannerClients};
use crate::manner::Manner;
use tidegate_model::{Template, TemplatePart, expression};

/// Compared for each request.
const SUBJECT_BYTES_MAX: usize = 1000;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    const DEMAND: &str = "auth-tls-verify-client";
    let demand = match annotations.text(DEMAND) {
        None | Some("on") => ClientDemand::Required,
        Some("optional") => ClientDemand::Optional,
        Some("optional_no_ca") => ClientDemand::Unverified,
        Some("off") => {
            if annotations.text("auth-tls-match-cn").is_some() {
                annotations.shut(
                    "auth-tls-match-cn",
                    "nobody shows a certificate where `auth-tls-verify-client` is `off`: remove one of them",
                );
            }
            return;
        }
        Some(_) => {
            return annotations
                .shut(DEMAND, "it is `on`, `optional`, `optional_no_ca` or `off`: write one of them, or remove it");
        }
    };
    let Ok(secret) = annotations.secret("auth-tls-secret") else { return };
    let Some(secret) = secret else {
        for name in [DEMAND, "auth-tls-match-cn"] {
            if annotations.text(name).is_some() {
                annotations.shut(name, "no Secret has the authority of clients: name one by `auth-tls-secret`, or remove it");
            }
        }
        return;
    };
    let Ok(subject) = subject(annotations) else { return };
    manner.clients = Some(MannerClients { secret, demand, subject, error_page: error_page(annotations) });
}

fn subject(annotations: &mut Annotations<'_>) -> Result<Option<Box<str>>, ()> {
    const NAME: &str = "auth-tls-match-cn";
    let Some(text) = annotations.text(NAME) else { return Ok(None) };
    if text.len() <= SUBJECT_BYTES_MAX && expression(text).build().is_ok() {
        return Ok(Some(text.into()));
    }
    let problem = format!(
        "it is no expression that can be had, of at most {SUBJECT_BYTES_MAX} bytes: look-around and back-references are not"
    );
    annotations.shut(NAME, &problem);
    Err(())
}

fn error_page(annotations: &mut Annotations<'_>) -> Option<Template> {
    const NAME: &str = "auth-tls-error-page";
    let text = annotations.text(NAME)?;
    let problem = match template(text, annotations.key, false) {
        Ok(to) if is_url(&to) => return Some(to),
        Ok(_) => "it is a URL, as in `https://example.com/certificates`".to_owned(),
        Err(variable) => format!("the variable `{variable}` is not known"),
    };
    annotations.leave_out(NAME, &problem);
    None
}

fn is_url(to: &Template) -> bool {
    let begins = match to.parts.first() {
        Some(TemplatePart::Literal(text)) => text.starts_with("http://") || text.starts_with("https://"),
        Some(TemplatePart::Placeholder(_) | TemplatePart::Capture(_)) | None => false,
    };
    begins && is_usable(to)
}
