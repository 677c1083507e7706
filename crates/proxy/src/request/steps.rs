//! A request's way through the steps of its route, and its answer's: where a step has to be waited for, where one
//! refuses. What each step does is in `middleware`; the flow around this is in `request`.

use super::Request;
use super::asked::{AuthOutcome, AuthRefusal};
use super::ways::{Standing, WaysTried};
use crate::answering::answer_refusal_with;
use crate::auth::oidc::{OidcNews, OidcTicket, answer_address, await_session, send_redirect};
use crate::auth::{Awaited, Patience, Unverified, await_keys, await_log_in, check_key, log_in, verified_claims, verify_token};
use crate::failure::Failure;
use crate::snapshot::{CompiledRoute, LogInsOfSite};
use crate::surroundings::context;
use crate::worker_snapshot::WorkerSite;
use tidegate_exchange::{ClientFault, Pooled};
use tidegate_middleware::errors::begin_answer;
use tidegate_middleware::{
    After, CompiledAuthAny, CompiledStep, Context, DryRun, Halt, Limited, OidcAddress, OidcOfRequest, Refusal, Scratch, Walk,
    apply_admission, apply_request, compiled_jwt_of, compiled_oidc_of, log_in_challenges,
};
use tidegate_transport::Sock;
use tidegate_wire::head::RequestHead;

/// How far a request got with its steps.
pub(super) enum Ran {
    Through,
    /// The request only asks what another might do, and is answered here.
    Preflight,
    /// A step waits for something.
    Stands(Box<Standing>),
}

/// What has come of waiting.
enum StepWait {
    Over(Result<(), Refusal>),
    /// There is something else to wait for.
    Again(Awaited),
    /// The auth server does not let the client in.
    Answer(Box<AuthRefusal>),
}

impl<S: Sock> Request<'_, '_, S> {
    /// Applies what changes the request from where it has got, and settles how much body it may have.
    pub(super) fn run_request_steps(&mut self, route: &CompiledRoute, mut walk: Walk) -> Result<Ran, Refusal> {
        if route.steps.is_empty() {
            return Ok(Ran::Through);
        }
        loop {
            let halt = self.with_limits(route, |head, context, scratch, limited| {
                apply_request(&route.steps, &mut walk, head, context, scratch, limited)
            });
            match halt? {
                Halt::Done(after) => return self.settle_body(after),
                Halt::Authenticate(auth) => {
                    if let Some(ticket) = {
                        let (exchange, around) = self.parts();
                        log_in(exchange, around, auth)?
                    } {
                        return Ok(Ran::Stands(Box::new(Standing { walk, awaited: Awaited::Password(ticket), tried: None })));
                    }
                }
                Halt::Verify(jwt) => {
                    let (exchange, around) = self.parts();
                    if let Some(ticket) = verify_token(exchange, around, jwt, Patience::Fresh)? {
                        return Ok(Ran::Stands(Box::new(Standing { walk, awaited: Awaited::Keys(ticket), tried: None })));
                    }
                }
                Halt::LogIn(oidc) => {
                    if let Some(ticket) = self.check_session(oidc, OidcNews::None, true)? {
                        return Ok(Ran::Stands(Box::new(Standing { walk, awaited: Awaited::Session(ticket), tried: None })));
                    }
                }
                Halt::Ask(auth) => {
                    if !self.recall(route, auth) {
                        return Ok(Ran::Stands(Box::new(Standing { walk, awaited: Awaited::Answer, tried: None })));
                    }
                }
                Halt::CheckKey(auth) => {
                    let (exchange, around) = self.parts();
                    check_key(exchange, around, auth)?;
                }
                Halt::AnyOf(any) => {
                    let mut tried = self.begin_ways();
                    if let Some(awaited) = self.try_ways(route, any, &mut walk, &mut tried)? {
                        return Ok(Ran::Stands(Box::new(Standing { walk, awaited, tried: Some(tried) })));
                    }
                }
            }
        }
    }

    /// Applies what the arm of a split has of its own, behind all steps of its route.
    pub(super) fn run_steps_of_arm(&mut self, route: &CompiledRoute, steps: &[CompiledStep]) -> Result<(), Refusal> {
        let mut walk = Walk::behind(route.steps.len());
        self.with_limits(route, |head, context, scratch, limited| {
            apply_request(steps, &mut walk, head, context, scratch, limited).map(|_| ())
        })
    }

