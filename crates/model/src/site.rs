//! A site: the addresses it answers on, its certificates, and its routes in file order.

use crate::acme::{AcmeChanges, OnDemand};
use crate::address::SiteAddress;
use crate::client_auth::ClientAuth;
use crate::matching::{ConditionKind, MatchLine, PathPattern};
use crate::origin::Origin;
use crate::pem::Pem;
use crate::placeholder::Placeholder;
use crate::pool::PoolName;
use crate::route_options::RouteOptions;
use crate::step::{Step, Terminal};
use std::iter;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Where it comes from, if that is known.
    pub origin: Option<Arc<Origin>>,
    /// At least one. The first is the site's name in logs and metrics.
    pub addresses: Vec<SiteAddress>,
    pub tls: Tls,
    /// What holds in its routes, as far as they do not say otherwise.
    pub options: RouteOptions,
    /// Steps of the site itself; they run before the steps of the route that was taken.
    pub steps: Vec<Step>,
    /// The first that matches is taken. A terminal step written directly in the site is its own route here, matching
    /// everything.
    pub routes: Vec<Route>,
}

impl Site {
    /// Options of the site and of each of its routes.
    pub fn all_options(&self) -> impl Iterator<Item = &RouteOptions> {
        iter::once(&self.options).chain(self.routes.iter().map(|route| &route.options))
    }

    /// Steps of the site, of its routes and of what these are split into.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> + Clone {
        self.steps.iter().chain(self.routes.iter().flat_map(Route::all_steps))
    }

    /// Pools that the site names anywhere, each as often as it is named.
    pub fn pools(&self) -> impl Iterator<Item = &PoolName> {
        let of_options = self.all_options().flat_map(RouteOptions::pools);
        let of_steps = self.all_steps().filter_map(Step::pool);
        of_options.chain(of_steps).chain(self.routes.iter().flat_map(|route| route.terminal.pools()))
    }

    /// Whether the site, one of its routes or a change of header fields asks for what a handshake tells of its client.
    pub fn matches_ja4(&self) -> bool {
        let of_steps = self.all_steps().filter_map(|step| match step {
            Step::RequestHeader(header) | Step::ResponseHeader(header) => Some(&header.when.matches),
            _ => None,
        });
        let lines = self.routes.iter().map(|route| &route.matches).chain(of_steps).flatten();
        let mut found = false;
        for condition in lines.flat_map(|line| &line.conditions) {
            condition.each(&mut |one| found |= matches!(one.kind, ConditionKind::Ja4(_)));
        }
        found
    }

    /// Whether a template of the site or of its routes has that placeholder.
    pub fn has_placeholder(&self, wanted: &Placeholder) -> bool {
        let of_routes = self.routes.iter().flat_map(|route| route.terminal.templates());
        let of_steps = self.all_steps().flat_map(Step::templates);
        let of_options = self.all_options().flat_map(RouteOptions::templates);
        of_routes.chain(of_steps).chain(of_options).any(|template| template.has(wanted))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// By which its requests are told apart in metrics and logs.
    pub name: Option<String>,
    /// Where it comes from, if that is known. Of one that says nothing it is where its site comes from.
    pub origin: Option<Arc<Origin>>,
    /// Any of these; empty matches every path.
    pub paths: Vec<PathPattern>,
    /// Any of these lines; empty adds no condition.
    pub matches: Vec<MatchLine>,
    pub options: RouteOptions,
    pub steps: Vec<Step>,
    pub terminal: Terminal,
}

impl Route {
    pub const NAME_BYTES_MAX: usize = 64;

    /// Takes every request, and says nothing but how it is answered.
    pub fn of_all(terminal: Terminal) -> Route {
        Route {
            name: None,
            origin: None,
            paths: Vec::new(),
            matches: Vec::new(),
            options: RouteOptions::default(),
            steps: Vec::new(),
            terminal,
        }
    }

