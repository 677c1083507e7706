//! An IngressClass: which controller serves Ingresses that name it.

use super::{Text, Watched, WrittenMeta};
use crate::kind::Kind;
use crate::texts::Texts;
use serde::Deserialize;
use std::sync::Arc;

/// The annotation of the class that Ingresses have which name none.
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressClass {
    /// When it was created, as the API writes it.
    pub created: Box<str>,
    /// As `tidegate.dev/ingress`.
    pub controller: Arc<str>,
    /// Whether Ingresses without a class are of this one.
    pub is_default: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct WrittenIngressClass<'w> {
    #[serde(borrow)]
    metadata: WrittenMeta<'w>,
    #[serde(borrow)]
    spec: ClassSpec<'w>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClassSpec<'w> {
    #[serde(borrow)]
    controller: Text<'w>,
}

impl Watched for IngressClass {
    const KIND: Kind = Kind::IngressClass;
    type Written<'w> = WrittenIngressClass<'w>;

    fn meta<'m>(written: &'m WrittenIngressClass<'_>) -> &'m WrittenMeta<'m> {
        &written.metadata
    }

    fn kept(written: &WrittenIngressClass<'_>, texts: &mut Texts) -> IngressClass {
        let WrittenIngressClass { metadata, spec } = written;
        let is_default = metadata.annotations().any(|(name, value)| name == IS_DEFAULT && value == "true");
        let created = (&*metadata.creation_timestamp).into();
        IngressClass { created, controller: texts.shared(&spec.controller), is_default }
    }
}
