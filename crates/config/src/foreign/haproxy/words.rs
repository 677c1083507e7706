//! Every statement of a file of HAProxy, and how much it is where no line of ours says it.

use super::{HaProxyLine, Section};
use crate::foreign::accounts::{FileStatement, StatementKind, Weight};
use StatementKind::{Needed, SameByDefault};

/// Options of a `bind` and of a `server` that have a value behind them.
const WITH_VALUE: &[&str] = &[
    "crt",
    "crt-list",
    "alpn",
    "npn",
    "ssl-min-ver",
    "ssl-max-ver",
    "ciphers",
    "ciphersuites",
    "ca-file",
    "ca-verify-file",
    "crl-file",
    "verify",
    "verifyhost",
    "name",
    "id",
    "process",
    "thread",
    "mss",
    "maxconn",
    "interface",
    "nice",
    "backlog",
    "namespace",
    "user",
    "uid",
    "group",
    "gid",
    "mode",
    "level",
    "curves",
    "ecdhe",
    "tcp-ut",
    "shards",
    "proto",
    "tls-ticket-keys",
    "ocsp-update",
    "ca-sign-file",
    "ca-sign-pass",
    "crt-ignore-err",
    "ca-ignore-err",
    "weight",
    "inter",
    "fastinter",
    "downinter",
    "rise",
    "fall",
    "maxqueue",
    "minconn",
    "port",
    "addr",
    "cookie",
    "slowstart",
    "track",
    "observe",
    "error-limit",
    "on-error",
    "on-marked-down",
    "on-marked-up",
    "sni",
    "check-alpn",
    "check-sni",
    "check-proto",
    "pool-max-conn",
    "pool-purge-delay",
    "pool-low-conn",
    "pool-conn-name",
    "source",
    "init-addr",
    "resolvers",
    "resolve-prefer",
    "resolve-net",
    "resolve-opts",
    "redir",
    "log-proto",
    "max-reuse",
    "agent-port",
    "agent-inter",
    "agent-addr",
    "agent-send",
    "proxy-v2-options",
    "ws",
    "hash-key",
    "severity-output",
];
/// Lines that are done here without a word, or are about the process and its logs.
const SAME: &[&str] = &[
    "mode",
    "log",
    "log-format",
    "log-format-sd",
    "log-tag",
    "description",
    "id",
    "guid",
    "acl",
    "stick-table",
    "no",
    "hash-type",
    "http-reuse",
    "email-alert",
    "unique-id-format",
    "declare",
    "enabled",
    "bind-process",
    "capture",
    "load-server-state-from-file",
    "server-state-file-name",
    "option httplog",
    "option tcplog",
    "option httpslog",
    "option dontlognull",
    "option dontlog-normal",
    "option log-health-checks",
    "option log-separate-errors",
    "option http-server-close",
    "option httpclose",
    "option forceclose",
    "option http-keep-alive",
    "option http-tunnel",
    "option http-pretend-keepalive",
    "option redispatch",
    "option tcpka",
    "option clitcpka",
    "option srvtcpka",
    "option tcp-smart-accept",
    "option tcp-smart-connect",
    "option splice-auto",
    "option splice-request",
    "option splice-response",
    "option abortonclose",
    "option contstats",
    "option nolinger",
    "option socket-stats",
    "option prefer-last-server",
    "option http-buffer-request",
    "option idle-close-on-response",
    "option http-use-htx",
    "option logasap",
    "option http-no-delay",
    "option independent-streams",
    "tcp-request inspect-delay",
];
const PROTECTIONS: &[&str] = &[
    "block",
    "reqdeny",
    "reqideny",
    "reqpass",
    "reqipass",
    "reqtarpit",
    "reqitarpit",
    "rspdeny",
    "rspideny",
    "http-request deny",
    "http-request auth",
    "http-request tarpit",
    "http-request silent-drop",
    "http-request reject",
    "http-request wait-for-body",
    "http-response deny",
    "tcp-response content",
    "tcp-request connection",
    "tcp-request session",
    "tcp-request content",
    "rate-limit",
];

pub fn statements(sections: &[Section]) -> Vec<FileStatement> {
    sections.iter().flat_map(|section| section.lines.iter().flat_map(|line| of_line(&section.kind, line))).collect()
}

