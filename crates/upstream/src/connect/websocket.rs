//! A connection for a WebSocket, where HTTP/2 is spoken with the server: a stream of a shared connection whose server
//! offers extended CONNECT (RFC 8441). Whether it does is known when its SETTINGS have come; servers that do not get a
//! connection of HTTP/1.1 of their own, as for any other upgrade.

use super::{Connection, Need, Opener, Upgrade, Wanted, open_shared, wanted};
use crate::fault::UpstreamFault;
use crate::pool::WorkerPool;
use std::rc::Rc;
use std::time::Duration;
use tidegate_transport::{Sock, rt};

/// How often the SETTINGS of a fresh connection are looked for, for the first WebSocket to a server.
const SETTINGS_POLL: Duration = Duration::from_millis(5);

/// A stream of a connection that is open.
pub(super) fn take<S: Sock>(pool: &WorkerPool<S>, position: usize, need: Need) -> Option<Connection<S>> {
    let server = &pool.servers[position];
    match wanted(pool, position, ordinary(need)) {
        Wanted::H2 | Wanted::Either if server.h2.takes_protocol() == Some(true) => {}
        Wanted::H1 | Wanted::H2 | Wanted::Either | Wanted::FastCgi | Wanted::Bare => return None,
    }
    let lease = server.h2.lease(need.client.as_ref())?;
    if lease.connection().peer_takes_protocol() != Some(true) {
        return None;
    }
    pool.metrics.connections_reused.increment();
    Some(Connection::H2(lease))
}

/// A stream of a connection that is opened or joined. `None`: the server does not offer it.
pub(super) async fn open<S: Sock>(
    pool: &WorkerPool<S>,
    position: usize,
    need: Need,
    opener: &Opener,
) -> Result<Option<Connection<S>>, UpstreamFault> {
    let server: &Rc<_> = &pool.servers[position];
    let need = ordinary(need);
    let want = wanted(pool, position, need);
    match want {
        Wanted::H2 | Wanted::Either if server.h2.takes_protocol() != Some(false) => {}
        Wanted::H1 | Wanted::H2 | Wanted::Either | Wanted::FastCgi | Wanted::Bare => return Ok(None),
    }
    let shared = if need.fresh { None } else { server.h2.lease(need.client.as_ref()).map(Connection::H2) };
    let connection = match shared {
        Some(shared) => shared,
        None => open_shared(pool, server, &pool.compiled.servers[position], want, need, opener).await?,
    };
    let lease = match connection {
        Connection::H2(lease) => lease,
        // ALPN has settled on HTTP/1.1.
        own @ (Connection::H1(_) | Connection::FastCgi(_)) => return Ok(Some(own)),
    };
    let until = rt::now() + need.connect;
    while lease.connection().peer_takes_protocol().is_none() && rt::now() < until && !lease.has_ended() {
        rt::sleep(SETTINGS_POLL).await;
    }
    let takes_protocol = lease.connection().peer_takes_protocol();
    if let Some(takes_protocol) = takes_protocol {
        server.h2.learn_protocol(takes_protocol);
    }
    Ok((takes_protocol == Some(true)).then_some(Connection::H2(lease)))
}

/// The need of an ordinary request, for which HTTP/2 may be spoken.
fn ordinary(need: Need) -> Need {
    Need { upgrade: Upgrade::None, ..need }
}
