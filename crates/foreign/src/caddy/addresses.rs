//! Addresses of sites in a Caddyfile: which port, which hosts and which part of the paths a block is for, and in which
//! order Caddy asks blocks that may take the same request. What is for a part of a host's paths is asked in front of
//! what is for all of them, as one site with it.

use crate::braces::Statement;
use crate::outline::{Door, is_plain};
use std::cmp::Reverse;
use std::net::IpAddr;
use tidegate_model::SiteAddress;

/// Blocks that one site is made of.
pub struct SiteBlock<'s> {
    /// Addresses without paths.
    pub words: Vec<String>,
    /// In the order in which they are asked, each of them the last for what it takes.
    pub parts: Vec<SitePart<'s>>,
}

#[derive(Clone)]
pub struct SitePart<'s> {
    /// The pattern of paths that it is for; all of them without one.
    pub path: Option<String>,
    pub inside: &'s [Statement],
    /// Whether it is the block of wider addresses, which takes what no other does.
    pub is_wider: bool,
}

impl<'s> SiteBlock<'s> {
    /// A block that has no other beside it.
    pub fn of(words: Vec<String>, inside: &'s [Statement]) -> SiteBlock<'s> {
        SiteBlock { words, parts: vec![SitePart { path: None, inside, is_wider: false }] }
    }
}

/// A block of the file, with the words in front of it.
pub type FileBlock<'s> = (&'s [String], &'s [Statement]);

pub fn is_address_line(statement: &Statement) -> bool {
    !statement.words.is_empty()
        && statement.words.iter().all(|word| {
            let (word, _) = split(word);
            let word = word.as_str();
            if matches!(word, "http://*" | "https://*" | "http://" | "https://" | "*") {
                return true;
            }
            let is_named = word.contains(['.', ':', '*']) || matches!(word, "localhost") || word.starts_with("{$");
            is_named
                && !word.starts_with(['(', '@', '/'])
                && !word.contains('=')
                && (word.contains("{$")
                    || word.contains("{env.")
                    || pattern_of_host(word).is_some()
                    || SiteAddress::parse(word).is_ok())
        })
}

/// Where a site is by one of its addresses, and its name. Without a name, what Caddy listens on is plain HTTP but on
/// its port for HTTPS.
pub fn door(written: &str) -> Option<(Door, Option<String>)> {
    let (scheme, rest) = match written.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, written),
    };
    let rest = rest.split('/').next().unwrap_or_default();
    if !is_plain(rest) {
        return None;
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse::<u16>().ok()?)),
        Some(_) | None => (rest, None),
    };
    let is_named = !host.is_empty();
    let host = Some(host).filter(|host| is_named && *host != "*");
    let is_http = match (scheme, port, is_named) {
        (Some(scheme), _, _) => scheme == "http",
        (None, Some(443), _) => false,
        (None, Some(80), _) | (None, _, false) => true,
        (None, Some(_) | None, true) => false,
    };
    let port = port.unwrap_or(if is_http { 80 } else { 443 });
    Some((Door { is_tls: !is_http, port, ip: None }, host.map(str::to_owned)))
}

/// The expression of hosts that no address of ours says as it is: an address of the machine, which says there what
/// clients ask for and not where they come in, and stars within a name.
pub fn pattern_of_host(word: &str) -> Option<String> {
    const END: &str = "\\.?(:[0-9]+)?$";
    let (_, host) = door(word.trim_end_matches(','))?;
    let host = host?;
    if host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return Some(format!("~(?i)^{}{END}", regex_syntax::escape(&host)));
    }
    let labels: Vec<&str> = host.split('.').collect();
    let is_inner = labels.iter().skip(1).any(|label| *label == "*") && labels.iter().all(|label| !label.is_empty());
    let is_whole = labels.iter().all(|label| *label == "*" || !label.contains('*'));
    let one = |label: &&str| if *label == "*" { "[^.:]+".to_owned() } else { regex_syntax::escape(label) };
    (is_inner && is_whole).then(|| format!("~(?i)^{}{END}", labels.iter().map(one).collect::<Vec<String>>().join("\\.")))
}

/// An address without its path, and the path.
pub fn split(word: &str) -> (String, Option<String>) {
    let word = word.trim_end_matches(',');
    let start = word.find("://").map_or(0, |at| at + 3);
    let mut depth = 0_usize;
    let slash = word[start..].char_indices().find(|(_, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *c == '/' && depth == 0
    });
    match slash {
        Some((at, _)) => (word[..start + at].to_owned(), Some(word[start + at..].to_owned())),
        None => (word.to_owned(), None),
    }
}

/// What addresses are the same by.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Key {
    At(u16, bool, Option<String>),
    /// With variables.
    Text(String),
}

impl Key {
    fn of(word: &str) -> Key {
        match door(word) {
            Some((door, host)) => Key::At(door.port, door.is_tls, host.map(|host| host.to_ascii_lowercase())),
            None => Key::Text(word.to_owned()),
        }
    }

