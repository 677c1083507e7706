//! What concerns several lines of a pool at once, after each has been read by itself.

use super::PoolDraft;
use crate::diagnostics::{Diagnostic, Location};
use crate::lowering::Lowering;
use crate::units::show_duration;
use tidegate_model::{Discover, KeepAlive, Pool, PoolName, Probe, Scheme, Server};

/// The pool, unless something keeps it from being complete.
pub fn finish(lowering: &mut Lowering<'_>, mut draft: PoolDraft, name: PoolName, at: Location) -> Option<Pool> {
    let is_empty = draft.servers.is_empty() && draft.discover.is_empty();
    if let Some(none_at) = draft.none_at.take() {
        return declared_empty(lowering, draft, name, none_at);
    }
    if is_empty && !draft.faulty {
        let diagnostic = Diagnostic::error("no-server", at.clone(), "this pool has no server")
            .help("for example `server \"10.0.0.4:8080\"`, or `discover dns=\"api.internal:8080\"`; for one that is to have none, `server \"none\"`");
        lowering.report(diagnostic);
    }
    if is_empty {
        return None;
    }
    check_backups(lowering, &draft, at);
    check_protocol(lowering, &draft);
    check_tls(lowering, &draft);
    check_zones(lowering, &draft);
    check_sticky(lowering, &draft);
    check_hedge(lowering, &draft);
    check_warm(lowering, &draft);
    let usual = KeepAlive::of(draft.pool.protocol);
    draft.pool.keep_alive.connections = draft.kept.0.unwrap_or(usual.connections);
    draft.pool.keep_alive.idle = draft.kept.1.unwrap_or(usual.idle);
    check_times_and_bounds(lowering, &draft);
    draft.pool.name = name;
    place_in_zone(lowering, &mut draft);
    draft.pool.servers = draft.servers.into_iter().map(|(server, _)| server).collect();
    draft.pool.discover = draft.discover.into_iter().map(|(discover, _)| discover).collect();
    Some(draft.pool)
}

/// Of endpoints of Kubernetes that are meant for zones, those of the pool's own zone are looked for.
fn place_in_zone(lowering: &mut Lowering<'_>, draft: &mut PoolDraft) {
    let Some(zone) = &draft.pool.zone else { return };
    for (source, _) in &mut draft.discover {
        let before = source.clone();
        let Discover::Kubernetes(wanted) = source else { continue };
        wanted.zone = Some(zone.clone());
        for (known, _) in lowering.spans.sources.iter_mut().filter(|(known, _)| *known == before) {
            known.clone_from(source);
        }
    }
}

/// A pool that is to have no server. What is said of servers beside it is for those that come.
fn declared_empty(lowering: &mut Lowering<'_>, mut draft: PoolDraft, name: PoolName, none_at: Location) -> Option<Pool> {
    let others = draft.servers.iter().map(|(_, at)| at).chain(draft.discover.iter().map(|(_, at)| at));
    if let Some(other) = others.min_by_key(|at| at.span.start) {
        let diagnostic = Diagnostic::error("servers-beside-none", none_at, "this pool is said to have no server, and has one")
            .label(other.clone(), "this one")
            .help("remove one of the two lines");
        return lowering.refuse(diagnostic);
    }
    if draft.faulty {
        return None;
    }
    let diagnostic =
        Diagnostic::remark("empty-pool", none_at, "this pool has no server: its requests are answered with 503, `empty_pool`");
    lowering.report(diagnostic);
    let usual = KeepAlive::of(draft.pool.protocol);
    draft.pool.keep_alive.connections = draft.kept.0.unwrap_or(usual.connections);
    draft.pool.keep_alive.idle = draft.kept.1.unwrap_or(usual.idle);
    check_times_and_bounds(lowering, &draft);
    draft.pool.name = name;
    Some(draft.pool)
}

impl PoolDraft {
    /// Every server is one that is written, and could be read.
    fn is_known(&self) -> bool {
        self.discover.is_empty() && !self.faulty
    }

    fn all(&self, is_so: impl Fn(&Server) -> bool) -> bool {
        self.servers.iter().all(|(server, _)| is_so(server))
    }
}

