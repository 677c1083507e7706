//! All steps of a route, compiled, and the two loops that apply them: to the request before it is sent on or answered, to the response
//! before the client gets it. A new step is a variant here, a folder beside this file, and what the compiler then asks for.

use crate::body_limit::BodyLimit;
use crate::compile_error::CompileError;
use crate::context::{Context, Scratch};
use crate::header::CompiledHeaderChanges;
use crate::redirect::Redirect;
use crate::respond::Respond;
use crate::rewrite::{AddPrefix, Rewrite, RewriteError, StripPrefix};
use tidegate_model::{PoolName, Step, Terminal};
use tidegate_wire::head::{RequestHead, ResponseHead};

#[derive(Debug)]
pub enum CompiledStep {
    RequestHeader(CompiledHeaderChanges),
    ResponseHeader(CompiledHeaderChanges),
    Rewrite(Rewrite),
    StripPrefix(StripPrefix),
    AddPrefix(AddPrefix),
    BodyLimit(BodyLimit),
}

#[derive(Debug)]
pub enum CompiledTerminal {
    Respond(Respond),
    Redirect(Redirect),
    Proxy { pool: PoolName },
}

/// The steps of a route in the order in which they run: its site's, then its own.
pub fn compile_steps(site_steps: &[Step], route_steps: &[Step]) -> Result<Box<[CompiledStep]>, CompileError> {
    site_steps.iter().chain(route_steps).map(CompiledStep::compile).collect()
}

/// Applies the steps that change the request, in order, and says how much body it may have.
pub fn apply_request(
    steps: &[CompiledStep],
    head: &mut RequestHead,
    context: &Context<'_>,
    scratch: &mut Scratch,
) -> Result<Option<BodyLimit>, RewriteError> {
    let mut body_limit = None;
    for step in steps {
        match step {
            CompiledStep::RequestHeader(changes) => changes.apply_to_request(head, context, scratch),
            CompiledStep::ResponseHeader(_) => {}
            CompiledStep::Rewrite(rewrite) => rewrite.apply(head, context, scratch)?,
            CompiledStep::StripPrefix(strip_prefix) => strip_prefix.apply(head),
            CompiledStep::AddPrefix(add_prefix) => add_prefix.apply(head)?,
            CompiledStep::BodyLimit(limit) => body_limit = Some(*limit),
        }
    }
    Ok(body_limit)
}

/// Applies the steps that change the response, in order. `request` is as the request's steps left it.
pub fn apply_response(
    steps: &[CompiledStep],
    response: &mut ResponseHead,
    request: &RequestHead,
    context: &Context<'_>,
    scratch: &mut Scratch,
) {
    for step in steps {
        match step {
            CompiledStep::ResponseHeader(changes) => changes.apply_to_response(response, request, context, scratch),
            CompiledStep::RequestHeader(_)
            | CompiledStep::Rewrite(_)
            | CompiledStep::StripPrefix(_)
            | CompiledStep::AddPrefix(_)
            | CompiledStep::BodyLimit(_) => {}
        }
    }
}

impl CompiledStep {
    pub fn compile(step: &Step) -> Result<CompiledStep, CompileError> {
        Ok(match step {
            Step::RequestHeader(changes) => CompiledStep::RequestHeader(CompiledHeaderChanges::for_request(changes)?),
            Step::ResponseHeader(changes) => CompiledStep::ResponseHeader(CompiledHeaderChanges::for_response(changes)?),
            Step::Rewrite { pattern, to } => CompiledStep::Rewrite(Rewrite::new(pattern.as_deref(), to)?),
            Step::StripPrefix(prefix) => CompiledStep::StripPrefix(StripPrefix::new(prefix)?),
            Step::AddPrefix(prefix) => CompiledStep::AddPrefix(AddPrefix::new(prefix)?),
            Step::BodyLimit { bytes_max } => CompiledStep::BodyLimit(BodyLimit { bytes_max: *bytes_max }),
        })
    }
}

impl CompiledTerminal {
    pub fn compile(terminal: &Terminal) -> CompiledTerminal {
        match terminal {
            Terminal::Respond { status, body, content_type } => {
                CompiledTerminal::Respond(Respond::new(*status, body, content_type.as_deref()))
            }
            Terminal::Redirect { to, status } => CompiledTerminal::Redirect(Redirect::new(to, *status)),
            Terminal::Proxy { pool } => CompiledTerminal::Proxy { pool: pool.clone() },
        }
    }
}
