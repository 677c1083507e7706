//! A request that is all there, sent to one server until its answer begins: for `hedge`, which asks two, and for `mirror`, which asks on the side. One whose body
//! is still on its way goes another way, in `forward`.

use super::Was;
use super::reply::{H2Head, first_of_head, h2_error, h2_reach, next_h2_head};
use crate::exchange::{RequestWriter, encode_request};
use crate::failure::{ClientFault, Failure};
use crate::h2_head;
use std::rc::Rc;
use std::time::Instant;
use tidegate_model::Timeouts;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_upstream::connect::{self, Need, Opener, h2 as upstream_h2};
use tidegate_upstream::fault::Reach;
use tidegate_upstream::pool::{H1Connection, WorkerPool};
use tidegate_upstream::retry::{first_byte_until, open_until};
use tidegate_wire::head::RequestHead;

/// A request that was sent, and whose answer has begun.
pub(crate) enum Begun<S: Sock> {
    H1 { connection: H1Connection<S>, first: Buf, sent_at: Instant },
    H2 { lease: upstream_h2::Lease, response: Box<::h2::client::ResponseFuture>, head: H2Head, sent_at: Instant },
}

/// How one attempt did.
pub(crate) type Outcome<S> = Result<Begun<S>, (Failure, Was)>;

/// A request that is all there.
pub(crate) struct Whole<'r> {
    pub head: &'r RequestHead,
    pub body: &'r [u8],
    /// Its head says so; then it has no body.
    pub chunked: bool,
    pub trailers_wanted: bool,
    pub need: Need,
    pub opener: Opener,
    pub timeouts: Timeouts,
}

/// Sends the request to one server and waits for the beginning of its answer.
pub(crate) async fn begin<S: Sock>(
    pool: &Rc<WorkerPool<S>>,
    position: usize,
    whole: &Whole<'_>,
    try_until: Option<Instant>,
) -> Outcome<S> {
    let connection = match connect::take(pool, position, whole.need) {
        Some(connection) => connection,
        None => {
            let opening = connect::open(pool, position, whole.need, &whole.opener);
            open_until(try_until, opening).await.map_err(|fault| (fault.into(), Was::Fresh))?
        }
    };
    pool.metrics.requests.increment();
    pool.servers[position].own_metrics.requests.increment();
    match connection {
        connect::Connection::H1(connection) => {
            let was = if connection.idle_before.is_some() { Was::Pooled } else { Was::Fresh };
            begin_h1(connection, whole, try_until).await.map_err(|failure| (failure, was))
        }
        connect::Connection::H2(lease) => begin_h2(pool, lease, whole, try_until).await.map_err(|failure| (failure, Was::Shared)),
    }
}

async fn begin_h1<S: Sock>(
    connection: H1Connection<S>,
    whole: &Whole<'_>,
    try_until: Option<Instant>,
) -> Result<Begun<S>, Failure> {
    let bad_head = |_| Failure::Client(ClientFault::BadBody(tidegate_wire::BodyError::TrailersTooLarge));
    let mut pieces = whole.body.chunks(tidegate_transport::buffer::CAPACITY).map(Buf::copy_of);
    let message = encode_request(whole.head, pieces.next(), whole.chunked, true).map_err(bad_head)?;
    let stream = &connection.stream;
    stream.sock.set_write_idle(whole.timeouts.idle);
    stream.write(message).await.map_err(|_| Failure::upstream(UpstreamError::Reset, Reach::NothingSent))?;
    for piece in pieces {
        stream.write(piece).await.map_err(|_| Failure::upstream(UpstreamError::Reset, Reach::Sent))?;
    }
    let sent_at = rt::now();
    stream.sock.set_read_limit(ReadLimit::Until(first_byte_until(sent_at, whole.timeouts.first_byte, try_until)));
    let first = first_of_head(stream.read().await)?;
    Ok(Begun::H1 { connection, first, sent_at })
}

async fn begin_h2<S: Sock>(
    pool: &WorkerPool<S>,
    lease: upstream_h2::Lease,
    whole: &Whole<'_>,
    try_until: Option<Instant>,
) -> Result<Begun<S>, Failure> {
    let scheme = if pool.compiled.tls.is_some() { "https" } else { "http" };
    let request = h2_head::request(whole.head, scheme, whole.trailers_wanted)
        .ok_or(Failure::Client(ClientFault::BadBody(tidegate_wire::BodyError::BadTrailer)))?;
    let refused = |error: ::h2::Error| {
        lease.retire();
        Failure::upstream(h2_error(&error), Reach::NothingSent)
    };
    let ready = rt::timeout(whole.timeouts.connect, lease.sender.clone().ready()).await;
    let mut sender = ready.ok_or(Failure::upstream(UpstreamError::PoolFull, Reach::NothingSent))?.map_err(refused)?;
    let (response, sending) = sender.send_request(request, whole.body.is_empty()).map_err(refused)?;
    let mut response = Box::new(response);
    let mut writer: RequestWriter<'_, S> = RequestWriter::H2 { sending, idle: whole.timeouts.idle };
    let mut pieces = whole.body.chunks(tidegate_transport::buffer::CAPACITY).peekable();
    while let Some(piece) = pieces.next() {
        let sent = writer.send_body(Buf::copy_of(piece), pieces.peek().is_none()).await;
        sent.map_err(|_| Failure::upstream(UpstreamError::Reset, Reach::Sent))?;
    }
    let sent_at = rt::now();
    let limit = first_byte_until(sent_at, whole.timeouts.first_byte, try_until).saturating_duration_since(sent_at);
    let head = rt::timeout(limit, next_h2_head(&mut response)).await;
    let head = head.ok_or(Failure::upstream(UpstreamError::FirstByteTimeout, Reach::Sent))?;
    let head = head.map_err(|error| Failure::upstream(h2_error(&error), h2_reach(&error)))?;
    Ok(Begun::H2 { lease, response, head, sent_at })
}