fn check_backups(lowering: &mut Lowering<'_>, draft: &PoolDraft, at: Location) {
    if draft.is_known() && draft.all(|server| server.priority > 0) {
        let diagnostic = Diagnostic::error("only-backups", at, "every server of this pool is a backup")
            .label(draft.servers[0].1.clone(), "a backup")
            .help("remove `backup=#true` or `priority=` from one of them");
        lowering.report(diagnostic);
    }
}

fn check_protocol(lowering: &mut Lowering<'_>, draft: &PoolDraft) {
    check_probe(lowering, draft);
    let Some(protocol_at) = draft.at.get(super::connection::PROTOCOL.name) else { return };
    let protocol = draft.pool.protocol;
    let name = protocol.name();
    let Some(scheme) = protocol.only_scheme() else { return };
    let (message, help) = match scheme {
        Scheme::Https => (
            format!("`{name}` is spoken over TLS, and this server has no TLS"),
            "use `protocol \"h2c\"`, or write `https://` in front of the address",
        ),
        Scheme::Http if protocol.is_always_h2() => {
            (format!("`{name}` is spoken without TLS, and this server has TLS"), "use `protocol \"h2\"`")
        }
        Scheme::Http => {
            (format!("`{name}` is spoken without TLS, and this server has TLS"), "write the address without a scheme")
        }
    };
    if let Some((server, at)) = draft.servers.iter().find(|(server, _)| server.address.scheme() != scheme) {
        let help = if server.address.is_unix() { "use `protocol \"h2c\"`: a socket of this machine has no TLS" } else { help };
        let diagnostic = Diagnostic::error("conflicting-protocol", at.clone(), message)
            .label(protocol_at.clone(), "asked for here")
            .help(help);
        lowering.report(diagnostic);
    }
}

/// No server of scripts has the health service of gRPC.
fn check_probe(lowering: &mut Lowering<'_>, draft: &PoolDraft) {
    let (Some(health), Some(at)) = (&draft.pool.health, draft.at.get(super::health::HEALTH.name)) else { return };
    if !draft.pool.protocol.is_http() && matches!(health.probe, Probe::Grpc { .. }) {
        let message = format!("the check speaks gRPC, and the servers of this pool speak `{}`", draft.pool.protocol.name());
        let diagnostic = Diagnostic::error("conflicting-protocol", at.clone(), message);
        lowering
            .report(diagnostic.help("ask for `ping.path` of PHP-FPM, as in `health \"/ping\"`, or use `health type=\"tcp\"`"));
    }
}

fn check_tls(lowering: &mut Lowering<'_>, draft: &PoolDraft) {
    if !draft.discover.is_empty() || !draft.all(|server| server.address.scheme() == Scheme::Http) {
        return;
    }
    let Some((_, server_at)) = draft.servers.first() else { return };
    let may_have_tls = draft.pool.protocol.only_scheme() != Some(Scheme::Http) && !draft.all(|server| server.address.is_unix());
    if let Some(tls_at) = draft.at.get(super::connection::UPSTREAM_TLS.name) {
        let diagnostic = Diagnostic::warning("unused-tls", tls_at.clone(), "this has no effect: no server is spoken to with TLS")
            .label(server_at.clone(), "plain HTTP")
            .help(if may_have_tls { "write `https://` in front of the server's address" } else { "remove `tls`" });
        lowering.report(diagnostic);
    }
    if let (Some(health), Some(health_at)) = (&draft.pool.health, draft.at.get(super::health::HEALTH.name))
        && health.probe == Probe::Tls
        // Another port may well have it.
        && health.port.is_none()
    {
        let message = "servers are asked for a TLS handshake, and none of them has TLS";
        let diagnostic = Diagnostic::warning("tls-health-without-tls", health_at.clone(), message)
            .label(server_at.clone(), "plain HTTP")
            .help(if may_have_tls {
                "use `health type=\"tcp\"`, or write `https://` in front of the server's address"
            } else {
                "use `health type=\"tcp\"`"
            });
        lowering.report(diagnostic);
    }
}

