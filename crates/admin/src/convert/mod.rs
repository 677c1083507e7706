//! From what the control thread says to what the API gives: field by field, so that neither side can gain one unnoticed. Nothing is decided here.

mod explain;
mod past;
mod plan;

pub use explain::explanation;
pub use past::past_request;
pub use plan::plan;

use crate::api;
use jiff::Timestamp;
use tidegate_control::change::Planned;
use tidegate_control::generations::Generation;
use tidegate_control::report;
use tidegate_control::{Applied, Edited};
use tidegate_model::listening::ListenerProtocol;
use tidegate_telemetry::{CacheDiskNumbers, CacheNumbers, ReadinessState, ServerWord, UpstreamError};

pub fn status(status: report::Status) -> api::Status {
    let report::Status {
        process_id,
        started,
        readiness,
        generation,
        applied,
        origin,
        source,
        workers,
        workers_leaving,
        awaits_confirmation,
        refused,
        drift,
        ticket_sharing,
        listeners,
        requests_by_generation,
        traffic,
    } = status;
    api::Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        process_id,
        started: started.to_string(),
        readiness: match readiness {
            ReadinessState::Starting => api::Readiness::Starting,
            ReadinessState::Ready => api::Readiness::Ready,
            ReadinessState::Draining => api::Readiness::Draining,
        },
        generation,
        applied: applied.to_string(),
        origin,
        source,
        workers,
        workers_leaving,
        awaits_confirmation: awaits_confirmation.map(|awaits| api::AwaitsConfirmation {
            generation: awaits.generation,
            back_to: awaits.back_to,
            seconds_left: awaits.left.as_secs(),
        }),
        refused: refused.map(|refused| api::Refused { at: refused.at.to_string(), by: refused.by, why: refused.why }),
        drift,
        ticket_keys: ticket_sharing.map(|sharing| api::TicketKeys {
            storage: sharing.storage,
            read: sharing.read.map(|at| at.to_string()),
            shared_until: sharing.shared_until.map(|until| until.to_string()),
            fault: sharing.fault,
        }),
        listeners: listeners.into_iter().map(listener).collect(),
        requests_by_generation: requests_by_generation
            .into_iter()
            .map(|(generation, requests)| api::GenerationRequests { generation, requests })
            .collect(),
        traffic: api::Traffic {
            requests: traffic.requests,
            server_errors: traffic.server_errors,
            handshakes: traffic.handshakes,
            handshake_failures: traffic.handshake_failures,
        },
    }
}

fn listener(listener: report::ListenerStatus) -> api::Listener {
    let report::ListenerStatus { address, protocol, sockets, is_draining, connections } = listener;
    // In the order of `ConnectionKind::ALL`.
    let [handshake, http1, http2, tunnel] = connections;
    api::Listener {
        address: address.to_string(),
        scheme: scheme_name(protocol),
        sockets,
        draining: is_draining,
        connections: api::ConnectionCounts { handshake, http1, http2, tunnel },
    }
}

fn scheme_name(scheme: ListenerProtocol) -> String {
    scheme.as_str().to_owned()
}

pub fn connection(connection: report::ConnectionReport) -> api::Connection {
    let report::ConnectionReport { id, client, listener, kind, opened, requests, active, site, generation, is_draining } =
        connection;
    api::Connection {
        id,
        client: client.to_string(),
        listener: listener.to_string(),
        kind: kind.as_str().to_owned(),
        opened: Timestamp::try_from(opened).map(|opened| opened.to_string()).unwrap_or_default(),
        requests,
        active,
        site,
        generation,
        draining: is_draining,
    }
}

pub fn certificate(certificate: report::CertificateReport) -> api::Certificate {
    let report::CertificateReport { site, source, files, names, state, not_before, not_after, key, obtained, staple } =
        certificate;
    let text = |time: Timestamp| time.to_string();
    api::Certificate {
        site,
        source: source.as_str().to_owned(),
        files,
        names,
        state: state.as_str().to_owned(),
        not_before: not_before.map(text),
        not_after: not_after.map(text),
        key,
        obtained: obtained.map(|obtained| {
            let report::ObtainedReport { serial, directory, renew_at, failures_in_a_row, fault, next_attempt_at } = obtained;
            let fault = fault.map(certificate_fault);
            let (renew_at, next_attempt_at) = (renew_at.map(text), next_attempt_at.map(text));
            api::Obtained { serial, directory, renew_at, failures_in_a_row, fault, next_attempt_at }
        }),
        staple: staple.map(staple_of),
    }
}

pub fn certificate_fault(fault: report::CertificateFault) -> api::CertificateFault {
    let report::CertificateFault { at, cause, remedy } = fault;
    api::CertificateFault { at: at.to_string(), cause, remedy }
}

