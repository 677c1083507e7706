//! What a peer is to be set up for: the task, the addresses and files, and which compression each peer has.
//! How that becomes a configuration is in `render`.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::kind::PeerKind;
use crate::results::Flavour;

/// The task of a peer, apart from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    pub flavour: Flavour,
    /// A variant out of `variants(kind, flavour)`; `None` where there are none.
    pub variant: Option<String>,
    /// `None` leaves the number of worker threads to the peer.
    pub threads: Option<usize>,
    pub compression: Option<Compression>,
    /// Every answer carries `Access-Control-Allow-Origin: *`.
    pub cors: bool,
    /// `/old/…` is redirected to `/new/…`.
    pub redirect: bool,
    /// Several processes listen on the one address, and the peer can be changed while it runs.
    pub shared_port: bool,
    /// The log is on. When false it is off, but out of the box as the peer has it by default.
    pub access_log: bool,
    /// Many hosts on plain HTTP instead of one with a certificate, equalised, and changed while they are served. The
    /// flags above are not for it.
    pub sites: Option<Sites>,
    /// What is answered without asking the backend for it, equalised. The flags above are not for it.
    pub content: Option<Content>,
    /// Many certificates beside that of `localhost`, equalised. The flags above are not for it.
    pub certificates: Option<Certificates>,
}

/// Files of a folder, `1.pem`, `2.pem`, …, each of a host of that number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificates {
    /// From one on.
    pub count: u32,
    pub folder: PathBuf,
}

/// Hosts that are served beside `localhost`: `site-1.test`, `site-2.test`, ….
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sites {
    /// From one on.
    pub count: u32,
    /// Answers of the first site carry it as `X-Revision`. The others, and `localhost`, never change.
    pub revision: u32,
}

/// The pages of the lab, as a peer has them itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    pub source: Source,
    /// Plain HTTP otherwise.
    pub tls: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Kept for an hour from the backend's first answer.
    Cache,
    /// The 2 KB page is a text of the configuration, and the answer to everything.
    Respond,
    /// Files of the folder [`Content::FOLDER`].
    Files,
}

/// Addresses and files that a configuration names. The folder holds `cert.pem`, `key.pem`, `combined.pem` and `ca.pem`,
/// and is the peer's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    pub folder: PathBuf,
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    pub backend: SocketAddr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Codec {
    Gzip,
    Brotli,
    Zstd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Compression {
    pub codec: Codec,
    /// `None` where the peer has but one.
    pub level: Option<u32>,
}

/// A codec that a peer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecLevels {
    pub codec: Codec,
    /// Levels worth measuring, the fastest first; empty where the level cannot be set.
    pub levels: &'static [u32],
}

impl Setup {
    /// The shortest task of a flavour: no compression, nothing added, one process.
    pub fn of(flavour: Flavour) -> Setup {
        Setup {
            flavour,
            variant: None,
            threads: None,
            compression: None,
            cors: false,
            redirect: false,
            shared_port: false,
            access_log: false,
            sites: None,
            content: None,
            certificates: None,
        }
    }

    pub fn of_sites(sites: Sites, threads: usize) -> Setup {
        Setup { threads: Some(threads), sites: Some(sites), ..Setup::of(Flavour::Equalised) }
    }

    pub fn of_certificates(certificates: Certificates, threads: usize) -> Setup {
        Setup { threads: Some(threads), certificates: Some(certificates), ..Setup::of(Flavour::Equalised) }
    }
}

impl Sites {
    /// Asked under load, whatever happens to the others.
    pub const UNCHANGING: &str = "localhost";
    pub const CHANGING: &str = "site-1.test";
}

impl Content {
    /// Beneath the peer's own folder.
    pub const FOLDER: &str = "pages";

    /// Whether the folder has to be there when the peer starts.
    pub fn needs_files(self) -> bool {
        match self.source {
            Source::Respond | Source::Files => true,
            Source::Cache => false,
        }
    }
}

impl Source {
    pub const ALL: [Source; 3] = [Source::Cache, Source::Respond, Source::Files];

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Source::Cache => "cache hit",
            Source::Respond => "respond",
            Source::Files => "file",
        }
    }

    /// In templates.
    pub fn name(self) -> &'static str {
        match self {
            Source::Cache => "cache",
            Source::Respond => "respond",
            Source::Files => "files",
        }
    }
}

impl Codec {
    pub const ALL: [Codec; 3] = [Codec::Gzip, Codec::Brotli, Codec::Zstd];

