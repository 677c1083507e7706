//! Servers that a Caddyfile hands on to, and the layer4 app.

use super::chain::{Act, ChainAnswer, ChainOp};
use super::directives::Found;
use super::files::duration;
use super::headers::{self, Whose};
use super::placeholders::{fixed, template};
use super::words;
use crate::braces::{Statement, has_within, named};
use crate::outline::{GroupedServer, NO_SHARE, OutlinedAnswer, ServerGroup, is_plain, upstream};
use tidegate_kdl::quoted;

const UNLIKE: &str = "a pool speaks to all of its servers alike: those of another scheme are left out";
const OWN_NAME: &str = "the name of the server's own address is sent, as it is written here";
const ONE_AT_A_TIME: &str = "a request that waits is tried for as long, and not at this distance";
const IN_A_ROW: &str = "failures in a row are counted, and not all within a time";

/// `reverse_proxy` with all that stands in its block.
pub fn reverse_proxy(statement: &Statement, arguments: &[String]) -> Vec<ChainOp> {
    let mut found = Found::of(statement);
    if let Some(transport) = named(statement.inside(), "transport").find(|transport| transport.argument() == "fastcgi") {
        return of_scripts(statement, transport, arguments);
    }
    if let Some(asking) = super::responses::asking(statement) {
        let to = named(statement.inside(), "to").flat_map(Statement::arguments);
        let servers: Vec<String> = arguments.iter().chain(to).cloned().collect();
        return super::auth::forward_auth(&asking, &servers);
    }
    let Some(group) = group(statement, arguments) else { return vec![found.act(Act::Unsaid)] };
    let mut steps = super::responses::pages(statement.inside(), &mut found.origin).unwrap_or_default();
    for line in statement.inside() {
        let at = line.start();
        match line.name() {
            "header_up" => {
                let words = line.arguments();
                if headers::is_told(words) {
                    found.origin.carry(at);
                } else if let Some(told) = host_of_server(words, &group) {
                    steps.push(told);
                    found.origin.differ(at, OWN_NAME);
                } else if let Some(told) = headers::change(Whose::Request, words) {
                    steps.push(told);
                    found.origin.carry(at);
                }
            }
            "header_down" => {
                if let Some(told) = headers::change(Whose::ServerAnswer, line.arguments()) {
                    steps.push(told);
                    found.origin.carry(at);
                }
            }
            "rewrite" => {
                if let Some(path) = template(line.argument()).filter(|path| path.starts_with('/')) {
                    let line = if path.contains('{') {
                        format!("rewrite \"~^\" {}", quoted(&path))
                    } else {
                        format!("rewrite {}", quoted(&path))
                    };
                    steps.push(line);
                    found.origin.carry(at);
                }
            }
            _ => {}
        }
    }
    vec![found.act(Act::Answer(ChainAnswer::Ready(steps, OutlinedAnswer::proxy(group))))]
}

/// Scripts, where that is what servers are asked for.
fn of_scripts(statement: &Statement, transport: &Statement, arguments: &[String]) -> Vec<ChainOp> {
    let to = named(statement.inside(), "to").flat_map(Statement::arguments);
    let servers: Vec<String> = arguments.iter().chain(to).cloned().collect();
    let mut inside = transport.inside().to_vec();
    inside.push(Statement { words: vec!["index".into(), "off".into()], starts: vec![transport.start(); 2], block: None });
    let mut ops = super::files::scripts(&Statement { block: Some(inside), ..statement.clone() }, &servers);
    for op in &mut ops {
        op.origin.within.extend(words::places([statement]));
        op.origin.carry_all(named(statement.inside(), "to").map(Statement::start));
    }
    ops
}

/// The name that a server of its own has, where there is one alone.
fn host_of_server(words: &[String], group: &ServerGroup) -> Option<String> {
    let [name, value] = words else { return None };
    let is_own = matches!(
        value.as_str(),
        "{upstream_hostport}"
            | "{http.reverse_proxy.upstream.hostport}"
            | "{http.reverse_proxy.upstream.host}"
            | "{rp.upstream.hostport}"
    );
    let [server] = group.servers.as_slice() else { return None };
    let address = server.address.strip_prefix("https://").unwrap_or(&server.address);
    let host =
        if server.address.starts_with("https://") { address.trim_end_matches(":443") } else { address.trim_end_matches(":80") };
    (name.eq_ignore_ascii_case("host") && is_own && is_plain(host)).then(|| format!("request-header \"Host\" {}", quoted(host)))
}

