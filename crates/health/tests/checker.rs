//! One server's checks over time: what is reported when it goes down and comes back, and that nothing is left when the
//! checks are dropped.

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidegate_health::{CheckState, Checker, Report, Standing, Transition};
use tidegate_model::{Health, Probe, Talk};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use world::{LONG, closed_port, http, listen, soon, target};

fn settings(probe: Probe) -> Health {
    let interval = Duration::from_millis(20);
    Health { probe, interval, interval_down: interval, timeout: LONG, rise: 2, fall: 3, port: None }
}

/// Reports, from checks that go on until the receiver is dropped.
fn run(checker: Checker) -> (mpsc::UnboundedReceiver<Report>, tokio::task::JoinHandle<()>) {
    let (sender, reports) = mpsc::unbounded_channel();
    let mut random = 0_u64;
    let draw = move || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        random
    };
    let task = tokio::spawn(async move {
        checker.run(draw, move |report| drop(sender.send(report))).await;
    });
    (reports, task)
}

/// The next transition, and the reports without one before it.
async fn next_transition(reports: &mut mpsc::UnboundedReceiver<Report>) -> (Transition, usize) {
    let mut quiet = 0;
    loop {
        match soon(reports.recv()).await.expect("a report").transition {
            Some(transition) => return (transition, quiet),
            None => quiet += 1,
        }
    }
}

#[tokio::test]
async fn a_server_goes_down_and_comes_back() {
    let (listener, address) = listen().await;
    let is_well = Arc::new(AtomicBool::new(true));
    let flag = is_well.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let status = if flag.load(Ordering::Relaxed) { 200 } else { 500 };
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let checker = Checker::new(target(address), settings(Probe::Http(http())), CheckState::default(), 1);
    let (mut reports, _task) = run(checker);
    let first = soon(reports.recv()).await.expect("a report");
    assert_eq!(first.transition, Some(Transition::Up { is_first: true }));
    assert!(first.seen.next_check > first.seen.checked_at && first.seen.last_took.is_some());
    is_well.store(false, Ordering::Relaxed);
    let (transition, quiet) = next_transition(&mut reports).await;
    assert_eq!(transition, Transition::Down { is_first: false, why: "answered 500, expected 200-399".into() });
    assert!(quiet >= 2, "it took {quiet} bad checks before the last");
    is_well.store(true, Ordering::Relaxed);
    let (transition, quiet) = next_transition(&mut reports).await;
    assert_eq!(transition, Transition::Up { is_first: false });
    assert!(quiet >= 1, "it took {quiet} good checks before the last");
}

#[tokio::test]
async fn a_dead_server_is_down_at_once_and_checks_resume_where_they_ended() {
    let address = closed_port();
    let (mut reports, task) =
        run(Checker::new(target(address), settings(Probe::Tcp(Talk::default())), CheckState::default(), 1000));
    let first = soon(reports.recv()).await.expect("a report");
    assert_eq!(first.transition, Some(Transition::Down { is_first: true, why: "connection refused".into() }));
    task.abort();
    let (_listener, open) = listen().await;
    let mut rules = settings(Probe::Tcp(Talk::default()));
    rules.port = Some(open.port());
    let (mut reports, _task) = run(Checker::new(target(address), rules, CheckState::resume(first.seen), 1));
    let second = soon(reports.recv()).await.expect("a report");
    assert_eq!(second.transition, None);
    assert!(matches!(second.seen.standing, Standing::Down { successes: 1, .. }), "{:?}", second.seen);
    assert_eq!(next_transition(&mut reports).await, (Transition::Up { is_first: false }, 0));
}

#[tokio::test]
async fn a_check_under_way_ends_when_it_is_dropped() {
    let (listener, address) = listen().await;
    let (_reports, task) = run(Checker::new(target(address), settings(Probe::Http(http())), CheckState::default(), 1));
    let (mut stream, _) = soon(listener.accept()).await.expect("a connection");
    let mut received = vec![0; 10];
    soon(stream.read_exact(&mut received)).await.expect("a request");
    task.abort();
    soon(stream.read_to_end(&mut received)).await.expect("the connection's end");
}
