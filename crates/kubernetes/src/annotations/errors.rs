//! Who answers in the place of errors.

use super::{Annotations, listed, shortened};
use crate::ingress_names::is_label;
use crate::manner::{Manner, MannerErrors};
use crate::reference::ServiceAtPort;
use tidegate_cluster::Key;

/// On a line of a file.
const STATUSES_MAX: usize = 32;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    let service = service(annotations);
    let statuses = statuses(annotations);
    let of_servers = annotations.switch("disable-proxy-intercept-errors") != Some(true);
    manner.errors = (service.is_some() || !statuses.is_empty()).then_some(MannerErrors { statuses, of_servers, service });
}

fn service(annotations: &mut Annotations<'_>) -> Option<ServiceAtPort> {
    const NAME: &str = "default-backend";
    let written = annotations.text(NAME)?;
    let own = annotations.key.namespace.clone();
    let (namespace, name) = written.split_once('/').unwrap_or((&own, written));
    if *namespace == *own && is_label(name) {
        let service = Key { namespace: own, name: name.into() };
        return Some(ServiceAtPort { service, port: ServiceAtPort::FIRST, manner: None });
    }
    annotations.leave_out(NAME, "it is the name of a Service in the namespace of the Ingress");
    None
}

fn statuses(annotations: &mut Annotations<'_>) -> Vec<u16> {
    const NAME: &str = "custom-http-errors";
    let Some(written) = annotations.text(NAME) else { return Vec::new() };
    let mut statuses = Vec::new();
    for word in listed(written) {
        match word.parse() {
            Ok(status @ 400..=599) if statuses.len() < STATUSES_MAX => statuses.push(status),
            Ok(_) | Err(_) => {
                let problem = format!("`{}` is not taken: they are 400 to 599, at most {STATUSES_MAX}", shortened(word));
                annotations.leave_out(NAME, &problem);
            }
        }
    }
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}
