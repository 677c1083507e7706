//! HTTP/1 on a client connection: one request after the other, until one of them or the client ends it.

use crate::connection::Connection;
use crate::request::{self, Ending};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;
use tidegate_exchange::responder::REFUSAL_WRITE_IDLE;
use tidegate_exchange::{Arrived, BodyReader, H1Responder, Pooled, Responder};
use tidegate_message::body::H1BodyReader;
use tidegate_message::read_head::{HeadFault, read_rest_of_head};
use tidegate_middleware::{Refusal, error_answer};
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_wire::chunked::Peer;
use tidegate_wire::h2::PREFACE;
use tidegate_wire::head::{RequestHead, ResponseHead};
use tidegate_wire::http1::{keep_alive_request, parse_request, request_framing, state_length_once};
use tidegate_wire::{BodyFraming, Parsed};

/// A handshake record of any TLS version.
const TLS_RECORD_START: &[u8] = &[22, 3];

/// Serves requests until the connection ends. One of a client that begins with the preface of HTTP/2 is handed back,
/// with what it said.
pub async fn serve<S: Sock>(connection: Rc<Connection<S>>) -> Option<(Rc<Connection<S>>, Buf)> {
    let mut is_first = connection.tls.is_none();
    loop {
        let Some(data) = wait_for_request(&connection).await else { break };
        if is_first && may_be_h2(&connection, &data) {
            return Some((connection, data));
        }
        is_first = false;
        match pin!(serve_request(&connection, data)).await {
            Ending::KeepAlive => {}
            Ending::Close => {
                Box::pin(connection.linger()).await;
                connection.account_bytes();
                return None;
            }
            // Without a close_notify the client knows that the answer was cut.
            Ending::Abort => {
                connection.account_bytes();
                return None;
            }
        }
    }
    connection.stream.close().await;
    connection.account_bytes();
    None
}

/// The first bytes of the next request. `None`: the client is done, or it has been waited for long enough.
async fn wait_for_request<S: Sock>(connection: &Connection<S>) -> Option<Buf> {
    // What came early is answered; the rest needs the end of the handshake.
    if connection.stream.is_early() && !connection.stream.has_unread() && Box::pin(connection.finish_handshake()).await.is_err() {
        return None;
    }
    // The last answer may have promised that the connection stays, or it comes from the accept queue: a draining
    // listener waits a moment for one more request, whose answer says that it is the last. Closing at once would cross
    // that request on the way.
    let limit = if connection.is_draining() {
        ReadLimit::Until(rt::now() + connection.listener.idle_time(connection.worker.random()))
    } else {
        ReadLimit::Idle(connection.worker.keep_alive())
    };
    connection.stream.sock.set_read_limit(limit);
    connection.stream.sock.set_between_requests(true);
    let data = connection.stream.read().await;
    connection.stream.sock.set_between_requests(false);
    data.ok().filter(|data| !data.is_empty())
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
    pin!(request::handle(connection, place, &mut exchange)).await
}

/// A head that is no request: answered and counted, and the connection ends, since nobody can say where the next
/// request begins.
pub(super) async fn refuse_head<S: Sock>(
    connection: &Connection<S>,
    head: &RequestHead,
    refusal: Refusal,
    arrived: Instant,
) -> Ending {
    connection.note_refusal(refusal, connection.client.ip());
    let mut response: Pooled<ResponseHead> = Pooled::take();
    let mut buffer: Pooled<Vec<u8>> = Pooled::take();
    let body = refusal_body(connection, refusal, &mut response, &mut buffer);
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
