//! What sections of HAProxy say beside their rules: times, logs, compression, and what holds for the whole process.

use super::durations;
use super::lexer::{HaProxyLine, Section, Sections};
use crate::accounts::Origin;
use crate::outline::{Outline, OutlinedSetting};
use crate::texts::literal;
use tidegate_kdl::quoted;
use tidegate_model::RouteLog;
use tidegate_model::request_log::LINE_KEYS;

/// Steps for all that a section answers.
pub fn of_section(section: &Section, steps: &mut Vec<String>, origin: &mut Origin) {
    compressed(section, steps, origin);
    captured(section, steps, origin);
    if let Some(line) = section.all_of("unique-id-header").next()
        && is_token(line.word(1))
    {
        steps.push(format!("request-id header={}", quoted(line.word(1))));
        origin.carry(line.start());
    }
    let forwarded = section.setting("option", "forwardfor");
    if let Some((line, header)) =
        forwarded.and_then(|line| Some((line, line.behind("header")?))).filter(|(_, header)| is_token(header))
    {
        let lower = header.to_ascii_lowercase();
        if lower != "x-forwarded-for" && section.kind != "backend" {
            steps.push(format!("request-header {} \"{{client.ip}}\"", quoted(header)));
            origin.carry(line.start());
        }
    }
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn compressed(section: &Section, steps: &mut Vec<String>, origin: &mut Origin) {
    let lines: Vec<&HaProxyLine> = section.all_of("compression").collect();
    let Some(algorithms) = lines.iter().find(|line| matches!(line.word(1), "algo" | "algo-res")) else { return };
    let known: Vec<&str> = algorithms.words[2..].iter().map(String::as_str).filter(|word| *word == "gzip").collect();
    if known.is_empty() {
        origin.differ(algorithms.start(), "`gzip` is sent, as all clients take it: `deflate` is read in two ways");
    } else {
        origin.carry(algorithms.start());
    }
    let types = lines.iter().find(|line| matches!(line.word(1), "type" | "type-res"));
    let is_type = |kind: &&String| {
        let is_part =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-+._*".contains(&byte));
        kind.split_once('/').is_some_and(|(first, second)| is_part(first) && is_part(second))
    };
    let listed = types.map(|line| {
        origin.carry(line.start());
        let types: Vec<&str> = line.words[2..].iter().filter(is_type).map(String::as_str).collect();
        format!(" types={}", quoted(&types.join(",")))
    });
    steps.push(format!("compress \"gzip\"{}", listed.unwrap_or_default()));
}

/// What lines of the log have without a word.
const IN_EVERY_LINE: [&str; 9] = [
    "{request.header.Referer}",
    "{request.header.User-Agent}",
    "{request.header.Host}",
    "{host}",
    "{method}",
    "{path}",
    "{client.ip}",
    "{tls.sni}",
    "{tls.version}",
];

/// What is kept of requests for the log.
fn captured(section: &Section, steps: &mut Vec<String>, origin: &mut Origin) {
    let mut fields: Vec<String> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for line in &section.lines {
        let Some((name, value)) = captured_value(line) else { continue };
        let own = name.to_ascii_lowercase().replace(['-', '.'], "_");
        let is_there = IN_EVERY_LINE.iter().any(|known| value.eq_ignore_ascii_case(known));
        let own = if LINE_KEYS.contains(&own.as_str()) { format!("captured_{own}") } else { own };
        if !is_token(&name) || names.contains(&own) || names.len() >= RouteLog::FIELDS_MAX {
            continue;
        }
        origin.carry(line.start());
        if is_there {
            continue;
        }
        fields.push(format!("field {} {}", quoted(&own), quoted(&value)));
        names.push(own);
        if line.words.iter().any(|word| matches!(word.as_str(), "if" | "unless")) {
            origin.differ(line.start(), "the field is in the lines of all requests that have it");
        }
    }
    if !fields.is_empty() {
        steps.push(format!("log {{ {}; }}", fields.join("; ")));
    }
}

/// The name of a field in the log and its text, for a line that has it there.
fn captured_value(line: &HaProxyLine) -> Option<(String, String)> {
    let of_response = |name: &str| format!("response_{name}");
    let expression = match (line.word(0), line.word(1), line.word(2)) {
        ("capture", "request", "header") => {
            return Some((line.word(3).to_owned(), format!("{{request.header.{}}}", line.word(3))));
        }
        ("capture", "response", "header") => {
            return Some((of_response(line.word(3)), format!("{{response.header.{}}}", line.word(3))));
        }
        ("capture", "cookie", name) => return Some((name.to_owned(), format!("{{request.cookie.{name}}}"))),
        ("http-request" | "http-response", "capture", expression) => expression,
        ("tcp-request", "content", "capture") => line.word(3),
        _ => return None,
    };
    let value = super::templates::template(&format!("%[{expression}]"), &super::fetches::Variables::new()).ok()?;
    // `{request.header.Referer}` is known by its last part.
    let name = value.trim_matches(['{', '}']).rsplit('.').next()?.to_owned();
    let is_of_response = line.word(0) == "http-response";
    (value.matches('{').count() == 1).then(|| (if is_of_response { of_response(&name) } else { name }, value.clone()))
}

/// Lines for the whole process.
pub fn of_process(sections: &Sections, outline: &mut Outline) {
    limits(sections, outline);
    for global in sections.all.iter().filter(|section| section.kind == "global") {
        if is_logged(sections) {
            logged(global, outline);
        } else {
            global.lines_of("log").for_each(|line| outline.told.differ(line.start(), NOT_LOGGED));
        }
        for line in global.lines_of("nbthread") {
            if let Ok(count @ 1..=256) = line.word(1).parse::<u16>() {
                add(outline, format!("threads {count}"), line.start());
            }
        }
        for line in global.lines_of("hard-stop-after") {
            if let Some(time) = durations::of_milliseconds(line.word(1)) {
                add(outline, format!("drain {}", quoted(&time)), line.start());
            }
        }
    }
}

fn add(outline: &mut Outline, line: String, at: usize) {
    let mut origin = Origin::default();
    origin.carry(at);
    outline.settings.push(OutlinedSetting { line, origin });
}

/// Whether requests go to the logs that `global` names; a part of a file says nothing of those that use it.
fn is_logged(sections: &Sections) -> bool {
    let mut proxies = sections.all.iter().filter(|section| matches!(section.kind.as_str(), "frontend" | "listen")).peekable();
    let is_global = |section: &Section| section.lines.iter().any(|line| line.word(0) == "log" && line.word(1) == "global");
    proxies.peek().is_none() || sections.all.iter().any(is_global)
}

const NOT_LOGGED: &str = "no section says `log global`, so that no request is logged there: `access-log` would log them, \
                          and the process has its own log";

/// Logs that go to a daemon, or to the output of the process.
fn logged(global: &Section, outline: &mut Outline) {
    for line in global.lines_of("log") {
        let target = line.word(1);
        let facility = line.words.iter().skip(2).find(|word| FACILITIES.contains(&word.as_str()));
        let to = match target {
            "stdout" | "fd@1" => "stdout".to_owned(),
            "stderr" | "fd@2" => "stderr".to_owned(),
            path if path.starts_with("/dev/log") => "syslog:/dev/log".to_owned(),
            path if path.starts_with('/') => format!("syslog:{path}"),
            host => {
                let host = host.trim_start_matches("udp@").trim_start_matches("ipv4@");
                let is_address = host.split(':').next().is_some_and(|host| host.parse::<std::net::IpAddr>().is_ok());
                if !is_address {
                    outline.reasons.insert(line.start(), LOG_BY_NAME.to_owned());
                    continue;
                }
                if host.contains(':') { format!("syslog://{host}") } else { format!("syslog://{host}:514") }
            }
        };
        let known = format!("access-log {}", quoted(&to));
        if outline.settings.iter().any(|setting| setting.line.starts_with(&known)) {
            outline.told.carry(line.start());
            continue;
        }
        let facility = facility.filter(|word| to.starts_with("syslog") && *word != "local0");
        let facility = facility.map(|word| format!(" facility={}", quoted(&literal(word)))).unwrap_or_default();
        add(outline, format!("{known}{facility}"), line.start());
    }
}

const LOG_BY_NAME: &str = "the daemon of a log is named by its address: `access-log \"syslog://192.0.2.4:514\"`";

const FACILITIES: [&str; 20] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "ftp", "ntp", "local0", "local1",
    "local2", "local3", "local4", "local5", "local6", "local7",
];

