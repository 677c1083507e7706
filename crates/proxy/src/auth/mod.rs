//! Who a client is, on the request path. `basic-auth`: whether a client's name and password are right is known from
//! before, or is asked of threads that have the time to find out. The request waits meanwhile, its worker does not.
//! What clients send is read in `middleware::basic_auth`, what fits is decided in `passwords`. `jwt` is in `token`,
//! `api-key` in `api_key`, `oidc` in a folder of its own, a way of several in `any`, and what servers of `forward-auth`
//! have allowed in `allowed`.

mod allowed;
mod any;
mod api_key;
mod keys;
pub mod oidc;
mod token;
mod user_list;
mod verifier;

pub(crate) use allowed::digest;
pub use allowed::{Allowed, AllowedRequests};
pub(crate) use any::try_near_way;
pub(crate) use api_key::check_key;
pub(crate) use keys::KeysTicket;
pub use keys::{IssuerKeys, KeyFileFault, KeySets, KeysState, Lack, read_keys};
use oidc::OidcTicket;
pub(crate) use token::{Patience, Unverified, await_keys, verified_claims, verify_token};
pub use user_list::{
    ApiKeyFiles, ApiKeyList, ListFault, STRONGER_HASHES, UserFiles, UserList, read_api_keys, read_users, weak_hashes_said,
};
pub use verifier::{Asker, PasswordVerdict, Ticket, Verification, Verifier};

use crate::surroundings::Surroundings;
use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;
use tidegate_exchange::{ClientFault, Exchange, Pooled, unless_gone};
use tidegate_middleware::{CompiledBasicAuth, Refusal, credentials};
use tidegate_passwords::PASSWORD_BYTES_MAX;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Sock, rt};
use zeroize::Zeroize;

/// How long a request waits for its password to be verified, at most. With all places taken and hashes as costly as
/// they may be it would be longer.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// What a request waits for that stands still at a step.
pub(crate) enum Awaited {
    Password(Ticket),
    Keys(KeysTicket),
    Session(OidcTicket),
    /// What another server says.
    Answer,
}

/// Who the client is, when that is known without waiting; otherwise what to wait for.
pub(crate) fn log_in<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    auth: &CompiledBasicAuth,
) -> Result<Option<Ticket>, Refusal> {
    let Some((users, route)) = around.route.and_then(|route| Some((route.users.as_ref()?, route))) else {
        return Err(Refusal::NotAuthenticated);
    };
    let mut decoded: Pooled<Vec<u8>> = Pooled::take();
    let asked = match credentials(&exchange.head, &mut decoded) {
        Some(said) if said.password.len() <= PASSWORD_BYTES_MAX => {
            let verifier = &around.connection.worker.process.verifier;
            let asker = Asker { client: exchange.client_ip, place: &route.site, failures: auth.failures };
            verifier.ask(&users.current(), (said.name, said.password), asker, rt::now())
        }
        _ => Verification::Answered(None),
    };
    decoded.zeroize();
    match asked {
        Verification::Answered(Some(user)) => {
            exchange.record.identify(user);
            Ok(None)
        }
        Verification::Answered(None) => Err(Refusal::NotAuthenticated),
        Verification::Waits(ticket) => Ok(Some(ticket)),
        Verification::Busy => Err(Refusal::PasswordsBusy),
        Verification::HeldUp(wait) => Err(held_up(wait)),
    }
}

/// Refused without a word of what was sent.
fn held_up(wait: Duration) -> Refusal {
    Refusal::LogInsFailed { wait_seconds: u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX) }
}

/// Waits until it is known whether the password fits. The error is the client's leaving.
pub(crate) async fn await_log_in<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    ticket: Ticket,
    total: Option<Duration>,
) -> Result<Result<(), Refusal>, ClientFault> {
    let user = ticket.user();
    let left = exchange.record.left_of(total);
    // Nobody reads the request's body meanwhile, so nobody else would notice that its client has left.
    let waiting = rt::timeout(WAIT_MAX.min(left), ticket);
    let outcome = unless_gone(&mut exchange.responder, &Cell::new(true), pin!(waiting)).await?;
    Ok(match (outcome, user) {
        (Some(PasswordVerdict::Fits), Some(user)) => {
            exchange.record.identify(user);
            Ok(())
        }
        (Some(PasswordVerdict::Fits | PasswordVerdict::DoesNotFit), _) => Err(Refusal::NotAuthenticated),
        (None, _) if left <= WAIT_MAX => Err(Refusal::from(UpstreamError::TotalTimeout)),
        (Some(PasswordVerdict::NotVerified) | None, _) => Err(Refusal::PasswordsBusy),
    })
}
