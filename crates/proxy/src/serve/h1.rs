//! HTTP/1 on a client connection: one request after the other, until one of them or the client ends it.

use super::unread;
use crate::connection::Connection;
use crate::request::{self, Ending};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_exchange::responder::REFUSAL_WRITE_IDLE;
use tidegate_exchange::{Arrived, BodyReader, H1Responder, Pooled, Responder};
use tidegate_message::body::H1BodyReader;
use tidegate_message::read_head::{HeadFault, read_rest_of_head};
use tidegate_middleware::{Refusal, error_answer};
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_wire::chunked::Peer;
use tidegate_wire::h2::PREFACE;
use tidegate_wire::head::{Method, RequestHead, ResponseHead};
use tidegate_wire::http1::{keep_alive_request, parse_request, request_framing, state_length_once};
use tidegate_wire::{BodyFraming, Parsed};

/// A handshake record of any TLS version.
const TLS_RECORD_START: &[u8] = &[22, 3];

/// A connection that has been without a request for so long gives up what handling one takes, more than 1 KB of what an
/// idle one would hold. Longer than the pauses of a client under load, which must not pay for it.
const RESTS_AFTER: Duration = Duration::from_secs(1);

/// What came of waiting for a request.
enum Waited {
    Began(Buf),
    /// Nothing for [`RESTS_AFTER`].
    Rests,
    /// The client is done, or it has been waited for long enough.
    Over,
}

/// How serving requests in a row has ended.
enum Served {
    Rests,
    Over,
    /// As [`Over`](Self::Over), and nothing is left to be done for the connection.
    Ended,
}

/// Serves requests until the connection ends. One of a client that begins with the preface of HTTP/2 is handed back,
/// with what it said.
pub async fn serve<S: Sock>(connection: Rc<Connection<S>>) -> Option<(Rc<Connection<S>>, Buf)> {
    let mut data = match wait_for_request(&connection, Duration::ZERO).await {
        Waited::Began(data) => Some(data),
        Waited::Rests => rest(&connection).await,
        Waited::Over => None,
    };
    if let Some(first) = data.take_if(|first| may_be_h2(&connection, first)) {
        return Some((connection, first));
    }
    while let Some(first) = data {
        // Boxed: one allocation for all requests that follow each other, and none while there are none.
        data = match Box::pin(serve_requests(&connection, first)).await {
            Served::Rests => rest(&connection).await,
            Served::Over => None,
            Served::Ended => return None,
        };
    }
    connection.stream.close().await;
    connection.account_bytes();
    None
}

/// Serves this request and those that follow while the client does not pause for long.
async fn serve_requests<S: Sock>(connection: &Rc<Connection<S>>, first: Buf) -> Served {
    let mut data = first;
    loop {
        match pin!(serve_request(connection, data)).await {
            Ending::KeepAlive => {}
            Ending::Close => {
                Box::pin(connection.linger()).await;
                connection.account_bytes();
                return Served::Ended;
            }
            // Without a close_notify the client knows that the answer was cut.
            Ending::Abort => {
                connection.account_bytes();
                return Served::Ended;
            }
        }
        data = match wait_for_request(connection, Duration::ZERO).await {
            Waited::Began(data) => data,
            Waited::Rests => return Served::Rests,
            Waited::Over => return Served::Over,
        };
    }
}

/// The rest of the time that a connection may be without a request.
async fn rest<S: Sock>(connection: &Connection<S>) -> Option<Buf> {
    let mut rested = RESTS_AFTER;
    loop {
        let keep_alive = connection.worker.keep_alive();
        match wait_for_request(connection, rested).await {
            Waited::Began(data) => return Some(data),
            // A reload may have given it longer meanwhile. A client that has left is found to have left once more.
            Waited::Rests | Waited::Over if connection.worker.keep_alive() > keep_alive && !connection.is_draining() => {
                rested = keep_alive;
            }
            Waited::Rests | Waited::Over => return None,
        }
    }
}

/// The first bytes of the next request. The client has been silent for `rested` already.
async fn wait_for_request<S: Sock>(connection: &Connection<S>, rested: Duration) -> Waited {
    // What came early is answered; the rest needs the end of the handshake.
    if connection.stream.is_early() && !connection.stream.has_unread() && Box::pin(connection.finish_handshake()).await.is_err() {
        return Waited::Over;
    }
    // The last answer may have promised that the connection stays, or it comes from the accept queue: a draining
    // listener waits a moment for one more request, whose answer says that it is the last. Closing at once would cross
    // that request on the way.
    let keep_alive = connection.worker.keep_alive();
    let may_rest = rested.is_zero() && keep_alive > RESTS_AFTER;
    let limit = if connection.is_draining() {
        ReadLimit::Until(rt::now() + connection.listener.idle_time(connection.worker.random()))
    } else if may_rest {
        ReadLimit::Idle(RESTS_AFTER)
    } else {
        ReadLimit::Idle(keep_alive.saturating_sub(rested))
    };
    connection.stream.sock.set_read_limit(limit);
    connection.stream.sock.set_between_requests(true);
    let data = connection.stream.read().await;
    connection.stream.sock.set_between_requests(false);
    match data {
        Ok(data) if !data.is_empty() => Waited::Began(data),
        // The drain that may have begun meanwhile has its own time, which may be longer than what was waited for.
        Err(error) if error.kind() == io::ErrorKind::TimedOut && limit == ReadLimit::Idle(RESTS_AFTER) && may_rest => {
            Waited::Rests
        }
        Ok(_) | Err(_) => Waited::Over,
    }
}

