//! `cors`: which pages of other origins may read answers.

use crate::diagnostics::{Diagnostic, shortened};
use crate::forms::is_token;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::table::{Kind, Place, Property, Repeat};
use crate::written_line::{Writer, duration, joined};
use std::time::Duration;
use tidegate_kdl::quoted;
use tidegate_model::{Cors, OriginPattern, Origins, Step};

pub static CORS: Directive = Directive {
    name: "cors",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    properties: &[
        Property::once(
            "origins",
            Kind::Text("origins, separated by commas"),
            "As `https://app.example.com`, `https://*.example.com` or `null`; `*` is all of them.",
        ),
        Property::once(
            "methods",
            Kind::Text("methods, separated by commas"),
            "What pages may do; `GET,HEAD,POST` when left out.",
        ),
        Property::once(
            "headers",
            Kind::Text("header names, separated by commas"),
            "Fields that requests may have; those that are asked for when left out.",
        ),
        Property::once(
            "expose",
            Kind::Text("header names, separated by commas"),
            "Fields of answers that scripts may read, beside the few that they always may.",
        ),
        Property::once("credentials", Kind::Switch, "Whether requests may have cookies and credentials; `#false` when left out."),
        Property::once(
            "max-age",
            Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(86_400) },
            "How long a browser may remember the answer; `10m` when left out.",
        ),
        Property::once(
            "private-network",
            Kind::Switch,
            "Whether pages of public networks may ask servers of private ones; `#false` when left out.",
        ),
    ],
    summary: "Lets pages of other origins read answers.",
    details: "The question that browsers ask beforehand (an `OPTIONS` with `Access-Control-Request-Method`) is answered here, with 204, before any other step; \
              none of them sees it, nor does the upstream. What the upstream says of other origins itself is replaced. `Vary: Origin` is set where the answer depends on it.\n\n\
              `origins=\"*\"` with credentials would let every page of the web act for your users, and is refused: list the origins.",
    default: "answers say nothing, and browsers keep other origins' pages from reading them",
    example: "cors origins=\"https://app.example.com\" methods=\"GET,POST\" credentials=#true max-age=\"1h\"",
    said_otherwise: &[
        (
            &["allow_origin", "allow_origin_string_match", "allowed_origins", "accessControlAllowOriginList", "origin"],
            "origins are `origins=`, as in `cors origins=\"https://app.example.com\"`",
        ),
        (
            &["allow_methods", "accessControlAllowMethods"],
            "methods are `methods=`, as in `cors origins=\"https://app.example.com\" methods=\"GET,POST\"`",
        ),
        (
            &["allow_headers", "accessControlAllowHeaders"],
            "fields are `headers=`, as in `cors origins=\"https://app.example.com\" headers=\"X-A\"`",
        ),
        (&["allow_credentials"], "it is `credentials=`, as in `cors origins=\"https://app.example.com\" credentials=#true`"),
    ],
    lower: Lower::Step(lower),
    ..Directive::PLAIN
};

/// Each is compared with the origin of every request.
const ORIGINS_MAX: usize = 1000;
const NAMES_MAX: usize = 100;

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    if line.argument(0).is_some() && line.property("origins").is_none() {
        let origins = line.written_arguments().join(",");
        return line.refuse_whole(
            lowering,
            "the origins whose pages may read answers stand in `origins=`",
            format!("write `cors origins={}`", quoted(&shortened(&origins))),
        );
    }
    let errors_before = lowering.diagnostics.len();
    let origins = match line.text(lowering, "origins") {
        Some(text) => Some(origins(lowering, &text)),
        None => {
            if line.property("origins").is_none() {
                let diagnostic = Diagnostic::error(
                    "missing-argument",
                    line.location(),
                    "`cors` needs the origins whose pages may read answers",
                );
                lowering.report(diagnostic.help("for example `cors origins=\"https://app.example.com\"`"));
            }
            None
        }
    };
    let methods =
        names(lowering, line, "methods").unwrap_or_else(|| Cors::METHODS.iter().map(|method| (*method).to_owned()).collect());
    let headers = names(lowering, line, "headers");
    let exposed = names(lowering, line, "expose").unwrap_or_default();
    let credentials = line.switch(lowering, "credentials").unwrap_or(false);
    let max_age = line.duration(lowering, "max-age").unwrap_or(Cors::MAX_AGE);
    let private_network = line.switch(lowering, "private-network").unwrap_or(false);
    if let (true, Some(Origins::Any), Some(value)) = (credentials, &origins, line.property("credentials")) {
        let message = "with `origins=\"*\"` every page of the web could act for your users";
        let diagnostic = Diagnostic::error("credentials-for-all", value.location.clone(), message);
        lowering
            .report(diagnostic.help("list the origins, as in `origins=\"https://app.example.com\"`, or remove `credentials=`"));
    }
    if lowering.has_errors_since(errors_before) {
        return None;
    }
    Some(Step::Cors(Cors { origins: origins?, methods, headers, exposed, credentials, max_age, private_network }))
}

