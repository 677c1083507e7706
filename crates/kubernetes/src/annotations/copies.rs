//! Who gets a copy of requests, and whose answers go to nobody.

use super::Annotations;
use crate::finding::{FindingCode, Severity};
use crate::ingress_names::is_label;
use crate::manner::{Manner, MannerMirror};
use crate::pool_manner::{MannerTls, PoolManner};
use crate::reference::{ServiceAtPort, Spoken};
use std::sync::Arc;
use tidegate_cluster::{Key, PortReference};

const TARGET: &str = "mirror-target";

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    let Some(written) = annotations.text(TARGET) else { return };
    let Some(to) = service(written, &annotations.key.namespace) else {
        return annotations.leave_out(
            TARGET,
            "copies go to a Service of the namespace of the Ingress alone, as they are: write `http://SERVICE.NAMESPACE.svc:PORT$request_uri`",
        );
    };
    let host = annotations.text("mirror-host").filter(|host| *host != "$host");
    if host.is_some() {
        let message = "copies have the host of their request: everything is served without it".to_owned();
        annotations.find("mirror-host", FindingCode::AnnotationNotTaken, Severity::Warning, message);
    }
    let has_bodies = match annotations.text("mirror-request-body") {
        None | Some("on") => true,
        Some("off") => false,
        Some(_) => {
            annotations.leave_out("mirror-request-body", "it is `on` or `off`");
            true
        }
    };
    // Whoever gets copies is verified as servers are, under its own name.
    let spoken = to.manner.as_ref().and_then(|wanted| wanted.spoken);
    let wanted = PoolManner { spoken, tls: MannerTls { name: None, ..manner.pool.tls.clone() }, ..PoolManner::default() };
    let to = ServiceAtPort { manner: (wanted != PoolManner::default()).then(|| Arc::new(wanted)), ..to };
    manner.mirror = Some(MannerMirror { to, has_bodies });
}

/// `http://web.shop.svc.cluster.local:8080/$request_uri`
fn service(written: &str, own: &str) -> Option<ServiceAtPort> {
    let (spoken, usual, rest) = match (written.strip_prefix("http://"), written.strip_prefix("https://")) {
        (Some(rest), _) => (None, 80, rest),
        (None, Some(rest)) => (Some(Spoken::Tls), 443, rest),
        (None, None) => return None,
    };
    let rest = rest.strip_suffix("$request_uri").map_or(rest, |rest| rest.strip_suffix('/').unwrap_or(rest));
    let (host, port) = match rest.split_once(':') {
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
        None => (rest, usual),
    };
    let mut labels = host.split('.');
    let name = labels.next().filter(|name| is_label(name))?;
    let behind: Vec<&str> = labels.collect();
    match behind[..] {
        [] | [_] | [_, "svc"] | [_, "svc", "cluster", "local"] if behind.first().is_none_or(|namespace| *namespace == own) => {}
        _ => return None,
    }
    let manner = spoken.map(|spoken| Arc::new(PoolManner { spoken: Some(spoken), ..PoolManner::default() }));
    Some(ServiceAtPort { service: Key::new(own, name), port: PortReference::Number(port), manner })
}

#[cfg(test)]
mod tests {
    use super::service;

    #[test]
    fn targets_are_services_of_the_namespace() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(service(text, "shop").map(|to| to.to_string()).as_deref(), expected, "{text}");
        };
        check("http://copy.shop.svc.cluster.local:8080$request_uri", Some("shop/copy:8080"));
        check("http://copy.shop.svc/$request_uri", Some("shop/copy:80"));
        check("http://copy", Some("shop/copy:80"));
        check("https://copy.shop", Some("shop/copy:443#https"));
        check("http://copy.blog.svc", None);
        check("https://test.example.com/$request_uri", None);
        check("http://copy.shop.svc/other", None);
        check("http://copy.shop.svc:0", None);
        check("http://10.0.0.1/", None);
        check("copy.shop.svc", None);
    }
}
