//! Requests that a CA refuses for their nonce alone (RFC 8555 section 6.5) have done nothing, and are repeated with
//! another one. The library repeats each twice; under load, and behind CAs of several hosts, that is not enough.

use crate::cause::Said;
use instant_acme::Error;

/// With three requests each, not even one nonce in three that is good gets here.
const TRIES_MAX: u32 = 6;

/// For requests that do the same when they arrive twice: a connection that breaks is no reason to give up what the CA
/// is in the middle of.
pub async fn repeat_safe<T>(mut call: impl AsyncFnMut() -> Result<T, Error>) -> Result<T, Error> {
    match repeat(&mut call).await {
        Err(Error::Other(_)) => repeat(call).await,
        other => other,
    }
}

pub async fn repeat<T>(mut call: impl AsyncFnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 1..TRIES_MAX {
        match call().await {
            Err(Error::Api(problem)) if Said::from(&problem).kind == "badNonce" => {}
            other => return other,
        }
    }
    call().await
}
