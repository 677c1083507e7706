//! An API server as far as a store needs one: secrets and leases of one namespace, with versions, conflicts,
//! preconditions, pages, metadata alone, and refusals in the words of the real one. It checks what it is asked as
//! strictly as that does.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tidegate_testkit::rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub(super) const NAMESPACE: &str = "edge";
const SECRETS: &str = "/api/v1/namespaces/edge/secrets";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/edge/leases";

#[derive(Clone)]
pub(super) struct ApiServer {
    pub(super) address: SocketAddr,
    pub(super) state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) objects: BTreeMap<String, Value>,
    pub(super) token: String,
    /// Method and path of each request.
    pub(super) requests: Vec<String>,
    /// Instead of the next answers to this method.
    pub(super) refusals: Vec<(Method, StatusCode, Value)>,
    /// Happens before the next change is carried out: what somebody else does in the meantime.
    pub(super) meanwhile: Vec<fn(&mut BTreeMap<String, Value>)>,
    version: u64,
}

impl ApiServer {
    pub(super) async fn start(tls: Option<Arc<ServerConfig>>) -> ApiServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State { token: "token-1".into(), ..State::default() }));
        let server = ApiServer { address, state };
        let acceptor = tls.map(TlsAcceptor::from);
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (server, acceptor) = (accepting.clone(), acceptor.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => server.serve(stream).await,
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                server.serve(stream).await;
                            }
                        }
                    }
                });
            }
        });
        server
    }

    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let service = service_fn(async |request: Request<Incoming>| {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let (status, answer) = self.state.lock().expect("not poisoned").answer(&Request::from_parts(head, body));
            let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
            *response.status_mut() = status;
            Ok::<_, Infallible>(response)
        });
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }

    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("not poisoned"))
    }
}

