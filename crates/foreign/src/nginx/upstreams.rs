//! Groups of servers: `upstream`, with how a server is chosen, how often a request is sent again, and how TLS servers
//! are spoken to.

use super::guards::from_folder;
use super::scope::{Levels, milliseconds, nearest, time};
use super::tables::Tables;
use super::variables::{Moment, Values};
use super::words;
use crate::accounts::Origin;
use crate::braces::Statement;
use crate::outline::{GroupedServer, NO_SHARE, ServerGroup, StickyCookie, is_plain, upstream};
use tidegate_kdl::quoted;

const ONE_FOR_ALL: &str = "`outlier` is one for all servers of a pool: that of the first, and failures count in a row";
const OF_VARIABLES: &str = "an attribute of the cookie that depends on the request is left out: it is the same for all";
const UNVERIFIED: &str = "nginx takes any certificate of a server unless `proxy_ssl_verify on` is written, and here it is \
                          verified: `tls ca=` of a pool names who has signed it";

/// The servers of an `upstream`.
pub fn group(statement: &Statement) -> ServerGroup {
    let mut group = ServerGroup::named(statement.argument());
    group.origin.within = words::places([statement]);
    group.origin.carry(statement.start());
    let mut failures: Option<Failures> = None;
    for line in statement.inside() {
        match (line.name(), line.arguments()) {
            ("server", [address, ..]) => {
                server(line, address, statement.inside(), &mut group, &mut failures);
                continue;
            }
            ("keepalive_timeout", [lasts]) => {
                if let Some(lasts) = time(lasts) {
                    group.origin.carry(line.start());
                    add_to(&mut group, "keep-alive", &format!("idle={}", quoted(&lasts)));
                }
                continue;
            }
            ("keepalive_requests", [count]) if count.parse::<u32>().is_ok_and(|count| count > 0) => {
                group.origin.carry(line.start());
                add_to(&mut group, "keep-alive", &format!("requests={count}"));
                continue;
            }
            ("keepalive_time", [lasts]) => {
                if let Some(lasts) = time(lasts) {
                    group.origin.carry(line.start());
                    add_to(&mut group, "keep-alive", &format!("age={}", quoted(&lasts)));
                }
                continue;
            }
            _ => {}
        }
        let Some(chosen) = chosen(line) else { continue };
        group.add_line(chosen);
        group.origin.carry(line.start());
        if line.name() == "sticky" && line.arguments().iter().any(|word| word.contains('$')) {
            group.origin.differ(line.start(), OF_VARIABLES);
        }
    }
    if let Some(failures) = failures.filter(|failures| !failures.is_usual()) {
        group.add_line(failures.line());
    }
    group
}

/// How a server is chosen.
fn chosen(line: &Statement) -> Option<String> {
    let hash = |key: &str| Some(format!("balance \"hash\" key={}", quoted(key)));
    match (line.name(), line.arguments()) {
        ("least_conn", _) => Some("balance \"least-conn\"".into()),
        ("least_time", _) => Some("balance \"ewma\"".into()),
        ("random", arguments) if arguments.first().is_some_and(|word| word == "two") => Some("balance \"p2c\"".into()),
        ("random", _) => Some("balance \"random\"".into()),
        ("ip_hash", _) => hash("{client.ip}"),
        ("hash", [key, ..]) => {
            let key = Values::default().template(key, Moment::Request, &Tables::default(), &mut Vec::new())?;
            key.contains('{').then(|| hash(&key)).flatten()
        }
        ("sticky", [kind, name, rest @ ..]) if kind == "cookie" => {
            let mut cookie = StickyCookie::named(name);
            for word in rest {
                let (attribute, value) = word.split_once('=').unwrap_or((word, ""));
                match attribute {
                    "expires" => cookie.lasts(time(value)),
                    _ => drop(cookie.set(attribute, value)),
                }
            }
            Some(cookie.line())
        }
        _ => None,
    }
}

/// Puts a property on the line of that word.
fn add_to(group: &mut ServerGroup, word: &str, property: &str) {
    match group.lines.iter_mut().find(|line| line.starts_with(word)) {
        Some(line) => line.push_str(&format!(" {property}")),
        None => group.lines.push(format!("{word} {property}")),
    }
}

/// When a server gets no requests for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failures {
    count: Option<u32>,
    lasts: Option<String>,
}

impl Failures {
    fn is_usual(&self) -> bool {
        self.count.is_none() && self.lasts.is_none()
    }

