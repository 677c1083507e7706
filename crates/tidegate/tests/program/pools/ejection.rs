//! Servers that are taken out of use for what they did, and come back: seen in `status`, in the metrics and in the log.

use crate::pools::asked::{Asked, config};
use std::time::Duration;
use tidegate_testkit::server::{Conduct, Server, Settings};

fn servers(bad: Conduct) -> [Server; 3] {
    let start = |name, conduct| Server::start(Settings { conduct, ..Settings::new(name) }).expect("it starts");
    [start("bad", bad), start("b", Conduct::Honest), start("c", Conduct::Honest)]
}

fn ejections(server: &Server) -> String {
    format!("tidegate_upstream_server_ejections_total{{server=\"{}\"}}", server.address())
}

/// Asks until the server that fails has failed so often.
fn make_it_fail(asked: &Asked, times: usize) {
    let mut seen = 0;
    for _ in 0..300 {
        let reply = asked.get("/");
        if reply.status == 500 {
            seen += 1;
        }
        if seen == times {
            return;
        }
    }
    panic!("{seen} failures\n{}", asked.proxy.program.output());
}

#[test]
fn a_server_is_out_after_failures_in_a_row_and_says_why() {
    let all = servers(Conduct::Fails);
    let [bad, b, c] = &all;
    let mut asked = Asked::start(&config(&[bad, b, c], "balance \"round-robin\"; outlier failures=3 eject=\"60s\"", ""));
    make_it_fail(&asked, 3);
    asked.expect_from(20, &["b", "c"]);
    asked.wait_for_state(bad, "ejected");
    asked.wait_for_state(b, "serving");
    asked.wait_for_metric(&ejections(bad), 1.0);
    asked.wait_for_metric("tidegate_upstream_server_ejections_total", 1.0);
    let status = asked.status();
    assert!(status.contains(&format!("app/{}  EJECTED", bad.address())), "{status}");
    assert!(status.contains(&format!("app/{}: 3 failures in a row; tried again in ", bad.address())), "{status}");
    asked.proxy.wait_for_log("a server is out of use").expect("one line says so");
    assert_eq!(asked.proxy.program.stderr().matches("a server is out of use").count(), 1);
    assert_eq!(bad.seen().expect("it knows").requests, 3);
}

#[test]
fn a_server_that_is_well_again_returns() {
    let mut all = servers(Conduct::Fails);
    let [bad, b, c] = &all;
    let mut asked = Asked::start(&config(&[bad, b, c], "balance \"round-robin\"; outlier failures=2 eject=\"1s\"", ""));
    make_it_fail(&asked, 2);
    asked.wait_for_state(bad, "ejected");
    // One request finds out, and that one fails: it is out for longer.
    // Nothing is asked before its second is over.
    std::thread::sleep(Duration::from_millis(1_100));
    make_it_fail(&asked, 1);
    asked.wait_for_metric(&ejections(&all[0]), 2.0);
    all[0].become_like(Settings::new("bad")).expect("it starts");
    asked.wait_for("an answer of the one that is well again", |reply| reply.status == 200 && reply.text() == "bad");
    asked.proxy.wait_for_log("a server is in use again").expect("one line says so");
    asked.wait_for_state(&all[0], "serving");
    asked.expect_from(30, &["b", "bad", "c"]);
    asked.wait_for_metric(&ejections(&all[0]), 2.0);
}

/// Half of the pool at most, so of three servers one: the others go on in spite of their failures.
#[test]
fn a_pool_is_never_ejected_as_a_whole() {
    let start = |name| Server::start(Settings { conduct: Conduct::Fails, ..Settings::new(name) }).expect("it starts");
    let all = ["a", "b", "c"].map(start);
    let [a, b, c] = &all;
    let asked = Asked::start(&config(&[a, b, c], "balance \"round-robin\"; outlier failures=2 eject=\"60s\"", ""));
    for _ in 0..40 {
        assert_eq!(asked.get("/").status, 500, "an answer of the server's, and none that says there is none");
    }
    asked.wait_for_metric("tidegate_upstream_server_state{state=\"ejected\"}", 1.0);
    asked.wait_for_metric("tidegate_upstream_server_state{state=\"serving\"}", 2.0);
}

#[test]
fn checks_find_a_killed_server_and_find_it_again() {
    let mut all = servers(Conduct::Honest);
    let [bad, b, c] = &all;
    let health = "health \"/healthz\" interval=\"200ms\" timeout=\"200ms\" interval-down=\"200ms\" rise=2 fall=2";
    let asked = Asked::start(&config(&[bad, b, c], &format!("balance \"round-robin\"; {health}"), ""));
    all[0].kill();
    asked.wait_for_state(&all[0], "down");
    asked.wait_for_status(&format!("app/{}: its health checks fail: last failed ", all[0].address()));
    asked.expect_from(20, &["b", "c"]);
    all[0].start_again().expect("it starts");
    asked.wait_for_state(&all[0], "serving");
    asked.expect_from(30, &["b", "bad", "c"]);
    let failed = format!("tidegate_upstream_server_checks_total{{server=\"{}\",result=\"failed\"}}", all[0].address());
    assert!(asked.metric(&failed) >= 2.0);
}

/// Nobody is sent to a server that was dead when the proxy started, not even the first request.
#[test]
fn a_server_that_is_dead_at_the_start_gets_no_request() {
    let mut all = servers(Conduct::Honest);
    all[0].kill();
    let [bad, b, c] = &all;
    let settings = "balance \"round-robin\"; retry \"off\"; health \"/healthz\"";
    let asked = Asked::start(&config(&[bad, b, c], settings, ""));
    asked.expect_from(20, &["b", "c"]);
}
