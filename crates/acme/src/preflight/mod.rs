//! A look before each order at what would make it fail, so that a wrong set-up costs no order and no quota.
//! Facts are gathered here and in the probes; judged, purely, in `verdict`.

pub mod gather;
mod http_probe;
mod tls_probe;
pub mod verdict;
