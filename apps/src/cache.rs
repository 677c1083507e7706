//! Where applications are installed: in a folder of the user's cache, by the ordinary clients of their registries, and
//! without touching the system. What is there already is taken as it is; `Cache::clear` begins anew.

use crate::processes::run;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// One command of an install; JupyterLab is a hundred packages, and somebody's line slow.
const INSTALL_TIME_MAX: Duration = Duration::from_secs(30 * 60);
/// Holds what was asked for, once all of it is there.
const STAMP: &str = ".installed";

/// The folder that all of them are in.
pub struct Cache {
    folder: PathBuf,
}

/// Packages of Debian, unpacked: programs are looked for here first, and then on the system.
pub struct Root {
    pub folder: PathBuf,
}

impl Cache {
    /// `$XDG_CACHE_HOME/tidegate-apps`, or below the user's home.
    pub fn open() -> Result<Cache, String> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        let folder = caches.ok_or("neither XDG_CACHE_HOME nor HOME names a folder to install into")?.join("tidegate-apps");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Cache { folder })
    }

    /// Where a program of that name would be unpacked to.
    pub fn root(&self, name: &str) -> Root {
        Root { folder: self.folder.join(name).join("root") }
    }

    pub fn of(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Packages of npm, in exact versions, as `vite@7.1.0`, in a folder of their own.
    pub fn npm(&self, name: &str, packages: &[&str]) -> Result<(), String> {
        self.once(name, packages, |folder, log| {
            fs::write(folder.join("package.json"), "{ \"private\": true }\n").map_err(|error| error.to_string())?;
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-audit", "--no-fund", "--save-exact", "--loglevel=error"]).args(packages);
            install(npm.current_dir(folder), log, "It takes Node.js with npm")
        })
    }

    /// Packages of PyPI, in exact versions, as `grpcio==1.71.0`, in an environment of their own.
    pub fn pip(&self, name: &str, packages: &[&str]) -> Result<(), String> {
        self.once(name, packages, |folder, log| {
            let advice = "It takes Python 3 with venv and pip";
            install(Command::new("python3").args(["-m", "venv", "venv"]).current_dir(folder), log, advice)?;
            let mut pip = Command::new(folder.join("venv/bin/python"));
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
            install(pip.current_dir(folder), log, advice)
        })
    }

    /// Programs of Go, each by its module in an exact version, built into `bin` of the folder.
    pub fn go(&self, name: &str, modules: &[&str]) -> Result<(), String> {
        self.once(name, modules, |folder, log| {
            let mut go = Command::new("go");
            go.arg("install").args(modules).env("GOBIN", folder.join("bin")).env("GOFLAGS", "-trimpath");
            install(go.current_dir(folder), log, "It takes Go")
        })
    }

    /// A program of one file in Go, with modules in exact versions, built as `bin` of the folder has its name.
    pub fn go_program(&self, name: &str, text: &str, modules: &[&str]) -> Result<(), String> {
        self.once(name, &[&[text][..], modules].concat(), |folder, log| {
            fs::write(folder.join("main.go"), text).map_err(|error| error.to_string())?;
            let go = |arguments: &[&str]| install(Command::new("go").args(arguments).current_dir(folder), log, "It takes Go");
            go(&["mod", "init", &format!("tidegate.test/{name}")])?;
            go(&[&["get"], modules].concat())?;
            go(&["mod", "tidy"])?;
            go(&["build", "-trimpath", "-o", &format!("bin/{name}"), "."])
        })
    }

    /// A program of Go whose module has replacements, which `go install` refuses: it is built from a module of the
    /// suite, as `bin` of the folder has its name. The first package is the program's, each has its version behind it.
    pub fn go_package(&self, name: &str, packages: &[&str]) -> Result<(), String> {
        self.once(name, packages, |folder, log| {
            let go = |arguments: &[&str]| install(Command::new("go").args(arguments).current_dir(folder), log, "It takes Go");
            let (program, _) = packages.first().and_then(|package| package.split_once('@')).ok_or("no package")?;
            go(&["mod", "init", &format!("tidegate.test/{name}")])?;
            go(&[&["get"], packages].concat())?;
            go(&["build", "-trimpath", "-o", &format!("bin/{name}"), program])
        })
    }

    /// Packages of Debian with those that they need and the system has not, unpacked and not set up.
    pub fn debian(&self, name: &str, packages: &[&str]) -> Result<(), String> {
        self.once(name, packages, |folder, log| {
            let advice =
                "It takes Debian's apt-get; run `apt-get update` as root and try again, or install them as your system does";
            let mut ask = Command::new("apt-get");
            ask.args(["install", "--print-uris", "--yes", "--no-install-recommends"]).args(packages);
            let listed = run(&mut ask, log, INSTALL_TIME_MAX).map_err(|reason| format!("{reason}{advice}"))?;
            let root = folder.join("root");
            fs::create_dir_all(&root).map_err(|error| error.to_string())?;
            for package in packages_to_unpack(&listed) {
                // Root would hand the download to another user, who cannot write here.
                let mut download = Command::new("apt-get");
                download.args(["download", "-o", "APT::Sandbox::User=root", &package]).current_dir(folder);
                install(&mut download, log, advice)?;
            }
            for archive in files_ending(folder, ".deb")? {
                install(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&root), log, "It takes dpkg-deb")?;
                fs::remove_file(&archive).map_err(|error| error.to_string())?;
            }
            turn_links(&root, &root).map_err(|error| format!("{}: {error}", root.display()))
        })
    }

    /// Removes what is installed under a name.
    pub fn clear(&self, name: &str) -> Result<(), String> {
        let folder = self.folder.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
        } else {
            Ok(())
        }
    }

    /// Installs unless the same things are there already. Half an install is begun anew.
    fn once(&self, name: &str, wanted: &[&str], install: impl FnOnce(&Path, &Path) -> Result<(), String>) -> Result<(), String> {
        let folder = self.folder.join(name);
        let (stamp, text) = (folder.join(STAMP), wanted.join("\n"));
        if fs::read_to_string(&stamp).is_ok_and(|found| found == text) {
            return Ok(());
        }
        let named: Vec<&str> = wanted.iter().copied().filter(|one| !one.contains('\n')).collect();
        println!("    installing {}", named.join(", "));
        self.clear(name)?;
        let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(wrong)?;
        install(&folder, &folder.join("install.log"))?;
        fs::write(&stamp, text).map_err(wrong)
    }
}

