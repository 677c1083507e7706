//! A tunnel, after `101 Switching Protocols`, on a stream of HTTP/2, or for a connection that is passed on: bytes both
//! ways until both sides have ended, with the pool's idle time between any two of them. A WebSocket whose listener is
//! left is told so by a close frame between two of its frames, a connection that is passed on ends at a moment of its
//! own; others are cut when the drain time is over.

use crate::listening::{ListenerState, Passthrough};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tidegate_message::h2::StreamHandle;
use tidegate_transport::{Buf, ReadLimit, Sock, Stream, rt};
use tidegate_wire::websocket::{Frames, GOING_AWAY, close_frame};

/// Counted as they are passed on, so that they are there also when the tunnel is cut.
#[derive(Debug, Default)]
pub struct TunnelBytes {
    /// From the client to the upstream.
    pub client: Cell<u64>,
    /// From the upstream to the client.
    pub upstream: Cell<u64>,
}

/// One side of a tunnel.
pub enum Side<'s, S> {
    Connection(&'s Stream<S>),
    /// A stream of HTTP/2, whose connection has others as well.
    Stream {
        stream: &'s StreamHandle,
        /// How long it may be silent, or take nothing.
        idle: Duration,
    },
}

impl<S> Clone for Side<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Side<'_, S> {}

impl<S: Sock> Side<'_, S> {
    /// What comes next; nothing at the end.
    async fn read(&self) -> io::Result<Buf> {
        match self {
            Side::Connection(stream) => stream.read().await,
            Side::Stream { stream, idle } => match rt::timeout(*idle, poll_fn(|cx| stream.poll_read(cx))).await {
                None => Err(io::ErrorKind::TimedOut.into()),
                Some(Ok(piece)) => Ok(piece.unwrap_or_else(Buf::empty)),
                Some(Err(_)) => Err(io::ErrorKind::ConnectionReset.into()),
            },
        }
    }

    async fn write(&self, piece: Buf) -> io::Result<()> {
        match self {
            Side::Connection(stream) => stream.write(piece).await,
            Side::Stream { stream, idle } => stream.send_body(piece, false, *idle).await,
        }
    }

    /// Whether all that comes from this side has come, read or not. A connection says so only when it is read.
    fn has_said_all(&self) -> bool {
        match self {
            Side::Connection(_) => false,
            Side::Stream { stream, .. } => stream.has_come_whole(),
        }
    }

    /// Ready when this side, of which nobody reads any more as it has said all, has given up the tunnel as well.
    fn poll_gone(&self, cx: &mut Context<'_>, watch: &mut ResetWatch) -> Poll<()> {
        match self {
            Side::Stream { stream, .. } => stream.poll_gone(cx),
            Side::Connection(stream) => watch.poll_until(cx, || stream.sock.is_reset_now()),
        }
    }

    /// Ends what is sent. A stream that is not ended by both is reset with CANCEL when it is let go (RFC 8441 section
    /// 5).
    async fn close(&self) {
        match self {
            Side::Connection(stream) => stream.close().await,
            // A stream that was reset has an end already.
            Side::Stream { stream, .. } => drop(stream.finish(None)),
        }
    }
}

/// Looks now and then whether a side was reset, of which nobody is told.
#[derive(Default)]
struct ResetWatch {
    next: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl ResetWatch {
    fn poll_until(&mut self, cx: &mut Context<'_>, is_so: impl Fn() -> bool) -> Poll<()> {
        loop {
            if let Some(next) = &mut self.next {
                ready!(next.as_mut().poll(cx));
            }
            if is_so() {
                return Poll::Ready(());
            }
            self.next = Some(Box::pin(rt::sleep(RESET_LOOK_INTERVAL)));
        }
    }
}

/// Why a tunnel ended that its two sides have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutBy {
    Idle,
    /// One side was reset, or could not be written to any more.
    Reset,
    /// The listener, or the route, is left.
    Drain,
}

impl CutBy {
    pub fn reason(self) -> &'static str {
        match self {
            CutBy::Idle => "tunnel_idle",
            CutBy::Reset => "tunnel_reset",
            CutBy::Drain => "draining",
        }
    }
}

/// How a tunnel ends whose listener is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    /// The frames of a WebSocket can be told apart, so a last one can be put behind them.
    CloseFrame,
    /// At a moment of its own: nobody knows where a last word would fit.
    AtMoment,
    /// When everything else is cut.
    WhenCut,
}

