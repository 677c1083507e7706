//! Connections that are opened before they are needed (`keep-alive warm`): so many idle ones to each server and worker,
//! or one with HTTP/2. Looked after by every sweep. How a connection is opened is in the parent; nothing here waits for
//! a place or says anything about a server's health.

use super::{Fresh, Lifespan, Need, Wanted, establish_in_time, wanted};
use crate::pool::{H1Connection, IDLE_MAX, Server, WorkerPool};
use crate::shared::OpenSlot;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Sock, rt};

/// Connections that a worker opens to one server at a time in advance: a server that comes back is not met by all at
/// once.
const OPENING_MAX: u32 = 4;
/// After a failure nothing is opened in advance for so long, doubled with each that follows.
const PAUSE_LEAST: Duration = Duration::from_secs(1);
const PAUSE_MOST: Duration = Duration::from_secs(30);
/// A connection that the server closed unused before this age was none: opening the next at once would go on for ever.
pub const AGE_LEAST: Duration = Duration::from_secs(1);

/// What is under way for one server of one worker.
#[derive(Debug, Default)]
pub struct Warming {
    opening: Cell<u32>,
    failures: Cell<u32>,
    not_before: Cell<Option<Instant>>,
    /// When the last HTTP/2 connection was opened, until it is known whether it lasts.
    h2_opened: Cell<Option<Instant>>,
}

impl Warming {
    /// How many to open now, when so many are wanted and so many are there.
    fn due(&self, wanted: u32, there: u32, now: Instant) -> u32 {
        if self.not_before.get().is_some_and(|at| now < at) {
            return 0;
        }
        let opening = self.opening.get();
        wanted.saturating_sub(there).saturating_sub(opening).min(OPENING_MAX.saturating_sub(opening))
    }

    /// Once for all that were opened together.
    pub fn failed(&self, now: Instant) {
        if self.not_before.get().is_some_and(|at| now < at) {
            return;
        }
        let failures = self.failures.get();
        self.failures.set(failures.saturating_add(1));
        let pause = PAUSE_LEAST * 2_u32.saturating_pow(failures);
        self.not_before.set(now.checked_add(pause.min(PAUSE_MOST)));
    }

    /// A connection lasted, or was used.
    pub fn succeeded(&self) {
        self.failures.set(0);
    }

    /// What became of the HTTP/2 connection that was opened last.
    fn look_after_h2(&self, is_there: bool, now: Instant) {
        let Some(opened) = self.h2_opened.get() else { return };
        let is_old = now.saturating_duration_since(opened) >= AGE_LEAST;
        match (is_there, is_old) {
            (true, false) => return,
            (false, false) => self.failed(now),
            (_, true) => self.succeeded(),
        }
        self.h2_opened.set(None);
    }
}

/// Opens what is missing, in tasks of their own. `head_bytes_max` is the largest head that an answer may have.
pub fn fill<S: Sock>(pool: &Rc<WorkerPool<S>>, now: Instant, head_bytes_max: usize, random: &mut dyn FnMut() -> u64) {
    let warm = pool.compiled.model.keep_alive.warm;
    // Whose connection it is must be said when it opens: nobody's can be opened in advance.
    if warm == 0 || pool.compiled.model.send_proxy_protocol.is_some() {
        return;
    }
    for (position, server) in pool.servers.iter().enumerate() {
        let compiled = &pool.compiled.servers[position];
        if compiled.shared.health.is_closed() || !compiled.shared.queue.is_empty() {
            continue;
        }
        let connect = pool.compiled.model.timeouts.connect;
        let need =
            Need { certain: false, http1_only: false, prefers_h2: false, fresh: true, connect, head_bytes_max, client: None };
        let want = wanted(pool, position, need);
        server.warming.look_after_h2(server.h2.has_usable(), now);
        let (wanted, there) = count(server, want, warm);
        for _ in 0..server.warming.due(wanted, there, now) {
            let Some(slot) = compiled.shared.try_open(pool.compiled.model.bounds.connections_per_server) else { break };
            let opening = WarmOpening::new(server.clone());
            rt::spawn(open(opening, pool.clone(), position, want, slot, need, random()));
        }
    }
}

/// Connections wanted, and those that are there. One with HTTP/2 serves all; as long as it is not known what ALPN
/// settles, one finds out.
fn count<S: Sock>(server: &Server<S>, want: Wanted, warm: u32) -> (u32, u32) {
    let idle = server.idle_count() as u32;
    let warm = warm.min(IDLE_MAX as u32);
    match want {
        Wanted::H1 | Wanted::Bare => (warm, idle),
        Wanted::H2 => (1, u32::from(server.h2.has_usable())),
        Wanted::Either if server.h2.has_usable() => (1, 1),
        Wanted::Either if server.h2.is_expected(false) => (1, 0),
        Wanted::Either => (warm, idle),
    }
}

