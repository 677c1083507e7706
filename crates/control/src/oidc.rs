//! Log-ins by OpenID Connect, on a thread of its own, so that neither a provider that hangs nor a storage that is slow
//! is noticed anywhere else. It is not there until a configuration has an `oidc`. What is asked and believed is
//! decided in `access`; who waits for it, in `proxy::auth::oidc`. How providers are asked is in `asking`, what is kept
//! for all hosts in `keeping`.

mod asking;
mod keeping;

use asking::ProviderClient;
use keeping::{Keeping, RevokeOutcome};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tidegate_access::oidc::{LogOutToken, ProviderId, Revocation, Session};
use tidegate_model::Storage;
use tidegate_proxy::auth::oidc::{Errand, LogInOutcome, LogOutOutcome, OidcShared, Owed, ProviderState, RefreshOutcome};
use tidegate_proxy::process_state::ProcessState;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

/// Questions to one provider on their way, so that a thousand log-ins at one that hangs take no thousand connections.
const QUESTIONS_MAX: usize = 32;
/// Questions that wait for one of these places. Those who ask wait no longer than that takes at a provider that hangs,
/// and more of them would only gather.
const WAITING_MAX: usize = 200;
/// How often the storage is looked at for sessions that are over: every host refuses them within 5 s.
const LOOK_PERIOD: Duration = Duration::from_secs(2);
/// Threads that may be looking up a name that hangs, or be at a file of the storage.
const BLOCKING_MAX: usize = 8;

/// The thread. Without its owner it ends.
pub(crate) struct LogInThread {
    storage: Storage,
    /// Which storage it has, said again when that changes.
    told: watch::Sender<Storage>,
}

impl LogInThread {
    /// After a change, and once a second: the thread begins with the first `oidc`.
    pub fn look_after(this: &mut Option<LogInThread>, process: &Arc<ProcessState>, storage: &Storage, state_dir: &Path) {
        if let Some(thread) = this {
            if thread.storage != *storage {
                thread.storage = storage.clone();
                let _ = thread.told.send(storage.clone());
            }
            return;
        }
        if !process.oidc.has_providers() {
            return;
        }
        match LogInThread::start(process.clone(), storage.clone(), state_dir.to_owned()) {
            Ok(thread) => *this = Some(thread),
            // Another attempt follows in a second; requests wait or are told so.
            Err(error) => tracing::error!(%error, "nobody can log in: there is no thread for it"),
        }
    }

    fn start(process: Arc<ProcessState>, storage: Storage, state_dir: PathBuf) -> io::Result<LogInThread> {
        let (told, changes) = watch::channel(storage.clone());
        let wake = Arc::new(Notify::new());
        let woken = wake.clone();
        process.oidc.is_served_by(move || woken.notify_one());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_MAX).build()?;
        std::thread::Builder::new().name("oidc".into()).spawn(move || {
            let local = LocalSet::new();
            local.block_on(&runtime, run(process, state_dir, wake, changes));
            drop(local);
            // A look-up that hangs does not keep it.
            runtime.shutdown_background();
        })?;
        Ok(LogInThread { storage, told })
    }
}

/// For what a provider is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Question {
    Tokens,
    LogOut,
}

/// Places at a provider, and how many wait for one.
struct Places {
    free: Semaphore,
    waiting: Cell<usize>,
}

impl Places {
    /// `None`: too many wait already.
    async fn take(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(place) = self.free.try_acquire() {
            return Some(place);
        }
        if self.waiting.get() >= WAITING_MAX {
            return None;
        }
        self.waiting.set(self.waiting.get() + 1);
        // Never closed.
        let place = self.free.acquire().await.ok();
        self.waiting.set(self.waiting.get() - 1);
        place
    }
}

/// What all tasks of the thread have.
struct Surroundings {
    process: Arc<ProcessState>,
    asking: ProviderClient,
    keeping: Keeping,
    /// Of each provider its own: one that hangs keeps nobody from the others. Those of log-outs, whose tokens anybody
    /// can make up, are apart.
    places: RefCell<HashMap<(ProviderId, Question), Rc<Places>>>,
}

async fn run(process: Arc<ProcessState>, state_dir: PathBuf, wake: Arc<Notify>, mut changes: watch::Receiver<Storage>) {
    let around = Rc::new(Surroundings {
        asking: ProviderClient::new(process.clone()),
        keeping: Keeping::new(process.clone(), state_dir),
        places: RefCell::default(),
        process,
    });
    let storage = changes.borrow_and_update().clone();
    around.keeping.begin_with(storage);
    let looking = around.clone();
    spawn_local(async move {
        loop {
            looking.keeping.look().await;
            sleep(LOOK_PERIOD).await;
        }
    });
    loop {
        discover(&around, &wake);
        while let Some(errand) = around.process.oidc.next_errand() {
            let around = around.clone();
            spawn_local(async move { around.run_errand(errand).await });
        }
        tokio::select! {
            () = wake.notified() => {}
            () = sleep(next_discovery(&around.process.oidc)) => {}
            changed = changes.changed() => match changed {
                Ok(()) => around.keeping.begin_with(changes.borrow_and_update().clone()),
                Err(_) => return,
            },
        }
    }
}

/// Asks each provider that is to be asked for what it says of itself.
fn discover(around: &Rc<Surroundings>, wake: &Arc<Notify>) {
    for provider in around.process.oidc.providers() {
        if provider.begin(Instant::now()) {
            let (around, wake) = (around.clone(), wake.clone());
            spawn_local(async move {
                around.asking.discover(&provider).await;
                wake.notify_one();
            });
        }
    }
}

