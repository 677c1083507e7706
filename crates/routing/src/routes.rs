//! The routes of one site, compiled: the first in the file whose path and conditions fit is taken.
//! Paths are looked up in `path_table`; what they propose is checked here, by rank.

use crate::RouteId;
use crate::condition::{ConditionTest, Conditions, RequestFacts};
use crate::path_table::{Candidate, PathTable};
use crate::path_test::{PathTest, TestedPath};
use tidegate_model::{PathPolicy, Route};

#[derive(Debug)]
pub struct Routes {
    paths: PathTable,
    /// By rank.
    routes: Box<[CompiledRoute]>,
}

#[derive(Debug)]
struct CompiledRoute {
    /// Any of these; empty fits every path.
    paths: Box<[PathTest]>,
    /// Any of these lines, each with all its conditions; empty adds nothing.
    conditions: Conditions,
}

impl Routes {
    /// Compiles the routes of a site with that policy. Fails only on a regular expression that does not compile, which
    /// `config` refuses before.
    pub fn new(routes: &[Route], policy: PathPolicy) -> Result<Routes, regex::Error> {
        let compiled = |route: &Route| CompiledRoute::new(route, route.options.path_policy.unwrap_or(policy));
        let routes = routes.iter().map(compiled).collect::<Result<Box<[_]>, _>>()?;
        Ok(Routes { paths: PathTable::new(routes.iter().map(|route| &*route.paths)), routes })
    }

    /// The first route in the file that fits.
    pub fn find_route(&self, facts: &RequestFacts<'_>) -> Option<RouteId> {
        self.find_route_behind(facts, None)
    }

    /// As [`find_route`](Self::find_route), of those behind one that leaves the request to them.
    #[inline]
    pub fn find_route_behind(&self, facts: &RequestFacts<'_>, behind: Option<RouteId>) -> Option<RouteId> {
        let path = TestedPath::new(facts.path);
        let found = self.paths.first(facts.path, |Candidate { rank, regex }| {
            let route = &self.routes[rank as usize];
            behind.is_none_or(|before| rank > before.0)
                && regex.is_none_or(|position| route.paths[position as usize].fits(&path))
                && route.conditions.hold(facts)
        });
        found.map(RouteId)
    }

    /// For each route in file order, why it is or is not taken. Tests one by one, so it costs more than
    /// [`find_route`](Self::find_route).
    pub fn explain(&self, facts: &RequestFacts<'_>) -> Vec<Explanation> {
        let mut taken = None;
        let mut explanations = Vec::with_capacity(self.routes.len());
        for (rank, route) in self.routes.iter().enumerate() {
            let id = RouteId(rank as u32);
            let reason = match (route.why_not(facts), taken) {
                (Some(reason), _) => reason,
                (None, Some(earlier)) => Reason::Shadowed { by: earlier },
                (None, None) => {
                    taken = Some(id);
                    Reason::Taken
                }
            };
            explanations.push(Explanation { route: id, reason });
        }
        explanations
    }
}

/// Why a route is or is not the one that a request takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub route: RouteId,
    pub reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    Taken,
    /// The route fits, but an earlier one does too.
    Shadowed {
        by: RouteId,
    },
    /// None of its paths fits.
    Path,
    /// No `match` line holds; for each line the position of its first condition that fails.
    Conditions {
        failed: Vec<usize>,
    },
}

impl CompiledRoute {
    fn new(route: &Route, policy: PathPolicy) -> Result<CompiledRoute, regex::Error> {
        let paths = route.paths.iter().map(|path| PathTest::new(path, policy)).collect::<Result<_, _>>()?;
        Ok(CompiledRoute { paths, conditions: Conditions::new(&route.matches, policy)? })
    }

    fn why_not(&self, facts: &RequestFacts<'_>) -> Option<Reason> {
        let path = TestedPath::new(facts.path);
        if !self.paths.is_empty() && !self.paths.iter().any(|pattern| pattern.fits(&path)) {
            return Some(Reason::Path);
        }
        if self.conditions.hold(facts) {
            return None;
        }
        let first_failed = |line: &[ConditionTest]| line.iter().position(|condition| !condition.holds(facts));
        Some(Reason::Conditions { failed: self.conditions.0.iter().filter_map(|line| first_failed(line)).collect() })
    }
}
