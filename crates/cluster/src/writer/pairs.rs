//! Which Secrets are written with a certificate that was obtained, and when. Pure: what the cluster has is looked up by
//! its caller, and what came of a write is told.
//!
//! A Secret that somebody else has made is never written: those that are ours have a label.

use crate::object::{Key, OBTAINED_LABEL, Secret};
use crate::wanted::SecretState;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two writes of one Secret; after the first of them the watch has told of it.
const ONE_EVERY: Duration = Duration::from_secs(5);
const PAUSE_MOST: Duration = Duration::from_secs(60);
const OF_TYPE: &str = "kubernetes.io/tls";
const CERTIFICATE: &str = "tls.crt";
const PRIVATE_KEY: &str = "tls.key";

/// A certificate with its key, in PEM, and which Ingress it is for.
#[derive(Clone, PartialEq, Eq)]
pub struct ObtainedPair {
    pub owner: Key,
    pub certificate: Arc<str>,
    pub key: Arc<str>,
}

/// A key is never shown.
impl fmt::Debug for ObtainedPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a certificate for the Ingress {}", self.owner)
    }
}

#[derive(Debug, Default)]
pub struct Pairs {
    desired: BTreeMap<Key, ObtainedPair>,
    /// Not looked at before.
    rests: BTreeMap<Key, Rest>,
}

#[derive(Debug)]
struct Rest {
    until: Instant,
    faults: u32,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairAsk {
    Write(Key, ObtainedPair),
    Rest { until: Instant },
    Nothing,
}

impl Pairs {
    /// All Secrets that are to have a certificate that is there.
    pub fn desire(&mut self, desired: BTreeMap<Key, ObtainedPair>) {
        self.rests.retain(|key, _| desired.contains_key(key));
        self.desired = desired;
    }

    /// The next write, or how long there is none. It is to be told what came of it.
    pub fn next(&self, now: Instant, find: impl Fn(&Key) -> SecretState) -> PairAsk {
        let mut until: Option<Instant> = None;
        for (key, pair) in &self.desired {
            let differs = match find(key) {
                SecretState::Missing => true,
                SecretState::Held(secret) => secret.is_obtained && !is_of(&secret, pair),
                SecretState::Unasked | SecretState::Fault(_) => false,
            };
            match self.rests.get(key).filter(|_| differs) {
                Some(rest) if rest.until > now => until = Some(until.map_or(rest.until, |least| least.min(rest.until))),
                Some(_) | None if differs => return PairAsk::Write(key.clone(), pair.clone()),
                Some(_) | None => {}
            }
        }
        until.map_or(PairAsk::Nothing, |until| PairAsk::Rest { until })
    }

    pub fn done(&mut self, key: Key, is_written: bool, now: Instant) {
        let rest = self.rests.entry(key).or_insert(Rest { until: now, faults: 0 });
        rest.faults = if is_written { 0 } else { rest.faults.saturating_add(1) };
        rest.until = now + ONE_EVERY.saturating_mul(1 << rest.faults.min(6)).min(PAUSE_MOST);
    }
}

fn is_of(secret: &Secret, pair: &ObtainedPair) -> bool {
    let has = |name: &str, text: &str| secret.data.get(name).is_some_and(|bytes| bytes.reveal() == text.as_bytes());
    has(CERTIFICATE, &pair.certificate) && has(PRIVATE_KEY, &pair.key)
}

/// The Secret as it is made.
pub fn new_secret(key: &Key, pair: &ObtainedPair, owner_uid: &str) -> Value {
    let mut metadata = json!({
        "namespace": &*key.namespace,
        "name": &*key.name,
        "labels": {"app.kubernetes.io/managed-by": "tidegate", OBTAINED_LABEL: "true"},
    });
    if !owner_uid.is_empty() {
        // The Secret goes with its Ingress.
        metadata["ownerReferences"] = json!([{
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": &*pair.owner.name, "uid": owner_uid,
        }]);
    }
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": OF_TYPE, "data": data(pair)})
}

/// What makes the one that was found, and is ours, the one that is wanted. `None`: it is somebody else's, or right.
pub fn secret_patch(found: &Value, pair: &ObtainedPair) -> Option<Value> {
    let data = data(pair);
    let is_ours = found["metadata"]["labels"][OBTAINED_LABEL] == "true";
    let is_other = [CERTIFICATE, PRIVATE_KEY].iter().any(|name| found["data"][name] != data[name]);
    let version = found["metadata"]["resourceVersion"].clone();
    (is_ours && is_other).then(|| json!({"metadata": {"resourceVersion": version}, "data": data}))
}

fn data(pair: &ObtainedPair) -> Value {
    let encoded = |text: &str| BASE64_STANDARD.encode(text);
    json!({CERTIFICATE: encoded(&pair.certificate), PRIVATE_KEY: encoded(&pair.key)})
}

#[cfg(test)]
mod tests {
    use super::{ONE_EVERY, ObtainedPair, PairAsk, Pairs, new_secret, secret_patch};
    use crate::object::{Key, Secret, SecretBytes};
    use crate::wanted::SecretState;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Instant;

    fn pair(text: &str) -> ObtainedPair {
        ObtainedPair { owner: Key::new("shop", "web"), certificate: text.into(), key: format!("key of {text}").into() }
    }

    fn held(text: &str, is_obtained: bool) -> SecretState {
        let pair = pair(text);
        let values = [("tls.crt", &pair.certificate), ("tls.key", &pair.key)];
        let data = values.map(|(name, text)| (Arc::from(name), SecretBytes::new(text.as_bytes())));
        SecretState::Held(Arc::new(Secret { of_type: "kubernetes.io/tls".into(), is_obtained, data: BTreeMap::from(data) }))
    }

    #[test]
    fn what_is_missing_or_ours_and_other_is_written_and_nothing_else() {
        let (now, key) = (Instant::now(), Key::new("shop", "shop-tls"));
        let mut pairs = Pairs::default();
        pairs.desire([(key.clone(), pair("new"))].into());
        let write = PairAsk::Write(key.clone(), pair("new"));
        let check = |pairs: &Pairs, state: &SecretState, expected: &PairAsk| {
            assert_eq!(pairs.next(now, |_| state.clone()), *expected, "{state:?}");
        };
        check(&pairs, &SecretState::Unasked, &PairAsk::Nothing);
        check(&pairs, &SecretState::Missing, &write);
        check(&pairs, &held("old", true), &write);
        check(&pairs, &held("new", true), &PairAsk::Nothing);
        check(&pairs, &held("old", false), &PairAsk::Nothing);
        pairs.done(key, true, now);
        check(&pairs, &SecretState::Missing, &PairAsk::Rest { until: now + ONE_EVERY });
        assert!(!format!("{:?}", pair("new")).contains("key of"));
    }

    #[test]
    fn a_secret_of_somebody_else_is_left_alone() {
        let key = Key::new("shop", "shop-tls");
        let mut found = new_secret(&key, &pair("old"), "0-1");
        assert_eq!(found["metadata"]["ownerReferences"][0]["uid"], "0-1");
        found["metadata"]["resourceVersion"] = "7".into();
        assert_eq!(secret_patch(&found, &pair("old")), None, "it is right");
        let patch = secret_patch(&found, &pair("new")).expect("another one");
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        found["metadata"]["labels"] = serde_json::json!({});
        assert_eq!(secret_patch(&found, &pair("new")), None);
    }
}
