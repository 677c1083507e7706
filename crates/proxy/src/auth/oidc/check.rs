//! Whether a request comes with a session that is good here. Nothing of it waits but for a refresh, for keys that have
//! not been read yet, and for a provider that somebody is to be sent to.

use super::begin::begin_log_in;
use super::opened::OpenedSession;
use super::reply::OwedAnswer;
use super::shared::{ProviderState, Readiness, RefreshOutcome, Refreshing, SessionState};
use super::{now_unix, random};
use crate::surroundings::Surroundings;
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tidegate_access::oidc::{Purpose, Session, return_target};
use tidegate_access::{Identity, LogIn};
use tidegate_exchange::{ClientFault, Exchange, unless_gone};
use tidegate_middleware::{CompiledOidc, OidcRedirect, OidcRefusal, Refusal, cookie_host, is_navigation};
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Sock, rt};

/// How long a request waits for keys or for the provider's word of itself, at most.
pub(super) const READY_MAX: Duration = Duration::from_secs(5);
/// How long it waits for a refresh: as long as the provider has for its answer, and a little.
const REFRESH_MAX: Duration = Duration::from_secs(12);

/// What a request waits for.
pub(crate) enum OidcTicket {
    Ready(Readiness),
    Refresh(OwedAnswer<RefreshOutcome>),
}

/// What has come of it.
pub(crate) enum OidcNews {
    /// Nothing was waited for.
    None,
    /// Keys or a provider's word have come, or will not: it is looked again, and the last time.
    Ready,
    Refreshed(RefreshOutcome),
}

/// Finds out who the client is, where that is known without waiting; otherwise what to wait for.
pub(crate) fn check_session<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    oidc: &CompiledOidc,
    news: OidcNews,
) -> Result<Option<OidcTicket>, Refusal> {
    let providers = around.route.map_or(&[][..], |route| &route.oidc);
    let Some(first) = providers.first() else { return Err(OidcRefusal::KeysMissing.into()) };
    let shared = &around.connection.worker.process.oidc;
    let may_wait = matches!(news, OidcNews::None);
    let state = shared.state();
    let Some(state) = &*state else {
        return if may_wait { Ok(Some(OidcTicket::Ready(shared.ready(None)))) } else { Err(OidcRefusal::KeysMissing.into()) };
    };
    let now = now_unix();
    let mut ways = oidc.ways().zip(providers);
    let found = ways.find_map(|(way, provider)| Some((way, provider, open(exchange, around, way, state, now)?)));
    let Some((way, provider, opened)) = found else {
        let check = SessionCheck { around, oidc, provider: first, state, now };
        return if oidc.has_several() { check.ask_which(exchange) } else { check.without_session(exchange, may_wait) };
    };
    let check = SessionCheck { around, oidc: way, provider, state, now };
    if !opened.session.is_to_be_refreshed(now) {
        return check.admit(exchange, &opened).map(|()| None);
    }
    if check.was_retried(exchange, &opened.session) {
        return check.without_session(exchange, may_wait);
    }
    let outcome = match news {
        OidcNews::Refreshed(outcome) => outcome,
        OidcNews::None | OidcNews::Ready => match shared.refresh(provider, &opened.session, rt::now()) {
            Ok(Refreshing::Known(outcome)) => outcome,
            Ok(Refreshing::Waits(awaited)) => return Ok(Some(OidcTicket::Refresh(awaited))),
            // The session is good still, and the next request may have more luck.
            Err(_) => RefreshOutcome::Away,
        },
    };
    match outcome {
        RefreshOutcome::Away => check.admit(exchange, &opened).map(|()| None),
        RefreshOutcome::Over => check.lost(exchange, &opened.session),
        RefreshOutcome::Renewed(session) => check.adopt(exchange, &session).map(|()| None),
    }
}