    /// Whether it takes all that the other does, and more.
    fn is_wider(&self, other: &Key) -> bool {
        let (Key::At(port, is_tls, host), Key::At(own_port, own_tls, own)) = (self, other) else { return false };
        let is_covered = match (host, own) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(host), Some(own)) => {
                let (labels, own_labels): (Vec<&str>, Vec<&str>) = (host.split('.').collect(), own.split('.').collect());
                host != own
                    && labels.len() == own_labels.len()
                    && labels.iter().zip(&own_labels).all(|(label, own)| label == own || *label == "*")
            }
        };
        port == own_port && is_tls == own_tls && is_covered
    }
}

/// How special a name is: without one last, with a star behind all others, then the longest first.
fn rank(words: &[String]) -> (bool, bool, Reverse<usize>, Reverse<usize>) {
    let hosts: Vec<String> = words.iter().filter_map(|word| door(&split(word).0)?.1).collect();
    let has_star = hosts.len() < words.len() || hosts.iter().any(|host| host.contains('*'));
    let longest = hosts.iter().map(|host| host.len() - host.matches('*').count()).max().unwrap_or(0);
    let path = words.iter().filter_map(|word| split(word).1).map(|path| path.len()).max().unwrap_or(0);
    (longest == 0, has_star, Reverse(longest), Reverse(path))
}

/// The blocks as sites, in the order of the file: what is said of one host by several, each for a part of its paths, is
/// one.
pub fn settled<'s>(blocks: &[FileBlock<'s>]) -> Vec<SiteBlock<'s>> {
    let mut order: Vec<&FileBlock<'s>> = blocks.iter().collect();
    order.sort_by_key(|(words, _)| rank(words));
    let with_paths: Vec<Key> = blocks
        .iter()
        .flat_map(|(words, _)| words.iter())
        .map(|word| split(word))
        .filter(|(_, path)| path.is_some())
        .map(|(word, _)| Key::of(&word))
        .collect();
    let mut sites: Vec<SiteBlock<'s>> = Vec::new();
    let mut done: Vec<Key> = Vec::new();
    for (words, inside) in blocks {
        let (apart, own): (Vec<&String>, Vec<&String>) =
            words.iter().partition(|word| with_paths.contains(&Key::of(&split(word).0)));
        let (patterned, named): (Vec<&String>, Vec<&String>) = own.into_iter().partition(|word| pattern_of_host(word).is_some());
        for own in [named, patterned].into_iter().filter(|own| !own.is_empty()) {
            sites.push(SiteBlock::of(own.into_iter().cloned().collect(), inside));
        }
        for word in apart {
            let (word, _) = split(word);
            let key = Key::of(&word);
            if !done.contains(&key) {
                sites.push(SiteBlock { words: vec![word], parts: parts_of(&key, &order) });
                done.push(key);
            }
        }
    }
    sites
}

/// The blocks that are asked for requests of these addresses, up to the first that takes all.
fn parts_of<'s>(key: &Key, order: &[&FileBlock<'s>]) -> Vec<SitePart<'s>> {
    let mut parts = Vec::new();
    for is_wider in [false, true] {
        for (words, inside) in order {
            for word in *words {
                let (word, path) = split(word);
                let own = Key::of(&word);
                if if is_wider { own.is_wider(key) } else { own == *key } {
                    let is_all = path.is_none();
                    parts.push(SitePart { path, inside, is_wider });
                    if is_all {
                        return parts;
                    }
                }
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{FileBlock, SitePart, pattern_of_host, settled, split};

    #[test]
    fn blocks_of_one_host_are_one_site() {
        let texts = ["http://d.test", "http://d.test/adm*", "http://*.test", "http://e.test/a", "f.test"];
        let words: Vec<Vec<String>> = texts.iter().map(|text| vec![(*text).to_owned()]).collect();
        let blocks: Vec<FileBlock<'_>> = words.iter().map(|words| (words.as_slice(), [].as_slice())).collect();
        let shown = |part: &SitePart<'_>| {
            format!("{}{}", part.path.as_deref().unwrap_or("*"), if part.is_wider { " of wider" } else { "" })
        };
        let seen: Vec<(String, Vec<String>)> =
            settled(&blocks).iter().map(|site| (site.words.join(" "), site.parts.iter().map(shown).collect())).collect();
        let site = |words: &str, parts: &[&str]| (words.to_owned(), parts.iter().map(|part| (*part).to_owned()).collect());
        let expected = vec![
            site("http://d.test", &["/adm*", "*"]),
            site("http://*.test", &["*"]),
            site("http://e.test", &["/a", "* of wider"]),
            site("f.test", &["*"]),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn addresses_have_paths_and_hosts_patterns() {
        assert_eq!(split("http://{$A:x/y}:80/b,"), ("http://{$A:x/y}:80".to_owned(), Some("/b".to_owned())));
        let check = |word: &str, expected: Option<&str>| assert_eq!(pattern_of_host(word).as_deref(), expected, "{word}");
        check("http://127.0.0.1:8080", Some("~(?i)^127\\.0\\.0\\.1\\.?(:[0-9]+)?$"));
        check("*.x.*", Some("~(?i)^[^.:]+\\.x\\.[^.:]+\\.?(:[0-9]+)?$"));
        check("http://[::1]", Some("~(?i)^\\[::1\\]\\.?(:[0-9]+)?$"));
        for word in ["*.x.test", "x.test", ":80", "*", "http://a*.x.*"] {
            check(word, None);
        }
    }
}