    fn line(&self) -> String {
        match self.count {
            Some(0) => "outlier \"off\"".to_owned(),
            count => {
                let failures = count.map(|count| format!(" failures={count}")).unwrap_or_default();
                let eject = self.lasts.as_ref().map(|lasts| format!(" eject={}", quoted(lasts))).unwrap_or_default();
                format!("outlier{failures}{eject}")
            }
        }
    }
}

fn server(line: &Statement, address: &str, all: &[Statement], group: &mut ServerGroup, failures: &mut Option<Failures>) {
    let mut server = GroupedServer::default();
    let mut carried = vec![line.start()];
    let mut own = Failures { count: None, lasts: None };
    let mut said = Vec::new();
    let (mut is_resolved, mut slow) = (false, None);
    for (option, at) in line.options().skip(1) {
        match option.split_once('=').unwrap_or((option, "")) {
            // What is down is left out.
            ("down", _) | ("weight", "0") => {
                group.origin.carried.extend(line.options().skip(1).map(|(_, at)| at).chain(carried));
                group.origin.differ(at, NO_SHARE);
                return;
            }
            ("weight", weight) => server.weight = weight.parse().ok().filter(|weight| *weight <= 256),
            ("backup", _) => server.is_backup = true,
            ("max_conns", "0") => {}
            ("max_conns", count) if count.parse::<u32>().is_ok() => server.properties.push(format!("max-connections={count}")),
            ("max_fails", count) => match count.parse::<u32>() {
                Ok(count) => {
                    own.count = Some(count.min(1_000));
                    said.push(at);
                    continue;
                }
                Err(_) => continue,
            },
            ("fail_timeout", lasts) => match milliseconds(lasts) {
                // Out for no time at all is never out.
                Some(0) => {
                    own.count = Some(0);
                    said.push(at);
                    continue;
                }
                Some(lasts) => {
                    own.lasts = time(&format!("{}ms", lasts.clamp(100, 86_400_000)));
                    said.push(at);
                    continue;
                }
                None => continue,
            },
            ("slow_start", lasts) => match time(lasts) {
                Some(lasts) => slow = Some(lasts),
                None => continue,
            },
            ("resolve", _) => is_resolved = true,
            _ => continue,
        }
        carried.push(at);
    }
    let Some(address) = upstream(address) else { return };
    note_failures(own, said, (line, all), group, failures);
    if let Some(slow) = slow {
        group.add_line(format!("slow-start {}", quoted(&slow)));
    }
    if is_resolved && server.weight.is_none() && !server.is_backup && server.properties.is_empty() {
        group.lines.push(format!("discover dns={}", quoted(&address)));
    } else {
        group.servers.push(GroupedServer { address, ..server });
    }
    group.origin.carried.extend(carried);
}

/// Keeps what the first server says, which holds for all of them.
fn note_failures(
    own: Failures,
    said: Vec<usize>,
    (line, all): (&Statement, &[Statement]),
    group: &mut ServerGroup,
    failures: &mut Option<Failures>,
) {
    match failures {
        None => {
            *failures = Some(own);
            group.origin.carry_all(said);
        }
        Some(known) if *known == own => group.origin.carry_all(said),
        Some(_) => {
            // What the first says is for those as well that say something else, or nothing.
            let is_about_failures = |option: &str| option.starts_with("max_fails=") || option.starts_with("fail_timeout=");
            let others = all.iter().filter(|other| !std::ptr::eq(*other, line)).flat_map(Statement::options);
            let others = others.filter(|(option, _)| is_about_failures(option)).map(|(_, at)| at);
            said.into_iter().chain(others).for_each(|at| group.origin.differ(at, ONE_FOR_ALL));
        }
    }
}

