//! What becomes of every annotation of the Ingresses that are ours, for whoever wants to know that before they are
//! served.

use crate::annotations::{self, Standing};
use crate::finding::{Finding, FindingCode, ObjectReference};
use crate::ingress_nginx::{self, ConfigKey};
use crate::translation::Translation;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_cluster::{Ingress, Key, Kind};
use tidegate_model::Configuration;

/// All Ingresses that are ours, and what is to be said of other objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// By namespace and name.
    pub ingresses: Vec<CheckedIngress>,
    pub others: Vec<(ObjectReference, Finding)>,
    /// The ConfigMap of ingress-nginx, if there is one.
    pub config: Option<CheckedConfig>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedConfig {
    pub key: Key,
    /// Keys by name, as annotations are.
    pub keys: Vec<CheckedAnnotation>,
    /// Findings that are about no key.
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedIngress {
    pub key: Key,
    /// By name.
    pub annotations: Vec<CheckedAnnotation>,
    /// Findings that are about no annotation.
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedAnnotation {
    /// Behind the prefix.
    pub name: String,
    pub fate: Fate,
    /// What differs and what to do, in sentences without a full stop.
    pub says: Vec<String>,
}

/// What becomes of an annotation, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// As ingress-nginx has it.
    Taken,
    /// Taken, and not quite as ingress-nginx has it.
    Remarked,
    /// Nothing is to be done for it here.
    Needless,
    /// Served without it.
    LeftOut,
    /// There is none of that name, here as in ingress-nginx.
    Unknown,
    /// Nothing of its Ingress is served.
    Shut,
}

impl Fate {
    pub const ALL: [Fate; 6] = [Fate::Taken, Fate::Remarked, Fate::Needless, Fate::LeftOut, Fate::Unknown, Fate::Shut];

    /// As reports have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Fate::Taken => "taken",
            Fate::Remarked => "remarked",
            Fate::Needless => "needless",
            Fate::LeftOut => "left out",
            Fate::Unknown => "unknown",
            Fate::Shut => "shut",
        }
    }
}

impl ConfigKey {
    /// What becomes of the key where its value can be used, and asks for something.
    pub fn fate(&self) -> Fate {
        match self.standing() {
            Standing::Same => Fate::Taken,
            Standing::Remarked => Fate::Remarked,
            Standing::Needless => Fate::Needless,
            Standing::Open => Fate::LeftOut,
            Standing::Closed => Fate::Shut,
        }
    }
}

impl Translation {
    /// What is said of everything that was taken in, beside the file.
    pub fn check(&mut self, file: &Configuration) -> Checked {
        let mut of_ingresses: BTreeMap<Key, Vec<Finding>> = BTreeMap::new();
        let mut others = Vec::new();
        let mut of_config: Vec<Finding> = Vec::new();
        self.merged(file);
        for (object, finding) in self.findings() {
            match object.kind {
                Kind::Ingress => of_ingresses.entry(object.key.clone()).or_default().push(finding.clone()),
                Kind::ConfigMap if self.settings.ingress_nginx_config.as_ref() == Some(&object.key) => {
                    of_config.push(finding.clone());
                }
                Kind::Service | Kind::EndpointSlice | Kind::IngressClass | Kind::Secret | Kind::ConfigMap => {
                    others.push((object.clone(), finding.clone()));
                }
            }
        }
        let objects = self.ingresses.iter().filter_map(|(key, known)| Some((key, known.object()?)));
        let check = |(key, object): (&Key, &Arc<Ingress>)| {
            let mut said: BTreeSet<Finding> = of_ingresses.remove(key).unwrap_or_default().into_iter().collect();
            let names = annotations::named(object).map(|(name, _)| name.to_owned());
            let annotations: Vec<CheckedAnnotation> = names.map(|name| annotation(name, object, &mut said)).collect();
            CheckedIngress { key: key.clone(), annotations, findings: said.into_iter().collect() }
        };
        let ingresses = objects.map(check).collect();
        Checked { ingresses, others, config: self.checked_config(of_config) }
    }

    fn checked_config(&self, of_config: Vec<Finding>) -> Option<CheckedConfig> {
        let key = self.settings.ingress_nginx_config.clone()?;
        let map = self.maps.get(&key).and_then(|known| known.held());
        let named = map.into_iter().flat_map(|map| &map.data);
        let mut said: BTreeSet<Finding> = of_config.into_iter().collect();
        let keys = named.map(|(name, text)| config_key(name.to_string(), text, &mut said)).collect();
        Some(CheckedConfig { key, keys, findings: said.into_iter().collect() })
    }
}

