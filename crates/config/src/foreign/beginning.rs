//! The first line of the same thing here, with a name and a server out of the file where they can be found.

use super::Peer;
use tidegate_model::{SiteAddress, UpstreamAddress};

pub fn of(peer: Peer, text: &str) -> String {
    let host = host(peer, text).unwrap_or_else(|| "example.com".to_owned());
    let upstream = upstream(peer, text).unwrap_or_else(|| "127.0.0.1:9000".to_owned());
    format!("site \"{host}\" {{ proxy \"{upstream}\" }}")
}

fn host(peer: Peer, text: &str) -> Option<String> {
    let found = match peer {
        Peer::Nginx => behind(text, &["server_name"], |_| true),
        Peer::HaProxy => behind(text, &["hdr(host) -i", "hdr(host)", "req.hdr(host) -i", "hdr_dom(host) -i"], |_| true),
        Peer::Caddy => {
            let heads = text.lines().filter(|line| !line.starts_with([' ', '\t', '#', '{', '}', '(']));
            heads.map(|line| first_word(line.trim_end_matches(['{', ' ']))).find(|word| is_site(word))
        }
        Peer::Traefik | Peer::TraefikLabels => behind(text, &["Host(`", "Host(\""], |_| true),
        Peer::Envoy => behind(text, &["domains:", "\"domains\":"], |word| word != "*"),
        Peer::Apache => behind(text, &["ServerName"], |_| true),
        Peer::Kubernetes => behind(text, &["host:"], |_| true),
        Peer::CaddyJson => behind(text, &["\"host\":"], |_| true),
        Peer::Compose | Peer::Yaml | Peer::Toml | Peer::Json => None,
    };
    found.filter(|host| is_site(host))
}

fn upstream(peer: Peer, text: &str) -> Option<String> {
    let before: &[&str] = match peer {
        Peer::Nginx => &["proxy_pass", "server "],
        Peer::HaProxy => &["server "],
        Peer::Caddy => &["reverse_proxy"],
        Peer::Traefik | Peer::TraefikLabels => &["url:", "url =", "address ="],
        Peer::Apache => &["ProxyPass /", "ProxyPass \"/\""],
        Peer::CaddyJson => &["\"dial\":"],
        Peer::Envoy | Peer::Kubernetes | Peer::Compose | Peer::Yaml | Peer::Toml | Peer::Json => return None,
    };
    before.iter().find_map(|word| places(text, word).find_map(|rest| rest.split_whitespace().take(3).find_map(address)))
}

/// An address as we write it, of one as others do.
fn address(written: &str) -> Option<String> {
    let written = bare(written);
    let (scheme, rest) = match written.split_once("://") {
        Some(("http", rest)) => ("", rest),
        Some(("https", rest)) => ("https://", rest),
        Some(_) => return None,
        None => ("", written),
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let is_name = authority.contains('.') || authority.starts_with("localhost") || has_port;
    if !is_name || authority.starts_with(':') || !is_plain(authority) {
        return None;
    }
    let port = match (has_port, scheme) {
        (true, _) => "",
        (false, "") => ":80",
        (false, _) => ":443",
    };
    let address = format!("{scheme}{authority}{port}");
    UpstreamAddress::parse(&address).is_ok().then_some(address)
}

/// The first word behind one of these that is taken.
fn behind(text: &str, words: &[&str], takes: impl Fn(&str) -> bool) -> Option<String> {
    words.iter().find_map(|word| places(text, word).map(first_word).find(|found| !found.is_empty() && takes(found)))
}

/// What follows each place of a word, to the end of its line or the next one.
fn places<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = &'t str> {
    const PLACES_MAX: usize = 64;
    text.match_indices(word).take(PLACES_MAX).map(move |(start, _)| &text[start + word.len()..])
}

fn first_word(text: &str) -> String {
    let rest = text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '[' | '-' | '"' | '\'' | '`'));
    bare(rest.split(|c: char| c.is_whitespace() || matches!(c, ',' | ')')).next().unwrap_or_default()).to_owned()
}

fn bare(word: &str) -> &str {
    word.trim_matches(['"', '\'', '`', ';', ',', '[', ']', '(', ')', '{', '}'])
}

fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_' | '*' | '/'))
}

fn is_site(text: &str) -> bool {
    is_plain(text) && SiteAddress::parse(text).is_ok()
}
