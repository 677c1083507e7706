//! The image as other programs read it: skopeo what it says of itself, umoci what is in it.

use super::{CheckOutcome, asked, is_missing};
use crate::dist::{Distribution, failed};
use crate::process::Invocation;
use crate::release::Machine;
use crate::scratch::ScratchFolder;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// Compressed, for each machine. Held by the thorough check alone: the pipeline says the size.
const BYTES_MAX: u64 = 15_000_000;

pub fn skopeo(distribution: &Distribution, machine: Machine, is_thorough: bool) -> Result<CheckOutcome, String> {
    if let Some(left) = is_missing("skopeo", "skopeo") {
        return Ok(left);
    }
    let name = format!("oci-archive:{}:{}", archive(distribution, "oci"), distribution.version);
    let config = inspected(distribution, machine, &name, &["--config"])?;
    said_of_itself(&config, machine)?;
    let scratch = ScratchFolder::new("image")?;
    let copy = format!("dir:{}", scratch.path().display());
    asked(&Invocation::new("skopeo", &["--override-arch", machine.name(), "copy", "--quiet", &name, &copy]), &distribution.root)?;
    let path = scratch.path().join("manifest.json");
    let manifest: Value = serde_json::from_slice(&fs::read(&path).map_err(failed(&path))?)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let bytes: u64 = manifest["layers"].as_array().into_iter().flatten().filter_map(|layer| layer["size"].as_u64()).sum();
    if bytes == 0 || (is_thorough && bytes > BYTES_MAX) {
        return Err(format!("{bytes} bytes compressed, where {BYTES_MAX} are the most"));
    }
    Ok(CheckOutcome::Passed(format!("{bytes} bytes compressed, user, ports, volumes and health check as they should be")))
}

pub fn docker(distribution: &Distribution, machine: Machine) -> Result<CheckOutcome, String> {
    if let Some(left) = is_missing("skopeo", "skopeo") {
        return Ok(left);
    }
    let end = format!("docker-{}", machine.name());
    let config = inspected(distribution, machine, &format!("docker-archive:{}", archive(distribution, &end)), &["--config"])?;
    said_of_itself(&config, machine)?;
    Ok(CheckOutcome::Passed("is read".into()))
}

/// Root alone can keep the owners, and start the program where nothing else is.
pub fn unpacked(distribution: &Distribution, machine: Machine) -> Result<CheckOutcome, String> {
    for tool in ["skopeo", "umoci", "unshare"] {
        if let Some(left) = is_missing(tool, tool) {
            return Ok(left);
        }
    }
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0) {
        return Ok(CheckOutcome::Left("owners of files can be kept by root only".into()));
    }
    let scratch = ScratchFolder::new("image")?;
    let from = format!("oci-archive:{}:{}", archive(distribution, "oci"), distribution.version);
    let (layout, bundle) = (scratch.path().join("layout"), scratch.path().join("bundle"));
    let to = format!("oci:{}:tried", layout.display());
    asked(&Invocation::new("skopeo", &["--override-arch", machine.name(), "copy", "--quiet", &from, &to]), &distribution.root)?;
    let image = format!("{}:tried", layout.display());
    asked(&Invocation::new("umoci", &["unpack", "--image", &image, &bundle.display().to_string()]), &distribution.root)?;
    let files = bundle.join("rootfs");
    let state = files.join("var/lib/tidegate");
    let metadata = fs::metadata(&state).map_err(failed(&state))?;
    if (metadata.uid(), metadata.mode() & 0o777) != (65_532, 0o700) {
        return Err(format!("the folder of the state is {}'s with mode {:o}", metadata.uid(), metadata.mode() & 0o777));
    }
    if !machine.is_this() {
        return Ok(CheckOutcome::Passed("owners as they should be; its program is run by the short suite".into()));
    }
    let files = files.display().to_string();
    // In a network of its own, where everybody may have every port: as engines do it.
    let script = "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
                  exec chroot --userspec=65532:65532 \"$1\" /usr/bin/tidegate check /etc/tidegate/tidegate.kdl";
    let words = ["--net", "sh", "-euc", script, "sh", &files];
    asked(&Invocation::new("unshare", &words).with_environment("STATE_DIRECTORY", "/var/lib/tidegate"), &distribution.root)?;
    Ok(CheckOutcome::Passed("owners as they should be, and its configuration passes `check` in it".into()))
}

fn archive(distribution: &Distribution, end: &str) -> String {
    distribution.folder.join(format!("tidegate-{}-{end}.tar", distribution.version)).display().to_string()
}

fn inspected(distribution: &Distribution, machine: Machine, name: &str, more: &[&str]) -> Result<Value, String> {
    let words = [&["--override-arch", machine.name(), "inspect"], more, &[name]].concat();
    let text = asked(&Invocation::new("skopeo", &words), &distribution.root)?;
    serde_json::from_str(&text).map_err(|error| format!("skopeo: {error}"))
}

fn said_of_itself(config: &Value, machine: Machine) -> Result<(), String> {
    let keys =
        |value: &Value| value.as_object().map(|object| object.keys().cloned().collect::<Vec<_>>().join(" ")).unwrap_or_default();
    let inner = &config["config"];
    let found = [
        ("architecture", config["architecture"].as_str().unwrap_or_default().to_owned(), machine.name()),
        ("user", inner["User"].as_str().unwrap_or_default().to_owned(), "65532:65532"),
        ("ports", keys(&inner["ExposedPorts"]), "443/tcp 80/tcp"),
        ("volumes", keys(&inner["Volumes"]), "/etc/tidegate /var/lib/tidegate"),
        ("entry point", inner["Entrypoint"][0].as_str().unwrap_or_default().to_owned(), "/usr/bin/tidegate"),
    ];
    for (what, seen, expected) in found {
        if seen != expected {
            return Err(format!("{what}: `{seen}` in place of `{expected}`"));
        }
    }
    Ok(())
}
