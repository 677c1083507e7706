//! The numbers as Prometheus reads them: text format 0.0.4. Names and labels are part of the user surface; they do not
//! change once released.
//!
//! A family stands together under its HELP and TYPE lines, as the format demands; label values are escaped.

use super::cache::CacheNumbers;
use super::certificates::{CertificateMetrics, OnDemandResult};
use super::configuration::{ChangeResult, ConfigurationMetrics};
use super::discovery::DiscoveryMetrics;
use super::histogram::HistogramTotals;
use super::kubernetes::KubernetesFigures;
use super::log_ins::LogInMetrics;
use super::memory::MemoryMetrics;
use super::number::SharedNumber;
use super::pool::{AuthResult, MirrorResult, PoolTotals, UpstreamError, UpstreamTime};
use super::registry::{ArmNames, Registry, Totals};
use super::server::ServerTotals;
use super::server_state::ServerStateMetrics;
use super::site::SiteTotals;
use super::table::{TwoNames, is_shared};
use super::token_keys::{STATES, TokenKeyMetrics};
use super::worker::{HandshakeFailure, HandshakeKind, ListenerKind, TLS_VERSIONS, WorkerMetrics};
use crate::events;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use strum::VariantArray;
use tidegate_model::{ContainerStage, TlsVersion};

impl Registry {
    /// Everything, in Prometheus' text format 0.0.4 (`Content-Type: text/plain; version=0.0.4; charset=utf-8`).
    pub fn render_prometheus(&self) -> String {
        render(&self.totals())
    }
}

fn render(totals: &Totals) -> String {
    let mut text = Text::default();
    render_requests(&mut text, totals);
    render_objects(&mut text, &totals.objects);
    render_clients(&mut text, &totals.workers);
    render_handshakes(&mut text, &totals.workers);
    render_arms(&mut text, &totals.arms);
    render_pools(&mut text, &totals.pools);
    render_servers(&mut text, &totals.servers);
    render_server_states(&mut text, &totals.server_states);
    render_discoveries(&mut text, &totals.discoveries);
    render_logs(&mut text, totals);
    render_configuration(&mut text, totals.configuration);
    if let Some(figures) = totals.kubernetes.get() {
        render_kubernetes(&mut text, &figures);
        let published = totals.kubernetes.published();
        let help = "From when a change of objects came from the API server until workers had what comes of it.";
        text.histograms("tidegate_kubernetes_published_seconds", help, [([], &published)].into_iter());
    }
    render_memory(&mut text, totals.memory);
    render_log_ins(&mut text, totals.log_ins);
    render_cache(&mut text, totals.cache);
    render_certificates(&mut text, totals.certificates);
    render_token_keys(&mut text, totals.token_keys);
    render_process(&mut text, totals);
    text.out
}

fn render_requests(text: &mut Text, totals: &Totals) {
    render_answers(text, &totals.sites);
    let latencies = totals.sites.iter().map(|(names, numbers)| (of_site(names), &numbers.latency));
    let help = "From the end of the request's head to the end of its answer.";
    text.histograms("tidegate_http_request_duration_seconds", help, latencies);
    let asked = || totals.sites.iter().filter(|(_, numbers)| !numbers.is_idle());
    let bytes_out = asked().map(|(names, numbers)| (of_site(names), numbers.bytes_out));
    text.each("tidegate_http_response_body_bytes_total", "Body bytes of answers, by site.", bytes_out);
    // Routes with names are part of their site here: where a request goes is not known when it begins.
    let in_flight = asked().filter(|((_, route), _)| route.is_empty());
    let in_flight = in_flight.map(|((site, _), numbers)| ([("site", &**site)], numbers.in_flight));
    text.each("tidegate_http_requests_in_flight", "Requests on their way, by site.", in_flight);
    let workers = || totals.workers.iter();
    let help = "Requests that the proxy itself answered with an error, by reason.";
    text.reasons("tidegate_http_refused_total", help, workers().flat_map(|worker| worker.refused.iter()));
    let help = "Requests that limits with dry-run would have refused, by reason.";
    text.reasons("tidegate_http_refused_dry_run_total", help, workers().flat_map(|worker| worker.refused_on_trial.iter()));
    let help = "HTTP/2 connections closed because of a flood.";
    text.reasons("tidegate_http2_floods_total", help, workers().flat_map(|worker| worker.h2_floods.iter()));
    let help = "HTTP/2 streams refused because those of their connection hold all the memory that they may.";
    let refused = sum(&totals.workers, |worker| worker.h2_streams_refused.value());
    text.one("tidegate_http2_streams_refused_total", help, refused);
    let help = "Bodies of requests that were read on behind an early answer, by how that ended.";
    text.reasons("tidegate_http_unread_bodies_total", help, workers().flat_map(|worker| worker.unread_bodies.iter()));
    let help = "Bytes of bodies that were read on behind an early answer, and thrown away.";
    text.one("tidegate_http_unread_bytes_total", help, sum(&totals.workers, |worker| worker.unread_bytes.value()));
    let early_hints = sum(&totals.workers, |worker| worker.early_hints.value());
    text.one("tidegate_http_early_hints_total", "103 answers passed on to clients.", early_hints);
    let help = "Requests in TLS early data that did not wait for the handshake.";
    let early_requests = sum(&totals.workers, |worker| worker.early_requests.value());
    text.one("tidegate_http_early_data_requests_total", help, early_requests);
    let help = "Faults of the proxy itself that ended one connection. Please report them.";
    text.one("tidegate_panics_caught_total", help, sum(&totals.workers, |worker| worker.panics_caught.value()));
}

