//! The program as the controller of a cluster, with an emulated API server; and objects as people write them.

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_testkit::case::Places;
use tidegate_testkit::client::ClientAnswer;
use tidegate_testkit::kubernetes::{ApiServer, TOKEN};
use tidegate_testkit::rustls::ClientConfig;
use tidegate_testkit::server::Server;
use tidegate_testkit::tls::{ClientOptions, client_config};
use tidegate_testkit::tokio::task::LocalSet;
use tidegate_testkit::{Client, Program, Surroundings, get, tokio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// Whatever has to happen happens by then, however busy the machine.
pub const BOUND: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The program, and where it is reached.
pub struct Controller {
    pub program: Program,
    pub admin: String,
    pub http: SocketAddr,
    pub https: SocketAddr,
    pub places: Places,
    arguments: Vec<String>,
}

impl Controller {
    /// Started, and perhaps not ready; `more` are further arguments.
    pub fn begin(cluster: &ApiServer, base: &str, more: &[&str]) -> Controller {
        let mut places = Places::new().expect("a folder");
        let file = places.fill("{dir}/base.kdl").expect("a name");
        let text = format!("admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 2\ndrain \"5s\"\n{base}");
        let text = places.fill(&text).expect("places");
        std::fs::write(&file, text).expect("a file");
        let token = places.fill("{dir}/token").expect("a name");
        std::fs::write(&token, TOKEN).expect("a file");
        let address = |text: String| text.parse::<SocketAddr>().expect("an address");
        let http = address(places.fill("127.0.0.1:{port:http}").expect("a port"));
        let https = address(places.fill("127.0.0.1:{port:https}").expect("a port"));
        let admin = places.admin_address().expect("a port");
        places.release_proxy_ports();
        let said = [
            "kubernetes",
            "run",
            "--config",
            &file,
            "--api",
            &cluster.url(),
            "--token-file",
            &token,
            "--http",
            &http.to_string(),
            "--https",
            &https.to_string(),
            "--lease",
            "edge/tidegate",
        ]
        .map(str::to_owned);
        let arguments: Vec<String> = said.into_iter().chain(more.iter().map(ToString::to_string)).collect();
        let program = start(&places, &arguments);
        Controller { program, admin, http, https, places, arguments }
    }

    pub fn start(cluster: &ApiServer, more: &[&str]) -> Controller {
        let mut controller = Controller::begin(cluster, "", more);
        controller.wait_until_ready();
        controller
    }

    /// As `kubectl` has it.
    pub fn kubeconfig(cluster: &ApiServer) -> String {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": cluster.url()}}],
            "users": [{"name": "test", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        })
        .to_string()
    }

    /// The process ends without a word, and another one begins.
    pub fn kill_and_begin(&mut self) {
        self.program.signal("KILL").expect("a signal");
        let _ = self.program.wait_exit(BOUND);
        self.program = start(&self.places, &self.arguments);
    }

    pub fn wait_until_ready(&mut self) {
        let admin = self.admin.clone();
        self.program.wait_until("ready", || matches!(get(&admin, "/readyz"), Ok((200, _)))).expect("a ready process");
    }

    pub fn readiness(&self) -> u16 {
        get(&self.admin, "/readyz").map_or(0, |(status, _)| status)
    }

    /// Status and body over plain HTTP.
    pub fn ask(&self, host: &str, path: &str) -> Result<(u16, String), String> {
        block_on(async {
            let mut client = Client::connect(self.http).await?;
            let answer = client.get(host, path).await?;
            Ok((answer.status, String::from_utf8_lossy(&answer.body).into_owned()))
        })
    }

    /// Status and body over HTTPS, whatever certificate is shown.
    pub fn ask_over_tls(&self, host: &str, path: &str) -> Result<(u16, String), String> {
        self.ask_on_connection_for(host, host, path)
    }

    /// Status and body of a host over a connection whose handshake named another one.
    pub fn ask_on_connection_for(&self, named: &str, host: &str, path: &str) -> Result<(u16, String), String> {
        let options = ClientOptions { send_sni: true, ..ClientOptions::default() };
        let trusting: Arc<ClientConfig> = Arc::new(client_config(None, &options)?);
        block_on(async {
            let mut client = Client::connect_tls(self.https, trusting, named).await?;
            let answer = client.get(host, path).await?;
            Ok((answer.status, String::from_utf8_lossy(&answer.body).into_owned()))
        })
    }

    /// The answer to a request with these fields, over HTTPS where it is asked for.
    pub fn answer(&self, asked: &Asked<'_>) -> Result<ClientAnswer, String> {
        let Asked { over_tls, host, path, fields, certificate, tls_version } = *asked;
        let lines: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{}\r\n", lines.concat());
        let certificate = certificate.map(Path::to_path_buf);
        let versions = tls_version.map(str::to_owned).into_iter().collect();
        let options = ClientOptions { send_sni: true, certificate, versions, ..ClientOptions::default() };
        let trusting: Arc<ClientConfig> = Arc::new(client_config(None, &options)?);
        block_on(async {
            let mut client = if over_tls {
                Client::connect_tls(self.https, trusting, host).await?
            } else {
                Client::connect(self.http).await?
            };
            client.connection.write(request.as_bytes()).await.map_err(|error| format!("send: {error}"))?;
            client.receive().await
        })
    }

    /// Waits until the answer has this status and these words.
    pub fn wait_for_answer(&self, asked: &Asked<'_>, status: u16, body: &str) -> ClientAnswer {
        let seen = || self.answer(asked).map(|answer| (answer.status, String::from_utf8_lossy(&answer.body).into_owned()));
        self.wait(&format!("{status} {body} of {asked:?}"), seen, status, body);
        self.answer(asked).expect("an answer")
    }

    pub fn expect(&self, host: &str, path: &str, status: u16, body: &str) {
        let (seen, text) = self.ask(host, path).unwrap_or_else(|error| panic!("{error}\n{}", self.program.output()));
        assert!(seen == status && text.contains(body), "{host}{path}: {seen} {text}\n{}", self.program.output());
    }

    /// Asks until the answer has this status and these words.
    pub fn wait_for(&self, host: &str, path: &str, status: u16, body: &str) {
        self.wait(&format!("{status} {body} of {host}{path}"), || self.ask(host, path), status, body);
    }

    pub fn wait_for_over_tls(&self, host: &str, path: &str, status: u16, body: &str) {
        self.wait(&format!("{status} {body} of https {host}{path}"), || self.ask_over_tls(host, path), status, body);
    }

    fn wait(&self, what: &str, ask: impl Fn() -> Result<(u16, String), String>, status: u16, body: &str) {
        let begin = Instant::now();
        loop {
            let seen = ask();
            if seen.as_ref().is_ok_and(|(seen, text)| *seen == status && text.contains(body)) {
                return;
            }
            assert!(begin.elapsed() < BOUND, "{what}: {seen:?}\n{}\n{}", self.status(), self.program.output());
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// What `tidegate status` prints.
    pub fn status(&self) -> String {
        self.call(&["status"])
    }

    /// What the command says, on standard output and error.
    pub fn call(&self, arguments: &[&str]) -> String {
        let output = std::process::Command::new(PROGRAM)
            .args(arguments)
            .args(["--admin", &self.admin])
            .env("STATE_DIRECTORY", self.places.folder().join("state"))
            .output()
            .expect("the program");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    pub fn wait_for_status(&self, text: &str) {
        let begin = Instant::now();
        loop {
            let status = self.status();
            if status.contains(text) {
                return;
            }
            assert!(begin.elapsed() < BOUND, "`{text}` is not in\n{status}\n{}", self.program.output());
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// What a client asks for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub over_tls: bool,
    pub host: &'a str,
    pub path: &'a str,
    pub fields: &'a [(&'a str, &'a str)],
    /// Chain and key, in a file.
    pub certificate: Option<&'a Path>,
    /// The only one, as `1.2`.
    pub tls_version: Option<&'a str>,
}

impl<'a> Asked<'a> {
    pub fn of(host: &'a str, path: &'a str) -> Asked<'a> {
        Asked { over_tls: false, host, path, fields: &[], certificate: None, tls_version: None }
    }
}

fn start(places: &Places, arguments: &[String]) -> Program {
    let state = places.folder().join("state").display().to_string();
    let surroundings = Surroundings { environment: vec![("STATE_DIRECTORY", state)], ..Surroundings::default() };
    Program::start_in(Path::new(PROGRAM), arguments, places.folder(), &surroundings).expect("a program")
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, future)
}

pub fn class() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "tidegate"},
        "spec": {"controller": "tidegate.dev/ingress"},
    })
}

/// With a port 80, whose name is `http`.
pub fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": name},
        "spec": {"ports": [{"name": "http", "port": 80}]},
    })
}

/// The servers of a Service.
pub fn slice(service: &str, servers: &[&Server]) -> Value {
    let endpoints: Vec<Value> =
        servers.iter().map(|_| json!({"addresses": ["127.0.0.1"], "conditions": {"ready": true}})).collect();
    let port = servers.first().map_or(1, |server| server.address().port());
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": "shop", "name": format!("{service}-1"), "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": port}], "endpoints": endpoints,
    })
}

/// Everything of a host goes to a Service.
pub fn ingress(name: &str, host: &str, service: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "creationTimestamp": "2026-11-20T10:00:00Z"},
        "spec": {
            "ingressClassName": "tidegate",
            "rules": [{"host": host, "http": {"paths": [{
                "path": "/", "pathType": "Prefix",
                "backend": {"service": {"name": service, "port": {"number": 80}}},
            }]}}],
        },
    })
}
