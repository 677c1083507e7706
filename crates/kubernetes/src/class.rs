//! Which Ingresses are ours: by the class that they name, or the class of those that name none.

use crate::finding::{Finding, FindingCode, Severity};
use crate::settings::Settings;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_cluster::{Ingress, IngressClass};

/// Whose defaults hold for an Ingress of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassOf {
    Tidegate,
    IngressNginx,
}

/// All classes of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Classes {
    /// Whose the class of that name is, if it is ours to serve.
    known: BTreeMap<Arc<str>, Option<ClassOf>>,
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
            let is_ours = settings.controllers.iter().any(|controller| **controller == *class.controller);
            known.insert(name.clone(), is_ours.then(|| ClassOf::controller(&class.controller)));
            if class.is_default {
                defaults.push((&class.created, name));
            }
        }
        defaults.sort_unstable();
        let default = defaults.first().map(|(_, name)| (*name).clone());
        let is_ours = |name: &Arc<str>| matches!(known.get(name), Some(Some(_)));
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

    /// Whose the Ingress is, if it is ours to serve.
    pub fn of(&self, ingress: &Ingress, settings: &Settings) -> Option<ClassOf> {
        let by_name = |name: &str| settings.class_names.iter().any(|ours| ours == name).then(|| ClassOf::unread(settings));
        if let Some(class) = &ingress.class {
            // What a class says of itself goes before its name.
            return self.known.get(class).copied().unwrap_or_else(|| by_name(class));
        }
        if let Some(class) = ingress.annotations.get(Ingress::CLASS_ANNOTATION) {
            return self.known.get(&**class).copied().flatten().or_else(|| by_name(class));
        }
        match &self.default {
            Some(name) => self.known.get(name).copied().flatten(),
            None => settings.without_class.then(|| ClassOf::unread(settings)),
        }
    }
}

impl ClassOf {
    fn controller(name: &str) -> ClassOf {
        if Settings::is_of_ingress_nginx(name) { ClassOf::IngressNginx } else { ClassOf::Tidegate }
    }

    /// Of a class that cannot be read: who takes classes of ingress-nginx over means one of these.
    fn unread(settings: &Settings) -> ClassOf {
        let takes_over = settings.controllers.iter().any(|controller| Settings::is_of_ingress_nginx(controller));
        if takes_over { ClassOf::IngressNginx } else { ClassOf::Tidegate }
    }
}
