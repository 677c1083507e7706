//! `tidegate kubernetes …` as clap reads it.

use super::Reach;
use clap::{Args, Subcommand, ValueEnum};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tidegate_kubernetes::UnknownSnippets;

#[derive(Subcommand)]
pub enum KubernetesCommand {
    /// Serve what the Ingresses of a cluster say, as their controller and as the proxy, until SIGTERM.
    Run(Box<KubernetesRun>),
    /// Say what becomes of every annotation of Ingresses, of files or of a cluster, without serving them. The exit code
    /// is 1 where an Ingress would be answered with 503 for what it wants to be protected by.
    Check(KubernetesCheck),
    /// Ask the running process what becomes of a request: by which object and rule it is taken, where it goes, and why
    /// every other rule of its host does not take it.
    Explain(KubernetesExplain),
}

#[derive(Args)]
pub struct KubernetesExplain {
    /// As it is sent: methods are case sensitive.
    #[arg(value_name = "METHOD")]
    pub method: String,
    /// `http[s]://host[:port][/path][?query]`
    #[arg(value_name = "URL")]
    pub url: String,
    /// A header field of the request; may be given several times.
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// The client's IP address. By default 127.0.0.1.
    #[arg(long, value_name = "IP")]
    pub from: Option<String>,
    #[command(flatten)]
    pub reach: Reach,
}

#[derive(Args)]
pub struct KubernetesCheck {
    /// Files of objects in YAML or JSON, or folders of them; `-` is standard input.
    #[arg(value_name = "FILE", conflicts_with = "live")]
    pub files: Vec<PathBuf>,
    /// Ask the cluster itself. Nothing is written there.
    #[arg(long)]
    pub live: bool,
    /// The file with clusters and who we are there, as `kubectl` has it. By default this pod, or the file that
    /// `kubectl` uses.
    #[arg(long, value_name = "FILE", requires = "live")]
    pub kubeconfig: Option<PathBuf>,
    /// Which context of that file. By default the current one.
    #[arg(long, value_name = "NAME", requires = "live")]
    pub context: Option<String>,
    /// Namespaces that are asked about, with commas between them. By default all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "live")]
    pub namespaces: Vec<String>,
    /// Ingresses of the class of this name alone; may be given several times. By default those of Tidegate and of
    /// ingress-nginx, of classes that nothing is known of, and of none.
    #[arg(long, value_name = "NAME")]
    pub ingress_class: Vec<String>,
    /// The Secret with the certificate of hosts that have none of their own.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub default_certificate: Option<ObjectName>,
    /// What becomes of Ingresses whose snippets have a statement that is not known, as for `run`.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = UnknownSnippetsWord::Shut)]
    pub unknown_snippets: UnknownSnippetsWord,
    /// The ConfigMap of ingress-nginx, among the objects: what becomes of each of its keys, and of Ingresses with it.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub ingress_nginx_config: Option<ObjectName>,
    /// The ConfigMap of TCP services, among the objects.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub tcp_services_configmap: Option<ObjectName>,
    /// The ConfigMap of UDP services, which are not served.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub udp_services_configmap: Option<ObjectName>,
}

