//! What becomes of annotations, as people write them: those of `tests/manifests.txt` together, and each of
//! `tests/annotations.txt` by itself, good, odd and broken. What `check` says is held against what is served.
//! `UPDATE=1` writes anew what stands behind `=>`.

use crate::cases::{filled, key};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;
use std::{env, fs};
use tidegate_cluster::{Kind, WrittenCluster};
use tidegate_kubernetes::{Checked, Fate, Finding, Merged, ObjectReference, Settings, Severity, Translation};
use tidegate_model::discover::{Cluster, Namespaces};
use tidegate_model::{Configuration, Terminal};

const HOST: &str = "shop.example.com";
const PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// One Ingress: a sentence, paths, annotations, and what becomes of them.
#[derive(Debug, Default)]
struct Manifest {
    /// As they were written, without what comes out.
    lines: Vec<String>,
    has_tls: bool,
    host: Option<String>,
    paths: Vec<(String, String)>,
    annotations: BTreeMap<String, String>,
}

fn read(text: &str) -> Vec<Manifest> {
    let mut manifests: Vec<Manifest> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("=>")) {
        if line.starts_with("--- ") {
            manifests.push(Manifest::default());
        }
        let manifest = manifests.last_mut().expect("a sentence first");
        manifest.lines.push(line.to_owned());
        match line.split_once(' ') {
            Some(("---", _)) => {}
            Some(("path", rest)) => {
                let (path, kind) = rest.rsplit_once(' ').expect("a path and its type");
                manifest.paths.push((path.to_owned(), kind.to_owned()));
            }
            Some(("host", host)) => manifest.host = Some(host.to_owned()),
            None if line == "tls" => manifest.has_tls = true,
            Some(_) | None => {
                let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no annotation: {line}"));
                manifest.annotations.insert(name.to_owned(), value.trim_start().replace("\\n", "\n"));
            }
        }
    }
    manifests
}

impl Manifest {
    fn object(&self) -> Value {
        let annotations: BTreeMap<String, &String> =
            self.annotations.iter().map(|(name, value)| (format!("{PREFIX}{name}"), value)).collect();
        let usual = [("/".to_owned(), "Prefix".to_owned())];
        let paths = if self.paths.is_empty() { &usual[..] } else { &self.paths };
        let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
        let paths: Vec<Value> =
            paths.iter().map(|(path, kind)| json!({"path": path, "pathType": kind, "backend": backend})).collect();
        let host = self.host.as_deref().unwrap_or(HOST);
        let tls = if self.has_tls { json!([{"hosts": [host], "secretName": "tls"}]) } else { json!([]) };
        json!({"kind": "Ingress", "metadata": {"namespace": "shop", "name": "own", "annotations": annotations},
            "spec": {"ingressClassName": "edge", "rules": [{"host": host, "http": {"paths": paths}}], "tls": tls}})
    }
}

