//! Annotations of ingress-nginx, a file for each group of them: what an Ingress says by them becomes its `Manner`. All
//! names are in `table`. What shapes answers and cannot be used is left out; what protects shuts what it is about.

mod access;
mod answers;
mod balancing;
mod basic_auth;
mod canary;
mod client_certificates;
mod copies;
mod cors;
mod errors;
mod forward_auth;
mod handshake;
mod limits;
mod own_secret;
mod paths;
mod proxying;
mod redirects;
mod remarks;
mod retries;
mod servers;
mod sign_in;
mod snippets;
mod table;
mod variables;

use crate::finding::{Finding, FindingCode, Severity};
use crate::manner::Manner;
use crate::settings::Settings;
use std::collections::BTreeMap;
use table::alike;
use tidegate_cluster::{Ingress, Key};

pub use access::network;
pub use paths::{is_path, with_query};
pub use redirects::{is_usable, starts_well};
pub use remarks::remark;
pub use snippets::fates;
pub use table::{Standing, standing};
pub use variables::{placeholder, template};

/// What names of these annotations begin with.
const PREFIX: &str = "nginx.ingress.kubernetes.io/";
/// Of a value in a message.
const SHOWN_CHARACTERS_MAX: usize = 80;

/// What the annotations of an Ingress come to, with what is to be said of them.
pub fn read(key: &Key, ingress: &Ingress, settings: &Settings) -> (Manner, Vec<Finding>) {
    let mut annotations = Annotations { key, values: named(ingress).collect(), findings: Vec::new(), is_shut: false };
    annotations.note_what_is_not_taken();
    let mut manner = Manner::default();
    redirects::read(&mut annotations, &mut manner);
    paths::read(&mut annotations, &mut manner);
    access::read(&mut annotations, &mut manner);
    basic_auth::read(&mut annotations, &mut manner);
    forward_auth::read(&mut annotations, &mut manner);
    cors::read(&mut annotations, &mut manner);
    limits::read(&mut annotations, &mut manner);
    proxying::read(&mut annotations, &mut manner);
    balancing::read(&mut annotations, &mut manner);
    servers::read(&mut annotations, &mut manner);
    retries::read(&mut annotations, &mut manner);
    answers::read(&mut annotations, &mut manner);
    errors::read(&mut annotations, &mut manner);
    copies::read(&mut annotations, &mut manner);
    handshake::read(&mut annotations, &mut manner);
    client_certificates::read(&mut annotations, &mut manner);
    canary::read(&mut annotations, &mut manner);
    snippets::read(&mut annotations, &mut manner, settings.unknown_snippets);
    manner.is_shut = annotations.is_shut;
    (manner, annotations.findings)
}

/// Annotations under the prefix, by the rest of their names.
pub fn named(ingress: &Ingress) -> impl Iterator<Item = (&str, &str)> {
    ingress.annotations.iter().filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?, value.trim())))
}

/// As findings name an annotation.
pub fn field(name: &str) -> String {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(SHOWN_CHARACTERS_MAX).collect();
    format!("metadata.annotations[{PREFIX}{shown}]")
}

/// Annotations under the prefix, by the rest of their names.
struct Annotations<'i> {
    /// The Ingress that has them.
    key: &'i Key,
    values: BTreeMap<&'i str, &'i str>,
    findings: Vec<Finding>,
    is_shut: bool,
}

impl<'i> Annotations<'i> {
    fn find(&mut self, name: &str, code: FindingCode, severity: Severity, message: String) {
        self.findings.push(Finding { field: field(name), code, severity, message });
    }

    /// The value, unless it is empty.
    fn text(&self, name: &str) -> Option<&'i str> {
        self.values.get(name).copied().filter(|value| !value.is_empty())
    }

    /// A value that cannot be used, so that everything is as without the annotation.
    fn leave_out(&mut self, name: &str, problem: &str) {
        let value = self.values.get(name).map(|value| shortened(value)).unwrap_or_default();
        let message = format!("`{value}` is left out: {problem}");
        self.find(name, FindingCode::AnnotationInvalid, Severity::Warning, message);
    }

    /// A protection that is not to be had, so that nothing is answered.
    fn shut(&mut self, name: &str, problem: &str) {
        self.is_shut = true;
        let message = format!("{problem}; until then everything of this Ingress is answered with 503");
        self.find(name, FindingCode::ProtectionUnavailable, Severity::Error, message);
    }

    /// `true` and `false`, as Go reads them. What is neither is left out.
    fn switch(&mut self, name: &str) -> Option<bool> {
        match self.text(name)? {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            _ => {
                self.leave_out(name, "it is `true` or `false`");
                None
            }
        }
    }

    fn note_what_is_not_taken(&mut self) {
        let names: Vec<&str> = self.values.keys().copied().collect();
        for name in names {
            match standing(name) {
                Some(Standing::Same | Standing::Remarked | Standing::Needless) => {}
                Some(Standing::Open | Standing::Closed) if self.asks_for_nothing(name) => {}
                Some(Standing::Open) => {
                    let message = "this annotation is not taken: everything is served without it".to_owned();
                    self.find(name, FindingCode::AnnotationNotTaken, Severity::Warning, message);
                }
                Some(Standing::Closed) => {
                    self.shut(name, "this annotation is not taken, and what it is about may not be served without it: remove it");
                }
                None => {
                    let meant = alike(name).map(|name| format!(": did you mean `{PREFIX}{name}`?")).unwrap_or_default();
                    let message = format!("there is no such annotation{meant}");
                    self.find(name, FindingCode::AnnotationUnknown, Severity::Warning, message);
                }
            }
        }
    }

    /// Whether the value says that nothing is wanted.
    fn asks_for_nothing(&self, name: &str) -> bool {
        let value = self.values.get(name).copied().unwrap_or_default();
        if name.ends_with("-snippet") || name.ends_with("-url") {
            return value.is_empty();
        }
        matches!((name, value), (_, "" | "false" | "off" | "0") | ("satisfy", "all") | ("proxy-http-version", "1.1"))
    }
}

fn shortened(text: &str) -> String {
    let shown: String = text.chars().filter(|c| !c.is_control()).take(SHOWN_CHARACTERS_MAX).collect();
    if shown.chars().count() == SHOWN_CHARACTERS_MAX { shown + "…" } else { shown }
}

/// Whether the text is one of the letters that names of fields and cookies have (RFC 9110 section 5.6.2).
pub fn is_token(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Parts between commas, without blanks around them.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}
