//! Every statement of a file of HAProxy, and how much it is where no line of ours says it.

use super::lexer::{HaProxyLine, NEVER_READ, Sections};
use super::reasons::is_same;
use crate::accounts::{FileStatement, StatementKind, Weight};
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
    "accept-netscaler-cip",
    "check-pool-conn-name",
    "client-sigalgs",
    "default-crt",
    "guid",
    "idle-ping",
    "init-state",
    "quic-cc-algo",
    "quic-socket",
    "sigalgs",
    "socks4",
    "tcp-md5sig",
    "usesrc",
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
    "http-response deny",
    "tcp-response content",
    "tcp-request connection",
    "tcp-request session",
    "tcp-request content",
    "rate-limit",
];

pub fn statements(sections: &Sections) -> Vec<FileStatement> {
    let of_sections = sections.all.iter().flat_map(|section| section.lines.iter().flat_map(|line| of_line(&section.kind, line)));
    let plain = |line: &HaProxyLine, kind: StatementKind| FileStatement { at: line.start(), name: shown(&line.words[..1]), kind };
    let left_out = sections
        .left_out
        .iter()
        .map(|(line, why)| plain(line, if *why == NEVER_READ { SameByDefault } else { Needed(Weight::Setting) }));
    let directives = sections.directives.iter().map(|line| FileStatement {
        at: line.start(),
        name: line.word(0).trim_start_matches('.').to_owned(),
        kind: SameByDefault,
    });
    of_sections.chain(left_out).chain(directives).collect()
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
        _ => return vec![own(format!("{section} {}", shown(&line.words[..1])), of_other(section, word))],
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
        "tcp-request" | "tcp-response" | "no" => 3,
        _ => 1,
    };
    let words: Vec<String> =
        line.words.iter().take(count).map(|word| word.split('(').next().unwrap_or_default().to_owned()).collect();
    shown(&words)
}

/// Lines of sections that are neither of proxies nor of the process.
fn of_other(section: &str, word: &str) -> StatementKind {
    match (section, word) {
        ("userlist" | "cache" | "resolvers" | "traces" | "ring", _) => SameByDefault,
        ("fcgi-app", "docroot" | "index" | "path-info" | "set-param" | "pass-header") => Needed(Weight::Answer),
        ("http-errors", _) => Needed(Weight::Answer),
        ("crt-store", "crt-base" | "key-base") => SameByDefault,
        ("peers" | "mailers" | "program" | "log-forward" | "acme" | "crt-store", _) => Needed(Weight::Setting),
        _ => SameByDefault,
    }
}

fn global(line: &HaProxyLine) -> StatementKind {
    match line.word(0) {
        "maxconn" | "maxconnrate" | "maxsslconn" | "maxsessrate" | "maxsslrate" => Needed(Weight::Limit),
        "log" | "stats" => Needed(Weight::Setting),
        "lua-load" | "lua-load-per-thread" => Needed(Weight::Answer),
        "ssl-server-verify" => Needed(Weight::Tls),
        "ssl-default-bind-options" | "ssl-default-server-options" => {
            let is_newer = |word: &String| matches!(word.as_str(), "TLSv1.3" | "no-tlsv12");
            if line.words.iter().any(is_newer) { Needed(Weight::Tls) } else { SameByDefault }
        }
        _ => SameByDefault,
    }
}

