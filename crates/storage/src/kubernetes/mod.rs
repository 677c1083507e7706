//! The store in Kubernetes: each value is a Secret of one namespace, and each lock a Lease beside it. `kube` is
//! deliberately not used: its types of the whole API take minutes to compile, and what is needed here are six requests.
//! They are in `api`; locks are in `leases`.

mod api;
mod leases;

pub(crate) use leases::KubernetesLease;

use crate::fault::{Problem, StorageFault};
use crate::key::Key;
use crate::observed::Observations;
use crate::owner::Owner;
use crate::{KEYS_LISTED_MAX, VALUE_BYTES_MAX};
use api::{Api, Metadata};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tidegate_model::KubernetesStorage;

/// The label that all objects of a store have, with its prefix as the value, and the annotation with what the name is
/// too short for.
const STORE_LABEL: &str = "tidegate/store";
const KEY_ANNOTATION: &str = "tidegate/key";
/// The one entry in a secret's data.
const VALUE: &str = "value";
/// Others write the same key at the same moment; each round, one of all succeeds.
const WRITE_ATTEMPTS_MAX: u32 = 8;
const PAGE_OBJECTS: u32 = 250;
/// A listing of many pages is begun again when the server has forgotten what it was a listing of.
const LIST_ATTEMPTS_MAX: u32 = 3;
/// Names may have 253 characters; of a key they show so many, for people, and its digest makes them unique.
const READABLE_BYTES_MAX: usize = 100;
/// The longest prefix: it is the value of a label too, which has no more.
const PREFIX_BYTES_MAX: usize = 63;

#[derive(Debug)]
pub(crate) struct Kubernetes {
    shared: Arc<KubernetesShared>,
}

#[derive(Debug)]
struct KubernetesShared {
    api: Api,
    prefix: String,
    observations: Mutex<Observations>,
}

#[derive(Deserialize)]
struct SecretObject {
    metadata: Metadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

/// Without the values, which a listing does not need.
#[derive(Deserialize)]
struct MetadataObject {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct MetadataList {
    #[serde(default)]
    metadata: ListMetadata,
    /// `null` where there are none.
    items: Option<Vec<MetadataObject>>,
}

#[derive(Deserialize, Default)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

impl Kubernetes {
    /// Nothing is asked yet, so an API server that is away for a moment does not keep the process from starting.
    pub(crate) fn new(settings: &KubernetesStorage) -> Result<Kubernetes, StorageFault> {
        let opened = check_prefix(&settings.prefix).and_then(|()| Api::new(settings));
        let api = opened
            .map_err(|problem| StorageFault::new("certificates and keys cannot be kept", "secrets of Kubernetes", problem))?;
        Ok(Kubernetes::over(api, &settings.prefix))
    }

    fn over(api: Api, prefix: &str) -> Kubernetes {
        Kubernetes { shared: Arc::new(KubernetesShared { api, prefix: prefix.into(), observations: Mutex::default() }) }
    }

    pub(crate) fn describe(&self) -> String {
        self.shared.api.describe()
    }

    pub(crate) async fn read(&self, key: &Key) -> Result<Option<Vec<u8>>, Problem> {
        self.shared.read(key).await
    }

    pub(crate) async fn write(&self, key: &Key, value: &[u8]) -> Result<(), Problem> {
        self.shared.write(key, value).await
    }

    pub(crate) async fn remove(&self, key: &Key) -> Result<(), Problem> {
        let answer = self.shared.api.send(Method::DELETE, &self.shared.secret_path(key), None).await?;
        if answer.status == StatusCode::NOT_FOUND { Ok(()) } else { answer.succeeded() }
    }

    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<String>, Problem> {
        for _ in 0..LIST_ATTEMPTS_MAX {
            if let Some(mut keys) = self.shared.list(prefix).await? {
                keys.sort_unstable();
                return Ok(keys);
            }
        }
        Err(Problem::Busy { text: "listings take too long".into() })
    }

    pub(crate) async fn try_take(&self, name: &Key) -> Result<Option<KubernetesLease>, Problem> {
        leases::try_take(&self.shared, name, crate::lease::now).await
    }

    pub(crate) async fn holder(&self, name: &Key) -> Result<Option<Owner>, Problem> {
        leases::holder(&self.shared, name).await
    }
}

impl KubernetesShared {
    async fn read(&self, key: &Key) -> Result<Option<Vec<u8>>, Problem> {
        let answer = self.api.send(Method::GET, &self.secret_path(key), None).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let secret: SecretObject = answer.object()?;
        self.check_is_ours(&secret.metadata, key)?;
        let Some(encoded) = secret.data.get(VALUE) else {
            return Err(Problem::Server { text: format!("the secret {} has no `{VALUE}`", secret.metadata.name) });
        };
        let value = BASE64.decode(encoded);
        let value = value.map_err(|_| Problem::Server { text: format!("the secret {} is no base64", secret.metadata.name) })?;
        if value.len() > VALUE_BYTES_MAX { Err(Problem::ValueTooLong { bytes: value.len() }) } else { Ok(Some(value)) }
    }

