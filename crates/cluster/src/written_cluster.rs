//! A cluster that is written down: objects as the API writes them, put one by one or read from texts, where no server
//! says what there is.

use crate::cache::{Cache, Changes};
use crate::fault::Fault;
use crate::kind::Kind;
use crate::news::{KindNews, Told};
use crate::object::{ConfigMap, Fetched, FetchedMeta, Key, Referenced, Secret, Watched, WrittenKind};
use crate::page::{Found, read_object};
use crate::texts::Texts;
use crate::wanted::Fetch;
use crate::yaml::read_documents;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use tidegate_model::discover::Namespaces;

/// Objects without a server.
#[derive(Debug)]
pub struct WrittenCluster {
    cache: Cache,
    texts: Texts,
    secrets: BTreeMap<Key, Fetched<Secret>>,
    config_maps: BTreeMap<Key, Fetched<ConfigMap>>,
    /// Counts what was put: texts need not have versions.
    version: u64,
    now: Instant,
}

impl WrittenCluster {
    /// Without any object, and all of each kind is known. Nothing in it depends on time, so one moment does for all
    /// that is put.
    pub fn new(now: Instant) -> WrittenCluster {
        WrittenCluster::knowing(&Kind::ALL, now)
    }

    /// Without any object. What there is of other kinds than these is not known.
    fn knowing(kinds: &[Kind], now: Instant) -> WrittenCluster {
        let mut cache = Cache::of(&Namespaces::All);
        fn none<T>() -> KindNews<T> {
            KindNews::Listed { found: Vec::new(), unreadable: Vec::new() }
        }
        for kind in kinds {
            let told = match kind {
                Kind::Service => Told::Service(none()),
                Kind::EndpointSlice => Told::EndpointSlice(none()),
                Kind::Ingress => Told::Ingress(none()),
                Kind::IngressClass => Told::IngressClass(none()),
                Kind::Secret => Told::Secret(none()),
                Kind::ConfigMap => Told::ConfigMap(none()),
            };
            cache.take_in(&None, told, now);
        }
        WrittenCluster { cache, texts: Texts::default(), secrets: BTreeMap::new(), config_maps: BTreeMap::new(), version: 0, now }
    }

    /// What texts in YAML or JSON have, by their names: objects one by one, or lists of them as `kubectl get` prints
    /// them. Of a kind that they have nothing of, nothing is known. What cannot be read is left out, and named with
    /// what is wrong with it.
    pub fn read(texts: &[(&str, &str)], now: Instant) -> (WrittenCluster, Vec<String>) {
        let (mut objects, mut faults) = (Vec::new(), Vec::new());
        for (name, text) in texts {
            let (read, fault) = written_objects(text);
            faults.extend(fault.map(|problem| format!("{name} {problem}")));
            objects.extend(read.into_iter().enumerate().map(|(place, object)| (*name, place + 1, object)));
        }
        let is_of = |kind: &Kind| objects.iter().any(|(_, _, object)| object["kind"].as_str() == Some(kind.name()));
        let known: Vec<Kind> = Kind::ALL.into_iter().filter(is_of).collect();
        let mut cluster = WrittenCluster::knowing(&known, now);
        for (name, place, object) in objects {
            let put = cluster.put(object.to_string().as_bytes());
            faults.extend(put.err().map(|problem| format!("object {place} of {name}: {problem}")));
        }
        (cluster, faults)
    }

