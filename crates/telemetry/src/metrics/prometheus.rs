//! The numbers as Prometheus reads them: text format 0.0.4. Names and labels are part of the user surface; they do not
//! change once released.
//!
//! A family stands together under its HELP and TYPE lines, as the format demands; label values are escaped.

use super::cache::CacheNumbers;
use super::certificates::{self, OnDemandResult};
use super::configuration::{ChangeResult, ConfigurationMetrics};
use super::discovery::DiscoveryNumbers;
use super::histogram::HistogramTotals;
use super::memory::MemoryNumbers;
use super::pool::{MirrorResult, PoolTotals, UpstreamError};
use super::registry::{Registry, Totals};
use super::server::ServerTotals;
use super::server_state::ServerStateNumbers;
use super::table::{TwoNames, is_shared};
use super::worker::{HandshakeFailure, HandshakeKind, ListenerKind, TLS_VERSIONS, WorkerMetrics};
use crate::events;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::time::UNIX_EPOCH;
use tidegate_model::TlsVersion;

/// The first bound of latency histograms is 2^7 µs = 128 µs; each further one doubles it, up to 134 s: 21 series and
/// `+Inf`.
const FIRST_BOUND_BITS: u32 = 7;

impl Registry {
    /// Everything, in Prometheus' text format 0.0.4 (`Content-Type: text/plain; version=0.0.4; charset=utf-8`).
    pub fn render_prometheus(&self) -> String {
        render(&self.totals())
    }
}

fn render(totals: &Totals) -> String {
    let mut text = Text::default();
    render_requests(&mut text, totals);
    render_clients(&mut text, &totals.workers);
    render_handshakes(&mut text, &totals.workers);
    render_pools(&mut text, totals);
    render_pool_errors(&mut text, totals);
    render_mirrors(&mut text, totals);
    render_servers(&mut text, &totals.servers);
    render_server_states(&mut text, &totals.server_states);
    render_discoveries(&mut text, &totals.discoveries);
    render_logs(&mut text, totals);
    render_configuration(&mut text, &totals.configuration);
    render_memory(&mut text, totals.memory);
    render_cache(&mut text, totals.cache);
    render_certificates(&mut text, &totals.certificates);
    render_process(&mut text, totals);
    text.out
}

fn render_requests(text: &mut Text, totals: &Totals) {
    text.family("tidegate_http_requests_total", "counter", "Requests answered, by site and status.");
    for (site, numbers) in &totals.sites {
        for (status, count) in &numbers.statuses {
            let class = format!("{}xx", status / 100);
            text.sample(&[("site", site), ("status", &status.to_string()), ("class", &class)], count);
        }
    }
    text.family(
        "tidegate_http_request_duration_seconds",
        "histogram",
        "From the end of the request's head to the end of its answer.",
    );
    for (site, numbers) in &totals.sites {
        text.histogram(&[("site", site)], &numbers.latency);
    }
    text.family("tidegate_http_response_body_bytes_total", "counter", "Body bytes of answers, by site.");
    for (site, numbers) in &totals.sites {
        if !numbers.statuses.is_empty() {
            text.sample(&[("site", site)], numbers.bytes_out);
        }
    }
    let workers = &totals.workers;
    text.family("tidegate_http_refused_total", "counter", "Requests that the proxy itself answered with an error, by reason.");
    text.reasons(workers.iter().flat_map(|worker| worker.refused.iter()));
    text.family(
        "tidegate_http_refused_dry_run_total",
        "counter",
        "Requests that limits with dry-run would have refused, by reason.",
    );
    text.reasons(workers.iter().flat_map(|worker| worker.refused_on_trial.iter()));
    text.family("tidegate_http2_floods_total", "counter", "HTTP/2 connections closed because of a flood.");
    text.reasons(workers.iter().flat_map(|worker| worker.h2_floods.iter()));
    text.family("tidegate_http_early_hints_total", "counter", "103 answers passed on to clients.");
    text.sample(&[], sum(workers, |worker| worker.early_hints.value()));
    text.family(
        "tidegate_http_early_data_requests_total",
        "counter",
        "Requests in TLS early data that did not wait for the handshake.",
    );
    text.sample(&[], sum(workers, |worker| worker.early_requests.value()));
    text.family(
        "tidegate_panics_caught_total",
        "counter",
        "Faults of the proxy itself that ended one connection. Please report them.",
    );
    text.sample(&[], sum(workers, |worker| worker.panics_caught.value()));
}

