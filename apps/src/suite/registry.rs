//! A container registry and skopeo: layers come in pieces, to addresses that the registry makes of what it is told of
//! the client's connection.

use super::Application;
use crate::cache::Cache;
use crate::example::Configuration;
use crate::stage::{Stage, did, free_port, write};
use serde_json::json;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

pub const REGISTRY: Application = Application {
    name: "registry",
    title: "Docker Registry 2.8 and skopeo 1.9 (Debian)",
    story: "push an image with a layer of 40 MB, list its tags, pull it, delete it",
    configuration: Configuration::File(include_str!("../../configurations/registry.kdl")),
    program: None,
    install,
    act,
};

const LAYER_BYTES: u64 = 40 << 20;

fn install(cache: &Cache) -> Result<(), String> {
    cache.debian("registry", &["docker-registry", "skopeo"])
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    let root = stage.cache.root("registry");
    let (port, host) = (free_port()?, format!("localhost:{}", free_port()?));
    let settings = json!({
        "version": 0.1,
        "storage": { "filesystem": { "rootdirectory": stage.folder.join("storage") }, "delete": { "enabled": true } },
        "http": { "addr": format!("127.0.0.1:{port}"), "secret": "a secret of the suite" },
    });
    // JSON is YAML.
    let settings = stage.write("registry.yml", &settings.to_string())?;
    let _server = stage.start_at("registry", port, root.command("docker-registry")?.arg("serve").arg(&settings))?;
    let origin = format!("https://{host}");
    let front = stage.front(&[("https://localhost:8443", &origin), ("127.0.0.1:5000", &format!("127.0.0.1:{port}"))])?;
    let trusted = stage.folder.join("trusted");
    let made = fs::create_dir_all(&trusted).and_then(|()| fs::copy(front.root_certificate(), trusted.join("ca.crt")));
    made.map_err(|error| format!("the root certificate: {error}"))?;
    let image = format!("docker://{host}/suite/image:1");
    let skopeo = |arguments: &[&str]| {
        let mut command = root.command("skopeo")?;
        command.arg("--insecure-policy").arg("--tmpdir").arg(&stage.folder).args(arguments);
        stage.run(&mut command)
    };
    let certificates = trusted.display().to_string();
    let (pushed, pulled) = (stage.folder.join("pushed"), stage.folder.join("pulled"));
    let layer = make_image(stage, &pushed)?;
    let from = format!("oci:{}:1", pushed.display());
    skopeo(&["copy", "--preserve-digests", "--dest-cert-dir", &certificates, &from, &image])?;
    did("an image was pushed");
    let tags = skopeo(&["list-tags", "--cert-dir", &certificates, &format!("docker://{host}/suite/image")])?;
    if !tags.contains("\"1\"") {
        return Err(format!("its tags are {tags}"));
    }
    skopeo(&["copy", "--preserve-digests", "--src-cert-dir", &certificates, &image, &format!("oci:{}:1", pulled.display())])?;
    let blob = |folder: &Path| fs::read(folder.join("blobs/sha256").join(&layer));
    let (there, here) = (blob(&pushed), blob(&pulled));
    if there.is_err() || there.ok() != here.ok() {
        return Err("what was pulled is not what was pushed".into());
    }
    did("it was pulled again, byte for byte");
    skopeo(&["delete", "--cert-dir", &certificates, &image])?;
    did("it was deleted");
    front.check(|_| false)
}

/// In the layout of the Open Container Initiative, with one layer of noise. Says the layer's sum.
fn make_image(stage: &Stage<'_>, folder: &Path) -> Result<String, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(wrong)?;
    let mut noise = Vec::new();
    fs::File::open("/dev/urandom").and_then(|file| file.take(LAYER_BYTES).read_to_end(&mut noise)).map_err(wrong)?;
    fs::write(stage.folder.join("noise"), noise).map_err(wrong)?;
    stage.run(Command::new("tar").args(["-cf", "layer.tar", "noise"]).current_dir(&stage.folder))?;
    let add = |file: &Path| -> Result<(String, u64), String> {
        let said = stage.run(Command::new("sha256sum").arg(file))?;
        let sum = said.split(' ').next().unwrap_or_default().to_owned();
        let bytes = fs::copy(file, blobs.join(&sum)).map_err(wrong)?;
        Ok((sum, bytes))
    };
    let (layer, layer_bytes) = add(&stage.folder.join("layer.tar"))?;
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
    });
    let (config, config_bytes) = add(&stage.write("config.json", &config.to_string())?)?;
    let described = |kind: &str, sum: &str, bytes: u64| json!({ "mediaType": format!("application/vnd.oci.image.{kind}"), "digest": format!("sha256:{sum}"), "size": bytes });
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("config.v1+json", &config, config_bytes),
        "layers": [described("layer.v1.tar", &layer, layer_bytes)],
    });
    let (manifest, manifest_bytes) = add(&stage.write("manifest.json", &manifest.to_string())?)?;
    let mut listed = described("manifest.v1+json", &manifest, manifest_bytes);
    listed["annotations"] = json!({ "org.opencontainers.image.ref.name": "1" });
    write(&folder.join("index.json"), &json!({ "schemaVersion": 2, "manifests": [listed] }).to_string())?;
    write(&folder.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}")?;
    Ok(layer)
}
