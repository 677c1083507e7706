//! `header`, `response-header`, `request-header`: changes of header fields, in the order written.

use crate::diagnostics::{Diagnostic, Location, nearest, shortened};
use crate::directives::compress::types_of;
use crate::directives::matching;
use crate::forms::{has_control_character, is_token, show_status_range, status_ranges};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders;
use crate::reading::expect_text;
use crate::syntax::{Entry, Literal, Value};
use crate::table::{Argument, Block, Kind, Place, Property, Repeat, Stage};
use crate::written_line::{Writer, is_secret};
use tidegate_kdl::quoted;
use tidegate_model::{HeaderChange, HeaderConditions, HeaderOperation, HeaderStep, Step, Template, TemplatePart, is_of_framing};

const PLACES: &[Place] = &[Place::Site, Place::Route, Place::Arm];

static RESPONSE_ARGUMENTS: &[Argument] = &arguments(Stage::Response);
static REQUEST_ARGUMENTS: &[Argument] = &arguments(Stage::Request);
static RESPONSE_PROPERTIES: &[Property] = &response_properties();
static REQUEST_PROPERTIES: &[Property] = &properties(Stage::Request);

const fn arguments(stage: Stage) -> [Argument; 2] {
    [
        Argument::optional("name", Kind::Text("a header name"), "A field to set."),
        Argument::optional("value", Kind::Template(stage), "What it is set to."),
    ]
}

const fn properties(stage: Stage) -> [Property; 4] {
    const fn change(name: &'static str, kind: Kind, summary: &'static str) -> Property {
        Property::many(name, kind, summary)
    }
    let kind = Kind::Template(stage);
    [
        change("set", kind, "`Name: value`: replaces all fields of the name."),
        change("add", kind, "`Name: value`: one more field of the name."),
        change("default", kind, "`Name: value`: set when there is none of the name."),
        change("remove", Kind::Text("a header name"), "`Name`: removes all fields of the name."),
    ]
}

const STATUS: &str = "status";
const TYPE: &str = "type";

const fn response_properties() -> [Property; 6] {
    let [set, add, default, remove] = properties(Stage::Response);
    [
        set,
        add,
        default,
        remove,
        Property::once(
            STATUS,
            Kind::Text("statuses and ranges of them, separated by commas"),
            "Only on answers with one of these, as in `200-299,404` or `5xx`.",
        ),
        Property::once(
            TYPE,
            Kind::Text("media types, separated by commas"),
            "Only on answers with one of these, as in `text/html`, `image/*` or `application/*+json`.",
        ),
    ]
}

const DETAILS: &str = "`\"Name\" \"value\"` is short for `set=\"Name: value\"`. Properties may be repeated, and work in the order written. \
                       A value of placeholders that comes to nothing is no field: what was there is removed by `set`, and stays with `add` and `default`. \
                       Fields that frame messages (`Connection`, `Content-Length`, `Transfer-Encoding`, `Upgrade` and the like) are the \
                       proxy's own and cannot be changed.\n\n\
                       Without `status=` and `type=`, all answers are changed, those that the proxy gives itself as well; but `Cache-Control`, `Expires`, `ETag` and their like \
                       are not put on errors that the proxy makes itself, unless `status=` names them. `match` lines in the block are conditions \
                       of the request, with the words of a route's: all conditions of one line, and one of several lines. Path and query are there what the client \
                       asked for; header fields are as the steps before have left them. What is on one line holds for all of its changes.";

pub static HEADER: Directive = Directive {
    name: "header",
    places: PLACES,
    repeat: Repeat::Many,
    arguments: RESPONSE_ARGUMENTS,
    properties: RESPONSE_PROPERTIES,
    block: Block::Optional(Place::Header),
    summary: "Changes the header fields of the response; the short form of `response-header`.",
    details: DETAILS,
    example: "header \"Strict-Transport-Security\" \"max-age=31536000\" remove=\"Server\"",
    lower: Lower::Step(lower_response),
    ..Directive::PLAIN
};

