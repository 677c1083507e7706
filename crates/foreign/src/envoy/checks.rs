//! How servers of a cluster of Envoy are asked whether they are well, and when one gets nothing for a while.

use super::clusters::duration;
use crate::haproxy::durations::milliseconds;
use crate::outline::{ServerGroup, is_plain};
use crate::tree::Tree;
use tidegate_kdl::quoted;

const FIRST_ALONE: &str = "one way to ask holds for a pool: the first of them";

pub fn asked(tree: &Tree, group: &mut ServerGroup) {
    let checks = tree.get("health_checks");
    if let Some(first) = checks.items().first() {
        if let Some(line) = line(first) {
            group.add_line(line);
            group.origin.carry_all(first.statements());
        }
        for other in &checks.items()[1..] {
            other.statements().into_iter().for_each(|at| group.origin.differ(at, FIRST_ALONE));
        }
    }
    let outlier = tree.get("outlier_detection");
    let mut words = Vec::new();
    let failures = ["consecutive_5xx", "consecutive_gateway_failure"]
        .into_iter()
        .map(|name| outlier.get(name))
        .find(|count| count.number().is_some());
    if let Some(count) = failures.and_then(Tree::number).filter(|count| (1..=1000).contains(count)) {
        words.push(format!("failures={count}"));
    }
    for (name, word) in [("base_ejection_time", "eject"), ("max_ejection_time", "eject-max")] {
        if let Some(written) = outlier.get(name).text().and_then(duration) {
            words.push(format!("{word}={}", quoted(&written)));
        }
    }
    if let Some(share) = outlier.get("max_ejection_percent").number().filter(|share| (1..=100).contains(share)) {
        words.push(format!("max-ejected={}", quoted(&format!("{share}%"))));
    }
    if !outlier.is_nothing() {
        if !words.is_empty() {
            group.add_line(format!("outlier {}", words.join(" ")));
        }
        group.origin.carry_all(outlier.statements());
        for name in ["interval", "enforcing_consecutive_5xx", "enforcing_success_rate", "success_rate_stdev_factor"] {
            if outlier.has(name) {
                group.origin.differ(outlier.get(name).start(), "a server is out at its last failure, and not at the end of an interval; success rates are compared without a word");
            }
        }
    }
}

fn line(check: &Tree) -> Option<String> {
    let http = check.get("http_health_check");
    let mut words = vec!["health".to_owned()];
    if let Some(path) = http.get("path").text() {
        words.push(quoted(path));
        if let Some(host) = http.get("host").text().filter(|host| is_plain(host)) {
            words.push(format!("host={}", quoted(host.split(':').next().unwrap_or_default())));
        }
        if let Some(method) = http.get("method").text().filter(|method| *method != "GET" && *method != "METHOD_UNSPECIFIED") {
            words.push(format!("method={}", quoted(method)));
        }
        let ranges: Vec<String> = http.get("expected_statuses").items().iter().filter_map(range).collect();
        words.push(format!("expect={}", quoted(&if ranges.is_empty() { "200".to_owned() } else { ranges.join(",") })));
    } else if check.has("grpc_health_check") {
        words.push("type=\"grpc\"".to_owned());
        if let Some(service) = check.at(&["grpc_health_check", "service_name"]).text().filter(|service| is_plain(service)) {
            words.push(format!("service={}", quoted(service)));
        }
    } else if check.has("tcp_health_check") {
        if check.get("tcp_health_check").has("send") || check.get("tcp_health_check").has("receive") {
            return None;
        }
        words.push("type=\"tcp\"".to_owned());
    } else {
        return None;
    }
    let interval = check.get("interval").text().and_then(duration);
    let time = |text: &Option<String>| text.as_deref().and_then(milliseconds);
    let timeout = check.get("timeout").text().and_then(duration);
    let least = time(&interval).unwrap_or(2_000).min(3_600_000);
    if let Some(interval) = &interval {
        words.push(format!("interval={}", quoted(interval)));
    }
    if let Some(written) = time(&timeout).map(|limit| limit.min(least)).and_then(crate::haproxy::durations::written) {
        words.push(format!("timeout={}", quoted(&written)));
    }
    for (name, word) in [("healthy_threshold", "rise"), ("unhealthy_threshold", "fall")] {
        if let Some(count) = check.get(name).number().filter(|count| (1..=100).contains(count)) {
            words.push(format!("{word}={count}"));
        }
    }
    Some(words.join(" "))
}

/// Statuses from the first to before the last.
fn range(range: &Tree) -> Option<String> {
    let (start, end) = (range.get("start").number()?, range.get("end").number()?.checked_sub(1)?);
    let is_status = |status: u64| (100..=599).contains(&status);
    (is_status(start) && is_status(end)).then(|| if start == end { start.to_string() } else { format!("{start}-{end}") })
}
