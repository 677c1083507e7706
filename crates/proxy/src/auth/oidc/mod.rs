//! `oidc` on the request path: whether a request's cookies hold a session that is good here is found out without
//! waiting; a refresh, and what the provider is asked at the end of a log-in, are waited for, and done by a thread of
//! `control`. What cookies hold is decided in `access`, which requests may begin a log-in in `middleware`.

mod addresses;
mod begin;
mod check;
mod opened;
mod reply;
mod shared;

pub(crate) use addresses::{answer_address, send_redirect};
pub(crate) use check::{OidcNews, OidcTicket, await_session, check_session};
pub use opened::OpenedSessions;
pub use reply::Owed;
pub use shared::{Errand, FoundProvider, LogInOutcome, LogOutOutcome, OidcShared, ProviderState, RefreshOutcome, SessionState};

use crate::surroundings::Surroundings;
use aws_lc_rs::rand;
use std::time::{SystemTime, UNIX_EPOCH};
use tidegate_exchange::Exchange;
use tidegate_middleware::OidcRefusal;
use tidegate_transport::Sock;

/// In seconds of Unix time, which hosts have in common.
fn now_unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn random<const N: usize>() -> Result<[u8; N], OidcRefusal> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| OidcRefusal::KeysMissing)?;
    Ok(bytes)
}

/// Where the client has asked, as its browser calls it: `https://app.example.com`. A trusted proxy in front says
/// whether it has taken TLS off.
fn origin<S: Sock>(exchange: &Exchange<'_, S>, around: Surroundings<'_, S>) -> Result<String, OidcRefusal> {
    let said = exchange.head.fields.all_named(b"x-forwarded-proto").next().filter(|_| exchange.peer_is_trusted);
    let scheme = match said {
        Some(said) if said.eq_ignore_ascii_case(b"https") => "https",
        Some(_) | None => around.connection.scheme().as_str(),
    };
    let authority = std::str::from_utf8(exchange.head.authority()).map_err(|_| OidcRefusal::BadRequest)?;
    if authority.is_empty() || !authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte)) {
        return Err(OidcRefusal::BadRequest);
    }
    Ok(format!("{scheme}://{authority}"))
}