fn render_clients(text: &mut Text, workers: &[Workers]) {
    text.family("tidegate_client_connections_active", "gauge", "Open client connections.");
    for kind in ListenerKind::ALL {
        let active: i64 = workers.iter().map(|worker| worker.listener(kind).connections_active.value()).sum();
        text.sample(&[("listener", kind.as_str())], active);
    }
    text.family("tidegate_client_connections_total", "counter", "Client connections accepted.");
    for kind in ListenerKind::ALL {
        let opened = sum(workers, |worker| worker.listener(kind).connections_opened.value());
        text.sample(&[("listener", kind.as_str())], opened);
    }
    text.family("tidegate_client_connections_refused_total", "counter", "Client connections closed before a request, by reason.");
    text.reasons(workers.iter().flat_map(|worker| worker.connections_refused.iter()));
    text.family("tidegate_tcp_connections_total", "counter", "Connections passed on as they are, by why they ended.");
    text.reasons(workers.iter().flat_map(|worker| worker.passthrough.iter()));
    text.family("tidegate_client_bytes_total", "counter", "Bytes from (received) and to (sent) clients, as on the wire.");
    text.sample(&[("direction", "received")], sum(workers, |worker| worker.client_bytes_received.value()));
    text.sample(&[("direction", "sent")], sum(workers, |worker| worker.client_bytes_sent.value()));
    text.family(
        "tidegate_upstream_bytes_total",
        "counter",
        "Bytes from (received) and to (sent) upstream servers, as on the wire.",
    );
    text.sample(&[("direction", "received")], sum(workers, |worker| worker.upstream_bytes_received.value()));
    text.sample(&[("direction", "sent")], sum(workers, |worker| worker.upstream_bytes_sent.value()));
}

fn render_handshakes(text: &mut Text, workers: &[Workers]) {
    text.family("tidegate_tls_handshakes_total", "counter", "TLS handshakes with clients; a failed one has no version.");
    for kind in HandshakeKind::ALL {
        for version in TLS_VERSIONS {
            let label = match version {
                TlsVersion::V1_2 => "1.2",
                TlsVersion::V1_3 => "1.3",
            };
            let count = sum(workers, |worker| worker.handshakes_of(kind, version));
            text.sample(&[("kind", kind.as_str()), ("version", label)], count);
        }
    }
    let failed: BTreeMap<_, _> = HandshakeFailure::ALL
        .iter()
        .map(|failure| (failure.reason(), sum(workers, |worker| worker.handshakes_failed(*failure))))
        .collect();
    text.sample(&[("kind", "failed"), ("version", "")], failed.values().sum::<u64>());
    text.family("tidegate_tls_handshake_failures_total", "counter", "TLS handshakes with clients that failed, by reason.");
    for (reason, count) in failed {
        text.sample(&[("reason", reason)], count);
    }
}

