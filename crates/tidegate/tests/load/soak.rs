//! Everything at once for a while: downloads and uploads whose every byte is checked, clients that abort, upstreams
//! that cut and reset, slow readers, tunnels, HTTP/2 streams that end as they like, servers of HTTP/1.1 and of h2c.
//! Afterwards nothing may be left: no connection, no memory, no file descriptor, no wrong byte. `SOAK_SECONDS` says how
//! long with each driver (5 unless set), `SOAK_DRIVER` that it is one of them alone.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_testkit::bytes::Bytes;
use tidegate_testkit::client::tls_socket;
use tidegate_testkit::rustls::ClientConfig;
use tidegate_testkit::tokio::task::{LocalSet, spawn_local};
use tidegate_testkit::tokio::time::{sleep, timeout};
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Client, Proxy, driver, h2, http, http2, pattern, tls, tokio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const SECONDS: u64 = 5;
const CLIENTS_OF_A_KIND: u64 = 4;
/// No single step of a client takes longer on a machine that works, however busy.
const STEP_BOUND: Duration = Duration::from_secs(30);
const HOST: &str = "example.com";
/// What resident memory may grow by between the end of the warm-up and the end: allocators keep some of what they had.
const RESIDENT_GROWTH_KIB_MAX: u64 = 32 << 10;
/// Descriptors that may be left beside idle upstream connections: a log file opened late, an admin connection closing.
const OPEN_FILES_SLACK: usize = 8;

#[test]
fn nothing_is_left_behind() {
    let _alone = crate::alone();
    let wanted = std::env::var("SOAK_DRIVER").unwrap_or_default();
    for driver in driver::drivers(PROGRAM).into_iter().filter(|driver| wanted.is_empty() || *driver == wanted) {
        println!("with {driver}:");
        soak_with(driver);
    }
}

fn soak_with(driver: &str) {
    let seconds = std::env::var("SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let upstream = Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free");
    let h2c = Upstream::start_h2c(Behaviour::new(Answer::ByPath)).expect("a port is free");
    let config = CONFIG.replace("UPSTREAM", &upstream.address.to_string()).replace("H2C", &h2c.address.to_string());
    let mut proxy = Proxy::start(PROGRAM, &driver::on(driver, &config)).expect("the proxy starts");
    let files_before = proxy.program.open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let soak = Soak::new(&mut proxy);
    let warm = Duration::from_secs(seconds).div_f32(3.0);
    LocalSet::new().block_on(&runtime, soak.clone().run(warm));
    let resident_warm = proxy.program.resident_kib();
    LocalSet::new().block_on(&runtime, soak.clone().run(warm * 2));
    println!("{} exchanges, {} cut off as asked for", soak.done.get(), soak.cut.get());
    let faults = soak.faults.borrow();
    assert!(faults.is_empty(), "{}\n{}", faults.join("\n"), proxy.program.output());
    assert!(soak.done.get() > seconds * 10, "hardly anything went through");
    check_nothing_left(&proxy, files_before, resident_warm);
}

const CONFIG: &str = r#"
admin "127.0.0.1:{admin}"
access-log "{dir}/access.log"
threads 2
site "http://:{port}" {
    route "/h2c/*" { strip-prefix "/h2c"; proxy "h2c"; }
    proxy "UPSTREAM"
}
site "https://:{port:tls}" {
    tls cert="{cert:example.com}" key="{key:example.com}"
    route "/h2c/*" { strip-prefix "/h2c"; proxy "h2c"; }
    proxy "UPSTREAM"
}
pool "h2c" { server "H2C"; protocol "h2c"; }
"#;

fn check_nothing_left(proxy: &Proxy, files_before: Option<usize>, resident_warm: Option<u64>) {
    for gauge in ["tidegate_client_connections_active", "tidegate_upstream_connections_active"] {
        if let Err(error) = proxy.wait_for_metric(gauge, 0.0) {
            panic!("{error}\n{}", proxy.program.output());
        }
    }
    let metrics = proxy.metrics().expect("metrics");
    assert_eq!(metrics.sum("tidegate_panics_caught_total").to_string(), "0", "{}", proxy.program.output());
    let idle = metrics.sum("tidegate_upstream_connections_idle") as usize;
    if let (Some(before), Some(after)) = (files_before, proxy.program.open_files()) {
        println!("{before} open files at the start, {after} at the end, {idle} idle upstream connections");
        assert!(after <= before + idle + OPEN_FILES_SLACK, "{after} open files, {before} at the start, {idle} idle connections");
    }
    if let (Some(warm), Some(end)) = (resident_warm, proxy.program.resident_kib()) {
        println!("{warm} KiB resident after the warm-up, {end} at the end");
        assert!(end <= warm + RESIDENT_GROWTH_KIB_MAX, "{end} KiB resident, {warm} after the warm-up");
    }
}

