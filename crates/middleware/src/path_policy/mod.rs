//! `path-policy`: it acts before a route is looked for, so what it does is in `routing::path_policy`, and nothing of it
//! is left for a step to do.

pub use tidegate_routing::path_policy::{PathRefusal, path_policy_of, settle_path};
