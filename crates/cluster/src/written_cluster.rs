//! A cluster that is written down: objects as the API writes them, put one by one where no server says what there is.
//! All of each kind is known from the beginning.

use crate::cache::{Cache, Changes};
use crate::fault::Fault;
use crate::kind::Kind;
use crate::news::{KindNews, Told};
use crate::object::{FetchedSecret, Key, SecretMeta, Watched, WrittenKind, fetched};
use crate::page::{Found, read_object};
use crate::secrets::Fetch;
use crate::texts::Texts;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use tidegate_model::discover::Namespaces;

/// Objects without a server.
#[derive(Debug)]
pub struct WrittenCluster {
    cache: Cache,
    texts: Texts,
    secrets: BTreeMap<Key, FetchedSecret>,
    /// Counts what was put: texts need not have versions.
    version: u64,
    now: Instant,
}

impl WrittenCluster {
    /// Without any object. Nothing in it depends on time, so one moment does for all that is put.
    pub fn new(now: Instant) -> WrittenCluster {
        let mut cache = Cache::of(&Namespaces::All);
        fn none<T>() -> KindNews<T> {
            KindNews::Listed { found: Vec::new(), unreadable: Vec::new() }
        }
        for told in [
            Told::Service(none()),
            Told::EndpointSlice(none()),
            Told::Ingress(none()),
            Told::IngressClass(none()),
            Told::Secret(none()),
        ] {
            cache.take_in(&None, told, now);
        }
        WrittenCluster { cache, texts: Texts::default(), secrets: BTreeMap::new(), version: 0, now }
    }

    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Puts an object in JSON, of whatever kind that is followed; of other kinds nothing differs. `Err` says what is
    /// wrong with the text.
    pub fn put(&mut self, text: &[u8]) -> Result<Changes, String> {
        let of_kind: WrittenKind<'_> =
            serde_json::from_slice(text).map_err(|error| format!("the kind cannot be read: {error}"))?;
        let told = match &*of_kind.kind {
            "Service" => Told::Service(self.found(text)?),
            "EndpointSlice" => Told::EndpointSlice(self.found(text)?),
            "Ingress" => Told::Ingress(self.found(text)?),
            "IngressClass" => Told::IngressClass(self.found(text)?),
            "Secret" => return self.put_secret(text),
            _ => return Ok(Changes::default()),
        };
        Ok(self.cache.take_in(&None, told, self.now))
    }

    fn found<T: Watched>(&mut self, text: &[u8]) -> Result<KindNews<T>, String> {
        let raw: &RawValue = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let found = read_object::<T>(raw, &mut self.texts).map_err(|unreadable| unreadable.problem)?;
        self.version += 1;
        Ok(KindNews::Put(Found { version: self.version.to_string().into(), ..found }))
    }

    fn put_secret(&mut self, text: &[u8]) -> Result<Changes, String> {
        let KindNews::Put(found) = self.found::<SecretMeta>(text)? else { return Ok(Changes::default()) };
        let secret = fetched(&found.key, text).map_err(|fault| fault.to_string())?;
        let version = found.version.clone();
        self.secrets.insert(found.key.clone(), FetchedSecret { version: version.clone(), ..secret });
        let meta = Found { object: SecretMeta { version }, ..found };
        let mut changes = self.cache.take_in(&None, Told::Secret(KindNews::Put(meta)), self.now);
        changes.merge(self.answer());
        Ok(changes)
    }

    pub fn remove(&mut self, kind: Kind, key: &Key) -> Changes {
        let key = key.clone();
        let told = match kind {
            Kind::Service => Told::Service(KindNews::Gone(key)),
            Kind::EndpointSlice => Told::EndpointSlice(KindNews::Gone(key)),
            Kind::Ingress => Told::Ingress(KindNews::Gone(key)),
            Kind::IngressClass => Told::IngressClass(KindNews::Gone(key)),
            Kind::Secret => {
                self.secrets.remove(&key);
                Told::Secret(KindNews::Gone(key))
            }
        };
        let mut changes = self.cache.take_in(&None, told, self.now);
        changes.merge(self.answer());
        changes
    }

    /// Says which Secrets are referred to, and gives those of which something else is known since.
    pub fn want_secrets(&mut self, wanted: BTreeSet<Key>) -> Changes {
        self.cache.want_secrets(wanted);
        self.answer()
    }

    fn answer(&mut self) -> Changes {
        let mut changes = Changes::default();
        let (due, _) = self.cache.take_due_secrets(self.now, usize::MAX);
        for fetch in due {
            let (Fetch::Ask(key) | Fetch::Absent(key)) = fetch;
            let missing = || Fault::Missing { message: format!("there is no Secret {key}") };
            let outcome = self.secrets.get(&key).cloned().ok_or_else(missing);
            changes.merge(self.cache.take_in(&None, Told::Fetched(key, outcome), self.now));
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::WrittenCluster;
    use crate::kind::Kind;
    use crate::object::Key;
    use crate::secrets::SecretState;
    use std::collections::BTreeSet;
    use std::time::Instant;

    const SECRET: &str = r#"{"kind":"Secret","metadata":{"name":"tls","namespace":"shop"},"data":{"a":"YQ=="}}"#;

    #[test]
    fn objects_come_change_and_go_without_versions() {
        let mut cluster = WrittenCluster::new(Instant::now());
        assert!(cluster.cache().is_whole(&[Kind::Service, Kind::Ingress, Kind::Secret]));
        let key = Key::new("shop", "web");
        let service = |port: u16| {
            format!(
                r#"{{"kind":"Service","metadata":{{"name":"web","namespace":"shop"}},"spec":{{"ports":[{{"port":{port}}}]}}}}"#
            )
        };
        for port in [80, 81] {
            let changes = cluster.put(service(port).as_bytes()).expect("an object");
            assert_eq!(changes.services, [key.clone()].into());
            assert_eq!(cluster.cache().service(&key).map(|service| service.ports[0].number), Some(port));
        }
        assert!(cluster.put(service(81).as_bytes()).expect("an object").is_empty());
        assert!(cluster.put(br#"{"kind":"Pod","metadata":{"name":"web"}}"#).expect("an object").is_empty());
        assert_eq!(cluster.remove(Kind::Service, &key).services, [key.clone()].into());
        assert_eq!(cluster.cache().service(&key), None);
        assert!(cluster.put(b"{").is_err());
    }

    #[test]
    fn secrets_are_known_as_long_as_they_are_wanted() {
        let mut cluster = WrittenCluster::new(Instant::now());
        let key = Key::new("shop", "tls");
        let held = |cluster: &WrittenCluster| matches!(cluster.cache().secret(&key), SecretState::Held(_));
        assert!(cluster.put(SECRET.as_bytes()).expect("an object").is_empty());
        assert_eq!(cluster.want_secrets([key.clone()].into()).secrets, [key.clone()].into());
        assert!(held(&cluster));
        assert_eq!(cluster.remove(Kind::Secret, &key).secrets, [key.clone()].into());
        assert_eq!(cluster.cache().secret(&key), SecretState::Missing);
        assert_eq!(cluster.put(SECRET.as_bytes()).expect("an object").secrets, [key.clone()].into());
        assert!(held(&cluster));
        cluster.want_secrets(BTreeSet::new());
        assert_eq!(cluster.cache().secret(&key), SecretState::Unasked);
    }
}
