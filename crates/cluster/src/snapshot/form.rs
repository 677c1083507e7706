//! A snapshot as a text: a line that says what it is of, a line for each object as the API would write it, and a line
//! with the digest of all before it. One from which anything is missing is none.

use crate::kind::Kind;
use crate::news::{KindNews, Told};
use crate::object::{
    ConfigMap, EndpointSlice, Fetched, FetchedMeta, Ingress, IngressClass, Key, Referenced, Secret, Service, Watched,
    WrittenKind, WrittenMeta,
};
use crate::page::{Found, read_object};
use crate::texts::Texts;
use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::io::{self, BufRead, Write};
use std::sync::Arc;

/// Another number is another form, which this program does not read.
const FORM: u32 = 2;
/// Of the whole: what 100,000 endpoints, 10,000 Ingresses and as many certificates take, twice.
pub const BYTES_MAX: u64 = 256 << 20;
/// Of one line: a Secret of the greatest size in base64, with what stands around it.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// Which cluster it is of, and what of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    pub url: String,
    /// `None` is all of them.
    pub namespaces: Option<Vec<String>>,
}

/// All objects of some kinds.
#[derive(Debug, Default)]
pub struct Contents {
    pub kinds: Vec<Kind>,
    pub services: Vec<Kept<Service>>,
    pub slices: Vec<Kept<EndpointSlice>>,
    pub ingresses: Vec<Kept<Ingress>>,
    pub classes: Vec<Kept<IngressClass>>,
    pub secrets: Vec<Kept<Secret>>,
    pub missing_secrets: Vec<Key>,
    pub config_maps: Vec<Kept<ConfigMap>>,
    pub missing_config_maps: Vec<Key>,
}

#[derive(Debug)]
pub struct Kept<T> {
    pub key: Key,
    pub version: Box<str>,
    pub object: Arc<T>,
}

/// Objects as they were fetched once; `None` was not there.
pub type FetchedOnce<T> = Vec<(Key, Option<Fetched<T>>)>;

/// What a snapshot held.
#[derive(Debug, Default)]
pub struct Recalled {
    /// As news, for each kind that it has all objects of.
    pub told: Vec<Told>,
    pub secrets: FetchedOnce<Secret>,
    pub config_maps: FetchedOnce<ConfigMap>,
    pub objects: usize,
    /// How old its news are: when something was heard last of each kind, as the first line says it.
    pub as_of: String,
}

#[derive(Serialize, Deserialize)]
struct FirstLine {
    snapshot: u32,
    #[serde(flatten)]
    extent: Extent,
    kinds: Vec<String>,
    as_of: String,
}

#[derive(Serialize, Deserialize)]
struct LastLine {
    objects: usize,
    sha256: String,
}

#[derive(Serialize)]
struct ObjectLine<'o, T> {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    object: &'o T,
}

/// An object of which nothing is known but its name.
#[derive(Serialize)]
struct NamedObject<'o> {
    metadata: WrittenMeta<'o>,
}

/// Writes a snapshot. `Err` also where it becomes too large.
pub fn write(contents: &Contents, extent: &Extent, as_of: &str, sink: &mut impl Write) -> io::Result<()> {
    let mut lines = Lines { sink, digest: Context::new(&SHA256), bytes_left: BYTES_MAX, objects: 0 };
    let kinds = contents.kinds.iter().map(|kind| kind.name().to_owned()).collect();
    lines.put(&FirstLine { snapshot: FORM, extent: extent.clone(), kinds, as_of: as_of.to_owned() })?;
    lines.put_all(&contents.services)?;
    lines.put_all(&contents.slices)?;
    lines.put_all(&contents.ingresses)?;
    lines.put_all(&contents.classes)?;
    lines.put_fetched(&contents.secrets, &contents.missing_secrets)?;
    lines.put_fetched(&contents.config_maps, &contents.missing_config_maps)?;
    let last = LastLine { objects: lines.objects, sha256: text_of(lines.digest.clone()) };
    lines.put(&last)
}

struct Lines<'s, S> {
    sink: &'s mut S,
    digest: Context,
    bytes_left: u64,
    objects: usize,
}