/// What ends a tunnel from outside.
pub struct Farewell<'a, S: Sock> {
    pub listener: &'a ListenerState<S>,
    /// Uniform bits; each tunnel has its own moment.
    pub random: u64,
    pub parting: Parting,
    /// Of a connection that is passed on: its route may be left while its listener stays.
    pub passthrough: Option<&'a Passthrough>,
}

/// Two turns of this many bytes, then the worker's other connections get theirs.
const TURN_BYTES: u64 = 1 << 20;
/// How soon a tunnel ends whose one side has ended what it sends and then resets its connection.
const RESET_LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// How long a client may take to answer our close frame with its own.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// `rest` is what the upstream sent behind its head. Either side may end while the other goes on (half-close). `None`:
/// both have ended.
pub async fn run<S: Sock>(
    client: Side<'_, S>,
    upstream: Side<'_, S>,
    rest: Buf,
    idle: Duration,
    farewell: Farewell<'_, S>,
    bytes: &TunnelBytes,
) -> Option<CutBy> {
    for side in [client, upstream] {
        if let Side::Connection(stream) = side {
            stream.sock.set_read_limit(ReadLimit::Idle(idle));
            stream.sock.set_write_idle(idle);
        }
    }
    let both = Both { activity: Cell::new(0), is_closing: Cell::new(false) };
    let has_frames = farewell.parting == Parting::CloseFrame;
    let up = Direction::new(&both, &bytes.client, has_frames);
    let down = Direction::new(&both, &bytes.upstream, has_frames);
    let ending = {
        let mut up_copy = pin!(up.copy(client, upstream, Buf::empty()));
        let mut down_copy = pin!(down.copy(upstream, client, rest));
        let (mut up_ended, mut down_ended) = (false, false);
        let (mut client_watch, mut upstream_watch) = (ResetWatch::default(), ResetWatch::default());
        let mut moment = Moment::new(&farewell);
        poll_fn(|cx| {
            if moment.has_come(cx) {
                if !has_frames {
                    return Poll::Ready(TunnelEnding::Cut(CutBy::Drain));
                }
                both.is_closing.set(true);
            }
            if !up_ended && let Poll::Ready(outcome) = up_copy.as_mut().poll(cx) {
                up_ended = true;
                if let Err(error) = outcome {
                    return Poll::Ready(TunnelEnding::Cut(cut_by(&error)));
                }
            }
            if !down_ended && let Poll::Ready(outcome) = down_copy.as_mut().poll(cx) {
                down_ended = true;
                if let Err(error) = outcome {
                    return Poll::Ready(TunnelEnding::Cut(cut_by(&error)));
                }
            }
            if both.is_closing.get() && down.is_between_frames() {
                return Poll::Ready(TunnelEnding::Farewell);
            }
            if up_ended && down_ended {
                return Poll::Ready(TunnelEnding::Both);
            }
            // The side that has ended is read no more, and may leave for good while the other is silent.
            let is_left = (up_ended && client.poll_gone(cx, &mut client_watch).is_ready())
                || (down_ended && upstream.poll_gone(cx, &mut upstream_watch).is_ready());
            if is_left { Poll::Ready(TunnelEnding::Cut(CutBy::Reset)) } else { Poll::Pending }
        })
        .await
    };
    match ending {
        TunnelEnding::Both => None,
        TunnelEnding::Cut(by) => Some(by),
        TunnelEnding::Farewell => {
            let mask = up.is_between_frames().then(|| (farewell.random as u32).to_be_bytes());
            say_goodbye(client, upstream, mask).await;
            Some(CutBy::Drain)
        }
    }
}

enum TunnelEnding {
    Both,
    Cut(CutBy),
    /// The listener is left, and the client is between two frames.
    Farewell,
}

/// What the two directions have in common.
struct Both {
    activity: Cell<u64>,
    is_closing: Cell<bool>,
}

struct Direction<'b> {
    both: &'b Both,
    bytes: &'b Cell<u64>,
    frames: Option<Cell<Frames>>,
    is_writing: Cell<bool>,
}

