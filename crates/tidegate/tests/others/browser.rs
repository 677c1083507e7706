//! What a browser makes of the proxy: a real Chromium, where this machine has one, loads pages through it over HTTP/1.1
//! and HTTP/2, and their scripts report what they saw. Browsers do what no scripted client does: their own conditions,
//! ranges, reconnections, flow control and preflights.

pub mod server;

use aws_lc_rs::digest::{Context, Digest, SHA256, digest};
use serde_json::{Value, json};
use server::{Exchange, PAGE, RESULT, Server, page};
use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tidegate_testkit::chromium::Chromium;
use tidegate_testkit::driver;
use tidegate_testkit::proxy::Proxy;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// For what happens soon, or not at all: a browser starts slowly on a machine that compiles.
const BOUND: Duration = Duration::from_secs(180);

/// One page over HTTP/1.1, and then over HTTP/2: origins of one site. A browser speaks HTTP/2 with TLS alone.
const ADDRESSES: &str = r#""http://127.0.0.1:{port}" "https://localhost:{port:tls}""#;
const PROTOCOLS: [&str; 2] = ["http/1.1", "h2"];

fn start(steps: &str) -> Proxy {
    start_on(driver::EPOLL, steps)
}

fn start_on(driver: &str, steps: &str) -> Proxy {
    Proxy::start(
        PROGRAM,
        &driver::on(driver, &format!(
            "admin \"127.0.0.1:{{admin}}\"\nthreads 2\n\
             access-log \"{{dir}}/access.log\" format=\"{{method}} {{path}} {{status}} {{protocol}} {{response.header.Content-Encoding}} <{{request.header.Accept-Encoding}}>\"\n\
             site {ADDRESSES} {{\n    tls \"internal\"\n{steps}\n}}\n"
        )),
    )
    .expect("it starts")
}

fn origins(proxy: &mut Proxy) -> [String; 2] {
    ["http://127.0.0.1:{port}", "https://localhost:{port:tls}"].map(|origin| proxy.places.fill(origin).expect("a port"))
}

/// Opens the page and gives what its script returns.
fn visit(browser: &Path, url: &str, server: &Server, proxy: &Proxy) -> Value {
    let _only = crate::only_browser();
    let mut chromium = Chromium::open(browser, url);
    let Some(result) = server.result(BOUND) else {
        panic!("the page {url} reports nothing\n{}\n{}", chromium.output(), proxy.program.output());
    };
    assert_eq!(result.get("error"), None, "{url}: {result}\n{}\n{}", chromium.output(), proxy.program.output());
    result
}

