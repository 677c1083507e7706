//! What is counted and logged of a head that is no request: refused before `request` could live it.

use super::Connection;
use crate::counted::answer_kind;
use std::borrow::Cow;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tidegate_middleware::{Refusal, without_secrets};
use tidegate_telemetry::AccessRecord;
use tidegate_transport::Sock;
use tidegate_wire::head::{Method, RequestHead};

impl<S: Sock> Connection<S> {
    /// What could be read of the head is in the log: the strictness classes are there to be found.
    pub fn log_refused_head(&self, head: &RequestHead, refusal: Refusal, arrived: Instant, response_bytes: u64) {
        // Nothing is known of one that has not come to its end.
        let unread = RequestHead { version: head.version, method: Method::Other, ..RequestHead::default() };
        let head = if head.fields.bytes.is_empty() { &unread } else { head };
        self.worker.without_site.record(answer_kind(head, refusal.status()), arrived.elapsed(), response_bytes);
        let mut sender = self.worker.access_log.borrow_mut();
        let Some(sender) = sender.as_mut().filter(|sender| sender.is_on()) else { return };
        let query = self.shown_query(head);
        let duration_us = arrived.elapsed().as_micros() as u64;
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        sender.record(&AccessRecord {
            time_unix_us: now_us - duration_us,
            client_ip: self.client.ip(),
            user: "",
            client_port: self.client.port(),
            method: head.method_name(),
            scheme,
            host: head.authority(),
            path: head.path(),
            query: &query,
            protocol: head.version.as_str(),
            status: Some(refusal.status()),
            request_bytes: 0,
            response_bytes,
            duration_us,
            auth_status: None,
            auth_us: None,
            queue_us: None,
            upstream: None,
            retries: 0,
            tls: None,
            introduction: self.said_by_balancer(),
            referer: b"",
            user_agent: b"",
            request_id: &self.worker.next_request_id().to_hex(),
            trace_id: b"",
            site: "",
            route: "",
            origin: "",
            pool: None,
            arm: None,
            cache: None,
            reason: Some(refusal.reason()),
            setting: refusal.setting(),
            request_header: None,
            request_cookie: None,
            client_certificate: None,
            own_fields: None,
            response_header: None,
        });
    }

    /// The query without what any site takes for a key or a token.
    fn shown_query<'h>(&self, head: &'h RequestHead) -> Cow<'h, [u8]> {
        without_secrets(head.query().unwrap_or_default(), &self.current_snapshot().0.shared.secret_parameters)
    }
}
