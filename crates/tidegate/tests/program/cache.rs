//! What a case cannot say of the cache: a stampede, a body larger than anything that is kept, and the folder over
//! restarts, torn files and a disk that fails.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tidegate_testkit::proxy::Proxy;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// For what happens soon, or not for long.
const BOUND: Duration = Duration::from_secs(30);

/// A server that answers every request by its path and counts them.
fn server(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let (requests, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(answer));
    let counted = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer, counted) = (stream.expect("the proxy"), answer.clone(), counted.clone());
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().expect("a socket"));
                while let Some(path) = request(&mut lines) {
                    counted.fetch_add(1, Ordering::SeqCst);
                    if stream.write_all(&answer(&path)).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, requests)
}

/// The path of the next request.
fn request(lines: &mut impl BufRead) -> Option<String> {
    let mut first = String::new();
    lines.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            return first.split(' ').nth(1).map(str::to_owned);
        }
    }
}

fn fresh(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn start(store: &str, upstream: SocketAddr) -> Proxy {
    Proxy::start(PROGRAM, &configuration(store, "cache", upstream)).expect("it starts")
}

fn configuration(store: &str, steps: &str, upstream: SocketAddr) -> String {
    format!(
        "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 2\n{store}\nsite \"http://:{{port}}\" {{\n    {steps}\n    proxy \"{upstream}\"\n}}\n"
    )
}

/// Head and body.
fn get(proxy: &Proxy, path: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(proxy.address).expect("it listens");
    stream.set_read_timeout(Some(BOUND)).expect("a bound");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").as_bytes()).expect("sent");
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("an answer");
    let end = received.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    (String::from_utf8_lossy(&received[..end]).into_owned(), received[end + 4..].to_vec())
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < BOUND, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn ten_thousand_requests_for_the_same_are_one() {
    // As many as `connections-per-ip` allows. The answer comes when most of them wait; those that come later find it
    // kept.
    const CONNECTIONS: usize = 10_000;
    let (upstream, requests) = server(|_| {
        std::thread::sleep(Duration::from_secs(1));
        fresh(b"once")
    });
    let proxy = start("", upstream);
    let streams: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = TcpStream::connect(proxy.address).expect("it listens");
            stream.set_read_timeout(Some(BOUND)).expect("a bound");
            stream.write_all(b"GET /page HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").expect("sent");
            stream
        })
        .collect();
    for mut stream in streams {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("\r\n\r\nonce"), "{answer}");
    }
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[test]
fn a_body_larger_than_what_is_kept_arrives_whole_and_is_not_kept() {
    const BYTES: usize = 50 << 20;
    let (upstream, requests) = server(|path| {
        let body: Vec<u8> = (0..BYTES).map(|at| (at / 64) as u8).collect();
        if path == "/chunked" {
            let mut answer = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for part in body.chunks(100_000) {
                answer.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                answer.extend_from_slice(part);
                answer.extend_from_slice(b"\r\n");
            }
            answer.extend_from_slice(b"0\r\n\r\n");
            return answer;
        }
        fresh(&body)
    });
    let proxy = start("cache memory=\"16MiB\" object=\"1MiB\"", upstream);
    for path in ["/long", "/long"] {
        let (head, body) = get(&proxy, path);
        assert!(head.contains("fwd=uri-miss"), "{head}");
        assert_eq!(body.len(), BYTES);
        assert!(body.iter().enumerate().all(|(at, byte)| *byte == (at / 64) as u8));
    }
    let (_, chunked) = get(&proxy, "/chunked");
    assert!(chunked.len() > BYTES, "with its chunk lines");
    assert_eq!(requests.load(Ordering::SeqCst), 3);
    proxy.wait_for_metric("tidegate_cache_bytes{tier=\"memory\"}", 0.0).expect("nothing of it is kept");
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "tidecache")).collect()
}

#[test]
fn the_folder_is_there_after_a_restart_and_what_is_torn_is_thrown_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("kept");
    let store = format!("cache disk=\"{}\"", kept.display());
    let (upstream, requests) = server(|path| fresh(path.as_bytes()));
    let mut proxy = start(&store, upstream);
    for path in ["/whole", "/torn", "/flipped"] {
        let (head, body) = get(&proxy, path);
        assert!(head.contains("stored") && body == path.as_bytes(), "{head}");
    }
    until("all are on disk", || files_in(&kept).len() == 3);
    for file in files_in(&kept) {
        let mut bytes = fs::read(&file).expect("a file of the cache");
        let end = bytes.len() - 1;
        match &bytes[bytes.len() - 5..] {
            b"/torn" => bytes.truncate(end),
            b"ipped" => bytes[end] ^= 1,
            _ => continue,
        }
        fs::write(&file, bytes).expect("it is written");
    }
    proxy.restart(PROGRAM).expect("it starts again");
    proxy.wait_for_metric("tidegate_cache_disk_damaged_total", 1.0).expect("what is torn is found");
    let (head, body) = get(&proxy, "/whole");
    assert!(head.contains("; hit;") && body == b"/whole", "{head}");
    assert_eq!(requests.load(Ordering::SeqCst), 3);
    for path in ["/torn", "/flipped"] {
        let (head, body) = get(&proxy, path);
        assert!(head.contains("fwd=uri-miss") && body == path.as_bytes(), "{head}");
    }
    assert_eq!(requests.load(Ordering::SeqCst), 5);
}

