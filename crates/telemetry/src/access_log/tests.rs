//! The access log from the record to what a reader of the file or pipe sees.

use super::format::Format;
use super::record::{AccessRecord, RecordTls, RecordUpstream};
use super::second::SecondText;
use super::sender::AccessLogSender;
use super::target::Target;
use super::writer::{AccessLogWriter, OpenTarget};
use super::{FIELD_BYTES_MAX, LINE_BYTES_MAX, RING_BYTES};
use crate::metrics::{LogWriterMetrics, WorkerMetrics};
use proptest::prelude::*;
use std::fs::{self, File};
use std::io::{PipeReader, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_model as model;
use tidegate_model::{AccessLogFormat, LogConditions, LogTarget, Placeholder, Rotation, Template, TemplatePart};

/// Longer than anything here takes; reached only when something is broken.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn plain() -> AccessRecord<'static> {
    AccessRecord {
        time_unix_us: 1_795_173_357_123_456,
        client_ip: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)),
        client_port: 50123,
        user: "",
        method: b"GET",
        scheme: "https",
        host: b"example.com",
        path: b"/index.html",
        query: b"",
        protocol: "HTTP/1.1",
        status: Some(200),
        request_bytes: 0,
        response_bytes: 2048,
        duration_us: 512,
        auth_status: None,
        auth_us: None,
        queue_us: None,
        upstream: None,
        retries: 0,
        tls: None,
        introduction: None,
        referer: b"",
        user_agent: b"",
        request_id: b"",
        trace_id: b"",
        site: "",
        route: "",
        origin: "",
        pool: None,
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

fn full() -> AccessRecord<'static> {
    AccessRecord {
        query: b"a=1&b=2",
        upstream: Some(RecordUpstream { first_byte_us: Some(300), reused: true, ..RecordUpstream::asked("10.0.0.4:8080") }),
        retries: 1,
        tls: Some(RecordTls {
            version: "1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            sni: Some("example.com"),
            ja4: None,
            resumed: false,
        }),
        referer: b"https://example.com/",
        user_agent: b"curl/8.5.0",
        request_id: b"0192f0c1",
        site: "https://example.com",
        pool: Some("api"),
        arm: Some("canary"),
        cache: Some("revalidated"),
        reason: Some("first_byte_timeout"),
        setting: Some("pool api timeout first-byte"),
        ..plain()
    }
}

fn line_of(format: &AccessLogFormat, record: &AccessRecord<'_>) -> String {
    let mut line = Vec::new();
    Format::new(format).push_line(&mut line, &mut SecondText::default(), record);
    let line = String::from_utf8(line).expect("a line is UTF-8");
    assert_eq!(line.find('\n'), Some(line.len() - 1), "one line: {line}");
    line.trim_end().to_owned()
}

#[test]
fn what_a_request_met_on_its_way_stands_in_its_line_where_there_is_something_to_say() {
    let upstream = RecordUpstream {
        status: Some(404),
        protocol: "HTTP/2",
        connect_us: Some(1),
        tls_us: Some(2),
        first_byte_us: Some(3),
        body_us: Some(4),
        ..RecordUpstream::asked("10.0.0.4:8080")
    };
    let record = AccessRecord {
        trace_id: b"0af7651916cd43dd8448eb211c80319c",
        route: "cart",
        origin: "Ingress shop/web 2",
        auth_status: None,
        auth_us: None,
        queue_us: Some(5),
        upstream: Some(upstream),
        ..plain()
    };
    let line: serde_json::Value = serde_json::from_str(&line_of(&AccessLogFormat::Json, &record)).expect("JSON");
    assert_eq!((&line["route"], &line["trace_id"]), (&"cart".into(), &"0af7651916cd43dd8448eb211c80319c".into()));
    assert_eq!((&line["upstream_status"], &line["upstream_protocol"]), (&404.into(), &"HTTP/2".into()));
    let times = ["upstream_connect_us", "upstream_tls_us", "upstream_first_byte_us", "upstream_body_us", "queue_us"];
    assert_eq!(times.map(|key| line[key].as_u64()), [1, 2, 3, 4, 5].map(Some));
    let asked = AccessRecord { upstream: Some(RecordUpstream::asked("10.0.0.4:8080")), ..plain() };
    let line = line_of(&AccessLogFormat::Json, &asked);
    assert!(!times.iter().any(|key| line.contains(key)) && !line.contains("upstream_status"), "{line}");
}

