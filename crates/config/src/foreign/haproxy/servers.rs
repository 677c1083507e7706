//! The servers of a section of HAProxy, as a pool of ours. What only some of its servers have, no pool can say.

use super::{HaProxyLine, Section, is_tcp, words};
use crate::foreign::outline::{GroupedServer, ServerGroup, is_plain, upstream_with_port};
use std::collections::BTreeMap;

const UNLIKE: &str = "a pool says for all of its servers whether the PROXY protocol begins a connection, what is spoken and by \
                      which name: this one, which is unlike the first, is left out";

/// Options of a server and of all servers of its section, with the place of those that are its own.
struct ServerOptions<'s> {
    all: BTreeMap<&'s str, (&'s str, usize)>,
}

impl<'s> ServerOptions<'s> {
    fn has(&self, option: &str) -> bool {
        self.all.contains_key(option)
    }

    fn value(&self, option: &str) -> Option<&'s str> {
        self.all.get(option).map(|(value, _)| *value)
    }

    fn is_over_tls(&self) -> bool {
        self.has("ssl")
    }

    fn version(&self) -> Option<&'static str> {
        match (
            self.has("send-proxy-v2") || self.has("send-proxy-v2-ssl") || self.has("send-proxy-v2-ssl-cn"),
            self.has("send-proxy"),
        ) {
            (true, _) => Some("v2"),
            (false, true) => Some("v1"),
            (false, false) => None,
        }
    }

    fn name(&self) -> Option<&'s str> {
        let name = self.value("sni").and_then(|name| name.strip_prefix("str(")?.strip_suffix(')'));
        name.or(self.value("verifyhost")).filter(|name| self.is_over_tls() && is_plain(name))
    }

    fn protocol(&self) -> Option<&'static str> {
        match (self.value("proto"), self.is_over_tls()) {
            (Some("h2"), true) => Some("h2"),
            (Some("h2"), false) => Some("h2c"),
            _ => None,
        }
    }

    /// What a pool says for all of its servers.
    fn shape(&self) -> (Option<&'static str>, Option<&'s str>, Option<&'static str>) {
        (self.version(), self.name(), self.protocol())
    }

    fn is_unverified(&self) -> bool {
        self.is_over_tls() && self.value("verify") == Some("none")
    }
}

/// The servers of a section; those without a port have that of the door.
pub fn group(section: &Section, port: Option<u16>) -> ServerGroup {
    let mut group = ServerGroup::named(&section.name);
    for line in &section.lines {
        group.origin.within.extend(words::of_line(&section.kind, line).iter().map(|statement| statement.at));
    }
    let defaults: Vec<_> = section.lines_of("default-server").collect();
    let all: Vec<_> = section
        .lines_of("server")
        .filter(|line| line.words.len() > 2)
        .map(|line| {
            let of_all = defaults.iter().flat_map(|line| line.options(1));
            let options = of_all.chain(line.options(3)).map(|(option, value, at)| (option, (value, at)));
            (line, ServerOptions { all: options.collect() })
        })
        .collect();
    let Some((_, first)) = all.iter().find(|(_, options)| !options.has("disabled")) else {
        templates(section, port, &mut group);
        balanced(section, &mut group);
        return group;
    };
    let is_unverified = all.iter().filter(|(_, options)| options.is_over_tls()).all(|(_, options)| options.is_unverified());
    for (line, options) in &all {
        if options.has("disabled") {
            group.origin.carry(line.start());
            continue;
        }
        let address = line.word(2);
        let address = ["ipv4@", "ipv6@", "unix@"].iter().fold(address, |address, kind| address.trim_start_matches(kind));
        let Some(address) = upstream_with_port(address, port) else { continue };
        if options.shape() != first.shape() {
            let own = line.options(3).map(|(_, _, at)| at);
            own.chain([line.start()]).for_each(|at| group.origin.differ(at, UNLIKE));
            continue;
        }
        add(line, options, address, is_unverified, &mut group);
    }
    if is_unverified && all.iter().any(|(_, options)| options.is_over_tls()) {
        group.add_line("tls verify=#false");
    } else if let Some(name) = first.name() {
        group.add_line(format!("tls sni=\"{name}\""));
    }
    if let Some(version) = first.version() {
        group.add_line(format!("send-proxy-protocol \"{version}\""));
    }
    if let Some(protocol) = first.protocol() {
        group.add_line(format!("protocol \"{protocol}\""));
    }
    templates(section, port, &mut group);
    balanced(section, &mut group);
    checked(section, &all, &mut group);
    group
}

