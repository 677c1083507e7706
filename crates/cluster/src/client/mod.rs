//! Requests to the API server: lists in pages, watches, one object, changes of one. What it answers is read in `page`;
//! when something is asked, in `course`.

mod place;

pub use place::{Place, Pod, Token};

use crate::fault::Fault;
use crate::kind::Kind;
use crate::object::{Key, Watched};
use crate::page::{Line, Page, line, list_version, page, refusal};
use crate::texts::Texts;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, Request, StatusCode, response};
use serde_json::Value;
use std::cell::RefCell;
use std::time::Duration;
use tidegate_model::Secret;
use tidegate_outbound::{HttpsClient, Limits, LineBuffer, OpenAnswer, OutboundFault, percent_encoded};

const JSON: &str = "application/json";
/// Metadata alone, which the server cuts out: keys do not go over the wire for knowing that they are there.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// A change that names fields, and leaves the others as they are (RFC 7396).
const MERGE_PATCH: &str = "application/merge-patch+json";
/// Objects of one page. A page of slices is about 2 MB.
const PAGE_OBJECTS: usize = 500;
/// Objects have up to 1.5 MB; pages with many such are asked for in smaller ones.
const PAGE_BYTES_MAX: usize = 32 << 20;
const PAGE_LIMITS: Limits = Limits { total: Duration::from_secs(30), body_bytes_max: PAGE_BYTES_MAX };
/// Of one object, and of what a refusal says.
const OBJECT_LIMITS: Limits = Limits { total: Duration::from_secs(10), body_bytes_max: 4 << 20 };

/// Of one line of a watch: an object of the greatest size, in JSON, with what stands around it.
const LINE_BYTES_MAX: usize = 2 << 20;

/// Asks one API server. Clones share connections and credentials.
#[derive(Clone)]
pub struct Client {
    client: HttpsClient,
    /// Without a slash at its end.
    url: String,
    token: Token,
}

impl Client {
    pub fn new(place: Place) -> Result<Client, Fault> {
        let Place { url, trust, identity, token } = place;
        Ok(Client { client: HttpsClient::with_identity(trust, identity)?, url, token })
    }

    /// One page of a list, with as many objects as its answer has room for.
    pub async fn page<T: Watched>(
        &self,
        namespace: Option<&str>,
        next: Option<&str>,
        texts: &RefCell<Texts>,
    ) -> Result<Page<T>, Fault> {
        let mut objects = PAGE_OBJECTS;
        loop {
            let mut path = format!("{}?limit={objects}", T::KIND.path(namespace));
            if let Some(next) = next {
                path.push_str("&continue=");
                path.push_str(&percent_encoded(next));
            }
            let accept = if T::KIND.is_by_metadata() { METADATA_LIST } else { JSON };
            let Asked { request, token } = self.asked(Method::GET, &path, accept, None)?;
            match self.client.send(request, PAGE_LIMITS).await {
                Err(OutboundFault::BodyTooLarge { .. }) if objects > 1 => objects = (objects / 8).max(1),
                Err(fault) => return Err(fault.into()),
                Ok(answer) => {
                    let (head, body) = answer.into_parts();
                    succeeded(&head, &body, token.as_ref())?;
                    return page(&body, &mut texts.borrow_mut());
                }
            }
        }
    }

    /// The version that a kind is at now: metadata of one object are the least that a list can be asked for.
    pub async fn version(&self, kind: Kind, namespace: Option<&str>) -> Result<Box<str>, Fault> {
        let path = format!("{}?limit=1", kind.path(namespace));
        let Asked { request, token } = self.asked(Method::GET, &path, METADATA_LIST, None)?;
        let (head, body) = self.client.send(request, OBJECT_LIMITS).await?.into_parts();
        succeeded(&head, &body, token.as_ref())?;
        list_version(&body)
    }

    /// What happens to objects of a kind from a version on, for as long as the server likes or `lasts`.
    pub async fn watch(&self, kind: Kind, namespace: Option<&str>, from: &str, lasts: Duration) -> Result<Watch, Fault> {
        self.open_watch(kind, namespace, &format!("resourceVersion={}", percent_encoded(from)), lasts).await
    }

