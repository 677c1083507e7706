//! Secrets that are watched by their names, one by one, where nobody may or shall list all of them. What such a watch
//! says is told; what is in a Secret is fetched, as `secrets` says.

use crate::client::Client;
use crate::course::{WATCH_IDLE_MAX, WATCH_LASTS};
use crate::fault::Fault;
use crate::fetch::is_name;
use crate::kind::Kind;
use crate::news::{NamedNews, Told};
use crate::object::{FetchedMeta, Key, Secret};
use crate::page::Line;
use crate::texts::Texts;
use futures_util::StreamExt;
use futures_util::future::{AbortHandle, abortable};
use futures_util::stream::FuturesUnordered;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// Watches of single Secrets, each a connection to the API server. Secrets beyond them are fetched again every minute.
pub const NAMED_WATCHES_MAX: usize = 128;
/// Before a watch that ended is opened again, and the longest after faults.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MOST: Duration = Duration::from_secs(60);

/// Which watches are to end, and which Secrets have none and are to have one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Turn {
    pub ends: Vec<Key>,
    pub begins: Vec<Key>,
}

/// Watches what `turn` says, whenever `is_due` is notified. It is given which are watched, and how many more may be. It
/// ends by being dropped.
pub async fn watch_named(
    client: &Client,
    texts: Rc<RefCell<Texts>>,
    turn: impl Fn(&BTreeMap<Key, AbortHandle>, usize) -> Turn,
    is_due: &Notify,
    tell: impl Fn(Told),
) -> Infallible {
    let mut running: BTreeMap<Key, AbortHandle> = BTreeMap::new();
    let mut watches = FuturesUnordered::new();
    loop {
        let Turn { ends, begins } = turn(&running, NAMED_WATCHES_MAX.saturating_sub(running.len()));
        for key in ends {
            if let Some(handle) = running.remove(&key) {
                handle.abort();
            }
        }
        for key in begins.into_iter().filter(|key| is_name(&key.namespace) && is_name(&key.name)) {
            let (watch, handle) = abortable(watch_one(client, key.clone(), texts.clone(), &tell));
            running.insert(key, handle);
            watches.push(watch);
        }
        tokio::select! {
            Some(_) = watches.next() => {}
            () = is_due.notified() => {}
        }
    }
}

async fn watch_one(client: &Client, key: Key, texts: Rc<RefCell<Texts>>, tell: &impl Fn(Told)) -> Infallible {
    let mut faults: u32 = 0;
    let tell = |news| tell(Told::Named(key.clone(), news));
    loop {
        // Not all watches of a process end at the same time.
        let lasts = WATCH_LASTS.mul_f64(0.8 + 0.2 * rand::random::<f64>());
        let outcome = match client.watch_one(Kind::Secret, &key, lasts).await {
            Ok(mut watch) => {
                // What happened since the last one ended is not told: the Secret is fetched again.
                tell(NamedNews::Watched);
                faults = 0;
                loop {
                    match watch.next::<FetchedMeta<Secret>>(WATCH_IDLE_MAX, &texts).await {
                        Ok(None) => break Ok(()),
                        Ok(Some(Line::Fault(fault))) | Err(fault) => break Err(fault),
                        Ok(Some(Line::Put(found))) if found.key == key => tell(NamedNews::Version(found.version)),
                        Ok(Some(Line::Gone { key: gone, .. })) if gone == key => tell(NamedNews::Gone),
                        Ok(Some(
                            Line::Put(_) | Line::Gone { .. } | Line::Bookmark { .. } | Line::Unreadable { .. } | Line::Unknown,
                        )) => {}
                    }
                }
            }
            Err(fault) => Err(fault),
        };
        tell(NamedNews::Unwatched);
        let pause = PAUSE_FIRST.saturating_mul(1 << faults.min(10)).min(PAUSE_MOST).mul_f64(0.5 + rand::random::<f64>() / 2.0);
        faults = if outcome.is_err() { faults.saturating_add(1) } else { 0 };
        let after = match outcome {
            Err(Fault::Busy { retry_after: Some(after), .. }) => after.max(pause),
            Ok(()) | Err(_) => pause,
        };
        tokio::time::sleep(after).await;
    }
}
