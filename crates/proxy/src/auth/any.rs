//! `auth any` on the request path: one way after the other, until one lets the client in. Each finds out what it does
//! as if it stood alone.

use super::{Awaited, Patience, check_key, log_in, verify_token};
use crate::surroundings::Surroundings;
use tidegate_exchange::Exchange;
use tidegate_middleware::{CompiledAuthAny, Refusal, Way, WaysRefused};
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

fn try_way<S: Sock>(exchange: &mut Exchange<'_, S>, around: Surroundings<'_, S>, way: &Way) -> Result<Option<Awaited>, Refusal> {
    let refusal = match way {
        Way::BasicAuth(auth) => return Ok(log_in(exchange, around, auth)?.map(Awaited::Password)),
        Way::Jwt(jwt) => return Ok(verify_token(exchange, around, jwt, Patience::Fresh)?.map(Awaited::Keys)),
        Way::ApiKey(auth) => return check_key(exchange, around, auth).map(|()| None),
        Way::Access(_) => Refusal::Denied,
        Way::ClientAuth => Refusal::NoClientCertificate,
    };
    let context = around.context(exchange);
    if way.lets_through(&exchange.head, &context) == Some(true) { Ok(None) } else { Err(refusal) }
}