#[derive(Args)]
pub struct KubernetesRun {
    /// What no object says: logs, the admin endpoint, limits, and sites beside those of objects. Applied whenever it
    /// changes.
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Classes of this controller are served: what an IngressClass has as `spec.controller`.
    #[arg(long, value_name = "NAME", default_value = "tidegate.dev/ingress")]
    pub controller: String,
    /// Classes of this controller are served as well, as `k8s.io/ingress-nginx`; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub take_over: Vec<String>,
    /// Ingresses of the class of this name are served although there may be no such IngressClass; may be given several
    /// times.
    #[arg(long, value_name = "NAME")]
    pub ingress_class: Vec<String>,
    /// Ingresses that name no class are served as well, unless there is a default class.
    #[arg(long)]
    pub watch_ingress_without_class: bool,
    /// Namespaces that are looked at, with commas between them. By default all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub namespaces: Vec<String>,
    /// Where plain HTTP comes in that clients ask for at port 80, or `off`.
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8080")]
    pub http: Listening,
    /// Where HTTPS comes in that clients ask for at port 443, or `off`.
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8443")]
    pub https: Listening,
    /// The Secret with the certificate of hosts that have none of their own.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub default_certificate: Option<ObjectName>,
    /// Where requests go that no Ingress takes. By default they are answered with 404.
    #[arg(long, value_name = "NAMESPACE/NAME:PORT")]
    pub default_backend: Option<ServicePortName>,
    /// How it is known that Secrets change: all are listed, by their metadata, or each that is referred to is watched
    /// by its name, which needs no right to list any.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = SecretsWord::Listed)]
    pub secrets: SecretsWord,
    /// Whose certificates are obtained from a CA where the Secret that is to have them is not there: nobody's, those
    /// of Ingresses that ask for it with `tidegate.dev/acme: "true"`, or of all Ingresses. The configuration says from
    /// which CA (`acme`), and where they are kept (`storage "kubernetes"`).
    #[arg(long, value_name = "WHOSE", value_enum, default_value_t = AcmeWord::Off)]
    pub acme: AcmeWord,
    /// Who may say what a host answers: Ingresses of all namespaces, or those of the namespace that had it first.
    #[arg(long, value_name = "WHO", value_enum, default_value_t = HostOwnerWord::Shared)]
    pub host_owner: HostOwnerWord,
    /// Verify the certificates of servers over TLS where no Ingress says so, by the authorities of the system unless
    /// its Secret has others. Without this they are verified where an Ingress says `proxy-ssl-verify: "on"`.
    #[arg(long)]
    pub verify_upstreams: bool,
    /// What becomes of Ingresses whose snippets have a statement that is not known: `shut` answers with 503, since it
    /// may have kept somebody out, and `serve` leaves the statement out, with a warning.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = UnknownSnippetsWord::Shut)]
    pub unknown_snippets: UnknownSnippetsWord,
    /// The ConfigMap of ingress-nginx: what holds for all Ingresses where they say nothing. Applied whenever it
    /// changes.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub ingress_nginx_config: Option<ObjectName>,
    /// The ConfigMap of TCP services: its keys are ports, and its texts Services that their connections go to, as in
    /// `9000: "shop/db:5432"`. Applied whenever it changes.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub tcp_services_configmap: Option<ObjectName>,
    /// The ConfigMap of UDP services, which are not served: each is told of.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub udp_services_configmap: Option<ObjectName>,
    /// Where this process stands: of endpoints that are meant for zones, those of its own are taken.
    #[arg(long, value_name = "NAME")]
    pub zone: Option<String>,
    /// How long connections are taken after the cluster has been told that this pod leaves.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = tidegate_config::parse_duration)]
    pub leave_after: Duration,
    /// Addresses of this pod, by which it finds itself among the endpoints of its Service, with commas between them. By
    /// default those in the variable POD_IPS.
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    pub pod_addresses: Vec<IpAddr>,
    /// The Service in front, whose addresses statuses of Ingresses have.
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with = "publish_address")]
    pub publish_service: Option<ObjectName>,
    /// Addresses and names that statuses of Ingresses have, with commas between them.
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    pub publish_address: Vec<String>,
    /// Whether statuses and Events are written. With `off` no right to write is used.
    #[arg(long, value_name = "WHETHER", value_enum, default_value_t = OnOff::On)]
    pub status: OnOff,
    /// Serve without a word: no status, no Event, no Lease, as beside another controller of the same class.
    #[arg(long)]
    pub shadow: bool,
    /// The Lease by which one of several processes is the one that writes; in the namespace of this pod unless it says
    /// which.
    #[arg(long, value_name = "NAME", default_value = "tidegate")]
    pub lease: String,
    /// A folder for the last objects, so that a process that starts while the API server is away has something to
    /// serve. Secrets stand there: it should be in memory.
    #[arg(long, value_name = "FOLDER")]
    pub snapshot_dir: Option<PathBuf>,
    /// The file with clusters and who we are there, for a process that is no pod; as `kubectl` has it.
    #[arg(long, value_name = "FILE", conflicts_with = "api")]
    pub kubeconfig: Option<PathBuf>,
    /// Which context of that file. By default the current one.
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,
    /// The API server of a cluster that this process is not a pod of.
    #[arg(long, value_name = "URL", requires = "token_file")]
    pub api: Option<String>,
    /// A file with the token that is shown to it.
    #[arg(long, value_name = "FILE", requires = "api")]
    pub token_file: Option<PathBuf>,
    /// A file with the certificate of its authority. By default those of the system.
    #[arg(long, value_name = "FILE", requires = "api")]
    pub ca: Option<PathBuf>,
}

/// Whose the hosts are.
/// What becomes of statements that are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UnknownSnippetsWord {
    Shut,
    Serve,
}

impl From<UnknownSnippetsWord> for UnknownSnippets {
    fn from(word: UnknownSnippetsWord) -> UnknownSnippets {
        match word {
            UnknownSnippetsWord::Shut => UnknownSnippets::Shut,
            UnknownSnippetsWord::Serve => UnknownSnippets::Serve,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HostOwnerWord {
    Shared,
    Oldest,
}

/// Whose certificates are obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AcmeWord {
    Off,
    Asked,
    MissingSecrets,
}

/// How Secrets are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SecretsWord {
    Listed,
    Named,
}

/// Whether something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    On,
    Off,
}

/// An address, or nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening(pub Option<SocketAddr>);

impl FromStr for Listening {
    type Err = String;

    fn from_str(text: &str) -> Result<Listening, String> {
        if text == "off" {
            return Ok(Listening(None));
        }
        let address = text.parse().map_err(|_| "an address and a port, as in `[::]:8080` or `0.0.0.0:8080`, or `off`");
        Ok(Listening(Some(address?)))
    }
}

/// An object of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    pub namespace: String,
    pub name: String,
}

impl FromStr for ObjectName {
    type Err = String;

    fn from_str(text: &str) -> Result<ObjectName, String> {
        let (namespace, name) = text.split_once('/').ok_or("its namespace and its name, as in `shop/web`")?;
        for part in [namespace, name] {
            let is_of_names = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
            if part.is_empty() || part.len() > 253 || !part.chars().all(is_of_names) {
                return Err(format!("`{part}` is no name of an object, which has small letters, digits, `-` and `.`"));
            }
        }
        Ok(ObjectName { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// A port of a Service, by its number or by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePortName {
    pub service: ObjectName,
    pub port: String,
}

impl FromStr for ServicePortName {
    type Err = String;

    fn from_str(text: &str) -> Result<ServicePortName, String> {
        let (service, port) = text.rsplit_once(':').ok_or("a Service and its port, as in `shop/web:80` or `shop/web:http`")?;
        if port.is_empty() {
            return Err("the port is missing, as in `shop/web:80`".to_owned());
        }
        Ok(ServicePortName { service: service.parse()?, port: port.to_owned() })
    }
}