/// What is beside each of them. A canary needs somebody whose paths it has a share of.
fn others(is_canary: bool) -> Vec<Value> {
    let service = |name: &str, port: u16| json!({"kind": "Service", "metadata": {"namespace": "shop", "name": name}, "spec": {"clusterIP": "10.96.0.7", "ports": [{"port": port}]}});
    let secret =
        |name: &str, data: Value| json!({"kind": "Secret", "metadata": {"namespace": "shop", "name": name}, "data": data});
    let mut objects = vec![
        service("web", 80),
        service("copies", 80),
        service("errors", 80),
        secret("tls", json!({"tls.crt": format!("certificate:{HOST}"), "tls.key": format!("key:{HOST}")})),
        secret("users", json!({"auth": "alice:$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00\n"})),
        secret("ca", json!({"ca.crt": "authority"})),
        json!({"kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "headers"}, "data": {"X-A": "b"}}),
    ];
    if is_canary {
        let stable = Manifest::default().object();
        objects.push(json!({"kind": "Ingress", "metadata": {"namespace": "shop", "name": "stable"}, "spec": stable["spec"]}));
    }
    objects
}

/// What comes of a manifest, and what is found.
struct Outcome {
    merged: Merged,
    findings: Vec<(ObjectReference, Finding)>,
}

fn outcome(manifest: &Manifest) -> (Checked, Outcome) {
    let mut cluster = WrittenCluster::new(Instant::now());
    let is_canary = manifest.annotations.get("canary").is_some_and(|value| value == "true");
    for object in others(is_canary).into_iter().chain([manifest.object()]) {
        cluster.put(filled(object).to_string().as_bytes()).unwrap_or_else(|problem| panic!("{problem}"));
    }
    let settings = Settings {
        class_names: vec!["edge".to_owned()],
        findings_max: usize::MAX,
        ..Settings::new(Cluster { api: None, namespaces: Namespaces::All })
    };
    let mut translation = Translation::new(settings);
    translation.take_in(cluster.cache(), None, Instant::now());
    let mut changes = cluster.want_secrets(translation.wanted_secrets().clone());
    changes.merge(cluster.want_config_maps(translation.wanted_config_maps().clone()));
    translation.take_in(cluster.cache(), Some(&changes), Instant::now());
    let file = Configuration::default();
    let checked = translation.check(&file);
    let merged = translation.merged(&file);
    let findings = translation.findings().map(|(object, finding)| (object.clone(), finding.clone())).collect();
    (checked, Outcome { merged, findings })
}

/// What `check` says is what is served: of what is shut nothing is, everything else is there, and nothing goes unsaid.
fn assert_agreed(manifest: &Manifest, checked: &Checked, Outcome { merged, findings }: &Outcome) {
    let own = key("shop/own");
    let of_own = checked.ingresses.iter().find(|ingress| ingress.key == own).unwrap_or_else(|| panic!("{manifest:?}"));
    let routes = merged.sites.iter().flat_map(|site| &site.routes);
    let routes = routes.filter(|route| route.origin.as_ref().is_some_and(|origin| origin.name == "own"));
    let served: Vec<bool> = routes
        .map(|route| match &route.terminal {
            Terminal::Proxy { .. } | Terminal::Split(_) | Terminal::FastCgi(_) => true,
            Terminal::Redirect { .. } | Terminal::Respond { .. } | Terminal::Files(_) => false,
        })
        .collect();
    let is_shut = of_own.annotations.iter().any(|annotation| annotation.fate == Fate::Shut);
    let leads =
        merged.sites.iter().flat_map(|site| &site.routes).any(|route| matches!(route.terminal, Terminal::Redirect { .. }));
    let is_canary = manifest.annotations.get("canary").is_some_and(|value| value == "true");
    let of_it = |finding: &&(ObjectReference, Finding)| finding.0.kind == Kind::Ingress && finding.0.key == own;
    let has_error = findings.iter().filter(of_it).any(|(_, finding)| finding.severity == Severity::Error);
    if is_shut {
        assert!(!served.contains(&true), "it is shut, and served: {manifest:?}");
    } else if !is_canary && !has_error {
        assert!(served.contains(&true) || leads || !merged.tcp.is_empty(), "it is not shut, and not served: {manifest:?}");
    }
    let said: BTreeSet<&str> = of_own.annotations.iter().flat_map(|annotation| &annotation.says).map(String::as_str).collect();
    for (object, finding) in findings.iter().filter(of_it) {
        let is_said = said.contains(finding.message.as_str()) || of_own.findings.contains(finding);
        assert!(is_said, "{object} {finding:?} is not in {of_own:?}");
    }
}

/// By fate, with what is said of the Ingress beside its annotations.
fn shown(checked: &Checked) -> String {
    let own = key("shop/own");
    let of_own = checked.ingresses.iter().find(|ingress| ingress.key == own).expect("the Ingress");
    let mut text = String::new();
    for fate in Fate::ALL {
        let names =
            of_own.annotations.iter().filter(|annotation| annotation.fate == fate).map(|annotation| annotation.name.as_str());
        let names: Vec<&str> = names.collect();
        if !names.is_empty() {
            let _ = writeln!(text, "=> {}: {}", fate.as_str(), names.join(" "));
        }
    }
    let codes: BTreeSet<&str> = of_own.findings.iter().map(|finding| finding.code.as_str()).collect();
    for code in codes {
        let _ = writeln!(text, "=> {code}");
    }
    text
}

fn hold(name: &str) -> Vec<Manifest> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let text = fs::read_to_string(&path).expect("a file");
    let manifests = read(&text);
    let mut written = String::new();
    for manifest in &manifests {
        let (checked, merged) = outcome(manifest);
        assert_agreed(manifest, &checked, &merged);
        let _ = writeln!(written, "{}\n{}", manifest.lines.join("\n"), shown(&checked));
    }
    let written = written.trim_end().to_owned() + "\n";
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, written).expect("a file");
    } else {
        assert!(written == text, "{} differs; UPDATE=1 writes it anew, and `git diff` shows what", path.display());
    }
    manifests
}

#[test]
fn manifests_become_what_is_said_of_them() {
    let manifests = hold("manifests.txt");
    assert!(manifests.len() >= 200, "{}", manifests.len());
}

#[test]
fn every_annotation_is_as_the_table_has_it_good_odd_and_broken() {
    const TABLE: &str = include_str!("../../src/annotations/table.rs");
    let manifests = hold("annotations.txt");
    let names = TABLE.lines().filter_map(|line| line.strip_prefix("    (\"")?.split_once('"').map(|(name, _)| name));
    let mut count = 0;
    for name in names.take_while(|name| !name.is_empty()) {
        count += 1;
        let subject = format!("--- {name}: ");
        let own = manifests.iter().filter(|manifest| manifest.lines[0].starts_with(&subject)).count();
        assert!(own >= 3, "there are {own} of `{name}`, and a good, an odd and a broken one are wanted");
    }
    assert!(count > 130, "{count}");
}