/// The servers of a directive, of which all is `within` that it says.
pub fn group(directive: &Statement, arguments: &[String]) -> Option<ServerGroup> {
    let inside = directive.inside();
    let mut group = ServerGroup::named("app");
    group.origin.within = super::words::places([directive]);
    group.origin.carry(directive.start());
    servers(directive, arguments, &mut group);
    named(inside, "dynamic").for_each(|dynamic| discovered(dynamic, &mut group));
    named(inside, "transport").for_each(|transport| of_transport(transport, &mut group));
    balanced(inside, &mut group);
    checked(inside, &mut group);
    failing(inside, &mut group);
    for line in
        inside.iter().filter(|line| matches!(line.name(), "to" | "flush_interval" | "request_buffers" | "response_buffers"))
    {
        group.origin.within.insert(line.start());
    }
    named(inside, "to").for_each(|to| group.origin.carry(to.start()));
    (!group.is_empty()).then_some(group)
}

/// `dynamic a NAME PORT`, `dynamic srv NAME`, and the same in a block.
fn discovered(dynamic: &Statement, group: &mut ServerGroup) {
    let of = |name: &str| named(dynamic.inside(), name).next().map(|line| line.argument().to_owned());
    let line = match dynamic.arguments() {
        [kind, rest @ ..] if kind == "a" => {
            let name = rest.first().cloned().or_else(|| of("name"));
            let port = rest.get(1).cloned().or_else(|| of("port")).unwrap_or_else(|| "80".to_owned());
            name.map(|name| format!("{name}:{port}"))
        }
        [kind, rest @ ..] if kind == "srv" => {
            let whole = rest.first().cloned();
            let parts = || Some(format!("_{}._{}.{}", of("service")?, of("proto")?, of("name")?));
            whole.or_else(parts).map(|name| format!("srv+{name}"))
        }
        _ => None,
    };
    let Some(line) = line.and_then(|line| fixed(&line)).filter(|line| is_plain(&line.replace('+', ""))) else { return };
    group.lines.push(format!("discover dns={}", quoted(&line)));
    group.origin.carry(dynamic.start());
}

/// `balance` for a policy without a word behind it.
pub fn balance(policy: &str) -> Option<String> {
    let told = match policy {
        "least_conn" => "\"least-conn\"",
        "round_robin" => "\"round-robin\"",
        "random" => "\"random\"",
        "ip_hash" | "client_ip_hash" => "\"hash\" key=\"{client.ip}\"",
        "uri_hash" => "\"hash\" key=\"{uri}\"",
        _ => return None,
    };
    Some(format!("balance {told}"))
}

fn balanced(inside: &[Statement], group: &mut ServerGroup) {
    const NEVER_OUT: &str = "without checks Caddy never finds the first server out, so that those behind it get nothing: they are left out, and \
                             `backup=#true` on the line of a `server` uses them";
    const FIRST: &str = "servers behind the first are used when it is out, and not by their order beyond that";
    let checks = ["health_uri", "health_path", "health_port", "fail_duration"];
    let has_checks = inside.iter().any(|line| checks.contains(&line.name()) && !matches!(line.argument(), "0" | "0s"));
    let is_one = group.servers.len() == 1 && group.lines.iter().all(|line| !line.starts_with("discover"));
    for line in named(inside, "lb_policy") {
        let at = line.start();
        let rest = line.arguments().get(1..).unwrap_or_default();
        let told = match line.argument() {
            // Of one server there is nothing to choose.
            "random" | "round_robin" | "least_conn" | "ip_hash" | "client_ip_hash" | "uri_hash" | "first" if is_one => {
                group.origin.carry(at);
                continue;
            }
            "first" if !has_checks => {
                group.servers.truncate(1);
                group.origin.differ(at, NEVER_OUT);
                continue;
            }
            "first" => {
                group.servers.iter_mut().skip(1).for_each(|server| server.is_backup = true);
                group.origin.differ(at, FIRST);
                continue;
            }
            "random_choose" => Some("balance \"p2c\"".to_owned()),
            "header" => rest.first().filter(|name| is_plain(name)).map(|name| hashed(&format!("{{request.header.{name}}}"))),
            "cookie" => {
                let is_name = |name: &&String| is_plain(name) && !name.contains([':', '/', '*', '[', ']']);
                let name = rest.first().filter(is_name).map_or("tg_route", String::as_str);
                Some(format!("sticky cookie=\"{name}\""))
            }
            "query" => None,
            "weighted_round_robin" => {
                weigh(line, group);
                continue;
            }
            policy => balance(policy),
        };
        if let Some(told) = told {
            group.add_line(told);
            group.origin.carry_all(words::places([line]));
        }
    }
}

