//! The examples of packaging/compose: that they are YAML, fit the image that is made, have what they mount, and that
//! each configuration in them passes `check`. YAML is read by Python's reader of it, which prints JSON.

use super::{CheckOutcome, asked};
use crate::dist::{Distribution, failed, image, put};
use crate::process::Invocation;
use crate::release::Machine;
use crate::scratch::ScratchFolder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = "packaging/compose";
const PYTHON: &str = "/usr/bin/python3";
const TO_JSON: &str = "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
/// What volumes with a name begin with: a copy of the image that they are mounted in first.
const BEGINS_WITH: [(&str, &str); 1] = [("pebble-certificates", "pebble.minica.pem")];

pub fn check(distribution: &Distribution) -> Result<CheckOutcome, String> {
    let reads_yaml = Invocation::new(PYTHON, &["-c", "import yaml"]).capture(&distribution.root);
    if !reads_yaml.is_ok_and(|output| output.status.success()) {
        return Ok(CheckOutcome::Left(format!("{PYTHON} reads no YAML; Debian has that in python3-yaml")));
    }
    let program = distribution.program(Machine::this()?)?;
    let folder = distribution.root.join(FOLDER);
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed(&folder))?.filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path().join("compose.yaml");
        let text = asked(&Invocation::new(PYTHON, &["-c", TO_JSON, &path.display().to_string()]), &distribution.root)?;
        let value: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let example = Example { folder: entry.path(), value };
        let settings = image::settings(distribution)?;
        example.check(&distribution.version, &settings, &program).map_err(|why| format!("{}: {why}", path.display()))?;
        names.push(name);
    }
    names.sort();
    if names.is_empty() { Err(format!("{FOLDER} has no example")) } else { Ok(CheckOutcome::Passed(names.join(", "))) }
}

struct Example {
    folder: PathBuf,
    value: Value,
}

impl Example {
    fn check(&self, version: &str, settings: &Value, program: &Path) -> Result<(), String> {
        let services = self.value["services"].as_object().ok_or("there are no services")?;
        let mut own = 0;
        for (name, service) in services {
            let told = |why: String| format!("service `{name}`: {why}");
            let image = service["image"].as_str().ok_or_else(|| told("it names no image".into()))?;
            let mounts = self.mounts(service).map_err(told)?;
            let missing = strings(&service["depends_on"]).find(|other| !services.contains_key(*other));
            if let Some(other) = missing {
                return Err(told(format!("it depends on `{other}`, which is no service")));
            }
            if image == format!("tidegate:{version}") {
                own += 1;
                fits(service, &mounts, settings).map_err(told)?;
                passes(&mounts, program).map_err(told)?;
            } else if image.starts_with("tidegate:") || image.split_once(':').is_none_or(|(_, tag)| tag == "latest") {
                return Err(told(format!("`{image}` is not the image of this version, or names none")));
            }
        }
        if own == 1 { Ok(()) } else { Err(format!("{own} services have our image")) }
    }

    /// Where each is seen in the container, and what is there: a path of the example, or the name of a volume.
    fn mounts(&self, service: &Value) -> Result<BTreeMap<String, Mount>, String> {
        let mut mounts = BTreeMap::new();
        for text in strings(&service["volumes"]) {
            let mut parts = text.split(':');
            let (Some(source), Some(target)) = (parts.next(), parts.next()) else { return Err(format!("`{text}` is no volume")) };
            let is_read_only = parts.next() == Some("ro");
            let source = if let Some(path) = source.strip_prefix("./") {
                let path = self.folder.join(path);
                if !path.exists() {
                    return Err(format!("`{text}`: there is no {}", path.display()));
                }
                MountSource::Path(path)
            } else if source.starts_with('/') {
                MountSource::Machine
            } else if self.value["volumes"].as_object().is_some_and(|volumes| volumes.contains_key(source)) {
                MountSource::Volume(source.to_owned())
            } else {
                return Err(format!("`{text}`: there is no volume of that name"));
            };
            mounts.insert(target.to_owned(), Mount { source, is_read_only });
        }
        Ok(mounts)
    }
}

struct Mount {
    source: MountSource,
    is_read_only: bool,
}

enum MountSource {
    Path(PathBuf),
    Volume(String),
    /// A path of the machine that the containers run on, such as the engine's socket.
    Machine,
}

