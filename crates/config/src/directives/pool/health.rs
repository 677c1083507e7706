//! `health "/healthz" interval="2s"`: servers are asked whether they are well.

use super::PoolDraft;
use crate::diagnostics::Diagnostic;
use crate::forms::{is_token, show_status_range, status_ranges};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::patterns;
use crate::placeholders::{self, Text};
use crate::reading::{Read, expect_text};
use crate::table::{Argument, Kind, Place, Property};
use crate::units::show_duration;
use crate::written_line::{Writer, duration};
use std::borrow::Cow;
use std::time::Duration;
use tidegate_model::{Health, HttpProbe, Probe, SiteAddress, StatusRange, Talk, TextPattern};

const INTERVAL: Kind = Kind::Duration { min: Duration::from_millis(50), max: Duration::from_secs(3600) };
const TIMES: Kind = Kind::Integer { min: 1, max: 100 };

pub static HEALTH: Directive = Directive {
    name: "health",
    places: &[Place::Pool],
    arguments: &[Argument::optional(
        "path",
        Kind::Text("a path, as in `\"/healthz\"`"),
        "What is asked for; only for `type=\"http\"`, and needed there.",
    )],
    properties: &[
        Property::once("type", Kind::Choice(Probe::NAMES), "What is asked; `http` when left out."),
        Property::once("interval", INTERVAL, "Between two questions to a server that is up; `2s` when left out."),
        Property::once(
            "interval-down",
            INTERVAL,
            "The same for a server that is down or not known yet; `1s` when left out, but not more than `interval=` and not less than `timeout=`.",
        ),
        Property::once(
            "timeout",
            Kind::Duration { min: Duration::from_millis(10), max: Duration::from_secs(3600) },
            "How long an answer may take, not longer than `interval=`; `1s` when left out, or as long as a shorter interval.",
        ),
        Property::once("rise", TIMES, "Good answers in a row that bring a server up; `2` when left out."),
        Property::once("fall", TIMES, "Bad answers in a row that take a server down; `3` when left out."),
        Property::once("port", Kind::Integer { min: 1, max: 65_535 }, "Asked on this port instead of the server's own."),
        Property::once(
            "expect",
            Kind::Text("statuses and ranges of them, separated by commas"),
            "For `http`: the statuses that are good; `200-399` when left out.",
        ),
        Property::once("method", Kind::Text("a method, as in `\"HEAD\"`"), "For `http`; `GET` when left out."),
        Property::once(
            "host",
            Kind::Text("a host, as in `\"example.com\"`"),
            "For `http`: the `Host` of the request; the server's own address when left out.",
        ),
        Property::many("header", Kind::Text("`Name: value`"), "For `http`: a further field of the request."),
        Property::once(
            "body",
            Kind::Text("a text, or a pattern"),
            "For `http`: what the first 64 KiB of the answer's body have to be, as a pattern of `match`.",
        ),
        Property::once(
            "send",
            Kind::Text("a text, as in `\"PING\\r\\n\"`"),
            "For `tcp`: what is sent once the connection is open.",
        ),
        Property::once(
            "receive",
            Kind::Text("a text, or a pattern"),
            "For `tcp`: what has to come back, as `body=` says it; for servers that speak first without `send=`.",
        ),
        Property::once(
            "service",
            Kind::Text("a name"),
            "For `grpc`: the service that is asked about; the whole server when left out.",
        ),
    ],
    summary: "Servers are asked whether they are well, and those that are not get no requests.",
    details: "`http` asks for a path and looks at the status; a redirect is not followed, so it is as good as its status, and `200-399` takes it. \
              `tcp` is content with a connection, or with what `receive=` says comes back: `health type=\"tcp\" send=\"PING\\r\\n\" receive=\"+PONG*\"` for Redis, `receive=\"220 *\"` for SMTP. `tls` with a handshake. `grpc` asks by the gRPC health protocol, which answers `SERVING`.\n\n\
              In a pool with `protocol \"fastcgi\"`, `http` asks in FastCGI: the path is `ping.path` or `pm.status_path` of PHP-FPM, or the file of a script as the server sees it, as \
              in `health \"/ping\" body=\"pong\"`. With every process of PHP-FPM busy the question waits as requests do, so its `timeout=` decides.\n\n\
              The whole process asks once, whatever the number of its threads, and spreads the questions by a tenth of the interval. At the start the first \
              answer decides, good or bad, without waiting for `rise=` or `fall=`; as long as no server of the pool has answered, all of them are used.\n\n\
              `body=\"ok\"` is the whole body, blanks around it aside, `\"ok*\"` its start, `\"*ok\"` its end, `\"~ok\"` a regular expression anywhere in it.",
    default: "servers are not asked; see `outlier` for what happens then",
    example: "health \"/healthz\" interval=\"2s\" timeout=\"1s\" rise=2 fall=3 expect=\"200-399\"",
    lower: Lower::Pool(lower_health),
    ..Directive::PLAIN
};

