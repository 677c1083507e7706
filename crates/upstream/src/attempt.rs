//! A request that is all there, sent to one server until its answer begins: for `hedge`, which asks two, and for
//! `mirror`, which asks on the side. A request whose body is still on its way goes another way, in `proxy::forward`.

use crate::call::{Call, ScriptRequest, SendFault, Start};
use crate::connect::{self, Need, Opener, OpeningTook};
use crate::fault::{Progress, UpstreamFault, Was};
use crate::pool::WorkerPool;
use crate::retry::{first_byte_until, open_until};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Instant;
use tidegate_model::Timeouts;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_wire::head::RequestHead;

/// A request that was sent, and whose answer has begun.
pub struct Begun<S: Sock> {
    pub call: Call<S>,
    pub sent_at: Instant,
    /// What its connection took, where one was opened.
    pub took: OpeningTook,
}

/// A request that is all there.
pub struct Whole<'r> {
    pub head: &'r RequestHead,
    pub body: &'r [u8],
    /// Whether the head says that the body is chunked; then it has none.
    pub is_chunked: bool,
    pub wants_trailers: bool,
    pub script: Option<&'r ScriptRequest>,
    pub need: Need,
    /// Set where a head was coming when the waiting for it ended.
    pub heard: Option<&'r Cell<bool>>,
    /// Who opens a connection, where one has to be.
    pub opener: &'r dyn Fn() -> Opener,
    pub timeouts: Timeouts,
}

/// Sends the request to one server and waits for the beginning of its answer.
pub async fn begin<S: Sock>(
    pool: &Rc<WorkerPool<S>>,
    position: usize,
    whole: &Whole<'_>,
    try_until: Option<Instant>,
) -> Result<Begun<S>, (SendFault, Was)> {
    pool.count_request(position);
    let mut took = OpeningTook::default();
    let connection = match connect::take(pool, position, whole.need) {
        Some(connection) => connection,
        None => {
            // Two attempts may open at the same time.
            let opener = (whole.opener)();
            let opening = connect::open(pool, position, whole.need, &opener);
            let opened = open_until(try_until, opening).await.map_err(|fault| (fault.into(), Was::Fresh))?;
            took = opener.took.get();
            opened
        }
    };
    let call = Call::new(pool, position, connection);
    let sent = {
        let waiting = whole.heard.map(|heard| AnswerAwaited { call: &call, heard });
        let sent = send(&call, whole, try_until).await;
        if sent.is_ok() {
            // Another's head may be coming.
            std::mem::forget(waiting);
        }
        sent
    };
    match sent {
        Ok(sent_at) => Ok(Begun { call, sent_at, took }),
        Err(fault) => Err((fault, call.was())),
    }
}

/// The time in which an answer may begin; who waits may have no more of it any moment.
struct AnswerAwaited<'c, S: Sock> {
    call: &'c Call<S>,
    heard: &'c Cell<bool>,
}

impl<S: Sock> Drop for AnswerAwaited<'_, S> {
    fn drop(&mut self) {
        self.heard.set(self.heard.get() || self.call.is_head_coming());
    }
}

async fn send<S: Sock>(call: &Call<S>, whole: &Whole<'_>, try_until: Option<Instant>) -> Result<Instant, SendFault> {
    let mut pieces = whole.body.chunks(tidegate_transport::buffer::CAPACITY).peekable();
    let first = pieces.next().map(Buf::copy_of);
    let start = Start {
        head: whole.head,
        first,
        is_chunked: whole.is_chunked,
        wants_trailers: whole.wants_trailers,
        protocol: None,
        script: whole.script,
        is_whole: pieces.peek().is_none(),
    };
    call.send_head(start, whole.timeouts.idle).await?;
    while let Some(piece) = pieces.next() {
        let sent = call.send_body(Buf::copy_of(piece), pieces.peek().is_none()).await;
        sent.map_err(|_| UpstreamFault::new(UpstreamError::Reset, Progress::Sent))?;
    }
    let sent_at = rt::now();
    call.set_read_limit(ReadLimit::Until(first_byte_until(sent_at, whole.timeouts.first_byte, try_until)));
    poll_fn(|cx| call.poll_begun(cx)).await?;
    Ok(sent_at)
}
