//! The program that is asked: what its API says of a request, and what becomes of the request when it is sent.

use super::configuration::{PORTS, Written};
use super::question::Question;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tidegate_testkit::client::tls_socket;
use tidegate_testkit::connection::Socket;
use tidegate_testkit::rustls::ClientConfig;
use tidegate_testkit::tls::{ClientOptions, client_config};
use tidegate_testkit::tokio::io::{AsyncReadExt, AsyncWriteExt};
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Proxy, h2, http, tokio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// A first configuration, which is the right one for no request.
const FIRST: &str = "edition \"2026\"\nadmin \"127.0.0.1:{admin}\"\nthreads 1\naccess-log \"{dir}/access.log\"\n\
                     site \"http://:{port}\" { respond 500; }\n";
/// How long the log may take; generous, because tests share the machine with compilers.
const WAIT: Duration = Duration::from_secs(20);
/// The beginning of a ClientHello, which is enough to be told from a request.
const TLS_BEGINS: &[u8] = &[0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3];

pub struct Asked {
    proxy: Proxy,
    upstream: Upstream,
    token: String,
    /// For each of [`PORTS`].
    ports: [u16; 4],
    tls: Arc<ClientConfig>,
    tls_http1: Arc<ClientConfig>,
}

/// What became of a request.
#[derive(Debug)]
pub enum Told {
    Answered {
        status: u16,
        log: Value,
    },
    /// The connection failed before a request could be sent.
    Nothing(String),
}

impl Asked {
    pub fn start() -> Asked {
        let upstream = Upstream::start(Behaviour::new(Answer::Text(b"upstream".to_vec()))).expect("a port is free");
        let mut proxy = Proxy::start(PROGRAM, FIRST).expect("the proxy starts");
        let token_file = proxy.places.folder().join("state/admin-token");
        proxy.program.wait_until("with a token", || token_file.exists()).expect("a token is made");
        let token = fs::read_to_string(&token_file).expect("readable").trim().to_owned();
        let ports = PORTS.map(|port| proxy.places.fill(port).expect("a port").parse().expect("a number"));
        let certificate = proxy.places.certificate("someone@clients:client").expect("a certificate").combined;
        let with = |alpn: &[&str]| {
            let alpn = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
            let certificate = Some(certificate.clone());
            let options = ClientOptions { alpn, send_sni: true, certificate, ..ClientOptions::default() };
            Arc::new(client_config(None, &options).expect("a configuration"))
        };
        let (tls, tls_http1) = (with(&["h2", "http/1.1"]), with(&["http/1.1"]));
        Asked { proxy, upstream, token, ports, tls, tls_http1 }
    }

    fn log_file(&self) -> PathBuf {
        self.proxy.places.folder().join("access.log")
    }

    /// What the configuration says, with ports and files in the place of their names.
    pub fn filled(&mut self, written: &Written) -> String {
        self.proxy.places.fill(&self.with_upstream(written)).expect("every name is known")
    }

    fn with_upstream(&self, written: &Written) -> String {
        written.text.replace("UPSTREAM", &self.upstream.address.to_string())
    }

    pub fn apply(&mut self, written: &Written) -> Result<(), String> {
        let text = self.with_upstream(written);
        self.proxy.apply(&text)
    }

