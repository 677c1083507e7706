//! Manifests for those without Helm: a file for `kubectl apply` and a base for Kustomize, of a Deployment and of a
//! DaemonSet. All of them are rendered from the chart, so that there is one source. What is in the chart is held by
//! `chart_tests`.

use crate::process::Invocation;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

pub const CHART: &str = "packaging/kubernetes/chart";
const FOLDER: &str = "packaging/kubernetes";
/// Of the release and of its namespace.
pub const NAME: &str = "tidegate";
const HEAD: &str =
    "# Written by `cargo xtask kubernetes manifests` from packaging/kubernetes/chart: change that, and not this.\n";

/// How pods run, as manifests are written.
struct WorkloadForm {
    name: &'static str,
    /// The file for `kubectl apply`.
    plain: &'static str,
    /// Values that differ from the chart's own.
    set: &'static [&'static str],
    /// What the namespace lets pods do. Ports of the node are beyond what `restricted` and `baseline` let.
    security: &'static str,
}

const FORMS: &[WorkloadForm] = &[
    WorkloadForm { name: "deployment", plain: "tidegate.yaml", set: &[], security: "restricted" },
    WorkloadForm {
        name: "daemonset",
        plain: "tidegate-daemonset.yaml",
        set: &["kind=DaemonSet", "service.type=ClusterIP"],
        security: "privileged",
    },
];

/// A file, by its path in the repository.
#[derive(Debug, PartialEq, Eq)]
pub struct Manifest {
    pub path: String,
    pub text: String,
}

pub fn write(root: &Path, helm: &Path) -> Result<(), String> {
    for Manifest { path, text } in rendered(root, helm)? {
        let file = root.join(&path);
        let folder = file.parent().unwrap_or(root);
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        fs::write(&file, text).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}

/// `Err` with those that differ.
pub fn check(root: &Path, helm: &Path) -> Result<(), String> {
    let differs = |Manifest { path, text }: &Manifest| fs::read_to_string(root.join(path)).ok().as_ref() != Some(text);
    let stale: Vec<String> =
        rendered(root, helm)?.into_iter().filter(|manifest| differs(manifest)).map(|manifest| manifest.path).collect();
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("{} would be written otherwise; `cargo xtask kubernetes manifests` does it", stale.join(", ")))
}

fn rendered(root: &Path, helm: &Path) -> Result<Vec<Manifest>, String> {
    let mut manifests = Vec::new();
    for form in FORMS {
        let words: Vec<&str> = form.set.iter().flat_map(|value| ["--set", value]).collect();
        manifests.extend(form.manifests(&render(root, helm, &words)?));
    }
    Ok(manifests)
}

/// What Helm makes of the chart, with more of its words.
pub fn render(root: &Path, helm: &Path, words: &[&str]) -> Result<String, String> {
    let fixed = ["template", NAME, CHART, "--namespace", NAME, "--kube-version", "1.36.0"];
    let invocation = Invocation::new(&helm.to_string_lossy(), &[&fixed, words].concat());
    let output = invocation.capture(root)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("`{}`: {}", invocation.line(), String::from_utf8_lossy(&output.stderr).trim()))
}

impl WorkloadForm {
    fn manifests(&self, rendered: &str) -> Vec<Manifest> {
        let folder = format!("{FOLDER}/kustomize/{}", self.name);
        let mut files = vec![("namespace.yaml".to_owned(), self.namespace())];
        files.extend(by_template(rendered));
        let mut kustomization =
            format!("{HEAD}apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: {NAME}\nresources:\n");
        let mut plain = HEAD.to_owned();
        let mut manifests = Vec::new();
        for (name, text) in files {
            // Writing to a String cannot fail.
            let _ = writeln!(kustomization, "  - {name}");
            let _ = write!(plain, "---\n{text}");
            manifests.push(Manifest { path: format!("{folder}/{name}"), text: format!("{HEAD}{text}") });
        }
        manifests.push(Manifest { path: format!("{folder}/kustomization.yaml"), text: kustomization });
        manifests.push(Manifest { path: format!("{FOLDER}/{}", self.plain), text: plain });
        manifests
    }

    /// The chart has none, since Helm makes it.
    fn namespace(&self) -> String {
        let label = format!("pod-security.kubernetes.io/enforce: {}", self.security);
        format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAME}\n  labels:\n    {label}\n")
    }
}

/// Documents by the file of the chart that they come from, in the order in which Helm puts them.
fn by_template(rendered: &str) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = Vec::new();
    for document in format!("\n{rendered}").split("\n---\n").skip(1) {
        let Some((source, text)) = document.split_once('\n') else { continue };
        let name = source.rsplit('/').next().unwrap_or_default();
        let text = format!("{}\n", text.trim_end());
        match files.iter_mut().find(|(known, _)| known == name) {
            Some((_, file)) => {
                file.push_str("---\n");
                file.push_str(&text);
            }
            None => files.push((name.to_owned(), text)),
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::by_template;

    #[test]
    fn documents_of_one_template_are_one_file() {
        let rendered = "---\n# Source: tidegate/templates/rbac.yaml\na: 1\n---\n# Source: tidegate/templates/service.yaml\nb: 2\n\n\
                        ---\n# Source: tidegate/templates/rbac.yaml\nc: 3\n";
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(by_template(rendered), [file("rbac.yaml", "a: 1\n---\nc: 3\n"), file("service.yaml", "b: 2\n")]);
    }
}
