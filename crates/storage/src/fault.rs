//! What can go wrong with a store: what was wanted, where, why it failed and what to do about it. Values and passwords
//! are never part of it.

use crate::{KEYS_LISTED_MAX, VALUE_BYTES_MAX};
use std::io;
use thiserror::Error;

/// `` `certs/a` cannot be written in the folder /var/lib/tidegate/storage: no space is left; make room on its file
/// system ``
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what} in {place}: {problem}; {}", .problem.remedy())]
pub struct StorageFault {
    what: String,
    place: String,
    problem: Problem,
}

impl StorageFault {
    pub(crate) fn new(what: impl Into<String>, place: impl Into<String>, problem: Problem) -> StorageFault {
        StorageFault { what: what.into(), place: place.into(), problem }
    }

    /// The store, as [`crate::Store::describe`] names it.
    pub fn place(&self) -> &str {
        &self.place
    }

    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    pub fn remedy(&self) -> String {
        self.problem.remedy()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// A fault of ours: who made the key made no key.
    #[error("{why}")]
    BadKey { why: &'static str },
    #[error("the value has {bytes} bytes")]
    ValueTooLong { bytes: usize },
    #[error("there are more than {} keys", KEYS_LISTED_MAX)]
    TooManyKeys,
    /// A value stands where a folder is wanted, or the other way round.
    #[error("{path} is in the way")]
    InTheWay { path: String },
    #[error("it is not a folder")]
    NotAFolder,
    /// The folder above the named one does not exist.
    #[error("the folder above it does not exist")]
    NothingAbove,
    /// Others than its owner may read the folder.
    #[error("others may read it (mode {mode:04o})")]
    OpenToOthers { mode: u32 },
    #[error("the file system is read-only")]
    ReadOnly,
    #[error("no space is left")]
    Full,
    #[error("permission was denied")]
    Denied,
    /// No answer in time.
    #[error("there was no answer within {seconds} seconds")]
    Silent { seconds: u64 },
    /// The server cannot be reached, or the connection broke off.
    #[error("it cannot be reached ({text})")]
    Unreachable { text: String },
    /// No answer of the server in time.
    #[error("it did not answer within {seconds} seconds")]
    ServerSilent { seconds: u64 },
    /// The server cannot be asked as it was configured: its certificate, or the file of roots.
    #[error("the server {text}")]
    Untrusted { text: String },
    /// User, password, token or rights.
    #[error("it refuses us ({text})")]
    Refused { text: String },
    /// Kubernetes: the token, or the rights of its service account.
    #[error("the API server refuses us ({text})")]
    Forbidden { text: String },
    /// Kubernetes: there is no API server to ask.
    #[error("this process does not run in a cluster (KUBERNETES_SERVICE_HOST is not set)")]
    NoCluster,
    #[error("outside a cluster there is no namespace of one's own")]
    NoNamespace,
    /// Kubernetes: a token and private keys without TLS.
    #[error("{url} has no TLS, and private keys go there")]
    Exposed { url: String },
    #[error("`{}` is no name of a namespace", .namespace.escape_debug())]
    BadNamespace { namespace: String },
    #[error("names of secrets cannot begin with `{}`", .prefix.escape_debug())]
    BadPrefix { prefix: String },
    /// Kubernetes: a file of the pod's service account.
    #[error("{file} cannot be read ({text})")]
    NoAccount { file: String, text: String },
    /// For a moment.
    #[error("it is busy ({text})")]
    Busy { text: String },
    #[error("it has no room ({text})")]
    ServerFull { text: String },
    /// Redis: it takes no writes.
    #[error("it is a replica, which takes no writes")]
    Replica,
    /// Redis: one of many that share the keys.
    #[error("it is part of a cluster, whose keys are spread over many servers")]
    Cluster,
    /// Anything else that a server says.
    #[error("it answers: {text}")]
    Server { text: String },
    /// Anything else that the system says of a file.
    #[error("{text}")]
    Io { text: String, is_transient: bool },
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        Problem::of_io(&error)
    }
}

impl Problem {
    pub(crate) fn of_io(error: &io::Error) -> Problem {
        use io::ErrorKind;
        match error.kind() {
            ErrorKind::ReadOnlyFilesystem => Problem::ReadOnly,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Problem::Full,
            ErrorKind::PermissionDenied => Problem::Denied,
            // What a file server says that is away for a moment.
            ErrorKind::StaleNetworkFileHandle | ErrorKind::TimedOut | ErrorKind::Interrupted | ErrorKind::ResourceBusy => {
                Problem::Io { text: error.to_string(), is_transient: true }
            }
            _ => {
                let is_transient = error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
                Problem::Io { text: error.to_string(), is_transient }
            }
        }
    }