#[test]
fn nobody_makes_up_a_status() {
    let passed_on = AccessRecord { status: None, ..plain() };
    let line = line_of(&AccessLogFormat::Json, &passed_on);
    assert!(!line.contains("status"), "{line}");
    assert!(line_of(&AccessLogFormat::Common, &passed_on).contains("\" - 2048"));
}

#[test]
fn json_lines() {
    let check = |record: &AccessRecord<'_>, expected: &str| assert_eq!(line_of(&AccessLogFormat::Json, record), expected);
    check(
        &plain(),
        r#"{"time":"2026-11-20T11:15:57.123Z","client_ip":"192.0.2.7","client_port":50123,"method":"GET","scheme":"https","host":"example.com","path":"/index.html","protocol":"HTTP/1.1","status":200,"request_bytes":0,"response_bytes":2048,"duration_us":512}"#,
    );
    check(
        &full(),
        r#"{"time":"2026-11-20T11:15:57.123Z","request_id":"0192f0c1","client_ip":"192.0.2.7","client_port":50123,"site":"https://example.com","method":"GET","scheme":"https","host":"example.com","path":"/index.html","query":"a=1&b=2","protocol":"HTTP/1.1","status":200,"request_bytes":0,"response_bytes":2048,"duration_us":512,"pool":"api","arm":"canary","upstream":"10.0.0.4:8080","upstream_first_byte_us":300,"upstream_reused":true,"retries":1,"cache":"revalidated","tls_version":"1.3","tls_cipher":"TLS_AES_128_GCM_SHA256","tls_sni":"example.com","tls_resumed":false,"referer":"https://example.com/","user_agent":"curl/8.5.0","reason":"first_byte_timeout","setting":"pool api timeout first-byte"}"#,
    );
    let with_user = line_of(&AccessLogFormat::Json, &AccessRecord { user: "al\"ice", ..plain() });
    assert!(with_user.contains(r#""client_port":50123,"user":"al\"ice","method""#), "{with_user}");
    check(
        &AccessRecord { client_ip: "::ffff:192.0.2.1".parse().expect("an address"), path: b"/\"\n", ..plain() },
        r#"{"time":"2026-11-20T11:15:57.123Z","client_ip":"192.0.2.1","client_port":50123,"method":"GET","scheme":"https","host":"example.com","path":"/\"\u000a","protocol":"HTTP/1.1","status":200,"request_bytes":0,"response_bytes":2048,"duration_us":512}"#,
    );
}

#[test]
fn fields_of_a_route_stand_at_the_end() {
    let own = |see: &mut dyn FnMut(&str, &[u8])| {
        see("tenant", b"a\"\n");
        see("none", b"");
        see("x.y-z", b"\xff");
    };
    let record = AccessRecord { own_fields: Some(&own), ..plain() };
    let json = line_of(&AccessLogFormat::Json, &record);
    assert!(json.ends_with(r#""duration_us":512,"tenant":"a\"\u000a","x.y-z":"\ufffd"}"#), "{json}");
    assert_eq!(line_of(&AccessLogFormat::Common, &record), line_of(&AccessLogFormat::Common, &plain()));
    let parts = ["{log.tenant}", " ", "{log.none}", " ", "{log.other}"];
    assert_eq!(line_of(&template(&parts), &record), r"a\x22\x0a - -");
}

#[test]
fn the_most_that_a_route_adds_fits_into_a_line() {
    let own = |see: &mut dyn FnMut(&str, &[u8])| {
        for _ in 0..2 * model::RouteLog::FIELDS_MAX {
            see(&"n".repeat(model::RouteLog::NAME_BYTES_MAX), &vec![0; 64 << 10]);
        }
    };
    let long = vec![0xff; 64 << 10];
    let text = "\u{7f}".repeat(64 << 10);
    let upstream = RecordUpstream { first_byte_us: Some(u64::MAX), reused: true, ..RecordUpstream::asked(&text) };
    let tls = RecordTls { sni: Some(&text), version: "1.3", cipher: "TLS_AES_128_GCM_SHA256", ja4: None, resumed: false };
    let record = AccessRecord {
        method: &long,
        host: &long,
        path: &long,
        query: &long,
        referer: &long,
        user_agent: &long,
        site: &text,
        origin: &text,
        pool: Some(&text),
        upstream: Some(upstream),
        tls: Some(tls),
        own_fields: Some(&own),
        ..full()
    };
    let line = line_of(&AccessLogFormat::Json, &record);
    assert!(line.len() < LINE_BYTES_MAX, "{}", line.len());
    let _: serde_json::Value = serde_json::from_str(&line).expect("a line that was not cut");
}

#[test]
fn the_keys_of_lines_are_those_that_routes_cannot_have() {
    let line: serde_json::Value = serde_json::from_str(&line_of(&AccessLogFormat::Json, &full())).expect("JSON");
    for key in line.as_object().expect("an object").keys() {
        assert!(model::request_log::LINE_KEYS.contains(&key.as_str()), "{key}");
    }
}

#[test]
fn common_lines() {
    let check = |record: &AccessRecord<'_>, expected: &str| assert_eq!(line_of(&AccessLogFormat::Common, record), expected);
    check(
        &AccessRecord { user: "al ice", ..plain() },
        r#"192.0.2.7 - al\x20ice [20/Nov/2026:11:15:57 +0000] "GET /index.html HTTP/1.1" 200 2048 "-" "-""#,
    );
    check(&plain(), r#"192.0.2.7 - - [20/Nov/2026:11:15:57 +0000] "GET /index.html HTTP/1.1" 200 2048 "-" "-""#);
    check(
        &full(),
        r#"192.0.2.7 - - [20/Nov/2026:11:15:57 +0000] "GET /index.html?a=1&b=2 HTTP/1.1" 200 2048 "https://example.com/" "curl/8.5.0""#,
    );
    check(
        &AccessRecord {
            client_ip: "2001:db8::1".parse().expect("an address"),
            path: b"/x\" 500 0 \"",
            user_agent: b"\\\"\n\x1b",
            ..plain()
        },
        r#"2001:db8::1 - - [20/Nov/2026:11:15:57 +0000] "GET /x\x22 500 0 \x22 HTTP/1.1" 200 2048 "-" "\x5c\x22\x0a\x1b""#,
    );
}

fn template(parts: &[&str]) -> AccessLogFormat {
    let part = |text: &&str| match text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(name) => TemplatePart::Placeholder(Placeholder::from_name(name).expect("a placeholder")),
        None => TemplatePart::Literal((*text).to_owned()),
    };
    AccessLogFormat::Template(Template { parts: parts.iter().map(part).collect() })
}

#[test]
fn template_lines() {
    let check = |record: &AccessRecord<'_>, parts: &[&str], expected: &str| {
        assert_eq!(line_of(&template(parts), record), expected, "{parts:?}");
    };
    check(&plain(), &["{client.ip}", ":", "{client.port}", "\t", "{method}", " ", "{uri}"], "192.0.2.7:50123\tGET /index.html");
    check(&full(), &["{scheme}", "://", "{host}", "{uri}"], "https://example.com/index.html?a=1&b=2");
    check(&full(), &["{path}", " ", "{query}", " ", "{tls.sni}", " ", "{tls.version}"], "/index.html a=1&b=2 example.com 1.3");
    check(&plain(), &["{query}", " ", "{tls.sni}", " ", "{tls.version}", " ", "{upstream.address}"], "- - - -");
    check(&full(), &["{upstream.address}", " ", "{request.id}", " ", "{time.unix_ms}"], "10.0.0.4:8080 0192f0c1 1795173357123");
    let log_only: Vec<String> = model::LogField::NAMES.iter().flat_map(|(name, _)| [format!("{{{name}}}"), " ".into()]).collect();
    let log_only: Vec<&str> = log_only.iter().map(String::as_str).collect();
    let time = "2026-11-20T11:15:57.123Z";
    check(&plain(), &log_only, &format!("{time} - HTTP/1.1 200 0 2048 512 - - 0 - - - - - - - - - - - - -"));
    let full_line =
        format!("{time} https://example.com HTTP/1.1 200 0 2048 512 api canary 1 first_byte_timeout - - - - - - - - 300 - - -");
    check(&full(), &log_only, &full_line);
    let asked = AccessRecord { auth_status: Some(401), auth_us: Some(7), ..plain() };
    check(&asked, &["{auth_status}", " ", "{auth_us}"], "401 7");
    check(&AccessRecord { host: b"a\nb", ..plain() }, &["two\nlines ", "{host}"], r"two lines a\x0ab");
}

#[test]
fn templates_show_header_fields() {
    let lookup = |name: &str, found: &mut dyn FnMut(&[u8])| match name {
        "x-channel" => found(b"beta\""),
        "x-empty" => found(b""),
        _ => {}
    };
    let record = AccessRecord { request_header: Some(&lookup), ..plain() };
    let format = template(&["{request.header.X-Channel}", " ", "{request.header.x-empty}", " ", "{request.header.x-none}"]);
    assert!(Format::new(&format).needs_headers());
    assert_eq!(line_of(&format, &record), r"beta\x22 - -");
    assert_eq!(line_of(&template(&["{response.header.server}"]), &record), "-");
    assert!(!Format::new(&template(&["{host}"])).needs_headers());
}

#[test]
fn the_longest_line_fits_and_is_still_a_line() {
    let worst = vec![0_u8; 10 * FIELD_BYTES_MAX];
    let text = "\u{1}".repeat(10 * FIELD_BYTES_MAX);
    let record = AccessRecord {
        method: &worst,
        host: &worst,
        path: &worst,
        query: &worst,
        referer: &worst,
        user_agent: &worst,
        request_id: &worst,
        upstream: Some(RecordUpstream { first_byte_us: Some(u64::MAX), reused: false, ..RecordUpstream::asked(&text) }),
        tls: Some(RecordTls {
            version: "1.3",
            cipher: "TLS_CHACHA20_POLY1305_SHA256",
            sni: Some(&text),
            ja4: None,
            resumed: true,
        }),
        site: &text,
        pool: Some(&text),
        reason: Some(&text),
        setting: Some(&text),
        ..plain()
    };
    let line = line_of(&AccessLogFormat::Json, &record);
    assert!(line.len() < LINE_BYTES_MAX, "{}", line.len());
    serde_json::from_str::<serde_json::Value>(&line).expect("JSON");
    assert!(line_of(&AccessLogFormat::Common, &record).len() < LINE_BYTES_MAX);
    assert_eq!(line_of(&template(&["{path}"; 40]), &record).len(), LINE_BYTES_MAX - 1, "a template is cut");
}

/// Bytes as an attacker sends them, text as people write it, and both at once.
fn network_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..80),
        ".{0,40}".prop_map(String::into_bytes),
        "[ -~]{0,60}".prop_map(String::into_bytes),
        Just(br#"","status":999,"x":""#.to_vec()),
    ]
}

proptest! {
    #[test]
    fn every_json_line_gives_back_what_was_logged(
        values in proptest::collection::vec(network_bytes(), 7),
        texts in proptest::collection::vec(".{0,20}", 6),
        numbers in proptest::collection::vec(any::<u64>(), 4),
        (status, port, retries, ip) in (any::<u16>(), any::<u16>(), any::<u32>(), any::<IpAddr>()),
        (resumed, reused, time) in (any::<bool>(), any::<bool>(), 0..4_000_000_000_000_000_u64),
    ) {
        let [method, host, path, query, referer, user_agent, request_id] = &values[..] else { unreachable!() };
        let [site, pool, sni, address, reason, setting] = &texts[..] else { unreachable!() };
        let record = AccessRecord {
            time_unix_us: time,
            client_ip: ip,
            client_port: port,
            method, host, path, query, referer, user_agent, request_id, site,
            status: Some(status),
            request_bytes: numbers[0],
            response_bytes: numbers[1],
            duration_us: numbers[2],
            upstream: Some(RecordUpstream { first_byte_us: Some(numbers[3]), reused, ..RecordUpstream::asked(address) }),
            retries,
            tls: Some(RecordTls { version: "1.2", cipher: "TLS_AES_128_GCM_SHA256", sni: Some(sni), ja4: None, resumed }),
            pool: Some(pool),
            reason: Some(reason),
            setting: Some(setting),
            ..plain()
        };
        let line = line_of(&AccessLogFormat::Json, &record);
        let seen: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&line).expect("an object");
        // Keys are not repeated: a repeated one would overwrite its forerunner in most readers.
        prop_assert_eq!(seen.len(), serde_json::from_str::<Keys>(&line).expect("an object").0);
        let always = [("method", method), ("host", host), ("path", path)];
        for (key, value) in always {
            prop_assert_eq!(seen[key].as_str(), Some(&*String::from_utf8_lossy(value)), "{}", key);
        }
        let [site, pool, sni, reason, setting] = [site, pool, sni, reason, setting].map(|text| text.clone().into_bytes());
        let optional = [
            ("query", query), ("referer", referer), ("user_agent", user_agent), ("request_id", request_id),
            ("site", &site), ("pool", &pool), ("tls_sni", &sni), ("reason", &reason), ("setting", &setting),
        ];
        for (key, value) in optional {
            let expected = Some(String::from_utf8_lossy(value)).filter(|text| !text.is_empty());
            prop_assert_eq!(seen.get(key).and_then(|value| value.as_str()), expected.as_deref(), "{}", key);
        }
        prop_assert_eq!(seen["upstream"].as_str(), Some(address.as_str()));
        prop_assert_eq!(seen["client_ip"].as_str().and_then(|text| text.parse::<IpAddr>().ok()), Some(ip.to_canonical()));
        let as_number = |key: &str| seen[key].as_u64().expect("a number");
        prop_assert_eq!(
            [as_number("request_bytes"), as_number("response_bytes"), as_number("duration_us"), as_number("upstream_first_byte_us")],
            [numbers[0], numbers[1], numbers[2], numbers[3]]
        );
        prop_assert_eq!([as_number("status"), as_number("client_port")], [u64::from(status), u64::from(port)]);
        prop_assert_eq!(seen.get("retries").and_then(serde_json::Value::as_u64).unwrap_or(0), u64::from(retries));
        prop_assert_eq!(seen["tls_resumed"].as_bool(), Some(resumed));
        prop_assert_eq!(seen["upstream_reused"].as_bool(), Some(reused));
        let shown: jiff::Timestamp = seen["time"].as_str().expect("a text").parse().expect("RFC 3339");
        prop_assert_eq!(shown.as_millisecond(), (time / 1000) as i64);
    }

    #[test]
    fn common_and_template_lines_keep_their_quotes(values in proptest::collection::vec(network_bytes(), 5)) {
        let [method, path, query, referer, user_agent] = &values[..] else { unreachable!() };
        let record = AccessRecord { method, path, query, referer, user_agent, ..plain() };
        let line = line_of(&AccessLogFormat::Common, &record);
        prop_assert_eq!(line.matches('"').count(), 6);
        let line = line_of(&template(&["\"", "{method}", "\" \"", "{uri}", "\""]), &record);
        prop_assert_eq!(line.matches('"').count(), 4);
    }
}

