//! Session tickets that all hosts of a storage accept: reads the keys that are there, and makes the next one when it is
//! time and nobody else is at it. When that is, and which key is used, is decided by `certs::SharedKeys`; where keys
//! come from otherwise is in `tickets`.

use jiff::Timestamp;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidegate_certs::{SharedKeys, TicketKeys, TlsProcessState, UnreadableKeys};
use tidegate_model::{Configuration, Storage, TicketKeySource};
use tidegate_storage::{StorageFault, Store};
use tokio::task::JoinHandle;
use zeroize::Zeroizing;

/// All keys are one value, so that they are replaced as one.
const PLACE: &str = "tickets/keys";
/// Held from reading to writing, so that of many hosts one makes the next key.
const LOCK: &str = "ticket-keys";
/// A key is there three hours before it is used; this is often enough for one that is used at once, as the first one
/// is.
const LOOK_PERIOD: Duration = Duration::from_secs(60);
/// Somebody else makes the key at this moment.
const LOOK_AGAIN_BUSY: Duration = Duration::from_secs(2);
/// After a fault: sooner, since hosts may be on keys of their own.
const LOOK_AGAIN_FAULT: Duration = Duration::from_secs(10);

/// The task beside the requests, which ends with this.
pub(crate) struct TicketSharing {
    storage: Storage,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

/// What has come of it so far.
#[derive(Default)]
struct Seen {
    place: String,
    read: Option<Timestamp>,
    fault: Option<String>,
    /// Whether there were keys of the storage for that moment.
    had_keys: bool,
}

impl TicketSharing {
    /// Begins, goes on or ends as the configuration that runs wants it.
    pub fn follow(this: &mut Option<TicketSharing>, configuration: &Configuration, tls: &TlsProcessState) {
        if configuration.ticket_keys != TicketKeySource::Shared {
            *this = None;
            return;
        }
        if this.as_ref().is_some_and(|sharing| sharing.storage == configuration.storage) {
            return;
        }
        let storage = configuration.storage.clone();
        let seen = Arc::new(Mutex::new(Seen {
            place: tidegate_config::writing::storage(&storage, &configuration.filled),
            ..Seen::default()
        }));
        let sharing = Sharing {
            storage: storage.clone(),
            state_dir: tls.state_dir().to_owned(),
            store: None,
            tickets: tls.tickets.clone(),
            seen: seen.clone(),
        };
        *this = Some(TicketSharing { storage, seen, task: tokio::task::spawn_local(sharing.go_on()) });
    }

    pub fn report(&self, tickets: &TicketKeys) -> tidegate_api::TicketKeys {
        let seen = locked(&self.seen);
        let until = tickets.shared_until_secs(now_secs());
        tidegate_api::TicketKeys {
            storage: seen.place.clone(),
            read: seen.read,
            shared_until: until.and_then(|until| Timestamp::from_second(i64::try_from(until).ok()?).ok()),
            fault: seen.fault.clone(),
        }
    }
}

impl Drop for TicketSharing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Sharing {
    storage: Storage,
    state_dir: PathBuf,
    /// Opened by the first look that can.
    store: Option<Store>,
    tickets: Arc<TicketKeys>,
    seen: Arc<Mutex<Seen>>,
}

enum Look {
    /// The keys are known, and none is missing.
    Complete,
    /// A key is due, and somebody else makes it.
    Busy,
}

enum LookFault {
    Storage(StorageFault),
    Unreadable(UnreadableKeys),
    NoKey(String),
}

impl Sharing {
    async fn go_on(mut self) {
        loop {
            let looked = self.look().await;
            tokio::time::sleep(self.note(looked)).await;
        }
    }

