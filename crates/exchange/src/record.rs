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
    pub request_id: RequestId,
    pub status: u16,
    pub reason: Option<&'static str>,
    pub setting: Option<&'static str>,
    /// The answer is an error of the proxy itself.
    pub is_refused: bool,
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

pub struct UpstreamRecord {
    /// Position in the pool.
    pub server: usize,
    pub first_byte: Option<Duration>,
    pub reused: bool,
}

impl Record {
    pub fn new(started: Instant, request_id: RequestId, path: Span, query: Option<Span>) -> Record {
        Record {
            started,
            ended: None,
            request_id,
            status: 0,
            reason: None,
            setting: None,
            is_refused: false,
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

    /// Of the time that the request may take as a whole; without a bound, more than anything takes.
    pub fn left_of(&self, total: Option<Duration>) -> Duration {
        total.map_or(Duration::MAX, |total| (self.started + total).saturating_duration_since(rt::now()))
    }

    pub fn refused(&mut self, refusal: Refusal) {
        self.status = refusal.status();
        self.reason = Some(refusal.reason());
        self.setting = refusal.setting();
        self.is_refused = true;
    }

    /// What would have refused the request and is only tried out. A refusal in earnest says more, and takes its place.
    pub fn tried(&mut self, reason: &'static str, setting: &'static str) {
        self.reason = Some(match reason {
            "concurrency_limited" => "concurrency_limited_dry_run",
            _ => "rate_limited_dry_run",
        });
        self.setting = Some(setting);
    }

    /// A server was chosen and a connection to it is there.
    pub fn sent_to(&mut self, server: usize, reused: bool) {
        self.upstream = Some(UpstreamRecord { server, first_byte: None, reused });
    }
}