impl State {
    fn answer(&mut self, request: &Request<Bytes>) -> (StatusCode, Value) {
        let method = request.method();
        let path = request.uri().path().to_owned();
        self.requests.push(format!("{method} {path}"));
        let header =
            |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        if header("authorization") != format!("Bearer {}", self.token) {
            return refusal(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", "");
        }
        if let Some(at) = self.refusals.iter().position(|(refused, ..)| refused == method) {
            let (_, status, body) = self.refusals.remove(at);
            return (status, body);
        }
        if matches!(*method, Method::POST | Method::PUT) && header("content-type") != "application/json" {
            return refusal(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format",
                "",
            );
        }
        let Some((collection, kind)) =
            [(SECRETS, "Secret"), (LEASES, "Lease")].into_iter().find(|(collection, _)| path.starts_with(collection))
        else {
            return refusal(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource", "");
        };
        let is_change = *method != Method::GET;
        if is_change && !self.meanwhile.is_empty() {
            self.meanwhile.remove(0)(&mut self.objects);
        }
        let accept = header("accept");
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        match (method, path == collection) {
            (&Method::GET, true) => self.list(collection, request.uri().query().unwrap_or_default(), &accept),
            (&Method::GET, false) => match self.objects.get(&path) {
                Some(object) => (StatusCode::OK, presented(object, &accept)),
                None => missing(&path, kind),
            },
            (&Method::POST, true) => self.create(collection, kind, body),
            (&Method::PUT, false) => self.update(&path, kind, body),
            (&Method::DELETE, false) => self.delete(&path, kind, &body),
            _ => refusal(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "the server does not allow this method", ""),
        }
    }

    fn list(&self, collection: &str, query: &str, accept: &str) -> (StatusCode, Value) {
        let argument =
            |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default();
        let selector = argument("labelSelector").replace("%2F", "/").replace("%3D", "=");
        let (label, wanted) = selector.split_once('=').expect("a selector");
        // Two objects a page, whatever was asked for: a server may give less.
        let after = argument("continue").replace("%2F", "/");
        let mut matching = self.objects.iter().filter(|(path, object)| {
            path.starts_with(collection) && object["metadata"]["labels"][label] == wanted && path.as_str() > after.as_str()
        });
        let page: Vec<(&String, &Value)> = matching.by_ref().take(2).collect();
        let next = page.last().filter(|_| matching.next().is_some()).map(|(path, _)| path.as_str()).unwrap_or_default();
        assert!(accept.contains("as=PartialObjectMetadataList"), "keys must not travel for a list of names: {accept}");
        let items: Vec<Value> = page.iter().map(|(_, object)| json!({ "metadata": object["metadata"] })).collect();
        (
            StatusCode::OK,
            json!({ "kind": "PartialObjectMetadataList", "metadata": { "continue": next }, "items": if items.is_empty() { Value::Null } else { items.into() } }),
        )
    }

    fn create(&mut self, collection: &str, kind: &str, object: Value) -> (StatusCode, Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if !is_subdomain(&name) {
            return refusal(
                StatusCode::UNPROCESSABLE_ENTITY,
                "Invalid",
                &format!("{kind} \"{name}\" is invalid: metadata.name"),
                "",
            );
        }
        let path = format!("{collection}/{name}");
        if self.objects.contains_key(&path) {
            let message = format!("{} \"{name}\" already exists", plural(kind));
            return refusal(StatusCode::CONFLICT, "AlreadyExists", &message, plural(kind));
        }
        self.store(&path, kind, object)
    }

    fn update(&mut self, path: &str, kind: &str, object: Value) -> (StatusCode, Value) {
        let Some(current) = self.objects.get(path) else {
            return missing(path, kind);
        };
        if object["metadata"]["resourceVersion"] != current["metadata"]["resourceVersion"] {
            return conflict(path, kind);
        }
        self.store(path, kind, object)
    }

    fn delete(&mut self, path: &str, kind: &str, options: &Value) -> (StatusCode, Value) {
        let Some(current) = self.objects.get(path) else {
            return missing(path, kind);
        };
        let wanted = &options["preconditions"]["resourceVersion"];
        if !wanted.is_null() && *wanted != current["metadata"]["resourceVersion"] {
            return conflict(path, kind);
        }
        self.objects.remove(path);
        (StatusCode::OK, json!({ "kind": "Status", "status": "Success" }))
    }

    pub(super) fn store(&mut self, path: &str, kind: &str, mut object: Value) -> (StatusCode, Value) {
        assert_eq!(object["kind"], kind);
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(path.into(), object.clone());
        (StatusCode::OK, object)
    }
}

pub(super) fn refusal(status: StatusCode, reason: &str, message: &str, kind: &str) -> (StatusCode, Value) {
    let details = json!({ "kind": kind });
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": reason, "message": message, "details": details, "code": status.as_u16(),
    });
    (status, body)
}

fn missing(path: &str, kind: &str) -> (StatusCode, Value) {
    let name = path.rsplit('/').next().unwrap_or_default();
    refusal(StatusCode::NOT_FOUND, "NotFound", &format!("{} \"{name}\" not found", plural(kind)), plural(kind))
}

fn conflict(path: &str, kind: &str) -> (StatusCode, Value) {
    let name = path.rsplit('/').next().unwrap_or_default();
    let message = format!("Operation cannot be fulfilled on {} \"{name}\": the object has been modified", plural(kind));
    refusal(StatusCode::CONFLICT, "Conflict", &message, plural(kind))
}

fn plural(kind: &str) -> &'static str {
    if kind == "Secret" { "secrets" } else { "leases" }
}

fn presented(object: &Value, accept: &str) -> Value {
    if accept.contains("as=PartialObjectMetadata;") { json!({ "metadata": object["metadata"] }) } else { object.clone() }
}

/// RFC 1123, as Kubernetes reads it.
pub(super) fn is_subdomain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().copied().is_some_and(is_plain)
            && bytes.last().copied().is_some_and(is_plain)
            && bytes.iter().all(|&byte| is_plain(byte) || byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
