//! The ConfigMap of ingress-nginx: what it says for all Ingresses becomes their `Defaults`, and what it says of the
//! process becomes `ProcessDefaults`. All keys are in `keys`; those that annotations have as well are read as these
//! are. What shapes answers and cannot be used is left out; what protects shuts all Ingresses, since it protects all of
//! them.

mod blocked;
mod keys;
mod log_format;
mod process;
mod reading;

pub use keys::{ConfigKey, KEYS, key};
pub use process::{ProcessChanges, ProcessDefaults};
pub use reading::{ConfigReading, field, read};
