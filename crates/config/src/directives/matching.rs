//! `match method="GET" header="X-Channel: beta*"`: conditions of a route beyond its path.

use crate::diagnostics::Diagnostic;
use crate::directives::geoip;
use crate::directives::map::MapUse;
use crate::forms::{instead_of_connection, is_of_connection, is_token, show_network};
use crate::language::{Directive, Line};
use crate::lowering::Lowering;
use crate::patterns;
use crate::placeholders::{self, Text};
use crate::presets::named_networks;
use crate::reading::expect_text;
use crate::syntax::{Entry, Literal, Node};
use crate::table::{Argument, Block, Kind, Place, Property, Repeat};
use crate::written_line::{Writer, joined};
use std::borrow::Cow;
use tidegate_foreign::traefik_rule;
use tidegate_kdl::quoted;
use tidegate_model::address::parse_host_pattern;
use tidegate_model::parse_network;
use tidegate_model::{
    ClaimRequirement, ClaimTest, ClientCertificatePart, Condition, ConditionKind, Field, HostPattern, MatchLine, Scheme,
    TextPattern,
};

pub static MATCH: Directive = Directive {
    name: "match",
    places: &[Place::Route, Place::Header, Place::Conditions],
    repeat: Repeat::Many,
    arguments: &[Argument::any("not", Kind::Choice(&["not"]), "Turns the condition that follows it round.")],
    properties: &[
        condition("method", "methods, separated by commas", "Any of these methods, as in `GET,POST`."),
        condition("path", "a path pattern", "A pattern as in `route`."),
        condition("header", "`Name` or `Name: pattern`", "A header of the request that is there, or whose value fits."),
        condition(
            "query",
            "`name`, `name=pattern` or `~pattern`",
            "A parameter of the query, or an expression over all of it as it was sent.",
        ),
        condition("cookie", "`name` or `name=pattern`", "A cookie."),
        condition(
            "client",
            "networks, separated by commas",
            "The client's address is in any of these, as in `10.0.0.0/8`, `preset:NAME` or `file:PATH`.",
        ),
        condition(
            "host",
            "hosts, separated by commas",
            "Any of these hosts; `*.example.com` is one more label, `**.example.com` any number of them.",
        ),
        condition("scheme", "`http` or `https`", "How the client came in."),
        condition("client-subject", "a pattern", "The subject of the client's certificate, as `{tls.client.subject}` has it."),
        condition("client-san", "a pattern", "One of the names in it: DNS, IP, mail or URI."),
        condition("client-fingerprint", "a pattern", "Its SHA-256; colons and case do not matter."),
        condition(
            "ja4",
            "patterns, separated by commas",
            "What the handshake tells of the client's software, as `{tls.ja4}` has it.",
        ),
        condition(
            "country",
            "countries, separated by commas",
            "The client's address is in any of these, by `geoip`, as in `DE,AT`; `unknown` is where none is known.",
        ),
        condition("continent", "continents, separated by commas", "It is in any of these, as in `EU`."),
        condition("asn", "numbers, separated by commas", "It is of any of these autonomous systems, as in `64500`."),
        condition("map", "`name` or `name=pattern`", "The `map` has a row of its key, or what it has fits."),
        condition(
            "claim",
            "`name`, `name=value`, `name=a,b` or `name~=value`",
            "A claim of the token: it is there, it is this or one of these, or it is a list or text that has this as an element or word.",
        ),
    ],
    block: Block::Optional(Place::Match),
    summary: "Conditions of a route beyond its path, and of a change of header fields.",
    details: "All conditions of one line have to hold; several lines are alternatives. A condition given twice on a line is required twice. \
              The bare word `not` turns round the condition behind it.\n\n\
              Patterns of values: `beta` exactly, `beta*` from the start, `*beta` at the end, `~b.ta` a regular expression anywhere.\n\n\
              `header=\"Upgrade: websocket\"` fits the protocol that a request asks to switch to, whatever its case, over HTTP/1.1 and over HTTP/2 (RFC 8441) alike. Other fields of one connection \
              (`Connection`, `TE` and their like) are taken out before and are an error here.\n\n\
              In the block of a line stand conditions that are made of others, to any depth up to 16: of an `any` one of the lines has to hold, of an `all` each, of a `not` none. They are \
              asked beside the conditions of the line itself.\n\n\
              `claim=` is about the token that `jwt` has verified; without one nothing of it holds. A route is looked for before its own steps run, so for a route it is the `jwt` of its **site** that counts, and the token is verified before. Whether the request may go on is still \
              decided by the `jwt` of the route that is taken.",
    example: "match method=\"GET,POST\" header=\"X-Channel: beta*\" not client=\"10.0.0.0/8\"",
    said_otherwise: &[
        (
            &["prefix", "path_prefix", "path_separated_prefix", "path_beg", "PathPrefix"],
            "a part of the path is `path=\"/api/*\"`, or the pattern of the `route`",
        ),
        (
            &["regex", "safe_regex", "path_regexp", "path_reg", "PathRegexp"],
            "a regular expression is `path=\"~^/v[0-9]+/\"`, or the pattern of the `route`",
        ),
        (
            &["rule", "expression", "matchers"],
            "the path stands behind `route`, the host behind `site`, and other conditions one by one, as in `match method=\"GET\" header=\"X-Channel: beta\"`",
        ),
        (&["headers", "hdr"], "it is `header=`, as in `match header=\"X-Channel: beta\"`"),
        (&["query_parameters", "args", "url_param"], "it is `query=`, as in `match query=\"a=1\"`"),
        (
            &["remote_ip", "client_ip", "src", "ip", "cidr", "ClientIP", "source"],
            "it is `client=`, as in `match client=\"10.0.0.0/8\"`",
        ),
        (&["protocol"], "it is `scheme=`, as in `match scheme=\"http\"`"),
        (
            &["domain", "hostname", "server_name", "sni"],
            "it is `host=`, as in `match host=\"*.example.com\"`; a site has its hosts in its address",
        ),
    ],
    ..Directive::PLAIN
};

