//! What the JSON API takes and gives, as plain data: `control` and `explain` fill it, `admin` writes it, the command
//! line reads it. Members that are absent are `null`, and later versions only add members. Nothing is gathered or
//! decided here; which addresses there are is in `admin`.

mod cache;
mod certificates;
mod change;
mod explain;
mod generations;
mod maps;
mod past;
mod plan;
mod pools;
pub mod schema;
mod status;

pub use cache::{Cache, CacheDisk, PurgeRequest, Purged};
pub use certificates::{
    Certificate, CertificateChanged, CertificateFault, CertificateSource, CertificateState, Certificates, Obtained,
    RevokeRequest, Staple, StapleState,
};
pub use change::{
    Applied, ApplyRequest, Confirmed, DrainedConnections, Edited, Effective, EffectivePart, EffectiveWhole, NoOptions,
    PlanRequest, Planned, UnwrittenFile, UpgradeRequest, Upgraded,
};
pub use explain::{
    ExplainRequest, ExplainedCertificate, ExplainedListener, ExplainedPool, ExplainedRequest, ExplainedRoute, ExplainedServer,
    ExplainedStep, Explanation, FailedLine, Outcome, OutcomeKind, PassedRoute, PassedSite, Setting, WhyNotRoute, WhyNotSite,
};
pub use generations::{Difference, Generation, GenerationFile, Generations};
pub use maps::{Map, MapRow, MapRowChange, MapRows, Maps, UnusableChange};
pub use past::PastRequest;
pub use plan::{
    ChangeKind, Effect, LineChange, LineKind, ListenerChange, Plan, PoolChange, RouteChange, ServerChange, SettingChange,
    SiteChange,
};
pub use pools::{ErrorCount, Pool, Pools, Server, ServerState, Source};
pub use schema::Word;
pub use status::{
    AwaitsConfirmation, ClosedConnections, ClusterWriting, Connection, ConnectionCounts, Connections, ContainerFault,
    ContainerSeen, ContainersStatus, GenerationRequests, GeoDatabase, KeptLastGood, KindSeen, KubernetesStatus, Listener,
    Listeners, ObjectFinding, Readiness, Refused, Status, TicketKeys, TokenKeys, Traffic,
};
