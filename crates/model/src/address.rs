//! Where clients come in and where upstreams are: hosts, ports, schemes, sockets.
//! Parsing text into these is here too, because the same forms appear in the file, on the command line and in the API.

use crate::listen_address::{ListenAddress, SocketName};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// The host part of a site's address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostPattern {
    /// `:8080`: whatever the request names.
    Any,
    /// `example.com`, lower case, without a trailing dot.
    Exact(String),
    /// `*.example.com`, kept as `example.com`: exactly one more label, as certificates have it.
    Wildcard(String),
    /// `**.example.com`, kept as `example.com`: one more label or any number of them.
    DeepWildcard(String),
    /// `192.0.2.1`, `[2001:db8::1]`: listens on that address only, and answers there whatever host no other site names.
    Ip(IpAddr),
    /// `unix:/run/tidegate.sock`: a socket of this machine, and whatever the requests that come by it name.
    Socket(Box<SocketName>),
}

impl HostPattern {
    /// Rank by which a name goes to one of several patterns that have it, the highest first: a name of its own, the
    /// longest wildcard, of equally long ones that of one label, and at last what has no name.
    pub fn closeness(&self) -> usize {
        match self {
            HostPattern::Exact(_) => usize::MAX,
            HostPattern::Wildcard(parent) => 2 * parent.len() + 1,
            HostPattern::DeepWildcard(parent) => 2 * parent.len(),
            HostPattern::Any | HostPattern::Ip(_) | HostPattern::Socket(_) => 0,
        }
    }

    /// Whether all hosts of the other pattern are among its own.
    pub fn covers(&self, other: &HostPattern) -> bool {
        match (self, other) {
            (HostPattern::Wildcard(domain), HostPattern::Exact(name)) => is_one_label_below(name, domain),
            (HostPattern::DeepWildcard(domain), HostPattern::Exact(name)) => is_below(name, domain),
            (HostPattern::DeepWildcard(domain), HostPattern::Wildcard(parent) | HostPattern::DeepWildcard(parent)) => {
                parent == domain || is_below(parent, domain)
            }
            (own, other) => own == other,
        }
    }
}

/// Whether the domain has the name, with one label in front: what a wildcard stands for, of sites as of certificates.
pub fn is_one_label_below(name: &str, domain: &str) -> bool {
    name.split_once('.').is_some_and(|(label, rest)| !matches!(label, "" | "*") && rest == domain)
}

/// Whether the domain has the name at any depth: what a [`HostPattern::DeepWildcard`] stands for.
pub fn is_below(name: &str, domain: &str) -> bool {
    let in_front = name.strip_suffix(domain).and_then(|front| front.strip_suffix('.'));
    in_front.is_some_and(|front| front.split('.').all(|label| !matches!(label, "" | "*")))
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Any => Ok(()),
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::Wildcard(name) => write!(f, "*.{name}"),
            HostPattern::DeepWildcard(name) => write!(f, "**.{name}"),
            HostPattern::Ip(IpAddr::V4(ip)) => write!(f, "{ip}"),
            HostPattern::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
            HostPattern::Socket(name) => name.fmt(f),
        }
    }
}

/// `[scheme://]host[:port]`, or `http://unix:PATH`. Two sites may not have equal addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteAddress {
    pub scheme: Scheme,
    pub host: HostPattern,
    /// 0 for a socket of this machine, which has none.
    pub port: u16,
    /// A bare `example.com` also answers on port 80 with a redirect to HTTPS; an address with scheme or port does not.
    pub redirect_from_http: bool,
    /// Where its site listens, where that is said apart from what clients ask for.
    pub listen: Vec<ListenPlace>,
}

/// `listen "https://:8443"`: where connections of that scheme come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenPlace {
    pub scheme: Scheme,
    pub address: ListenAddress,
}

impl fmt::Display for ListenPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.address.shown())
    }
}

impl SiteAddress {
    /// Reads `[scheme://]host[:port]`.
    ///
    /// Without a scheme it is HTTPS, except on port 80. `Err` says in one sentence what is wrong.
    pub fn parse(text: &str) -> Result<SiteAddress, String> {
        if let Some(named) = socket_named(text) {
            return SiteAddress::of_socket(named, text);
        }
        let (scheme, rest) = split_scheme(text)?;
        if let Some(position) = rest.find('/') {
            return Err(format!("an address has no path; put `{}` into a route", &rest[position..]));
        }
        let (host_text, port) = split_port(rest)?;
        let host = parse_host_pattern(host_text)?;
        if host == HostPattern::Any && port.is_none() {
            return Err("an address without a host needs a port, as in `:8080`".into());
        }
        let scheme_meant = scheme.unwrap_or(if port == Some(80) { Scheme::Http } else { Scheme::Https });
        Ok(SiteAddress {
            scheme: scheme_meant,
            port: port.unwrap_or(scheme_meant.default_port()),
            redirect_from_http: scheme.is_none() && port.is_none(),
            listen: Vec::new(),
            host,
        })
    }