pub static ANY: Directive = Directive {
    name: "any",
    places: &[Place::Match, Place::Conditions],
    repeat: Repeat::Many,
    block: Block::Required(Place::Conditions),
    summary: "Conditions of which one line has to hold.",
    details: "All conditions of one `match` in it have to hold together, as everywhere.",
    example: "any {\n    match client=\"10.0.0.0/8\"\n    match header=\"X-Internal: yes\" method=\"GET\"\n}",
    ..Directive::PLAIN
};

pub static ALL: Directive = Directive {
    name: "all",
    places: &[Place::Match, Place::Conditions],
    repeat: Repeat::Many,
    block: Block::Required(Place::Conditions),
    summary: "Conditions of which each line has to hold.",
    example: "all {\n    match client=\"10.0.0.0/8\"\n    not { match path=\"/public/*\"; }\n}",
    ..Directive::PLAIN
};

pub static NOT: Directive = Directive {
    name: "not",
    places: &[Place::Match, Place::Conditions],
    repeat: Repeat::Many,
    block: Block::Required(Place::Conditions),
    summary: "Conditions of which no line may hold.",
    details: "Several lines are alternatives here too: it fails as soon as one of them holds. For what may not hold together, write it on one line.",
    example: "not {\n    match path=\"/public/*\"\n    match cookie=\"preview\"\n}",
    ..Directive::PLAIN
};

const fn condition(name: &'static str, form: &'static str, summary: &'static str) -> Property {
    Property::many(name, Kind::Text(form), summary)
}