/// The statements of a line: itself, and the options behind an address.
pub fn of_line(section: &str, line: &HaProxyLine) -> Vec<FileStatement> {
    let word = line.word(0);
    let own = |name: String, kind: StatementKind| FileStatement { at: line.start(), name, kind };
    let plain = |kind: StatementKind| vec![own(shown(&line.words[..1]), kind)];
    match section {
        "defaults" | "frontend" | "backend" | "listen" => {}
        "global" => return plain(global(line)),
        // What they hold counts where something names it.
        _ => return plain(SameByDefault),
    }
    let options = match word {
        "bind" => 2,
        "server" => 3,
        "default-server" => 1,
        "server-template" => 4,
        _ => return vec![own(name(line), kind(line))],
    };
    let kind = if word == "bind" { Needed(Weight::Address) } else { Needed(Weight::Answer) };
    let kind = if word == "default-server" { SameByDefault } else { kind };
    let mut all = vec![own(word.to_owned(), kind)];
    for (option, value, at) in line.options(options) {
        let kind = if word == "bind" { bind_option(option, value) } else { server_option(option, value) };
        all.push(FileStatement { at, name: format!("{word} … {}", shown(&[option.to_owned()])), kind });
    }
    all
}

/// The option, its value where it has one, and where it begins.
pub fn has_value(option: &str) -> bool {
    WITH_VALUE.contains(&option)
}

fn shown(words: &[String]) -> String {
    let is_word = |word: &&String| {
        word.len() <= 40 && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) && !word.is_empty()
    };
    let shown: Vec<&str> = words.iter().take_while(is_word).map(String::as_str).collect();
    if shown.is_empty() { "…".to_owned() } else { shown.join(" ") }
}

/// The words that say what a line does.
fn name(line: &HaProxyLine) -> String {
    let count = match line.word(0) {
        "http-request"
        | "http-response"
        | "http-after-response"
        | "option"
        | "timeout"
        | "stats"
        | "stick"
        | "http-check"
        | "tcp-check" => 2,
        "tcp-request" | "tcp-response" => 3,
        _ => 1,
    };
    let words: Vec<String> =
        line.words.iter().take(count).map(|word| word.split('(').next().unwrap_or_default().to_owned()).collect();
    shown(&words)
}

fn global(line: &HaProxyLine) -> StatementKind {
    match line.word(0) {
        "maxconn" => Needed(Weight::Limit),
        "lua-load" | "lua-load-per-thread" => Needed(Weight::Answer),
        "ssl-server-verify" => Needed(Weight::Tls),
        "ssl-default-bind-options" | "ssl-default-server-options" => {
            let is_newer = |word: &String| matches!(word.as_str(), "TLSv1.3" | "no-tlsv12");
            if line.words.iter().any(is_newer) { Needed(Weight::Tls) } else { SameByDefault }
        }
        "ssl-default-bind-ciphers" | "ssl-default-bind-ciphersuites" => Needed(Weight::Setting),
        _ => SameByDefault,
    }
}

