//! What of a store is worth taking over, and under which names: pure, with the time as an argument.
//! Tidegate keeps one certificate for each name. One of several names is kept under each of them, and of several for a
//! name the one that clients trust and that lasts longest.

use crate::{ImportedCertificate, ImportedStore, Origin, Skipped};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_certs::CertificateName;

#[derive(Debug, Clone, Copy, Default)]
pub struct Choice {
    /// Expired ones, and those of test environments and internal CAs, as well.
    pub all: bool,
}

#[derive(Debug, Default)]
pub struct Selected {
    /// The position of the certificate among those of the store.
    pub by_name: BTreeMap<CertificateName, usize>,
    pub skipped: Vec<Skipped>,
}

pub fn select(store: &ImportedStore, choice: Choice, now: Timestamp) -> Selected {
    let mut selected = Selected::default();
    for (index, certificate) in store.certificates.iter().enumerate() {
        if let Some(why) = unwanted(certificate, now).filter(|_| !choice.all) {
            selected.skipped.push(Skipped { what: told(certificate), why });
            continue;
        }
        for name in &certificate.names {
            let place = selected.by_name.entry(name.clone()).or_insert(index);
            if worth(&store.certificates[*place]) < worth(certificate) {
                *place = index;
            }
        }
    }
    // One that another lasts longer than for all of its names is not used at all.
    let used: BTreeSet<usize> = selected.by_name.values().copied().collect();
    for (index, certificate) in store.certificates.iter().enumerate() {
        let was_wanted = choice.all || unwanted(certificate, now).is_none();
        if was_wanted && !used.contains(&index) {
            let why = "there is a better one for the same names".to_owned();
            selected.skipped.push(Skipped { what: told(certificate), why });
        }
    }
    selected
}

fn unwanted(certificate: &ImportedCertificate, now: Timestamp) -> Option<String> {
    if certificate.not_after <= now {
        return Some(format!("it expired on {}", date(certificate.not_after)));
    }
    match certificate.origin {
        Origin::Public => None,
        Origin::Staging => Some("it is from a test environment, and no client trusts it".to_owned()),
        Origin::Internal => Some("it was signed by an internal CA; Tidegate's own does that for the same names".to_owned()),
    }
}

/// Of two for one name: what clients trust, then what lasts longest.
fn worth(certificate: &ImportedCertificate) -> (bool, Timestamp) {
    (certificate.origin == Origin::Public, certificate.not_after)
}

fn told(certificate: &ImportedCertificate) -> String {
    format!("{} ({})", certificate.names_text(), certificate.from)
}

fn date(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}
