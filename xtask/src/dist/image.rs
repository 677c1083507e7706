//! The image for containers, without a daemon: the static program, the authorities, a configuration and folders, owned
//! so that it runs without root on a file system that cannot be written to. Both as an OCI layout, for registries, and
//! as what `docker load` reads. Image specification 1.1: <https://github.com/opencontainers/image-spec>.

use super::archive::{self, ArchiveEntry};
use super::{Distribution, bill_of_materials, failed, generated, sha256};
use crate::release::Machine;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// The user of the program in the container: nobody's on any machine, above what systems give out.
const USER: u64 = 65_532;
const PROGRAM: &str = "usr/bin/tidegate";
const STATE: &str = "var/lib/tidegate";
const CONFIGURATION: &str = "etc/tidegate";

/// Layers and configurations by their digest, as the specification has them.
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";

/// The image of one machine.
struct Image {
    machine: Machine,
    layer: Vec<u8>,
    compressed: Vec<u8>,
    config: Vec<u8>,
}

/// One archive with all machines, and one for `docker load` of each.
pub fn write(distribution: &Distribution, machines: &[Machine]) -> Result<Vec<PathBuf>, String> {
    let mut images = Vec::new();
    for machine in machines {
        let path = distribution.program(*machine)?;
        let copy = distribution.folder.join(format!(".tidegate-{}", machine.name()));
        fs::copy(&path, &copy).map_err(failed(&path))?;
        generated::strip(&copy, *machine, &distribution.root)?;
        let content = fs::read(&copy).map_err(failed(&copy))?;
        fs::remove_file(&copy).map_err(failed(&copy))?;
        images.push(image(distribution, *machine, content)?);
    }
    let mut written = vec![put_archive(distribution, "oci.tar", oci(distribution, &images)?)?];
    for image in &images {
        let name = format!("docker-{}.tar", image.machine.name());
        written.push(put_archive(distribution, &name, docker(distribution, image)?)?);
    }
    Ok(written)
}

fn put_archive(distribution: &Distribution, end: &str, bytes: Vec<u8>) -> Result<PathBuf, String> {
    let path = distribution.folder.join(format!("tidegate-{}-{end}", distribution.version));
    fs::write(&path, bytes).map_err(failed(&path))?;
    Ok(path)
}

fn image(distribution: &Distribution, machine: Machine, program: Vec<u8>) -> Result<Image, String> {
    let layer = archive::tar(entries(distribution, machine, program)?, distribution.commit_time)?;
    let compressed = archive::gzip(&layer)?;
    let config = bytes_of(&config(distribution, machine, &layer)?)?;
    Ok(Image { machine, layer, compressed, config })
}

/// The file system.
fn entries(distribution: &Distribution, machine: Machine, program: Vec<u8>) -> Result<Vec<ArchiveEntry>, String> {
    let of_repository = |path: &str| {
        let path = distribution.root.join(path);
        fs::read(&path).map_err(failed(&path))
    };
    let people = format!("root:x:0:0:root:/:/sbin/nologin\ntidegate:x:{USER}:{USER}:Tidegate:/{STATE}:/sbin/nologin\n");
    let groups = format!("root:x:0:\ntidegate:x:{USER}:\n");
    let mut entries: Vec<ArchiveEntry> =
        ["etc", "etc/ssl", "etc/ssl/certs", "usr", "usr/bin", "usr/share", "usr/share/doc", "var", "var/lib"]
            .iter()
            .map(|path| ArchiveEntry::folder(path, 0o755, 0))
            .collect();
    entries.extend([
        ArchiveEntry::folder("tmp", 0o1777, 0),
        ArchiveEntry::folder(CONFIGURATION, 0o755, 0),
        ArchiveEntry::folder(STATE, 0o700, USER),
        ArchiveEntry::folder("usr/share/doc/tidegate", 0o755, 0),
        ArchiveEntry::folder("usr/share/tidegate", 0o755, 0),
        ArchiveEntry::folder("usr/share/tidegate/welcome", 0o755, 0),
        ArchiveEntry::file(PROGRAM, 0o755, program),
        ArchiveEntry::file("etc/passwd", 0o644, people.into_bytes()),
        ArchiveEntry::file("etc/group", 0o644, groups.into_bytes()),
        ArchiveEntry::file("etc/ssl/certs/ca-certificates.crt", 0o644, authorities().into_bytes()),
        ArchiveEntry::file(&format!("{CONFIGURATION}/tidegate.kdl"), 0o644, of_repository("packaging/common/tidegate.kdl")?),
        ArchiveEntry::file("usr/share/tidegate/welcome/index.html", 0o644, of_repository("packaging/common/welcome/index.html")?),
        ArchiveEntry::file("usr/share/doc/tidegate/LICENSE", 0o644, of_repository("LICENSE")?),
        ArchiveEntry::file(
            "usr/share/doc/tidegate/third-party.txt",
            0o644,
            bill_of_materials::notice(&distribution.root, machine)?.into_bytes(),
        ),
        ArchiveEntry::file(
            "usr/share/doc/tidegate/tidegate.cdx.json",
            0o644,
            bill_of_materials::cyclone_dx(distribution, machine)?.into_bytes(),
        ),
    ]);
    Ok(entries)
}

