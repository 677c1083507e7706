//! Networks by a name: `preset:cloudflare`, lists of who stands in front of others' servers, which ship with the
//! program, and `file:networks.txt`, a list of one's own. A list of either kind has a network a line; `#` begins a
//! remark.

use crate::diagnostics::{Diagnostic, nearest};
use crate::lowering::Lowering;
use crate::placeholders::{Text, read_text_file};
use crate::syntax::{Entry, Literal, Node};
use ipnet::IpNet;
use std::collections::BTreeSet;
use tidegate_model::parse_network;

/// A list that ships.
#[derive(Debug)]
pub struct Preset {
    pub name: &'static str,
    text: &'static str,
}

pub static PRESETS: &[Preset] = &[
    Preset { name: "akamai", text: include_str!("presets/akamai.txt") },
    Preset { name: "cloudflare", text: include_str!("presets/cloudflare.txt") },
    Preset { name: "cloudfront", text: include_str!("presets/cloudfront.txt") },
    Preset { name: "fastly", text: include_str!("presets/fastly.txt") },
    Preset { name: "google", text: include_str!("presets/google.txt") },
];

/// Others that are known and publish too much, too often: the list of Azure changes every week.
const NOT_SHIPPED: &[(&str, &str)] = &[
    (
        "azure-front-door",
        "take the networks of `AzureFrontDoor.Backend` from https://www.microsoft.com/download/details.aspx?id=56519",
    ),
    ("azure", "take the networks of `AzureFrontDoor.Backend` from https://www.microsoft.com/download/details.aspx?id=56519"),
    ("bunny", "take the networks from https://api.bunny.net/system/edgeserverlist/plain"),
];

const PRESET: &str = "preset:";
const FILE: &str = "file:";
/// Of one list: it is gone through for each request.
const NETWORKS_MAX: usize = 10_000;

impl Preset {
    pub fn named(name: &str) -> Option<&'static Preset> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// What those who have the networks said on the day of the list.
    pub fn source(&self) -> &'static str {
        self.remark("# source: ")
    }

    /// As in `2026-07-02`.
    pub fn date(&self) -> &'static str {
        self.remark("# date: ")
    }

    fn remark(&self, before: &str) -> &'static str {
        self.text.lines().find_map(|line| line.strip_prefix(before)).unwrap_or_default()
    }
}

/// The networks that a text names which is no network itself. `None` where it is none of these; faults are reported.
pub fn named_networks(lowering: &mut Lowering<'_>, text: &Text) -> Option<Vec<IpNet>> {
    if let Some(name) = text.value.strip_prefix(PRESET) {
        return Some(of_preset(lowering, text, name));
    }
    let path = text.value.strip_prefix(FILE)?;
    let read = read_text_file(lowering, text.location.clone(), path);
    let networks = read.and_then(|text| networks_of(&text));
    Some(networks.unwrap_or_else(|reason| {
        let message = format!("the networks in `{path}` cannot be used: {reason}");
        let help = "a line has a network, as in `192.0.2.0/24`, or an address; `#` begins a remark";
        lowering.report(Diagnostic::error("bad-networks", text.location.clone(), message).help(help));
        Vec::new()
    }))
}

fn of_preset(lowering: &mut Lowering<'_>, text: &Text, name: &str) -> Vec<IpNet> {
    if let Some(preset) = Preset::named(name) {
        return networks_of(preset.text).unwrap_or_default();
    }
    let diagnostic = text.error("unknown-preset", format!("no list of networks is called `{name}`"));
    let names = PRESETS.iter().map(|preset| preset.name);
    let own = "write them into a file, a network a line, and name it with `file:networks.txt`";
    let help = match (NOT_SHIPPED.iter().find(|(known, _)| *known == name), nearest(name, names.clone())) {
        (Some((_, source)), _) => format!("it changes too often to ship: {source}; {own}"),
        (None, Some(meant)) => format!("did you mean `{PRESET}{meant}`?"),
        (None, None) => format!("those that ship are {}; for others, {own}", names.collect::<Vec<_>>().join(", ")),
    };
    lowering.report(diagnostic.help(help));
    Vec::new()
}

/// The networks of a list, or what is wrong with it.
fn networks_of(text: &str) -> Result<Vec<IpNet>, String> {
    let mut networks = Vec::new();
    for (position, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let meant = line.split('#').next().unwrap_or_default().trim();
        if meant.is_empty() {
            continue;
        }
        // Not quoted: another file may have been named, with something secret in it.
        let network = parse_network(meant).map_err(|_| format!("line {} is no network and no address", position + 1))?;
        if networks.len() >= NETWORKS_MAX {
            return Err(format!("there are more than {NETWORKS_MAX}"));
        }
        networks.push(network);
    }
    if networks.is_empty() { Err("there is none in it".to_owned()) } else { Ok(networks) }
}

/// The lists that ship and are named in nodes, by name.
pub fn presets_in<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> Vec<&'static Preset> {
    let mut names = BTreeSet::new();
    nodes.into_iter().for_each(|node| note_presets(node, &mut names));
    names.into_iter().filter_map(|name| Preset::named(&name)).collect()
}

fn note_presets(node: &Node, names: &mut BTreeSet<String>) {
    for Entry { value, .. } in &node.entries {
        if let Literal::Text(text) = &value.literal {
            // A condition has several, with commas between.
            let parts = text.split(',').filter_map(|part| part.trim().strip_prefix(PRESET));
            names.extend(parts.map(str::to_owned));
        }
    }
    node.children.iter().flatten().for_each(|child| note_presets(child, names));
}

#[cfg(test)]
mod tests {
    use super::{NETWORKS_MAX, PRESETS, networks_of};
    use std::collections::BTreeSet;

    #[test]
    fn every_list_that_ships_says_of_whom_and_of_when_it_is() {
        for preset in PRESETS {
            let networks = networks_of(preset.text).expect(preset.name);
            assert_eq!(networks.iter().collect::<BTreeSet<_>>().len(), networks.len(), "{} has one twice", preset.name);
            // Half of the internet is nobody's.
            assert!(networks.iter().all(|network| network.prefix_len() >= 10), "{}", preset.name);
            assert!(preset.source().starts_with("https://"), "{}", preset.name);
            assert!(preset.date().len() == 10 && preset.date().starts_with("20"), "{}", preset.name);
        }
    }

    #[test]
    fn a_list_has_a_network_a_line() {
        let check = |text: &str, expected: Result<&[&str], &str>| {
            let seen = networks_of(text).map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
            let expected = expected.map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(seen, expected.map_err(str::to_owned), "{text}");
        };
        check("\u{feff}# all\r\n192.0.2.0/24\r\n\n 2001:db8::1 # one\n", Ok(&["192.0.2.0/24", "2001:db8::1/128"]));
        check("", Err("there is none in it"));
        check("192.0.2.0/24\nx\n", Err("line 2 is no network and no address"));
        assert!(networks_of(&"192.0.2.1\n".repeat(NETWORKS_MAX + 1)).is_err());
    }
}
