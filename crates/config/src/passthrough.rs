//! What can be wrong with `tcp` beside the rest of a configuration: names that a site has as well, and settings of
//! pools that mean nothing for connections that are handed on as they are.

use crate::diagnostics::{Diagnostic, Location};
use crate::lowering::Lowering;
use std::collections::{BTreeSet, HashMap};
use tidegate_model::{Balance, HostPattern, Placeholder, Pool, PoolName, Protocol, Scheme, Template, TemplatePart};

/// A name goes to a site or is passed on; both would depend on who reads the file.
pub fn names_of_sites(lowering: &mut Lowering<'_>) {
    if lowering.spans.passthrough.is_empty() {
        return;
    }
    let mut of_sites: HashMap<(u16, &HostPattern), &Location> = HashMap::new();
    for (address, at) in lowering.spans.addresses.iter().filter(|(address, _)| address.scheme == Scheme::Https) {
        for port in address.listen_addresses().filter_map(|listen| listen.port()) {
            of_sites.entry((port, &address.host)).or_insert(at);
        }
    }
    let mut found = Vec::new();
    for (port, name, at) in &lowering.spans.passthrough {
        let Some(site) = of_sites.get(&(*port, name)) else { continue };
        let shown = lowering.shown(&name.to_string(), at);
        let message = format!("the name `{shown}` is passed on and has a site on port {port}");
        let diagnostic = Diagnostic::error("duplicate-name", at.clone(), message)
            .label((*site).clone(), "the site")
            .help("remove one of them; what is passed on cannot be decrypted here as well");
        found.push(diagnostic);
    }
    lowering.diagnostics.extend(found);
}

/// Settings of pools that are not what their reader thinks.
pub fn pools(lowering: &mut Lowering<'_>) {
    let used_by_sites = pools_of_sites(lowering);
    let mut found = Vec::new();
    let mut seen: BTreeSet<&PoolName> = BTreeSet::new();
    for (name, at, is_tls) in &lowering.spans.tcp_pools {
        let named = lowering.configuration.pools.iter().find(|pool| pool.name == *name);
        let Some(pool) = named.or_else(|| lowering.pools_in_place.get(name)) else { continue };
        if *is_tls {
            found.extend(tls_in_tls(pool, at));
        }
        if !seen.insert(name) {
            continue;
        }
        found.extend(bad_key(pool, at));
        // What a site uses too may be meant for the site.
        if !used_by_sites.contains(name) {
            found.extend(without_meaning(pool).map(|(setting, why)| {
                let message = format!("`{setting}` means nothing for a connection that is handed on as it is");
                Diagnostic::warning("no-meaning-for-tcp", at.clone(), message).help(why)
            }));
        }
    }
    lowering.diagnostics.extend(found);
}

/// Whoever writes `https://` there most likely means the TLS that the client brings.
fn tls_in_tls(pool: &Pool, at: &Location) -> Option<Diagnostic> {
    let server = pool.servers.iter().find(|server| server.address.scheme() == Scheme::Https)?;
    let message = format!("the TLS of the client is put into TLS of ours to `{}`", server.address);
    let help = format!("write `{}`: what the client encrypts goes to the server as it is", server.address.authority());
    Some(Diagnostic::warning("tls-in-tls", at.clone(), message).help(help))
}

/// Every connection would have the same key, and one server would get them all.
fn bad_key(pool: &Pool, at: &Location) -> Option<Diagnostic> {
    let Balance::Hash { key, .. } = &pool.balance else { return None };
    let unknown = unknown_in(key)?;
    let message = format!("nothing is known of `{unknown}` where a connection is handed on as it is");
    Some(Diagnostic::error("bad-key-for-tcp", at.clone(), message).help("for example `balance \"hash\" key=\"{client.ip}\"`"))
}

fn unknown_in(key: &Template) -> Option<&Placeholder> {
    key.parts.iter().find_map(|part| match part {
        TemplatePart::Placeholder(Placeholder::ClientIp | Placeholder::ClientPort | Placeholder::TlsSni) => None,
        TemplatePart::Placeholder(placeholder) => Some(placeholder),
        TemplatePart::Literal(_) | TemplatePart::Capture(_) => None,
    })
}

fn without_meaning(pool: &Pool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let settings = [
        (
            pool.sticky.is_some(),
            "sticky",
            "there are no cookies; `balance \"hash\" key=\"{client.ip}\"` keeps a client with its server",
        ),
        (pool.hedge.is_some(), "hedge", "remove it: nothing can be asked twice"),
        (pool.protocol != Protocol::Auto, "protocol", "remove it: client and server settle what they speak"),
        (pool.keep_alive.warm > 0, "keep-alive warm=", "remove it: each connection gets one of its own"),
    ];
    settings.into_iter().filter(|(is_set, ..)| *is_set).map(|(_, setting, why)| (setting, why))
}

pub fn pools_of_sites(lowering: &Lowering<'_>) -> BTreeSet<PoolName> {
    let mut names = BTreeSet::new();
    if lowering.spans.tcp_pools.is_empty() {
        return names;
    }
    names.extend(lowering.configuration.sites.iter().flat_map(|site| site.pools().cloned()));
    names
}
