//! What stands in front of every log-in: who is let in by address, and who asks too often. An address that is answered
//! in front of all routes, such as one of a log-in, is not answered in front of these.

use crate::context::{Context, Scratch};
use crate::limited::Limited;
use crate::refusal::Refusal;
use crate::step::CompiledStep;
use tidegate_wire::head::RequestHead;

/// Whether a request comes as far as a log-in. `steps` are those of its site, in the order in which they run: the first
/// that asks who somebody is, or that changes the request, ends it.
pub fn apply_admission(
    steps: &[CompiledStep],
    head: &RequestHead,
    context: &Context<'_>,
    scratch: &mut Scratch,
    limited: &mut Limited,
) -> Result<(), Refusal> {
    for step in steps {
        match step {
            CompiledStep::Access(access) if !access.lets_through(head, context) => return Err(Refusal::Denied),
            CompiledStep::Csrf(csrf) if !csrf.lets_through(head) => return Err(Refusal::CrossOrigin),
            CompiledStep::RateLimit(limit) if !limit.lets_through(head, context, scratch, limited) => {
                return Err(Refusal::RateLimited { status: limit.status });
            }
            CompiledStep::ConcurrencyLimit(limit) if !limit.lets_through(head, context, scratch, limited) => {
                return Err(Refusal::ConcurrencyLimited { status: limit.status });
            }
            CompiledStep::Access(_)
            | CompiledStep::Csrf(_)
            | CompiledStep::RateLimit(_)
            | CompiledStep::ConcurrencyLimit(_)
            | CompiledStep::Preflight => {}
            CompiledStep::RequestHeader(_)
            | CompiledStep::ResponseHeader(_)
            | CompiledStep::Rewrite(_)
            | CompiledStep::StripPrefix(_)
            | CompiledStep::AddPrefix(_)
            | CompiledStep::BodyLimit(_)
            | CompiledStep::Cors(_)
            | CompiledStep::BasicAuth(_)
            | CompiledStep::Jwt(_)
            | CompiledStep::Oidc(_)
            | CompiledStep::ForwardAuth(_)
            | CompiledStep::ApiKey(_)
            | CompiledStep::AuthAny(_)
            | CompiledStep::ClientAuth => return Ok(()),
        }
    }
    Ok(())
}
