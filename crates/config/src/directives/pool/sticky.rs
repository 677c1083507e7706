//! `sticky`: how a client stays with the server that it had, and what its cookie is like.

use super::PoolDraft;
use crate::diagnostics::{Diagnostic, shortened};
use crate::directives::oidc;
use crate::forms::is_token;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::table::{Kind, Place, Property};
use crate::written_line::{Writer, duration, name_of};
use std::time::Duration;
use tidegate_model::{CookieSecure, SameSite, Secret, Sticky};

pub static STICKY: Directive = Directive {
    name: "sticky",
    places: &[Place::Pool],
    properties: &[
        Property::once("cookie", Kind::Text("the name of a cookie"), "The cookie's name; `tg_route` when left out."),
        Property::once(
            "secret",
            Kind::Secret("at least 16 characters"),
            "What cookies are signed with, the same for several proxies. Best from a file or the environment.",
        ),
        Property::once(
            "max-age",
            Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(400 * 86_400) },
            "How long the client keeps it, in whole seconds; as long as its session when left out.",
        ),
        Property::once(
            "path",
            Kind::Text("a path"),
            "Clients send the cookie with this path and those beneath; `/`, which is with all of them, when left out.",
        ),
        Property::once(
            "domain",
            Kind::Text("a domain"),
            "Clients send the cookie to all hosts of this domain; to the one that they have asked when left out.",
        ),
        Property::once(
            "same-site",
            Kind::Choice(&["lax", "strict", "none"]),
            "Whether browsers send it with what a page of another site asks for: when that opens a page (`lax`, the default), never, or always \
             (`none`, as a page in a frame needs it).",
        ),
        Property::once(
            "secure",
            Kind::Choice(&["auto", "on", "off"]),
            "Whether the cookie is for TLS alone: `auto`, the default, makes it so when the client has asked over TLS, and `on` also when TLS ends \
             in front of this proxy.",
        ),
        Property::once(
            "change-on-failure",
            Kind::Switch,
            "Whether a client whose server failed belongs to the one that answered instead; on when left out. Off, it comes back to its own \
             server as soon as that can be used, for sessions that only this one has.",
        ),
    ],
    summary: "A client stays with the server that it had, by a cookie.",
    details: "The first answer sets a signed cookie that names the server without telling its address. Its requests then go to that server as long as it \
              can be used, also when it gets no others because it is drained; when it is gone, another is chosen and the cookie set anew. Other changes of the \
              pool, a reload and a restart leave clients where they are. Scripts never see the cookie (`HttpOnly`).\n\n\
              Without `secret=` the process makes one and keeps it in its state folder.",
    default: "clients are not bound to servers",
    example: "server \"10.0.0.5:8080\"\nserver \"10.0.0.6:8080\"\nsticky cookie=\"tg_route\" max-age=\"1h\"",
    lower: Lower::Pool(lower),
    said_otherwise: &[(
        &["expires"],
        "how long a client keeps it is `max-age=`, as in `sticky max-age=\"1h\"`: every browser goes by it before `Expires`",
    )],
    ..Directive::PLAIN
};

const COOKIE_CHARS_MAX: usize = 64;
const PATH_CHARS_MAX: usize = 256;
/// Shorter ones can be tried out, with any cookie at hand.
const SECRET_BYTES_MIN: usize = 16;

fn lower(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    let cookie = match line.property("cookie") {
        None => Some(Sticky::COOKIE.to_owned()),
        Some(_) => line.text(lowering, "cookie").and_then(|text| cookie_name(lowering, text)),
    };
    let secret = line.text(lowering, "secret").and_then(|text| secret(lowering, &text));
    let max_age = line.duration(lowering, "max-age");
    if let (Some(max_age), Some(value)) = (max_age, line.property("max-age"))
        && max_age.subsec_millis() > 0
    {
        let diagnostic = Diagnostic::error("wrong-unit", value.location.clone(), "`max-age=` is in whole seconds");
        lowering.report(diagnostic.help(format!("write `\"{}s\"`", max_age.as_secs())));
    }
    let path = line.text(lowering, "path").and_then(|text| cookie_path(lowering, text));
    let domain = line.property("domain").and_then(|_| oidc::cookie_domain(lowering, line));
    let same_site = choice(lowering, line, "same-site", SameSite::NAMES);
    let secure = choice(lowering, line, "secure", CookieSecure::NAMES);
    let change_on_failure = line.switch(lowering, "change-on-failure").unwrap_or(true);
    let Some(cookie) = cookie else { return };
    let sticky = Sticky {
        cookie,
        secret,
        max_age_seconds: max_age.map(|age| age.as_secs()),
        path: path.unwrap_or_else(|| Sticky::PATH.to_owned()),
        domain,
        same_site,
        secure,
        change_on_failure,
    };
    check_browsers(lowering, line, &sticky);
    draft.pool.sticky = Some(sticky);
}

