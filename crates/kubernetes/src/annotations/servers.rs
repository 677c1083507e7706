//! Who servers are: by which authority they are verified, and what is shown to them. What cannot be had shuts: requests
//! would go to anybody.

use super::Annotations;
use crate::manner::Manner;
use tidegate_model::HostPattern;
use tidegate_model::address::parse_host_pattern;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    let verify = verify(annotations);
    let Ok(secret) = annotations.secret("proxy-ssl-secret") else { return };
    if verify == Some(true) && secret.is_none() {
        annotations.shut(
            "proxy-ssl-verify",
            "no Secret has the authority that servers are verified by: name one whose `ca.crt` has it by `proxy-ssl-secret`",
        );
    }
    let tls = &mut manner.pool.tls;
    (tls.verify, tls.secret) = (verify, secret);
    tls.name = name(annotations, verify == Some(true));
}

fn verify(annotations: &mut Annotations<'_>) -> Option<bool> {
    const NAME: &str = "proxy-ssl-verify";
    match annotations.text(NAME)? {
        "on" => Some(true),
        "off" => Some(false),
        // No word of nginx, and nothing is asked for by it.
        "false" => {
            annotations.leave_out(NAME, "it is `on` or `off`, and `off` without it");
            Some(false)
        }
        _ => {
            annotations.shut(NAME, "it is `on` or `off`: write one of them, or remove it");
            None
        }
    }
}

fn name(annotations: &mut Annotations<'_>, is_verified: bool) -> Option<Box<str>> {
    const NAME: &str = "proxy-ssl-name";
    let written = annotations.text(NAME)?;
    if let Ok(HostPattern::Exact(name)) = parse_host_pattern(written) {
        return Some(name.into());
    }
    let problem = "it is the name of a host, as in `api.example.com`";
    if is_verified {
        annotations.shut(NAME, &format!("{problem}: write one, or remove it"));
    } else {
        annotations.leave_out(NAME, problem);
    }
    None
}
