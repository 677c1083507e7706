//! Where things are: doors that clients come in by, addresses of sites and of upstreams, and patterns of paths, as we
//! write what others say of them.

use crate::accounts::Origin;
use std::net::IpAddr;
use tidegate_model::{SiteAddress, UpstreamAddress};

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

/// A name that stands for all below a domain, at any depth, as we write it.
pub fn any_depth(name: &str) -> String {
    if name.starts_with("*.") { format!("*{name}") } else { name.to_owned() }
}

/// Where a site of these names is. A name that begins with a dot stands for the domain and all below it, at any depth.
/// `None`: there are names, and none of them can stand in an address.
pub fn whereabouts(hosts: &[String], door: Door) -> Option<Whereabouts> {
    if hosts.is_empty() {
        // No line says whose certificate it would be, so the name is the reader's to write.
        let addresses = if door == Door::HTTPS { Vec::new() } else { vec![door.address(None)?] };
        return Some(Whereabouts { addresses, ..Whereabouts::default() });
    }
    let mut names: Vec<String> = Vec::new();
    let mut is_less = false;
    for host in hosts {
        let both = host.strip_prefix('.').map(|domain| format!("**.{domain}"));
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

/// Whether there are doors, and none of them is the port of plain HTTP on all addresses.
pub fn opens_no_http<'d>(doors: impl IntoIterator<Item = &'d Door>) -> bool {
    let mut doors = doors.into_iter().peekable();
    doors.peek().is_some() && doors.all(|door| *door != Door::HTTP)
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

/// As [`beginning_with`], in the form that is read most easily.
pub fn beginning_pattern(prefix: &str) -> String {
    let is_plain = prefix.starts_with('/') && !prefix.ends_with('/') && !prefix.contains(['*', '?', '#', '%', '{']);
    if is_plain && prefix.is_ascii() { format!("{prefix}*") } else { beginning_with(prefix) }
}

/// A pattern that takes whatever begins so, also within a segment.
pub fn beginning_with(prefix: &str) -> String {
    format!("~^{}", regex_syntax::escape(prefix))
}

/// Whether it holds neither variables nor anything else that has to be filled in.
pub fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_' | '*' | '/' | '[' | ']'))
}
