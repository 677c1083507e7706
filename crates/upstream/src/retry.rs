//! Whether a request that failed is sent again, and where: only what is safe, only so often, and never so much that an
//! outage is multiplied.

use crate::fault::{Progress, UpstreamFault, Was};
use crate::pool::{Server, WorkerPool};
use crate::shared::Permit;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_balancing::{Candidate, HealthStatus};
use tidegate_model::Retry;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Sock, rt};

/// Attempts at one request, the first included.
const TRIES_MAX: usize = Retry::ATTEMPTS_MAX as usize + 1 + REPAIRS_MAX as usize;
/// Kept connections that end under one request before it counts as failed.
const REPAIRS_MAX: u8 = 2;
/// Connections of HTTP/2 that end by GOAWAY before the server looked at one request, while it took others on each: as
/// many as there are requests on a connection. Each such connection answers one of them at least, so those that are
/// sent again together are fewer each time.
const PASSED_OVER_MAX: u8 = 100;
/// Servers that leave their pool while one request is on its way to them.
const MOVES_MAX: u8 = 16;

/// A connection may take that long, however little time is left.
const CONNECT_LEAST: Duration = Duration::from_millis(100);

/// Where a request has been. What only those need that were sent more than once is apart: every request that waits has
/// room for this.
#[derive(Default)]
pub struct Tries {
    /// The server that it was sent to first.
    first: usize,
    count: u8,
    repairs: u8,
    passed_over: u8,
    moves: u8,
    more: Option<Box<MoreTries>>,
}

/// Of a request that failed somewhere.
struct MoreTries {
    positions: [usize; TRIES_MAX],
    /// How many of them may be tried anew, since it has waited.
    forgotten: u8,
    /// The same server once more, over a connection of its own and in the place that the request has.
    again: Option<(usize, Option<Permit>)>,
    needs_fresh: Option<usize>,
    /// By when a server has to be reached, once none was and the request has waited.
    awaited_until: Option<Instant>,
}

impl Tries {
    pub fn tried(&self) -> &[usize] {
        match &self.more {
            Some(more) => &more.positions[usize::from(more.forgotten.min(self.count))..usize::from(self.count)],
            None => &std::slice::from_ref(&self.first)[..usize::from(self.count.min(1))],
        }
    }

    /// Whether this is not its first attempt.
    pub fn is_again(&self) -> bool {
        self.count + self.passed_over > 1 || self.moves > 0 || self.awaited_until().is_some()
    }

    /// By when a server has to be reached, if the request has waited for one.
    pub fn awaited_until(&self) -> Option<Instant> {
        self.more.as_ref()?.awaited_until
    }

    /// The request has waited for a server, which it may do until then: those that could not be reached may be there
    /// again.
    pub fn forget_servers(&mut self, until: Instant) {
        *self = Tries { moves: self.moves, ..Tries::default() };
        self.more().awaited_until = Some(until);
    }

    /// The request has waited for its next attempt: where all have been tried, none has.
    pub(crate) fn begin_anew<S: Sock>(&mut self, pool: &WorkerPool<S>) {
        if !has_untried(pool, self.tried(), rt::now()) {
            let count = self.count;
            self.more().forgotten = count;
        }
    }

    /// The server has left its pool before anything was sent to it, and the request turns to those that are there now.
    /// False: that was so too often.
    pub(crate) fn move_on(&mut self) -> bool {
        let (moves, awaited) = (self.moves + 1, self.awaited_until());
        if moves > MOVES_MAX {
            return false;
        }
        *self = Tries { moves, ..Tries::default() };
        if awaited.is_some() {
            self.more().awaited_until = awaited;
        }
        true
    }

    /// What its attempts took where none of them came to a connection within this.
    pub(crate) fn took_at_most(&self, connect: Duration) -> Duration {
        connect * u32::from(self.count)
    }

    /// How long a connection may take. A request that has waited for a server has to reach one by then.
    pub fn connect_within(&self, connect: Duration) -> Duration {
        match self.awaited_until() {
            None => connect,
            Some(until) => connect.min(until.saturating_duration_since(rt::now()).max(CONNECT_LEAST)),
        }
    }

    /// An attempt at a server.
    pub fn begin(&mut self, position: usize) {
        if self.count == 0 && self.more.is_none() {
            (self.first, self.count) = (position, 1);
            return;
        }
        let count = usize::from(self.count);
        if let Some(place) = self.more().positions.get_mut(count) {
            *place = position;
            self.count += 1;
        }
    }

    /// Has the request sent to that server once more, where the connection was at fault.
    pub fn begin_again_at(&mut self, position: usize, permit: Option<Permit>) {
        self.more().again = Some((position, permit));
    }

    /// The server that is to be tried once more, and the place that the request has there.
    pub fn take_again(&mut self) -> Option<(usize, Option<Permit>)> {
        self.more.as_mut()?.again.take()
    }

    /// The connection that just failed had been kept; the server's others may be as old.
    pub fn needs_fresh(&mut self, position: usize) -> bool {
        self.more.as_mut().is_some_and(|more| more.needs_fresh.take() == Some(position))
    }

