//! Who has had enough: how often a key may (`quota`, `rates`) and how many of its requests may be on their way at once
//! (`permits`). The tables are shared by all threads, and a limit means the whole process. No socket and no clock: the
//! time is given, as a duration since a beginning. Read `quota` first, which is arithmetic, then `rates`, which says
//! what happens when there are more keys than memory; `failures` counts log-ins that fail.

pub mod failures;
pub mod key;
pub mod permits;
pub mod quota;
pub mod rates;
pub mod tables;

pub use failures::{Attempt, FailureQuotas, Failures};
pub use key::{Key, KeyHasher, network};
pub use permits::{Permit, Permits};
pub use quota::{Quota, Standing};
pub use rates::{Rates, Taken};
pub use tables::Tables;