fn hashed(key: &str) -> String {
    format!("balance \"hash\" key={}", quoted(key))
}

/// What servers are asked whether they are well.
fn checked(inside: &[Statement], group: &mut ServerGroup) {
    let uri = named(inside, "health_uri").chain(named(inside, "health_path")).next();
    let Some(uri) = uri.filter(|uri| uri.argument().starts_with('/')) else { return };
    let Some(path) = fixed(uri.argument()) else { return };
    let mut properties = String::new();
    let mut carried = vec![uri.start()];
    let mut every = None;
    for line in inside {
        let (name, argument) = (line.name(), line.argument());
        let property = match name {
            "health_interval" => {
                every = milliseconds(argument);
                duration(argument).map(|time| format!("interval=\"{time}\""))
            }
            "health_port" => argument.parse::<u16>().ok().map(|port| format!("port={port}")),
            "health_passes" => {
                argument.parse::<u8>().ok().filter(|count| (1..=100).contains(count)).map(|count| format!("rise={count}"))
            }
            "health_fails" => {
                argument.parse::<u8>().ok().filter(|count| (1..=100).contains(count)).map(|count| format!("fall={count}"))
            }
            "health_method" if is_plain(argument) => Some(format!("method={}", quoted(argument))),
            "health_status" => {
                let status = match argument.as_bytes() {
                    [digit, b'x', b'x'] => Some(format!("{0}00-{0}99", char::from(*digit))),
                    _ => argument.parse::<u16>().ok().map(|status| status.to_string()),
                };
                status.map(|status| format!("expect=\"{status}\""))
            }
            "health_body" => Some(format!("body={}", quoted(&format!("~{argument}")))),
            "health_headers" => {
                let fields: Option<Vec<String>> = line
                    .inside()
                    .iter()
                    .map(|line| Some(format!("header={}", quoted(&format!("{}: {}", line.name(), fixed(line.argument())?)))))
                    .collect();
                fields.map(|fields| fields.join(" "))
            }
            "health_follow_redirects" | "health_timeout" => continue,
            _ => None,
        };
        if let Some(property) = property {
            properties.push_str(&format!(" {property}"));
            carried.extend(words::places([line]));
        }
    }
    // How long an answer may take is no more than the time between two questions.
    let every = every.unwrap_or(30_000);
    if !properties.contains("interval=") {
        properties.push_str(" interval=\"30s\"");
    }
    if let Some(timeout) = named(inside, "health_timeout").next()
        && let Some(time) =
            duration(timeout.argument()).filter(|_| milliseconds(timeout.argument()).is_some_and(|time| time <= every))
    {
        properties.push_str(&format!(" timeout=\"{time}\""));
        carried.push(timeout.start());
    }
    group.add_line(format!("health {}{properties}", quoted(&path)));
    group.origin.carry_all(carried);
}

