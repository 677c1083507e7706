//! `jwt` on the request path: whether a token is one that its issuer has signed is known from before, or verified here,
//! in the time of a few system calls. Where keys are missing the request waits for those on their way; its worker does
//! not. What a token is, is decided in `access`; where it stands and what it becomes, in `middleware::jwt`.

use super::keys::{IssuerKeys, KeysTicket, Lack};
use crate::connection::Connection;
use crate::surroundings::Surroundings;
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tidegate_access::{Claims, Identity, Jws, KeySet, LogIn, TokenFault, VerifiedTokens};
use tidegate_exchange::{ClientFault, Exchange, unless_gone};
use tidegate_middleware::{CompiledJwt, Refusal, TokenRefusal};
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Sock, rt};

/// How long a request waits for keys, at most.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Whether a request may wait for keys, or has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    Fresh,
    Spent,
}

/// A token that a key of its issuer has signed, and that holds now.
pub(crate) struct Verified {
    pub claims: Rc<Claims>,
    digest: [u8; 32],
}

/// Why a token is not known to be one.
pub(crate) enum Unverified {
    Refused(Refusal),
    /// Keys are on their way that may tell.
    Waits(KeysTicket),
}

impl From<TokenRefusal> for Unverified {
    fn from(refusal: TokenRefusal) -> Unverified {
        Unverified::Refused(refusal.into())
    }
}

/// Whom the client's token names, where that is known without waiting; otherwise what to wait for.
pub(crate) fn verify_token<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    jwt: &CompiledJwt,
    patience: Patience,
) -> Result<Option<KeysTicket>, Refusal> {
    let issuers = around.route.map_or(&[][..], |route| &route.issuers);
    let Verified { claims, digest } = match verified_claims(exchange, around.connection, (jwt, issuers), patience) {
        Ok(Some(verified)) => verified,
        Ok(None) if jwt.settings.is_optional => return Ok(None),
        Ok(None) => return Err(TokenRefusal::Missing.into()),
        Err(Unverified::Waits(ticket)) => return Ok(Some(ticket)),
        Err(Unverified::Refused(refusal)) => return Err(refusal),
    };
    if !jwt.is_enough(&claims) {
        return Err(TokenRefusal::NotEnough.into());
    }
    exchange.record.identify(Arc::new(identity(jwt, &claims, digest)));
    jwt.apply(&mut exchange.head, &claims, &mut around.connection.worker.scratch.borrow_mut());
    exchange.record.claims = Some(claims);
    Ok(None)
}

/// What the token of a request claims. `None`: it has none.
pub(crate) fn verified_claims<S: Sock>(
    exchange: &Exchange<'_, S>,
    connection: &Connection<S>,
    (jwt, issuers): (&CompiledJwt, &[Arc<IssuerKeys>]),
    patience: Patience,
) -> Result<Option<Verified>, Unverified> {
    let token = match jwt.token(&exchange.head) {
        Ok(Some(token)) => token,
        Ok(None) => return Ok(None),
        Err(_) => return Err(TokenRefusal::Unclear.into()),
    };
    let digest = VerifiedTokens::digest(token);
    let found = find(&mut connection.worker.tokens.borrow_mut(), jwt, issuers, token, &digest);
    let (claims, issuer) = match found {
        Ok(found) => found,
        Err(Missing { lack, issuer, refusal }) => {
            let ticket = match patience {
                Patience::Fresh => issuers[issuer].wait_for(lack, rt::now()),
                Patience::Spent => None,
            };
            return Err(ticket.map_or(Unverified::Refused(refusal), Unverified::Waits));
        }
    };
    let claims = claims.map_err(TokenRefusal::Refused)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    claims.check(&jwt.expectation(issuer), now).map_err(TokenRefusal::Refused)?;
    Ok(Some(Verified { claims, digest }))
}

/// Nothing can be said of a token for the lack of keys.
struct Missing {
    lack: Lack,
    issuer: usize,
    /// What comes of it where none are on their way.
    refusal: Refusal,
}

type TokenFound = (Result<Rc<Claims>, TokenFault>, usize);