fn render_answers(text: &mut Text, sites: &[(TwoNames, SiteTotals)]) {
    text.family("tidegate_http_requests_total", "Requests answered, by site, method, protocol and status.");
    for (names, numbers) in sites {
        let [site, route] = of_site(names);
        for (kind, count) in &numbers.answers.by_kind {
            let (status, class) = (kind.status.to_string(), format!("{}xx", kind.class()));
            let (method, protocol) = (("method", kind.method.as_str()), ("protocol", kind.protocol.as_str()));
            text.sample(&[site, route, method, protocol, ("status", &status), ("class", &class)], count);
        }
        for (class, count) in ["1xx", "2xx", "3xx", "4xx", "5xx"].iter().zip(numbers.answers.beyond) {
            if count > 0 {
                let [method, protocol, status] = ["method", "protocol", "status"].map(|label| (label, "other"));
                text.sample(&[site, route, method, protocol, status, ("class", class)], count);
            }
        }
    }
}

/// Requests by the object of a cluster, or whatever else it is, that their routes come from.
fn render_objects(text: &mut Text, objects: &[(Arc<str>, SiteTotals)]) {
    if objects.is_empty() {
        return;
    }
    text.family("tidegate_kubernetes_requests_total", "Requests answered, by the object that their route comes from.");
    for (object, numbers) in objects {
        let mut by_class: BTreeMap<u16, u64> = BTreeMap::new();
        for (kind, count) in &numbers.answers.by_kind {
            *by_class.entry(kind.class()).or_default() += count;
        }
        for (class, count) in (1..).zip(numbers.answers.beyond).filter(|(_, count)| *count > 0) {
            *by_class.entry(class).or_default() += count;
        }
        let [kind, namespace, name, rule] = of_object(object);
        for (class, count) in by_class {
            text.sample(&[kind, namespace, name, rule, ("class", &format!("{class}xx"))], count);
        }
    }
    let bytes_out = objects.iter().map(|(object, numbers)| (of_object(object), numbers.bytes_out));
    let help = "Body bytes of answers, by the object that their route comes from.";
    text.each("tidegate_kubernetes_response_body_bytes_total", help, bytes_out);
    let latencies = objects.iter().map(|(object, numbers)| (of_object(object), &numbers.latency));
    let help = "From the end of the request's head to the end of its answer, by the object that its route comes from.";
    text.histograms("tidegate_kubernetes_request_duration_seconds", help, latencies);
}

/// As `Ingress shop/web rules.0.paths.0` says.
fn of_object(origin: &str) -> [Label<'_>; 4] {
    let (kind, rest) = origin.split_once(' ').unwrap_or((origin, ""));
    let (object, rule) = rest.split_once(' ').unwrap_or((rest, ""));
    let (namespace, name) = object.split_once('/').unwrap_or(("", object));
    [("kind", kind), ("namespace", namespace), ("name", name), ("rule", rule)]
}

fn of_site(names: &TwoNames) -> [Label<'_>; 2] {
    [("site", &names.0), ("route", &names.1)]
}

