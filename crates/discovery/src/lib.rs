//! Finds the servers that nobody wrote: by DNS, in a file, from Docker or Podman, from Consul. It tells whole lists and
//! what is wrong with their sources; what is done with a list, and which requests a server gets, is decided elsewhere
//! (`control`, `proxy`). Start at [`follow`]; each source is a module with a loop that asks (`mod.rs`) and pure code
//! that reads what it is told.

mod answer;
mod backoff;
mod consul;
mod dns;
mod docker;
mod fault;
mod file;
mod http;
pub mod trail;

pub use answer::ENDPOINTS_MAX;
pub use docker::board::ContainerBoard;
pub use docker::labelled::{ContainersTold, follow as follow_containers};
pub use fault::Fault;
pub use file::FileNotices;

use answer::Reporter;
use std::net::SocketAddr;
use std::path::PathBuf;
use tidegate_model::{Discover, Server};

/// One server that a source names.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    pub server: Server,
    /// Addresses when the source gave them, sorted. Empty: the host is an IP literal, or a name that a file or Consul
    /// has, which is to be resolved as if it were written in the configuration.
    pub addresses: Vec<SocketAddr>,
    /// Whether the server gets no new requests; those it has go on.
    pub is_leaving: bool,
}

/// What happened at a source. A fault or remark stands until `Recovered` or the next; there is one at a time.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// All servers of now, sorted by address and without duplicates; only told when it is another list than before.
    Endpoints(Vec<Endpoint>),
    /// The source could not be used. The endpoints last told stand.
    Fault(Fault),
    /// A part of what the source said could not be used; the endpoints that were told are the others.
    Remark(Fault),
    /// The fault told last is over.
    Recovered,
}

/// Where the configuration stands that asks, and what its sources share.
#[derive(Clone, Default)]
pub struct Context {
    /// What a relative path is relative to.
    pub folder: PathBuf,
    pub notices: FileNotices,
    /// Where containers are found that say by their labels what they serve.
    pub containers: ContainerBoard,
}

/// Tells the endpoints that a source names, now and whenever they change. It runs for ever and is cancelled by
/// dropping; it has to be polled within a tokio runtime that has timers and IO.
pub async fn follow(discover: Discover, base: Context, report: impl FnMut(Event)) {
    let mut reporter = Reporter::new(report);
    match discover {
        Discover::Dns(discover) => dns::follow(&discover, &mut reporter).await,
        Discover::File { path } => file::follow(&base.folder.join(path), &base.notices, &mut reporter).await,
        Discover::Docker(mut discover) => {
            discover.socket = discover.socket.map(|socket| base.folder.join(socket));
            docker::follow(&discover, &mut reporter).await;
        }
        Discover::Containers(discover) => docker::board::follow(&discover, &base.containers, &mut reporter).await,
        Discover::Consul(discover) => consul::follow(&discover, &mut reporter).await,
        // One follower tells the differences of a whole cluster to all pools (`control::clusters`).
        Discover::Kubernetes(_) => std::future::pending().await,
    }
}
