//! A call over FastCGI: the request as records of one connection, which is the request's alone and is kept after it
//! where the pool keeps any. Which script is asked for and what it is told is the caller's, in [`ScriptRequest`]; how
//! records are made and read is in the crate `fastcgi`. The body of the answer is in `body`.

mod body;
mod complaints;

pub use self::body::FastCgiBody;

use self::complaints::{Complaints, TooMany};
use super::{ActiveConnection, Answer, AnswerBody, HeadKind, Keeping, SendFault, Start};
use crate::fault::{Progress, UpstreamFault};
use crate::pool::{H1Connection, Server, WorkerPool};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tidegate_fastcgi::record::{
    CONTENT_BYTES_MAX, FIRST_REQUEST, HEADER_BYTES, KeepConnection, RequestId, encode_begin_request, encode_stdin,
    encode_stdin_end, stdin_frame,
};
use tidegate_fastcgi::{AnswerError, AnswerHead, AnswerParser, Decoder, Event, Kind, ProtocolStatus, RecordError, answer};
use tidegate_model::KeepAlive;
use tidegate_telemetry::{EventGate, UpstreamError};
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_wire::head::{Method, ResponseHead};
use tidegate_wire::{BodyFraming, reason_phrase};

/// What a record of STDIN takes beside its content: header, padding, and the record that ends the body.
const STDIN_EXTRA_BYTES: usize = HEADER_BYTES + 7 + HEADER_BYTES;
/// Answers that are none, which a process logs per second.
static CAUSES: EventGate = EventGate::new(5);

/// What a script is told of its request.
#[derive(Debug)]
pub struct ScriptRequest {
    /// The records of PARAMS, the empty one at their end included.
    pub params: Vec<u8>,
    /// What those records call the request.
    pub id: RequestId,
    /// For the log, when the script complains.
    pub request_id: u128,
}

impl ScriptRequest {
    /// What a request is called where its connection is kept: another number than the one before it, so that an answer
    /// that comes too late is not taken for that of this request. Elsewhere the usual number, which every server knows.
    pub fn id_of(request_id: u128, keep_alive: &KeepAlive) -> RequestId {
        let id = if keep_alive.connections > 0 { RequestId::new(request_id as u16) } else { None };
        id.unwrap_or(FIRST_REQUEST)
    }
}

pub struct FastCgiCall<S: Sock> {
    /// What the request is called on its connection.
    id: Cell<RequestId>,
    pub connection: Box<H1Connection<S>>,
    server: Arc<str>,
    beginning: RefCell<Beginning>,
    reply: RefCell<Reply>,
    active: ActiveConnection<S>,
}

/// How far the head of the answer has come.
struct Beginning {
    parser: AnswerParser,
    /// Something has come.
    has_begun: bool,
}

/// What has come of the answer.
struct Reply {
    decoder: Decoder,
    complaints: Option<Complaints>,
    head: Option<AnswerHead>,
    /// What of the body was not handed out.
    at_hand: Buf,
}

impl<S: Sock> FastCgiCall<S> {
    pub(super) fn new(pool: &Rc<WorkerPool<S>>, position: usize, connection: Box<H1Connection<S>>) -> FastCgiCall<S> {
        FastCgiCall {
            id: Cell::new(FIRST_REQUEST),
            connection,
            server: pool.compiled.servers[position].authority.clone(),
            beginning: RefCell::new(Beginning { parser: AnswerParser::new(), has_begun: false }),
            reply: RefCell::new(Reply {
                decoder: Decoder::new(FIRST_REQUEST),
                complaints: None,
                head: None,
                at_hand: Buf::empty(),
            }),
            active: ActiveConnection::new(pool.clone()),
        }
    }

