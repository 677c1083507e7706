//! Log-ins as all workers and the thread that asks providers see them: keys of sessions and which of them are over,
//! what providers say of themselves, errands on their way. Nothing here is on the way of a request but two reads
//! without a lock. A session is refreshed once, however many requests bring it: those that come meanwhile wait for the
//! same answer, and those that come a little later, with a cookie from before, are given it.

use super::reply::{Owed, OwedAnswer, reply};
use crate::auth::keys::IssuerKeys;
use arc_swap::{ArcSwapOption, Guard};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tidegate_access::KeyCourse;
use tidegate_access::oidc::{Metadata, ProviderId, Revocation, Revoked, Session, SessionKeys, provider_id};
use tidegate_middleware::CompiledOidc;
use tidegate_model::OidcProvider;

/// Errands that wait for the thread. A provider that hangs must not gather all of the process's memory.
const ERRANDS_MAX: usize = 1000;
/// Requests that wait for one refresh: all those of one browser's session.
const WAITING_MAX: usize = 200;
/// Refreshes that are remembered.
const FLIGHTS_MAX: usize = 4096;
/// How long requests may bring a cookie from before a refresh: those that were on their way, and those of tabs that had
/// queued them.
const REFRESHED_KEPT: Duration = Duration::from_mins(2);
/// A refresh that has failed is not tried again for each request.
const FAILED_KEPT: Duration = Duration::from_secs(10);

/// What was read of the storage.
#[derive(Debug)]
pub struct SessionState {
    pub keys: Arc<SessionKeys>,
    pub revoked: Arc<Revoked>,
}

/// A provider, and what is asked of it, as some configuration names it.
pub struct ProviderState {
    pub id: ProviderId,
    pub settings: OidcProvider,
    pub session: Duration,
    pub leeway: Duration,
    pub keeps_access: bool,
    pub asks_user_info: bool,
    found: ArcSwapOption<FoundProvider>,
    course: Mutex<KeyCourse>,
}

/// What a provider says of itself.
pub struct FoundProvider {
    pub metadata: Metadata,
    pub keys: Arc<IssuerKeys>,
}

impl fmt::Debug for ProviderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderState").field("issuer", &self.settings.issuer).finish_non_exhaustive()
    }
}

impl ProviderState {
    pub fn found(&self) -> Guard<Option<Arc<FoundProvider>>> {
        self.found.load()
    }

    /// When to ask it for its document next; not while an answer is on its way.
    pub fn due(&self) -> Option<Instant> {
        lock(&self.course).due()
    }

    /// Whether to ask now. Who is told so says how it went.
    pub fn begin(&self, now: Instant) -> bool {
        lock(&self.course).begin(now)
    }

    fn is_coming(&self, now: Instant) -> bool {
        lock(&self.course).is_coming(now)
    }

    /// Somebody wants to log in: it is asked once more, however long ago that failed, twice a minute at most.
    pub fn is_wanted(&self, now: Instant) {
        lock(&self.course).note_unknown(now);
    }
}

/// How a log-in ended.
pub enum LogInOutcome {
    Session(Box<Session>),
    Away,
    BadAnswer,
    /// Too many wait for the provider.
    Busy,
}

/// How a refresh ended.
#[derive(Clone)]
pub enum RefreshOutcome {
    Renewed(Arc<Session>),
    /// The provider takes the refresh token no more.
    Over,
    /// Nothing is known: the session goes on.
    Away,
}

/// What came of a provider's word that a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogOutOutcome {
    Done,
    NotBelieved,
    Away,
}

/// What the thread is to do.
pub enum Errand {
    LogIn {
        provider: Arc<ProviderState>,
        code: String,
        verifier: String,
        nonce: String,
        redirect: String,
        reply: Owed<LogInOutcome>,
    },
    Refresh {
        provider: Arc<ProviderState>,
        session: Arc<Session>,
    },
    /// Sessions that somebody has ended here.
    Revoke(Vec<Revocation>),
    LogOut {
        providers: Vec<Arc<ProviderState>>,
        token: Vec<u8>,
        reply: Owed<LogOutOutcome>,
    },
}

