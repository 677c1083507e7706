//! A question on its way, of `forward-auth` or for the page of an error: to a server of its pool as any request, with
//! another one where the first fails, and with what a pool learns of its servers by that. The answer is read to its
//! end here, since it decides before anything else happens. What is asked and what an answer means is in `middleware`
//! (`forward_auth`, `error_page`); who waits for it is `request`, or `error_page`.

use super::body::reader_of;
use super::choose::wait_in_queue;
use super::{client_of, note_fault, opener};
use crate::connection::Connection;
use crate::failure::upstream_body_fault;
use crate::surroundings::{context, key_hash};
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_balancing::Draw;
use tidegate_exchange::{Pooled, Record};
use tidegate_model::{Retry, RouteRetry};
use tidegate_telemetry::{UpstreamError, UpstreamTime};
use tidegate_transport::memory::BoundedShare;
use tidegate_transport::{Sock, rt};
use tidegate_upstream::attempt::{Begun, Whole, begin};
use tidegate_upstream::awaited::wait_for_server;
use tidegate_upstream::call::{AnswerBody, Call, HeadKind, Keeping, SendFault};
use tidegate_upstream::choose::{Choice, NoChoice, choose_at, own_server};
use tidegate_upstream::connect::{Need, Upgrade};
use tidegate_upstream::errand::{Errand, Failed};
use tidegate_upstream::fault::{Progress, UpstreamFault};
use tidegate_upstream::pool::WorkerPool;
use tidegate_upstream::retry::{Terms, Tries, has_another, retry_after};
use tidegate_upstream::verdict::Attempt;
use tidegate_wire::head::{Fields, RequestHead, ResponseHead};
use tidegate_wire::{BodyFraming, HeadLimits};

/// What of an answer's body is in no account below this: most are a line.
const UNTOLD_BYTES: usize = 4 << 10;

/// How a question is asked, and what is read of its answer.
#[derive(Clone, Copy)]
pub(crate) struct QuestionTerms<'a> {
    pub retry: &'a RouteRetry,
    /// A call of gRPC, which changes nothing whatever its method.
    pub is_grpc: bool,
    /// How long the body of an answer may be.
    pub answer_bytes_max: u64,
    /// Whether bodies of good answers are kept as well.
    pub keeps_good: bool,
}

/// A question, and what surrounds the request that it is about.
pub(crate) struct Asking<'a, S: Sock> {
    pub connection: &'a Connection<S>,
    pub record: &'a Record,
    pub client_ip: IpAddr,
    pub terms: QuestionTerms<'a>,
    pub head_limits: HeadLimits,
    pub question: &'a RequestHead,
    pub body: &'a [u8],
    /// Whether a server has said something that may be a no: with the first byte of an answer, until its head says
    /// otherwise or, of a good one, all of it is there. Clients may have a hand in what cannot be read.
    pub is_refused: Cell<bool>,
    /// By when the attempt has to have an answer; then another server is asked.
    pub try_until: Option<Instant>,
}

/// What the server has said.
pub(crate) enum Told {
    Answer(WholeAnswer),
    /// An answer that is longer than answers may be.
    TooLong,
}

/// An answer that is all there.
pub(crate) struct WholeAnswer {
    pub head: Pooled<ResponseHead>,
    /// Empty where the request goes on by it.
    pub body: Vec<u8>,
    /// How a call of gRPC ended, where it was one.
    pub trailers: Option<Box<Fields>>,
    /// What that takes.
    pub share: BoundedShare,
}

/// A body, what stands behind it, and what both take.
type BodyRead = (Vec<u8>, Option<Box<Fields>>, BoundedShare);