fn render_clients(text: &mut Text, workers: &[Workers]) {
    let of_kind = |kind: &ListenerKind| [("listener", kind.as_str())];
    let active = ListenerKind::VARIANTS.iter().map(|kind| {
        let active: i64 = workers.iter().map(|worker| worker.listener(*kind).connections_active.value()).sum();
        (of_kind(kind), active)
    });
    text.each("tidegate_client_connections_active", "Open client connections.", active);
    let opened = ListenerKind::VARIANTS.iter().map(|kind| {
        let opened = sum(workers, |worker| worker.listener(*kind).connections_opened.value());
        (of_kind(kind), opened)
    });
    text.each("tidegate_client_connections_total", "Client connections accepted.", opened);
    let refused = workers.iter().flat_map(|worker| worker.connections_refused.iter());
    let help = "Client connections closed before a request, by reason.";
    text.reasons("tidegate_client_connections_refused_total", help, refused);
    let help = "Client connections ended because they held most when memory was short.";
    let ended = sum(workers, |worker| worker.connections_ended_for_memory.value());
    text.one("tidegate_client_connections_ended_for_memory_total", help, ended);
    let passthrough = workers.iter().flat_map(|worker| worker.passthrough.iter());
    text.reasons("tidegate_tcp_connections_total", "Connections passed on as they are, by why they ended.", passthrough);
    let received = sum(workers, |worker| worker.client_bytes_received.value());
    let sent = sum(workers, |worker| worker.client_bytes_sent.value());
    let help = "Bytes from (received) and to (sent) clients, as on the wire.";
    text.by_word("tidegate_client_bytes_total", help, "direction", [("received", received), ("sent", sent)]);
    let received = sum(workers, |worker| worker.upstream_bytes_received.value());
    let sent = sum(workers, |worker| worker.upstream_bytes_sent.value());
    let help = "Bytes from (received) and to (sent) upstream servers, as on the wire.";
    text.by_word("tidegate_upstream_bytes_total", help, "direction", [("received", received), ("sent", sent)]);
}

fn render_handshakes(text: &mut Text, workers: &[Workers]) {
    text.family("tidegate_tls_handshakes_total", "TLS handshakes with clients; a failed one has no version.");
    for kind in HandshakeKind::VARIANTS {
        for version in TLS_VERSIONS {
            let label = match version {
                TlsVersion::V1_2 => "1.2",
                TlsVersion::V1_3 => "1.3",
            };
            let count = sum(workers, |worker| worker.handshakes_of(*kind, version));
            text.sample(&[("kind", kind.as_str()), ("version", label)], count);
        }
    }
    let count = |failure: &HandshakeFailure| sum(workers, |worker| worker.handshakes_failed(*failure));
    let failed: BTreeMap<_, _> = HandshakeFailure::VARIANTS.iter().map(|failure| (failure.reason(), count(failure))).collect();
    text.sample(&[("kind", "failed"), ("version", "")], failed.values().sum::<u64>());
    let help = "TLS handshakes with clients that failed, by reason.";
    text.by_word("tidegate_tls_handshake_failures_total", help, "reason", failed);
    let help = "Certificates of clients that are not good and were taken all the same.";
    let unverified = sum(workers, |worker| worker.unverified_certificates.value());
    text.one("tidegate_tls_unverified_client_certificates_total", help, unverified);
    let times = HandshakeKind::VARIANTS.iter().map(|kind| {
        let mut times = HistogramTotals::default();
        for worker in workers {
            worker.add_handshake_times(*kind, &mut times);
        }
        (kind.as_str(), times)
    });
    let times: Vec<_> = times.collect();
    let help = "From the client's hello to the end of a handshake that was completed.";
    text.histograms("tidegate_tls_handshake_seconds", help, times.iter().map(|(kind, took)| ([("kind", *kind)], took)));
}

fn render_arms(text: &mut Text, arms: &[(ArmNames, u64)]) {
    let counts =
        arms.iter().map(|((site, route, arm), count)| ([("site", &**site), ("route", &**route), ("arm", &**arm)], *count));
    text.each("tidegate_split_requests_total", "Requests that an arm of a `split` has taken.", counts);
}