/// `None`: some condition could not be read, which was reported.
pub fn read_line(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<MatchLine> {
    let mut conditions = Vec::new();
    let mut pending_not: Option<&Entry> = None;
    let errors_before = lowering.diagnostics.len();
    for entry in &line.node.entries {
        let Some(name) = &entry.name else {
            if !matches!(&entry.value.literal, Literal::Text(text) if text == "not") {
                let diagnostic =
                    Diagnostic::error("bad-condition", entry.location.clone(), "a condition is written as `name=\"value\"`");
                lowering.report(diagnostic.help(meant(&entry.value.literal)));
            } else if pending_not.replace(entry).is_some() {
                lowering.report(Diagnostic::error("bad-condition", entry.location.clone(), "`not` is written twice in a row"));
            }
            continue;
        };
        let negated = pending_not.take().is_some();
        if let Some(kind) = lower_condition(lowering, &name.text, entry) {
            conditions.push(Condition { negated, kind });
        }
    }
    if let Some(entry) = pending_not {
        lowering.report(Diagnostic::error("bad-condition", entry.location.clone(), "`not` has no condition behind it"));
    }
    for child in line.lines(lowering) {
        conditions.extend(nested(lowering, &child, 1));
    }
    let is_faulty = lowering.diagnostics[errors_before..].iter().any(|d| d.severity == crate::diagnostics::Severity::Error);
    if conditions.is_empty() && !is_faulty {
        let faulty_before = line.node.entries.iter().any(|entry| entry.name.is_some());
        if !faulty_before {
            let diagnostic = Diagnostic::error("empty-match", line.location(), "this `match` has no condition")
                .help("for example `match method=\"GET,POST\"`");
            lowering.report(diagnostic);
        }
        return None;
    }
    (!is_faulty).then_some(MatchLine { conditions })
}

/// What an `any`, `all` or `not` comes to, as conditions that all have to hold. Faults are reported.
fn nested(lowering: &mut Lowering<'_>, line: &Line<'_>, depth: usize) -> Vec<Condition> {
    let name = line.directive.name;
    if depth > Condition::DEPTH_MAX {
        let message = format!("conditions are nested more than {} deep", Condition::DEPTH_MAX);
        lowering.report(Diagnostic::error("too-deep", line.location(), message).help("put some of them on one line"));
        return Vec::new();
    }
    let mut lines = Vec::new();
    for child in line.lines(lowering) {
        match child.directive.name {
            "match" => lines.extend(read_line(lowering, &child)),
            _ => lines.push(MatchLine { conditions: nested(lowering, &child, depth + 1) }),
        }
    }
    if line.node.children.as_ref().is_some_and(Vec::is_empty) {
        let diagnostic = Diagnostic::error("empty-match", line.location(), format!("this `{name}` has no condition"));
        lowering.report(diagnostic.help("for example `match method=\"GET,POST\"` in its block"));
    }
    match name {
        "all" => lines.into_iter().flat_map(|line| line.conditions).collect(),
        _ => vec![Condition { negated: name == "not", kind: ConditionKind::Any(lines) }],
    }
}

/// `name`, or `name=pattern`: `meant` is a part of the text.
pub fn map(lowering: &mut Lowering<'_>, text: &Text, meant: &str) -> Option<Field> {
    let field = field_of(lowering, text, meant, "map")?;
    lowering.spans.maps_used.push((MapUse { name: field.name.clone(), is_condition: true }, text.location.clone()));
    Some(field)
}

/// What is meant by a value that no name stands in front of.
fn meant(literal: &Literal) -> Cow<'static, str> {
    const ONLY_NOT: &str = "only the word `not` stands alone, in front of the condition that it turns round";
    let Literal::Text(text) = literal else { return ONLY_NOT.into() };
    let is_method =
        matches!(text.to_ascii_uppercase().as_str(), "GET" | "POST" | "PUT" | "DELETE" | "HEAD" | "PATCH" | "OPTIONS");
    match traefik_rule::help(text) {
        Some(help) => help.into(),
        None if text.starts_with(['/', '~']) => format!("write `match path={}`", quoted(text)).into(),
        None if is_method => format!("write `match method={}`", quoted(&text.to_ascii_uppercase())).into(),
        None if parse_network(text).is_ok() => format!("write `match client={}`", quoted(text)).into(),
        None => ONLY_NOT.into(),
    }
}

/// Names that the table does not have were reported with the shape of the line.
fn lower_condition(lowering: &mut Lowering<'_>, name: &str, entry: &Entry) -> Option<ConditionKind> {
    let value = &entry.value;
    if name == "path" {
        return patterns::read_path_pattern(lowering, value, "`path=`").map(|pattern| ConditionKind::Path(vec![pattern]));
    }
    let property = MATCH.properties.iter().find(|property| property.name == name)?;
    let Kind::Text(form) = property.kind else { return None };
    let value = expect_text(lowering, value, &format!("`{name}=`"), form)?;
    let text = match name {
        "header" | "query" | "cookie" | "map" | "client-subject" | "client-san" | "client-fingerprint" | "ja4" => {
            placeholders::resolve_pattern(lowering, value)?
        }
        _ => placeholders::resolve_text(lowering, value)?,
    };
    match name {
        "method" => methods(lowering, &text),
        "header" => header(lowering, &text),
        "query" if text.value.starts_with('~') => text_pattern(lowering, &text, Some(&text.value)).map(ConditionKind::WholeQuery),
        "query" => named_field(lowering, &text, "parameter").map(ConditionKind::Query),
        "cookie" => named_field(lowering, &text, "cookie").map(ConditionKind::Cookie),
        "ja4" => ja4(lowering, &text),
        "map" => map(lowering, &text, &text.value).map(ConditionKind::Map),
        "claim" => claim(lowering, &text),
        "client" => client(lowering, &text),
        "host" => each(lowering, &text, host).map(ConditionKind::Host),
        "scheme" => scheme(lowering, &text),
        _ => match geoip::field_named(name) {
            Some(field) => geoip::test(lowering, &text, field, &text.value).map(ConditionKind::Geo),
            None => client_certificate(lowering, name, &text),
        },
    }
}

