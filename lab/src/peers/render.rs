//! The configuration of a peer for a task: templates from `lab/peers/<peer>/<flavour>/` filled in, and the command line
//! that goes with them. A flag that a template does not know is simply not used by it; a name that nobody defines is an
//! error.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use minijinja::{Environment, UndefinedBehavior, Value, context};
use tidegate_transport::Driver;

use super::find;
use super::kind::{PeerKind, Program};
use super::setup::{Content, Places, Setup};
use crate::content::Page;
use crate::net::Error;
use crate::results::Flavour;

static TEMPLATES: Dir = include_dir!("$CARGO_MANIFEST_DIR/peers");
/// The folder of the configurations for [`Setup::sites`].
const MANY_SITES: &str = "many-sites";
/// The folder of those for [`Setup::content`].
const CONTENT: &str = "content";
/// The folder of those for [`Setup::certificates`].
const MANY_CERTIFICATES: &str = "many-certificates";
/// Not for the peer but for the reader of a report.
const NOTE: &str = "note.md";
/// Envoy gives clients this long to leave when it drains; its default of ten minutes is longer than any experiment.
const ENVOY_DRAIN_SECONDS: &str = "5";

/// How to start a peer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered {
    /// Name, relative to the peer's folder, and text. A name may have a folder in it.
    pub files: Vec<(String, String)>,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(String, String)>,
    /// What is equal in this configuration and what cannot be made equal.
    pub note: String,
}

impl Rendered {
    /// Puts the files into the peer's folder. Each appears at once and whole, so that a peer that watches them never
    /// reads half of one.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        self.write_what_differs(&Rendered::default(), folder)
    }

    /// The same without the files that stand there already, as nobody would save them again.
    pub fn write_what_differs(&self, old: &Rendered, folder: &Path) -> Result<(), String> {
        for (name, text) in self.files.iter().filter(|file| !old.files.contains(file)) {
            let path = folder.join(name);
            let write = || {
                fs::create_dir_all(path.parent().unwrap_or(folder))?;
                // Beside the folder's files and not among them: Traefik reads whatever lies in its folder.
                let fresh = folder.join(format!(".{}.new", name.replace('/', "-")));
                fs::write(&fresh, text)?;
                fs::rename(&fresh, &path)
            };
            write().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// Names of the variants that a flavour of a peer has. Where there are some, one has to be chosen.
pub fn variants(kind: PeerKind, flavour: Flavour) -> &'static [&'static str] {
    match (kind, flavour) {
        (PeerKind::Nginx, Flavour::Tuned) => &["keepalive-4", "multi-accept", "aes-128-first"],
        (
            PeerKind::Tidegate | PeerKind::Haproxy | PeerKind::Angie | PeerKind::Envoy | PeerKind::Caddy | PeerKind::Traefik,
            Flavour::Tuned,
        )
        | (_, Flavour::OutOfTheBox | Flavour::Equalised | Flavour::Floor) => &[],
    }
}

/// Fills in the templates: those within this program, or those of the folder `templates`, which is laid out as
/// `lab/peers` is.
pub fn render(program: &Program, places: &Places, setup: &Setup, templates: Option<&Path>) -> Result<Rendered, Error> {
    let kind = program.kind;
    let folder = match (setup.sites, setup.content, &setup.certificates) {
        (Some(_), _, _) => MANY_SITES,
        (None, Some(_), _) => CONTENT,
        (None, None, Some(_)) => MANY_CERTIFICATES,
        (None, None, None) => flavour_folder(setup.flavour).ok_or("a floor is not a peer and has no configuration")?,
    };
    check_variant(kind, setup)?;
    let sources = match templates {
        None => embedded(&format!("{kind}/{folder}")),
        Some(templates) => on_disk(&templates.join(kind.name()).join(folder))?,
    };
    if sources.is_empty() {
        return Err(format!("{kind} has no configuration `{folder}`").into());
    }
    let mut rendered = Rendered {
        arguments: arguments(program, places, setup),
        environment: environment(kind, places, setup),
        ..Rendered::default()
    };
    let environment = template_environment();
    let variables = variables(program, places, setup);
    for (name, source) in sources {
        let text = environment
            .render_named_str(&name, &source, &variables)
            .map_err(|error| format!("peers/{kind}/{folder}/{name}: {error:#}"))?;
        if name == NOTE {
            text.trim().clone_into(&mut rendered.note);
        } else {
            rendered.files.push((name, text));
        }
    }
    Ok(rendered)
}

/// The peer's own check of the configuration that stands in the folder: the program and its arguments. Traefik has
/// none.
pub fn check_command(program: &Program, places: &Places) -> Option<Vec<OsString>> {
    let file = places.folder.join(main_file(program.kind));
    let arguments = match program.kind {
        PeerKind::Tidegate => words(&["check"], &[file]),
        PeerKind::Haproxy => words(&["-c", "-f"], &[file]),
        PeerKind::Nginx | PeerKind::Angie => {
            [words(&["-t", "-e", "stderr", "-p"], std::slice::from_ref(&places.folder)), words(&["-c"], &[file])].concat()
        }
        PeerKind::Envoy => words(&["--mode", "validate", "-c"], &[file]),
        PeerKind::Caddy => words(&["validate", "--adapter", "caddyfile", "--config"], &[file]),
        PeerKind::Traefik => return None,
    };
    Some([vec![program.path.clone().into_os_string()], arguments].concat())
}

/// The file that the command line names.
pub fn main_file(kind: PeerKind) -> &'static str {
    match kind {
        PeerKind::Tidegate => "tidegate.kdl",
        PeerKind::Haproxy => "haproxy.cfg",
        PeerKind::Nginx => "nginx.conf",
        PeerKind::Angie => "angie.conf",
        PeerKind::Envoy => "envoy.yaml",
        PeerKind::Caddy => "Caddyfile",
        PeerKind::Traefik => "traefik.yml",
    }
}