fn names(lowering: &mut Lowering<'_>, line: &Line<'_>, property: &str) -> Option<Vec<String>> {
    let text = line.text(lowering, property)?;
    let names: Vec<String> = text.value.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    if let Some(wrong) = names.iter().find(|name| !is_token(name)) {
        let message = format!("`{}` cannot stand in `{property}=`", shortened(wrong));
        lowering.report(text.error("bad-value", message).help("names are separated by commas"));
    }
    if names.len() > NAMES_MAX {
        lowering.report(text.error("bad-value", format!("`{property}=` has more than {NAMES_MAX} names")));
    }
    Some(names)
}

fn origins(lowering: &mut Lowering<'_>, text: &Text) -> Origins {
    if text.value.trim() == "*" {
        return Origins::Any;
    }
    Origins::Listed(listed_origins(lowering, text))
}

/// Origins one by one.
pub fn listed_origins(lowering: &mut Lowering<'_>, text: &Text) -> Vec<OriginPattern> {
    let mut patterns = Vec::new();
    for origin in text.value.split(',').map(str::trim) {
        match parse_origin(origin) {
            Ok(pattern) => patterns.push(pattern),
            Err(help) => {
                let message = format!("`{}` is not an origin", shortened(origin));
                lowering.report(text.error("bad-origin", message).help(help));
            }
        }
    }
    if patterns.len() > ORIGINS_MAX {
        lowering.report(text.error("bad-origin", format!("there are more than {ORIGINS_MAX} origins")));
    }
    patterns
}

/// As it is written.
pub fn show_origin(pattern: &OriginPattern) -> String {
    match pattern {
        OriginPattern::Exact(origin) => origin.clone(),
        OriginPattern::Below { start, end } => format!("{start}*{end}"),
    }
}

/// `Err` is what to do.
fn parse_origin(text: &str) -> Result<OriginPattern, String> {
    if text == "null" {
        return Ok(OriginPattern::Exact(text.to_owned()));
    }
    if text == "*" {
        return Err("`*` is all origins, and stands alone".to_owned());
    }
    let origin = text.to_ascii_lowercase();
    let Some((scheme, host)) = origin.split_once("://") else {
        return Err(format!("write `https://{origin}`: an origin has a scheme"));
    };
    if let Some((host, _)) = host.split_once('/') {
        return Err(format!("write `{scheme}://{host}`: an origin has no path"));
    }
    let is_host =
        |host: &str| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let default_port = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => "\0",
    };
    if let Some(without) = host.strip_suffix(default_port) {
        return Err(format!("write `{scheme}://{without}`: browsers leave out the port that belongs to the scheme"));
    }
    match host.strip_prefix("*.") {
        Some(below) if is_scheme && is_host(below) => {
            Ok(OriginPattern::Below { start: format!("{scheme}://"), end: format!(".{below}") })
        }
        None if is_scheme && is_host(host) => Ok(OriginPattern::Exact(origin)),
        Some(_) | None => Err("for example `https://app.example.com` or `https://*.example.com`".to_owned()),
    }
}

pub fn write(line: &mut Writer, cors: &Cors) {
    let Cors { origins, methods, headers, exposed, credentials, max_age, private_network } = cors;
    let origins = match origins {
        Origins::Any => "*".to_owned(),
        Origins::Listed(patterns) => joined(patterns, show_origin),
    };
    line.name("cors").property("origins", origins).property("methods", methods.join(","));
    line.optional("headers", headers.as_ref().map(|headers| headers.join(",")));
    line.list("expose", exposed, String::clone);
    line.switch_unless(false, "credentials", *credentials).unless(&Cors::MAX_AGE, "max-age", max_age, duration);
    line.switch_unless(false, "private-network", *private_network);
}

#[cfg(test)]
mod tests {
    use super::parse_origin;
    use tidegate_model::OriginPattern;

    #[test]
    fn origins_are_as_browsers_send_them() {
        let check = |text: &str, expected: &str| {
            let seen = match parse_origin(text) {
                Ok(OriginPattern::Exact(origin)) => origin,
                Ok(OriginPattern::Below { start, end }) => format!("{start} … {end}"),
                Err(help) => format!("error: {help}"),
            };
            assert_eq!(seen, expected, "{text}");
        };
        check("https://App.test", "https://app.test");
        check("https://app.test:8443", "https://app.test:8443");
        check("http://[::1]:3000", "http://[::1]:3000");
        check("app://x", "app://x");
        check("null", "null");
        check("https://*.app.test", "https:// … .app.test");
        check("app.test", "error: write `https://app.test`: an origin has a scheme");
        check("https://app.test/", "error: write `https://app.test`: an origin has no path");
        check("https://app.test:443", "error: write `https://app.test`: browsers leave out the port that belongs to the scheme");
        check("*", "error: `*` is all origins, and stands alone");
        check("https://*app.test", "error: for example `https://app.example.com` or `https://*.example.com`");
        check("https://", "error: for example `https://app.example.com` or `https://*.example.com`");
    }
}