/// The session of the request's cookies, unless it is over.
pub(super) fn open<S: Sock>(
    exchange: &Exchange<'_, S>,
    around: Surroundings<'_, S>,
    oidc: &CompiledOidc,
    state: &SessionState,
    now: u64,
) -> Option<Rc<OpenedSession>> {
    let host = cookie_host(&exchange.head);
    let realm = oidc.realm(&host);
    let mut sessions = around.connection.worker.sessions.borrow_mut();
    let opened =
        exchange.oidc.as_ref()?.cookies.sessions(&oidc.names).filter_map(|sealed| sessions.open(&state.keys, realm, sealed));
    opened.into_iter().find(|opened| !opened.session.is_over(now) && !opened.marks.are_in(&state.revoked))
}

/// What a request's session is looked at with.
struct SessionCheck<'c, S: Sock> {
    around: Surroundings<'c, S>,
    oidc: &'c CompiledOidc,
    provider: &'c Arc<ProviderState>,
    state: &'c SessionState,
    now: u64,
}

impl<S: Sock> SessionCheck<'_, S> {
    fn admit(&self, exchange: &mut Exchange<'_, S>, opened: &OpenedSession) -> Result<(), Refusal> {
        let claims = &opened.claims;
        // Also of who is refused, for the log.
        exchange.record.identify(Arc::new(self.identity(opened)));
        if !self.oidc.is_enough(claims) {
            return Err(OidcRefusal::NotEnough.into());
        }
        let mut scratch = self.around.connection.worker.scratch.borrow_mut();
        self.oidc.apply(&mut exchange.head, &opened.session, claims, &mut scratch);
        exchange.record.claims = Some(claims.clone());
        Ok(())
    }

    fn identity(&self, opened: &OpenedSession) -> Identity {
        let settings = &self.oidc.settings;
        // Two sessions of one person may have other tokens, of which the upstream sees all.
        let shows_tokens = settings.access_token.is_some() || settings.id_token.is_some();
        let proof = shows_tokens.then(|| {
            let mut proof = [0; 32];
            proof[..16].copy_from_slice(&opened.session.generation());
            proof[16..].copy_from_slice(&opened.session.id);
            proof
        });
        let issuer = Some(settings.provider.issuer.as_str().into());
        let name = self.oidc.user(&opened.claims, &opened.session);
        Identity { name: name.into(), method: LogIn::Provider, issuer, proof, besides: None }
    }

    /// The session was renewed: the browser gets the new one with the answer, whatever that is.
    fn adopt(&self, exchange: &mut Exchange<'_, S>, session: &Session) -> Result<(), Refusal> {
        let host = cookie_host(&exchange.head).into_owned();
        let realm = self.oidc.realm(&host);
        let sealed = self.state.keys.seal(Purpose::Session, realm, session.write(), self.now, random()?);
        let of_request = exchange.oidc.get_or_insert_default();
        let before = of_request.cookies.chunks(&self.oidc.names);
        let life = session.ends.saturating_sub(self.now);
        let lines = self.oidc.names.set_session(&sealed, before, life).ok_or(OidcRefusal::TooLarge)?;
        of_request.set_cookies.extend(lines);
        let opened = OpenedSession::new(sealed.into_bytes(), realm, session.clone()).ok_or(OidcRefusal::BadAnswer)?;
        self.admit(exchange, &opened)
    }

    /// Nobody has logged in here.
    fn without_session(&self, exchange: &mut Exchange<'_, S>, may_wait: bool) -> Result<Option<OidcTicket>, Refusal> {
        if self.oidc.settings.is_optional {
            self.oidc.tell_nobody(&mut exchange.head);
            return Ok(None);
        }
        let target = return_target(exchange.record.path.of(&exchange.head.fields.bytes), sent_query(exchange));
        begin_log_in(exchange, self.around, self.oidc, self.provider, (self.state, self.now), &target, may_wait)
    }

    /// Nobody has logged in here, and it is not known by which provider somebody would.
    fn ask_which(&self, exchange: &mut Exchange<'_, S>) -> Result<Option<OidcTicket>, Refusal> {
        if self.oidc.settings.is_optional {
            self.oidc.tell_nobody(&mut exchange.head);
            return Ok(None);
        }
        if is_navigation(&exchange.head, exchange.hop.upgrade.is_some()) {
            let target = return_target(exchange.record.path.of(&exchange.head.fields.bytes), sent_query(exchange));
            let location = self.oidc.page_address(&target);
            exchange.oidc.get_or_insert_default().redirect = Some(OidcRedirect { status: 302, location });
        }
        Err(OidcRefusal::LogInNeeded.into())
    }

    /// Whether the browser was asked to come again with a newer session than this one, and has none.
    fn was_retried(&self, exchange: &Exchange<'_, S>, session: &Session) -> bool {
        let Some(of_request) = &exchange.oidc else { return false };
        let mut retried = of_request.cookies.all(&self.oidc.names.retried).peekable();
        // Most requests bring none.
        retried.peek().is_some() && {
            let generation = generation_text(session);
            retried.any(|retried| retried == generation.as_bytes())
        }
    }

    /// The provider takes this session's refresh token no more. Another host may have used it, and the browser have the
    /// newer cookie already: it is asked to come again, once. That it was is remembered by the browser, so that nobody
    /// is sent around.
    fn lost(&self, exchange: &mut Exchange<'_, S>, session: &Session) -> Result<Option<OidcTicket>, Refusal> {
        let target = return_target(exchange.record.path.of(&exchange.head.fields.bytes), sent_query(exchange));
        let is_upgrade = exchange.hop.upgrade.is_some();
        let (names, life) = (&self.oidc.names, session.ends.saturating_sub(self.now));
        let of_request = exchange.oidc.get_or_insert_default();
        of_request.set_cookies.push(names.set(&names.retried, &generation_text(session), Some(life)));
        // No browser follows a redirect with its WebSocket.
        if !is_upgrade {
            of_request.redirect = Some(OidcRedirect { status: 307, location: target.into() });
        }
        Err(OidcRefusal::LogInNeeded.into())
    }
}

