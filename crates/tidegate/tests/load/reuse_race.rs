//! The reuse race: an upstream that closes idle connections after 50 ms, and clients whose requests come about as far
//! apart. None of 100,000 requests may fail. Each client has a pool of its own, so that its own pause is its
//! connection's idle time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_testkit::tokio::task::{LocalSet, spawn_local};
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Client, Proxy, tokio};

const CLIENTS: u64 = 96;
const IDLE_CLOSE: Duration = Duration::from_millis(50);
/// Fewer by `REUSE_RACE_REQUESTS`, for a quick look.
const REQUESTS: u64 = 100_000;
/// A failure stops the run when there are this many: more of them say nothing new.
const FAILURES_SHOWN_MAX: usize = 20;

#[test]
fn no_request_fails_when_the_upstream_closes_idle_connections() {
    let _alone = crate::alone();
    let requests = std::env::var("REUSE_RACE_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(REQUESTS);
    let behaviour = Behaviour { idle_close: Some(IDLE_CLOSE), ..Behaviour::new(Answer::Text(b"ok".to_vec())) };
    let upstream = Upstream::start(behaviour).expect("a port is free");
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_tidegate"), &config(upstream.address.port())).expect("the proxy starts");
    let begin = Instant::now();
    let failures = run_clients(&proxy, requests);
    let metrics = proxy.metrics().expect("metrics");
    println!(
        "{requests} requests in {:.1} s: {} upstream connections, {} reused, {} sent again",
        begin.elapsed().as_secs_f32(),
        upstream.connections(),
        metrics.sum("tidegate_upstream_connections_total{kind=\"reused\"}"),
        metrics.sum("tidegate_upstream_retries_total"),
    );
    assert!(failures.is_empty(), "requests failed:\n{}\n{}", failures.join("\n"), proxy.program.output());
    assert!(
        upstream.connections() > CLIENTS * 2 && upstream.requests() >= requests,
        "the race was not provoked: {} connections for {} requests",
        upstream.connections(),
        upstream.requests()
    );
}

fn config(upstream_port: u16) -> String {
    let mut text = "admin \"127.0.0.1:{admin}\"\naccess-log \"off\"\nthreads 2\n".to_owned();
    for number in 0..CLIENTS {
        text.push_str(&format!("pool \"p{number}\" {{ server \"127.0.0.1:{upstream_port}\" }}\n"));
        text.push_str(&format!("site \"http://c{number}.test:{{port}}\" {{ proxy \"p{number}\" }}\n"));
    }
    text
}

fn run_clients(proxy: &Proxy, requests: u64) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let left = Rc::new(Cell::new(requests));
    let failures = Rc::new(std::cell::RefCell::new(Vec::new()));
    LocalSet::new().block_on(&runtime, async {
        let clients: Vec<_> =
            (0..CLIENTS).map(|number| spawn_local(run_client(number, proxy.address, left.clone(), failures.clone()))).collect();
        for client in clients {
            client.await.expect("no panic");
        }
    });
    failures.take()
}

async fn run_client(
    number: u64,
    address: std::net::SocketAddr,
    left: Rc<Cell<u64>>,
    failures: Rc<std::cell::RefCell<Vec<String>>>,
) {
    let mut random = Random(number * 7919 + 1);
    let host = format!("c{number}.test");
    let mut client = Client::connect(address).await.expect("the proxy listens");
    while left.get() > 0 && failures.borrow().len() < FAILURES_SHOWN_MAX {
        left.set(left.get() - 1);
        match client.get(&host, "/").await {
            Ok(answer) if answer.status == 200 && answer.body == b"ok" => {}
            Ok(answer) => {
                let body = String::from_utf8_lossy(&answer.body);
                failures.borrow_mut().push(format!("{host}: {}{body:?}", answer.head.text()));
            }
            Err(error) => {
                failures.borrow_mut().push(format!("{host}: {error}"));
                client = Client::connect(address).await.expect("the proxy listens");
            }
        }
        tokio::time::sleep(pause(&mut random)).await;
    }
}

/// Mostly within a few milliseconds of the upstream's limit, where the race is; now and then well beside it.
fn pause(random: &mut Random) -> Duration {
    match random.below(10) {
        0 => Duration::from_millis(random.below(40)),
        1 => Duration::from_millis(55 + random.below(20)),
        _ => Duration::from_micros(46_000 + random.below(7_000)),
    }
}

/// xorshift; a test needs no more.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }
}
