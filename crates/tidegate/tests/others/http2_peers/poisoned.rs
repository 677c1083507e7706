//! One message among 100 on a connection that is none, from clients and from servers: 99 come whole, and the one is
//! refused, told of in the log, and not sent again.

use super::python::{ask, set_up, with};
use super::start;
use std::fs;
use std::time::{Duration, Instant};
use tidegate_testkit::proxy::Proxy;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};

#[test]
fn a_bad_request_costs_no_other() {
    let Some(python) = with("h2") else { return };
    let upstream = Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free");
    let proxy = start(&format!("server \"{}\"", upstream.address));
    let kinds = ["name", "value", "pseudo", "late", "connection", "trailers", "trailer-name", "length", "authority"];
    for kind in kinds {
        print!("{}", ask(&python, &proxy, &["poisoned", kind]));
    }
}

#[test]
fn a_bad_answer_costs_no_other() {
    let Some(python) = with("h2") else { return };
    let (_server, proxy, _) = set_up(&python, "plain");
    let kinds =
        ["name", "value", "pseudo", "request", "connection", "number", "status", "longer", "shorter", "trailers", "trailer-name"];
    for kind in kinds {
        print!("{}", ask(&python, &proxy, &["mixed", kind]));
        let line = log_line(&proxy, &format!("\"/poison/{kind}\""));
        let is_told = ["bad_response", "body_cut"].iter().any(|reason| line.contains(&format!("\"reason\":\"{reason}\"")));
        assert!(is_told, "{kind}: {line}");
    }
    // Both workers have had their one connection all the time, and the server its good name.
    let metrics = proxy.metrics().expect("metrics");
    assert_eq!(metrics.sum("tidegate_upstream_retries_total").to_string(), "0");
    let connections = metrics.sum("tidegate_upstream_connections_total{kind=\"new\"}");
    assert!((1.0..=2.0).contains(&connections), "{connections} connections");
}

/// The line of the access log with this text, which may come a moment later.
fn log_line(proxy: &Proxy, text: &str) -> String {
    let begin = Instant::now();
    loop {
        let log = fs::read_to_string(proxy.places.folder().join("access.log")).unwrap_or_default();
        if let Some(line) = log.lines().find(|line| line.contains(text)) {
            return line.to_owned();
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "no line of the log has {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
