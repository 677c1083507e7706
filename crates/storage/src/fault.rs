//! What can go wrong with a store: what was wanted, where, why it failed and what to do about it. Values and passwords
//! are never part of it.

use crate::{KEYS_LISTED_MAX, VALUE_BYTES_MAX};
use std::fmt;
use std::io;

/// `` `certs/a` cannot be written in the folder /var/lib/tidegate/storage: no space is left; make room on its file
/// system ``
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageFault {
    what: String,
    place: String,
    problem: Problem,
}

impl StorageFault {
    pub(crate) fn new(what: impl Into<String>, place: impl Into<String>, problem: Problem) -> StorageFault {
        StorageFault { what: what.into(), place: place.into(), problem }
    }

    /// What was wanted and does not go.
    pub fn what(&self) -> &str {
        &self.what
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

    /// Whether the same call may succeed later without anybody doing something about it.
    pub fn is_transient(&self) -> bool {
        self.problem.is_transient()
    }
}

impl fmt::Display for StorageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}: {}; {}", self.what, self.place, self.problem, self.remedy())
    }
}

impl std::error::Error for StorageFault {}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// A fault of ours: who made the key made no key.
    BadKey {
        why: &'static str,
    },
    ValueTooLong {
        bytes: usize,
    },
    TooManyKeys,
    /// A value stands where a folder is wanted, or the other way round.
    InTheWay {
        path: String,
    },
    NotAFolder,
    /// The folder above the named one does not exist.
    NothingAbove,
    /// Others than its owner may read the folder.
    OpenToOthers {
        mode: u32,
    },
    ReadOnly,
    Full,
    Denied,
    /// No answer in time.
    Silent {
        seconds: u64,
    },
    /// The server cannot be reached, or the connection broke off.
    Unreachable {
        text: String,
    },
    /// No answer of the server in time.
    ServerSilent {
        seconds: u64,
    },
    /// The server cannot be asked as it was configured: its certificate, or the file of roots.
    Untrusted {
        text: String,
    },
    /// User, password, token or rights.
    Refused {
        text: String,
    },
    /// Kubernetes: the token, or the rights of its service account.
    Forbidden {
        text: String,
    },
    /// Kubernetes: there is no API server to ask.
    NoCluster,
    NoNamespace,
    /// Kubernetes: a token and private keys without TLS.
    Exposed {
        url: String,
    },
    BadNamespace {
        namespace: String,
    },
    BadPrefix {
        prefix: String,
    },
    /// Kubernetes: a file of the pod's service account.
    NoAccount {
        file: String,
        text: String,
    },
    /// For a moment.
    Busy {
        text: String,
    },
    ServerFull {
        text: String,
    },
    /// Redis: it takes no writes.
    Replica,
    /// Redis: one of many that share the keys.
    Cluster,
    /// Anything else that a server says.
    Server {
        text: String,
    },
    /// Anything else that the system says of a file.
    Io {
        text: String,
        is_transient: bool,
    },
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

    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Problem::BadKey { .. }
            | Problem::ValueTooLong { .. }
            | Problem::TooManyKeys
            | Problem::InTheWay { .. }
            | Problem::NotAFolder
            | Problem::NothingAbove
            | Problem::OpenToOthers { .. }
            | Problem::ReadOnly
            | Problem::Full
            | Problem::Denied
            | Problem::Untrusted { .. }
            | Problem::Refused { .. }
            | Problem::Forbidden { .. }
            | Problem::NoCluster
            | Problem::NoNamespace
            | Problem::Exposed { .. }
            | Problem::BadNamespace { .. }
            | Problem::BadPrefix { .. }
            | Problem::NoAccount { .. }
            | Problem::ServerFull { .. }
            | Problem::Cluster
            | Problem::Server { .. } => false,
            Problem::Silent { .. }
            | Problem::Unreachable { .. }
            | Problem::ServerSilent { .. }
            | Problem::Busy { .. }
            // Its primary may be elsewhere for a moment only.
            | Problem::Replica => true,
            Problem::Io { is_transient, .. } => *is_transient,
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

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::BadKey { why } => f.write_str(why),
            Problem::ValueTooLong { bytes } => write!(f, "the value has {bytes} bytes"),
            Problem::TooManyKeys => write!(f, "there are more than {KEYS_LISTED_MAX} keys"),
            Problem::InTheWay { path } => write!(f, "{path} is in the way"),
            Problem::NotAFolder => f.write_str("it is not a folder"),
            Problem::NothingAbove => f.write_str("the folder above it does not exist"),
            Problem::OpenToOthers { mode } => write!(f, "others may read it (mode {mode:04o})"),
            Problem::ReadOnly => f.write_str("the file system is read-only"),
            Problem::Full => f.write_str("no space is left"),
            Problem::Denied => f.write_str("permission was denied"),
            Problem::Silent { seconds } => write!(f, "there was no answer within {seconds} seconds"),
            Problem::Unreachable { text } => write!(f, "it cannot be reached ({text})"),
            Problem::ServerSilent { seconds } => write!(f, "it did not answer within {seconds} seconds"),
            Problem::Untrusted { text } => write!(f, "the server {text}"),
            Problem::Refused { text } => write!(f, "it refuses us ({text})"),
            Problem::Forbidden { text } => write!(f, "the API server refuses us ({text})"),
            Problem::NoCluster => f.write_str("this process does not run in a cluster (KUBERNETES_SERVICE_HOST is not set)"),
            Problem::NoNamespace => f.write_str("outside a cluster there is no namespace of one's own"),
            Problem::Exposed { url } => write!(f, "{url} has no TLS, and private keys go there"),
            Problem::BadNamespace { namespace } => write!(f, "`{}` is no name of a namespace", namespace.escape_debug()),
            Problem::BadPrefix { prefix } => write!(f, "names of secrets cannot begin with `{}`", prefix.escape_debug()),
            Problem::NoAccount { file, text } => write!(f, "{file} cannot be read ({text})"),
            Problem::Busy { text } => write!(f, "it is busy ({text})"),
            Problem::ServerFull { text } => write!(f, "it has no room ({text})"),
            Problem::Replica => f.write_str("it is a replica, which takes no writes"),
            Problem::Cluster => f.write_str("it is part of a cluster, whose keys are spread over many servers"),
            Problem::Server { text } => write!(f, "it answers: {text}"),
            Problem::Io { text, .. } => f.write_str(text),
        }
    }
}
