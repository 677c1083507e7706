//! Other people's generators, if they are installed: wrk, hey and k6, asked for the same load and read into the same
//! report. They serve to check ours; no figure of a report comes from them. CPU time, bytes and phases are not to be
//! had from them.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use clap::ValueEnum;
use serde_json::Value;

use crate::load::tally::Latency;
use crate::load::{Alpn, LoadOptions, LoadReport, PhaseReport};
use crate::net::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    /// Closed loop, HTTP/1.1.
    Wrk,
    /// Closed loop.
    Hey,
    /// Closed loop, or open loop with `--rate`.
    K6,
}

impl Tool {
    pub fn name(self) -> &'static str {
        match self {
            Tool::Wrk => "wrk",
            Tool::Hey => "hey",
            Tool::K6 => "k6",
        }
    }
}

pub fn run(tool: Tool, options: &LoadOptions) -> Result<LoadReport, Error> {
    let name = tool.name();
    if options.handshakes.is_some() || options.phases || options.requests.is_some() || options.accept_encoding.is_some() {
        return Err(
            format!("{name} can be asked for a timed load only, without --handshakes, --phases and --accept-encoding").into()
        );
    }
    if options.rate.is_some() && tool != Tool::K6 {
        return Err(format!("{name} knows no constant arrival rate; k6 does").into());
    }
    if options.alpn == Alpn::H2 && tool == Tool::Wrk {
        return Err("wrk knows no HTTP/2".into());
    }
    let scheme = if options.plain { "http" } else { "https" };
    let url = format!("{scheme}://localhost:{}{}", options.to.port(), options.path.path);
    let phase = match tool {
        Tool::Wrk => parse_wrk(&output(wrk(options, &url))?),
        Tool::Hey => parse_hey(&output(hey(options, &url))?),
        Tool::K6 => run_k6(options, &url)?,
    };
    let phase = phase.ok_or_else(|| format!("the output of {name} is not as this program knows it"))?;
    Ok(LoadReport { phases: vec![phase], whole: None, warmup_failures: BTreeMap::new() })
}

fn output(mut command: Command) -> Result<String, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}; is it installed?"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(format!("{name} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(text)
}

fn wrk(options: &LoadOptions, url: &str) -> Command {
    let mut command = Command::new("wrk");
    // It counts in whole seconds.
    let seconds = options.duration.as_secs_f64().ceil();
    command.args(["--latency", "--threads", &options.threads.to_string(), "--connections", &options.connections.to_string()]);
    command.args(["--timeout", &format!("{}s", options.timeout.as_secs().max(1)), "--duration", &format!("{seconds}s"), url]);
    command
}

fn hey(options: &LoadOptions, url: &str) -> Command {
    let mut command = Command::new("hey");
    let duration = format!("{}ms", options.duration.as_millis());
    command.args(["-z", &duration, "-c", &options.connections.to_string(), "-t", &options.timeout.as_secs().max(1).to_string()]);
    if options.alpn == Alpn::H2 {
        command.arg("-h2");
    }
    command.arg(url);
    command
}

fn run_k6(options: &LoadOptions, url: &str) -> Result<Option<PhaseReport>, Error> {
    let duration = format!("{}ms", options.duration.as_millis());
    let connections = options.connections;
    let scenario = match options.rate {
        None => format!("executor: 'constant-vus', vus: {connections}, duration: '{duration}'"),
        Some(rate) => format!(
            "executor: 'constant-arrival-rate', rate: {rate}, timeUnit: '1s', duration: '{duration}', \
             preAllocatedVUs: {connections}, maxVUs: {}",
            options.connections_max.unwrap_or(connections)
        ),
    };
    let script = format!(
        "import http from 'k6/http';\n\
         export const options = {{ insecureSkipTLSVerify: true, discardResponseBodies: true,\n\
           summaryTrendStats: ['avg', 'med', 'p(75)', 'p(90)', 'p(95)', 'p(99)', 'p(99.9)', 'max'],\n\
           scenarios: {{ load: {{ {scenario} }} }} }};\n\
         export default function () {{ http.get('{url}'); }}\n\
         export function handleSummary(data) {{ return {{ stdout: JSON.stringify(data.metrics) }}; }}\n"
    );
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("load.js");
    std::fs::write(&file, script)?;
    let mut command = Command::new("k6");
    command.args(["run", "--quiet", "--no-usage-report", "--log-output", "none"]).arg(&file);
    Ok(parse_k6(&output(command)?, options.duration.as_secs_f64()))
}