/// `timeout http-request` and `timeout http-keep-alive` are of the process here.
fn limits(sections: &Sections, outline: &mut Outline) {
    let mut lines = Vec::new();
    let mut origin = Origin::default();
    let least = [("http-request", "header-timeout", 100), ("http-keep-alive", "keep-alive", 1_000)];
    for (there, here, least) in least {
        let all = sections.all.iter().filter(|section| matches!(section.kind.as_str(), "defaults" | "frontend" | "listen"));
        let own = all.flat_map(|section| section.lines_of("timeout")).filter(|line| line.word(1) == there);
        let times: Vec<(u64, &HaProxyLine)> =
            own.filter_map(|line| Some((durations::milliseconds(line.word(2))?, line))).collect();
        let Some(longest) = times.iter().map(|(time, _)| *time).max() else { continue };
        let Some(written) = durations::written(longest.max(least)) else { continue };
        for (time, line) in times {
            if time == longest {
                origin.carry(line.start());
            } else {
                origin.differ(line.start(), "one time holds for all sites here: the longest of the file");
            }
        }
        lines.push(format!("{here} {}", quoted(&written)));
    }
    if !lines.is_empty() {
        outline.settings.push(OutlinedSetting { line: format!("limits {{ {}; }}", lines.join("; ")), origin });
    }
}