/// Nobody can do it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrandsBusy;

enum Flight {
    Asking(Vec<Owed<RefreshOutcome>>),
    Known(RefreshOutcome, Instant),
}

/// What is known of a refresh, or a future of it.
pub enum Refreshing {
    Known(RefreshOutcome),
    Waits(OwedAnswer<RefreshOutcome>),
}

/// Of the process.
#[derive(Default)]
pub struct OidcShared {
    state: ArcSwapOption<SessionState>,
    providers: Mutex<HashMap<[u8; 16], Weak<ProviderState>>>,
    errands: Mutex<VecDeque<Errand>>,
    flights: Mutex<HashMap<[u8; 16], Flight>>,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
    next_place: AtomicU64,
    /// Requests that wait for keys or a provider's word, each with its place.
    waiting: Mutex<Vec<(u64, Waker)>>,
}

impl fmt::Debug for OidcShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcShared").finish_non_exhaustive()
    }
}

/// A panic while it is held leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OidcShared {
    /// The keys of sessions, and which of these are over; none before the storage was read.
    pub fn state(&self) -> Guard<Option<Arc<SessionState>>> {
        self.state.load()
    }

    pub fn set_state(&self, state: SessionState) {
        self.state.store(Some(Arc::new(state)));
        self.tell();
    }

    /// The provider that a step means, the same for all that mean the same.
    pub fn provider(&self, oidc: &CompiledOidc, now: Instant) -> Arc<ProviderState> {
        let settings = &oidc.settings;
        let secret = settings.provider.secret.as_ref().map_or("", |secret| secret.reveal());
        let [session, leeway] = [settings.session, settings.leeway].map(|time| time.as_millis().to_string());
        let id = format!("{:032x}", u128::from_be_bytes(oidc.id));
        let ca = settings.provider.ca.as_ref().map_or(String::new(), |ca| ca.display().to_string());
        let key = provider_id([id.as_str(), secret, &session, &leeway, &ca]);
        let mut providers = lock(&self.providers);
        providers.retain(|_, provider| provider.strong_count() > 0);
        if let Some(provider) = providers.get(&key).and_then(Weak::upgrade) {
            return provider;
        }
        let provider = Arc::new(ProviderState {
            id: oidc.id,
            settings: settings.provider.clone(),
            session: settings.session,
            leeway: settings.leeway,
            keeps_access: settings.access_token.is_some(),
            asks_user_info: settings.asks_user_info,
            found: ArcSwapOption::empty(),
            course: Mutex::new(KeyCourse::new(now)),
        });
        providers.insert(key, Arc::downgrade(&provider));
        drop(providers);
        self.wake();
        provider
    }

    /// All that a configuration names.
    pub fn providers(&self) -> Vec<Arc<ProviderState>> {
        lock(&self.providers).values().filter_map(Weak::upgrade).collect()
    }

    pub fn has_providers(&self) -> bool {
        lock(&self.providers).values().any(|provider| provider.strong_count() > 0)
    }

    /// Says who is woken when there is something to do. To be said once; it must not block.
    pub fn is_served_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// What a provider says of itself has come, fresh for so long.
    pub fn take_found(&self, provider: &ProviderState, found: FoundProvider, life: Option<Duration>, now: Instant) {
        provider.found.store(Some(Arc::new(found)));
        lock(&provider.course).note_keys(now, life);
        self.tell();
    }

    /// The provider's word has not come.
    pub fn note_failure(&self, provider: &ProviderState, now: Instant) {
        lock(&provider.course).note_failure(now);
        self.tell();
    }

    /// Wakes those who wait for what was missing.
    fn tell(&self) {
        for (_, waker) in std::mem::take(&mut *lock(&self.waiting)) {
            waker.wake();
        }
    }

    /// A future of the moment when a request may be decided that lacks keys or its provider's word.
    pub fn ready(self: &Arc<OidcShared>, provider: Option<Arc<ProviderState>>) -> Readiness {
        self.wake();
        Readiness { shared: self.clone(), provider, place: None }
    }

    /// Gives the thread something to do.
    pub fn send(&self, errand: Errand) -> Result<(), ErrandsBusy> {
        let mut errands = lock(&self.errands);
        if errands.len() >= ERRANDS_MAX {
            return Err(ErrandsBusy);
        }
        errands.push_back(errand);
        drop(errands);
        self.wake();
        Ok(())
    }

    /// For the thread.
    pub fn next_errand(&self) -> Option<Errand> {
        lock(&self.errands).pop_front()
    }

    /// The session that takes the place of one whose tokens are about to end.
    pub fn refresh(&self, provider: &Arc<ProviderState>, session: &Session, now: Instant) -> Result<Refreshing, ErrandsBusy> {
        let generation = session.generation();
        let mut flights = lock(&self.flights);
        match flights.get_mut(&generation) {
            Some(Flight::Known(outcome, until)) if now < *until => return Ok(Refreshing::Known(outcome.clone())),
            Some(Flight::Asking(waiting)) => {
                if waiting.len() >= WAITING_MAX {
                    return Err(ErrandsBusy);
                }
                let (owed, awaited) = reply();
                waiting.push(owed);
                return Ok(Refreshing::Waits(awaited));
            }
            Some(Flight::Known(..)) | None => {}
        }
        if flights.len() >= FLIGHTS_MAX {
            flights.retain(|_, flight| match flight {
                Flight::Asking(_) => true,
                Flight::Known(_, until) => now < *until,
            });
        }
        if flights.len() >= FLIGHTS_MAX {
            // Better forget one that is done than refuse one that is not.
            let known = flights.iter().find(|(_, flight)| matches!(flight, Flight::Known(..))).map(|(key, _)| *key);
            flights.remove(&known.ok_or(ErrandsBusy)?);
        }
        let (owed, awaited) = reply();
        flights.insert(generation, Flight::Asking(vec![owed]));
        drop(flights);
        let errand = Errand::Refresh { provider: provider.clone(), session: Arc::new(session.clone()) };
        if let Err(busy) = self.send(errand) {
            lock(&self.flights).remove(&generation);
            return Err(busy);
        }
        Ok(Refreshing::Waits(awaited))
    }

    /// A refresh has come to its end.
    pub fn refreshed(&self, generation: [u8; 16], outcome: &RefreshOutcome, now: Instant) {
        let kept = match outcome {
            RefreshOutcome::Renewed(_) => REFRESHED_KEPT,
            RefreshOutcome::Over | RefreshOutcome::Away => FAILED_KEPT,
        };
        let before = lock(&self.flights).insert(generation, Flight::Known(outcome.clone(), now + kept));
        if let Some(Flight::Asking(waiting)) = before {
            for owed in waiting {
                owed.give(outcome.clone());
            }
        }
    }
}