fn render_pools(text: &mut Text, pools: &[(Arc<str>, PoolTotals)]) {
    let mut each = |name, help, value: fn(&PoolTotals) -> i128| {
        text.each(name, help, pools.iter().map(|(pool, numbers)| ([("pool", &**pool)], value(numbers))));
    };
    let help = "Attempts at upstream servers, also such as came to no connection.";
    each("tidegate_upstream_requests_total", help, |pool| pool.requests.into());
    each("tidegate_upstream_retries_total", "Attempts after the first.", |pool| pool.retries.into());
    let help = "Attempts that the retry budget did not allow.";
    each("tidegate_upstream_retries_refused_total", help, |pool| pool.retries_refused.into());
    let help = "Requests sent to a second server while the first was slow.";
    each("tidegate_upstream_hedges_total", help, |pool| pool.hedges.into());
    let help = "Requests sent to a server that is out, nothing else left.";
    each("tidegate_upstream_last_resort_total", help, |pool| pool.last_resort.into());
    each("tidegate_upstream_queued", "Requests that wait for an upstream server.", |pool| pool.queued.into());
    each("tidegate_upstream_awaited_total", "Requests that waited because no server could be reached.", |pool| {
        pool.awaited.into()
    });
    each("tidegate_upstream_queue_refused_total", "Requests that found the queue full.", |pool| pool.queue_refused.into());
    let help = "Upstream connections with a request on them.";
    each("tidegate_upstream_connections_active", help, |pool| pool.connections_active.into());
    let help = "Upstream connections that wait for a request.";
    each("tidegate_upstream_connections_idle", help, |pool| pool.connections_idle.into());
    let help = "Where requests' upstream connections came from: opened for them (new) or kept from before (reused).";
    let by_kind = pools.iter().flat_map(|(pool, numbers)| {
        let kinds = [("new", numbers.connections_opened), ("reused", numbers.connections_reused)];
        kinds.map(|(kind, count)| ([("pool", &**pool), ("kind", kind)], count))
    });
    text.each("tidegate_upstream_connections_total", help, by_kind);
    render_upstream_times(text, pools);
    // A series of each reason for each pool that is well would say nothing.
    let errors = pools.iter().flat_map(|(pool, numbers)| {
        let counted = UpstreamError::ALL.iter().zip(numbers.errors).filter(|(_, count)| *count > 0);
        counted.map(|(error, count)| ([("pool", &**pool), ("reason", error.reason())], count))
    });
    text.each("tidegate_upstream_errors_total", "What went wrong with upstream servers, by reason.", errors);
    // Most pools get no copies.
    let mirrored = pools.iter().flat_map(|(pool, numbers)| {
        let counted = MirrorResult::VARIANTS.iter().zip(numbers.mirrored).filter(|(_, count)| *count > 0);
        counted.map(|(result, count)| ([("pool", &**pool), ("result", result.as_str())], count))
    });
    let help = "Requests that were to be copied to a pool, by what became of the copy.";
    text.each("tidegate_mirror_requests_total", help, mirrored);
    let asked = pools.iter().flat_map(|(pool, numbers)| {
        let counted = AuthResult::VARIANTS.iter().zip(numbers.asked).filter(|(_, count)| *count > 0);
        counted.map(|(result, count)| ([("pool", &**pool), ("result", result.as_str())], count))
    });
    let help = "Requests that a pool was asked about by `forward-auth`, by what came of it.";
    text.each("tidegate_forward_auth_requests_total", help, asked);
}

fn render_upstream_times(text: &mut Text, pools: &[(Arc<str>, PoolTotals)]) {
    for time in UpstreamTime::VARIANTS {
        let (name, help) = match time {
            UpstreamTime::Queue => {
                ("tidegate_upstream_queue_seconds", "In the queue for a server, of the requests that had to wait.")
            }
            UpstreamTime::Connect => {
                ("tidegate_upstream_connect_seconds", "From the begin of a connection to a server until it stands, without TLS.")
            }
            UpstreamTime::TlsHandshake => ("tidegate_upstream_tls_handshake_seconds", "TLS handshakes with servers."),
            UpstreamTime::FirstByte => (
                "tidegate_upstream_first_byte_seconds",
                "From the last byte of the request sent to the first byte of the answer.",
            ),
            UpstreamTime::Whole => (
                "tidegate_upstream_request_duration_seconds",
                "From the begin of a connection, or of the request on a kept one, to the end of the answer.",
            ),
        };
        let times = pools.iter().map(|(pool, numbers)| ([("pool", &**pool)], &numbers.times[*time as usize]));
        text.histograms(name, help, times);
    }
}

