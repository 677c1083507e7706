//! What is given out for Kubernetes (`packaging/kubernetes`) as the real API server reads it: every field is one, and
//! nothing is refused. Nothing is kept of it (a dry run). What the objects say is held by the tests of `xtask`.

use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use tidegate_testkit::control_plane::{ControlPlane, helm};

const FOLDER: &str = "packaging/kubernetes";
/// Of the release, which is told of pods that do more than they need, and those that values name.
const NAMESPACES: [&str; 3] = ["tidegate", "shop", "ingress-nginx"];
const TOLD_OF_PODS: &str = "pod-security.kubernetes.io/warn";
/// What a DaemonSet does that `restricted` has not: it has ports of its node. Nothing else.
const HOST_PORTS: &str = "Warning: would violate PodSecurity \"restricted:latest\": hostPort (container \"tidegate\" uses \
                          hostPorts 443, 80)\n";

/// A control plane, and who asks it.
struct Cluster {
    _plane: Arc<ControlPlane>,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    root: PathBuf,
}

impl Cluster {
    fn start() -> Option<Cluster> {
        let plane = ControlPlane::shared().expect("it starts")?;
        for name in NAMESPACES {
            let labels = json!({TOLD_OF_PODS: "restricted"});
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
            // The other test may have made it.
            let answer = plane.api().send("POST", "/api/v1/namespaces", Some(&object)).expect("it answers");
            assert!(matches!(answer.status, 201 | 409), "{answer:?}");
        }
        let kubeconfig = plane.master_kubeconfig().expect("a kubeconfig");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Some(Cluster { kubectl: plane.program("kubectl"), kubeconfig, root, _plane: plane })
    }

    /// Has the server look at a file, or at a folder for Kustomize, with nothing kept. It is to warn of nothing else.
    fn takes(&self, flag: &str, path: &Path, warning: &str) {
        let words = ["apply", "--dry-run=server", "--validate=strict", flag];
        let output = self.run(Command::new(&self.kubectl).args(words).arg(path).env("KUBECONFIG", &self.kubeconfig));
        let [said, warned] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        // Of a namespace that was there before kubectl.
        let warned: String = warned.split_inclusive('\n').filter(|line| !line.contains("last-applied-configuration")).collect();
        let what = path.display();
        assert!(output.status.success(), "{what}: {said}{warned}");
        assert!(said.lines().count() >= 2 && said.lines().all(|line| line.ends_with("(server dry run)")), "{what}: {said}");
        assert_eq!(warned, warning, "{what}");
    }

    fn run(&self, command: &mut Command) -> Output {
        command.current_dir(&self.root).output().expect("it can be started")
    }
}

/// The warning that fits a name.
fn warning(name: &str) -> &'static str {
    if name.contains("daemonset") { HOST_PORTS } else { "" }
}

#[test]
fn the_api_server_takes_the_manifests() {
    let Some(cluster) = Cluster::start() else { return };
    for name in ["tidegate.yaml", "tidegate-daemonset.yaml"] {
        cluster.takes("--filename", &Path::new(FOLDER).join(name), warning(name));
    }
    for form in ["deployment", "daemonset"] {
        cluster.takes("--kustomize", &Path::new(FOLDER).join("kustomize").join(form), warning(form));
    }
}

#[test]
fn the_api_server_takes_what_the_chart_is_rendered_to() {
    let Some(cluster) = Cluster::start() else { return };
    let Some(helm) = helm().expect("Helm is found") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let uses = std::fs::read_dir(cluster.root.join(FOLDER).join("chart/ci")).expect("a folder of values").flatten();
    for values in uses.map(|entry| entry.path()) {
        let mut command = Command::new(&helm);
        command.args(["template", "tidegate", "--namespace", "tidegate", "--kube-version", "1.36.0"]);
        command.arg(Path::new(FOLDER).join("chart")).arg("--values").arg(&values);
        // Monitors are of Prometheus's operator, which this cluster has not.
        command.args(["--set", "metrics.serviceMonitor.enabled=false,metrics.podMonitor.enabled=false"]);
        let output = cluster.run(&mut command);
        assert!(output.status.success(), "{}: {}", values.display(), String::from_utf8_lossy(&output.stderr));
        let name = values.file_name().expect("a name").to_string_lossy().into_owned();
        let file = folder.path().join(&name);
        std::fs::write(&file, output.stdout).expect("a file");
        cluster.takes("--filename", &file, warning(&name));
    }
}