    fn more(&mut self) -> &mut MoreTries {
        let first = self.first;
        self.more.get_or_insert_with(|| {
            let mut positions = [usize::MAX; TRIES_MAX];
            positions[0] = first;
            Box::new(MoreTries { positions, forgotten: 0, again: None, needs_fresh: None, awaited_until: None })
        })
    }

    /// Times that it was sent again because of a server.
    pub fn retries(&self) -> usize {
        usize::from(self.count.saturating_sub(1 + self.repairs))
    }

    /// RFC 9110 section 9.2.2: again only what did not reach the server, or does the same when done twice.
    pub fn judge<S: Sock>(
        &mut self,
        pool: &WorkerPool<S>,
        fault: UpstreamFault,
        was: Was,
        position: usize,
        terms: &Terms<'_>,
    ) -> NextTry {
        let is_safe = match fault.progress {
            Progress::NothingSent | Progress::PassedOver => true,
            Progress::Sent => terms.is_idempotent,
            Progress::Answering => false,
        };
        if !terms.is_whole || !is_safe {
            return NextTry::None;
        }
        // RFC 9113 section 8.7: the server is well, and asks for another connection. The attempt does not count.
        if fault.progress == Progress::PassedOver && self.passed_over < PASSED_OVER_MAX {
            self.passed_over += 1;
            self.count = self.count.saturating_sub(1);
            return NextTry::SameServer(position);
        }
        if was.is_race(fault) && self.repairs < REPAIRS_MAX {
            self.repairs += 1;
            self.more().needs_fresh = was.ends_with_others(fault).then_some(position);
            return NextTry::SameServer(position);
        }
        let Some(retry) = terms.retry else { return NextTry::None };
        let now = rt::now();
        let is_late = terms.try_until.is_some_and(|until| now >= until);
        if !is_retried(retry, fault, is_late) || self.retries() >= usize::from(retry.attempts) {
            return NextTry::None;
        }
        // The budget is for requests that have somewhere to go; for one that is full they wait.
        let may_repeat = retry.backoff.is_some();
        if !has_untried(pool, if may_repeat { &[] } else { self.tried() }, now) {
            return NextTry::None;
        }
        // An answer by status was counted when it was given up.
        if fault.error != UpstreamError::BadStatus && !pool.take_from_budget(retry.budget_percent, terms.since_start) {
            return NextTry::None;
        }
        NextTry::Another
    }
}

/// What decides whether something that failed may be tried again.
pub struct Terms<'a> {
    /// None: at one server only.
    pub retry: Option<&'a Retry>,
    /// Whether the request does the same when done twice.
    pub is_idempotent: bool,
    /// All of it is still there, and nothing of an answer went anywhere.
    pub is_whole: bool,
    /// By when the attempt had to have an answer.
    pub try_until: Option<Instant>,
    /// The time of the process.
    pub since_start: Duration,
}

pub enum NextTry {
    None,
    /// The connection was at fault, not the server.
    SameServer(usize),
    Another,
}

/// Whether an attempt may be given up for another server's: one that is not believed to be down, has a place, and has
/// not been tried. A slow or unhappy answer is better than none.
pub fn has_another<S: Sock>(pool: &WorkerPool<S>, tried: &[usize]) -> bool {
    let now = rt::now();
    untried(pool, tried).any(|server| matches!(server.health_status(now), HealthStatus::Serving | HealthStatus::Unknown))
}

/// Whether one of the others may be asked at all.
fn has_untried<S: Sock>(pool: &WorkerPool<S>, tried: &[usize], now: Instant) -> bool {
    untried(pool, tried).any(|server| server.shared.health.tier(now) != HealthStatus::Closed)
}

fn untried<'a, S: Sock>(pool: &'a WorkerPool<S>, tried: &'a [usize]) -> impl Iterator<Item = &'a Rc<Server<S>>> {
    pool.servers.iter().enumerate().filter(|(position, _)| !tried.contains(position)).map(|(_, server)| server)
}

/// By when the answer has to begin.
pub fn first_byte_until(sent_at: Instant, first_byte: Duration, try_until: Option<Instant>) -> Instant {
    let until = sent_at + first_byte;
    try_until.map_or(until, |try_until| until.min(try_until))
}

/// Opens a connection within what the attempt has left.
pub async fn open_until<T>(
    try_until: Option<Instant>,
    opening: impl Future<Output = Result<T, UpstreamFault>>,
) -> Result<T, UpstreamFault> {
    let Some(until) = try_until else { return opening.await };
    let opened = rt::timeout(until.saturating_duration_since(rt::now()), opening).await;
    opened.unwrap_or(Err(UpstreamFault::unsent(UpstreamError::ConnectTimeout)))
}

