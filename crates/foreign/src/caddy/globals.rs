//! The global options of a Caddyfile, as lines of ours at the top level.

use super::files::duration;
use super::matchers::networks;
use super::placeholders::fixed;
use super::tls::Authorities;
use super::words;
use crate::accounts::Origin;
use crate::braces::{Statement, named, value};
use crate::outline::OutlinedSetting;
use std::collections::BTreeSet;
use tidegate_kdl::quoted;

const LONGER: &str = "a head may have 64 KiB at most here";
const OWN_LINES: &str =
    "what the process says of itself is on standard error, for the journal; `access-log \"/var/log/…\"` writes of requests";
const OFF: &str = "no redirect is opened for these sites; a site that is to have no certificate says `http://` in its address";
pub const H1: &str = "HTTP/1.1 is spoken as well here";
pub const H3: &str = "HTTP/3 is not spoken here: HTTP/1.1 and HTTP/2 are";

/// What the options say of all sites.
#[derive(Debug, Default)]
pub struct GlobalOptions<'s> {
    pub settings: Vec<OutlinedSetting>,
    pub http_port: Option<u16>,
    pub https_port: Option<u16>,
    /// Certificates of all sites are those of the internal CA.
    pub is_internal: bool,
    /// Whether HTTP/2 is not spoken.
    pub is_http1_alone: bool,
    pub opens_no_http: bool,
    /// Where all sites are that do not say it.
    pub default_bind: Option<&'s Statement>,
    /// Whether a connection's address is that of another proxy, and who that is is not told.
    pub is_behind_another: bool,
    /// Whether others may say whose address a client's is.
    pub trusts_others: bool,
    /// Who is asked before a name is ordered that nobody wrote.
    pub ask: Option<&'s Statement>,
    /// What stands in front of all sites and is not carried.
    pub guards: BTreeSet<usize>,
    /// Lines of all listeners, or of those of one address.
    listeners: Vec<(Option<String>, String, Origin)>,
    /// Said elsewhere than in a setting.
    pub origin: Origin,
}

