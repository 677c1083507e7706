//! `tidegate kubernetes`: objects of a cluster say what is served. What they mean is in the crate `kubernetes`, how
//! they are taken on in `control`; here the command line becomes their settings.

use super::run::{Life, serve};
use super::{explain_running, fail, kubernetes_check};
use crate::cli::kubernetes::{
    AcmeWord, HostOwnerWord, KubernetesCommand, KubernetesExplain, KubernetesRun, Listening, ObjectName, OnOff, SecretsWord,
};
use crate::cli::{DEFAULT_CONFIG, Sharing};
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::slice;
use tidegate_certs::default_state_dir;
use tidegate_cluster::{Key, Kubeconfig, Place, Pod, PortReference, Publish, WriterSettings};
use tidegate_control::Source;
use tidegate_control::objects::{ObjectSource, Writing};
use tidegate_kubernetes::{HostOwner, Obtains, Settings};
use tidegate_model::discover::{Cluster, Namespaces};
use tidegate_model::{KubernetesApi, Secret};

/// What holds where no file says it: a pod's health and metrics are asked from outside, and its API by commands in it.
const BASE: &str = "admin \"[::]:9180\" serve=\"metrics\"\n";

pub fn run(command: KubernetesCommand) -> ExitCode {
    match command {
        KubernetesCommand::Run(wanted) => match object_source(&wanted) {
            Ok(objects) => run_beside(wanted.config.as_deref(), objects),
            Err(why) => fail(&why),
        },
        KubernetesCommand::Explain(KubernetesExplain { method, url, header, from, reach }) => {
            explain_running::run(Path::new(DEFAULT_CONFIG), &reach, method, url, header, from)
        }
        KubernetesCommand::Check(wanted) => kubernetes_check::run(&wanted),
    }
}

fn run_beside(config: Option<&Path>, objects: ObjectSource) -> ExitCode {
    let source = match config {
        Some(file) => Source::file(file),
        None => Source::Text { name: "<kubernetes>".into(), text: BASE.into(), directory: "/".into() },
    };
    let sharing = Sharing { share_port: false };
    let life = Life { watch: config.is_some(), ends_with_terminal: false, sharing, objects: Some(objects) };
    serve(|| source, default_state_dir(), life, || {})
}

/// `Err` says what to do.
fn object_source(wanted: &KubernetesRun) -> Result<ObjectSource, String> {
    let api = api(wanted)?;
    let place = || {
        let place = match (&api, &wanted.kubeconfig) {
            (Some(api), _) => Place::outside(api),
            (None, Some(file)) => Kubeconfig::find(Some(file)).and_then(|found| found.place(wanted.context.as_deref())),
            (None, None) => Pod::here().map(|pod| Place::of_pod(&pod)),
        };
        place.map_err(|fault| format!("the API server {fault}"))
    };
    let writing = match (wanted.status, wanted.shadow) {
        (OnOff::Off, _) | (_, true) => None,
        (OnOff::On, false) => Some(Writing { place: place()?, settings: writer_settings(wanted)?, publish: publish(wanted) }),
    };
    let place = place()?;
    let (Listening(http), Listening(https)) = (wanted.http, wanted.https);
    let key = |name: &ObjectName| Key::new(&name.namespace, &name.name);
    let default_backend = wanted.default_backend.as_ref().map(|backend| {
        let number = backend.port.parse().map(PortReference::Number);
        (key(&backend.service), number.unwrap_or_else(|_| PortReference::Name(backend.port.as_str().into())))
    });
    let settings = Settings {
        controllers: [slice::from_ref(&wanted.controller), &wanted.take_over].concat(),
        class_names: wanted.ingress_class.clone(),
        without_class: wanted.watch_ingress_without_class,
        http,
        https,
        default_certificate: wanted.default_certificate.as_ref().map(key),
        default_backend,
        zone: wanted.zone.as_deref().map(Into::into),
        host_owner: match wanted.host_owner {
            HostOwnerWord::Shared => HostOwner::Shared,
            HostOwnerWord::Oldest => HostOwner::Oldest,
        },
        obtains: match wanted.acme {
            AcmeWord::Off => Obtains::Nothing,
            // Whoever only looks orders nothing.
            AcmeWord::Asked | AcmeWord::MissingSecrets if wanted.shadow => Obtains::Nothing,
            AcmeWord::Asked => Obtains::Asked,
            AcmeWord::MissingSecrets => Obtains::MissingSecrets,
        },
        verifies_servers: wanted.verify_upstreams,
        unknown_snippets: wanted.unknown_snippets.into(),
        ingress_nginx_config: wanted.ingress_nginx_config.as_ref().map(key),
        tcp_services: wanted.tcp_services_configmap.as_ref().map(key),
        udp_services: wanted.udp_services_configmap.as_ref().map(key),
        ..Settings::new(Cluster { api: api.clone(), namespaces: namespaces(&wanted.namespaces) })
    };
    let own_addresses = match &wanted.pod_addresses[..] {
        [] => addresses_of_pod(&std::env::var("POD_IPS").unwrap_or_default())?,
        given => given.to_vec(),
    };
    let snapshots = wanted.snapshot_dir.clone();
    let are_secrets_named = match wanted.secrets {
        SecretsWord::Listed => false,
        SecretsWord::Named => true,
    };
    Ok(ObjectSource { place, settings, are_secrets_named, writing, snapshots, leave_after: wanted.leave_after, own_addresses })
}

