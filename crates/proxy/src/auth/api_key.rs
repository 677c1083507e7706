//! `api-key` on the request path: whose key a request has is looked up by its hash, in about a microsecond. Which keys
//! there are is known to `passwords`; where a key stands and what becomes of it, to `middleware::api_key`.

use super::{Asker, held_up};
use crate::surroundings::Surroundings;
use std::time::{SystemTime, UNIX_EPOCH};
use tidegate_exchange::Exchange;
use tidegate_middleware::{ApiKeyRefusal, CompiledApiKey, Refusal};
use tidegate_transport::{Sock, rt};

/// Lets in who has a key, by its name; what is sent on has it no more.
pub(crate) fn check_key<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    auth: &CompiledApiKey,
) -> Result<(), Refusal> {
    let worker = &around.connection.worker;
    let asker =
        Asker { client: exchange.client_ip, place: around.route.map_or("", |route| &route.site), failures: auth.failures };
    let keys = around.route.and_then(|route| route.api_keys.as_ref()).map(|keys| keys.current());
    let found = auth.see_key(&exchange.head, |key| {
        let key = key.ok_or(ApiKeyRefusal::Missing)?;
        match keys.as_ref().and_then(|keys| keys.find(key)) {
            Some(found) if found.has_ended(unix_now) => Err(ApiKeyRefusal::Expired.into()),
            Some(found) => Ok(found.user.clone()),
            // A right one is never held up: nobody guesses one, and nobody is kept out by an address that others share.
            None => {
                worker.process.verifier.note_wrong(key, asker, rt::now()).map_err(held_up)?;
                Err(Refusal::from(ApiKeyRefusal::Unknown))
            }
        }
    });
    let user = found.unwrap_or_else(|_| Err(ApiKeyRefusal::Unclear.into()))?;
    auth.remove_keys(&mut exchange.head);
    auth.tell_name(&mut exchange.head, &user.name);
    exchange.record.identify(user);
    Ok(())
}

fn unix_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