fn methods(lowering: &mut Lowering<'_>, text: &Text) -> Option<ConditionKind> {
    let methods =
        each(
            lowering,
            text,
            |method| {
                if is_token(method) { Ok(method.to_string()) } else { Err(format!("`{method}` is not a method")) }
            },
        )?;
    if let Some(lower_case) = methods.iter().find(|method| method.bytes().all(|byte| byte.is_ascii_lowercase()))
        && !text.secret
    {
        let message = format!("methods are case sensitive, and `{lower_case}` is not `{}`", lower_case.to_ascii_uppercase());
        lowering.report(
            Diagnostic::warning("lower-case-method", text.location.clone(), message)
                .help(format!("write `{}`", lower_case.to_ascii_uppercase())),
        );
    }
    Some(ConditionKind::Method(methods))
}

fn header(lowering: &mut Lowering<'_>, text: &Text) -> Option<ConditionKind> {
    let (name, pattern) = match text.value.split_once(':') {
        Some((name, pattern)) => (name.trim(), Some(pattern.trim())),
        None => (text.value.trim(), None),
    };
    if !is_token(name) {
        let diagnostic = text.error("bad-header", format!("`{name}` is not a header name"));
        return lowering.refuse(diagnostic.help("write `Name` or `Name: pattern`"));
    }
    if is_of_connection(name) {
        let message =
            format!("`{name}` speaks of one connection and is taken out before conditions are looked at, so this never holds");
        let diagnostic = text.error("field-of-connection", message);
        return lowering.refuse(diagnostic.help(instead_of_connection(name, "`match header=\"Upgrade: websocket\"`")));
    }
    let value = text_pattern(lowering, text, pattern)?;
    Some(ConditionKind::Header(Field { name: name.to_ascii_lowercase(), value }))
}

fn named_field(lowering: &mut Lowering<'_>, text: &Text, what: &str) -> Option<Field> {
    field_of(lowering, text, &text.value, what)
}

fn field_of(lowering: &mut Lowering<'_>, text: &Text, meant: &str, what: &str) -> Option<Field> {
    let (name, pattern) = match meant.split_once('=') {
        Some((name, pattern)) => (name, Some(pattern)),
        None => (meant, None),
    };
    if name.is_empty() {
        return lowering
            .refuse(text.error("bad-condition", format!("the {what} has no name")).help("write `name` or `name=pattern`"));
    }
    let value = text_pattern(lowering, text, pattern)?;
    Some(Field { name: name.to_string(), value })
}

fn text_pattern(lowering: &mut Lowering<'_>, text: &Text, pattern: Option<&str>) -> Option<TextPattern> {
    match pattern {
        None => Some(TextPattern::Present),
        Some(pattern) => patterns::parse_text_pattern(lowering, text, pattern),
    }
}

/// `name`, `name=value`, `name=a,b`, `name~=value`
fn claim(lowering: &mut Lowering<'_>, text: &Text) -> Option<ConditionKind> {
    let (name, test) = match text.value.split_once('=') {
        None => (text.value.as_str(), ClaimTest::Present),
        Some((name, value)) => match (name.strip_suffix('~'), value.split(',').collect::<Vec<_>>().as_slice()) {
            (Some(name), _) => (name, ClaimTest::Contains(value.to_owned())),
            (None, [one]) => (name, ClaimTest::Equals((*one).to_owned())),
            (None, several) => (name, ClaimTest::OneOf(several.iter().map(|one| (*one).to_owned()).collect())),
        },
    };
    let is_empty = match &test {
        ClaimTest::Present | ClaimTest::Equals(_) => false,
        ClaimTest::Contains(value) => value.is_empty(),
        ClaimTest::OneOf(values) => values.iter().any(String::is_empty),
    };
    if name.is_empty() || is_empty {
        let what = if name.is_empty() { "the claim has no name" } else { "an empty value stands there" };
        let help = "write `claim=\"role=admin\"`, `claim=\"role=admin,editor\"` or `claim=\"scope~=write\"`";
        return lowering.refuse(text.error("bad-condition", what).help(help));
    }
    Some(ConditionKind::Claim(ClaimRequirement { claim: name.to_owned(), test }))
}

