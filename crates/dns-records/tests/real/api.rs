//! An API on loopback that a test writes from its documentation: a table of what it knows, and a function from a
//! request to an answer. It takes down what it was asked.

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body_util::{BodyExt, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_testkit::tokio;
use tidegate_testkit::tokio::net::TcpListener;

pub struct Asked {
    pub method: String,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn parameter(&self, name: &str) -> &str {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// `GET /zones`, and the segments of the path for matching.
    pub fn segments(&self) -> Vec<&str> {
        self.path.trim_matches('/').split('/').collect()
    }
}

pub struct Said {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

pub fn said(status: u16, body: impl ToString) -> Said {
    Said { status, headers: Vec::new(), body: body.to_string() }
}

pub struct Emulation<S> {
    pub url: String,
    state: Arc<Mutex<S>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl<S: Send + 'static> Emulation<S> {
    pub async fn start(state: S, answer: fn(&mut S, &Asked) -> Said) -> Emulation<S> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(state));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (its_state, its_asked) = (state.clone(), asked.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (state, asked) = (its_state.clone(), its_asked.clone());
                tokio::spawn(async move {
                    let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
                        let (state, asked) = (state.clone(), asked.clone());
                        async move {
                            let request = read(request).await;
                            lock(&asked).push(format!("{} {}", request.method, request.path));
                            let said = answer(&mut lock(&state), &request);
                            let mut response = Response::builder().status(said.status);
                            for (name, value) in &said.headers {
                                response = response.header(*name, value);
                            }
                            let body = Full::new(Bytes::from(said.body));
                            Ok::<_, Infallible>(response.body(body).expect("an answer"))
                        }
                    });
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Emulation { url, state, asked }
    }

    pub fn state(&self) -> MutexGuard<'_, S> {
        lock(&self.state)
    }

    /// What it was asked since the last time: `GET /zones`.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.asked))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read(request: http::Request<hyper::body::Incoming>) -> Asked {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let pairs = head.uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    Asked {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}