/// RFC 6265bis sections 4.1.3 and 5.6: what no browser would keep.
fn check_browsers(lowering: &mut Lowering<'_>, line: &Line<'_>, sticky: &Sticky) {
    let refused = |lowering: &mut Lowering<'_>, at: &str, message: &str, help: &str| {
        let place = line.property(at).map_or_else(|| line.location(), |value| value.location.clone());
        lowering.report(Diagnostic::error("refused-cookie", place, message.to_owned()).help(help.to_owned()));
    };
    let is_never_secure = sticky.secure == CookieSecure::Never;
    if sticky.same_site == SameSite::None && is_never_secure {
        let message = "browsers keep no cookie with `same-site=\"none\"` that is not for TLS alone";
        refused(lowering, "secure", message, "leave `secure=` out");
    }
    let has_prefix = |prefix: &str| sticky.cookie.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let is_of_host = has_prefix("__Host-");
    if (is_of_host || has_prefix("__Secure-")) && is_never_secure {
        let message = "browsers keep no cookie of this name that is not for TLS alone";
        refused(lowering, "secure", message, "leave `secure=` out, or give the cookie another name");
    }
    if is_of_host && sticky.domain.is_some() {
        let message = "browsers keep no cookie whose name begins with `__Host-` and that has a domain";
        refused(lowering, "domain", message, "leave `domain=` out, or give the cookie another name");
    }
    if is_of_host && sticky.path != Sticky::PATH {
        let message = "browsers keep a cookie whose name begins with `__Host-` for the path `/` alone";
        refused(lowering, "path", message, "leave `path=` out, or give the cookie another name");
    }
}

fn choice<T: Copy + Default>(lowering: &mut Lowering<'_>, line: &Line<'_>, name: &str, names: &[(&str, T)]) -> T {
    let word = line.read(lowering, name).map(crate::reading::Read::choice);
    word.and_then(|word| names.iter().find(|(name, _)| *name == word)).map(|(_, value)| *value).unwrap_or_default()
}

/// RFC 6265 section 4.1.1.
fn cookie_name(lowering: &mut Lowering<'_>, text: Text) -> Option<String> {
    if is_token(&text.value) && text.value.len() <= COOKIE_CHARS_MAX {
        return Some(text.value);
    }
    let message = format!("`{}` cannot be the name of a cookie", shortened(&text.value));
    let help = format!("a name has letters, digits, `-`, `_` and `.`, at most {COOKIE_CHARS_MAX} of them");
    lowering.refuse(text.error("bad-name", message).help(help))
}

/// RFC 6265 section 4.1.1: what would end it, or is not the beginning of a path, is none.
fn cookie_path(lowering: &mut Lowering<'_>, text: Text) -> Option<String> {
    let is_whole = text.value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';');
    if text.value.starts_with('/') && is_whole && text.value.len() <= PATH_CHARS_MAX {
        return Some(text.value);
    }
    let message = format!("`{}` is not a path that a cookie can be for", shortened(text.shown()));
    let help = format!(
        "a path begins with `/`, is percent-encoded, and has no `;` and at most {PATH_CHARS_MAX} characters, as in `path=\"/app\"`"
    );
    lowering.refuse(text.error("bad-value", message).help(help))
}

fn secret(lowering: &mut Lowering<'_>, text: &Text) -> Option<Secret> {
    // As it comes from a file, with the line end that editors put there.
    let value = text.value.trim_end_matches(['\r', '\n']);
    if value.len() < SECRET_BYTES_MIN {
        let message = format!("a secret has at least {SECRET_BYTES_MIN} bytes");
        return lowering.refuse(text.error("bad-secret", message).help("for example what `openssl rand -hex 32` prints"));
    }
    Some(Secret::new(value))
}

pub fn write(line: &mut Writer, sticky: &Sticky) {
    let Sticky { cookie, secret, max_age_seconds, path, domain, same_site, secure, change_on_failure } = sticky;
    line.name("sticky").property("cookie", cookie);
    line.secret_property("secret", secret.as_ref());
    line.optional("max-age", max_age_seconds.map(|seconds| duration(&Duration::from_secs(seconds))));
    line.unless(&Sticky::PATH, "path", &path.as_str(), ToString::to_string);
    line.optional("domain", domain.as_ref());
    line.unless(&SameSite::default(), "same-site", same_site, |kind| name_of(SameSite::NAMES, kind));
    line.unless(&CookieSecure::default(), "secure", secure, |kind| name_of(CookieSecure::NAMES, kind));
    line.switch_unless(true, "change-on-failure", *change_on_failure);
}
