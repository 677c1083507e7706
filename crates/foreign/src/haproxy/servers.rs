//! The servers of a section of HAProxy, as a pool of ours. What only some of its servers have, no pool can say.

use super::checks::checked;
use super::durations;
use super::lexer::{HaProxyLine, Section};
use crate::outline::{GroupedServer, NO_SHARE, ServerGroup, StickyCookie, is_plain, upstream_with_port};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_kdl::quoted;

const UNLIKE: &str = "a pool says for all of its servers whether the PROXY protocol begins a connection, what is spoken, by which \
                      name, and on which port they are asked: this one, which is unlike the first, is left out";
const NAMELESS: &str = "the cookie is signed, and names no server to anybody";
const OTHER_ATTRIBUTES: &str =
    "of the cookie's attributes, `sticky` has path, domain, SameSite, Secure, HttpOnly and Max-Age: another is left out";
const TWICE: &str = "a server stands in its pool once: `weight=` gives it a larger share";
const OF_REQUEST: &str = "the name that is asked for is the server's own, or `tls sni=` of the pool: not one of the request";
const TUNNEL: &str = "silence within an answer may last as long as `timeout tunnel` says, for all that is no first byte";

/// Options of a server and of all servers of its section, with the place of those that are its own.
pub struct ServerOptions<'s> {
    pub all: BTreeMap<&'s str, (&'s str, usize)>,
}

impl<'s> ServerOptions<'s> {
    pub fn has(&self, option: &str) -> bool {
        self.all.contains_key(option)
    }

    pub fn value(&self, option: &str) -> Option<&'s str> {
        self.all.get(option).map(|(value, _)| *value)
    }

    /// What says that it gets no requests.
    fn is_out(&self) -> Option<usize> {
        let is_out = |(option, (value, _)): &(&&str, &(&str, usize))| match **option {
            "disabled" => !self.has("enabled"),
            "weight" => *value == "0",
            _ => false,
        };
        self.all.iter().find(is_out).map(|(_, (_, at))| *at)
    }

    fn is_over_tls(&self) -> bool {
        self.has("ssl")
    }

    fn version(&self) -> Option<&'static str> {
        let is_second = ["send-proxy-v2", "send-proxy-v2-ssl", "send-proxy-v2-ssl-cn"].iter().any(|option| self.has(option));
        match (is_second, self.has("send-proxy")) {
            (true, _) => Some("v2"),
            (false, true) => Some("v1"),
            (false, false) => None,
        }
    }

    /// What the header of the PROXY protocol says besides.
    fn extensions(&self) -> Option<String> {
        let mut words: Vec<&str> = match self.value("proxy-v2-options") {
            Some(list) => list.split(',').filter(|word| matches!(*word, "authority" | "unique-id" | "ssl" | "crc32c")).collect(),
            None => Vec::new(),
        };
        if (self.has("send-proxy-v2-ssl") || self.has("send-proxy-v2-ssl-cn")) && !words.contains(&"ssl") {
            words.push("ssl");
        }
        (!words.is_empty()).then(|| words.join(","))
    }

    fn name(&self) -> Option<&'s str> {
        let name = self.value("sni").and_then(|name| name.strip_prefix("str(")?.strip_suffix(')'));
        name.or(self.value("verifyhost")).filter(|name| self.is_over_tls() && is_plain(name))
    }

    fn protocol(&self) -> Option<&'static str> {
        match (self.value("proto"), self.value("alpn"), self.is_over_tls()) {
            (Some("h2"), _, true) | (_, Some("h2"), true) => Some("h2"),
            (Some("h2"), _, false) => Some("h2c"),
            _ => None,
        }
    }

    /// What a pool says for all of its servers.
    fn is_like(&self, first: &ServerOptions<'_>) -> bool {
        let is_asked = |options: &ServerOptions<'_>| options.has("check") && !options.has("no-check");
        let is_asked_alike = !is_asked(self) || !is_asked(first) || self.value("port") == first.value("port");
        is_asked_alike && (self.version(), self.name(), self.protocol()) == (first.version(), first.name(), first.protocol())
    }

    fn is_unverified(&self) -> bool {
        self.is_over_tls() && self.value("verify") == Some("none")
    }
}

