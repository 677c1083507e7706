//! How servers of a section of HAProxy are asked whether they are well.

use super::durations;
use super::lexer::{HaProxyLine, Section};
use super::servers::ServerOptions;
use crate::outline::ServerGroup;
use crate::texts::literal;
use tidegate_kdl::quoted;

const ALL_ASKED: &str = "all servers of a pool are asked, also those that say nothing of it";
const CONNECTION_ALONE: &str = "that a connection stands is all that is asked: nothing is spoken of this protocol";
const FIRST_ALONE: &str = "one text is sent and one is expected: the first of each";
const WITHOUT_PATTERN: &str = "what the answer has to be is not said so here: its status is all that is looked at";
const ONE_WAY: &str = "one way to ask holds for all servers of a pool: that of the first";

/// What is asked, as it is put together.
#[derive(Default)]
struct HealthQuestion {
    kind: &'static str,
    path: Option<String>,
    properties: Vec<String>,
}

/// The line of the pool, where its servers are asked.
pub fn checked(section: &Section, all: &[(&HaProxyLine, ServerOptions<'_>)], group: &mut ServerGroup) {
    let is_asked = |options: &ServerOptions<'_>| options.has("check") && !options.has("no-check");
    let Some((_, first)) = all.iter().find(|(_, options)| is_asked(options)) else { return };
    let mut question = question(section, group);
    let is_everyone = all.iter().all(|(_, options)| is_asked(options));
    for option in ["inter", "downinter", "rise", "fall", "port"] {
        let own = first.value(option);
        let is_alike = all.iter().filter(|(_, options)| is_asked(options)).all(|(_, options)| options.value(option) == own);
        for at in all.iter().filter_map(|(_, options)| options.all.get(option)).map(|(_, at)| *at) {
            if is_alike { group.origin.carry(at) } else { group.origin.differ(at, ONE_WAY) }
        }
    }
    let number = |option: &str, most: u32| {
        first.value(option).and_then(|text| text.parse::<u32>().ok()).filter(|count| (1..=most).contains(count))
    };
    let inter = first.value("inter").and_then(durations::milliseconds).map(|time| time.clamp(50, 3_600_000));
    let timeout = section.setting("timeout", "check");
    let limit = timeout.and_then(|line| durations::milliseconds(line.word(2))).map(|time| time.clamp(10, 3_600_000));
    let interval = inter.unwrap_or(2_000);
    if let Some(inter) = inter.filter(|inter| *inter != 2_000).and_then(durations::written) {
        question.properties.push(format!("interval={}", quoted(&inter)));
    }
    let down = first.value("downinter").and_then(durations::milliseconds).filter(|time| (50..=3_600_000).contains(time));
    if let Some(down) = down.and_then(durations::written) {
        question.properties.push(format!("interval-down={}", quoted(&down)));
    }
    if let Some(limit) = limit {
        let least =
            first.value("downinter").and_then(durations::milliseconds).map_or(interval, |down| down.max(50).min(interval));
        if let Some(written) = durations::written(limit.min(least)) {
            question.properties.push(format!("timeout={}", quoted(&written)));
        }
        if let Some(line) = timeout {
            group.origin.carry(line.start());
            if limit > least {
                group.origin.differ(line.start(), "an answer may take as long as the time between two questions, and no longer");
            }
        }
    }
    for (option, own) in [("rise", 2), ("fall", 3)] {
        if let Some(count) = number(option, 100).filter(|count| *count != own) {
            question.properties.push(format!("{option}={count}"));
        }
    }
    if let Some(port) = number("port", 65_535) {
        question.properties.push(format!("port={port}"));
    }
    for (_, options) in all {
        for (option, (_, at)) in &options.all {
            let is_of_check = matches!(
                *option,
                "check" | "fastinter" | "check-send-proxy" | "check-ssl" | "check-alpn" | "check-via-socks4" | "init-state"
            );
            if is_of_check {
                group.origin.carry(*at);
            }
            if *option == "check" && !is_everyone {
                group.origin.differ(*at, ALL_ASKED);
            }
        }
    }
    group.add_line(question.written());
}

impl HealthQuestion {
    fn written(&self) -> String {
        let mut words = vec!["health".to_owned()];
        words.extend(self.path.as_ref().map(|path| quoted(path)));
        if !self.kind.is_empty() {
            words.push(format!("type={}", quoted(self.kind)));
        }
        words.extend(self.properties.iter().cloned());
        words.join(" ")
    }
}

fn options(section: &Section) -> impl Iterator<Item = &HaProxyLine> {
    let is_check = |line: &&HaProxyLine| {
        let word = line.word(1);
        line.word(0) == "option" && (word.ends_with("-check") || matches!(word, "httpchk" | "smtpchk" | "ssl-hello-chk"))
    };
    let has_own = section.lines.iter().any(|line| is_check(&line));
    let lines = if has_own { &section.lines } else { section.inherited.as_ref() };
    lines.iter().filter(is_check)
}

fn question(section: &Section, group: &mut ServerGroup) -> HealthQuestion {
    let tcp = || HealthQuestion { kind: "tcp", ..HealthQuestion::default() };
    let options: Vec<&HaProxyLine> = options(section).collect();
    // The last of them counts, there as here.
    group.origin.carry_all(options.iter().map(|line| line.start()));
    let Some(option) = options.last() else {
        let lines: Vec<&HaProxyLine> = section.all_of("tcp-check").collect();
        return if lines.is_empty() { tcp() } else { spoken(&lines, group) };
    };
    if option.word(1) != "httpchk" {
        group.origin.carry_all(section.all_of("http-check").map(HaProxyLine::start));
    }
    match option.word(1) {
        "httpchk" => of_http(section, option, group),
        "tcp-check" => spoken(&section.all_of("tcp-check").collect::<Vec<_>>(), group),
        "redis-check" => {
            HealthQuestion { properties: vec!["send=\"PING\\r\\n\"".to_owned(), "receive=\"+PONG*\"".to_owned()], ..tcp() }
        }
        "smtpchk" => HealthQuestion { properties: vec!["receive=\"220*\"".to_owned()], ..tcp() },
        "ssl-hello-chk" => HealthQuestion { kind: "tls", ..HealthQuestion::default() },
        _ => {
            group.origin.differ(option.start(), CONNECTION_ALONE);
            tcp()
        }
    }
}

/// `tcp-check send`, `tcp-check expect string`
fn spoken(lines: &[&HaProxyLine], group: &mut ServerGroup) -> HealthQuestion {
    let mut question = HealthQuestion { kind: "tcp", ..HealthQuestion::default() };
    for line in lines {
        let (word, text) = match (line.word(1), line.word(2)) {
            ("send", _) => ("send", Some(line.word(2).to_owned())),
            ("expect", "string") => ("receive", Some(format!("*{}*", line.word(3)))),
            ("expect", "rstring") => ("receive", Some(format!("~{}", line.word(3)))),
            ("connect" | "comment", _) => {
                group.origin.carry(line.start());
                continue;
            }
            _ => ("", None),
        };
        let is_new = !question.properties.iter().any(|property| property.starts_with(&format!("{word}=")));
        match text {
            Some(text) if is_new && !word.is_empty() => {
                let text = match text.strip_prefix('*').and_then(|text| text.strip_suffix('*')) {
                    Some(part) if word == "receive" => format!("~{}", regex_syntax::escape(part)),
                    _ => text,
                };
                question.properties.push(format!("{word}={}", quoted(&text)));
                group.origin.carry(line.start());
            }
            _ => group.origin.differ(line.start(), FIRST_ALONE),
        }
    }
    question
}

fn of_http(section: &Section, option: &HaProxyLine, group: &mut ServerGroup) -> HealthQuestion {
    let mut question = HealthQuestion::default();
    let (mut method, mut path) = match (option.word(2), option.word(3)) {
        ("", _) => ("OPTIONS".to_owned(), "/".to_owned()),
        (path, "") if path.starts_with('/') => ("OPTIONS".to_owned(), path.to_owned()),
        (method, "") => (method.to_owned(), "/".to_owned()),
        (method, path) => (method.to_owned(), path.to_owned()),
    };
    let mut fields: Vec<(String, String)> = Vec::new();
    // Fields stand behind the version, as old files have them.
    let version = option.words.get(4..).map(|words| words.join(" ")).unwrap_or_default();
    for line in version.split("\r\n").skip(1).flat_map(|line| line.split('\n')) {
        fields.extend(line.split_once(':').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())));
    }
    let mut expected = None;
    for line in section.all_of("http-check") {
        match (line.word(1), line.word(2)) {
            ("send", _) => {
                method = line.behind("meth").map_or(method, str::to_owned);
                path = line.behind("uri").or(line.behind("uri-lf")).map_or(path, str::to_owned);
                for (index, _) in line.words.iter().enumerate().filter(|(_, word)| *word == "hdr") {
                    fields.push((line.word(index + 1).to_owned(), line.word(index + 2).to_owned()));
                }
                group.origin.carry(line.start());
            }
            ("expect", _) => match expectation(line) {
                Some(property) => {
                    expected = Some(property);
                    group.origin.carry(line.start());
                }
                None => group.origin.differ(line.start(), WITHOUT_PATTERN),
            },
            ("connect" | "comment" | "disable-on-404" | "send-state", _) => group.origin.carry(line.start()),
            _ => {}
        }
    }
    question.path = Some(if path.starts_with('/') { path } else { "/".to_owned() });
    if method != "GET" {
        question.properties.push(format!("method={}", quoted(&method.to_ascii_uppercase())));
    }
    for (name, value) in fields {
        if name.eq_ignore_ascii_case("host") {
            let host = value.split(':').next().unwrap_or_default();
            question.properties.push(format!("host={}", quoted(host)));
        } else if !matches!(name.to_ascii_lowercase().as_str(), "connection" | "content-length" | "user-agent" | "accept") {
            question.properties.push(format!("header={}", quoted(&format!("{name}: {}", literal(&value)))));
        }
    }
    question.properties.extend(expected);
    question
}

