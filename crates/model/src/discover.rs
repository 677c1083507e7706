//! Where servers come from that nobody wrote. Who asks, and what the answers mean, is in the crate `discovery`.

use crate::address::Scheme;
use crate::process::Secret;
use crate::storage::KubernetesApi;
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Discover {
    Dns(DnsDiscover),
    /// Read again when it changes.
    File {
        path: PathBuf,
    },
    Docker(DockerDiscover),
    Containers(ContainersDiscover),
    Consul(ConsulDiscover),
    Kubernetes(KubernetesDiscover),
}

impl Discover {
    /// The property that names the kind in the configuration.
    pub fn kind(&self) -> &'static str {
        match self {
            Discover::Dns(_) => "dns",
            Discover::File { .. } => "file",
            Discover::Docker(_) => "docker",
            Discover::Containers(_) => "container",
            Discover::Consul(_) => "consul",
            Discover::Kubernetes(_) => "kubernetes",
        }
    }

    /// What is asked for, as `api.internal:8080`.
    pub fn asked(&self) -> String {
        match self {
            Discover::Dns(dns) => match &dns.question {
                DnsQuestion::Addresses { name, port } => format!("{name}:{port}"),
                DnsQuestion::Services { name } => name.clone(),
            },
            Discover::File { path } => path.display().to_string(),
            Discover::Docker(docker) => docker.label.clone(),
            Discover::Containers(containers) => containers.asked(),
            Discover::Consul(consul) => consul.service.clone(),
            Discover::Kubernetes(kubernetes) => kubernetes.asked(),
        }
    }

    /// What the source has to be shown, and nobody else.
    pub fn secret(&self) -> Option<&Secret> {
        match self {
            Discover::Consul(consul) => consul.token.as_ref(),
            Discover::Kubernetes(kubernetes) => kubernetes.cluster.api.as_ref().map(|api| &api.token),
            Discover::Dns(_) | Discover::File { .. } | Discover::Docker(_) | Discover::Containers(_) => None,
        }
    }
}

/// Looked up again by the TTL of its records; the last good answer is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DnsDiscover {
    pub scheme: Scheme,
    pub question: DnsQuestion,
    /// Asked instead of those of `/etc/resolv.conf`.
    pub resolver: Option<SocketAddr>,
    /// A TTL below or above is taken as this.
    pub ttl_least: Duration,
    pub ttl_most: Duration,
}

impl DnsDiscover {
    pub const TTL_LEAST: Duration = Duration::from_secs(1);
    pub const TTL_MOST: Duration = Duration::from_secs(300);
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DnsQuestion {
    /// A and AAAA: each address is a server on this port.
    Addresses { name: String, port: u16 },
    /// SRV: each record is a server, with its port, weight and priority.
    Services { name: String },
}

/// Running containers with the label `tidegate.pool` of this value, told by the engine as they start and stop.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DockerDiscover {
    pub label: String,
    /// The engine's socket; `None` looks for Docker's, then for Podman's.
    pub socket: Option<PathBuf>,
    /// The network whose addresses are used; `None` takes one that can be reached.
    pub network: Option<String>,
    /// `None`: the label `tidegate.port`, or the only port that the container exposes.
    pub port: Option<u16>,
}

/// Containers of one group, as `docker` hears of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ContainersDiscover {
    /// `PROJECT/SERVICE`, or what a container is called that is in no project.
    pub group: String,
    /// `None`: the only port that a container exposes.
    pub port: Option<u16>,
    pub scheme: Scheme,
}

impl ContainersDiscover {
    /// How long requests wait where labels say nothing of it: as long as an engine takes to put a container in the
    /// place of another, and an application to begin.
    pub const WAIT: Duration = Duration::from_secs(5);

    fn asked(&self) -> String {
        let scheme = if self.scheme == Scheme::Https { "https://" } else { "" };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}{}{port}", self.group)
    }
}

/// Healthy instances of a service, told as they change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConsulDiscover {
    pub service: String,
    /// The agent, `http://host:port`.
    pub agent: String,
    pub tag: Option<String>,
    pub datacenter: Option<String>,
    pub token: Option<Secret>,
}

impl ConsulDiscover {
    pub const AGENT: &'static str = "http://127.0.0.1:8500";
}

/// Endpoints of a Service of Kubernetes, told as they change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KubernetesDiscover {
    pub cluster: Cluster,
    /// Of the Service.
    pub namespace: String,
    pub service: String,
    pub port: ServicePort,
    pub scheme: Scheme,
    /// Where the proxy stands: of endpoints that are meant for zones, those of its own are taken.
    pub zone: Option<Arc<str>>,
}

/// An API server, and the namespaces that are looked at there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cluster {
    /// Instead of the pod's environment and files, to reach a cluster from outside.
    pub api: Option<KubernetesApi>,
    pub namespaces: Namespaces,
}

/// Which namespaces of a cluster are looked at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Namespaces {
    All,
    /// Sorted, without repetitions.
    Named(Arc<[String]>),
}

impl Namespaces {
    pub fn named(names: impl IntoIterator<Item = String>) -> Namespaces {
        let sorted: BTreeSet<String> = names.into_iter().collect();
        Namespaces::Named(sorted.into_iter().collect())
    }
}

impl fmt::Display for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Namespaces::All => f.write_str("all namespaces"),
            Namespaces::Named(names) => f.write_str(&names.join(", ")),
        }
    }
}

/// How a port of a Service is named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServicePort {
    Number(u16),
    Name(String),
}

impl KubernetesDiscover {
    /// As it is written: `shop/web:http`.
    pub fn asked(&self) -> String {
        let port = match &self.port {
            ServicePort::Number(number) => number.to_string(),
            ServicePort::Name(name) => name.clone(),
        };
        format!("{}/{}:{port}", self.namespace, self.service)
    }
}
