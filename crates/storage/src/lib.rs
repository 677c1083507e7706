//! Where certificates, their keys, accounts of CAs and other small secrets are kept, so that restarts, other processes
//! and other hosts find them: a folder, Redis or Kubernetes, behind one small interface. It knows nothing of what the
//! values mean, and is never on the request path. Start at [`Store`]; who may do something alone is in `lock`.

mod fault;
mod folder;
mod inspect;
mod key;
mod kubernetes;
mod lease;
mod lock;
mod observed;
mod owner;
mod redis;

pub use fault::{Problem, StorageFault};
pub use inspect::inspect;
pub use key::{KEY_BYTES_MAX, SEGMENT_BYTES_MAX};
pub use lease::LEASE;
pub use lock::{HEARTBEAT, HELD_AFTER_HEARTBEAT, Lock};
pub use owner::Owner;

use crate::redis::Redis;
use folder::{Folder, FolderKind};
use key::Key;
use kubernetes::Kubernetes;
use lock::Lease;
use std::path::Path;
use tidegate_model::Storage;

/// A longer value is refused: a Kubernetes secret takes no more, and a certificate with its chain and key has about 10
/// KB.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;
/// More keys than this below one prefix are a fault rather than memory without a bound. 50,000 certificates of a few
/// values each fit.
pub const KEYS_LISTED_MAX: usize = 1_000_000;
/// Of the process's own state folder, the part that is kept here.
const FOLDER_IN_STATE: &str = "storage";

/// One store. It is cheap to keep and meant to be shared by reference; all of its calls may run at the same time.
#[derive(Debug)]
pub struct Store {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Folder(Folder),
    Redis(Redis),
    Kubernetes(Kubernetes),
}

impl Store {
    /// Makes the folder where there is none yet.
    pub async fn open(settings: &Storage, state_dir: &Path) -> Result<Store, StorageFault> {
        let kind = match settings {
            Storage::State => Kind::Folder(Folder::open(&state_dir.join(FOLDER_IN_STATE), FolderKind::Own).await?),
            Storage::Folder(path) => Kind::Folder(Folder::open(path, FolderKind::Named).await?),
            Storage::Redis(settings) => Kind::Redis(Redis::new(settings)?),
            Storage::Kubernetes(settings) => Kind::Kubernetes(Kubernetes::new(settings)?),
        };
        Ok(Store { kind })
    }

    /// For messages: which store this is, without secrets.
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Folder(folder) => folder.describe(),
            Kind::Redis(redis) => redis.describe(),
            Kind::Kubernetes(kubernetes) => kubernetes.describe(),
        }
    }

    /// `None`: there is no value of this key.
    pub async fn read(&self, key: &str) -> Result<Option<Vec<u8>>, StorageFault> {
        let key = self.key(key)?;
        let read = match &self.kind {
            Kind::Folder(folder) => folder.read(&key).await,
            Kind::Redis(redis) => redis.read(&key).await,
            Kind::Kubernetes(kubernetes) => kubernetes.read(&key).await,
        };
        read.map_err(|problem| StorageFault::new(format!("`{key}` cannot be read"), self.describe(), problem))
    }

    /// Afterwards, and after a power cut, there is the new value; should it fail or be interrupted, there is the old
    /// one or the new one, and never a part.
    pub async fn write(&self, key: &str, value: &[u8]) -> Result<(), StorageFault> {
        let key = self.key(key)?;
        if value.len() > VALUE_BYTES_MAX {
            let problem = Problem::ValueTooLong { bytes: value.len() };
            return Err(StorageFault::new(format!("`{key}` cannot be written"), self.describe(), problem));
        }
        let written = match &self.kind {
            Kind::Folder(folder) => folder.write(&key, value).await,
            Kind::Redis(redis) => redis.write(&key, value).await,
            Kind::Kubernetes(kubernetes) => kubernetes.write(&key, value).await,
        };
        written.map_err(|problem| StorageFault::new(format!("`{key}` cannot be written"), self.describe(), problem))
    }

    /// Fine as well where there is none.
    pub async fn remove(&self, key: &str) -> Result<(), StorageFault> {
        let key = self.key(key)?;
        let removed = match &self.kind {
            Kind::Folder(folder) => folder.remove(&key).await,
            Kind::Redis(redis) => redis.remove(&key).await,
            Kind::Kubernetes(kubernetes) => kubernetes.remove(&key).await,
        };
        removed.map_err(|problem| StorageFault::new(format!("`{key}` cannot be removed"), self.describe(), problem))
    }

    /// All keys that begin with this text, sorted. The text may end anywhere, also within a segment; empty is all keys.
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>, StorageFault> {
        let listed = match &self.kind {
            Kind::Folder(folder) => folder.list(prefix).await,
            Kind::Redis(redis) => redis.list(prefix).await,
            Kind::Kubernetes(kubernetes) => kubernetes.list(prefix).await,
        };
        listed.map_err(|problem| StorageFault::new("keys cannot be listed", self.describe(), problem))
    }

    /// `None`: somebody else has it. Whoever wants it asks again after a while: a lock whose holder is gone is taken
    /// over by whoever asks, at once where the holder was a process of this host, and otherwise when this store has
    /// seen no sign of life for [`LEASE`]. So a first question about the lock of a host that went down is always
    /// answered `None`. Locks are not re-entrant. Names follow the rules of keys, and share nothing with them.
    pub async fn try_lock(&self, name: &str) -> Result<Option<Lock>, StorageFault> {
        let name = self.key(name)?;
        let asked = lease::now();
        let taken = match &self.kind {
            Kind::Folder(folder) => folder.try_take(&name).await.map(|taken| taken.map(Lease::Folder)),
            Kind::Redis(redis) => redis.try_take(&name).await.map(|taken| taken.map(Lease::Redis)),
            Kind::Kubernetes(kubernetes) => kubernetes.try_take(&name).await.map(|taken| taken.map(Lease::Kubernetes)),
        };
        let what = || format!("the lock `{name}` cannot be taken");
        let taken = taken.map_err(|problem| StorageFault::new(what(), self.describe(), problem))?;
        Ok(taken.map(|lease| Lock::keep(name.to_string(), self.describe(), lease, asked)))
    }

    /// Who has the lock, for a message; `None` when nobody has it, or nobody who says so.
    pub async fn holder(&self, name: &str) -> Result<Option<Owner>, StorageFault> {
        let name = self.key(name)?;
        let holder = match &self.kind {
            Kind::Folder(folder) => folder.holder(&name).await,
            Kind::Redis(redis) => redis.holder(&name).await,
            Kind::Kubernetes(kubernetes) => kubernetes.holder(&name).await,
        };
        holder.map_err(|problem| StorageFault::new(format!("the lock `{name}` cannot be looked at"), self.describe(), problem))
    }

    fn key(&self, key: &str) -> Result<Key, StorageFault> {
        Key::parse(key)
            .map_err(|problem| StorageFault::new(format!("`{}` cannot be a key", key.escape_debug()), self.describe(), problem))
    }
}