fn client_certificate(lowering: &mut Lowering<'_>, name: &str, text: &Text) -> Option<ConditionKind> {
    let (_, part) = ClientCertificatePart::NAMES.iter().find(|(known, _)| *known == name)?;
    let value = match part {
        ClientCertificatePart::Fingerprint if !text.value.starts_with('~') => fingerprint(lowering, text)?,
        ClientCertificatePart::Fingerprint | ClientCertificatePart::Subject | ClientCertificatePart::San => {
            patterns::parse_text_pattern(lowering, text, &text.value)?
        }
    };
    Some(ConditionKind::ClientCertificate { part: *part, value })
}

/// As OpenSSL prints it, or as `{tls.client.fingerprint}` has it.
fn fingerprint(lowering: &mut Lowering<'_>, text: &Text) -> Option<TextPattern> {
    let digits = text.value.replace(':', "").to_ascii_lowercase();
    let pattern = patterns::parse_text_pattern(lowering, text, &digits)?;
    let is_digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_good = match &pattern {
        TextPattern::Exact(digits) => digits.len() == 64 && is_digits(digits),
        TextPattern::Prefix(digits) | TextPattern::Suffix(digits) => is_digits(digits),
        TextPattern::Present | TextPattern::Regex(_) => true,
    };
    if is_good {
        return Some(pattern);
    }
    let diagnostic = text.error("bad-condition", "a fingerprint is a SHA-256 in 64 hexadecimal digits");
    lowering.refuse(diagnostic.help("print it with `openssl x509 -noout -fingerprint -sha256 -in client.pem`"))
}

/// Parts of it are known by their beginnings: `t13d1516h2_*` is a protocol with so many ciphers and extensions.
fn ja4(lowering: &mut Lowering<'_>, text: &Text) -> Option<ConditionKind> {
    if text.value.starts_with('~') {
        let pattern = patterns::parse_text_pattern(lowering, text, &text.value)?;
        return Some(ConditionKind::Ja4(vec![pattern]));
    }
    let errors_before = lowering.diagnostics.len();
    let mut found = Vec::new();
    for part in text.value.split(',').map(str::trim) {
        let Some(pattern) = patterns::parse_text_pattern(lowering, text, part) else { continue };
        if !is_of_ja4(&pattern) {
            let message = if text.secret { "it is no JA4".to_owned() } else { format!("`{part}` is no JA4") };
            let help = "for example `t13d1516h2_8daaf6152771_d8a2da3f94cd` or `t13d1516h2_*`, as `{tls.ja4}` in the `format=` of an access log shows it";
            lowering.report(text.error("bad-condition", message).help(help));
        }
        found.push(pattern);
    }
    (!lowering.has_errors_since(errors_before)).then_some(ConditionKind::Ja4(found))
}

