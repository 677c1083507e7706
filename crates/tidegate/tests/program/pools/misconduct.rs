//! What clients see of servers that hang, drip, lie about lengths, close what is idle, reset, or are gone; and what the
//! metrics say.

use crate::pools::asked::{Asked, BOUND, HOST, Reply, block_on, config};
use std::time::Duration;
use tidegate_testkit::server::{Conduct, Server, Settings};
use tidegate_testkit::{Client, pattern, tokio};

fn server(name: &str, conduct: Conduct) -> Server {
    Server::start(Settings { conduct, ..Settings::new(name) }).expect("it starts")
}

fn failures(server: &Server) -> String {
    format!("tidegate_upstream_server_failures_total{{server=\"{}\"}}", server.address())
}

fn errors(reason: &str) -> String {
    format!("tidegate_upstream_errors_total{{reason=\"{reason}\"}}")
}

#[test]
fn a_server_that_hangs_costs_a_timeout() {
    let hanging = server("hanging", Conduct::Hangs);
    let asked = Asked::start(&config(&[&hanging], "timeout first-byte=\"500ms\"", ""));
    let reply = asked.get("/");
    assert_eq!(reply.status, 504);
    assert!(reply.text().contains("first_byte_timeout"), "{}", reply.text());
    asked.wait_for_metric(&errors("first_byte_timeout"), 1.0);
    asked.wait_for_metric(&failures(&hanging), 1.0);
    assert!(asked.status().contains(&format!("app/{}", hanging.address())));
}

#[test]
fn another_server_answers_for_one_that_hangs() {
    for settings in [
        "balance \"round-robin\"; timeout first-byte=\"500ms\"; retry attempts=1 on=\"timeout\"",
        "balance \"round-robin\"; retry attempts=1 try-timeout=\"300ms\"",
    ] {
        let (hanging, well) = (server("hanging", Conduct::Hangs), server("well", Conduct::Honest));
        let asked = Asked::start(&config(&[&hanging, &well], &format!("{settings}; outlier failures=2 eject=\"60s\""), ""));
        for _ in 0..8 {
            asked.expect_text("well");
        }
        // After two timeouts nobody is sent there any more.
        assert_eq!(asked.metric(&failures(&hanging)).to_string(), "2", "{settings}");
        asked.wait_for_state(&hanging, "ejected");
        asked.wait_for_metric("tidegate_upstream_retries_total", 2.0);
    }
}

/// Nobody knows what the server does with a request that it has, so it is not sent twice.
#[test]
fn what_is_not_safe_to_repeat_is_not_sent_again() {
    let (hanging, well) = (server("hanging", Conduct::Hangs), server("well", Conduct::Honest));
    let settings = "balance \"round-robin\"; timeout first-byte=\"500ms\"; retry on=\"timeout,reset\"; outlier \"off\"";
    let asked = Asked::start(&config(&[&hanging, &well], settings, ""));
    let replies: Vec<u16> = (0..4).map(|_| asked.send("POST", "/", "", "once").status).collect();
    assert!(replies.contains(&504) && replies.contains(&200), "{replies:?}");
    let late = replies.iter().filter(|status| **status == 504).count() as u64;
    assert_eq!(hanging.seen().expect("it knows").requests, late);
    assert_eq!(well.seen().expect("it knows").requests, 4 - late);
}

#[test]
fn a_server_that_drips_is_passed_on_as_it_drips() {
    let dripping = server("dripping", Conduct::Drips);
    let asked = Asked::start(&config(&[&dripping], "", ""));
    let address = asked.proxy.address;
    let exchange = async {
        let mut client = Client::connect(address).await?;
        client.send("GET", HOST, "/", &[]).await?;
        let head = client.connection.read_head().await?;
        assert_eq!(head.status(), Some(200), "{}", head.text());
        let mut seen = 0;
        while seen < 2000 {
            let piece = client.connection.read_data().await?.ok_or("the body ended")?;
            pattern::check(seen, &piece).map_err(|place| format!("wrong byte at {place}"))?;
            seen += piece.len() as u64;
        }
        Ok::<_, String>(())
    };
    block_on(async { tokio::time::timeout(BOUND, exchange).await }).expect("in time").expect("what it drips");
    // The client has gone, and nothing is kept for it.
    asked.wait_for_metric("tidegate_upstream_connections_active", 0.0);
    asked.wait_for_metric("tidegate_upstream_connections_idle", 0.0);
    assert_eq!(asked.metric(&failures(&dripping)).to_string(), "0", "to be slow is no failure");
}

#[test]
fn a_body_that_is_too_short_is_seen_to_be() {
    let lying = server("lying", Conduct::TooShort);
    let asked = Asked::start(&config(&[&lying], "", ""));
    let reply = asked.get("/");
    assert_eq!((reply.status, reply.head.value("content-length").as_deref()), (200, Some(b"1000".as_slice())));
    assert_eq!(reply.body.len(), 400);
    assert!(reply.fault.is_some(), "the client must not take it for a whole answer");
    asked.wait_for_metric(&errors("body_cut"), 1.0);
    asked.wait_for_metric(&failures(&lying), 1.0);
}

