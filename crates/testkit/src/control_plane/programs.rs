//! Where `cargo xtask kubernetes build` has put the programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Names the folder that is built into; the task reads it as well.
const CACHE_VARIABLE: &str = "TIDEGATE_KUBERNETES_CACHE";
/// With it, a test without the programs fails.
const REQUIRED_VARIABLE: &str = "TIDEGATE_KUBERNETES_REQUIRED";
/// The module that says which version is built.
const MODULE: &str = include_str!("../../go/kubernetes/go.mod");
const NAMES: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"];

/// A folder with all programs in it.
#[derive(Debug)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// What was built last of the version that this tests with; `None`, and a line on stderr, where nothing is.
    pub fn find() -> Result<Option<Programs>, String> {
        let version = version(MODULE).ok_or("go/kubernetes/go.mod names no version")?;
        if let Some(folder) = cache().and_then(|cache| newest(&cache, version)) {
            return Ok(Some(Programs { folder }));
        }
        let said = format!("Kubernetes {version} is not built; `cargo xtask kubernetes build` does it, in a quarter of an hour");
        if std::env::var_os(REQUIRED_VARIABLE).is_some() {
            return Err(format!("{said} ({REQUIRED_VARIABLE} is set)"));
        }
        eprintln!("not built: {said}");
        Ok(None)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

fn version(module: &str) -> Option<&str> {
    module.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes ")?.split_whitespace().next())
}

fn cache() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let below_home = || Some(absolute("HOME")?.join(".cache"));
    let of_user = || Some(absolute("XDG_CACHE_HOME").or_else(below_home)?.join("tidegate-kubernetes"));
    absolute(CACHE_VARIABLE).or_else(of_user)
}

/// A name is the version, the compiler and a digest of everything else.
fn newest(cache: &Path, version: &str) -> Option<PathBuf> {
    let is_of_version = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(version).is_some_and(|rest| rest.starts_with('-')) && NAMES.iter().all(|name| path.join(name).is_file())
    };
    let built = |path: &PathBuf| fs::metadata(path).and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let folders = fs::read_dir(cache).ok()?.flatten().map(|entry| entry.path());
    folders.filter(is_of_version).max_by_key(built)
}

#[cfg(test)]
mod tests {
    use super::{MODULE, NAMES, newest, version};
    use std::fs;

    #[test]
    fn the_version_is_that_of_the_module() {
        assert!(version(MODULE).is_some_and(|version| version.starts_with("v1.")));
        assert_eq!(version("require (\n\tk8s.io/kubernetes v1.40.0 // indirect\n)\n"), Some("v1.40.0"));
        assert_eq!(version("module tidegate.test/kubernetes\n"), None);
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
        assert_eq!(newest(cache.path(), "v1.40.1"), None);
        make("v1.40.1-go1.30-3", &NAMES);
        assert_eq!(newest(cache.path(), "v1.40.1"), Some(cache.path().join("v1.40.1-go1.30-3")));
        assert_eq!(newest(&cache.path().join("nothing"), "v1.40.1"), None);
    }
}