    /// Whether one object of a kind is there, and what happens to it. No right to see others is needed.
    pub async fn watch_one(&self, kind: Kind, key: &Key, lasts: Duration) -> Result<Watch, Fault> {
        let selector = percent_encoded(&format!("metadata.name={}", key.name));
        self.open_watch(kind, Some(&key.namespace), &format!("fieldSelector={selector}"), lasts).await
    }

    async fn open_watch(&self, kind: Kind, namespace: Option<&str>, of: &str, lasts: Duration) -> Result<Watch, Fault> {
        let (path, seconds) = (kind.path(namespace), lasts.as_secs());
        let path = format!("{path}?watch=true&allowWatchBookmarks=true&{of}&timeoutSeconds={seconds}");
        let accept = if kind.is_by_metadata() { METADATA } else { JSON };
        let Asked { request, token } = self.asked(Method::GET, &path, accept, None)?;
        let answer = self.client.open(request, OBJECT_LIMITS.total).await?;
        if answer.head().status == StatusCode::OK {
            return Ok(Watch { answer, buffer: LineBuffer::new(LINE_BYTES_MAX) });
        }
        let head = answer.head().clone();
        let body = answer.whole(OBJECT_LIMITS).await?;
        Err(refused(&head, &body, token.as_ref()))
    }

    /// One object, or what became of a change. `path` begins with a slash.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Bytes, Fault> {
        self.send_within(method, path, body, OBJECT_LIMITS.total).await
    }

    /// As [`Client::send`], for who waits that long at most.
    pub async fn send_within(&self, method: Method, path: &str, body: Option<&Value>, within: Duration) -> Result<Bytes, Fault> {
        let Asked { request, token } = self.asked(method, path, JSON, body)?;
        let (head, body) = self.client.send(request, Limits { total: within, ..OBJECT_LIMITS }).await?.into_parts();
        succeeded(&head, &body, token.as_ref())?;
        Ok(body)
    }

    fn asked(&self, method: Method, path: &str, accept: &'static str, body: Option<&Value>) -> Result<Asked, Fault> {
        let kind = if method == Method::PATCH { MERGE_PATCH } else { JSON };
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url)).header(ACCEPT, accept);
        let token = self.token.now()?;
        if let Some(token) = &token {
            let unusable = |_| Fault::Unauthorized { message: "the token has characters that no token has".to_owned() };
            let mut bearer = HeaderValue::try_from(format!("Bearer {}", token.reveal())).map_err(unusable)?;
            bearer.set_sensitive(true);
            request = request.header(AUTHORIZATION, bearer);
        }
        let body = match body {
            None => Bytes::new(),
            Some(body) => {
                request = request.header(CONTENT_TYPE, kind);
                body.to_string().into()
            }
        };
        let request = request.body(body).map_err(|error| Fault::Unasked { problem: error.to_string() })?;
        Ok(Asked { request, token })
    }
}

/// A request, and the token that it shows.
struct Asked {
    request: Request<Bytes>,
    token: Option<Secret>,
}

fn succeeded(head: &response::Parts, body: &[u8], token: Option<&Secret>) -> Result<(), Fault> {
    if head.status.is_success() { Ok(()) } else { Err(refused(head, body, token)) }
}

/// What refuses a request may repeat its token, which nobody is shown.
fn refused(head: &response::Parts, body: &[u8], token: Option<&Secret>) -> Fault {
    let text = String::from_utf8_lossy(body);
    let body = match token.map(Secret::reveal).filter(|token| !token.is_empty()) {
        Some(token) => text.replace(token, "***"),
        None => text.into_owned(),
    };
    refusal(Some(head.status.as_u16()), body.as_bytes(), retry_after(&head.headers))
}

/// A watch that goes on.
pub struct Watch {
    answer: OpenAnswer,
    buffer: LineBuffer,
}

impl Watch {
    /// The next line; `None` when the server has ended the watch. Nothing is lost when this is dropped half way.
    pub async fn next<T: Watched>(&mut self, within: Duration, texts: &RefCell<Texts>) -> Result<Option<Line<T>>, Fault> {
        loop {
            let too_long = |_| Fault::LineTooLong { bytes_max: LINE_BYTES_MAX };
            if let Some(one) = self.buffer.take_line().map_err(too_long)? {
                return line(&one, &mut texts.borrow_mut()).map(Some);
            }
            match self.answer.piece(within).await? {
                Some(piece) => self.buffer.push(&piece),
                // Half a line at the end is none: the server tells it again.
                None => return Ok(None),
            }
        }
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