/// What is beyond the length belongs to nobody, least of all to the next request.
#[test]
fn bytes_beyond_the_length_reach_nobody() {
    let lying = server("lying", Conduct::TooLong);
    let asked = Asked::start(&config(&[&lying], "", ""));
    let address = asked.proxy.address;
    let exchange = async {
        let mut client = Client::connect(address).await?;
        for _ in 0..10 {
            client.send("GET", HOST, "/", &[]).await?;
            let reply = Reply::read(&mut client.connection).await?;
            assert_eq!((reply.status, reply.body.len(), reply.fault), (200, 400, None));
            pattern::check(0, &reply.body).map_err(|place| format!("wrong byte at {place}"))?;
        }
        Ok::<_, String>(())
    };
    block_on(async { tokio::time::timeout(BOUND, exchange).await }).expect("in time").expect("ten clean answers");
    assert_eq!(lying.seen().expect("it knows").requests, 10);
    assert_eq!(asked.metric("tidegate_upstream_connections_total{kind=\"reused\"}").to_string(), "0");
}

/// Pauses around the time at which the server closes: a request meets a connection that is just being closed.
#[test]
fn connections_that_the_server_closes_when_idle_cost_nobody_a_request() {
    let idle_close = Some(Duration::from_millis(50));
    let server = Server::start(Settings { idle_close, ..Settings::new("tidy") }).expect("it starts");
    let asked = Asked::start(&config(&[&server], "", ""));
    let address = asked.proxy.address;
    let exchange = async {
        let mut client = Client::connect(address).await?;
        for turn in 0..80 {
            tokio::time::sleep(Duration::from_millis(40 + turn % 20)).await;
            let answer = client.get(HOST, "/").await?;
            assert_eq!((answer.status, answer.body.as_slice()), (200, b"tidy".as_slice()), "turn {turn}");
        }
        for turn in 0..5 {
            // Long closed, and known to be: a request that must not be sent twice takes a fresh connection.
            tokio::time::sleep(Duration::from_millis(300)).await;
            client.send("POST", HOST, "/", b"once").await?;
            let answer = client.receive().await?;
            assert_eq!((answer.status, answer.body.as_slice()), (200, b"tidy".as_slice()), "POST {turn}");
        }
        Ok::<_, String>(())
    };
    block_on(async { tokio::time::timeout(BOUND, exchange).await }).expect("in time").expect("an answer for each");
    let seen = server.seen().expect("it knows");
    assert_eq!(seen.requests, 85);
    assert!(seen.connections > 5, "it closed none: {seen:?}");
    assert_eq!(asked.metric(&failures(&server)).to_string(), "0", "to close what is idle is no failure");
}

#[test]
fn a_server_that_resets_is_passed_over_where_that_is_safe() {
    let (resetting, well) = (server("resetting", Conduct::Resets), server("well", Conduct::Honest));
    let asked = Asked::start(&config(&[&resetting, &well], "balance \"round-robin\"; outlier \"off\"", ""));
    asked.expect_from(10, &["well"]);
    let before = resetting.seen().expect("it knows").requests;
    assert!(before > 0, "nobody asked it");
    let replies: Vec<u16> = (0..4).map(|_| asked.send("POST", "/", "", "once").status).collect();
    let refused = replies.iter().filter(|status| **status == 502).count() as u64;
    assert!(refused > 0 && replies.contains(&200), "{replies:?}");
    assert_eq!(resetting.seen().expect("it knows").requests, refused);
}

#[test]
fn a_server_that_is_killed_and_comes_back_is_used_again() {
    let mut only = server("only", Conduct::Honest);
    let asked = Asked::start(&config(&[&only], "", ""));
    asked.expect_text("only");
    for _ in 0..3 {
        only.kill();
        let reply = asked.get("/");
        assert_eq!(reply.status, 502);
        assert!(reply.text().contains("connect_failed"), "{}", reply.text());
        only.start_again().expect("it starts");
        // At once: there is no other, so nobody waits for its pause to be over.
        asked.expect_text("only");
    }
    assert!(asked.metric(&errors("connect_failed")) >= 3.0);
}

#[test]
fn nobody_notices_that_one_of_two_is_killed() {
    let (mut mortal, well) = (server("mortal", Conduct::Honest), server("well", Conduct::Honest));
    let asked = Asked::start(&config(&[&mortal, &well], "balance \"round-robin\"", ""));
    asked.expect_from(10, &["mortal", "well"]);
    mortal.kill();
    asked.expect_from(20, &["well"]);
    assert!(asked.metric(&failures(&mortal)) >= 1.0);
    mortal.start_again().expect("it starts");
    asked.wait_for("an answer of the one that came back", |reply| reply.status == 200 && reply.text() == "mortal");
    asked.wait_for_state(&mortal, "serving");
    asked.expect_from(20, &["mortal", "well"]);
}