fn render_servers(text: &mut Text, servers: &[(TwoNames, ServerTotals)]) {
    let requests = servers.iter().map(|(names, numbers)| (of_server(names), numbers.requests));
    let help = "Attempts at a server, also such as came to no connection.";
    text.each("tidegate_upstream_server_requests_total", help, requests);
    let in_flight = servers.iter().map(|(names, numbers)| (of_server(names), numbers.in_flight));
    text.each("tidegate_upstream_server_requests_in_flight", "Attempts at a server that are on their way.", in_flight);
    let answers = servers.iter().flat_map(|(names, numbers)| {
        let [pool, server] = of_server(names);
        let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(numbers.answers).filter(|(_, count)| *count > 0);
        classes.map(move |(class, count)| ([pool, server, ("class", class)], count))
    });
    text.each("tidegate_upstream_server_answers_total", "Answers of a server that began, by class.", answers);
    let failures = servers.iter().map(|(names, numbers)| (of_server(names), numbers.failures));
    let help = "Attempts that count against a server: refused, broken, late, or answered with 500, 502, 503 or 504.";
    text.each("tidegate_upstream_server_failures_total", help, failures);
    let first_bytes = servers.iter().map(|(names, numbers)| (of_server(names), &numbers.first_byte));
    let help = "From the last byte of the request sent to the first byte of the server's answer.";
    text.histograms("tidegate_upstream_server_first_byte_seconds", help, first_bytes);
}

fn render_server_states(text: &mut Text, servers: &[(TwoNames, ServerStateMetrics)]) {
    let own = || servers.iter().filter(|(names, _)| !is_shared(names));
    let states = own().map(|(names, numbers)| {
        let [pool, server] = of_server(names);
        ([pool, server, ("state", numbers.state().as_str())], 1)
    });
    text.each("tidegate_upstream_server_state", "Always 1; the state that the server is in is in the label.", states);
    let weights = own().map(|(names, numbers)| (of_server(names), numbers.weight.value()));
    text.each("tidegate_upstream_server_weight", "Weight of the server beside the others of its pool.", weights);
    let ejections = servers.iter().map(|(names, numbers)| (of_server(names), numbers.ejections.value()));
    text.each("tidegate_upstream_server_ejections_total", "Times that a server was taken out because of its answers.", ejections);
    let checks = servers.iter().flat_map(|(names, numbers)| {
        let [pool, server] = of_server(names);
        let (passed, failed) = (numbers.checks_passed.value(), numbers.checks_failed.value());
        // A server that nobody checks has no series of it.
        let results = [("passed", passed), ("failed", failed)].into_iter().filter(move |_| passed + failed > 0);
        results.map(move |(result, count)| ([pool, server, ("result", result)], count))
    });
    text.each("tidegate_upstream_server_checks_total", "Health checks that ended, by result.", checks);
}

fn of_server(names: &TwoNames) -> [Label<'_>; 2] {
    [("pool", &names.0), ("server", &names.1)]
}

fn render_discoveries(text: &mut Text, discoveries: &[(TwoNames, DiscoveryMetrics)]) {
    let mut each = |name, help, is_set: bool, value: fn(&DiscoveryMetrics) -> &SharedNumber| {
        let shown = discoveries.iter().filter(|(names, _)| !is_set || !is_shared(names));
        text.each(name, help, shown.map(|((pool, kind), found)| ([("pool", &**pool), ("kind", &**kind)], value(found).value())));
    };
    each("tidegate_discovery_members", "Servers that the source of a pool names now.", true, |found| &found.members);
    let help = "Times that a source gave no list of servers; the last one stays.";
    each("tidegate_discovery_faults_total", help, false, |found| &found.faults);
    let help = "Times that a source named other servers than before.";
    each("tidegate_discovery_changes_total", help, false, |found| &found.changes);
    let help = "When a source gave a list last, in seconds since 1970; 0 before the first.";
    each("tidegate_discovery_last_success_timestamp_seconds", help, true, |found| &found.last_success_unix_seconds);
}

fn render_logs(text: &mut Text, totals: &Totals) {
    let lines = sum(&totals.workers, |worker| worker.access_log_lines.value());
    text.one("tidegate_access_log_lines_total", "Lines handed to the access log's writer.", lines);
    let ring_full = sum(&totals.workers, |worker| worker.access_log_dropped.value());
    let dropped = [("ring_full", ring_full), ("write_failed", totals.access_log_write_failed)];
    let help = "Lines lost because the writer was too slow or could not write.";
    text.by_word("tidegate_access_log_dropped_total", help, "reason", dropped);
    text.one("tidegate_log_events_dropped_total", "Events lost because standard error was too slow.", events::dropped());
}