/// Ready when keys are there and, where it matters, the provider's word, or when that has failed.
pub struct Readiness {
    shared: Arc<OidcShared>,
    provider: Option<Arc<ProviderState>>,
    place: Option<u64>,
}

impl Readiness {
    /// False: too many wait, and this one goes on with what there is.
    fn take_place(&mut self, waker: &Waker) -> bool {
        let shared = self.shared.clone();
        let mut waiting = lock(&shared.waiting);
        let place = *self.place.get_or_insert_with(|| shared.next_place.fetch_add(1, Ordering::Relaxed));
        waiting.retain(|(number, _)| *number != place);
        if waiting.len() >= ERRANDS_MAX {
            return false;
        }
        waiting.push((place, waker.clone()));
        true
    }

    fn is_over(&self) -> bool {
        let is_missing = |provider: &Arc<ProviderState>| provider.found().is_none() && provider.is_coming(Instant::now());
        self.shared.state().is_some() && !self.provider.as_ref().is_some_and(is_missing)
    }
}

impl Future for Readiness {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.is_over() || !self.take_place(context.waker()) {
            return Poll::Ready(());
        }
        // What came between the look and the waker.
        if self.is_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Readiness {
    /// A waker would hold the memory of a request that has long gone.
    fn drop(&mut self) {
        if let Some(place) = self.place {
            lock(&self.shared.waiting).retain(|(number, _)| *number != place);
        }
    }
}

#[cfg(test)]
mod tests;