pub static RESPONSE_HEADER: Directive = Directive {
    name: "response-header",
    places: PLACES,
    repeat: Repeat::Many,
    arguments: RESPONSE_ARGUMENTS,
    properties: RESPONSE_PROPERTIES,
    block: Block::Optional(Place::Header),
    summary: "Changes the header fields that the client sees.",
    details: DETAILS,
    example: "response-header \"Cache-Control\" \"max-age=600\" status=\"200-299\" type=\"text/css,image/*\" {\n    match method=\"GET\" not cookie=\"session\"\n}",
    lower: Lower::Step(lower_response),
    ..Directive::PLAIN
};

pub static REQUEST_HEADER: Directive = Directive {
    name: "request-header",
    places: PLACES,
    repeat: Repeat::Many,
    arguments: REQUEST_ARGUMENTS,
    properties: REQUEST_PROPERTIES,
    block: Block::Optional(Place::Header),
    summary: "Changes the header fields that the upstream sees.",
    details: "`\"Name\" \"value\"` is short for `set=\"Name: value\"`. Properties may be repeated, and work in the order written. A value of \
              placeholders that comes to nothing is no field: what was there is removed by `set`, and stays with `add` and `default`. `Host` can \
              be set, but not removed or added. Fields that frame messages cannot be changed. `match` lines in the block are conditions, \
              with the words of a route's.",
    example: "request-header \"Host\" \"internal.example.com\" add=\"X-Request-Id: {request.id}\"",
    lower: Lower::Step(lower_request),
    said_otherwise: &[(&["status", "type"], "the request is changed before there is an answer; `response-header` has it")],
    ..Directive::PLAIN
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Response,
}

const SIGN_IN_NAME: &str = "what is done with a field is no sign in front of its name";

fn lower_response(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    step(lowering, line, Direction::Response).map(Step::ResponseHeader)
}

fn lower_request(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    step(lowering, line, Direction::Request).map(Step::RequestHeader)
}

fn step(lowering: &mut Lowering<'_>, line: &Line<'_>, direction: Direction) -> Option<HeaderStep> {
    let errors_before = lowering.diagnostics.len();
    let changes = changes(lowering, line, direction);
    let mut when = HeaderConditions::default();
    if direction == Direction::Response {
        if let Some(text) = line.text(lowering, STATUS) {
            when.statuses = text.parsed(lowering, "bad-value", status_ranges(&text.value)).unwrap_or_default();
        }
        if let Some(text) = line.text(lowering, TYPE) {
            when.types = types_of(lowering, &text);
        }
    }
    for child in line.lines(lowering) {
        when.matches.extend(matching::read_line(lowering, &child));
    }
    // A condition that was not understood must not become one that always holds.
    let is_faulty = lowering.has_errors_since(errors_before);
    changes.filter(|_| !is_faulty).map(|changes| HeaderStep { changes, when })
}

fn is_condition(entry: &Entry) -> bool {
    entry.name.as_ref().is_some_and(|name| name.text == STATUS || name.text == TYPE)
}

fn changes(lowering: &mut Lowering<'_>, line: &Line<'_>, direction: Direction) -> Option<Vec<HeaderChange>> {
    let mut changes = Vec::new();
    let mut faulty = false;
    if line.node.entries.iter().all(is_condition) {
        let message = format!("`{}` changes nothing", line.directive.name);
        let help = format!("for example `{}`", line.directive.example);
        lowering.report(Diagnostic::error("missing-argument", line.location(), message).help(help));
    }
    let mut pending_name: Option<&Value> = None;
    let mut pairs = 0;
    for entry in line.node.entries.iter().filter(|entry| !is_condition(entry)) {
        let change = match (&entry.name, pending_name.take()) {
            (None, Some(name)) => pair(lowering, name, &entry.value, line, direction),
            (None, None) if pairs > 0 => continue,
            (None, None) => {
                pending_name = Some(&entry.value);
                pairs += 1;
                continue;
            }
            (Some(_), Some(name)) => {
                lowering.report(value_missing(name, line));
                property(lowering, entry, direction)
            }
            (Some(_), None) => property(lowering, entry, direction),
        };
        faulty |= change.is_none();
        changes.extend(change);
    }
    if let Some(name) = pending_name {
        lowering.report(value_missing(name, line));
    }
    (!faulty && !changes.is_empty()).then_some(changes)
}