/// What all clients share.
struct Soak {
    plain: SocketAddr,
    secure: SocketAddr,
    tls: Arc<ClientConfig>,
    tls_h2: Arc<ClientConfig>,
    done: Cell<u64>,
    cut: Cell<u64>,
    faults: RefCell<Vec<String>>,
}

impl Soak {
    fn new(proxy: &mut Proxy) -> Rc<Soak> {
        let port: u16 = proxy.places.fill("{port:tls}").expect("known").parse().expect("a port");
        let root = proxy.places.authority("main").expect("made for the site's certificate").root().clone();
        let config = |alpn: &str| {
            let options = tls::ClientOptions { alpn: vec![alpn.as_bytes().to_vec()], send_sni: true, ..Default::default() };
            Arc::new(tls::client_config(Some(&root), &options).expect("valid options"))
        };
        Rc::new(Soak {
            plain: proxy.address,
            secure: SocketAddr::new(proxy.address.ip(), port),
            tls: config("http/1.1"),
            tls_h2: config("h2"),
            done: Cell::new(0),
            cut: Cell::new(0),
            faults: RefCell::default(),
        })
    }

    async fn run(self: Rc<Self>, time: Duration) {
        let until = Instant::now() + time;
        let mut clients = Vec::new();
        for number in 0..CLIENTS_OF_A_KIND {
            for kind in Kind::ALL {
                clients.push(spawn_local(self.clone().run_client(kind, Random(number * 31 + kind as u64 * 7919 + 1), until)));
            }
        }
        for client in clients {
            client.await.expect("no panic");
        }
    }

    async fn run_client(self: Rc<Self>, kind: Kind, mut random: Random, until: Instant) {
        while Instant::now() < until && self.faults.borrow().is_empty() {
            let exchange = self.exchange(kind, &mut random);
            match timeout(STEP_BOUND, exchange).await {
                Ok(Ok(())) => self.done.set(self.done.get() + 1),
                Ok(Err(error)) => self.faults.borrow_mut().push(format!("{kind:?}: {error}")),
                Err(_) => self.faults.borrow_mut().push(format!("{kind:?}: not done within {STEP_BOUND:?}")),
            }
        }
    }

    async fn exchange(&self, kind: Kind, random: &mut Random) -> Result<(), String> {
        match kind {
            Kind::Download => self.download(random, Duration::ZERO).await,
            Kind::SlowDownload => self.download(random, Duration::from_millis(2)).await,
            Kind::Upload => self.upload(random).await,
            Kind::AbortedDownload => self.aborted_download(random).await,
            Kind::AbortedUpload => self.aborted_upload(random).await,
            Kind::AbortedWait => self.aborted_wait(random).await,
            Kind::UpstreamFault => self.upstream_fault(random).await,
            Kind::Tunnel => self.tunnel(random).await,
            Kind::Http2 => self.http2(random).await,
            Kind::Http2Aborts => self.http2_aborts(random).await,
        }
    }

    async fn client(&self, random: &mut Random) -> Result<Client, String> {
        if random.below(2) == 0 {
            Client::connect(self.plain).await
        } else {
            Client::connect_tls(self.secure, self.tls.clone(), HOST).await
        }
    }

    async fn download(&self, random: &mut Random, pause: Duration) -> Result<(), String> {
        let mut client = self.client(random).await?;
        // A slow one is a step of its own: on a busy machine each of its pieces waits for all other clients.
        let more = if pause.is_zero() { random.below(5) } else { 0 };
        for _ in 0..=more {
            let magnitude = random.between(4, 21);
            let length = random.below(1 << magnitude);
            client.send("GET", HOST, &format!("{}/bytes/{length}", behind(random)), &[]).await?;
            let head = client.connection.read_head().await?;
            expect_ok(head.status())?;
            let mut seen = 0;
            while let Some(piece) = client.connection.read_data().await? {
                pattern::check(seen, &piece).map_err(|place| format!("wrong byte at {place} of {length}"))?;
                seen += piece.len() as u64;
                if !pause.is_zero() {
                    sleep(pause).await;
                }
            }
            expect_length(seen, length)?;
        }
        Ok(())
    }

    async fn upload(&self, random: &mut Random) -> Result<(), String> {
        let mut client = self.client(random).await?;
        for _ in 0..=random.below(5) {
            let body = pattern::pattern(0, random.below(60_000) as usize + 1);
            client.send("POST", HOST, &format!("{}/echo", behind(random)), &body).await?;
            let answer = client.receive().await?;
            expect_ok(Some(answer.status))?;
            if answer.body != body {
                return Err(format!("an echo of {} bytes came back differently, with {}", body.len(), answer.body.len()));
            }
        }
        Ok(())
    }

