//! Which site's TLS configuration answers a ClientHello on one listening address, by the server name in it.
//! Looked up once per connection, before rustls is involved, and without allocating.

use rustls::ServerConfig;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use tidegate_model::HostPattern;

/// Which site's settings a configuration was made from: its position among the sites of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteTlsId(pub u32);

#[derive(Debug, Clone, Copy)]
pub enum Choice<'a> {
    Config(&'a Arc<ServerConfig>, SiteTlsId),
    /// To be answered with the alert `unrecognized_name` (RFC 6066 section 3).
    UnknownName,
}

/// The TLS sites of one listening address.
#[derive(Debug, Default)]
pub struct ListenerTls {
    exact: HashMap<Box<str>, Entry>,
    /// By what follows `*.`.
    wildcard: HashMap<Box<str>, Entry>,
    /// Few, so they are simply walked.
    by_ip: Vec<(IpAddr, Entry)>,
    any: Option<Entry>,
    /// Answers clients that name nobody when there is no catch-all.
    first: Option<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    config: Arc<ServerConfig>,
    site: SiteTlsId,
}

impl ListenerTls {
    /// Takes the hosts in file order. Of two equal hosts the first counts.
    pub fn new(hosts: impl IntoIterator<Item = (HostPattern, SiteTlsId, Arc<ServerConfig>)>) -> ListenerTls {
        let mut tls = ListenerTls::default();
        for (host, site, config) in hosts {
            let entry = Entry { config, site };
            tls.first.get_or_insert_with(|| entry.clone());
            match host {
                HostPattern::Any => {
                    tls.any.get_or_insert(entry);
                }
                HostPattern::Exact(name) => {
                    tls.exact.entry(name.into()).or_insert(entry);
                }
                HostPattern::Wildcard(parent) => {
                    tls.wildcard.entry(parent.into()).or_insert(entry);
                }
                HostPattern::Ip(ip) => tls.by_ip.push((ip.to_canonical(), entry)),
            }
        }
        tls
    }

    /// `true` when no site here has TLS, so that the address is plain HTTP.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// `server_name` as the client wrote it; `local_ip` is the address that the client connected to.
    pub fn choose(&self, server_name: Option<&str>, local_ip: IpAddr) -> Choice<'_> {
        let chosen = match server_name.filter(|name| name.parse::<IpAddr>().is_err()) {
            Some(name) => self.by_name(name).or(self.any.as_ref()),
            // RFC 6066 knows no IP addresses as names; clients leave the extension out, and the few that send one mean the same.
            None => self.by_local_ip(local_ip).or(self.any.as_ref()).or(self.first.as_ref()),
        };
        chosen.map_or(Choice::UnknownName, |entry| Choice::Config(&entry.config, entry.site))
    }

    fn by_name(&self, name: &str) -> Option<&Entry> {
        let mut buffer = [0; HOST_NAME_BYTES_MAX];
        let name = lower_case(name.strip_suffix('.').unwrap_or(name), &mut buffer)?;
        self.exact.get(name).or_else(|| name.split_once('.').and_then(|(_, parent)| self.wildcard.get(parent)))
    }

    fn by_local_ip(&self, local_ip: IpAddr) -> Option<&Entry> {
        // A socket that takes both families shows IPv4 clients with an address inside `::ffff:0:0/96`.
        let local_ip = local_ip.to_canonical();
        self.by_ip.iter().find(|(ip, _)| *ip == local_ip).map(|(_, entry)| entry)
    }
}

/// RFC 1035 section 3.1, in text form and without the last dot.
const HOST_NAME_BYTES_MAX: usize = 253;

/// `None` for a name that is longer than any name can be.
fn lower_case<'a>(name: &str, buffer: &'a mut [u8; HOST_NAME_BYTES_MAX]) -> Option<&'a str> {
    let lower = buffer.get_mut(..name.len())?;
    lower.copy_from_slice(name.as_bytes());
    lower.make_ascii_lowercase();
    std::str::from_utf8(lower).ok()
}