fn arguments(program: &Program, places: &Places, setup: &Setup) -> Vec<OsString> {
    let kind = program.kind;
    let file = places.folder.join(main_file(kind));
    match kind {
        // Instances of one port have files of their own: Tidegate refuses the second unless it is told so.
        PeerKind::Tidegate if setup.shared_port && find::knows_shared_ports(&program.path) => {
            words(&["run", "--share-port", "--config"], &[file])
        }
        PeerKind::Tidegate => words(&["run", "--config"], &[file]),
        // Only the master process of `-W` can load a changed configuration.
        PeerKind::Haproxy if setup.sites.is_some() => {
            [words(&["-W", "-f"], &[file]), words(&["-f"], &[places.folder.join("changing.cfg")])].concat()
        }
        PeerKind::Haproxy if setup.shared_port => words(&["-W", "-f"], &[file]),
        PeerKind::Haproxy => words(&["-db", "-f"], &[file]),
        PeerKind::Nginx | PeerKind::Angie => {
            [words(&["-e", "stderr", "-g", "daemon off;", "-p"], std::slice::from_ref(&places.folder)), words(&["-c"], &[file])]
                .concat()
        }
        PeerKind::Envoy => {
            // Hot restart is for one process that replaces another, and two that share a port would take each other for
            // that.
            let mut arguments = words(
                &["--disable-hot-restart", "--drain-time-s", ENVOY_DRAIN_SECONDS, "--drain-strategy", "immediate", "-c"],
                &[file],
            );
            if let Some(threads) = setup.threads {
                arguments.extend(["--concurrency".into(), threads.to_string().into()]);
            }
            arguments
        }
        PeerKind::Caddy => words(&["run", "--adapter", "caddyfile", "--config"], &[file]),
        PeerKind::Traefik => vec![format!("--configFile={}", file.display()).into()],
    }
}