    /// Everything that is there at once, in as few sends as it fits into.
    pub(super) async fn send_head(&self, start: Start<'_>, idle: Duration) -> Result<(), SendFault> {
        let Start { script, first, is_whole, .. } = start;
        // The configuration sees to it that only scripts are asked of such a pool.
        let Some(script) = script else { return Err(UpstreamFault::unsent(UpstreamError::BadResponse).into()) };
        let pool = self.active.pool();
        self.reply.borrow_mut().complaints = Some(Complaints::new(self.server.clone(), script.request_id));
        let first = first.as_deref().unwrap_or_default();
        let (mut begin, mut behind) = (Vec::with_capacity(2 * HEADER_BYTES), Vec::with_capacity(first.len() + STDIN_EXTRA_BYTES));
        self.id.set(script.id);
        self.reply.borrow_mut().decoder = Decoder::new(script.id);
        let keep = if pool.compiled.model.keep_alive.connections > 0 { KeepConnection::Yes } else { KeepConnection::No };
        encode_begin_request(&mut begin, script.id, keep);
        encode_stdin(&mut behind, script.id, first);
        if is_whole {
            encode_stdin_end(&mut behind, script.id);
        }
        let stream = &self.connection.stream;
        stream.sock.set_write_idle(idle);
        let progress = if first.is_empty() { Progress::NothingSent } else { Progress::Sent };
        let sent = self.send_parts([&begin, &script.params, &behind]).await;
        sent.map_err(|_| UpstreamFault::new(UpstreamError::Reset, progress).into())
    }

    async fn send_parts(&self, parts: [&[u8]; 3]) -> io::Result<()> {
        let mut message = Buf::take_whole();
        for mut part in parts {
            while !part.is_empty() {
                if message.room() == 0 {
                    self.connection.stream.write(std::mem::replace(&mut message, Buf::take_whole())).await?;
                }
                let (now, later) = part.split_at(part.len().min(message.room()));
                message.extend(now);
                part = later;
            }
        }
        self.connection.stream.write(message).await
    }

    /// A piece of body as records of STDIN, in place where it fits into one.
    pub(super) async fn send_body(&self, piece: Buf, is_last: bool) -> io::Result<()> {
        let stream = &self.connection.stream;
        let fits = piece.len() <= CONTENT_BYTES_MAX && piece.room() >= STDIN_EXTRA_BYTES && piece.head_room() >= HEADER_BYTES;
        if fits {
            return stream.write(stdin(self.id.get(), piece, is_last)).await;
        }
        let mut parts = piece.chunks(CONTENT_BYTES_MAX / 2).peekable();
        while let Some(part) = parts.next() {
            stream.write(stdin(self.id.get(), Buf::copy_of(part), is_last && parts.peek().is_none())).await?;
        }
        Ok(())
    }

    /// Ends the body. Scripts have no place for trailers.
    pub(super) async fn finish(&self) -> io::Result<()> {
        self.connection.stream.write(stdin(self.id.get(), Buf::take(), true)).await
    }

    /// Reads until the head of the answer is there: what a script complains of before is no answer.
    pub(super) fn poll_begun(&self, cx: &mut Context<'_>) -> Poll<Result<(), UpstreamFault>> {
        if self.reply.borrow().head.is_some() {
            return Poll::Ready(Ok(()));
        }
        let mut beginning = self.beginning.borrow_mut();
        let Beginning { parser, has_begun } = &mut *beginning;
        let outcome = loop {
            match ready!(self.connection.stream.poll_read(cx)) {
                Err(error) => break Err(ReplyFault::Io(error)),
                Ok(data) if data.is_empty() => break Err(ReplyFault::Closed),
                Ok(data) => {
                    *has_begun = true;
                    match self.take_of_head(parser, &data) {
                        Ok(true) => break Ok(()),
                        Ok(false) => {}
                        Err(fault) => break Err(fault),
                    }
                }
            }
        };
        Poll::Ready(outcome.map_err(|fault| self.fault_of_head(&fault, *has_begun)))
    }