/// What goes with servers that are spoken to over TLS.
pub fn over_tls(pass: &Statement, levels: &[&[Statement]], group: &mut ServerGroup) {
    let of = |names: &[&str]| nearest(levels, names).first().copied();
    let verified = of(&["proxy_ssl_verify", "grpc_ssl_verify"]);
    match verified {
        Some(verify) if verify.argument() == "on" => group.origin.carry(verify.start()),
        Some(verify) => group.origin.differ(verify.start(), UNVERIFIED),
        None => group.origin.differ(pass.start(), UNVERIFIED),
    }
    let mut line = "tls".to_owned();
    let mut add = |names: &[&str], property: &str, group: &mut ServerGroup| {
        let Some(said) = of(names).filter(|said| !said.argument().contains('$')) else { return };
        let value = if property == "sni" { said.argument().to_owned() } else { from_folder(said.argument()) };
        if property == "sni" && !is_plain(&value) {
            return;
        }
        line.push_str(&format!(" {property}={}", quoted(&value)));
        group.origin.carry(said.start());
    };
    add(&["proxy_ssl_name", "grpc_ssl_name"], "sni", group);
    add(&["proxy_ssl_trusted_certificate", "grpc_ssl_trusted_certificate"], "ca", group);
    add(&["proxy_ssl_certificate", "grpc_ssl_certificate"], "cert", group);
    add(&["proxy_ssl_certificate_key", "grpc_ssl_certificate_key"], "key", group);
    if line != "tls" {
        group.add_line(line);
    }
    for word in ["proxy_ssl_protocols", "proxy_ssl_ciphers", "proxy_ssl_verify_depth", "grpc_ssl_protocols"] {
        group.origin.carry_all(of(&[word]).map(Statement::start));
    }
}

/// `health_check` of a block, for its servers.
pub fn claim_health(levels: &Levels<'_>, group: &mut ServerGroup, origin: &mut Origin) {
    let Some(check) = levels.answering().find(|own| own.name() == "health_check") else { return };
    let behind = |name: &str| check.arguments().iter().find_map(|word| word.strip_prefix(name));
    let mut line = format!("health {}", quoted(behind("uri=").unwrap_or("/")));
    line.push_str(&behind("interval=").and_then(time).map(|lasts| format!(" interval={}", quoted(&lasts))).unwrap_or_default());
    for (theirs, ours) in [("fails=", "fall"), ("passes=", "rise"), ("port=", "port")] {
        let count = behind(theirs).and_then(|count| count.parse::<u16>().ok()).filter(|count| *count > 0);
        line.push_str(&count.map(|count| format!(" {ours}={count}")).unwrap_or_default());
    }
    group.add_line(line);
    if behind("match=").is_some() {
        origin.differ(check.start(), "what an answer has to be is `expect=` and `body=` of `health`: 200 to 399 is good here");
    } else {
        origin.carry(check.start());
    }
}

/// `proxy_next_upstream` and its kin, for the servers of a block.
pub fn claim_retries(levels: &Levels<'_>, group: &mut ServerGroup, origin: &mut Origin) {
    let Some(next) = levels.one("proxy_next_upstream").or_else(|| levels.one("grpc_next_upstream")) else {
        claim_tries(levels, None, group, origin);
        return;
    };
    let words: Vec<&str> = next.arguments().iter().map(String::as_str).collect();
    if words.contains(&"off") {
        group.add_line("retry \"off\"");
        origin.carry(next.start());
        return;
    }
    let mut on: Vec<&str> = Vec::new();
    let mut is_whole = true;
    for word in words {
        match word {
            "error" => on.extend(["connect", "reset"]),
            "timeout" => on.push("timeout"),
            "invalid_header" => {}
            status if status.starts_with("http_") => on.push(&status[5..]),
            _ => is_whole = false,
        }
    }
    if on.is_empty() {
        return;
    }
    claim_tries(levels, Some(on.join(",")), group, origin);
    if is_whole {
        origin.carry(next.start());
    } else {
        origin.differ(next.start(), "only what may be sent twice is sent again, whatever `non_idempotent` says");
    }
}

fn claim_tries(levels: &Levels<'_>, on: Option<String>, group: &mut ServerGroup, origin: &mut Origin) {
    let tries = levels.one("proxy_next_upstream_tries").or_else(|| levels.one("grpc_next_upstream_tries"));
    let count = tries.and_then(|tries| tries.argument().parse::<u32>().ok());
    let mut line = "retry".to_owned();
    if let Some(count) = count.filter(|count| *count > 0) {
        if count == 1 {
            group.add_line("retry \"off\"");
            origin.carry_all(tries.map(Statement::start));
            return;
        }
        line.push_str(&format!(" attempts={}", (count - 1).min(10)));
    }
    origin.carry_all(tries.map(Statement::start));
    if let Some(on) = on.filter(|on| on != "connect,reset") {
        line.push_str(&format!(" on={}", quoted(&on)));
    }
    if line != "retry" {
        group.add_line(line);
    }
    if let Some(lasts) = levels.one("proxy_next_upstream_timeout") {
        origin.differ(lasts.start(), "the time of all tries together is `total=` of `timeout`, with the answer in it");
    }
}
