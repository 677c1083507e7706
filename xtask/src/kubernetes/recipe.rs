//! What is built, of which modules and with which flags, and what the folder is called that it is kept in: another
//! version, compiler or flag makes another folder.

use crate::process::Invocation;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A module of Go in the repository. They have nothing in common, so that none decides what another is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoModule {
    Kubernetes,
    Etcd,
    Helm,
}

impl GoModule {
    pub fn folder(self) -> &'static str {
        match self {
            GoModule::Kubernetes => "crates/local-cluster/go/kubernetes",
            GoModule::Etcd => "crates/local-cluster/go/etcd",
            GoModule::Helm => "crates/local-cluster/go/helm",
        }
    }

    /// The module of others that is built of it.
    fn requires(self) -> &'static str {
        match self {
            GoModule::Kubernetes => "k8s.io/kubernetes",
            GoModule::Etcd => "go.etcd.io/etcd/server/v3",
            GoModule::Helm => "helm.sh/helm/v3",
        }
    }
}

/// What is built together and kept in one folder. Another version of Helm builds no API server anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collection {
    ControlPlane,
    /// Renders the chart.
    Helm,
}

/// The short one first: what is wrong with the machine shows sooner.
pub const COLLECTIONS: &[Collection] = &[Collection::Helm, Collection::ControlPlane];