impl<'b> Direction<'b> {
    fn new(both: &'b Both, bytes: &'b Cell<u64>, has_frames: bool) -> Direction<'b> {
        let frames = has_frames.then(Cell::default);
        Direction { both, bytes, frames, is_writing: Cell::new(false) }
    }

    /// A frame of ours may follow what was passed on so far.
    fn is_between_frames(&self) -> bool {
        let Some(frames) = &self.frames else { return false };
        let frames = frames.get();
        !self.is_writing.get() && frames.is_at_boundary() && !frames.saw_close()
    }

    /// To the end of this direction; then the other side sees the end as well. When the tunnel is being closed it ends
    /// between two frames.
    async fn copy<S: Sock>(&self, from: Side<'_, S>, to: Side<'_, S>, first: Buf) -> io::Result<()> {
        let mut turn = 0;
        let mut data = first;
        loop {
            if !data.is_empty() {
                let is_last = self.follow_frames(&mut data);
                let count = data.len() as u64;
                self.bytes.set(self.bytes.get() + count);
                self.both.activity.set(self.both.activity.get() + 1);
                turn += count;
                self.is_writing.set(true);
                let written = to.write(data).await;
                self.is_writing.set(false);
                match written {
                    // RFC 9113 section 8.1: who has said all may take no more, and what it said is not lost.
                    Err(_) if to.has_said_all() => return Ok(()),
                    written => written?,
                }
                if is_last {
                    return Ok(());
                }
                if turn > TURN_BYTES {
                    turn = 0;
                    rt::yield_now().await;
                }
            }
            let seen = self.both.activity.get();
            data = match from.read().await {
                // This direction was silent; as long as the other is not, the tunnel is in use.
                Err(error) if error.kind() == io::ErrorKind::TimedOut && self.both.activity.get() != seen => Buf::empty(),
                Err(error) => return Err(error),
                Ok(data) if data.is_empty() => {
                    to.close().await;
                    return Ok(());
                }
                Ok(data) => data,
            };
        }
    }

    /// Says whether no more is to be passed on: a frame ends in these bytes, which are cut there, and the tunnel is
    /// being closed.
    fn follow_frames(&self, data: &mut Buf) -> bool {
        let Some(known) = &self.frames else { return false };
        let mut frames = known.get();
        let boundary = if self.both.is_closing.get() { frames.next_boundary(data) } else { None };
        if let Some(boundary) = boundary {
            data.truncate(boundary);
        }
        frames.advance(data);
        known.set(frames);
        boundary.is_some()
    }
}

/// When a tunnel of a listener that is left is ended. Each has a moment of its own, so that not all clients come back
/// at once.
struct Moment<'a, S: Sock> {
    farewell: &'a Farewell<'a, S>,
    listener_left: rt::Waiter,
    route_left: Option<rt::Waiter>,
    timer: Option<Pin<Box<dyn Future<Output = ()>>>>,
    has_come: bool,
}

impl<'a, S: Sock> Moment<'a, S> {
    fn new(farewell: &'a Farewell<'a, S>) -> Moment<'a, S> {
        Moment {
            farewell,
            listener_left: farewell.listener.closing.waiter(),
            route_left: farewell.passthrough.map(|passthrough| passthrough.leaving.waiter()),
            timer: None,
            has_come: farewell.parting == Parting::WhenCut,
        }
    }

    /// True once.
    fn has_come(&mut self, cx: &mut Context<'_>) -> bool {
        if self.has_come {
            return false;
        }
        if self.timer.is_none() {
            let Some(at) = self.settled(cx) else { return false };
            self.timer = Some(Box::pin(rt::sleep(at.saturating_duration_since(rt::now()))));
        }
        self.has_come = self.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready());
        self.has_come
    }

    /// `None` as long as nothing is left; both are watched.
    fn settled(&self, cx: &Context<'_>) -> Option<Instant> {
        let Farewell { listener, random, passthrough, .. } = self.farewell;
        let listener_left = self.listener_left.poll_set(cx).is_ready();
        let route_left = self.route_left.as_ref().is_some_and(|waiter| waiter.poll_set(cx).is_ready());
        let by_listener = if listener_left { listener.goodbye_at(*random) } else { None };
        let by_route = passthrough.filter(|_| route_left).and_then(|passthrough| passthrough.goodbye_at(*random));
        by_listener.into_iter().chain(by_route).min()
    }
}

/// RFC 6455 section 7.1.1: the side that closes sends a close frame, and waits a moment for the other's.
async fn say_goodbye<S: Sock>(client: Side<'_, S>, upstream: Side<'_, S>, mask: Option<[u8; 4]>) {
    let told = async {
        if let Some(mask) = mask {
            let _ = upstream.write(Buf::copy_of(close_frame(GOING_AWAY, Some(mask)).as_bytes())).await;
        }
        client.write(Buf::copy_of(close_frame(GOING_AWAY, None).as_bytes())).await?;
        client.close().await;
        while !client.read().await?.is_empty() {}
        io::Result::Ok(())
    };
    let _ = rt::timeout(CLOSE_WAIT, told).await;
}

fn cut_by(error: &io::Error) -> CutBy {
    match error.kind() {
        io::ErrorKind::TimedOut => CutBy::Idle,
        _ => CutBy::Reset,
    }
}
