//! An IngressClass: which controller serves Ingresses that name it.

use super::{Text, Watched, WrittenMeta};
use crate::kind::Kind;
use crate::texts::Texts;
use serde::{Deserialize, Serialize};
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

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub struct WrittenIngressClass<'w> {
    #[serde(borrow)]
    metadata: WrittenMeta<'w>,
    #[serde(borrow)]
    spec: ClassSpec<'w>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct ClassSpec<'w> {
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
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

    fn written<'o>(&'o self, meta: WrittenMeta<'o>) -> WrittenIngressClass<'o> {
        let annotations = self.is_default.then_some((IS_DEFAULT, "true"));
        let metadata = WrittenMeta { creation_timestamp: (&*self.created).into(), ..meta };
        let spec = ClassSpec { controller: (&*self.controller).into() };
        WrittenIngressClass { metadata: metadata.with_annotations(annotations.into_iter()), spec }
    }
}
