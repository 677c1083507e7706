//! Requests in TLS early data (RFC 8470): whoever has recorded them can send them again, so what may go ahead is what
//! does no harm twice, and all else waits for the end of the client's handshake. How often a ticket brings early data
//! is decided in `certs::server`; bytes are read in `transport`.

use crate::connection::Connection;
use crate::worker_snapshot::WorkerSite;
use std::future::poll_fn;
use std::task::Poll;
use tidegate_exchange::{ClientFault, Exchange};
use tidegate_transport::{ReadLimit, Sock};
use tidegate_wire::BodyFraming;
use tidegate_wire::head::Method;

/// Says to upstreams that a request may be a copy; set by us, or by who is in front of us.
const EARLY_DATA: &[u8] = b"early-data";

/// Whether a request does no harm when it is sent twice: it only reads (RFC 9110 section 9.2.1), brings nothing, and
/// ends with its answer.
fn may_go_ahead(method: Method, framing: BodyFraming, upgrades: bool) -> bool {
    let is_safe = match method {
        Method::Get | Method::Head | Method::Options => true,
        Method::Post
        | Method::Put
        | Method::Delete
        | Method::Patch
        // Safe as well, but it tells what headers came, cookies among them.
        | Method::Trace
        | Method::Connect
        | Method::Other => false,
    };
    let has_body = match framing {
        BodyFraming::None | BodyFraming::Length(0) => false,
        BodyFraming::Length(_) | BodyFraming::Chunked | BodyFraming::UntilClose => true,
    };
    is_safe && !has_body && !upgrades
}

/// Before any step has seen the request: it is marked and goes ahead, or waits until it is known to be no copy.
pub(super) async fn settle_early<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    connection: &Connection<S>,
    site: &WorkerSite,
) -> Result<(), ClientFault> {
    // The connection may have been made for another site, which takes early data where this one does not.
    if site.compiled.takes_early_data && may_go_ahead(exchange.head.method, exchange.framing, exchange.hop.upgrade.is_some()) {
        // For all that sees the head, scripts and copies included. One that the client has sent itself says the
        // same.
        exchange.head.fields.remove_look_alikes(EARLY_DATA);
        exchange.head.fields.set(EARLY_DATA, b"1");
        connection.worker.metrics.early_requests.increment();
        return Ok(());
    }
    let stream = &connection.stream;
    if connection.is_h2() {
        // The connection reads; its end, by which the stream is gone, is bounded there.
        let responder = &mut exchange.responder;
        return poll_fn(|cx| match stream.poll_handshake_over(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => responder.poll_gone(cx).map(|()| Err(ClientFault::Gone)),
        })
        .await;
    }
    exchange.body.put_back();
    let outcome = connection.finish_handshake().await;
    stream.sock.set_read_limit(ReadLimit::Never);
    outcome.map_err(|_| ClientFault::Gone)
}

#[cfg(test)]
mod tests {
    use super::may_go_ahead;
    use tidegate_wire::BodyFraming;
    use tidegate_wire::head::Method;

    #[test]
    fn only_what_reads_and_brings_nothing_goes_ahead() {
        let check = |method: &[u8], framing, upgrades, expected| {
            assert_eq!(may_go_ahead(Method::of(method), framing, upgrades), expected, "{:?}", String::from_utf8_lossy(method));
        };
        for method in ["GET", "HEAD", "OPTIONS"] {
            check(method.as_bytes(), BodyFraming::None, false, true);
            check(method.as_bytes(), BodyFraming::Length(0), false, true);
            check(method.as_bytes(), BodyFraming::Length(1), false, false);
            check(method.as_bytes(), BodyFraming::Chunked, false, false);
            check(method.as_bytes(), BodyFraming::None, true, false);
        }
        for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PURGE", "get"] {
            check(method.as_bytes(), BodyFraming::None, false, false);
        }
    }
}
