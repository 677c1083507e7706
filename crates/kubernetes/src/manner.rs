//! How an Ingress wants its requests to be answered, beside where they go: what its annotations come to.

use crate::canary::Canary;
use crate::clients::MannerClients;
use crate::defaults::Defaults;
use crate::object_text::ObjectText;
use crate::pool_manner::PoolManner;
use crate::reference::ServiceAtPort;
use crate::snippets::Snippet;
use ipnet::IpNet;
use std::sync::Arc;
use tidegate_cluster::Key;
use tidegate_model::{CipherName, ForwardAuth, HostPattern, RouteOptions, RouteRetry, Step, TcpAddress, Template};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manner {
    pub to_https: ToHttps,
    /// Whether redirects to HTTPS name its port, though it is the usual one.
    pub names_port: bool,
    /// Whether all paths of its hosts are expressions, those of other Ingresses as well. A rewrite makes them that too.
    pub has_expressions: bool,
    pub rewrite: MannerRewrite,
    /// Whom servers are asked for. `None`: whom the client has asked for.
    pub upstream_host: Option<ObjectText>,
    /// What servers are told stood in front of a path that was rewritten.
    pub forwarded_prefix: Option<ObjectText>,
    /// Other names of its hosts.
    pub aliases: Vec<WrittenAlias>,
    /// Whether the names of its hosts with `www.`, or those without it, lead to them.
    pub leads_www: bool,
    /// Whether connections to its hosts are handed to servers as they are, and nothing is read of them.
    pub passes_on: bool,
    /// Where `/` leads.
    pub app_root: Option<Template>,
    /// Where everything leads.
    pub redirect: Option<ManneredRedirect>,
    /// In the order in which they run.
    pub steps: Vec<Step>,
    pub limits: MannerLimits,
    pub options: RouteOptions,
    /// What is wanted of the pools that it leads to.
    pub pool: PoolManner,
    pub retry: RouteRetry,
    pub errors: Option<MannerErrors>,
    pub mirror: Option<MannerMirror>,
    /// Of handshakes with its hosts; empty is what there is.
    pub ciphers: Vec<CipherName>,
    /// Whoever asks has to say who that is.
    pub auth: Option<MannerAuth>,
    /// Which certificates clients have to show.
    pub clients: Option<MannerClients>,
    /// Which share it is to get of what another Ingress has; it has no path of its own then.
    pub canary: Option<Canary>,
    /// Whether clients who stay with a server stay with its Ingress or the canary of that as well.
    pub keeps_share: bool,
    pub snippets: MannerSnippets,
    /// Whether a network that is let in is enough where somebody has to log in, and a log-in from everywhere else.
    pub is_one_enough: bool,
    /// Another server says who may ask.
    pub forward_auth: Option<MannerForwardAuth>,
    /// The ConfigMap with fields that its answers have.
    pub custom_headers: Option<Key>,
    /// What held where it said nothing.
    pub defaults: Arc<Defaults>,
    /// Whether its certificates are to be obtained from a CA; `None` is as everybody's are.
    pub is_obtained: Option<bool>,
    /// Whether something that it wants to be protected by is not to be had: nothing is answered then.
    pub is_shut: bool,
}

/// What it says by statements of nginx.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MannerSnippets {
    /// For all of a host, whoever has its paths: of several Ingresses the oldest's.
    pub server: Option<Arc<Snippet>>,
    pub location: Option<Arc<Snippet>>,
    /// Whether something for all of a host is not known, so that nothing is answered there.
    pub shuts_hosts: bool,
}

impl MannerSnippets {
    /// Whether it is about all of its hosts.
    pub fn is_of_hosts(&self) -> bool {
        self.shuts_hosts || self.server.is_some()
    }

    fn keeps_out(&self) -> bool {
        self.server.iter().chain(&self.location).any(|snippet| snippet.keeps_out())
    }
}

/// What stands in the place of paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MannerRewrite {
    /// As it is written; empty where nothing is. A path that is the same text is no expression by it.
    pub target: Box<str>,
    /// Of a URL: where clients are sent to that path, as in `https://example.com`.
    pub origin: Option<Box<str>>,
    /// What stands in the place of a whole path; `$1` is what the expression of the path has found.
    pub to: Option<ObjectText>,
}

/// How often clients may ask.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MannerLimits {
    pub steps: Vec<Step>,
    /// Clients whom none of them counts.
    pub exempt: Vec<IpNet>,
}

