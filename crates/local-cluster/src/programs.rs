//! Where `cargo xtask kubernetes build` has put the programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Names the folder that is built into; the task reads it as well.
const CACHE_VARIABLE: &str = "TIDEGATE_KUBERNETES_CACHE";
/// With it, a test without the programs fails.
const REQUIRED_VARIABLE: &str = "TIDEGATE_KUBERNETES_REQUIRED";
/// The modules that say which versions are built.
const MODULE: &str = include_str!("../go/kubernetes/go.mod");
const MODULE_OF_HELM: &str = include_str!("../go/helm/go.mod");
const NAMES: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"];

/// A folder with all programs in it.
#[derive(Debug)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// What was built last of the version that this tests with; `None`, and a line on stderr, where nothing is.
    pub fn find() -> Result<Option<Programs>, String> {
        let version = version(MODULE, "k8s.io/kubernetes").ok_or("go/kubernetes/go.mod names no version")?;
        let folder = built("Kubernetes", version, &format!("{version}-"), &NAMES)?;
        Ok(folder.map(|folder| Programs { folder }))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Helm, which renders the chart; `None`, and a line on stderr, where it is not built.
pub fn helm() -> Result<Option<PathBuf>, String> {
    let version = version(MODULE_OF_HELM, "helm.sh/helm/v3").ok_or("go/helm/go.mod names no version")?;
    let folder = built("Helm", version, &format!("helm-{version}-"), &["helm"])?;
    Ok(folder.map(|folder| folder.join("helm")))
}

fn built(what: &str, version: &str, prefix: &str, names: &[&str]) -> Result<Option<PathBuf>, String> {
    if let Some(folder) = cache().and_then(|cache| newest(&cache, prefix, names)) {
        return Ok(Some(folder));
    }
    let said = format!("{what} {version} is not built; `cargo xtask kubernetes build` does it, in a quarter of an hour");
    if std::env::var_os(REQUIRED_VARIABLE).is_some() {
        return Err(format!("{said} ({REQUIRED_VARIABLE} is set)"));
    }
    eprintln!("not built: {said}");
    Ok(None)
}

fn version<'a>(module: &'a str, of: &str) -> Option<&'a str> {
    module.lines().find_map(|line| line.trim().strip_prefix(of)?.strip_prefix(' ')?.split_whitespace().next())
}

fn cache() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let below_home = || Some(absolute("HOME")?.join(".cache"));
    let of_user = || Some(absolute("XDG_CACHE_HOME").or_else(below_home)?.join("tidegate-kubernetes"));
    absolute(CACHE_VARIABLE).or_else(of_user)
}

/// A name is the version, the compiler and a digest of everything else.
fn newest(cache: &Path, prefix: &str, names: &[&str]) -> Option<PathBuf> {
    let is_of_version = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(prefix) && names.iter().all(|name| path.join(name).is_file())
    };
    let built = |path: &PathBuf| fs::metadata(path).and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let folders = fs::read_dir(cache).ok()?.flatten().map(|entry| entry.path());
    folders.filter(is_of_version).max_by_key(built)
}

#[cfg(test)]
mod tests {
    use super::{MODULE, MODULE_OF_HELM, NAMES, newest, version};
    use std::fs;

    #[test]
    fn the_version_is_that_of_the_module() {
        let check = |module: &str, of: &str, wanted: Option<&str>| assert_eq!(version(module, of), wanted, "of {of}");
        assert!(version(MODULE, "k8s.io/kubernetes").is_some_and(|version| version.starts_with("v1.")));
        assert!(version(MODULE_OF_HELM, "helm.sh/helm/v3").is_some_and(|version| version.starts_with("v3.")));
        let module = "require (\n\tk8s.io/kubernetes/more v9.9.9\n\tk8s.io/kubernetes v1.40.0 // indirect\n)\n";
        check(module, "k8s.io/kubernetes", Some("v1.40.0"));
        check("module tidegate.test/kubernetes\n", "k8s.io/kubernetes", None);
    }

    #[test]
    fn whole_folders_of_this_version_are_found() {
        let cache = tempfile::tempdir().expect("a folder");
        let make = |name: &str, programs: &[&str]| {
            fs::create_dir(cache.path().join(name)).expect("a folder");
            for program in programs {
                fs::write(cache.path().join(name).join(program), "").expect("a file");
            }
        };
        make("v1.40.10-go1.30-1", &NAMES);
        make("v1.40.1-go1.30-2", &NAMES[1..]);
        make("building", &NAMES);
        assert_eq!(newest(cache.path(), "v1.40.1-", &NAMES), None);
        make("v1.40.1-go1.30-3", &NAMES);
        assert_eq!(newest(cache.path(), "v1.40.1-", &NAMES), Some(cache.path().join("v1.40.1-go1.30-3")));
        assert_eq!(newest(&cache.path().join("nothing"), "v1.40.1-", &NAMES), None);
    }
}