fn milliseconds(text: &str) -> Option<u64> {
    let written = duration(text)?;
    let digits = written.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = written[..digits].parse().ok()?;
    let of_one = match &written[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(number * of_one)
}

/// What is done when servers fail.
fn failing(inside: &[Statement], group: &mut ServerGroup) {
    let of = |name: &'static str| named(inside, name).next();
    let mut outlier = Vec::new();
    if let Some(time) = of("fail_duration") {
        let is_off = matches!(time.argument(), "0" | "0s");
        if is_off {
            group.add_line("outlier \"off\"");
            group.origin.carry(time.start());
        } else if let Some(told) = duration(time.argument()) {
            let fails = of("max_fails").and_then(|fails| fails.argument().parse::<u32>().ok()).unwrap_or(1).max(1);
            outlier.push(format!("failures={fails} eject=\"{told}\""));
            group.origin.differ(time.start(), IN_A_ROW);
            if let Some(fails) = of("max_fails") {
                group.origin.differ(fails.start(), IN_A_ROW);
            }
            if let Some(status) = of("unhealthy_status")
                && matches!(status.argument(), "5xx" | "500" | "502" | "503" | "504")
            {
                group.origin.carry(status.start());
            }
        }
    }
    for told in outlier {
        group.add_line(format!("outlier {told}"));
    }
    if let Some(bound) =
        of("unhealthy_request_count").filter(|bound| bound.argument().parse::<u32>().is_ok_and(|count| count > 0))
    {
        group.add_line(format!("max-requests {}", bound.argument()));
        group.origin.differ(bound.start(), "requests beyond wait for a place, and the server is not held for down");
    }
    let (duration_of, interval, retries) = (of("lb_try_duration"), of("lb_try_interval"), of("lb_retries"));
    let attempts = retries.and_then(|line| line.argument().parse::<u8>().ok()).filter(|count| (1..=10).contains(count));
    let attempts_said = attempts.map(|count| format!(" attempts={count}")).unwrap_or_default();
    match duration_of.and_then(|line| duration(line.argument())) {
        Some(time) => {
            group.add_line(format!("retry \"wait\" for=\"{time}\"{attempts_said}"));
            if let Some(line) = duration_of {
                group.origin.carry(line.start());
            }
            if let Some(line) = interval {
                group.origin.differ(line.start(), ONE_AT_A_TIME);
            }
        }
        None if attempts.is_some() => group.add_line(format!("retry{attempts_said}")),
        None => {}
    }
    if attempts.is_some()
        && let Some(line) = retries
    {
        group.origin.carry(line.start());
    }
}

fn servers(directive: &Statement, arguments: &[String], group: &mut ServerGroup) {
    let to = named(directive.inside(), "to").flat_map(Statement::arguments);
    let mut first = None;
    for written in arguments.iter().chain(to).flat_map(|written| ranged(written)) {
        let written = &written;
        let Some(address) = address(written) else {
            group.origin.differ(directive.start(), "a server that has no address here is left out");
            continue;
        };
        let scheme = (written.starts_with("h2c://") || written.starts_with("unix+h2c/"), address.starts_with("https://"));
        if *first.get_or_insert(scheme) != scheme {
            group.origin.differ(directive.start(), UNLIKE);
            continue;
        }
        if scheme.0 {
            group.add_line("protocol \"h2c\"");
        }
        group.servers.push(GroupedServer::at(address));
    }
}

/// A range of ports is a server for each.
fn ranged(written: &str) -> Vec<String> {
    const SERVERS_MAX: u16 = 256;
    let range = written.rsplit_once(':').and_then(|(host, ports)| {
        let (first, last) = ports.split_once('-')?;
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last && last - first < SERVERS_MAX).then_some((host, first, last))
    });
    match range {
        Some((host, first, last)) => (first..=last).map(|port| format!("{host}:{port}")).collect(),
        None => vec![written.to_owned()],
    }
}

/// An address with its variables, which the environment fills in when it is read.
fn address(written: &str) -> Option<String> {
    let written = fixed(written)?.replace("unix//", "unix:/").replace("unix+h2c/", "unix:");
    if !written.contains("{env.") {
        return upstream(&written);
    }
    let bare = written.strip_prefix("http://").or_else(|| written.strip_prefix("h2c://")).unwrap_or(&written);
    Some(bare.trim_end_matches('/').to_owned())
}

/// The shares of the servers, in their order. Whoever has none gets nothing.
fn weigh(policy: &Statement, group: &mut ServerGroup) {
    let shares: Vec<u32> = policy.arguments().iter().skip(1).filter_map(|share| share.parse().ok()).collect();
    if shares.len() != group.servers.len() || shares.iter().any(|share| *share > 256) {
        return group.origin.differ(policy.start(), "all servers get the same share here: `weight=` of a `server` gives more");
    }
    group.servers.iter_mut().zip(&shares).for_each(|(server, share)| server.weight = Some(*share));
    group.servers.retain(|server| server.weight != Some(0));
    group.origin.carry(policy.start());
    if shares.contains(&0) {
        group.origin.differ(policy.start(), NO_SHARE);
    }
}

