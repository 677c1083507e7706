//! The numbers from where they are counted to the text that Prometheus reads, also while they are being counted.

use super::{AnswerKind, HandshakeFailure, HandshakeKind, ListenerKind, MethodLabel, ProtocolLabel, Registry, ServerWord};
use super::{UpstreamError, UpstreamTime};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use strum::VariantArray;
use tidegate_model::TlsVersion;

fn get(status: u16) -> AnswerKind {
    AnswerKind { status, method: MethodLabel::Get, protocol: ProtocolLabel::Http11 }
}

/// Reads a text as strictly as the format is written down, and gives back the samples by series.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut families = BTreeSet::new();
    let mut family = String::new();
    assert!(text.ends_with('\n'), "the last line has its line feed");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split_once(' ').expect("a help text").0.to_owned();
            assert!(families.insert(family.clone()), "{family} stands in two places");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(name, family, "TYPE follows HELP");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let name = series.split('{').next().expect("a name");
            let suffix = name.strip_prefix(&family).unwrap_or_else(|| panic!("{name} stands under {family}"));
            assert!(["", "_bucket", "_sum", "_count"].contains(&suffix), "{line}");
            let value = value.parse().expect("a number");
            assert!(samples.insert(series.to_owned(), value).is_none(), "{series} is there twice");
        }
    }
    check_histograms(&samples);
    samples
}

fn check_histograms(samples: &BTreeMap<String, f64>) {
    for (series, count) in samples.iter().filter(|(series, _)| series.contains("_count{")) {
        let labels = series.replace("_count{", "_bucket{");
        let labels = labels.strip_suffix('}').expect("labels end");
        let mut buckets: Vec<(f64, f64)> = samples
            .iter()
            .filter_map(|(bucket, value)| Some((bucket.strip_prefix(labels)?.strip_prefix(",le=\"")?, *value)))
            .map(|(bound, value)| (bound.strip_suffix("\"}").expect("le is last").parse().expect("a bound"), value))
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.len() > 10, "{series}");
        assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "{series} is cumulative: {buckets:?}");
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, *count)), "{series}");
    }
}

fn check(registry: &Registry, expected: &[(&str, f64)]) {
    let text = registry.render_prometheus();
    let samples = parse(&text);
    for (series, value) in expected {
        assert_eq!(samples.get(*series), Some(value), "{series} in\n{text}");
    }
}

#[test]
fn a_fresh_registry_has_the_process_and_zeroes() {
    let registry = Registry::new("1.2.3");
    check(
        &registry,
        &[
            ("tidegate_build_info{version=\"1.2.3\"}", 1.0),
            ("tidegate_client_connections_active{listener=\"https\"}", 0.0),
            ("tidegate_access_log_dropped_total{reason=\"ring_full\"}", 0.0),
        ],
    );
    let samples = parse(&registry.render_prometheus());
    assert!(samples["process_start_time_seconds"] > 1.7e9);
    assert!(samples["process_cpu_seconds_total"] > 0.0);
    assert!(!samples.keys().any(|series| series.contains("site=")));
}

