//! What a file of another proxy asks for, as far as its shape tells: names, ports, servers, and what is answered.
//! Readers of single proxies' files fill it in; the lines of ours are written in `beginning`.

use std::net::IpAddr;
use tidegate_model::{SiteAddress, UpstreamAddress};

/// All that a reader has found out.
#[derive(Debug, Default)]
pub struct Outline {
    pub services: Vec<Service>,
    /// Groups of servers that nothing in the file uses.
    pub groups: Vec<ServerGroup>,
    /// Why there is nothing to begin with.
    pub without: Option<&'static str>,
}

impl Outline {
    /// Adds why nothing can be said, unless that is known.
    pub fn or_without(mut self, why: &'static str) -> Outline {
        if self.services.is_empty() && self.groups.is_empty() {
            self.without.get_or_insert(why);
        }
        self
    }
}

#[derive(Debug)]
pub enum Service {
    Site(OutlinedSite),
    Tcp(OutlinedTcp),
}

#[derive(Debug, Clone, Default)]
pub struct OutlinedSite {
    /// As we write them; empty where any name would do, so that the reader's has to be put there.
    pub addresses: Vec<String>,
    /// Whether a name in them is the reader's to write, since the file has it in variables or patterns.
    pub is_name_open: bool,
    pub routes: Vec<OutlinedRoute>,
    /// What answers all that no route takes.
    pub answer: Option<OutlinedAnswer>,
    /// Who may come in, and how often, as we write it; for all routes.
    pub steps: Vec<String>,
    /// Words of the file that keep others out, and that the line does not have.
    pub guards: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct OutlinedRoute {
    pub patterns: Vec<String>,
    /// What stands behind `match`.
    pub conditions: Vec<String>,
    /// Who may come in, and how often, as we write it.
    pub steps: Vec<String>,
    pub answer: OutlinedAnswer,
}

impl OutlinedRoute {
    pub fn of(patterns: Vec<String>, answer: OutlinedAnswer) -> OutlinedRoute {
        OutlinedRoute { patterns, conditions: Vec::new(), steps: Vec::new(), answer }
    }
}

#[derive(Debug, Clone)]
pub enum OutlinedAnswer {
    Proxy { group: ServerGroup, strip: Option<String>, add: Option<String> },
    Files { root: String, strip: Option<String>, fallback: Option<String>, is_listing: bool },
    Scripts { server: String, root: Option<String>, fallback: Option<String>, is_static: bool },
    Redirect { to: String, status: u16 },
    Respond { status: u16, body: Option<String> },
}

impl OutlinedAnswer {
    pub fn proxy(group: ServerGroup) -> OutlinedAnswer {
        OutlinedAnswer::Proxy { group, strip: None, add: None }
    }

    pub fn status(status: u16) -> OutlinedAnswer {
        OutlinedAnswer::Respond { status, body: None }
    }
}

/// Connections that are handed on as they are.
#[derive(Debug, Clone, Default)]
pub struct OutlinedTcp {
    /// `:443`
    pub address: String,
    /// By the names that clients ask for.
    pub by_name: Vec<(Vec<String>, ServerGroup)>,
    pub otherwise: Option<ServerGroup>,
}

#[derive(Debug, Clone, Default)]
pub struct ServerGroup {
    pub name: String,
    pub servers: Vec<GroupedServer>,
    /// Other lines of a pool, as we write them.
    pub lines: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub struct GroupedServer {
    /// As we write it.
    pub address: String,
    pub weight: Option<u32>,
    pub is_backup: bool,
}

impl ServerGroup {
    pub fn of(address: String) -> ServerGroup {
        ServerGroup { name: "app".into(), servers: vec![GroupedServer::at(address)], lines: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && !self.lines.iter().any(|line| line.starts_with("discover"))
    }

    pub fn with_line(mut self, line: impl Into<String>) -> ServerGroup {
        self.add_line(line);
        self
    }

    pub fn add_line(&mut self, line: impl Into<String>) {
        let line = line.into();
        let word = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        if !self.lines.iter().any(|known| word(known) == word(&line)) {
            self.lines.push(line);
        }
    }

    /// The servers are spoken to over TLS.
    pub fn over_tls(mut self) -> ServerGroup {
        for server in &mut self.servers {
            if !server.address.contains("://") && !server.address.starts_with("unix:") {
                server.address.insert_str(0, "https://");
            }
        }
        self
    }
}

impl GroupedServer {
    pub fn at(address: String) -> GroupedServer {
        GroupedServer { address, ..GroupedServer::default() }
    }
}

/// Where clients come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Door {
    pub is_tls: bool,
    pub port: u16,
    /// One address of the machine, where it is not all of them.
    pub ip: Option<IpAddr>,
}

impl Door {
    pub const HTTP: Door = Door { is_tls: false, port: 80, ip: None };
    pub const HTTPS: Door = Door { is_tls: true, port: 443, ip: None };

