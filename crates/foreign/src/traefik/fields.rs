//! The `headers` middleware of Traefik: fields, what browsers are told for safety, and pages of other origins.

use super::middlewares::without_braces;
use crate::accounts::Origin;
use crate::outline::is_plain;
use crate::tree::Tree;
use tidegate_kdl::quoted;
use tidegate_model::is_of_framing;

pub fn of(said: &Tree, origin: &mut Origin, steps: &mut Vec<String>) {
    for (word, ours) in [("customRequestHeaders", "request-header"), ("customResponseHeaders", "header")] {
        for (name, value) in said.get(word).entries() {
            if let Some(line) = field(ours, name, value) {
                steps.push(line);
                origin.carry_all(value.statements());
                origin.carry(value.start());
            }
        }
    }
    secured(said, origin, steps);
    cors(said, origin, steps);
}

/// An empty value takes the field away.
fn field(word: &str, name: &str, value: &Tree) -> Option<String> {
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !is_name || is_of_framing(name) {
        return None;
    }
    match value.text() {
        None | Some("") => (!name.eq_ignore_ascii_case("host")).then(|| format!("{word} remove={}", quoted(name))),
        Some(text) => Some(format!("{word} {} {}", quoted(name), quoted(&without_braces(text)))),
    }
}

/// Words that are one field each.
fn secured(said: &Tree, origin: &mut Origin, steps: &mut Vec<String>) {
    let is_on = |word: &str| said.get(word).is_true();
    let mut set = |words: &[&str], name: &str, value: &str| {
        steps.push(format!("header {} {}", quoted(name), quoted(&without_braces(value))));
        for word in words {
            origin.carry_all(said.get(word).statements());
        }
    };
    if let Some(seconds) = said.get("stsSeconds").number().filter(|seconds| *seconds > 0) {
        let subdomains = if is_on("stsIncludeSubdomains") { "; includeSubDomains" } else { "" };
        let preload = if is_on("stsPreload") { "; preload" } else { "" };
        let value = format!("max-age={seconds}{subdomains}{preload}");
        set(&["stsSeconds", "stsIncludeSubdomains", "stsPreload", "forceSTSHeader"], "Strict-Transport-Security", &value);
    } else {
        for word in &["stsSeconds", "stsIncludeSubdomains", "stsPreload", "forceSTSHeader"] {
            origin.carry_all(said.get(word).statements());
        }
    }
    let mut set = |words: &[&str], name: &str, value: &str| {
        steps.push(format!("header {} {}", quoted(name), quoted(&without_braces(value))));
        for word in words {
            origin.carry_all(said.get(word).statements());
        }
    };
    match said.get("customFrameOptionsValue").text() {
        Some(value) => set(&["customFrameOptionsValue", "frameDeny"], "X-Frame-Options", value),
        None if is_on("frameDeny") => set(&["frameDeny"], "X-Frame-Options", "DENY"),
        None => {}
    }
    if is_on("contentTypeNosniff") {
        set(&["contentTypeNosniff"], "X-Content-Type-Options", "nosniff");
    }
    match said.get("customBrowserXSSValue").text() {
        Some(value) => set(&["customBrowserXSSValue", "browserXssFilter"], "X-XSS-Protection", value),
        None if is_on("browserXssFilter") => set(&["browserXssFilter"], "X-XSS-Protection", "1; mode=block"),
        None => {}
    }
    for (word, name) in [
        ("contentSecurityPolicy", "Content-Security-Policy"),
        ("contentSecurityPolicyReportOnly", "Content-Security-Policy-Report-Only"),
        ("referrerPolicy", "Referrer-Policy"),
        ("permissionsPolicy", "Permissions-Policy"),
        ("featurePolicy", "Feature-Policy"),
        ("publicKey", "Public-Key-Pins"),
    ] {
        if let Some(value) = said.get(word).text().filter(|value| !value.is_empty()) {
            set(&[word], name, value);
        }
    }
    // What is off says nothing, and sending plain HTTP on is the site's.
    for word in ["frameDeny", "contentTypeNosniff", "browserXssFilter", "isDevelopment"] {
        let value = said.get(word);
        if value.text() == Some("false") {
            origin.carry_all(value.statements());
        }
    }
    for word in ["sslRedirect", "sslTemporaryRedirect", "sslHost", "sslForceHost", "sslProxyHeaders", "hostsProxyHeaders"] {
        for at in said.get(word).statements() {
            origin.differ(
                at,
                "a site sends plain HTTP to HTTPS, and a proxy in front is believed where `trusted-proxies` names it",
            );
        }
    }
}

/// Pages of other origins.
fn cors(said: &Tree, origin: &mut Origin, steps: &mut Vec<String>) {
    const WORDS: [&str; 7] = [
        "accessControlAllowCredentials",
        "accessControlAllowHeaders",
        "accessControlAllowMethods",
        "accessControlAllowOriginList",
        "accessControlExposeHeaders",
        "accessControlMaxAge",
        "addVaryHeader",
    ];
    let texts = |word: &str| said.get(word).texts();
    let origins = texts("accessControlAllowOriginList");
    let is_origin = |text: &String| text == "*" || text == "null" || (text.contains("://") && is_plain(text));
    let credentials = said.get("accessControlAllowCredentials").is_true();
    let is_all = origins.iter().any(|text| text == "*");
    if origins.is_empty()
        || !origins.iter().all(is_origin)
        || (credentials && is_all)
        || said.has("accessControlAllowOriginListRegex")
    {
        return;
    }
    let mut line = format!("cors origins={}", quoted(&origins.join(",")));
    let methods: Vec<String> =
        texts("accessControlAllowMethods").into_iter().filter(|method| method.chars().all(|c| c.is_ascii_alphabetic())).collect();
    if !methods.is_empty() {
        line.push_str(&format!(" methods={}", quoted(&methods.join(","))));
    }
    for (word, ours) in [("accessControlAllowHeaders", "headers"), ("accessControlExposeHeaders", "expose")] {
        let names = texts(word);
        if !names.is_empty() && !names.iter().any(|name| name == "*") {
            line.push_str(&format!(" {ours}={}", quoted(&names.join(","))));
        }
    }
    if credentials {
        line.push_str(" credentials=#true");
    }
    if let Some(seconds) = said.get("accessControlMaxAge").number().filter(|seconds| *seconds <= 86_400) {
        line.push_str(&format!(" max-age=\"{seconds}s\""));
    }
    steps.push(line);
    for word in &WORDS {
        origin.carry_all(said.get(word).statements());
    }
}
