//! Clients that take memory in a dozen ways, each with all their might for a few seconds, against a small budget and in
//! small control groups: what is resident stays within, and another client is served all the while.

use super::{beginning, frame, repeats, request};
use socket2::{Domain, Socket, Type};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tidegate_testkit::server::{Server, Settings};
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Proxy, driver};

/// For how long connections are opened, and how long they are held after that.
const ATTACK: Duration = Duration::from_millis(2000);
const HELD: Duration = Duration::from_millis(700);
/// Of the requests of another client, this many are served at the least.
const SERVED_PERCENT: usize = 90;
/// A request that takes longer is not served.
const ANSWERED: Duration = Duration::from_secs(5);
const MEBIBYTE: u64 = 1 << 20;
/// One worker, whose account nobody else changes, and two, which take from one budget.
const THREADS: [usize; 2] = [1, 2];

const CONFIG: &str = r#"
driver "DRIVER"
admin "127.0.0.1:{admin}"
access-log "off"
threads THREADS
memory "MEMORY"
pool "slow" {
    server "SLOW"
    protocol "h2c"
}
site "http://:{port}" {
    compress
    route "/kept" { proxy "slow" }
    route "/fixed" { respond 200 body="fixed" }
    route "/silent" { proxy "SILENT" }
    route "/text" { proxy "TEXT" }
    route "/plain" { proxy "TEXT" }
    route "/script/*" { fastcgi "SILENT" root="/srv/none" fallback="/index.php"; }
    proxy "UPSTREAM"
}
"#;

/// What each of the attacker's connections says, and how many there are.
struct Shape {
    name: &'static str,
    says: Vec<u8>,
    connections: usize,
}

fn streams(window: u32, count: u32, block: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    let blocks: Vec<u8> = (0..count).flat_map(|stream| block(2 * stream + 1)).collect();
    [beginning(window), blocks].concat()
}

fn literal(name: &str, value: &str) -> Vec<u8> {
    [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}

/// A POST that stays open, with as much of its body as its window takes.
fn post(stream: u32) -> Vec<u8> {
    let head = [&[0x83, 0x86][..], &literal(":path", "/silent"), &literal(":authority", "example.com")].concat();
    let data = frame(0, 0, stream, &[b'x'; 16_000]);
    [frame(1, 4, stream, &head), data.clone(), data].concat()
}

/// A PUT that is kept while it may have to be sent again.
fn put(stream: u32) -> Vec<u8> {
    let fields = [literal(":method", "PUT"), vec![0x86], literal(":path", "/kept"), literal(":authority", "example.com")];
    let (piece, last) = (frame(0, 0, stream, &[b'x'; 16_000]), frame(0, 1, stream, &[b'x'; 16_000]));
    [frame(1, 4, stream, &fields.concat()), piece.clone(), piece.clone(), piece, last].concat()
}

/// A POST whose trailers nobody reads.
fn trailers(stream: u32) -> Vec<u8> {
    let head = [&[0x83, 0x86][..], &literal(":path", "/silent"), &literal(":authority", "example.com")].concat();
    [frame(1, 4, stream, &head), frame(1, 5, stream, &repeats(stream == 1))].concat()
}

/// RFC 8441.
fn tunnel(stream: u32) -> Vec<u8> {
    let fields = [
        literal(":method", "CONNECT"),
        literal(":protocol", "websocket"),
        vec![0x86],
        literal(":path", "/silent"),
        literal(":authority", "example.com"),
        literal("sec-websocket-version", "13"),
    ];
    frame(1, 4, stream, &fields.concat())
}

/// A cookie in a thousand crumbs, each an index of a byte.
fn crumbs(is_first: bool) -> Vec<u8> {
    let crumb = [&b"\x60\x40"[..], &[b'c'; 64]].concat();
    [if is_first { crumb } else { vec![0xbe] }, vec![0xbe; 400]].concat()
}

/// A block of which the end never comes.
fn half_a_block() -> Vec<u8> {
    let field = [&literal("x-long", "")[..7], &[0x7f, 0xff, 0x3f], &[b'v'; 16_000][..]].concat();
    let pieces = (0..3).flat_map(|_| frame(9, 0, 1, &field[..16_000]));
    [beginning(65_535), frame(1, 0, 1, &field[..16_000]), pieces.collect()].concat()
}

fn shapes() -> Vec<Shape> {
    let plain = |first: &str, more: usize| [first.as_bytes(), &vec![b'x'; more]].concat();
    let shape = |name, connections, says| Shape { name, says, connections };
    let post_held = "POST /silent HTTP/1.1\r\nHost: example.com\r\nContent-Length: 10000000\r\n\r\n";
    let script = "POST /script/a HTTP/1.1\r\nHost: example.com\r\nContent-Length: 300000\r\n\r\n";
    let upgrade = "GET /upgrade HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    let coded = "GET /text HTTP/1.1\r\nHost: example.com\r\nAccept-Encoding: gzip, zstd\r\n\r\n";
    vec![
        shape("POSTs held over HTTP/1.1", 1500, plain(post_held, 100_000)),
        shape("POSTs held over HTTP/2", 20, streams(65_535, 200, post)),
        shape("PUTs kept to be sent again", 40, streams(65_535, 50, put)),
        shape("closed windows", 60, streams(0, 100, |stream| request(stream, "/bytes/50000", &[]))),
        shape("windows of a byte", 60, streams(1, 100, |stream| request(stream, "/bytes/50000", &[]))),
        shape("slow readers", 800, plain("GET /plain HTTP/1.1\r\nHost: example.com\r\n\r\n", 0)),
        shape("slow readers of compressed answers", 800, plain(coded, 0)),
        shape("repeated fields", 30, streams(0, 250, |stream| request(stream, "/silent", &repeats(stream == 1)))),
        shape("crumbs of cookies", 30, streams(0, 250, |stream| request(stream, "/silent", &crumbs(stream == 1)))),
        shape("half a head over HTTP/1.1", 3000, plain("GET / HTTP/1.1\r\nHost: example.com\r\nX: ", 60_000)),
        shape("half a head over HTTP/2", 2000, half_a_block()),
        shape("GETs that wait over HTTP/1.1", 4000, plain("GET /silent HTTP/1.1\r\nHost: example.com\r\n\r\n", 0)),
        shape("GETs that wait over HTTP/2", 24, streams(65_535, 250, |stream| request(stream, "/silent", &[]))),
        shape("tunnels over HTTP/1.1", 3000, plain(upgrade, 0)),
        shape("bodies of scripts held", 1500, plain(script, 250_000)),
        shape("held trailers", 30, streams(65_535, 250, trailers)),
        shape("WebSockets over HTTP/2", 24, streams(65_535, 250, tunnel)),
    ]
}

/// A server whose answers are text without an end, which no codec makes much smaller.
fn endless_text() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("an address");
    let mut state = 1_u32;
    let text = (0..64 << 10).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b'0' + (state >> 26) as u8
    });
    let text: Arc<[u8]> = text.collect();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let text = text.clone();
            let _ = thread::Builder::new().stack_size(64 << 10).spawn(move || answer_without_end(socket, &text));
        }
    });
    address
}