    /// Whether it is known what there is of the kind.
    pub fn knows(&self, kind: Kind) -> bool {
        self.cache.is_whole(&[kind])
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
            "Secret" => {
                let (key, secret) = self.whole::<Secret>(text)?;
                let meta = meta_of(&key, &secret);
                self.secrets.insert(key, secret);
                Told::Secret(KindNews::Put(meta))
            }
            "ConfigMap" => {
                let (key, map) = self.whole::<ConfigMap>(text)?;
                let meta = meta_of(&key, &map);
                self.config_maps.insert(key, map);
                Told::ConfigMap(KindNews::Put(meta))
            }
            _ => return Ok(Changes::default()),
        };
        let mut changes = self.cache.take_in(&None, told, self.now);
        changes.merge(self.answer());
        Ok(changes)
    }

    fn found<T: Watched>(&mut self, text: &[u8]) -> Result<KindNews<T>, String> {
        let raw: &RawValue = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let found = read_object::<T>(raw, &mut self.texts).map_err(|unreadable| unreadable.problem)?;
        self.version += 1;
        Ok(KindNews::Put(Found { version: self.version.to_string().into(), ..found }))
    }

    fn whole<T: Referenced>(&mut self, text: &[u8]) -> Result<(Key, Fetched<T>), String> {
        let raw: &RawValue = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let found = read_object::<FetchedMeta<T>>(raw, &mut self.texts).map_err(|unreadable| unreadable.problem)?;
        let whole = T::read(&found.key, text).map_err(|fault| fault.to_string())?;
        self.version += 1;
        Ok((found.key, Fetched { version: self.version.to_string().into(), ..whole }))
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
            Kind::ConfigMap => {
                self.config_maps.remove(&key);
                Told::ConfigMap(KindNews::Gone(key))
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

    /// As [`WrittenCluster::want_secrets`], of ConfigMaps.
    pub fn want_config_maps(&mut self, wanted: BTreeSet<Key>) -> Changes {
        self.cache.want_config_maps(wanted);
        self.answer()
    }

    fn answer(&mut self) -> Changes {
        let mut changes = Changes::default();
        for (key, outcome) in outcomes(self.cache.secrets_mut().take_due(self.now, usize::MAX).0, &self.secrets) {
            changes.merge(self.cache.take_in(&None, Told::FetchedSecret(key, outcome), self.now));
        }
        for (key, outcome) in outcomes(self.cache.config_maps_mut().take_due(self.now, usize::MAX).0, &self.config_maps) {
            changes.merge(self.cache.take_in(&None, Told::FetchedConfigMap(key, outcome), self.now));
        }
        changes
    }
}

fn meta_of<T>(key: &Key, of: &Fetched<T>) -> Found<FetchedMeta<T>> {
    let version = of.version.clone();
    Found { key: key.clone(), version: version.clone(), object: FetchedMeta::at(version) }
}

fn outcomes<T: Referenced + Clone>(
    due: Vec<Fetch>,
    there: &BTreeMap<Key, Fetched<T>>,
) -> impl Iterator<Item = (Key, Result<Fetched<T>, Fault>)> {
    due.into_iter().map(|fetch| {
        let (Fetch::Ask(key) | Fetch::Absent(key)) = fetch;
        let missing = || Fault::Missing { message: format!("there is no {} {key}", T::KIND.name()) };
        let outcome = there.get(&key).cloned().ok_or_else(missing);
        (key, outcome)
    })
}

/// Objects of a text, those of its lists one by one, and what is wrong with it where it does not end with them.
fn written_objects(text: &str) -> (Vec<Value>, Option<String>) {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let mut documents = Vec::new();
    let fault = match serde_json::from_str::<Value>(text) {
        Ok(document) if is_json => {
            documents.push(document);
            None
        }
        Ok(_) | Err(_) => read_documents(text, &mut documents).err(),
    };
    (documents.into_iter().flat_map(items).map(with_texts_as_data).collect(), fault)
}

/// Texts of a Secret as the API server keeps them: files have them as they are.
fn with_texts_as_data(mut object: Value) -> Value {
    let Some(fields) = object.as_object_mut() else { return object };
    let Some(Value::Object(texts)) = fields.remove("stringData") else { return object };
    // What is there already and is no map is told of where the Secret is read.
    let Value::Object(data) = fields.entry("data").or_insert_with(|| Value::Object(Map::new())) else { return object };
    for (name, text) in texts {
        let Some(text) = text.as_str() else { continue };
        data.insert(name, Value::String(BASE64_STANDARD.encode(text)));
    }
    object
}

/// The objects of a list, of whose kind they are where they do not say so; or the object itself.
fn items(document: Value) -> Vec<Value> {
    let kind = document["kind"].as_str().unwrap_or_default().to_owned();
    let Some(of_items) = kind.strip_suffix("List") else { return vec![document] };
    let Value::Object(mut list) = document else { return Vec::new() };
    let Some(Value::Array(items)) = list.remove("items") else { return Vec::new() };
    let with_kind = |mut item: Value| {
        if let Value::Object(item) = &mut item
            && !item.contains_key("kind")
        {
            item.insert("kind".to_owned(), Value::String(of_items.to_owned()));
        }
        item
    };
    items.into_iter().map(with_kind).collect()
}

#[cfg(test)]
mod tests {
    use super::WrittenCluster;
    use crate::kind::Kind;
    use crate::object::{Key, SecretBytes};
    use crate::wanted::{ConfigMapState, SecretState};
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
    fn texts_have_objects_and_lists_of_them() {
        let read = |text: &str| WrittenCluster::read(&[("a.yaml", text)], Instant::now());
        let check = |text: &str, ingresses: usize, expected: &[&str]| {
            let (cluster, faults) = read(text);
            let seen: Vec<&str> = faults.iter().map(String::as_str).collect();
            assert_eq!((cluster.cache().ingresses().count(), &*seen), (ingresses, expected), "{text}");
        };
        let ingress = "kind: Ingress\nmetadata: {name: a, namespace: shop}\nspec: {}\n";
        check(ingress, 1, &[]);
        check(&format!("{ingress}---\n---\n{}", ingress.replace("name: a", "name: b")), 2, &[]);
        check("kind: List\nitems:\n- kind: Ingress\n  metadata: {name: a}\n  spec: {}\n- kind: Pod\n", 1, &[]);
        check(r#"{"kind":"IngressList","items":[{"metadata":{"name":"a"},"spec":{}},{"metadata":{"name":"b"}}]}"#, 2, &[]);
        check("", 0, &[]);
        check("a: [", 0, &["a.yaml is no YAML at line 1 column 4"]);
        check(&format!("{ingress}---\na: ["), 1, &["a.yaml is no YAML at line 5 column 4"]);
        let odd = "kind: Ingress\nmetadata: {name: 7, namespace: shop}\n---\n";
        let (cluster, faults) = read(&format!("{odd}{ingress}"));
        assert!(cluster.cache().ingresses().count() == 1 && faults[0].starts_with("object 1 of a.yaml: "), "{faults:?}");
        let secret = "kind: Secret\nmetadata: {name: tls, namespace: shop}\nstringData: {auth: text}\n";
        let mut with_text = read(secret).0;
        assert_eq!(read(&format!("{secret}data: text\n")).1.len(), 1);
        let key = Key::new("shop", "tls");
        with_text.want_secrets([key.clone()].into());
        let SecretState::Held(secret) = with_text.cache().secret(&key) else { panic!("it is there") };
        assert_eq!(secret.data.get("auth").map(SecretBytes::reveal), Some(&b"text"[..]));
        let known = read(ingress).0;
        assert!(known.knows(Kind::Ingress) && !known.knows(Kind::Service) && !known.knows(Kind::Secret));
    }

    #[test]
    fn config_maps_are_known_as_secrets_are() {
        let mut cluster = WrittenCluster::new(Instant::now());
        let key = Key::new("edge", "nginx");
        assert_eq!(cluster.want_config_maps([key.clone()].into()).config_maps, [key.clone()].into());
        assert_eq!(cluster.cache().config_map(&key), ConfigMapState::Missing);
        let map = r#"{"kind":"ConfigMap","metadata":{"name":"nginx","namespace":"edge"},"data":{"hsts":"false"}}"#;
        assert_eq!(cluster.put(map.as_bytes()).expect("an object").config_maps, [key.clone()].into());
        let ConfigMapState::Held(held) = cluster.cache().config_map(&key) else { panic!("it is there") };
        assert_eq!(held.data.get("hsts").map(|text| &**text), Some("false"));
        assert_eq!(cluster.remove(Kind::ConfigMap, &key).config_maps, [key.clone()].into());
        assert_eq!(cluster.cache().config_map(&key), ConfigMapState::Missing);
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