fn generation_text(session: &Session) -> String {
    format!("{:032x}", u128::from_be_bytes(session.generation()))
}

/// As the client has sent it.
fn sent_query<'e, S: Sock>(exchange: &'e Exchange<'_, S>) -> Option<&'e [u8]> {
    exchange.record.query.map(|query| query.of(&exchange.head.fields.bytes))
}

/// Waits for what is missing. The error is the client's leaving.
pub(crate) async fn await_session<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    ticket: OidcTicket,
    total: Option<Duration>,
) -> Result<Result<OidcNews, Refusal>, ClientFault> {
    let left = exchange.record.left_of(total);
    // Nobody reads the request's body meanwhile, so nobody else would notice that its client has left.
    let (news, bound) = match ticket {
        OidcTicket::Ready(readiness) => {
            let waiting = rt::timeout(READY_MAX.min(left), readiness);
            let came = unless_gone(&mut exchange.responder, &Cell::new(true), pin!(waiting)).await?;
            (came.map(|()| OidcNews::Ready), READY_MAX)
        }
        OidcTicket::Refresh(awaited) => {
            let waiting = rt::timeout(REFRESH_MAX.min(left), awaited);
            let came = unless_gone(&mut exchange.responder, &Cell::new(true), pin!(waiting)).await?;
            (came.map(|outcome| OidcNews::Refreshed(outcome.unwrap_or(RefreshOutcome::Away))), REFRESH_MAX)
        }
    };
    Ok(match news {
        None if left <= bound => Err(Refusal::from(UpstreamError::TotalTimeout)),
        // The request goes on with the session that there is.
        None if bound == REFRESH_MAX => Ok(OidcNews::Refreshed(RefreshOutcome::Away)),
        None => Ok(OidcNews::Ready),
        Some(news) => Ok(news),
    })
}