impl<S: Write> Lines<'_, S> {
    fn put_all<T: Watched>(&mut self, all: &[Kept<T>]) -> io::Result<()> {
        for Kept { key, version, object } in all {
            self.put_object(T::KIND, &object.written(WrittenMeta::of(key, version)))?;
        }
        Ok(())
    }

    fn put_fetched<T: Referenced>(&mut self, all: &[Kept<T>], missing: &[Key]) -> io::Result<()> {
        for Kept { key, version, object } in all {
            self.put_object(T::KIND, &object.whole(key, version))?;
        }
        for key in missing {
            self.put_named(T::KIND, T::MISSING, &NamedObject { metadata: WrittenMeta::of(key, "") })?;
        }
        Ok(())
    }

    fn put_object(&mut self, kind: Kind, object: &impl Serialize) -> io::Result<()> {
        self.put_named(kind, kind.name(), object)
    }

    fn put_named(&mut self, kind: Kind, name: &'static str, object: &impl Serialize) -> io::Result<()> {
        self.objects += 1;
        self.put(&ObjectLine { api_version: kind.api_version(), kind: name, object })
    }

    fn put(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let too_large = || io::Error::other(format!("it would have more than {BYTES_MAX} bytes"));
        self.bytes_left = self.bytes_left.checked_sub(text.len() as u64).ok_or_else(too_large)?;
        self.digest.update(&text);
        self.sink.write_all(&text)
    }
}

/// Reads a snapshot that has these kinds, all of it or nothing. `Err` is a sentence without its subject.
pub fn read(source: &mut impl BufRead, wanted: &Extent, kinds: &[Kind]) -> Result<Recalled, String> {
    let mut source = Source { source, digest: Context::new(&SHA256), bytes_left: BYTES_MAX };
    let (first, _) = source.next()?;
    let first: FirstLine = serde_json::from_slice(&first).map_err(|_| "begins with something else".to_owned())?;
    if first.snapshot != FORM {
        return Err(format!("has the form {}, and this program reads {FORM}", first.snapshot));
    }
    if first.extent != *wanted {
        return Err("is of another cluster, or of other namespaces".to_owned());
    }
    // Who begins without a kind waits for it, and serves nothing until the server is back.
    if let Some(kind) = kinds.iter().find(|kind| !first.kinds.iter().any(|name| name == kind.name())) {
        return Err(format!("has no objects of the kind {}", kind.name()));
    }
    let mut found = FoundObjects::default();
    let last = loop {
        let (line, before) = source.next()?;
        match serde_json::from_slice::<LastLine>(&line) {
            Ok(last) if last.sha256 == before => break last,
            Ok(_) => return Err("is damaged: it is not what was written".to_owned()),
            Err(_) => found.take(&line)?,
        }
    };
    if !source.is_at_end()? || last.objects != found.objects {
        return Err("is damaged: it does not end where it should".to_owned());
    }
    Ok(found.recalled(&first))
}

struct Source<'s, S> {
    source: &'s mut S,
    digest: Context,
    bytes_left: u64,
}

impl<S: BufRead> Source<'_, S> {
    /// The next line, and the digest of all before it.
    fn next(&mut self) -> Result<(Vec<u8>, String), String> {
        let mut line = Vec::new();
        let mut bounded = io::Read::take(&mut *self.source, LINE_BYTES_MAX.min(self.bytes_left));
        bounded.read_until(b'\n', &mut line).map_err(|error| format!("cannot be read: {error}"))?;
        if line.last() != Some(&b'\n') {
            return Err("is damaged: it ends in the middle".to_owned());
        }
        self.bytes_left -= line.len() as u64;
        let is_last = line.starts_with(b"{\"objects\":");
        let before = if is_last { text_of(self.digest.clone()) } else { String::new() };
        self.digest.update(&line);
        Ok((line, before))
    }

    fn is_at_end(&mut self) -> Result<bool, String> {
        self.source.fill_buf().map(<[u8]>::is_empty).map_err(|error| format!("cannot be read: {error}"))
    }
}

