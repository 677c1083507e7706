//! Where a label's names of entry points lead: to the ports of the file's `entry-point` lines, else to the usual ones.

use tidegate_model::EntryPoint;

/// Names that need no line, each with its port. Two of them mean the same door.
const USUAL: &[(&str, u16)] = &[("web", 80), ("http", 80), ("websecure", 443), ("https", 443)];

#[derive(Debug, Clone, Copy)]
pub struct EntryPoints<'a> {
    of_file: &'a [EntryPoint],
}

impl<'a> EntryPoints<'a> {
    pub fn new(of_file: &'a [EntryPoint]) -> EntryPoints<'a> {
        EntryPoints { of_file }
    }

    /// The port of an entry point; nothing where nobody has said it.
    pub fn port(&self, name: &str) -> Option<u16> {
        let of_file = self.of_file.iter().find(|point| point.name == name).map(|point| point.port);
        of_file.or_else(|| self.usual().find(|(usual, _)| *usual == name).map(|(_, port)| port))
    }

    /// The usual ones whose door the file has not put elsewhere.
    fn usual(&self) -> impl Iterator<Item = (&'static str, u16)> {
        let is_moved = |usual: u16| {
            let is_of_file = |name: &str| self.of_file.iter().any(|point| point.name == name);
            USUAL.iter().any(|(name, port)| *port == usual && is_of_file(name))
        };
        USUAL.iter().copied().filter(move |(_, port)| !is_moved(*port))
    }

    /// By name, for a router that names some; one that names none is at those of the file.
    pub fn known(&self, is_named: bool) -> Vec<(&'a str, u16)> {
        let of_file = self.of_file.iter().map(|point| (point.name.as_str(), point.port));
        if is_named {
            of_file.chain(self.usual().map(|(name, port)| -> (&'a str, u16) { (name, port) })).collect()
        } else {
            of_file.collect()
        }
    }

    /// As a help says it.
    pub fn listed(&self) -> String {
        let named: Vec<String> = self.known(true).iter().map(|(name, port)| format!("`{name}` ({port})")).collect();
        named.join(", ")
    }

    /// The address of a site. Where the file has put plain HTTP elsewhere, no redirect opens the usual port.
    pub fn address(&self, address: &str) -> String {
        let has_plain = self.usual().any(|(_, port)| port == 80) || self.of_file.iter().any(|point| point.port == 80);
        if has_plain || address.contains("://") { address.to_owned() } else { format!("https://{address}") }
    }
}

#[cfg(test)]
mod tests {
    use super::EntryPoints;
    use tidegate_model::EntryPoint;

    #[test]
    fn names_lead_where_the_file_says_or_where_they_do_everywhere() {
        let check = |of_file: &[(&str, u16)], name: &str, expected: Option<u16>| {
            let of_file: Vec<EntryPoint> =
                of_file.iter().map(|(name, port)| EntryPoint { name: (*name).to_owned(), port: *port }).collect();
            assert_eq!(EntryPoints::new(&of_file).port(name), expected, "{name} of {of_file:?}");
        };
        check(&[], "web", Some(80));
        check(&[], "https", Some(443));
        check(&[], "secure", None);
        check(&[], "Web", None);
        check(&[("websecure", 8443)], "websecure", Some(8443));
        check(&[("websecure", 8443)], "https", None);
        check(&[("websecure", 8443)], "web", Some(80));
        check(&[("secure", 443)], "secure", Some(443));
        check(&[("secure", 443)], "websecure", Some(443));
    }
}
