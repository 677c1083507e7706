//! What a configuration means: sites, routes, steps, pools and process-wide settings, as plain data with units.
//! No IO, no syntax, no compiled tables. The KDL text becomes this in `config`; `routing` and `proxy` compile it into
//! what runs.

pub mod acme;
pub mod address;
pub mod answer_rewrite;
pub mod api_key;
pub mod auth_any;
pub mod balance;
pub mod basic_auth;
pub mod cache;
mod claims;
pub mod client_auth;
pub mod compress;
pub mod container;
pub mod cors;
pub mod csrf;
pub mod delta;
pub mod discover;
pub mod error_page;
pub mod expressions;
mod fastcgi;
pub mod files;
pub mod filled;
pub mod forward_auth;
mod framing;
pub mod geo;
mod header_names;
pub mod jwt;
pub mod limiting;
pub mod listen_address;
pub mod listening;
pub mod map;
pub mod matching;
mod network;
pub mod oidc;
mod origin;
pub mod pass_on;
mod path_policy;
mod pem;
pub mod placeholder;
pub mod pool;
pub mod process;
pub mod proxy_status;
mod public_name;
pub mod request_ids;
pub mod request_log;
pub mod resilience;
pub mod route_options;
mod send_file;
pub mod site;
pub mod split;
pub mod step;
mod step_facts;
mod step_order;
pub mod storage;
pub mod tcp;
pub mod traffic;

pub use acme::{
    Acme, AcmeAuthority, AcmeChallenge, AcmeChanges, AcmeDns, AcmeExternalAccount, AcmeKeyType, DnsProvider, OnDemand, Rfc2136,
    TsigAlgorithm, TsigKey,
};
pub use address::{
    HostPattern, ListenPlace, Scheme, ServerAddresses, SiteAddress, TcpAddress, UpstreamAddress, is_below, is_one_label_below,
};
pub use answer_rewrite::{AnswerPart, AnswerRewrite, RewrittenText};
pub use api_key::{ApiKeyAuth, ApiKeyPlace, ApiKeySource, ListedApiKey};
pub use auth_any::AuthAny;
pub use balance::{Balance, CookieSecure, SameSite, Sticky};
pub use basic_auth::{AuthUsers, BasicAuth};
pub use cache::{Cache, CacheDisk, CacheStore, Purging};
pub use claims::{CLAIMED_FAMILIES, CLAIMED_NAMES, Claim, is_claimed};
pub use client_auth::{
    ClientAuth, ClientAuthDemand, ClientAuthMode, ClientCertificateField, ClientCertificateForm, ClientCertificatePart,
};
pub use compress::{Coding, Compress, CompressLevel, Decompress};
pub use container::{
    Container, ContainerGroup, ContainerGroups, ContainerSource, ContainerStage, Containers, EntryPoint, LabelDialect,
};
pub use cors::{Cors, OriginPattern, Origins};
pub use csrf::Csrf;
pub use delta::{Changed, Delta, Difference};
pub use discover::Discover;
pub use error_page::{AskedPage, ErrorBody, ErrorFormat, ErrorPage, ErrorSource, PageBytes};
pub use expressions::{expression, expression_parser, expressions};
pub use fastcgi::FastCgi;
pub use files::{Files, Symlinks};
pub use filled::Filled;
pub use forward_auth::{AuthMethod, ForwardAuth, NamePattern, RememberedAuth, SignIn};
pub use framing::is_of_framing;
pub use geo::{GeoField, GeoIp, GeoTest};
pub use header_names::HeaderNames;
pub use jwt::{ClaimHeader, ClaimRequirement, ClaimTest, Jwt, KeySource, TokenIssuer, TokenPlace};
pub use limiting::{ConcurrencyLimit, CountBy, Rate, RateLimit};
pub use listen_address::{ListenAddress, ListenerPlace, SocketAccess, SocketName};
pub use map::{MapSettings, MapSource};
pub use matching::{Condition, ConditionKind, Field, MatchLine, PathPattern, TextPattern};
pub use network::parse_network;
pub use oidc::{Oidc, OidcProvider};
pub use origin::Origin;
pub use pass_on::PassOn;
pub use path_policy::{EncodedSlashes, PathCase, PathExpressions, PathParameters, PathPolicy, Slashes};
pub use pem::{HeldPem, Pem};
pub use placeholder::{LogField, Placeholder, Template, TemplatePart};
pub use pool::{
    Adaptive, Bounds, KeepAlive, Pool, PoolName, Protocol, ProxyFact, ProxyFacts, ProxyProtocol, Server, ServerBounds, Timeouts,
    UpstreamTls,
};
pub use process::{
    ADMIN_ADDRESS, ADMIN_SOCKET, AccessLog, AccessLogFormat, Admin, AdminEndpoint, AdminPlace, AdminServes, DriverChoice, Limits,
    ListenerOptions, Log, LogConditions, LogLevel, LogTarget, Memory, Rotation, Secret, Syslog, SyslogPlace, Threads,
    TicketKeySource,
};
pub use proxy_status::ProxyStatus;
pub use request_ids::RequestIds;
pub use request_log::{RouteLog, RouteLogField};
pub use resilience::{Backoff, Health, Hedge, HttpProbe, Outlier, Probe, Retry, RetryOn, RouteRetry, StatusRange, Talk};
pub use route_options::{Mirrors, RouteOptions, Switched};
pub use send_file::{SendFile, SendFiles};
pub use site::{Certificate, CipherName, Route, Site, Tls, TlsSource, TlsVersion};
pub use split::{ArmEnd, Split, SplitArm};
pub use step::{AccessRule, HeaderChange, HeaderConditions, HeaderOperation, HeaderStep, Step, Terminal};
pub use step_facts::{Distance, StepFacts, Turn};
pub use step_order::{Phase, is_overruled, log_ins, moved, phases, run_order};
pub use storage::{KubernetesApi, KubernetesStorage, RedisAddress, RedisStorage, Storage};
pub use tcp::{SniRoute, Tcp, TcpArm, TcpTarget};
pub use traffic::{Mirror, RouteTimeouts, Sample};

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// The whole of what one configuration means. Names are resolved: every [`PoolName`] in a route exists in `pools`.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    pub edition: Edition,
    /// In file order. Shared with the configuration before: a change of one site copies and compares none of the
    /// others.
    pub sites: Vec<Arc<Site>>,
    /// Connections that are passed on as they are, in file order. No two of one address.
    pub tcp: Vec<Tcp>,
    /// In file order. Names are unique.
    pub maps: Vec<MapSettings>,
    pub geoip: GeoIp,
    /// Named pools, then the pools written in place. Names are unique. Shared as sites are.
    pub pools: Vec<Arc<Pool>>,
    /// Options of listening addresses, by the address they are written for.
    pub listeners: Vec<ListenerOptions>,
    pub admin: Admin,
    /// Each with lines of its own; none without any.
    pub access_logs: Vec<AccessLog>,
    pub log: Log,
    pub threads: Threads,
    pub driver: DriverChoice,
    pub memory: Memory,
    pub cache: CacheStore,
    /// Given once, for the sites that they cover and that say nothing of certificates themselves. Which those are is
    /// found out where the files are read.
    pub certificates: Vec<Certificate>,
    /// What `acme` says for the whole process. `None`: no certificate is obtained unless a site says how.
    pub acme: Option<Acme>,
    pub storage: Storage,
    pub ticket_keys: TicketKeySource,
    /// How long requests in flight may go on after a stop was asked for.
    pub drain: Duration,
    /// How long connections are taken after that, while `/readyz` says that none should come. `None`: as suits where
    /// the process runs.
    pub drain_delay: Option<Duration>,
    pub limits: Limits,
    /// Whether and how containers say by their labels what they serve.
    pub containers: Option<Containers>,
    /// What the environment and files brought in, and how it was written.
    pub filled: Arc<Filled>,
}