/// Mozilla's authorities, as of `Cargo.lock`, in PEM.
pub fn authorities() -> String {
    const LINE: usize = 48;
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        text += "-----BEGIN CERTIFICATE-----\n";
        for line in certificate.as_ref().chunks(LINE) {
            text += &base64::Engine::encode(&base64::engine::general_purpose::STANDARD, line);
            text.push('\n');
        }
        text += "-----END CERTIFICATE-----\n";
    }
    text
}

fn config(distribution: &Distribution, machine: Machine, layer: &[u8]) -> Result<Value, String> {
    // RFC 3339.
    let created = distribution.time()?.to_string();
    Ok(json!({
        "created": created,
        "architecture": machine.name(),
        "os": "linux",
        "config": settings(distribution)?,
        "rootfs": { "type": "layers", "diff_ids": [digest(layer)] },
        "history": [{ "created": created, "created_by": "cargo xtask dist image", "comment": "the program and what it needs" }],
    }))
}

/// How a container of it is started, by default.
pub fn settings(distribution: &Distribution) -> Result<Value, String> {
    Ok(json!({
        "User": format!("{USER}:{USER}"),
        "ExposedPorts": { "80/tcp": {}, "443/tcp": {} },
        "Env": [format!("STATE_DIRECTORY=/{STATE}"), "PATH=/usr/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
        "Entrypoint": [format!("/{PROGRAM}")],
        "Cmd": ["run"],
        "Volumes": { format!("/{CONFIGURATION}"): {}, format!("/{STATE}"): {} },
        "WorkingDir": "/",
        "StopSignal": "SIGTERM",
        // Nanoseconds. Of docker's own form of this part, which its engine and podman read.
        "Healthcheck": {
            "Test": ["CMD", format!("/{PROGRAM}"), "status"],
            "Interval": 10_000_000_000_u64,
            "Timeout": 5_000_000_000_u64,
            "StartPeriod": 5_000_000_000_u64,
            "Retries": 3,
        },
        "Labels": labels(distribution, &distribution.time()?.to_string()),
    }))
}

fn labels(distribution: &Distribution, created: &str) -> Value {
    json!({
        "org.opencontainers.image.title": "tidegate",
        "org.opencontainers.image.description": "A reverse proxy, load balancer and TLS terminator",
        "org.opencontainers.image.version": distribution.version,
        "org.opencontainers.image.revision": distribution.commit,
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.licenses": "Apache-2.0",
    })
}

/// An OCI image layout: one index, with a manifest for each machine.
fn oci(distribution: &Distribution, images: &[Image]) -> Result<Vec<u8>, String> {
    let mut entries = vec![
        ArchiveEntry::folder("blobs", 0o755, 0),
        ArchiveEntry::folder("blobs/sha256", 0o755, 0),
        ArchiveEntry::file("oci-layout", 0o644, bytes_of(&json!({ "imageLayoutVersion": "1.0.0" }))?),
    ];
    let mut blob =
        |bytes: &[u8]| entries.push(ArchiveEntry::file(&format!("blobs/sha256/{}", sha256(bytes)), 0o644, bytes.to_vec()));
    let mut manifests = Vec::new();
    for image in images {
        let manifest = bytes_of(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": descriptor(CONFIG_TYPE, &image.config),
            "layers": [descriptor(LAYER_TYPE, &image.compressed)],
        }))?;
        let mut described = descriptor(MANIFEST_TYPE, &manifest);
        described["platform"] = json!({ "os": "linux", "architecture": image.machine.name() });
        manifests.push(described);
        blob(&image.compressed);
        blob(&image.config);
        blob(&manifest);
    }
    let versions = bytes_of(&json!({ "schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests }))?;
    let mut named = descriptor(INDEX_TYPE, &versions);
    named["annotations"] = json!({ "org.opencontainers.image.ref.name": distribution.version });
    blob(&versions);
    let index = bytes_of(&json!({ "schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [named] }))?;
    entries.push(ArchiveEntry::file("index.json", 0o644, index));
    archive::tar(entries, distribution.commit_time)
}

/// What `docker load` and `podman load` read: the layer as it is, named by a list.
fn docker(distribution: &Distribution, image: &Image) -> Result<Vec<u8>, String> {
    let config_name = format!("{}.json", sha256(&image.config));
    let layer_name = format!("{}.tar", sha256(&image.layer));
    let list = json!([{
        "Config": config_name,
        "RepoTags": [format!("tidegate:{}", distribution.version), "tidegate:latest"],
        "Layers": [layer_name],
    }]);
    let entries = vec![
        ArchiveEntry::file(&config_name, 0o644, image.config.clone()),
        ArchiveEntry::file(&layer_name, 0o644, image.layer.clone()),
        ArchiveEntry::file("manifest.json", 0o644, bytes_of(&list)?),
    ];
    archive::tar(entries, distribution.commit_time)
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(bytes), "size": bytes.len() })
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

fn bytes_of(value: &Value) -> Result<Vec<u8>, String> {
    serde_json::to_vec(value).map_err(|error| format!("dist: {error}"))
}