#[test]
fn workers_are_added_up() {
    let registry = Registry::new("test");
    registry.configuration().set_workers(3);
    for index in 0..3 {
        let worker = registry.worker(index);
        worker.listener(ListenerKind::Https).connections_opened.add(10);
        worker.listener(ListenerKind::Https).connections_active.add(index as i64);
        worker.client_bytes_sent.add(1000);
        worker.handshake(HandshakeKind::Full, TlsVersion::V1_3, Duration::from_millis(7));
        worker.handshake_failed(HandshakeFailure::UnknownName);
        worker.refused.increment(["no_route", "bad_request", "no_route"][index]);
        registry.log_writer().add_write_failed(2);
    }
    check(
        &registry,
        &[
            ("tidegate_client_connections_total{listener=\"https\"}", 30.0),
            ("tidegate_client_connections_active{listener=\"https\"}", 3.0),
            ("tidegate_client_connections_active{listener=\"http\"}", 0.0),
            ("tidegate_client_bytes_total{direction=\"sent\"}", 3000.0),
            ("tidegate_tls_handshakes_total{kind=\"full\",version=\"1.3\"}", 3.0),
            ("tidegate_tls_handshakes_total{kind=\"resumed\",version=\"1.3\"}", 0.0),
            ("tidegate_tls_handshakes_total{kind=\"failed\"}", 3.0),
            ("tidegate_tls_handshake_failures_total{reason=\"unknown_name\"}", 3.0),
            ("tidegate_http_refused_total{reason=\"no_route\"}", 2.0),
            ("tidegate_http_refused_total{reason=\"bad_request\"}", 1.0),
            ("tidegate_access_log_dropped_total{reason=\"write_failed\"}", 6.0),
            ("tidegate_workers", 3.0),
        ],
    );
}

#[test]
fn sites_and_pools_have_their_series() {
    let registry = Registry::new("test");
    for worker in 0..2 {
        let site = registry.site(worker, "https://a.example", "");
        site.begin();
        site.record(get(200), Duration::from_micros(100), 11);
        site.record(get(404), Duration::from_millis(3), 5);
        registry.site(worker, "https://a.example", "cart").record(get(200), Duration::from_millis(25), 7);
        registry.site(worker, "https://idle.example", "");
        registry.without_site(worker).record(get(421), Duration::ZERO, 0);
        let pool = registry.pool(worker, "api");
        pool.requests.add(2);
        pool.connections_opened.increment();
        pool.connections_reused.increment();
        pool.connections_idle.increment();
        pool.retries.increment();
        pool.error(UpstreamError::ConnectTimeout);
        pool.record(UpstreamTime::FirstByte, Duration::from_millis(1500));
        pool.record(UpstreamTime::Queue, Duration::from_millis(1));
        pool.record(UpstreamTime::Connect, Duration::from_millis(2));
        pool.record(UpstreamTime::TlsHandshake, Duration::from_millis(3));
        pool.record(UpstreamTime::Whole, Duration::from_millis(4));
    }
    let a = "site=\"https://a.example\"";
    let of_get = "method=\"GET\",protocol=\"HTTP/1.1\"";
    check(
        &registry,
        &[
            (&format!("tidegate_http_requests_total{{{a},{of_get},status=\"200\",class=\"2xx\"}}"), 2.0),
            (&format!("tidegate_http_requests_total{{{a},{of_get},status=\"404\",class=\"4xx\"}}"), 2.0),
            (&format!("tidegate_http_requests_total{{{a},route=\"cart\",{of_get},status=\"200\",class=\"2xx\"}}"), 2.0),
            (&format!("tidegate_http_requests_total{{site=\"none\",{of_get},status=\"421\",class=\"4xx\"}}"), 2.0),
            (&format!("tidegate_http_requests_in_flight{{{a}}}"), 2.0),
            (&format!("tidegate_http_request_duration_seconds_bucket{{{a},route=\"cart\",le=\"0.01\"}}"), 0.0),
            (&format!("tidegate_http_request_duration_seconds_bucket{{{a},route=\"cart\",le=\"0.025\"}}"), 2.0),
            ("tidegate_http_response_body_bytes_total{site=\"https://a.example\"}", 32.0),
            ("tidegate_http_request_duration_seconds_bucket{site=\"https://a.example\",le=\"0.0001\"}", 2.0),
            ("tidegate_http_request_duration_seconds_bucket{site=\"https://a.example\",le=\"0.005\"}", 4.0),
            ("tidegate_http_request_duration_seconds_count{site=\"https://a.example\"}", 4.0),
            ("tidegate_http_request_duration_seconds_sum{site=\"https://a.example\"}", 0.0062),
            ("tidegate_upstream_requests_total{pool=\"api\"}", 4.0),
            ("tidegate_upstream_connections_total{pool=\"api\",kind=\"new\"}", 2.0),
            ("tidegate_upstream_connections_total{pool=\"api\",kind=\"reused\"}", 2.0),
            ("tidegate_upstream_connections_idle{pool=\"api\"}", 2.0),
            ("tidegate_upstream_connections_active{pool=\"api\"}", 0.0),
            ("tidegate_upstream_retries_total{pool=\"api\"}", 2.0),
            ("tidegate_upstream_errors_total{pool=\"api\",reason=\"connect_timeout\"}", 2.0),
            ("tidegate_upstream_first_byte_seconds_sum{pool=\"api\"}", 3.0),
            ("tidegate_upstream_queue_seconds_sum{pool=\"api\"}", 0.002),
            ("tidegate_upstream_connect_seconds_sum{pool=\"api\"}", 0.004),
            ("tidegate_upstream_tls_handshake_seconds_sum{pool=\"api\"}", 0.006),
            ("tidegate_upstream_request_duration_seconds_sum{pool=\"api\"}", 0.008),
        ],
    );
    assert!(!registry.render_prometheus().contains("idle.example"), "an idle site is no series");
}