fn is_retried(retry: &Retry, fault: UpstreamFault, is_late: bool) -> bool {
    match fault.error {
        // Of an attempt, `NoServer` is that an application was reached and has no place for the request.
        UpstreamError::ResolveFailed
        | UpstreamError::ConnectFailed
        | UpstreamError::TlsFailed
        | UpstreamError::TlsRefused
        | UpstreamError::NoServer
        | UpstreamError::EmptyPool
        | UpstreamError::ContainersNotReady => retry.on.connect,
        UpstreamError::ConnectTimeout => retry.on.connect || is_late,
        UpstreamError::ClosedEarly | UpstreamError::Reset | UpstreamError::GoAway => retry.on.reset,
        UpstreamError::FirstByteTimeout => retry.on.timeout || is_late,
        UpstreamError::BadStatus => true,
        // What waits in a full server's queue may find another one.
        UpstreamError::PoolFull | UpstreamError::QueueTimeout => false,
        UpstreamError::IdleTimeout
        | UpstreamError::TotalTimeout
        | UpstreamError::BodyCut
        | UpstreamError::BadResponse
        | UpstreamError::BadWebSocketAccept
        | UpstreamError::NoWebSocket
        | UpstreamError::HeadTooLarge
        | UpstreamError::RequestHeadTooLarge
        | UpstreamError::Overloaded => false,
    }
}

/// How long the server asks not to be asked again (RFC 9110 section 10.2.3), when it says so in seconds.
pub fn retry_after(value: Option<&[u8]>) -> Option<Duration> {
    let seconds: u64 = std::str::from_utf8(value?).ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::{CONNECT_LEAST, MOVES_MAX, Tries, is_retried, retry_after};
    use crate::fault::{Progress, UpstreamFault};
    use std::time::Duration;
    use tidegate_model::{Retry, RetryOn};
    use tidegate_telemetry::UpstreamError;
    use tidegate_transport::rt;

    #[test]
    fn what_is_retried_is_what_is_written() {
        let check = |on: &RetryOn, is_late: bool, expected: &[UpstreamError]| {
            let retry = Retry { on: on.clone(), ..Retry::default() };
            let is_retried = |error: &UpstreamError| is_retried(&retry, UpstreamFault::new(*error, Progress::Sent), is_late);
            let retried: Vec<_> = UpstreamError::ALL.iter().copied().filter(is_retried).collect();
            assert_eq!(retried, expected, "{on:?}");
        };
        use UpstreamError::{
            BadStatus, ClosedEarly, ConnectFailed, ConnectTimeout, ContainersNotReady, EmptyPool, FirstByteTimeout, GoAway,
            NoServer, Reset, ResolveFailed, TlsFailed, TlsRefused,
        };
        let none = RetryOn { connect: false, reset: false, timeout: false, statuses: Vec::new() };
        check(&none, false, &[BadStatus]);
        check(&none, true, &[ConnectTimeout, FirstByteTimeout, BadStatus]);
        let connect = RetryOn { connect: true, ..none.clone() };
        let unreached =
            [ResolveFailed, ConnectFailed, ConnectTimeout, TlsFailed, TlsRefused, NoServer, EmptyPool, ContainersNotReady];
        check(&connect, false, &[unreached.as_slice(), &[BadStatus]].concat());
        check(&RetryOn { reset: true, ..none.clone() }, false, &[ClosedEarly, Reset, GoAway, BadStatus]);
        check(&RetryOn { timeout: true, ..none }, false, &[FirstByteTimeout, BadStatus]);
    }

    #[test]
    fn a_request_moves_on_with_servers_that_leave_and_not_for_ever() {
        let mut tries = Tries::default();
        for _ in 0..MOVES_MAX {
            tries.begin(3);
            assert!(tries.move_on());
            assert!(tries.tried().is_empty() && tries.is_again());
        }
        tries.begin(3);
        assert!(!tries.move_on());
        // The time for which it waits does not begin anew.
        let mut tries = Tries::default();
        let until = rt::now() + Duration::from_secs(60);
        tries.forget_servers(until);
        assert!(tries.move_on());
        assert_eq!(tries.awaited_until(), Some(until));
    }

    #[test]
    fn a_connection_may_take_as_long_as_there_is_time() {
        let connect = Duration::from_secs(5);
        let mut tries = Tries::default();
        assert_eq!(tries.connect_within(connect), connect);
        assert_eq!(tries.took_at_most(connect), Duration::ZERO);
        tries.begin(0);
        tries.begin(1);
        assert_eq!(tries.took_at_most(connect), connect * 2);
        tries.forget_servers(rt::now() + Duration::from_secs(60));
        assert_eq!(tries.connect_within(connect), connect);
        tries.forget_servers(rt::now());
        assert_eq!(tries.connect_within(connect), CONNECT_LEAST);
    }

    #[test]
    fn a_pause_is_asked_for_in_seconds() {
        let check = |value: Option<&str>, expected: Option<u64>| {
            assert_eq!(retry_after(value.map(str::as_bytes)), expected.map(Duration::from_secs), "{value:?}");
        };
        check(Some("120"), Some(120));
        check(Some(" 0 "), Some(0));
        check(Some("Fri, 31 Dec 1999 23:59:59 GMT"), None);
        check(Some("-1"), None);
        check(None, None);
    }
}
