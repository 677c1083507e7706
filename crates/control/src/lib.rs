//! From a configuration to working threads, and back: find certificates and addresses, compile, bind, run, drain.
//! No configuration text is read here (`config` does), and no request is looked at (`proxy` does). Start at `run`.

pub mod bind;
pub mod check;
pub mod compile;
pub mod fault;
pub mod run;

pub use bind::{BindFault, Bound, bind_all};
pub use check::{Finding, Place, check};
pub use compile::Material;
pub use fault::StartFault;
pub use run::{AdminState, Prepared, prepare};