fn render_configuration(text: &mut Text, configuration: &ConfigurationMetrics) {
    let generation = configuration.generation.value();
    text.one("tidegate_configuration_generation", "Number of the configuration that runs.", generation);
    let applied = configuration.applied_unix_seconds.value();
    text.one("tidegate_configuration_applied_timestamp_seconds", "When it was applied, in seconds since 1970.", applied);
    let results = ChangeResult::VARIANTS.iter().map(|result| result.as_str());
    let results = results.zip(configuration.results.iter().map(SharedNumber::value));
    let help = "Attempts to change the configuration, by how they ended.";
    text.by_word("tidegate_configuration_changes_total", help, "result", results);
    let help = "1 when the last attempt was refused: what is written does not run.";
    text.one("tidegate_configuration_refused", help, configuration.is_refused.value());
    let help = "1 when a restart would bring another configuration than the running one.";
    text.one("tidegate_configuration_drifted", help, configuration.is_drifted.value());
    if configuration.asks_containers.value() != 0 {
        let stages = ContainerStage::ALL.iter().map(|stage| stage.as_str());
        let stages = stages.zip(configuration.containers.iter().map(SharedNumber::value));
        text.by_word("tidegate_containers", "Containers with labels that are read, by how they are.", "stage", stages);
        let help = "Labels of containers of which something is wrong, or strange.";
        text.one("tidegate_container_label_faults", help, configuration.label_faults.value());
    }
}

fn render_kubernetes(text: &mut Text, figures: &KubernetesFigures) {
    let KubernetesFigures { objects, silence_seconds, findings, kept_last_good, writing } = figures;
    text.by_word("tidegate_kubernetes_objects", "Objects of the cluster that are known.", "kind", objects.iter().copied());
    let help = "How long nothing was heard of a kind of objects, in seconds.";
    text.by_word("tidegate_kubernetes_watch_stale_seconds", help, "kind", silence_seconds.iter().copied());
    let help = "What of objects cannot be used, or is used otherwise than it reads.";
    text.by_word("tidegate_kubernetes_findings", help, "code", findings.iter().map(|(code, count)| (*code, count)));
    let help = "Sites and pools that are served as they were, since what objects ask for cannot run.";
    text.one("tidegate_kubernetes_kept_last_good", help, kept_last_good);
    let Some(writing) = writing else { return };
    let help = "1 when this process is the one that writes statuses and Events.";
    text.one("tidegate_kubernetes_leader", help, u8::from(writing.is_leader));
    let help = "Statuses of objects that are not as they are to be.";
    text.one("tidegate_kubernetes_statuses_pending", help, writing.statuses_pending);
    let help = "What was written into the cluster, and what could not be.";
    let counts = [
        ("status", writing.statuses_written),
        ("event", writing.events_written),
        ("secret", writing.secrets_written),
        ("failed", writing.faults),
    ];
    text.by_word("tidegate_kubernetes_writes_total", help, "what", counts);
}

fn render_memory(text: &mut Text, memory: &MemoryMetrics) {
    if memory.budget_bytes.value() == 0 {
        return;
    }
    text.one("tidegate_memory_budget_bytes", "Memory that the process may use.", memory.budget_bytes.value());
    text.one("tidegate_memory_used_bytes", "Memory that counts against the budget.", memory.used_bytes.value());
    let help = "1 while requests are refused because the budget is nearly used up.";
    text.one("tidegate_memory_shedding", help, memory.is_shedding.value());
}

