//! Servers that take no more than they may: who waits is served in turn, and a server that gets slow under load is
//! asked for less.

use crate::pools::asked::{Asked, BOUND, HOST, block_on, config};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_testkit::server::{Server, Settings};
use tidegate_testkit::tokio::task::spawn_local;
use tidegate_testkit::{Client, tokio};

const CLIENTS: usize = 16;
/// Of all clients together.
const ANSWERS: usize = CLIENTS * 40;

/// Asks over and over until all together have so many answers; says how many it got.
async fn run_client(address: SocketAddr, left: Rc<Cell<usize>>) -> Result<usize, String> {
    let mut client = Client::connect(address).await?;
    let mut answers = 0;
    while left.get() > 0 {
        let answer = client.get(HOST, "/").await?;
        if answer.status != 200 {
            return Err(format!("status {}: {}", answer.status, String::from_utf8_lossy(&answer.body)));
        }
        left.set(left.get().saturating_sub(1));
        answers += 1;
    }
    Ok(answers)
}

async fn run_clients(address: SocketAddr, clients: usize, answers: usize) -> Result<Vec<usize>, String> {
    let left = Rc::new(Cell::new(answers));
    let tasks: Vec<_> = (0..clients).map(|_| spawn_local(run_client(address, left.clone()))).collect();
    let mut shares = Vec::new();
    for task in tasks {
        shares.push(task.await.map_err(|error| error.to_string())??);
    }
    Ok(shares)
}

fn check_fairness(settings: &str) {
    let server = Server::start(Settings { delay: Duration::from_millis(2), ..Settings::new("narrow") }).expect("it starts");
    let asked = Asked::start(&config(&[&server], settings, ""));
    let shares = block_on(async { tokio::time::timeout(4 * BOUND, run_clients(asked.proxy.address, CLIENTS, ANSWERS)).await });
    let shares = shares.expect("in time").unwrap_or_else(|error| panic!("{settings}: {error}\n{}", asked.proxy.program.output()));
    println!("{settings}: {shares:?}");
    let mean = shares.iter().sum::<usize>() / CLIENTS;
    assert!(shares.iter().all(|share| (mean / 2..=mean * 2).contains(share)), "{settings}: {shares:?}");
    let seen = server.seen().expect("it knows");
    assert_eq!(seen.requests_at_once, 1, "{settings}: {seen:?}");
    asked.wait_for_metric("tidegate_upstream_queued", 0.0);
    assert_eq!(asked.metric("tidegate_upstream_queue_refused_total").to_string(), "0");
}

#[test]
fn one_connection_is_shared_fairly_by_many_clients() {
    check_fairness("max-connections 1 queue-timeout=\"120s\"");
}

#[test]
fn one_request_at_a_time_is_shared_fairly_by_many_clients() {
    check_fairness("max-requests 1 queue-timeout=\"120s\"");
}

/// A server with four places that takes 20 ms for a request: with a few clients it is quick, with many they queue up in
/// it, unless they wait in the proxy.
#[test]
fn a_server_that_gets_slow_under_load_is_asked_for_less() {
    const MANY: usize = 64;
    // What a worker begins with is 20, so both together let 40 through at first.
    const FEW: u64 = 24;
    let settings = Settings { delay: Duration::from_millis(20), at_once: 4, ..Settings::new("four") };
    let server = Server::start(settings).expect("it starts");
    let pool = "adaptive-concurrency min=2 max=200; max-requests 1000 queue=1000 queue-timeout=\"120s\"";
    let asked = Asked::start(&config(&[&server], pool, ""));
    let address = asked.proxy.address;
    let quick = block_on(async { tokio::time::timeout(BOUND, run_clients(address, 3, 300)).await });
    quick.expect("in time").expect("answers");
    let _ = server.seen().expect("it knows");
    let begin = Instant::now();
    let mut at_once = Vec::new();
    loop {
        let round = block_on(async { tokio::time::timeout(BOUND, run_clients(address, MANY, 300)).await });
        round.expect("in time").unwrap_or_else(|error| panic!("{error}\n{}", asked.proxy.program.output()));
        at_once.push(server.seen().expect("it knows").requests_at_once);
        if at_once.last().is_some_and(|at_once| *at_once <= FEW) {
            break;
        }
        assert!(begin.elapsed() < BOUND, "the bound is not learnt: {at_once:?}");
    }
    println!("requests at once, round by round: {at_once:?}");
    assert!(at_once[0] > FEW, "it was never asked for more: {at_once:?}");
    assert_eq!(asked.metric("tidegate_upstream_queue_refused_total").to_string(), "0");
}
