//! What a cluster of Kubernetes says, as far as a proxy in front of it asks: a client of its API (`client`), the kinds
//! of objects that are followed (`kind`, `object`), how a kind is listed and watched (`course`, pure, and `follow`),
//! all objects as they are now (`cache`, and `shelf` for those of one kind), Secrets and ConfigMaps that somebody
//! refers to (`wanted`, pure, and `fetch`), and the servers behind a Service (`endpoints`); and what is written there
//! (`writer`). Start in `follower.rs`.
//! The crate opens connections to the API server only, knows no configuration and no request, and starts no thread but
//! those of a [`ClusterFollower`] and a [`ClusterWriter`].

mod cache;
mod client;
mod course;
mod endpoints;
mod fault;
mod fetch;
mod follow;
mod follower;
mod kind;
mod kubeconfig;
mod news;
mod object;
mod page;
mod publish;
mod refusals;
mod shelf;
mod snapshot;
mod texts;
mod wanted;
mod wanted_kind;
mod watch_named;
mod writer;
mod written_cluster;
mod yaml;

pub use cache::{Cache, Changes};
pub use client::{Client, Place, Pod, Token};
pub use endpoints::{Absence, Member};
pub use fault::Fault;
pub use follower::{ClusterFollower, ClusterView, Scope};
pub use kind::Kind;
pub use kubeconfig::Kubeconfig;
pub use object::{
    Backend, ConfigMap, Ingress, IngressClass, IngressTls, Key, PathKind, PortReference, Rule, RulePath, Secret, SecretBytes,
    Service, ServicePort,
};
pub use publish::Publish;
pub use shelf::KindState;
pub use snapshot::{SnapshotOutcome, SnapshotState};
pub use wanted::{ConfigMapState, SecretState, WantedState};
pub use writer::{ClusterWriter, Desired, Notice, ObtainedPair, WriterSettings, WriterState};
pub use written_cluster::WrittenCluster;