impl<S: Sock> Asking<'_, S> {
    fn choose_at(&self, pool: &WorkerPool<S>, tried: &[usize]) -> Result<Choice, NoChoice> {
        let key_hash = if pool.compiled.hash.is_none() {
            0
        } else {
            let context = context(self.connection, None::<&WorkerPool<S>>, self.record, self.client_ip, None);
            key_hash(pool, &context, self.question)
        };
        let draw = Draw { key_hash, random: self.connection.worker.random(), now: rt::now(), tried };
        choose_at(pool, own_server(pool, self.question), draw)
    }

    /// A call of `ext_authz` changes nothing, whatever its method.
    fn is_repeatable(&self) -> bool {
        self.terms.is_grpc || self.question.method.is_idempotent()
    }

    fn since_start(&self) -> Duration {
        self.connection.worker.process.since_start(rt::now())
    }

    fn retry<'p>(&'p self, pool: &'p WorkerPool<S>) -> Option<&'p Retry> {
        pool.compiled.retry(self.terms.retry)
    }

    /// What may end an attempt early, for another server's: its time, and a status.
    fn early_ends(&self, pool: &WorkerPool<S>, tries: &Tries) -> (Option<Instant>, bool) {
        let Some(retry) = self.retry(pool) else { return (None, false) };
        let ends_early = !retry.on.statuses.is_empty() || retry.try_timeout.is_some();
        let has_another = ends_early
            && self.is_repeatable()
            && tries.retries() < usize::from(retry.attempts)
            && has_another(pool, tries.tried());
        (retry.try_timeout.filter(|_| has_another).map(|limit| rt::now() + limit), has_another)
    }

    /// Reads the answer to its end, and gives its connection back where that is safe.
    async fn read(&self, attempt: &Attempt<S>, begun: Begun<S>, may_leave_status: bool) -> Result<Told, UpstreamFault> {
        let Begun { call, sent_at, took: _ } = begun;
        let was_refused = self.is_refused.replace(true);
        let outcome = self.read_answer(attempt, &call, (sent_at, was_refused), may_leave_status).await;
        if let Some(stream) = call.stream() {
            self.connection.account_upstream_bytes(stream);
        }
        match outcome {
            Ok((told, keeping)) => {
                call.give_back(&attempt.pool().servers[attempt.position()], keeping);
                Ok(told)
            }
            Err(fault) => {
                call.note_fault(fault);
                Err(fault)
            }
        }
    }

    async fn read_answer(
        &self,
        attempt: &Attempt<S>,
        call: &Call<S>,
        (sent_at, was_refused): (Instant, bool),
        may_leave_status: bool,
    ) -> Result<(Told, Keeping), UpstreamFault> {
        let pool = attempt.pool();
        let mut head: Pooled<ResponseHead> = Pooled::take();
        while call.read_head(&self.head_limits, &mut head).await? == HeadKind::Interim {}
        let waited = sent_at.elapsed();
        pool.metrics.record(UpstreamTime::FirstByte, waited);
        let rest = if head.status == 503 { retry_after(head.fields.all_named(b"retry-after").next()) } else { None };
        attempt.answered(head.status, waited, rest);
        if (500..600).contains(&head.status) {
            self.is_refused.set(was_refused);
        }
        // A switch of protocols was not asked for.
        if head.status == 101 {
            return Err(UpstreamFault::new(UpstreamError::BadResponse, Progress::Answering));
        }
        let answer = call.answer(&head, self.question.method, pool.compiled.model.timeouts.idle, &self.head_limits)?;
        if may_leave_status && self.leaves_status(pool, head.status) {
            return Err(UpstreamFault::new(UpstreamError::BadStatus, Progress::Sent));
        }
        let is_declared_long = match answer.framing {
            BodyFraming::Length(bytes) => bytes > self.terms.answer_bytes_max,
            BodyFraming::None | BodyFraming::Chunked | BodyFraming::UntilClose => false,
        };
        let body = if is_declared_long { None } else { self.read_body(answer.body, head.status).await? };
        if body.is_some() && (200..300).contains(&head.status) {
            self.is_refused.set(was_refused);
        }
        Ok(match body {
            Some((body, trailers, share)) => (Told::Answer(WholeAnswer { head, body, trailers, share }), answer.keeping),
            None => (Told::TooLong, answer.keeping.only_if(false)),
        })
    }

    fn leaves_status(&self, pool: &WorkerPool<S>, status: u16) -> bool {
        let Some(retry) = self.retry(pool) else { return false };
        retry.on.statuses.contains(&status) && pool.take_from_budget(retry.budget_percent, self.since_start())
    }

    /// `None`: longer than answers may be. Of a good answer nothing is kept, and all of it is read, so that one that
    /// breaks off lets nobody through.
    async fn read_body(&self, body: AnswerBody<'_, S>, status: u16) -> Result<Option<BodyRead>, UpstreamFault> {
        let is_kept = self.terms.keeps_good || !(200..300).contains(&status);
        let (mut kept, mut share, mut bytes) = (Vec::new(), BoundedShare::collected(), 0);
        let mut body = reader_of(body);
        while !body.is_finished() {
            let piece = body.read().await.map_err(|fault| {
                let fault = upstream_body_fault(&fault).fault();
                fault.unwrap_or_else(|| UpstreamFault::new(UpstreamError::BodyCut, Progress::Answering))
            })?;
            let Some(piece) = piece else { break };
            bytes += piece.len() as u64;
            if bytes > self.terms.answer_bytes_max {
                return Ok(None);
            }
            if is_kept {
                kept.extend_from_slice(&piece);
                if kept.capacity() > UNTOLD_BYTES && !share.try_set(kept.capacity()) {
                    return Err(UpstreamFault::new(UpstreamError::Overloaded, Progress::Answering));
                }
            }
        }
        Ok(Some((kept, body.take_trailers(), share)))
    }
}

