//! Locks as Leases (coordination.k8s.io/v1). Each change names the version of the object that it changes, so of several
//! at once the server carries out one. Times in a Lease are for people: whether it is stale is judged by its changing,
//! not by its clock.

use super::{KubernetesShared, Metadata, object_name};
use crate::fault::Problem;
use crate::key::Key;
use crate::lease::{LEASE, Renewal};
use crate::owner::Owner;
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Something else than us may touch a Lease, such as a tool that adds a label; its version is then another, and it is
/// still ours.
const ATTEMPTS_MAX: u32 = 3;

#[derive(Deserialize)]
struct LeaseObject {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    holder_identity: Option<String>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    lease_transitions: Option<u32>,
}

/// `None`: somebody else has it, or was quicker.
pub(super) async fn try_take(
    shared: &Arc<KubernetesShared>,
    name: &Key,
    clock: impl Fn() -> Duration,
) -> Result<Option<KubernetesLease>, Problem> {
    let holder = Owner::here().to_text();
    let mut lease = KubernetesLease {
        shared: shared.clone(),
        name: name.clone(),
        holder,
        acquired: time_text(),
        transitions: 0,
        version: String::new(),
    };
    let found = shared.api.send(Method::GET, &lease.path(), None).await?;
    let answer = if found.status == StatusCode::NOT_FOUND {
        shared.api.send(Method::POST, &shared.api.leases(), Some(&lease.object(None))).await?
    } else {
        let found: LeaseObject = found.object()?;
        shared.check_is_ours(&found.metadata, name)?;
        if !is_free(shared, name, &found, clock()) {
            return Ok(None);
        }
        lease.transitions = found.spec.lease_transitions.unwrap_or_default().saturating_add(1);
        shared.api.send(Method::PUT, &lease.path(), Some(&lease.object(Some(&found.metadata.resource_version)))).await?
    };
    match answer.status {
        StatusCode::CONFLICT => Ok(None),
        StatusCode::NOT_FOUND if !answer.is_about("namespaces") => Ok(None),
        _ => {
            lease.version = answer.object::<LeaseObject>()?.metadata.resource_version;
            forget(shared, name);
            Ok(Some(lease))
        }
    }
}

pub(super) async fn holder(shared: &KubernetesShared, name: &Key) -> Result<Option<Owner>, Problem> {
    let found = shared.api.send(Method::GET, &path(shared, name), None).await?;
    if found.status == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    let found: LeaseObject = found.object()?;
    Ok(found.spec.holder_identity.and_then(|holder| Owner::parse(&holder)))
}

/// Held by nobody, by a process that is gone, or by somebody who showed no sign of life for a lease.
fn is_free(shared: &KubernetesShared, name: &Key, found: &LeaseObject, now: Duration) -> bool {
    let spec = &found.spec;
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    if holder.is_empty() || Owner::parse(holder).is_some_and(|owner| owner.is_gone()) {
        return true;
    }
    let sign_of_life = format!("{holder} {:?} {:?}", spec.renew_time, spec.acquire_time);
    let mut observations = shared.observations.lock().unwrap_or_else(PoisonError::into_inner);
    observations.is_stale(name.as_str(), &sign_of_life, LEASE, now)
}

fn forget(shared: &KubernetesShared, name: &Key) {
    shared.observations.lock().unwrap_or_else(PoisonError::into_inner).forget(name.as_str());
}

/// A lock in Kubernetes that this process holds.
#[derive(Debug)]
pub(crate) struct KubernetesLease {
    shared: Arc<KubernetesShared>,
    name: Key,
    holder: String,
    acquired: String,
    transitions: u32,
    /// Of the object, when we changed it last.
    version: String,
}

impl KubernetesLease {
    pub(crate) async fn renew(&mut self) -> Result<Renewal, Problem> {
        for _ in 0..ATTEMPTS_MAX {
            let object = self.object(Some(&self.version));
            let answer = self.shared.api.send(Method::PUT, &self.path(), Some(&object)).await?;
            match answer.status {
                StatusCode::NOT_FOUND => return Ok(Renewal::Lost),
                StatusCode::CONFLICT => {
                    let Some(version) = self.version_if_ours().await? else {
                        return Ok(Renewal::Lost);
                    };
                    self.version = version;
                }
                _ => {
                    self.version = answer.object::<LeaseObject>()?.metadata.resource_version;
                    return Ok(Renewal::Renewed);
                }
            }
        }
        Err(Problem::Busy { text: "others change it all the time".into() })
    }

    pub(crate) async fn release(self) -> Result<(), Problem> {
        let mut version = self.version.clone();
        for _ in 0..ATTEMPTS_MAX {
            let only_this = json!({
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": { "resourceVersion": version },
            });
            let answer = self.shared.api.send(Method::DELETE, &self.path(), Some(&only_this)).await?;
            match answer.status {
                StatusCode::NOT_FOUND => return Ok(()),
                StatusCode::CONFLICT => match self.version_if_ours().await? {
                    Some(now) => version = now,
                    // Somebody took it over: then it is not ours to give back.
                    None => return Ok(()),
                },
                _ => return answer.succeeded(),
            }
        }
        Err(Problem::Busy { text: "others change it all the time".into() })
    }

    async fn version_if_ours(&self) -> Result<Option<String>, Problem> {
        let found = self.shared.api.send(Method::GET, &self.path(), None).await?;
        if found.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let found: LeaseObject = found.object()?;
        let is_ours = found.spec.holder_identity.as_ref() == Some(&self.holder);
        Ok(is_ours.then_some(found.metadata.resource_version))
    }

    fn object(&self, version: Option<&str>) -> serde_json::Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": self.shared.metadata(&object_name(&self.shared.prefix, &self.name), &self.name, version),
            "spec": {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": LEASE.as_secs(),
                "acquireTime": self.acquired,
                "renewTime": time_text(),
                "leaseTransitions": self.transitions,
            },
        })
    }

    fn path(&self) -> String {
        path(&self.shared, &self.name)
    }
}

fn path(shared: &KubernetesShared, name: &Key) -> String {
    format!("{}/{}", shared.api.leases(), object_name(&shared.prefix, name))
}

/// Kubernetes' `MicroTime`.
fn time_text() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