fn value_missing(name: &Value, line: &Line<'_>) -> Diagnostic {
    let directive = line.directive.name;
    let diagnostic =
        Diagnostic::error("missing-argument", name.location.clone(), format!("`{directive}` needs a value behind the name"));
    match &name.literal {
        Literal::Text(text) if let Some(help) = signed(text, None, directive) => {
            Diagnostic::error("bad-header", name.location.clone(), SIGN_IN_NAME).help(help)
        }
        Literal::Text(text) if text.contains(':') => {
            let (field, value) = text.split_once(':').unwrap_or_default();
            diagnostic.help(format!(
                "write `{directive} {} {}`",
                quoted(&shortened(field.trim())),
                quoted(&shortened(value.trim()))
            ))
        }
        Literal::Text(text) if is_token(text) => diagnostic.help(format!("to remove the field, write `remove=\"{text}\"`")),
        _ => diagnostic,
    }
}

/// What Caddy says by a sign in front of a name, as a line of ours.
fn signed(name: &str, value: Option<&Value>, directive: &str) -> Option<String> {
    let sign = name.chars().next().filter(|sign| matches!(sign, '-' | '+' | '?' | '>'))?;
    let field = &name[1..];
    if !is_token(field) {
        return None;
    }
    let text = value.and_then(|value| match &value.literal {
        Literal::Text(text) => Some(text.as_str()),
        Literal::Integer(_) | Literal::Float(_) | Literal::Switch(_) | Literal::Null => None,
    });
    let text = text.map_or("…".to_owned(), |text| if is_secret(field) { "…".to_owned() } else { shortened(text).into_owned() });
    let property = |word: &str| format!("write `{directive} {word}={}`", quoted(&format!("{field}: {text}")));
    Some(match sign {
        '-' => format!("write `{directive} remove={}`", quoted(field)),
        '+' => property("add"),
        '?' => property("default"),
        _ => format!("write `{directive} {} {}`; fields are changed when the answer is there", quoted(field), quoted(&text)),
    })
}

/// `"Name" "value"`
fn pair(lowering: &mut Lowering<'_>, name: &Value, value: &Value, line: &Line<'_>, direction: Direction) -> Option<HeaderChange> {
    let name_value = expect_text(lowering, name, "the name", "a header name")?;
    if let Literal::Text(written) = &name.literal
        && let Some(help) = signed(written, Some(value), line.directive.name)
    {
        return lowering.refuse(Diagnostic::error("bad-header", name.location.clone(), SIGN_IN_NAME).help(help));
    }
    let text = placeholders::resolve_text(lowering, name_value);
    let value = expect_text(lowering, value, "the value", "a text")?;
    let template = placeholders::resolve_template(lowering, value, stage(direction), None);
    let text = text?;
    let template = template?;
    if has_control_character(&template) {
        return lowering.refuse(control_character(value.location.clone()));
    }
    checked(lowering, HeaderOperation::Set, &text.value, text.location.clone(), direction, template)
}

/// `set="Name: value"`, `remove="Name"`
fn property(lowering: &mut Lowering<'_>, entry: &Entry, direction: Direction) -> Option<HeaderChange> {
    let word = entry.name.as_ref().map_or("", |name| name.text.as_str());
    let operation = match word {
        "set" => HeaderOperation::Set,
        "add" => HeaderOperation::Add,
        "default" => HeaderOperation::Default,
        "remove" => HeaderOperation::Remove,
        // It was reported with the shape of the line.
        _ => return None,
    };
    let at = entry.value.location.clone();
    if operation == HeaderOperation::Remove {
        let value = expect_text(lowering, &entry.value, "`remove=`", "a header name")?;
        let text = placeholders::resolve_text(lowering, value)?;
        return checked(lowering, operation, &text.value, at, direction, Template::default());
    }
    let owner = format!("`{word}=`");
    let value = expect_text(lowering, &entry.value, &owner, "a text of the form `Name: value`")?;
    let mut template = placeholders::resolve_template(lowering, value, stage(direction), None)?;
    let Some(TemplatePart::Literal(first)) = template.parts.first_mut() else {
        return lowering.refuse(no_colon(at, &owner));
    };
    let Some((name, rest)) = first.split_once(':') else {
        return lowering.refuse(no_colon(at, &owner));
    };
    let name = name.trim().to_string();
    let rest = rest.trim_start().to_string();
    if rest.is_empty() {
        template.parts.remove(0);
    } else {
        *first = rest;
    }
    checked(lowering, operation, &name, at, direction, template)
}