    /// One read's worth of records; whether the head is complete with it.
    fn take_of_head(&self, parser: &mut AnswerParser, data: &[u8]) -> Result<bool, ReplyFault> {
        let mut reply = self.reply.borrow_mut();
        let (mut head, mut body) = (None, Buf::empty());
        let ended = reply.decode(data, |mut piece| {
            if head.is_none()
                && let answer::Progress::Complete(complete) = parser.feed(&mut piece)?
            {
                head = Some(complete);
                // What is left of this read fits: a buffer takes in more than one read.
                body = Buf::take();
            }
            if head.is_some() {
                body.extend(piece);
            }
            Ok(())
        })?;
        match (head, ended) {
            (head, None | Some(ProtocolStatus::RequestComplete)) if head.is_some() => {
                (reply.head, reply.at_hand) = (head, body);
                Ok(true)
            }
            (_, None) => Ok(false),
            (_, Some(ProtocolStatus::RequestComplete)) => Err(parser.end_of_input().into()),
            (_, Some(refused)) => Err(ReplyFault::Refused(refused)),
        }
    }

    fn fault_of_head(&self, fault: &ReplyFault, has_begun: bool) -> UpstreamFault {
        let progress = if has_begun { Progress::Answering } else { Progress::Sent };
        let fault_of = |error| UpstreamFault::new(error, progress);
        match fault {
            ReplyFault::Io(error) if error.kind() == io::ErrorKind::TimedOut => return fault_of(UpstreamError::FirstByteTimeout),
            ReplyFault::Io(_) => return fault_of(UpstreamError::Reset),
            ReplyFault::Closed | ReplyFault::Record(RecordError::Truncated) => return fault_of(UpstreamError::ClosedEarly),
            // It has not looked at the request.
            ReplyFault::Refused(ProtocolStatus::Overloaded) => return UpstreamFault::unsent(UpstreamError::NoServer),
            ReplyFault::Record(_) | ReplyFault::Answer(_) | ReplyFault::Refused(_) | ReplyFault::TooManyComplaints => {}
        }
        if let Some(suppressed) = CAUSES.allow(rt::now()) {
            let (pool, server) = (&self.active.pool().compiled.name, &self.server);
            tracing::warn!(%pool, %server, cause = %fault, suppressed, "a script gave no answer");
        }
        // Not a byte of it was for this request: the connection is as good as closed, and the request can be sent
        // again.
        if self.id.get() != FIRST_REQUEST && matches!(fault, ReplyFault::Record(RecordError::WrongRequestId { .. })) {
            return UpstreamFault::new(UpstreamError::ClosedEarly, Progress::Sent);
        }
        fault_of(match fault {
            ReplyFault::Answer(AnswerError::HeadTooLarge | AnswerError::TooManyFields) => UpstreamError::HeadTooLarge,
            _ => UpstreamError::BadResponse,
        })
    }

    /// The script's head as one of HTTP. A redirect within this server goes by way of the client, so that its routes
    /// have their say.
    pub(super) fn take_head(&self, head: &mut ResponseHead) -> Result<HeadKind, UpstreamFault> {
        let reply = self.reply.borrow();
        let Some(answer) = &reply.head else { return Err(super::bad_response()) };
        head.clear();
        head.status = if answer.kind() == Kind::LocalRedirect { 302 } else { answer.status() };
        let reason = if answer.reason().is_empty() { reason_phrase(head.status).as_bytes() } else { answer.reason() };
        head.reason = head.fields.append(&[reason]);
        for (name, value) in answer.fields() {
            head.fields.push(name, value);
        }
        if let Some(length) = answer.content_length() {
            head.fields.push(b"content-length", itoa::Buffer::new().format(length).as_bytes());
        }
        Ok(HeadKind::Final)
    }

