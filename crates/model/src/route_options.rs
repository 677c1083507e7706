//! Settings of a route: what holds for its requests as a whole, wherever its line stands in the block. What acts on a
//! request or its answer, in the order written, is in `step`.

use crate::path_policy::PathPolicy;
use crate::request_log::RouteLog;
use crate::traffic::RouteTimeouts;

/// What a site says of all its routes, or a route of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteOptions {
    /// `path-policy`: carried out before a route is looked for.
    pub path_policy: Option<PathPolicy>,
    pub timeouts: RouteTimeouts,
    pub log: RouteLog,
}

impl RouteOptions {
    /// What holds in a route: these options of its site, and where the route says something, that.
    pub fn and(&self, route: &RouteOptions) -> RouteOptions {
        RouteOptions {
            path_policy: route.path_policy.or(self.path_policy),
            timeouts: self.timeouts.and(route.timeouts),
            log: self.log.clone().and(&route.log),
        }
    }
}
