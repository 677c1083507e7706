//! A call over HTTP/1.1: the connection is the request's alone, and is kept after it where that is safe.

use super::{ActiveConnection, Answer, AnswerBody, HeadKind, INTERIM_MAX, Keeping, SendFault, SendingHead, Start, bad_response};
use crate::connect::causes::log_broken_tls;
use crate::fault::{Progress, UpstreamFault, upstream_read_error};
use crate::pool::{H1Connection, Server, WorkerPool};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tidegate_message::body::H1BodyReader;
use tidegate_message::h1::{chunk, encode_request, send_last_chunk};
use tidegate_message::read_head::{HeadFault, read_rest_of_head};
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_wire::chunked::Peer;
use tidegate_wire::head::{Fields, Method, ResponseHead};
use tidegate_wire::http1::{keep_alive_response, keep_alive_timeout_seconds, parse_response, response_framing};
use tidegate_wire::{BodyError, BodyFraming, HeadError, HeadLimits, Parsed};

pub struct H1Call<S: Sock> {
    pub connection: Box<H1Connection<S>>,
    is_chunked: Cell<bool>,
    /// What came of the answer and was not read on: behind an interim head, or behind the final one.
    at_hand: Cell<Buf>,
    interims: Cell<u8>,
    active: ActiveConnection<S>,
}

impl<S: Sock> H1Call<S> {
    pub(super) fn new(pool: &Rc<WorkerPool<S>>, connection: Box<H1Connection<S>>) -> H1Call<S> {
        let active = ActiveConnection::new(pool.clone());
        connection.is_in_exchange.set(true);
        H1Call { connection, is_chunked: Cell::new(false), at_hand: Cell::new(Buf::empty()), interims: Cell::new(0), active }
    }

