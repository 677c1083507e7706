//! `log level="info"`: what the process says about itself on stderr. And `log` in a site or a route: which of its
//! requests are in the access log.

use crate::diagnostics::{Diagnostic, shortened};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat, Stage};
use crate::written_line::{Writer, name_of};
use tidegate_model::request_log::LINE_KEYS;
use tidegate_model::{LogLevel, RouteLog, RouteLogField, RouteOptions, Sample};

pub static LOG: Directive = Directive {
    name: "log",
    places: &[Place::Top],
    properties: &[Property::once(
        "level",
        Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
        "`error`, `warn`, `info`, `debug` or `trace`.",
    )],
    summary: "How much the process says about itself on stderr.",
    details: "Requests are logged by `access-log`; which of a site or a route, by `log` there.",
    default: "`level=\"info\"`",
    example: "log level=\"warn\"",
    lower: Lower::Top(lower),
    meant: "here `log level=\"info\"` is what the process says of itself; requests are logged by `access-log`, and of a site or a route by `log` in its block",
    ..Directive::PLAIN
};

pub static ROUTE_LOG: Directive = Directive {
    name: "log",
    places: &[Place::Site, Place::Route],
    arguments: &[Argument::optional(
        "switch",
        Kind::Switch,
        "`off`: requests have no line; `on`: each has one, whatever the site says.",
    )],
    properties: &[Property::once(
        "sample",
        Kind::Sample,
        "Part of the requests that have a line, by chance. Answers from 500 on, and requests that the proxy refused or cut, have one always.",
    )],
    block: Block::Optional(Place::Log),
    summary: "Which requests have a line in the access log, and what of their own stands there.",
    details: "Counters and metrics count every request. In a route, what is left out is as its site says; fields of both are there. `access-log` says where lines go, and \
              what they look like.",
    default: "every request has a line",
    example: "log sample=\"1%\" {\n    field \"tenant\" \"{request.header.X-Tenant}\"\n}",
    lower: Lower::Option(lower_of_route),
    said_otherwise: &[(&["level"], "`log level=` is of the whole process, and stands at the top level")],
    ..Directive::PLAIN
};

pub static FIELD: Directive = Directive {
    name: "field",
    places: &[Place::Log],
    repeat: Repeat::Many,
    arguments: &[
        Argument::one(
            "name",
            Kind::Text("a name, as in `\"tenant\"`"),
            "Its key: letters, digits, `_`, `-` and `.`, and none that lines have anyway.",
        ),
        Argument::one("value", Kind::Template(Stage::Response), "Its text."),
    ],
    summary: "One more field of a line.",
    details: "In the JSON form it stands at the end of the line, and is left out when its text is empty; at most 1 KiB of the text is shown. A template shows it with \
              `{log.NAME}`; the common form has no place for it. Fields of the request are seen as the steps have left them.",
    example: "field \"tenant\" \"{request.header.X-Tenant}\"",
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    if line.property("level").is_none() {
        let diagnostic = Diagnostic::error("missing-property", line.location(), "`log` needs `level=`")
            .help("for example `log level=\"info\"`");
        lowering.report(diagnostic);
        return;
    }
    let Some(name) = line.read(lowering, "level").map(Read::choice) else { return };
    if let Some((_, level)) = LogLevel::NAMES.iter().find(|(known, _)| *known == name) {
        lowering.configuration.log.level = *level;
    }
}

fn lower_of_route(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    let errors_before = lowering.diagnostics.len();
    let switch = line.read_argument(lowering, 0).map(Read::switch);
    let sample = line.number(lowering, "sample").map(Sample::from_millionths);
    let fields = fields(lowering, line);
    let beside = line.property("sample").map(|value| value.location.clone()).or_else(|| {
        let fields = line.node.children.as_deref().unwrap_or_default();
        fields.first().map(|field| field.location.clone())
    });
    if let (Some(false), Some(at)) = (switch, beside) {
        let diagnostic = Diagnostic::error("settings-of-off", at, "`log \"off\"` has no settings");
        lowering.report(diagnostic.help("remove `\"off\"` or the settings"));
    }
    if line.node.entries.is_empty() && line.children().is_empty() {
        let diagnostic = Diagnostic::error("missing-argument", line.location(), "this `log` says nothing");
        lowering.report(
            diagnostic.help(
                "for example `log \"off\"`, `log sample=\"1%\"` or `log { field \"tenant\" \"{request.header.X-Tenant}\"; }`",
            ),
        );
    }
    if lowering.has_errors_since(errors_before) {
        return;
    }
    // Who asks for a part of the requests asks for lines, and who switches lines on for all of them.
    let is_on = switch.or(sample.map(|_| true));
    let sample = sample.or((switch == Some(true)).then_some(Sample::ALL));
    options.log = RouteLog { is_on, sample, fields };
}

fn fields(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<RouteLogField> {
    let mut fields: Vec<RouteLogField> = Vec::new();
    let lines = line.lines(lowering);
    if lines.len() > RouteLog::FIELDS_MAX {
        let message = format!("there are more than {} fields in this `log`", RouteLog::FIELDS_MAX);
        lowering.report(Diagnostic::error("too-many-fields", line.location(), message));
    }
    for child in lines {
        let name = child.read_argument(lowering, 0).map(Read::text);
        let value = child.read_argument(lowering, 1).map(Read::template);
        let (Some(name), Some(value)) = (name, value) else { continue };
        if !is_name(&name.value) {
            let message = format!("`{}` cannot be the name of a field", shortened(&name.value));
            let help = format!("a name has letters, digits, `_`, `-` and `.`, and at most {} of them", RouteLog::NAME_BYTES_MAX);
            lowering.report(name.error("bad-name", message).help(help));
        } else if LINE_KEYS.contains(&name.value.as_str()) {
            let message = format!("every line has a field `{}`", name.value);
            lowering.report(name.error("bad-name", message).help("give yours another name"));
        } else if fields.iter().any(|known| known.name == name.value) {
            let message = format!("there are two fields `{}`", name.value);
            lowering.report(name.error("duplicate-field", message).help("remove one of them"));
        } else {
            fields.push(RouteLogField { name: name.value, value });
        }
    }
    fields
}

fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !text.is_empty() && text.len() <= RouteLog::NAME_BYTES_MAX && text.chars().all(is_part)
}

pub fn write_level(line: &mut Writer, level: LogLevel) {
    line.name("log").property("level", name_of(LogLevel::NAMES, &level));
}

pub fn write(line: &mut Writer, log: &RouteLog) {
    let RouteLog { is_on, sample, fields } = log;
    if *log != RouteLog::default() {
        line.name("log");
    }
    match (is_on, sample) {
        (Some(false), _) => line.argument("off"),
        (Some(true), Some(Sample::ALL)) => line.argument("on"),
        (Some(true), Some(sample)) => line.property("sample", sample),
        (Some(true), None) | (None, _) => line,
    };
    line.block(fields, |line, RouteLogField { name, value }| {
        let value = line.secret_by_name(name, value);
        line.name("field").argument(name).argument(value);
    });
}