impl<S: Sock> Errand<S> for Asking<'_, S> {
    type Done = Told;
    type Failure = UpstreamFault;

    fn choose(&self, pool: &WorkerPool<S>, tried: &[usize]) -> Result<Choice, NoChoice> {
        // A permit that somebody in the queue was called to is theirs.
        if pool.compiled.counts_requests && pool.compiled.shared.queue.is_called() {
            return Err(NoChoice::Full);
        }
        self.choose_at(pool, tried)
    }

    async fn wait(&mut self, pool: &mut Rc<WorkerPool<S>>, tried: &[usize]) -> Result<Choice, UpstreamFault> {
        let choose = |pool: &WorkerPool<S>| self.choose_at(pool, tried);
        wait_in_queue(&self.connection.worker, pool, tried, choose, &Cell::new(None)).await
    }

    async fn wait_for_server(&mut self, pool: &mut Rc<WorkerPool<S>>, until: Instant) -> Result<bool, UpstreamFault> {
        let waited = wait_for_server(pool, until, self.since_start()).await;
        if let Some(newer) = self.connection.worker.newer_pool(pool) {
            *pool = newer;
        }
        Ok(waited)
    }

    fn newer(&self, pool: &Rc<WorkerPool<S>>) -> Option<Rc<WorkerPool<S>>> {
        self.connection.worker.newer_pool(pool)
    }

    async fn attempt(&mut self, attempt: Attempt<S>, tries: &mut Tries) -> Result<Told, Failed<UpstreamFault>> {
        let pool = attempt.pool();
        let (try_until, may_leave_status) = self.early_ends(pool, tries);
        self.try_until = try_until;
        let model = &pool.compiled.model;
        let need = Need {
            certain: !self.is_repeatable(),
            upgrade: Upgrade::None,
            prefers_h2: self.terms.is_grpc,
            fresh: tries.needs_fresh(attempt.position()),
            connect: tries.connect_within(model.timeouts.connect),
            head_limits: self.head_limits,
            client: model.send_proxy_protocol.map(|_| client_of(self.connection, self.client_ip)),
        };
        let whole = Whole {
            head: self.question,
            body: self.body,
            is_chunked: false,
            wants_trailers: self.terms.is_grpc,
            script: None,
            need,
            heard: Some(&self.is_refused),
            opener: &|| opener(self.connection, self.record, pool),
            timeouts: model.timeouts,
        };
        let outcome = match begin(pool, attempt.position(), &whole, try_until).await {
            Ok(begun) => {
                let was = begun.call.was();
                self.read(&attempt, begun, may_leave_status).await.map_err(|fault| (fault, was))
            }
            Err((SendFault::Upstream(fault), was)) => {
                // Heads over HTTP/2 are read before anybody sees them.
                self.is_refused.set(self.is_refused.get() || fault.progress == Progress::Answering);
                Err((fault, was))
            }
            // Only a body that is chunked has no form.
            Err((SendFault::Unsendable(_), was)) => Err((UpstreamFault::unsent(UpstreamError::RequestHeadTooLarge), was)),
        };
        outcome.map_err(|(failure, was)| {
            note_fault(self.connection, self.record, &attempt, (failure, was));
            Failed { failure, was, position: attempt.position(), permit: attempt.into_permit() }
        })
    }

    fn random(&self) -> u64 {
        self.connection.worker.random()
    }

    fn terms<'t>(&'t self, pool: &'t WorkerPool<S>) -> Terms<'t> {
        Terms {
            retry: self.retry(pool),
            is_idempotent: self.is_repeatable(),
            is_whole: true,
            try_until: self.try_until,
            since_start: self.since_start(),
        }
    }

    fn fault(failure: &UpstreamFault) -> Option<UpstreamFault> {
        Some(*failure)
    }
}
