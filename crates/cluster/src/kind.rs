//! The kinds of objects that are followed, and where the API has them.

use std::sync::Arc;
use tidegate_model::discover::Namespaces;

/// What is followed by itself: one namespace; `None` is everything.
pub type Part = Option<Arc<str>>;

/// A kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Service,
    EndpointSlice,
    Ingress,
    IngressClass,
    Secret,
    ConfigMap,
}

impl Kind {
    pub const ALL: [Kind; 6] =
        [Kind::Service, Kind::EndpointSlice, Kind::Ingress, Kind::IngressClass, Kind::Secret, Kind::ConfigMap];

    /// As its objects call themselves, and as messages name it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Service => "Service",
            Kind::EndpointSlice => "EndpointSlice",
            Kind::Ingress => "Ingress",
            Kind::IngressClass => "IngressClass",
            Kind::Secret => "Secret",
            Kind::ConfigMap => "ConfigMap",
        }
    }

    /// The path of its group and version.
    fn group_path(self) -> &'static str {
        match self {
            Kind::Service | Kind::Secret | Kind::ConfigMap => "/api/v1",
            Kind::EndpointSlice => "/apis/discovery.k8s.io/v1",
            Kind::Ingress | Kind::IngressClass => "/apis/networking.k8s.io/v1",
        }
    }

    /// Group and version, as its objects name them.
    pub fn api_version(self) -> &'static str {
        let path = self.group_path();
        path.strip_prefix("/apis/").or_else(|| path.strip_prefix("/api/")).unwrap_or(path)
    }

    /// As paths and rules of RBAC name it.
    pub fn plural(self) -> &'static str {
        match self {
            Kind::Service => "services",
            Kind::EndpointSlice => "endpointslices",
            Kind::Ingress => "ingresses",
            Kind::IngressClass => "ingressclasses",
            Kind::Secret => "secrets",
            Kind::ConfigMap => "configmaps",
        }
    }

    /// Whether its objects are in namespaces.
    pub fn is_namespaced(self) -> bool {
        match self {
            Kind::Service | Kind::EndpointSlice | Kind::Ingress | Kind::Secret | Kind::ConfigMap => true,
            Kind::IngressClass => false,
        }
    }

    /// Whether nothing can be served without it. Another one that may not be seen is empty, and the rest runs; but
    /// who knows no Service or no server would answer 503 for everything that others still serve.
    pub fn is_needed(self) -> bool {
        match self {
            Kind::Service | Kind::EndpointSlice => true,
            Kind::Ingress | Kind::IngressClass | Kind::Secret | Kind::ConfigMap => false,
        }
    }

    /// What is followed by itself: each namespace, or everything.
    pub fn parts(self, namespaces: &Namespaces) -> Vec<Part> {
        match namespaces {
            Namespaces::Named(names) if self.is_namespaced() => names.iter().map(|name| Some(name.as_str().into())).collect(),
            Namespaces::Named(_) | Namespaces::All => vec![None],
        }
    }

    /// Whether only that its objects are there, and in which version, is listed and watched. What is in them is fetched
    /// one by one: nobody who refers to one key needs all keys of the cluster.
    pub fn is_by_metadata(self) -> bool {
        match self {
            Kind::Secret | Kind::ConfigMap => true,
            Kind::Service | Kind::EndpointSlice | Kind::Ingress | Kind::IngressClass => false,
        }
    }

    /// The path of its objects, of one namespace or of all.
    pub fn path(self, namespace: Option<&str>) -> String {
        let (group, plural) = (self.group_path(), self.plural());
        match namespace.filter(|_| self.is_namespaced()) {
            None => format!("{group}/{plural}"),
            Some(namespace) => format!("{group}/namespaces/{namespace}/{plural}"),
        }
    }
}
