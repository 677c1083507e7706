//! Connections that are opened before they are needed (`keep-alive warm`): so many idle ones to each server and worker,
//! or one with HTTP/2. Looked after by every sweep. How a connection is opened is in the parent; nothing here waits for
//! a place or says anything about a server's health.

use super::h2::ConnectionTerms;
use super::{Established, Fresh, Lifespan, Need, Opener, Upgrade, Wanted, establish_in_time, h2_terms, wanted};
use crate::pool::{H1Connection, Server, WorkerPool};
use crate::shared::OpenSlot;
use std::rc::{Rc, Weak};
use std::time::Instant;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Sock, rt};
use tidegate_wire::HeadLimits;

/// Opens what is missing, in tasks of their own. `head_limits` are those of answers.
pub fn fill<S: Sock>(pool: &Rc<WorkerPool<S>>, now: Instant, head_limits: HeadLimits, random: &mut dyn FnMut() -> u64) {
    let keep_alive = &pool.compiled.model.keep_alive;
    // One that is not kept would be opened again and again, and hold a process of PHP-FPM each time.
    let warm = keep_alive.warm.min(keep_alive.connections);
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
            Need { certain: false, upgrade: Upgrade::None, prefers_h2: false, fresh: true, connect, head_limits, client: None };
        let want = wanted(pool, position, need);
        server.warming.look_after_h2(server.h2.has_usable(), now);
        let (wanted, there) = count(server, want, warm);
        for _ in 0..server.warming.due(wanted, there, now) {
            let Some(slot) = compiled.shared.try_open(compiled.connections_max()) else { break };
            let opening = WarmOpening::new(server.clone());
            rt::spawn(open(opening, pool.clone(), position, want, slot, need, random()));
        }
    }
}

/// Connections wanted, and those that are there. One with HTTP/2 serves all; as long as it is not known what ALPN
/// settles, one finds out.
fn count<S: Sock>(server: &Server<S>, want: Wanted, warm: u32) -> (u32, u32) {
    let is_shared = want.may_be_shared() && (want == Wanted::H2 || server.h2.has_usable() || server.h2.is_expected(false));
    if is_shared { (1, u32::from(server.h2.has_usable())) } else { (warm, server.idle_count() as u32) }
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
    let is_shared = want.may_be_shared() && server.h2.is_expected(want == Wanted::H2);
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
    // For no request and no client.
    let opener = Opener::new(0, Weak::<()>::new());
    let Established { stream, is_h2, .. } = match establish_in_time(&pool, server, compiled, want, need, &opener).await {
        Ok(established) => established,
        Err(error) => return failed(error),
    };
    // Not counted as opened: that counts requests that had to wait for theirs.
    let now = rt::now();
    let lifespan = Lifespan::new(&pool.compiled.model.keep_alive, random, now);
    let fresh = Fresh { stream, slot, lifespan, owner: None };
    if !is_h2 {
        if want.may_be_shared() {
            server.h2.learn_http1();
        }
        server.put_fresh(H1Connection::fresh(fresh), now);
        return;
    }
    server.h2.add(fresh, ConnectionTerms { is_ahead: true, ..h2_terms(&pool, server, compiled, need.head_limits) });
    server.warming.h2_opened.set(Some(now));
}
