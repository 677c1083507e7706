//! Which Ingresses are ours: by the class that they name, or the class of those that name none.

use crate::finding::{Finding, FindingCode, Severity};
use crate::settings::Settings;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_cluster::{Ingress, IngressClass};

/// All classes of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Classes {
    /// Whether the class of that name is ours.
    known: BTreeMap<Arc<str>, bool>,
    /// The class of Ingresses that name none.
    default: Option<Arc<str>>,
    /// By the names of classes.
    pub findings: BTreeMap<Arc<str>, Finding>,
}

impl Classes {
    pub fn new<'c>(classes: impl Iterator<Item = (&'c Arc<str>, &'c IngressClass)>, settings: &Settings) -> Classes {
        let mut known = BTreeMap::new();
        let mut defaults: Vec<(&str, &Arc<str>)> = Vec::new();
        for (name, class) in classes {
            known.insert(name.clone(), settings.controllers.iter().any(|controller| **controller == *class.controller));
            if class.is_default {
                defaults.push((&class.created, name));
            }
        }
        defaults.sort_unstable();
        let default = defaults.first().map(|(_, name)| (*name).clone());
        let is_ours = |name: &Arc<str>| known.get(name) == Some(&true);
        let mut findings = BTreeMap::new();
        for (_, later) in defaults.iter().skip(1) {
            let Some(first) = &default else { break };
            // What others say of their classes is theirs, unless it takes something from ours.
            if is_ours(later) || is_ours(first) {
                let message = format!(
                    "`{first}` is the default class as well and was there first, so Ingresses without a class are of that one: remove one of the annotations"
                );
                let field = "metadata.annotations[ingressclass.kubernetes.io/is-default-class]".to_owned();
                let code = FindingCode::DefaultClassTwice;
                findings.insert((*later).clone(), Finding { code, severity: Severity::Warning, field, message });
            }
        }
        Classes { known, default, findings }
    }

    /// Whether the Ingress is ours to serve.
    pub fn has(&self, ingress: &Ingress, settings: &Settings) -> bool {
        let is_named = |name: &str| settings.class_names.iter().any(|ours| ours == name);
        if let Some(class) = &ingress.class {
            // What a class says of itself goes before its name.
            return self.known.get(class).copied().unwrap_or_else(|| is_named(class));
        }
        if let Some(class) = ingress.annotations.get(Ingress::CLASS_ANNOTATION) {
            return is_named(class) || self.known.get(&**class) == Some(&true);
        }
        self.default.as_ref().map_or(settings.without_class, |name| self.known.get(name) == Some(&true))
    }
}
