//! A pool of three server processes is replaced over and over under a steady load, and clients that ask for what is
//! safe to repeat see nothing of it. What single servers do wrong is in `pools.rs`; changes of the configuration alone
//! are in `reload.rs`.

use std::time::{Duration, Instant};
use tidegate_testkit::load::{Goal, Kind, Load, Order};
use tidegate_testkit::server::{Server, Settings, serve_if_asked};
use tidegate_testkit::{Proxy, get};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const HOST: &str = "example.com";
/// Of all clients together.
const REQUESTS_PER_SECOND: u32 = 2_000;
const CLIENTS: usize = 64;
/// Answers between two replacements: a tenth of a second and more.
const REQUESTS_BETWEEN: u64 = 250;
const SLOW_START: Duration = Duration::from_millis(300);

#[test]
fn this_file_is_also_an_upstream_server() {
    serve_if_asked();
    let _beside = crate::beside_others();
    let mut server = Server::start(Settings::new("alone")).expect("it starts");
    assert_eq!(get(&server.address().to_string(), "/").expect("an answer"), (200, "alone".to_owned()));
    assert_eq!(server.seen().expect("it knows").requests, 1);
    server.terminate().expect("it ends by itself");
    get(&server.address().to_string(), "/").expect_err("nobody listens");
    server.start_again().expect("on the same port");
}

/// How a server is replaced.
#[derive(Debug, Clone, Copy)]
enum Replacement {
    Terminated,
    Killed,
    /// The server takes a while until it listens again.
    StartsSlowly,
    /// Another address takes its place in the configuration; then the process at the old one is told to end.
    Moves,
}

impl Replacement {
    const ALL: [Replacement; 4] = [Replacement::Terminated, Replacement::Killed, Replacement::StartsSlowly, Replacement::Moves];
}

struct Rollout {
    proxy: Proxy,
    servers: Vec<Server>,
    load: Load,
    /// What the pool has beside its servers.
    settings: &'static str,
}

impl Rollout {
    fn start(settings: &'static str, h2c: bool) -> Rollout {
        let names = ["a", "b", "c"];
        let server = |name| Server::start(Settings { h2c, ..Settings::new(name) }).expect("it starts");
        let servers: Vec<Server> = names.into_iter().map(server).collect();
        let mut proxy = Proxy::start(PROGRAM, &config(&servers, settings)).expect("the proxy starts");
        let goal = Goal::of(&mut proxy, HOST).expect("a goal");
        let orders = [Order::OneOf { path: "/name".to_owned(), bodies: names.map(str::to_owned).into() }];
        let load = Load::start_paced(&goal, &[(Kind::KeepAlive, CLIENTS)], &orders, REQUESTS_PER_SECOND).expect("clients");
        Rollout { proxy, servers, load, settings }
    }

    fn replace(&mut self, position: usize, replacement: Replacement) -> Result<(), String> {
        let server = &mut self.servers[position];
        match replacement {
            Replacement::Terminated => {
                server.terminate()?;
                server.start_again()
            }
            Replacement::Killed => {
                server.kill();
                server.start_again()
            }
            Replacement::StartsSlowly => {
                server.terminate()?;
                let settings = server.settings.clone();
                server.become_like(Settings { start_pause: SLOW_START, ..settings.clone() })?;
                server.settings = settings;
                Ok(())
            }
            Replacement::Moves => {
                let successor = Server::start(server.settings.clone())?;
                let mut before = std::mem::replace(server, successor);
                self.proxy.apply(&config(&self.servers, self.settings))?;
                before.terminate()
            }
        }
    }

    fn roll(&mut self, rolls: usize) {
        self.load.go_on_for(REQUESTS_BETWEEN).expect("answers");
        for roll in 0..rolls {
            for position in 0..self.servers.len() {
                // Each server meets each replacement.
                let replacement = Replacement::ALL[(roll + position) % Replacement::ALL.len()];
                let outcome = self.replace(position, replacement).and_then(|()| self.load.go_on_for(REQUESTS_BETWEEN));
                outcome.unwrap_or_else(|error| panic!("roll {roll}, server {position}, {replacement:?}: {error}"));
            }
        }
    }

    fn finish(self, rolls: usize) {
        let due = self.load.due();
        let Rollout { proxy, servers, load, .. } = self;
        let tally = load.finish();
        let metrics = proxy.metrics().expect("metrics");
        let retries = metrics.sum("tidegate_upstream_retries_total");
        println!("{rolls} rolls, {due} requests due, {retries} sent again by the proxy, {tally}");
        assert!(tally.is_clean(), "{tally}\n{}", proxy.program.output());
        // A slow machine is late with them, and leaves none out.
        assert!(tally.done >= due, "{} of {due} requests", tally.done);
        assert!(retries > 0.0, "nothing was in the way of the rolls, so they show nothing");
        for server in &servers {
            let series = format!("tidegate_upstream_server_requests_total{{server=\"{}\"}}", server.address());
            assert!(metrics.sum(&series) > 0.0, "{} got no requests", server.address());
        }
        assert_eq!(metrics.sum("tidegate_panics_caught_total").to_string(), "0");
    }
}

fn config(servers: &[Server], settings: &str) -> String {
    let servers: Vec<String> = servers.iter().map(|server| format!("server \"{}\"", server.address())).collect();
    format!(
        "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 2\npool \"app\" {{ {}; {settings} }}\nsite \"http://:{{port}}\" {{ proxy \"app\" }}\n",
        servers.join("; ")
    )
}

fn check(rolls: usize, settings: &'static str, h2c: bool) {
    let _alone = crate::alone();
    let begin = Instant::now();
    let mut rollout = Rollout::start(settings, h2c);
    rollout.roll(rolls);
    rollout.finish(rolls);
    println!("{:?}", begin.elapsed());
}

#[test]
fn twenty_rolls_of_a_pool_are_not_noticed() {
    check(20, "", false);
}

#[test]
fn rolls_of_a_pool_with_checks_are_not_noticed() {
    check(5, "health \"/healthz\" interval=\"200ms\" timeout=\"200ms\" interval-down=\"200ms\" rise=1 fall=1", false);
}

#[test]
fn rolls_of_a_pool_over_http2_are_not_noticed() {
    check(5, "protocol \"h2c\"", true);
}
