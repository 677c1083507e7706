//! What hosts of one storage share of log-ins: the keys that sessions are sealed with, which sessions are over, and
//! for a short time those that were refreshed. Sessions themselves lie with their browsers.

use super::now_unix;
use aws_lc_rs::rand;
use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_access::oidc::{Purpose, Realm, Revocation, Revoked, Session, SessionKeys};
use tidegate_model::Storage;
use tidegate_proxy::auth::oidc::{ProviderState, RefreshOutcome, SessionState};
use tidegate_proxy::process_state::ProcessState;
use tidegate_storage::{Lock, Store};
use tokio::time::sleep;

/// All keys are one value, so that they are replaced as one.
const KEYS: &str = "oidc/keys";
const KEYS_LOCK: &str = "oidc-keys";
const REVOKED: &str = "oidc/revoked";
const REVOKED_LOCK: &str = "oidc-revoked";
/// Refreshed sessions, each by what it was before.
const REFRESHED: &str = "oidc/refreshed";
/// Keys change once a day and are known an hour ahead.
const KEYS_PERIOD: Duration = Duration::from_secs(60);
/// How long another host may bring a cookie from before a refresh.
const REFRESHED_KEPT_SECONDS: u64 = 120;
const CLEAN_PERIOD: Duration = Duration::from_secs(120);
/// How long somebody else may be at it.
const LOCK_MAX: Duration = Duration::from_secs(8);
const LOCK_RETRY: Duration = Duration::from_millis(25);

pub(super) struct Keeping {
    process: Arc<ProcessState>,
    state_dir: PathBuf,
    storage: RefCell<Storage>,
    /// Opened by the first look that can.
    store: RefCell<Option<Rc<Store>>>,
    keys: RefCell<Option<Arc<SessionKeys>>>,
    keys_read: Cell<Option<Instant>>,
    cleaned: Cell<Option<Instant>>,
    fault: RefCell<Option<String>>,
}

/// What has come of a word that sessions are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RevokeOutcome {
    /// Every host knows it.
    Kept,
    /// Somebody has said the same words before.
    Repeated,
    /// This host alone knows it.
    HereAlone,
}

/// Whose refresh it is.
pub(super) enum Turn {
    /// Another host was faster.
    Done(Arc<Session>),
    /// Ours, and nobody else's while the lock is held; without one where the storage gives none.
    Ours(Option<Lock>),
}

impl Keeping {
    pub fn new(process: Arc<ProcessState>, state_dir: PathBuf) -> Keeping {
        Keeping {
            process,
            state_dir,
            storage: RefCell::new(Storage::State),
            store: RefCell::default(),
            keys: RefCell::default(),
            keys_read: Cell::default(),
            cleaned: Cell::new(Some(Instant::now())),
            fault: RefCell::default(),
        }
    }

    /// From now on this storage counts. What was known of the one before does until it was read.
    pub fn begin_with(&self, storage: Storage) {
        *self.storage.borrow_mut() = storage;
        *self.store.borrow_mut() = None;
        self.keys_read.set(None);
    }

    /// Takes on what is kept, and makes the next key when it is time.
    pub async fn look(&self) {
        let looked = self.read().await;
        let mut seen = self.fault.borrow_mut();
        match looked {
            Ok(()) => {
                if seen.take().is_some() {
                    tracing::info!("what is kept of log-ins is read from the storage again");
                }
            }
            Err(fault) if seen.as_ref() == Some(&fault) => {}
            Err(fault) => {
                let knows = self.process.oidc.state().is_some();
                tracing::error!(
                    fault,
                    "what is kept of log-ins cannot be read; {}",
                    if knows { "what is known of it stays" } else { "nobody can log in, and no session is known" }
                );
                *seen = Some(fault);
            }
        }
    }

    async fn read(&self) -> Result<(), String> {
        let store = self.store().await?;
        let is_due = self.keys_read.get().is_none_or(|read| read.elapsed() >= KEYS_PERIOD);
        let mut is_new = false;
        if is_due {
            let keys = self.current_keys(&store).await?;
            // Sessions that workers have opened stay opened as long as the keys are the same.
            let is_same = self.keys.borrow().as_ref().is_some_and(|known| *known.write() == *keys.write());
            if !is_same {
                *self.keys.borrow_mut() = Some(Arc::new(keys));
                is_new = true;
            }
            self.keys_read.set(Some(Instant::now()));
        }
        let revoked = read_revoked(&store).await?;
        is_new |= self.process.oidc.state().as_ref().is_none_or(|state| *state.revoked != revoked);
        if is_new {
            self.publish(revoked);
        }
        if self.cleaned.get().is_none_or(|cleaned| cleaned.elapsed() >= CLEAN_PERIOD) {
            self.cleaned.set(Some(Instant::now()));
            clean(&store).await?;
        }
        Ok(())
    }

