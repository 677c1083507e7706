//! What the API takes and gives, as plain data that both sides share: the endpoint writes it, the client reads it. Members that are absent are
//! `null`, and later versions only add members. How an answer is gathered is in `handlers`, which addresses there are in `routes`.

mod cache;
mod certificates;
mod change;
mod explain;
mod generations;
mod past;
mod plan;
mod pools;
mod problem;
pub mod schema;
mod status;

pub use cache::{Cache, CacheDisk, PurgeRequest, Purged};
pub use certificates::{Certificate, CertificateChanged, CertificateFault, Certificates, Obtained, RevokeRequest, Staple};
pub use change::{
    Applied, ApplyRequest, Confirmed, DrainedConnections, Edited, NoOptions, PlanRequest, Planned, UnwrittenFile, UpgradeRequest,
    Upgraded,
};
pub use explain::{
    ExplainRequest, ExplainedCertificate, ExplainedListener, ExplainedPool, ExplainedRequest, ExplainedRoute, ExplainedServer,
    ExplainedStep, Explanation, FailedLine, Outcome, OutcomeKind, PassedRoute, PassedSite, Setting, WhyNotRoute, WhyNotSite,
};
pub use generations::{Difference, Generation, GenerationFile, Generations};
pub use past::PastRequest;
pub use plan::{
    ChangeKind, Effect, LineChange, LineKind, ListenerChange, Plan, PoolChange, RouteChange, ServerChange, SettingChange,
    SiteChange,
};
pub use pools::{ErrorCount, Pool, Pools, Server, ServerState, Source};
pub use problem::{PROBLEM_TYPE, Problem};
pub use status::{
    AwaitsConfirmation, Connection, ConnectionCounts, Connections, GenerationRequests, Listener, Listeners, Readiness, Refused,
    Status, TicketKeys, Traffic,
};
