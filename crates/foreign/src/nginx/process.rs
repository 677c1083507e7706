//! What a file says for all of the process: times and sizes of connections, logs, kept answers, places of addresses.

use super::guards::from_folder;
use super::scope::{bytes, milliseconds, time};
use super::settings::{CacheZone, OTHER_FOLDER, cache_line};
use super::variables::{OF_LOGS, TextPart, VARIABLES, field_name, parts};
use crate::accounts::Origin;
use crate::braces::{Statement, named};
use crate::outline::OutlinedSetting;
use crate::texts::literal;
use tidegate_kdl::quoted;

/// Logs of which each has its own line.
const LOGS_MAX: usize = 6;

/// The settings of `http { }`; `caches` are those of which a route makes use.
pub fn settings(http: &[Statement], caches: &[&CacheZone<'_>]) -> Vec<OutlinedSetting> {
    let mut settings = Vec::new();
    settings.extend(limits(http));
    settings.extend(caches.first().map(|zone| {
        let mut origin = Origin::default();
        origin.differ(zone.statement.start(), OTHER_FOLDER);
        OutlinedSetting { line: cache_line(zone), origin }
    }));
    settings.extend(logs(http));
    settings.extend(places(http));
    settings.extend(tickets(http));
    settings
}

fn limits(http: &[Statement]) -> Option<OutlinedSetting> {
    let mut lines = Vec::new();
    let mut origin = Origin::default();
    let mut add = |word: &str, name: &str, least: u64, most: u64| {
        let Some(said) = named(http, word).next() else { return };
        let Some(written) = milliseconds(said.argument()) else { return };
        let lasts = written.clamp(least, most);
        let Some(text) = time(&format!("{lasts}ms")) else { return };
        lines.push(format!("{name} {}", quoted(&text)));
        if lasts == written {
            origin.carry(said.start());
        } else {
            origin.differ(said.start(), format!("it is {text} here, which is as far as it goes"));
        }
    };
    add("client_header_timeout", "header-timeout", 100, 3_600_000);
    if named(http, "keepalive_timeout").next().is_some_and(|own| own.argument() != "0") {
        add("keepalive_timeout", "keep-alive", 1_000, 86_400_000);
    }
    if let Some(buffers) = named(http, "large_client_header_buffers").next() {
        match buffers.arguments().get(1).and_then(|each| bytes(each)) {
            Some(each) if each > 64 << 10 => origin.differ(buffers.start(), "a head has 64KiB at most"),
            Some(_) => origin.carry(buffers.start()),
            None => {}
        }
    }
    let line = if lines.is_empty() { return None } else { format!("limits {{ {}; }}", lines.join("; ")) };
    Some(OutlinedSetting { line, origin })
}

fn logs(http: &[Statement]) -> Vec<OutlinedSetting> {
    let mut settings: Vec<OutlinedSetting> = Vec::new();
    for log in named(http, "access_log").take(LOGS_MAX) {
        settings.extend(log_line(log, http));
    }
    settings
}

/// `access_log /var/log/nginx/access.log main buffer=32k`
pub fn log_line(log: &Statement, http: &[Statement]) -> Option<OutlinedSetting> {
    let target = log.argument();
    if target == "off" || target.contains('$') || log.arguments().iter().any(|word| word.starts_with("if=")) {
        return None;
    }
    let mut origin = Origin::default();
    let target = match target {
        "/dev/stdout" => "stdout".to_owned(),
        "/dev/stderr" => "stderr".to_owned(),
        // A daemon of syslog has other words.
        target if target.starts_with("syslog:") => syslog(target)?,
        target => from_folder(target),
    };
    let name = log.arguments().get(1).filter(|word| !word.contains('=')).map_or("combined", String::as_str);
    let format = named(http, "log_format").find(|format| format.argument() == name);
    let text = format.map(|format| {
        let texts: Vec<&str> =
            format.arguments().iter().skip(1).map(String::as_str).filter(|word| !word.starts_with("escape=")).collect();
        texts.concat()
    });
    let (form, how) = line_form(text.as_deref().unwrap_or(COMBINED));
    origin.carry(log.start());
    // What is different of the lines is said where they are written.
    let said = format.unwrap_or(log);
    match how {
        Some(how) => origin.differ(said.start(), how),
        None => origin.carry(said.start()),
    }
    Some(OutlinedSetting { line: format!("access-log {}{form}", quoted(&target)), origin })
}

/// What nginx writes where no format is named.
const COMBINED: &str =
    "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";
const OTHER_TIMES: &str = "times are written as in `2026-01-31T11:15:57.123Z`, and a request as `{method} {uri} {protocol}`";
const AS_JSON: &str = "its format names what has no placeholder, so lines are JSON with all that is known";

/// `format=` for lines of this format, and what is different of them.
fn line_form(text: &str) -> (String, Option<String>) {
    let words = |text: &str| text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let text = words(text);
    if let Some(rest) = text.strip_prefix(COMBINED) {
        let left: Vec<String> = parts(rest)
            .iter()
            .filter_map(|part| match part {
                TextPart::Variable(name) => Some(format!("`${name}`")),
                TextPart::Plain(_) => None,
            })
            .collect();
        let left: Vec<&str> = left.iter().map(String::as_str).collect();
        let (is, they) = if left.len() == 1 { ("is", "it") } else { ("are", "them") };
        let how = (!left.is_empty()).then(|| {
            let left = tidegate_kdl::listed(&left, "and");
            format!("`common` ends with the user agent, so {left} {is} left out: a template in `format=` has {they}")
        });
        return (" format=\"common\"".to_owned(), how);
    }
    match template(&text) {
        Some(form) => {
            let is_plain = !["{time}", "{protocol}"].iter().any(|word| form.contains(word));
            (format!(" format={}", quoted(&form)), (!is_plain).then(|| OTHER_TIMES.to_owned()))
        }
        None => (String::new(), Some(AS_JSON.to_owned())),
    }
}

/// `syslog:server=192.0.2.4:514,facility=local7`
fn syslog(target: &str) -> Option<String> {
    let server = target.trim_start_matches("syslog:").split(',').find_map(|word| word.strip_prefix("server="))?;
    Some(match server.strip_prefix("unix:") {
        Some(path) => format!("syslog:{path}"),
        None if server.contains(':') => format!("syslog://{server}"),
        None => format!("syslog://{server}:514"),
    })
}

fn template(text: &str) -> Option<String> {
    let mut out = String::new();
    for part in parts(text) {
        match part {
            TextPart::Plain(plain) => out.push_str(&literal(plain)),
            TextPart::Variable(name) => {
                let known =
                    OF_LOGS.iter().chain(VARIABLES).find(|(theirs, _)| *theirs == name).map(|(_, ours)| (*ours).to_owned());
                let field = || name.strip_prefix("http_").map(|field| format!("{{request.header.{}}}", field_name(field)));
                let sent = || name.strip_prefix("sent_http_").map(|field| format!("{{response.header.{}}}", field_name(field)));
                out.push_str(&known.or_else(field).or_else(sent)?);
            }
        }
    }
    Some(out)
}

/// `geoip2 /var/lib/GeoLite2-Country.mmdb { … }`
fn places(http: &[Statement]) -> Option<OutlinedSetting> {
    let files: Vec<&Statement> = named(http, "geoip2").collect();
    let mut origin = Origin::default();
    origin.carry_all(files.iter().map(|file| file.start()));
    let names: Vec<String> = files.iter().map(|file| quoted(&from_folder(file.argument()))).collect();
    (!names.is_empty()).then(|| OutlinedSetting { line: format!("geoip {}", names.join(" ")), origin })
}

/// What the variables of a `geoip2` are called here.
pub fn place_variables(geoip: &Statement) -> Vec<(String, String)> {
    let of = |row: &Statement| {
        let variable = row.name().strip_prefix('$')?.to_owned();
        let path: Vec<&str> = row.arguments().iter().map(String::as_str).filter(|word| !word.contains('=')).collect();
        let ours = match path.as_slice() {
            ["country", "iso_code"] => "{geo.country}",
            ["continent", "code"] => "{geo.continent}",
            ["city", "names", _] => "{geo.city}",
            ["subdivisions", "0", "iso_code"] => "{geo.region}",
            ["autonomous_system_number"] => "{geo.asn}",
            ["autonomous_system_organization"] => "{geo.organization}",
            _ => return None,
        };
        Some((variable, ours.to_owned()))
    };
    geoip.inside().iter().filter_map(of).collect()
}

fn tickets(http: &[Statement]) -> Option<OutlinedSetting> {
    let keys: Vec<&Statement> = named(http, "ssl_session_ticket_key").collect();
    let mut origin = Origin::default();
    origin.carry_all(keys.iter().map(|key| key.start()));
    let names: Vec<String> = keys.iter().map(|key| quoted(&from_folder(key.argument()))).collect();
    (!names.is_empty()).then(|| OutlinedSetting { line: format!("ticket-keys {}", names.join(" ")), origin })
}
