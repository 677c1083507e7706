//! `access-log "stdout" format="json"`: one line for each request, in as many logs as there are lines of it.

use crate::diagnostics::{Diagnostic, nearest, shortened};
use crate::forms::{show_status_range, status_ranges};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders;
use crate::reading::{Read, expect_text};
use crate::syntax::Literal;
use crate::table::{Argument, Kind, Place, Property, Repeat, Stage};
use crate::written_line::{Lines, Writer, duration, size};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tidegate_model::{AccessLog, AccessLogFormat, LogConditions, LogTarget, Rotation, Syslog, SyslogPlace};

const KEEP_DEFAULT: u32 = 7;
const SYSLOG: &str = "syslog:";
/// RFC 5426 section 3.3.
const SYSLOG_PORT: u16 = 514;

pub static ACCESS_LOG: Directive = Directive {
    name: "access-log",
    places: &[Place::Top],
    repeat: Repeat::Many,
    arguments: &[Argument::one(
        "target",
        Kind::ChoiceOr(&["stdout", "stderr", "off"], "a path or a daemon of syslog"),
        "`stdout`, `stderr`, `off`, the path of a file, or syslog (RFC 5424): `syslog:/dev/log`, or `syslog://192.0.2.4:514` for UDP.",
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
        Property::once("facility", Kind::Choice(&Syslog::FACILITIES), "For syslog; `local0` when left out."),
        Property::once("tag", Kind::Text("the name of an application"), "For syslog; `tidegate` when left out."),
        Property::once(
            "site",
            Kind::Text("addresses of sites, separated by commas"),
            "Only requests to these sites, as in `\"https://example.com\"`.",
        ),
        Property::once(
            "status",
            Kind::Text("statuses and ranges of them, separated by commas"),
            "Only answers with these, as in `\"400,500-599\"`.",
        ),
        Property::once(
            "slower-than",
            Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(86_400) },
            "Only requests that took at least so long.",
        ),
    ],
    summary: "Where the log of requests goes, and what a line looks like.",
    details: "It is written beside the requests and never in their way: when the target is too slow, lines are dropped and counted.\n\n\
              There may be several, up to eight, each with its own target, format and conditions, all of which have to hold: a request has a line in each that wants it. One that is slow holds up no other. \
              What a site or a route says with `log` comes first: without a line there it has none anywhere.\n\n\
              Syslog gets a message for each line, as `informational`, of at most 32 KiB.",
    default: "`\"stdout\" format=\"json\"`",
    example: "access-log \"/var/log/tidegate/access.log\" rotate=\"100MB\" keep=7\naccess-log \"/var/log/tidegate/errors.log\" status=\"500-599\"",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let errors_before = lowering.diagnostics.len();
    let target = line.read_argument(lowering, 0);
    let format = read_format(lowering, line).unwrap_or(AccessLogFormat::Json);
    let when = read_conditions(lowering, line);
    let is_first = lowering.spans.access_logs.is_empty();
    if is_first {
        // In the place of the one that there is without a line.
        lowering.configuration.access_logs.clear();
    }
    let sites_at = line.property("site").map(|value| value.location.clone());
    lowering.spans.access_logs.push((line.location(), sites_at));
    check_fits(lowering, line, target.as_ref());
    if matches!(target, Some(Read::Choice("off", _))) {
        if line.node.entries.len() > 1 {
            line.settings_of_off().into_iter().for_each(|fault| lowering.report(fault));
        }
        if !is_first {
            let diagnostic = Diagnostic::error("logs-and-off", line.location(), "there are other access logs, and this is `off`");
            lowering.report(diagnostic.help("remove it: a log that is not written is not there"));
        }
        lowering.spans.access_log_off = Some(line.location());
        return;
    }
    if let Some(off) = lowering.spans.access_log_off.clone() {
        let diagnostic = Diagnostic::error("logs-and-off", line.location(), "the access log is `off`, and this is one");
        lowering.report(diagnostic.label(off, "this says so").help("remove one of them"));
        return;
    }
    let Some(target) = target.and_then(|target| lower_target(lowering, line, target)) else { return };
    if lowering.has_errors_since(errors_before) {
        return;
    }
    let is_same = |log: &AccessLog| match (&log.target, &target) {
        (LogTarget::File { path: one, .. }, LogTarget::File { path: other, .. }) => one == other,
        (one, other) => one == other,
    };
    if lowering.configuration.access_logs.iter().any(is_same) {
        let diagnostic = Diagnostic::error("same-log", line.location(), "another access log has the same target");
        lowering.report(diagnostic.help("give it another one, or remove one of them"));
        return;
    }
    if lowering.configuration.access_logs.len() == AccessLog::LOGS_MAX {
        let message = format!("there are more than {} access logs", AccessLog::LOGS_MAX);
        lowering.report(Diagnostic::error("too-many-logs", line.location(), message).help("remove some of them"));
        return;
    }
    lowering.configuration.access_logs.push(AccessLog { target, format, when });
}