/// Counts the keys of an object, repeated ones too.
struct Keys(usize);

impl<'de> serde::Deserialize<'de> for Keys {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Keys, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Keys;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut count = 0;
                while map.next_entry::<String, serde::de::IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Keys(count))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// A log with one worker, and everything that can be seen of it from outside.
struct Log {
    sender: AccessLogSender,
    writer: AccessLogWriter,
    worker: Arc<WorkerMetrics>,
    writing: Arc<LogWriterMetrics>,
    sent: u64,
}

impl Log {
    fn start(target: Target) -> Log {
        let settings = model::AccessLog {
            target: LogTarget::Stdout,
            format: template(&["{time.unix_ms}", " ", "{path}"]),
            when: LogConditions::default(),
        };
        let (producer, consumer) = rtrb::RingBuffer::new(RING_BYTES);
        let (worker, writing) = (Arc::<WorkerMetrics>::default(), Arc::<LogWriterMetrics>::default());
        let writer = AccessLogWriter::start(target, vec![consumer], writing.clone()).expect("a thread");
        Log { sender: AccessLogSender::new(producer, worker.clone(), &settings), writer, worker, writing, sent: 0 }
    }

    /// Lines are numbered, and 64 bytes long with their line feed as long as there are fewer than a million.
    fn send(&mut self, count: u64) {
        for _ in 0..count {
            let time_unix_us = 100_000_000 + self.sent * 1000;
            self.sender.record(&AccessRecord { time_unix_us, path: &[b'x'; 56], ..plain() });
            self.sent += 1;
        }
    }

