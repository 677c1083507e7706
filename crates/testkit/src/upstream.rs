//! An upstream without a script: what it does with a request it always does with such a request. It counts:
//! connections, requests, how many are open now. Scripted upstreams, which follow a case line by line, are in `case/`.

use crate::connection::{Connection, Socket};
use crate::head::Head;
use crate::{http2, pattern};
use bytes::Bytes;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{io, thread};
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

/// Piece of a generated body that is written at once.
const PIECE_BYTES: u64 = 64 << 10;

/// What [`PathOrder::Drip`] sends at a time.
const DRIP_BYTES: usize = 100;
const DRIP_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Clone)]
pub struct Behaviour {
    pub answer: Answer,
    /// Close the connection after each answer.
    pub close: bool,
    /// Before each answer.
    pub delay: Option<Duration>,
    /// Close a connection on which no further request comes for this long. The first may take as long as it likes, as
    /// with servers, which give it much more: on a busy machine it comes late.
    pub idle_close: Option<Duration>,
}

impl Behaviour {
    pub fn new(answer: Answer) -> Behaviour {
        Behaviour { answer, close: false, delay: None, idle_close: None }
    }
}

#[derive(Debug, Clone)]
pub enum Answer {
    /// These bytes.
    Fixed(Vec<u8>),
    /// 200 with a body of this text.
    Text(Vec<u8>),
    /// 200 with the head of the request as body.
    EchoHead,
    /// 200 with the body of the request as body, as it arrives; trailers too.
    EchoBody,
    /// 200 with this many bytes of the test pattern.
    Pattern(u64),
    /// What the path asks for: see [`PathOrder`].
    ByPath,
    /// None: the connection is reset.
    Reset,
    /// None: the request is taken, and the connection stays silent until the client goes.
    Silence,
}

/// What is done with a request.
pub type Choose = dyn Fn(&Head) -> Behaviour;

#[derive(Debug, Default)]
pub struct Counters {
    pub connections: AtomicU64,
    pub requests: AtomicU64,
    pub open: AtomicU64,
}

/// A running upstream on a thread of its own, for tests written in Rust. It ends with the test's process.
#[derive(Debug)]
pub struct Upstream {
    pub address: SocketAddr,
    pub counters: Arc<Counters>,
}

impl Upstream {
    pub fn start(behaviour: Behaviour) -> io::Result<Upstream> {
        Upstream::start_with(behaviour, false)
    }

    /// HTTP/2 without TLS, by prior knowledge.
    pub fn start_h2c(behaviour: Behaviour) -> io::Result<Upstream> {
        Upstream::start_with(behaviour, true)
    }

    fn start_with(behaviour: Behaviour, h2: bool) -> io::Result<Upstream> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let counters = Arc::new(Counters::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = counters.clone();
        thread::Builder::new().name("upstream".into()).spawn(move || {
            let choose: Rc<Choose> = Rc::new(move |_| behaviour.clone());
            let accepting = async move {
                let listener = TcpListener::from_std(listener)?;
                loop {
                    let (tcp, _) = listener.accept().await?;
                    spawn_local(serve(Socket::Plain(tcp), h2, choose.clone(), shared.clone()));
                }
            };
            let _: io::Result<()> = LocalSet::new().block_on(&runtime, accepting);
        })?;
        Ok(Upstream { address, counters })
    }

    pub fn connections(&self) -> u64 {
        self.counters.connections.load(Ordering::Relaxed)
    }

    pub fn requests(&self) -> u64 {
        self.counters.requests.load(Ordering::Relaxed)
    }

    pub fn open(&self) -> u64 {
        self.counters.open.load(Ordering::Relaxed)
    }
}

/// One connection, until either side ends it. Faults of the peer end it silently: clients of the tests see them.
pub async fn serve(socket: Socket, h2: bool, choose: Rc<Choose>, counters: Arc<Counters>) {
    counters.connections.fetch_add(1, Ordering::Relaxed);
    counters.open.fetch_add(1, Ordering::Relaxed);
    if h2 {
        serve_http2(socket, &choose, &counters).await;
    } else {
        let _ = serve_http1(Connection::new(socket), &choose, &counters).await;
    }
    counters.open.fetch_sub(1, Ordering::Relaxed);
}

async fn serve_http1(mut connection: Connection, choose: &Rc<Choose>, counters: &Counters) -> Result<(), String> {
    let mut idle_close = None;
    loop {
        let head = match idle_close {
            Some(idle) => timeout(idle, connection.read_head()).await.map_err(|_| "idle".to_owned())??,
            None => connection.read_head().await?,
        };
        counters.requests.fetch_add(1, Ordering::Relaxed);
        if head.value("expect").is_some() {
            connection.write(b"HTTP/1.1 100 Continue\r\n\r\n").await.map_err(|error| error.to_string())?;
        }
        let behaviour = choose(&head);
        let goes_on = answer_http1(&mut connection, &head, &behaviour).await?;
        idle_close = behaviour.idle_close;
        if behaviour.close {
            let _ = connection.close_write().await;
            return Ok(());
        }
        match goes_on {
            After::Keep => {}
            After::Close => return Ok(()),
            After::Reset => {
                connection.reset();
                return Ok(());
            }
        }
    }
}