    /// Whether the store may answer in a moment, and nothing is wrong with this one value.
    pub fn is_transient(&self) -> bool {
        match self {
            Problem::Io { is_transient, .. } => *is_transient,
            Problem::Silent { .. } | Problem::Unreachable { .. } | Problem::ServerSilent { .. } => true,
            Problem::Busy { .. } | Problem::Replica => true,
            _ => false,
        }
    }

    fn remedy(&self) -> String {
        match self {
            Problem::BadKey { .. } => "this is a fault of the program, so please report it".into(),
            Problem::ValueTooLong { .. } => format!("at most {VALUE_BYTES_MAX} bytes fit"),
            Problem::TooManyKeys => "give what else is in it a store of its own".into(),
            Problem::InTheWay { path } => format!("move {path} out of the way"),
            Problem::NotAFolder => "name a folder, or a path where nothing is yet".into(),
            Problem::NothingAbove => "make that one, or mount what belongs there".into(),
            Problem::OpenToOthers { .. } => {
                "name a folder within it that does not exist yet, which is made private; or, where nobody else needs this one, `chmod 0700`".into()
            }
            Problem::ReadOnly => "mount its file system for writing, or name another folder".into(),
            Problem::Full => "make room on its file system, or raise the quota; what was kept before is unharmed".into(),
            Problem::Denied => "run it as the user that owns the folder, or make that user the owner of all in it (`chown -R`)".into(),
            Problem::Silent { .. } => "look whether the file server is up; it is tried again".into(),
            Problem::Unreachable { .. } | Problem::ServerSilent { .. } => {
                "look whether it is up and can be reached from here; it is tried again".into()
            }
            Problem::Untrusted { .. } => "look at its address, and at the roots that it is to be verified with".into(),
            Problem::Refused { .. } => "look at the user or token that is configured, and give it the rights that are missing".into(),
            Problem::Forbidden { .. } => {
                "give its service account `get`, `list`, `create`, `update` and `delete` for secrets and leases of the namespace".into()
            }
            Problem::NoCluster => "run it in a pod, or configure the API server's address".into(),
            Problem::NoNamespace => "name one".into(),
            Problem::Exposed { .. } => "use `https://`".into(),
            Problem::BadNamespace { .. } => "name one of the cluster's namespaces".into(),
            Problem::BadPrefix { .. } => "use at most 63 of `a` to `z`, `0` to `9` and `-`, with no `-` at its ends".into(),
            Problem::NoAccount { .. } => "give the pod a service account, and do not switch off that its token is mounted".into(),
            Problem::Busy { .. } => "it is tried again".into(),
            Problem::ServerFull { .. } => "give it more room; what was kept before is unharmed".into(),
            Problem::Replica => "name its primary".into(),
            Problem::Cluster => "name a server that is not part of a cluster".into(),
            Problem::Server { .. } => "look at the server's own log".into(),
            Problem::Io { is_transient: true, .. } => "it is tried again".into(),
            Problem::Io { is_transient: false, .. } => "look at the file system and at the system's log".into(),
        }
    }
}