fn answer_without_end(mut socket: TcpStream, text: &[u8]) {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n";
    let mut asked = [0; 4096];
    if socket.read(&mut asked).is_ok() && socket.write_all(head).is_ok() {
        while socket.write_all(text).is_ok() {}
    }
}

/// A proxy that is attacked, with what stands behind it.
struct Target {
    proxy: Proxy,
    _slow: Server,
    /// The servers behind it end with it.
    is_over: Arc<AtomicBool>,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// A server that takes requests and says nothing.
fn silent(is_over: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("an address");
    listener.set_nonblocking(true).expect("a socket");
    thread::spawn(move || {
        let mut held = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((socket, _)) => held.push(socket),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    });
    address
}

impl Target {
    fn start(program: &str, driver: &str, memory: &str, threads: usize) -> Target {
        let upstream = Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free");
        let settings = Settings { h2c: true, delay: Duration::from_secs(3600), ..Settings::new("slow") };
        let slow = Server::start(settings).expect("a port is free");
        let is_over = Arc::new(AtomicBool::new(false));
        let config = CONFIG
            .replace("DRIVER", driver)
            .replace("THREADS", &threads.to_string())
            .replace("SLOW", &slow.address().to_string())
            .replace("MEMORY", memory)
            .replace("UPSTREAM", &upstream.address.to_string())
            .replace("TEXT", &endless_text().to_string())
            .replace("SILENT", &silent(is_over.clone()).to_string());
        Target { proxy: Proxy::start(program, &config).expect("the proxy starts"), _slow: slow, is_over }
    }