/// Adds a server that is like the others of its pool, with what is said of it.
fn add(line: &HaProxyLine, options: &ServerOptions<'_>, address: String, is_unverified: bool, group: &mut ServerGroup) {
    let weight = options.value("weight").and_then(|weight| weight.parse().ok()).filter(|weight| *weight > 1);
    let is_tls = options.is_over_tls() && !address.starts_with("unix:");
    let address = if is_tls { format!("https://{address}") } else { address };
    let bound = options.value("maxconn").filter(|count| count.parse::<u32>().is_ok_and(|count| count > 0));
    let properties = bound.map(|count| format!("max-requests={count}")).into_iter().collect();
    group.servers.push(GroupedServer { address, weight, is_backup: options.has("backup"), properties });
    group.origin.carry(line.start());
    for (option, (_, at)) in &options.all {
        let is_said = match *option {
            "ssl" | "backup" | "weight" | "maxconn" => true,
            "send-proxy" | "send-proxy-v2" => true,
            "sni" | "verifyhost" => options.name().is_some(),
            "proto" => options.protocol().is_some(),
            "verify" => !options.is_unverified() || is_unverified,
            _ => false,
        };
        if is_said {
            group.origin.carry(*at);
        } else if *option == "verify" {
            group.origin.differ(*at, "it is verified here, as the other servers of its pool are");
        }
    }
}

fn templates(section: &Section, port: Option<u16>, group: &mut ServerGroup) {
    for line in section.lines_of("server-template") {
        if let Some(address) = upstream_with_port(line.word(3), port).filter(|address| !address.starts_with('_')) {
            group.add_line(format!("discover dns=\"{address}\""));
            group.origin.carry(line.start());
        }
    }
}

fn balanced(section: &Section, group: &mut ServerGroup) {
    if let Some(line) = section.lines_of("balance").next() {
        let balance = match line.word(1).split('(').next().unwrap_or_default() {
            "leastconn" => Some("balance \"least-conn\""),
            "source" => Some("balance \"hash\" key=\"{client.ip}\""),
            "uri" if !is_tcp(section) => Some("balance \"hash\" key=\"{path}\""),
            "random" => Some("balance \"random\""),
            _ => None,
        };
        if let Some(balance) = balance {
            group.add_line(balance);
            group.origin.carry(line.start());
        }
    }
    let cookie = section.lines_of("cookie").find(|line| line.words.iter().any(|word| word == "insert"));
    if let Some(cookie) = cookie.filter(|_| !is_tcp(section)) {
        group.add_line(format!("sticky cookie=\"{}\"", cookie.word(1)));
        group.origin.carry(cookie.start());
        for line in section.lines_of("server") {
            let of_cookie = line.options(3).filter(|(option, _, _)| *option == "cookie");
            of_cookie.for_each(|(_, _, at)| group.origin.carry(at));
        }
    }
}

/// Checks that all servers have alike.
fn checked(section: &Section, all: &[(&HaProxyLine, ServerOptions<'_>)], group: &mut ServerGroup) {
    let has_settings = |options: &ServerOptions<'_>| {
        ["port", "addr", "check-ssl", "check-sni", "check-send-proxy", "track", "agent-check", "send-proxy", "send-proxy-v2"]
            .iter()
            .any(|option| options.has(option))
    };
    let is_alike = all.iter().all(|(_, options)| options.has("check") && !has_settings(options));
    let is_said_otherwise = section.lines.iter().any(|line| {
        matches!(line.word(0), "http-check" | "tcp-check")
            || (line.word(0) == "option"
                && (line.word(1).ends_with("-check") || matches!(line.word(1), "smtpchk" | "ssl-hello-chk")))
    });
    if !is_alike || is_said_otherwise {
        return;
    }
    let httpchk = section.lines.iter().find(|line| line.word(0) == "option" && line.word(1) == "httpchk");
    let line = match httpchk.map(|line| (line, line.words.get(2).map(String::as_str), line.words.get(3).map(String::as_str))) {
        None => "health type=\"tcp\"".to_owned(),
        Some((line, method, path)) if line.words.len() <= 4 && !is_tcp(section) => match (method, path) {
            (Some("GET"), Some(path)) if is_plain(path) && path.starts_with('/') => format!("health \"{path}\""),
            (Some(method @ ("HEAD" | "OPTIONS")), Some(path)) if is_plain(path) && path.starts_with('/') => {
                format!("health \"{path}\" method=\"{method}\"")
            }
            (Some(path), None) if path.starts_with('/') && is_plain(path) => format!("health \"{path}\" method=\"OPTIONS\""),
            _ => return,
        },
        Some(_) => return,
    };
    group.add_line(line);
    group.origin.carry_all(httpchk.map(HaProxyLine::start));
    for (_, options) in all {
        options.all.iter().filter(|(option, _)| **option == "check").for_each(|(_, (_, at))| group.origin.carry(*at));
    }
}