    pub(super) fn answer(&self, method: Method, idle: Duration) -> Result<Answer<'_, S>, UpstreamFault> {
        self.connection.stream.sock.set_read_limit(ReadLimit::Idle(idle));
        let reply = self.reply.borrow();
        let Some(head) = &reply.head else { return Err(super::bad_response()) };
        let method: &[u8] = if method == Method::Head { b"HEAD" } else { b"GET" };
        let whole = reply.decoder.is_finished().then_some(reply.at_hand.len() as u64);
        let (framing, left) = match (head.body_allowed(method), head.content_length(), whole) {
            (false, ..) => (BodyFraming::None, Some(0)),
            // It is over, and the script promised more.
            (true, Some(length), Some(whole)) if whole < length => {
                return Err(UpstreamFault::new(UpstreamError::BodyCut, Progress::Answering));
            }
            (true, Some(length), _) | (true, None, Some(length)) => (BodyFraming::Length(length), Some(length)),
            (true, None, None) => (BodyFraming::Chunked, None),
        };
        let keeping = Keeping { is_reusable: true, announced_seconds: None };
        let body = FastCgiBody { stream: &self.connection.stream, reply: &self.reply, left };
        Ok(Answer { framing, body: AnswerBody::FastCgi(body), keeping, switched: None })
    }

    /// The connection is kept when the request on it is over, which the end of its body does not say.
    pub(super) fn give_back(self, server: &Server<S>, keeping: Keeping) -> Option<Instant> {
        let FastCgiCall { connection, reply, active, .. } = self;
        drop(active);
        let is_over = reply.into_inner().decoder.is_reusable() && connection.stream.is_clean();
        if !keeping.is_reusable || !is_over {
            return None;
        }
        let now = rt::now();
        server.put_idle(connection, now);
        Some(now)
    }
}

impl Reply {
    /// One read's worth of records. Says how the request ended, if it did.
    fn decode(
        &mut self,
        data: &[u8],
        mut stdout: impl FnMut(&[u8]) -> Result<(), ReplyFault>,
    ) -> Result<Option<ProtocolStatus>, ReplyFault> {
        let mut input = data;
        let mut ended = None;
        while let Some(event) = self.decoder.feed(&mut input)? {
            match event {
                Event::Stdout(piece) => stdout(piece)?,
                Event::Stderr(piece) => self.complaints.iter_mut().try_for_each(|complaints| complaints.add(piece))?,
                // Answers to what was not asked say nothing about the request.
                Event::Values(_) | Event::UnknownType(_) => {}
                Event::End { protocol_status, .. } => ended = Some(protocol_status),
            }
        }
        Ok(ended)
    }
}

fn stdin(id: RequestId, mut piece: Buf, is_last: bool) -> Buf {
    if let Some(frame) = stdin_frame(id, piece.len()) {
        piece.prepend(&frame.header);
        piece.extend(frame.padding);
    }
    if is_last {
        let mut end = Vec::with_capacity(HEADER_BYTES);
        encode_stdin_end(&mut end, id);
        piece.extend(&end);
    }
    piece
}

/// Why there is no answer, or no more of it.
#[derive(Debug)]
enum ReplyFault {
    Io(io::Error),
    /// The connection ended before the request did.
    Closed,
    Record(RecordError),
    Answer(AnswerError),
    /// The application ended the request without an answer.
    Refused(ProtocolStatus),
    TooManyComplaints,
}

impl From<RecordError> for ReplyFault {
    fn from(error: RecordError) -> ReplyFault {
        ReplyFault::Record(error)
    }
}

impl From<AnswerError> for ReplyFault {
    fn from(error: AnswerError) -> ReplyFault {
        ReplyFault::Answer(error)
    }
}

impl From<TooMany> for ReplyFault {
    fn from(_: TooMany) -> ReplyFault {
        ReplyFault::TooManyComplaints
    }
}

impl fmt::Display for ReplyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyFault::Io(error) => error.fmt(f),
            ReplyFault::Closed => f.write_str("the application closed the connection before the end of the request"),
            ReplyFault::Record(error) => error.fmt(f),
            ReplyFault::Answer(error) => error.fmt(f),
            ReplyFault::Refused(status) => status.fmt(f),
            ReplyFault::TooManyComplaints => f.write_str("the script wrote more to STDERR than anybody would read"),
        }
    }
}