#[test]
fn what_a_pool_does_about_failures_has_its_series() {
    let registry = Registry::new("test");
    for worker in 0..2 {
        let pool = registry.pool(worker, "api");
        pool.hedges.add(1);
        pool.retries_refused.add(2);
        pool.last_resort.add(3);
        pool.queued.add(4);
        pool.queue_refused.add(5);
        pool.error(UpstreamError::QueueTimeout);
        pool.error(UpstreamError::BadStatus);
        pool.error(UpstreamError::Overloaded);
    }
    check(
        &registry,
        &[
            ("tidegate_upstream_hedges_total{pool=\"api\"}", 2.0),
            ("tidegate_upstream_retries_refused_total{pool=\"api\"}", 4.0),
            ("tidegate_upstream_last_resort_total{pool=\"api\"}", 6.0),
            ("tidegate_upstream_queued{pool=\"api\"}", 8.0),
            ("tidegate_upstream_queue_refused_total{pool=\"api\"}", 10.0),
            ("tidegate_upstream_errors_total{pool=\"api\",reason=\"queue_timeout\"}", 2.0),
            ("tidegate_upstream_errors_total{pool=\"api\",reason=\"bad_status\"}", 2.0),
            ("tidegate_upstream_errors_total{pool=\"api\",reason=\"overloaded\"}", 2.0),
        ],
    );
}

#[test]
fn servers_have_their_series() {
    let registry = Registry::new("test");
    for worker in 0..2 {
        let server = registry.server(worker, "api", "10.0.0.1:80");
        server.requests.add(3);
        server.failures.increment();
        server.record_first_byte(Duration::from_millis(3));
        server.in_flight.increment();
        server.answered(503);
        registry.server(worker, "api", "10.0.0.2:80");
    }
    let of_first = "pool=\"api\",server=\"10.0.0.1:80\"";
    check(
        &registry,
        &[
            (&format!("tidegate_upstream_server_requests_total{{{of_first}}}"), 6.0),
            (&format!("tidegate_upstream_server_failures_total{{{of_first}}}"), 2.0),
            (&format!("tidegate_upstream_server_requests_in_flight{{{of_first}}}"), 2.0),
            (&format!("tidegate_upstream_server_answers_total{{{of_first},class=\"5xx\"}}"), 2.0),
            (&format!("tidegate_upstream_server_first_byte_seconds_bucket{{{of_first},le=\"0.0025\"}}"), 0.0),
            (&format!("tidegate_upstream_server_first_byte_seconds_bucket{{{of_first},le=\"0.005\"}}"), 2.0),
            (&format!("tidegate_upstream_server_first_byte_seconds_sum{{{of_first}}}"), 0.006),
            ("tidegate_upstream_server_requests_total{pool=\"api\",server=\"10.0.0.2:80\"}", 0.0),
        ],
    );
    let idle = "tidegate_upstream_server_first_byte_seconds_count{pool=\"api\",server=\"10.0.0.2:80\"}";
    assert!(!registry.render_prometheus().contains(idle), "a server without answers has no histogram");
}

