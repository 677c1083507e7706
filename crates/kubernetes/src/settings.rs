//! What whoever runs the program says of the cluster: which objects are ours, and what holds where they say nothing.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tidegate_cluster::{Key, PortReference};
use tidegate_model::discover::Cluster;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where servers of pools are looked up.
    pub cluster: Cluster,
    /// Classes of these controllers are ours, as `tidegate.dev/ingress`.
    pub controllers: Vec<String>,
    /// Classes of these names are ours although no IngressClass can be read, as in a namespace alone; and so are
    /// Ingresses whose annotation `kubernetes.io/ingress.class` names one.
    pub class_names: Vec<String>,
    /// Whether Ingresses that name no class are ours where no class is the default one.
    pub without_class: bool,
    /// Where plain HTTP comes in that clients ask for at port 80. `None`: nowhere.
    pub http: Option<SocketAddr>,
    /// Where HTTPS comes in that clients ask for at port 443. `None`: nowhere.
    pub https: Option<SocketAddr>,
    /// The Secret of hosts that have no certificate of their own.
    pub default_certificate: Option<Key>,
    /// Where requests go that no Ingress takes. `None`: they are answered with 404.
    pub default_backend: Option<(Key, PortReference)>,
    /// Where the proxy stands.
    pub zone: Option<Arc<str>>,
    pub host_owner: HostOwner,
    /// Whose certificates are obtained from a CA.
    pub obtains: Obtains,
    /// Whether certificates of servers over TLS are verified where no Ingress says it.
    pub verifies_servers: bool,
    pub unknown_snippets: UnknownSnippets,
    /// How much is told of one object: of findings beyond them only their number.
    pub findings_max: usize,
    /// The ConfigMap of ingress-nginx, which says what holds where Ingresses say nothing.
    pub ingress_nginx_config: Option<Key>,
    /// The ConfigMap whose keys are ports, and whose texts are Services that TCP connections there go to.
    pub tcp_services: Option<Key>,
    /// Likewise of UDP, which is not served.
    pub udp_services: Option<Key>,
}

impl Settings {
    /// The controller of classes that are ours of themselves.
    pub const CONTROLLER: &'static str = "tidegate.dev/ingress";
    /// How many findings of one object fit into what is written of it where nobody asks for all.
    const FINDINGS_MAX: usize = 32;
    /// What names of controllers have in them whose classes are those of ingress-nginx.
    const INGRESS_NGINX: &'static str = "ingress-nginx";
    pub const HTTP: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 8080);
    pub const HTTPS: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 8443);

    /// As it is where nothing else is said.
    pub fn new(cluster: Cluster) -> Settings {
        Settings {
            cluster,
            controllers: vec![Settings::CONTROLLER.to_owned()],
            class_names: Vec::new(),
            without_class: false,
            http: Some(Settings::HTTP),
            https: Some(Settings::HTTPS),
            default_certificate: None,
            default_backend: None,
            zone: None,
            host_owner: HostOwner::Shared,
            obtains: Obtains::Nothing,
            verifies_servers: false,
            unknown_snippets: UnknownSnippets::Shut,
            findings_max: Settings::FINDINGS_MAX,
            ingress_nginx_config: None,
            tcp_services: None,
            udp_services: None,
        }
    }
}

impl Settings {
    pub fn is_of_ingress_nginx(controller: &str) -> bool {
        controller.contains(Settings::INGRESS_NGINX)
    }
}

/// Which certificates are obtained where the Secret that is to have them is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obtains {
    Nothing,
    /// Certificates of Ingresses that ask for it.
    Asked,
    /// Certificates of all Ingresses that do not refuse it.
    MissingSecrets,
}

/// Who may say what a host answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostOwner {
    /// Ingresses of all namespaces.
    Shared,
    /// Ingresses of the namespace that had the host first.
    Oldest,
}

/// What becomes of what has a statement in its snippets that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownSnippets {
    /// Nothing of it is answered: the statement may have kept somebody out.
    Shut,
    /// Everything is served without the statement.
    Serve,
}
