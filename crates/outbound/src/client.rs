//! One request, one whole answer. HTTP/1.1 over TLS or, for `http://`, without it.
//! Connections that were left in order are used again for a few seconds (`kept.rs`), since an order at a CA is a dozen
//! requests in a row.

use crate::connect::{Lasting, connect};
use crate::destination::Destination;
use crate::exchange::{Answer, BodyFault, Sender};
use crate::fault::{OutboundFault, Stage};
use crate::kept::Kept;
use crate::trust::{ClientIdentity, Roots, Trust};
use bytes::{Bytes, BytesMut};
use http::header::{HOST, HeaderValue, USER_AGENT};
use http::{Request, Response, Uri, response};
use http_body_util::Full;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const PRODUCT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

/// What one exchange may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the look-up of the name to the last byte of the answer.
    pub total: Duration,
    /// Of the answer's body.
    pub body_bytes_max: usize,
}

impl Default for Limits {
    /// Enough for any answer of an API; a CA under load takes its time.
    fn default() -> Self {
        Limits { total: Duration::from_secs(30), body_bytes_max: 1 << 20 }
    }
}

/// Clones share roots and connections. It needs a tokio runtime with sockets and timers, and may be used from several.
#[derive(Clone)]
pub struct HttpsClient(Arc<Inner>);

struct Inner {
    roots: Roots,
    kept: Kept,
}

impl HttpsClient {
    /// Reads the file of `Trust::File`, so that what is wrong with it is known now. The system's roots are read when
    /// they are first needed.
    pub fn new(trust: Trust) -> Result<HttpsClient, OutboundFault> {
        HttpsClient::with_identity(trust, None)
    }

    /// As [`HttpsClient::new`], with a certificate for servers that ask for one.
    pub fn with_identity(trust: Trust, identity: Option<ClientIdentity>) -> Result<HttpsClient, OutboundFault> {
        Ok(HttpsClient(Arc::new(Inner { roots: Roots::new(trust, identity)?, kept: Kept::default() })))
    }

    /// The answer, whatever its status. The URL says with its scheme whether there is TLS; a redirect is an answer as
    /// any other.
    pub async fn send(&self, request: Request<Bytes>, limits: Limits) -> Result<Response<Bytes>, OutboundFault> {
        let destination = Destination::of(request.uri())?;
        let stage = Mutex::new(Stage::Resolving);
        let exchange = self.exchange(&destination, request, limits, &stage);
        match tokio::time::timeout(limits.total, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let stage = *stage.lock().unwrap_or_else(PoisonError::into_inner);
                Err(OutboundFault::TimedOut { host: destination.to_string(), stage, total: limits.total })
            }
        }
    }

    /// The head of an answer whose body has no end in sight, over a connection of its own. `head_within` is from the
    /// look-up of the name to the end of the head; what the body may take is said for each piece of it.
    pub async fn open(&self, request: Request<Bytes>, head_within: Duration) -> Result<OpenAnswer, OutboundFault> {
        let destination = Destination::of(request.uri())?;
        let stage = Mutex::new(Stage::Resolving);
        let asking = async {
            let request = prepared(request, &destination)?;
            let mut sender = connect(&destination, &self.0.roots, Lasting::Long, &|next| set(&stage, next)).await?;
            set(&stage, Stage::Answering);
            let answer = sender.send_request(request).await.map_err(|error| broken(&destination, &error))?;
            Ok((Answer::of(answer), sender))
        };
        match tokio::time::timeout(head_within, asking).await {
            Ok(Ok((answer, sender))) => Ok(OpenAnswer { answer, destination, _sender: sender }),
            Ok(Err(fault)) => Err(fault),
            Err(_) => {
                let stage = *stage.lock().unwrap_or_else(PoisonError::into_inner);
                Err(OutboundFault::TimedOut { host: destination.to_string(), stage, total: head_within })
            }
        }
    }

    async fn exchange(
        &self,
        destination: &Destination,
        request: Request<Bytes>,
        limits: Limits,
        stage: &Mutex<Stage>,
    ) -> Result<Response<Bytes>, OutboundFault> {
        let mut request = prepared(request, destination)?;
        // A kept connection may be closing at this moment. A request that hyper gives back unsent goes to another, and
        // so does one that asks for nothing to be done (RFC 9110 section 9.2.1).
        let again = request.method().is_safe().then(|| request.clone());
        while let Some(mut sender) = self.0.kept.take(destination, Instant::now()) {
            set(stage, Stage::Answering);
            match sender.try_send_request(request).await {
                Ok(answer) => return self.whole(Answer::of(answer), sender, destination, limits).await,
                Err(mut error) => match error.take_message().or_else(|| again.clone()) {
                    Some(unsent) => request = unsent,
                    None => return Err(broken(destination, error.error())),
                },
            }
        }
        let mut sender = connect(destination, &self.0.roots, Lasting::Short, &|next| set(stage, next)).await?;
        set(stage, Stage::Answering);
        let answer = sender.send_request(request).await.map_err(|error| broken(destination, &error))?;
        self.whole(Answer::of(answer), sender, destination, limits).await
    }

    async fn whole(
        &self,
        answer: Answer,
        sender: Sender,
        destination: &Destination,
        limits: Limits,
    ) -> Result<Response<Bytes>, OutboundFault> {
        let head = answer.head.clone();
        let body = answer.whole(limits.body_bytes_max).await.map_err(|fault| match fault {
            BodyFault::TooLarge => {
                OutboundFault::BodyTooLarge { host: destination.to_string(), bytes_max: limits.body_bytes_max }
            }
            BodyFault::Broken(error) => {
                let problem = format!("breaks off its answer: {}", innermost(&error));
                OutboundFault::Broken { host: destination.to_string(), problem }
            }
        })?;
        self.0.kept.put(destination, sender, Instant::now());
        Ok(Response::from_parts(head, body))
    }
}