/// `status 200`, `rstatus ^2`, `string ok`
fn expectation(line: &HaProxyLine) -> Option<String> {
    let words: Vec<&str> = line.words[2..].iter().map(String::as_str).collect();
    let start = words.iter().position(|word| matches!(*word, "status" | "rstatus" | "string" | "rstring" | "!"))?;
    match words[start..] {
        ["status", statuses] => {
            let is_status = |text: &str| {
                text.split('-').all(|status| status.parse::<u16>().is_ok_and(|status| (100..=599).contains(&status)))
            };
            statuses.split(',').all(is_status).then(|| format!("expect={}", quoted(statuses)))
        }
        ["rstatus", pattern] => {
            let ranges: Vec<String> =
                (1..=5).filter(|digit| covers(pattern, *digit)).map(|digit| format!("{digit}00-{digit}99")).collect();
            (!ranges.is_empty()).then(|| format!("expect={}", quoted(&ranges.join(","))))
        }
        ["string", ref text @ ..] => {
            let text = text.join(" ");
            (!text.is_empty()).then(|| format!("body={}", quoted(&format!("~{}", regex_syntax::escape(&text)))))
        }
        ["rstring", pattern] => {
            tidegate_model::expression(pattern).build().ok()?;
            Some(format!("body={}", quoted(&format!("~{pattern}"))))
        }
        _ => None,
    }
}

/// Whether an expression takes all statuses that begin with this digit, or some of them alone.
fn covers(pattern: &str, digit: u16) -> bool {
    let Ok(built) = tidegate_model::expression(pattern).build() else { return false };
    (0..100).all(|rest| built.is_match(format!("{}", digit * 100 + rest).as_bytes()))
}
