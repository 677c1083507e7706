//! Reading on behind an answer that came before its request was whole: what was refused, what an upstream answered
//! early. Closing the connection, or resetting the stream, while the client is still sending would cost it the answer.
//! The bounds are those of `connection::unread`.

use crate::connection::{Connection, UnreadBounds};
use std::io;
use std::time::Duration;
use tidegate_exchange::pace::read_within;
use tidegate_exchange::{BodyReader, Exchange};
use tidegate_message::body::BodyFault;
use tidegate_transport::{Sock, rt};
use tidegate_wire::head::Version;
use tidegate_wire::http1::expects_continue;

/// A client of HTTP/1 that sends nothing for so long is told that our side ends. That takes no answer from it: what it
/// sends afterwards is still read.
pub(super) const SILENCE_ON_CONNECTION: Duration = Duration::from_secs(1);
/// A stream that is reset may cost its client the answer, and one that is silent costs next to nothing.
pub(super) const SILENCE_ON_STREAM: Duration = Duration::from_secs(5);

/// Reads and throws away the rest of the request, whose answer is out. What it held but its body is let go before.
pub(super) async fn read_on<S: Sock>(connection: &Connection<S>, exchange: Exchange<'_, S>, silence: Duration) {
    if ends_first(&exchange) {
        return;
    }
    let mut body = body_of(exchange);
    let mut bounds = UnreadBounds::new(rt::now());
    let end = read_to_end(connection, &mut body, &mut bounds, silence).await;
    let metrics = &connection.worker.metrics;
    metrics.unread_bodies.increment(end);
    metrics.unread_bytes.add(bounds.bytes());
    connection.account_bytes();
}

/// How the reading ended.
async fn read_to_end<S: Sock>(
    connection: &Connection<S>,
    body: &mut BodyReader<'_, S>,
    bounds: &mut UnreadBounds,
    silence: Duration,
) -> &'static str {
    loop {
        if connection.worker.process.pressure.is_high() {
            return "memory";
        }
        let now = rt::now();
        let Some(left) = bounds.left(now, silence) else { return if bounds.is_over(now) { "time" } else { "bytes" } };
        match read_within(body, left).await {
            Ok(Some(piece)) => {
                if bounds.note(piece.len()) {
                    drop(piece);
                    rt::yield_now().await;
                }
            }
            Ok(None) => return "whole",
            Err(BodyFault::Io(error)) if error.kind() == io::ErrorKind::TimedOut => {
                return if bounds.is_over(rt::now()) { "time" } else { "silent" };
            }
            Err(
                BodyFault::Io(_)
                | BodyFault::Framing(_)
                | BodyFault::Reset(_)
                | BodyFault::Coding
                | BodyFault::Bomb
                | BodyFault::Broken,
            ) => return "client",
        }
    }
}

/// Whether the end of our side has to come first: where an answer of HTTP/1.0 may end with its connection, and where a
/// client asked whether to send and was told otherwise.
fn ends_first<S: Sock>(exchange: &Exchange<'_, S>) -> bool {
    match exchange.head.version {
        Version::Http10 => true,
        Version::Http11 => expects_continue(&exchange.head) && exchange.record.request_bytes == 0,
        Version::Http2 => false,
    }
}

/// The body alone: heads, permits and what else a request holds are given back here.
fn body_of<S: Sock>(exchange: Exchange<'_, S>) -> BodyReader<'_, S> {
    exchange.body
}