fn kind(line: &HaProxyLine) -> StatementKind {
    let (first, second) = (line.word(0), line.word(1).split('(').next().unwrap_or_default());
    let both = format!("{first} {second}");
    let is_in = |words: &[&str]| words.contains(&first) || words.contains(&both.as_str());
    match (first, second) {
        ("option", "forwardfor" | "forwarded") => {
            if line.words.len() > 2 {
                Needed(Weight::Setting)
            } else {
                SameByDefault
            }
        }
        ("log", _) => Needed(Weight::Setting),
        ("no", second) => no(second, line.word(2)),
        ("log-format" | "log-format-sd" | "error-log-format", _) => Needed(Weight::Setting),
        ("stats", second) => {
            if matches!(second, "enable" | "uri" | "auth" | "admin" | "http-request") {
                Needed(if second == "http-request" { Weight::Setting } else { Weight::Answer })
            } else {
                SameByDefault
            }
        }
        ("tcp-request" | "http-request", _) if counts_alone(line) => Needed(Weight::Limit),
        ("rate-limit", _) => Needed(Weight::Limit),
        ("timeout", "client" | "client-fin" | "server-fin" | "tarpit" | "client-hs" | "server-hs") => Needed(Weight::Setting),
        ("tcp-request", _) if line.word(2) == "accept" || line.word(1) == "inspect-delay" => SameByDefault,
        ("tcp-request", "connection" | "content" | "session") => match line.word(2) {
            "expect-proxy" | "set-src" | "set-dst" => Needed(Weight::Address),
            "reject" | "silent-drop" | "expect-netscaler-cip" | "switch-mode" => Needed(Weight::Protection),
            word if ["track-sc", "set-var", "unset-var", "sc-"].iter().any(|start| word.starts_with(start)) => SameByDefault,
            "capture" => Needed(Weight::Setting),
            _ => Needed(Weight::Protection),
        },
        ("http-request", "set-header" | "add-header" | "del-header") => {
            let field = line.word(2).to_ascii_lowercase();
            let is_sent =
                matches!(field.as_str(), "x-forwarded-for" | "x-forwarded-proto" | "x-forwarded-host" | "x-forwarded-port");
            if is_sent && line.word(1) != "del-header" { SameByDefault } else { Needed(Weight::Setting) }
        }
        ("http-request" | "redirect", _) if sends_to_login(line) => Needed(Weight::Protection),
        ("http-request", "return")
            if line.words.windows(2).any(|pair| pair[0] == "status" && pair[1].starts_with(['4', '5'])) =>
        {
            Needed(Weight::Protection)
        }
        ("http-request", "normalize-uri") if matches!(line.word(2), "path-merge-slashes" | "query-sort-by-name") => {
            Needed(Weight::Setting)
        }
        ("http-request", second) if second.starts_with("track-sc") || second.starts_with("sc-") => SameByDefault,
        (
            "http-request",
            "set-log-level" | "set-var-fmt" | "set-var" | "normalize-uri" | "disable-l7-retry" | "strict-mode"
            | "wait-for-handshake" | "set-nice" | "set-tos" | "set-mark",
        ) => SameByDefault,
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
        _ if [first, both.as_str()].into_iter().any(is_same) => SameByDefault,
        _ => Needed(Weight::Setting),
    }
}

/// What is switched off.
fn no(first: &str, second: &str) -> StatementKind {
    match (first, second) {
        ("option", "forwardfor" | "redispatch") | ("log", _) => Needed(Weight::Setting),
        _ => SameByDefault,
    }
}

/// Whether a refusal hangs on nothing but how many connections or bytes a table has counted: a bound, and no door.
fn counts_alone(line: &HaProxyLine) -> bool {
    let is_refusal = line.words.iter().take(3).any(|word| matches!(word.as_str(), "reject" | "deny" | "tarpit" | "silent-drop"));
    let condition = line.words.iter().skip_while(|word| !matches!(word.as_str(), "if" | "unless")).skip(1);
    let counts = |word: &&String| {
        let is_counter = ["sc_", "sc0_", "sc1_", "sc2_", "src_"].iter().any(|start| word.starts_with(start));
        is_counter && ["conn_rate", "conn_cnt", "sess_rate", "sess_cnt", "bytes"].iter().any(|kind| word.contains(kind))
    };
    let words: Vec<&String> = condition.collect();
    let names = words.iter().filter(|word| word.contains(['_', '(']) && !matches!(word.as_str(), "{" | "}")).count();
    is_refusal && names > 0 && words.iter().copied().filter(counts).count() == names
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
        // A list of certificates may ask clients of some names for theirs.
        "crt-list" => Needed(Weight::Protection),
        "crt" | "ca-file" | "ca-verify-file" | "crl-file" | "ssl-min-ver" | "ssl-max-ver" | "no-tlsv12" | "no-tlsv13"
        | "force-tlsv13" => Needed(Weight::Tls),
        "accept-proxy" | "accept-netscaler-cip" | "interface" | "transparent" | "namespace" | "v6only" => Needed(Weight::Address),
        "maxconn" => Needed(Weight::Limit),
        _ => Needed(Weight::Setting),
    }
}

fn server_option(option: &str, value: &str) -> StatementKind {
    match option {
        "id" | "name" | "init-addr" | "fastinter" | "check-send-proxy" | "check-alpn" | "on-error" | "ws" | "pool-conn-name"
        | "resolvers" | "resolve-prefer" | "resolve-net" | "resolve-opts" | "enabled" | "no-check" | "check-ssl"
        | "log-proto" | "non-stick" | "tfo" | "pool-max-conn" | "pool-purge-delay" | "pool-low-conn" => SameByDefault,
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