#[derive(Default)]
struct FoundObjects {
    texts: Texts,
    services: Vec<Found<Service>>,
    slices: Vec<Found<EndpointSlice>>,
    ingresses: Vec<Found<Ingress>>,
    classes: Vec<Found<IngressClass>>,
    secrets: FetchedOnce<Secret>,
    config_maps: FetchedOnce<ConfigMap>,
    objects: usize,
}

impl FoundObjects {
    fn take(&mut self, line: &[u8]) -> Result<(), String> {
        let damaged = || "is damaged: an object in it cannot be read".to_owned();
        let raw: &RawValue = serde_json::from_slice(line).map_err(|_| damaged())?;
        let of_kind: WrittenKind<'_> = serde_json::from_str(raw.get()).map_err(|_| damaged())?;
        self.objects += 1;
        let texts = &mut self.texts;
        match &*of_kind.kind {
            "Service" => self.services.push(read_object(raw, texts).map_err(|_| damaged())?),
            "EndpointSlice" => self.slices.push(read_object(raw, texts).map_err(|_| damaged())?),
            "Ingress" => self.ingresses.push(read_object(raw, texts).map_err(|_| damaged())?),
            "IngressClass" => self.classes.push(read_object(raw, texts).map_err(|_| damaged())?),
            kind if kind == Kind::Secret.name() || kind == Secret::MISSING => {
                self.secrets.push(fetched_once(raw, kind == Secret::MISSING, texts).ok_or_else(damaged)?);
            }
            kind if kind == Kind::ConfigMap.name() || kind == ConfigMap::MISSING => {
                self.config_maps.push(fetched_once(raw, kind == ConfigMap::MISSING, texts).ok_or_else(damaged)?);
            }
            _ => return Err("has objects of kinds that this program does not know".to_owned()),
        }
        Ok(())
    }

    fn recalled(self, first: &FirstLine) -> Recalled {
        let FoundObjects { services, slices, ingresses, classes, secrets, config_maps, objects, texts: _ } = self;
        let mut told = Vec::new();
        let has = |kind: Kind| first.kinds.iter().any(|name| name == kind.name());
        if has(Kind::Service) {
            told.push(Told::Service(KindNews::Recalled(services)));
        }
        if has(Kind::EndpointSlice) {
            told.push(Told::EndpointSlice(KindNews::Recalled(slices)));
        }
        if has(Kind::Ingress) {
            told.push(Told::Ingress(KindNews::Recalled(ingresses)));
        }
        if has(Kind::IngressClass) {
            told.push(Told::IngressClass(KindNews::Recalled(classes)));
        }
        if has(Kind::Secret) {
            told.push(Told::Secret(KindNews::Recalled(Vec::new())));
        }
        if has(Kind::ConfigMap) {
            told.push(Told::ConfigMap(KindNews::Recalled(Vec::new())));
        }
        Recalled { told, secrets, config_maps, objects, as_of: first.as_of.clone() }
    }
}

fn fetched_once<T: Referenced>(raw: &RawValue, is_missing: bool, texts: &mut Texts) -> Option<(Key, Option<Fetched<T>>)> {
    let Found { key, .. } = read_object::<FetchedMeta<T>>(raw, texts).ok()?;
    let object = if is_missing { None } else { Some(T::read(&key, raw.get().as_bytes()).ok()?) };
    Some((key, object))
}

fn text_of(digest: Context) -> String {
    BASE64_STANDARD.encode(digest.finish())
}

#[cfg(test)]
mod tests {
    use super::{Contents, Extent, Kept, Recalled, read, write};
    use crate::kind::Kind;
    use crate::news::{KindNews, Told};
    use crate::object::{ConfigMap, Key, Secret, SecretBytes, Service};
    use crate::page::{Line, line};
    use crate::texts::Texts;
    use std::sync::Arc;

    fn extent() -> Extent {
        Extent { url: "https://api.example".to_owned(), namespaces: None }
    }