/// What only some targets have.
fn check_fits(lowering: &mut Lowering<'_>, line: &Line<'_>, target: Option<&Read>) {
    let Some(target) = target else { return };
    let text = match target {
        Read::Text(text) => Some(text),
        _ => None,
    };
    let is_syslog = text.is_some_and(|text| text.value.starts_with(SYSLOG));
    let is_file = text.is_some() && !is_syslog;
    let fits = [
        ("rotate", is_file, "only a file is rotated"),
        ("keep", line.property("rotate").is_some(), "`keep=` needs `rotate=`"),
        ("facility", is_syslog, "only syslog has facilities"),
        ("tag", is_syslog, "only syslog has tags"),
    ];
    for (name, fits, message) in fits {
        if let (Some(value), false) = (line.property(name), fits) {
            let code = if is_syslog || matches!(name, "rotate" | "keep") { "no-file" } else { "no-syslog" };
            lowering.report(Diagnostic::error(code, value.location.clone(), message));
        }
    }
}

fn lower_target(lowering: &mut Lowering<'_>, line: &Line<'_>, target: Read) -> Option<LogTarget> {
    match target {
        Read::Choice("stdout", _) => Some(LogTarget::Stdout),
        Read::Choice("stderr", _) => Some(LogTarget::Stderr),
        Read::Text(text) if text.value.is_empty() => {
            lowering
                .report(text.error("bad-value", "the path of the log is empty").help("for no log, write `access-log \"off\"`"));
            None
        }
        Read::Text(text) if text.value.starts_with(SYSLOG) => {
            let place = syslog_place(lowering, &text)?;
            let facility = line.read(lowering, "facility").map(Read::choice);
            let number = facility.and_then(|name| Syslog::FACILITIES.iter().position(|known| *known == name));
            let tag = line.text(lowering, "tag");
            if let Some(tag) = &tag
                && (tag.value.is_empty()
                    || tag.value.len() > Syslog::TAG_BYTES_MAX
                    || !tag.value.bytes().all(|byte| byte.is_ascii_graphic()))
            {
                let message = format!("`{}` cannot be the name of an application", shortened(&tag.value));
                let most = Syslog::TAG_BYTES_MAX;
                let help = format!("at most {most} printable characters without blanks (RFC 5424)");
                lowering.report(tag.error("bad-name", message).help(help));
            }
            let tag = tag.map_or_else(|| Syslog::TAG.to_owned(), |tag| tag.value);
            let facility = number.map_or(Syslog::FACILITY, |number| number as u8);
            Some(LogTarget::Syslog(Syslog { place, facility, tag }))
        }
        Read::Text(text) => {
            warn_of_misspelt_target(lowering, &text);
            lowering.spans.access_log = Some(text.location.clone());
            let size_bytes = line.number(lowering, "rotate");
            let keep = line.number(lowering, "keep").map_or(KEEP_DEFAULT, |keep| keep as u32);
            let rotation = size_bytes.map(|size_bytes| Rotation { size_bytes, keep });
            Some(LogTarget::File { path: lowering.path(&text.value, &text.location), rotation })
        }
        _ => None,
    }
}

