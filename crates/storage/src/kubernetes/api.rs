//! Requests to the API server: where it is, how we prove who we are, and what its refusals mean. In a pod all of that
//! is in the environment and in files of the service account, whose token is replaced every hour, so it is read for
//! each request.

use crate::fault::Problem;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_model::{KubernetesApi, KubernetesStorage, Secret};
use tidegate_outbound::{HttpsClient, Limits, Trust};

const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const JSON: &str = "application/json";
/// Metadata alone, which the server cuts out: private keys do not go over the wire for a list of names.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// A secret of the greatest size in base64, and what the server adds; or a page of metadata.
const LIMITS: Limits = Limits { total: Duration::from_secs(10), body_bytes_max: 4 << 20 };
/// Of a token and of the file with the namespace's name; tokens have about 1 KB.
const FILE_BYTES_MAX: u64 = 64 << 10;

pub(super) struct Api {
    client: HttpsClient,
    /// Without a slash at its end.
    url: String,
    token: Token,
    namespace: String,
}

enum Token {
    Fixed(Secret),
    File(PathBuf),
}

/// What a pod finds out about its cluster.
pub(super) struct Pod {
    pub(super) host: String,
    pub(super) port: String,
    pub(super) account: PathBuf,
}

impl Pod {
    fn here() -> Result<Pod, Problem> {
        let (Ok(host), Ok(port)) = (std::env::var("KUBERNETES_SERVICE_HOST"), std::env::var("KUBERNETES_SERVICE_PORT")) else {
            return Err(Problem::NoCluster);
        };
        Ok(Pod { host, port, account: SERVICE_ACCOUNT.into() })
    }
}

impl Api {
    pub(super) fn new(settings: &KubernetesStorage) -> Result<Api, Problem> {
        match &settings.api {
            Some(api) => Api::outside(settings, api),
            None => Api::in_pod(settings, &Pod::here()?),
        }
    }

    pub(super) fn in_pod(settings: &KubernetesStorage, pod: &Pod) -> Result<Api, Problem> {
        let Pod { host, port, account } = pod;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let namespace = match &settings.namespace {
            Some(namespace) => namespace.clone(),
            None => read_small(&account.join("namespace"))?,
        };
        let token = Token::File(account.join("token"));
        Api::at(format!("https://{host}:{port}"), token, namespace, Trust::File(account.join("ca.crt")))
    }

    fn outside(settings: &KubernetesStorage, api: &KubernetesApi) -> Result<Api, Problem> {
        let namespace = settings.namespace.clone().ok_or(Problem::NoNamespace)?;
        if !api.url.starts_with("https://") && !is_on_this_host(&api.url) {
            return Err(Problem::Exposed { url: api.url.clone() });
        }
        let trust = api.root.clone().map_or(Trust::System, Trust::File);
        Api::at(api.url.trim_end_matches('/').into(), Token::Fixed(api.token.clone()), namespace, trust)
    }

    fn at(url: String, token: Token, namespace: String, trust: Trust) -> Result<Api, Problem> {
        // Letters as names of namespaces have them, so that nothing of it is more than one segment of a path.
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if namespace.is_empty() || !namespace.chars().all(is_name) {
            return Err(Problem::BadNamespace { namespace });
        }
        let client = HttpsClient::new(trust).map_err(|fault| Problem::of_outbound(&fault))?;
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
        let token = match &self.token {
            Token::Fixed(token) => token.reveal().to_owned(),
            // Kept in memory by the kubelet, so nothing is waited for.
            Token::File(path) => read_small(path)?,
        };
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
            (!head.status.is_success() && !token.is_empty()).then(|| String::from_utf8_lossy(&body).replace(&token, "***"));
        Ok(Answer { status: head.status, body: refusal.map_or(body, Bytes::from) })
    }
}

/// As `kubectl proxy` is.
fn is_on_this_host(url: &str) -> bool {
    let uri: Option<http::Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
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

fn read_small(path: &Path) -> Result<String, Problem> {
    let read = || {
        let mut text = String::new();
        File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        std::io::Result::Ok(text)
    };
    let unusable = |error: std::io::Error| Problem::NoAccount { file: path.display().to_string(), text: error.to_string() };
    Ok(read().map_err(unusable)?.trim().to_owned())
}
