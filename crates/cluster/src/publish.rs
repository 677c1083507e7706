//! Where clients reach us from outside, as statuses of objects tell it. Pure.

use crate::object::{Key, Service};

/// Where the addresses come from that statuses have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Publish {
    /// Nobody says; statuses stay as they are.
    Nothing,
    Addresses(Vec<Box<str>>),
    /// A Service that stands in front of us, by its addresses.
    Service(Key),
}

/// The addresses and names of a Service for who comes from outside. `None` where it has none so far: what was told of
/// it before stands, since others make records of DNS of it.
pub fn addresses(service: &Service) -> Option<Vec<Box<str>>> {
    if let Some(name) = &service.external_name {
        return Some(vec![(&**name).into()]);
    }
    let mut addresses: Vec<Box<str>> = Vec::new();
    for address in service.addresses.iter().chain(&service.external_ips) {
        if !addresses.contains(address) {
            addresses.push(address.clone());
        }
    }
    if addresses.is_empty() && !service.is_load_balanced {
        addresses.extend(service.cluster_ips.iter().map(|ip| Box::from(ip.to_string())));
    }
    (!addresses.is_empty()).then_some(addresses)
}

#[cfg(test)]
mod tests {
    use super::addresses;
    use crate::object::Service;
    use crate::page::{Line, line};
    use crate::texts::Texts;

    #[test]
    fn a_service_is_reached_by_its_load_balancer_or_else_by_its_own_address() {
        let check = |spec: &str, ingress: &str, expected: Option<&[&str]>| {
            let text = format!(
                r#"{{"type":"ADDED","object":{{"metadata":{{"name":"a","namespace":"b"}},"spec":{spec},"status":{{"loadBalancer":{{"ingress":{ingress}}}}}}}}}"#
            );
            let Ok(Line::Put(found)) = line::<Service>(text.as_bytes(), &mut Texts::default()) else { panic!("{text}") };
            let seen = addresses(&found.object);
            let expected = expected.map(|texts| texts.iter().map(|text| Box::from(*text)).collect::<Vec<Box<str>>>());
            assert_eq!(seen, expected, "{spec} {ingress}");
        };
        let balanced = r#"{"type":"LoadBalancer","clusterIP":"10.0.0.1"}"#;
        check(balanced, "null", None);
        check(balanced, r#"[{"ip":"203.0.113.1"},{"hostname":"lb.example"}]"#, Some(&["203.0.113.1", "lb.example"]));
        let external = r#"{"type":"LoadBalancer","clusterIP":"10.0.0.1","externalIPs":["203.0.113.9","203.0.113.1"]}"#;
        check(external, r#"[{"ip":"203.0.113.1"}]"#, Some(&["203.0.113.1", "203.0.113.9"]));
        check(r#"{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","fd00::1"]}"#, "null", Some(&["10.0.0.1", "fd00::1"]));
        check(r#"{"type":"NodePort","clusterIP":"10.0.0.1"}"#, "null", Some(&["10.0.0.1"]));
        check(r#"{"clusterIP":"None"}"#, "null", None);
        check(r#"{"type":"ExternalName","externalName":"lb.example"}"#, "null", Some(&["lb.example"]));
    }
}