fn no_colon(at: Location, owner: &str) -> Diagnostic {
    Diagnostic::error("bad-header", at, format!("{owner} has the form `Name: value`")).help("the colon is missing")
}

fn stage(direction: Direction) -> Stage {
    match direction {
        Direction::Request => Stage::Request,
        Direction::Response => Stage::Response,
    }
}

fn checked(
    lowering: &mut Lowering<'_>,
    operation: HeaderOperation,
    name: &str,
    at: Location,
    direction: Direction,
    mut value: Template,
) -> Option<HeaderChange> {
    if !is_token(name) {
        let shown = lowering.shown(&name.escape_debug().to_string(), &at);
        return lowering.refuse(Diagnostic::error("bad-header", at, format!("`{shown}` is not a header name")));
    }
    let lower = name.to_ascii_lowercase();
    if is_of_framing(&lower) {
        let shown = lowering.shown(name, &at);
        let diagnostic = Diagnostic::error("framing-header", at, format!("`{shown}` cannot be changed"))
            .note("it says how a message is framed on its connection, which is for the proxy to decide");
        return lowering.refuse(match lower.as_str() {
            "upgrade" | "connection" => diagnostic.help("WebSocket and other upgrades are passed on without any setting"),
            _ => diagnostic,
        });
    }
    if lower == "host" && direction == Direction::Request && operation != HeaderOperation::Set {
        let diagnostic = Diagnostic::error("framing-header", at, "`Host` can only be set: every request has exactly one")
            .help("write `request-header \"Host\" \"…\"`");
        return lowering.refuse(diagnostic);
    }
    if has_control_character(&value) {
        return lowering.refuse(control_character(at));
    }
    if let Some(TemplatePart::Literal(last)) = value.parts.last_mut() {
        last.truncate(last.trim_end_matches([' ', '\t']).len());
        if last.is_empty() {
            value.parts.pop();
        }
    }
    if let Some(meant) = misspelt(&lower).filter(|_| !lowering.is_filled_in(&at)) {
        let diagnostic = Diagnostic::warning("misspelt-header", at, format!("`{name}` is not a usual header"))
            .help(format!("did you mean `{meant}`?"));
        lowering.report(diagnostic);
    }
    Some(HeaderChange { operation, name: name.to_string(), value })
}

fn control_character(at: Location) -> Diagnostic {
    Diagnostic::error("bad-header", at, "a header value cannot hold control characters")
}

/// A slip in one of these leaves a site without the protection that was meant.
fn misspelt(lower: &str) -> Option<&'static str> {
    const SECURITY: [&str; 6] = [
        "Strict-Transport-Security",
        "Content-Security-Policy",
        "X-Content-Type-Options",
        "X-Frame-Options",
        "Referrer-Policy",
        "Permissions-Policy",
    ];
    if lower == "content-security-policy-report-only" || SECURITY.iter().any(|name| name.eq_ignore_ascii_case(lower)) {
        return None;
    }
    nearest(lower, SECURITY).filter(|name| name.len().abs_diff(lower.len()) <= 2)
}

pub fn write(line: &mut Writer, step: &HeaderStep) {
    let HeaderStep { changes, when: HeaderConditions { statuses, types, matches } } = step;
    for (position, HeaderChange { operation, name, value }) in changes.iter().enumerate() {
        let value = line.secret_by_name(name, value);
        match operation {
            // One pair can stand on a line.
            HeaderOperation::Set if position == 0 => line.argument(name).argument(value),
            HeaderOperation::Set => line.property("set", format_args!("{name}: {value}")),
            HeaderOperation::Add => line.property("add", format_args!("{name}: {value}")),
            HeaderOperation::Default => line.property("default", format_args!("{name}: {value}")),
            HeaderOperation::Remove => line.property("remove", name),
        };
    }
    line.list("status", statuses, show_status_range).list("type", types, String::clone).block(matches, matching::write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_in_security_headers_are_noticed_and_other_names_are_not() {
        let check = |name: &str, expected: Option<&str>| assert_eq!(misspelt(name), expected, "for {name}");
        check("strict-transport-securty", Some("Strict-Transport-Security"));
        check("x-frame-option", Some("X-Frame-Options"));
        check("strict-transport-security", None);
        check("content-security-policy-report-only", None);
        check("x-request-id", None);
        check("server", None);
    }
}