    fn contents() -> Contents {
        let text = br#"{"type":"ADDED","object":{"metadata":{"name":"web","namespace":"shop","resourceVersion":"7"},"spec":{"ports":[{"port":80}]}}}"#;
        let Ok(Line::Put(found)) = line::<Service>(text, &mut Texts::default()) else { panic!("no Service") };
        let data = [("tls.key".into(), SecretBytes::new(*b"hush"))].into();
        let config_map = Arc::new(ConfigMap { data: [("hsts".into(), "false".into())].into() });
        let secret = Arc::new(Secret { of_type: "kubernetes.io/tls".into(), is_obtained: true, data });
        Contents {
            kinds: vec![Kind::Service, Kind::Secret, Kind::ConfigMap],
            services: vec![Kept { key: found.key, version: found.version, object: Arc::new(found.object) }],
            secrets: vec![Kept { key: Key::new("shop", "tls"), version: "8".into(), object: secret }],
            missing_secrets: vec![Key::new("shop", "none")],
            config_maps: vec![Kept { key: Key::new("edge", "nginx"), version: "9".into(), object: config_map }],
            missing_config_maps: vec![Key::new("edge", "tcp")],
            ..Contents::default()
        }
    }

    fn written() -> Vec<u8> {
        let mut text = Vec::new();
        write(&contents(), &extent(), "2026-11-01T10:00:00Z", &mut text).expect("it is written");
        text
    }

    fn recalled(text: &[u8]) -> Result<Recalled, String> {
        read(&mut &*text, &extent(), &[Kind::Service, Kind::Secret])
    }

    #[test]
    fn what_is_written_is_read_again() {
        let seen = recalled(&written()).expect("a snapshot");
        assert_eq!((seen.objects, &*seen.as_of), (5, "2026-11-01T10:00:00Z"));
        let [Told::Service(KindNews::Recalled(services)), Told::Secret(KindNews::Recalled(metas)), Told::ConfigMap(_)] =
            &*seen.told
        else {
            panic!("{:?}", seen.told)
        };
        assert_eq!((services.len(), metas.len()), (1, 0));
        let expected = contents();
        assert_eq!((&services[0].key, &*services[0].version), (&Key::new("shop", "web"), "7"));
        assert_eq!(services[0].object, *expected.services[0].object);
        let [(key, Some(secret)), (missing, None)] = &*seen.secrets else { panic!("{:?}", seen.secrets) };
        assert_eq!(*missing, Key::new("shop", "none"));
        let [(map, Some(held)), (no_map, None)] = &*seen.config_maps else { panic!("{:?}", seen.config_maps) };
        assert_eq!((map, no_map), (&Key::new("edge", "nginx"), &Key::new("edge", "tcp")));
        assert_eq!((&*held.version, &held.object), ("9", &*expected.config_maps[0].object));
        assert_eq!((key, &*secret.version, &secret.object), (&Key::new("shop", "tls"), "8", &*expected.secrets[0].object));
    }

    #[test]
    fn what_is_not_whole_is_nothing() {
        let text = written();
        for end in 0..text.len() {
            assert!(recalled(&text[..end]).is_err(), "cut after {end}");
        }
        for position in 0..text.len() {
            let mut damaged = text.clone();
            damaged[position] ^= 1;
            assert!(recalled(&damaged).is_err(), "changed at {position}");
        }
        let twice = [&*text, &*text].concat();
        assert_eq!(recalled(&twice).err().as_deref(), Some("is damaged: it does not end where it should"));
    }

    #[test]
    fn a_snapshot_of_something_else_is_none() {
        let check = |from: &str, to: &str, expected: &str| {
            let text = String::from_utf8(written()).expect("text").replace(from, to);
            assert_eq!(recalled(text.as_bytes()).err().as_deref(), Some(expected), "{to}");
        };
        check("api.example", "other.example", "is of another cluster, or of other namespaces");
        check("null", "[\"shop\"]", "is of another cluster, or of other namespaces");
        check("{\"snapshot\":2", "{\"snapshot\":1", "has the form 1, and this program reads 2");
        check("\"kinds\":[\"Service\",", "\"kinds\":[", "has no objects of the kind Service");
        check("{\"snapshot\"", "{\"other\"", "begins with something else");
        check("\"kind\":\"Service\"", "\"kind\":\"Gateway\"", "has objects of kinds that this program does not know");
    }

    #[test]
    fn nothing_that_stands_in_a_file_makes_it_panic() {
        bolero::check!().for_each(|bytes: &[u8]| _ = recalled(bytes));
    }
}