    /// For people and in file names.
    pub fn name(self) -> &'static str {
        match self {
            Codec::Gzip => "gzip",
            Codec::Brotli => "brotli",
            Codec::Zstd => "zstd",
        }
    }

    /// As HTTP names it in `Accept-Encoding`.
    pub fn coding(self) -> &'static str {
        match self {
            Codec::Gzip => "gzip",
            Codec::Brotli => "br",
            Codec::Zstd => "zstd",
        }
    }
}

impl CodecLevels {
    /// Every compression worth measuring.
    pub fn compressions(self) -> Vec<Compression> {
        if self.levels.is_empty() {
            return vec![Compression { codec: self.codec, level: None }];
        }
        self.levels.iter().map(|level| Compression { codec: self.codec, level: Some(*level) }).collect()
    }
}

/// Whether there is a configuration of it with many certificates.
pub fn takes_certificates(kind: PeerKind) -> bool {
    match kind {
        PeerKind::Tidegate | PeerKind::Haproxy | PeerKind::Nginx | PeerKind::Angie | PeerKind::Caddy => true,
        PeerKind::Envoy | PeerKind::Traefik => false,
    }
}

/// What a peer compresses answers with, as it is built by its own makers or by Debian.
pub fn codecs(kind: PeerKind) -> &'static [CodecLevels] {
    const fn has(codec: Codec, levels: &'static [u32]) -> CodecLevels {
        CodecLevels { codec, levels }
    }
    match kind {
        PeerKind::Tidegate => {
            const { &[has(Codec::Gzip, &[1, 6, 9]), has(Codec::Brotli, &[1, 5, 9]), has(Codec::Zstd, &[1, 3, 9])] }
        }
        // Its own libslz is stateless and has one level.
        PeerKind::Haproxy => const { &[has(Codec::Gzip, &[])] },
        PeerKind::Nginx => const { &[has(Codec::Gzip, &[1, 6, 9])] },
        PeerKind::Angie => {
            const { &[has(Codec::Gzip, &[1, 6, 9]), has(Codec::Brotli, &[1, 5, 11]), has(Codec::Zstd, &[1, 3, 9])] }
        }
        PeerKind::Envoy => {
            const { &[has(Codec::Gzip, &[1, 6, 9]), has(Codec::Brotli, &[1, 5, 11]), has(Codec::Zstd, &[1, 3, 9])] }
        }
        // Its zstd has four levels with names: 1 is `fastest`, 2 `default`, 3 `better` and 4 `best`.
        PeerKind::Caddy => const { &[has(Codec::Gzip, &[1, 5, 9]), has(Codec::Zstd, &[1, 2, 3])] },
        PeerKind::Traefik => const { &[has(Codec::Gzip, &[]), has(Codec::Brotli, &[]), has(Codec::Zstd, &[])] },
    }
}

/// Why a peer is not asked for what comes from there; `None` where it has it, and a configuration here.
pub fn lacks(kind: PeerKind, source: Source) -> Option<&'static str> {
    match (kind, source) {
        (PeerKind::Tidegate | PeerKind::Nginx | PeerKind::Angie, _)
        | (PeerKind::Haproxy, Source::Cache | Source::Respond)
        | (PeerKind::Caddy, Source::Respond | Source::Files) => None,
        (PeerKind::Haproxy, Source::Files) => Some("it serves no files"),
        (PeerKind::Caddy, Source::Cache) => Some("it has no cache, but as a module of others"),
        (PeerKind::Envoy, _) => Some("the lab has no configuration of Envoy for it"),
        (PeerKind::Traefik, Source::Cache) => Some("it has no cache"),
        (PeerKind::Traefik, Source::Respond) => Some("it has no answers of its own"),
        (PeerKind::Traefik, Source::Files) => Some("it serves no files"),
    }
}

/// "Compression at its fastest level", as the equalised comparison has it: zstd where there is one.
/// Traefik had gzip there, because its zstd ran out of memory.
pub fn fastest_compression(kind: PeerKind) -> Compression {
    let compression = |codec, level| Compression { codec, level };
    match kind {
        PeerKind::Haproxy => compression(Codec::Gzip, None),
        PeerKind::Nginx => compression(Codec::Gzip, Some(1)),
        PeerKind::Tidegate | PeerKind::Angie | PeerKind::Envoy | PeerKind::Caddy => compression(Codec::Zstd, Some(1)),
        PeerKind::Traefik => compression(Codec::Gzip, None),
    }
}