impl<'s> GlobalOptions<'s> {
    pub fn read(options: &'s [Statement]) -> GlobalOptions<'s> {
        let mut all = GlobalOptions::default();
        let mut authorities = Authorities::default();
        let mut limits: Vec<String> = Vec::new();
        let mut of_limits = Origin::default();
        for line in options {
            let at = line.start();
            let argument = line.argument();
            match line.name() {
                "http_port" => all.port(line, true),
                "https_port" => all.port(line, false),
                "auto_https" => {
                    all.opens_no_http |= matches!(argument, "off" | "disable_redirects");
                    match argument {
                        "off" => all.origin.differ(at, OFF),
                        "disable_redirects" => all.origin.carry(at),
                        _ => {}
                    }
                }
                "local_certs" => {
                    all.is_internal = true;
                    all.origin.carry(at);
                }
                "debug" => all.setting("log level=\"debug\"", [at]),
                "admin" if argument == "off" => all.setting("admin \"off\"", [at]),
                "grace_period" => {
                    let delay = named(options, "shutdown_delay").next();
                    let told = delay.and_then(|delay| duration(delay.argument()));
                    let delay_said = told.as_ref().map(|delay| format!(" delay=\"{delay}\"")).unwrap_or_default();
                    if let Some(time) = duration(argument) {
                        let of_delay = delay.filter(|_| told.is_some()).map(Statement::start);
                        all.setting(&format!("drain \"{time}\"{delay_said}"), [at].into_iter().chain(of_delay));
                    }
                }
                "storage" => all.storage(line),
                "default_bind" => all.default_bind = Some(line),
                "log" => all.log(line),
                "on_demand_tls" => {
                    all.ask = named(line.inside(), "ask").next();
                    all.origin.carry(at);
                }
                "servers" => all.servers(line, &mut limits, &mut of_limits),
                "cert_issuer" if argument == "internal" => {
                    all.is_internal = true;
                    all.origin.carry_all(words::places([line]));
                }
                "cert_issuer" if argument == "acme" => {
                    line.inside().iter().for_each(|inner| {
                        authorities.read(inner);
                    });
                    authorities.origin.carry(at);
                }
                _ => {
                    authorities.read(line);
                }
            }
        }
        if !authorities.is_empty() {
            let origin = std::mem::take(&mut authorities.origin);
            all.settings.push(OutlinedSetting { line: authorities.line(), origin });
        }
        if !limits.is_empty() {
            all.settings.push(OutlinedSetting { line: format!("limits {{ {}; }}", limits.join("; ")), origin: of_limits });
        }
        all
    }

    fn setting(&mut self, line: &str, places: impl IntoIterator<Item = usize>) {
        let mut origin = Origin::default();
        origin.carry_all(places);
        self.settings.push(OutlinedSetting { line: line.to_owned(), origin });
    }

    fn port(&mut self, line: &Statement, is_http: bool) {
        let Ok(port) = line.argument().parse::<u16>() else { return };
        *(if is_http { &mut self.http_port } else { &mut self.https_port }) = Some(port);
        self.origin.carry(line.start());
    }

    fn storage(&mut self, line: &Statement) {
        let told = match line.arguments() {
            [kind, rest @ ..] if kind == "file_system" => {
                rest.first().map(String::as_str).or_else(|| value(line.inside(), "root")).and_then(fixed)
            }
            _ => None,
        };
        if let Some(folder) = told {
            self.setting(&format!("storage {}", quoted(&folder)), words::places([line]));
        }
    }

    fn log(&mut self, line: &Statement) {
        if named(line.inside(), "output").any(|output| !matches!(output.argument(), "stdout" | "stderr")) {
            self.origin.differ(line.start(), OWN_LINES);
        }
        let level = match value(line.inside(), "level").map(str::to_ascii_lowercase).as_deref() {
            Some(level @ ("debug" | "info" | "warn" | "error")) => level.to_owned(),
            _ => return self.origin.carry(line.start()),
        };
        if level != "info" {
            let filters = words::filters(line);
            let said = words::places([line]).into_iter().filter(|at| !filters.contains(at));
            self.setting(&format!("log level=\"{level}\""), said);
        }
    }

    /// `servers`, of all addresses or of one.
    fn servers(&mut self, servers: &Statement, limits: &mut Vec<String>, of_limits: &mut Origin) {
        let of = Some(servers.argument()).filter(|address| !address.is_empty()).map(str::to_owned);
        self.origin.carry(servers.start());
        for line in servers.inside() {
            let at = line.start();
            self.trusts_others |= line.name() == "trusted_proxies";
            match (line.name(), line.argument()) {
                ("trusted_proxies", "static") => match networks(&line.arguments()[1..]) {
                    Some(networks) => self.trusted(of.as_ref(), &networks, line),
                    None => self.is_behind_another = true,
                },
                ("trusted_proxies", "cloudflare") => {
                    let mut origin = Origin::default();
                    origin.carry_all(words::places([line]));
                    self.listeners.push((of.clone(), "trusted-proxies \"preset:cloudflare\"".into(), origin));
                }
                ("trusted_proxies", _) => self.is_behind_another = true,
                // Without somebody to trust it is read from the connection.
                ("client_ip_headers", _) if named(servers.inside(), "trusted_proxies").next().is_some() => {
                    let is_usual = |name: &String| name.eq_ignore_ascii_case("x-forwarded-for");
                    let is_name = |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
                    if line.arguments().iter().all(is_usual) {
                        self.origin.carry(at);
                    } else if let [name] = line.arguments()
                        && is_name(name)
                    {
                        let mut origin = Origin::default();
                        origin.carry(at);
                        self.listeners.push((of.clone(), format!("client-ip-header {}", quoted(name)), origin));
                    } else {
                        self.is_behind_another = true;
                    }
                }
                ("listener_wrappers", _) => self.wrappers(of.as_ref(), line),
                ("protocols", _) => self.protocols(of.as_deref(), line),
                ("max_header_size", size) => {
                    let bytes = super::directives::bytes(size);
                    if let Some(bytes) = bytes.filter(|_| !limits.iter().any(|known| known.starts_with("header-bytes"))) {
                        let number = bytes_of(size).unwrap_or(0);
                        if number > 64 * 1024 {
                            of_limits.differ(at, LONGER);
                            limits.push("header-bytes \"64KiB\"".into());
                        } else if number >= 1024 {
                            of_limits.carry(at);
                            limits.push(format!("header-bytes {bytes}"));
                            // The line is a part of the head.
                            limits.extend((number < 16 * 1024).then(|| format!("request-line {bytes}")));
                        }
                    }
                }
                ("timeouts", _) => {
                    self.origin.carry(at);
                    for time in line.inside() {
                        let told = match time.name() {
                            "read_header" => "header-timeout",
                            "idle" => "keep-alive",
                            _ => continue,
                        };
                        let is_said = limits.iter().any(|known| known.starts_with(told));
                        if let Some(duration) = duration(time.argument()).filter(|_| !is_said) {
                            limits.push(format!("{told} \"{duration}\""));
                            of_limits.carry(time.start());
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// What is spoken on an address, or on all of them.
    fn protocols(&mut self, of: Option<&str>, line: &Statement) {
        let at = line.start();
        let has = |name: &str| line.arguments().iter().any(|protocol| protocol == name);
        match (has("h1"), has("h2")) {
            (true, false) if of.is_none_or(|of| of.ends_with(":443")) => {
                self.is_http1_alone = true;
                if has("h3") { self.origin.differ(at, H3) } else { self.origin.carry(at) }
            }
            // For the addresses of others the sites say it.
            (true, false) => {}
            (false, _) => self.origin.differ(at, H1),
            (true, true) if has("h3") => self.origin.differ(at, H3),
            (true, true) => self.origin.carry(at),
        }
    }

    fn trusted(&mut self, of: Option<&String>, networks: &[String], line: &Statement) {
        let mut origin = Origin::default();
        origin.carry_all(words::places([line]));
        let networks: Vec<String> = networks.iter().map(|network| quoted(network)).collect();
        self.listeners.push((of.cloned(), format!("trusted-proxies {}", networks.join(" ")), origin));
    }

    /// What stands in front of connections.
    fn wrappers(&mut self, of: Option<&String>, line: &Statement) {
        self.origin.carry(line.start());
        for wrapper in line.inside() {
            match wrapper.name() {
                "tls" | "http_redirect" => self.origin.carry(wrapper.start()),
                "proxy_protocol" => {
                    let from = named(wrapper.inside(), "allow").flat_map(Statement::arguments).cloned().collect::<Vec<_>>();
                    let Some(networks) = networks(&from) else {
                        self.is_behind_another = true;
                        continue;
                    };
                    let from: Vec<String> = networks.iter().map(|network| format!("from={}", quoted(network))).collect();
                    let mut origin = Origin::default();
                    origin.carry(wrapper.start());
                    origin.carry_all(named(wrapper.inside(), "allow").map(Statement::start));
                    self.listeners.push((of.cloned(), format!("accept-proxy-protocol {}", from.join(" ")), origin));
                }
                // What it lets through is not known.
                _ => self.guards.extend(words::places([wrapper])),
            }
        }
    }

    /// The settings of listeners, for the ports that sites have.
    pub fn listeners(&self, ports: &[u16]) -> Vec<OutlinedSetting> {
        let mut settings = Vec::new();
        for port in ports {
            let mut lines: Vec<&str> = Vec::new();
            let mut origin = Origin::default();
            for (of, line, own) in &self.listeners {
                let is_its = of.as_ref().is_none_or(|of| of.rsplit(':').next() == Some(port.to_string().as_str()));
                if is_its && !lines.contains(&line.as_str()) {
                    lines.push(line);
                    origin.add(own);
                }
            }
            if !lines.is_empty() {
                let line = format!("listener \":{port}\" {{ {}; }}", lines.join("; "));
                settings.push(OutlinedSetting { line, origin });
            }
        }
        settings
    }
}

fn bytes_of(text: &str) -> Option<u64> {
    let written = super::directives::bytes(text)?;
    let written = written.trim_matches('"');
    let digits = written.find(|c: char| !c.is_ascii_digit()).unwrap_or(written.len());
    let number: u64 = written[..digits].parse().ok()?;
    let of_one = match &written[digits..] {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(of_one)
}
