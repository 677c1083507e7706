//! HTTP/2 on a client connection: the h2 library frames, each stream is a request in a task of its own. Floods are
//! noticed beneath the library, by `wire::h2_guard`.

use crate::connection::Connection;
use crate::listening::ConnectionKind;
use crate::request;
use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tidegate_exchange::{Arrived, BodyReader, H2Responder, Pooled, Responder};
use tidegate_message::body::H2BodyReader;
use tidegate_message::h2_head;
use tidegate_middleware::Refusal;
use tidegate_transport::h2_io::{H2Io, H2Output, drive};
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_upstream::connect::h2::DATA_FRAME_BUDGET;
use tidegate_wire::BodyFraming;
use tidegate_wire::Flood;
use tidegate_wire::h2_guard::goaway_enhance_your_calm;
use tidegate_wire::head::{HeaderId, RequestHead};

/// What a client may have in flight towards us on one stream and on the whole connection.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// Unsent bytes h2 keeps per stream before the request waits.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// Streams that the client has reset and we have not looked at yet (rapid reset, CVE-2023-44487).
const PENDING_RESETS_MAX: usize = 50;
/// Streams that we had to reset because the client broke the rules.
const LOCAL_ERRORS_MAX: usize = 256;
/// Silence on the socket itself; idle connections are ended long before, streams that wait for events never.
const SILENCE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// A last GOAWAY must reach the client before the connection is torn down.
const GOAWAY_GRACE: Duration = Duration::from_millis(500);

pub async fn serve_prior_knowledge<S: Sock>(connection: Rc<Connection<S>>, first: Buf) {
    connection.stream.unread(first);
    serve(connection).await;
}

pub async fn serve<S: Sock>(connection: Rc<Connection<S>>) {
    connection.facts.kind.set(ConnectionKind::Http2);
    // Not the snapshot: the connection may outlive it by days.
    let limits = connection.current_snapshot().0.shared.limits;
    let flood: Rc<Cell<Option<Flood>>> = Rc::default();
    let noticed = flood.clone();
    // Waiting for the preface and the first frames is as bounded as waiting for a head.
    connection.stream.sock.set_read_limit(ReadLimit::Until(rt::now() + limits.header_timeout));
    let io = H2Io::guarded(connection.stream.clone(), move |flood| noticed.set(Some(flood)));
    let output = io.output();
    let handshake = Builder::new()
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(limits.h2_streams)
        .max_header_list_size(limits.header_bytes as u32)
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
        .max_local_error_reset_streams(Some(LOCAL_ERRORS_MAX))
        .data_frame_budget(DATA_FRAME_BUDGET)
        .handshake::<_, Bytes>(io);
    if let Ok(mut h2) = drive(&output, handshake).await {
        if !connection.stream.is_early() {
            connection.stream.sock.set_read_limit(ReadLimit::Idle(SILENCE_MAX));
        }
        accept_streams(&connection, &mut h2, &output, limits.keep_alive).await;
        // What h2 said last, such as why it ended the connection.
        let _ = rt::timeout(GOAWAY_GRACE, poll_fn(|cx| output.poll_send(cx))).await;
    }
    if let Some(flood) = flood.take() {
        say_enhance_your_calm(&connection, flood).await;
        connection.stream.close().await;
    } else {
        // The client may be saying goodbye as well, or opens windows for what it was sent; a reset would answer that.
        connection.linger().await;
    }
    connection.account_bytes();
}