pub(crate) enum After {
    Keep,
    Close,
    Reset,
}

async fn answer_http1(connection: &mut Connection, head: &Head, behaviour: &Behaviour) -> Result<After, String> {
    let text = |error: io::Error| error.to_string();
    let is_head = head.start.starts_with("HEAD ");
    if !matches!(behaviour.answer, Answer::EchoBody | Answer::ByPath) {
        while connection.read_data().await?.is_some() {}
    }
    if let Some(delay) = behaviour.delay {
        sleep(delay).await;
    }
    let body = match &behaviour.answer {
        Answer::Fixed(bytes) => {
            let head_end = bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(bytes.len(), |position| position + 4);
            connection.write(if is_head { &bytes[..head_end] } else { bytes }).await.map_err(text)?;
            return Ok(After::Keep);
        }
        Answer::Text(body) => body.clone(),
        Answer::EchoHead => head.text().into_bytes(),
        Answer::EchoBody => {
            connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.map_err(text)?;
            return echo_chunks(connection).await;
        }
        Answer::Pattern(bytes) => return send_pattern(connection, *bytes, is_head, None).await,
        Answer::ByPath => return by_path(connection, PathOrder::read(&head.start), is_head).await,
        Answer::Reset => return by_path(connection, PathOrder::Reset, is_head).await,
        Answer::Silence => return by_path(connection, PathOrder::Hang, is_head).await,
    };
    let mut answer =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    if !is_head {
        answer.extend_from_slice(&body);
    }
    connection.write(&answer).await.map_err(text)?;
    Ok(After::Keep)
}

async fn echo_chunks(connection: &mut Connection) -> Result<After, String> {
    let text = |error: io::Error| error.to_string();
    while let Some(piece) = connection.read_data().await? {
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(&piece);
        chunk.extend_from_slice(b"\r\n");
        connection.write(&chunk).await.map_err(text)?;
    }
    let mut last = b"0\r\n".to_vec();
    for (name, value) in &connection.trailers {
        last.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    last.extend_from_slice(b"\r\n");
    connection.write(&last).await.map_err(text)?;
    Ok(After::Keep)
}

async fn send_pattern(connection: &mut Connection, bytes: u64, is_head: bool, stop_at: Option<u64>) -> Result<After, String> {
    let text = |error: io::Error| error.to_string();
    connection.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").as_bytes()).await.map_err(text)?;
    let mut sent = if is_head { bytes } else { 0 };
    while sent < stop_at.unwrap_or(bytes) {
        let length = (stop_at.unwrap_or(bytes) - sent).min(PIECE_BYTES);
        connection.write(&pattern::pattern(sent, length as usize)).await.map_err(text)?;
        sent += length;
    }
    Ok(After::Keep)
}

/// What a client asks of [`Answer::ByPath`] with its path, for tests that mix many kinds of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathOrder {
    /// `/bytes/N`: that much of the pattern.
    Bytes(u64),
    /// `/half/N`: promises that much, sends half and closes.
    Half(u64),
    /// `/cut/N`: the same, with a reset.
    Cut(u64),
    /// `/echo`: the body back.
    Echo,
    /// `/reset`: no answer, a reset.
    Reset,
    /// `/hang`: no answer until the client goes.
    Hang,
    /// `/upgrade`: 101, then every byte back.
    Upgrade,
    /// `/drip`: the pattern in small chunks with pauses between them, until the client goes.
    Drip,
    Unknown,
}

impl PathOrder {
    /// Reads it out of a request line.
    pub fn read(request_line: &str) -> PathOrder {
        let path = request_line.split(' ').nth(1).unwrap_or_default();
        let mut parts = path.trim_start_matches('/').split('/');
        let word = parts.next().unwrap_or_default();
        let number = parts.next().and_then(|number| number.parse().ok()).unwrap_or(0);
        match word {
            "bytes" => PathOrder::Bytes(number),
            "half" => PathOrder::Half(number),
            "cut" => PathOrder::Cut(number),
            "echo" => PathOrder::Echo,
            "reset" => PathOrder::Reset,
            "hang" => PathOrder::Hang,
            "upgrade" => PathOrder::Upgrade,
            "drip" => PathOrder::Drip,
            _ => PathOrder::Unknown,
        }
    }
}

