//! The data plane: workers, their client connections, the life of a request, and the upstream pools.
//! No configuration text, no certificates, no admin endpoint: it is handed an immutable `Snapshot` and hands back measurements.
//! Read `request` first: it is the life of a request from top to bottom.

pub mod request;

pub mod connection;
pub mod exchange;
pub mod failure;
pub mod forward;
pub mod tunnel;

pub mod balance;
pub mod pool;
pub mod upstream;

pub mod snapshot;
pub mod survivors;
pub mod worker;

mod date;
mod h2_head;
mod lease;
mod record;