/// The lines of the access log about a path, as soon as there are as many.
fn logged(proxy: &Proxy, path: &str, count: usize) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let log = fs::read_to_string(proxy.places.folder().join("access.log")).unwrap_or_default();
        let lines: Vec<String> = log.lines().filter(|line| line.split(' ').nth(1) == Some(path)).map(str::to_owned).collect();
        if lines.len() >= count {
            return lines;
        }
        assert!(begin.elapsed() < BOUND, "{path} is logged less than {count} times:\n{log}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn hex(digest: &Digest) -> String {
    digest.as_ref().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn noise(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(next).collect()
}

#[test]
fn pages_come_compressed_and_are_shown_as_they_were() {
    const SCRIPT: &str = r#"
        const load = coding => new Promise(resolve => {
            const frame = document.createElement("iframe");
            frame.src = `/${coding}/text`;
            // The entry of a page that is loaded is complete a task later.
            frame.onload = () => setTimeout(() => resolve(frame.contentWindow), 0);
            document.body.append(frame);
        });
        const result = {};
        for (const coding of ["zstd", "br", "gzip"]) {
            const shown = await load(coding);
            const [entry] = shown.performance.getEntriesByType("navigation");
            const response = await fetch(`/${coding}/text`);
            result[coding] = {
                text: shown.document.querySelector("pre").textContent,
                fetched: await response.text(),
                said: [response.headers.get("Content-Encoding"), response.headers.get("Vary")],
                protocol: entry.nextHopProtocol,
                encoded: entry.encodedBodySize,
                decoded: entry.decodedBodySize,
            };
        }
        return result;"#;
    let Some(browser) = Chromium::find() else { return };
    let text: String = (0..4000).fold(String::new(), |text, line| text + &format!("{line}: Füße, 犬 and {}\n", line * line));
    let whole = format!("<!doctype html><meta charset=\"utf-8\"><title>text</title><pre>{text}</pre>");
    let (body, decoded) = (whole.clone(), whole.len());
    let server = Server::start(SCRIPT, move |exchange| {
        exchange.reply("Content-Type: text/html\r\nCache-Control: no-store\r\n", body.as_bytes());
    });
    let upstream = server.address;
    let route = |coding| format!("    route \"/{coding}/*\" {{ compress \"{coding}\"; proxy \"{upstream}\" }}\n");
    let steps = format!("{}    proxy \"{upstream}\"", ["zstd", "br", "gzip"].map(route).concat());
    for driver in driver::drivers(PROGRAM) {
        let mut proxy = start_on(driver, &steps);
        for (origin, protocol) in origins(&mut proxy).iter().zip(PROTOCOLS) {
            let result = visit(&browser, &format!("{origin}{PAGE}"), &server, &proxy);
            for coding in ["zstd", "br", "gzip"] {
                let seen = &result[coding];
                assert_eq!(seen["said"], json!([coding, "Accept-Encoding"]), "{origin}");
                assert_eq!(seen["protocol"], protocol);
                assert!(seen["text"] == text && seen["fetched"] == whole, "{origin}: {coding} is not what was sent");
                assert_eq!(seen["decoded"], decoded, "{origin}: {coding}");
                let encoded = seen["encoded"].as_u64().expect("a size");
                assert!(encoded > 0 && encoded < decoded as u64 / 2, "{origin}: {coding}: {encoded} of {decoded} bytes");
            }
        }
        // Brotli and zstd are offered over TLS, and without it by pages of this machine, which count as secure.
        for coding in ["zstd", "br", "gzip"] {
            let expected = |protocol| format!("GET /{coding}/text 200 {protocol} {coding} <gzip, deflate, br, zstd>");
            let mut lines = logged(&proxy, &format!("/{coding}/text"), 4);
            lines.sort_unstable();
            let protocols = ["HTTP/1.1", "HTTP/1.1", "HTTP/2", "HTTP/2"];
            assert_eq!(lines, protocols.map(expected), "{driver}");
        }
    }
}

#[test]
fn events_arrive_one_by_one_and_go_on_after_a_cut() {
    // The server makes an event when the page has told that it saw the one before. After the third it ends the answer,
    // and the browser comes back.
    const SCRIPT: &str = r#"
        return await new Promise((resolve, reject) => {
            const source = new EventSource("/events");
            const seen = [];
            let opened = 0;
            source.onopen = () => opened += 1;
            source.onmessage = async event => {
                seen.push(`${event.lastEventId}: ${event.data}`);
                if (seen.length == 6) source.close();
                await fetch("/seen", { method: "POST", body: event.lastEventId });
                if (seen.length == 6) resolve({ seen, opened });
            };
            source.onerror = () => { if (source.readyState == EventSource.CLOSED) reject(new Error(`closed after ${seen}`)); };
        });"#;
    let Some(browser) = Chromium::find() else { return };
    let (told, tells) = channel();
    let tells = Mutex::new(tells);
    let server = Server::start(SCRIPT, move |exchange| {
        if exchange.path == "/seen" {
            let number = String::from_utf8(exchange.body()).expect("a number");
            told.send(number).expect("the stream waits for it");
            return exchange.reply("", b"");
        }
        let first: u32 = exchange.field("last-event-id").parse().unwrap_or(0) + 1;
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        exchange.send_chunk(b"retry: 50\n\n");
        for number in first..first + 3 {
            exchange.send_chunk(format!("id: {number}\ndata: event {number}\n\n").as_bytes());
            let seen = tells.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(BOUND).expect("the event was seen");
            assert_eq!(seen, number.to_string());
        }
        exchange.send_chunk(b"");
    });
    let mut proxy = start(&format!("    compress min-size=\"1B\"\n    proxy \"{}\"", server.address));
    for origin in origins(&mut proxy) {
        let result = visit(&browser, &format!("{origin}{PAGE}"), &server, &proxy);
        let expected: Vec<String> = (1..=6).map(|number| format!("{number}: event {number}")).collect();
        assert_eq!(result, json!({ "seen": expected, "opened": 2 }), "{origin}");
    }
    let lines = logged(&proxy, "/events", 4);
    assert!(lines.len() == 4 && lines.iter().all(|line| line.contains(" zstd <")), "{lines:#?}");
    assert_eq!(server.count("GET /events"), 4);
}

#[test]
fn a_socket_is_opened_over_the_version_that_the_page_came_by() {
    const SCRIPT: &str = r#"
        return await new Promise((resolve, reject) => {
            const socket = new WebSocket(`${location.protocol == "https:" ? "wss" : "ws"}://${location.host}/socket`);
            const long = "x".repeat(200000);
            const seen = [];
            socket.onopen = () => { socket.send("hello"); socket.send(long); };
            socket.onmessage = event => {
                seen.push(event.data == long ? "long" : event.data);
                if (seen.length == 2) socket.close(1000);
            };
            socket.onclose = event => resolve({ seen, code: event.code, clean: event.wasClean });
            socket.onerror = () => reject(new Error(`closed after ${seen}`));
        });"#;
    let Some(browser) = Chromium::find() else { return };
    let server = Server::start(SCRIPT, Exchange::echo_frames);
    for driver in driver::drivers(PROGRAM) {
        let mut proxy = start_on(driver, &format!("    proxy \"{}\"", server.address));
        for origin in origins(&mut proxy) {
            let result = visit(&browser, &format!("{origin}{PAGE}"), &server, &proxy);
            assert_eq!(result, json!({ "seen": ["hello", "long"], "code": 1000, "clean": true }), "{origin}");
        }
        let lines = logged(&proxy, "/socket", 2);
        assert!(lines[0].starts_with("GET /socket 101 HTTP/1.1 "), "{lines:#?}");
        assert!(lines[1].starts_with("GET /socket 200 HTTP/2"), "{lines:#?}");
    }
}

#[test]
fn a_large_upload_passes_through_whole_and_takes_no_memory() {
    const MEBIBYTES: u64 = 200;
    /// What the proxy may take more than before, in KiB: its windows and buffers, and nothing near the body.
    const GROWTH: u64 = 48 << 10;
    const SCRIPT: &str = r#"
        let state = 1;
        const blocks = Array.from({ length: 200 }, () => {
            const block = new Uint32Array(1 << 18);
            for (let at = 0; at < block.length; at++) {
                state ^= state << 13; state ^= state >>> 17; state ^= state << 5;
                block[at] = state;
            }
            return block;
        });
        const blob = new Blob(blocks);
        const response = await fetch("/upload", { method: "PUT", body: blob });
        return { status: response.status, server: await response.json(), sha256: await hex(await blob.arrayBuffer()) };"#;
    let Some(browser) = Chromium::find() else { return };
    let server = Server::start(SCRIPT, |exchange| {
        let (mut context, mut bytes) = (Context::new(&SHA256), 0);
        exchange.each_piece(|piece| {
            // While this server reads nothing, a proxy that does not hold the browser back takes in what there is.
            if bytes < 1 << 20 && bytes + piece.len() as u64 >= 1 << 20 {
                std::thread::sleep(Duration::from_secs(2));
            }
            bytes += piece.len() as u64;
            context.update(piece);
        });
        let counted = json!({ "bytes": bytes, "sha256": hex(&context.finish()) });
        exchange.reply("Content-Type: application/json\r\n", counted.to_string().as_bytes());
    });
    let upstream = server.address;
    // A proxy for each protocol: the second would have room that the first one left.
    let every = driver::drivers(PROGRAM).into_iter().flat_map(|driver| (0..PROTOCOLS.len()).map(move |at| (driver, at)));
    for (driver, at) in every {
        let mut proxy = start_on(driver, &format!("    proxy \"{upstream}\""));
        let origin = &origins(&mut proxy)[at];
        let before = memory(&proxy, "VmRSS:");
        let result = visit(&browser, &format!("{origin}{PAGE}"), &server, &proxy);
        assert_eq!((&result["status"], &result["server"]["bytes"]), (&json!(200), &json!(MEBIBYTES << 20)), "{origin}");
        assert_eq!(result["server"]["sha256"], result["sha256"], "{origin}");
        let (peak, after) = (memory(&proxy, "VmHWM:"), memory(&proxy, "VmRSS:"));
        println!("{driver}, {origin}: {before} KiB before, {peak} KiB at most, {after} KiB at the end");
        assert!(peak < before + GROWTH, "{origin}: {before} KiB before, {peak} KiB at most, {after} KiB at the end");
    }
}

/// A line of the process's status, in KiB.
fn memory(proxy: &Proxy, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", proxy.program.id())).expect("it runs");
    let line = status.lines().find(|line| line.starts_with(name)).expect("a line");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

#[test]
fn a_download_that_was_cut_is_resumed_and_begun_anew_when_the_file_is_another() {
    const SCRIPT: &str = r#"
        const join = async parts => new Uint8Array(await new Blob(parts).arrayBuffer());
        const begin = async () => {
            const abort = new AbortController();
            const response = await fetch("/file.bin", { cache: "no-store", signal: abort.signal });
            const reader = response.body.getReader();
            const parts = [];
            let length = 0;
            while (length < 3000000) {
                const { value, done } = await reader.read();
                if (done) throw new Error("the file is shorter");
                parts.push(value);
                length += value.length;
            }
            abort.abort();
            return { parts, length, etag: response.headers.get("ETag") };
        };
        const resume = async begun => {
            const headers = { "Range": `bytes=${begun.length}-`, "If-Range": begun.etag };
            const response = await fetch("/file.bin", { cache: "no-store", headers });
            const rest = await response.arrayBuffer();
            const whole = response.status == 206 ? await join([...begun.parts, rest]) : rest;
            return {
                status: response.status,
                range: response.headers.get("Content-Range")?.replace(`${begun.length}-`, "N-") ?? null,
                sameTag: response.headers.get("ETag") == begun.etag,
                sha256: await hex(whole),
            };
        };
        const same = await resume(await begin());
        const begun = await begin();
        await fetch("/replace", { method: "POST" });
        return { same, other: await resume(begun) };"#;
    const LENGTH: usize = 24_000_000;
    let Some(browser) = Chromium::find() else { return };
    for at in 0..PROTOCOLS.len() {
        let folder = tempfile::tempdir().expect("a folder");
        let (old, new) = (noise(1, LENGTH), noise(2, LENGTH + 1));
        let (old_hash, new_hash) = (hex(&digest(&SHA256, &old)), hex(&digest(&SHA256, &new)));
        let file = folder.path().join("file.bin");
        fs::write(&file, old).expect("written");
        fs::write(folder.path().join("begin.html"), page(SCRIPT)).expect("written");
        let server = Server::start("", move |exchange| {
            let next = file.with_extension("new");
            fs::write(&next, &new).and_then(|()| fs::rename(&next, &file)).expect("replaced");
            exchange.reply("", b"");
        });
        let upstream = server.address;
        let route = |path| format!("    route \"{path}\" {{ proxy \"{upstream}\" }}\n");
        let mut proxy = start(&format!("{}{}    files \"{}\"", route(RESULT), route("/replace"), folder.path().display()));
        let origin = &origins(&mut proxy)[at];
        let result = visit(&browser, &format!("{origin}/begin.html"), &server, &proxy);
        let range = format!("bytes N-{}/{LENGTH}", LENGTH - 1);
        assert_eq!(result["same"], json!({ "status": 206, "range": range, "sameTag": true, "sha256": old_hash }), "{origin}");
        assert_eq!(result["other"], json!({ "status": 200, "range": null, "sameTag": false, "sha256": new_hash }), "{origin}");
    }
}

#[test]
fn what_is_kept_is_a_hit_however_the_browser_asks() {
    // `reload` is what the button does, `no-cache` asks whether what the browser itself has kept is still the same.
    const SCRIPT: &str = r#"
        const result = [];
        for (const cache of ["default", "reload", "no-store", "no-cache"]) {
            const response = await fetch("/kept", { cache });
            const status = response.headers.get("Cache-Status");
            result.push([cache, response.status, await response.text(), /; *hit/.test(status), /fwd=uri-miss.*stored/.test(status), status]);
        }
        await (await fetch("/kept")).text();
        const transfers = performance.getEntriesByName(`${location.origin}/kept`).map(entry => entry.transferSize);
        return { result, transfers };"#;
    let Some(browser) = Chromium::find() else { return };
    // The browser keeps nothing of a server whose certificate it had to be told to accept: there every request comes,
    // and comes without a condition.
    for (at, statuses) in ["200 200 200 304", "200 200 200 200 200"].iter().enumerate() {
        let server = Server::start(SCRIPT, |exchange| {
            let body = "kept ".repeat(2000);
            exchange.reply("Content-Type: text/plain\r\nCache-Control: max-age=3600\r\nETag: \"1\"\r\n", body.as_bytes());
        });
        let mut proxy = start(&format!("    cache\n    proxy \"{}\"", server.address));
        let origin = &origins(&mut proxy)[at];
        let result = visit(&browser, &format!("{origin}{PAGE}"), &server, &proxy);
        let body = "kept ".repeat(2000);
        for (row, (cache, is_hit)) in
            [("default", false), ("reload", true), ("no-store", true), ("no-cache", true)].iter().enumerate()
        {
            let expected = json!([cache, 200, body, is_hit, !is_hit]);
            let seen = result["result"][row].as_array().expect("a row");
            assert_eq!(json!(seen[..5]), expected, "{origin}: {}", seen[5]);
        }
        assert_eq!(server.count("GET /kept"), 1, "{origin}: it was asked for once");
        let count = statuses.split(' ').count();
        let mut logged = logged(&proxy, "/kept", count);
        logged.sort_unstable();
        let seen: Vec<&str> = logged.iter().filter_map(|line| line.split(' ').nth(2)).collect();
        assert_eq!(seen.join(" "), *statuses, "{origin}");
        // What the browser has itself costs nothing, and its question nothing but a head.
        let transfers: Vec<u64> = serde_json::from_value(result["transfers"].clone()).expect("sizes");
        let (asked, own) = (transfers[3] < body.len() as u64, transfers[4] == 0);
        assert_eq!((asked, own), (at == 0, at == 0), "{origin}: {transfers:?}");
    }
}

#[test]
fn pages_of_listed_origins_read_answers_and_others_do_not() {
    const SCRIPT: &str = r#"
        const api = new URLSearchParams(location.search).get("api");
        const result = {};
        const attempt = async (name, path, options) => {
            try {
                const response = await fetch(api + path, options);
                result[name] = [response.status, await response.text(), response.headers.get("X-Answer"), response.headers.get("X-Hidden")];
            } catch (error) {
                result[name] = error.name;
            }
        };
        const headers = { "X-Token": "a" };
        await attempt("simple", "/listed/simple");
        await attempt("put", "/listed/put", { method: "PUT", body: "x", headers });
        await attempt("credentials", "/listed/credentials", { credentials: "include", headers });
        await attempt("method", "/listed/method", { method: "DELETE" });
        await attempt("field", "/listed/field", { headers: { "X-Other": "a" } });
        await attempt("other origin", "/others/put", { method: "PUT", headers });
        await attempt("none", "/none/simple");
        return result;"#;
    let Some(browser) = Chromium::find() else { return };
    let server = Server::start(SCRIPT, |exchange: &mut Exchange| {
        let body = exchange.body();
        let text = format!("{} {}", exchange.method, String::from_utf8_lossy(&body));
        // An upstream that lets everybody in is not what counts.
        let fields = "Access-Control-Allow-Origin: *\r\nX-Answer: yes\r\nX-Hidden: yes\r\nCache-Control: no-store\r\n";
        exchange.reply(if exchange.path.starts_with("/none/") { "" } else { fields }, text.as_bytes());
    });
    let upstream = server.address;
    let cors = "methods=\"GET,PUT\" headers=\"X-Token\" expose=\"X-Answer\" credentials=#true";
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\"\nthreads 2\naccess-log \"{{dir}}/access.log\" format=\"{{method}} {{path}} {{status}}\"\n\
         site \"http://127.0.0.1:{{port}}\" {{ proxy \"{upstream}\" }}\n\
         site \"http://127.0.0.1:{{port:api}}\" {{\n\
         route \"/listed/*\" {{ cors origins=\"http://127.0.0.1:{{port}}\" {cors}; proxy \"{upstream}\" }}\n\
         route \"/others/*\" {{ cors origins=\"https://app.example.com\" {cors}; proxy \"{upstream}\" }}\n\
         route {{ proxy \"{upstream}\" }}\n}}\n"
    );
    let mut proxy = Proxy::start(PROGRAM, &config).expect("it starts");
    let url = proxy.places.fill(&format!("http://127.0.0.1:{{port}}{PAGE}?api=http://127.0.0.1:{{port:api}}")).expect("a port");
    let result = visit(&browser, &url, &server, &proxy);
    let expected = json!({
        "simple": [200, "GET ", "yes", null],
        "put": [200, "PUT x", "yes", null],
        "credentials": [200, "GET ", "yes", null],
        "method": "TypeError",
        "field": "TypeError",
        "other origin": "TypeError",
        "none": "TypeError",
    });
    assert_eq!(result, expected);
    // Preflights are answered by the proxy, and what they refuse is not sent.
    let asked = |request| server.count(request);
    assert_eq!((asked("PUT /listed/put"), asked("OPTIONS /listed/put")), (1, 0));
    assert_eq!((asked("DELETE /listed/method"), asked("GET /listed/field"), asked("PUT /others/put")), (0, 0, 0));
    let mut lines = logged(&proxy, "/listed/put", 2);
    lines.sort_unstable();
    assert_eq!(lines, ["OPTIONS /listed/put 204", "PUT /listed/put 200"]);
}