    /// Without TLS, which would protect it from nobody.
    fn of_socket(named: &str, text: &str) -> Result<SiteAddress, String> {
        match text.strip_prefix("http://unix:") {
            Some(path) => {
                let host = HostPattern::Socket(Box::new(SocketName::parse(path)?));
                Ok(SiteAddress { scheme: Scheme::Http, host, port: 0, redirect_from_http: false, listen: Vec::new() })
            }
            None => Err(format!("write `http://unix:{named}`; what comes by a socket of this machine is plain HTTP")),
        }
    }

    /// The socket of this machine that it is.
    pub fn socket(&self) -> Option<&SocketName> {
        match &self.host {
            HostPattern::Socket(name) => Some(name),
            HostPattern::Any
            | HostPattern::Exact(_)
            | HostPattern::Wildcard(_)
            | HostPattern::DeepWildcard(_)
            | HostPattern::Ip(_) => None,
        }
    }
}

impl fmt::Display for SiteAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.host)?;
        if self.socket().is_some() || self.port == self.scheme.default_port() && self.host != HostPattern::Any {
            Ok(())
        } else {
            write!(f, ":{}", self.port)
        }
    }
}

/// Where an upstream server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UpstreamAddress {
    Tcp(TcpAddress),
    /// A socket of this machine: its absolute path, or `@` and an abstract name.
    Unix(PathBuf),
}

impl UpstreamAddress {
    /// What fits into `sockaddr_un` with its NUL.
    pub const UNIX_PATH_BYTES_MAX: usize = SocketName::BYTES_MAX;

    /// Reads `unix:/path` or `unix:@name`, or what [`TcpAddress::parse`] reads. `Err` says in one sentence what is
    /// wrong.
    pub fn parse(text: &str) -> Result<UpstreamAddress, String> {
        let Some(path) = text.strip_prefix("unix:") else {
            return match socket_named(text).or(text.starts_with('/').then_some(text)) {
                Some(path) => Err(format!("write `unix:{path}`")),
                None => TcpAddress::parse(text).map(UpstreamAddress::Tcp),
            };
        };
        Ok(UpstreamAddress::Unix(SocketName::parse(path)?.path().to_owned()))
    }

    pub fn is_unix(&self) -> bool {
        matches!(self, UpstreamAddress::Unix(_))
    }

    /// There is no TLS over sockets of this machine.
    pub fn scheme(&self) -> Scheme {
        match self {
            UpstreamAddress::Tcp(address) => address.scheme,
            UpstreamAddress::Unix(_) => Scheme::Http,
        }
    }

    /// `host:port`, with brackets around IPv6, or `unix:/path`: what logs and metrics call the server.
    pub fn authority(&self) -> String {
        match self {
            UpstreamAddress::Tcp(address) => address.authority(),
            UpstreamAddress::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// The server's own name, for requests that name no host.
    pub fn host_field(&self) -> String {
        match self {
            UpstreamAddress::Tcp(address) => address.authority(),
            UpstreamAddress::Unix(_) => "localhost".into(),
        }
    }
}

impl From<TcpAddress> for UpstreamAddress {
    fn from(address: TcpAddress) -> UpstreamAddress {
        UpstreamAddress::Tcp(address)
    }
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamAddress::Tcp(address) => address.fmt(f),
            UpstreamAddress::Unix(_) => f.write_str(&self.authority()),
        }
    }
}

/// What an [`UpstreamAddress`] stands for: where connections to the server are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAddresses {
    /// Empty: the name has no address.
    Tcp(Vec<SocketAddr>),
    Unix(Arc<Path>),
}

impl ServerAddresses {
    /// Whether there is anything to connect to.
    pub fn are_known(&self) -> bool {
        !matches!(self, ServerAddresses::Tcp(addresses) if addresses.is_empty())
    }

    /// The addresses of a name; none for a socket of this machine.
    pub fn tcp(&self) -> &[SocketAddr] {
        match self {
            ServerAddresses::Tcp(addresses) => addresses,
            ServerAddresses::Unix(_) => &[],
        }
    }
}

/// A host, a port and what is spoken there. The host is resolved when the configuration is applied.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TcpAddress {
    pub scheme: Scheme,
    /// A name or an IP address, without brackets, lower case.
    pub host: String,
    pub port: u16,
}

