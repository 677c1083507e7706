//! HTTP/2 on a client connection: one loop reads frames, lives the requests of all streams and sends what they have to
//! say together. The protocol is `wire::h2`, the streams are `message::h2`.

use super::h1::refusal_body;
use super::{contain, unread};
use crate::connection::Connection;
use crate::listening::ConnectionKind;
use crate::request::{self, Ending};
use futures_util::future::join;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tidegate_exchange::{Arrived, BodyReader, H2Responder, Pooled, Responder};
use tidegate_message::body::H2BodyReader;
use tidegate_message::h2::{FrameIo, FrameOwner, H2Shared, Opened, StreamFault, StreamHandle};
use tidegate_middleware::Refusal;
use tidegate_middleware::grpc::become_grpc;
use tidegate_transport::rt::Waiter;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_wire::Flood;
use tidegate_wire::h2::connection::Role;
use tidegate_wire::h2::fault::{ConnectionEnd, ConnectionFault};
use tidegate_wire::h2::frame::ErrorCode;
use tidegate_wire::h2::heads::{AdmittedRequest, is_malformed};
use tidegate_wire::h2::settings::OurSettings;
use tidegate_wire::head::{Method, RequestHead, ResponseHead, Version};
use tidegate_wire::websocket::PROTOCOL;

/// What a client may send of a request's body before it is read. Small: requests that wait in a queue hold so much.
const INITIAL_WINDOW_BYTES: u32 = 32 << 10;
/// What it may send ahead of a body that is being read.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// Silence on the socket itself; idle connections are ended long before, streams that wait for events never.
const SILENCE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// A last GOAWAY must reach the client before the connection is torn down.
const GOAWAY_GRACE: Duration = Duration::from_millis(500);
/// How long a client without streams has to answer a GOAWAY, in which a request on its way arrives.
const GOODBYE_GRACE: Duration = Duration::from_secs(2);

pub async fn serve_prior_knowledge<S: Sock>(connection: Rc<Connection<S>>, first: Buf) {
    connection.stream.unread(first);
    serve(connection).await;
}

pub async fn serve<S: Sock>(connection: Rc<Connection<S>>) {
    connection.facts.kind.set(ConnectionKind::Http2);
    let (mut session, mut io) = Session::begin(&connection);
    let ending = poll_fn(|cx| io.poll(cx, &mut session)).await;
    if let Some(end) = ending {
        tracing::debug!(client = %connection.client, error = %end, "an HTTP/2 connection ended");
    }
    note_refused_streams(&connection, session.shared.take_refused_for_memory());
    // What was said last, such as why the connection ends.
    let _ = rt::timeout(GOAWAY_GRACE, poll_fn(|cx| io.poll_send(cx))).await;
    session.shared.lose(StreamFault::Lost);
    let leave = async {
        match ending {
            Some(ConnectionEnd::Flood(flood)) => {
                note_flood(&connection, flood);
                connection.stream.close().await;
            }
            // The client may be saying goodbye as well, or opens windows for what it was sent; a reset would answer
            // that.
            None if session.deadlines.said_goodbye_idle => connection.linger_for(GOAWAY_GRACE).await,
            Some(ConnectionEnd::Fault(_) | ConnectionEnd::Compression(_)) | None => connection.linger().await,
        }
    };
    // Requests that are on their way learn that nobody waits, and are recorded.
    join(leave, async { while session.requests.next().await.is_some() {} }).await;
    connection.account_bytes();
}

/// One connection while it is served.
struct Session<S: Sock> {
    connection: Rc<Connection<S>>,
    shared: Rc<H2Shared>,
    requests: FuturesUnordered<Pin<Box<dyn Future<Output = ()>>>>,
    deadlines: Deadlines,
}

/// When a connection is to end that its client does not end.
struct Deadlines {
    draining: Waiter,
    /// Once the listener is draining: when this client is told.
    goodbye: Option<Pin<Box<dyn Future<Output = ()>>>>,
    told: bool,
    /// The client was told so without a request open, and has sent none since: nothing more of an answer is on its way.
    said_goodbye_idle: bool,
    /// Whether a request was there since the last tick.
    was_used: bool,
    tick: Pin<Box<dyn Future<Output = ()>>>,
    header_timeout: Duration,
    /// A head that has not come whole.
    head: Option<Pin<Box<dyn Future<Output = ()>>>>,
    /// The client owes its SETTINGS, or the end of its handshake, and has the time of a head for them.
    is_beginning: bool,
}

impl Deadlines {
    /// Tells the client to open no more streams. It has a bounded time to answer that, in which what crosses it
    /// arrives.
    fn say_goodbye(&mut self, shared: &H2Shared, is_idle: bool) {
        self.told = true;
        self.said_goodbye_idle = is_idle;
        self.was_used = !is_idle;
        self.tick = Box::pin(rt::sleep(GOODBYE_GRACE));
        shared.shut_down();
    }
}

