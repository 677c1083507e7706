//! What is logged of servers that cannot be reached or say nothing any more. What becomes of them is decided in
//! `verdict`.

use crate::compiled::{CompiledPool, CompiledServer};
use std::io;
use tidegate_model::PoolName;
use tidegate_telemetry::{EventGate, UpstreamError};
use tidegate_transport::rt;
use tidegate_transport::tls_fault::connection_words;
use tidegate_wire::h2::fault::ConnectionEnd;

/// Refusals and handshake faults a process logs per second, whatever the load.
static CAUSES: EventGate = EventGate::new(5);

/// Why a server cannot be reached, in the words of the system or of TLS: the reason code alone does not say what to
/// mend. `request_id`: of the request that the connection was opened for, if it was.
pub fn log_cause(
    pool: &CompiledPool,
    server: &CompiledServer,
    error: UpstreamError,
    cause: &io::Error,
    request_id: Option<&str>,
) {
    if let Some(suppressed) = CAUSES.allow(rt::now()) {
        let (pool, origin) = (&pool.name, pool.shown_origin());
        let (server, cause) = (&server.authority, connection_words(cause));
        tracing::warn!(%pool, origin, %server, reason = error.reason(), %cause, request_id, suppressed, "an upstream server cannot be reached");
    }
}

/// Why requests on it fail: nobody else would say.
pub fn log_given_up(pool: &CompiledPool, server: &CompiledServer) {
    if let Some(suppressed) = CAUSES.allow(rt::now()) {
        let (pool, origin, server) = (&pool.name, pool.shown_origin(), &server.authority);
        tracing::warn!(%pool, origin, %server, suppressed, "an HTTP/2 connection gave no sign of life and was given up");
    }
}

/// Why a connection that was open is none any more: in TLS 1.3 a server says behind the handshake that it takes no
/// certificate of ours, or wants one. Whose it was says the line about the request.
pub fn log_broken_tls(pool: Option<&str>, error: UpstreamError, cause: &io::Error) {
    if let Some(suppressed) = CAUSES.allow(rt::now()) {
        let cause = connection_words(cause);
        tracing::warn!(pool, reason = error.reason(), %cause, suppressed, "an upstream server has ended a TLS connection");
    }
}

/// Which rule of HTTP/2 a server broke whose connection we have ended for it: the requests on it have failed, and their
/// lines have the reason code alone.
pub fn log_broken_rule(pool: &PoolName, server: &str, cause: &ConnectionEnd) {
    if let Some(suppressed) = CAUSES.allow(rt::now()) {
        let reason = if cause.is_for_size_of_head() { UpstreamError::HeadTooLarge } else { UpstreamError::BadResponse }.reason();
        tracing::warn!(%pool, server, reason, %cause, suppressed, "an upstream server broke a rule of HTTP/2: its connection was ended");
    }
}
