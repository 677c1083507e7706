//! A process that replaces itself (SIGUSR2), under load, with a binary or a configuration that does not work, and as
//! the first of a container. Processes that only share a port are in `instances.rs`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tidegate_testkit::case::Places;
use tidegate_testkit::driver::{self, EPOLL, RING};
use tidegate_testkit::load::{Goal, Kind, Load, Order};
use tidegate_testkit::program::signal_process;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Metrics, Proxy, Surroundings, get};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const HOST: &str = "example.com";
const TAKEN_OVER: &str = "a successor has taken over";
const FAILED: [&str; 2] = ["the upgrade failed; this process goes on", "\"message\":\"upgrade\""];
/// A process that was replaced ends by then: idle connections get a second and a bit.
const LEAVE_BOUND: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

struct Upstreams {
    quick: Upstream,
    slow: Upstream,
}

impl Upstreams {
    fn start() -> Upstreams {
        let slow = Behaviour { delay: Some(Duration::from_millis(300)), ..Behaviour::new(Answer::Text(b"slow".to_vec())) };
        let quick = Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free");
        Upstreams { quick, slow: Upstream::start(slow).expect("a port is free") }
    }

    fn config(&self, version: &str) -> String {
        let Upstreams { quick, slow } = self;
        let routes = format!(
            "route \"/version\" {{ respond 200 body=\"{version}\" }}; route \"/slow\" {{ proxy \"{}\" }}; proxy \"{}\"",
            slow.address, quick.address
        );
        format!(
            "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 2\ndrain \"20s\"\n\
             site \"http://:{{port}}\" {{ {routes} }}\nsite \"https://:{{port:tls}}\" {{ tls cert=\"{{cert}}\" key=\"{{key}}\"; {routes} }}\n"
        )
    }
}

/// A proxy that was started through a link, as a package manager leaves one behind that replaces binaries.
pub struct Linked {
    pub proxy: Proxy,
    link: PathBuf,
    /// The process that serves now.
    pub current: u32,
    upgrades: usize,
}

impl Linked {
    pub fn start(config: &str) -> Linked {
        let places = Places::new().expect("a folder");
        let link = places.folder().join("tidegate");
        symlink(PROGRAM, &link).expect("a link");
        let surroundings = Surroundings { has_descendants: true, ..Surroundings::default() };
        let binary = link.display().to_string();
        let proxy = Proxy::start_in(places, &binary, config, &[], &surroundings).expect("the proxy starts");
        let current = proxy.program.id();
        Linked { proxy, link, current, upgrades: 0 }
    }

    /// What an upgrade starts from now on.
    fn replace_binary(&self, with: &str) {
        std::fs::remove_file(&self.link).expect("it is there");
        if with == PROGRAM {
            symlink(PROGRAM, &self.link).expect("a link");
        } else {
            std::fs::write(&self.link, with).expect("written");
            std::fs::set_permissions(&self.link, std::fs::Permissions::from_mode(0o755)).expect("executable");
        }
    }

    fn ask_for_upgrade(&self) {
        signal_process(self.current, "USR2").expect("it runs");
    }

    /// SIGUSR2, and the successor serves.
    pub fn upgrade(&mut self) {
        self.ask_for_upgrade();
        self.upgrades += 1;
        let successors = wait_for_successors(&mut self.proxy, self.upgrades);
        self.current = successors[self.upgrades - 1];
    }

    fn metrics(&self) -> Metrics {
        self.proxy.metrics().expect("the endpoint answers")
    }
}

