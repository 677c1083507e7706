//! How a server is chosen, and how clients stay with theirs.

use super::variables::object_text;
use super::{Annotations, is_token, units};
use crate::manner::Manner;
use crate::pool_manner::{MannerBalance, MannerSticky};
use tidegate_model::address::parse_host_pattern;
use tidegate_model::{CookieSecure, HostPattern, SameSite};

/// The name that ingress-nginx gives to its cookie.
const COOKIE: &str = "INGRESSCOOKIE";
const COOKIE_BYTES_MAX: usize = 64;
const PATH_BYTES_MAX: usize = 256;
/// Browsers keep no cookie for longer.
const MAX_AGE_SECONDS_MAX: u64 = 400 * 86_400;
/// What is made anew for each request.
const HASHED_BYTES_MAX: usize = 512;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    manner.pool.is_by_service = annotations.switch("service-upstream") == Some(true);
    let of_word = of_word(annotations);
    manner.pool.balance = hashed(annotations).or(of_word).unwrap_or_default();
    manner.pool.sticky = sticky(annotations);
}

fn of_word(annotations: &mut Annotations<'_>) -> Option<MannerBalance> {
    const NAME: &str = "load-balance";
    match annotations.text(NAME)? {
        "round_robin" => Some(MannerBalance::RoundRobin),
        "ewma" => Some(MannerBalance::Ewma),
        "ip_hash" => Some(MannerBalance::Hash("$remote_addr".into())),
        _ => {
            annotations.leave_out(NAME, "it is `round_robin`, `ewma` or `ip_hash`");
            None
        }
    }
}

fn hashed(annotations: &mut Annotations<'_>) -> Option<MannerBalance> {
    const NAME: &str = "upstream-hash-by";
    let text = annotations.text(NAME)?;
    let problem = match object_text(text, annotations.key, false) {
        _ if text.len() > HASHED_BYTES_MAX => format!("it is longer than {HASHED_BYTES_MAX} bytes"),
        _ if text.chars().any(char::is_control) => "there are control characters in it".to_owned(),
        Ok(_) => return Some(MannerBalance::Hash(text.into())),
        Err(variable) => format!("the variable `{variable}` is not known"),
    };
    annotations.leave_out(NAME, &problem);
    None
}

fn sticky(annotations: &mut Annotations<'_>) -> Option<MannerSticky> {
    match annotations.text("affinity")? {
        "cookie" => {}
        _ => {
            annotations.leave_out("affinity", "it is `cookie`");
            return None;
        }
    }
    if !matches!(annotations.text("affinity-mode"), None | Some("balanced" | "persistent")) {
        annotations.leave_out("affinity-mode", "it is `balanced` or `persistent`");
    }
    let cookie = cookie(annotations);
    let has_prefix = |prefix: &str| cookie.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    // What browsers ask of cookies with such names (RFC 6265bis section 4.1.3).
    let is_of_host = has_prefix("__Host-");
    let is_secure = is_of_host || has_prefix("__Secure-");
    let path = if is_of_host { Some("/".into()) } else { path(annotations) };
    let domain = domain(annotations).filter(|_| !is_of_host);
    let same_site = same_site(annotations).unwrap_or_default();
    let secure = match annotations.switch("session-cookie-secure") {
        Some(true) => CookieSecure::Always,
        Some(false) if !is_secure && same_site != SameSite::None => CookieSecure::Never,
        Some(false) | None => CookieSecure::OverTls,
    };
    let max_age = seconds(annotations, "session-cookie-max-age");
    let expires = seconds(annotations, "session-cookie-expires");
    Some(MannerSticky {
        path,
        domain,
        max_age_seconds: max_age.or(expires),
        same_site,
        secure,
        change_on_failure: annotations.switch("session-cookie-change-on-failure") == Some(true),
        cookie: cookie.into(),
    })
}

fn cookie<'i>(annotations: &mut Annotations<'i>) -> &'i str {
    const NAME: &str = "session-cookie-name";
    let written = annotations.text(NAME).unwrap_or(COOKIE);
    if is_token(written) && written.len() <= COOKIE_BYTES_MAX {
        return written;
    }
    annotations.leave_out(NAME, &format!("a cookie is called by letters, digits, `-` and `_`, at most {COOKIE_BYTES_MAX}"));
    COOKIE
}

fn path(annotations: &mut Annotations<'_>) -> Option<Box<str>> {
    const NAME: &str = "session-cookie-path";
    let written = annotations.text(NAME)?;
    let is_odd = |c: char| c.is_control() || c == ';' || c == ',' || !c.is_ascii();
    if written.starts_with('/') && !written.contains(is_odd) && written.len() <= PATH_BYTES_MAX {
        return Some(written.into());
    }
    annotations.leave_out(NAME, "it is a path, as in `/shop`");
    None
}

fn domain(annotations: &mut Annotations<'_>) -> Option<Box<str>> {
    const NAME: &str = "session-cookie-domain";
    let written = annotations.text(NAME)?;
    match parse_host_pattern(written.strip_prefix('.').unwrap_or(written)) {
        Ok(HostPattern::Exact(domain)) => Some(domain.into()),
        Ok(
            HostPattern::Any
            | HostPattern::Wildcard(_)
            | HostPattern::DeepWildcard(_)
            | HostPattern::Ip(_)
            | HostPattern::Socket(_),
        )
        | Err(_) => {
            annotations.leave_out(NAME, "it is a domain, as in `example.com`");
            None
        }
    }
}

fn same_site(annotations: &mut Annotations<'_>) -> Option<SameSite> {
    const NAME: &str = "session-cookie-samesite";
    let written = annotations.text(NAME)?.to_ascii_lowercase();
    let known = SameSite::NAMES.iter().find(|(name, _)| *name == written).map(|(_, same_site)| *same_site);
    if known.is_none() {
        annotations.leave_out(NAME, "it is `Lax`, `Strict` or `None`");
    }
    known
}

fn seconds(annotations: &mut Annotations<'_>, name: &str) -> Option<u64> {
    let seconds = units::seconds(annotations.text(name)?).filter(|seconds| *seconds > 0);
    if seconds.is_none() {
        annotations.leave_out(name, "it is a number of seconds");
    }
    seconds.map(|seconds| seconds.min(MAX_AGE_SECONDS_MAX))
}
