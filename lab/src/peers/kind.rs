//! Which proxies the lab knows, and how one is named on the command line and in a report.
//! What differs between them is decided by `match` in the other files of this folder, so that a new one is asked about
//! at each place.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tidegate_transport::Driver;

/// A proxy under test. The order is that of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerKind {
    Tidegate,
    Haproxy,
    Nginx,
    Angie,
    Envoy,
    Caddy,
    Traefik,
}

/// What a user calls a build of a proxy: `haproxy` is the one that is found or named instead of it, `haproxy-3.4` one
/// more beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerName {
    pub kind: PeerKind,
    /// Behind the hyphen.
    pub label: Option<String>,
}

/// A proxy that is there and runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub kind: PeerKind,
    /// The column's name: the build's, and where a build is measured with two drivers, the second one's behind it.
    pub name: String,
    /// The driver that its configuration asks for; `None` where there is nothing to choose.
    pub driver: Option<Driver>,
    /// Absolute, since a peer is started in a folder of its own.
    pub path: PathBuf,
    /// In its own words, such as `2.6.12-1+deb12u4`.
    pub version: String,
    /// What does the cryptography, such as `OpenSSL 3.0.19`.
    pub tls_library: String,
}

impl PeerKind {
    pub const ALL: [PeerKind; 7] = [
        PeerKind::Tidegate,
        PeerKind::Haproxy,
        PeerKind::Nginx,
        PeerKind::Angie,
        PeerKind::Envoy,
        PeerKind::Caddy,
        PeerKind::Traefik,
    ];

    /// Also the name of its program and of its folder of templates.
    pub fn name(self) -> &'static str {
        match self {
            PeerKind::Tidegate => "tidegate",
            PeerKind::Haproxy => "haproxy",
            PeerKind::Nginx => "nginx",
            PeerKind::Angie => "angie",
            PeerKind::Envoy => "envoy",
            PeerKind::Caddy => "caddy",
            PeerKind::Traefik => "traefik",
        }
    }

    pub fn from_name(name: &str) -> Result<PeerKind, String> {
        if let Some(kind) = PeerKind::ALL.into_iter().find(|kind| kind.name() == name) {
            return Ok(kind);
        }
        let nearest = PeerKind::ALL.into_iter().min_by_key(|kind| distance(kind.name(), &name.to_lowercase()));
        let near = nearest.filter(|kind| distance(kind.name(), &name.to_lowercase()) <= TYPING_ERRORS_MAX);
        let suggestion = near.map(|kind| format!(", perhaps `{kind}` is meant")).unwrap_or_default();
        let names = PeerKind::ALL.map(PeerKind::name).join(", ");
        Err(format!("no peer is called `{name}`{suggestion}; the lab knows {names}"))
    }
}

/// Longer ones would push a table apart.
const LABEL_LETTERS_MAX: usize = 24;

impl PeerName {
    pub fn of(kind: PeerKind) -> PeerName {
        PeerName { kind, label: None }
    }

    pub fn parse(text: &str) -> Result<PeerName, String> {
        let Some((kind, label)) = text.split_once('-') else { return PeerKind::from_name(text).map(PeerName::of) };
        let kind = PeerKind::from_name(kind)?;
        let usual = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if label.is_empty() || label.len() > LABEL_LETTERS_MAX || !label.chars().all(usual) {
            return Err(format!(
                "what follows `{kind}-` are 1 to {LABEL_LETTERS_MAX} letters, digits, dots, hyphens and underscores, as in `{kind}-3.4`"
            ));
        }
        Ok(PeerName { kind, label: Some(label.to_owned()) })
    }

    /// Whether `self` stands for this build: a name without a label stands for all builds of its kind.
    pub fn covers(&self, other: &PeerName) -> bool {
        self.kind == other.kind && (self.label.is_none() || self.label == other.label)
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            None => self.kind.fmt(formatter),
            Some(label) => write!(formatter, "{}-{label}", self.kind),
        }
    }
}

impl Program {
    /// Whether this column is one of Tidegate's own, which is nobody's rival there.
    pub fn is_ours(&self) -> bool {
        self.kind == PeerKind::Tidegate
    }
}

/// A driver as `--drivers` and `relay --driver` name it.
pub fn parse_driver(text: &str) -> Result<Driver, String> {
    let known = [Driver::Epoll, Driver::IoUring];
    let found = known.into_iter().find(|driver| driver.name() == text);
    found.ok_or_else(|| format!("no driver is called `{text}`, but {}", known.map(Driver::name).join(" and ")))
}

/// What a participant is called that a driver moves the bytes of: epoll's needs no word.
pub fn name_with(driver: Driver, name: &str) -> String {
    match driver {
        Driver::Epoll => name.to_owned(),
        Driver::IoUring => format!("{name} {}", driver.name()),
    }
}

impl fmt::Display for PeerKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// More than this is another word, and a suggestion would only puzzle.
const TYPING_ERRORS_MAX: usize = 2;

/// How many letters have to be put in, left out or replaced to come from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for column in 0..to.len() {
            let replaced = diagonal + usize::from(to[column] != letter);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}
