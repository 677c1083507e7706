//! The chart and what is rendered from it: the manifests of the repository, which are looked at everywhere, and every
//! other choice of values, for which Helm has to be built (`cargo xtask kubernetes build`). Where it is not, a test
//! says so and passes; with `TIDEGATE_KUBERNETES_REQUIRED` set it fails. What has to hold of each is in `sound`.

mod rights;
mod sound;

use super::built_helm;
use super::manifests::{CHART, check, render};
use crate::process::Invocation;
use crate::repository::root;
use serde_json::Value;
use sound::faults;
use std::fs;
use std::path::PathBuf;
use yaml_rust2::{Yaml, YamlLoader};

/// With it, a test without the programs fails. The tests of a control plane read it as well.
const REQUIRED_VARIABLE: &str = "TIDEGATE_KUBERNETES_REQUIRED";
/// Lines of values that somebody can still read.
const VALUES_LINES_MAX: usize = 400;
const VALUES: &str = "values.yaml";

fn helm() -> Option<PathBuf> {
    match built_helm() {
        Ok(helm) => Some(helm),
        Err(said) if std::env::var_os(REQUIRED_VARIABLE).is_some() => panic!("{said} ({REQUIRED_VARIABLE} is set)"),
        Err(said) => {
            eprintln!("not built: {said}");
            None
        }
    }
}

fn chart_file(name: &str) -> String {
    let path = root().join(CHART).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Files of values that show a use each.
fn uses() -> Vec<String> {
    let entries = fs::read_dir(root().join(CHART).join("ci")).expect("a folder of values").flatten();
    let mut names: Vec<String> = entries.map(|entry| format!("{CHART}/ci/{}", entry.file_name().to_string_lossy())).collect();
    names.sort();
    assert!(names.len() >= 7, "{names:?}");
    names
}

/// Documents of a YAML stream that say something.
fn documents(text: &str) -> Vec<Value> {
    let documents = YamlLoader::load_from_str(text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    documents.iter().map(json).filter(|document| !document.is_null()).collect()
}

fn json(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::Real(text) => Value::String(text.clone()),
        Yaml::Integer(number) => (*number).into(),
        Yaml::String(text) => text.as_str().into(),
        Yaml::Boolean(is) => (*is).into(),
        Yaml::Array(values) => values.iter().map(json).collect(),
        Yaml::Hash(members) => {
            let name = |yaml: &Yaml| yaml.as_str().unwrap_or_else(|| panic!("{yaml:?} is no name of a member")).to_owned();
            Value::Object(members.iter().map(|(key, value)| (name(key), json(value))).collect())
        }
        Yaml::Null => Value::Null,
        Yaml::Alias(_) | Yaml::BadValue => panic!("{yaml:?} has no place in a manifest"),
    }
}

/// A value of the chart by its path, and the schema's words on it where there are some.
fn leaves(values: &Value, schema: &Value, path: &str, found: &mut Vec<(String, Value, Value)>) {
    match (values, &schema["properties"]) {
        (Value::Object(members), Value::Object(_)) => {
            for (name, value) in members {
                let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(value, &schema["properties"][name], &inner, found);
            }
        }
        _ => found.push((path.to_owned(), values.clone(), schema.clone())),
    }
}

fn all_leaves() -> Vec<(String, Value, Value)> {
    let schema = serde_json::from_str(&chart_file("values.schema.json")).expect("the schema is JSON");
    let mut found = Vec::new();
    leaves(&documents(&chart_file(VALUES))[0], &schema, "", &mut found);
    found
}

/// Every value that is not the default and that the schema counts: the other one of two, and each of several words.
fn switches() -> Vec<String> {
    let mut switches = Vec::new();
    for (path, value, schema) in all_leaves() {
        if let Value::Bool(is) = value {
            switches.push(format!("{path}={}", !is));
        }
        let words = schema["enum"].as_array().into_iter().flatten();
        switches.extend(words.filter(|word| **word != value).map(|word| format!("{path}={}", word.as_str().unwrap_or_default())));
    }
    switches
}

#[test]
fn manifests_of_the_repository_are_what_the_chart_says() {
    if let Some(helm) = helm() {
        check(&root(), &helm).unwrap();
    }
}

#[test]
fn manifests_of_the_repository_are_sound() {
    let folder = root().join("packaging/kubernetes");
    for name in ["tidegate.yaml", "tidegate-daemonset.yaml"] {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(faults(&documents(&text)), [""; 0], "{name}");
    }
    for form in ["deployment", "daemonset"] {
        let folder = folder.join("kustomize").join(form);
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let kustomization = documents(&read("kustomization.yaml")).remove(0);
        let resources = kustomization["resources"].as_array().expect("resources");
        let objects = resources.iter().flat_map(|name| documents(&read(name.as_str().expect("a name")))).collect::<Vec<_>>();
        assert_eq!(faults(&objects), [""; 0], "{form}");
        let files = fs::read_dir(&folder).unwrap().count();
        assert_eq!(files, resources.len() + 1, "{form}: a file that the kustomization does not name");
    }
}

#[test]
fn every_use_and_every_switch_is_sound() {
    let Some(helm) = helm() else { return };
    let sound = |words: &[&str]| {
        let text = render(&root(), &helm, words).unwrap();
        assert_eq!(faults(&documents(&text)), [""; 0], "{words:?}");
    };
    sound(&[]);
    for name in uses() {
        sound(&["--values", &name]);
    }
    let switches = switches();
    assert!(switches.len() >= 20, "{switches:?}");
    for switch in switches {
        sound(&["--set", &switch]);
        sound(&["--set", "service.enabled=false", "--set", &switch]);
        sound(&["--set", "controller.namespaces={shop}", "--set", &switch]);
    }
}

#[test]
fn helm_finds_nothing_to_say_of_the_chart() {
    let Some(helm) = helm() else { return };
    for name in uses() {
        let invocation = Invocation::new(&helm.to_string_lossy(), &["lint", "--strict", "--quiet", CHART, "--values", &name]);
        let output = invocation.capture(&root()).unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&said));
    }
}