    /// The file's text, once it has so many lines.
    fn wait_for(path: &Path, lines: usize) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = fs::read_to_string(path).unwrap_or_default();
            if text.lines().count() >= lines {
                return text;
            }
            assert!(Instant::now() < deadline, "{lines} lines did not come; there is {text:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn finish(self) -> bool {
        self.writer.finish(Instant::now() + PATIENCE)
    }
}

/// The numbers of the lines; each must be whole.
fn numbers(text: &str) -> Vec<u64> {
    let number = |line: &str| {
        let (number, path) = line.split_once(' ').unwrap_or_else(|| panic!("a torn line: {line:?}"));
        assert_eq!(path, "x".repeat(56), "a torn line: {line:?}");
        number.parse::<u64>().expect("a number") - 100_000
    };
    text.lines().map(number).collect()
}

fn file_target(path: &Path, rotation: Option<Rotation>) -> Target {
    Target::open(&LogTarget::File { path: path.to_owned(), rotation }).expect("a file")
}

fn pipe_target() -> (PipeReader, Target) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    (reader, Target::Stream(File::from(OwnedFd::from(writer))))
}

fn read_all(mut reader: PipeReader) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("UTF-8 from the pipe");
        text
    })
}

#[test]
fn every_line_reaches_the_file_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let mut log = Log::start(file_target(&path, None));
    log.send(5000);
    assert!(log.finish());
    assert_eq!(numbers(&fs::read_to_string(&path).expect("the log")), (0..5000).collect::<Vec<_>>());
}