#[test]
fn a_server_has_one_state_as_long_as_somebody_holds_it() {
    let registry = Registry::new("test");
    let states = |registry: &Registry| {
        let samples = parse(&registry.render_prometheus());
        samples.into_keys().filter(|series| series.starts_with("tidegate_upstream_server_")).collect::<Vec<_>>()
    };
    let server = registry.server_state("api", "10.0.0.1:80");
    server.set_weight(3);
    for word in ServerWord::VARIANTS.iter().copied() {
        server.set_state(word);
        let expected = [
            "tidegate_upstream_server_ejections_total{pool=\"api\",server=\"10.0.0.1:80\"}".to_owned(),
            format!("tidegate_upstream_server_state{{pool=\"api\",server=\"10.0.0.1:80\",state=\"{}\"}}", word.as_str()),
            "tidegate_upstream_server_weight{pool=\"api\",server=\"10.0.0.1:80\"}".to_owned(),
        ];
        assert_eq!(states(&registry), expected);
    }
    server.ejected(1);
    server.checked(false);
    check(
        &registry,
        &[
            ("tidegate_upstream_server_state{pool=\"api\",server=\"10.0.0.1:80\",state=\"resting\"}", 1.0),
            ("tidegate_upstream_server_weight{pool=\"api\",server=\"10.0.0.1:80\"}", 3.0),
            ("tidegate_upstream_server_ejections_total{pool=\"api\",server=\"10.0.0.1:80\"}", 1.0),
            ("tidegate_upstream_server_checks_total{pool=\"api\",server=\"10.0.0.1:80\",result=\"passed\"}", 0.0),
            ("tidegate_upstream_server_checks_total{pool=\"api\",server=\"10.0.0.1:80\",result=\"failed\"}", 1.0),
        ],
    );
    drop(server);
    assert_eq!(states(&registry), Vec::<String>::new());
}

#[test]
fn discoveries_have_their_series_as_long_as_somebody_holds_them() {
    let registry = Registry::new("test");
    let [dns, file] = ["dns", "file"].map(|kind| registry.discovery("api", kind));
    dns.set_members(3);
    dns.changed();
    dns.set_last_success(1_700_000_000);
    file.fault();
    file.fault();
    check(
        &registry,
        &[
            ("tidegate_discovery_members{pool=\"api\",kind=\"dns\"}", 3.0),
            ("tidegate_discovery_changes_total{pool=\"api\",kind=\"dns\"}", 1.0),
            ("tidegate_discovery_faults_total{pool=\"api\",kind=\"dns\"}", 0.0),
            ("tidegate_discovery_last_success_timestamp_seconds{pool=\"api\",kind=\"dns\"}", 1.7e9),
            ("tidegate_discovery_members{pool=\"api\",kind=\"file\"}", 0.0),
            ("tidegate_discovery_faults_total{pool=\"api\",kind=\"file\"}", 2.0),
            ("tidegate_discovery_last_success_timestamp_seconds{pool=\"api\",kind=\"file\"}", 0.0),
        ],
    );
    drop(dns);
    let text = registry.render_prometheus();
    assert!(!text.contains("kind=\"dns\"") && text.contains("kind=\"file\""));
}

#[test]
fn memory_has_series_only_with_a_budget() {
    let registry = Registry::new("test");
    registry.memory().set_used(700);
    assert!(!registry.render_prometheus().contains("tidegate_memory_"));
    registry.memory().set_budget(Some(1000));
    registry.memory().set_shedding(true);
    check(
        &registry,
        &[("tidegate_memory_budget_bytes", 1000.0), ("tidegate_memory_used_bytes", 700.0), ("tidegate_memory_shedding", 1.0)],
    );
    registry.memory().set_budget(None);
    assert!(!registry.render_prometheus().contains("tidegate_memory_"));
}