    fn publish(&self, revoked: Revoked) {
        self.process.registry.log_ins().set_revoked(revoked.len());
        if let Some(keys) = self.keys.borrow().clone() {
            self.process.oidc.set_state(SessionState { keys, revoked: Arc::new(revoked) });
        }
    }

    async fn store(&self) -> Result<Rc<Store>, String> {
        let known = self.store.borrow().clone();
        if let Some(store) = known {
            return Ok(store);
        }
        let storage = self.storage.borrow().clone();
        let store = Rc::new(Store::open(&storage, &self.state_dir).await.map_err(|fault| fault.to_string())?);
        if *self.storage.borrow() == storage {
            *self.store.borrow_mut() = Some(store.clone());
        }
        Ok(store)
    }

    /// The keys of the storage, with the next one where it is due.
    async fn current_keys(&self, store: &Store) -> Result<SessionKeys, String> {
        if let Some(keys) = read_keys(store).await?
            && !keys.is_next_due(now_unix())
        {
            return Ok(keys);
        }
        let Some(lock) = wait_for_lock(store, KEYS_LOCK).await? else {
            // Who holds it makes the key.
            return read_keys(store).await?.ok_or_else(|| format!("somebody else holds the lock `{KEYS_LOCK}`"));
        };
        let keys = match read_keys(store).await? {
            // Somebody has made it just now.
            Some(keys) if !keys.is_next_due(now_unix()) => Ok(keys),
            present => {
                let base = match present {
                    Some(keys) => keys,
                    // A storage that lost everything, as Redis without a disk does, gets back what is in use.
                    None => self.keys_in_use()?,
                };
                let next = if base.is_next_due(now_unix()) { base.with_next(now_unix(), random()?) } else { base };
                let written = if lock.is_held() { store.write(KEYS, next.write().as_bytes()).await } else { Ok(()) };
                written.map(|()| next).map_err(|fault| fault.to_string())
            }
        };
        // Others find it free in half a minute at the latest.
        let _ = lock.release().await;
        keys
    }

    fn keys_in_use(&self) -> Result<SessionKeys, String> {
        match self.keys.borrow().as_ref() {
            Some(keys) => SessionKeys::read(keys.write().as_bytes()).map_err(|fault| fault.to_string()),
            None => Ok(SessionKeys::first(random()?)),
        }
    }

    /// Has every host refuse sessions. `messages`: by which providers have said so, and which count once.
    pub async fn revoke(&self, revocations: &[Revocation], messages: &[Revocation]) -> RevokeOutcome {
        match self.keep_revoked(revocations, messages).await {
            Ok(Some(revoked)) => {
                self.publish(revoked);
                RevokeOutcome::Kept
            }
            Ok(None) => RevokeOutcome::Repeated,
            Err(fault) => {
                tracing::error!(fault, "sessions that are over cannot be kept: other hosts take them still");
                let mut revoked = self.process.oidc.state().as_ref().map(|state| (*state.revoked).clone()).unwrap_or_default();
                // The message is not among them: the provider may send it again.
                for revocation in revocations {
                    revoked.add(*revocation, now_unix());
                }
                self.publish(revoked);
                RevokeOutcome::HereAlone
            }
        }
    }

    /// The list with all of these; `None`: a message stands in it already.
    async fn keep_revoked(&self, revocations: &[Revocation], messages: &[Revocation]) -> Result<Option<Revoked>, String> {
        let store = self.store().await?;
        let lock =
            wait_for_lock(&store, REVOKED_LOCK).await?.ok_or_else(|| format!("somebody else holds the lock `{REVOKED_LOCK}`"))?;
        let kept = async {
            let mut revoked = read_revoked(&store).await?;
            if messages.iter().any(|message| revoked.contains(&message.mark)) {
                return Ok(None);
            }
            for revocation in revocations.iter().chain(messages) {
                if !revoked.add(*revocation, now_unix()) {
                    return Err(format!("there are {} already; shorten `session=`", revoked.len()));
                }
            }
            if !lock.is_held() {
                return Err("the lock was lost meanwhile".to_owned());
            }
            store.write(REVOKED, revoked.write().as_bytes()).await.map_err(|fault| fault.to_string())?;
            Ok(Some(revoked))
        };
        let kept = kept.await;
        let _ = lock.release().await;
        kept
    }

    /// Whether this host is to refresh a session, or another has just done so.
    pub async fn begin_refresh(&self, provider: &ProviderState, generation: [u8; 16]) -> Turn {
        let begun = self.take_turn(provider, generation).await;
        begun.unwrap_or_else(|fault| {
            tracing::warn!(fault, "a session is refreshed without a word to other hosts");
            Turn::Ours(None)
        })
    }