impl TcpAddress {
    /// Reads `[scheme://]host:port`; with a scheme the port may be left out. Without a scheme it is plain HTTP.
    pub fn parse(text: &str) -> Result<TcpAddress, String> {
        let (scheme, rest) = split_scheme(text)?;
        let rest = rest.strip_suffix('/').filter(|_| scheme.is_some()).unwrap_or(rest);
        if let Some(position) = rest.find('/') {
            let path = &rest[position..];
            return Err(format!("an upstream address has no path; use `add-prefix \"{path}\"` to put one in front"));
        }
        let (host, port) = split_port(rest)?;
        let port = match (port, scheme) {
            (Some(0), _) => return Err("port 0 cannot be connected to".into()),
            (Some(port), _) => port,
            (None, Some(scheme)) => scheme.default_port(),
            (None, None) => return Err(format!("an upstream address needs a port, as in `{rest}:8080`")),
        };
        let host = match parse_host_pattern(host)? {
            HostPattern::Exact(name) => name,
            HostPattern::Ip(ip) => ip.to_string(),
            HostPattern::Any | HostPattern::Socket(_) => {
                return Err(format!("an upstream address needs a host, as in `127.0.0.1:{port}`"));
            }
            HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_) => {
                return Err("an upstream address cannot be a wildcard".into());
            }
        };
        Ok(TcpAddress { scheme: scheme.unwrap_or(Scheme::Http), host, port })
    }

    /// `host:port`, with brackets around IPv6.
    pub fn authority(&self) -> String {
        if self.host.contains(':') { format!("[{}]:{}", self.host, self.port) } else { format!("{}:{}", self.host, self.port) }
    }
}

impl fmt::Display for TcpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme {
            Scheme::Http => f.write_str(&self.authority()),
            Scheme::Https => write!(f, "https://{}", self.authority()),
        }
    }
}

/// The path or name of a socket as nginx and Caddy write it: `unix//run/x`, `http://unix:/run/x`.
fn socket_named(text: &str) -> Option<&str> {
    let without_scheme = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text);
    let (word, path) = without_scheme.split_at_checked("unix:".len())?;
    let is_named = word.eq_ignore_ascii_case("unix:") && path.starts_with(['/', '@']);
    (is_named || word.eq_ignore_ascii_case("unix/") && path.starts_with('/')).then_some(path)
}

fn split_scheme(text: &str) -> Result<(Option<Scheme>, &str), String> {
    match text.split_once("://") {
        None => Ok((None, text)),
        Some(("http", rest)) => Ok((Some(Scheme::Http), rest)),
        Some(("https", rest)) => Ok((Some(Scheme::Https), rest)),
        Some((scheme @ ("ws" | "wss" | "h2c" | "grpc" | "grpcs"), rest)) => {
            let meant = if matches!(scheme, "wss" | "grpcs") { "https" } else { "http" };
            Err(format!("`{scheme}` is spoken over `{meant}`: write `{meant}://{rest}`"))
        }
        Some((other, _)) => Err(format!("unknown scheme `{other}`; `http` and `https` are known")),
    }
}

/// `host[:port]`, where an IPv6 host stands in brackets.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = if let Some(inner) = text.strip_prefix('[') {
        let Some((_, after)) = inner.split_once(']') else { return Err("`[` without `]`".into()) };
        let host = &text[..text.len() - after.len()];
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return Err(format!("unexpected `{after}` after `]`")),
        }
    } else {
        match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("write an IPv6 address in brackets, as in `[2001:db8::1]:8080`".into());
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let port = match port {
        None => None,
        Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse::<u16>().map_err(|_| format!("`{digits}` is not a port; ports go from 1 to 65535"))?)
        }
        Some(other) => return Err(format!("`{other}` is not a port number")),
    };
    Ok((host, port))
}

/// A host as it may stand in a site's address or in a `match host=`.
pub fn parse_host_pattern(text: &str) -> Result<HostPattern, String> {
    if text.is_empty() {
        return Ok(HostPattern::Any);
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match inner.parse::<std::net::Ipv6Addr>() {
            Ok(ip) => Ok(HostPattern::Ip(IpAddr::V6(ip))),
            Err(_) => Err(format!("`{inner}` is not an IPv6 address")),
        };
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(HostPattern::Ip(ip));
    }
    let (pattern, name): (fn(String) -> HostPattern, &str) = match (text.strip_prefix("*."), text.strip_prefix("**.")) {
        (Some(name), _) => (HostPattern::Wildcard, name),
        (None, Some(name)) => (HostPattern::DeepWildcard, name),
        (None, None) => (HostPattern::Exact, text),
    };
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    check_name(&name)?;
    Ok(pattern(name))
}

