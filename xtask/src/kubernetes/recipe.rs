//! What is built, of which modules and with which flags, and what the folder is called that it is kept in: another
//! version, compiler or flag makes another folder.

use crate::process::Invocation;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A module of Go in the repository. The two have nothing in common, so that neither decides what the other is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoModule {
    Kubernetes,
    Etcd,
}

pub const MODULES: &[GoModule] = &[GoModule::Kubernetes, GoModule::Etcd];

impl GoModule {
    pub fn folder(self) -> &'static str {
        match self {
            GoModule::Kubernetes => "crates/testkit/go/kubernetes",
            GoModule::Etcd => "crates/testkit/go/etcd",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Program {
    pub name: &'static str,
    pub module: GoModule,
    package: &'static str,
}

/// Short ones first: what is wrong with the machine shows sooner.
pub const PROGRAMS: &[Program] = &[
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
    go: PathBuf,
    /// Words in front of a build that have it give way to everything else.
    courtesy: Vec<String>,
    compiler: Compiler,
    /// Of Kubernetes, with its `v`.
    version: String,
    digest: String,
}

impl Recipe {
    /// `sources` are the texts of the modules' files, in the order of [`MODULES`].
    pub fn new(go: PathBuf, courtesy: Vec<String>, compiler: Compiler, sources: &[String]) -> Result<Recipe, String> {
        let kubernetes = sources.first().map_or("", String::as_str);
        let version =
            kubernetes.lines().find_map(|line| line.trim().trim_start_matches("require ").strip_prefix("k8s.io/kubernetes "));
        let version = version.and_then(|rest| rest.split_whitespace().next());
        let version = version.ok_or_else(|| format!("{}/go.mod names no k8s.io/kubernetes", GoModule::Kubernetes.folder()))?;
        let mut recipe = Recipe { go, courtesy, compiler, version: version.to_owned(), digest: String::new() };
        let mut hash = Sha256::new();
        for text in sources {
            hash.update(text);
        }
        for program in PROGRAMS {
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
        format!("{}-{version}-{system}-{machine}-{}", self.version, self.digest)
    }

    /// Lists what the programs of a module are made of, for which all of it is fetched.
    pub fn fetch(&self, module: GoModule) -> Invocation {
        let packages = PROGRAMS.iter().filter(|program| program.module == module).map(|program| program.package);
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
        let package = "k8s.io/component-base/version";
        let mut numbers = self.version.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        let version = &self.version;
        format!("-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}")
    }
}

/// Without what the user has set for his own builds, and without the C library, so that a kept program runs anywhere.
fn plain(invocation: Invocation) -> Invocation {
    invocation.with_environment("GOFLAGS", "").with_environment("CGO_ENABLED", "0")
}

#[cfg(test)]
mod tests {
    use super::{Compiler, GoModule, PROGRAMS, Recipe};
    use std::path::Path;

    fn recipe(version: &str, sources: &[&str], courtesy: &[&str]) -> Result<Recipe, String> {
        let compiler = Compiler { version: version.into(), system: "linux".into(), machine: "amd64".into() };
        let sources: Vec<String> = sources.iter().map(|text| (*text).to_owned()).collect();
        let courtesy = courtesy.iter().map(|word| (*word).to_owned()).collect();
        Recipe::new("/opt/go/bin/go".into(), courtesy, compiler, &sources)
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
        let line = recipe.build(&PROGRAMS[1], Path::new("/c/programs"), Path::new("/c/go")).line();
        assert_eq!(
            line,
            "GOFLAGS='' CGO_ENABLED=0 GOCACHE=/c/go nice -n 19 /opt/go/bin/go build -p 2 -trimpath -buildvcs=false -ldflags \
             '-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 \
             -X k8s.io/component-base/version.gitMinor=36' -o /c/programs/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver"
        );
        let line = recipe.fetch(GoModule::Etcd).line();
        assert_eq!(line, "GOFLAGS='' CGO_ENABLED=0 /opt/go/bin/go list -deps -f '{{.Name}}' go.etcd.io/etcd/server/v3");
    }
}