/// Words behind `tidegate kubernetes run` that the program has, by the fields of its command line.
fn known_flags() -> Vec<String> {
    let source = fs::read_to_string(root().join("crates/commands/src/cli/kubernetes.rs")).expect("the command line");
    let fields = source.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(": "));
    fields.map(|(field, _)| format!("--{}", field.replace('_', "-"))).collect()
}

#[test]
fn the_program_has_the_words_that_pods_give_it() {
    let known = known_flags();
    let mut given = Vec::new();
    for entry in fs::read_dir(root().join(CHART).join("templates")).expect("templates").flatten() {
        let text = fs::read_to_string(entry.path()).expect("a template");
        let words = text.lines().filter_map(|line| line.trim().strip_prefix("- --"));
        given.extend(words.map(|word| format!("--{}", word.split('=').next().unwrap_or_default())));
    }
    assert!(given.len() >= 15, "{given:?}");
    let unknown: Vec<String> = given.into_iter().filter(|flag| !known.contains(flag)).collect();
    assert_eq!(unknown, [""; 0], "known are {known:?}");
}

#[test]
fn what_is_no_value_is_refused() {
    let Some(helm) = helm() else { return };
    let refused = |value: &str, words: &str| {
        let said = render(&root(), &helm, &["--set", value]).expect_err(value);
        assert!(said.contains(words), "{value}: {said}");
    };
    refused("kind=StatefulSet", "at '/kind'");
    refused("controler.name=x", "'controler' not allowed");
    refused("controller.names=x", "at '/controller'");
    refused("listen.http=80", "minimum: got 80, want 1,024");
    refused("replicas=many", "at '/replicas'");
    refused("acme=built-in", "at '/acme'");
    refused("kind=DaemonSet,autoscaling.enabled=true", "at '/autoscaling/enabled'");
    refused("controller.defaultCertificate=wildcard", "at '/controller/defaultCertificate'");
    refused("controller.defaultBackend=edge/welcome", "at '/controller/defaultBackend'");
    refused("controller.namespaces={Shop}", "at '/controller/namespaces/0'");
    refused("controller.secrets=none", "at '/controller/secrets'");
    refused("image.digest=latest", "at '/image/digest'");
    refused("user=0", "at '/user'");
}

#[test]
fn values_and_their_schema_have_the_same_words() {
    let lines = chart_file(VALUES).lines().count();
    assert!(lines <= VALUES_LINES_MAX, "{lines} lines of values");
    let unknown: Vec<String> =
        all_leaves().into_iter().filter(|(_, _, schema)| schema.is_null()).map(|(path, _, _)| path).collect();
    assert_eq!(unknown, [""; 0], "the schema has not");
    let schema: Value = serde_json::from_str(&chart_file("values.schema.json")).unwrap();
    let values = documents(&chart_file(VALUES)).remove(0);
    let mut missing = Vec::new();
    only_in_schema(&schema, &values, "", &mut missing);
    // Of whoever has this chart within another one.
    assert_eq!(missing, ["global"], "the values have not");
}

fn only_in_schema(schema: &Value, values: &Value, path: &str, missing: &mut Vec<String>) {
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match values.get(name) {
            None => missing.push(path),
            Some(value) => only_in_schema(inner, value, &path, missing),
        }
    }
    if schema["properties"].is_object() {
        assert_eq!(schema["additionalProperties"], false, "{path:?} takes words that nobody knows");
    }
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart = documents(&chart_file("Chart.yaml")).remove(0);
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}
