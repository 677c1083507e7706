//! What a file of another proxy asks for, as far as its shape tells: names, ports, servers, and what is answered.
//! Readers of single proxies' files fill it in; the lines of ours are written in `beginning`.

use super::accounts::{FileStatement, Origin};
use std::collections::BTreeSet;
use std::net::IpAddr;
use tidegate_model::{SiteAddress, UpstreamAddress};

/// All that a reader has found out.
#[derive(Debug, Default)]
pub struct Outline {
    pub services: Vec<Service>,
    /// Groups of servers that nothing in the file uses.
    pub groups: Vec<ServerGroup>,
    /// How many more there are than were looked at.
    pub uncounted: usize,
    /// Why there is nothing to begin with.
    pub without: Option<&'static str>,
    /// All that the file says, so that nothing of it goes without a word.
    pub statements: Vec<FileStatement>,
    /// Where statements begin that a site of ours does without a word, as the redirect to HTTPS.
    pub done_without: BTreeSet<usize>,
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

impl Service {
    /// What is said of it and of all its parts.
    pub fn whole_origin(&self) -> Origin {
        match self {
            Service::Site(site) => site.whole_origin(),
            Service::Tcp(tcp) => tcp.whole_origin(),
        }
    }
}

impl OutlinedSite {
    pub fn whole_origin(&self) -> Origin {
        let mut origin = self.own_origin();
        self.routes.iter().for_each(|route| origin.add(&route.whole_origin()));
        origin
    }

    /// Without its routes.
    pub fn own_origin(&self) -> Origin {
        let mut origin = self.origin.clone();
        if let Some(OutlinedAnswer::Proxy { group, .. }) = &self.answer {
            origin.add(&group.origin);
        }
        origin
    }
}

impl OutlinedTcp {
    pub fn whole_origin(&self) -> Origin {
        let mut origin = self.origin.clone();
        let groups = self.by_name.iter().map(|(_, group)| group).chain(&self.otherwise);
        groups.for_each(|group| origin.add(&group.origin));
        origin
    }
}

#[derive(Debug, Clone, Default)]
pub struct OutlinedSite {
    /// As we write them; empty where any name would do, so that the reader's has to be put there.
    pub addresses: Vec<String>,
    /// Whether a name in them is the reader's to write, since the file has it in variables or patterns.
    pub is_name_open: bool,
    /// The only hosts that are answered, where the addresses do not say it: those of one address of the machine.
    pub only_hosts: Vec<String>,
    pub routes: Vec<OutlinedRoute>,
    /// What answers all that no route takes.
    pub answer: Option<OutlinedAnswer>,
    /// Who may come in, and how often, as we write it; for all routes.
    pub steps: Vec<String>,
    /// What is said of the site and of what answers all else.
    pub origin: Origin,
}

#[derive(Debug, Clone)]
pub struct OutlinedRoute {
    pub patterns: Vec<String>,
    /// Patterns that are whole segments here, and there whatever begins so.
    pub byte_prefixes: Vec<BytePrefix>,
    /// What stands behind `match`.
    pub conditions: Vec<String>,
    /// Who may come in, and how often, as we write it.
    pub steps: Vec<String>,
    pub answer: OutlinedAnswer,
    pub origin: Origin,
}

/// `/api`, which takes `/apix` as well in most proxies.
#[derive(Debug, Clone)]
pub struct BytePrefix {
    /// The pattern that stands for it.
    pub pattern: String,
    pub prefix: String,
    /// Where the file says it.
    pub at: usize,
}

impl OutlinedRoute {
    pub fn of(patterns: Vec<String>, answer: OutlinedAnswer) -> OutlinedRoute {
        OutlinedRoute {
            patterns,
            byte_prefixes: Vec::new(),
            conditions: Vec::new(),
            steps: Vec::new(),
            answer,
            origin: Origin::default(),
        }
    }

