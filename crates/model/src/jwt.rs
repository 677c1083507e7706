//! `jwt`: who may ask, by a signed token (RFC 7519, RFC 6750).

use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jwt {
    /// At least one. With several, each names its issuer, by which a token finds its keys.
    pub issuers: Vec<TokenIssuer>,
    /// Where a token may stand. More than one in a request is refused.
    pub places: Vec<TokenPlace>,
    pub requirements: Vec<ClaimRequirement>,
    /// Fields of the request that the upstream gets, and only from here.
    pub headers: Vec<ClaimHeader>,
    /// The claim that is the user's name in logs, limits and the cache.
    pub user: String,
    /// What `WWW-Authenticate` says; nothing, when it is left out.
    pub realm: Option<String>,
    /// Requests without a token go on; those with a bad one do not.
    pub is_optional: bool,
    /// Whether the upstream gets the token.
    pub forwards: bool,
    /// Whether tokens have to have an end.
    pub needs_expiry: bool,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// The `typ` of a token's header, if it matters.
    pub kind: Option<String>,
    pub token_bytes_max: usize,
}

impl Jwt {
    pub const LEEWAY: Duration = Duration::from_mins(1);
    pub const USER: &'static str = "sub";
    pub const TOKEN_BYTES_MAX: usize = 16 * 1024;
}

/// Whose tokens are taken, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenIssuer {
    pub keys: KeySource,
    /// As `iss` says it. `None`: whoever has one of the keys.
    pub issuer: Option<String>,
    /// Whom `aud` has to name one of; none: whomever it was issued for.
    pub audiences: Vec<String>,
}

/// Where the keys of an issuer are had.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeySource {
    /// `https://…`, or `http://` of this machine. `ca`: the file with the authorities that its certificate is verified
    /// against; the system's, without.
    Url { url: String, ca: Option<PathBuf> },
    /// Watched.
    File(PathBuf),
}

/// Where in a request a token stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenPlace {
    /// `Authorization: Bearer …`
    Authorization,
    /// Another field, as some proxies in front have one. The token alone, or with `Bearer`.
    Header(String),
    Cookie(String),
    /// A parameter of the query.
    Query(String),
}

impl TokenPlace {
    /// The name of a field in which nothing else stands.
    pub fn field(&self) -> Option<&str> {
        match self {
            TokenPlace::Header(name) => Some(name),
            TokenPlace::Authorization | TokenPlace::Cookie(_) | TokenPlace::Query(_) => None,
        }
    }

    /// The name of the field that is looked at.
    pub fn looked_at(&self) -> Option<&str> {
        match self {
            TokenPlace::Authorization => Some("authorization"),
            TokenPlace::Header(name) => Some(name),
            TokenPlace::Cookie(_) => Some("cookie"),
            TokenPlace::Query(_) => None,
        }
    }

    /// The name of the parameter, where it is one.
    pub fn parameter(&self) -> Option<&str> {
        match self {
            TokenPlace::Query(name) => Some(name),
            TokenPlace::Authorization | TokenPlace::Header(_) | TokenPlace::Cookie(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequirement {
    /// A name, or several with dots between them.
    pub claim: String,
    pub test: ClaimTest,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimTest {
    Present,
    Equals(String),
    /// An element of a list, or a word of a text.
    Contains(String),
    OneOf(Vec<String>),
}

/// A field of the request that says what a claim says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimHeader {
    pub name: String,
    pub claim: String,
}
