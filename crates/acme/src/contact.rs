//! How CAs are spoken to: one HTTPS client for each set of trusted roots, a directory that is remembered for a while,
//! and the library's requests with bounds. What is said is in `order` and `account`; what failures mean, in `cause`.

use crate::cause::{Blame, Cause, Context, Said, one_line, said_by_authority};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tidegate_model::AcmeAuthority;
use tidegate_outbound::{HttpsClient, Limits, OutboundFault, Trust};

/// A directory hardly ever changes, and a failure makes us look again.
const DIRECTORY_KEPT: Duration = Duration::from_secs(3600);
/// A chain with its certificates is a tenth of this.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Clients and directories, shared by all attempts.
#[derive(Default)]
pub struct Contacts {
    clients: RefCell<HashMap<Option<PathBuf>, HttpsClient>>,
    directories: RefCell<HashMap<String, Known>>,
}

#[derive(Clone)]
struct Known {
    directory: Arc<Directory>,
    until: Instant,
}

/// What a CA offers (RFC 8555 section 7.1.1).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Directory {
    /// Asking this is what a CA that is one has.
    #[serde(rename = "newOrder")]
    _new_order: String,
    pub renewal_info: Option<String>,
    #[serde(default)]
    pub meta: Meta,
    #[serde(skip)]
    text: Bytes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    pub caa_identities: Vec<String>,
    pub external_account_required: bool,
    /// Names of profiles and what they are for.
    pub profiles: HashMap<String, String>,
}

/// A conversation about one order with one directory. Clones are the same conversation.
#[derive(Clone)]
pub struct Conversation {
    client: HttpsClient,
    limits: Limits,
    /// As the configuration calls the CA.
    pub authority: Arc<str>,
    pub url: Arc<str>,
    pub directory: Arc<Directory>,
    heard: Arc<Mutex<Heard>>,
}

#[derive(Debug, Default)]
struct Heard {
    retry_after: Option<Timestamp>,
}

/// What keeps a request from having an answer that can be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ContactFault {
    #[error("{0}")]
    Outbound(OutboundFault),
    /// An answer that is an error and no problem document, with what it begins with.
    #[error("answers {status}: {start}")]
    Status { status: StatusCode, start: String },
}

impl Contacts {
    /// Opens a conversation; asks for the directory if it is not known or was known too long.
    pub async fn open(&self, authority: &AcmeAuthority, url: &str, request_max: Duration) -> Result<Conversation, Cause> {
        let client = self.client(authority)?;
        let limits = Limits { total: request_max, body_bytes_max: ANSWER_BYTES_MAX };
        let known = self.directories.borrow().get(url).filter(|known| known.until > Instant::now()).cloned();
        let directory = match known {
            Some(known) => known.directory,
            None => {
                let directory = Arc::new(ask_directory(&client, limits, authority, url).await?);
                let known = Known { directory: directory.clone(), until: Instant::now() + DIRECTORY_KEPT };
                self.directories.borrow_mut().insert(url.to_owned(), known);
                directory
            }
        };
        Ok(Conversation {
            client,
            limits,
            authority: authority.name.as_str().into(),
            url: url.into(),
            directory,
            heard: Arc::default(),
        })
    }

    /// After a failure that a changed directory could explain.
    pub fn forget(&self, url: &str) {
        self.directories.borrow_mut().remove(url);
    }

    /// For what else is asked over HTTPS with the system's roots.
    pub fn system_client(&self) -> Result<HttpsClient, OutboundFault> {
        self.client_for(None)
    }

    fn client(&self, authority: &AcmeAuthority) -> Result<HttpsClient, Cause> {
        self.client_for(authority.root.as_ref()).map_err(|fault| {
            Cause::new(Blame::Setup, format!("{} {fault}", authority.name), "check the file of `root` of this CA")
        })
    }

    fn client_for(&self, root: Option<&PathBuf>) -> Result<HttpsClient, OutboundFault> {
        let known = self.clients.borrow().get(&root.cloned()).cloned();
        if let Some(client) = known {
            return Ok(client);
        }
        let client = HttpsClient::new(root.map_or(Trust::System, |root| Trust::File(root.clone())))?;
        self.clients.borrow_mut().insert(root.cloned(), client.clone());
        Ok(client)
    }
}

impl Conversation {
    /// When the CA wants to be asked again, by the last answer that said so.
    pub fn take_retry_after(&self) -> Option<Timestamp> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).retry_after.take()
    }

    /// For the library; each account and order of this conversation has a clone of it.
    pub fn http(&self) -> Box<dyn HttpClient> {
        Box::new(self.clone())
    }

    /// A plain GET, as renewal information is asked for.
    pub async fn get(&self, url: &str) -> Result<Response<Bytes>, ContactFault> {
        let request = Request::get(url).body(Bytes::new()).map_err(|_| unusable(url))?;
        self.send(request).await
    }

    /// What went wrong with the library's call, as a cause.
    pub fn cause(&self, error: &instant_acme::Error, context: Context<'_>) -> Cause {
        let context = Context { retry_after: self.take_retry_after(), ..context };
        let authority = &self.authority;
        match error {
            instant_acme::Error::Api(problem) => said_by_authority(&Said::from(problem), context),
            instant_acme::Error::Other(inner) => match inner.downcast_ref::<ContactFault>() {
                Some(ContactFault::Outbound(fault)) => transport_cause(authority, fault),
                Some(ContactFault::Status { status, start }) => {
                    let said =
                        Said { kind: String::new(), detail: format!("status {status}: {start}"), status: Some(status.as_u16()) };
                    said_by_authority(&said, context)
                }
                None => unreadable(authority, &inner.to_string()),
            },
            other => unreadable(authority, &other.to_string()),
        }
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ContactFault> {
        let answer = self.client.send(request, self.limits).await.map_err(ContactFault::Outbound)?;
        let status = answer.status();
        if let Some(when) = retry_after(answer.headers(), Timestamp::now()) {
            self.heard.lock().unwrap_or_else(PoisonError::into_inner).retry_after = Some(when);
        }
        let content_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_json = content_type.contains("json");
        if (status.is_client_error() || status.is_server_error()) && !is_json {
            return Err(ContactFault::Status { status, start: start_of(answer.body()) });
        }
        Ok(answer)
    }
}

