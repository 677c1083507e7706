//! Whether several slashes in a path are one. nginx reads a path before it knows the host, so over plain HTTP the
//! default server of the address decides for all of them; over TLS the name in the handshake has said which server it is.

use super::doors::is_default;
use crate::braces::{Statement, named, value};

/// What a server's own `merge_slashes off` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptSlashes {
    /// They are kept.
    Everywhere,
    /// The default server of each of its addresses has them merged.
    Nowhere,
    /// They are kept over TLS alone.
    OverTls,
}

/// For a server that keeps slashes, among those of its file.
pub fn kept_slashes(server: &[Statement], http: &[Statement]) -> KeptSlashes {
    let is_tls = |listen: &Statement| listen.arguments().iter().any(|word| matches!(word.as_str(), "ssl" | "quic"));
    let (over_tls, plain): (Vec<&Statement>, Vec<&Statement>) = named(server, "listen").partition(|listen| is_tls(listen));
    let merged = plain.iter().filter(|listen| !keeps(default_of(listen.argument(), http).unwrap_or(server), http)).count();
    match (merged, merged == plain.len() && over_tls.is_empty()) {
        (0, _) => KeptSlashes::Everywhere,
        (_, true) => KeptSlashes::Nowhere,
        (_, false) => KeptSlashes::OverTls,
    }
}

fn keeps(server: &[Statement], http: &[Statement]) -> bool {
    value(server, "merge_slashes").or_else(|| value(http, "merge_slashes")) == Some("off")
}

/// The server that answers for hosts without one of their own: the one that says so, else the first.
fn default_of<'s>(address: &str, http: &'s [Statement]) -> Option<&'s [Statement]> {
    let there = || {
        let listens =
            |server: &&Statement| named(server.inside(), "listen").any(|listen| normal(listen.argument()) == normal(address));
        named(http, "server").filter(listens)
    };
    let says_so = |server: &&Statement| {
        let own = |listen: &Statement| normal(listen.argument()) == normal(address) && is_default(listen);
        named(server.inside(), "listen").any(own)
    };
    there().find(says_so).or_else(|| there().next()).map(Statement::inside)
}

/// `*:80`, `0.0.0.0:80` and `80` are one address.
fn normal(address: &str) -> &str {
    let address = if address.is_empty() { "80" } else { address };
    address.strip_prefix("*:").or_else(|| address.strip_prefix("0.0.0.0:")).unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::{KeptSlashes, kept_slashes};
    use crate::braces::{named, of_nginx};

    #[test]
    fn the_default_server_decides_over_plain_http() {
        let check = |text: &str, expected: KeptSlashes| {
            let http = of_nginx(text);
            let own = named(&http, "server").last().expect("a server").inside();
            assert_eq!(kept_slashes(own, &http), expected, "{text}");
        };
        check("server { listen 80; merge_slashes off; }", KeptSlashes::Everywhere);
        check("server { merge_slashes off; }", KeptSlashes::Everywhere);
        check("server { listen 80; } server { listen *:80; merge_slashes off; }", KeptSlashes::Nowhere);
        check("server { listen 81; } server { listen 80; merge_slashes off; }", KeptSlashes::Everywhere);
        check("server { listen 80; } server { listen 80; listen 443 ssl; merge_slashes off; }", KeptSlashes::OverTls);
        check("server { listen 80; } server { listen 80 default_server; merge_slashes off; }", KeptSlashes::Everywhere);
        check("server { listen 443 ssl; } server { listen 443 ssl; merge_slashes off; }", KeptSlashes::Everywhere);
        check("merge_slashes off; server { listen 80; } server { listen 80; }", KeptSlashes::Everywhere);
    }
}
