//! What surrounds an exchange for whatever answers it: its connection, and the route and pool that it has got so far.
//! Read, never written; what a feature changes is the exchange. Templates know what stands here.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::snapshot::CompiledRoute;
use futures_util::TryFutureExt;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};
use tidegate_balancing::hash_bytes;
use tidegate_exchange::{BodyLength, BodyReader, Exchange, Pooled, Record};
use tidegate_middleware::{Context, OidcOfRequest, View, apply_response, render_text};
use tidegate_model::Balance;
use tidegate_transport::Sock;
use tidegate_upstream::pool::WorkerPool;
use tidegate_wire::Span;
use tidegate_wire::head::{Fields, HeaderId, RequestHead, ResponseHead};

/// What surrounds an exchange.
pub struct Surroundings<'a, S: Sock> {
    pub connection: &'a Connection<S>,
    /// Once it was found; answers of the proxy's own have its response headers and error pages too.
    pub route: Option<&'a CompiledRoute>,
    pub pool: Option<&'a WorkerPool<S>>,
}

impl<S: Sock> Clone for Surroundings<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Sock> Copy for Surroundings<'_, S> {}

impl<'a, S: Sock> Surroundings<'a, S> {
    /// What steps and templates know besides the heads.
    pub fn context(self, exchange: &'a Exchange<'_, S>) -> Context<'a> {
        context(self.connection, self.pool, &exchange.record, exchange.client_ip, exchange.hop.upgrade)
    }

    /// Applies what changes the response.
    pub fn run_response_steps(self, exchange: &mut Exchange<'_, S>) {
        self.run_steps_of_route(exchange);
        if let Some(oidc) = &exchange.oidc {
            set_session_cookies(oidc, &mut exchange.response);
        }
    }

    fn run_steps_of_route(self, exchange: &mut Exchange<'_, S>) {
        let Some(route) = self.route.filter(|route| route.changes_response) else { return };
        if let Some(asked) = &mut exchange.record.asked {
            // Once, however often an answer begins.
            for cookie in asked.cookies.drain(..) {
                exchange.response.fields.push(b"set-cookie", &cookie);
            }
        }
        let context = context(self.connection, self.pool, &exchange.record, exchange.client_ip, exchange.hop.upgrade);
        let mut scratch = self.connection.worker.scratch.borrow_mut();
        // What the proxy has refused, or an upstream failed at; a limit that is only tried out refuses nothing.
        let is_own_error = exchange.record.is_refused;
        let more = (exchange.limited.as_deref(), is_own_error);
        let steps = route.steps_of(exchange.record.arm);
        apply_response(steps, &mut exchange.response, &exchange.head, &context, &mut scratch, more);
    }

    /// The trailers of an answer that go to the client.
    pub fn trailers_of(self, body: &mut BodyReader<'_, S>) -> Option<Box<Fields>> {
        let trailers = body.take_trailers()?;
        match self.route {
            Some(route) => route.trailers.of_answer(trailers),
            None => Some(trailers),
        }
    }

    /// Sends the response head with a body that is all there.
    pub fn send_whole<'e>(self, exchange: &'e mut Exchange<'_, S>, body: &'e [u8]) -> impl Future<Output = Result<(), Failure>> {
        let connection = self.connection;
        exchange.send_whole(body, &connection.worker.date, connection.is_draining()).err_into()
    }

    /// Sends the response head of a call of gRPC that has no other answer.
    pub async fn send_grpc(self, exchange: &mut Exchange<'_, S>) -> Result<(), Failure> {
        exchange.complete_response(&self.connection.worker.date);
        exchange.consume_small_body(self.connection.is_draining());
        Ok(exchange.send_without_body(BodyLength::None).await?)
    }
}

/// Behind the steps, so that none removes a session that the provider has just renewed. Shared caches keep no answer
/// with `Set-Cookie` of ours.
#[cold]
fn set_session_cookies(oidc: &OidcOfRequest, response: &mut ResponseHead) {
    for value in &oidc.set_cookies {
        response.fields.push(b"set-cookie", value.as_bytes());
    }
    if !oidc.set_cookies.is_empty() && !response.fields.has(HeaderId::CacheControl) {
        response.fields.push(b"cache-control", b"private");
    }
}

/// What steps and templates know besides the heads.
pub fn context<'a, S: Sock>(
    connection: &'a Connection<S>,
    pool: Option<&'a WorkerPool<S>>,
    record: &'a Record,
    client_ip: IpAddr,
    upgrade: Option<Span>,
) -> Context<'a> {
    let server =
        pool.zip(record.upstream.as_ref()).and_then(|(pool, upstream)| pool.compiled.servers.get(upstream.server as usize));
    Context {
        scheme: connection.listener.protocol().scheme(),
        port: connection.destination_port(),
        client_ip,
        client_port: connection.client.port(),
        peer_ip: connection.client.ip(),
        tls_sni: connection.server_name.as_deref(),
        tls_version: connection.tls.as_ref().map(|tls| tls.version),
        client_certificate: connection.client_certificate.as_deref(),
        tls_ja4: connection.ja4.as_deref(),
        introduction: connection.introduction.as_deref(),
        upstream_address: server.map(|server| &*server.authority),
        request_id: record.request_id(),
        given_id: record.given_id.as_deref(),
        identity: record.identity().map(|identity| &**identity),
        claims: record.claims.as_deref(),
        error: None,
        now_unix_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
        since_start: connection.worker.process.since_start(record.started),
        asked_path: record.matched_path,
        asked_query: record.query,
        told_query: record.told_query,
        upgrade,
        geo: connection.whereabouts(),
        maps: &connection.worker.process.maps,
    }
}

/// By which a request is placed, where the pool places requests.
pub fn key_hash<S: Sock>(pool: &WorkerPool<S>, context: &Context<'_>, head: &RequestHead) -> u64 {
    let Balance::Hash { key, .. } = &pool.compiled.model.balance else { return 0 };
    let mut rendered: Pooled<Vec<u8>> = Pooled::take();
    render_text(key, View { context, request: head, response: None }, &mut rendered);
    hash_bytes(&rendered)
}