impl Collection {
    pub fn name(self) -> &'static str {
        match self {
            Collection::ControlPlane => "the control plane",
            Collection::Helm => "Helm",
        }
    }

    /// The first is the one whose version all of it has.
    pub fn modules(self) -> &'static [GoModule] {
        match self {
            Collection::ControlPlane => &[GoModule::Kubernetes, GoModule::Etcd],
            Collection::Helm => &[GoModule::Helm],
        }
    }

    pub fn programs(self) -> &'static [Program] {
        match self {
            Collection::ControlPlane => CONTROL_PLANE,
            Collection::Helm => HELM,
        }
    }

    /// The beginning of the folder's name; tests look for it by that.
    pub fn prefix(self) -> &'static str {
        match self {
            Collection::ControlPlane => "",
            Collection::Helm => "helm-",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Program {
    pub name: &'static str,
    pub module: GoModule,
    package: &'static str,
}

const HELM: &[Program] = &[Program { name: "helm", module: GoModule::Helm, package: "helm.sh/helm/v3/cmd/helm" }];

const CONTROL_PLANE: &[Program] = &[
    Program { name: "etcd", module: GoModule::Etcd, package: "go.etcd.io/etcd/server/v3" },
    Program { name: "kube-apiserver", module: GoModule::Kubernetes, package: "k8s.io/kubernetes/cmd/kube-apiserver" },
    Program {
        name: "kube-controller-manager",
        module: GoModule::Kubernetes,
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
    },
    Program { name: "kubectl", module: GoModule::Kubernetes, package: "k8s.io/kubernetes/cmd/kubectl" },
];

/// Compilers beside each other. One takes up to a gigabyte, and the machine has other things to do.
const COMPILERS: &str = "2";
/// No paths of this machine and no tables for debuggers in them: half the size, and the same bytes everywhere.
const FLAGS: &[&str] = &["-trimpath", "-buildvcs=false"];

/// Go, and what it builds for.
#[derive(Debug, Clone)]
pub struct Compiler {
    pub version: String,
    pub system: String,
    pub machine: String,
}

#[derive(Debug)]
pub struct Recipe {
    pub collection: Collection,
    go: PathBuf,
    /// Words in front of a build that have it give way to everything else.
    courtesy: Vec<String>,
    compiler: Compiler,
    /// With its `v`.
    version: String,
    digest: String,
}

impl Recipe {
    /// `sources` are the texts of the modules' files, in the order of [`Collection::modules`].
    pub fn new(
        collection: Collection,
        go: PathBuf,
        courtesy: Vec<String>,
        compiler: Compiler,
        sources: &[String],
    ) -> Result<Recipe, String> {
        let module = collection.modules()[0];
        let version = required_version(module, sources.first().map_or("", String::as_str));
        let version = version.ok_or_else(|| format!("{}/go.mod names no {}", module.folder(), module.requires()))?;
        let mut recipe = Recipe { collection, go, courtesy, compiler, version: version.to_owned(), digest: String::new() };
        let mut hash = Sha256::new();
        for text in sources {
            hash.update(text);
        }
        for program in collection.programs() {
            hash.update(program.name);
            hash.update(program.package);
        }
        hash.update([FLAGS.join(" "), recipe.link_flags()].concat());
        for byte in hash.finalize().iter().take(4) {
            // Writing to a String cannot fail.
            let _ = write!(recipe.digest, "{byte:02x}");
        }
        Ok(recipe)
    }

    /// The name of the folder, as `v1.36.3-go1.26.8-linux-amd64-5f0c1b2a`.
    pub fn key(&self) -> String {
        let Compiler { version, system, machine } = &self.compiler;
        format!("{}{}-{version}-{system}-{machine}-{}", self.collection.prefix(), self.version, self.digest)
    }

    /// Lists what the programs of a module are made of, for which all of it is fetched.
    pub fn fetch(&self, module: GoModule) -> Invocation {
        let packages =
            self.collection.programs().iter().filter(|program| program.module == module).map(|program| program.package);
        let words: Vec<&str> = ["list", "-deps", "-f", "{{.Name}}"].into_iter().chain(packages).collect();
        plain(Invocation::new(&self.go.to_string_lossy(), &words))
    }

    /// Builds a program into a folder; what is compiled is kept in another one, and not in the user's own cache.
    pub fn build(&self, program: &Program, programs: &Path, compiled: &Path) -> Invocation {
        let go = self.go.to_string_lossy().into_owned();
        let output = programs.join(program.name).to_string_lossy().into_owned();
        let link_flags = self.link_flags();
        let mut words: Vec<&str> = self.courtesy.iter().map(String::as_str).collect();
        words.extend([&*go, "build", "-p", COMPILERS]);
        words.extend(FLAGS);
        words.extend(["-ldflags", &link_flags, "-o", &output, program.package]);
        plain(Invocation::new(words[0], &words[1..])).with_environment("GOCACHE", &compiled.to_string_lossy())
    }

    /// The version is not in the sources; without these the API server would call itself v0.0.0.
    fn link_flags(&self) -> String {
        let version = &self.version;
        match self.collection {
            Collection::ControlPlane => {
                let package = "k8s.io/component-base/version";
                let mut numbers = version.trim_start_matches('v').split('.');
                let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
                format!("-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}")
            }
            Collection::Helm => format!("-s -w -X helm.sh/helm/v3/internal/version.version={version}"),
        }
    }
}

/// The version of what is built, by the text of its module.
pub fn required_version(module: GoModule, text: &str) -> Option<&str> {
    text.lines().find_map(|line| {
        let rest = line.trim().trim_start_matches("require ").strip_prefix(module.requires())?;
        rest.strip_prefix(' ')?.split_whitespace().next()
    })
}

/// Without what the user has set for his own builds, and without the C library, so that a kept program runs anywhere.
fn plain(invocation: Invocation) -> Invocation {
    invocation.with_environment("GOFLAGS", "").with_environment("CGO_ENABLED", "0")
}

#[cfg(test)]
mod tests {
    use super::{CONTROL_PLANE, Collection, Compiler, GoModule, HELM, Recipe};
    use std::path::Path;

    fn recipe(version: &str, sources: &[&str], courtesy: &[&str]) -> Result<Recipe, String> {
        of(Collection::ControlPlane, version, sources, courtesy)
    }

    fn of(collection: Collection, version: &str, sources: &[&str], courtesy: &[&str]) -> Result<Recipe, String> {
        let compiler = Compiler { version: version.into(), system: "linux".into(), machine: "amd64".into() };
        let sources: Vec<String> = sources.iter().map(|text| (*text).to_owned()).collect();
        let courtesy = courtesy.iter().map(|word| (*word).to_owned()).collect();
        Recipe::new(collection, "/opt/go/bin/go".into(), courtesy, compiler, &sources)
    }

    #[test]
    fn another_version_compiler_or_module_is_kept_elsewhere() {
        let key = |version: &str, sources: &[&str]| recipe(version, sources, &[]).map(|recipe| recipe.key());
        let first = key("go1.26.8", &["require k8s.io/kubernetes v1.36.3\n", "etcd"]).unwrap();
        assert!(first.starts_with("v1.36.3-go1.26.8-linux-amd64-"), "{first}");
        assert_eq!(Ok(&first), key("go1.26.8", &["require k8s.io/kubernetes v1.36.3\n", "etcd"]).as_ref());
        for other in [
            key("go1.27.0", &["require k8s.io/kubernetes v1.36.3\n", "etcd"]),
            key("go1.26.8", &["require (\n\tk8s.io/kubernetes v1.36.4 // indirect\n)", "etcd"]),
            key("go1.26.8", &["require k8s.io/kubernetes v1.36.3\n", "etcd of another version"]),
        ] {
            assert_ne!(Ok(&first), other.as_ref());
        }
        assert!(key("go1.26.8", &["module x\n", "etcd"]).unwrap_err().contains("names no k8s.io/kubernetes"));
    }

    #[test]
    fn what_is_run_to_build_a_program() {
        let recipe = recipe("go1.26.8", &["require k8s.io/kubernetes v1.36.3\n", ""], &["nice", "-n", "19"]).unwrap();
        let line = recipe.build(&CONTROL_PLANE[1], Path::new("/c/programs"), Path::new("/c/go")).line();
        assert_eq!(
            line,
            "GOFLAGS='' CGO_ENABLED=0 GOCACHE=/c/go nice -n 19 /opt/go/bin/go build -p 2 -trimpath -buildvcs=false -ldflags \
             '-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 \
             -X k8s.io/component-base/version.gitMinor=36' -o /c/programs/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver"
        );
        let line = recipe.fetch(GoModule::Etcd).line();
        assert_eq!(line, "GOFLAGS='' CGO_ENABLED=0 /opt/go/bin/go list -deps -f '{{.Name}}' go.etcd.io/etcd/server/v3");
    }
    #[test]
    fn helm_is_kept_beside_the_control_plane_and_not_with_it() {
        let text = "require (\n\thelm.sh/helm/v3/other v9.9.9\n\thelm.sh/helm/v3 v3.22.0 // indirect\n)\n";
        let recipe = of(Collection::Helm, "go1.26.8", &[text], &[]).unwrap();
        assert!(recipe.key().starts_with("helm-v3.22.0-go1.26.8-linux-amd64-"), "{}", recipe.key());
        let line = recipe.build(&HELM[0], Path::new("/c/programs"), Path::new("/c/go")).line();
        assert!(line.ends_with("version.version=v3.22.0' -o /c/programs/helm helm.sh/helm/v3/cmd/helm"), "{line}");
    }
}