/// Namespaces that are named, or all of them.
pub fn namespaces(named: &[String]) -> Namespaces {
    if named.is_empty() { Namespaces::All } else { Namespaces::named(named.iter().cloned()) }
}

/// Who writes, and in whose name.
fn writer_settings(wanted: &KubernetesRun) -> Result<WriterSettings, String> {
    let identity = std::env::var("POD_NAME").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        format!("{host}-{}", std::process::id())
    });
    let (namespace, name) = match wanted.lease.split_once('/') {
        Some((namespace, name)) => (namespace.to_owned(), name),
        None => (own_namespace()?, wanted.lease.as_str()),
    };
    let lease: ObjectName = format!("{namespace}/{name}").parse().map_err(|why| format!("`--lease`: {why}"))?;
    Ok(WriterSettings { lease: Key::new(&lease.namespace, &lease.name), identity, controller: wanted.controller.clone() })
}

fn own_namespace() -> Result<String, String> {
    if let Some(namespace) = std::env::var("POD_NAMESPACE").ok().filter(|namespace| !namespace.is_empty()) {
        return Ok(namespace);
    }
    let namespace = Pod::here().and_then(|pod| pod.namespace());
    namespace.map_err(|_| {
        "the namespace of the Lease is unknown, since this is no pod\n  help: write `--lease NAMESPACE/NAME`, or `--status off` to write nothing into the cluster".to_owned()
    })
}

fn publish(wanted: &KubernetesRun) -> Publish {
    match (&wanted.publish_service, &wanted.publish_address[..]) {
        (Some(service), _) => Publish::Service(Key::new(&service.namespace, &service.name)),
        (None, []) => Publish::Nothing,
        (None, addresses) => Publish::Addresses(addresses.iter().map(|address| address.as_str().into()).collect()),
    }
}

/// As `status.podIPs` has them.
fn addresses_of_pod(text: &str) -> Result<Vec<IpAddr>, String> {
    let address = |text: &str| text.parse().map_err(|_| format!("the variable POD_IPS has `{text}`, which is no address"));
    text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(address).collect()
}

fn api(wanted: &KubernetesRun) -> Result<Option<KubernetesApi>, String> {
    let (Some(url), Some(file)) = (&wanted.api, &wanted.token_file) else { return Ok(None) };
    let token =
        std::fs::read_to_string(file).map_err(|error| format!("the token of {} cannot be read: {error}", file.display()))?;
    Ok(Some(KubernetesApi { url: url.clone(), token: Secret::new(token.trim()), root: wanted.ca.clone() }))
}