    /// Applies steps of a route with all that they know and leave behind.
    #[inline]
    fn with_limits<R>(
        &mut self,
        route: &CompiledRoute,
        apply: impl FnOnce(&mut RequestHead, &Context<'_>, &mut Scratch, &mut Limited) -> R,
    ) -> R {
        let context = context(
            self.connection,
            self.way.pool.as_deref(),
            &self.exchange.record,
            self.exchange.client_ip,
            self.exchange.hop.upgrade,
        );
        let mut scratch = self.connection.worker.scratch.borrow_mut();
        let mut without_limits = Limited::default();
        let limited =
            if route.has_limits { &mut **self.exchange.limited.get_or_insert_with(Pooled::take) } else { &mut without_limits };
        let applied = apply(&mut self.exchange.head, &context, &mut scratch, limited);
        drop(scratch);
        let dry_run = std::mem::take(&mut limited.dry_run);
        if dry_run != DryRun::default() {
            self.connection.note_dry_run(dry_run, self.exchange.client_ip, &mut self.exchange.record);
        }
        applied
    }

    /// What the token says, by the `jwt` of the site, for the conditions of its routes. Nothing is refused here: a
    /// request without a good token takes the route that wants none of it.
    pub(super) async fn find_claims(&mut self, site: &WorkerSite) -> Result<(), ClientFault> {
        let of_site = &site.compiled.without_route;
        let Some(jwt) = compiled_jwt_of(&of_site.steps) else { return Ok(()) };
        for patience in [Patience::Fresh, Patience::Spent] {
            let found = verified_claims(self.exchange, self.connection, (jwt, &of_site.issuers), patience);
            match found {
                Ok(found) => {
                    self.exchange.record.claims = found.map(|found| found.claims);
                    return Ok(());
                }
                // A refusal is the step's to say.
                Err(Unverified::Waits(ticket)) => {
                    if await_keys(self.exchange, ticket, of_site.timeouts.total).await?.is_err() {
                        return Ok(());
                    }
                }
                Err(Unverified::Refused(_)) => return Ok(()),
            }
        }
        Ok(())
    }

    fn settle_body(&mut self, after: After) -> Result<Ran, Refusal> {
        if let Some(limit) = after.body_limit {
            let declared = self.exchange.framing.declared_length();
            self.exchange.body_allowance = Some(limit.check_declared(declared).map_err(|_| Refusal::BodyTooLarge)?);
        }
        self.exchange.record.had_authorization = after.had_authorization;
        Ok(if after.is_preflight { Ran::Preflight } else { Ran::Through })
    }

    /// Waits for what a step waits for, and runs those behind it. False: the request was answered meanwhile.
    pub(super) async fn go_on(&mut self, route: &CompiledRoute, standing: Standing) -> Result<bool, Failure> {
        let mut standing = standing;
        loop {
            let Standing { mut walk, awaited, mut tried } = standing;
            let waited = self.wait_for_step(route, awaited, tried.as_ref()).await?;
            let ran = match (waited, any_of(route).zip(tried.as_mut())) {
                (StepWait::Again(awaited), _) => {
                    standing = Standing { walk, awaited, tried };
                    continue;
                }
                (StepWait::Over(Ok(())), any) => {
                    if let Some((any, ways)) = any {
                        self.let_in(any, &mut walk, ways);
                        tried = None;
                    }
                    self.run_request_steps(route, walk)
                }
                (StepWait::Answer(answer), None) => return self.pass_refusal(&answer).await.map(|()| false),
                // What was read of the body is gone, and nobody else may have it.
                (StepWait::Over(Err(refusal @ (Refusal::AuthBodyTooLarge | Refusal::BodyNotKept))), _) => Err(refusal),
                (StepWait::Over(Err(refusal)), None) => Err(refusal),
                (waited, Some((any, ways))) => {
                    match waited {
                        StepWait::Answer(answer) => ways.hold(answer),
                        StepWait::Over(Err(refusal)) => self.note_refused(ways, refusal),
                        StepWait::Over(Ok(())) | StepWait::Again(_) => {}
                    }
                    self.try_ways_left(route, any, walk, &mut tried)
                }
            };
            match ran {
                Ok(Ran::Through) => return Ok(true),
                Ok(Ran::Preflight) => return self.answer_preflight().await.map(|()| false),
                Ok(Ran::Stands(next)) => standing = *next,
                Err(refusal) => return self.answer_ways_refusal(route, refusal, tried).await.map(|()| false),
            }
        }
    }

    /// Tries the ways that are left, and runs the steps behind them where one lets the client in.
    fn try_ways_left(
        &mut self,
        route: &CompiledRoute,
        any: &CompiledAuthAny,
        mut walk: Walk,
        tried: &mut Option<WaysTried>,
    ) -> Result<Ran, Refusal> {
        let Some(ways) = tried else { return Err(Refusal::Denied) };
        match self.try_ways(route, any, &mut walk, ways)? {
            Some(awaited) => Ok(Ran::Stands(Box::new(Standing { walk, awaited, tried: tried.take() }))),
            None => {
                *tried = None;
                self.run_request_steps(route, walk)
            }
        }
    }

    async fn wait_for_step(
        &mut self,
        route: &CompiledRoute,
        awaited: Awaited,
        tried: Option<&WaysTried>,
    ) -> Result<StepWait, Failure> {
        let total = route.timeouts.total;
        Ok(StepWait::Over(match awaited {
            Awaited::Password(ticket) => await_log_in(self.exchange, ticket, total).await?,
            Awaited::Keys(ticket) => match await_keys(self.exchange, ticket, total).await? {
                Ok(()) => self.verify_again(route),
                Err(refusal) => Err(refusal),
            },
            Awaited::Session(ticket) => match await_session(self.exchange, ticket, total).await? {
                Ok(news) => match self.check_again(route, news, tried) {
                    Ok(Some(ticket)) => return Ok(StepWait::Again(Awaited::Session(ticket))),
                    Ok(None) => Ok(()),
                    Err(refusal) => Err(refusal),
                },
                Err(refusal) => Err(refusal),
            },
            Awaited::Answer => match Box::pin(self.ask_auth_server(route)).await? {
                AuthOutcome::GoesOn => Ok(()),
                AuthOutcome::Answer(answer) => return Ok(StepWait::Answer(answer)),
                AuthOutcome::Refused(refusal) => Err(refusal),
            },
        }))
    }

    /// A token whose keys were waited for, with those that are there now.
    fn verify_again(&mut self, route: &CompiledRoute) -> Result<(), Refusal> {
        let Some(jwt) = compiled_jwt_of(&route.steps) else { return Ok(()) };
        let (exchange, around) = self.parts();
        verify_token(exchange, around, jwt, Patience::Spent).map(|_| ())
    }

    /// On a site with log-ins: takes their cookies out of the request. Some: it is for an address of theirs.
    #[cold]
    pub(super) fn meet_log_ins(&mut self, log_ins: &LogInsOfSite) -> Option<OidcAddress> {
        let cookies = log_ins.steps.take_cookies(&mut self.exchange.head.fields);
        self.exchange.oidc = Some(Box::new(OidcOfRequest { cookies, ..OidcOfRequest::default() }));
        log_ins.steps.address(self.exchange.head.path())
    }

    /// Answers in front of all routes, and behind what stands in front of every log-in: who is refused by address, or
    /// asks too often, sends no provider questions.
    pub(super) async fn answer_log_in_address(&mut self, address: OidcAddress) -> Result<(), Failure> {
        // Of a site without log-ins no address is one of theirs.
        let Some(site) = self.site.clone() else { return self.answer_refusal(Refusal::NoRoute).await };
        let Some(log_ins) = &site.compiled.log_ins else { return self.answer_refusal(Refusal::NoRoute).await };
        let of_site = &site.compiled.without_route;
        let admitted = self.with_limits(of_site, |head, context, scratch, limited| {
            apply_admission(&of_site.steps, head, context, scratch, limited)
        });
        if let Err(refusal) = admitted {
            return self.answer_refusal(refusal).await;
        }
        let (exchange, around) = self.parts();
        answer_address(exchange, around, (&log_ins.steps, &log_ins.providers), address).await
    }

    /// A session, with what was waited for. A refresh may follow on keys that had not been read.
    fn check_again(
        &mut self,
        route: &CompiledRoute,
        news: OidcNews,
        tried: Option<&WaysTried>,
    ) -> Result<Option<OidcTicket>, Refusal> {
        let Some(oidc) = compiled_oidc_of(&route.steps) else { return Ok(None) };
        let may_begin = tried.zip(any_of(route)).is_none_or(|(tried, any)| tried.is_at_end(any));
        self.check_session(oidc, news, may_begin)
    }

    /// As [`answer_step_refusal`](Self::answer_step_refusal), also of one of several ways: who is sent to a provider
    /// hears nothing of the others, and what an auth server says comes before what is said here.
    async fn answer_ways_refusal(
        &mut self,
        route: &CompiledRoute,
        refusal: Refusal,
        tried: Option<WaysTried>,
    ) -> Result<(), Failure> {
        let is_redirected = self.exchange.oidc.as_ref().is_some_and(|of_request| of_request.redirect.is_some());
        match tried.and_then(WaysTried::into_answer) {
            Some(answer) if !is_redirected => self.pass_refusal(&answer).await,
            Some(_) | None => self.answer_step_refusal(route, refusal).await,
        }
    }

    /// A refusal by a step, with the fields that belong to it, or what takes its place.
    pub(super) async fn answer_step_refusal(&mut self, route: &CompiledRoute, refusal: Refusal) -> Result<(), Failure> {
        let redirect = self.exchange.oidc.as_mut().and_then(|of_request| of_request.redirect.take());
        if let Some(redirect) = redirect {
            let (exchange, around) = self.parts();
            return send_redirect(exchange, around, &redirect).await;
        }
        // RFC 9110 section 15.5.2.
        let challenges = log_in_challenges(&route.steps, refusal).into_iter();
        let challenges: Vec<_> = challenges.map(|challenge| ("www-authenticate", challenge)).collect();
        let (exchange, around) = self.parts();
        answer_refusal_with(exchange, around, refusal, &challenges).await
    }

    /// A browser asks what another request might do: `cors` says it in the head.
    pub(super) async fn answer_preflight(&mut self) -> Result<(), Failure> {
        begin_answer(204, &mut self.exchange.response);
        self.exchange.record.status = 204;
        let (exchange, around) = self.parts();
        around.run_response_steps(exchange);
        around.send_whole(exchange, b"").await
    }
}

fn any_of(route: &CompiledRoute) -> Option<&CompiledAuthAny> {
    route.steps.iter().find_map(|step| match step {
        CompiledStep::AuthAny(any) => Some(&**any),
        _ => None,
    })
}