fn render_pools(text: &mut Text, totals: &Totals) {
    let pools = &totals.pools;
    let mut per_pool = |name, kind, help, value: fn(&PoolTotals) -> i128| {
        text.family(name, kind, help);
        for (pool, numbers) in pools {
            text.sample(&[("pool", pool)], value(numbers));
        }
    };
    per_pool("tidegate_upstream_requests_total", "counter", "Requests sent to upstream servers, each attempt counted.", |pool| {
        pool.requests.into()
    });
    per_pool("tidegate_upstream_retries_total", "counter", "Attempts after the first.", |pool| pool.retries.into());
    per_pool("tidegate_upstream_retries_refused_total", "counter", "Attempts that the retry budget did not allow.", |pool| {
        pool.retries_refused.into()
    });
    per_pool("tidegate_upstream_hedges_total", "counter", "Requests sent to a second server while the first was slow.", |pool| {
        pool.hedges.into()
    });
    per_pool(
        "tidegate_upstream_last_resort_total",
        "counter",
        "Requests sent to a server that is out, nothing else left.",
        |pool| pool.last_resort.into(),
    );
    per_pool("tidegate_upstream_queued", "gauge", "Requests that wait for an upstream server.", |pool| pool.queued.into());
    per_pool("tidegate_upstream_queue_refused_total", "counter", "Requests that found the queue full.", |pool| {
        pool.queue_refused.into()
    });
    per_pool("tidegate_upstream_connections_active", "gauge", "Upstream connections with a request on them.", |pool| {
        pool.connections_active.into()
    });
    per_pool("tidegate_upstream_connections_idle", "gauge", "Upstream connections that wait for a request.", |pool| {
        pool.connections_idle.into()
    });
    text.family(
        "tidegate_upstream_connections_total",
        "counter",
        "Where requests' upstream connections came from: opened for them (new) or kept from before (reused).",
    );
    for (pool, numbers) in pools {
        text.sample(&[("pool", pool), ("kind", "new")], numbers.connections_opened);
        text.sample(&[("pool", pool), ("kind", "reused")], numbers.connections_reused);
    }
    text.family(
        "tidegate_upstream_first_byte_seconds",
        "histogram",
        "From the last byte of the request sent to the first byte of the answer.",
    );
    for (pool, numbers) in pools {
        text.histogram(&[("pool", pool)], &numbers.first_byte);
    }
}

fn render_pool_errors(text: &mut Text, totals: &Totals) {
    text.family("tidegate_upstream_errors_total", "counter", "What went wrong with upstream servers, by reason.");
    for (pool, numbers) in &totals.pools {
        for (error, count) in UpstreamError::ALL.iter().zip(numbers.errors) {
            // A series of each reason for each pool that is well would say nothing.
            if count > 0 {
                text.sample(&[("pool", pool), ("reason", error.reason())], count);
            }
        }
    }
}

fn render_mirrors(text: &mut Text, totals: &Totals) {
    text.family(
        "tidegate_mirror_requests_total",
        "counter",
        "Requests that were to be copied to a pool, by what became of the copy.",
    );
    for (pool, numbers) in &totals.pools {
        for (result, count) in MirrorResult::ALL.iter().zip(numbers.mirrored) {
            // Most pools get no copies.
            if count > 0 {
                text.sample(&[("pool", pool), ("result", result.as_str())], count);
            }
        }
    }
}

fn render_servers(text: &mut Text, servers: &[(TwoNames, ServerTotals)]) {
    text.family("tidegate_upstream_server_requests_total", "counter", "Requests sent to a server, each attempt counted.");
    for ((pool, server), numbers) in servers {
        text.sample(&[("pool", pool), ("server", server)], numbers.requests);
    }
    text.family(
        "tidegate_upstream_server_failures_total",
        "counter",
        "Attempts that count against a server: refused, broken, late, or answered with 500, 502, 503 or 504.",
    );
    for ((pool, server), numbers) in servers {
        text.sample(&[("pool", pool), ("server", server)], numbers.failures);
    }
    text.family(
        "tidegate_upstream_server_first_byte_seconds",
        "histogram",
        "From the last byte of the request sent to the first byte of the server's answer.",
    );
    for ((pool, server), numbers) in servers {
        text.histogram(&[("pool", pool), ("server", server)], &numbers.first_byte);
    }
}

