//! The program in a cluster as the chart installs it, by Helm: pods with the rights, volumes, user and arguments that
//! the chart gives them.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tidegate_testkit::control_plane::{ControlPlane, Image};

/// What stands for the program as an image.
const IMAGE: &str = "testkit/program";
/// Where it is installed, and as what.
pub const NAMESPACE: &str = "tidegate";
pub const RELEASE: &str = "tidegate";
/// Fewer workers and lines than elsewhere, since many pods share two processors. An address of the network of the test
/// is all that a load balancer would give.
const VALUES: &str = "service.type=ClusterIP,config=access-log \"off\"\nthreads 1\n";

/// The program as an image of a node.
pub fn image() -> Image {
    program_image(IMAGE)
}

/// The program as an image of that name.
pub fn program_image(name: &str) -> Image {
    Image { name: name.to_owned(), program: crate::program(), arguments: Vec::new() }
}

/// A release of the chart.
pub struct Release {
    helm: PathBuf,
    /// Of Helm.
    folder: TempDir,
}

impl Release {
    /// Installs it with these values, in a namespace that is made for it.
    pub fn install(plane: &ControlPlane, helm: PathBuf, values: &[&str]) -> Release {
        let release = Release { helm, folder: tempfile::tempdir().expect("a folder") };
        let name = format!("image.repository={IMAGE}");
        let all: Vec<&str> = [VALUES, &name].into_iter().chain(values.iter().copied()).collect();
        release.run(plane, &["install", RELEASE, &chart(), "--namespace", NAMESPACE, "--create-namespace"], &all);
        release
    }

    /// Changes these values.
    pub fn upgrade(&self, plane: &ControlPlane, values: &[&str]) {
        self.run(plane, &["upgrade", RELEASE, &chart(), "--namespace", NAMESPACE, "--reuse-values"], values);
    }

    /// Takes everything away that it has made, but for the namespace.
    pub fn remove(&self, plane: &ControlPlane) {
        self.run(plane, &["uninstall", RELEASE, "--namespace", NAMESPACE], &[]);
    }

    fn run(&self, plane: &ControlPlane, words: &[&str], values: &[&str]) {
        let sets = values.iter().flat_map(|value| ["--set", value]);
        let output = self.command(plane).args(words).args(sets).output().expect("Helm can be started");
        assert!(output.status.success(), "helm {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Helm, which keeps what it keeps in a folder of the test.
    fn command(&self, plane: &ControlPlane) -> Command {
        let mut command = Command::new(&self.helm);
        command.env("KUBECONFIG", plane.master_kubeconfig().expect("a kubeconfig"));
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(name, self.folder.path().join(name));
        }
        command
    }
}

/// The objects of the manifest that is given out.
pub fn manifest_objects(plane: &ControlPlane) -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes/tidegate.yaml");
    let mut command = Command::new(plane.program("kubectl"));
    command.args(["create", "--dry-run=client", "--output=json", "--filename"]).arg(file);
    let output = command.env("KUBECONFIG", plane.master_kubeconfig().expect("a kubeconfig")).output().expect("kubectl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>().map(|object| object.expect("JSON"));
    let of = |object: Value| object["items"].as_array().cloned().unwrap_or(vec![object]);
    read.flat_map(of).collect()
}

/// The folder of the chart.
pub fn chart() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes/chart").display().to_string()
}
