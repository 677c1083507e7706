//! What holds for Ingresses where they say nothing themselves: nothing for those of our own classes, and for those of
//! ingress-nginx what that does, as its ConfigMap changes it (`ingress_nginx`).

use crate::snippets::Snippet;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_cluster::Key;
use tidegate_model::{Compress, Condition, TlsVersion};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defaults {
    /// Values of annotations, by their names behind the prefix.
    pub annotations: BTreeMap<Box<str>, Box<str>>,
    /// Annotations of who says who may come in, for Ingresses that name nobody. Empty: everybody may.
    pub global_auth: BTreeMap<Box<str>, Box<str>>,
    /// By which plain HTTP leads to HTTPS.
    pub to_https_status: u16,
    /// Of requests that come too often, and of too many at once.
    pub rate_status: u16,
    pub at_once_status: u16,
    /// What paths begin with that plain HTTP answers itself.
    pub unredirected: Vec<Box<str>>,
    /// What paths begin with whose clients are not asked who they are.
    pub unasked: Vec<Box<str>>,
    /// Fields that Ingresses may have in answers by `custom-headers`, in lower case.
    pub allowed_headers: BTreeSet<Box<str>>,
    /// The ConfigMap with fields of every request.
    pub request_headers: Option<Key>,
    /// Whether servers are told who asks and how in the fields that ingress-nginx sends beside `X-Forwarded-…`. Servers
    /// believe these, so what a client sends in them must never come through.
    pub tells_client: bool,
    /// Whether servers are told the path that was asked for, in `X-Original-URI`.
    pub tells_original_uri: bool,
    /// Whether something that protects all of them is not to be had: nothing of any Ingress is answered then.
    pub is_shut: bool,
    /// Statements of nginx behind those that an Ingress has for its paths.
    pub location_snippet: Option<Arc<Snippet>>,
    pub sites: SiteDefaults,
}

/// What holds for all paths of a host, whatever its Ingresses say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SiteDefaults {
    /// `Strict-Transport-Security` of hosts that have a certificate.
    pub hsts: Option<Box<str>>,
    /// The ConfigMap with fields of every answer.
    pub answer_headers: Option<Key>,
    /// Fields of servers that clients do not see.
    pub hidden: Vec<Box<str>>,
    /// Clients of these networks are refused.
    pub denied: Vec<IpNet>,
    /// Requests are refused for which one of these holds.
    pub blocked: Vec<Condition>,
    pub compress: Option<Compress>,
    pub tls_min: Option<TlsVersion>,
    /// Statements of nginx behind those that an Ingress has for the host.
    pub snippet: Option<Arc<Snippet>>,
    /// Whether handshakes end for hosts that no Ingress names, although there is a default certificate.
    pub refuses_unknown: bool,
}

impl Default for Defaults {
    /// Of our own classes.
    fn default() -> Defaults {
        Defaults {
            annotations: BTreeMap::new(),
            global_auth: BTreeMap::new(),
            to_https_status: 308,
            rate_status: 503,
            at_once_status: 503,
            unredirected: Vec::new(),
            unasked: Vec::new(),
            allowed_headers: BTreeSet::new(),
            request_headers: None,
            tells_client: false,
            tells_original_uri: false,
            is_shut: false,
            location_snippet: None,
            sites: SiteDefaults::default(),
        }
    }
}

impl Defaults {
    /// Of ingress-nginx, where its ConfigMap says nothing else.
    pub fn of_ingress_nginx() -> Defaults {
        let hsts = Some("max-age=31536000; includeSubDomains".into());
        Defaults {
            unasked: vec!["/.well-known/acme-challenge".into()],
            tells_client: true,
            sites: SiteDefaults { hsts, ..SiteDefaults::default() },
            ..Defaults::default()
        }
    }

    /// ConfigMaps that it refers to.
    pub fn config_maps(&self) -> impl Iterator<Item = &Key> {
        self.request_headers.iter().chain(&self.sites.answer_headers)
    }
}
