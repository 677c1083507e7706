//! Which pages of other origins may read answers.

use super::{Annotations, is_token, listed};
use crate::manner::Manner;
use std::time::Duration;
use tidegate_model::Step;
use tidegate_model::cors::{Cors, OriginPattern, Origins};

/// What ingress-nginx has where nothing is said.
const METHODS: &str = "GET, PUT, POST, DELETE, PATCH, OPTIONS";
const HEADERS: &str =
    "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization";
/// ingress-nginx has 20 days. No browser remembers anything for longer than one.
const MAX_AGE: Duration = Duration::from_hours(24);
/// Each is compared with the origin of a request.
const NAMES_MAX: usize = 100;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    if annotations.switch("enable-cors") != Some(true) {
        return;
    }
    let Some(origins) = origins(annotations) else { return };
    let credentials = annotations.switch("cors-allow-credentials").unwrap_or(true);
    let max_age = annotations.text("cors-max-age").map_or(Some(MAX_AGE), |text| text.parse().map(Duration::from_secs).ok());
    let max_age = max_age.unwrap_or_else(|| {
        annotations.leave_out("cors-max-age", "it is a number of seconds");
        MAX_AGE
    });
    let max_age = max_age.min(MAX_AGE);
    let cors = Cors {
        // Browsers refuse credentials for everybody, whatever stands beside it.
        credentials: credentials && origins != Origins::Any,
        origins,
        methods: names(annotations, "cors-allow-methods", METHODS),
        headers: Some(names(annotations, "cors-allow-headers", HEADERS)),
        exposed: names(annotations, "cors-expose-headers", ""),
        max_age,
        private_network: false,
    };
    manner.steps.push(Step::Cors(cors));
}

fn names(annotations: &mut Annotations<'_>, name: &str, usual: &str) -> Vec<String> {
    let written = annotations.text(name).unwrap_or(usual);
    if listed(written).all(is_token) && listed(written).count() <= NAMES_MAX {
        return listed(written).map(str::to_owned).collect();
    }
    annotations.leave_out(name, "it is a list of names, with commas between them");
    listed(usual).map(str::to_owned).collect()
}

/// `None`: what is written cannot be used, and no page may read anything.
fn origins(annotations: &mut Annotations<'_>) -> Option<Origins> {
    const NAME: &str = "cors-allow-origin";
    let written = annotations.text(NAME).unwrap_or("*");
    if listed(written).any(|origin| origin == "*") {
        return Some(Origins::Any);
    }
    let patterns: Option<Vec<OriginPattern>> = listed(written).map(origin).collect();
    let patterns = patterns.filter(|patterns| !patterns.is_empty() && patterns.len() <= NAMES_MAX);
    if patterns.is_none() {
        annotations.leave_out(
            NAME,
            "origins are written as `https://app.example.com` or `https://*.example.com`, with commas between them",
        );
    }
    patterns.map(Origins::Listed)
}

fn origin(text: &str) -> Option<OriginPattern> {
    let origin = text.to_ascii_lowercase();
    let (scheme, host) = origin.split_once("://")?;
    let host = match scheme {
        // Browsers leave out the port that belongs to the scheme.
        "https" => host.strip_suffix(":443").unwrap_or(host),
        "http" => host.strip_suffix(":80").unwrap_or(host),
        _ => host,
    };
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let is_host =
        |host: &str| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    match host.strip_prefix("*.") {
        Some(below) if is_scheme && is_host(below) => {
            Some(OriginPattern::Below { start: format!("{scheme}://"), end: format!(".{below}") })
        }
        None if is_scheme && is_host(host) => Some(OriginPattern::Exact(format!("{scheme}://{host}"))),
        Some(_) | None => None,
    }
}
