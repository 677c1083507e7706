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
mod headers;
mod limits;
mod names;
mod obtained;
mod own_secret;
mod paths;
mod proxying;
mod redirects;
mod remarks;
mod retries;
mod seen_by_servers;
mod servers;
mod sign_in;
mod snippets;
mod table;
mod units;
mod variables;

use crate::defaults::Defaults;
use crate::finding::{Finding, FindingCode, Severity};
use crate::manner::Manner;
use crate::settings::{Settings, UnknownSnippets};
use std::collections::BTreeMap;
use std::sync::Arc;
use table::alike;
use tidegate_cluster::{Ingress, Key};

pub use access::network;
pub use obtained::OBTAINED;
pub use paths::{is_path, with_query};
pub use redirects::{is_usable, starts_well};
pub use remarks::remark;
pub use snippets::{fates, fates_of_key};
pub use table::{Standing, nearest, standing};
pub use units::switch;
pub use variables::{name_in, placeholder, plain_template, template_of_service};

/// What names of these annotations begin with.
const PREFIX: &str = "nginx.ingress.kubernetes.io/";
/// Of a value in a message.
const SHOWN_CHARACTERS_MAX: usize = 80;

/// What the annotations of an Ingress come to, with what is to be said of them.
pub fn read(key: &Key, ingress: &Ingress, settings: &Settings, defaults: &Arc<Defaults>) -> (Manner, Vec<Finding>) {
    let values = named(ingress).collect();
    let mut annotations = Annotations { key, values, defaults, findings: Vec::new(), is_shut: defaults.is_shut };
    annotations.note_what_is_not_taken();
    let mut manner = annotations.manner(settings.unknown_snippets);
    obtained::read(&mut annotations, ingress, &mut manner);
    manner.defaults = defaults.clone();
    (manner, annotations.findings)
}

/// What is to be said of values that hold for all Ingresses, and whether they shut all of them.
pub fn probe(values: &BTreeMap<&str, &str>) -> (Vec<Finding>, bool) {
    let (key, defaults) = (Key::new("", ""), Defaults::default());
    let values = values.clone();
    let mut annotations = Annotations { key: &key, values, defaults: &defaults, findings: Vec::new(), is_shut: false };
    annotations.manner(UnknownSnippets::Shut);
    (annotations.findings, annotations.is_shut)
}

/// Whether the value says that nothing is wanted.
pub fn asks_for_nothing(name: &str, value: &str) -> bool {
    if name.ends_with("-snippet") || name.ends_with("-url") {
        return value.is_empty();
    }
    matches!(value, "" | "false" | "off" | "0")
}

impl Annotations<'_> {
    fn manner(&mut self, unknown: UnknownSnippets) -> Manner {
        let mut manner = Manner::default();
        read_all(self, &mut manner);
        snippets::read(self, &mut manner, unknown);
        manner.is_shut = self.is_shut;
        manner
    }
}

fn read_all(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    redirects::read(annotations, manner);
    names::read(annotations, manner);
    paths::read(annotations, manner);
    seen_by_servers::read(annotations, manner);
    access::read(annotations, manner);
    basic_auth::read(annotations, manner);
    forward_auth::read(annotations, manner);
    cors::read(annotations, manner);
    limits::read(annotations, manner);
    proxying::read(annotations, manner);
    balancing::read(annotations, manner);
    servers::read(annotations, manner);
    retries::read(annotations, manner);
    answers::read(annotations, manner);
    errors::read(annotations, manner);
    copies::read(annotations, manner);
    headers::read(annotations, manner);
    handshake::read(annotations, manner);
    client_certificates::read(annotations, manner);
    canary::read(annotations, manner);
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
    /// What holds where these say nothing.
    defaults: &'i Defaults,
    findings: Vec<Finding>,
    is_shut: bool,
}

impl<'i> Annotations<'i> {
    fn find(&mut self, name: &str, code: FindingCode, severity: Severity, message: String) {
        self.findings.push(Finding { field: field(name), code, severity, message });
    }

    /// The value, unless it is empty; else that of all Ingresses.
    fn text(&self, name: &str) -> Option<&'i str> {
        self.own(name).or_else(|| self.defaults.annotations.get(name).map(|value| &**value))
    }

    /// What stands there, or for all Ingresses: empty is something as well.
    fn written(&self, name: &str) -> Option<&'i str> {
        self.values.get(name).copied().or_else(|| self.text(name))
    }

    /// The value that its Ingress has itself, unless it is empty.
    fn own(&self, name: &str) -> Option<&'i str> {
        self.values.get(name).copied().filter(|value| !value.is_empty())
    }

    /// The annotations of who says who may come in, as they are for Ingresses that name nobody.
    fn global_auth(&self) -> Annotations<'i> {
        let values = self.defaults.global_auth.iter().map(|(name, value)| (&**name, &**value)).collect();
        Annotations { key: self.key, values, defaults: self.defaults, findings: Vec::new(), is_shut: false }
    }

    /// A value that cannot be used, so that everything is as without the annotation. Whoever has said it for all
    /// Ingresses was told already.
    fn leave_out(&mut self, name: &str, problem: &str) {
        if !self.values.contains_key(name) {
            return;
        }
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
        let is_on = switch(self.text(name)?);
        if is_on.is_none() {
            self.leave_out(name, "it is `true` or `false`");
        }
        is_on
    }

    fn note_what_is_not_taken(&mut self) {
        let names: Vec<&str> = self.values.keys().copied().collect();
        for name in names {
            match standing(name) {
                Some(Standing::Same | Standing::Remarked | Standing::Needless) => {}
                Some(Standing::Open | Standing::Closed) if asks_for_nothing(name, self.values[name]) => {}
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
