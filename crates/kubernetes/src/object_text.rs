//! Texts in which names of an Ingress and of its Services may stand. What requests bring is a placeholder in them;
//! whose Service it is, is known for each path.

use crate::reference::ServiceAtPort;
use tidegate_cluster::PortReference;
use tidegate_model::{Template, TemplatePart};

/// A text that is a template for each path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectText {
    parts: Vec<ObjectPart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectPart {
    /// A part that all paths have.
    Template(TemplatePart),
    /// Of the Service that the path leads to.
    ServiceName,
    /// As the path names it.
    ServicePort,
    /// As ingress-nginx calls the servers of the path: `shop-web-80`.
    UpstreamName,
}

impl ObjectText {
    pub fn new(parts: Vec<ObjectPart>) -> ObjectText {
        ObjectText { parts }
    }

    /// Of a path that leads to this Service, if to any.
    pub fn at(&self, service: Option<&ServiceAtPort>) -> Template {
        let mut parts: Vec<TemplatePart> = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let name = service.map(|service| &*service.service.name).unwrap_or_default();
            match part {
                ObjectPart::Template(TemplatePart::Literal(text)) => literal(&mut parts, text),
                ObjectPart::Template(part) => parts.push(part.clone()),
                ObjectPart::ServiceName => literal(&mut parts, name),
                ObjectPart::ServicePort => literal(&mut parts, &service.map(port_of).unwrap_or_default()),
                ObjectPart::UpstreamName => literal(&mut parts, &service.map(upstream_name).unwrap_or_default()),
            }
        }
        Template { parts }
    }

    /// What is in it whatever the path.
    pub fn parts(&self) -> &[ObjectPart] {
        &self.parts
    }
}

fn literal(parts: &mut Vec<TemplatePart>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(TemplatePart::Literal(known)) => known.push_str(text),
        _ => parts.push(TemplatePart::Literal(text.to_owned())),
    }
}

fn upstream_name(service: &ServiceAtPort) -> String {
    format!("{}-{}-{}", service.service.namespace, service.service.name, port_of(service))
}

fn port_of(service: &ServiceAtPort) -> String {
    match &service.port {
        PortReference::Number(number) => number.to_string(),
        PortReference::Name(name) => name.to_string(),
    }
}