    /// What `explain` says of it.
    pub fn explain(&self, question: &Question) -> Value {
        let port = self.ports[question.port];
        let asked =
            json!({ "method": question.method, "url": question.url(port), "headers": question.headers(port) }).to_string();
        let head = format!(
            "POST /v1/explain HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.proxy.admin,
            self.token,
            asked.len()
        );
        let mut connection = TcpStream::connect(&self.proxy.admin).expect("it listens");
        connection.set_read_timeout(Some(WAIT)).expect("an option");
        connection.write_all(format!("{head}{asked}").as_bytes()).expect("written");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("an answer");
        let body = answer.split_once("\r\n\r\n").expect("a whole head").1;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{question:?}: {answer}");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// One after the other, each on a connection of its own. Their lines in the log are in the same order.
    pub async fn ask_all(&self, questions: &[Question]) -> Result<Vec<Told>, String> {
        let before = self.log_lines(0)?.len();
        let mut statuses = Vec::new();
        for question in questions {
            let sent = tokio::time::timeout(WAIT, self.ask(question)).await;
            statuses.push(sent.map_err(|_| format!("{question:?} was not answered"))?);
        }
        let answered = statuses.iter().filter(|status| status.is_ok()).count();
        let mut lines = self.log_lines(before + answered)?.into_iter().skip(before);
        let told = statuses.into_iter().map(|status| match status {
            Ok(status) => Told::Answered { status, log: lines.next().unwrap_or_default() },
            Err(error) => Told::Nothing(error),
        });
        Ok(told.collect())
    }

    /// All lines, once there are so many.
    fn log_lines(&self, least: usize) -> Result<Vec<Value>, String> {
        let begin = Instant::now();
        loop {
            let text = fs::read_to_string(self.log_file()).unwrap_or_default();
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            if whole.lines().count() >= least {
                return whole
                    .lines()
                    .map(|line| serde_json::from_str(line).map_err(|error| format!("{error}: {line}")))
                    .collect();
            }
            if begin.elapsed() > WAIT {
                return Err(format!("{least} lines are not in the log:\n{text}"));
            }
            sleep(Duration::from_millis(10));
        }
    }

    /// `Err`: no connection came about.
    async fn ask(&self, question: &Question) -> Result<u16, String> {
        let port = self.ports[question.port];
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let is_tls_port = question.port >= 2;
        if !question.is_tls || !is_tls_port {
            let mut socket = tokio::net::TcpStream::connect(address).await.map_err(|error| error.to_string())?;
            let bytes = if question.is_tls { TLS_BEGINS.to_vec() } else { closing(question.bytes(port)) };
            return ask_http1(&mut socket, &bytes).await;
        }
        let config = if question.by_http2 { &self.tls } else { &self.tls_http1 };
        let mut socket = tls_socket(address, config.clone(), question.name).await?;
        if socket.tls_facts().is_some_and(|facts| facts.alpn == b"h2") {
            return ask_http2(socket, question, port).await;
        }
        ask_http1(&mut socket, &closing(question.bytes(port))).await
    }
}

/// The request as the last of its connection: what comes then is the answer up to the end.
fn closing(mut request: Vec<u8>) -> Vec<u8> {
    request.truncate(request.len() - 2);
    request.extend_from_slice(b"Connection: close\r\n\r\n");
    request
}

async fn ask_http1(
    socket: &mut (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin),
    bytes: &[u8],
) -> Result<u16, String> {
    socket.write_all(bytes).await.map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    // What was refused may end in a reset behind its answer.
    let end = socket.read_to_end(&mut answer).await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.ok_or_else(|| format!("no answer: {text:?}, {end:?}"))
}

async fn ask_http2(socket: Socket, question: &Question, port: u16) -> Result<u16, String> {
    let text = |error: h2::Error| error.to_string();
    let (sender, connection) = h2::client::handshake(socket).await.map_err(text)?;
    let uri = format!("https://{}{}", question.authority(port), question.path);
    let mut request = http::Request::builder().method(question.method).uri(uri).version(http::Version::HTTP_2);
    for field in &question.fields {
        let (name, value) = field.split_once(": ").unwrap_or((field, ""));
        request = request.header(name, value);
    }
    let request = request.body(()).map_err(|error| error.to_string())?;
    let exchange = async {
        let mut sender = sender.ready().await.map_err(text)?;
        let response = sender.send_request(request, true).map_err(text)?.0.await.map_err(text)?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        while let Some(piece) = body.data().await {
            let length = piece.map_err(text)?.len();
            let _ = body.flow_control().release_capacity(length);
        }
        Ok(status)
    };
    let mut exchange = std::pin::pin!(exchange);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        outcome = &mut exchange => outcome,
        ended = &mut connection => Err(format!("the connection ended: {ended:?}")),
    }
}
