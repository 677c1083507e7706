//! What is remembered of a request for its log line and its counters. Filled in along its life, written once at its
//! end.

use std::num::{NonZeroU16, NonZeroU32};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_access::{Claims, Identity};
use tidegate_middleware::{Refusal, RequestId};
use tidegate_model::Protocol;
use tidegate_transport::rt;
use tidegate_wire::head::Span;

pub struct Record {
    pub started: Instant,
    /// When the last byte was passed on, where that was looked at anyway.
    pub ended: Option<Instant>,
    /// In two halves, since a number of its length would have everything aligned to it.
    request_id: [u64; 2],
    /// The identifier that a trusted proxy has given, where it is none of ours in form.
    pub given_id: Option<Box<str>>,
    pub status: u16,
    /// Of a request to a route with a `split`, once it has taken an arm.
    pub arm: Option<ArmId>,
    /// Boxed: most requests have none.
    why: Option<Box<Why>>,
    /// The answer is an error of the proxy itself.
    pub is_refused: bool,
    pub upstream: Option<UpstreamRecord>,
    pub retries: u32,
    /// In queues for a server, all attempts together.
    pub queued_us: u32,
    /// What the cache did, in one word.
    pub cache: Option<&'static str>,
    pub request_bytes: u64,
    /// As the client sent them; steps may change the head's own.
    pub path: Span,
    pub query: Option<Span>,
    /// As others are told it: servers that are asked about the request, upstreams, the cache. Without keys that are not
    /// for them.
    pub told_query: Option<Span>,
    /// As the route was found by it, before its steps.
    pub matched_path: Span,
    /// Who has logged in. Written by [`identify`](Self::identify) alone, so that nobody forgets who was there before,
    /// and taken back by [`take_back`](Self::take_back).
    identity: Option<Arc<Identity>>,
    /// The client has sent an `Authorization` that is not for the upstream, and that nobody may have looked at.
    pub had_authorization: bool,
    /// What the token says that was verified.
    pub claims: Option<Rc<Claims>>,
    /// Of a request that a `forward-auth` has asked about. Boxed: most have none.
    pub asked: Option<Box<AskedRecord>>,
}

/// Which arm of its route's `split` a request has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArmId(NonZeroU16);

impl ArmId {
    /// The arm at a position in the order written. `None` for a position that no split has.
    pub fn at(position: usize) -> Option<ArmId> {
        u16::try_from(position + 1).ok().and_then(NonZeroU16::new).map(ArmId)
    }

    pub fn position(self) -> usize {
        usize::from(self.0.get()) - 1
    }
}

/// What a `forward-auth` has been told.
#[derive(Debug, Default)]
pub struct AskedRecord {
    /// As the auth server said it; none where no answer came, or one is remembered.
    pub status: Option<u16>,
    /// All attempts together.
    pub took_us: Option<u32>,
    /// What the client gets with its answer, each as a `Set-Cookie` has it.
    pub cookies: Vec<Box<[u8]>>,
}

/// Why a request did not get what it asked for.
struct Why {
    reason: &'static str,
    setting: Option<&'static str>,
    /// Of a refusal: something is wrong here or behind.
    is_failure: bool,
}

pub struct UpstreamRecord {
    /// Position in the pool.
    pub server: u32,
    pub reused: bool,
    /// What is spoken on the connection, once there is one.
    pub protocol: Option<Protocol>,
    /// Of a connection that was opened for the request. In microseconds, as all of these: they are part of each
    /// request's future.
    pub connect_us: Option<NonZeroU32>,
    pub tls_us: Option<NonZeroU32>,
    pub answer: Option<AnswerTimes>,
}

impl UpstreamRecord {
    /// From the first byte of the answer to its end, which is so long after the request's begin.
    pub fn body_us(&self, ended_us: u64) -> Option<u64> {
        let answer = self.answer?;
        Some(ended_us.saturating_sub(u64::from(answer.sent_us) + u64::from(answer.first_byte_us)))
    }

    /// From the begin of its connection, or of the request on a kept one, to the end of the answer, which is so long
    /// after the request's begin. `None`: no answer began.
    pub fn whole(&self, ended: Duration) -> Option<Duration> {
        let sent = Duration::from_micros(self.answer?.sent_us.into());
        let opening = [self.connect_us, self.tls_us].into_iter().flatten().map(|us| u64::from(us.get())).sum();
        Some(ended.saturating_sub(sent) + Duration::from_micros(opening))
    }
}

/// When an answer began.
#[derive(Debug, Clone, Copy)]
pub struct AnswerTimes {
    /// As the server said it; the client may get another one.
    pub status: u16,
    /// From the end of the request's head to when the server had all of the request that was there.
    pub sent_us: u32,
    /// From then to the answer's first byte.
    pub first_byte_us: u32,
}

/// Microseconds, up to an hour and more.
pub fn short_us(duration: Duration) -> u32 {
    let us = duration.as_secs().saturating_mul(1_000_000).saturating_add(duration.subsec_micros().into());
    u32::try_from(us).unwrap_or(u32::MAX)
}

/// As [`short_us`]; what took no time took the least that can be said.
fn some_us(duration: Duration) -> NonZeroU32 {
    NonZeroU32::new(short_us(duration)).unwrap_or(NonZeroU32::MIN)
}

