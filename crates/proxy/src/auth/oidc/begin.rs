//! The begin of a log-in: what the browser keeps of it, and where it is sent.

use super::check::OidcTicket;
use super::shared::{ProviderState, SessionState};
use super::{origin, random};
use crate::surroundings::Surroundings;
use std::sync::Arc;
use tidegate_access::oidc::{FLOW_LIFE, Flow, Flows, LogInState, Purpose, Realm, form};
use tidegate_exchange::Exchange;
use tidegate_middleware::{CompiledOidc, OidcCookies, OidcRedirect, OidcRefusal, Refusal, cookie_host, is_navigation};
use tidegate_transport::{Sock, rt};

/// Sends somebody who looks at a page to the provider, to come back to `target`; whoever else asks is refused. The
/// answer is always an error: a redirect that stands in the exchange is what becomes of it. Cookies of a session that
/// is over stay: by now the browser may have those of another log-in, which would go with them.
pub(super) fn begin_log_in<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    oidc: &CompiledOidc,
    provider: &Arc<ProviderState>,
    (state, now): (&SessionState, u64),
    target: &str,
    may_wait: bool,
) -> Result<Option<OidcTicket>, Refusal> {
    if !is_navigation(&exchange.head, exchange.hop.upgrade.is_some()) {
        return Err(OidcRefusal::LogInNeeded.into());
    }
    let found = provider.found();
    let Some(found) = &*found else {
        provider.is_wanted(rt::now());
        let shared = &around.connection.worker.process.oidc;
        return if may_wait {
            Ok(Some(OidcTicket::Ready(shared.ready(Some(provider.clone())))))
        } else {
            Err(OidcRefusal::ProviderAway.into())
        };
    };
    let origin = origin(exchange, around)?;
    let flow = Flow { id: random()?, secret: random()?, began: now };
    let log_in = LogInState { id: flow.id, began: now, origin: origin.as_str().into(), target: target.into() };
    let host = cookie_host(&exchange.head).into_owned();
    let realm = oidc.realm(&host);
    let sealed_state = state.keys.seal(Purpose::State, realm, log_in.write(), now, random()?);
    let redirect = redirect_uri(oidc, &origin);
    let scopes = provider.settings.scopes.join(" ");
    let (nonce, challenge) = (flow.nonce(), flow.challenge());
    let own = [
        ("response_type", "code"),
        ("client_id", &provider.settings.client),
        ("redirect_uri", &redirect),
        ("scope", &scopes),
        ("state", &sealed_state),
        ("nonce", &nonce),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    let more = provider.settings.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let location = with_query(&found.metadata.authorization_endpoint, &form(own.into_iter().chain(more)));
    let of_request = exchange.oidc.get_or_insert_default();
    let mut flows = read_flows(&of_request.cookies, (oidc, realm), state, now).unwrap_or_default();
    flows.add(flow);
    of_request.set_cookies.push(write_flows(&flows, (oidc, realm), state, now)?);
    of_request.redirect = Some(OidcRedirect { status: 302, location });
    Err(OidcRefusal::LogInNeeded.into())
}

/// Where the provider sends people back to.
pub(super) fn redirect_uri(oidc: &CompiledOidc, origin: &str) -> String {
    let callback = &oidc.settings.callback;
    if callback.contains("://") { callback.clone() } else { format!("{origin}{callback}") }
}

/// An address with more behind its `?`.
pub(super) fn with_query(address: &str, query: &str) -> String {
    let separator = match address.split_once('?') {
        None => "?",
        Some((_, "")) => "",
        Some(_) => "&",
    };
    format!("{address}{separator}{query}")
}

/// The log-ins that the browser has begun; `None`: it brings no such cookie of ours.
pub(super) fn read_flows(
    cookies: &OidcCookies,
    (oidc, realm): (&CompiledOidc, Realm<'_>),
    state: &SessionState,
    now: u64,
) -> Option<Flows> {
    let read = |sealed| Flows::read(&state.keys.open(Purpose::Flows, realm, sealed)?, now);
    cookies.all(&oidc.names.flows).find_map(read)
}

/// The `Set-Cookie` that keeps them, or removes what there was.
pub(super) fn write_flows(
    flows: &Flows,
    (oidc, realm): (&CompiledOidc, Realm<'_>),
    state: &SessionState,
    now: u64,
) -> Result<String, OidcRefusal> {
    if flows.is_empty() {
        return Ok(oidc.names.remove(&oidc.names.flows));
    }
    let sealed = state.keys.seal(Purpose::Flows, realm, flows.write(), now, random()?);
    Ok(oidc.names.set(&oidc.names.flows, &sealed, Some(FLOW_LIFE.as_secs())))
}

#[cfg(test)]
mod tests {
    use super::with_query;

    #[test]
    fn queries_are_added_to_what_is_there() {
        let check = |address: &str, expected: &str| assert_eq!(with_query(address, "a=b"), expected);
        check("https://idp.example.com/auth", "https://idp.example.com/auth?a=b");
        check("https://idp.example.com/auth?", "https://idp.example.com/auth?a=b");
        check("https://idp.example.com/auth?c=d", "https://idp.example.com/auth?c=d&a=b");
    }
}