#[test]
fn a_file_is_not_for_everyone_on_the_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let log = Log::start(file_target(&path, None));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).expect("the file is there").permissions());
    assert_eq!(mode & 0o137, 0, "{mode:o}");
    assert!(log.finish());
}

#[test]
fn a_full_ring_drops_and_counts_and_holds_nobody_up() {
    let (reader, target) = pipe_target();
    let mut log = Log::start(target);
    // Nobody reads: the pipe takes 64 KiB, a batch 256 KiB, the ring 1 MiB. That this ends at all shows that a sender
    // never waits.
    log.send(100_000);
    let (kept, dropped) = (log.worker.access_log_lines.value(), log.worker.access_log_dropped.value());
    assert_eq!(kept + dropped, 100_000);
    assert!(dropped > 60_000, "dropped {dropped}");
    let reading = read_all(reader);
    assert!(log.finish());
    let seen = numbers(&reading.join().expect("the reader"));
    assert_eq!(seen.len() as u64, kept);
    assert!(seen.is_sorted());
}

#[test]
fn finishing_does_not_wait_for_a_reader_that_never_comes() {
    let (reader, target) = pipe_target();
    let mut log = Log::start(target);
    log.send(10_000);
    assert!(!log.writer.finish(Instant::now() + Duration::from_millis(50)));
    drop(reader);
}