impl Checked {
    /// How many annotations there are of each fate.
    pub fn counts(&self) -> BTreeMap<Fate, usize> {
        let mut counts: BTreeMap<Fate, usize> = Fate::ALL.into_iter().map(|fate| (fate, 0)).collect();
        for annotation in self.ingresses.iter().flat_map(|ingress| &ingress.annotations) {
            *counts.entry(annotation.fate).or_default() += 1;
        }
        counts
    }

    /// Whether nothing of some Ingress is served.
    pub fn has_shut(&self) -> bool {
        let is_shutting = |finding: &Finding| {
            let is_config = matches!(finding.code, FindingCode::ConfigMapMissing | FindingCode::ConfigMapUnavailable);
            finding.code == FindingCode::ProtectionUnavailable || is_config
        };
        let of_config = self
            .config
            .iter()
            .any(|config| config.keys.iter().any(|key| key.fate == Fate::Shut) || config.findings.iter().any(is_shutting));
        if of_config {
            return true;
        }
        self.ingresses.iter().any(|ingress| {
            ingress.annotations.iter().any(|annotation| annotation.fate == Fate::Shut) || ingress.findings.iter().any(is_shutting)
        })
    }
}

/// Takes what is said of it.
fn annotation(name: String, object: &Ingress, said: &mut BTreeSet<Finding>) -> CheckedAnnotation {
    let field = annotations::field(&name);
    let own: Vec<Finding> = said.extract_if(.., |finding| finding.field == field).collect();
    let usual = match annotations::standing(&name) {
        Some(Standing::Same) => Fate::Taken,
        Some(Standing::Remarked) => Fate::Remarked,
        // What is not taken and not told of asks for nothing.
        Some(Standing::Needless | Standing::Open | Standing::Closed) => Fate::Needless,
        None => Fate::Unknown,
    };
    let fate = own.iter().map(fate_of).max().unwrap_or(usual);
    let mut says: Vec<String> = own.into_iter().map(|finding| finding.message).collect();
    let of_statements = annotations::fates(object, &name);
    if fate == Fate::Remarked && of_statements.is_empty() {
        says.extend(annotations::remark(&name).map(str::to_owned));
    }
    says.extend(of_statements);
    CheckedAnnotation { name, fate, says }
}

/// Takes what is said of it.
fn config_key(name: String, text: &str, said: &mut BTreeSet<Finding>) -> CheckedAnnotation {
    let field = ingress_nginx::field(&name);
    let own: Vec<Finding> = said.extract_if(.., |finding| finding.field == field).collect();
    let known = ingress_nginx::key(&name);
    let usual = known.map_or(Fate::Unknown, |key| match key.standing() {
        Standing::Same => Fate::Taken,
        Standing::Remarked => Fate::Remarked,
        Standing::Needless | Standing::Open | Standing::Closed => Fate::Needless,
    });
    let fate = own.iter().map(fate_of).max().unwrap_or(usual);
    let mut says: Vec<String> = own.into_iter().map(|finding| finding.message).collect();
    if matches!(fate, Fate::Remarked | Fate::Needless) {
        says.extend(known.map(|known| known.remark().to_owned()).filter(|remark| !remark.is_empty()));
    }
    says.extend(annotations::fates_of_key(&name, text));
    CheckedAnnotation { name, fate, says }
}

fn fate_of(finding: &Finding) -> Fate {
    match finding.code {
        FindingCode::ProtectionUnavailable => Fate::Shut,
        FindingCode::AnnotationUnknown | FindingCode::SettingUnknown => Fate::Unknown,
        FindingCode::AnnotationNotTaken
        | FindingCode::AnnotationInvalid
        | FindingCode::SettingNotTaken
        | FindingCode::SettingInvalid
        | FindingCode::PortRefused
        | FindingCode::ConfigMapMissing
        | FindingCode::ConfigMapUnavailable
        | FindingCode::CanaryTaken
        | FindingCode::CanaryAlone => Fate::LeftOut,
        FindingCode::HostInvalid
        | FindingCode::HostTaken
        | FindingCode::TlsHostUnused
        | FindingCode::PathInvalid
        | FindingCode::PathWithStar
        | FindingCode::PathWithCode
        | FindingCode::PathTaken
        | FindingCode::DefaultBackendTaken
        | FindingCode::BackendInvalid
        | FindingCode::ResourceRefused
        | FindingCode::ServiceMissing
        | FindingCode::PortMissing
        | FindingCode::ExternalNameRefused
        | FindingCode::ServersNotVerified
        | FindingCode::SecretMissing
        | FindingCode::SecretInvalid
        | FindingCode::SecretUnavailable
        | FindingCode::CertificateMissing
        | FindingCode::CertificateTaken
        | FindingCode::CertificateForOthers
        | FindingCode::DefaultClassTwice
        | FindingCode::MoreFindings => Fate::Remarked,
    }
}