    /// Attacks, and gives back the most that was resident meanwhile, in bytes. Fails when another client is not served.
    fn attack(&mut self, shapes: &[&Shape]) -> u64 {
        let name = shapes.iter().map(|shape| shape.name).collect::<Vec<_>>().join(", ");
        let (address, process) = (self.proxy.address, self.proxy.program.id());
        let until = Instant::now() + ATTACK;
        let (peak, answers) = thread::scope(|scope| {
            let peak = scope.spawn(move || watch(process, until + HELD));
            let other = scope.spawn(move || ask(address, until + HELD));
            for shape in shapes {
                scope.spawn(move || open(address, shape, until));
            }
            (peak.join().expect("watched"), other.join().expect("asked"))
        });
        let served = answers.iter().filter(|answer| answer.as_str() == "200").count();
        println!("{name}: {:.1} MiB, {served} of {} served", peak as f64 / MEBIBYTE as f64, answers.len());
        assert!(self.proxy.program.poll_exit().is_none(), "{name}: the proxy is gone\n{}", self.proxy.program.output());
        assert!(served * 100 >= answers.len() * SERVED_PERCENT, "{name}: {answers:?}\n{}", self.proxy.program.output());
        peak
    }
}

/// Opens the connections of a shape, and holds them until some time after.
fn open(address: SocketAddr, shape: &Shape, until: Instant) {
    let held = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..shape.connections / 2 {
                    if Instant::now() >= until {
                        return;
                    }
                    let Ok(mut socket) = connect_narrow(address) else { continue };
                    socket.set_write_timeout(Some(Duration::from_millis(10))).expect("a socket");
                    // What it does not take, or closes upon, is its own business.
                    let _ = socket.write_all(&shape.says);
                    held.lock().expect("no panic").push(socket);
                }
            });
        }
    });
    thread::sleep((until + HELD).saturating_duration_since(Instant::now()));
}

/// A connection of a client with a small buffer: what it does not read waits in the proxy and not in the kernel.
fn connect_narrow(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_recv_buffer_size(4096)?;
    socket.connect_timeout(&address.into(), Duration::from_secs(1))?;
    Ok(socket.into())
}

/// Another client: a request on a connection of its own every few milliseconds. What became of each.
fn ask(address: SocketAddr, until: Instant) -> Vec<String> {
    let mut answers = Vec::new();
    while Instant::now() < until {
        answers.push(ask_once(address).unwrap_or_else(|error| error.to_string()));
        thread::sleep(Duration::from_millis(30));
    }
    answers
}

fn ask_once(address: SocketAddr) -> std::io::Result<String> {
    let mut socket = TcpStream::connect_timeout(&address, ANSWERED)?;
    socket.set_read_timeout(Some(ANSWERED))?;
    socket.write_all(b"GET /bytes/1000 HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(answer.get(9..12).unwrap_or_default()).into_owned())
}

/// The most that a process has had in RAM without a file behind it.
fn watch(process: u32, until: Instant) -> u64 {
    let mut most = 0;
    while Instant::now() < until {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
        most = most.max(line.trim().trim_end_matches(" kB").trim().parse().unwrap_or(0) * 1024);
        thread::sleep(Duration::from_millis(2));
    }
    most
}

/// With which driver and how many workers a budget is attacked. All of it for each driver takes minutes more, so that
/// is for the long soak: with `EVERY_DRIVER` set. Else each driver has one of the numbers of workers.
fn surroundings() -> Vec<(&'static str, usize)> {
    let drivers = driver::drivers(&program());
    if std::env::var_os("EVERY_DRIVER").is_some() || drivers.len() == 1 {
        return drivers.into_iter().flat_map(|driver| THREADS.map(|threads| (driver, threads))).collect();
    }
    drivers.into_iter().zip(THREADS).collect()
}

/// The program of these tests: another one, such as that of an earlier version, where `PROGRAM` names it.
fn program() -> String {
    std::env::var("PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_tidegate").to_owned())
}

