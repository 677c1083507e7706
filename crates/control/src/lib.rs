//! From a configuration to working threads, and from one configuration to the next: find certificates and addresses,
//! compile, bind, publish, drain. Beside that, what a configuration needs of the machine (`check`). No text is parsed
//! here (`config` does), no request is served (`proxy` does), and what a change would do or where a request would go is
//! said by `explain`. Start at `prepare` and `run`, the life of the process, and `change`, the life of a change.

mod applying;
pub mod background;
pub mod bind;
pub mod cache;
pub mod change;
mod check;
pub mod compile;
pub mod confirm;
pub mod control;
pub mod descriptors;
pub mod discovery;
mod driver;
pub mod edit;
pub mod endpoint;
pub mod fault;
pub mod generations;
pub mod handle;
mod history;
mod init;
mod issuing;
pub mod material;
pub mod memory;
mod named_files;
pub mod names;
mod news;
mod orders;
pub mod past;
pub mod pools;
mod prepare;
mod renewal;
pub mod report;
mod rewrite;
pub mod run;
mod shared_tickets;
pub mod sharing;
mod signals;
pub mod sockets;
pub mod source;
mod stapling;
pub mod sticky;
pub mod succession;
pub mod systemd;
pub mod tag;
mod tickets;
mod upgrade;
mod upkeep;
pub mod watch;
mod watching;
pub mod workers;

pub use applying::{ApplyOptions, ChangeFault};
pub use bind::BindFault;
pub use check::{Finding, Place, check};
pub use control::Control;
pub use driver::drivers_here;
pub use endpoint::AdminListener;
pub use fault::StartFault;
pub use handle::{ControlHandle, Stopped};
pub use issuing::{CertificateUse, CertificateUses};
pub use prepare::{Prepared, StartOptions, prepare};
pub use source::{Proposal, Source};
pub use tag::Tag;
pub use tidegate_acme::{Issuing, Refusal as IssuingRefusal, RevocationReason};
pub use watch::FileWatch;
