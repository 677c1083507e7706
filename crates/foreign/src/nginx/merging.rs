//! Whether several slashes in a path are one. nginx reads a path before it knows the host, so over plain HTTP the
//! default server of the address decides for all of them; over TLS the name in the handshake has said which server it
//! is.

use super::doors::{is_default, place_of};
use crate::braces::{Statement, named, value};
use std::collections::{BTreeMap, BTreeSet};

/// What a server's own `merge_slashes off` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptSlashes {
    /// Slashes are kept.
    Everywhere,
    /// The default server of each of its addresses has them merged.
    Nowhere,
    /// Slashes are kept on some of its addresses, as those of TLS.
    Somewhere,
}

/// The addresses of plain HTTP whose default server has several slashes taken for one. The default server is the one
/// that says so, else the first; each server comes with the block around it.
pub fn merging_addresses(servers: &[(&Statement, &[Statement])], over_tls: &[String]) -> BTreeSet<String> {
    let mut defaults: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    for (server, around) in servers {
        let keeps = value(server.inside(), "merge_slashes").or_else(|| value(around, "merge_slashes")) == Some("off");
        for listen in named(server.inside(), "listen") {
            let own = (is_default(listen), keeps);
            let known = defaults.entry(place_of(listen)).or_insert(own);
            if own.0 && !known.0 {
                *known = own;
            }
        }
    }
    let merging = defaults.into_iter().filter(|(place, (_, keeps))| !keeps && !over_tls.contains(place));
    merging.map(|(place, _)| place).collect()
}

/// For a server that keeps slashes, with the addresses that merge them.
pub fn kept_slashes(server: &[Statement], merging: &BTreeSet<String>) -> KeptSlashes {
    let places: Vec<String> = named(server, "listen").map(place_of).collect();
    let merged = places.iter().filter(|place| merging.contains(*place)).count();
    match merged {
        0 => KeptSlashes::Everywhere,
        merged if merged == places.len() => KeptSlashes::Nowhere,
        _ => KeptSlashes::Somewhere,
    }
}

#[cfg(test)]
mod tests {
    use super::{KeptSlashes, kept_slashes, merging_addresses};
    use crate::braces::{Statement, named, of_nginx};
    use crate::nginx::doors::{is_over_tls, place_of};

    #[test]
    fn the_default_server_decides_over_plain_http() {
        let check = |text: &str, expected: KeptSlashes| {
            let http = of_nginx(text);
            let servers: Vec<(&Statement, &[Statement])> = named(&http, "server").map(|own| (own, http.as_slice())).collect();
            let listens = servers.iter().flat_map(|(own, _)| named(own.inside(), "listen"));
            let over_tls: Vec<String> = listens.filter(|listen| is_over_tls(listen)).map(place_of).collect();
            let merging = merging_addresses(&servers, &over_tls);
            let (own, _) = servers.last().expect("a server");
            assert_eq!(kept_slashes(own.inside(), &merging), expected, "{text}");
        };
        check("server { listen 80; merge_slashes off; }", KeptSlashes::Everywhere);
        check("server { merge_slashes off; }", KeptSlashes::Everywhere);
        check("server { listen 80; } server { listen *:80; merge_slashes off; }", KeptSlashes::Nowhere);
        check("server { listen 81; } server { listen 80; merge_slashes off; }", KeptSlashes::Everywhere);
        check("server { listen 80; } server { listen 80; listen 443 ssl; merge_slashes off; }", KeptSlashes::Somewhere);
        check("server { listen 80; } server { listen 80 default_server; merge_slashes off; }", KeptSlashes::Everywhere);
        check("server { listen 443 ssl; } server { listen 443 ssl; merge_slashes off; }", KeptSlashes::Everywhere);
        check("merge_slashes off; server { listen 80; } server { listen 80; }", KeptSlashes::Everywhere);
    }
}