    async fn look(&mut self) -> Result<Look, LookFault> {
        if self.store.is_none() {
            self.store = Some(Store::open(&self.storage, &self.state_dir).await?);
        }
        let Some(store) = &self.store else { return Ok(Look::Busy) };
        if let Some(keys) = read(store).await? {
            self.tickets.take_shared(keys.clone());
            if keys.next_due(now_secs()).is_none() {
                return Ok(Look::Complete);
            }
        }
        let Some(lock) = store.try_lock(LOCK).await? else { return Ok(Look::Busy) };
        // Somebody may have made it just now.
        let present = read(store).await?;
        let is_there = present.is_some();
        // A storage that lost everything, as Redis without a disk does, gets back what is in use.
        let keys = present.unwrap_or_else(|| self.tickets.shared_keys());
        let now = now_secs();
        let next = match keys.next_due(now) {
            Some(begin) => Some(keys.with_next(begin, now).map_err(|error| LookFault::NoKey(error.message()))?),
            None => (!is_there).then(|| keys.clone()),
        };
        let Some(next) = next else {
            self.tickets.take_shared(keys);
            return Ok(Look::Complete);
        };
        if !lock.is_held() {
            return Ok(Look::Busy);
        }
        store.write(PLACE, &next.write()).await?;
        tracing::info!(storage = store.describe(), "wrote keys of session tickets, with the next one");
        self.tickets.take_shared(next);
        // Others find it free in half a minute at the latest.
        let _ = lock.release().await;
        Ok(Look::Complete)
    }

    /// Says what is news, and when to look again.
    fn note(&self, looked: Result<Look, LookFault>) -> Duration {
        let mut seen = locked(&self.seen);
        let now = now_secs();
        let left = self.tickets.shared_until_secs(now).map(|until| until.saturating_sub(now));
        if std::mem::replace(&mut seen.had_keys, left.is_some()) && left.is_none() {
            tracing::error!(
                storage = seen.place,
                "session tickets are made with own keys now: no key of the storage is for this time"
            );
        }
        let fault = match looked {
            Ok(look) => {
                // Whoever waits for another host's first key has none yet.
                if left.is_none() {
                    return LOOK_AGAIN_BUSY;
                }
                if seen.fault.take().is_some() || seen.read.is_none() {
                    tracing::info!(storage = seen.place, "session tickets are shared with the other hosts of the storage");
                }
                seen.read = Some(Timestamp::now());
                return match look {
                    Look::Complete => LOOK_PERIOD,
                    Look::Busy => LOOK_AGAIN_BUSY,
                };
            }
            Err(fault) => fault.to_string(),
        };
        if seen.fault.as_ref() != Some(&fault) {
            tracing::error!(
                fault,
                seconds_left = left,
                "keys of session tickets are not shared; those at hand are used to their end, and then own ones"
            );
            seen.fault = Some(fault);
        }
        LOOK_AGAIN_FAULT
    }
}

async fn read(store: &Store) -> Result<Option<SharedKeys>, LookFault> {
    let Some(bytes) = store.read(PLACE).await?.map(Zeroizing::new) else { return Ok(None) };
    SharedKeys::read(&bytes).map(Some).map_err(LookFault::Unreadable)
}

impl From<StorageFault> for LookFault {
    fn from(fault: StorageFault) -> LookFault {
        LookFault::Storage(fault)
    }
}

impl std::fmt::Display for LookFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LookFault::Storage(fault) => fault.fmt(f),
            LookFault::Unreadable(why @ UnreadableKeys::OtherVersion(_)) => {
                write!(f, "`{PLACE}` cannot be used: {why}; run the same version on all hosts, or remove it once they do")
            }
            LookFault::Unreadable(why @ UnreadableKeys::Damaged) => {
                write!(f, "`{PLACE}` cannot be used: {why}; remove it, and new ones are made")
            }
            LookFault::NoKey(why) => write!(f, "no key can be made: {why}; look at the system's source of randomness"),
        }
    }
}

fn locked(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keys begin and end by the wall clock, which hosts have in common; a clock before 1970 is as wrong as one of 1970.
fn now_secs() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or_default()
}
