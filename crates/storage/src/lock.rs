//! A lock that this process holds: kept by a heartbeat in a task of its own, and trusted only as long as nobody else
//! can have taken it. How it is taken, renewed and given back is each store's own (`folder::locks` and its siblings);
//! how long a lease lasts is in `lease`.

use crate::fault::{Problem, StorageFault};
use crate::folder::FolderLease;
use crate::kubernetes::KubernetesLease;
use crate::lease::{Renewal, now};
use crate::redis::RedisLease;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Between two signs of life. Four of them may fail in a row.
pub const HEARTBEAT: Duration = Duration::from_secs(4);
/// So long after the last sign of life the holder itself still trusts its lock. Others wait a third longer: that much
/// two clocks may differ in speed, and so long may something take that was begun just before.
pub const HELD_AFTER_HEARTBEAT: Duration = Duration::from_secs(20);
/// After a heartbeat that failed.
const HEARTBEAT_AGAIN: Duration = Duration::from_secs(1);

/// Given back when dropped, by its task; whoever can wait calls [`Lock::release`], after which it is certain.
pub struct Lock {
    name: String,
    trust: Arc<Trust>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), StorageFault>>,
}

impl Lock {
    /// `asked`: the time before the lease was taken, because others may count from there.
    pub(crate) fn keep(name: String, place: String, lease: Lease, asked: Duration) -> Lock {
        let trust = Arc::new(Trust::until(asked + HELD_AFTER_HEARTBEAT));
        let (stop, stopped) = oneshot::channel();
        let kept = heartbeat(lease, (name.clone(), place.clone()), trust.clone(), stopped);
        let what = format!("the lock `{name}` cannot be given back");
        let task = tokio::spawn(async { kept.await.map_err(|problem| StorageFault::new(what, place, problem)) });
        Lock { name, trust, stop: Some(stop), task }
    }

    /// False once somebody else may have it, and never true again after that. Ask before each step that must not be
    /// done twice.
    pub fn is_held(&self) -> bool {
        self.trust.holds_at(now())
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Afterwards others can take it at once; after a fault they wait for the lease.
    pub async fn release(mut self) -> Result<(), StorageFault> {
        self.stop.take();
        // A task that panicked or whose runtime ends says nothing more, and its lease runs out.
        (&mut self.task).await.unwrap_or(Ok(()))
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &self.name).field("is_held", &self.is_held()).finish_non_exhaustive()
    }
}

/// What a store keeps of a lock that is held.
#[derive(Debug)]
pub(crate) enum Lease {
    Folder(FolderLease),
    Redis(RedisLease),
    Kubernetes(KubernetesLease),
}

impl Lease {
    async fn renew(&mut self) -> Result<Renewal, Problem> {
        match self {
            Lease::Folder(lease) => lease.renew().await,
            Lease::Redis(lease) => lease.renew().await,
            Lease::Kubernetes(lease) => lease.renew().await,
        }
    }

    async fn release(self) -> Result<(), Problem> {
        match self {
            Lease::Folder(lease) => lease.release().await,
            Lease::Redis(lease) => lease.release().await,
            Lease::Kubernetes(lease) => lease.release().await,
        }
    }
}

/// Ends when the other end of `stopped` is dropped, or when the lease is lost.
async fn heartbeat(
    mut lease: Lease,
    (name, place): (String, String),
    trust: Arc<Trust>,
    mut stopped: oneshot::Receiver<()>,
) -> Result<(), Problem> {
    let mut pause = HEARTBEAT;
    loop {
        if tokio::time::timeout(pause, &mut stopped).await.is_ok() {
            return lease.release().await;
        }
        let asked = now();
        pause = match lease.renew().await {
            Ok(Renewal::Renewed) if trust.extend(asked) => HEARTBEAT,
            // Renewed too late: it was not trusted for a moment, so it is not trusted again.
            Ok(Renewal::Renewed) => return lease.release().await,
            Ok(Renewal::Lost) => {
                trust.lose();
                return Ok(());
            }
            Err(problem) => {
                let fault = StorageFault::new(format!("the lock `{name}` cannot be renewed"), &place, problem);
                tracing::warn!(%fault, "a lock could not be renewed");
                HEARTBEAT_AGAIN
            }
        };
    }
}

/// What the task of the heartbeat tells who holds the lock.
struct Trust {
    until_millis: AtomicU64,
    is_lost: AtomicBool,
}

impl Trust {
    fn until(until: Duration) -> Trust {
        Trust { until_millis: AtomicU64::new(until.as_millis() as u64), is_lost: AtomicBool::new(false) }
    }

    fn holds_at(&self, now: Duration) -> bool {
        !self.is_lost.load(Ordering::Acquire) && (now.as_millis() as u64) < self.until_millis.load(Ordering::Acquire)
    }

    /// A heartbeat that was begun at `asked` succeeded. False, and lost for good, when that was too late.
    fn extend(&self, asked: Duration) -> bool {
        if !self.holds_at(asked) {
            self.lose();
            return false;
        }
        self.until_millis.store((asked + HELD_AFTER_HEARTBEAT).as_millis() as u64, Ordering::Release);
        true
    }

    fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::{HEARTBEAT, HEARTBEAT_AGAIN, HELD_AFTER_HEARTBEAT, Trust};
    use crate::lease::LEASE;
    use std::time::Duration;

    #[test]
    fn who_holds_a_lock_stops_trusting_it_before_others_take_it() {
        assert!(HELD_AFTER_HEARTBEAT * 3 / 2 <= LEASE);
        assert!(HEARTBEAT * 4 + HEARTBEAT_AGAIN <= HELD_AFTER_HEARTBEAT);
    }

    /// Heartbeats at these seconds, then the second at which somebody asks.
    fn check(heartbeats: &[u64], asked_at: u64, expected: bool) {
        let trust = Trust::until(HELD_AFTER_HEARTBEAT);
        for second in heartbeats {
            trust.extend(Duration::from_secs(*second));
        }
        assert_eq!(trust.holds_at(Duration::from_secs(asked_at)), expected, "{heartbeats:?}, asked at {asked_at}");
    }

    #[test]
    fn trust_lasts_from_heartbeat_to_heartbeat_and_never_comes_back() {
        check(&[], 0, true);
        check(&[], 19, true);
        check(&[], 20, false);
        check(&[5], 24, true);
        check(&[5], 25, false);
        check(&[5, 24], 43, true);
        // Between 20 and 21 nobody trusted it, and somebody may have acted on that.
        check(&[21], 22, false);
        check(&[21, 22, 23], 24, false);
    }

    #[test]
    fn what_is_lost_stays_lost() {
        let trust = Trust::until(HELD_AFTER_HEARTBEAT);
        trust.lose();
        assert!(!trust.extend(Duration::from_secs(1)));
        assert!(!trust.holds_at(Duration::from_secs(1)));
    }
}