#[test]
fn a_target_that_does_not_block_gets_every_line_whole() {
    let (mut reader, target) = pipe_target();
    let Target::Stream(pipe) = &target else { unreachable!("a pipe is a stream") };
    rustix::fs::fcntl_setfl(pipe, rustix::fs::OFlags::NONBLOCK).expect("a pipe may be set so");
    let mut log = Log::start(target);
    log.send(10_000);
    let mut first = vec![0; 1000];
    reader.read_exact(&mut first).expect("the first lines");
    let reading = read_all(reader);
    assert!(log.finish());
    let text = String::from_utf8(first).expect("UTF-8") + &reading.join().expect("the reader");
    assert_eq!(numbers(&text), (0..10_000).collect::<Vec<_>>());
}

#[test]
fn a_full_disk_is_counted_and_survived() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let mut log = Log::start(file_target(Path::new("/dev/full"), None));
    log.send(100);
    let deadline = Instant::now() + PATIENCE;
    while log.writing.write_failed() < 100 {
        assert!(Instant::now() < deadline, "{} lines counted as lost", log.writing.write_failed());
        std::thread::sleep(Duration::from_millis(5));
    }
    log.writer.retarget(OpenTarget::open(&LogTarget::File { path: path.clone(), rotation: None }).expect("a file"));
    log.send(10);
    let writing = log.writing.clone();
    assert!(log.finish());
    assert_eq!(numbers(&fs::read_to_string(&path).expect("the log")), (100..110).collect::<Vec<_>>());
    assert_eq!(writing.write_failed(), 100);
}

