//! A folder that is served, as all workers share it. It is opened again when another one has taken its place.

use arc_swap::{ArcSwap, Guard};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tidegate_files::Root;
use tidegate_model::Files;

/// How often it is looked whether the folder is still the one that was opened: deployments switch a link from one
/// release to the next.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// A folder that is served, as all workers share it.
pub struct Folder {
    settings: Files,
    began: Instant,
    looked_at_ms: AtomicU64,
    /// Read for each request, by all workers, and hardly ever written.
    open: ArcSwap<Open>,
}

pub(super) struct Open {
    pub(super) root: Root,
    /// Device and inode of the folder that the path led to.
    identity: (u64, u64),
}

impl Folder {
    /// Whether requests without a file are left to the routes behind.
    pub fn goes_on(&self) -> bool {
        self.settings.goes_on
    }

    pub fn open(settings: &Files) -> io::Result<Folder> {
        let identity = identity(&settings.root)?;
        let root = Root::open(settings)?;
        Ok(Folder {
            settings: settings.clone(),
            began: Instant::now(),
            looked_at_ms: AtomicU64::new(0),
            open: ArcSwap::from_pointee(Open { root, identity }),
        })
    }

    /// The folder as it is now, or as it was when nothing stands at its path.
    pub(super) fn current(&self, now: Instant) -> Guard<Arc<Open>> {
        let now_ms = now.saturating_duration_since(self.began).as_millis() as u64;
        let looked_at = self.looked_at_ms.load(Ordering::Relaxed);
        let is_due = now_ms.saturating_sub(looked_at) >= LOOK_PERIOD.as_millis() as u64;
        // One of the workers looks, the others go on meanwhile.
        if is_due && self.looked_at_ms.compare_exchange(looked_at, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.look_again();
        }
        self.open.load()
    }

    #[cold]
    fn look_again(&self) {
        let Ok(identity) = identity(&self.settings.root) else { return };
        if self.open.load().identity == identity {
            return;
        }
        if let Ok(root) = Root::open(&self.settings) {
            self.open.store(Arc::new(Open { root, identity }));
            tracing::info!(folder = %self.settings.root.display(), "another folder is served: its path leads elsewhere now");
        }
    }
}

fn identity(path: &PathBuf) -> io::Result<(u64, u64)> {
    let metadata = std::fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}
