//! Active checks of servers: whether one is well is asked over a connection of its own, and outcomes in a row decide.
//! It knows no pool, draws no random numbers and starts no task: the caller runs the futures on its own thread, gives
//! chance and hears reports. Start at `checker`, one server's endless round; `state` is what outcomes mean, `probe` how
//! they come about.

pub mod checker;
pub mod fault;
pub mod probe;
pub mod state;

pub use checker::{Checker, Report};
pub use fault::{GrpcFault, ProbeFault, Stage};
pub use probe::grpc_message::{MessageFault, ServingStatus};
pub use probe::{Target, TlsTarget, probe};
pub use state::{CheckState, LastFault, Seen, Standing, Transition};