/// Zones that are compared with nothing.
fn check_zones(lowering: &mut Lowering<'_>, draft: &PoolDraft) {
    let with_zone = draft.servers.iter().find(|(server, _)| server.zone.is_some());
    match (draft.at.get(super::server::ZONE.name), with_zone) {
        (Some(zone_at), None) if draft.is_known() => {
            let message = "this has no effect: no server of the pool has a zone";
            let diagnostic = Diagnostic::warning("unused-zone", zone_at.clone(), message);
            lowering.report(diagnostic.help("say where each stands, as in `server \"10.0.0.4:8080\" zone=\"eu-1\"`"));
        }
        (None, Some((_, server_at))) => {
            let message = "the zone has no effect: where this proxy stands is not said";
            let diagnostic = Diagnostic::warning("unused-zone", server_at.clone(), message);
            lowering.report(diagnostic.help("add `zone \"…\"` to the pool"));
        }
        (Some(zone_at), Some((_, server_at)))
            if draft.is_known() && !draft.servers.iter().any(|(server, _)| server.zone == draft.pool.zone) =>
        {
            let message = "this has no effect: no server of the pool is in this zone";
            let diagnostic =
                Diagnostic::warning("unused-zone", zone_at.clone(), message).label(server_at.clone(), "in another one");
            lowering.report(diagnostic.help("write the zones of the servers and that of this proxy in the same way"));
        }
        (Some(_) | None, Some(_) | None) => {}
    }
}

fn check_sticky(lowering: &mut Lowering<'_>, draft: &PoolDraft) {
    let Some(at) = draft.at.get(super::sticky::STICKY.name) else { return };
    if draft.is_known()
        && let [(_, server_at)] = draft.servers.as_slice()
    {
        let diagnostic = Diagnostic::warning("unused-sticky", at.clone(), "this has no effect: the pool has one server")
            .label(server_at.clone(), "the only one")
            .help("remove it until there is a second server");
        lowering.report(diagnostic);
    }
}

fn check_hedge(lowering: &mut Lowering<'_>, draft: &PoolDraft) {
    let (Some(hedge), Some(at)) = (draft.pool.hedge, draft.at.get(super::retry::HEDGE.name)) else { return };
    if draft.is_known()
        && let [(_, server_at)] = draft.servers.as_slice()
    {
        let diagnostic = Diagnostic::warning("unused-hedge", at.clone(), "this has no effect: the pool has one server")
            .label(server_at.clone(), "the only one")
            .help("remove it until there is a second server");
        return lowering.report(diagnostic);
    }
    if draft.pool.retry.is_none() {
        let mut diagnostic = Diagnostic::warning(
            "unused-hedge",
            at.clone(),
            "this has no effect: it counts against the budget of `retry`, which is off",
        );
        if let Some(retry_at) = draft.at.get(super::retry::RETRY.name) {
            diagnostic = diagnostic.label(retry_at.clone(), "switched off here");
        }
        return lowering.report(diagnostic.help("for hedges alone, write `retry attempts=1 on=\"connect\"`"));
    }
    let first_byte = draft.pool.timeouts.first_byte;
    let try_timeout = draft.pool.retry.as_ref().and_then(|retry| retry.try_timeout).filter(|limit| *limit <= first_byte);
    let (limit, said_by, help) = match try_timeout {
        Some(limit) => (limit, super::retry::RETRY.name, "use a shorter time, or raise `try-timeout=`"),
        None => (first_byte, super::connection::TIMEOUT.name, "use a shorter time, or raise `timeout first-byte=`"),
    };
    if hedge.after < limit {
        return;
    }
    let message = format!("this has no effect: after {} without an answer an attempt is given up", show_duration(limit));
    let mut diagnostic = Diagnostic::warning("unused-hedge", at.clone(), message);
    if let Some(said_at) = draft.at.get(said_by) {
        diagnostic = diagnostic.label(said_at.clone(), "said here");
    }
    lowering.report(diagnostic.help(help));
}

