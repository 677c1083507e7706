//! Names of servers that no address of ours has: expressions, and names that end with `*`. Where a default server
//! answers on the same port, their hosts are routes of its site, in the order in which nginx asks.

use super::looser::looser;
use crate::braces::{Statement, named};
use crate::outline::{OutlinedAnswer, OutlinedSite, Service};
use std::cmp::Reverse;
use tidegate_model::expression;

/// What is said where such an expression is none of ours.
pub const NO_EXPRESSION: &str = "a `server_name` is an expression that is none of ours (there are no look-arounds and no back-references): \
                                 the default server would answer its hosts here, so those that it could take get 503 there until \
                                 you say them";

/// Which comes first: wildcards at the end, the longest first, then expressions.
type Precedence = (u8, Reverse<usize>);

/// A server with such names.
pub struct PatternedSite {
    precedence: Precedence,
    /// Names as expressions, each with a `~` in front.
    hosts: Vec<String>,
    /// All hosts of where it listens.
    addresses: Vec<String>,
    site: OutlinedSite,
    /// Where its names are said.
    names: Vec<usize>,
    /// Whether its expressions are ones of ours.
    is_readable: bool,
}

impl PatternedSite {
    /// A server that nothing is told of, for its own addresses.
    pub fn of_names(site: OutlinedSite, addresses: Vec<String>) -> PatternedSite {
        PatternedSite { precedence: (3, Reverse(0)), hosts: Vec::new(), addresses, site, names: Vec::new(), is_readable: true }
    }
}

/// Adds servers that nothing is told of, but for what keeps clients out, where others answer for all hosts: theirs are
/// refused.
pub fn shut(unanswered: Vec<PatternedSite>, services: &mut Vec<Service>) {
    let is_taken = |services: &[Service], own: &PatternedSite| {
        services.iter().any(|service| match service {
            Service::Site(site) => site.addresses.iter().any(|address| own.addresses.contains(address)),
            Service::Tcp(_) => false,
        })
    };
    let taken: Vec<PatternedSite> = unanswered.into_iter().filter(|own| is_taken(services, own)).collect();
    let (of_names, patterned): (Vec<_>, Vec<_>) = taken.into_iter().partition(|own| own.hosts.is_empty());
    settle(patterned, services);
    let is_whole = |own: &PatternedSite| !own.site.is_name_open && !own.site.addresses.is_empty();
    services.extend(of_names.into_iter().filter(is_whole).map(|own| Service::Site(own.site)));
}

/// The server once for each kind of such names; `site` is what it answers.
pub fn of_server(inside: &[Statement], site: &OutlinedSite, addresses: &[String]) -> Vec<PatternedSite> {
    let names: Vec<usize> = named(inside, "server_name").map(Statement::start).collect();
    let mut found: Vec<PatternedSite> = Vec::new();
    for name in named(inside, "server_name").flat_map(Statement::arguments) {
        let Some((precedence, text)) = of_name(name) else { continue };
        let is_readable = expression(&text).build().is_ok();
        match found.iter_mut().find(|own| own.precedence.0 == precedence.0 && own.is_readable == is_readable) {
            Some(own) => {
                own.precedence = own.precedence.min(precedence);
                own.hosts.push(format!("~{text}"));
            }
            None => found.push(PatternedSite {
                precedence,
                hosts: vec![format!("~{text}")],
                addresses: addresses.to_vec(),
                site: site.clone(),
                names: names.clone(),
                is_readable,
            }),
        }
    }
    found
}

fn of_name(name: &str) -> Option<(Precedence, String)> {
    const END: &str = "\\.?(:[0-9]+)?$";
    if let Some(text) = name.strip_prefix('~') {
        let ends = text.ends_with('$') && !text.ends_with("\\$");
        let text = if ends { format!("{}{END}", &text[..text.len() - 1]) } else { text.to_owned() };
        return Some(((2, Reverse(0)), format!("(?i){text}")));
    }
    let start = name.strip_suffix(".*")?;
    Some(((1, Reverse(name.len())), format!("(?i)^{}\\..", regex_syntax::escape(start))))
}

/// Adds them where a site takes all hosts of where they listen; whether hosts of one are shut there.
pub fn settle(mut patterned: Vec<PatternedSite>, services: &mut Vec<Service>) -> bool {
    let mut is_shut = false;
    patterned.sort_by_key(|own| own.precedence);
    let has = |services: &[Service], address: &String| {
        services.iter().any(|service| match service {
            Service::Site(site) => site.only_hosts.is_empty() && site.addresses.contains(address),
            Service::Tcp(_) => false,
        })
    };
    let mut added = Vec::new();
    for own in patterned {
        let shared: Vec<String> = own.addresses.iter().filter(|address| has(services, address)).cloned().collect();
        let is_default_itself = own.site.addresses.iter().any(|address| own.addresses.contains(address));
        if shared.is_empty() || is_default_itself && own.site.only_hosts.is_empty() {
            continue;
        }
        if !own.is_readable {
            is_shut = true;
            let hosts = own.hosts.iter().map(|host| format!("~{}", looser(&host[1..]))).collect();
            let answer = Some(OutlinedAnswer::status(503));
            added.push(Service::Site(OutlinedSite { addresses: shared, only_hosts: hosts, answer, ..OutlinedSite::default() }));
            continue;
        }
        if shared.len() == own.addresses.len() {
            for service in services.iter_mut() {
                let Service::Site(site) = service else { continue };
                if site.origin.within.is_superset(&own.names.iter().copied().collect()) {
                    site.origin.differs.retain(|at, _| !own.names.contains(at));
                    site.origin.carry_all(own.names.clone());
                }
            }
            // A name in the place of those that are routes now is nobody's.
            services.retain(|service| match service {
                Service::Site(site) => !(site.is_name_open && own.names.iter().all(|at| site.origin.within.contains(at))),
                Service::Tcp(_) => true,
            });
        }
        let mut site = OutlinedSite { addresses: shared, only_hosts: own.hosts, is_name_open: false, ..own.site };
        site.origin.differs.retain(|at, _| !own.names.contains(at));
        site.origin.carry_all(own.names);
        added.push(Service::Site(site));
    }
    services.extend(added);
    is_shut
}

#[cfg(test)]
mod tests {
    use super::of_name;
    use tidegate_model::expression;

    #[test]
    fn names_are_expressions_of_hosts() {
        let check = |name: &str, host: &str, expected: bool| {
            let (_, text) = of_name(name).expect("a pattern");
            let seen = expression(&text).build().expect("an expression").is_match(host.as_bytes());
            assert_eq!(seen, expected, "for {name} and {host}");
        };
        check("~^admin\\.x$", "Admin.X:8080", true);
        check("~^admin\\.x$", "admin.xy", false);
        check("admin.*", "admin.foo", true);
        check("admin.*", "xadmin.foo", false);
        check("~^admin\\.x$", "admin.x.:80", true);
        assert!(of_name("example.com").is_none());
        assert!(of_name("*.example.com").is_none(), "an address has it");
    }
}
