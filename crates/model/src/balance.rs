//! How a pool chooses a server, and how a client stays with one. The choice itself is made in `balancing`, from these
//! names.

use crate::placeholder::{Placeholder, Template};
use crate::process::Secret;

#[derive(Debug, Clone, PartialEq, Default)]
pub enum Balance {
    /// Of two servers drawn at random, the one with fewer requests in flight for its weight.
    #[default]
    P2c,
    /// Smooth weighted round robin.
    RoundRobin,
    /// The server with the fewest requests in flight for its weight.
    LeastConn,
    /// Of two servers drawn at random, the one where a request is expected to take less time: its latency, as a moving
    /// average that follows a rise at once and a fall slowly, times its requests in flight.
    Ewma,
    /// At random, by weight.
    Random,
    /// The same key goes to the same server; a server that leaves moves hardly more than its own keys.
    Hash {
        key: Template,
        /// Percent of its fair share of the requests in flight that a server may have before a key goes to the next
        /// one; above 100. `None`: any.
        load_percent_max: Option<u32>,
    },
}

impl Balance {
    pub const NAMES: &'static [&'static str] = &["p2c", "round-robin", "least-conn", "ewma", "random", "hash"];

    pub fn name(&self) -> &'static str {
        match self {
            Balance::P2c => "p2c",
            Balance::RoundRobin => "round-robin",
            Balance::LeastConn => "least-conn",
            Balance::Ewma => "ewma",
            Balance::Random => "random",
            Balance::Hash { .. } => "hash",
        }
    }

    /// Whether what is hashed has that placeholder.
    pub fn has_placeholder(&self, wanted: &Placeholder) -> bool {
        match self {
            Balance::Hash { key, .. } => key.has(wanted),
            Balance::P2c | Balance::RoundRobin | Balance::LeastConn | Balance::Ewma | Balance::Random => false,
        }
    }
}

/// A cookie that names the server which a client had before. It says nothing about the server and cannot be made by the
/// client.
#[derive(Debug, Clone, PartialEq)]
pub struct Sticky {
    pub cookie: String,
    /// What cookies are signed with; the same for several proxies. `None`: one that is made once and kept in the state
    /// folder.
    pub secret: Option<Secret>,
    /// How long the client keeps it; `None`: as long as its session.
    pub max_age_seconds: Option<u64>,
    /// Where a client sends it: this path and those beneath. Begins with `/`.
    pub path: String,
    /// To whose hosts a client sends it; `None`: to the one that it has asked.
    pub domain: Option<String>,
    pub same_site: SameSite,
    pub secure: CookieSecure,
    /// Whether a client whose server failed belongs to the one that answered it; else it comes back to its own.
    pub change_on_failure: bool,
}

impl Sticky {
    pub const COOKIE: &'static str = "tg_route";
    pub const PATH: &'static str = "/";
}

impl Default for Sticky {
    fn default() -> Self {
        Sticky {
            cookie: Sticky::COOKIE.to_owned(),
            secret: None,
            max_age_seconds: None,
            path: Sticky::PATH.to_owned(),
            domain: None,
            same_site: SameSite::default(),
            secure: CookieSecure::default(),
            change_on_failure: true,
        }
    }
}

/// Whether a browser sends a cookie with requests that a page of another site has caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum SameSite {
    /// With those alone that open a page.
    #[default]
    Lax,
    Strict,
    /// With all of them.
    None,
}

impl SameSite {
    pub const NAMES: &'static [(&'static str, SameSite)] =
        &[("lax", SameSite::Lax), ("strict", SameSite::Strict), ("none", SameSite::None)];

    /// As the cookie has it.
    pub fn attribute(self) -> &'static str {
        match self {
            SameSite::Lax => "Lax",
            SameSite::Strict => "Strict",
            SameSite::None => "None",
        }
    }
}

/// When a cookie is for TLS alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum CookieSecure {
    /// When the client has asked over TLS.
    #[default]
    OverTls,
    /// Always: TLS ends in front of this proxy.
    Always,
    Never,
}

impl CookieSecure {
    pub const NAMES: &'static [(&'static str, CookieSecure)] =
        &[("auto", CookieSecure::OverTls), ("on", CookieSecure::Always), ("off", CookieSecure::Never)];
}