/// A bound that another one keeps from being reached.
fn check_times_and_bounds(lowering: &mut Lowering<'_>, draft: &PoolDraft) {
    let pool = &draft.pool;
    if let (Some(at), Some(limit)) =
        (draft.at.get(super::retry::RETRY.name), pool.retry.as_ref().and_then(|retry| retry.try_timeout))
    {
        let whole = pool.timeouts.connect + pool.timeouts.first_byte;
        if draft.is_known()
            && let [(_, server_at)] = draft.servers.as_slice()
        {
            let message = "`try-timeout=` has no effect: the pool has one server, and no other could be tried";
            let diagnostic =
                Diagnostic::warning("unused-try-timeout", at.clone(), message).label(server_at.clone(), "the only one");
            lowering.report(diagnostic.help("remove it until there is a second server"));
        } else if limit >= whole {
            let message = format!(
                "`try-timeout=` has no effect: after {} without an answer an attempt has failed anyway",
                show_duration(whole)
            );
            let mut diagnostic = Diagnostic::warning("unused-try-timeout", at.clone(), message);
            if let Some(timeout_at) = draft.at.get(super::connection::TIMEOUT.name) {
                diagnostic = diagnostic.label(timeout_at.clone(), "said here");
            }
            lowering.report(diagnostic.help("use a shorter time, or raise `timeout connect=` or `first-byte=`"));
        }
    }
    if let (Some(adaptive), Some(most), Some(at)) =
        (pool.bounds.adaptive, pool.bounds.requests_per_server, draft.at.get(super::bounds::ADAPTIVE_CONCURRENCY.name))
        && most <= adaptive.least
    {
        let message =
            format!("nothing can be learnt: the bound never goes below {}, and `max-requests` is {most}", adaptive.least);
        let mut diagnostic = Diagnostic::warning("unused-adaptive", at.clone(), message);
        if let Some(requests_at) = draft.at.get(super::bounds::MAX_REQUESTS.name) {
            diagnostic = diagnostic.label(requests_at.clone(), "said here");
        }
        lowering.report(diagnostic.help("lower `min=`, or raise `max-requests`"));
    }
    check_bounds_of_servers(lowering, draft);
    if let (Some(most), Some(at)) = (pool.bounds.connections_per_server, draft.at.get(super::connection::KEEP_ALIVE.name))
        && pool.keep_alive.warm > most
    {
        let message =
            format!("`warm={}` is for each thread, and a server gets {most} connections of all of them", pool.keep_alive.warm);
        let mut diagnostic = Diagnostic::warning("unused-warm", at.clone(), message);
        if let Some(bound_at) = draft.at.get(super::bounds::MAX_CONNECTIONS.name) {
            diagnostic = diagnostic.label(bound_at.clone(), "said here");
        }
        lowering.report(diagnostic.help("lower `warm=`, or raise `max-connections`"));
    }
}

/// Bounds that one server has of its own, and that others of the pool keep from being reached.
fn check_bounds_of_servers(lowering: &mut Lowering<'_>, draft: &PoolDraft) {
    let pool = &draft.pool;
    let total_at = draft.at.get(super::bounds::MAX_REQUESTS.name);
    for (server, at) in &draft.servers {
        if let (Some(total), Some(own), Some(total_at)) = (pool.bounds.requests_per_pool, server.bounds.requests, total_at)
            && own > total
        {
            let message = format!("`max-requests={own}` is never reached: the pool has {total} requests in flight at most");
            let diagnostic = Diagnostic::warning("unused-bound", at.clone(), message).label(total_at.clone(), "said here");
            lowering.report(diagnostic.help("lower `max-requests=`, or raise `total=`"));
        }
        if let (Some(own), Some(warm_at)) = (server.bounds.connections, draft.at.get(super::connection::KEEP_ALIVE.name))
            && pool.keep_alive.warm > own
        {
            let warm = pool.keep_alive.warm;
            let message = format!("`warm={warm}` is for each thread, and this server gets {own} connections of all of them");
            let diagnostic = Diagnostic::warning("unused-warm", at.clone(), message).label(warm_at.clone(), "said here");
            lowering.report(diagnostic.help("lower `warm=`, or raise `max-connections=`"));
        }
    }
}

fn check_warm(lowering: &mut Lowering<'_>, draft: &PoolDraft) {
    let Some(at) = draft.at.get(super::connection::KEEP_ALIVE.name) else { return };
    let (warm, kept) = (draft.pool.keep_alive.warm, draft.pool.keep_alive.connections);
    if warm > kept {
        let message = format!("`warm={warm}` is more than the {kept} connections that are kept, and no more are opened");
        let help = format!("write `connections={warm}` or more beside it, or lower `warm=`");
        lowering.report(Diagnostic::warning("unused-warm", at.clone(), message).help(help));
    }
    let Some(proxy_protocol_at) = draft.at.get(super::connection::SEND_PROXY_PROTOCOL.name) else { return };
    if warm > 0 {
        let message = "`warm=` has no effect: whose a connection is has to be known when it is opened";
        let diagnostic = Diagnostic::warning("unused-warm", at.clone(), message)
            .label(proxy_protocol_at.clone(), "connections begin with their client")
            .help("remove `warm=`");
        lowering.report(diagnostic);
    }
}
