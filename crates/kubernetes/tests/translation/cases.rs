//! Cases in files: a sentence, objects, and what becomes of them. `UPDATE=1` writes the last two parts anew.

use crate::{certificates, kdl};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Deserializer, Value};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};
use tidegate_cluster::{Changes, Key, Kind, PortReference, WrittenCluster};
use tidegate_config::{Environment, load_with, render};
use tidegate_kubernetes::{Finding, HostOwner, Merged, ObjectReference, Obtains, Settings, Translation, UnknownSnippets};
use tidegate_model::Configuration;
use tidegate_model::discover::{Cluster, Namespaces};

const SETTINGS: &str = "--- settings\n";
const FILE: &str = "--- file\n";
const OBJECTS: &str = "--- objects\n";
const CONFIGURATION: &str = "--- configuration\n";
const FINDINGS: &str = "--- findings\n";

#[test]
fn objects_become_what_their_case_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let only = env::var("CASE").unwrap_or_default();
    let mut failed = Vec::new();
    let mut count = 0;
    for path in case_files(&folder) {
        if !path.to_string_lossy().contains(&only) {
            continue;
        }
        count += 1;
        let text = fs::read_to_string(&path).expect("a case");
        let written = format!("{}{}", given(&text), outcome(&text, &path));
        if env::var_os("UPDATE").is_some() {
            fs::write(&path, written).expect("a case");
        } else if written != text {
            failed.push(format!("{}\n{written}", path.display()));
        }
    }
    assert!(count > 0, "no case is called {only}");
    assert!(failed.is_empty(), "{} of {count} cases differ:\n{}", failed.len(), failed.join("\n"));
}

fn case_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(case_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "case") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Everything in front of what comes out.
fn given(text: &str) -> &str {
    text.split(CONFIGURATION).next().unwrap_or_default()
}

fn part<'t>(text: &'t str, begins: &str) -> Option<&'t str> {
    let rest = text.split_once(begins)?.1;
    Some(rest.split("\n--- ").next().unwrap_or_default())
}

fn outcome(text: &str, path: &Path) -> String {
    let settings = settings(part(text, SETTINGS).unwrap_or_default());
    let file = part(text, FILE).map_or_else(kdl::nothing, loaded);
    let objects = part(text, OBJECTS).unwrap_or_else(|| panic!("{} has no objects", path.display()));
    let (merged, findings) = merged(objects, settings, &file);
    kdl::check(&merged);
    let mut out = format!("{CONFIGURATION}{}", kdl::shown(&merged.sites, &merged.pools));
    out.push_str(&kdl::shown_tcp(&merged.tcp));
    out.push_str(&kdl::shown_maps(&merged.maps));
    out.push_str(&kdl::of_process(&merged));
    out.push_str(FINDINGS);
    for (object, finding) in &findings {
        let severity = format!("{:?}", finding.severity).to_lowercase();
        let _ = writeln!(out, "{object} {}: {severity} {}: {}", finding.field, finding.code, finding.message);
    }
    out
}

fn loaded(text: &str) -> Configuration {
    let loaded = load_with("base.kdl", text, Path::new("/"), &Environment::Given([].into()));
    loaded.configuration.unwrap_or_else(|| panic!("{}", render(&loaded.diagnostics, &loaded.files, false)))
}