#[test]
fn what_is_resident_stays_within_the_budget_whatever_clients_do() {
    const BUDGET_BYTES: u64 = 64 * MEBIBYTE;
    let _alone = crate::alone();
    let mut faults = Vec::new();
    let wanted = std::env::var("SHAPE").unwrap_or_default();
    let every = |(driver, threads)| shapes().into_iter().map(move |shape| (driver, threads, shape));
    for (driver, threads, shape) in
        surroundings().into_iter().flat_map(every).filter(|(_, _, shape)| shape.name.contains(&wanted))
    {
        let mut target = Target::start(&program(), driver, "64MiB", threads);
        let attacked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| target.attack(&[&shape])));
        let name = format!("{} with {driver} and {threads} threads", shape.name);
        match attacked {
            Ok(peak) if peak <= BUDGET_BYTES => {}
            Ok(peak) => faults.push(format!("{name}: {peak} bytes\n{}", target.proxy.program.output())),
            Err(_) => faults.push(format!("{name}: see above")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Uploads that come slowly are collected for their script in memory or in files, as there is room, and nobody is ended
/// or refused for them.
#[test]
fn uploads_for_scripts_go_on_and_leave_the_others_their_memory() {
    const UPLOADS: usize = 280;
    let _alone = crate::alone();
    for (driver, threads) in surroundings() {
        let target = Target::start(&program(), driver, "64MiB", threads);
        let begin = b"POST /script/a HTTP/1.1\r\nHost: example.com\r\nContent-Length: 300000\r\n\r\n";
        let mut uploads: Vec<TcpStream> = (0..UPLOADS).map(|_| super::connect(target.proxy.address)).collect();
        let mut statuses = Vec::new();
        let mut send_to_all = |bytes: &[u8]| {
            for upload in &mut uploads {
                // Who was ended is counted below.
                let _ = upload.write_all(bytes);
            }
            statuses.push(ask_once(target.proxy.address).unwrap_or_else(|error| error.to_string()));
        };
        send_to_all(begin);
        for _ in 0..25 {
            send_to_all(&[b'x'; 10_000]);
        }
        thread::sleep(HELD);
        send_to_all(b"x");
        let is_open = |upload: &mut TcpStream| {
            upload.set_nonblocking(true).expect("a socket");
            upload.read(&mut [0; 1]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        };
        let going_on = uploads.iter_mut().map(is_open).filter(|is_open| *is_open).count();
        println!("{driver}, {threads} threads: {going_on} of {UPLOADS} uploads go on, others got {statuses:?}");
        assert!(statuses.iter().all(|status| status == "200"), "{statuses:?}\n{}", target.proxy.program.output());
        assert!(going_on * 100 >= UPLOADS * 95, "{going_on}\n{}", target.proxy.program.output());
    }
}

/// A control group of its own, which ends with the guard.
struct Group {
    folder: PathBuf,
    /// The file that says the most that was used.
    most: &'static str,
}

impl Group {
    /// `None` where no group can be made here, for want of rights or of a memory controller.
    fn make(bytes: u64) -> Option<Group> {
        let name = format!("tidegate-test-{}-{}", std::process::id(), bytes / MEBIBYTE);
        for (root, bound, most) in [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
            ("/sys/fs/cgroup", "memory.max", "memory.peak"),
        ] {
            let folder = Path::new(root).join(&name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Group { folder, most };
            if fs::write(group.folder.join(bound), bytes.to_string()).is_ok() && group.folder.join("cgroup.procs").exists() {
                return Some(group);
            }
        }
        None
    }

    fn most_bytes(&self) -> u64 {
        fs::read_to_string(self.folder.join(self.most)).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// In a group the kernel ends who takes more, so what is watched is that it does not.
#[test]
fn in_a_small_control_group_it_is_never_killed() {
    let _alone = crate::alone();
    let shapes = shapes();
    let drivers = driver::drivers(&program());
    let named = |names: &[&str]| shapes.iter().filter(|shape| names.contains(&shape.name)).collect::<Vec<_>>();
    let groups = [
        (64, &["slow readers of compressed answers"][..]),
        (64, &["GETs that wait over HTTP/1.1", "half a head over HTTP/2"]),
        (128, &["slow readers", "closed windows"]),
        (128, &["slow readers of compressed answers", "POSTs held over HTTP/1.1"]),
        (256, &["POSTs held over HTTP/2", "slow readers of compressed answers", "WebSockets over HTTP/2"]),
    ];
    for ((mebibytes, names), driver) in groups.into_iter().zip(drivers.into_iter().cycle()) {
        let Some(group) = Group::make(mebibytes * MEBIBYTE) else {
            println!("skipped: no control group with a bound of memory can be made here");
            return;
        };
        let launcher = tempfile::NamedTempFile::new().expect("a file");
        let script = format!("#!/bin/sh\necho $$ > {}/cgroup.procs\nexec {} \"$@\"\n", group.folder.display(), program());
        fs::write(launcher.path(), script).expect("written");
        fs::set_permissions(launcher.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("may be run");
        // A file that is open for writing cannot be run.
        let launcher = launcher.into_temp_path();
        let mut target = Target::start(&launcher.display().to_string(), driver, "auto", 2);
        let peak = target.attack(&named(names));
        println!(
            "{driver}, {mebibytes} MiB: {:.1} resident, {:.1} in the group",
            peak as f64 / 1e6,
            group.most_bytes() as f64 / 1e6
        );
        assert!(peak <= mebibytes * MEBIBYTE, "{peak}");
        drop(target);
    }
}