/// The servers of a section; those without a port have that of the door.
pub fn group(section: &Section, port: Option<u16>) -> ServerGroup {
    let mut group = ServerGroup::named(&section.name);
    group.origin.within.clone_from(section.places());
    let defaults: Vec<_> = section
        .inherited
        .iter()
        .filter(|line| line.word(0) == "default-server")
        .chain(section.lines_of("default-server"))
        .collect();
    let all: Vec<_> = section
        .lines_of("server")
        .filter(|line| line.words.len() > 2)
        .map(|line| {
            let of_all = defaults.iter().flat_map(|line| line.options(1));
            let options = of_all.chain(line.options(3)).map(|(option, value, at)| (option, (value, at)));
            (line, ServerOptions { all: options.collect() })
        })
        .collect();
    overridden(section, &defaults, &mut group);
    // Where one of them is verified, all of the pool are, those that are left out among them.
    let is_unverified = all.iter().filter(|(_, options)| options.is_over_tls()).all(|(_, options)| options.is_unverified());
    let all = alike(all, &mut group);
    let first = all.iter().find(|(_, options)| options.is_out().is_none()).map(|(_, options)| options);
    if let Some(first) = first {
        written_servers(section, &all, (first, is_unverified), port, &mut group);
    } else {
        all.iter().filter_map(|(_, options)| options.is_out()).for_each(|at| group.origin.differ(at, NO_SHARE));
    }
    templates(section, &defaults, port, &mut group);
    balanced(section, &mut group);
    timed(section, &mut group);
    tried_again(section, &mut group);
    if first.is_some() {
        checked(section, &all, &mut group);
    }
    // Lines of its own are read where they stand once.
    group.is_apart = group.lines.len() > 1;
    group
}

