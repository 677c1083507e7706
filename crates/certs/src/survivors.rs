//! Everything about TLS that outlives a reload, in one struct: ticket keys, the internal CA, client configurations with their sessions.
//! Made once per process and shared by all workers; a reload that made these anew would turn every returning client away from resumption.

use crate::error::CertError;
use crate::internal_ca::InternalCa;
use crate::upstream::UpstreamConfigs;
use jiff::Timestamp;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::ProducesTickets;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub struct TlsSurvivors {
    /// Keys change every six hours and are accepted for another six; a read lock per ticket, contended only at a change.
    pub(crate) ticketer: Arc<dyn ProducesTickets>,
    pub(crate) upstream_configs: UpstreamConfigs,
    state_dir: PathBuf,
    /// Opened when the first site needs it, so that a proxy with its own certificates writes nothing to disk.
    internal_ca: Mutex<Option<Arc<InternalCa>>>,
}

impl TlsSurvivors {
    /// `state_dir` is where the internal CA is kept, see [`crate::default_state_dir`]. Touches no file yet.
    pub fn new(state_dir: PathBuf) -> Result<TlsSurvivors, CertError> {
        Ok(TlsSurvivors {
            ticketer: Ticketer::new()?,
            upstream_configs: UpstreamConfigs::default(),
            state_dir,
            internal_ca: Mutex::new(None),
        })
    }

    /// The internal CA; made on disk at the first call when there is none.
    pub fn internal_ca(&self, now: Timestamp) -> Result<Arc<InternalCa>, CertError> {
        let mut slot = self.internal_ca.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ca) = &*slot {
            return Ok(ca.clone());
        }
        let ca = Arc::new(InternalCa::open(&self.state_dir, now)?);
        *slot = Some(ca.clone());
        Ok(ca)
    }

    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }
}

impl fmt::Debug for TlsSurvivors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSurvivors").field("state_dir", &self.state_dir).finish_non_exhaustive()
    }
}
