//! Where certificates, their keys and accounts of CAs are kept, so that restarts and other processes find them. How is
//! in the crate `storage`.

use crate::process::Secret;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Storage {
    /// The process's own state folder.
    #[default]
    State,
    /// A folder that several processes or hosts may share.
    Folder(PathBuf),
    Redis(RedisStorage),
    Kubernetes(KubernetesStorage),
}

/// Redis or Valkey.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RedisStorage {
    pub address: RedisAddress,
    pub database: u32,
    pub username: Option<String>,
    pub password: Option<Secret>,
    /// Stands before every key.
    pub prefix: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RedisAddress {
    Tcp {
        host: String,
        port: u16,
    },
    /// Verified against the system's roots, or those of the file.
    Tls {
        host: String,
        port: u16,
        root: Option<PathBuf>,
    },
    Unix(PathBuf),
}

/// Secrets of a namespace, with the service account of the pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KubernetesStorage {
    /// `None`: that of the pod.
    pub namespace: Option<String>,
    /// What the names of the secrets begin with.
    pub prefix: String,
    /// Instead of the pod's environment and files, to reach a cluster from outside.
    pub api: Option<KubernetesApi>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KubernetesApi {
    pub url: String,
    pub token: Secret,
    /// PEM; `None` is the system's roots.
    pub root: Option<PathBuf>,
}