fn render_server_states(text: &mut Text, servers: &[(TwoNames, ServerStateNumbers)]) {
    let own = || servers.iter().filter(|(names, _)| !is_shared(names));
    text.family("tidegate_server_state", "gauge", "Always 1; the state that the server is in is in the label.");
    for ((pool, server), numbers) in own() {
        text.sample(&[("pool", pool), ("server", server), ("state", numbers.word.as_str())], 1);
    }
    text.family("tidegate_server_weight", "gauge", "Weight of the server beside the others of its pool.");
    for ((pool, server), numbers) in own() {
        text.sample(&[("pool", pool), ("server", server)], numbers.weight);
    }
    text.family("tidegate_server_ejections_total", "counter", "Times that a server was taken out because of its answers.");
    for ((pool, server), numbers) in servers {
        text.sample(&[("pool", pool), ("server", server)], numbers.ejections);
    }
    text.family("tidegate_server_checks_total", "counter", "Health checks that ended, by result.");
    for ((pool, server), numbers) in servers {
        // A server that nobody checks has no series of it.
        if numbers.checks_passed + numbers.checks_failed > 0 {
            text.sample(&[("pool", pool), ("server", server), ("result", "passed")], numbers.checks_passed);
            text.sample(&[("pool", pool), ("server", server), ("result", "failed")], numbers.checks_failed);
        }
    }
}

fn render_discoveries(text: &mut Text, discoveries: &[(TwoNames, DiscoveryNumbers)]) {
    let own = || discoveries.iter().filter(|(names, _)| !is_shared(names));
    text.family("tidegate_discovery_members", "gauge", "Servers that the source of a pool names now.");
    for ((pool, kind), numbers) in own() {
        text.sample(&[("pool", pool), ("kind", kind)], numbers.members);
    }
    text.family("tidegate_discovery_faults_total", "counter", "Times that a source gave no list of servers; the last one stays.");
    for ((pool, kind), numbers) in discoveries {
        text.sample(&[("pool", pool), ("kind", kind)], numbers.faults);
    }
    text.family("tidegate_discovery_changes_total", "counter", "Times that a source named other servers than before.");
    for ((pool, kind), numbers) in discoveries {
        text.sample(&[("pool", pool), ("kind", kind)], numbers.changes);
    }
    text.family(
        "tidegate_discovery_last_success_timestamp_seconds",
        "gauge",
        "When a source gave a list last, in seconds since 1970; 0 before the first.",
    );
    for ((pool, kind), numbers) in own() {
        text.sample(&[("pool", pool), ("kind", kind)], numbers.last_success_unix_seconds);
    }
}

fn render_logs(text: &mut Text, totals: &Totals) {
    text.family("tidegate_access_log_lines_total", "counter", "Lines handed to the access log's writer.");
    text.sample(&[], sum(&totals.workers, |worker| worker.access_log_lines.value()));
    text.family("tidegate_access_log_dropped_total", "counter", "Lines lost because the writer was too slow or could not write.");
    text.sample(&[("reason", "ring_full")], sum(&totals.workers, |worker| worker.access_log_dropped.value()));
    text.sample(&[("reason", "write_failed")], totals.access_log_write_failed);
    text.family("tidegate_log_events_dropped_total", "counter", "Events lost because standard error was too slow.");
    text.sample(&[], events::dropped());
}

fn render_configuration(text: &mut Text, configuration: &ConfigurationMetrics) {
    text.family("tidegate_configuration_generation", "gauge", "Number of the configuration that runs.");
    text.sample(&[], configuration.generation());
    text.family("tidegate_configuration_applied_timestamp_seconds", "gauge", "When it was applied, in seconds since 1970.");
    text.sample(&[], configuration.applied_unix_seconds());
    text.family("tidegate_configuration_changes_total", "counter", "Attempts to change the configuration, by how they ended.");
    for result in ChangeResult::ALL {
        text.sample(&[("result", result.as_str())], configuration.count(result));
    }
    text.family("tidegate_configuration_refused", "gauge", "1 when the last attempt was refused: what is written does not run.");
    text.sample(&[], u8::from(configuration.is_refused()));
    text.family(
        "tidegate_configuration_drifted",
        "gauge",
        "1 when a restart would bring another configuration than the running one.",
    );
    text.sample(&[], u8::from(configuration.is_drifted()));
}