fn staple_of(staple: report::StapleReport) -> api::Staple {
    let report::StapleReport { state, is_required, responder, until, revoked_at, next_question_at, failures_in_a_row, fault } =
        staple;
    let text = |time: Timestamp| time.to_string();
    api::Staple {
        state: state.as_str().to_owned(),
        required: is_required,
        responder,
        until: until.map(text),
        revoked_at: revoked_at.map(text),
        next_question_at: next_question_at.map(text),
        failures_in_a_row,
        fault: fault.map(certificate_fault),
    }
}

pub fn cache(numbers: CacheNumbers) -> api::Cache {
    let CacheNumbers { hits, stale_hits, misses, collapsed, stored, evicted, purged, objects, bytes, disk } = numbers;
    let disk = disk.map(|disk| {
        let CacheDiskNumbers { objects, bytes, read, written, evicted, damaged, errors } = disk;
        api::CacheDisk { objects, bytes, read, written, evicted, damaged, errors }
    });
    api::Cache { objects, bytes, hits, stale_hits, misses, collapsed, stored, evicted, purged, disk }
}

pub fn pool(pool: report::PoolReport) -> api::Pool {
    let report::PoolReport { name, balance, servers, sources, totals } = pool;
    let source = |report::SourceReport { name, seen }| api::Source { name, servers: seen.servers, fault: seen.fault };
    let errors_by_reason: Vec<_> = UpstreamError::ALL
        .iter()
        .zip(totals.errors)
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| api::ErrorCount { reason: reason.reason().to_owned(), count })
        .collect();
    api::Pool {
        name,
        balance: balance.to_owned(),
        servers: servers.into_iter().map(server).collect(),
        sources: sources.into_iter().map(source).collect(),
        requests: totals.requests,
        retries: totals.retries,
        errors: totals.errors.iter().sum(),
        errors_by_reason,
        connections_opened: totals.connections_opened,
        connections_reused: totals.connections_reused,
        connections_active: totals.connections_active,
        connections_idle: totals.connections_idle,
    }
}

pub fn server(server: report::ServerReport) -> api::Server {
    let report::ServerReport {
        address,
        addresses,
        weight,
        priority,
        zone,
        is_discovered,
        state,
        why,
        tried_again_in,
        checks,
        requests_in_flight,
        connections,
        requests,
        failures,
    } = server;
    api::Server {
        address,
        addresses: addresses.iter().map(ToString::to_string).collect(),
        weight,
        priority: u32::from(priority),
        zone,
        discovered: is_discovered,
        state: server_state(state),
        why,
        tried_again_in_seconds: tried_again_in.map(|left| left.as_secs_f64().ceil() as u64),
        checks,
        requests_in_flight,
        connections,
        requests,
        failures,
    }
}

pub fn server_state(state: ServerWord) -> api::ServerState {
    match state {
        ServerWord::Serving => api::ServerState::Serving,
        ServerWord::Unknown => api::ServerState::Unknown,
        ServerWord::Starting => api::ServerState::Starting,
        ServerWord::Draining => api::ServerState::Draining,
        ServerWord::Leaving => api::ServerState::Leaving,
        ServerWord::Down => api::ServerState::Down,
        ServerWord::Ejected => api::ServerState::Ejected,
        ServerWord::Resting => api::ServerState::Resting,
    }
}

pub fn generation(generation: &Generation, running: u64) -> api::Generation {
    let Generation { number, applied, origin, summary, files } = generation;
    api::Generation {
        number: *number,
        applied: applied.to_string(),
        origin: origin.to_string(),
        summary: summary.clone(),
        running: *number == running,
        files: files.iter().map(|file| api::GenerationFile { name: file.name.clone(), bytes: file.text.len() }).collect(),
    }
}

pub fn planned(planned: &Planned, generation: u64) -> api::Planned {
    let Planned { plan: changes, warnings, connections_drained } = planned;
    let drained = connections_drained
        .iter()
        .map(|(address, connections)| api::DrainedConnections { listener: address.to_string(), connections: *connections });
    api::Planned { generation, plan: plan(changes), warnings: warnings.clone(), connections_drained: drained.collect() }
}

pub fn edited(edited: &Edited) -> api::Edited {
    let Edited { applied: change, written, unwritten } = edited;
    let unwritten = unwritten.iter().map(|(name, reason)| api::UnwrittenFile { name: name.clone(), reason: reason.clone() });
    api::Edited { applied: applied(change), written: written.clone(), unwritten: unwritten.collect() }
}

pub fn applied(applied: &Applied) -> api::Applied {
    let Applied { generation, changed, plan: changes, warnings, confirm_within } = applied;
    api::Applied {
        generation: *generation,
        changed: *changed,
        plan: plan(changes),
        warnings: warnings.clone(),
        confirm_within_seconds: confirm_within.map(|within| within.as_secs()),
    }
}