impl Record {
    pub fn new(started: Instant, request_id: RequestId, path: Span, query: Option<Span>) -> Record {
        Record {
            started,
            ended: None,
            request_id: halves(request_id),
            given_id: None,
            status: 0,
            why: None,
            is_refused: false,
            arm: None,
            upstream: None,
            retries: 0,
            queued_us: 0,
            cache: None,
            request_bytes: 0,
            path,
            query,
            told_query: query,
            matched_path: path,
            identity: None,
            had_authorization: false,
            claims: None,
            asked: None,
        }
    }

    /// Somebody has logged in: every step that finds out who a client is says so here, and logs, limits, the cache and
    /// upstreams go by it.
    pub fn identify(&mut self, identity: Arc<Identity>) {
        self.identity = Some(match self.identity.take() {
            None => identity,
            before @ Some(_) => Arc::new(Identity { besides: before, ..Identity::clone(&identity) }),
        });
    }

    /// Takes back who was found out, by a step that does not let the client in after all, and says who that was. Who it
    /// was `before` is who it is.
    pub fn take_back(&mut self, before: Option<Arc<Identity>>) -> Option<Arc<Identity>> {
        std::mem::replace(&mut self.identity, before)
    }

    pub fn identity(&self) -> Option<&Arc<Identity>> {
        self.identity.as_ref()
    }

    /// The name of who has logged in, as `{auth.user}` is.
    pub fn user(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| &*identity.name)
    }

    /// The identifier that a trusted proxy has given takes the place of our own.
    pub fn set_request_id(&mut self, id: RequestId) {
        self.request_id = halves(id);
    }

    pub fn request_id(&self) -> RequestId {
        let [high, low] = self.request_id;
        RequestId(u128::from(high) << 64 | u128::from(low))
    }

    /// Of the time that the request may take as a whole; without a bound, more than anything takes.
    pub fn left_of(&self, total: Option<Duration>) -> Duration {
        total.map_or(Duration::MAX, |total| (self.started + total).saturating_duration_since(rt::now()))
    }

    pub fn refused(&mut self, refusal: Refusal) {
        self.status = refusal.status();
        let why = Why { reason: refusal.reason(), setting: refusal.setting(), is_failure: refusal.is_failure() };
        self.why = Some(Box::new(why));
        self.is_refused = true;
    }

    /// The request fails for this reason, by this setting where one decides.
    pub fn fail(&mut self, reason: &'static str, setting: Option<&'static str>) {
        self.why = Some(Box::new(Why { reason, setting, is_failure: false }));
    }

    /// As [`fail`](Self::fail), where the setting stays that was named before.
    pub fn end_as(&mut self, reason: &'static str) {
        self.fail(reason, self.setting());
    }

    /// Why it failed.
    pub fn reason(&self) -> Option<&'static str> {
        self.why.as_ref().map(|why| why.reason)
    }

    /// Whether the answer, with a status from 500 on, says that something is wrong here or behind: an upstream's own,
    /// or a refusal that no other request would have spared. What routes answer so is meant, and what a client has
    /// provoked is the client's.
    pub fn is_failure(&self) -> bool {
        let of_upstream = |upstream: &UpstreamRecord| upstream.answer.is_some_and(|answer| answer.status >= 500);
        match &self.why {
            Some(why) if self.is_refused => why.is_failure,
            Some(_) | None => self.upstream.as_ref().is_some_and(of_upstream),
        }
    }

    /// The setting that has decided so.
    pub fn setting(&self) -> Option<&'static str> {
        self.why.as_ref()?.setting
    }

    /// What would have refused the request and is only tried out. A refusal in earnest says more, and takes its place.
    pub fn tried(&mut self, reason: &'static str, setting: &'static str) {
        let reason = match reason {
            "concurrency_limited" => "concurrency_limited_dry_run",
            _ => "rate_limited_dry_run",
        };
        self.fail(reason, Some(setting));
    }

    /// A server was chosen.
    pub fn sent_to(&mut self, server: usize) {
        self.upstream = Some(UpstreamRecord {
            server: server as u32,
            reused: false,
            protocol: None,
            connect_us: None,
            tls_us: None,
            answer: None,
        });
    }

    /// A connection to the server is there, on which this is spoken, and which had served a request before or not.
    pub fn connected(&mut self, protocol: Protocol, reused: bool) {
        if let Some(upstream) = &mut self.upstream {
            upstream.protocol = Some(protocol);
            upstream.reused = reused;
        }
    }

    /// A connection was opened to the server, or it came to nothing.
    pub fn opened(&mut self, queue: Duration, connect: Duration, tls: Option<Duration>) {
        self.queued(queue);
        if let Some(upstream) = &mut self.upstream {
            upstream.connect_us = Some(connect).filter(|connect| !connect.is_zero()).map(some_us);
            upstream.tls_us = tls.map(some_us);
        }
    }

    /// The request had to wait for a server.
    pub fn queued(&mut self, waited: Duration) {
        self.queued_us = self.queued_us.saturating_add(short_us(waited));
    }

    /// An answer began, so long after the request was sent.
    pub fn answer_began(&mut self, status: u16, sent_at: Instant, waited: Duration) {
        let sent_us = short_us(sent_at.saturating_duration_since(self.started));
        if let Some(upstream) = &mut self.upstream {
            upstream.answer = Some(AnswerTimes { status, sent_us, first_byte_us: short_us(waited) });
        }
    }
}

fn halves(id: RequestId) -> [u64; 2] {
    [(id.0 >> 64) as u64, id.0 as u64]
}