/// RFC 1123 labels, and `_` because service names use it. Names outside ASCII must be written in their `xn--` form.
fn check_name(name: &str) -> Result<(), String> {
    if name.len() > 253 {
        return Err("a host name has at most 253 characters".into());
    }
    if !name.is_ascii() {
        return Err(format!("write `{name}` in its ASCII form (`xn--…`)"));
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Err(format!("`{name}` has an empty label"));
        }
        if label.len() > 63 {
            return Err(format!("the label `{label}` is longer than 63 characters"));
        }
        if label.contains('*') {
            const WHERE: &str = "`*` may only stand as the whole first label, as in `*.example.com`, or `**.example.com` for any number of labels";
            return Err(WHERE.into());
        }
        if let Some(bad) = label.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '-' && *c != '_') {
            return Err(format!("`{bad}` cannot stand in a host name"));
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err(format!("the label `{label}` starts or ends with `-`"));
        }
    }
    if name.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(format!("`{name}` is neither a name nor a valid IPv4 address"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{SiteAddress, UpstreamAddress};

    fn check_site(text: &str, expected: &str) {
        let seen = match SiteAddress::parse(text) {
            Ok(address) => format!("{address}{}", if address.redirect_from_http { " +redirect" } else { "" }),
            Err(message) => format!("error: {message}"),
        };
        assert_eq!(seen, expected, "for {text}");
    }

    #[test]
    fn site_addresses_in_every_form() {
        check_site("example.com", "https://example.com +redirect");
        check_site("Example.COM.", "https://example.com +redirect");
        check_site("*.example.com", "https://*.example.com +redirect");
        check_site("https://localhost:8443", "https://localhost:8443");
        check_site("http://:8080", "http://:8080");
        check_site(":8443", "https://:8443");
        check_site("example.com:80", "http://example.com");
        check_site("http://example.com", "http://example.com");
        check_site("192.0.2.7", "https://192.0.2.7 +redirect");
        check_site("[2001:db8::1]:8443", "https://[2001:db8::1]:8443");
        check_site("http://unix:/run//tidegate.sock", "http://unix:/run/tidegate.sock");
        check_site("http://unix:@tidegate", "http://unix:@tidegate");
    }

    #[test]
    fn site_addresses_that_are_refused_say_why() {
        check_site("", "error: an address without a host needs a port, as in `:8080`");
        check_site("ftp://x", "error: unknown scheme `ftp`; `http` and `https` are known");
        check_site("example.com/api", "error: an address has no path; put `/api` into a route");
        check_site("example.com:http", "error: `http` is not a port number");
        check_site("example.com:99999", "error: `99999` is not a port; ports go from 1 to 65535");
        check_site("2001:db8::1", "error: write an IPv6 address in brackets, as in `[2001:db8::1]:8080`");
        check_site(
            "a.*.com",
            "error: `*` may only stand as the whole first label, as in `*.example.com`, or `**.example.com` for any number of labels",
        );
        check_site("exa mple.com", "error: ` ` cannot stand in a host name");
        let plain = "what comes by a socket of this machine is plain HTTP";
        check_site("unix:/run/a.sock", &format!("error: write `http://unix:/run/a.sock`; {plain}"));
        check_site("https://unix:@a", &format!("error: write `http://unix:@a`; {plain}"));
        check_site("300.1.1.1", "error: `300.1.1.1` is neither a name nor a valid IPv4 address");
    }

    #[test]
    fn upstream_addresses() {
        let check = |text: &str, expected: &str| {
            let seen =
                UpstreamAddress::parse(text).map_or_else(|message| format!("error: {message}"), |address| address.to_string());
            assert_eq!(seen, expected, "for {text}");
        };
        check("10.0.0.4:8080", "10.0.0.4:8080");
        check("https://api.internal", "https://api.internal:443");
        check("http://api.internal/", "api.internal:80");
        check("[::1]:80", "[::1]:80");
        check("localhost", "error: an upstream address needs a port, as in `localhost:8080`");
        check(":80", "error: an upstream address needs a host, as in `127.0.0.1:80`");
        check("http://a:1/b", "error: an upstream address has no path; use `add-prefix \"/b\"` to put one in front");
        check("unix:/run/php/php8.2-fpm.sock", "unix:/run/php/php8.2-fpm.sock");
        check("unix:///run/php.sock", "unix:/run/php.sock");
        check("unix//run/php.sock", "error: write `unix:/run/php.sock`");
        check("/run/php.sock", "error: write `unix:/run/php.sock`");
        check("http://unix:/run/a.sock", "error: write `unix:/run/a.sock`");
        check("https://unix:/run/a.sock", "error: write `unix:/run/a.sock`");
        check("UNIX:/run/a.sock", "error: write `unix:/run/a.sock`");
        check("unix:/run//a/./b.sock", "unix:/run/a/b.sock");
        check("unix:@app", "unix:@app");
        check("http://unix:@app", "error: write `unix:@app`");
        check("unix:php.sock", "error: the path of a socket begins with `/`, as in `unix:/run/app.sock`");
        check(&format!("unix:/{}", "a".repeat(107)), "error: the path of a socket has at most 107 bytes");
    }
}
