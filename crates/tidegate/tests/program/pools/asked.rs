//! A proxy before one pool, and questions to it: as a client, and as who runs it.

use std::time::{Duration, Instant};
use tidegate_testkit::case::Places;
use tidegate_testkit::connection::Connection;
use tidegate_testkit::head::Head;
use tidegate_testkit::server::Server;
use tidegate_testkit::tokio::task::LocalSet;
use tidegate_testkit::{Client, Program, Proxy, Surroundings, tokio};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
pub const HOST: &str = "example.com";
/// Whatever has to happen happens by then, however busy the machine.
pub const BOUND: Duration = Duration::from_secs(60);

/// A whole answer, or as much of it as came.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: Head,
    pub body: Vec<u8>,
    /// Why the body did not come to its end.
    pub fault: Option<String>,
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The rest of an answer whose request is on its way.
    pub async fn read(connection: &mut Connection) -> Result<Reply, String> {
        let head = connection.read_head().await?;
        let mut body = Vec::new();
        let fault = loop {
            match connection.read_data().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        Ok(Reply { status: head.status().ok_or("no status")?, head, body, fault })
    }
}

/// `pool` is what the pool holds beside its servers; `top` stands before everything.
pub fn config(servers: &[&Server], pool: &str, top: &str) -> String {
    let servers: Vec<String> = servers.iter().map(|server| format!("server \"{}\"", server.address())).collect();
    let servers = servers.join("\n");
    let access_log = if top.contains("access-log") { "" } else { "access-log \"off\"" };
    format!(
        "admin \"127.0.0.1:{{admin}}\"\n{access_log}\nthreads 2\n{top}\npool \"app\" {{\n{servers}\n{pool}\n}}\nsite \"http://:{{port}}\" {{ proxy \"app\" }}\n"
    )
}

pub struct Asked {
    pub proxy: Proxy,
}

/// Another program where `PROGRAM` names one, such as that of an earlier version.
fn program() -> String {
    std::env::var("PROGRAM").unwrap_or_else(|_| PROGRAM.to_owned())
}

impl Asked {
    pub fn start(config: &str) -> Asked {
        Asked::start_in(Places::new().expect("a folder"), config)
    }

    pub fn start_in(places: Places, config: &str) -> Asked {
        let proxy = Proxy::start_in(places, &program(), config, &[], &Surroundings::default()).expect("the proxy starts");
        Asked { proxy }
    }

    /// One request on a connection of its own.
    pub fn send(&self, method: &str, path: &str, fields: &str, body: &str) -> Reply {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n{fields}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let address = self.proxy.address;
        let exchange = async {
            let mut client = Client::connect(address).await?;
            client.connection.write(request.as_bytes()).await.map_err(|error| error.to_string())?;
            Reply::read(&mut client.connection).await
        };
        let within = async { tokio::time::timeout(BOUND, exchange).await.map_err(|_| "no answer".to_owned())? };
        block_on(within).unwrap_or_else(|error| panic!("{method} {path}: {error}\n{}", self.proxy.program.output()))
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "", "")
    }

    /// 200 with this text.
    pub fn expect_text(&self, expected: &str) {
        let reply = self.get("/");
        assert_eq!((reply.status, reply.text()), (200, expected.to_owned()), "{}", self.proxy.program.output());
    }

    /// Asks so often, and sees 200 from everybody whose names these are, and nobody else.
    pub fn expect_from(&self, requests: usize, names: &[&str]) {
        let mut seen: Vec<String> = Vec::new();
        for _ in 0..requests {
            let reply = self.get("/");
            assert_eq!(reply.status, 200, "{}\n{}", reply.text(), self.proxy.program.output());
            if !seen.contains(&reply.text()) {
                seen.push(reply.text());
            }
        }
        seen.sort();
        assert_eq!(seen, names);
    }

    /// Asks until an answer is as it should be.
    pub fn wait_for(&self, what: &str, is_it: impl Fn(&Reply) -> bool) {
        let begin = Instant::now();
        loop {
            let reply = self.get("/");
            if is_it(&reply) {
                return;
            }
            let last = format!("{} {:?}", reply.status, reply.text());
            assert!(begin.elapsed() < BOUND, "{what} did not come, but {last}\n{}", self.proxy.program.output());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn wait_for_metric(&self, series: &str, value: f64) {
        let outcome = self.proxy.wait_for_metric(series, value);
        outcome.unwrap_or_else(|error| panic!("{error}\n{}", self.proxy.program.output()));
    }

    pub fn metric(&self, series: &str) -> f64 {
        self.proxy.metrics().expect("metrics").sum(series)
    }

    pub fn wait_for_state(&self, server: &Server, state: &str) {
        self.wait_for_metric(
            &format!("tidegate_upstream_server_state{{server=\"{}\",state=\"{state}\"}}", server.address()),
            1.0,
        );
    }

    /// What `tidegate status` prints.
    pub fn status(&self) -> String {
        let arguments = ["status", "--admin", &self.proxy.admin].map(str::to_owned);
        let folder = self.proxy.places.folder();
        let mut command = Program::start(std::path::Path::new(PROGRAM), &arguments, folder, None).expect("it starts");
        assert_eq!(command.wait_exit(BOUND), Ok(0), "{}", command.output());
        // What the process wrote last may still be on its way to us.
        let begin = Instant::now();
        let is_told = |stdout: String| stdout.contains("POOL/SERVER") || stdout.contains("has named no server yet");
        while !is_told(command.stdout()) && begin.elapsed() < BOUND {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(50));
        command.stdout()
    }

    /// Waits until `tidegate status` says this.
    pub fn wait_for_status(&self, text: &str) {
        let begin = Instant::now();
        loop {
            let page = self.status();
            if page.contains(text) {
                return;
            }
            assert!(begin.elapsed() < BOUND, "`{text}` is not in\n{page}");
        }
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, future)
}