#[test]
fn label_values_cannot_leave_their_quotes() {
    let registry = Registry::new("test");
    registry.pool(0, "a\"} 1\n\\b").requests.add(7);
    check(&registry, &[("tidegate_upstream_requests_total{pool=\"a\\\"} 1\\n\\\\b\"}", 7.0)]);
}

#[test]
fn a_scrape_while_counting_is_never_inconsistent() {
    const REQUESTS: u64 = 20_000;
    let registry = Registry::new("test");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counting: Vec<_> = (0..3)
            .map(|index| {
                let registry = &registry;
                scope.spawn(move || {
                    let (worker, site) = (registry.worker(index), registry.site(index, "busy", ""));
                    let pool = registry.pool(index, "busy");
                    for request in 0..REQUESTS {
                        worker.listener(ListenerKind::Http).connections_active.increment();
                        site.record(get(200 + (request % 4) as u16), Duration::from_micros(request), 1);
                        worker.refused.increment(["a", "b", "c"][request as usize % 3]);
                        pool.record(UpstreamTime::FirstByte, Duration::from_micros(request));
                        // Sites that come while others count, as over a reload.
                        if request % 1000 == 0 {
                            registry.site(index, &format!("site {request}"), "").record(get(500), Duration::ZERO, 0);
                        }
                        worker.listener(ListenerKind::Http).connections_active.decrement();
                    }
                })
            })
            .collect();
        let scraping = scope.spawn(|| {
            let mut before = 0.0;
            while !done.load(Ordering::Relaxed) {
                let samples = parse(&registry.render_prometheus());
                let now = samples.get("tidegate_http_request_duration_seconds_count{site=\"busy\"}").copied().unwrap_or(0.0);
                assert!(now >= before, "a counter went back from {before} to {now}");
                before = now;
            }
        });
        for thread in counting {
            thread.join().expect("counting does not panic");
        }
        done.store(true, Ordering::Relaxed);
        scraping.join().expect("scraping does not panic");
    });
    let total = 3.0 * REQUESTS as f64;
    check(
        &registry,
        &[
            ("tidegate_http_request_duration_seconds_count{site=\"busy\"}", total),
            ("tidegate_http_response_body_bytes_total{site=\"busy\"}", total),
            ("tidegate_upstream_first_byte_seconds_count{pool=\"busy\"}", total),
            (
                "tidegate_http_requests_total{site=\"busy\",method=\"GET\",protocol=\"HTTP/1.1\",status=\"203\",class=\"2xx\"}",
                total / 4.0,
            ),
            (
                "tidegate_http_requests_total{site=\"site 3000\",method=\"GET\",protocol=\"HTTP/1.1\",status=\"500\",class=\"5xx\"}",
                3.0,
            ),
            ("tidegate_client_connections_active{listener=\"http\"}", 0.0),
        ],
    );
}

#[test]
fn arms_of_splits_are_counted_by_site_route_and_name() {
    let registry = Registry::new("1.0.0");
    let [web, next] = ["web", "next"].map(|arm| registry.arm(0, ("https://a.test", "app", arm)));
    web.count();
    web.count();
    registry.arm(1, ("https://a.test", "app", "web")).count();
    let family = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("tidegate_split_requests_total{")).map(str::to_owned).collect()
    };
    let of = |arm: &str, count: u64| {
        format!("tidegate_split_requests_total{{site=\"https://a.test\",route=\"app\",arm=\"{arm}\"}} {count}")
    };
    assert_eq!(family(&registry.render_prometheus()), [of("next", 0), of("web", 3)]);
    drop((web, next));
    assert_eq!(family(&registry.render_prometheus()).len(), 2, "what was counted is not forgotten while there is room");
}
