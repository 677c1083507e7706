//! What is written, as the API has it, and where. Pure.

use super::events::EventWrite;
use super::lease::{LASTS, LeaseFound, LeaseWrite};
use super::statuses::StatusWrite;
use crate::fault::Fault;
use crate::kind::Kind;
use crate::object::Key;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::IpAddr;

/// Of who says an Event.
const INSTANCE_CHARACTERS_MAX: usize = 128;

/// A change: how, where and what.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub method: Method,
    pub path: String,
    pub body: Value,
}

pub fn lease_path(lease: &Key) -> String {
    format!("{}/{}", leases(lease), lease.name)
}

fn leases(lease: &Key) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", lease.namespace)
}

/// A merge leaves labels and whatever else others have put on it.
pub fn lease_change(lease: &Key, write: &LeaseWrite, now: &str) -> Change {
    let LeaseWrite { version, holder, acquired, transitions } = write;
    let spec = json!({
        // Nobody is no name.
        "holderIdentity": Some(holder).filter(|holder| !holder.is_empty()),
        "leaseDurationSeconds": LASTS.as_secs(),
        "acquireTime": acquired.as_deref().unwrap_or(now),
        "renewTime": now,
        "leaseTransitions": transitions,
    });
    match version {
        Some(version) => {
            let body = json!({"metadata": {"resourceVersion": version}, "spec": spec});
            Change { method: Method::PATCH, path: lease_path(lease), body }
        }
        None => {
            let metadata = json!({"namespace": &*lease.namespace, "name": &*lease.name});
            let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec});
            Change { method: Method::POST, path: leases(lease), body }
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenObject {
    metadata: ObjectMeta,
    spec: LeaseSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObjectMeta {
    resource_version: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LeaseSpec {
    holder_identity: Option<Box<str>>,
    acquire_time: Option<Box<str>>,
    renew_time: Option<Box<str>>,
    lease_transitions: Option<u32>,
}

pub fn lease_found(answer: &[u8]) -> Result<LeaseFound, Fault> {
    let WrittenObject { metadata, spec } = object(answer)?;
    Ok(LeaseFound {
        version: metadata.resource_version,
        holder: spec.holder_identity.unwrap_or_default(),
        acquired: spec.acquire_time,
        renewed: spec.renew_time,
        transitions: spec.lease_transitions.unwrap_or_default(),
    })
}

pub fn status_change(write: &StatusWrite) -> Change {
    let StatusWrite { key, version, addresses } = write;
    let path = format!("{}/{}/status", Kind::Ingress.path(Some(&key.namespace)), key.name);
    let entry = |address: &str| match address.parse::<IpAddr>() {
        Ok(_) => json!({"ip": address}),
        Err(_) => json!({"hostname": address}),
    };
    // In a merge `null` takes a field away.
    let entries = if addresses.is_empty() { Value::Null } else { addresses.iter().map(|address| entry(address)).collect() };
    let body = json!({"metadata": {"resourceVersion": version}, "status": {"loadBalancer": {"ingress": entries}}});
    Change { method: Method::PATCH, path, body }
}

/// The version that an object has after a change.
pub fn version_after(answer: &[u8]) -> Result<Box<str>, Fault> {
    object(answer).map(|object| object.metadata.resource_version)
}

/// `controller` is who says it, `instance` which process.
pub fn event_change(write: &EventWrite, controller: &str, instance: &str, now: &str) -> Change {
    let key = write.key();
    // What belongs to no namespace is spoken of in this one.
    let namespace = if key.namespace.is_empty() { "default" } else { &*key.namespace };
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    if write.count > 1 {
        let body = json!({"series": {"count": write.count, "lastObservedTime": now}});
        return Change { method: Method::PATCH, path: format!("{path}/{}", write.name), body };
    }
    let mut regarding = json!({"apiVersion": write.kind().api_version(), "kind": write.kind().name(), "name": &*key.name});
    if !key.namespace.is_empty() {
        regarding["namespace"] = (*key.namespace).into();
    }
    if !write.uid.is_empty() {
        regarding["uid"] = (*write.uid).into();
    }
    let instance: String = instance.chars().take(INSTANCE_CHARACTERS_MAX).collect();
    let body = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": namespace, "name": write.name},
        "eventTime": now,
        "reportingController": controller,
        "reportingInstance": instance,
        "action": "Translate",
        "reason": write.reason(),
        "type": if write.is_warning { "Warning" } else { "Normal" },
        "regarding": regarding,
        "note": write.note,
    });
    Change { method: Method::POST, path, body }
}

fn object(answer: &[u8]) -> Result<WrittenObject, Fault> {
    serde_json::from_slice(answer).map_err(|error| Fault::Unreadable {
        problem: format!("something else than the object at line {} column {}", error.line(), error.column()),
    })
}

#[cfg(test)]
mod tests {
    use super::{lease_change, lease_found, status_change};
    use crate::object::Key;
    use crate::writer::lease::{LeaseFound, LeaseWrite};
    use crate::writer::statuses::StatusWrite;
    use serde_json::{Value, json};

    #[test]
    fn a_status_names_addresses_and_hosts() {
        let check = |addresses: &[&str], expected: Value| {
            let addresses = addresses.iter().map(|address| Box::from(*address)).collect();
            let change = status_change(&StatusWrite { key: Key::new("shop", "web"), version: "7".into(), addresses });
            assert_eq!(change.path, "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web/status");
            assert_eq!(change.body["metadata"]["resourceVersion"], "7");
            assert_eq!(change.body["status"]["loadBalancer"]["ingress"], expected);
        };
        check(&["203.0.113.1", "2001:db8::1"], json!([{"ip": "203.0.113.1"}, {"ip": "2001:db8::1"}]));
        check(&["lb.example"], json!([{"hostname": "lb.example"}]));
        check(&[], Value::Null);
    }

    #[test]
    fn a_lease_is_made_or_changed() {
        let lease = Key::new("edge", "tidegate");
        let check = |version: Option<&str>, expected: (&str, &str)| {
            let write = LeaseWrite { version: version.map(Into::into), holder: "a".into(), acquired: None, transitions: 2 };
            let change = lease_change(&lease, &write, "now");
            assert_eq!((change.method.as_str(), &*change.path), expected);
            let mut answer = change.body.clone();
            answer["metadata"]["resourceVersion"] = "9".into();
            let found = LeaseFound {
                version: "9".into(),
                holder: "a".into(),
                acquired: Some("now".into()),
                renewed: Some("now".into()),
                transitions: 2,
            };
            assert_eq!(lease_found(answer.to_string().as_bytes()), Ok(found));
        };
        check(None, ("POST", "/apis/coordination.k8s.io/v1/namespaces/edge/leases"));
        check(Some("7"), ("PATCH", "/apis/coordination.k8s.io/v1/namespaces/edge/leases/tidegate"));
        assert_eq!(lease_found(b"{}"), Ok(LeaseFound::default()));
        assert!(lease_found(b"[").is_err());
    }
}
