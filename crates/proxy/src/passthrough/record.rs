//! What is written down of a connection that is passed on: its line in the access log and its counters, once, when it
//! is over, whatever ended it.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::tunnel::{CutBy, TunnelBytes};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tidegate_exchange::ClientFault;
use tidegate_middleware::{Refusal, RequestId};
use tidegate_telemetry::{AccessRecord, RecordUpstream};
use tidegate_transport::{Sock, rt};
use tidegate_upstream::pool::WorkerPool;

/// The end of the process, or of the drain time.
const CUT_SHORT: &str = "cut_short";
/// Both sides have ended it. In the log that is no reason.
const DONE: &str = "done";

pub(super) struct PassRecord<'c, S: Sock> {
    connection: &'c Connection<S>,
    pub started: Instant,
    pub id: RequestId,
    pub bytes: TunnelBytes,
    name: Arc<str>,
    pool: Rc<WorkerPool<S>>,
    /// Whether the pool is an arm of a `split`.
    is_split: bool,
    server: Option<usize>,
    attempts: u32,
    reason: &'static str,
    setting: Option<&'static str>,
}

impl<'c, S: Sock> PassRecord<'c, S> {
    pub fn new(connection: &'c Connection<S>, name: Arc<str>, (pool, is_split): (Rc<WorkerPool<S>>, bool)) -> PassRecord<'c, S> {
        PassRecord {
            connection,
            started: rt::now(),
            id: connection.worker.next_request_id(),
            bytes: TunnelBytes::default(),
            name,
            pool,
            is_split,
            server: None,
            attempts: 0,
            reason: CUT_SHORT,
            setting: None,
        }
    }

    /// A server was chosen, of a pool that may be a newer one than before.
    pub fn sent_to(&mut self, pool: &Rc<WorkerPool<S>>, position: usize) {
        if !Rc::ptr_eq(&self.pool, pool) {
            self.pool = pool.clone();
        }
        self.server = Some(position);
        self.attempts += 1;
    }

    /// No server took it.
    pub fn failed(&mut self, failure: Failure) {
        match failure {
            Failure::Upstream(fault) => {
                let refusal = Refusal::from(fault.error);
                (self.reason, self.setting) = (refusal.reason(), refusal.setting());
            }
            Failure::Client(_) => self.reason = ClientFault::Gone.reason(),
        }
    }

    pub fn ended(&mut self, cut_by: Option<CutBy>) {
        self.reason = cut_by.map_or(DONE, CutBy::reason);
        if cut_by == Some(CutBy::Idle) {
            self.setting = Some("timeout idle");
        }
    }

    fn write_log_line(&self) {
        let mut sender = self.connection.worker.access_log.borrow_mut();
        let Some(sender) = sender.as_mut().filter(|sender| sender.is_on()) else { return };
        let duration_us = self.started.elapsed().as_micros() as u64;
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        let upstream = self.server.and_then(|position| self.pool.compiled.servers.get(position));
        sender.record(&AccessRecord {
            time_unix_us: now_us.saturating_sub(duration_us),
            client_ip: self.connection.client.ip(),
            client_port: self.connection.client.port(),
            user: "",
            method: b"",
            scheme: "tcp",
            host: self.connection.server_name.as_deref().unwrap_or_default().as_bytes(),
            path: b"",
            query: b"",
            protocol: "TCP",
            status: None,
            request_bytes: self.bytes.client.get(),
            response_bytes: self.bytes.upstream.get(),
            duration_us,
            upstream: upstream.map(|server| RecordUpstream::asked(&server.authority)),
            auth_status: None,
            auth_us: None,
            queue_us: None,
            retries: self.attempts.saturating_sub(1),
            tls: None,
            introduction: self.connection.said_by_balancer(),
            referer: b"",
            user_agent: b"",
            request_id: &self.id.to_hex(),
            trace_id: b"",
            site: &self.name,
            route: "",
            origin: "",
            pool: Some(&self.pool.compiled.name.0),
            arm: self.is_split.then_some(&*self.pool.compiled.name.0),
            cache: None,
            reason: Some(self.reason).filter(|reason| *reason != DONE),
            setting: self.setting,
            request_header: None,
            request_cookie: None,
            client_certificate: None,
            own_fields: None,
            response_header: None,
        });
    }
}

impl<S: Sock> Drop for PassRecord<'_, S> {
    fn drop(&mut self) {
        self.connection.facts.end();
        self.connection.account_bytes();
        self.connection.worker.metrics.passthrough.increment(self.reason);
        self.write_log_line();
    }
}
