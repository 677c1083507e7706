//! Challenges of ACME as workers answer them: files of `http-01` below `/.well-known/acme-challenge/`, and handshakes
//! of `tls-alpn-01` (RFC 8737). What stands here was put here by the control thread for as long as an order is open;
//! nothing here knows of orders. Names whose certificates are obtained on demand, and are at hand, stand here too.

use crate::failure::Failure;
use crate::inquiry::{Answer, Question};
use crate::request::Request;
use rustls::ServerConfig;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tidegate_middleware::errors::begin_answer;
use tidegate_transport::Sock;
use tidegate_wire::head::Method;

const HTTP_PREFIX: &[u8] = b"/.well-known/acme-challenge/";
/// RFC 8555 wants at least 128 bits of entropy; CAs use 43 characters.
const TOKEN_BYTES_MAX: usize = 256;
/// How long a CA's question waits for what another process has stored.
pub const SHARED_WAIT: Duration = Duration::from_secs(5);

/// Of the whole process.
#[derive(Debug, Default)]
pub struct Challenges {
    /// By token.
    http: RwLock<HashMap<String, Arc<str>>>,
    /// Read for every request over plain HTTP; the table is not.
    http_count: AtomicUsize,
    /// By the name that the ClientHello has.
    tls: RwLock<HashMap<String, Arc<ServerConfig>>>,
    /// Other processes have orders open whose challenges may come here.
    is_shared: AtomicBool,
    on_demand: RwLock<HashSet<String>>,
}

impl Challenges {
    pub fn add_http(&self, token: String, key_authorization: &str) {
        let mut table = self.http.write().unwrap_or_else(PoisonError::into_inner);
        table.insert(token, key_authorization.into());
        self.http_count.store(table.len(), Ordering::Relaxed);
    }

    pub fn remove_http(&self, token: &str) {
        let mut table = self.http.write().unwrap_or_else(PoisonError::into_inner);
        table.remove(token);
        self.http_count.store(table.len(), Ordering::Relaxed);
    }

    pub fn add_tls(&self, name: String, config: Arc<ServerConfig>) {
        self.tls.write().unwrap_or_else(PoisonError::into_inner).insert(name, config);
    }

    pub fn remove_tls(&self, name: &str) {
        self.tls.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    pub fn set_shared(&self, is_shared: bool) {
        self.is_shared.store(is_shared, Ordering::Relaxed);
    }

    pub fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    pub fn tls(&self, name: &str) -> Option<Arc<ServerConfig>> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Whether the name has a certificate that was obtained on demand.
    pub fn is_at_hand(&self, name: &str) -> bool {
        self.on_demand.read().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    pub fn set_at_hand(&self, name: &str, is_at_hand: bool) {
        let mut names = self.on_demand.write().unwrap_or_else(PoisonError::into_inner);
        if is_at_hand {
            names.insert(name.to_owned());
        } else {
            names.remove(name);
        }
    }

    /// Whoever wants one of them asks again.
    pub fn forget_at_hand(&self) {
        self.on_demand.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    #[inline]
    fn may_answer_http(&self) -> bool {
        self.http_count.load(Ordering::Relaxed) > 0 || self.is_shared()
    }

    fn http(&self, token: &str) -> Option<Arc<str>> {
        self.http.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }
}

impl<S: Sock> Request<'_, S> {
    /// Whether it asks for the answer to a challenge, as far as one look tells.
    #[inline]
    pub(crate) fn may_be_challenge(&self) -> bool {
        self.connection.tls.is_none()
            && self.connection.worker.process.challenges.may_answer_http()
            && self.challenge_token().is_some()
    }

    /// Answers a CA. `None`: nobody here has an order open for that token, and the request is one as any other.
    pub(crate) async fn answer_challenge(&mut self) -> Option<Result<(), Failure>> {
        let token = self.challenge_token()?.to_owned();
        let process = &self.connection.worker.process;
        let body = match process.challenges.http(&token) {
            Some(body) => body,
            None if process.challenges.is_shared() => {
                match process.inquiries.ask(Question::HttpChallenge { token }, SHARED_WAIT).await {
                    Answer::HttpChallenge(body) => body,
                    Answer::Certificate | Answer::TlsChallenge(_) | Answer::No | Answer::NotNow => return None,
                }
            }
            None => return None,
        };
        begin_answer(200, &mut self.response);
        self.response.fields.push(b"content-type", b"application/octet-stream");
        self.response.fields.push(b"cache-control", b"no-store");
        self.record.status = 200;
        Some(self.send_whole(body.as_bytes()).await)
    }

    fn challenge_token(&self) -> Option<&str> {
        let token = self.record.path.of(&self.head.fields.bytes).strip_prefix(HTTP_PREFIX)?;
        let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_sound = !token.is_empty() && token.len() <= TOKEN_BYTES_MAX && token.iter().all(is_token);
        let is_asked_for = matches!(self.head.method, Method::Get | Method::Head);
        std::str::from_utf8(token).ok().filter(|_| is_sound && is_asked_for)
    }
}
