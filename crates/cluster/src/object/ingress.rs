//! An Ingress: which hosts and paths go to which Services, with which certificates. What annotations mean is not known
//! here.

use super::{Listed, LoadBalancerStatus, PortReference, Text, Watched, WrittenMeta};
use crate::kind::Kind;
use crate::texts::Texts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Annotations that are kept: those that begin so, and one by its name. Others change for reasons of other programs,
/// and one of them repeats the whole object.
const ANNOTATIONS_BEGIN: [&str; 2] = ["nginx.ingress.kubernetes.io/", "tidegate.dev/"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingress {
    /// When it was created, as the API writes it: RFC 3339 in UTC, so that texts are in order of time.
    pub created: Box<str>,
    /// What no other object has or had.
    pub uid: Box<str>,
    /// Another one for each change of what is asked for, and not of the status.
    pub generation: u64,
    /// `spec.ingressClassName`.
    pub class: Option<Arc<str>>,
    pub annotations: BTreeMap<Arc<str>, Box<str>>,
    /// Where requests go that no rule takes.
    pub default_backend: Option<Backend>,
    pub rules: Box<[Rule]>,
    pub tls: Box<[IngressTls]>,
    /// Addresses and names that its status has.
    pub addresses: Box<[Box<str>]>,
}

impl Ingress {
    /// By which Ingresses named their class before there were classes.
    pub const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

    /// The class that it names, in one way or the other.
    pub fn named_class(&self) -> Option<&str> {
        self.class.as_deref().or_else(|| self.annotations.get(Ingress::CLASS_ANNOTATION).map(|class| &**class))
    }
}

/// Paths of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// `None` is every host.
    pub host: Option<Arc<str>>,
    pub paths: Box<[RulePath]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulePath {
    /// Empty is as `/`.
    pub path: Box<str>,
    pub kind: PathKind,
    pub backend: Backend,
}

/// How a path is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathKind {
    Exact,
    /// By elements: `/foo` takes `/foo/bar` and not `/foobar`.
    Prefix,
    /// As the controller likes.
    ImplementationSpecific,
}

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    Service {
        name: Arc<str>,
        port: PortReference,
    },
    /// An object of another kind, by its kind and name.
    Resource {
        kind: Box<str>,
        name: Box<str>,
    },
    /// Something that is neither, or not whole.
    Unknown,
}

/// The certificate of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressTls {
    /// Empty is all hosts of the Ingress.
    pub hosts: Box<[Arc<str>]>,
    /// `None` is the default certificate.
    pub secret: Option<Arc<str>>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub struct WrittenIngress<'w> {
    #[serde(borrow)]
    metadata: WrittenMeta<'w>,
    #[serde(borrow)]
    spec: IngressSpec<'w>,
    #[serde(borrow)]
    status: LoadBalancerStatus<'w>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct IngressSpec<'w> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    ingress_class_name: Option<Text<'w>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    default_backend: Option<WrittenBackend<'w>>,
    #[serde(borrow, skip_serializing_if = "Listed::is_empty")]
    rules: Listed<WrittenRule<'w>>,
    #[serde(borrow, skip_serializing_if = "Listed::is_empty")]
    tls: Listed<WrittenTls<'w>>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct WrittenRule<'w> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    host: Option<Text<'w>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    http: Option<WrittenPaths<'w>>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct WrittenPaths<'w> {
    #[serde(borrow, skip_serializing_if = "Listed::is_empty")]
    paths: Listed<WrittenPath<'w>>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenPath<'w> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    path: Option<Text<'w>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    path_type: Option<Text<'w>>,
    #[serde(borrow)]
    backend: WrittenBackend<'w>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct WrittenBackend<'w> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    service: Option<WrittenServiceBackend<'w>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    resource: Option<WrittenResource<'w>>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct WrittenServiceBackend<'w> {
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    name: Text<'w>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    port: Option<WrittenBackendPort<'w>>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct WrittenBackendPort<'w> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    name: Option<Text<'w>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u16>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct WrittenResource<'w> {
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    kind: Text<'w>,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    name: Text<'w>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenTls<'w> {
    #[serde(borrow, skip_serializing_if = "Listed::is_empty")]
    hosts: Listed<Text<'w>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    secret_name: Option<Text<'w>>,
}

impl WrittenBackend<'_> {
    fn kept(&self, texts: &mut Texts) -> Backend {
        match (&self.service, &self.resource) {
            (Some(service), None) if !service.name.is_empty() => {
                let port = service.port.as_ref();
                let named = || port?.name.as_deref().filter(|name| !name.is_empty());
                let port = match (port.and_then(|port| port.number), named()) {
                    (Some(number), None) if number != 0 => PortReference::Number(number),
                    (None | Some(0), Some(name)) => PortReference::Name(texts.shared(name)),
                    (Some(_) | None, Some(_) | None) => return Backend::Unknown,
                };
                Backend::Service { name: texts.shared(&service.name), port }
            }
            (None, Some(resource)) => Backend::Resource { kind: (&*resource.kind).into(), name: (&*resource.name).into() },
            (Some(_) | None, Some(_) | None) => Backend::Unknown,
        }
    }
}

