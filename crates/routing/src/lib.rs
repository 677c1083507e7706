//! Compiled matchers: which site a request is for, and which of its routes. Pure tables, built once for each
//! configuration. Nothing here changes a request (that is `middleware`) or checks the configuration for mistakes (that
//! is `config`). `decision` is what a request goes by, from its host to its route. `path_policy` settles how a path is
//! spelled, `hosts` finds the site, `routes` the route; `path_table` and `condition` are the two halves of a route's
//! match.

mod client_certificate;
mod condition;
mod cookie;
pub mod decision;
mod hosts;
mod map_test;
pub mod path_policy;
mod path_table;
mod path_test;
mod query;
mod routes;
mod text_test;

#[cfg(test)]
mod tests;

pub use client_certificate::client_certificate_text;
pub use condition::{Conditions, RequestFacts, is_at};
pub use cookie::{cookie_value, cookie_values};
pub use hosts::{Greeting, Router, Taker};
pub use map_test::{MapTest, host_of};
pub use query::parameter_value;
pub use routes::{Explanation, Reason, Routes};

/// A site's position in `Configuration::sites`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u32);

/// Names whose connections are passed on as they are: a position in the list that the router was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PassId(pub u32);

/// A route's position in `Site::routes`: its rank, since the first in the file that matches is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteId(pub u32);
