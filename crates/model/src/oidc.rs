//! `oidc`: who may ask, by a log-in at an OpenID provider.

use crate::jwt::{ClaimHeader, ClaimRequirement};
use crate::process::Secret;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oidc {
    pub provider: OidcProvider,
    /// Others by which somebody may log in as well: a page asks with which.
    pub others: Vec<OidcProvider>,
    /// How long a log-in holds at most, whatever is refreshed meanwhile.
    pub session: Duration,
    /// Whose sites have one log-in; this site alone, when it is left out.
    pub domain: Option<String>,
    /// A path of this site, or a whole address of one of the domain's.
    pub callback: String,
    /// The path by which somebody logs out.
    pub logout: String,
    /// Where somebody is after that: a path.
    pub after_logout: String,
    /// The claim that is the user's name in logs, limits and the cache.
    pub user: String,
    pub requirements: Vec<ClaimRequirement>,
    /// Fields of the request that the upstream gets, and only from here.
    pub headers: Vec<ClaimHeader>,
    /// The field in which the upstream gets the access token.
    pub access_token: Option<String>,
    /// The field in which the upstream gets the ID token.
    pub id_token: Option<String>,
    /// The provider is asked for claims that the ID token does not have.
    pub asks_user_info: bool,
    /// Who has not logged in goes on.
    pub is_optional: bool,
    /// How far clocks may be apart.
    pub leeway: Duration,
}

/// Who logs people in, and what is asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcProvider {
    /// What the page calls it that asks with which; empty where `oidc` names one itself.
    pub name: String,
    /// As its document says it, to the letter.
    pub issuer: String,
    pub client: String,
    /// The file with the authorities that its certificate is verified against; the system's without one.
    pub ca: Option<PathBuf>,
    /// `None`: a public client, for which PKCE speaks alone.
    pub secret: Option<Secret>,
    pub scopes: Vec<String>,
    /// What goes into the request for a log-in besides.
    pub parameters: Vec<(String, String)>,
}

impl Oidc {
    /// All that may log somebody in, in the order written.
    pub fn providers(&self) -> impl Iterator<Item = &OidcProvider> {
        std::iter::once(&self.provider).chain(&self.others)
    }

    pub const SESSION: Duration = Duration::from_hours(8);
    /// Keys of cookies are kept as long.
    pub const SESSION_MAX: Duration = Duration::from_hours(24 * 30);
    /// The folder of all addresses that are the log-in's own.
    pub const FOLDER: &'static str = "/.tidegate/oidc/";
    pub const CALLBACK: &'static str = "/.tidegate/oidc/callback";
    pub const LOGOUT: &'static str = "/.tidegate/oidc/logout";
    /// Where a script sends somebody who has to log in.
    pub const LOG_IN: &'static str = "/.tidegate/oidc/login";
    /// Where the provider says that a session has ended.
    pub const BACK_CHANNEL: &'static str = "/.tidegate/oidc/back-channel";
    pub const AFTER_LOGOUT: &'static str = "/";
    pub const USER: &'static str = "sub";
    pub const SCOPES: [&'static str; 3] = ["openid", "profile", "email"];
    pub const LEEWAY: Duration = Duration::from_mins(1);

    /// Fields of the request by which the upstream is told who has logged in.
    pub fn told(&self) -> impl Iterator<Item = &str> {
        let of_claims = self.headers.iter().map(|header| header.name.as_str());
        of_claims.chain(self.access_token.as_deref()).chain(self.id_token.as_deref())
    }

    /// The path of the callback, also of one that is a whole address.
    pub fn callback_path(&self) -> &str {
        match self.callback.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
            None => &self.callback,
        }
    }
}