/// Takes streams until the connection ends. When draining, and when there was no stream for the keep-alive time, the
/// client is told to open no more, and those it has are finished. A connection with open streams may be silent for as
/// long as they like.
async fn accept_streams<S: Sock>(
    connection: &Rc<Connection<S>>,
    h2: &mut h2::server::Connection<H2Io<S>, Bytes>,
    output: &H2Output<S>,
    keep_alive: Duration,
) {
    let draining = connection.listener.draining.waiter();
    let mut goodbye: Option<Pin<Box<dyn Future<Output = ()>>>> = None;
    let active: Rc<Cell<usize>> = Rc::default();
    let mut told = false;
    let mut was_used = true;
    // With early data the client still owes the end of its handshake, which has the time of one.
    let mut is_early = connection.stream.is_early();
    let mut tick = Box::pin(rt::sleep(keep_alive / 2));
    loop {
        let next = poll_fn(|cx| {
            if !told && draining.poll_set(cx).is_ready() {
                // Not all clients at once: each has its moment.
                let idle_time = || connection.listener.idle_time(connection.worker.random());
                if goodbye.get_or_insert_with(|| Box::pin(rt::sleep(idle_time()))).as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Next::Drain);
                }
            }
            if tick.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Next::Tick);
            }
            let accepted = h2.poll_accept(cx).map(Next::Stream);
            if is_early && !connection.stream.is_early() {
                is_early = false;
                connection.stream.sock.set_read_limit(ReadLimit::Idle(SILENCE_MAX));
            }
            if accepted.is_pending() {
                let _ = output.poll_send(cx);
            }
            accepted
        });
        match next.await {
            Next::Drain => {
                told = true;
                h2.graceful_shutdown();
            }
            Next::Tick => {
                if !was_used && active.get() == 0 {
                    // A client that does not answer a GOAWAY is gone or means ill; nothing is lost either way.
                    if told {
                        return;
                    }
                    told = true;
                    h2.graceful_shutdown();
                }
                was_used = active.get() > 0;
                tick.set(rt::sleep(keep_alive / 2));
            }
            Next::Stream(None) => return,
            Next::Stream(Some(Ok((request, respond)))) => {
                was_used = true;
                spawn_stream(connection, &active, request, respond);
            }
            Next::Stream(Some(Err(error))) => {
                tracing::debug!(client = %connection.client, %error, "an HTTP/2 connection ended");
                return;
            }
        }
    }
}

/// A request as h2 hands it over.
type Accepted = Result<(Request<RecvStream>, SendResponse<Bytes>), h2::Error>;

#[expect(clippy::large_enum_variant, reason = "it lives between two lines, and boxing would allocate for every stream")]
enum Next {
    Drain,
    Tick,
    Stream(Option<Accepted>),
}

fn spawn_stream<S: Sock>(
    connection: &Rc<Connection<S>>,
    active: &Rc<Cell<usize>>,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
) {
    let connection = connection.clone();
    let active = Active::new(active.clone());
    // Boxed: the runtime moves a task's future when it begins and when it ends.
    rt::spawn(Box::pin(async move {
        let _active = active;
        serve_stream(&connection, request, respond).await;
    }));
}

async fn serve_stream<S: Sock>(connection: &Rc<Connection<S>>, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let started = rt::now();
    let (snapshot, listener) = connection.current_snapshot();
    let (parts, body) = request.into_parts();
    let mut head: Pooled<RequestHead> = Pooled::take();
    if let Err(error) = h2_head::read_request(&parts, &snapshot.shared.head_limits(), &mut head) {
        let refusal: Refusal = error.into();
        connection.note_refusal(refusal, connection.client.ip());
        connection.log_refused_head(&head, refusal, started, 0);
        let mut response = Response::new(());
        *response.status_mut() = http::StatusCode::from_u16(refusal.status()).unwrap_or(http::StatusCode::BAD_REQUEST);
        if respond.send_response(response, true).is_err() {
            respond.send_reset(Reason::PROTOCOL_ERROR);
        }
        return;
    }
    let framing = framing_of(&body, &head);
    let body = if body.is_end_stream() { BodyReader::Empty } else { BodyReader::H2(H2BodyReader::new(body, None)) };
    let responder = Responder::H2(H2Responder::new(respond));
    let place = (snapshot, listener);
    let mut exchange = request::receive(connection, &place, Arrived { head, framing, body, responder, started });
    request::handle(connection, place, &mut exchange).await;
}

/// h2 has checked that a declared length is true; here it only says how the body is framed towards an HTTP/1.1
/// upstream.
fn framing_of(body: &RecvStream, head: &RequestHead) -> BodyFraming {
    if body.is_end_stream() {
        return BodyFraming::None;
    }
    let declared = head.fields.get(HeaderId::ContentLength).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    declared.map_or(BodyFraming::Chunked, BodyFraming::Length)
}

async fn say_enhance_your_calm<S: Sock>(connection: &Connection<S>, flood: Flood) {
    connection.worker.metrics.h2_floods.increment(flood.reason());
    if let Some(suppressed) = connection.worker.gates.refused.allow(Instant::now()) {
        tracing::warn!(client = %connection.client, reason = flood.reason(), suppressed, "an HTTP/2 flood ended its connection");
    }
    let goaway = connection.stream.write(Buf::copy_of(&goaway_enhance_your_calm()));
    let _ = rt::timeout(GOAWAY_GRACE, goaway).await;
}

/// Counts a stream as long as it is served.
struct Active(Rc<Cell<usize>>);

impl Active {
    fn new(count: Rc<Cell<usize>>) -> Active {
        count.set(count.get() + 1);
        Active(count)
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
