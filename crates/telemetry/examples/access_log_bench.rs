//! What one line of the access log costs the worker, in nanoseconds: formatting and handing over, not writing.
//! Not a test: figures depend on the machine. `cargo run --release -p tidegate-telemetry --example access_log_bench`

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tidegate_model::{AccessLog, AccessLogFormat, LogConditions, LogTarget, Placeholder, Template, TemplatePart};
use tidegate_telemetry::metrics::Registry;
use tidegate_telemetry::{AccessLogSenders, AccessLogs, AccessRecord, RecordTls, RecordUpstream};

/// As many lines as fit into a ring; the writer empties it between two bursts.
const LINES_PER_BURST: u64 = 1200;
const BURSTS: usize = 60;

fn main() {
    let parts = [Placeholder::ClientIp, Placeholder::Method, Placeholder::Uri, Placeholder::UpstreamAddress];
    let parts =
        parts.into_iter().flat_map(|placeholder| [TemplatePart::Placeholder(placeholder), TemplatePart::Literal(" ".into())]);
    measure("json", AccessLogFormat::Json);
    measure("common", AccessLogFormat::Common);
    measure("template", AccessLogFormat::Template(Template { parts: parts.collect() }));
}

fn measure(name: &str, format: AccessLogFormat) {
    let registry = Registry::new("bench");
    let target = LogTarget::File { path: PathBuf::from("/dev/null"), rotation: None };
    let settings = [AccessLog { target, format, when: LogConditions::default() }];
    let Ok(logs) = AccessLogs::start(&settings, &registry) else { panic!("/dev/null cannot be opened") };
    let mut senders = AccessLogSenders::new(&registry, 0, &logs.plan(&settings));
    let mut nanoseconds = Vec::with_capacity(BURSTS);
    for _ in 0..BURSTS {
        let start = Instant::now();
        for line in 0..LINES_PER_BURST {
            senders.record(&typical(line));
        }
        nanoseconds.push(start.elapsed().as_nanos() as u64 / LINES_PER_BURST);
        std::thread::sleep(Duration::from_millis(30));
    }
    nanoseconds.sort_unstable();
    let dropped = registry.worker(0).access_log_dropped.value();
    println!("{name}: {} ns a line (least {}), {dropped} dropped", nanoseconds[BURSTS / 2], nanoseconds[0]);
    assert!(logs.finish(Instant::now() + Duration::from_secs(5)));
}

fn typical(line: u64) -> AccessRecord<'static> {
    AccessRecord {
        time_unix_us: 1_795_173_357_000_000 + line * 20,
        client_ip: IpAddr::V4(Ipv4Addr::new(203, 0, 113, 77)),
        client_port: 40_000 + line as u16,
        user: "",
        method: b"GET",
        scheme: "https",
        host: b"shop.example.com",
        path: b"/api/v2/products/4711/reviews",
        query: b"page=2&sort=newest",
        protocol: "HTTP/1.1",
        status: Some(200),
        request_bytes: 0,
        response_bytes: 2048 + line,
        duration_us: 431 + line,
        upstream: Some(RecordUpstream {
            first_byte_us: Some(390 + line),
            reused: true,
            ..RecordUpstream::asked("10.0.0.4:8080")
        }),
        retries: 0,
        tls: Some(RecordTls {
            version: "1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            sni: Some("shop.example.com"),
            ja4: None,
            resumed: true,
        }),
        introduction: None,
        referer: b"https://shop.example.com/products/4711",
        user_agent: b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
        request_id: b"0192f0c17b4a7c3e9d1f5a6b8c2d4e6f",
        trace_id: b"",
        route: "",
        origin: "",
        auth_status: None,
        auth_us: None,
        queue_us: None,
        site: "https://shop.example.com",
        pool: Some("api"),
        arm: None,
        cache: None,
        reason: None,
        setting: None,
        request_header: None,
        request_cookie: None,
        client_certificate: None,
        own_fields: None,
        response_header: None,
    }
}