fn settings(text: &str) -> Settings {
    let mut settings = Settings::new(Cluster { api: None, namespaces: Namespaces::All });
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (word, value) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "controller" => settings.controllers.push(value.to_owned()),
            "class" => settings.class_names.push(value.to_owned()),
            "default-certificate" => settings.default_certificate = Some(key(value)),
            "default-backend" => {
                let (service, port) = value.rsplit_once(':').expect("a port");
                let port = port.parse().map_or_else(|_| PortReference::Name(port.into()), PortReference::Number);
                settings.default_backend = Some((key(service), port));
            }
            "zone" => settings.zone = Some(value.into()),
            "host-owner" => settings.host_owner = if value == "oldest" { HostOwner::Oldest } else { HostOwner::Shared },
            "acme" => settings.obtains = if value == "asked" { Obtains::Asked } else { Obtains::MissingSecrets },
            "verify-upstreams" => settings.verifies_servers = true,
            "unknown-snippets" => settings.unknown_snippets = UnknownSnippets::Serve,
            "ingress-nginx-config" => settings.ingress_nginx_config = Some(key(value)),
            "tcp-services" => settings.tcp_services = Some(key(value)),
            "udp-services" => settings.udp_services = Some(key(value)),
            "no-http" => settings.http = None,
            "no-https" => settings.https = None,
            other => panic!("there is no setting `{other}`"),
        }
    }
    settings
}

pub fn key(text: &str) -> Key {
    let (namespace, name) = text.split_once('/').unwrap_or(("", text));
    Key::new(namespace, name)
}

/// What comes of objects that come one after the other. `{"remove": "Ingress shop/web"}` takes one away,
/// `{"at": 400}` is a moment, in milliseconds, and `{"together": […]}` are objects that nobody looks at in between.
fn merged(objects: &str, settings: Settings, file: &Configuration) -> (Merged, Vec<(ObjectReference, Finding)>) {
    let begin = Instant::now();
    let mut now = begin;
    let mut cluster = WrittenCluster::new(begin);
    let mut translation = Translation::new(settings);
    translation.take_in(cluster.cache(), None, now);
    let changes = cluster.want_config_maps(translation.wanted_config_maps().clone());
    translation.take_in(cluster.cache(), Some(&changes), now);
    for step in Deserializer::from_str(objects).into_iter::<Value>() {
        let step = step.expect("JSON");
        if let Some(at) = step.get("at").and_then(Value::as_u64) {
            now = begin + Duration::from_millis(at);
        }
        let mut changes = Changes::default();
        match step.get("together").and_then(Value::as_array) {
            Some(steps) => steps.iter().for_each(|step| changes.merge(put(&mut cluster, step))),
            None => changes.merge(put(&mut cluster, &step)),
        }
        translation.take_in(cluster.cache(), Some(&changes), now);
        let mut changes = cluster.want_secrets(translation.wanted_secrets().clone());
        changes.merge(cluster.want_config_maps(translation.wanted_config_maps().clone()));
        translation.take_in(cluster.cache(), Some(&changes), now);
    }
    let merged = translation.merged(file);
    (merged, translation.findings().map(|(object, finding)| (object.clone(), finding.clone())).collect())
}

fn put(cluster: &mut WrittenCluster, step: &Value) -> Changes {
    if let Some(removed) = step.get("remove").and_then(Value::as_str) {
        let (kind, name) = removed.split_once(' ').expect("a kind and a name");
        return cluster.remove(kind_of(kind), &key(name));
    }
    if step.get("kind").is_none() {
        return Changes::default();
    }
    cluster.put(filled(step.clone()).to_string().as_bytes()).unwrap_or_else(|problem| panic!("{problem}: {step}"))
}

fn kind_of(word: &str) -> Kind {
    Kind::ALL.into_iter().find(|kind| kind.name() == word).unwrap_or_else(|| panic!("there is no kind `{word}`"))
}

/// With certificates and keys in the place of `certificate:NAMES`, `key:NAMES` and `authority` in the data of a Secret.
pub fn filled(mut object: Value) -> Value {
    if object["kind"] != "Secret" {
        return object;
    }
    let data = object.get_mut("data").and_then(Value::as_object_mut);
    for (_, value) in data.into_iter().flatten() {
        let text = value.as_str().expect("a text");
        let bytes = match text.split_once(':') {
            Some(("certificate", names)) => certificates::pair(names).certificate,
            Some(("key", names)) => certificates::pair(names).key,
            None if text == "authority" => certificates::authority(),
            Some((_, _)) | None => text.to_owned(),
        };
        *value = BASE64_STANDARD.encode(bytes).into();
    }
    object
}
