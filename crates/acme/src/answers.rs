//! Answers to CAs, put where they are looked for: with our own workers, and where several hosts share a storage also
//! there, since the CA may come to another host than the one that orders. Which challenge an answer is for, `challenge`
//! and `preflight` know.

use crate::interface::{ChallengeChange, TlsAnswer};
use crate::stored::{ANSWERS, StoredAnswer, http_answer_key, tls_answer_key};
use jiff::{SignedDuration, Timestamp};
use std::cell::RefCell;
use tidegate_storage::{StorageFault, Store};

/// No order takes as long. What a process that was killed has left is not believed after it, and removed by the next
/// one.
const LIFE: SignedDuration = SignedDuration::from_mins(30);

pub struct Answers {
    publish: Box<dyn Fn(ChallengeChange) + Send>,
    /// Other hosts read the same storage.
    is_shared: bool,
    /// Keys whose answers are not wanted any more; taken away by [`Answers::sweep`].
    gone: RefCell<Vec<String>>,
}

impl Answers {
    pub fn new(publish: Box<dyn Fn(ChallengeChange) + Send>, is_shared: bool) -> Answers {
        Answers { publish, is_shared, gone: RefCell::default() }
    }

    /// Is in place when this returns.
    pub async fn put(&self, store: &Store, change: ChallengeChange) {
        if self.is_shared
            && let Some((key, answer)) = stored(&change)
            && let Err(fault) = write(store, &key, &answer).await
        {
            tracing::warn!(%fault, "other hosts cannot answer the CA: the answer to its challenge is not in storage");
        }
        (self.publish)(change);
    }

    /// From our own workers at once, from storage with the next sweep.
    pub fn take_away(&self, change: ChallengeChange) {
        if self.is_shared {
            self.gone.borrow_mut().extend(key_of(&change));
        }
        (self.publish)(change);
    }

    pub async fn sweep(&self, store: &Store) {
        loop {
            let Some(key) = self.gone.borrow_mut().pop() else { return };
            if let Err(fault) = store.remove(&key).await {
                tracing::debug!(%fault, key, "an answer to a challenge stays in storage until its end");
            }
        }
    }

    /// What processes that were killed have left.
    pub async fn remove_old(&self, store: &Store, now: Timestamp) {
        if !self.is_shared {
            return;
        }
        for key in store.list(ANSWERS).await.unwrap_or_default() {
            let is_over = match store.read(&key).await {
                Ok(Some(bytes)) => serde_json::from_slice::<StoredAnswer>(&bytes).map_or(true, |answer| answer.until <= now),
                Ok(None) | Err(_) => false,
            };
            if is_over {
                self.gone.borrow_mut().push(key);
            }
        }
        self.sweep(store).await;
    }
}

/// What another process wants `http-01` to be answered with.
pub async fn http(store: &Store, token: &str, now: Timestamp) -> Option<String> {
    read(store, &http_answer_key(token), now).await?.key_authorization
}

/// The answer to a challenge of `tls-alpn-01` for this server name, if an order waits for one.
pub async fn tls(store: &Store, server_name: &str, now: Timestamp) -> Option<TlsAnswer> {
    let answer = read(store, &tls_answer_key(server_name)?, now).await?;
    Some(TlsAnswer { subject: answer.subject?, digest: answer.digest? })
}

async fn read(store: &Store, key: &str, now: Timestamp) -> Option<StoredAnswer> {
    let bytes =
        store.read(key).await.inspect_err(|fault| tracing::warn!(%fault, "a CA's question cannot be answered")).ok()??;
    serde_json::from_slice::<StoredAnswer>(&bytes).ok().filter(|answer| answer.until > now)
}

async fn write(store: &Store, key: &str, answer: &StoredAnswer) -> Result<(), StorageFault> {
    let bytes = serde_json::to_vec(answer).unwrap_or_default();
    store.write(key, &bytes).await
}

fn stored(change: &ChallengeChange) -> Option<(String, StoredAnswer)> {
    let nothing = StoredAnswer { until: Timestamp::now() + LIFE, key_authorization: None, subject: None, digest: None };
    let answer = match change {
        ChallengeChange::AddHttp { key_authorization, .. } => {
            StoredAnswer { key_authorization: Some(key_authorization.clone()), ..nothing }
        }
        ChallengeChange::AddTls { subject, digest, .. } => {
            StoredAnswer { subject: Some(subject.clone()), digest: Some(*digest), ..nothing }
        }
        ChallengeChange::RemoveHttp { .. } | ChallengeChange::RemoveTls { .. } => return None,
    };
    Some((key_of(change)?, answer))
}

fn key_of(change: &ChallengeChange) -> Option<String> {
    match change {
        ChallengeChange::AddHttp { token, .. } | ChallengeChange::RemoveHttp { token } => Some(http_answer_key(token)),
        ChallengeChange::AddTls { server_name, .. } | ChallengeChange::RemoveTls { server_name } => tls_answer_key(server_name),
    }
}