/// Properties that mean something to one type alone.
const OF_ONE_TYPE: &[(&str, &str)] = &[
    ("send", "tcp"),
    ("receive", "tcp"),
    ("expect", "http"),
    ("method", "http"),
    ("host", "http"),
    ("header", "http"),
    ("body", "http"),
    ("service", "grpc"),
];

const EXPECTED: StatusRange = StatusRange { first: 200, last: 399 };
/// Each goes out with every question.
const HEADERS_MAX: usize = 32;
/// Fits what any system takes at once, whatever the server does.
const SEND_BYTES_MAX: usize = 4096;

/// Fields that say where a request ends and whom it is for, which the probe writes itself.
const FIELDS_OF_THE_PROBE: [&str; 5] = ["host", "connection", "content-length", "transfer-encoding", "upgrade"];

fn lower_health(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    let kind = match line.property("type") {
        None => Some("http"),
        Some(_) => line.read(lowering, "type").map(Read::choice),
    };
    if let Some(kind) = kind {
        refuse_others(lowering, line, kind);
    }
    let path = line.read_argument(lowering, 0).map(Read::text);
    let probe = match kind {
        Some("http") => http(lowering, line, path).map(Probe::Http),
        Some("tcp") => talk(lowering, line).map(Probe::Tcp),
        Some("tls") => Some(Probe::Tls),
        Some("grpc") => grpc(lowering, line),
        _ => None,
    };
    let times = times(lowering, line);
    let rise = line.number(lowering, "rise").map_or(Health::RISE, |count| count as u32);
    let fall = line.number(lowering, "fall").map_or(Health::FALL, |count| count as u32);
    let port = line.number(lowering, "port").map(|port| port as u16);
    let (Some(probe), Some(Times { interval, interval_down, timeout })) = (probe, times) else { return };
    draft.pool.health = Some(Health { probe, interval, interval_down, timeout, rise, fall, port });
}

/// What is written, and means nothing to this type.
fn refuse_others(lowering: &mut Lowering<'_>, line: &Line<'_>, kind: &str) {
    for (name, owner) in OF_ONE_TYPE.iter().filter(|(_, owner)| *owner != kind) {
        for entry in line.properties(name) {
            let message = format!("`{name}=` has no meaning for `type=\"{kind}\"`");
            let diagnostic = Diagnostic::error("property-of-another-type", entry.location.clone(), message);
            lowering.report(diagnostic.help(format!("remove it, or write `type=\"{owner}\"`")));
        }
    }
    if let Some(path) = line.argument(0)
        && kind != "http"
    {
        let message = format!("`health type=\"{kind}\"` takes no path");
        let help = if kind == "grpc" {
            "remove it; one service is asked about with `service=`"
        } else {
            "remove it, or ask for the path with `type=\"http\"`"
        };
        lowering.report(Diagnostic::error("path-without-http", path.location.clone(), message).help(help));
    }
}

struct Times {
    interval: Duration,
    interval_down: Duration,
    timeout: Duration,
}