impl Root {
    /// A program, here or on the system.
    pub fn program(&self, name: &str) -> Result<PathBuf, String> {
        let here = ["usr/bin", "usr/sbin", "bin", "sbin"].map(|place| self.folder.join(place));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let system = ["/usr/sbin", "/usr/bin"].map(PathBuf::from);
        let folders = here.into_iter().chain(std::env::split_paths(&path)).chain(system);
        folders.map(|folder| folder.join(name)).find(|file| file.is_file()).ok_or_else(|| format!("there is no {name}"))
    }

    /// The program as a command that finds the libraries that were unpacked with it.
    pub fn command(&self, name: &str) -> Result<Command, String> {
        let mut command = Command::new(self.program(name)?);
        let folders: Vec<PathBuf> = self.folders_of_libraries();
        if !folders.is_empty() {
            command.env("LD_LIBRARY_PATH", std::env::join_paths(folders).map_err(|error| error.to_string())?);
        }
        Ok(command)
    }

    fn folders_of_libraries(&self) -> Vec<PathBuf> {
        let starts = ["usr/lib", "lib"].map(|name| self.folder.join(name));
        let below = starts.iter().flat_map(|start| fs::read_dir(start).into_iter().flatten().flatten()).map(|entry| entry.path());
        below.filter(|path| path.to_string_lossy().ends_with("-linux-gnu")).collect()
    }
}