    async fn take_turn(&self, provider: &ProviderState, generation: [u8; 16]) -> Result<Turn, String> {
        let store = self.store().await?;
        let place = place_of(generation);
        if let Some(session) = self.read_refreshed(&store, provider, &place).await? {
            return Ok(Turn::Done(session));
        }
        let lock = wait_for_lock(&store, &place).await?;
        Ok(match self.read_refreshed(&store, provider, &place).await? {
            Some(session) => {
                release(lock).await;
                Turn::Done(session)
            }
            None => Turn::Ours(lock),
        })
    }

    async fn read_refreshed(&self, store: &Store, provider: &ProviderState, place: &str) -> Result<Option<Arc<Session>>, String> {
        let Some(bytes) = store.read(place).await.map_err(|fault| fault.to_string())? else { return Ok(None) };
        let state = self.process.oidc.state().clone();
        let opened = state.and_then(|state| state.keys.open(Purpose::Handover, handover(provider), sealed_of(&bytes)?));
        Ok(opened.and_then(|opened| Session::read(&opened)).map(Arc::new))
    }

    /// Tells other hosts what came of it.
    pub async fn end_refresh(
        &self,
        provider: &ProviderState,
        generation: [u8; 16],
        outcome: &RefreshOutcome,
        lock: Option<Lock>,
    ) {
        if let RefreshOutcome::Renewed(session) = outcome
            && let Err(fault) = self.keep_refreshed(provider, generation, session).await
        {
            tracing::warn!(fault, "other hosts are not told of a session that was refreshed");
        }
        release(lock).await;
    }

    async fn keep_refreshed(&self, provider: &ProviderState, generation: [u8; 16], session: &Session) -> Result<(), String> {
        let store = self.store().await?;
        let Some(state) = self.process.oidc.state().clone() else { return Ok(()) };
        let now = now_unix();
        let sealed = state.keys.seal(Purpose::Handover, handover(provider), session.write(), now, random()?);
        // In clear is when it may go.
        let value = format!("{} {sealed}", now + REFRESHED_KEPT_SECONDS);
        store.write(&place_of(generation), value.as_bytes()).await.map_err(|fault| fault.to_string())
    }
}

/// What lies in the storage comes by no browser, and its place is known only to who has the session from before.
fn handover(provider: &ProviderState) -> Realm<'_> {
    Realm { provider: &provider.id, host: b"" }
}

fn place_of(generation: [u8; 16]) -> String {
    let mut place = format!("{REFRESHED}/");
    for byte in generation {
        let _ = write!(place, "{byte:02x}");
    }
    place
}

/// Behind the time in front.
fn sealed_of(value: &[u8]) -> Option<&[u8]> {
    let space = value.iter().position(|byte| *byte == b' ')?;
    Some(&value[space + 1..])
}

fn ends(value: &[u8]) -> Option<u64> {
    let space = value.iter().position(|byte| *byte == b' ')?;
    std::str::from_utf8(&value[..space]).ok()?.parse().ok()
}

/// Removes what no host looks for any more.
async fn clean(store: &Store) -> Result<(), String> {
    let places = store.list(&format!("{REFRESHED}/")).await.map_err(|fault| fault.to_string())?;
    for place in places {
        let value = store.read(&place).await.map_err(|fault| fault.to_string())?;
        if value.is_some_and(|value| ends(&value).is_none_or(|ends| ends < now_unix())) {
            store.remove(&place).await.map_err(|fault| fault.to_string())?;
        }
    }
    Ok(())
}

async fn read_keys(store: &Store) -> Result<Option<SessionKeys>, String> {
    let bytes = store.read(KEYS).await.map_err(|fault| fault.to_string())?.map(zeroize::Zeroizing::new);
    let unusable = |fault| format!("`{KEYS}` cannot be used: {fault}; run the same version on all hosts, or remove it");
    bytes.map(|bytes| SessionKeys::read(&bytes).map_err(unusable)).transpose()
}

async fn read_revoked(store: &Store) -> Result<Revoked, String> {
    let Some(bytes) = store.read(REVOKED).await.map_err(|fault| fault.to_string())? else { return Ok(Revoked::default()) };
    let unusable = |fault| format!("`{REVOKED}` cannot be used: {fault}; run the same version on all hosts, or remove it");
    Revoked::read(&bytes).map_err(unusable)
}

/// `None`: somebody else is at it for too long.
async fn wait_for_lock(store: &Store, name: &str) -> Result<Option<Lock>, String> {
    let until = Instant::now() + LOCK_MAX;
    loop {
        if let Some(lock) = store.try_lock(name).await.map_err(|fault| fault.to_string())? {
            return Ok(Some(lock));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        sleep(LOCK_RETRY).await;
    }
}

async fn release(lock: Option<Lock>) {
    if let Some(lock) = lock {
        // Others find it free in half a minute at the latest.
        let _ = lock.release().await;
    }
}

fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| "the system gives no randomness".to_owned())?;
    Ok(bytes)
}