fn times(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Times> {
    let errors_before = lowering.diagnostics.len();
    let interval = line.duration(lowering, "interval").unwrap_or(Health::INTERVAL);
    let timeout = line.duration(lowering, "timeout").unwrap_or(Health::TIMEOUT.min(interval));
    let interval_down = line.duration(lowering, "interval-down").unwrap_or(Health::INTERVAL_DOWN.min(interval).max(timeout));
    if lowering.has_errors_since(errors_before) {
        return None;
    }
    for (name, bound) in [("interval", interval), ("interval-down", interval_down)] {
        if timeout <= bound {
            continue;
        }
        // The one that is written is the one to look at.
        let value = line.property("timeout").or_else(|| line.property(name));
        let at = value.map_or_else(|| line.location(), |value| value.location.clone());
        let message = format!(
            "an answer may take {}, which is longer than the {} of `{name}=`",
            show_duration(timeout),
            show_duration(bound)
        );
        let help = format!("lower `timeout=` to at most {}, or raise `{name}=`", show_duration(bound));
        return lowering.refuse(Diagnostic::error("timeout-beyond-interval", at, message).help(help));
    }
    Some(Times { interval, interval_down, timeout })
}

fn talk(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Talk> {
    let errors_before = lowering.diagnostics.len();
    let send = line.text(lowering, "send");
    if let Some(text) = send.as_ref().filter(|text| text.value.is_empty() || text.value.len() > SEND_BYTES_MAX) {
        let diagnostic = text.error("bad-value", format!("what is sent has 1 to {SEND_BYTES_MAX} bytes"));
        lowering.report(diagnostic.help("for example `send=\"PING\\r\\n\"`; leave it out where the server speaks first"));
    }
    let receive = pattern_of(lowering, line, "receive");
    let talk = Talk { send: send.map(|text| text.value), receive };
    (!lowering.has_errors_since(errors_before)).then_some(talk)
}

fn grpc(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Probe> {
    let Some(service) = line.text(lowering, "service") else {
        return line.property("service").is_none().then_some(Probe::Grpc { service: None });
    };
    if service.value.is_empty() || service.value.chars().any(char::is_control) {
        let diagnostic = service.error("bad-value", "this cannot be the name of a service");
        lowering.report(diagnostic.help("for example `service=\"shop.Orders\"`; for the whole server, leave it out"));
        return None;
    }
    Some(Probe::Grpc { service: Some(service.value) })
}

fn http(lowering: &mut Lowering<'_>, line: &Line<'_>, path: Option<Text>) -> Option<HttpProbe> {
    let errors_before = lowering.diagnostics.len();
    if line.argument(0).is_none() {
        let diagnostic = Diagnostic::error("missing-argument", line.location(), "`health` needs the path to ask for")
            .help("for example `health \"/healthz\"`; to be content with a connection, `health type=\"tcp\"`");
        lowering.report(diagnostic);
    }
    let path = path.and_then(|path| checked_path(lowering, path));
    let method = line.text(lowering, "method").and_then(|text| method(lowering, text));
    let host = line.text(lowering, "host").and_then(|text| host(lowering, text));
    let expect = line.text(lowering, "expect");
    let expect = expect.and_then(|text| text.parsed(lowering, "bad-value", status_ranges(&text.value)));
    let headers = headers(lowering, line);
    let body = body(lowering, line);
    let probe = HttpProbe {
        path: path?,
        method: method.unwrap_or_else(|| "GET".into()),
        host,
        headers,
        expect: expect.unwrap_or_else(|| vec![EXPECTED]),
        body,
    };
    if let Some(value) = line.property("body")
        && probe.method == "HEAD"
    {
        let message = "the answer to a `HEAD` has no body";
        let diagnostic = Diagnostic::error("body-of-head", value.location.clone(), message);
        lowering.report(diagnostic.help("remove `method=` or `body=`"));
    }
    (!lowering.has_errors_since(errors_before)).then_some(probe)
}

fn checked_path(lowering: &mut Lowering<'_>, text: Text) -> Option<String> {
    let help: Cow<'static, str> = match text.value.as_str() {
        path if path.contains("://") => {
            let path = path.split_once("://").and_then(|(_, rest)| rest.find('/').map(|start| &rest[start..])).unwrap_or("/");
            format!("write the path alone, `{path}`; a port is given with `port=`, a host with `host=`").into()
        }
        path if !path.starts_with('/') => format!("write `/{path}`").into(),
        // It goes into the request as it is, and a blank would end it there.
        path if !path.bytes().all(|byte| byte.is_ascii_graphic()) => {
            "blanks and letters outside ASCII are percent-encoded, as in `%20`".into()
        }
        path if path.contains('#') => "a part behind `#` is never sent: remove it".into(),
        _ => return Some(text.value),
    };
    let diagnostic = text.error("bad-path", format!("`{}` is not a path that can be asked for", text.value));
    lowering.refuse(diagnostic.help(help))
}

fn method(lowering: &mut Lowering<'_>, text: Text) -> Option<String> {
    let upper = text.value.to_ascii_uppercase();
    if is_token(&text.value) && text.value == upper && upper != "CONNECT" {
        return Some(text.value);
    }
    let diagnostic = text.error("bad-value", format!("`{}` is not a method that can be asked with", text.value));
    let help = if is_token(&upper) && upper != text.value && !text.secret {
        Cow::Owned(format!("methods are case sensitive: write `{upper}`"))
    } else {
        "for example `GET`, `HEAD` or `OPTIONS`".into()
    };
    lowering.refuse(diagnostic.help(help))
}

fn host(lowering: &mut Lowering<'_>, text: Text) -> Option<String> {
    let is_host = !text.value.contains("://")
        && SiteAddress::parse(&text.value).is_ok_and(|address| match address.host {
            tidegate_model::HostPattern::Exact(_) | tidegate_model::HostPattern::Ip(_) => true,
            tidegate_model::HostPattern::Any
            | tidegate_model::HostPattern::Wildcard(_)
            | tidegate_model::HostPattern::DeepWildcard(_)
            | tidegate_model::HostPattern::Socket(_) => false,
        });
    if is_host {
        return Some(text.value);
    }
    let diagnostic = text.error("bad-value", format!("`{}` is not a host", text.value));
    lowering.refuse(diagnostic.help("for example `host=\"example.com\"`"))
}

fn headers(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    if let Some(entry) = line.properties("header").nth(HEADERS_MAX) {
        let message = format!("a question has at most {HEADERS_MAX} fields of its own");
        lowering.report(Diagnostic::error("too-many-headers", entry.location.clone(), message));
    }
    for text in line.texts(lowering, "header").into_iter().take(HEADERS_MAX) {
        let Some((name, value)) = text.value.split_once(':').map(|(name, value)| (name.trim(), value.trim())) else {
            lowering.report(text.error("bad-header", "a `:` is missing").help("write `Name: value`"));
            continue;
        };
        if !is_token(name) {
            lowering.report(text.error("bad-header", format!("`{name}` is not a header name")).help("write `Name: value`"));
        } else if FIELDS_OF_THE_PROBE.iter().any(|field| name.eq_ignore_ascii_case(field)) {
            let diagnostic = text.error("bad-header", format!("`{name}` is set by the proxy itself"));
            lowering.report(diagnostic.help(if name.eq_ignore_ascii_case("host") { "use `host=`" } else { "remove it" }));
        } else if value.chars().any(|c| c != '\t' && c.is_control()) {
            // A line break would start a field of its own, or a request.
            lowering.report(text.error("bad-header", "a value holds no line breaks and no other control characters"));
        } else {
            headers.push((name.to_string(), value.to_string()));
        }
    }
    headers
}

fn body(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<TextPattern> {
    pattern_of(lowering, line, "body")
}

/// What an answer has to be.
fn pattern_of(lowering: &mut Lowering<'_>, line: &Line<'_>, name: &str) -> Option<TextPattern> {
    let value = expect_text(lowering, line.property(name)?, &format!("`{name}=`"), "a text, or a pattern")?;
    let text = placeholders::resolve_pattern(lowering, value)?;
    if text.value.is_empty() {
        let diagnostic = text.error("bad-value", format!("`{name}=` is empty"));
        lowering.report(diagnostic.help(format!("for example `{name}=\"ok*\"`; for whatever comes, leave it out")));
        return None;
    }
    patterns::parse_text_pattern(lowering, &text, &text.value)
}

pub fn write(line: &mut Writer, health: &Health) {
    let Health { probe, interval, interval_down, timeout, rise, fall, port } = health;
    line.name("health");
    match probe {
        Probe::Http(probe) => write_http(line, probe),
        Probe::Tcp(Talk { send, receive }) => {
            line.property("type", probe.name()).optional("send", send.as_ref());
            line.optional("receive", receive.as_ref().map(patterns::show_text));
        }
        Probe::Tls => {
            line.property("type", probe.name());
        }
        Probe::Grpc { service } => {
            line.property("type", probe.name()).optional("service", service.as_ref());
        }
    }
    line.property("interval", duration(interval)).property("interval-down", duration(interval_down));
    line.property("timeout", duration(timeout)).number("rise", rise).number("fall", fall).optional_number("port", *port);
}

fn write_http(line: &mut Writer, HttpProbe { path, method, host, headers, expect, body }: &HttpProbe) {
    line.argument(path).property("method", method).optional("host", host.as_ref());
    for (name, value) in headers {
        let value = line.secret_by_name(name, value);
        line.property("header", format_args!("{name}: {value}"));
    }
    line.list("expect", expect, show_status_range).optional("body", body.as_ref().map(patterns::show_text));
}
