//! The HTTP/2 conformance suite h2spec, against a TLS site and a plain one, with an upstream behind them.
//! Without h2spec on the PATH the test says so; in CI (variable `CI`) that is a failure.

use std::process::Command;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Proxy, driver};

#[test]
fn h2spec_passes() {
    if Command::new("h2spec").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "h2spec is not on the PATH");
        println!("skipped: h2spec is not on the PATH (go install github.com/summerwind/h2spec/cmd/h2spec@latest)");
        return;
    }
    let upstream = Upstream::start(Behaviour::new(Answer::Text(b"hello from behind".to_vec()))).expect("a port is free");
    let config = CONFIG.replace("UPSTREAM", &upstream.address.to_string());
    for driver in driver::drivers(PROGRAM) {
        let mut proxy = Proxy::start(PROGRAM, &driver::on(driver, &config)).expect("the proxy starts");
        let plain_port = proxy.address.port().to_string();
        let tls_port = proxy.places.fill("{port:tls}").expect("filled in before");
        let runs: [(&str, &[&str]); 2] = [("TLS", &["-t", "-k", "-p", &tls_port]), ("plain text", &["-p", &plain_port])];
        let report = |(name, arguments)| failed(&format!("{name} with {driver}"), arguments);
        let reports: Vec<String> = runs.into_iter().filter_map(report).collect();
        assert!(reports.is_empty(), "{}\n{}", reports.join("\n"), proxy.program.output());
    }
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

const CONFIG: &str = r#"
admin "127.0.0.1:{admin}"
access-log "off"
site "http://:{port}" { proxy "UPSTREAM" }
site "https://:{port:tls}" { tls cert="{cert:localhost}" key="{key:localhost}"; proxy "UPSTREAM" }
"#;

/// The report when not all passed.
fn failed(name: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new("h2spec").args(["-h", "127.0.0.1", "-o", "5"]).args(arguments).output().expect("h2spec ran before");
    let text = String::from_utf8_lossy(&output.stdout);
    let summary = text.lines().rev().find(|line| line.contains(" tests, ")).unwrap_or("no summary");
    println!("{name}: {summary}");
    let passed = summary.contains(" 0 failed") || (summary.contains(" 1 failed") && was_answered_as_http1(&text));
    (!passed).then(|| {
        let from = text.find("Failures:").unwrap_or(0);
        format!("{name}: {summary}\n{}{}", &text[from..], String::from_utf8_lossy(&output.stderr))
    })
}

/// A plain-text port also speaks HTTP/1.1: a first line that is no preface is a bad HTTP/1 request there, and gets its
/// 400 before the connection is closed. h2spec, which knows HTTP/2 only, misses the close behind it.
fn was_answered_as_http1(report: &str) -> bool {
    report.contains("Sends invalid connection preface") && report.contains("looked like an HTTP/1.1 header")
}
