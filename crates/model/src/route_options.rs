//! Settings of a route: what holds for its requests as a whole, wherever its line stands in the block. What acts on a
//! request or its answer, in the order written, is in `step`.

use crate::cache::Cache;
use crate::compress::{Compress, Decompress};
use crate::path_policy::PathPolicy;
use crate::request_log::RouteLog;
use crate::traffic::RouteTimeouts;

/// What a site says of all its routes, or a route of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteOptions {
    /// `path-policy`: carried out before a route is looked for.
    pub path_policy: Option<PathPolicy>,
    pub compress: Switched<Compress>,
    pub decompress: Switched<Decompress>,
    pub cache: Switched<Cache>,
    pub timeouts: RouteTimeouts,
    pub log: RouteLog,
}

/// What can be on with settings, or off in a route whose site has it on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Switched<T> {
    /// As the site says, and off where that says nothing.
    #[default]
    Inherited,
    Off,
    On(Box<T>),
}

impl<T: Clone> Switched<T> {
    fn and(&self, route: &Switched<T>) -> Switched<T> {
        match route {
            Switched::Inherited => self.clone(),
            Switched::Off | Switched::On(_) => route.clone(),
        }
    }

    /// The settings, where it is on.
    pub fn on(&self) -> Option<&T> {
        match self {
            Switched::Inherited | Switched::Off => None,
            Switched::On(settings) => Some(settings),
        }
    }
}

impl RouteOptions {
    /// What holds in a route: these options of its site, and where the route says something, that.
    pub fn and(&self, route: &RouteOptions) -> RouteOptions {
        RouteOptions {
            path_policy: route.path_policy.or(self.path_policy),
            compress: self.compress.and(&route.compress),
            decompress: self.decompress.and(&route.decompress),
            cache: self.cache.and(&route.cache),
            timeouts: self.timeouts.and(route.timeouts),
            log: self.log.clone().and(&route.log),
        }
    }
}