/// What the image says of its ports and volumes.
fn fits(service: &Value, mounts: &BTreeMap<String, Mount>, settings: &Value) -> Result<(), String> {
    for port in strings(&service["ports"]) {
        let inner = port.rsplit(':').next().unwrap_or(port);
        let inner = if inner.contains('/') { inner.to_owned() } else { format!("{inner}/tcp") };
        if settings["ExposedPorts"].get(&inner).is_none() {
            return Err(format!("the image has no port {inner}"));
        }
    }
    let volumes: Vec<&str> = settings["Volumes"].as_object().into_iter().flatten().map(|(path, _)| path.as_str()).collect();
    for volume in volumes {
        let mount = mounts.get(volume).ok_or_else(|| format!("nothing is mounted at {volume}"))?;
        let is_state = matches!(mount.source, MountSource::Volume(_));
        if is_state == mount.is_read_only {
            return Err(format!("{volume}: what belongs to the user is read only, and the state is not"));
        }
    }
    Ok(())
}

/// The configuration, with the paths of the container replaced by where things are here.
fn passes(mounts: &BTreeMap<String, Mount>, program: &Path) -> Result<(), String> {
    let scratch = ScratchFolder::new("compose")?;
    let Some(Mount { source: MountSource::Path(folder), .. }) = mounts.get("/etc/tidegate") else {
        return Err("/etc/tidegate is no folder of the example".into());
    };
    let path = folder.join("tidegate.kdl");
    let mut text = fs::read_to_string(&path).map_err(failed(&path))?;
    for (target, mount) in mounts {
        let here = match &mount.source {
            MountSource::Path(path) => path.clone(),
            MountSource::Volume(name) => scratch.path().join(name),
            MountSource::Machine => continue,
        };
        text = text.replace(&format!("\"{target}"), &format!("\"{}", here.display()));
    }
    for (volume, name) in BEGINS_WITH {
        let folder = scratch.path().join(volume);
        fs::create_dir(&folder).map_err(failed(&folder))?;
        put(&folder, name, &image::authorities())?;
    }
    put(scratch.path(), "tidegate.kdl", &text)?;
    let words = ["check", "tidegate.kdl"];
    let invocation = Invocation::new(&program.display().to_string(), &words);
    asked(&invocation.with_environment("STATE_DIRECTORY", &scratch.path().display().to_string()), scratch.path()).map(drop)
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::{Example, fits};
    use serde_json::{Value, json};
    use std::path::PathBuf;

    fn example(service: Value) -> (Example, Value) {
        let value = json!({ "services": { "proxy": service.clone() }, "volumes": { "state": null } });
        (Example { folder: PathBuf::from("/"), value }, service)
    }

    #[test]
    fn what_does_not_fit_the_image_is_found() {
        let settings = json!({ "ExposedPorts": { "80/tcp": {} }, "Volumes": { "/etc/tidegate": {}, "/var/lib/tidegate": {} } });
        let check = |ports: Value, volumes: Value, expected: Option<&str>| {
            let (example, service) = example(json!({ "ports": ports, "volumes": volumes }));
            let outcome = example.mounts(&service).and_then(|mounts| fits(&service, &mounts, &settings));
            match (outcome, expected) {
                (Ok(()), None) => {}
                (Err(why), Some(part)) => assert!(why.contains(part), "{why}"),
                (outcome, expected) => panic!("{outcome:?} in place of {expected:?}"),
            }
        };
        let both = json!(["./etc:/etc/tidegate:ro", "state:/var/lib/tidegate"]);
        check(json!(["80:80"]), both.clone(), None);
        check(json!(["8080:80/tcp"]), both.clone(), None);
        check(json!(["9000:9000"]), both, Some("no port 9000/tcp"));
        check(json!([]), json!(["./etc:/etc/tidegate:ro"]), Some("nothing is mounted at /var/lib/tidegate"));
        check(json!([]), json!(["./nowhere:/etc/tidegate:ro"]), Some("there is no /nowhere"));
        check(json!([]), json!(["./etc:/etc/tidegate", "state:/var/lib/tidegate"]), Some("read only"));
        check(json!([]), json!(["other:/var/lib/tidegate"]), Some("no volume of that name"));
    }
}
