//! Asks over HTTP/2: several clients share a connection, each has one stream of it at a time.
//! Framing is the `h2` crate's. A connection that has ended is opened anew by the first client that needs it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Method, Request, Version};
use tokio::sync::Mutex;

use crate::client::body::BodyCheck;
use crate::client::connection::{Connection, Http2Io};
use crate::client::failure::Failure;
use crate::client::{Answered, Question};

/// Wide enough that flow control never holds a page back; a browser's are of this order.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// Shared by the clients of its streams.
#[derive(Default)]
pub struct Http2Connection {
    sender: RefCell<Option<SendRequest<Bytes>>>,
    /// Counts connections, so that a stream of an old one does not have a new one forgotten.
    generation: Cell<u64>,
    /// Held while connecting, so that one connection is made and not one for each stream.
    opening: Mutex<()>,
}

pub struct Http2Client {
    connection: Rc<Http2Connection>,
}

impl Http2Client {
    pub fn new(connection: Rc<Http2Connection>) -> Http2Client {
        Http2Client { connection }
    }

    pub async fn connect(&mut self, question: &Question) -> Result<(), Failure> {
        self.connection.sender(question).await.map(|_| ())
    }

    pub async fn ask(&mut self, question: &Question) -> Result<Answered, Failure> {
        match self.ask_once(question).await {
            // A stream that the server has not begun.
            Err(Refusal::NotProcessed { .. }) => match self.ask_once(question).await {
                Ok(()) => Ok(Answered { sent_again: true, handshake: None }),
                Err(Refusal::NotProcessed { .. }) => {
                    Err(Failure::Http2("the server twice refused to begin with the request".into()))
                }
                Err(Refusal::Failed(failure)) => Err(failure),
            },
            Err(Refusal::Failed(failure)) => Err(failure),
            Ok(()) => Ok(Answered::default()),
        }
    }

    async fn ask_once(&mut self, question: &Question) -> Result<(), Refusal> {
        let sender = self.connection.sender(question).await.map_err(Refusal::Failed)?;
        let generation = self.connection.generation.get();
        let outcome = exchange(sender, question).await;
        if let Err(refusal) = &outcome
            && refusal.ends_connection()
            && self.connection.generation.get() == generation
        {
            self.connection.forget();
        }
        outcome
    }
}

/// Why a stream brought no right answer.
enum Refusal {
    /// The server says that it has not looked at the request: GOAWAY before it, or REFUSED_STREAM, which leaves the
    /// connection.
    NotProcessed {
        going_away: bool,
    },
    Failed(Failure),
}

impl Refusal {
    fn ends_connection(&self) -> bool {
        match self {
            Refusal::NotProcessed { going_away } => *going_away,
            Refusal::Failed(failure) => !failure.leaves_connection_usable(),
        }
    }
}

impl From<h2::Error> for Refusal {
    fn from(error: h2::Error) -> Refusal {
        let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
        let going_away = error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
        if refused || going_away { Refusal::NotProcessed { going_away } } else { Refusal::Failed(error.into()) }
    }
}

impl Http2Connection {
    fn forget(&self) {
        self.sender.borrow_mut().take();
    }

    async fn sender(&self, question: &Question) -> Result<SendRequest<Bytes>, Failure> {
        if let Some(sender) = self.sender.borrow().clone() {
            return Ok(sender);
        }
        let _opening = self.opening.lock().await;
        if let Some(sender) = self.sender.borrow().clone() {
            return Ok(sender);
        }
        let connection = Connection::open(&question.target).await?;
        if question.target.tls.is_some() && connection.alpn() != Some(b"h2") {
            return Err(Failure::Tls("the server did not choose HTTP/2".into()));
        }
        let (sender, driver) = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .enable_push(false)
            .handshake::<_, Bytes>(Http2Io::new(connection))
            .await?;
        // Ends with the connection; what it has to say reaches each stream.
        tokio::task::spawn_local(async move { driver.await.ok() });
        *self.sender.borrow_mut() = Some(sender.clone());
        self.generation.set(self.generation.get() + 1);
        Ok(sender)
    }
}

async fn exchange(sender: SendRequest<Bytes>, question: &Question) -> Result<(), Refusal> {
    let scheme = if question.target.tls.is_some() { "https" } else { "http" };
    let mut request = Request::builder()
        .method(Method::GET)
        .version(Version::HTTP_2)
        .uri(format!("{scheme}://localhost{}", question.path))
        .header("user-agent", "tidegate-lab")
        .header("accept", "*/*");
    if let Some(coding) = &question.accept_encoding {
        request = request.header("accept-encoding", coding);
    }
    let request = request.body(()).map_err(|error| Refusal::Failed(Failure::Http2(error.to_string())))?;
    let mut sender = sender.ready().await?;
    let (response, _) = sender.send_request(request, true)?;
    let response = response.await?;
    let status = response.status().as_u16();
    let encoding = response.headers().get("content-encoding").map(|value| value.as_bytes().to_vec());
    let mut check = if status == 200 {
        BodyCheck::begin(encoding.as_deref(), &question.expected).map_err(wrong)?
    } else {
        BodyCheck::Ignored
    };
    let mut body = response.into_body();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        check.take(&piece, &question.expected).map_err(wrong)?;
        body.flow_control().release_capacity(piece.len())?;
    }
    check.finish(&question.expected).map_err(wrong)?;
    if status == 200 { Ok(()) } else { Err(Refusal::Failed(Failure::Status(status))) }
}

fn wrong(bad: crate::client::response::BadResponse) -> Refusal {
    Refusal::Failed(bad.into())
}
