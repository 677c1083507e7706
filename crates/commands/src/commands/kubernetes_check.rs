//! `tidegate kubernetes check`: what becomes of every annotation of Ingresses, before anything is served. They are read
//! from files, or asked of the cluster; nothing is written there.

use super::kubernetes::namespaces;
use super::{FAILED, fail, plural, read_stdin};
use crate::cli::kubernetes::{KubernetesCheck, ObjectName};
use crate::output;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tidegate_cluster::{Cache, ClusterFollower, Fault, Key, Kind, Kubeconfig, Place, Pod, Scope, WrittenCluster};
use tidegate_kubernetes::{
    Checked, CheckedAnnotation, CheckedConfig, CheckedIngress, Fate, Finding, Settings, Severity, Translation,
};
use tidegate_model::Configuration;
use tidegate_model::discover::Cluster;

/// The controller of the classes that people come from.
const INGRESS_NGINX: &str = "k8s.io/ingress-nginx";
/// A cluster that has not told everything by then is not waited for.
const LIVE_WAIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Of all files together: what is longer is no set of manifests.
const BYTES_MAX: u64 = 256 << 20;

pub fn run(wanted: &KubernetesCheck) -> ExitCode {
    match look(wanted) {
        Ok(looked) => {
            let text = if output::is_json() { format!("{:#}\n", as_json(&looked)) } else { as_text(&looked) };
            output::print(&text);
            // A program reads them in the report.
            if !output::is_json() {
                looked.unreadable.iter().for_each(|fault| output::say_fault(fault));
            }
            let is_good = looked.unreadable.is_empty() && !looked.checked.has_shut();
            if is_good { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
        }
        Err(problem) => fail(&problem),
    }
}

/// What was seen, and how much could be.
struct Looked {
    checked: Checked,
    /// Ingresses of classes of others.
    foreign: usize,
    /// Kinds of which it is not known what there is, so that nothing is said of what is missing.
    unknown: Vec<Kind>,
    /// Files and objects that cannot be read, with what is wrong with each.
    unreadable: Vec<String>,
}

fn look(wanted: &KubernetesCheck) -> Result<Looked, String> {
    if wanted.live {
        return of_cluster(wanted);
    }
    if wanted.files.is_empty() {
        return Err("nothing is named that could be checked\n  help: name files of objects, `-` for standard input as in `kubectl get ingresses,services,ingressclasses -A -o yaml | tidegate kubernetes check -`, or `--live` for the cluster itself".to_owned());
    }
    let Texts { texts, faults: mut unreadable, .. } = Texts::read(&wanted.files);
    let named: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let (mut cluster, of_objects) = WrittenCluster::read(&named, Instant::now());
    unreadable.extend(of_objects);
    let mut translation = Translation::new(settings(wanted, cluster.cache()));
    translation.take_in(cluster.cache(), None, Instant::now());
    // Once more for what the ConfigMap of ingress-nginx names.
    for _ in 0..2 {
        if cluster.knows(Kind::Secret) {
            cluster.want_secrets(translation.wanted_secrets().clone());
        }
        if cluster.knows(Kind::ConfigMap) || names_config_map(wanted) {
            cluster.want_config_maps(translation.wanted_config_maps().clone());
        }
        translation.take_in(cluster.cache(), None, Instant::now());
    }
    let unknown = [Kind::Service, Kind::Secret, Kind::ConfigMap].into_iter().filter(|kind| !cluster.knows(*kind)).collect();
    Ok(Looked { unreadable, ..looked(&mut translation, cluster.cache(), unknown) })
}

fn looked(translation: &mut Translation, cache: &Cache, unknown: Vec<Kind>) -> Looked {
    let checked = translation.check(&Configuration::default());
    let foreign = cache.ingresses().count().saturating_sub(checked.ingresses.len());
    Looked { checked, foreign, unknown, unreadable: Vec::new() }
}

fn names_config_map(wanted: &KubernetesCheck) -> bool {
    let KubernetesCheck { ingress_nginx_config, tcp_services_configmap, udp_services_configmap, .. } = wanted;
    [ingress_nginx_config, tcp_services_configmap, udp_services_configmap].into_iter().any(Option::is_some)
}

/// Classes that nobody has said anything of are taken for ours: whoever checks files wants to know of all in them.
fn settings(wanted: &KubernetesCheck, cache: &Cache) -> Settings {
    let key = |name: &ObjectName| Key::new(&name.namespace, &name.name);
    let settings = Settings {
        // Nothing is written into objects, and what is left untold could be what shuts.
        findings_max: usize::MAX,
        unknown_snippets: wanted.unknown_snippets.into(),
        default_certificate: wanted.default_certificate.as_ref().map(key),
        ingress_nginx_config: wanted.ingress_nginx_config.as_ref().map(key),
        tcp_services: wanted.tcp_services_configmap.as_ref().map(key),
        udp_services: wanted.udp_services_configmap.as_ref().map(key),
        ..Settings::new(Cluster { api: None, namespaces: namespaces(&wanted.namespaces) })
    };
    if !wanted.ingress_class.is_empty() {
        return Settings { controllers: Vec::new(), class_names: wanted.ingress_class.clone(), ..settings };
    }
    let known: BTreeSet<&str> = cache.ingress_classes().map(|(key, _)| &*key.name).collect();
    let named = cache.ingresses().filter_map(|(_, ingress)| ingress.named_class());
    let unsaid: BTreeSet<String> = named.filter(|name| !known.contains(name)).map(str::to_owned).collect();
    Settings {
        controllers: vec![Settings::CONTROLLER.to_owned(), INGRESS_NGINX.to_owned()],
        class_names: unsaid.into_iter().collect(),
        without_class: true,
        ..settings
    }
}

fn of_cluster(wanted: &KubernetesCheck) -> Result<Looked, String> {
    let place = match &wanted.kubeconfig {
        Some(_) => Kubeconfig::find(wanted.kubeconfig.as_deref()).and_then(|found| found.place(wanted.context.as_deref())),
        None => Pod::here()
            .map(|pod| Place::of_pod(&pod))
            .or_else(|_| Kubeconfig::find(None).and_then(|found| found.place(wanted.context.as_deref()))),
    };
    let asked = |fault: Fault| format!("the API server {fault}");
    let scope = Scope { namespaces: namespaces(&wanted.namespaces), kinds: &Kind::ALL };
    let follower = ClusterFollower::start(place.map_err(asked)?, scope, || {}).map_err(asked)?;
    wait_until(&follower, ClusterFollower::is_whole)?;
    let mut translation = Translation::new(settings(wanted, &follower.cache()));
    translation.take_in(&follower.cache(), None, Instant::now());
    // Once more for what the ConfigMap of ingress-nginx names.
    for _ in 0..2 {
        follower.want_secrets(translation.wanted_secrets().clone());
        follower.want_config_maps(translation.wanted_config_maps().clone());
        wait_until(&follower, ClusterFollower::has_answered)?;
        translation.take_in(&follower.cache(), None, Instant::now());
    }
    let cache = follower.cache();
    Ok(looked(&mut translation, &cache, Vec::new()))
}

fn wait_until(follower: &ClusterFollower, is_so: impl Fn(&ClusterFollower) -> bool) -> Result<(), String> {
    let begin = Instant::now();
    while !is_so(follower) {
        if begin.elapsed() > LIVE_WAIT {
            let why = follower.fault().map_or_else(|| "has not told everything".to_owned(), |fault| fault.to_string());
            return Err(format!("after {} s the API server {why}", LIVE_WAIT.as_secs()));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Texts of files, and files that have none.
struct Texts {
    /// By the names of files, those of a folder in the order of their names.
    texts: Vec<(String, String)>,
    faults: Vec<String>,
    bytes_left: u64,
}

impl Texts {
    fn read(files: &[PathBuf]) -> Texts {
        let mut texts = Texts { texts: Vec::new(), faults: Vec::new(), bytes_left: BYTES_MAX };
        for file in files {
            if file == Path::new("-") {
                texts.texts.push(("standard input".to_owned(), read_stdin()));
                continue;
            }
            match manifests(file) {
                Ok(files) => files.iter().for_each(|file| texts.add(file)),
                Err(fault) => texts.faults.push(fault),
            }
        }
        texts
    }

    fn add(&mut self, file: &Path) {
        match self.text(file) {
            Ok(text) => self.texts.push((file.display().to_string(), text)),
            Err(fault) => self.faults.push(fault),
        }
    }

    fn text(&mut self, file: &Path) -> Result<String, String> {
        let cannot = |error: std::io::Error| format!("{} cannot be read: {error}", file.display());
        let size = std::fs::metadata(file).map_err(cannot)?.len();
        self.bytes_left = self.bytes_left.checked_sub(size).ok_or_else(|| {
            let most = BYTES_MAX >> 20;
            format!("{} is not read: these files are longer than {most} MiB together, so check some of them", file.display())
        })?;
        std::fs::read_to_string(file).map_err(cannot)
    }
}

/// The file, or those of the folder.
fn manifests(file: &Path) -> Result<Vec<PathBuf>, String> {
    if !file.is_dir() {
        return Ok(vec![file.to_path_buf()]);
    }
    let cannot = |error: std::io::Error| format!("{} cannot be read: {error}", file.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(file).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let is_manifest = path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
        if is_manifest && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn as_text(looked: &Looked) -> String {
    let Looked { checked, foreign, unknown, unreadable: _ } = looked;
    let count = checked.ingresses.len();
    let counts = checked.counts();
    let all: usize = counts.values().sum();
    let sums: Vec<String> =
        counts.iter().filter(|(_, count)| **count > 0).map(|(fate, count)| format!("{count} {}", fate.as_str())).collect();
    let sums = if sums.is_empty() { String::new() } else { format!(": {}", sums.join(", ")) };
    let mut text = format!("{count} Ingress{}, {all} annotation{}{sums}\n", if count == 1 { "" } else { "es" }, plural(all));
    if *foreign > 0 {
        let _ = writeln!(
            text,
            "{foreign} of classes of other controllers {} not looked at",
            if *foreign == 1 { "is" } else { "are" }
        );
    }
    for kind in unknown {
        let _ = writeln!(text, "no {} is among the objects, so nothing is said of those that are missing", kind.name());
    }
    if let Some(config) = &checked.config {
        write_config(&mut text, config);
    }
    let mut namespace = None;
    for ingress in &checked.ingresses {
        if namespace != Some(&ingress.key.namespace) {
            namespace = Some(&ingress.key.namespace);
            let _ = writeln!(text, "\nNamespace {}", ingress.key.namespace);
        }
        write_ingress(&mut text, ingress);
    }
    if !checked.others.is_empty() {
        text.push('\n');
    }
    for (object, finding) in &checked.others {
        let _ = writeln!(text, "{object}\n    {}", finding_text(finding));
    }
    text
}

fn write_config(text: &mut String, CheckedConfig { key, keys, findings }: &CheckedConfig) {
    let _ = writeln!(text, "\nConfigMap {key}");
    write_named(text, keys);
    for finding in findings {
        let _ = writeln!(text, "    {}", finding_text(finding));
    }
}

fn write_ingress(text: &mut String, CheckedIngress { key, annotations, findings }: &CheckedIngress) {
    let _ = writeln!(text, "  Ingress {}", key.name);
    write_named(text, annotations);
    for finding in findings {
        let _ = writeln!(text, "    {}", finding_text(finding));
    }
}

fn write_named(text: &mut String, annotations: &[CheckedAnnotation]) {
    for annotation in annotations {
        let _ = writeln!(text, "    {:<9} {}", annotation.fate.as_str(), shown(&annotation.name));
        for sentence in &annotation.says {
            let _ = writeln!(text, "              {sentence}");
        }
    }
}

fn finding_text(Finding { field, code, severity, message }: &Finding) -> String {
    format!("{:<9} {code} {field}\n              {message}", severity_word(*severity))
}

fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// Names come from files of anybody.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).collect()
}

fn as_json(Looked { checked, foreign, unknown, unreadable }: &Looked) -> Value {
    let finding = |Finding { field, code, severity, message }: &Finding| json!({"field": field, "code": code.as_str(), "severity": severity_word(*severity), "message": message});
    let named = |all: &[CheckedAnnotation]| {
        let one = |one: &CheckedAnnotation| json!({"name": one.name, "fate": one.fate.as_str(), "says": one.says});
        all.iter().map(one).collect::<Vec<Value>>()
    };
    let config = |CheckedConfig { key, keys, findings }: &CheckedConfig| {
        let findings: Vec<Value> = findings.iter().map(finding).collect();
        json!({"namespace": &*key.namespace, "name": &*key.name, "keys": named(keys), "findings": findings})
    };
    let ingress = |CheckedIngress { key, annotations, findings }: &CheckedIngress| {
        let annotations = named(annotations);
        let findings: Vec<Value> = findings.iter().map(finding).collect();
        json!({"namespace": &*key.namespace, "name": &*key.name, "annotations": annotations, "findings": findings})
    };
    let counts: serde_json::Map<String, Value> =
        checked.counts().into_iter().map(|(fate, count): (Fate, usize)| (fate.as_str().to_owned(), count.into())).collect();
    let others: Vec<Value> =
        checked.others.iter().map(|(object, said)| json!({"object": object.to_string(), "finding": finding(said)})).collect();
    json!({
        "annotations": counts,
        "config": checked.config.as_ref().map(config),
        "ingresses": checked.ingresses.iter().map(ingress).collect::<Vec<Value>>(),
        "others": others,
        "of_other_classes": foreign,
        "unreadable": unreadable,
        "unknown_kinds": unknown.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
    })
}