    /// `[address:]port`, `*:80`, `[::]:443`
    pub fn parse(text: &str, is_tls: bool) -> Option<Door> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()?),
            None => ("", text.parse().ok()?),
        };
        let ip = host.trim_matches(['[', ']']).parse().ok().filter(|ip: &IpAddr| !ip.is_unspecified());
        (port != 0).then_some(Door { is_tls, port, ip })
    }

    /// The address of a site for this name; without one, what takes all names.
    pub fn address(self, host: Option<&str>) -> Option<String> {
        let scheme = if self.is_tls { "https" } else { "http" };
        let own = if self.is_tls { 443 } else { 80 };
        let address = match (host, self.ip) {
            (Some(host), _) if self.port == own && self.is_tls => host.to_ascii_lowercase(),
            (Some(host), _) if self.port == own => format!("{scheme}://{}", host.to_ascii_lowercase()),
            (Some(host), _) => format!("{scheme}://{}:{}", host.to_ascii_lowercase(), self.port),
            (None, Some(IpAddr::V6(ip))) => format!("{scheme}://[{ip}]:{}", self.port),
            (None, Some(IpAddr::V4(ip))) => format!("{scheme}://{ip}:{}", self.port),
            (None, None) => format!("{scheme}://:{}", self.port),
        };
        (is_plain(&address) && SiteAddress::parse(&address).is_ok()).then_some(address)
    }
}

/// What stands for a name that the reader has to write.
pub const NAME_IN_PLACE: &str = "example.com";

/// The addresses of a site for these names. `None`: there are names, and none of them can stand in one.
pub fn addresses(hosts: &[String], door: Door) -> Option<Vec<String>> {
    if hosts.is_empty() {
        // Whose certificate it would be is not said, so the name is the reader's to write.
        return if door.is_tls && door.ip.is_none() { Some(Vec::new()) } else { Some(vec![door.address(None)?]) };
    }
    let mut addresses: Vec<String> = Vec::new();
    for host in hosts {
        let both = host.strip_prefix('.').map(|domain| format!("*.{domain}"));
        let names = [Some(host.trim_start_matches('.').to_owned()), both];
        for address in names.into_iter().flatten().filter_map(|host| door.address(Some(&host))) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    (!addresses.is_empty()).then_some(addresses)
}

/// An upstream address as we write it, of one as others do. What has no port gets the one of its scheme.
pub fn upstream(written: &str) -> Option<String> {
    let written = written.trim_matches(['"', '\'', ';', ',']);
    let written = written.strip_prefix("http://").filter(|rest| rest.starts_with("unix:")).unwrap_or(written);
    let socket = ["unix://", "unix:", "unix/"].iter().find_map(|scheme| written.strip_prefix(scheme));
    if let Some(path) = socket.or_else(|| written.starts_with('/').then_some(written)) {
        let path = path.split(':').next().unwrap_or_default();
        let path = if path.starts_with(['/', '@']) { path.to_owned() } else { format!("/{path}") };
        let address = format!("unix:{path}");
        return UpstreamAddress::parse(&address).is_ok().then_some(address);
    }
    let (is_tls, rest) = match written.split_once("://") {
        Some(("http" | "h2c" | "grpc" | "ws" | "tcp", rest)) => (false, rest),
        Some(("https" | "grpcs" | "wss" | "tls", rest)) => (true, rest),
        Some(_) => return None,
        None => (false, written),
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let authority = if authority.starts_with(':') { format!("127.0.0.1{authority}") } else { authority.to_owned() };
    let has_port = authority.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if authority.is_empty() || !is_plain(&authority) || (!has_port && authority.parse::<u64>().is_ok()) {
        return None;
    }
    let port = match (has_port, is_tls) {
        (true, _) => "",
        (false, false) => ":80",
        (false, true) => ":443",
    };
    let address = format!("{}{authority}{port}", if is_tls { "https://" } else { "" });
    UpstreamAddress::parse(&address).is_ok().then_some(address)
}

/// An upstream address that has its port, or else gets this one.
pub fn upstream_with_port(written: &str, port: Option<u16>) -> Option<String> {
    let has_port = written.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match port {
        Some(port) if !has_port && !written.starts_with(['/', '@']) && !written.starts_with("unix") => {
            upstream(&format!("{written}:{port}"))
        }
        Some(_) | None => upstream(written),
    }
}

/// `/api` and all below it, as a pattern of ours.
pub fn below(prefix: &str) -> String {
    let stem = prefix.trim_end_matches('*').trim_end_matches('/');
    format!("{stem}/*")
}

/// Whether it holds neither variables nor anything else that has to be filled in.
pub fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_' | '*' | '/' | '[' | ']'))
}