fn environment(kind: PeerKind, places: &Places, setup: &Setup) -> Vec<(String, String)> {
    let mut environment = Vec::new();
    if kind == PeerKind::Caddy {
        // Where it keeps its state; without this it would write into the user's home.
        let folder = places.folder.display().to_string();
        environment.extend(["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].map(|name| (name.to_owned(), folder.clone())));
    }
    match (kind, setup.threads) {
        // Go has no other means to bound the threads that run at once.
        (PeerKind::Caddy | PeerKind::Traefik, Some(threads)) => environment.push(("GOMAXPROCS".to_owned(), threads.to_string())),
        (PeerKind::Caddy | PeerKind::Traefik, None)
        | (PeerKind::Tidegate | PeerKind::Haproxy | PeerKind::Nginx | PeerKind::Angie | PeerKind::Envoy, _) => {}
    }
    environment
}

fn flavour_folder(flavour: Flavour) -> Option<&'static str> {
    match flavour {
        Flavour::OutOfTheBox => Some("out-of-the-box"),
        Flavour::Equalised => Some("equalised"),
        Flavour::Tuned => Some("tuned"),
        Flavour::Floor => None,
    }
}

fn check_variant(kind: PeerKind, setup: &Setup) -> Result<(), Error> {
    let known = variants(kind, setup.flavour);
    let names = known.join(", ");
    match &setup.variant {
        None if known.is_empty() => Ok(()),
        None => Err(format!("one of the variants of {kind} has to be chosen: {names}").into()),
        Some(variant) if known.contains(&variant.as_str()) => Ok(()),
        Some(variant) if known.is_empty() => Err(format!("{kind} has no variants here, so there is no `{variant}`").into()),
        Some(variant) => Err(format!("{kind} has no variant `{variant}`, but {names}").into()),
    }
}

fn template_environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_keep_trailing_newline(true);
    // A line that only steers leaves no empty line behind: what is rendered is shown in the report.
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment
}

fn variables(program: &Program, places: &Places, setup: &Setup) -> Value {
    let address = |address: SocketAddr| {
        context! { host => address.ip().to_string(), port => address.port(), all => address.to_string() }
    };
    let compression = setup.compression.map(|compression| {
        context! { codec => compression.codec.name(), coding => compression.codec.coding(), level => compression.level }
    });
    context! {
        folder => places.folder.display().to_string(),
        listen => address(places.listen),
        admin => address(places.admin),
        backend => address(places.backend),
        // As numbers, to be compared with `>= [1, 25]`.
        version => numbers(&program.version),
        driver => program.driver.map(Driver::name),
        variant => setup.variant,
        threads => setup.threads,
        compression => compression,
        cors => setup.cors,
        redirect => setup.redirect,
        shared_port => setup.shared_port,
        access_log => setup.access_log,
        sites => setup.sites.map(|sites| {
            context! { revision => sites.revision, others => (2..=sites.count).collect::<Vec<u32>>() }
        }),
        certificates => setup.certificates.as_ref().map(|certificates| {
            context! {
                folder => certificates.folder.display().to_string(),
                numbers => (1..=certificates.count).collect::<Vec<u32>>(),
            }
        }),
        content => setup.content.map(|content| {
            context! {
                source => content.source.name(),
                tls => content.tls,
                pages => places.folder.join(Content::FOLDER).display().to_string(),
                page => String::from_utf8_lossy(&Page::Html2K.body()),
                content_type => Page::Html2K.content_type(),
            }
        }),
        // Started by root, nginx would hand its workers to another user, who cannot reach the folder.
        root => rustix::process::geteuid().is_root(),
    }
}

/// `1.22.1` out of `1.22.1-9+deb12u10`.
fn numbers(version: &str) -> Vec<u32> {
    version.split(|letter: char| !letter.is_ascii_digit()).map_while(|part| part.parse().ok()).take(3).collect()
}

fn embedded(folder: &str) -> Vec<(String, String)> {
    let mut sources = Vec::new();
    let mut folders: Vec<_> = TEMPLATES.get_dir(folder).into_iter().collect();
    while let Some(next) = folders.pop() {
        folders.extend(next.dirs());
        for file in next.files() {
            let name = file.path().strip_prefix(folder).unwrap_or(file.path());
            sources.push((name.display().to_string(), String::from_utf8_lossy(file.contents()).into_owned()));
        }
    }
    sources.sort();
    sources
}

fn on_disk(folder: &Path) -> Result<Vec<(String, String)>, Error> {
    let wrong = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mut sources = Vec::new();
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).map_err(|error| wrong(&next, error))? {
            let path = entry.map_err(|error| wrong(&next, error))?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).map_err(|error| wrong(&path, error))?;
            sources.push((path.strip_prefix(folder).unwrap_or(&path).display().to_string(), text));
        }
    }
    sources.sort();
    Ok(sources)
}

fn words(first: &[&str], last: &[PathBuf]) -> Vec<OsString> {
    first.iter().map(OsString::from).chain(last.iter().map(OsString::from)).collect()
}
