//! Who may ask, by name and password. What cannot be had shuts: it would let in everybody.

use super::{Annotations, shortened};
use crate::finding::{FindingCode, Severity};
use crate::manner::{Manner, MannerAuth, UsersForm};
use tidegate_model::BasicAuth;

/// The longest: it stands in each refusal.
const REALM_BYTES_MAX: usize = 200;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    match annotations.text("auth-type") {
        None => {
            if annotations.text("auth-secret").is_some() {
                let message =
                    "without `auth-type` nobody is asked who that is, as by ingress-nginx: add `auth-type: basic`, or remove it";
                annotations.find("auth-secret", FindingCode::AnnotationNotTaken, Severity::Warning, message.to_owned());
            }
            return;
        }
        Some("basic") => {}
        Some(other) => {
            let other = shortened(other);
            return annotations.shut("auth-type", &format!("`{other}` is not taken, only `basic` is: write that, or remove it"));
        }
    }
    let form = match annotations.text("auth-secret-type") {
        None | Some("auth-file") => UsersForm::File,
        Some("auth-map") => UsersForm::Map,
        Some(_) => {
            return annotations.shut("auth-secret-type", "it is `auth-file` or `auth-map`: write one of them, or remove it");
        }
    };
    let Ok(secret) = annotations.secret("auth-secret") else { return };
    let Some(secret) = secret else {
        return annotations.shut("auth-type", "no Secret has the users: name one by `auth-secret`, or remove it");
    };
    let realm = annotations.text("auth-realm").unwrap_or(BasicAuth::REALM);
    let is_usable = realm.len() <= REALM_BYTES_MAX && !realm.chars().any(char::is_control);
    if !is_usable {
        annotations.leave_out("auth-realm", &format!("it is a name of at most {REALM_BYTES_MAX} bytes on one line"));
    }
    let realm = if is_usable { realm } else { BasicAuth::REALM }.to_owned();
    manner.auth = Some(MannerAuth { secret, form, realm });
}