/// `syslog:/dev/log`, `syslog://192.0.2.4:514`
fn syslog_place(lowering: &mut Lowering<'_>, text: &placeholders::Text) -> Option<SyslogPlace> {
    let place = &text.value[SYSLOG.len()..];
    if let Some(address) = place.strip_prefix("//") {
        let with_port = if address.parse::<IpAddr>().is_ok() { format!("{address}:{SYSLOG_PORT}") } else { address.to_owned() };
        return match with_port.parse::<SocketAddr>() {
            Ok(address) if address.port() > 0 => Some(SyslogPlace::Udp(address)),
            Ok(_) | Err(_) => {
                let message = format!("`{}` is no address of a daemon of syslog", shortened(address));
                lowering.report(text.error("bad-address", message).help("for example `\"syslog://192.0.2.4:514\"`"));
                None
            }
        };
    }
    if place.starts_with('/') {
        return Some(SyslogPlace::Unix(place.into()));
    }
    let message = format!("`{}` names no daemon of syslog", shortened(&text.value));
    let help = "`\"syslog:/dev/log\"` for a socket, `\"syslog://192.0.2.4:514\"` for UDP; for a file of that name, write it with `./` in front";
    lowering.report(text.error("bad-value", message).help(help));
    None
}

fn read_conditions(lowering: &mut Lowering<'_>, line: &Line<'_>) -> LogConditions {
    let mut when = LogConditions::default();
    if let Some(text) = line.text(lowering, "site") {
        when.sites = text.value.split(',').map(|address| address.trim().to_owned()).collect();
    }
    if let Some(text) = line.text(lowering, "status") {
        when.statuses = text.parsed(lowering, "bad-value", status_ranges(&text.value)).unwrap_or_default();
    }
    when.slower_than = line.duration(lowering, "slower-than");
    when
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

pub fn write_all(lines: &mut Lines<'_>, logs: &[AccessLog]) {
    if logs.is_empty() {
        lines.line().name("access-log").argument("off");
    }
    // Several are shown as a list, each as a whole.
    let is_one = logs.len() == 1;
    lines.extend(logs, |line, log| {
        if is_one {
            line.name("access-log")
        } else {
            line.repeated("access-log")
        };
        write_log(line, log);
    });
}

pub fn write_log(line: &mut Writer, AccessLog { target, format, when }: &AccessLog) {
    match target {
        LogTarget::Off => line.argument("off"),
        LogTarget::Stdout => line.argument("stdout"),
        LogTarget::Stderr => line.argument("stderr"),
        LogTarget::File { path, rotation: _ } => line.argument(path.display()),
        LogTarget::Syslog(Syslog { place: SyslogPlace::Unix(path), .. }) => {
            line.argument(format_args!("{SYSLOG}{}", path.display()))
        }
        LogTarget::Syslog(Syslog { place: SyslogPlace::Udp(address), .. }) => line.argument(format_args!("{SYSLOG}//{address}")),
    };
    match format {
        AccessLogFormat::Json => line.property("format", "json"),
        AccessLogFormat::Common => line.property("format", "common"),
        AccessLogFormat::Template(template) => line.property("format", template),
    };
    match target {
        LogTarget::File { path: _, rotation: Some(Rotation { size_bytes, keep }) } => {
            line.property("rotate", size(size_bytes)).number("keep", keep);
        }
        LogTarget::Syslog(Syslog { place: _, facility, tag }) => {
            line.property("facility", Syslog::FACILITIES[usize::from(*facility)]).property("tag", tag);
        }
        LogTarget::Off | LogTarget::Stdout | LogTarget::Stderr | LogTarget::File { path: _, rotation: None } => {}
    }
    let LogConditions { sites, statuses, slower_than } = when;
    line.list("site", sites, String::clone).list("status", statuses, show_status_range);
    line.optional("slower-than", slower_than.as_ref().map(duration));
}