fn of_transport(transport: &Statement, group: &mut ServerGroup) {
    if transport.argument() != "http" {
        return;
    }
    let inside = transport.inside();
    let has_tls = group.servers.iter().any(|server| server.address.starts_with("https://"));
    let is_tls = inside.iter().any(|line| line.name().starts_with("tls"));
    if is_tls {
        *group = std::mem::take(group).over_tls();
    }
    let mut timeouts: Vec<String> = Vec::new();
    for line in inside {
        let at = line.start();
        let mut time = |name: &str, told: Option<String>| {
            if let Some(told) = told.filter(|_| !timeouts.iter().any(|known| known.starts_with(name))) {
                timeouts.push(format!("{name}=\"{told}\""));
                group.origin.carry(at);
            } else {
                group.origin.within.insert(at);
            }
        };
        match line.name() {
            "dial_timeout" => time("connect", duration(line.argument())),
            "response_header_timeout" => time("first-byte", duration(line.argument())),
            "read_timeout" | "write_timeout" => time("idle", duration(line.argument())),
            _ => {}
        }
        let Some(told) = of_transport_line(line, inside, is_tls, has_tls) else { continue };
        if let TransportLine::Line(told) = told {
            let is_tls_line = told.strip_prefix("tls ").map(str::to_owned);
            let known = group.lines.iter_mut().find(|known| known.starts_with("tls "));
            match (is_tls_line, known) {
                (Some(more), Some(known)) if !known.contains(&more) => known.push_str(&format!(" {more}")),
                (_, _) => group.add_line(told),
            }
        }
        group.origin.carry(line.start());
    }
    if !timeouts.is_empty() {
        group.add_line(format!("timeout {}", timeouts.join(" ")));
    }
    group.origin.carry(transport.start());
}

/// What a line of `transport` is here.
enum TransportLine {
    /// A line of a pool.
    Line(String),
    /// Nothing: what it asks for is done anyway, or by another line.
    Same,
}

/// A line of `transport`; `None` where it is none that is known here.
fn of_transport_line(line: &Statement, inside: &[Statement], is_tls: bool, has_tls: bool) -> Option<TransportLine> {
    Some(TransportLine::Line(match (line.name(), line.argument()) {
        ("tls" | "compression", _) => return Some(TransportLine::Same),
        ("keepalive", "off") => "keep-alive connections=0".to_owned(),
        ("keepalive", text) => format!("keep-alive idle=\"{}\"", duration(text)?),
        ("max_conns_per_host", count) if count.parse::<u32>().is_ok_and(|count| count > 0) => {
            format!("max-connections {count}")
        }
        ("tls_insecure_skip_verify", _) => "tls verify=#false".to_owned(),
        ("tls_server_name", name) if is_plain(name) && !has_within(inside, "tls_insecure_skip_verify") => {
            format!("tls sni=\"{name}\"")
        }
        ("tls_trusted_ca_certs", file) if line.arguments().len() == 1 => format!("tls ca={}", quoted(&fixed(file)?)),
        ("tls_trust_pool", "file") => {
            let file = line.arguments().get(1).or_else(|| line.inside().first().and_then(|line| line.words.get(1)));
            format!("tls ca={}", quoted(&fixed(file?)?))
        }
        ("tls_client_auth", cert) if line.arguments().len() == 2 => {
            let key = fixed(&line.arguments()[1])?;
            format!("tls cert={} key={}", quoted(&fixed(cert)?), quoted(&key))
        }
        ("proxy_protocol", version @ ("v1" | "v2")) => format!("send-proxy-protocol \"{version}\""),
        ("versions", "h2c") => format!("protocol \"{}\"", if is_tls || has_tls { "h2" } else { "h2c" }),
        ("versions", "1.1") if line.arguments().len() == 1 => "protocol \"http1\"".to_owned(),
        ("versions", "2" | "h2") if line.arguments().len() == 1 && is_tls => "protocol \"h2\"".to_owned(),
        ("versions", "1.1") if line.arguments().iter().all(|version| matches!(version.as_str(), "1.1" | "2")) => {
            return Some(TransportLine::Same);
        }
        _ => return None,
    }))
}
