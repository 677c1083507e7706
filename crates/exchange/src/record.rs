//! What is remembered of a request for its log line and its counters. Filled in along its life, written once at its
//! end.

use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_middleware::{Refusal, RequestId};
use tidegate_passwords::User;
use tidegate_transport::rt;
use tidegate_wire::head::Span;

pub struct Record {
    pub started: Instant,
    /// When the last byte was passed on, where that was looked at anyway.
    pub ended: Option<Instant>,
    /// In two halves, since a number of its length would have everything aligned to it.
    request_id: [u64; 2],
    pub status: u16,
    /// Boxed: most requests have none.
    why: Option<Box<Why>>,
    pub upstream: Option<UpstreamRecord>,
    pub retries: u32,
    /// What the cache did, in one word.
    pub cache: Option<&'static str>,
    pub request_bytes: u64,
    /// As the client sent them; steps may change the head's own.
    pub path: Span,
    pub query: Option<Span>,
    /// As the route was found by it, before its steps.
    pub matched_path: Span,
    /// Who has logged in.
    pub user: Option<Arc<User>>,
}

/// Why a request did not get what it asked for.
struct Why {
    reason: &'static str,
    setting: Option<&'static str>,
}

pub struct UpstreamRecord {
    /// Position in the pool.
    pub server: u32,
    pub first_byte: Option<Duration>,
    pub reused: bool,
}

impl Record {
    pub fn new(started: Instant, request_id: RequestId, path: Span, query: Option<Span>) -> Record {
        Record {
            started,
            ended: None,
            request_id: [(request_id.0 >> 64) as u64, request_id.0 as u64],
            status: 0,
            why: None,
            upstream: None,
            retries: 0,
            cache: None,
            request_bytes: 0,
            path,
            query,
            matched_path: path,
            user: None,
        }
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
        self.fail(refusal.reason(), refusal.setting());
    }

    /// The request fails for this reason, by this setting where one decides.
    pub fn fail(&mut self, reason: &'static str, setting: Option<&'static str>) {
        self.why = Some(Box::new(Why { reason, setting }));
    }

    /// As [`fail`](Self::fail), where the setting stays that was named before.
    pub fn end_as(&mut self, reason: &'static str) {
        self.fail(reason, self.setting());
    }

    /// Why it failed.
    pub fn reason(&self) -> Option<&'static str> {
        self.why.as_ref().map(|why| why.reason)
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

    /// A server was chosen and a connection to it is there.
    pub fn sent_to(&mut self, server: usize, reused: bool) {
        self.upstream = Some(UpstreamRecord { server: server as u32, first_byte: None, reused });
    }
}