impl Default for Configuration {
    fn default() -> Self {
        Configuration {
            edition: Edition::E2026,
            sites: Vec::new(),
            tcp: Vec::new(),
            maps: Vec::new(),
            geoip: GeoIp::default(),
            pools: Vec::new(),
            listeners: Vec::new(),
            admin: Admin::default(),
            access_logs: vec![AccessLog::default()],
            log: Log::default(),
            threads: Threads::Auto,
            driver: DriverChoice::Auto,
            memory: Memory::default(),
            cache: CacheStore::default(),
            certificates: Vec::new(),
            acme: Some(Acme::default()),
            storage: Storage::default(),
            ticket_keys: TicketKeySource::default(),
            drain: Duration::from_secs(30),
            drain_delay: None,
            limits: Limits::default(),
            containers: None,
            filled: Arc::default(),
        }
    }
}

impl Configuration {
    /// Whether it says anything that clients are served: a site, `tcp`, or containers that may say it.
    pub fn serves(&self) -> bool {
        !self.sites.is_empty() || !self.tcp.is_empty() || self.containers.is_some()
    }

    /// How certificates of the site are obtained. `None`: they are not, but come from files or the internal CA.
    pub fn acme_of(&self, site: &Site) -> Option<Cow<'_, Acme>> {
        match (&site.tls.source, &site.tls.acme, &self.acme) {
            (TlsSource::Automatic, Some(changes), Some(process)) => Some(Cow::Owned(process.changed_by(changes))),
            (TlsSource::Automatic, Some(changes), None) => Some(Cow::Owned(Acme::default().changed_by(changes))),
            (TlsSource::Automatic, None, process) => process.as_ref().map(Cow::Borrowed),
            (TlsSource::Internal | TlsSource::Off | TlsSource::Reject | TlsSource::Files(_), ..) => None,
        }
    }
}

/// Pins behaviour: a security default changes with an edition, never inside one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Edition {
    #[default]
    E2026,
}

impl Edition {
    pub const ALL: &'static [(&'static str, Edition)] = &[("2026", Edition::E2026)];

    pub fn as_str(self) -> &'static str {
        match self {
            Edition::E2026 => "2026",
        }
    }
}