    /// Takes whatever begins so.
    pub fn add_prefix(&mut self, prefix: &str, at: usize) {
        let pattern = below(prefix);
        if !prefix.ends_with('/') {
            self.byte_prefixes.push(BytePrefix { pattern: pattern.clone(), prefix: prefix.to_owned(), at });
        }
        self.patterns.push(pattern);
    }

    /// With the next route for what is no file, where it is files.
    pub fn tried(mut self) -> OutlinedRoute {
        if let OutlinedAnswer::Files { is_tried, .. } = &mut self.answer {
            *is_tried = true;
        }
        self
    }

    /// What is said of it and of its servers.
    pub fn whole_origin(&self) -> Origin {
        let mut origin = self.origin.clone();
        if let OutlinedAnswer::Proxy { group, .. } = &self.answer {
            origin.add(&group.origin);
        }
        origin
    }
}

#[derive(Debug, Clone)]
pub enum OutlinedAnswer {
    Proxy {
        group: ServerGroup,
        strip: Option<String>,
        add: Option<String>,
    },
    /// What `is_tried` goes on with the next route where there is no such file.
    Files {
        root: String,
        strip: Option<String>,
        fallback: Option<String>,
        is_listing: bool,
        is_tried: bool,
    },
    Scripts {
        server: String,
        root: Option<String>,
        fallback: Option<String>,
        is_static: bool,
    },
    Redirect {
        to: String,
        status: u16,
    },
    Respond {
        status: u16,
        body: Option<String>,
    },
}

impl OutlinedAnswer {
    pub fn proxy(group: ServerGroup) -> OutlinedAnswer {
        OutlinedAnswer::Proxy { group, strip: None, add: None }
    }

    pub fn status(status: u16) -> OutlinedAnswer {
        OutlinedAnswer::Respond { status, body: None }
    }

    pub fn files(root: String) -> OutlinedAnswer {
        OutlinedAnswer::Files { root, strip: None, fallback: None, is_listing: false, is_tried: false }
    }

    pub fn is_refusal(&self) -> bool {
        matches!(self, OutlinedAnswer::Respond { status: 400..=599, .. })
    }
}

/// Connections that are handed on as they are.
#[derive(Debug, Clone, Default)]
pub struct OutlinedTcp {
    /// `:443`, `127.0.0.1:3306`
    pub address: String,
    /// By the names that clients ask for.
    pub by_name: Vec<(Vec<String>, ServerGroup)>,
    pub otherwise: Option<ServerGroup>,
    pub origin: Origin,
}

#[derive(Debug, Clone, Default)]
pub struct ServerGroup {
    pub name: String,
    pub servers: Vec<GroupedServer>,
    /// Other lines of a pool, as we write them.
    pub lines: Vec<String>,
    pub origin: Origin,
}

#[derive(Debug, Clone, Default)]
pub struct GroupedServer {
    /// As we write it.
    pub address: String,
    pub weight: Option<u32>,
    pub is_backup: bool,
    /// Bounds of it alone, as we write them: `max-requests=30`.
    pub properties: Vec<String>,
}

impl ServerGroup {
    pub fn of(address: String) -> ServerGroup {
        ServerGroup::named("app").with_server(address)
    }

    pub fn named(name: &str) -> ServerGroup {
        ServerGroup { name: name.to_owned(), ..ServerGroup::default() }
    }

    pub fn with_server(mut self, address: String) -> ServerGroup {
        self.servers.push(GroupedServer::at(address));
        self
    }

    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && !self.lines.iter().any(|line| line.starts_with("discover"))
    }