/// Process IDs, the oldest first, once there are so many.
fn wait_for_successors(proxy: &mut Proxy, count: usize) -> Vec<u32> {
    let begin = Instant::now();
    loop {
        let log = proxy.program.stderr();
        let of_line = |line: &str| {
            let digits = line.split_once("\"pid\":")?.1;
            digits[..digits.find(|character: char| !character.is_ascii_digit())?].parse().ok()
        };
        let successors: Vec<u32> = log.lines().filter(|line| line.contains(TAKEN_OVER)).filter_map(of_line).collect();
        if successors.len() >= count {
            return successors;
        }
        assert!(begin.elapsed() < LEAVE_BOUND, "nobody took over\n{}", proxy.program.output());
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// A process that nobody has taken leave of counts as ended.
pub fn wait_for_end(pid: u32) {
    let begin = Instant::now();
    while let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        let state = stat.rsplit(") ").next().unwrap_or_default().chars().next();
        if matches!(state, Some('Z' | 'X') | None) {
            return;
        }
        assert!(begin.elapsed() < LEAVE_BOUND, "process {pid} has not ended");
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[test]
fn upgrades_are_not_noticed() {
    let _beside = crate::beside_others();
    upgrade_under_load([None; 4]);
}

/// From epoll to a ring, from a ring to itself, and back: what waits in the sockets of one driver is served by the
/// other.
#[test]
fn upgrades_to_another_driver_are_not_noticed() {
    let _beside = crate::beside_others();
    if driver::drivers(PROGRAM).contains(&RING) {
        upgrade_under_load([EPOLL, RING, RING, EPOLL].map(Some));
    }
}

/// The first process and its three successors have these drivers, or what is usual.
fn upgrade_under_load(drivers: [Option<&str>; 4]) {
    let upstreams = Upstreams::start();
    let config = |driver: Option<&str>| match driver {
        Some(driver) => driver::on(driver, &upstreams.config("same")),
        None => upstreams.config("same"),
    };
    let [first, successors @ ..] = drivers;
    let mut linked = Linked::start(&config(first));
    let goal = Goal::of(&mut linked.proxy, HOST).expect("a goal");
    let orders = [
        Order::Text { path: "/version".to_owned(), body: "same".to_owned() },
        Order::Pattern(20_000),
        Order::Text { path: "/slow".to_owned(), body: "slow".to_owned() },
        Order::Pattern(10),
    ];
    let clients = [(Kind::KeepAlive, 12), (Kind::KeepAliveTls, 8), (Kind::Http2, 8), (Kind::Fresh, 10), (Kind::FreshTls, 2)];
    let load = Load::start(&goal, &clients, &orders).expect("clients");
    load.go_on_for(200).expect("answers");
    for (round, driver) in (1..).zip(successors) {
        let before = linked.current;
        linked.proxy.write(&config(driver)).expect("written");
        linked.upgrade();
        load.go_on_for(200).expect("answers");
        if before == linked.proxy.program.id() {
            assert_eq!(linked.proxy.program.wait_exit(LEAVE_BOUND).expect("it ends"), 0);
        } else {
            wait_for_end(before);
        }
        assert_eq!(linked.metrics().sum("tidegate_configuration_generation").to_string(), (round + 1).to_string());
        let ready = format!("\"driver\":\"{}\"", driver.unwrap_or(EPOLL));
        let log = linked.proxy.program.stderr();
        let last = log.lines().rev().find(|line| line.contains("\"message\":\"ready\"")).unwrap_or_default();
        assert!(last.contains(&ready), "{ready}: {last}");
    }
    let tally = load.finish();
    println!("{tally}");
    assert!(tally.is_clean(), "{tally}\n{}", linked.proxy.program.output());
    signal_process(linked.current, "TERM").expect("it runs");
    wait_for_end(linked.current);
}

/// The running process goes on, says why, and can be replaced later.
fn check_failed_upgrade(linked: &mut Linked, why: &str) {
    let failures = |linked: &Linked| {
        linked.proxy.program.stderr().lines().filter(|line| FAILED.iter().any(|text| line.contains(text))).count()
    };
    let before = failures(linked);
    linked.ask_for_upgrade();
    let begin = Instant::now();
    while failures(linked) == before {
        assert!(begin.elapsed() < LEAVE_BOUND, "the upgrade did not fail\n{}", linked.proxy.program.output());
        std::thread::sleep(POLL_INTERVAL);
    }
    // What the new process said itself may come a moment later.
    linked.proxy.wait_for_log(why).unwrap_or_else(|error| panic!("{error}"));
    let (status, _) = get(&linked.proxy.admin, "/readyz").expect("the endpoint answers");
    assert_eq!(status, 200);
    let (_, body) = get(&linked.proxy.address.to_string(), "/version").expect("requests are answered");
    assert_eq!(body, "one");
}

#[test]
fn the_command_says_what_an_upgrade_leaves_behind() {
    let _beside = crate::beside_others();
    let upstreams = Upstreams::start();
    let mut linked = Linked::start(&upstreams.config("one"));
    let address = linked.proxy.admin.clone();
    let token = linked.proxy.places.folder().join("state/admin-token");
    linked.proxy.program.wait_until("with a token", || token.exists()).expect("a token is made");
    let upgrade = || {
        let asking = Command::new(PROGRAM).args(["upgrade", "--admin", &address, "--token-file"]).arg(&token).output();
        let output = asking.expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    assert_eq!(upgrade(), "");
    linked.proxy.write(&upstreams.config("two")).expect("written");
    assert!(upgrade().contains("has another text than generation 2"));
    linked.current = wait_for_successors(&mut linked.proxy, 2)[1];
    let (_, body) = get(&linked.proxy.address.to_string(), "/version").expect("requests are answered");
    assert_eq!(body, "two");
    signal_process(linked.current, "TERM").expect("it runs");
    wait_for_end(linked.current);
}

#[test]
fn an_upgrade_that_fails_changes_nothing() {
    let _beside = crate::beside_others();
    let upstreams = Upstreams::start();
    let mut linked = Linked::start(&upstreams.config("one"));
    let first = linked.current;

    linked.replace_binary("#!/bin/sh\nexit 7\n");
    check_failed_upgrade(&mut linked, "exit status: 7");
    linked.replace_binary("#!/bin/sh\nkill -SEGV $$\n");
    check_failed_upgrade(&mut linked, "signal: 11");
    std::fs::remove_file(&linked.link).expect("it is there");
    check_failed_upgrade(&mut linked, "cannot be started");
    symlink(PROGRAM, &linked.link).expect("a link");
    linked.proxy.write("admin \"127.0.0.1:{admin}\"\nsite \"http://:{port}\" { frobnicate }\n").expect("written");
    check_failed_upgrade(&mut linked, "its configuration has errors");
    linked.proxy.write("admin \"127.0.0.1:{admin}\"\n").expect("written");
    check_failed_upgrade(&mut linked, "an empty file is more likely a save that is not finished");
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let taken =
        format!("{}\nsite \"http://{}\" {{ respond 204 }}\n", upstreams.config("two"), other.local_addr().expect("bound"));
    linked.proxy.write(&taken).expect("written");
    check_failed_upgrade(&mut linked, "it is already taken");
    assert_eq!(linked.proxy.program.poll_exit(), None, "{}", linked.proxy.program.output());

    linked.proxy.write(&upstreams.config("two")).expect("written");
    linked.upgrade();
    assert_ne!(linked.current, first);
    let (_, body) = get(&linked.proxy.address.to_string(), "/version").expect("requests are answered");
    assert_eq!(body, "two");
    assert_eq!(linked.proxy.program.wait_exit(LEAVE_BOUND).expect("the old process ends"), 0);
}

fn children(of: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// The process that `unshare` has started.
fn only_child(of: u32) -> u32 {
    let children = children(of);
    assert_eq!(children.len(), 1, "one child");
    children[0]
}

/// A proxy that is process 1 of a PID namespace, and its number outside; `None` where that may not be made.
fn start_in_container(config: &str) -> Option<(Proxy, u32)> {
    const UNSHARE: [&str; 4] = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    let may = Command::new("unshare").args(UNSHARE).arg("true").stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        println!("skipped: this user may not make a PID namespace");
        return None;
    }
    let places = Places::new().expect("a folder");
    let script = places.folder().join("container");
    std::fs::write(&script, format!("#!/bin/sh\nexec unshare {} {PROGRAM} \"$@\"\n", UNSHARE.join(" "))).expect("written");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let surroundings = Surroundings { has_descendants: true, ..Surroundings::default() };
    let proxy = Proxy::start_in(places, &script.display().to_string(), config, &[], &surroundings).expect("it starts");
    let first = only_child(proxy.program.id());
    Some((proxy, first))
}

/// What is told to process 1 is told to whoever serves, also while others before it still drain.
#[test]
fn signals_reach_the_successor_while_the_first_process_drains() {
    let _beside = crate::beside_others();
    let upstreams = Upstreams::start();
    let Some((mut proxy, first)) = start_in_container(&upstreams.config("one")) else { return };
    // Of each of the first two processes a connection stays open, so that both go on draining.
    let mut tunnels = Vec::new();
    for round in 1..=2 {
        tunnels.push(open_tunnel(proxy.address));
        signal_process(first, "USR2").expect("it runs");
        wait_for_successors(&mut proxy, round);
    }
    proxy.write(&upstreams.config("two")).expect("written");
    signal_process(first, "HUP").expect("it runs");
    let applied = "tidegate_configuration_changes_total{result=\"applied\"}";
    proxy.wait_for_metric(applied, 1.0).unwrap_or_else(|error| panic!("{error}\n{}", proxy.program.output()));
    for tunnel in &mut tunnels {
        tunnel.write_all(b"ping").expect("the tunnel goes on");
        let mut back = [0; 4];
        tunnel.read_exact(&mut back).expect("the tunnel goes on");
    }
    signal_process(first, "TERM").expect("it runs");
    let begin = Instant::now();
    while get(&proxy.admin, "/readyz").is_ok_and(|(status, _)| status == 200) {
        assert!(begin.elapsed() < LEAVE_BOUND, "the end of the container was not heard of\n{}", proxy.program.output());
        std::thread::sleep(POLL_INTERVAL);
    }
    drop(tunnels);
    assert_eq!(proxy.program.wait_exit(LEAVE_BOUND).expect("the container ends"), 0, "{}", proxy.program.output());
}

fn open_tunnel(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LEAVE_BOUND)).expect("a bound");
    let request = format!("GET /upgrade HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    stream
}

/// When process 1 ends, so does the container.
#[test]
fn the_first_process_of_a_container_stays() {
    let _beside = crate::beside_others();
    let upstreams = Upstreams::start();
    let Some((mut proxy, first)) = start_in_container(&upstreams.config("one")) else { return };
    for round in 1..=2 {
        signal_process(first, "USR2").expect("it runs");
        wait_for_successors(&mut proxy, round);
        // It stays when it has nothing left to do, and hands on what it is told.
        let stopped = "\"message\":\"stopped\"";
        let begin = Instant::now();
        while proxy.program.stderr().matches(stopped).count() < round {
            assert!(begin.elapsed() < LEAVE_BOUND, "the process before has not drained\n{}", proxy.program.output());
            std::thread::sleep(POLL_INTERVAL);
        }
        assert_eq!(only_child(proxy.program.id()), first);
        // Until it has noticed that its child has ended, it hands signals to that one; two looks, because two lists are
        // not read at once.
        let is_alone = || children(first).len() == 1 && children(children(first)[0]).is_empty();
        while !(is_alone() && is_alone()) {
            assert!(begin.elapsed() < LEAVE_BOUND, "the process before has not ended\n{}", proxy.program.output());
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    proxy.write(&upstreams.config("two")).expect("written");
    signal_process(first, "HUP").expect("it runs");
    let applied = "tidegate_configuration_changes_total{result=\"applied\"}";
    proxy.wait_for_metric(applied, 1.0).unwrap_or_else(|error| panic!("{error}\n{}", proxy.program.output()));
    let (_, body) = get(&proxy.address.to_string(), "/version").expect("requests are answered");
    assert_eq!(body, "two");
    signal_process(first, "TERM").expect("it runs");
    let code = proxy.program.wait_exit(LEAVE_BOUND).unwrap_or_else(|error| panic!("{error}\n{}", proxy.program.output()));
    assert_eq!(code, 0, "{}", proxy.program.output());
}