fn install(command: &mut Command, log: &Path, advice: &str) -> Result<(), String> {
    run(command, log, INSTALL_TIME_MAX).map(drop).map_err(|reason| format!("{reason}    {advice}."))
}

/// Out of what `apt-get --print-uris` prints, lines such as `'http://…' fcgiwrap_1.1.0-14_amd64.deb 13620 SHA256:…`.
fn packages_to_unpack(listed: &str) -> Vec<String> {
    let files = listed.lines().filter(|line| line.starts_with('\'')).filter_map(|line| line.split_whitespace().nth(1));
    let names = files.filter_map(|file| file.split('_').next()).map(str::to_owned);
    // The C library belongs to the loader of the system: a process with one of another version ends at once.
    names.filter(|name| name != "libc6").collect()
}

fn files_ending(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect())
}

/// Links lead to what was unpacked here where that is what they mean, and to the system where only that has it.
fn turn_links(root: &Path, folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        if kind.is_dir() {
            turn_links(root, &path)?;
        } else if kind.is_symlink() {
            // Where it leads on a system on which all of this is installed.
            let place =
                without_dots(&Path::new("/").join(folder.strip_prefix(root).unwrap_or(folder)).join(fs::read_link(&path)?));
            let inside = root.join(place.strip_prefix("/").unwrap_or(&place));
            let goal = if inside.symlink_metadata().is_ok() { inside } else { place };
            fs::remove_file(&path)?;
            symlink(goal, &path)?;
        }
    }
    Ok(())
}

/// Parents are gone back to by their names: some are folders of what was unpacked, and not there on this system.
fn without_dots(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => whole.push(part),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::{packages_to_unpack, turn_links};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_packages_are_those_with_an_address() {
        let listed = "Reading package lists...\nThe following NEW packages will be installed:\n  fcgiwrap libfcgi0ldbl\n\
                      'http://deb.debian.org/f/fcgiwrap_1.1.0-14_amd64.deb' fcgiwrap_1.1.0-14_amd64.deb 13620 SHA256:ab\n\
                      'http://deb.debian.org/g/libc6_2.36_amd64.deb' libc6_2.36_amd64.deb 1 SHA256:ab\n\
                      'http://deb.debian.org/l/libfcgi0ldbl_2.4.2-2%2b1_amd64.deb' libfcgi0ldbl_2.4.2-2+1_amd64.deb 2042 \n";
        assert_eq!(packages_to_unpack(listed), ["fcgiwrap", "libfcgi0ldbl"]);
        assert!(packages_to_unpack("E: Unable to locate package fcgiwrap\n").is_empty());
    }

    #[test]
    fn links_lead_to_what_was_unpacked_and_otherwise_where_they_led() {
        let root = std::env::temp_dir().join(format!("apps-links-{}", std::process::id()));
        fs::create_dir_all(root.join("usr/share/a")).and_then(|()| fs::create_dir_all(root.join("etc"))).expect("made");
        fs::write(root.join("usr/share/a/file"), "unpacked").expect("written");
        let links = [
            ("etc/a", "/usr/share/a/file"),
            ("etc/b", "/etc/passwd"),
            ("etc/c", "../usr/share/a/file"),
            ("usr/share/a/d", "../../../etc/passwd"),
        ];
        for (name, goal) in links {
            symlink(goal, root.join(name)).expect("a link");
        }
        turn_links(&root, &root).expect("turned");
        let read = |name| fs::read_to_string(root.join(name)).expect("a file");
        assert_eq!((read("etc/a"), read("etc/c")), ("unpacked".to_owned(), "unpacked".to_owned()));
        let of_system = fs::read_to_string("/etc/passwd").expect("every system has it");
        assert_eq!((read("etc/b"), read("usr/share/a/d")), (of_system.clone(), of_system));
        fs::remove_dir_all(&root).expect("removed");
    }
}
