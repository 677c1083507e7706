//! Everything about TLS that outlives a reload, in one struct: ticket keys and sessions, the internal CA, client
//! configurations with their sessions. Made once per process and shared by all workers; a reload that made these anew
//! would turn every returning client away from resumption.

use crate::error::CertError;
use crate::internal_ca::InternalCa;
use crate::obtained::ObtainedCertificates;
use crate::sessions::SessionCache;
use crate::staple::Staples;
use crate::tickets::TicketKeys;
use crate::upstream::UpstreamConfigs;
use jiff::Timestamp;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub struct TlsProcessState {
    pub tickets: Arc<TicketKeys>,
    pub(crate) sessions: Arc<SessionCache>,
    /// Of sites with early data; a table of their own, so that neither pushes the others out.
    pub(crate) early_data_sessions: Arc<SessionCache>,
    pub(crate) upstream_configs: UpstreamConfigs,
    /// What a public CA has issued, by name.
    pub obtained: Arc<ObtainedCertificates>,
    /// What responders have said of certificates.
    pub staples: Arc<Staples>,
    state_dir: PathBuf,
    /// Opened when the first site needs it, so that a proxy with its own certificates writes nothing to disk.
    internal_ca: Mutex<Option<Arc<InternalCa>>>,
}

impl TlsProcessState {
    /// `state_dir` is where the internal CA is kept, see [`crate::default_state_dir`]. Touches no file yet.
    pub fn new(state_dir: PathBuf) -> Result<TlsProcessState, CertError> {
        let staples = Arc::<Staples>::default();
        Ok(TlsProcessState {
            tickets: TicketKeys::new()?,
            sessions: Arc::default(),
            early_data_sessions: Arc::new(SessionCache::for_early_data()),
            upstream_configs: UpstreamConfigs::default(),
            obtained: Arc::new(ObtainedCertificates::new(staples.clone())),
            staples,
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

impl fmt::Debug for TlsProcessState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsProcessState").field("state_dir", &self.state_dir).finish_non_exhaustive()
    }
}