fn render_memory(text: &mut Text, memory: Option<MemoryNumbers>) {
    let Some(MemoryNumbers { budget_bytes, used_bytes, is_shedding }) = memory else { return };
    text.family("tidegate_memory_budget_bytes", "gauge", "Memory that the process may use.");
    text.sample(&[], budget_bytes);
    text.family("tidegate_memory_used_bytes", "gauge", "Memory that counts against the budget.");
    text.sample(&[], used_bytes);
    text.family("tidegate_memory_shedding", "gauge", "1 while requests are refused because the budget is nearly used up.");
    text.sample(&[], u8::from(is_shedding));
}

fn render_cache(text: &mut Text, cache: Option<CacheNumbers>) {
    let Some(numbers) = cache else { return };
    text.family("tidegate_cache_requests_total", "counter", "Requests that the cache looked for, by what it found.");
    let results =
        [("hit", numbers.hits), ("stale", numbers.stale_hits), ("miss", numbers.misses), ("collapsed", numbers.collapsed)];
    for (result, count) in results {
        text.sample(&[("result", result)], count);
    }
    let disk = numbers.disk;
    let mut by_tier = |name, kind, help, of_memory: u64, of_disk: Option<u64>| {
        text.family(name, kind, help);
        text.sample(&[("tier", "memory")], of_memory);
        if let Some(of_disk) = of_disk {
            text.sample(&[("tier", "disk")], of_disk);
        }
    };
    by_tier("tidegate_cache_objects", "gauge", "Answers that are kept.", numbers.objects, disk.map(|disk| disk.objects));
    by_tier("tidegate_cache_bytes", "gauge", "What they take.", numbers.bytes, disk.map(|disk| disk.bytes));
    let stored = disk.map(|disk| disk.written);
    by_tier("tidegate_cache_stored_total", "counter", "Answers that were taken in.", numbers.stored, stored);
    let evicted = disk.map(|disk| disk.evicted);
    by_tier("tidegate_cache_evicted_total", "counter", "Answers that made room for others.", numbers.evicted, evicted);
    text.family("tidegate_cache_purged_total", "counter", "Answers that were purged.");
    text.sample(&[], numbers.purged);
    let Some(disk) = disk else { return };
    text.family("tidegate_cache_disk_reads_total", "counter", "Answers that came from the disk.");
    text.sample(&[], disk.read);
    text.family("tidegate_cache_disk_damaged_total", "counter", "Files that were thrown away because they were not whole.");
    text.sample(&[], disk.damaged);
    text.family(
        "tidegate_cache_disk_errors_total",
        "counter",
        "Times that the disk failed; each time it is left alone for a minute.",
    );
    text.sample(&[], disk.errors);
}