    async fn aborted_download(&self, random: &mut Random) -> Result<(), String> {
        let mut client = self.client(random).await?;
        client.send("GET", HOST, &format!("{}/bytes/3000000", behind(random)), &[]).await?;
        let _ = client.connection.read_head().await?;
        for _ in 0..random.below(20) {
            let _ = client.connection.read_data().await?;
        }
        abort(client, random);
        Ok(())
    }

    async fn aborted_upload(&self, random: &mut Random) -> Result<(), String> {
        let mut client = self.client(random).await?;
        let path = format!("{}/echo", behind(random));
        let head = format!("POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 1000000\r\n\r\n");
        client.connection.write(head.as_bytes()).await.map_err(|error| error.to_string())?;
        for piece in 0..random.below(4) {
            let bytes = pattern::pattern(piece * 10_000, 10_000);
            client.connection.write(&bytes).await.map_err(|error| error.to_string())?;
        }
        abort(client, random);
        Ok(())
    }

    async fn aborted_wait(&self, random: &mut Random) -> Result<(), String> {
        let mut client = self.client(random).await?;
        client.send("GET", HOST, &format!("{}/hang", behind(random)), &[]).await?;
        sleep(Duration::from_millis(random.below(30))).await;
        abort(client, random);
        Ok(())
    }

    /// What an upstream breaks off may reach the client as an error or as a body that visibly ends too early, never as
    /// a whole answer.
    async fn upstream_fault(&self, random: &mut Random) -> Result<(), String> {
        let mut client = self.client(random).await?;
        let length = 1000 + random.below(500_000);
        let path = ["/reset".to_owned(), format!("/half/{length}"), format!("/cut/{length}")][random.below(3) as usize].clone();
        let path = format!("{}{path}", behind(random));
        match client.get(HOST, &path).await {
            Ok(answer) if answer.status == 502 => Ok(()),
            Ok(answer) => Err(format!("{path}: {} with {} bytes as if it were whole", answer.status, answer.body.len())),
            Err(_) => {
                self.cut.set(self.cut.get() + 1);
                Ok(())
            }
        }
    }

    async fn tunnel(&self, random: &mut Random) -> Result<(), String> {
        let mut client = self.client(random).await?;
        let request = format!("GET /upgrade HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        client.connection.write(request.as_bytes()).await.map_err(|error| error.to_string())?;
        let head = client.connection.read_head().await?;
        if head.status() != Some(101) {
            return Err(format!("no tunnel: {}", head.text()));
        }
        let mut sent = 0;
        for _ in 0..random.below(20) {
            let piece = pattern::pattern(sent, random.below(20_000) as usize + 1);
            client.connection.write(&piece).await.map_err(|error| error.to_string())?;
            while client.connection.received.len() < piece.len() {
                if !client.connection.receive().await {
                    return Err("the tunnel ended".into());
                }
            }
            let back = std::mem::take(&mut client.connection.received);
            pattern::check(sent, &back).map_err(|place| format!("wrong byte at {place} of the tunnel"))?;
            expect_length(back.len() as u64, piece.len() as u64)?;
            sent += piece.len() as u64;
        }
        abort(client, random);
        Ok(())
    }

    async fn http2(&self, random: &mut Random) -> Result<(), String> {
        let text = |error: h2::Error| error.to_string();
        let socket = tls_socket(self.secure, self.tls_h2.clone(), HOST).await?;
        let (sender, connection) = h2::client::handshake(socket).await.map_err(text)?;
        let driver = spawn_local(connection);
        let mut streams = Vec::new();
        for _ in 0..=random.below(8) {
            let sender = sender.clone().ready().await.map_err(text)?;
            let order = random.below(4);
            let length = random.below(300_000);
            streams.push(spawn_local(http2_stream(sender, order, length, behind(random))));
        }
        for stream in streams {
            stream.await.map_err(|error| error.to_string())??;
        }
        drop(sender);
        if random.below(2) == 0 {
            driver.abort();
        }
        Ok(())
    }

    /// Streams of which each ends too early, and one that must not mind; or the connection ends with all of them.
    async fn http2_aborts(&self, random: &mut Random) -> Result<(), String> {
        let text = |error: h2::Error| error.to_string();
        let socket = tls_socket(self.secure, self.tls_h2.clone(), HOST).await?;
        let (sender, connection) = h2::client::handshake(socket).await.map_err(text)?;
        let driver = spawn_local(connection);
        let mut streams = Vec::new();
        for _ in 0..=random.below(8) {
            let sender = sender.clone().ready().await.map_err(text)?;
            streams.push(spawn_local(http2_abort(sender, random.below(4), random.below(100_000), behind(random))));
        }
        if random.below(2) == 0 {
            sleep(Duration::from_millis(random.below(20))).await;
            driver.abort();
            self.cut.set(self.cut.get() + 1);
        } else {
            let sender = sender.clone().ready().await.map_err(text)?;
            http2_stream(sender, 0, random.below(300_000), behind(random)).await?;
        }
        for stream in streams {
            // Whether it went as it wanted to does not matter.
            let _ = stream.await.map_err(|error| error.to_string())?;
        }
        drop(sender);
        Ok(())
    }
}

/// Half of the time a close, half of the time a reset.
fn abort(client: Client, random: &mut Random) {
    if random.below(2) == 0 {
        client.connection.reset();
    }
}

/// Where in front of a path the server is said that it goes to: the one of HTTP/1.1, or the one of h2c.
fn behind(random: &mut Random) -> &'static str {
    ["", "/h2c"][random.below(2) as usize]
}