pub(crate) async fn by_path(connection: &mut Connection, order: PathOrder, is_head: bool) -> Result<After, String> {
    let text = |error: io::Error| error.to_string();
    if order == PathOrder::Echo {
        connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.map_err(text)?;
        return echo_chunks(connection).await;
    }
    while connection.read_data().await?.is_some() {}
    match order {
        PathOrder::Bytes(bytes) => send_pattern(connection, bytes, is_head, None).await,
        PathOrder::Half(bytes) => send_pattern(connection, bytes, is_head, Some(bytes / 2)).await.map(|_| After::Close),
        PathOrder::Cut(bytes) => send_pattern(connection, bytes, is_head, Some(bytes / 2)).await.map(|_| After::Reset),
        PathOrder::Echo => Ok(After::Keep),
        PathOrder::Reset => Ok(After::Reset),
        PathOrder::Hang => {
            while connection.receive().await {}
            Ok(After::Close)
        }
        PathOrder::Upgrade => {
            let answer = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
            connection.write(answer).await.map_err(text)?;
            loop {
                let piece = std::mem::take(&mut connection.received);
                connection.write(&piece).await.map_err(text)?;
                if !connection.receive().await {
                    return Ok(After::Close);
                }
            }
        }
        PathOrder::Drip => drip(connection).await,
        PathOrder::Unknown => {
            connection.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await.map_err(text)?;
            Ok(After::Keep)
        }
    }
}

pub(crate) async fn drip(connection: &mut Connection) -> Result<After, String> {
    let text = |error: io::Error| error.to_string();
    connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.map_err(text)?;
    let mut sent = 0;
    loop {
        let chunk = [format!("{DRIP_BYTES:x}\r\n").into_bytes(), pattern::pattern(sent, DRIP_BYTES), b"\r\n".to_vec()].concat();
        connection.write(&chunk).await.map_err(text)?;
        sent += DRIP_BYTES as u64;
        sleep(DRIP_PAUSE).await;
    }
}

async fn serve_http2(socket: Socket, choose: &Rc<Choose>, counters: &Counters) {
    let Ok(mut connection) = h2::server::Builder::new().max_concurrent_streams(1000).handshake::<_, Bytes>(socket).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        counters.requests.fetch_add(1, Ordering::Relaxed);
        let choose = choose.clone();
        spawn_local(async move {
            // An error here is the client's going away, which it sees itself.
            let _ = answer_http2(request, respond, &choose).await;
        });
    }
}

fn path_of(head: &Head) -> String {
    String::from_utf8_lossy(&head.value(":path").unwrap_or_default()).into_owned()
}

async fn answer_http2(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    choose: &Rc<Choose>,
) -> Result<(), h2::Error> {
    let head = http2::request_head(&request);
    let behaviour = choose(&head);
    let mut body = request.into_body();
    let mut response = http::Response::new(());
    let order = match behaviour.answer {
        Answer::ByPath => Some(PathOrder::read(&format!("GET {}", path_of(&head)))),
        _ => None,
    };
    if matches!(behaviour.answer, Answer::EchoBody) || order == Some(PathOrder::Echo) {
        let mut stream = respond.send_response(response, false)?;
        while let Some(piece) = http2::receive_data(&mut body).await {
            http2::send_all(&mut stream, piece?, false).await?;
        }
        return match body.trailers().await? {
            Some(trailers) => stream.send_trailers(trailers),
            None => stream.send_data(Bytes::new(), true),
        };
    }
    while let Some(piece) = http2::receive_data(&mut body).await {
        piece?;
    }
    if let Some(delay) = behaviour.delay {
        sleep(delay).await;
    }
    let text = match &behaviour.answer {
        Answer::Reset => {
            respond.send_reset(h2::Reason::INTERNAL_ERROR);
            return Ok(());
        }
        Answer::Silence => return poll_fn(|cx| respond.poll_reset(cx)).await.map(drop),
        Answer::Fixed(bytes) | Answer::Text(bytes) => bytes.clone(),
        Answer::EchoHead => head.text().into_bytes(),
        Answer::Pattern(bytes) => pattern::pattern(0, *bytes as usize),
        Answer::EchoBody => Vec::new(),
        Answer::ByPath => match order.unwrap_or(PathOrder::Unknown) {
            PathOrder::Bytes(bytes) => pattern::pattern(0, bytes as usize),
            // However the connection would end that they ask to be ended: of HTTP/2, the stream is.
            PathOrder::Half(bytes) | PathOrder::Cut(bytes) => {
                response.headers_mut().insert(http::header::CONTENT_LENGTH, bytes.into());
                let mut stream = respond.send_response(response, false)?;
                http2::send_all(&mut stream, Bytes::from(pattern::pattern(0, bytes as usize / 2)), false).await?;
                stream.send_reset(h2::Reason::INTERNAL_ERROR);
                return Ok(());
            }
            PathOrder::Reset => {
                respond.send_reset(h2::Reason::INTERNAL_ERROR);
                return Ok(());
            }
            PathOrder::Hang => return poll_fn(|cx| respond.poll_reset(cx)).await.map(drop),
            PathOrder::Echo | PathOrder::Upgrade | PathOrder::Drip | PathOrder::Unknown => {
                *response.status_mut() = http::StatusCode::NOT_FOUND;
                Vec::new()
            }
        },
    };
    let mut stream = respond.send_response(response, false)?;
    http2::send_all(&mut stream, Bytes::from(text), true).await
}