fn render_certificates(text: &mut Text, shown: &certificates::Shown) {
    if !shown.ends.is_empty() {
        text.family(
            "tidegate_certificate_not_after_timestamp_seconds",
            "gauge",
            "When a certificate that is served ends, in seconds since 1970; those that end first.",
        );
        for end in &shown.ends {
            text.sample(&[("name", &end.name), ("source", end.source)], end.not_after_unix_seconds);
        }
    }
    if let Some(numbers) = shown.staples {
        text.family(
            "tidegate_ocsp_certificates",
            "gauge",
            "Certificates whose OCSP responder is asked, by what handshakes get of it.",
        );
        for (state, count) in [("stapled", numbers.stapled), ("missing", numbers.missing), ("revoked", numbers.revoked)] {
            text.sample(&[("state", state)], count);
        }
        text.family("tidegate_ocsp_requests_total", "counter", "Questions to OCSP responders, by what became of them.");
        text.sample(&[("result", "answered")], shown.responders_answered);
        text.sample(&[("result", "failed")], shown.responders_failed);
    }
    let Some(numbers) = shown.obtained else { return };
    text.family("tidegate_obtained_certificates", "gauge", "Names whose certificates are obtained, by how they are.");
    let states = [("ready", numbers.ready), ("missing", numbers.missing), ("failing", numbers.failing), ("late", numbers.late)];
    for (state, count) in states {
        text.sample(&[("state", state)], count);
    }
    text.family("tidegate_certificate_orders_total", "counter", "Attempts to obtain a certificate, by what became of them.");
    text.sample(&[("result", "issued")], shown.issued);
    text.sample(&[("result", "failed")], shown.failed);
    if shown.on_demand.iter().sum::<u64>() == 0 {
        return;
    }
    text.family(
        "tidegate_on_demand_names_total",
        "counter",
        "Names that handshakes asked for on demand, by what became of them.",
    );
    for (result, count) in OnDemandResult::ALL.iter().zip(shown.on_demand) {
        text.sample(&[("result", result.as_str())], count);
    }
}

fn render_process(text: &mut Text, totals: &Totals) {
    text.family("tidegate_build_info", "gauge", "Always 1; the version is in the label.");
    text.sample(&[("version", totals.version)], 1);
    text.family("tidegate_workers", "gauge", "Worker threads that take connections.");
    text.sample(&[], totals.configuration.workers());
    text.family("process_start_time_seconds", "gauge", "Start of the process, in seconds since 1970.");
    text.sample(&[], totals.started.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()));
    text.family("process_cpu_seconds_total", "counter", "CPU time of all threads, user and system.");
    text.sample(&[], totals.process.cpu_seconds);
    if let Some(bytes) = totals.process.resident_bytes {
        text.family("process_resident_memory_bytes", "gauge", "Memory in RAM.");
        text.sample(&[], bytes);
    }
    if let Some(count) = totals.process.open_fds {
        text.family("process_open_fds", "gauge", "Open file descriptors.");
        text.sample(&[], count);
    }
}

type Workers = std::sync::Arc<WorkerMetrics>;

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
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        debug_assert!(!help.contains(['\\', '\n']), "a help text that would need escaping");
        self.name = name;
        self.push(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, value);
    }

    /// Nothing for a histogram without values: an idle site is no series.
    fn histogram(&mut self, labels: &[(&str, &str)], totals: &HistogramTotals) {
        let count = totals.count();
        if count == 0 {
            return;
        }
        for (bound_us, up_to) in totals.cumulative(FIRST_BOUND_BITS) {
            let bound = seconds(bound_us).to_string();
            self.line("_bucket", &[labels, &[("le", &bound)]].concat(), up_to);
        }
        self.line("_bucket", &[labels, &[("le", "+Inf")]].concat(), count);
        self.line("_sum", labels, seconds(totals.sum_us));
        self.line("_count", labels, count);
    }

    /// Workers see reasons in different orders; each reason is one series.
    fn reasons(&mut self, counts: impl Iterator<Item = (&'static str, u64)>) {
        let mut by_reason: BTreeMap<&str, u64> = BTreeMap::new();
        for (reason, count) in counts {
            *by_reason.entry(reason).or_default() += count;
        }
        for (reason, count) in by_reason {
            self.sample(&[("reason", reason)], count);
        }
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.out.push_str(self.name);
        self.out.push_str(suffix);
        let mut separator = '{';
        for (name, value) in labels {
            self.out.push(separator);
            separator = ',';
            self.out.push_str(name);
            self.out.push_str("=\"");
            push_label_value(&mut self.out, value);
            self.out.push('"');
        }
        if !labels.is_empty() {
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