impl<S: Sock> FrameOwner for Session<S> {
    fn poll_requests(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(())) = self.requests.poll_next_unpin(cx) {}
    }

    /// When draining, and when there was no stream for the keep-alive time, the client is told to open no more, and
    /// those it has are finished. A connection with open streams may be silent for as long as they like.
    fn poll_deadlines(&mut self, cx: &mut Context<'_>) -> Poll<Option<ConnectionEnd>> {
        note_refused_streams(&self.connection, self.shared.take_refused_for_memory());
        if self.shared.head_began().is_some() && self.connection.worker.process.pressure.is_high() {
            // What came of the head is let go before those that are whole are refused.
            return Poll::Ready(Some(self.end("there is no memory for the rest of a head")));
        }
        let deadlines = &mut self.deadlines;
        if deadlines.is_beginning && self.shared.has_begun() && !self.connection.stream.is_early() {
            deadlines.is_beginning = false;
            self.connection.stream.sock.set_read_limit(ReadLimit::Idle(SILENCE_MAX));
        }
        match self.shared.head_began() {
            Some(_) if deadlines.head.is_none() => deadlines.head = Some(Box::pin(rt::sleep(deadlines.header_timeout))),
            Some(_) => {}
            None => deadlines.head = None,
        }
        if !deadlines.told && deadlines.draining.poll_set(cx).is_ready() {
            // Not all clients at once: each has its moment.
            let time = || self.connection.listener.goodbye_time(self.connection.worker.random());
            if deadlines.goodbye.get_or_insert_with(|| Box::pin(rt::sleep(time()))).as_mut().poll(cx).is_ready() {
                deadlines.say_goodbye(&self.shared, self.requests.is_empty());
            }
        }
        while deadlines.tick.as_mut().poll(cx).is_ready() {
            if self.shared.end_unacknowledged(rt::now()) {
                return Poll::Ready(None);
            }
            if !deadlines.was_used && self.requests.is_empty() {
                // A client that does not answer a GOAWAY is gone or means ill; nothing is lost either way.
                if deadlines.told {
                    return Poll::Ready(None);
                }
                deadlines.say_goodbye(&self.shared, true);
                continue;
            }
            deadlines.was_used = !self.requests.is_empty();
            deadlines.tick =
                Box::pin(rt::sleep(if deadlines.told { GOODBYE_GRACE } else { self.connection.worker.keep_alive() / 2 }));
        }
        if deadlines.head.as_mut().is_some_and(|head| head.as_mut().poll(cx).is_ready()) {
            self.note_late_head();
            return Poll::Ready(Some(self.end("a head did not come whole within `limits header-timeout`")));
        }
        Poll::Pending
    }

    fn begin(&mut self, opened: Opened, now: Instant) -> Result<(), ConnectionEnd> {
        self.deadlines.was_used = true;
        self.deadlines.said_goodbye_idle = false;
        let mut head: Pooled<RequestHead> = Pooled::take();
        let limits = self.connection.current_snapshot().0.shared.head_limits();
        let (stream, read) = self.shared.read_request(opened, &limits, &mut head)?;
        match read {
            Ok(admitted) => {
                if let Some(protocol) = admitted.protocol {
                    head.become_get();
                    if !protocol.of(&head.fields.bytes).eq_ignore_ascii_case(PROTOCOL) {
                        self.refuse(&stream, &head, Refusal::ConnectProtocol, now);
                        return Ok(());
                    }
                }
                // The place comes first and the future is made in it: made before, it would be copied there.
                let place = Box::new_uninit();
                let request = Box::write(place, serve_stream(self.connection.clone(), (head, admitted), (stream, opened), now));
                self.requests.push(Box::into_pin(request));
                Ok(())
            }
            Err(error) => {
                self.refuse(&stream, &head, error.into(), now);
                if is_malformed(error) { stream.reset_for_fault(now) } else { Ok(()) }
            }
        }
    }
}

impl<S: Sock> Session<S> {
    fn begin(connection: &Rc<Connection<S>>) -> (Session<S>, FrameIo<S>) {
        // Not the snapshot: the connection may outlive it by days.
        let (limits, head_limits) = {
            let shared = &connection.current_snapshot().0.shared;
            (shared.limits, shared.head_limits())
        };
        let now = rt::now();
        let ours = OurSettings {
            streams_max: limits.h2_streams,
            initial_window_bytes: INITIAL_WINDOW_BYTES,
            // Never what holds a body up: the windows of all streams fit in.
            connection_window_bytes: (1 << 20) + INITIAL_WINDOW_BYTES.saturating_mul(limits.h2_streams),
            header_list_bytes_max: limits.header_bytes as u32,
            takes_protocol: connection.listener.offers_websocket(),
        };
        // Waiting for the preface and the first frames is as bounded as waiting for a head.
        connection.stream.sock.set_read_limit(ReadLimit::Until(now + limits.header_timeout));
        let shared = H2Shared::new(Role::Server, ours, head_limits, STREAM_WINDOW_BYTES, now);
        *connection.facts.streams.borrow_mut() = Rc::downgrade(&shared);
        let io = FrameIo::new(shared.clone(), connection.stream.clone());
        let session = Session {
            connection: connection.clone(),
            shared,
            requests: FuturesUnordered::new(),
            deadlines: Deadlines {
                draining: connection.listener.draining.waiter(),
                goodbye: None,
                told: false,
                said_goodbye_idle: false,
                was_used: true,
                tick: Box::pin(rt::sleep(limits.keep_alive / 2)),
                header_timeout: limits.header_timeout,
                head: None,
                is_beginning: true,
            },
        };
        (session, io)
    }

