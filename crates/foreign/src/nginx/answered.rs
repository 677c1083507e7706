//! What a site of nginx answers, as far as it is told.

use super::request_uris::short;
use crate::accounts::Origin;
use crate::outline::{OutlinedAnswer, OutlinedRoute, OutlinedSite};

pub const NOT_TOLD: &str = "what answers there is not in these lines: it is refused with 403";

/// Whether a word is about who answers.
pub fn is_deciding(word: &str) -> bool {
    let is_of_answers =
        matches!(word, "return" | "rewrite" | "try_files" | "root" | "alias" | "stub_status" | "empty_gif" | "dav_methods");
    is_of_answers || word.ends_with("_pass") || word.starts_with("content_by_lua") || word == "js_content"
}

/// Whether anything but what could not be told is answered.
pub fn is_answered(site: &OutlinedSite) -> bool {
    let is_told = |origin: &Origin| !origin.differs.values().any(|how| how == NOT_TOLD);
    let is_left = |route: &OutlinedRoute| !route.answer.is_refusal() || is_told(&route.origin) && route.closed.is_none();
    let has_answer = site.answer.as_ref().is_some_and(|answer| !answer.is_refusal() || is_told(&site.answer_origin));
    has_answer || site.routes.iter().any(is_left)
}

/// Whether a site has only the redirect to HTTPS of its own names.
pub fn is_to_https(site: &OutlinedSite, hosts: &[String]) -> bool {
    let is_own = |answer: &OutlinedAnswer| match answer {
        OutlinedAnswer::Redirect { to, .. } => {
            let to = short(to);
            let single = if let [host] = hosts { format!("https://{host}{{uri}}") } else { String::new() };
            to == "https://{host}{uri}"
                || to == "https://{host}{path}"
                || to == single
                || to == single.replace("{uri}", "{path}") && !single.is_empty()
        }
        _ => false,
    };
    let answers = site.answer.iter().chain(site.routes.iter().map(|route| &route.answer));
    site.routes.iter().all(|route| is_own(&route.answer) || route.answer.is_refusal())
        && answers.clone().any(is_own)
        && site.answer.iter().all(|answer| is_own(answer) || answer.is_refusal())
        && site.addresses.iter().all(|address| !address.trim_start_matches("http://").contains(':') || address == "http://:80")
}

/// The refusal of all that it takes, where its expression looks ahead, which none here does: of more then.
pub fn without_looking(text: &str, at: usize, origin: &mut Origin) -> String {
    let Some((before, behind)) = text.split_once("(?!") else { return text.to_owned() };
    let Some((looked, behind)) = behind.split_once(')').filter(|(looked, _)| !looked.contains('(')) else {
        return text.to_owned();
    };
    origin.differ(at, format!("`{looked}` is refused too, since expressions do not look ahead here"));
    format!("{before}{behind}")
}