impl Manner {
    /// Services beside those that its paths name, each with the annotation that does.
    pub fn services(&self) -> impl Iterator<Item = (&ServiceAtPort, &'static str)> {
        let of_errors = self.errors.as_ref().and_then(|errors| errors.service.as_ref());
        let of_errors = of_errors.map(|service| (service, "metadata.annotations[nginx.ingress.kubernetes.io/default-backend]"));
        let copies = self.mirror.as_ref().map(|mirror| &mirror.to);
        let asked = self.forward_auth.as_ref().and_then(MannerForwardAuth::service);
        let copies = copies.map(|to| (to, "metadata.annotations[nginx.ingress.kubernetes.io/mirror-target]"));
        let asked = asked.map(|asked| (asked, "metadata.annotations[nginx.ingress.kubernetes.io/auth-url]"));
        of_errors.into_iter().chain(copies).chain(asked)
    }

    /// Whether it says itself which networks may come in.
    pub fn has_networks(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Allow(_) | Step::Deny(_)))
    }

    /// Whether a path of that text is an expression, so that all of its host are.
    pub fn makes_expression(&self, text: &str) -> bool {
        self.has_expressions || !self.rewrite.target.is_empty() && *self.rewrite.target != *text
    }

    /// Whether it keeps somebody out, so that what is meant for it may not be answered by others.
    pub fn protects(&self) -> bool {
        let keeps_out = |step: &Step| match step {
            Step::Allow(_)
            | Step::Deny(_)
            | Step::Csrf(_)
            | Step::BasicAuth(_)
            | Step::Jwt(_)
            | Step::Oidc(_)
            | Step::ForwardAuth(_)
            | Step::ApiKey(_)
            | Step::AuthAny(_)
            | Step::ClientAuth(_)
            | Step::RateLimit(_)
            | Step::ConcurrencyLimit(_) => true,
            Step::RequestHeader(_)
            | Step::ResponseHeader(_)
            | Step::Rewrite { .. }
            | Step::StripPrefix(_)
            | Step::AddPrefix(_)
            | Step::BodyLimit { .. }
            | Step::Cors(_) => false,
        };
        self.is_shut
            || self.auth.is_some()
            || self.forward_auth.is_some()
            || self.clients.is_some()
            || self.snippets.keeps_out()
            || self.steps.iter().chain(&self.limits.steps).any(keeps_out)
    }
}

/// A name that stands for a host of an Ingress as well.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WrittenAlias {
    pub host: HostPattern,
    /// Of a wildcard: whether it stands for names of any depth.
    pub takes_all_below: bool,
}

/// Who answers in the place of errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MannerErrors {
    /// Of which errors, beside those of a Service without endpoints.
    pub statuses: Vec<u16>,
    /// Whether errors of servers are among them.
    pub of_servers: bool,
    /// `None`: who answers what no Ingress takes.
    pub service: Option<ServiceAtPort>,
}

/// Who gets copies of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MannerMirror {
    pub to: ServiceAtPort,
    /// Whether requests with a body are copied.
    pub has_bodies: bool,
}

/// Where users with their passwords are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MannerAuth {
    pub secret: Key,
    pub form: UsersForm,
    pub realm: String,
}

/// What is asked, and whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MannerForwardAuth {
    pub server: AuthServer,
    /// Without its pool.
    pub step: ForwardAuth,
    /// The ConfigMap with more fields of the question.
    pub headers_from: Option<Key>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthServer {
    Service(ServiceAtPort),
    Outside(TcpAddress),
    /// Whoever answers for the host that was asked for.
    OfHost,
}

impl MannerForwardAuth {
    pub fn service(&self) -> Option<&ServiceAtPort> {
        match &self.server {
            AuthServer::Service(reference) => Some(reference),
            AuthServer::Outside(_) | AuthServer::OfHost => None,
        }
    }
}

/// How a Secret has users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsersForm {
    /// `auth` is a file as `htpasswd` writes it.
    File,
    /// Each value is the hash of a password, by the name of its user.
    Map,
}

/// Which requests of plain HTTP are led to HTTPS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToHttps {
    /// Requests of hosts that are served over TLS.
    #[default]
    WhereTls,
    Never,
    Always,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManneredRedirect {
    pub to: ObjectText,
    pub status: u16,
}
