//! `access-log "stdout" format="json"`: one line for each request.

use crate::diagnostics::{Diagnostic, nearest};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders;
use crate::reading::{Read, expect_text};
use crate::syntax::Literal;
use crate::table::{Argument, Kind, Place, Property, Stage};
use crate::written_line::{Writer, size};
use tidegate_model::{AccessLog, AccessLogFormat, LogTarget, Rotation};

const KEEP_DEFAULT: u32 = 7;

pub static ACCESS_LOG: Directive = Directive {
    name: "access-log",
    places: &[Place::Top],
    arguments: &[Argument::one(
        "target",
        Kind::ChoiceOr(&["stdout", "stderr", "off"], "a path"),
        "`stdout`, `stderr`, `off`, or the path of a file.",
    )],
    properties: &[
        Property::once(
            "format",
            Kind::ChoiceOr(&["json", "common"], "a template with placeholders"),
            "`json`, `common` (with referer and user agent), or a template such as `{time} {client.ip} {method} {uri} {status}`.",
        ),
        Property::once(
            "rotate",
            Kind::Size { min: 1 << 10, max: 1 << 40 },
            "For a file: its size when it is renamed and a new one begins.",
        ),
        Property::once(
            "keep",
            Kind::Integer { min: 1, max: 1000 },
            "For a file with `rotate`: how many old ones stay; 7 when left out.",
        ),
    ],
    summary: "Where the log of requests goes, and what a line looks like.",
    details: "It is written beside the requests and never in their way: when the target is too slow, lines are dropped and counted.",
    default: "`\"stdout\" format=\"json\"`",
    example: "access-log \"/var/log/tidegate/access.log\" rotate=\"100MB\" keep=7",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let target = line.read_argument(lowering, 0);
    let size_bytes = line.number(lowering, "rotate");
    let keep = line.number(lowering, "keep").map(|keep| keep as u32);
    if let Some(format) = read_format(lowering, line) {
        lowering.configuration.access_log.format = format;
    }
    let is_file = matches!(target, Some(Read::Text(_)));
    let misplaced =
        [("rotate", is_file, "only a file is rotated"), ("keep", line.property("rotate").is_some(), "`keep=` needs `rotate=`")];
    for (name, fits, message) in misplaced {
        if let (Some(value), false, true) = (line.property(name), fits, target.is_some()) {
            lowering.report(Diagnostic::error("no-file", value.location.clone(), message));
        }
    }
    lowering.configuration.access_log.target = match target {
        Some(Read::Choice("stdout", _)) => LogTarget::Stdout,
        Some(Read::Choice("stderr", _)) => LogTarget::Stderr,
        Some(Read::Choice(..)) => LogTarget::Off,
        Some(Read::Text(text)) if text.value.is_empty() => {
            lowering
                .report(text.error("bad-value", "the path of the log is empty").help("for no log, write `access-log \"off\"`"));
            return;
        }
        Some(Read::Text(text)) => {
            warn_of_misspelt_target(lowering, &text);
            lowering.spans.access_log = Some(text.location.clone());
            let rotation = size_bytes.map(|size_bytes| Rotation { size_bytes, keep: keep.unwrap_or(KEEP_DEFAULT) });
            LogTarget::File { path: lowering.path(&text.value, &text.location), rotation }
        }
        _ => return,
    };
}

/// `access-log "std-out"` would quietly make a file of that name.
fn warn_of_misspelt_target(lowering: &mut Lowering<'_>, text: &placeholders::Text) {
    if text.secret || text.value.contains(['/', '.']) {
        return;
    }
    let diagnostic =
        Diagnostic::warning("odd-path", text.location.clone(), format!("this writes to a file named `{}`", text.value));
    let diagnostic = match nearest(&text.value, ["stdout", "stderr", "off"]) {
        Some(candidate) => diagnostic.help(format!("did you mean `\"{candidate}\"`? For a file, write `./{}`", text.value)),
        None => diagnostic.help(format!("if that is meant, write `./{}`", text.value)),
    };
    lowering.report(diagnostic);
}

fn read_format(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<AccessLogFormat> {
    let value = expect_text(lowering, line.property("format")?, "`format=`", "`\"json\"`, `\"common\"` or a template")?;
    let Literal::Text(raw) = &value.literal else { return None };
    match raw.as_str() {
        "json" => return Some(AccessLogFormat::Json),
        "common" => return Some(AccessLogFormat::Common),
        _ => {}
    }
    if !raw.contains('{') {
        let diagnostic = Diagnostic::error("bad-value", value.location.clone(), format!("`format=` cannot be `{raw}`"));
        return lowering.refuse(match nearest(raw, ["json", "common"]) {
            Some(candidate) => diagnostic.help(format!("did you mean `\"{candidate}\"`?")),
            None => diagnostic
                .help("it can be `\"json\"`, `\"common\"`, or a template such as `\"{client.ip} {method} {uri} {status}\"`"),
        });
    }
    lowering.spans.access_log_format = Some(value.location.clone());
    placeholders::resolve_template(lowering, value, Stage::Log, None).map(AccessLogFormat::Template)
}

pub fn write(line: &mut Writer, AccessLog { target, format }: &AccessLog) {
    line.name("access-log");
    match target {
        LogTarget::Off => line.argument("off"),
        LogTarget::Stdout => line.argument("stdout"),
        LogTarget::Stderr => line.argument("stderr"),
        LogTarget::File { path, rotation: _ } => line.argument(path.display()),
    };
    match format {
        AccessLogFormat::Json => line.property("format", "json"),
        AccessLogFormat::Common => line.property("format", "common"),
        AccessLogFormat::Template(template) => line.property("format", template),
    };
    if let LogTarget::File { path: _, rotation: Some(Rotation { size_bytes, keep }) } = target {
        line.property("rotate", size(size_bytes)).number("keep", keep);
    }
}