    /// Steps of the route itself, and of the arms that it is split into.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> + Clone {
        let arms = match &self.terminal {
            Terminal::Split(split) => &split.arms[..],
            Terminal::Respond { .. }
            | Terminal::Redirect { .. }
            | Terminal::Proxy { .. }
            | Terminal::Files(_)
            | Terminal::FastCgi(_) => &[],
        };
        self.steps.iter().chain(arms.iter().flat_map(|arm| &arm.steps))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    pub source: TlsSource,
    pub min_version: TlsVersion,
    /// Empty is the default order.
    pub ciphers: Vec<CipherName>,
    /// In order of preference; empty is `h2`, `http/1.1`.
    pub alpn: Vec<String>,
    pub tickets: bool,
    /// Whether clients that come back may send a request before the handshake is over.
    pub early_data: bool,
    /// Whether a certificate's responder is asked for what is stapled to it.
    pub ocsp_stapling: bool,
    /// What the site's own `acme` says. `Some` has certificates obtained for all of its names, private ones included.
    pub acme: Option<Box<AcmeChanges>>,
    pub on_demand: Option<OnDemand>,
    /// Whether clients are asked for a certificate.
    pub client_auth: Option<ClientAuth>,
}

impl Default for Tls {
    fn default() -> Self {
        Tls {
            source: TlsSource::Automatic,
            min_version: TlsVersion::V1_2,
            ciphers: Vec::new(),
            alpn: Vec::new(),
            tickets: true,
            early_data: false,
            ocsp_stapling: true,
            acme: None,
            on_demand: None,
            client_auth: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsSource {
    /// No `tls` written, or one that says only how: by ACME for public names, by the internal CA otherwise.
    Automatic,
    Internal,
    /// `tls "off"`: the addresses are plain HTTP whatever their scheme would have been.
    Off,
    /// Nowhere: handshakes for the site's names are refused, instead of being those of a wildcard or a catch-all.
    Reject,
    /// In files, or in the configuration itself. Several for one name: ECDSA and RSA side by side.
    Files(Vec<Certificate>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Certificate {
    /// The chain, leaf first; may hold the key as well.
    pub cert: Pem,
    /// `None`: the key is in `cert`.
    pub key: Option<Pem>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    V1_2,
    V1_3,
}

impl TlsVersion {
    pub const NAMES: &'static [(&'static str, TlsVersion)] = &[("1.2", TlsVersion::V1_2), ("1.3", TlsVersion::V1_3)];
}

/// The cipher suites that rustls has; nothing weaker exists here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CipherName {
    Tls13Aes128GcmSha256,
    Tls13Aes256GcmSha384,
    Tls13Chacha20Poly1305Sha256,
    EcdheEcdsaAes128GcmSha256,
    EcdheEcdsaAes256GcmSha384,
    EcdheEcdsaChacha20Poly1305Sha256,
    EcdheRsaAes128GcmSha256,
    EcdheRsaAes256GcmSha384,
    EcdheRsaChacha20Poly1305Sha256,
}

impl CipherName {
    /// IANA names as they are written in the file.
    pub const NAMES: &'static [(&'static str, CipherName)] = &[
        ("TLS_AES_128_GCM_SHA256", CipherName::Tls13Aes128GcmSha256),
        ("TLS_AES_256_GCM_SHA384", CipherName::Tls13Aes256GcmSha384),
        ("TLS_CHACHA20_POLY1305_SHA256", CipherName::Tls13Chacha20Poly1305Sha256),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", CipherName::EcdheEcdsaAes128GcmSha256),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", CipherName::EcdheEcdsaAes256GcmSha384),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", CipherName::EcdheEcdsaChacha20Poly1305Sha256),
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", CipherName::EcdheRsaAes128GcmSha256),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", CipherName::EcdheRsaAes256GcmSha384),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", CipherName::EcdheRsaChacha20Poly1305Sha256),
    ];
}