#[test]
fn a_disk_that_fails_is_done_without() {
    let folder = tempfile::tempdir().expect("a folder");
    // A file where the folder should be: nothing can be read or written there.
    let kept = folder.path().join("kept");
    fs::write(&kept, "in the way").expect("a file");
    let (upstream, requests) = server(|path| fresh(path.as_bytes()));
    let proxy = start(&format!("cache disk=\"{}\"", kept.display()), upstream);
    for _ in 0..2 {
        let (_, body) = get(&proxy, "/a");
        assert_eq!(body, b"/a");
    }
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    proxy.wait_for_metric_from("tidegate_cache_disk_errors_total", 1.0, 100.0).expect("it is counted");
    assert_eq!(fs::read(&kept).expect("it is still there"), b"in the way");
}

#[test]
fn what_is_kept_stays_when_the_configuration_changes_around_it() {
    let (upstream, requests) = server(|path| fresh(path.as_bytes()));
    let mut proxy = start("", upstream);
    let _ = get(&proxy, "/a");
    let changed = configuration("cache memory=\"64MiB\"", "cache stale-if-error=\"1h\"\n    header \"X-New\" \"yes\"", upstream);
    proxy.apply(&changed).expect("it is applied");
    let (head, _) = get(&proxy, "/a");
    assert!(head.contains("; hit;") && head.contains("X-New: yes"), "{head}");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

/// The head of a request as the upstream got it, which is what it answers with.
fn told(proxy: &Proxy, target: &str, fields: &[String]) -> (String, bool) {
    let mut stream = TcpStream::connect(proxy.address).expect("it listens");
    stream.set_read_timeout(Some(BOUND)).expect("a bound");
    let fields = fields.join("\r\n");
    stream.write_all(format!("GET {target} HTTP/1.1\r\n{fields}\r\nConnection: close\r\n\r\n").as_bytes()).expect("sent");
    let mut received = String::new();
    stream.read_to_string(&mut received).expect("an answer");
    let (head, body) = received.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "GET {target} {fields}: {head}");
    (body.to_owned(), head.contains("; hit"))
}

/// Answers each request with its head, for everybody who asks alike.
fn server_of_heads() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("the proxy");
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines().map_while(Result::ok);
                loop {
                    let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
                    if head.is_empty() || stream.write_all(&fresh(head.join("\n").as_bytes())).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Two requests that get one answer are the same to the upstream: each request is sent through a proxy with a cache and
/// through one without, and what the first gives is what the upstream gets to see by way of the second. Fields of a
/// client that `Vary` could name are not compared, and neither is `X-Forwarded-For`.
#[test]
fn a_kept_answer_is_one_to_the_same_question() {
    let upstream = server_of_heads();
    let configuration = |cache: &str| {
        format!(
            "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 1\nlistener \":{{port}}\" {{ trusted-proxies \"127.0.0.0/8\"; }}\n\
             site \"http://:{{port}}\" {{\n{cache}\n    request-id \"off\"\n    route \"/strip/*\" {{ strip-prefix \"/strip\"; proxy \"{upstream}\"; }}\n    \
             route {{ proxy \"{upstream}\"; }}\n}}\n"
        )
    };
    let kept = Proxy::start(PROGRAM, &configuration("cache")).expect("it starts");
    let plain = Proxy::start(PROGRAM, &configuration("")).expect("it starts");
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64) | 1;
    println!("seed {seed}");
    let mut random = seed;
    let mut draw = move |count: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 33) as usize % count
    };
    let targets = ["/a", "/%61", "/x/../a", "//a", "/strip/a", "/a?", "/a?q", "/a?%71", "/a?q&", "/A", "/a%2Fb", "/a%2fb"];
    let (port, mut hits) = (kept.address.port(), 0);
    for _ in 0..600 {
        let hosts = ["site.test", "SITE.test", "site.test:80", "Site.Test:80", "site.test:443", "site.test.", "other.test"];
        let host = match draw(hosts.len() + 1) {
            which if which < hosts.len() => hosts[which].to_owned(),
            _ => format!("site.test:{port}"),
        };
        let mut fields = vec![format!("Host: {host}"), format!("X-Forwarded-For: 192.0.2.{}", draw(3))];
        let said = [
            "X-Forwarded-Proto: https",
            "X-Forwarded-Host: SITE.test",
            "X-Forwarded-Host: site.test",
            "X-Forwarded-Port: 1337",
            "X-Forwarded-Prefix: /a",
            "Forwarded: host=one.test",
            "X-HTTP-Method-Override: DELETE",
            "X_HTTP_Method: DELETE",
            "X-Original-URL: /admin",
            "x-rewrite-url: /admin",
        ];
        fields.extend(said.iter().filter(|_| draw(12) == 0).map(|field| (*field).to_owned()));
        let target = targets[draw(targets.len())];
        let (given, is_hit) = told(&kept, target, &fields);
        let (asked, _) = told(&plain, target, &fields);
        hits += usize::from(is_hit);
        // Which of the two it came to differs, and who the client is.
        let comparable = |head: &str, port: u16| -> Vec<String> {
            let own = format!("x-forwarded-port: {port}");
            let lines = head
                .lines()
                .map(|line| if line.eq_ignore_ascii_case(&own) { "X-Forwarded-Port: own".to_owned() } else { line.to_owned() });
            let mut lines: Vec<String> =
                lines.filter(|line| !line.to_ascii_lowercase().starts_with("x-forwarded-for:")).collect();
            lines.sort();
            lines
        };
        let (given, asked) = (comparable(&given, port), comparable(&asked, plain.address.port()));
        assert_eq!(given, asked, "GET {target} {fields:?} got the answer to another question, seed {seed}");
    }
    assert!(hits > 50, "{hits} hits, seed {seed}");
}
