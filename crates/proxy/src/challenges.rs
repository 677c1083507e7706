//! Challenges of ACME that workers answer: what stands here was put here by the control thread for as long as an order
//! is open; nothing here knows of orders. `request` answers those of `http-01`, `serve::tls` those of `tls-alpn-01`
//! (RFC 8737). Names whose certificates are obtained on demand, and are at hand, stand here too.

use rustls::ServerConfig;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

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
    pub fn may_answer_http(&self) -> bool {
        self.http_count.load(Ordering::Relaxed) > 0 || self.is_shared()
    }

    pub fn http(&self, token: &str) -> Option<Arc<str>> {
        self.http.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }
}