    /// A head that does not come whole is counted and logged as over HTTP/1.1, though nothing can answer it.
    #[cold]
    fn note_late_head(&self) {
        let head = RequestHead { version: Version::Http2, method: Method::Other, ..RequestHead::default() };
        let began = self.shared.head_began().unwrap_or_else(rt::now);
        self.connection.note_refusal(Refusal::HeaderTimeout, self.connection.client.ip(), None);
        self.connection.log_refused_head(&head, Refusal::HeaderTimeout, began, 0);
    }

    /// Ends the connection for what its client does.
    fn end(&self, why: &'static str) -> ConnectionEnd {
        let end = ConnectionEnd::Fault(ConnectionFault { code: ErrorCode::EnhanceYourCalm, why });
        self.shared.end(end);
        end
    }

    /// A head that is no request: answered and counted. The stream of a malformed one ends with an error behind that
    /// (RFC 9113 section 8.1.1).
    fn refuse(&self, stream: &StreamHandle, head: &RequestHead, refusal: Refusal, now: Instant) {
        self.connection.note_refusal(refusal, self.connection.client.ip(), None);
        let mut response: Pooled<ResponseHead> = Pooled::take();
        let mut buffer: Pooled<Vec<u8>> = Pooled::take();
        let mut body = refusal_body(&self.connection, refusal, &mut response, &mut buffer);
        let is_grpc = head.fields.is_grpc();
        if is_grpc {
            become_grpc(refusal.sentence(), refusal.reason(), &mut response);
            body = &[];
        }
        let is_bodiless = is_grpc || head.method == Method::Head;
        let mut is_answered = stream.send_response(&response, is_bodiless);
        if !is_bodiless {
            is_answered = is_answered.and_then(|()| stream.send(Buf::copy_of(body), true));
        }
        let sent = if is_answered.is_ok() && !is_bodiless { body.len() as u64 } else { 0 };
        self.connection.log_refused_head(head, refusal, now, sent);
    }
}

/// Not an `async fn`, which would have room for what it is given twice.
fn serve_stream<S: Sock>(
    connection: Rc<Connection<S>>,
    (head, admitted): (Pooled<RequestHead>, AdmittedRequest),
    (stream, opened): (StreamHandle, Opened),
    started: Instant,
) -> impl Future<Output = ()> {
    let place = connection.current_snapshot();
    let AdmittedRequest { framing, protocol } = admitted;
    // What follows an extended CONNECT is the tunnel's.
    let body = if opened.ends_stream || protocol.is_some() {
        BodyReader::Empty
    } else {
        BodyReader::H2(H2BodyReader::new(stream.clone(), None))
    };
    let responder = Responder::H2(H2Responder::new(stream));
    let mut exchange = request::receive(&connection, &place, Arrived { head, framing, body, responder, started });
    exchange.hop.upgrade = protocol;
    let worker = connection.worker.clone();
    drop(place);
    let served = async move {
        // Asked for again: kept until here, it would be there twice.
        let place = connection.current_snapshot();
        let ending = pin!(request::handle(&connection, place, &mut exchange)).await;
        if ending == Ending::Close {
            Box::pin(unread::read_on(&connection, exchange, unread::SILENCE_ON_STREAM)).await;
        }
    };
    contain(served, move || worker.metrics.panics_caught.increment())
}

/// Streams that were refused because those that are there hold all the memory that they may.
fn note_refused_streams<S: Sock>(connection: &Connection<S>, count: u32) {
    if count == 0 {
        return;
    }
    connection.worker.metrics.h2_streams_refused.add(count.into());
    if let Some(suppressed) = connection.worker.gates.refused.allow(Instant::now()) {
        tracing::warn!(client = %connection.client, count, suppressed, "HTTP/2 streams were refused: those that are open hold all the memory that they may");
    }
}

fn note_flood<S: Sock>(connection: &Connection<S>, flood: Flood) {
    connection.worker.metrics.h2_floods.increment(flood.reason());
    if let Some(suppressed) = connection.worker.gates.refused.allow(Instant::now()) {
        tracing::warn!(client = %connection.client, reason = flood.reason(), suppressed, "an HTTP/2 flood ended its connection");
    }
}
