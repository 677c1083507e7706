//! Which proxies the lab knows, and how one is named on the command line and in a report.
//! What differs between them is decided by `match` in the other files of this folder, so that a new one is asked about
//! at each place.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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

/// A proxy that is there and runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub kind: PeerKind,
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