    /// Adds the line, unless there is one of its word.
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
        let ip: Option<IpAddr> = match host.trim_matches(['[', ']']) {
            "" | "*" => None,
            "localhost" => Some(IpAddr::from([127, 0, 0, 1])),
            // What is neither is a name or a variable, and no place that is known.
            host => Some(host.parse().ok()?),
        };
        let ip = ip.filter(|ip| !ip.is_unspecified());
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

/// `:5432`, `127.0.0.1:5432`, `[::1]:5432`
pub fn tcp_address(ip: Option<IpAddr>, port: u16) -> String {
    match ip {
        None => format!(":{port}"),
        Some(IpAddr::V4(ip)) => format!("{ip}:{port}"),
        Some(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
    }
}

/// The line for clients that speak no TLS but its newest version.
pub const TLS_NEWEST: &str = "tls { min \"1.3\"; }";

/// What stands for a name that the reader has to write.
pub const NAME_IN_PLACE: &str = "example.com";

/// Where a site is: its addresses, and the hosts that alone are answered there.
#[derive(Debug, Default)]
pub struct Whereabouts {
    pub addresses: Vec<String>,
    pub only_hosts: Vec<String>,
    /// Whether names of the file are not among them, or fewer than they stand for there.
    pub is_less: bool,
}

/// Where a site of these names is. A name that begins with a dot stands for the domain and all below it. `None`: there
/// are names, and none of them can stand in an address.
pub fn whereabouts(hosts: &[String], door: Door) -> Option<Whereabouts> {
    if hosts.is_empty() {
        // Whose certificate it would be is not said, so the name is the reader's to write.
        let addresses = if door == Door::HTTPS { Vec::new() } else { vec![door.address(None)?] };
        return Some(Whereabouts { addresses, ..Whereabouts::default() });
    }
    let mut names: Vec<String> = Vec::new();
    let mut is_less = false;
    for host in hosts {
        let both = host.strip_prefix('.').map(|domain| format!("*.{domain}"));
        is_less |= both.is_some();
        for name in [Some(host.trim_start_matches('.').to_ascii_lowercase()), both].into_iter().flatten() {
            let is_name = Door::HTTPS.address(Some(&name)).is_some();
            is_less |= !is_name;
            if is_name && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if names.is_empty() {
        return None;
    }
    // A name is answered on all addresses of the machine, and an address on itself alone.
    if door.ip.is_some() {
        return Some(Whereabouts { addresses: vec![door.address(None)?], only_hosts: names, is_less });
    }
    let addresses = names.iter().filter_map(|name| door.address(Some(name))).collect();
    Some(Whereabouts { addresses, only_hosts: Vec::new(), is_less })
}

/// The site of these doors, each with the place that says it. Only those of the first one's address are told of; the
/// others are left. `redirects` is whether plain HTTP is sent to HTTPS there as well.
pub fn placed(doors: &[(Door, usize)], hosts: &[String], redirects: bool, origin: &mut Origin) -> Option<Whereabouts> {
    let mut doors: Vec<(Door, usize)> = doors.to_vec();
    doors.sort_by_key(|(door, _)| (!door.is_tls, *door != Door::HTTPS));
    let first = doors.first().map_or(Door::HTTP, |(door, _)| *door);
    if doors.is_empty() {
        return whereabouts(hosts, first);
    }
    let mut found: Option<Whereabouts> = None;
    for (door, at) in doors.into_iter().filter(|(door, _)| door.ip == first.ip) {
        // Port 80 beside 443 sends there, and is opened without a word.
        if door == Door::HTTP && first == Door::HTTPS {
            if redirects {
                origin.carry(at);
            } else {
                origin.differ(at, "port 80 is a redirect to HTTPS here: `site \"http://…\"` beside it serves plain HTTP");
            }
            continue;
        }
        let Some(own) = whereabouts(hosts, door) else { continue };
        match &mut found {
            None => found = Some(own),
            // Without a name there is one address that the reader fills in.
            Some(known) if known.addresses.is_empty() || own.addresses.is_empty() => {
                if door != first {
                    continue;
                }
            }
            Some(known) => {
                let new: Vec<String> = own.addresses.into_iter().filter(|address| !known.addresses.contains(address)).collect();
                known.addresses.extend(new);
            }
        }
        origin.carry(at);
    }
    found
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

/// A pattern that takes whatever begins so, also within a segment.
pub fn beginning_with(prefix: &str) -> String {
    format!("~^{}", regex_syntax::escape(prefix))
}

/// Whether it holds neither variables nor anything else that has to be filled in.
pub fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_' | '*' | '/' | '[' | ']'))
}
