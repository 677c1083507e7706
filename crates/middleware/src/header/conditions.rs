//! When a `header` line does something: by the status and type of the answer, and by the request, with the conditions
//! of `match`.

use crate::compile_error::CompileError;
use crate::context::Context;
use crate::media_type::TypePatterns;
use tidegate_model::{HeaderConditions, PathPolicy, StatusRange};
use tidegate_routing::Conditions;
use tidegate_wire::head::{HeaderId, RequestHead, ResponseHead};

#[derive(Debug)]
pub(super) struct CompiledConditions {
    /// Any of these; empty is any status.
    statuses: Box<[StatusRange]>,
    /// Any of these; empty is any type, and none.
    types: TypePatterns,
    request: Conditions,
}

impl CompiledConditions {
    /// Whether the statuses are named for which it is.
    pub fn names_statuses(&self) -> bool {
        !self.statuses.is_empty()
    }

    /// `None`: always.
    pub fn new(conditions: &HeaderConditions, policy: PathPolicy) -> Result<Option<Box<CompiledConditions>>, CompileError> {
        if *conditions == HeaderConditions::default() {
            return Ok(None);
        }
        let HeaderConditions { statuses, types, matches } = conditions;
        let request = Conditions::new(matches, policy)?;
        Ok(Some(Box::new(CompiledConditions { statuses: statuses.as_slice().into(), types: TypePatterns::new(types), request })))
    }

    /// The request's path and query are those by which the route was found; its fields are as the steps before have
    /// left them.
    pub fn hold(&self, request: &RequestHead, context: &Context<'_>, response: Option<&ResponseHead>) -> bool {
        if let Some(response) = response {
            let status_fits = self.statuses.is_empty() || self.statuses.iter().any(|range| range.contains(response.status));
            let type_fits = self.types.is_empty() || self.types.fit(response.fields.get(HeaderId::ContentType));
            if !status_fits || !type_fits {
                return false;
            }
        }
        self.request.hold(&context.facts(request))
    }
}
