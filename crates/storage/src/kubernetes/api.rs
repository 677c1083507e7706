//! Requests to the API server, and what its refusals mean. Where it is and how we prove who we are, the crate `cluster`
//! knows.

use crate::fault::Problem;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use tidegate_cluster::{Fault, Place, Pod, Token};
use tidegate_model::{KubernetesApi, KubernetesStorage, Secret};
use tidegate_outbound::{HttpsClient, Limits};

const JSON: &str = "application/json";
/// Metadata alone, which the server cuts out: private keys do not go over the wire for a list of names.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// A secret of the greatest size in base64, and what the server adds; or a page of metadata.
const LIMITS: Limits = Limits { total: Duration::from_secs(10), body_bytes_max: 4 << 20 };

pub(super) struct Api {
    client: HttpsClient,
    /// Without a slash at its end.
    url: String,
    token: Token,
    namespace: String,
}

impl Api {
    pub(super) fn new(settings: &KubernetesStorage) -> Result<Api, Problem> {
        match &settings.api {
            Some(api) => Api::outside(settings, api),
            None => Api::in_pod(settings, &Pod::here().map_err(Problem::of_cluster)?),
        }
    }

    pub(super) fn in_pod(settings: &KubernetesStorage, pod: &Pod) -> Result<Api, Problem> {
        let namespace = match &settings.namespace {
            Some(namespace) => namespace.clone(),
            None => pod.namespace().map_err(Problem::of_cluster)?,
        };
        Api::at(Place::of_pod(pod), namespace)
    }

    fn outside(settings: &KubernetesStorage, api: &KubernetesApi) -> Result<Api, Problem> {
        let namespace = settings.namespace.clone().ok_or(Problem::NoNamespace)?;
        Api::at(Place::outside(api).map_err(Problem::of_cluster)?, namespace)
    }

    fn at(place: Place, namespace: String) -> Result<Api, Problem> {
        // Letters as names of namespaces have them, so that nothing of it is more than one segment of a path.
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if namespace.is_empty() || !namespace.chars().all(is_name) {
            return Err(Problem::BadNamespace { namespace });
        }
        let Place { url, trust, identity, token } = place;
        let client = HttpsClient::with_identity(trust, identity).map_err(|fault| Problem::of_outbound(&fault))?;
        Ok(Api { client, url, token, namespace })
    }

    pub(super) fn describe(&self) -> String {
        format!("secrets of the Kubernetes namespace {}", self.namespace)
    }

    /// The path of the collection; of one object with `/` and its name behind it.
    pub(super) fn secrets(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }

    pub(super) fn leases(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    pub(super) async fn send_for_metadata(&self, path: &str) -> Result<Answer, Problem> {
        self.send_accepting(METADATA, Method::GET, path, None).await
    }

    pub(super) async fn send_for_metadata_list(&self, path: &str) -> Result<Answer, Problem> {
        self.send_accepting(METADATA_LIST, Method::GET, path, None).await
    }

    pub(super) async fn send(&self, method: Method, path: &str, body: Option<&serde_json::Value>) -> Result<Answer, Problem> {
        self.send_accepting(JSON, method, path, body).await
    }

    async fn send_accepting(
        &self,
        accept: &'static str,
        method: Method,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Result<Answer, Problem> {
        let token = self.token.now().map_err(Problem::of_cluster)?;
        let token = token.as_ref().map(Secret::reveal).unwrap_or_default();
        let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| Problem::Refused { text: "the token has characters that no token has".into() })?;
        bearer.set_sensitive(true);
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        request = request.header(AUTHORIZATION, bearer).header(ACCEPT, accept);
        let body = match body {
            None => Bytes::new(),
            Some(body) => {
                request = request.header(CONTENT_TYPE, JSON);
                body.to_string().into()
            }
        };
        let request = request.body(body).map_err(|error| Problem::Server { text: error.to_string() })?;
        let answer = self.client.send(request, LIMITS).await.map_err(|fault| Problem::of_outbound(&fault))?;
        let (head, body) = answer.into_parts();
        // What refuses a request may repeat it.
        let refusal =
            (!head.status.is_success() && !token.is_empty()).then(|| String::from_utf8_lossy(&body).replace(token, "***"));
        Ok(Answer { status: head.status, body: refusal.map_or(body, Bytes::from) })
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

pub(super) struct Answer {
    pub(super) status: StatusCode,
    body: Bytes,
}

#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) name: String,
    #[serde(default, rename = "resourceVersion")]
    pub(super) resource_version: String,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
}

/// What the server says when it refuses.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    message: String,
    details: Details,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Details {
    kind: String,
}

impl Answer {
    pub(super) fn object<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        if !self.status.is_success() {
            return Err(self.problem());
        }
        // Where in it the fault is, and not what stands there: it may be a key.
        serde_json::from_slice(&self.body).map_err(|error| Problem::Server {
            text: format!("something that is no such object, at line {} column {}", error.line(), error.column()),
        })
    }

    pub(super) fn succeeded(&self) -> Result<(), Problem> {
        if self.status.is_success() { Ok(()) } else { Err(self.problem()) }
    }

    /// What it is that is missing, for a 404: the object, or the namespace that it should be in.
    pub(super) fn is_about(&self, kind: &str) -> bool {
        self.refusal().details.kind == kind
    }

    fn refusal(&self) -> Status {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    fn problem(&self) -> Problem {
        const MESSAGE_CHARACTERS_MAX: usize = 500;
        let message: String = self.refusal().message.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARACTERS_MAX).collect();
        let text = if message.is_empty() { format!("status {}", self.status.as_u16()) } else { message };
        match self.status {
            StatusCode::FORBIDDEN if text.contains("exceeded quota") => Problem::ServerFull { text },
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Problem::Forbidden { text },
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => Problem::Busy { text },
            status if status.is_server_error() => Problem::Busy { text },
            _ => Problem::Server { text },
        }
    }
}

impl Problem {
    /// Why nobody can be asked.
    fn of_cluster(fault: Fault) -> Problem {
        match fault {
            Fault::NoCluster => Problem::NoCluster,
            Fault::NoAccount { file, problem } => Problem::NoAccount { file: file.display().to_string(), text: problem },
            Fault::Exposed { url } => Problem::Exposed { url },
            Fault::Outbound(fault) => Problem::of_outbound(&fault),
            Fault::Unauthorized { message } | Fault::Forbidden { message } => Problem::Forbidden { text: message },
            Fault::Busy { message, .. } => Problem::Busy { text: message },
            fault @ (Fault::Missing { .. }
            | Fault::Gone { .. }
            | Fault::Conflict { .. }
            | Fault::Refused { .. }
            | Fault::Unasked { .. }
            | Fault::Unreadable { .. }
            | Fault::LineTooLong { .. }) => Problem::Server { text: fault.to_string() },
        }
    }
}
