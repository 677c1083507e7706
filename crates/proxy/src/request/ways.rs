//! `auth any` on the request path: one way after the other, until one lets the client in. Those that are looked at here
//! come first, a session of `oidc` behind them, and the server of a `forward-auth` last; only where nobody lets the
//! client in, and it looks at a page, it is sent to the provider. What each finds out is in `auth` and `asked`.

use super::Request;
use super::asked::AuthRefusal;
use crate::auth::oidc::{OidcNews, OidcTicket, check_session};
use crate::auth::{Awaited, try_near_way};
use crate::snapshot::CompiledRoute;
use std::sync::Arc;
use tidegate_access::Identity;
use tidegate_middleware::{CompiledAuthAny, CompiledOidc, Refusal, Walk, Way, WaysRefused};
use tidegate_transport::Sock;

/// A request that stands still at a step.
pub(super) struct Standing {
    pub walk: Walk,
    pub awaited: Awaited,
    /// Of an `auth any`: what else there is when this one does not let the client in.
    pub tried: Option<WaysTried>,
}

/// How far a request has got with the ways.
#[derive(Default)]
pub(super) struct WaysTried {
    /// How many have been begun with. Behind the last one a log-in is begun, if one may be.
    begun: usize,
    /// The one that is being tried is tried once more at the end, and what it says then counts: keys of sessions, say,
    /// may have come meanwhile.
    comes_again: bool,
    refused: WaysRefused,
    /// Who the client was before any of them.
    before: Option<Arc<Identity>>,
    /// Who it is to the one whose refusal is the answer, for the log.
    of_refusal: Option<Arc<Identity>>,
    /// What the auth server says to who is not let in.
    answer: Option<Box<AuthRefusal>>,
}

impl WaysTried {
    /// The way that is tried next, and its position.
    fn next<'a>(&mut self, any: &'a CompiledAuthAny) -> Option<(usize, &'a Way)> {
        let position = self.begun;
        let found = match any.ways.get(position) {
            Some(way) => (position, way),
            // A session was looked for before the auth server was asked, and nobody was sent to log in for it.
            None if position == any.ways.len() && any.forward_auth().is_some() => position_of_oidc(any)?,
            None => return None,
        };
        self.begun += 1;
        self.comes_again = matches!(found.1, Way::Oidc(_)) && !self.is_at_end(any);
        Some(found)
    }

    /// The position of the way that is being tried.
    fn current(&self, any: &CompiledAuthAny) -> usize {
        let last = self.begun.saturating_sub(1);
        if last < any.ways.len() { last } else { position_of_oidc(any).map_or(last, |(position, _)| position) }
    }

    /// Whether somebody may be sent to the provider, or wait for it: nobody else is asked any more.
    pub fn is_at_end(&self, any: &CompiledAuthAny) -> bool {
        any.forward_auth().is_none() || self.begun > any.ways.len()
    }

    /// The auth server does not let the client in.
    pub fn hold(&mut self, answer: Box<AuthRefusal>) {
        self.answer = Some(answer);
    }

    /// The auth server's answer, where that is what the client gets: more is not known to be wrong.
    pub fn into_answer(self) -> Option<Box<AuthRefusal>> {
        self.answer.filter(|_| !self.refused.is_unknown())
    }
}

fn position_of_oidc(any: &CompiledAuthAny) -> Option<(usize, &Way)> {
    any.ways.iter().enumerate().find(|(_, way)| matches!(way, Way::Oidc(_)))
}

impl<S: Sock> Request<'_, '_, S> {
    /// Begins with the first way.
    pub(super) fn begin_ways(&self) -> WaysTried {
        WaysTried { before: self.exchange.record.identity().cloned(), ..WaysTried::default() }
    }

    /// Lets the client in by any of the ways that are left (`None`), or says what to wait for first.
    pub(super) fn try_ways(
        &mut self,
        route: &CompiledRoute,
        any: &CompiledAuthAny,
        walk: &mut Walk,
        tried: &mut WaysTried,
    ) -> Result<Option<Awaited>, Refusal> {
        while let Some((position, way)) = tried.next(any) {
            let outcome = match way {
                Way::ForwardAuth(auth) if self.recall(route, auth) => Ok(None),
                Way::ForwardAuth(_) => Ok(Some(Awaited::Answer)),
                Way::Oidc(oidc) => {
                    let is_at_end = tried.is_at_end(any);
                    // Elsewhere nothing is waited for that a session does not need.
                    let news = if is_at_end { OidcNews::None } else { OidcNews::Ready };
                    self.check_session(oidc, news, is_at_end).map(|waits| waits.map(Awaited::Session))
                }
                Way::Access(_) | Way::ClientAuth | Way::BasicAuth(_) | Way::Jwt(_) | Way::ApiKey(_) => {
                    let (exchange, around) = self.parts();
                    try_near_way(exchange, around, way)
                }
            };
            match outcome {
                Ok(None) => {
                    walk.let_in(any, position, &mut self.exchange.head);
                    return Ok(None);
                }
                Ok(waits) => return Ok(waits),
                Err(refusal) => self.note_refused(tried, refusal),
            }
        }
        drop(self.exchange.record.take_back(tried.of_refusal.take()));
        Err(tried.refused.refusal())
    }

    /// The way that was waited for lets the client in.
    pub(super) fn let_in(&mut self, any: &CompiledAuthAny, walk: &mut Walk, tried: &WaysTried) {
        walk.let_in(any, tried.current(any), &mut self.exchange.head);
    }

    /// A way does not let the client in, which is nobody by it from then on.
    pub(super) fn note_refused(&mut self, tried: &mut WaysTried, refusal: Refusal) {
        let said = self.exchange.record.take_back(tried.before.clone());
        if !tried.comes_again && tried.refused.note(refusal, &self.exchange.head) {
            tried.of_refusal = said;
        }
    }

    /// Looks whether there is a session. A log-in that was begun is taken back where it is too early for one: the
    /// browser keeps nothing of it.
    pub(super) fn check_session(
        &mut self,
        oidc: &CompiledOidc,
        news: OidcNews,
        may_begin: bool,
    ) -> Result<Option<OidcTicket>, Refusal> {
        let cookies = |request: &Self| request.exchange.oidc.as_ref().map_or(0, |of_request| of_request.set_cookies.len());
        let before = cookies(self);
        let (exchange, around) = self.parts();
        let found = check_session(exchange, around, oidc, news);
        if found.is_err()
            && !may_begin
            && let Some(of_request) = &mut self.exchange.oidc
            && of_request.redirect.take().is_some()
        {
            of_request.set_cookies.truncate(before);
        }
        found
    }
}