/// Timers stand still in a machine that sleeps: a minute at most.
fn next_discovery(shared: &OidcShared) -> Duration {
    let due = shared.providers().iter().filter_map(|provider| provider.due()).min();
    let until = due.map_or(Duration::MAX, |due| due.saturating_duration_since(Instant::now()));
    until.clamp(Duration::from_millis(10), Duration::from_secs(60))
}

impl Surroundings {
    /// Places at a provider. There are as many as a configuration names, and those of others go.
    fn places_at(&self, provider: &ProviderState, asked: Question) -> Rc<Places> {
        let mut places = self.places.borrow_mut();
        places.retain(|(id, _), places| *id == provider.id || Rc::strong_count(places) > 1);
        let new = || Rc::new(Places { free: Semaphore::new(QUESTIONS_MAX), waiting: Cell::new(0) });
        places.entry((provider.id, asked)).or_insert_with(new).clone()
    }

    async fn run_errand(&self, errand: Errand) {
        let places = match &errand {
            Errand::LogIn { provider, .. } | Errand::Refresh { provider, .. } => Some(self.places_at(provider, Question::Tokens)),
            Errand::LogOut { providers, .. } => providers.first().map(|provider| self.places_at(provider, Question::LogOut)),
            Errand::Revoke(_) => None,
        };
        let _place = match &places {
            Some(places) => match places.take().await {
                Some(place) => Some(place),
                None => return self.turn_away(errand),
            },
            None => None,
        };
        match errand {
            // A browser that has left, or has waited for too long, gets no session by it any more.
            Errand::LogIn { reply, .. } if !reply.is_awaited() => {}
            Errand::LogIn { provider, code, verifier, nonce, redirect, reply } => {
                let outcome = self.asking.log_in(&provider, (&code, &verifier), &nonce, &redirect).await;
                self.process.registry.log_ins().note_log_in(matches!(outcome, LogInOutcome::Session(_)));
                reply.give(outcome);
            }
            Errand::Refresh { provider, session } => self.refresh(&provider, &session).await,
            Errand::Revoke(revocations) => {
                let _ = self.keeping.revoke(&revocations, &[]).await;
            }
            Errand::LogOut { providers, token, reply } => self.log_out(&providers, &token, reply).await,
        }
    }

    /// Too many wait for the provider.
    fn turn_away(&self, errand: Errand) {
        match errand {
            Errand::LogIn { reply, .. } => reply.give(LogInOutcome::Busy),
            Errand::Refresh { session, .. } => {
                self.process.oidc.refreshed(session.generation(), &RefreshOutcome::Away, Instant::now());
            }
            Errand::LogOut { reply, .. } => reply.give(LogOutOutcome::Away),
            Errand::Revoke(_) => {}
        }
    }

    /// One host of a storage asks, and the others are given what it was told: a provider that rotates refresh tokens
    /// takes two that ask with the same one for a thief and a victim, and ends the session.
    async fn refresh(&self, provider: &Arc<ProviderState>, session: &Session) {
        let generation = session.generation();
        let (outcome, is_ours) = match self.keeping.begin_refresh(provider, generation).await {
            keeping::Turn::Done(session) => (RefreshOutcome::Renewed(session), false),
            keeping::Turn::Ours(lock) => {
                let outcome = self.asking.refresh(provider, session).await;
                self.keeping.end_refresh(provider, generation, &outcome, lock).await;
                (outcome, true)
            }
        };
        if is_ours {
            let metrics = self.process.registry.log_ins();
            match outcome {
                RefreshOutcome::Renewed(_) => metrics.note_renewed(),
                RefreshOutcome::Over => metrics.note_over(),
                RefreshOutcome::Away => metrics.note_away(),
            }
        }
        self.process.oidc.refreshed(generation, &outcome, Instant::now());
    }

    /// Believes a provider that a session has ended, and has every host refuse it.
    async fn log_out(&self, providers: &[Arc<ProviderState>], token: &[u8], reply: Owed<LogOutOutcome>) {
        let (mut revocations, mut messages) = (Vec::new(), Vec::new());
        let mut is_away = false;
        for provider in providers {
            match self.asking.log_out_token(provider, token).await {
                Ok(over) => {
                    revocations.extend(revocations_of(provider, &over));
                    let mark = Revocation::mark_of_message(&provider.id, &over.name);
                    messages.push(Revocation { mark, began_until: 0, ends: over.ends });
                }
                Err(outcome) => is_away |= outcome == LogOutOutcome::Away,
            }
        }
        reply.give(match (revocations.is_empty(), is_away) {
            (true, true) => LogOutOutcome::Away,
            (true, false) => LogOutOutcome::NotBelieved,
            (false, _) => match self.keeping.revoke(&revocations, &messages).await {
                RevokeOutcome::Kept => LogOutOutcome::Done,
                RevokeOutcome::HereAlone => LogOutOutcome::Away,
                RevokeOutcome::Repeated => {
                    let issuer = providers.first().map(|provider| &*provider.settings.issuer);
                    tracing::warn!(issuer, "a logout token has come before (`jti`), and ends nobody's session again");
                    LogOutOutcome::NotBelieved
                }
            },
        });
    }
}

/// A session that is named is over; of somebody all that began until now.
fn revocations_of(provider: &ProviderState, over: &LogOutToken) -> Option<Revocation> {
    let (id, now) = (&provider.id, now_unix());
    let ends = now + provider.session.as_secs() + provider.leeway.as_secs();
    if let Some(session) = &over.session {
        return Some(Revocation { mark: Revocation::mark_of_session(id, session), began_until: u64::MAX, ends });
    }
    over.subject.as_ref().map(|subject| Revocation { mark: Revocation::mark_of_subject(id, subject), began_until: now, ends })
}

/// In seconds of Unix time, which hosts have in common.
fn now_unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