/// A stream that ends before its time: an upload in the middle, a download in the middle, a request that nobody
/// answers. What becomes of it is the connection's affair, which may end under it as well.
async fn http2_abort(mut sender: h2::client::SendRequest<Bytes>, order: u64, length: u64, behind: &'static str) -> Option<()> {
    let path = ["/echo", "/bytes/3000000", "/hang", "/hang"][order as usize];
    let (method, ends) = if order.is_multiple_of(2) { ("POST", false) } else { ("GET", true) };
    let request = http::Request::builder().method(method).uri(format!("https://{HOST}{behind}{path}")).body(()).ok()?;
    let (response, mut sending) = sender.send_request(request, ends).ok()?;
    if !ends {
        let body = Bytes::from(pattern::pattern(0, length as usize));
        // The windows of a request that is not answered are small.
        let _ = timeout(Duration::from_millis(length % 50), http2::send_all(&mut sending, body, false)).await;
    }
    if order < 2 {
        let mut body = response.await.ok()?.into_body();
        for _ in 0..length % 5 {
            // Of an upload that got no further nothing comes back.
            let _ = timeout(Duration::from_millis(length % 50), http2::receive_data(&mut body)).await;
        }
    }
    sending.send_reset(h2::Reason::CANCEL);
    Some(())
}

async fn http2_stream(
    mut sender: h2::client::SendRequest<Bytes>,
    order: u64,
    length: u64,
    behind: &'static str,
) -> Result<(), String> {
    let text = |error: h2::Error| error.to_string();
    let (method, path, ends) =
        if order == 1 { ("POST", "/echo".to_owned(), false) } else { ("GET", format!("/bytes/{length}"), true) };
    let uri = format!("https://{HOST}{behind}{path}");
    let request = http::Request::builder().method(method).uri(uri).body(()).map_err(|error| error.to_string())?;
    let (response, mut sending) = sender.send_request(request, ends).map_err(text)?;
    let expected = if ends {
        length
    } else {
        let body = pattern::pattern(0, length.min(60_000) as usize);
        http2::send_all(&mut sending, Bytes::from(body), true).await.map_err(text)?;
        length.min(60_000)
    };
    let response = response.await.map_err(text)?;
    expect_ok(Some(response.status().as_u16()))?;
    let mut body = response.into_body();
    let mut seen = 0;
    while let Some(piece) = http2::receive_data(&mut body).await {
        let piece = piece.map_err(text)?;
        pattern::check(seen, &piece).map_err(|place| format!("wrong byte at {place} of {path}"))?;
        seen += piece.len() as u64;
        if order == 2 && seen > length / 2 {
            sending.send_reset(h2::Reason::CANCEL);
            return Ok(());
        }
    }
    expect_length(seen, expected)
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Download,
    SlowDownload,
    Upload,
    AbortedDownload,
    AbortedUpload,
    AbortedWait,
    UpstreamFault,
    Tunnel,
    Http2,
    Http2Aborts,
}

impl Kind {
    const ALL: [Kind; 10] = [
        Kind::Download,
        Kind::SlowDownload,
        Kind::Upload,
        Kind::AbortedDownload,
        Kind::AbortedUpload,
        Kind::AbortedWait,
        Kind::UpstreamFault,
        Kind::Tunnel,
        Kind::Http2,
        Kind::Http2Aborts,
    ];
}

fn expect_ok(status: Option<u16>) -> Result<(), String> {
    if status == Some(200) { Ok(()) } else { Err(format!("status {status:?}")) }
}

fn expect_length(seen: u64, expected: u64) -> Result<(), String> {
    if seen == expected { Ok(()) } else { Err(format!("{seen} bytes of {expected}")) }
}

/// xorshift; a test needs no more.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound.max(1)
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }
}