/// `1.23ms`, `45us`, `2.00s`, in microseconds.
fn parse_wrk_time(text: &str) -> Option<f64> {
    let (digits, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let scale = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    Some(digits.parse::<f64>().ok()? * scale)
}

fn parse_wrk(text: &str) -> Option<PhaseReport> {
    let mut phase = PhaseReport::default();
    let mut latency = Latency::default();
    for line in text.lines().map(str::trim) {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        match words[..] {
            [count, "requests", "in", time, ..] => {
                phase.requests = count.parse().ok()?;
                phase.seconds = parse_wrk_time(time.trim_end_matches(','))? / 1e6;
            }
            ["50%", time] => latency.p50 = parse_wrk_time(time)?,
            ["75%", time] => latency.p75 = parse_wrk_time(time)?,
            ["90%", time] => latency.p90 = parse_wrk_time(time)?,
            ["99%", time] => latency.p99 = parse_wrk_time(time)?,
            ["Latency", mean, _, max, _] => {
                latency.mean = parse_wrk_time(mean)?;
                latency.max = parse_wrk_time(max)?;
            }
            ["Non-2xx", .., count] => {
                phase.failures.insert("status".into(), count.parse().ok()?);
            }
            ["Socket", "errors:", "connect", connect, "read", read, "write", write, "timeout", timeout] => {
                for (kind, count) in [("refused", connect), ("reset", read), ("reset", write), ("timed out", timeout)] {
                    let count: u64 = count.trim_end_matches(',').parse().ok()?;
                    *phase.failures.entry(kind.into()).or_default() += count;
                }
            }
            _ => {}
        }
    }
    phase.failures.retain(|_, count| *count > 0);
    phase.latency_us = Some(latency);
    // It counts answers with a wrong status as requests; we do not.
    phase.requests -= phase.failures.get("status").copied().unwrap_or(0).min(phase.requests);
    (phase.seconds > 0.0).then_some(phase)
}

fn parse_hey(text: &str) -> Option<PhaseReport> {
    let mut phase = PhaseReport::default();
    let mut latency = Latency::default();
    let us = |seconds: &str| seconds.parse::<f64>().ok().map(|seconds| seconds * 1e6);
    let mut within_errors = false;
    for line in text.lines().map(str::trim) {
        within_errors |= line == "Error distribution:";
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        match words[..] {
            ["Total:", seconds, "secs"] => phase.seconds = seconds.parse().ok()?,
            ["Average:", seconds, "secs"] => latency.mean = us(seconds)?,
            ["Slowest:", seconds, "secs"] => latency.max = us(seconds)?,
            [percent, "in", seconds, "secs"] => {
                let at = us(seconds)?;
                match percent {
                    "50%" => latency.p50 = at,
                    "75%" => latency.p75 = at,
                    "90%" => latency.p90 = at,
                    "95%" => latency.p95 = at,
                    "99%" => latency.p99 = at,
                    _ => {}
                }
            }
            [code, count, "responses"] => {
                let code: u16 = code.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?;
                phase.statuses.insert(code, count.parse().ok()?);
            }
            [count, ..] if within_errors && count.starts_with('[') => {
                let count: u64 = count.trim_matches(['[', ']']).parse().ok()?;
                *phase.failures.entry("other".into()).or_default() += count;
            }
            _ => {}
        }
    }
    phase.latency_us = Some(latency);
    phase.requests = phase.statuses.get(&200).copied().unwrap_or(0);
    let wrong = phase.statuses.iter().filter(|(status, _)| **status != 200);
    let wrong: BTreeMap<_, _> = wrong.map(|(status, count)| (format!("status {status}"), *count)).collect();
    phase.failures.extend(wrong);
    (phase.seconds > 0.0).then_some(phase)
}

fn parse_k6(text: &str, seconds: f64) -> Option<PhaseReport> {
    let metrics: Value = serde_json::from_str(text.trim()).ok()?;
    let value = |metric: &str, field: &str| metrics.get(metric)?.get("values")?.get(field)?.as_f64();
    let duration = |field: &str| value("http_req_duration", field).unwrap_or(0.0) * 1e3;
    let all = value("http_reqs", "count")?;
    // The rate of a k6 metric "failed" counts what is true of it, so its passes are our failures.
    let failed = value("http_req_failed", "passes").unwrap_or(0.0);
    let mut failures = BTreeMap::new();
    if failed > 0.0 {
        failures.insert("other".to_owned(), failed as u64);
    }
    Some(PhaseReport {
        seconds,
        requests: (all - failed) as u64,
        dropped: value("dropped_iterations", "count").unwrap_or(0.0) as u64,
        failures,
        latency_us: Some(Latency {
            mean: duration("avg"),
            p50: duration("med"),
            p75: duration("p(75)"),
            p90: duration("p(90)"),
            p95: duration("p(95)"),
            p99: duration("p(99)"),
            p99_9: duration("p(99.9)"),
            max: duration("max"),
        }),
        ..PhaseReport::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_wrk_is_read() {
        let text = "Running 2s test @ http://localhost:1/\n  2 threads and 64 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
             Latency     1.50ms  200.00us  12.00ms   90.00%\n    Req/Sec    10.00k     1.00k   12.00k    70.00%\n  Latency Distribution\n     \
             50%    1.20ms\n     75%    1.40ms\n     90%  900.00us\n     99%    2.00s\n  40000 requests in 2.01s, 9.00MB read\n  \
             Socket errors: connect 0, read 3, write 1, timeout 0\n  Non-2xx or 3xx responses: 100\nRequests/sec:  19900.50\n";
        let phase = parse_wrk(text).unwrap();
        assert_eq!((phase.requests, phase.seconds), (39_900, 2.01));
        assert_eq!(phase.failures, [("reset".to_owned(), 4), ("status".to_owned(), 100)].into());
        let latency = phase.latency_us.unwrap();
        assert_eq!((latency.p50, latency.p90, latency.p99, latency.max), (1200.0, 900.0, 2e6, 12e3));
        assert!(parse_wrk("nothing").is_none());
    }

    #[test]
    fn the_summary_of_hey_is_read() {
        let text = "\nSummary:\n  Total:\t2.0000 secs\n  Slowest:\t0.0500 secs\n  Fastest:\t0.0001 secs\n  Average:\t0.0010 secs\n  \
             Requests/sec:\t1000.0\n\nLatency distribution:\n  10% in 0.0005 secs\n  50% in 0.0010 secs\n  99% in 0.0040 secs\n\n\
             Status code distribution:\n  [200]\t1998 responses\n  [502]\t2 responses\n\nError distribution:\n  [3]\tGet \"x\": EOF\n";
        let phase = parse_hey(text).unwrap();
        assert_eq!((phase.requests, phase.seconds), (1998, 2.0));
        assert_eq!(phase.failures, [("other".to_owned(), 3), ("status 502".to_owned(), 2)].into());
        assert_eq!((phase.latency_us.unwrap().p50, phase.latency_us.unwrap().p99), (1000.0, 4000.0));
    }

    #[test]
    fn the_summary_of_k6_is_read() {
        let text = r#"{"http_reqs":{"type":"counter","values":{"count":1000,"rate":500}},
            "http_req_failed":{"type":"rate","values":{"rate":0.01,"passes":10,"fails":990}},
            "dropped_iterations":{"type":"counter","values":{"count":7,"rate":3}},
            "http_req_duration":{"type":"trend","values":{"avg":1.5,"med":1.2,"p(99)":4,"max":9}}}"#;
        let phase = parse_k6(text, 2.0).unwrap();
        assert_eq!((phase.requests, phase.dropped, phase.seconds), (990, 7, 2.0));
        assert_eq!((phase.latency_us.unwrap().p50, phase.latency_us.unwrap().p99), (1200.0, 4000.0));
        assert!(parse_k6("{}", 2.0).is_none());
    }
}
