//! A tunnel after `101 Switching Protocols`: bytes both ways until both sides have ended, with the pool's idle time between any two of them.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tidegate_transport::{Buf, ReadLimit, Sock, Stream, rt};

pub struct TunnelOutcome {
    /// Bytes from the client to the upstream.
    pub client_bytes: u64,
    /// Why it ended, unless both sides ended it.
    pub reason: Option<&'static str>,
}

/// Two turns of this many bytes, then the worker's other connections get theirs.
const TURN_BYTES: u64 = 1 << 20;

/// `rest` is what the upstream sent behind its head. Either side may end while the other goes on (half-close).
pub async fn run<S: Sock>(client: &Stream<S>, upstream: &Stream<S>, rest: Buf, idle: Duration) -> TunnelOutcome {
    for stream in [client, upstream] {
        stream.sock.set_read_limit(ReadLimit::Idle(idle));
        stream.sock.set_write_idle(idle);
    }
    let (client_bytes, moved) = (Cell::new(0), Cell::new(0));
    let activity = Cell::new(0);
    let mut up = pin!(copy(client, upstream, Buf::empty(), &client_bytes, &activity));
    let mut down = pin!(copy(upstream, client, rest, &moved, &activity));
    let (mut up_ended, mut down_ended) = (false, false);
    let reason = poll_fn(|cx| {
        if !up_ended && let Poll::Ready(outcome) = up.as_mut().poll(cx) {
            up_ended = true;
            if let Err(error) = outcome {
                return Poll::Ready(Some(reason_of(&error)));
            }
        }
        if !down_ended && let Poll::Ready(outcome) = down.as_mut().poll(cx) {
            down_ended = true;
            if let Err(error) = outcome {
                return Poll::Ready(Some(reason_of(&error)));
            }
        }
        if up_ended && down_ended { Poll::Ready(None) } else { Poll::Pending }
    })
    .await;
    TunnelOutcome { client_bytes: client_bytes.get(), reason }
}

/// One direction, to its end; then the other side sees the end as well.
async fn copy<S: Sock>(from: &Stream<S>, to: &Stream<S>, first: Buf, bytes: &Cell<u64>, activity: &Cell<u64>) -> io::Result<()> {
    let mut turn = 0;
    let mut data = first;
    loop {
        if !data.is_empty() {
            let count = data.len() as u64;
            bytes.set(bytes.get() + count);
            activity.set(activity.get() + 1);
            turn += count;
            to.write(data).await?;
            if turn > TURN_BYTES {
                turn = 0;
                rt::yield_now().await;
            }
        }
        let seen = activity.get();
        data = match from.read().await {
            // This direction was silent; as long as the other is not, the tunnel is in use.
            Err(error) if error.kind() == io::ErrorKind::TimedOut && activity.get() != seen => Buf::empty(),
            Err(error) => return Err(error),
            Ok(data) if data.is_empty() => {
                to.close().await;
                return Ok(());
            }
            Ok(data) => data,
        };
    }
}

fn reason_of(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::TimedOut => "tunnel_idle",
        _ => "tunnel_reset",
    }
}
