//! A way of `auth any` that is looked at here, as if it stood alone. Which way is tried when, and what becomes of one
//! that asks a provider or another server, is in `request::ways`.

use super::{Awaited, Patience, check_key, log_in, verify_token};
use crate::surroundings::Surroundings;
use tidegate_exchange::Exchange;
use tidegate_middleware::{Refusal, Way};
use tidegate_transport::Sock;

/// Tries one that asks nobody. `None`: the client is in; otherwise what to wait for before it is known.
pub(crate) fn try_near_way<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    way: &Way,
) -> Result<Option<Awaited>, Refusal> {
    let refusal = match way {
        Way::BasicAuth(auth) => return Ok(log_in(exchange, around, auth)?.map(Awaited::Password)),
        Way::Jwt(jwt) => return Ok(verify_token(exchange, around, jwt, Patience::Fresh)?.map(Awaited::Keys)),
        Way::ApiKey(auth) => return check_key(exchange, around, auth).map(|()| None),
        Way::ClientAuth => Refusal::NoClientCertificate,
        Way::Access(_) | Way::Oidc(_) | Way::ForwardAuth(_) => Refusal::Denied,
    };
    let context = around.context(exchange);
    if way.lets_through(&exchange.head, &context) == Some(true) { Ok(None) } else { Err(refusal) }
}
