//! The memory budget: near it those who hold most are refused or ended, and others are served.

use crate::pools::asked::{Asked, BOUND, HOST, config};
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tidegate_testkit::bytes::Bytes;
use tidegate_testkit::server::{Server, Settings};
use tidegate_testkit::tokio::net::TcpStream;
use tidegate_testkit::tokio::task::{LocalSet, spawn_local};
use tidegate_testkit::tokio::time::sleep;
use tidegate_testkit::{h2, http, http2, pattern};

/// Requests on one connection.
const STREAMS: usize = 50;
/// The proxy keeps a body of this size for as long as the request may have to be sent again.
const BODY_BYTES: usize = 64 << 10;
/// So many connections that their bodies together are twice the budget.
const CONNECTIONS: usize = 2 * (64 << 20) / (STREAMS * BODY_BYTES);
/// Below so much of the 64 MiB requests are taken in any case.
const TAKEN_AGAIN_BYTES: f64 = 0.85 * BUDGET_BYTES;
/// At any moment, and not only when all is settled.
const BUDGET_BYTES: f64 = 67_108_864.0;
/// How long those who hold it are watched at the least.
const WATCHED: Duration = Duration::from_secs(2);
const SHEDDING: &str = "tidegate_memory_shedding";
const STREAMS_REFUSED: &str = "tidegate_http2_streams_refused_total";
const CONNECTIONS_ENDED: &str = "tidegate_client_connections_ended_for_memory_total";
const USED: &str = "tidegate_memory_used_bytes";

/// Requests on a connection of their own, whose answers take longer than the test.
async fn hold(address: SocketAddr) -> Result<(), String> {
    let text = |error: h2::Error| error.to_string();
    let socket = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (sender, connection) = h2::client::handshake(socket).await.map_err(text)?;
    spawn_local(async move { drop(connection.await) });
    for _ in 0..STREAMS {
        let mut sender = sender.clone().ready().await.map_err(text)?;
        let request = http::Request::put(format!("http://{HOST}/")).body(()).map_err(|error| error.to_string())?;
        spawn_local(async move {
            let Ok((response, mut stream)) = sender.send_request(request, false) else { return };
            let _ = http2::send_all(&mut stream, Bytes::from(pattern::pattern(0, BODY_BYTES)), true).await;
            drop(response.await);
        });
    }
    Ok(())
}

/// The most that a process has in RAM without a file behind it, in bytes, until it is over.
fn watch(process: u32, is_over: &AtomicBool) -> f64 {
    let mut most: f64 = 0.0;
    while !is_over.load(Ordering::Relaxed) {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
        most = most.max(line.trim().trim_end_matches(" kB").parse().unwrap_or(0.0) * 1024.0);
        thread::sleep(Duration::from_millis(1));
    }
    most
}

#[test]
fn near_its_budget_others_are_served_and_all_are_when_those_who_held_it_leave() {
    for threads in [1, 2, 4] {
        check(threads);
    }
}

fn check(threads: usize) {
    let settings = Settings { h2c: true, delay: Duration::from_secs(3600), ..Settings::new("slow") };
    let (slow, quick) = (Server::start(settings).expect("it starts"), Server::start(Settings::new("quick")).expect("it starts"));
    let pool = config(&[&slow], "protocol \"h2c\"", "memory \"64MiB\"").replace("threads 2", &format!("threads {threads}"));
    let site = format!("route {{ match method=\"GET\"; proxy \"{}\" }}\nproxy \"app\"", quick.address());
    let asked = Asked::start(&pool.replace("proxy \"app\"", &site));
    asked.expect_text("quick");
    assert_eq!(asked.metric(SHEDDING).to_string(), "0", "a proxy without work is within its budget");
    let begin = tidegate_testkit::tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (runtime, clients) = (begin.expect("a runtime"), LocalSet::new());
    let is_over = Arc::new(AtomicBool::new(false));
    let watcher = thread::spawn({
        let (process, is_over) = (asked.proxy.program.id(), is_over.clone());
        move || watch(process, &is_over)
    });
    // All at once, so that more is asked for than the budget before anybody looks.
    clients.block_on(&runtime, async {
        for _ in 0..CONNECTIONS {
            hold(asked.proxy.address).await.expect("a connection");
        }
        // Memory is taken from those who hold most.
        let begin = Instant::now();
        let is_settled = || asked.metric(USED) <= TAKEN_AGAIN_BYTES && asked.metric(SHEDDING) == 0.0;
        while begin.elapsed() < WATCHED || !is_settled() {
            let used = asked.metric(USED);
            assert!(begin.elapsed() < BOUND, "{used} bytes are used\n{}", asked.proxy.program.output());
            sleep(Duration::from_millis(20)).await;
        }
    });
    let refused = asked.metric(STREAMS_REFUSED) + asked.metric(CONNECTIONS_ENDED);
    assert!(refused > 0.0, "those who ask for more than there is do not get it");
    asked.expect_text("quick");
    is_over.store(true, Ordering::Relaxed);
    let most = watcher.join().expect("watched");
    println!("{threads} threads: {:.1} MiB at the most", most / f64::from(1 << 20));
    assert!(most <= BUDGET_BYTES, "{threads} threads: {most} bytes were used for a moment");
    // All of them leave.
    drop((clients, runtime));
    asked.wait_for_metric(SHEDDING, 0.0);
    asked.expect_text("quick");
}
