//! The configuration changes while the proxy runs, and nobody notices: clients in a closed loop, exchanges that last,
//! connections of listeners that go. What a refused change does is in `refused.rs`; processes that share a port are in
//! `instances.rs`. `RELOADS=300 RELOAD_SITES=500` looks longer for memory that stays behind.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tidegate_testkit::lasting::{Exchange, Lasting};
use tidegate_testkit::load::{Goal, Kind, Load, Order, Window};
use tidegate_testkit::ports::listening_sockets;
use tidegate_testkit::tokio::task::LocalSet;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Client, Proxy, get, tls, tokio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const HOST: &str = "example.com";
/// What resident memory may grow by from the first fifth of the reloads to their end.
const RESIDENT_GROWTH_KIB_MAX: u64 = 6 << 10;
const RELOADS: u64 = 60;
const REFUSED_BOUND: Duration = Duration::from_secs(10);
const RELOAD_SITES: u64 = 200;

fn by_path() -> Upstream {
    Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free")
}

fn block_on(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, future);
}

/// Everything that may change, each with a period of its own.
fn changing_config(turn: u64, upstreams: &[Upstream; 2]) -> String {
    let [a, b] = upstreams.each_ref().map(|upstream| upstream.address);
    let pick = |choices: &[&str], period: u64| choices[(turn / period) as usize % choices.len()].to_owned();
    let servers = [format!("server \"{a}\""), format!("server \"{a}\"; server \"{b}\""), format!("server \"{b}\"")];
    let admin = pick(&["{admin}", "{admin:other}"], 4);
    let log = pick(
        &[r#""{dir}/one.log""#, r#""{dir}/one.log" format="common""#, r#""{dir}/two.log" format="{path} {status}""#, r#""off""#],
        1,
    );
    let level = pick(&["info", "debug", "warn"], 1);
    let names = pick(&["example.com", "example.com+b.test"], 3);
    let keep_alive = pick(&["60s", "75s"], 2);
    let min = pick(&["1.2", "1.3"], 5);
    let second = if turn % 2 == 1 { "site \"http://:{port:second}\" { respond 200 body=\"second\" }" } else { "" };
    format!(
        r#"
admin "127.0.0.1:{admin}"
access-log {log}
log level="{level}"
threads {threads}
limits {{ keep-alive "{keep_alive}"; h2-streams {streams} }}
pool "app" {{ {servers} }}
site "http://:{{port}}" {{
    route "/version" {{ respond 200 body="v{turn}" }}
    proxy "app"
}}
site "https://:{{port:tls}}" {{
    tls cert="{{cert:{names}}}" key="{{key:{names}}}" {{ min "{min}" }}
    route "/version" {{ respond 200 body="v{turn}" }}
    proxy "app"
}}
{second}
"#,
        // The first ones leave with connections of every kind.
        threads = 3 - turn % 3,
        streams = 100 + turn,
        servers = servers[turn as usize % 3],
    )
}

#[test]
fn fifty_changes_of_everything_are_not_noticed() {
    let _beside = crate::beside_others();
    let upstreams = [by_path(), by_path()];
    let mut proxy = Proxy::start(PROGRAM, &changing_config(0, &upstreams)).expect("the proxy starts");
    let goal = Goal::of(&mut proxy, HOST).expect("a goal");
    let window = Arc::new(Window::default());
    let orders =
        [Order::Numbered { path: "/version".to_owned(), window: window.clone() }, Order::Pattern(30_000), Order::Pattern(10)];
    let clients = [(Kind::KeepAlive, 8), (Kind::KeepAliveTls, 6), (Kind::Http2, 6), (Kind::Fresh, 1), (Kind::FreshTls, 1)];
    let load = Load::start(&goal, &clients, &orders).expect("clients");
    for turn in 1..=50 {
        load.go_on_for(20).expect("answers");
        window.highest.store(turn, Ordering::SeqCst);
        proxy.apply(&changing_config(turn, &upstreams)).expect("it is applied");
        window.lowest.store(turn, Ordering::SeqCst);
    }
    load.go_on_for(50).expect("answers");
    let tally = load.finish();
    println!("{tally}");
    assert!(tally.is_clean(), "{tally}\n{}", proxy.program.output());
    assert!(upstreams[1].requests() > 0, "the pool did not change");
    assert!(tally.announced_ends > 0, "no worker left that had connections");
    let metrics = proxy.metrics().expect("metrics");
    assert_eq!(metrics.sum("tidegate_configuration_generation").to_string(), "51");
    assert_eq!(metrics.sum("tidegate_panics_caught_total").to_string(), "0");
}

fn lasting_config(turn: u64, upstream: &Upstream, echo: &Upstream) -> String {
    format!(
        r#"
admin "127.0.0.1:{{admin}}"
access-log "off"
threads {threads}
drain "1s"
pool "app" {{ server "{app}" weight={weight} }}
pool "echo" {{ server "{echo}"; protocol "h2c" }}
site "http://:{{port}}" {{
    route "/version" {{ respond 200 body="v{turn}" }}
    proxy "app"
}}
site "https://:{{port:tls}}" {{
    tls cert="{{cert}}" key="{{key}}"
    response-header "x-turn" "{turn}"
    route "/version" {{ respond 200 body="v{turn}" }}
    proxy "echo"
}}
"#,
        threads = 1 + turn % 2,
        app = upstream.address,
        echo = echo.address,
        weight = 1 + turn,
    )
}

#[test]
fn what_lasts_is_not_touched_by_thirty_changes() {
    let _beside = crate::beside_others();
    let upstream = by_path();
    let echo = Upstream::start_h2c(Behaviour::new(Answer::EchoBody)).expect("a port is free");
    let mut proxy = Proxy::start(PROGRAM, &lasting_config(0, &upstream, &echo)).expect("the proxy starts");
    let goal = Goal::of(&mut proxy, HOST).expect("a goal");
    let lasting = Lasting::start(&goal, &Exchange::ALL).expect("all begin");
    for turn in 1..=30 {
        proxy.apply(&lasting_config(turn, &upstream, &echo)).expect("it is applied");
    }
    // Longer than `drain`, and twice the grace of idle connections.
    std::thread::sleep(Duration::from_secs(3));
    lasting.go_on().unwrap_or_else(|error| panic!("{error}\n{}", proxy.program.output()));
    lasting.finish().unwrap_or_else(|error| panic!("{error}\n{}", proxy.program.output()));
    proxy.wait_for_metric("tidegate_client_connections_active", 0.0).expect("nothing is left");
}

#[test]
fn memory_does_not_grow_with_old_generations() {
    let _beside = crate::beside_others();
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (reloads, sites) = (number("RELOADS", RELOADS), number("RELOAD_SITES", RELOAD_SITES));
    let upstream = by_path();
    let config = |turn: u64| {
        let mut text = format!(
            "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nlog level=\"error\"\nthreads 2\npool \"app\" {{ server \"{}\" }}\nsite \"http://:{{port}}\" {{ proxy \"app\" }}\n",
            upstream.address
        );
        for site in 0..sites {
            text.push_str(&format!("site \"http://s{site}.test:{{port}}\" {{ route \"/a\" {{ respond 200 body=\"{site} v{turn}\" }}; proxy \"app\" }}\n"));
        }
        text
    };
    let mut proxy = Proxy::start(PROGRAM, &config(0)).expect("the proxy starts");
    block_on(async {
        let mut tunnels = Vec::new();
        let mut resident_warm = None;
        for turn in 1..=reloads {
            proxy.apply(&config(turn)).expect("it is applied");
            if turn % (reloads / 5) == 1 {
                tunnels.push(open_tunnel(proxy.address).await);
            }
            // What the first generations take, and what the allocator keeps between two of them, is not growth.
            if turn == reloads / 5 {
                resident_warm = settled_kib(&proxy);
            }
        }
        for tunnel in &mut tunnels {
            echo_once(tunnel).await.expect("the tunnel goes on");
        }
        assert_eq!(tunnels.len(), 5);
        if let (Some(warm), Some(end)) = (resident_warm, settled_kib(&proxy)) {
            println!("{warm} KiB resident after {} changes, {end} after {reloads}", reloads / 5);
            assert!(end <= warm + RESIDENT_GROWTH_KIB_MAX, "{end} KiB resident, {warm} before");
        }
    });
}

/// Resident memory without what the allocator gives back of itself: it keeps freed pages for ten seconds, and the
/// faster changes follow each other the more of them there are.
fn settled_kib(proxy: &Proxy) -> Option<u64> {
    std::thread::sleep(Duration::from_secs(13));
    proxy.program.resident_kib()
}

async fn open_tunnel(address: SocketAddr) -> Client {
    let mut client = Client::connect(address).await.expect("it listens");
    let request = format!("GET /upgrade HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    client.connection.write(request.as_bytes()).await.expect("sent");
    let head = client.connection.read_head().await.expect("a head");
    assert_eq!(head.status(), Some(101), "{}", head.text());
    client
}

async fn echo_once(tunnel: &mut Client) -> Result<(), String> {
    tunnel.connection.write(b"ping").await.map_err(|error| error.to_string())?;
    while tunnel.connection.received.len() < 4 {
        if !tunnel.connection.receive().await {
            return Err(format!("the tunnel ended: {:?}", tunnel.connection.end));
        }
    }
    let back = std::mem::take(&mut tunnel.connection.received);
    if back == b"ping" { Ok(()) } else { Err(format!("{back:?} came back")) }
}

/// What came in the same moment is still accepted; then nobody listens.
async fn wait_until_refused(address: SocketAddr) {
    let begin = Instant::now();
    while Client::connect(address).await.is_ok() {
        assert!(begin.elapsed() < REFUSED_BOUND, "{address} still listens");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn leaving_config(upstream: &Upstream, second: &str) -> String {
    format!(
        "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 2\ndrain \"2s\"\nsite \"http://:{{port}}\" {{ proxy \"{}\" }}\n{second}\n",
        upstream.address
    )
}

#[test]
fn a_removed_listener_leaves_gently() {
    let _beside = crate::beside_others();
    let upstream = by_path();
    let slow =
        Upstream::start(Behaviour { delay: Some(Duration::from_secs(1)), ..Behaviour::new(Answer::Text(b"slow".to_vec())) });
    let slow = slow.expect("a port is free").address;
    let second =
        format!("site \"http://:{{port:second}}\" {{ route \"/slow\" {{ proxy \"{slow}\" }}; proxy \"{}\" }}", upstream.address);
    let mut proxy = Proxy::start(PROGRAM, &leaving_config(&upstream, &second)).expect("the proxy starts");
    let port: u16 = proxy.places.fill("{port:second}").expect("known").parse().expect("a port");
    let leaving = SocketAddr::new(proxy.address.ip(), port);
    block_on(async {
        let mut idle = Client::connect(leaving).await.expect("it listens");
        assert_eq!(idle.get(HOST, "/bytes/3").await.expect("an answer").status, 200);
        let mut in_flight = Client::connect(leaving).await.expect("it listens");
        in_flight.send("GET", HOST, "/slow", &[]).await.expect("sent");
        let mut tunnel = open_tunnel(leaving).await;
        let mut other = Client::connect(proxy.address).await.expect("it listens");
        let mut other_tunnel = open_tunnel(proxy.address).await;
        assert_eq!(other.get(HOST, "/bytes/3").await.expect("an answer").status, 200);
        // The slow upstream has the request, so that it is in flight and not waiting to be read.
        tokio::time::sleep(Duration::from_millis(300)).await;

        proxy.apply(&leaving_config(&upstream, "")).expect("it is applied");

        wait_until_refused(leaving).await;
        let last = idle.get(HOST, "/bytes/3").await.expect("one more answer");
        assert_eq!(last.status, 200);
        assert_eq!(last.head.value("connection").as_deref(), Some(b"close".as_slice()), "{}", last.head.text());
        echo_once(&mut tunnel).await.expect("the tunnel outlives its listener for a while");
        let finished = in_flight.receive().await.expect("it finishes");
        assert_eq!((finished.status, finished.body.as_slice()), (200, b"slow".as_slice()));
        while tunnel.connection.receive().await {}
        assert!(tunnel.connection.end.is_some(), "it is cut in the end");
        assert_eq!(other.get(HOST, "/bytes/3").await.expect("an answer").status, 200);
        let kept = other.get(HOST, "/bytes/3").await.expect("an answer");
        assert_eq!(kept.head.value("connection"), None, "{}", kept.head.text());
        echo_once(&mut other_tunnel).await.expect("the other listener's tunnel is not touched");
    });
}

#[test]
fn a_listener_changes_its_scheme() {
    let _beside = crate::beside_others();
    let upstream = by_path();
    let tls = |text: &str| {
        format!(
            "site \"{text}:{{port:second}}\" {{ {} proxy \"{}\" }}",
            if text == "https://" { "tls cert=\"{cert}\" key=\"{key}\";" } else { "" },
            upstream.address
        )
    };
    let mut proxy = Proxy::start(PROGRAM, &leaving_config(&upstream, &tls("http://"))).expect("the proxy starts");
    let port: u16 = proxy.places.fill("{port:second}").expect("known").parse().expect("a port");
    let address = SocketAddr::new(proxy.address.ip(), port);
    block_on(async {
        let mut plain = Client::connect(address).await.expect("it listens");
        assert_eq!(plain.get(HOST, "/bytes/3").await.expect("an answer").status, 200);

        proxy.apply(&leaving_config(&upstream, &tls("https://"))).expect("it is applied");

        let root = proxy.places.authority("main").expect("made for the certificate").root().clone();
        let options = tls::ClientOptions { alpn: vec![b"http/1.1".to_vec()], send_sni: true, ..Default::default() };
        let config = Arc::new(tls::client_config(Some(&root), &options).expect("valid options"));
        let mut secure = Client::connect_tls(address, config, HOST).await.expect("TLS now");
        assert_eq!(secure.get(HOST, "/bytes/3").await.expect("an answer").status, 200);
        let last = plain.get(HOST, "/bytes/3").await.expect("the old connection finishes");
        assert_eq!(last.status, 200);
        assert_eq!(last.head.value("connection").as_deref(), Some(b"close".as_slice()), "{}", last.head.text());
        let again = secure.get(HOST, "/bytes/3").await.expect("an answer");
        assert_eq!(again.head.value("connection"), None, "{}", again.head.text());
    });
}

/// Sockets of workers that leave go to those that stay, and have to come back to those that come.
#[test]
fn listening_sockets_do_not_pile_up_with_the_number_of_threads() {
    let _beside = crate::beside_others();
    let upstream = by_path();
    let config = |threads: u64| leaving_config(&upstream, "").replace("threads 2", &format!("threads {threads}"));
    let mut proxy = Proxy::start(PROGRAM, &config(4)).expect("the proxy starts");
    let address = proxy.address;
    assert_eq!(listening_sockets(address.port()), Some(4), "one per worker");
    for _ in 0..5 {
        proxy.apply(&config(1)).expect("it is applied");
        proxy.apply(&config(4)).expect("it is applied");
        for _ in 0..20 {
            let (status, _) = get(&address.to_string(), "/bytes/3").expect("each socket is accepted from");
            assert_eq!(status, 200);
        }
    }
    assert_eq!(listening_sockets(address.port()), Some(4), "as many as at first");
}
