//! Several processes on one port, of which some come and go under load: nobody is refused or reset, and the sockets of
//! those that leave are accepted from by those that stay. A process that replaces itself is in `upgrade.rs`.

use std::path::Path;
use std::time::Duration;
use tidegate_testkit::load::{Goal, Kind, Load, Order};
use tidegate_testkit::ports::listening_sockets;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Program, Proxy, get};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const HOST: &str = "example.com";
const STANDING: usize = 5;
const COMING: usize = 2;
const ROUNDS: usize = 3;
/// A process that leaves ends by then: idle connections get a second and a bit.
const LEAVE_BOUND: Duration = Duration::from_secs(30);

fn config(admin: &str, threads: usize, upstream: &Upstream) -> String {
    format!(
        r#"
admin "127.0.0.1:{{admin{admin}}}"
access-log "off"
threads {threads}
drain "20s"
site "http://:{{port}}" {{ route "/version" {{ respond 200 body="same" }}; proxy "{upstream}" }}
site "https://:{{port:tls}}" {{ tls cert="{{cert}}" key="{{key}}"; route "/version" {{ respond 200 body="same" }}; proxy "{upstream}" }}
"#,
        upstream = upstream.address
    )
}

/// Processes that share the ports of one of them.
struct Fleet {
    first: Proxy,
    others: Vec<Program>,
    started: usize,
    threads: usize,
    upstream: Upstream,
}

impl Fleet {
    fn new(size: usize, threads: usize) -> Fleet {
        let upstream = Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free");
        let first = Proxy::start(PROGRAM, &config("", threads, &upstream)).expect("the first starts");
        let mut fleet = Fleet { first, others: Vec::new(), started: 0, threads, upstream };
        (1..size).for_each(|_| fleet.start_one());
        fleet
    }

    fn start_one(&mut self) {
        self.started += 1;
        let places = &mut self.first.places;
        let admin = places.fill(&format!("127.0.0.1:{{admin:{}}}", self.started)).expect("a port is free");
        let text = places.fill(&config(&format!(":{}", self.started), self.threads, &self.upstream)).expect("known places");
        let file = places.folder().join(format!("tidegate-{}.kdl", self.started));
        std::fs::write(&file, text).expect("written");
        places.release_proxy_ports();
        let started = Program::start_proxy_with(Path::new(PROGRAM), &file, &admin, &["--share-port"]);
        self.others.push(started.expect("one more starts"));
    }

    /// The oldest of the others goes.
    fn stop_one(&mut self) -> Program {
        let program = self.others.remove(0);
        program.signal("TERM").expect("it runs");
        program
    }

    fn sockets(&self) -> usize {
        listening_sockets(self.first.address.port()).expect("a /proc/net/tcp")
    }

    fn output(&self) -> String {
        self.others.iter().map(Program::output).collect::<Vec<_>>().join("\n") + &self.first.program.output()
    }
}

#[test]
fn processes_come_and_go_unnoticed() {
    let _beside = crate::beside_others();
    let mut fleet = Fleet::new(STANDING, 1);
    let goal = Goal::of(&mut fleet.first, HOST).expect("a goal");
    let same = Order::Text { path: "/version".to_owned(), body: "same".to_owned() };
    let clients = [(Kind::KeepAlive, 20), (Kind::KeepAliveTls, 12), (Kind::Http2, 8), (Kind::Fresh, 10), (Kind::FreshTls, 2)];
    let load = Load::start(&goal, &clients, &[same, Order::Pattern(2_000)]).expect("clients");
    load.go_on_for(200).expect("answers");
    for _ in 0..ROUNDS {
        (0..COMING).for_each(|_| fleet.start_one());
        load.go_on_for(200).expect("answers");
        let leaving: Vec<Program> = (0..COMING).map(|_| fleet.stop_one()).collect();
        load.go_on_for(200).expect("answers");
        for mut program in leaving {
            let code = program.wait_exit(LEAVE_BOUND).unwrap_or_else(|error| panic!("{error}\n{}", program.output()));
            assert_eq!(code, 0, "{}", program.output());
        }
    }
    let tally = load.finish();
    println!("{tally}");
    assert!(tally.is_clean(), "{tally}\n{}", fleet.output());
}

#[test]
fn sockets_of_those_that_leave_are_accepted_from_and_do_not_pile_up() {
    let _beside = crate::beside_others();
    let mut fleet = Fleet::new(3, 2);
    let goal = Goal::of(&mut fleet.first, HOST).expect("a goal");
    let at_first = fleet.sockets();
    assert_eq!(at_first, 6, "one per worker");
    let same = Order::Text { path: "/version".to_owned(), body: "same".to_owned() };
    let load = Load::start(&goal, &[(Kind::Fresh, 4)], &[same]).expect("clients");
    let mut counts = Vec::new();
    for _ in 0..10 {
        let mut leaving = fleet.stop_one();
        leaving.wait_exit(LEAVE_BOUND).unwrap_or_else(|error| panic!("{error}\n{}", leaving.output()));
        // Each has an owner now: a queue that nobody accepts from would stall some of these.
        let left = fleet.sockets();
        load.go_on_for(60).expect("answers");
        fleet.start_one();
        counts.push((left, fleet.sockets()));
    }
    let tally = load.finish();
    println!("{tally}\nsockets after each end and each start: {counts:?}");
    assert!(tally.is_clean(), "{tally}\n{}", fleet.output());
    assert!(counts.iter().all(|(left, _)| *left >= at_first), "a socket was closed: {counts:?}");
    assert!(counts.iter().all(|(_, all)| *all <= 2 * at_first), "sockets pile up: {counts:?}");
}

/// A process that is stopped answers nobody; those that leave and start must not wait for it for ever.
#[test]
fn a_process_that_hangs_holds_nobody_up() {
    // A process that hangs holds up every other one of the same user for a moment, and those of other tests are no
    // exception.
    let _alone = crate::alone();
    let mut fleet = Fleet::new(3, 1);
    let stopped = fleet.others.pop().expect("there are two");
    stopped.signal("STOP").expect("it runs");
    let mut leaving = fleet.stop_one();
    let code = leaving.wait_exit(LEAVE_BOUND).unwrap_or_else(|error| panic!("{error}\n{}", leaving.output()));
    assert_eq!(code, 0);
    fleet.start_one();
    let (status, _) = get(&fleet.first.admin, "/readyz").expect("the first goes on");
    assert_eq!(status, 200);
    stopped.signal("CONT").expect("it is there");
}