#[test]
fn a_reader_that_goes_away_ends_nothing() {
    let (reader, target) = pipe_target();
    drop(reader);
    let mut log = Log::start(target);
    log.send(10);
    let writing = log.writing.clone();
    assert!(log.finish());
    assert_eq!(writing.write_failed(), 10);
}

#[test]
fn files_are_rotated_between_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let mut log = Log::start(file_target(&path, Some(Rotation { size_bytes: 1000, keep: 3 })));
    log.send(200);
    assert!(log.finish());
    let mut all = Vec::new();
    for name in ["access.log.3", "access.log.2", "access.log.1", "access.log"] {
        let text = fs::read_to_string(folder.path().join(name)).expect(name);
        assert!(text.len() <= 1000, "{name} has {} bytes", text.len());
        assert!(name == "access.log" || text.len() > 900, "{name} has only {} bytes", text.len());
        all.extend(numbers(&text));
    }
    let first = all[0];
    assert!(first > 100, "older files are gone");
    assert_eq!(all, (first..200).collect::<Vec<_>>());
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 4);
}

#[test]
fn a_line_longer_than_a_file_may_be_is_written_all_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let mut log = Log::start(file_target(&path, Some(Rotation { size_bytes: 10, keep: 1 })));
    log.send(3);
    assert!(log.finish());
    assert_eq!(numbers(&fs::read_to_string(&path).expect("the log")), [2]);
    assert_eq!(numbers(&fs::read_to_string(folder.path().join("access.log.1")).expect("the one before")), [1]);
}