impl Backend {
    fn written(&self) -> WrittenBackend<'_> {
        match self {
            Backend::Service { name, port } => {
                let port = match port {
                    PortReference::Number(number) => WrittenBackendPort { name: None, number: Some(*number) },
                    PortReference::Name(name) => WrittenBackendPort { name: Some((&**name).into()), number: None },
                };
                let service = WrittenServiceBackend { name: (&**name).into(), port: Some(port) };
                WrittenBackend { service: Some(service), resource: None }
            }
            Backend::Resource { kind, name } => {
                let resource = WrittenResource { kind: (&**kind).into(), name: (&**name).into() };
                WrittenBackend { service: None, resource: Some(resource) }
            }
            Backend::Unknown => WrittenBackend::default(),
        }
    }
}

impl RulePath {
    fn written(&self) -> WrittenPath<'_> {
        let kind = match self.kind {
            PathKind::Exact => "Exact",
            PathKind::Prefix => "Prefix",
            PathKind::ImplementationSpecific => "ImplementationSpecific",
        };
        WrittenPath { path: Some((&*self.path).into()), path_type: Some(kind.into()), backend: self.backend.written() }
    }
}

impl WrittenPath<'_> {
    fn kept(&self, texts: &mut Texts) -> RulePath {
        let kind = match self.path_type.as_deref() {
            Some("Exact") => PathKind::Exact,
            Some("Prefix") => PathKind::Prefix,
            Some(_) | None => PathKind::ImplementationSpecific,
        };
        RulePath { path: self.path.as_deref().unwrap_or_default().into(), kind, backend: self.backend.kept(texts) }
    }
}

impl Watched for Ingress {
    const KIND: Kind = Kind::Ingress;
    type Written<'w> = WrittenIngress<'w>;

    fn meta<'m>(written: &'m WrittenIngress<'_>) -> &'m WrittenMeta<'m> {
        &written.metadata
    }

    fn kept(WrittenIngress { metadata, spec, status }: &WrittenIngress<'_>, texts: &mut Texts) -> Ingress {
        let is_kept =
            |name: &str| name == Ingress::CLASS_ANNOTATION || ANNOTATIONS_BEGIN.iter().any(|begin| name.starts_with(begin));
        let annotations = metadata.annotations().filter(|(name, _)| is_kept(name));
        let annotations = annotations.map(|(name, value)| (texts.shared(name), value.into())).collect();
        let mut rule = |rule: &WrittenRule<'_>| Rule {
            host: rule.host.as_deref().filter(|host| !host.is_empty()).map(|host| texts.shared(host)),
            paths: rule.http.iter().flat_map(|http| http.paths.iter()).map(|path| path.kept(texts)).collect(),
        };
        let rules = spec.rules.iter().map(&mut rule).collect();
        let mut tls = |tls: &WrittenTls<'_>| IngressTls {
            hosts: tls.hosts.iter().map(|host| texts.shared(host)).collect(),
            secret: tls.secret_name.as_deref().filter(|name| !name.is_empty()).map(|name| texts.shared(name)),
        };
        let tls = spec.tls.iter().map(&mut tls).collect();
        Ingress {
            created: (&*metadata.creation_timestamp).into(),
            uid: (&*metadata.uid).into(),
            generation: metadata.generation,
            class: spec.ingress_class_name.as_deref().map(|class| texts.shared(class)),
            annotations,
            default_backend: spec.default_backend.as_ref().map(|backend| backend.kept(texts)),
            rules,
            tls,
            addresses: status.addresses(),
        }
    }

    fn written<'o>(&'o self, meta: WrittenMeta<'o>) -> WrittenIngress<'o> {
        let meta = meta.with_annotations(self.annotations.iter().map(|(name, value)| (&**name, &**value)));
        let rule = |rule: &'o Rule| WrittenRule {
            host: rule.host.as_deref().map(Into::into),
            http: Some(WrittenPaths { paths: rule.paths.iter().map(RulePath::written).collect() }),
        };
        let tls = |tls: &'o IngressTls| WrittenTls {
            hosts: tls.hosts.iter().map(|host| Text::from(&**host)).collect(),
            secret_name: tls.secret.as_deref().map(Into::into),
        };
        WrittenIngress {
            metadata: WrittenMeta {
                creation_timestamp: (&*self.created).into(),
                uid: (&*self.uid).into(),
                generation: self.generation,
                ..meta
            },
            spec: IngressSpec {
                ingress_class_name: self.class.as_deref().map(Into::into),
                default_backend: self.default_backend.as_ref().map(Backend::written),
                rules: self.rules.iter().map(rule).collect(),
                tls: self.tls.iter().map(tls).collect(),
            },
            status: LoadBalancerStatus::of(&self.addresses),
        }
    }
}