fn is_of_ja4(pattern: &TextPattern) -> bool {
    const CHARACTERS: usize = 36;
    let is_of_alphabet = |text: &str| {
        !text.is_empty() && text.len() <= CHARACTERS && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match pattern {
        TextPattern::Exact(text) => text.len() == CHARACTERS && is_of_alphabet(text) && text.matches('_').count() == 2,
        TextPattern::Prefix(text) | TextPattern::Suffix(text) => is_of_alphabet(text),
        TextPattern::Present | TextPattern::Regex(_) => true,
    }
}

/// Where all addresses are plain HTTP no such condition ever holds, and turned round it always does.
pub fn warn_of_ja4(lowering: &mut Lowering<'_>, nodes: &[Node]) {
    for node in nodes {
        for entry in node.entries.iter().filter(|_| node.name.text == "match") {
            if entry.name.as_ref().is_some_and(|name| name.text == "ja4") {
                let message = "clients come to this site in plain HTTP, which has no handshake to look at";
                let diagnostic = Diagnostic::warning("no-handshake", entry.value.location.clone(), message);
                lowering.report(diagnostic.help("it holds behind `https://` alone"));
            }
        }
        warn_of_ja4(lowering, node.children.as_deref().unwrap_or_default());
    }
}

fn client(lowering: &mut Lowering<'_>, text: &Text) -> Option<ConditionKind> {
    let errors_before = lowering.diagnostics.len();
    let mut networks = Vec::new();
    for part in text.value.split(',').map(str::trim) {
        let part = text.part_alone(part);
        match named_networks(lowering, &part) {
            Some(named) => networks.extend(named),
            None => networks.extend(each(lowering, &part, parse_network).into_iter().flatten()),
        }
    }
    (!lowering.has_errors_since(errors_before)).then_some(ConditionKind::Client(networks))
}

fn host(text: &str) -> Result<HostPattern, String> {
    match parse_host_pattern(text)? {
        HostPattern::Any => Err("a host is missing".into()),
        host => Ok(host),
    }
}

fn scheme(lowering: &mut Lowering<'_>, text: &Text) -> Option<ConditionKind> {
    match text.value.as_str() {
        "http" => Some(ConditionKind::Scheme(Scheme::Http)),
        "https" => Some(ConditionKind::Scheme(Scheme::Https)),
        other => {
            lowering.refuse(text.error("bad-condition", format!("`{other}` is not a scheme")).help("it is `http` or `https`"))
        }
    }
}

/// The parts between commas, each parsed. An empty part is a fault.
fn each<T>(lowering: &mut Lowering<'_>, text: &Text, parse: impl Fn(&str) -> Result<T, String>) -> Option<Vec<T>> {
    let mut parsed = Vec::new();
    let mut faulty = false;
    for part in text.value.split(',') {
        let part = part.trim();
        let result = if part.is_empty() { Err("an empty entry stands between the commas".into()) } else { parse(part) };
        match result {
            Ok(value) => parsed.push(value),
            Err(reason) => {
                faulty = true;
                lowering.report(text.error("bad-condition", reason));
            }
        }
    }
    (!faulty).then_some(parsed)
}

pub fn write(line: &mut Writer, MatchLine { conditions }: &MatchLine) {
    line.name("match");
    let is_nested = |condition: &&Condition| matches!(condition.kind, ConditionKind::Any(_));
    for condition in conditions.iter().filter(|condition| !is_nested(condition)) {
        write_condition(line, condition);
    }
    line.block(conditions.iter().filter(is_nested), write_condition);
}

pub fn write_condition(line: &mut Writer, Condition { negated, kind }: &Condition) {
    if let ConditionKind::Any(lines) = kind {
        line.name(if *negated { "not" } else { "any" }).block(lines, write);
        return;
    }
    if *negated {
        line.name("not");
    }
    match kind {
        ConditionKind::Method(methods) => line.property("method", methods.join(",")),
        ConditionKind::Path(patterns) => line.property("path", joined(patterns, patterns::show_path)),
        ConditionKind::Header(field) => write_field(line, "header", field, ": "),
        ConditionKind::Query(field) => write_field(line, "query", field, "="),
        ConditionKind::WholeQuery(value) => line.property("query", patterns::show_text(value)),
        ConditionKind::Cookie(field) => write_field(line, "cookie", field, "="),
        ConditionKind::Client(networks) => line.property("client", joined(networks, show_network)),
        ConditionKind::Host(hosts) => line.property("host", joined(hosts, ToString::to_string)),
        ConditionKind::Scheme(scheme) => line.property("scheme", scheme.as_str()),
        ConditionKind::ClientCertificate { part, value } => line.property(part.name(), patterns::show_text(value)),
        ConditionKind::Ja4(texts) => line.property("ja4", joined(texts, patterns::show_text)),
        ConditionKind::Geo(test) => line.property(test.field.name(), geoip::show_values(test)),
        ConditionKind::Map(field) => write_field(line, "map", field, "="),
        ConditionKind::Claim(claim) => write_claim(line, claim),
        // Written above.
        ConditionKind::Any(_) => line,
    };
}

fn write_claim<'w, 'f>(line: &'w mut Writer<'f>, ClaimRequirement { claim, test }: &ClaimRequirement) -> &'w mut Writer<'f> {
    match test {
        ClaimTest::Present => line.property("claim", claim),
        ClaimTest::Equals(value) => line.property("claim", format_args!("{claim}={value}")),
        ClaimTest::Contains(value) => line.property("claim", format_args!("{claim}~={value}")),
        ClaimTest::OneOf(values) => line.property("claim", format_args!("{claim}={}", values.join(","))),
    }
}

fn write_field<'w, 'f>(line: &'w mut Writer<'f>, kind: &str, Field { name, value }: &Field, between: &str) -> &'w mut Writer<'f> {
    match value {
        TextPattern::Present => line.property(kind, name),
        pattern => {
            let value = line.secret_by_name(name, patterns::show_text(pattern));
            line.property(kind, format_args!("{name}{between}{value}"))
        }
    }
}