/// An answer whose body comes piece by piece. Its connection is closed with it.
pub struct OpenAnswer {
    answer: Answer,
    destination: Destination,
    /// The connection's task ends with its sender.
    _sender: Sender,
}

impl OpenAnswer {
    pub fn head(&self) -> &response::Parts {
        &self.answer.head
    }

    /// The next bytes of the body, `None` at its end. Nothing is lost when this is dropped half way.
    pub async fn piece(&mut self, within: Duration) -> Result<Option<Bytes>, OutboundFault> {
        let host = || self.destination.to_string();
        match tokio::time::timeout(within, self.answer.piece()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => {
                let problem = format!("breaks off its answer: {}", innermost(&error));
                Err(OutboundFault::Broken { host: host(), problem })
            }
            Err(_) => Err(OutboundFault::TimedOut { host: host(), stage: Stage::Continuing, total: within }),
        }
    }

    /// The whole body, when it turns out to be a short one.
    pub async fn whole(mut self, limits: Limits) -> Result<Bytes, OutboundFault> {
        let mut body = BytesMut::new();
        while let Some(piece) = self.piece(limits.total).await? {
            if piece.len() > limits.body_bytes_max - body.len() {
                let host = self.destination.to_string();
                return Err(OutboundFault::BodyTooLarge { host, bytes_max: limits.body_bytes_max });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }
}

fn set(stage: &Mutex<Stage>, next: Stage) {
    *stage.lock().unwrap_or_else(PoisonError::into_inner) = next;
}

/// In origin form, with the fields that every request has.
fn prepared(request: Request<Bytes>, destination: &Destination) -> Result<Request<Full<Bytes>>, OutboundFault> {
    let (mut head, body) = request.into_parts();
    let unusable = |problem: String| OutboundFault::Url { url: destination.to_string(), problem };
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    head.uri = target.parse::<Uri>().map_err(|error| unusable(error.to_string()))?;
    let host = HeaderValue::from_str(&destination.authority()).map_err(|error| unusable(error.to_string()))?;
    head.headers.insert(HOST, host);
    head.headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(PRODUCT));
    Ok(Request::from_parts(head, Full::new(body)))
}

fn broken(destination: &Destination, error: &hyper::Error) -> OutboundFault {
    let problem = if error.is_parse() {
        format!("does not answer as HTTP servers do: {}", innermost(error))
    } else if error.is_incomplete_message() {
        "closes the connection without an answer".to_owned()
    } else {
        format!("breaks off the connection: {}", innermost(error))
    };
    OutboundFault::Broken { host: destination.to_string(), problem }
}

/// The cause beneath the library's wrapping.
fn innermost<'a>(error: &'a (dyn std::error::Error + 'static)) -> String {
    let mut deepest: &'a (dyn std::error::Error + 'static) = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
