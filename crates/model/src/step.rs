//! What a route does with a request. Closed sets: a new step is a new variant, and the compiler lists the places it
//! must appear in. What holds for a request as a whole is no step, and in `route_options`.

use crate::api_key::ApiKeyAuth;
use crate::auth_any::AuthAny;
use crate::basic_auth::BasicAuth;
use crate::client_auth::ClientAuthDemand;
use crate::cors::Cors;
use crate::csrf::Csrf;
use crate::fastcgi::FastCgi;
use crate::files::Files;
use crate::forward_auth::ForwardAuth;
use crate::geo::GeoTest;
use crate::jwt::Jwt;
use crate::limiting::{ConcurrencyLimit, RateLimit};
use crate::matching::{Field, MatchLine};
use crate::oidc::Oidc;
use crate::placeholder::Template;
use crate::pool::PoolName;
use crate::resilience::{RouteRetry, StatusRange};
use crate::split::Split;
use ipnet::IpNet;

/// A step that goes on to the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `request-header`: changes what the upstream sees.
    RequestHeader(HeaderStep),
    /// `response-header`, and its short form `header`: changes what the client sees.
    ResponseHeader(HeaderStep),
    /// `rewrite "/new{path}"`, or `rewrite "~^/old/(.*)" "/new/$1"`. The query is kept unless the new text has a `?`.
    Rewrite {
        pattern: Option<String>,
        to: Template,
    },
    /// `strip-prefix "/api"`: a path outside the prefix is left alone.
    StripPrefix(String),
    /// `add-prefix "/v1"`
    AddPrefix(String),
    /// `body-limit "10MB"`: more is refused with 413.
    BodyLimit {
        bytes_max: u64,
    },
    /// `allow "10.0.0.0/8"`: the first of these and `deny` that has the client decides.
    Allow(AccessRule),
    /// `deny "192.0.2.0/24"`
    Deny(AccessRule),
    Cors(Cors),
    /// `csrf`; `None` is `csrf "off"`. The last one written counts.
    Csrf(Option<Csrf>),
    /// `basic-auth`; `None` is `basic-auth "off"`. The last one written counts.
    BasicAuth(Option<BasicAuth>),
    /// `jwt`; `None` is `jwt "off"`. The last one written counts.
    Jwt(Option<Box<Jwt>>),
    /// `oidc`; `None` is `oidc "off"`. The last one written counts.
    Oidc(Option<Box<Oidc>>),
    /// `forward-auth`; `None` is `forward-auth "off"`. The last one written counts.
    ForwardAuth(Option<Box<ForwardAuth>>),
    /// `api-key`; `None` is `api-key "off"`. The last one written counts.
    ApiKey(Option<Box<ApiKeyAuth>>),
    /// `auth any`; `None` is `auth "off"`. The last one written counts, and stands for those of its kinds before it.
    AuthAny(Option<AuthAny>),
    /// `client-auth "require"`: who has shown no certificate is refused. The last one written counts.
    ClientAuth(ClientAuthDemand),
    /// `rate-limit "100/s" by="client-ip"`
    RateLimit(Box<RateLimit>),
    /// `concurrency-limit 10 by="client-ip"`
    ConcurrencyLimit(Box<ConcurrencyLimit>),
}

/// Whom an `allow` or `deny` means: clients of these networks and places, and requests for which a map has something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessRule {
    pub networks: Vec<IpNet>,
    /// As conditions of `match` name them.
    pub maps: Vec<Field>,
    /// As conditions of `match` name them.
    pub places: Vec<GeoTest>,
}

impl From<Vec<IpNet>> for AccessRule {
    fn from(networks: Vec<IpNet>) -> AccessRule {
        AccessRule { networks, ..AccessRule::default() }
    }
}

/// A step that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Terminal {
    Respond {
        status: u16,
        body: Template,
        content_type: Option<String>,
    },
    /// `prefix`: whole segments of the path, without a slash at their end, in whose place `to` stands; what follows
    /// them and the query stay.
    Redirect {
        to: Template,
        status: u16,
        prefix: Option<String>,
    },
    /// `rewrites_location`: what answers say of where something is, is translated to what the client sees.
    Proxy {
        pool: PoolName,
        retry: RouteRetry,
        rewrites_location: bool,
    },
    Files(Box<Files>),
    FastCgi(Box<FastCgi>),
    Split(Split),
}

impl Step {
    /// The pool that it asks, if it asks one. Of several ways to be let in one at most does.
    pub fn pool(&self) -> Option<&PoolName> {
        self.facts().pool
    }

    /// All texts with placeholders.
    pub fn templates(&self) -> Vec<&Template> {
        self.facts().templates
    }

    /// The step itself, or of an `auth any` its ways.
    pub fn parts(&self) -> &[Step] {
        match self {
            Step::AuthAny(Some(any)) => &any.ways,
            step => std::slice::from_ref(step),
        }
    }
}

impl Terminal {
    /// The pools that it hands requests to.
    pub fn pools(&self) -> impl Iterator<Item = &PoolName> {
        let (one, split) = match self {
            Terminal::Proxy { pool, .. } => (Some(pool), None),
            Terminal::FastCgi(fastcgi) => (Some(&fastcgi.pool), None),
            Terminal::Split(split) => (None, Some(split)),
            Terminal::Respond { .. } | Terminal::Redirect { .. } | Terminal::Files(_) => (None, None),
        };
        one.into_iter().chain(split.into_iter().flat_map(Split::pools))
    }

    /// All texts with placeholders.
    pub fn templates(&self) -> Vec<&Template> {
        match self {
            Terminal::Respond { body, .. } => vec![body],
            Terminal::Redirect { to, .. } => vec![to],
            Terminal::FastCgi(fastcgi) => fastcgi.env.iter().map(|(_, value)| value).collect(),
            Terminal::Split(split) => {
                let of_arms = split.arms.iter().filter_map(|arm| arm.end.template());
                split.to.iter().chain(&split.by).chain(of_arms).collect()
            }
            Terminal::Proxy { .. } | Terminal::Files(_) => Vec::new(),
        }
    }
}

/// One line of `header` or its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderStep {
    /// In the order written.
    pub changes: Vec<HeaderChange>,
    /// All of them have to hold.
    pub when: HeaderConditions,
}

/// Changes without conditions.
impl From<Vec<HeaderChange>> for HeaderStep {
    fn from(changes: Vec<HeaderChange>) -> HeaderStep {
        HeaderStep { changes, when: HeaderConditions::default() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderConditions {
    /// Of an answer: any of these; empty is any.
    pub statuses: Vec<StatusRange>,
    /// Of an answer: any of these media types, in lower case, as in `text/html`, `text/*`, `application/*+json`; empty
    /// is any, and none.
    pub types: Vec<String>,
    /// Of the request: any of these lines; empty adds nothing.
    pub matches: Vec<MatchLine>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderChange {
    pub operation: HeaderOperation,
    /// As written; compared without case.
    pub name: String,
    /// Empty for `Remove`.
    pub value: Template,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderOperation {
    /// Replaces all fields of the name.
    Set,
    /// Adds a field, whatever others of that name are there.
    Add,
    /// Set when there is none.
    Default,
    Remove,
}