/// Servers that one pool has room for, as the first of them says it.
fn alike<'s>(
    all: Vec<(&'s HaProxyLine, ServerOptions<'s>)>,
    group: &mut ServerGroup,
) -> Vec<(&'s HaProxyLine, ServerOptions<'s>)> {
    let Some(first) = all.iter().position(|(_, options)| options.is_out().is_none()) else { return all };
    let is_like = |(_, options): &(&HaProxyLine, ServerOptions<'_>)| options.is_out().is_some() || options.is_like(&all[first].1);
    let like: Vec<bool> = all.iter().map(is_like).collect();
    for (line, _) in all.iter().zip(&like).filter(|(_, is_like)| !**is_like).map(|(server, _)| server) {
        group.origin.differ(line.start(), UNLIKE);
        line.options(3).for_each(|(_, _, at)| group.origin.differ(at, "its server is left out"));
    }
    all.into_iter().zip(like).filter(|(_, is_like)| *is_like).map(|(server, _)| server).collect()
}

/// Options that stand again behind them, of which the last counts there as here.
fn overridden(section: &Section, defaults: &[&HaProxyLine], group: &mut ServerGroup) {
    let (mut written, mut counted) = (BTreeSet::new(), BTreeSet::new());
    for line in section.lines_of("server").filter(|line| line.words.len() > 2) {
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        for (option, _, at) in defaults.iter().flat_map(|line| line.options(1)).chain(line.options(3)) {
            written.insert(at);
            last.insert(option, at);
        }
        counted.extend(last.into_values());
    }
    group.origin.carry_all(written.difference(&counted).copied());
}

fn written_servers(
    section: &Section,
    all: &[(&HaProxyLine, ServerOptions<'_>)],
    (first, is_unverified): (&ServerOptions<'_>, bool),
    port: Option<u16>,
    group: &mut ServerGroup,
) {
    let is_all_backups = section.setting("option", "allbackups").is_some();
    let mut backups = 0;
    for (line, options) in all {
        if let Some(at) = options.is_out() {
            group.origin.carry_all(line.options(3).map(|(_, _, at)| at));
            group.origin.carry(line.start());
            group.origin.differ(at, NO_SHARE);
            continue;
        }
        let address = line.word(2);
        let address = ["ipv4@", "ipv6@", "unix@", "tcp@"].iter().fold(address, |address, kind| address.trim_start_matches(kind));
        let Some(address) = upstream_with_port(address, port) else { continue };
        let mut server = server(line, options, address, is_unverified, section.speaks_tcp(), group);
        if group.servers.iter().any(|known| known.address == server.address) {
            group.origin.differ(line.start(), TWICE);
            continue;
        }
        if server.is_backup {
            // One after another, unless all of them serve together.
            if backups > 0 && !is_all_backups {
                server.is_backup = false;
                server.properties.push(format!("priority={}", (backups + 1).min(7)));
            }
            backups += 1;
        }
        group.servers.push(server);
    }
    let mut tls = Vec::new();
    if is_unverified && all.iter().any(|(_, options)| options.is_over_tls()) {
        tls.push("verify=#false".to_owned());
    } else if let Some(name) = first.name() {
        tls.push(format!("sni={}", quoted(name)));
    }
    tls.extend(files_of_tls(all, is_unverified, group));
    if !tls.is_empty() {
        group.add_line(format!("tls {}", tls.join(" ")));
    }
    if let Some(version) = first.version() {
        let extensions = first.extensions().filter(|_| version == "v2").map(|words| format!(" tlv={}", quoted(&words)));
        group.add_line(format!("send-proxy-protocol \"{version}\"{}", extensions.unwrap_or_default()));
    }
    if let Some(protocol) = first.protocol() {
        group.add_line(format!("protocol \"{protocol}\""));
    }
    shared(all, group);
}

/// Files of authorities and of a certificate, where all servers over TLS have the same.
fn files_of_tls(all: &[(&HaProxyLine, ServerOptions<'_>)], is_unverified: bool, group: &mut ServerGroup) -> Vec<String> {
    let over_tls: Vec<&ServerOptions<'_>> =
        all.iter().map(|(_, options)| options).filter(|options| options.is_over_tls()).collect();
    let mut files = Vec::new();
    for option in ["ca-file", "crt"] {
        let Some(value) = over_tls.first().and_then(|options| options.value(option)) else { continue };
        if !over_tls.iter().all(|options| options.value(option) == Some(value)) || value.contains(super::lexer::OF_ENVIRONMENT) {
            continue;
        }
        let places = over_tls.iter().filter_map(|options| options.all.get(option)).map(|(_, at)| *at);
        match option {
            // Authorities of the system are asked without a word, and where nobody is verified, none.
            "ca-file" if value.starts_with('@') || is_unverified => {}
            "ca-file" => files.push(format!("ca={}", quoted(value))),
            _ => files.push(format!("cert={} key={}", quoted(value), quoted(value))),
        }
        group.origin.carry_all(places);
    }
    files
}

/// Bounds and times that all servers have alike.
fn shared(all: &[(&HaProxyLine, ServerOptions<'_>)], group: &mut ServerGroup) {
    let alike = |option: &str| {
        let value = all.first().and_then(|(_, options)| options.value(option))?;
        all.iter().all(|(_, options)| options.value(option) == Some(value)).then_some(value)
    };
    let places = |option: &str| -> Vec<usize> {
        all.iter().filter_map(|(_, options)| options.all.get(option)).map(|(_, at)| *at).collect()
    };
    if let Some(time) = alike("slowstart").and_then(durations::of_milliseconds) {
        group.add_line(format!("slow-start {}", quoted(&time)));
        group.origin.carry_all(places("slowstart"));
    }
    let count = alike("error-limit").and_then(|count| count.parse::<u16>().ok()).filter(|count| (1..=1000).contains(count));
    if let Some(count) = count.filter(|_| alike("observe").is_some()) {
        group.add_line(format!("outlier failures={count}"));
        group.origin.carry_all(["error-limit", "observe", "on-error"].iter().flat_map(|option| places(option)));
    }
    if let Some(count) = alike("max-reuse").and_then(|count| count.parse::<u32>().ok()).filter(|count| *count > 0) {
        group.add_line(format!("keep-alive requests={count}"));
        group.origin.carry_all(places("max-reuse"));
    }
}

/// A server that is like the others of its pool, with what is said of it.
fn server(
    line: &HaProxyLine,
    options: &ServerOptions<'_>,
    address: String,
    is_unverified: bool,
    is_tcp: bool,
    group: &mut ServerGroup,
) -> GroupedServer {
    let weight = options.value("weight").and_then(|weight| weight.parse().ok()).filter(|weight| *weight > 1);
    let is_tls = options.is_over_tls() && !address.starts_with("unix:");
    let address = if is_tls { format!("https://{address}") } else { address };
    let bound = options.value("maxconn").filter(|count| count.parse::<u32>().is_ok_and(|count| (1..=1_000_000).contains(&count)));
    let word = if is_tcp { "max-connections" } else { "max-requests" };
    let properties = bound.map(|count| format!("{word}={count}")).into_iter().collect();
    group.origin.carry(line.start());
    for (option, (value, at)) in &options.all {
        let is_said = match *option {
            "ssl" | "backup" | "weight" => true,
            "maxconn" => bound.is_some() || *value == "0",
            "send-proxy" | "send-proxy-v2" | "send-proxy-v2-ssl" | "send-proxy-v2-ssl-cn" | "proxy-v2-options" => true,
            "verifyhost" => options.name().is_some(),
            "sni" => options.name().is_some() || is_unverified,
            "proto" | "alpn" => options.protocol().is_some() || value.contains("http/1.1"),
            "verify" => !options.is_unverified() || is_unverified,
            _ => false,
        };
        if is_said {
            group.origin.carry(*at);
        } else if *option == "verify" {
            group.origin.differ(*at, "it is verified here, as the other servers of its pool are");
        } else if *option == "sni" {
            group.origin.differ(*at, OF_REQUEST);
        }
    }
    GroupedServer { address, weight, is_backup: options.has("backup"), properties }
}

fn templates(section: &Section, defaults: &[&HaProxyLine], port: Option<u16>, group: &mut ServerGroup) {
    for line in section.lines_of("server-template") {
        let written = line.word(3);
        let address = if written.starts_with('_') {
            let name = written.split(':').next().unwrap_or_default();
            is_plain(name).then(|| format!("srv+{name}"))
        } else {
            upstream_with_port(written, port)
        };
        let Some(address) = address else { continue };
        let of_all = defaults.iter().flat_map(|line| line.options(1));
        let options: BTreeMap<&str, &str> = of_all.chain(line.options(4)).map(|(option, value, _)| (option, value)).collect();
        let is_tls = options.contains_key("ssl");
        let address = if is_tls && !address.starts_with("srv+") { format!("https://{address}") } else { address };
        group.add_line(format!("discover dns={}", quoted(&address)));
        if is_tls && options.get("verify") == Some(&"none") {
            group.add_line("tls verify=#false");
        }
        if options.get("proto") == Some(&"h2") {
            group.add_line(format!("protocol \"{}\"", if is_tls { "h2" } else { "h2c" }));
        }
        group.origin.carry(line.start());
        let said = ["ssl", "verify", "proto", "alpn", "check"];
        group.origin.carry_all(line.options(4).filter(|(option, _, _)| said.contains(option)).map(|(_, _, at)| at));
        if options.contains_key("check") && section.setting("option", "httpchk").is_none() {
            group.add_line("health type=\"tcp\"");
        }
    }
}

/// The text that decides, for `balance` with a key.
fn balance_key(line: &HaProxyLine, is_tcp: bool) -> Option<String> {
    let (method, argument) =
        line.word(1).split_once('(').map_or((line.word(1), ""), |(method, rest)| (method, rest.trim_end_matches(')')));
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    Some(match method {
        "source" => "{client.ip}".to_owned(),
        "uri" if !is_tcp => if line.has("whole") { "{uri}" } else { "{path}" }.to_owned(),
        "hdr" if is_name(argument) && !is_tcp => {
            if argument.eq_ignore_ascii_case("host") {
                "{host}".to_owned()
            } else {
                format!("{{request.header.{argument}}}")
            }
        }
        "hash" if !is_tcp => super::templates::template(
            &format!("%[{}]", line.words[1..].join(" ").trim_start_matches("hash").trim_matches([' ', '(', ')'])),
            &BTreeMap::default(),
        )
        .ok()?,
        _ => return None,
    })
}

fn balanced(section: &Section, group: &mut ServerGroup) {
    if let Some(line) = section.all_of("balance").last() {
        let method = line.word(1).split('(').next().unwrap_or_default();
        let balance = match method {
            "roundrobin" | "static-rr" => Some("balance \"round-robin\"".to_owned()),
            "leastconn" => Some("balance \"least-conn\"".to_owned()),
            "random" => Some(if line.word(1) == "random(1)" { "balance \"random\"" } else { "balance \"p2c\"" }.to_owned()),
            "first" => None,
            _ => balance_key(line, section.speaks_tcp()).map(|key| format!("balance \"hash\" key={}", quoted(&key))),
        };
        // Of one server, none is chosen.
        match balance {
            Some(_) if group.servers.len() == 1 && group.lines.is_empty() => group.origin.carry(line.start()),
            Some(balance) => {
                if !balance.contains("p2c") {
                    group.add_line(balance);
                }
                group.origin.carry(line.start());
            }
            None => {}
        }
    }
    let hashed = group.lines.iter().any(|line| line.starts_with("balance \"hash\""));
    for line in section.all_of("hash-type").filter(|_| hashed) {
        let consistent = line.word(1) == "consistent";
        if consistent {
            group.origin.carry(line.start());
        } else {
            group
                .origin
                .differ(line.start(), "keys are always shared out consistently, so that few move when servers come and go");
        }
    }
    stuck(section, group);
}

/// Clients that stay with their servers.
fn stuck(section: &Section, group: &mut ServerGroup) {
    let cookie = section.all_of("cookie").find(|line| ["insert", "prefix", "rewrite"].iter().any(|word| line.has(word)));
    if let Some(cookie) = cookie.filter(|_| !section.speaks_tcp()) {
        let age = cookie.behind("maxlife").and_then(durations::of_milliseconds);
        let mut sticky = StickyCookie::named(cookie.word(1));
        sticky.lasts(age);
        let is_whole = attributes(cookie, &mut sticky);
        group.add_line(sticky.line());
        group.origin.carry(cookie.start());
        if !is_whole {
            group.origin.differ(cookie.start(), OTHER_ATTRIBUTES);
        }
        let is_own = cookie.has("insert");
        let differs = if is_own { NAMELESS } else { "the cookie is one of its own: that of the application stays as it is" };
        group.origin.differ(cookie.start(), differs);
        for line in section.lines_of("server") {
            let of_cookie = line.options(3).filter(|(option, _, _)| *option == "cookie");
            of_cookie.for_each(|(_, _, at)| group.origin.carry(at));
        }
        return;
    }
    let Some(line) = section.lines_of("stick").find(|line| matches!(line.word(1), "on" | "match")) else { return };
    let key = match line.word(2) {
        "src" => Some("{client.ip}".to_owned()),
        key => super::templates::template(&format!("%[{key}]"), &BTreeMap::default()).ok(),
    };
    let Some(key) = key.filter(|key| !section.speaks_tcp() || key == "{client.ip}") else { return };
    group.lines.retain(|line| !line.starts_with("balance"));
    group.add_line(format!("balance \"hash\" key={}", quoted(&key)));
    group
        .origin
        .differ(line.start(), "a client is bound by what is hashed and not by a table: when servers come and go, a few move");
    group.origin.carry_all(section.lines_of("stick-table").map(HaProxyLine::start));
}

/// Whether all is carried that the line says of its cookie.
fn attributes(line: &HaProxyLine, sticky: &mut StickyCookie) -> bool {
    let mut is_whole = true;
    let mut words = (2..).map_while(|index| Some(line.word(index)).filter(|word| !word.is_empty()));
    while let Some(word) = words.next() {
        is_whole &= match word {
            "secure" => sticky.set("secure", ""),
            "domain" => words.next().is_some_and(|domain| sticky.set("domain", domain)),
            "attr" => words.next().is_some_and(|told| {
                let (attribute, value) = told.split_once('=').unwrap_or((told, ""));
                sticky.set(attribute, value)
            }),
            "maxlife" | "maxidle" => {
                words.next();
                true
            }
            _ => true,
        };
    }
    is_whole
}

/// Times for a server.
fn timed(section: &Section, group: &mut ServerGroup) {
    let time = |name: &str, most: u64| {
        let line = section.setting("timeout", name)?;
        let time = durations::milliseconds(line.word(2))?.min(most);
        Some((durations::written(time)?, line.start()))
    };
    const DAY: u64 = 86_400_000;
    let mut parts = Vec::new();
    if let Some((connect, at)) = time("connect", 300_000) {
        if connect != "5s" {
            parts.push(format!("connect={}", quoted(&connect)));
        }
        group.origin.carry(at);
    }
    let server = time("server", DAY);
    let tunnel = time("tunnel", 7 * DAY);
    if let Some((first, at)) = &server {
        let idle = tunnel.as_ref().map_or(first, |(tunnel, _)| tunnel);
        if !section.speaks_tcp() {
            parts.push(format!("first-byte={}", quoted(first)));
        }
        if idle != "1h" {
            parts.push(format!("idle={}", quoted(idle)));
        }
        group.origin.carry(*at);
        if tunnel.as_ref().is_some_and(|(tunnel, _)| tunnel != first) && !section.speaks_tcp() {
            group.origin.differ(*at, TUNNEL);
        }
    } else if let Some((tunnel, _)) = tunnel.as_ref().filter(|(tunnel, _)| tunnel != "1h") {
        parts.push(format!("idle={}", quoted(tunnel)));
    }
    group.origin.carry_all(tunnel.map(|(_, at)| at));
    if !parts.is_empty() {
        group.add_line(format!("timeout {}", parts.join(" ")));
    }
    let queue = time("queue", 3_600_000);
    let bounded =
        group.servers.iter().filter(|server| server.properties.iter().any(|property| property.starts_with("max-"))).count();
    if let Some((queue, at)) = queue {
        if bounded > 0 && bounded == group.servers.len() {
            let word = if section.speaks_tcp() { "max-connections" } else { "max-requests" };
            let count = group
                .servers
                .iter()
                .flat_map(|server| &server.properties)
                .find_map(|property| property.strip_prefix(word)?.strip_prefix('='));
            let line = count.map(|count| format!("{word} {count} queue-timeout={}", quoted(&queue)));
            if let Some(line) = line {
                group.add_line(line);
            }
        }
        group.origin.carry(at);
    }
}

fn tried_again(section: &Section, group: &mut ServerGroup) {
    let retries = section.all_of("retries").last();
    let on = section.all_of("retry-on").last();
    if retries.is_none() && on.is_none() {
        return;
    }
    let count = retries.and_then(|line| line.word(1).parse::<u32>().ok());
    group.origin.carry_all(retries.into_iter().chain(on).map(HaProxyLine::start));
    if count == Some(0) || on.is_some_and(|line| line.word(1) == "none") {
        group.add_line("retry \"off\"");
        return;
    }
    let mut causes: Vec<String> = Vec::new();
    for word in on.iter().flat_map(|line| line.words.iter().skip(1)) {
        let said: &[&str] = match word.as_str() {
            "conn-failure" => &["connect"],
            "empty-response" | "junk-response" => &["reset"],
            "response-timeout" => &["timeout"],
            "all-retryable-errors" => &["connect", "reset", "timeout", "500", "502", "503", "504"],
            number if number.parse::<u16>().is_ok_and(|status| (400..=599).contains(&status)) => {
                causes.push(number.to_owned());
                &[]
            }
            _ => &[],
        };
        causes.extend(said.iter().map(|cause| (*cause).to_owned()));
    }
    causes.dedup();
    let causes = if causes.is_empty() { "connect".to_owned() } else { causes.join(",") };
    group.add_line(format!("retry attempts={} on={}", count.unwrap_or(3).clamp(1, 10), quoted(&causes)));
}
