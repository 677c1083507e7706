//! What `cert import` says of names that it took over and that will come to nothing: no site has them, or no CA renews
//! them. It hinders nothing, because sites are often written after the certificates were copied. What sites do with
//! names is told by `control`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tidegate_control::{CertificateUse, CertificateUses};
use tidegate_model::{Configuration, HostPattern, address};

/// Who moves thousands of names into a configuration of one site gets a page, and not a book.
const LINES_MAX: usize = 20;

/// One line for each such name.
pub struct Notes<'a> {
    uses: Option<(&'a Path, CertificateUses)>,
    lines: Vec<String>,
    more: usize,
}

impl<'a> Notes<'a> {
    /// Without a configuration nothing is known of sites, and only what holds for all of them is said.
    pub fn new(configuration: Option<&'a (PathBuf, Configuration)>) -> Notes<'a> {
        let uses = configuration.map(|(file, configuration)| (file.as_path(), CertificateUses::of(configuration)));
        Notes { uses, lines: Vec::new(), more: 0 }
    }

    pub fn look_at(&mut self, name: &str) {
        let Some(what) = self.what_comes_of(name) else { return };
        if self.lines.len() < LINES_MAX {
            self.lines.push(format!("{name}: {what}"));
        } else {
            self.more += 1;
        }
    }

    pub fn lines(self) -> impl Iterator<Item = String> {
        let more = (self.more > 0).then(|| format!("{} more names are not served or not renewed", self.more));
        self.lines.into_iter().chain(more)
    }

    fn what_comes_of(&self, name: &str) -> Option<String> {
        let is_public = is_public(name);
        let Some((file, uses)) = &self.uses else {
            let what =
                "it is no public name, so no public CA renews it, and its site has the internal CA unless its `tls` has `acme`";
            return (!is_public).then(|| what.to_owned());
        };
        match uses.use_of(name) {
            CertificateUse::Served => None,
            CertificateUse::None => Some(format!("no site of {} has exactly this name, so it is neither served nor renewed", file.display())),
            CertificateUse::FromElsewhere if is_public => {
                Some("its site has a certificate from elsewhere, so this one is neither served nor renewed".to_owned())
            }
            CertificateUse::FromElsewhere => Some(
                "it is no public name, and its site has a certificate from elsewhere, so this one is neither served nor renewed; with `acme` in its `tls` it is"
                    .to_owned(),
            ),
        }
    }
}

fn is_public(name: &str) -> bool {
    let address = name.parse::<IpAddr>().map(HostPattern::Ip);
    address.or_else(|_| address::parse_host_pattern(name)).is_ok_and(|host| host.is_public())
}

#[cfg(test)]
mod tests {
    use super::{LINES_MAX, Notes};
    use std::path::{Path, PathBuf};
    use tidegate_config::load_text;

    #[test]
    fn names_that_come_to_nothing_are_told_one_line_each() {
        let text = "site \"a.example.com\" \"db.internal\" { respond 200; }\n\
                    site \"b.example.com\" { tls \"internal\"; respond 200; }\n\
                    site \"c.internal\" { tls { acme ca=\"https://ca.internal/dir\"; }; respond 200; }";
        let loaded = load_text("test.kdl", text, Path::new("."));
        let configuration = loaded.configuration.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
        let configuration = (PathBuf::from("test.kdl"), configuration);
        let check = |has_configuration: bool, name: &str, expected: &str| {
            let mut notes = Notes::new(has_configuration.then_some(&configuration));
            notes.look_at(name);
            let lines: Vec<String> = notes.lines().collect();
            assert_eq!(lines.is_empty(), expected.is_empty(), "{name}: {lines:?}");
            assert!(lines.iter().all(|line| line.starts_with(name) && line.contains(expected)), "{name}: {lines:?}");
        };
        check(true, "a.example.com", "");
        check(true, "b.example.com", "its site has a certificate from elsewhere");
        check(true, "c.internal", "");
        check(true, "db.internal", "with `acme` in its `tls` it is");
        check(true, "x.example.com", "no site of test.kdl has exactly this name");
        check(true, "*.example.com", "no site of test.kdl has exactly this name");
        check(false, "x.example.com", "");
        check(false, "db.internal", "no public CA renews it");
        check(false, "10.0.0.1", "no public CA renews it");
        check(false, "2606:4700::1111", "");
    }

    #[test]
    fn they_are_bounded() {
        let mut notes = Notes::new(None);
        (0..LINES_MAX + 7).for_each(|number| notes.look_at(&format!("host{number}.internal")));
        let lines: Vec<String> = notes.lines().collect();
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert_eq!(lines[LINES_MAX], "7 more names are not served or not renewed");
    }
}