fn render_log_ins(text: &mut Text, log_ins: &LogInMetrics) {
    let outcomes = [("session", &log_ins.begun_sessions), ("failed", &log_ins.failed_log_ins)];
    let refreshes = [("renewed", &log_ins.renewed), ("over", &log_ins.over), ("away", &log_ins.away)];
    let none = |numbers: &[(&str, &SharedNumber)]| numbers.iter().all(|(_, number)| number.value() == 0);
    if none(&outcomes) && none(&refreshes) && log_ins.revoked.value() == 0 {
        return;
    }
    let each = |numbers: [(&'static str, &SharedNumber); 2]| numbers.map(|(name, number)| ([("outcome", name)], number.value()));
    text.each("tidegate_oidc_log_ins_total", "Log-ins that came back from their provider, by how they ended.", each(outcomes));
    let refreshes = refreshes.map(|(name, number)| ([("outcome", name)], number.value()));
    text.each("tidegate_oidc_refreshes_total", "Sessions that this host has refreshed, by outcome.", refreshes);
    let help = "Sessions and people that are refused before their sessions' time.";
    text.one("tidegate_oidc_revoked", help, log_ins.revoked.value());
}

fn render_cache(text: &mut Text, cache: Option<CacheNumbers>) {
    let Some(numbers) = cache else { return };
    let results =
        [("hit", numbers.hits), ("stale", numbers.stale_hits), ("miss", numbers.misses), ("collapsed", numbers.collapsed)];
    let help = "Requests that the cache looked for, by what it found.";
    text.by_word("tidegate_cache_requests_total", help, "result", results);
    let disk = numbers.disk;
    let mut by_tier = |name, help, of_memory: u64, of_disk: Option<u64>| {
        let tiers = [("memory", Some(of_memory)), ("disk", of_disk)];
        text.by_word(name, help, "tier", tiers.into_iter().filter_map(|(tier, count)| Some((tier, count?))));
    };
    by_tier("tidegate_cache_objects", "Answers that are kept.", numbers.objects, disk.map(|disk| disk.objects));
    by_tier("tidegate_cache_bytes", "What they take.", numbers.bytes, disk.map(|disk| disk.bytes));
    by_tier("tidegate_cache_stored_total", "Answers that were taken in.", numbers.stored, disk.map(|disk| disk.written));
    let evicted = disk.map(|disk| disk.evicted);
    by_tier("tidegate_cache_evicted_total", "Answers that made room for others.", numbers.evicted, evicted);
    text.one("tidegate_cache_purged_total", "Answers that were purged.", numbers.purged);
    let Some(disk) = disk else { return };
    text.one("tidegate_cache_disk_reads_total", "Answers that came from the disk.", disk.read);
    let help = "Files that were thrown away because they were not whole.";
    text.one("tidegate_cache_disk_damaged_total", help, disk.damaged);
    let help = "Times that the disk failed; each time it is left alone for a minute.";
    text.one("tidegate_cache_disk_errors_total", help, disk.errors);
}

fn render_token_keys(text: &mut Text, keys: &TokenKeyMetrics) {
    let sets: Vec<_> = STATES.into_iter().zip(keys.sets.iter().map(SharedNumber::value)).collect();
    if sets.iter().all(|(_, count)| *count == 0) {
        return;
    }
    let help =
        "Sets of keys that tokens are verified with, by whether they were had at the last attempt, and whether there are keys.";
    text.by_word("tidegate_token_key_sets", help, "state", sets);
    text.one("tidegate_token_keys", "Keys that tokens are verified with.", keys.keys.value());
    let help = "When the set was read that has not been read for longest, in seconds since 1970.";
    text.one("tidegate_token_keys_oldest_read_timestamp_seconds", help, keys.oldest_read_unix_seconds.value());
}

fn render_certificates(text: &mut Text, certificates: &CertificateMetrics) {
    let shown = certificates.shown();
    if !shown.ends.is_empty() {
        let ends = shown.ends.iter().map(|end| ([("name", &*end.name), ("source", end.source)], end.not_after_unix_seconds));
        let help = "When a certificate that is served ends, in seconds since 1970; those that end first.";
        text.each("tidegate_certificate_not_after_timestamp_seconds", help, ends);
    }
    if let Some(numbers) = shown.staples {
        let states = [("stapled", numbers.stapled), ("missing", numbers.missing), ("revoked", numbers.revoked)];
        let help = "Certificates whose OCSP responder is asked, by what handshakes get of it.";
        text.by_word("tidegate_ocsp_certificates", help, "state", states);
        let (answered, failed) = (certificates.responders_answered.value(), certificates.responders_failed.value());
        let help = "Questions to OCSP responders, by what became of them.";
        text.by_word("tidegate_ocsp_requests_total", help, "result", [("answered", answered), ("failed", failed)]);
    }
    let Some(numbers) = shown.obtained else { return };
    let states = [("ready", numbers.ready), ("missing", numbers.missing), ("failing", numbers.failing), ("late", numbers.late)];
    let help = "Names whose certificates are obtained, by how they are.";
    text.by_word("tidegate_obtained_certificates", help, "state", states);
    let orders = [("issued", certificates.issued.value()), ("failed", certificates.failed.value())];
    let help = "Attempts to obtain a certificate, by what became of them.";
    text.by_word("tidegate_certificate_orders_total", help, "result", orders);
    let on_demand = certificates.on_demand.iter().map(SharedNumber::value);
    if on_demand.clone().sum::<i64>() > 0 {
        let results = OnDemandResult::VARIANTS.iter().map(|result| result.as_str());
        let help = "Names that handshakes asked for on demand, by what became of them.";
        text.by_word("tidegate_on_demand_names_total", help, "result", results.zip(on_demand));
    }
}

fn render_process(text: &mut Text, totals: &Totals) {
    let version = [([("version", totals.version)], 1)];
    text.each("tidegate_build_info", "Always 1; the version is in the label.", version);
    text.one("tidegate_workers", "Worker threads that take connections.", totals.configuration.workers.value());
    let started = totals.started.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    text.one("process_start_time_seconds", "Start of the process, in seconds since 1970.", started);
    text.one("process_cpu_seconds_total", "CPU time of all threads, user and system.", totals.process.cpu_seconds);
    if let Some(bytes) = totals.process.resident_bytes {
        text.one("process_resident_memory_bytes", "Memory in RAM.", bytes);
    }
    if let Some(count) = totals.process.open_fds {
        text.one("process_open_fds", "Open file descriptors.", count);
    }
    if let Some(count) = totals.process.max_fds {
        text.one("process_max_fds", "File descriptors that may be open.", count);
    }
}

type Workers = Arc<WorkerMetrics>;
type Label<'a> = (&'a str, &'a str);

fn sum(workers: &[Workers], value: impl Fn(&WorkerMetrics) -> u64) -> u64 {
    workers.iter().map(|worker| value(worker)).sum()
}

/// The text so far, and the family that samples are added to.
#[derive(Default)]
struct Text {
    out: String,
    name: &'static str,
}

impl Text {
    /// A name that ends with `_total` is that of a counter, as the format wants it.
    fn family(&mut self, name: &'static str, help: &str) {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        self.family_of(name, kind, help);
    }

    fn family_of(&mut self, name: &'static str, kind: &str, help: &str) {
        debug_assert!(!help.contains(['\\', '\n']), "a help text that would need escaping");
        self.name = name;
        self.push(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// A family of one sample without labels.
    fn one(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, help);
        self.sample(&[], value);
    }

    fn each<'a, const N: usize, V: Display>(
        &mut self,
        name: &'static str,
        help: &str,
        samples: impl IntoIterator<Item = ([Label<'a>; N], V)>,
    ) {
        self.family(name, help);
        samples.into_iter().for_each(|(labels, value)| self.sample(&labels, value));
    }

    /// A family whose samples are told apart by one label with a fixed set of words.
    fn by_word<'a, V: Display>(
        &mut self,
        name: &'static str,
        help: &str,
        label: &'a str,
        samples: impl IntoIterator<Item = (&'a str, V)>,
    ) {
        self.each(name, help, samples.into_iter().map(|(word, value)| ([(label, word)], value)));
    }

    /// Workers see reasons in different orders; each reason is one series.
    fn reasons(&mut self, name: &'static str, help: &str, counts: impl Iterator<Item = (&'static str, u64)>) {
        let mut by_reason: BTreeMap<&str, u64> = BTreeMap::new();
        for (reason, count) in counts {
            *by_reason.entry(reason).or_default() += count;
        }
        self.by_word(name, help, "reason", by_reason);
    }

    /// Nothing for a histogram without values: an idle site is no series.
    fn histograms<'a, const N: usize>(
        &mut self,
        name: &'static str,
        help: &str,
        histograms: impl Iterator<Item = ([Label<'a>; N], &'a HistogramTotals)>,
    ) {
        self.family_of(name, "histogram", help);
        for (labels, totals) in histograms.filter(|(_, totals)| totals.count() > 0) {
            for (bound_us, up_to) in totals.cumulative() {
                let bound = seconds(bound_us).to_string();
                self.line("_bucket", &[&labels[..], &[("le", &bound)]].concat(), up_to);
            }
            self.line("_bucket", &[&labels[..], &[("le", "+Inf")]].concat(), totals.count());
            self.line("_sum", &labels, seconds(totals.sum_us));
            self.line("_count", &labels, totals.count());
        }
    }

    fn sample(&mut self, labels: &[Label<'_>], value: impl Display) {
        self.line("", labels, value);
    }

    fn line(&mut self, suffix: &str, labels: &[Label<'_>], value: impl Display) {
        self.out.push_str(self.name);
        self.out.push_str(suffix);
        let mut separator = '{';
        // To Prometheus a label without a text is none.
        for (name, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
            self.out.push(separator);
            separator = ',';
            self.out.push_str(name);
            self.out.push_str("=\"");
            push_label_value(&mut self.out, value);
            self.out.push('"');
        }
        if separator == ',' {
            self.out.push('}');
        }
        self.push(format_args!(" {value}\n"));
    }

    fn push(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.out.write_fmt(arguments).expect("writing to a String does not fail");
    }
}

fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}

fn push_label_value(out: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}