/// The claims of a token that a key of its issuer has signed, and which issuer that is.
fn find(
    tokens: &mut VerifiedTokens,
    jwt: &CompiledJwt,
    issuers: &[Arc<IssuerKeys>],
    token: &[u8],
    digest: &[u8; 32],
) -> Result<TokenFound, Missing> {
    for (position, issuer) in issuers.iter().enumerate() {
        let current = issuer.current();
        let Some(keys) = &*current else { continue };
        if let Some(claims) = tokens.get(digest, &keys.digest)
            && is_of(jwt, position, claims.claim("iss").and_then(tidegate_access::Value::text).as_deref())
        {
            return Ok((Ok(claims), position));
        }
    }
    let jws = match Jws::parse(token, jwt.settings.token_bytes_max) {
        Ok(jws) => jws,
        Err(fault) => return Ok((Err(fault), 0)),
    };
    let said = if issuers.len() > 1 { jws.issuer_said() } else { None };
    let position = (0..issuers.len()).find(|position| issuers.len() == 1 || is_of(jwt, *position, said.as_deref()));
    let Some(position) = position else { return Ok((Err(TokenFault::Issuer), 0)) };
    drop(said);
    let current = issuers[position].current();
    let Some(keys) = &*current else {
        return Err(Missing { lack: Lack::Keys, issuer: position, refusal: TokenRefusal::KeysMissing.into() });
    };
    match verified(jws, keys) {
        Ok(claims) => {
            tokens.add(*digest, keys.digest, claims.clone());
            Ok((Ok(claims), position))
        }
        Err(fault @ TokenFault::UnknownKey) => {
            Err(Missing { lack: Lack::ThisKey, issuer: position, refusal: TokenRefusal::Refused(fault).into() })
        }
        Err(fault) => Ok((Err(fault), position)),
    }
}

/// Whether a token of this `iss` is one for the issuer at that position.
fn is_of(jwt: &CompiledJwt, position: usize, said: Option<&str>) -> bool {
    match &jwt.settings.issuers[position].issuer {
        Some(issuer) => said == Some(issuer),
        None => true,
    }
}

fn verified(jws: Jws<'_>, keys: &KeySet) -> Result<Rc<Claims>, TokenFault> {
    jws.verify(keys)?;
    jws.into_claims().map(Rc::new)
}

/// Who a token says that its bearer is. With several issuers each has its own Alice, and `{auth.user}` says whose:
/// none of them has a `|` in its name. Whoever is not named, or not in a way that goes into a header field, is known by
/// the token.
fn identity(jwt: &CompiledJwt, claims: &Claims, digest: [u8; 32]) -> Identity {
    let issuer = claims.claim("iss").and_then(tidegate_access::Value::text);
    let mut said = Vec::new();
    claims.write(&jwt.settings.user, &mut said);
    let name = match (std::str::from_utf8(&said), &issuer) {
        (Ok(said), Some(issuer)) if Identity::is_name(said) && jwt.settings.issuers.len() > 1 => format!("{issuer}|{said}"),
        (Ok(said), _) if Identity::is_name(said) => said.to_owned(),
        (Ok(_) | Err(_), _) => {
            format!("token:{:032x}", u128::from_be_bytes(digest[..16].try_into().expect("a digest is longer")))
        }
    };
    Identity {
        name: name.into(),
        method: LogIn::Token,
        issuer: issuer.map(Into::into),
        // Two tokens of one user may say different things, of which fields tell some and the token all.
        proof: jwt.settings.forwards.then_some(digest),
        besides: None,
    }
}

/// Waits until keys have come, or will not. The error is the client's leaving.
pub(crate) async fn await_keys<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    ticket: KeysTicket,
    total: Option<Duration>,
) -> Result<Result<(), Refusal>, ClientFault> {
    let left = exchange.record.left_of(total);
    let waiting = rt::timeout(WAIT_MAX.min(left), ticket);
    // Nobody reads the request's body meanwhile, so nobody else would notice that its client has left.
    let came = unless_gone(&mut exchange.responder, &Cell::new(true), pin!(waiting)).await?;
    Ok(if came.is_none() && left <= WAIT_MAX { Err(Refusal::from(UpstreamError::TotalTimeout)) } else { Ok(()) })
}