    #[inline]
    pub(super) fn send_head(&self, start: Start<'_>, idle: Duration) -> SendingHead<'_, S> {
        let Start { head, first, is_chunked, is_whole, .. } = start;
        // The kernel did not take all of it, so no server has a whole request; with part of a body it may have begun to
        // act all the same.
        let progress = if first.is_some() || !is_whole { Progress::Sent } else { Progress::NothingSent };
        let Ok(message) = encode_request(head, first, is_chunked, is_whole) else {
            return SendingHead::Over(Err(SendFault::Unsendable(BodyError::TrailersTooLarge)));
        };
        self.is_chunked.set(is_chunked);
        let stream = &self.connection.stream;
        stream.sock.set_write_idle(idle);
        SendingHead::H1 { writing: stream.write(message), progress }
    }

    pub(super) async fn send_body(&self, piece: Buf, is_last: bool) -> io::Result<()> {
        let piece = if self.is_chunked.get() { chunk(piece, is_last) } else { piece };
        self.connection.stream.write(piece).await
    }

    pub(super) async fn finish(&self, trailers: Option<&Fields>) -> io::Result<()> {
        if self.is_chunked.get() { send_last_chunk(&self.connection.stream, trailers).await } else { Ok(()) }
    }

    #[inline]
    pub(super) fn poll_begun(&self, cx: &mut Context<'_>) -> Poll<Result<(), UpstreamFault>> {
        let mut data = self.at_hand.replace(Buf::empty());
        if data.is_empty() {
            data = self.first_of_head(ready!(self.connection.stream.poll_read(cx)))?;
        }
        self.at_hand.set(data);
        Poll::Ready(Ok(()))
    }

    /// The first piece of an answer, or why there is none.
    fn first_of_head(&self, read: io::Result<Buf>) -> Result<Buf, UpstreamFault> {
        match read {
            Ok(data) if data.is_empty() => Err(UpstreamFault::new(UpstreamError::ClosedEarly, Progress::Sent)),
            Ok(data) => Ok(data),
            Err(error) => {
                let fault = upstream_read_error(&error);
                if matches!(fault, UpstreamError::TlsFailed | UpstreamError::TlsRefused) {
                    log_broken_tls(Some(&self.active.pool().compiled.name.0), fault, &error);
                }
                Err(UpstreamFault::new(fault, Progress::Sent))
            }
        }
    }

    #[inline]
    pub(super) fn take_head(&self, limits: &HeadLimits, head: &mut ResponseHead) -> Result<Option<HeadKind>, UpstreamFault> {
        let mut data = self.at_hand.replace(Buf::empty());
        match parse_response(&data, limits, head) {
            Ok(Parsed::Complete { consumed }) => {
                data.advance(consumed);
                self.at_hand.set(data);
                self.kind_of(head).map(Some)
            }
            Ok(Parsed::Partial) => {
                self.at_hand.set(data);
                Ok(None)
            }
            Err(error) => Err(head_fault(HeadFault::Bad(error))),
        }
    }

    pub(super) async fn read_rest_of_head(
        &self,
        limits: &HeadLimits,
        head: &mut ResponseHead,
    ) -> Result<HeadKind, UpstreamFault> {
        let data = self.at_hand.replace(Buf::empty());
        let parse = |data: &[u8]| parse_response(data, limits, head);
        let rest = read_rest_of_head(&self.connection.stream, data, limits.head_bytes_max, None, parse).await;
        self.at_hand.set(rest.map_err(head_fault)?);
        self.kind_of(head)
    }

    /// Whether another head follows the one that was read; there is a bound to how many may.
    fn kind_of(&self, head: &ResponseHead) -> Result<HeadKind, UpstreamFault> {
        if head.status >= 200 || head.status == 101 {
            return Ok(HeadKind::Final);
        }
        self.interims.set(self.interims.get() + 1);
        if self.interims.get() > INTERIM_MAX { Err(bad_response()) } else { Ok(HeadKind::Interim) }
    }

    pub(super) fn answer(
        &self,
        head: &ResponseHead,
        method: Method,
        idle: Duration,
        limits: &HeadLimits,
    ) -> Result<Answer<'_, S>, UpstreamFault> {
        let stream = &self.connection.stream;
        stream.sock.set_read_limit(ReadLimit::Idle(idle));
        let rest = self.at_hand.replace(Buf::empty());
        let framing = response_framing(head, method).map_err(|_| bad_response())?;
        let keeping = Keeping {
            is_reusable: keep_alive_response(head) && framing != BodyFraming::UntilClose,
            announced_seconds: keep_alive_timeout_seconds(head).map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX)),
        };
        if head.status == 101 {
            // Whoever has the tunnel ends it.
            self.connection.is_in_exchange.set(false);
            return Ok(Answer { framing, body: AnswerBody::Empty, keeping, switched: Some(rest) });
        }
        Ok(Answer {
            framing,
            body: AnswerBody::H1(H1BodyReader::new(stream, framing, Peer::Upstream, limits, rest)),
            keeping,
            switched: None,
        })
    }

    pub(super) fn give_back(self, server: &Server<S>, keeping: Keeping) -> Option<Instant> {
        let H1Call { connection, active, .. } = self;
        drop(active);
        connection.is_in_exchange.set(false);
        if let Some(seconds) = keeping.announced_seconds {
            server.learn_announced(seconds.into());
        }
        if !keeping.is_reusable || !connection.stream.is_clean() {
            return None;
        }
        let now = rt::now();
        server.put_idle(connection, now);
        Some(now)
    }
}

fn head_fault(fault: HeadFault) -> UpstreamFault {
    let error = match fault {
        HeadFault::Io(error) => upstream_read_error(&error),
        HeadFault::Cut => UpstreamError::ClosedEarly,
        HeadFault::Bad(HeadError::HeadTooLarge | HeadError::TooManyFields) => UpstreamError::HeadTooLarge,
        HeadFault::Bad(_) => UpstreamError::BadResponse,
    };
    UpstreamFault::new(error, Progress::Answering)
}