/// In plain text HTTP/2 starts without ALPN. Less than the whole preface is read on as HTTP/1, which refuses its
/// version.
fn may_be_h2<S: Sock>(connection: &Connection<S>, data: &[u8]) -> bool {
    connection.tls.is_none() && data.starts_with(&PREFACE[..data.len().min(PREFACE.len())]) && data.len() >= 4
}

async fn serve_request<S: Sock>(connection: &Rc<Connection<S>>, mut data: Buf) -> Ending {
    let arrived = rt::now();
    let (snapshot, listener) = connection.current_snapshot();
    let limits = snapshot.shared.head_limits();
    let mut head: Pooled<RequestHead> = Pooled::take();
    if connection.tls.is_none() && data.starts_with(TLS_RECORD_START) {
        drop(data);
        return Box::pin(refuse_head(connection, &head, Refusal::TlsToPlainHttp, arrived)).await;
    }
    let parsed = parse_request(&data, &limits, &mut head).map_err(HeadFault::Bad);
    let outcome = match parsed {
        Ok(Parsed::Complete { consumed }) => {
            data.advance(consumed);
            Ok(data)
        }
        Ok(Parsed::Partial) if connection.worker.process.pressure.is_high() => {
            // Before heads that are whole are refused; what came of it is let go.
            drop(data);
            let refusal = Refusal::Upstream(UpstreamError::Overloaded);
            return Box::pin(refuse_head(connection, &head, refusal, arrived)).await;
        }
        Ok(Parsed::Partial) => {
            // From the first byte to the head's end the clock runs, however often a byte arrives (slowloris).
            let until = arrived + snapshot.shared.limits.header_timeout;
            let parse = |data: &[u8]| parse_request(data, &limits, &mut head);
            Box::pin(read_rest_of_head(&connection.stream, data, limits.head_bytes_max, Some(until), parse)).await
        }
        Err(fault) => {
            drop(data);
            Err(fault)
        }
    };
    let rest = match outcome {
        Ok(rest) => rest,
        Err(HeadFault::Bad(error)) => return Box::pin(refuse_head(connection, &head, error.into(), arrived)).await,
        Err(HeadFault::Io(error)) if error.kind() == io::ErrorKind::TimedOut => {
            return Box::pin(refuse_head(connection, &head, Refusal::HeaderTimeout, arrived)).await;
        }
        Err(HeadFault::Io(_) | HeadFault::Cut) => return Ending::Abort,
    };
    let framing = match request_framing(&head) {
        Ok(framing) => framing,
        Err(error) => {
            drop(rest);
            return Box::pin(refuse_head(connection, &head, error.into(), arrived)).await;
        }
    };
    if let BodyFraming::Length(length) = framing {
        state_length_once(&mut head.fields, length);
    }
    // Whoever reads the body sets its own limit; while the answer is awaited the client may be silent.
    connection.stream.sock.set_read_limit(ReadLimit::Never);
    let keep_alive = keep_alive_request(&head) && !connection.is_draining();
    let body = match framing {
        BodyFraming::None => {
            connection.stream.unread(rest);
            BodyReader::Empty
        }
        framing => {
            connection.facts.has_upload.set(true);
            BodyReader::H1(H1BodyReader::new(&connection.stream, framing, Peer::Client, &limits, rest))
        }
    };
    let responder = Responder::H1(H1Responder::new(&connection.stream, head.version, keep_alive));
    let place = (snapshot, listener);
    let mut exchange = request::receive(connection, &place, Arrived { head, framing, body, responder, started: arrived });
    let ending = pin!(request::handle(connection, place, &mut exchange)).await;
    if ending == Ending::Close && !exchange.body.is_finished() {
        Box::pin(unread::read_on(connection, exchange, unread::SILENCE_ON_CONNECTION)).await;
    }
    ending
}

/// A head that is no request: answered and counted, and the connection ends, since nobody can say where the next
/// request begins.
pub(super) async fn refuse_head<S: Sock>(
    connection: &Connection<S>,
    head: &RequestHead,
    refusal: Refusal,
    arrived: Instant,
) -> Ending {
    connection.note_refusal(refusal, connection.client.ip(), None);
    let mut response: Pooled<ResponseHead> = Pooled::take();
    let mut buffer: Pooled<Vec<u8>> = Pooled::take();
    let mut body = refusal_body(connection, refusal, &mut response, &mut buffer);
    if head.method == Method::Head {
        body = &[];
    }
    response.fields.push(b"connection", b"close");
    let sent = body.len() as u64;
    let mut message = Buf::copy_of(body);
    let len = response.encoded_len();
    response.encode(message.open_front(len));
    // Who takes nothing is not waited for as for the reader of an answer.
    connection.stream.sock.set_write_idle(REFUSAL_WRITE_IDLE);
    let ending = if connection.stream.write(message).await.is_ok() { Ending::Close } else { Ending::Abort };
    connection.log_refused_head(head, refusal, arrived, sent);
    ending
}

/// The body of the answer to a head that is no request, of any version; its head is written beside it.
pub(super) fn refusal_body<'b, S: Sock>(
    connection: &Connection<S>,
    refusal: Refusal,
    response: &mut ResponseHead,
    buffer: &'b mut Vec<u8>,
) -> &'b [u8] {
    let body = error_answer(refusal.status(), refusal.sentence(), refusal.reason(), response, buffer);
    response.fields.push(b"content-length", itoa::Buffer::new().format(body.len()).as_bytes());
    response.fields.push(b"date", &connection.worker.date.text(std::time::SystemTime::now()));
    body
}