    /// The last of several who write at once wins, as in a folder; none of them writes over a secret that is somebody
    /// else's.
    async fn write(&self, key: &Key, value: &[u8]) -> Result<(), Problem> {
        let path = self.secret_path(key);
        for _ in 0..WRITE_ATTEMPTS_MAX {
            let found = self.api.send_for_metadata(&path).await?;
            let answer = if found.status == StatusCode::NOT_FOUND {
                let secret = self.secret(key, value, None);
                self.api.send(Method::POST, &self.api.secrets(), Some(&secret)).await?
            } else {
                let found: MetadataObject = found.object()?;
                self.check_is_ours(&found.metadata, key)?;
                let secret = self.secret(key, value, Some(&found.metadata.resource_version));
                self.api.send(Method::PUT, &path, Some(&secret)).await?
            };
            match answer.status {
                // Somebody was quicker: with another value, or with removing it.
                StatusCode::CONFLICT => {}
                StatusCode::NOT_FOUND if !answer.is_about("namespaces") => {}
                _ => return answer.succeeded(),
            }
        }
        Err(Problem::Busy { text: "others write it all the time".into() })
    }

    /// `None`: to be begun again.
    async fn list(&self, prefix: &str) -> Result<Option<Vec<String>>, Problem> {
        let mut keys = Vec::new();
        let mut next = String::new();
        loop {
            let selector = format!("{}%3D{}", STORE_LABEL.replace('/', "%2F"), self.prefix);
            let page =
                format!("{}?labelSelector={selector}&limit={PAGE_OBJECTS}&continue={}", self.api.secrets(), in_query(&next));
            let answer = self.api.send_for_metadata_list(&page).await?;
            if answer.status == StatusCode::GONE {
                return Ok(None);
            }
            let list: MetadataList = answer.object()?;
            let found =
                list.items.into_iter().flatten().filter_map(|mut object| object.metadata.annotations.remove(KEY_ANNOTATION));
            keys.extend(found.filter(|key| key.starts_with(prefix) && Key::parse(key).is_ok()));
            if keys.len() > KEYS_LISTED_MAX {
                return Err(Problem::TooManyKeys);
            }
            if list.metadata.next.is_empty() {
                return Ok(Some(keys));
            }
            next = list.metadata.next;
        }
    }

    fn secret(&self, key: &Key, value: &[u8], resource_version: Option<&str>) -> serde_json::Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": self.metadata(&self.secret_name(key), key, resource_version),
            "type": "Opaque",
            "data": { VALUE: BASE64.encode(value) },
        })
    }

    fn metadata(&self, name: &str, key: &Key, resource_version: Option<&str>) -> serde_json::Value {
        let mut metadata = json!({
            "name": name,
            "labels": { "app.kubernetes.io/managed-by": "tidegate", STORE_LABEL: self.prefix },
            "annotations": { KEY_ANNOTATION: key.as_str() },
        });
        if let Some(resource_version) = resource_version {
            metadata["resourceVersion"] = resource_version.into();
        }
        metadata
    }

    /// Names have a digest, so this is not chance: somebody made it, and may need it.
    fn check_is_ours(&self, metadata: &Metadata, key: &Key) -> Result<(), Problem> {
        let is_ours = metadata.labels.get(STORE_LABEL) == Some(&self.prefix)
            && metadata.annotations.get(KEY_ANNOTATION).is_some_and(|annotation| annotation == key.as_str());
        if is_ours { Ok(()) } else { Err(Problem::InTheWay { path: metadata.name.clone() }) }
    }

    fn secret_path(&self, key: &Key) -> String {
        format!("{}/{}", self.api.secrets(), self.secret_name(key))
    }

    fn secret_name(&self, key: &Key) -> String {
        object_name(&self.prefix, key)
    }
}

/// A DNS-1123 subdomain, as all names of Kubernetes are: `tidegate-certs-example-org-key-pem-` and the key's digest.
fn object_name(prefix: &str, key: &Key) -> String {
    let readable = key.as_str().chars().take(READABLE_BYTES_MAX).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    format!("{prefix}-{}-{}", readable.collect::<String>(), key.digest())
}

/// Checks that a prefix can be the beginning of names and the value of a label.
fn check_prefix(prefix: &str) -> Result<(), Problem> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = prefix.chars().all(|c| is_plain(c) || c == '-')
        && prefix.starts_with(is_plain)
        && prefix.ends_with(is_plain)
        && prefix.len() <= PREFIX_BYTES_MAX;
    if is_label { Ok(()) } else { Err(Problem::BadPrefix { prefix: prefix.into() }) }
}

/// Tokens of listings are base64, of either kind.
fn in_query(token: &str) -> String {
    token.replace('%', "%25").replace('+', "%2B").replace('/', "%2F").replace('=', "%3D").replace('&', "%26")
}

#[cfg(test)]
mod tests;
