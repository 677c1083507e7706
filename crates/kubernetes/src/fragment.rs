//! What one Ingress says of one host. Fragments of a host, in the order of their objects, become its sites (`merge`).

use crate::finding::Finding;
use crate::manner::Manner;
use crate::reference::ServiceAtPort;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_cluster::Key;
use tidegate_model::{HostPattern, Origin, PathPattern};

/// What one Ingress means.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Meaning {
    pub hosts: BTreeMap<HostPattern, Arc<Fragment>>,
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    pub unsaid: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fragment {
    pub paths: Vec<PathRoute>,
    /// Where requests go that no path takes.
    pub rest: Option<BackendRoute>,
    /// In the order written. One at least has the host served over TLS.
    pub tls: Vec<TlsClaim>,
    pub manner: Arc<Manner>,
    /// Hosts whose place it takes, of a name that the Ingress has no rule for. Empty: it has one.
    pub stands_for: Vec<StandIn>,
    /// Names that take the place of this host.
    pub stand_ins: Vec<HostPattern>,
}

/// What a name is that no rule is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StandIn {
    pub kind: StandInKind,
    pub host: HostPattern,
}

/// The one that goes first comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StandInKind {
    /// Leads to the host.
    Redirect,
    /// Is answered as the host is.
    Alias { takes_all_below: bool },
}

impl StandInKind {
    /// The annotation that asks for it.
    pub fn annotation(self) -> &'static str {
        match self {
            StandInKind::Redirect => "from-to-www-redirect",
            StandInKind::Alias { .. } => "server-alias",
        }
    }
}

/// A path, in both of the ways in which paths of its host may be compared. `Err` says why it cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRoute {
    /// As it is written; `/` where nothing is.
    pub text: Box<str>,
    /// Whether it is no `Exact` one.
    pub is_prefix: bool,
    pub plain: Result<PlacedPath, String>,
    pub expression: Result<Expression, NoExpression>,
    pub route: BackendRoute,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedPath {
    pub place: PathPlace,
    pub pattern: PathPattern,
    /// What it would take if its percent codes were what they stand for.
    pub decoded: Option<PathPattern>,
}

/// A path as ingress-nginx reads it where an Ingress of the host has expressions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    pub path: PlacedPath,
    /// Without its anchor, as rewrites look for it.
    pub text: Box<str>,
    /// How many things it finds.
    pub groups: usize,
    /// Whether it takes `/`.
    pub takes_root: bool,
}

/// A path that is no expression that can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoExpression {
    /// One sentence.
    pub problem: String,
    /// What takes everything that may be meant by it, and more. `None`: no request can be meant.
    pub meant: Option<PlacedPath>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendRoute {
    /// As `spec.rules[0].http.paths[1]`.
    pub field: Box<str>,
    pub origin: Arc<Origin>,
    pub target: Target,
}

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Service(ServiceAtPort),
    /// Nowhere, since what is named cannot be used: they are answered with 503.
    Unusable,
}

/// By which paths of a host are in order: the exact ones, then the longest. Two with the same place take the same
/// requests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathPlace {
    pub is_prefix: bool,
    pub length: Reverse<usize>,
    pub text: Box<str>,
}

/// An entry of `spec.tls` that is about the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsClaim {
    pub rank: TlsRank,
    /// As `spec.tls[0]`.
    pub field: Box<str>,
    pub certificate: CertificateSource,
}

/// How closely an entry names the host, the closest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsRank {
    Named,
    ByWildcard,
    /// Without hosts it is about all of its Ingress.
    OfAll,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// Whatever hosts have that name none.
    Default,
    Secret(Key),
    /// Something that cannot be the name of a Secret.
    Unusable,
}

impl Meaning {
    /// Ports of Services that it refers to, and where it does.
    pub fn references(&self) -> impl Iterator<Item = (&ServiceAtPort, &str)> {
        let routes = self.hosts.values().flat_map(|fragment| fragment.routes());
        let of_routes = routes.filter_map(|route| Some((route.target.service()?, &*route.field)));
        // All hosts have one manner.
        let first = self.hosts.values().take(1);
        let of_manner = first.flat_map(|fragment| fragment.manner.services()).map(|(service, field)| (service, field as &str));
        of_routes.chain(of_manner)
    }

    /// Secrets that it refers to.
    pub fn secrets(&self) -> BTreeSet<&Key> {
        self.hosts.values().flat_map(|fragment| fragment.secrets()).collect()
    }

    /// ConfigMaps that it refers to.
    pub fn config_maps(&self) -> BTreeSet<&Key> {
        self.hosts.values().flat_map(|fragment| fragment.config_maps()).collect()
    }
}

impl Fragment {
    /// Secrets that it refers to.
    pub fn secrets(&self) -> impl Iterator<Item = &Key> {
        let of_auth = self.manner.auth.as_ref().map(|auth| &auth.secret);
        let of_clients = self.manner.clients.as_ref().map(|clients| &clients.secret);
        self.tls.iter().filter_map(TlsClaim::secret).chain(of_auth).chain(&self.manner.pool.tls.secret).chain(of_clients)
    }

    /// ConfigMaps that it refers to.
    pub fn config_maps(&self) -> impl Iterator<Item = &Key> {
        let of_auth = self.manner.forward_auth.as_ref().and_then(|auth| auth.headers_from.as_ref());
        self.manner.custom_headers.iter().chain(of_auth)
    }

    pub fn wants_tls(&self) -> bool {
        !self.tls.is_empty()
    }

    pub fn routes(&self) -> impl Iterator<Item = &BackendRoute> {
        self.paths.iter().map(|path| &path.route).chain(&self.rest)
    }
}

impl PathRoute {
    /// How it is compared on a host with expressions, or without. `Err`: what is wrong, and what has to be shut where
    /// it protects.
    pub fn placed(&self, are_expressions: bool) -> Result<&PlacedPath, (&str, Option<&PlacedPath>)> {
        if are_expressions {
            let expression = self.expression.as_ref().map(|expression| &expression.path);
            expression.map_err(|no| (no.problem.as_str(), no.meant.as_ref()))
        } else {
            self.plain.as_ref().map_err(|problem| (problem.as_str(), None))
        }
    }
}

impl Target {
    pub fn service(&self) -> Option<&ServiceAtPort> {
        match self {
            Target::Service(reference) => Some(reference),
            Target::Unusable => None,
        }
    }
}

impl TlsClaim {
    pub fn secret(&self) -> Option<&Key> {
        match &self.certificate {
            CertificateSource::Secret(key) => Some(key),
            CertificateSource::Default | CertificateSource::Unusable => None,
        }
    }
}