/// Counted as long as it is under way.
struct WarmOpening<S: Sock>(Rc<Server<S>>);

impl<S: Sock> WarmOpening<S> {
    fn new(server: Rc<Server<S>>) -> WarmOpening<S> {
        server.warming.opening.set(server.warming.opening.get() + 1);
        WarmOpening(server)
    }
}

impl<S: Sock> Drop for WarmOpening<S> {
    fn drop(&mut self) {
        self.0.warming.opening.set(self.0.warming.opening.get() - 1);
    }
}

async fn open<S: Sock>(
    opening: WarmOpening<S>,
    pool: Rc<WorkerPool<S>>,
    position: usize,
    want: Wanted,
    slot: OpenSlot,
    need: Need,
    random: u64,
) {
    let server = &opening.0;
    let compiled = &pool.compiled.servers[position];
    // Requests that come meanwhile wait for it, as they would for one of their own; a request that was faster has one
    // on its way.
    let is_shared = want != Wanted::H1 && server.h2.is_expected(want == Wanted::H2);
    if is_shared && server.h2.opening(None).is_some() {
        return;
    }
    let shared = is_shared.then(|| server.h2.begin_opening(None));
    let failed = |error: UpstreamError| {
        server.warming.failed(rt::now());
        if let Some(shared) = &shared {
            shared.failed(error);
        }
    };
    let (stream, is_h2) = match establish_in_time(&pool, server, compiled, want, need).await {
        Ok(established) => established,
        Err(error) => return failed(error),
    };
    // Not counted as opened: that counts requests that had to wait for theirs.
    let now = rt::now();
    let lifespan = Lifespan::new(&pool.compiled.model.keep_alive, random, now);
    let fresh = Fresh { stream, slot, lifespan, owner: None };
    if !is_h2 {
        server.h2.learn_http1();
        server.put_fresh(H1Connection::fresh(fresh), now);
        return;
    }
    if server.h2.add(fresh, server.worker(), need.head_bytes_max, &pool.metrics).await.is_err() {
        return failed(UpstreamError::ConnectFailed);
    }
    server.warming.h2_opened.set(Some(now));
}

#[cfg(test)]
mod tests {
    use super::{OPENING_MAX, PAUSE_MOST, Warming};
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_missing_is_opened_a_few_at_a_time() {
        let check = |wanted: u32, there: u32, opening: u32, expected: u32| {
            let warming = Warming::default();
            warming.opening.set(opening);
            let due = warming.due(wanted, there, Instant::now());
            assert_eq!(due, expected, "{there} of {wanted}, {opening} on their way");
            assert!(due + opening <= OPENING_MAX.max(opening));
        };
        check(1, 0, 0, 1);
        check(3, 1, 0, 2);
        check(3, 1, 1, 1);
        check(3, 1, 2, 0);
        check(3, 4, 0, 0);
        check(100, 0, 0, 4);
        check(100, 0, 3, 1);
        check(100, 0, 4, 0);
        check(0, 0, 0, 0);
    }

    #[test]
    fn failures_pause_for_longer_and_longer_until_something_works() {
        let warming = Warming::default();
        let mut now = Instant::now();
        let second = Duration::from_secs(1);
        for pause in [1, 2, 4, 8, 16, 30, 30, 30] {
            warming.failed(now);
            assert_eq!(warming.due(9, 0, now + second * pause * 99 / 100), 0);
            now += second * pause;
            assert!(warming.due(9, 0, now) > 0, "after {pause} s");
        }
        warming.succeeded();
        warming.failed(now);
        assert!(warming.due(9, 0, now + second) > 0);
        (0..100).for_each(|_| warming.failed(now));
        assert!(warming.due(9, 0, now + second) > 0, "what fails together counts once");
        (0..100).for_each(|pause| warming.failed(now + PAUSE_MOST * pause));
        assert!(warming.due(9, 0, now + PAUSE_MOST * 100) > 0);
    }

    #[test]
    fn an_http2_connection_that_does_not_last_is_a_failure() {
        let check = |is_there: bool, after_ms: u64, failures: u32| {
            let (warming, opened) = (Warming::default(), Instant::now());
            warming.failures.set(3);
            warming.h2_opened.set(Some(opened));
            warming.look_after_h2(is_there, opened + Duration::from_millis(after_ms));
            assert_eq!(warming.failures.get(), failures, "{is_there} after {after_ms} ms");
            warming.look_after_h2(false, opened + Duration::from_millis(after_ms));
            assert_eq!(warming.failures.get(), if is_there && after_ms < 1000 { 4 } else { failures });
        };
        check(true, 500, 3);
        check(false, 500, 4);
        check(true, 1000, 0);
        check(false, 1000, 0);
    }
}