#[test]
fn rotation_that_fails_loses_no_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    // A folder that is not empty cannot be renamed over.
    fs::create_dir_all(folder.path().join("access.log.1/x")).expect("a folder in the way");
    let mut log = Log::start(file_target(&path, Some(Rotation { size_bytes: 1000, keep: 1 })));
    log.send(100);
    let writing = log.writing.clone();
    assert!(log.finish());
    assert_eq!(numbers(&fs::read_to_string(&path).expect("the log")), (0..100).collect::<Vec<_>>());
    assert_eq!(writing.write_failed(), 0);
}

#[test]
fn rotation_goes_on_where_an_earlier_process_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    fs::write(&path, "x".repeat(990) + "\n").expect("an old log");
    let mut log = Log::start(file_target(&path, Some(Rotation { size_bytes: 1000, keep: 0 })));
    log.send(2);
    assert!(log.finish());
    assert_eq!(numbers(&fs::read_to_string(&path).expect("the log")), [0, 1], "with keep=0 the old one is gone");
}

#[test]
fn logrotate_renames_and_asks_to_reopen() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, old) = (folder.path().join("access.log"), folder.path().join("access.log.old"));
    let mut log = Log::start(file_target(&path, None));
    log.send(3);
    Log::wait_for(&path, 3);
    fs::rename(&path, &old).expect("renaming");
    log.writer.reopen();
    log.send(2);
    assert!(log.finish());
    let text = fs::read_to_string(&old).expect("the old log") + &fs::read_to_string(&path).expect("the new log");
    assert_eq!(numbers(&text), [0, 1, 2, 3, 4]);
    assert!(path.exists());
}

#[test]
fn the_target_changes_while_running() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first.log"), folder.path().join("second.log"));
    let mut log = Log::start(file_target(&first, None));
    log.send(3);
    Log::wait_for(&first, 3);
    let refused = OpenTarget::open(&LogTarget::File { path: folder.path().join("none/x.log"), rotation: None });
    assert!(refused.is_err(), "a folder that does not exist is told at once");
    log.writer.retarget(OpenTarget::open(&LogTarget::File { path: second.clone(), rotation: None }).expect("a file"));
    log.send(2);
    assert!(log.finish());
    let text = fs::read_to_string(&first).expect("the first") + &fs::read_to_string(&second).expect("the second");
    assert_eq!(numbers(&text), [0, 1, 2, 3, 4]);
}

#[test]
fn a_log_that_is_off_can_be_switched_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let mut log = Log::start(Target::Off);
    let off = model::AccessLog { target: LogTarget::Off, format: AccessLogFormat::Json, when: LogConditions::default() };
    log.sender.apply(&off);
    log.send(5);
    assert!(!log.sender.is_on());
    assert_eq!(log.worker.access_log_lines.value(), 0);
    let target = LogTarget::File { path: path.clone(), rotation: None };
    log.writer.retarget(OpenTarget::open(&target).expect("a file"));
    log.sender.apply(&model::AccessLog {
        target,
        format: template(&["{time.unix_ms}", " ", "{path}"]),
        when: LogConditions::default(),
    });
    log.send(2);
    assert!(log.finish());
    assert_eq!(numbers(&fs::read_to_string(&path).expect("the log")), [5, 6]);
}

#[test]
fn a_log_that_is_switched_off_gets_its_last_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let mut log = Log::start(file_target(&path, None));
    log.send(1000);
    log.writer.retarget(OpenTarget::open(&LogTarget::Off).expect("off is always there"));
    assert!(log.finish());
    assert_eq!(numbers(&fs::read_to_string(&path).expect("the log")), (0..1000).collect::<Vec<_>>());
}
