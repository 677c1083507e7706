//! `forward-auth`: another server says who may ask. A question about each request goes to a pool, and its answer
//! decides.

use crate::placeholder::Template;
use crate::pool::PoolName;
use crate::resilience::RouteRetry;
use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardAuth {
    pub pool: PoolName,
    /// What the step says of asking again.
    pub retry: RouteRetry,
    /// Questions are those of Envoy's `ext_authz`, over gRPC.
    pub is_grpc: bool,
    /// Path and query of each question. Begins with `/`.
    pub target: String,
    /// The `Host` of each question; `None` is the client's.
    pub host: Option<String>,
    pub method: AuthMethod,
    /// Which fields of the request go into the question; `None` is all but those of its body, its connection and its
    /// conditions.
    pub request_fields: Option<Vec<NamePattern>>,
    /// What the question says besides, each in place of what the request says under that name.
    pub headers: Vec<(String, Template)>,
    /// Which fields of a good answer the upstream gets. No client says them itself.
    pub copied: Vec<NamePattern>,
    /// The field of a good answer that is the user's name in logs, limits and the cache.
    pub user: Option<String>,
    /// Which cookies of a good answer the client gets, by name; empty is all of them, `None` is none.
    pub cookies: Option<Vec<NamePattern>>,
    /// Up to how long a body is sent along; `None`: it is left where it is.
    pub body_bytes_max: Option<u64>,
    /// How long an answer's body may be.
    pub answer_bytes_max: u64,
    /// How long a question may take, all attempts together.
    pub total: Duration,
    /// Whether requests go on of which the server cannot say anything. Without a user, then.
    pub allows_on_error: bool,
    pub sign_in: Option<SignIn>,
    pub remembers: Option<RememberedAuth>,
}

impl ForwardAuth {
    pub const TARGET: &'static str = "/";
    pub const TOTAL: Duration = Duration::from_secs(5);
    pub const ANSWER_BYTES_MAX: u64 = 64 << 10;
    /// The most that can be written: bodies are held in memory.
    pub const BODY_BYTES_MOST: u64 = 4 << 20;

    /// Fields that frame a message, that say where it goes or how it is held, and those that the step says itself.
    const NEVER_COPIED: [&str; 15] = [
        "host",
        "content-length",
        "content-type",
        "content-encoding",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "date",
        "set-cookie",
    ];

    /// Whether no upstream gets the field of an answer.
    pub fn is_never_copied(name: &str) -> bool {
        ForwardAuth::NEVER_COPIED.iter().any(|never| name.eq_ignore_ascii_case(never))
    }

    /// A question to that pool with every setting as it is when nothing is written.
    pub fn new(pool: PoolName) -> ForwardAuth {
        ForwardAuth {
            pool,
            retry: RouteRetry::OfPool,
            is_grpc: false,
            target: ForwardAuth::TARGET.to_owned(),
            host: None,
            method: AuthMethod::Get,
            request_fields: None,
            headers: Vec::new(),
            copied: Vec::new(),
            user: None,
            cookies: None,
            body_bytes_max: None,
            answer_bytes_max: ForwardAuth::ANSWER_BYTES_MAX,
            total: ForwardAuth::TOTAL,
            allows_on_error: false,
            sign_in: None,
            remembers: None,
        }
    }

    /// All texts with placeholders.
    pub fn texts(&self) -> impl Iterator<Item = &Template> {
        let of_key = self.remembers.iter().map(|remembered| &remembered.key);
        self.headers.iter().map(|(_, value)| value).chain(of_key)
    }
}

/// By which method is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthMethod {
    Get,
    /// The client's own.
    OfRequest,
    Other(String),
}

/// Where a browser is sent that is not logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignIn {
    /// A whole URL, or a path of the site.
    pub url: String,
    /// The parameter that says where to return to.
    pub redirect_param: String,
}

impl SignIn {
    pub const REDIRECT_PARAM: &'static str = "rd";
}

/// Good answers are remembered by a key, for a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RememberedAuth {
    /// A key that lacks something of the client is none.
    pub key: Template,
    pub ttl: Duration,
}

/// Names of fields or of cookies: one, or all that begin so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    /// As written, without the `*`.
    pub text: String,
    pub is_prefix: bool,
}

impl NamePattern {
    pub fn new(written: &str) -> NamePattern {
        match written.strip_suffix('*') {
            Some(text) => NamePattern { text: text.to_owned(), is_prefix: true },
            None => NamePattern { text: written.to_owned(), is_prefix: false },
        }
    }
}

/// As it is written.
impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.is_prefix { "*" } else { "" })
    }
}