impl HttpClient for Conversation {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let conversation = self.clone();
        Box::pin(async move {
            let (mut head, body) = request.into_parts();
            // The library begins each conversation with the directory; it is known.
            if head.method == Method::GET && head.uri == *conversation.url {
                let (head, ()) = Response::new(()).into_parts();
                return Ok(BytesResponse { parts: head, body: Box::new(conversation.directory.text.clone()) });
            }
            // RFC 8555 section 6.1: a CA shall see which client asks.
            head.headers.remove(USER_AGENT);
            let Ok(body) = body.collect().await;
            let sent = conversation.send(Request::from_parts(head, body.to_bytes())).await;
            let (head, body) = sent.map_err(|fault| instant_acme::Error::Other(Box::new(fault)))?.into_parts();
            Ok(BytesResponse { parts: head, body: Box::new(body) })
        })
    }
}

async fn ask_directory(client: &HttpsClient, limits: Limits, authority: &AcmeAuthority, url: &str) -> Result<Directory, Cause> {
    let name = &authority.name;
    let request = Request::get(url).body(Bytes::new()).map_err(|_| transport_cause(name, &unusable_url(url)))?;
    let answer = client.send(request, limits).await.map_err(|fault| transport_cause(name, &fault))?;
    let status = answer.status();
    if status != StatusCode::OK {
        let until = retry_after(answer.headers(), Timestamp::now());
        let blame = if until.is_some() { Blame::Limited { until } } else { Blame::Authority };
        return Err(Cause::new(
            blame,
            format!("{name} answers {status} instead of its directory at {url}: {}", start_of(answer.body())),
            "check the URL of `ca`, and the CA's status page",
        ));
    }
    let mut directory: Directory = serde_json::from_slice(answer.body()).map_err(|error| {
        Cause::new(
            Blame::Authority,
            format!("what {name} answers at {url} is no ACME directory ({error})"),
            "check the URL of `ca`: it is that of the directory, not the CA's web site",
        )
    })?;
    directory.text = answer.into_body();
    Ok(directory)
}

/// A failure on the way to the CA.
pub fn transport_cause(authority: &str, fault: &OutboundFault) -> Cause {
    let (blame, remedy) = match fault {
        OutboundFault::Url { .. } => (Blame::Setup, "check the URL of `ca`"),
        OutboundFault::Roots { .. } => (Blame::Setup, "check the file of `root` of this CA"),
        OutboundFault::Certificate { .. } => (Blame::Authority, "check this machine's clock; a CA of your own needs its `root`"),
        OutboundFault::Resolve { .. } => (Blame::Authority, "check the resolver of this machine; tried again by itself"),
        OutboundFault::Connect { .. } => {
            (Blame::Authority, "check that this machine may reach the internet on port 443; tried again by itself")
        }
        OutboundFault::Tls { .. }
        | OutboundFault::TimedOut { .. }
        | OutboundFault::Broken { .. }
        | OutboundFault::BodyTooLarge { .. } => {
            (Blame::Authority, "tried again by itself; see the CA's status page if it goes on")
        }
    };
    Cause::new(blame, one_line(&format!("{authority} {fault}")), remedy)
}

fn unreadable(authority: &str, problem: &str) -> Cause {
    Cause::new(
        Blame::Authority,
        one_line(&format!("{authority} answers what cannot be read: {problem}")),
        "tried again by itself; see the CA's status page if it goes on",
    )
}

fn unusable_url(url: &str) -> OutboundFault {
    OutboundFault::Url { url: one_line(url), problem: "it is no URL".into() }
}

fn unusable(url: &str) -> ContactFault {
    ContactFault::Outbound(unusable_url(url))
}

fn start_of(body: &[u8]) -> String {
    one_line(&String::from_utf8_lossy(body.get(..1000).unwrap_or(body)))
}

/// RFC 9110 section 10.2.3: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Timestamp> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse::<u32>() {
        Ok(seconds) => now.checked_add(SignedDuration::from_secs(i64::from(seconds))).ok(),
        Err(_) => Timestamp::try_from(httpdate::parse_http_date(text).ok()?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::retry_after;
    use http::HeaderMap;
    use http::header::RETRY_AFTER;
    use jiff::Timestamp;

    #[test]
    fn when_to_come_back_is_a_number_or_a_date() {
        fn check(text: &str, expected: Option<&str>) {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            let now = "2026-01-01T00:00:00Z".parse().unwrap();
            assert_eq!(retry_after(&headers, now), expected.map(|when| when.parse::<Timestamp>().unwrap()), "{text}");
        }
        check("120", Some("2026-01-01T00:02:00Z"));
        check("Fri, 02 Jan 2026 03:04:05 GMT", Some("2026-01-02T03:04:05Z"));
        check("soon", None);
        check("-5", None);
        check("99999999999999999999", None);
    }
}
