//! Names as they are asked for and published: lower case, no dot at the end, A-labels only (RFC 5890). What comes from
//! outside goes through here before it is in a question, a URL, or the arguments of somebody's program.

use crate::fault::LookupFault;
use hickory_proto::rr::Name;
use std::fmt;

/// RFC 1035 section 2.3.4, written without the dot at the end.
const CHARACTERS_MAX: usize = 253;
const LABEL_CHARACTERS_MAX: usize = 63;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Domain(String);

impl Domain {
    /// Letters, digits, hyphens and underscores; one dot at the end is left out.
    pub fn parse(text: &str) -> Result<Domain, LookupFault> {
        let refuse = |problem| Err(LookupFault::NotAName { text: text.chars().take(CHARACTERS_MAX).collect(), problem });
        let bare = text.strip_suffix('.').unwrap_or(text);
        if bare.is_empty() {
            return refuse("it is empty");
        }
        if bare.len() > CHARACTERS_MAX {
            return refuse("it has more than 253 characters");
        }
        for label in bare.split('.') {
            if label.is_empty() {
                return refuse("it has an empty label");
            }
            if label.len() > LABEL_CHARACTERS_MAX {
                return refuse("a label of it has more than 63 characters");
            }
            if label.starts_with('-') || label.ends_with('-') {
                return refuse("a label of it begins or ends with a hyphen");
            }
            if !label.is_ascii() {
                return refuse("it is not in ASCII; write it as `xn--…` (punycode)");
            }
            if !label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
                return refuse("it has characters other than letters, digits, hyphens and underscores");
            }
        }
        Ok(Domain(bare.to_ascii_lowercase()))
    }

    /// What a server says that a name leads to. Servers may say anything.
    pub fn of(name: &Name) -> Result<Domain, LookupFault> {
        Domain::parse(&name.to_ascii())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn parent(&self) -> Option<Domain> {
        self.0.split_once('.').map(|(_, parent)| Domain(parent.to_owned()))
    }

    /// Itself, then each name above it.
    pub fn and_ancestors(&self) -> impl Iterator<Item = Domain> + use<> {
        std::iter::successors(Some(self.clone()), Domain::parent)
    }

    /// Where a provider may have a zone for it: all of them but the top level.
    pub fn zone_candidates(&self) -> impl Iterator<Item = Domain> + use<> {
        self.and_ancestors().filter(|name| name.0.contains('.'))
    }

    /// The part before a zone, `@` for the zone itself: as providers name records.
    pub fn within(&self, zone: &Domain) -> String {
        let before = self.0.strip_suffix(zone.as_str()).map(|before| before.trim_end_matches('.'));
        match before {
            Some("") => "@".to_owned(),
            Some(before) => before.to_owned(),
            None => self.0.clone(),
        }
    }

    /// Absolute, so that no search domain is appended.
    pub fn question(&self) -> Result<Name, LookupFault> {
        let name = Name::from_ascii(format!("{}.", self.0));
        name.map_err(|_| LookupFault::NotAName { text: self.0.clone(), problem: "DNS cannot carry it" })
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Domain;

    #[test]
    fn names_are_checked_before_anybody_sees_them() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let found = Domain::parse(text).map(|name| name.to_string()).map_err(|fault| fault.to_string());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{text:?}");
        };
        check("_acme-challenge.Example.com.", Ok("_acme-challenge.example.com"));
        check("xn--bcher-kva.example", Ok("xn--bcher-kva.example"));
        check("localhost", Ok("localhost"));
        check("", Err("`` is not a name: it is empty"));
        check(".", Err("`.` is not a name: it is empty"));
        check("a..b", Err("`a..b` is not a name: it has an empty label"));
        check("bücher.example", Err("`bücher.example` is not a name: it is not in ASCII; write it as `xn--…` (punycode)"));
        let other = "it has characters other than letters, digits, hyphens and underscores";
        for hostile in ["*.example.com", "a b.example", "a\n.example", "$(id).example", "a/b", "a\\.b"] {
            check(hostile, Err(&format!("`{hostile}` is not a name: {other}")));
        }
        check("--help", Err("`--help` is not a name: a label of it begins or ends with a hyphen"));
        check(&format!("{}.a", "a".repeat(63)), Ok(&format!("{}.a", "a".repeat(63))));
        let long = format!("{}.a", "a".repeat(64));
        check(&long, Err(&format!("`{long}` is not a name: a label of it has more than 63 characters")));
        assert!(Domain::parse(&"a.".repeat(127)).is_ok());
        assert!(Domain::parse(&"a.".repeat(128)).is_err());
    }

    #[test]
    fn zones_are_looked_for_upwards() {
        let name = Domain::parse("_acme-challenge.a.example.com").expect("a name");
        let candidates: Vec<String> = name.zone_candidates().map(|zone| zone.to_string()).collect();
        assert_eq!(candidates, ["_acme-challenge.a.example.com", "a.example.com", "example.com"]);
        let check = |zone: &str, expected: &str| assert_eq!(name.within(&Domain::parse(zone).expect("a zone")), expected);
        check("example.com", "_acme-challenge.a");
        check("_acme-challenge.a.example.com", "@");
    }
}
