//! `auth any` on the request path: one way after the other, until one lets the client in. What each of them finds out is
//! found out as if it stood alone.

use super::{Awaited, Patience, check_key, log_in, verify_token};
use crate::surroundings::{Surroundings, context};
use tidegate_exchange::Exchange;
use tidegate_middleware::auth_any::lets_through;
use tidegate_middleware::{CompiledAuthAny, CompiledStep, Refusal, WaysRefused};
use tidegate_transport::Sock;

/// How far a request has got with the ways.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WaysTried {
    /// The one to begin with.
    next: usize,
    pub refused: WaysRefused,
}

/// Tries those that are left. `None`: the client is in; otherwise what to wait for before it is known.
pub(crate) fn try_ways<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    any: &CompiledAuthAny,
    tried: &mut WaysTried,
) -> Result<Option<Awaited>, Refusal> {
    while let Some(way) = any.ways.get(tried.next) {
        tried.next += 1;
        match try_way(exchange, around, way) {
            Ok(None) => {
                any.remove_keys(&mut exchange.head);
                return Ok(None);
            }
            Ok(waits) => return Ok(waits),
            Err(refusal) => tried.refused.note(refusal, &exchange.head),
        }
    }
    Err(tried.refused.refusal())
}

fn try_way<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    way: &CompiledStep,
) -> Result<Option<Awaited>, Refusal> {
    match way {
        CompiledStep::BasicAuth(auth) => Ok(log_in(exchange, around, auth)?.map(Awaited::Password)),
        CompiledStep::Jwt(jwt) => Ok(verify_token(exchange, around, jwt, Patience::Fresh)?.map(Awaited::Keys)),
        CompiledStep::ApiKey(auth) => check_key(exchange, around, auth).map(|()| None),
        CompiledStep::Access(_) | CompiledStep::ClientAuth => {
            let context = context(around.connection, around.pool, &exchange.record, exchange.client_ip);
            let is_let_in = lets_through(way, &exchange.head, &context) == Some(true);
            let refusal = if matches!(way, CompiledStep::Access(_)) { Refusal::Denied } else { Refusal::NoClientCertificate };
            if is_let_in { Ok(None) } else { Err(refusal) }
        }
        // None of these lets anybody in; `config` takes no such way.
        CompiledStep::RequestHeader(_)
        | CompiledStep::ResponseHeader(_)
        | CompiledStep::Rewrite(_)
        | CompiledStep::StripPrefix(_)
        | CompiledStep::AddPrefix(_)
        | CompiledStep::BodyLimit(_)
        | CompiledStep::Preflight
        | CompiledStep::Cors(_)
        | CompiledStep::Csrf(_)
        | CompiledStep::AuthAny(_)
        | CompiledStep::RateLimit(_)
        | CompiledStep::ConcurrencyLimit(_) => Err(Refusal::Denied),
    }
}