fn kind(line: &HaProxyLine) -> StatementKind {
    let (first, second) = (line.word(0), line.word(1).split('(').next().unwrap_or_default());
    let both = format!("{first} {second}");
    let is_in = |words: &[&str]| words.contains(&first) || words.contains(&both.as_str());
    match (first, second) {
        ("option", "forwardfor") => {
            if line.words.len() > 2 {
                Needed(Weight::Setting)
            } else {
                SameByDefault
            }
        }
        ("balance", "roundrobin" | "static-rr") => SameByDefault,
        ("tcp-request", _) if line.word(2) == "accept" || line.word(1) == "inspect-delay" => SameByDefault,
        ("tcp-request", "connection" | "content" | "session") => match line.word(2) {
            "expect-proxy" | "set-src" | "set-dst" => Needed(Weight::Address),
            "reject" | "silent-drop" | "expect-netscaler-cip" | "switch-mode" => Needed(Weight::Protection),
            word if word.starts_with("track-sc") => SameByDefault,
            _ => Needed(Weight::Protection),
        },
        ("http-request", "set-header" | "add-header" | "del-header") => {
            let field = line.word(2).to_ascii_lowercase();
            if field.starts_with("x-forwarded-") { SameByDefault } else { Needed(Weight::Setting) }
        }
        ("http-request" | "redirect", _) if sends_to_login(line) => Needed(Weight::Protection),
        ("http-request", "return")
            if line.words.windows(2).any(|pair| pair[0] == "status" && pair[1].starts_with(['4', '5'])) =>
        {
            Needed(Weight::Protection)
        }
        ("http-request", second) if second.starts_with("track-sc") || second.starts_with("sc-") => SameByDefault,
        ("http-request", "set-log-level" | "set-var-fmt" | "capture" | "set-nice" | "set-tos" | "set-mark") => SameByDefault,
        (
            "http-request",
            "redirect" | "return" | "set-path" | "replace-path" | "set-uri" | "replace-uri" | "use-service" | "allow",
        )
        | (
            "monitor-uri" | "redirect" | "use_backend" | "default_backend" | "use-server" | "dispatch" | "reqrep" | "reqirep",
            _,
        ) => Needed(Weight::Answer),
        ("http-request", second) if second.starts_with("lua.") => Needed(Weight::Protection),
        ("maxconn" | "fullconn", _) => Needed(Weight::Limit),
        ("source", _) => Needed(Weight::Address),
        _ if is_in(PROTECTIONS) => Needed(Weight::Protection),
        _ if is_in(SAME) => SameByDefault,
        _ => Needed(Weight::Setting),
    }
}

/// Whether who has not logged in is sent elsewhere.
fn sends_to_login(line: &HaProxyLine) -> bool {
    let is_redirect = line.word(0) == "redirect" || line.word(1) == "redirect";
    let condition = line.words.iter().skip_while(|word| !matches!(word.as_str(), "if" | "unless"));
    let is_of_login =
        |word: &String| ["auth", "login", "cook", "token", "session", "user"].iter().any(|part| word.contains(part));
    is_redirect && condition.skip(1).any(is_of_login)
}

fn bind_option(option: &str, value: &str) -> StatementKind {
    match option {
        "ssl"
        | "alpn"
        | "npn"
        | "no-sslv3"
        | "no-tlsv10"
        | "no-tlsv11"
        | "name"
        | "id"
        | "process"
        | "thread"
        | "tfo"
        | "defer-accept"
        | "mss"
        | "nice"
        | "backlog"
        | "strict-sni"
        | "curves"
        | "ecdhe"
        | "level"
        | "shards"
        | "v4v6"
        | "prefer-client-ciphers"
        | "tcp-ut"
        | "expose-fd"
        | "listeners"
        | "ocsp-update"
        | "generate-certificates" => SameByDefault,
        "verify" if value == "none" => SameByDefault,
        "verify" => Needed(Weight::Protection),
        "ssl-min-ver" if value != "TLSv1.3" => SameByDefault,
        "crt" | "crt-list" | "ca-file" | "ca-verify-file" | "crl-file" | "ssl-min-ver" | "ssl-max-ver" | "no-tlsv12"
        | "no-tlsv13" | "force-tlsv13" => Needed(Weight::Tls),
        "accept-proxy" | "accept-netscaler-cip" | "interface" | "transparent" | "namespace" | "v6only" => Needed(Weight::Address),
        "maxconn" => Needed(Weight::Limit),
        _ => Needed(Weight::Setting),
    }
}

fn server_option(option: &str, value: &str) -> StatementKind {
    match option {
        "id" | "name" | "init-addr" | "resolvers" | "resolve-prefer" | "resolve-net" | "resolve-opts" | "enabled"
        | "no-check" | "check-ssl" | "log-proto" | "non-stick" | "tfo" | "pool-max-conn" | "pool-purge-delay"
        | "pool-low-conn" => SameByDefault,
        "weight" if value == "1" => SameByDefault,
        "ssl" | "verify" | "verifyhost" | "ca-file" | "crt" | "crl-file" | "sni" | "ssl-min-ver" | "ssl-max-ver" => {
            Needed(Weight::Tls)
        }
        "maxconn" | "minconn" | "maxqueue" => Needed(Weight::Limit),
        "source" | "addr" | "port" => Needed(Weight::Address),
        "redir" => Needed(Weight::Answer),
        _ => Needed(Weight::Setting),
    }
}
