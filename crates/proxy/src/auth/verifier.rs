//! Threads that verify passwords: few, of low priority, with a bounded queue in front of them. The same question is
//! answered once however many wait for it, and remembered for a while. Nothing here runs on a worker but a look at what
//! is remembered.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tidegate_access::Identity;
use tidegate_limiting::{Attempt, FailureQuotas, Failures, network};
use tidegate_passwords::{Answers, Key, Keyer, PasswordHash, Users};
use tidegate_transport::rt;
use zeroize::Zeroizing;

/// Threads at most; half of the cores otherwise. Each may use the memory that a hash asks for.
const THREADS_MAX: usize = 4;
/// Questions that wait for a thread.
const WAITING_MAX: usize = 64;
/// Of them, those of one client address (IPv6: of one /64), so that who guesses passwords leaves room for others.
const WAITING_OF_CLIENT_MAX: usize = 16;
const IPV6_PREFIX: u8 = 64;
/// A thread without work ends after this.
const THREAD_IDLE: Duration = Duration::from_secs(60);

/// Of the whole process.
pub struct Verifier {
    shared: Arc<Shared>,
    threads_max: usize,
}

struct Shared {
    /// `None`: the system has no randomness, and nobody is let in.
    keyer: Option<Keyer>,
    answers: Mutex<Answers>,
    failures: Failures,
    /// Times of failures are counted from here.
    began: Instant,
    queue: Mutex<Queue>,
    has_work: Condvar,
}

#[derive(Default)]
struct Queue {
    /// In order of arrival. The one with the lowest turn is next, so that clients take turns however many questions
    /// each of them has.
    waiting: VecDeque<Arc<HashJob>>,
    /// Waiting, or being verified. Each is somebody's ticket, or a thread's.
    under_way: HashMap<Key, Arc<HashJob>>,
    of_clients: HashMap<IpAddr, OfClient>,
    /// The turn of the question that was taken last.
    turn: u64,
    threads: usize,
    idle: usize,
}

/// What a client has in the queue, or with a thread.
#[derive(Default)]
struct OfClient {
    questions: usize,
    /// Of its last one.
    turn: u64,
}

/// One question.
struct HashJob {
    turn: u64,
    key: Key,
    client: IpAddr,
    /// Nobody has the name: the hash is somebody else's, and the answer is no.
    is_nobody: bool,
    hash: PasswordHash,
    password: Zeroizing<Vec<u8>>,
    /// Counts as a failure until it turns out to be none.
    attempt: Option<Attempt>,
    state: Mutex<JobState>,
}

#[derive(Default)]
struct JobState {
    outcome: Option<PasswordVerdict>,
    next_ticket: u64,
    /// Who waits, by the number of the ticket.
    wakers: Vec<(u64, Option<Waker>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordVerdict {
    Fits,
    DoesNotFit,
    /// The machine had not what it takes.
    NotVerified,
}

pub enum Verification {
    /// Known from before. `None`: they are not right.
    Answered(Option<Arc<Identity>>),
    Waits(Ticket),
    /// Too many wait.
    Busy,
    /// Too many were wrong before; nothing is said of this one for so long.
    HeldUp(Duration),
}

/// Who asks, and for how many wrong passwords.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    pub client: IpAddr,
    /// The site, which has counts of its own.
    pub place: &'a str,
    pub failures: Option<FailureQuotas>,
}

/// A place among those who wait for an answer; given up when it is dropped. A future of the answer.
pub struct Ticket {
    shared: Arc<Shared>,
    job: Arc<HashJob>,
    number: u64,
    user: Option<Arc<Identity>>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("threads_max", &self.threads_max).finish_non_exhaustive()
    }
}

impl Default for Verifier {
    fn default() -> Verifier {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Verifier::with_threads((cores / 2).clamp(1, THREADS_MAX))
    }
}

impl Verifier {
    fn with_threads(threads_max: usize) -> Verifier {
        let shared = Shared {
            keyer: Keyer::random(),
            answers: Mutex::default(),
            failures: Failures::default(),
            began: Instant::now(),
            queue: Mutex::default(),
            has_work: Condvar::new(),
        };
        Verifier { shared: Arc::new(shared), threads_max }
    }

    /// Whether the name and the password are right for these users. Takes about a microsecond, whatever the answer.
    pub fn ask(&self, users: &Users, (name, password): (&[u8], &[u8]), asker: Asker<'_>, now: Instant) -> Verification {
        let Some(keyer) = &self.shared.keyer else { return Verification::Busy };
        let found = users.find(name, keyer.draw(name));
        let key = keyer.key(name, password, &found);
        let failures = &self.shared.failures;
        let mut attempt = asker.failures.map(|quotas| failures.attempt(quotas, asker.place, asker.client, (name, password)));
        let since = now.saturating_duration_since(self.shared.began);
        // Also where the answer is known: who guesses would learn it.
        if let Some(wait) = attempt.as_ref().and_then(|attempt| failures.wait_of_name(attempt, since)) {
            return Verification::HeldUp(wait);
        }
        if let Some(is_good) = lock(&self.shared.answers).get(&key, now) {
            if let Some(attempt) = attempt.filter(|_| is_good) {
                failures.note_success(&attempt, since);
            }
            return Verification::Answered(found.user.filter(|_| is_good).cloned());
        }
        // The addresses of one subscriber count as one.
        let client = network(asker.client, IPV6_PREFIX);
        let mut queue = lock(&self.shared.queue);
        let job = match queue.under_way.get(&key) {
            Some(job) => job.clone(),
            None => {
                if let Some(wait) = attempt.as_mut().and_then(|attempt| failures.count(attempt, since).err()) {
                    return Verification::HeldUp(wait);
                }
                let of_client = queue.of_clients.get(&client).map_or(0, |client| client.questions);
                if queue.waiting.len() >= WAITING_MAX || of_client >= WAITING_OF_CLIENT_MAX || !self.has_thread(&mut queue) {
                    self.shared.give_back(attempt, now);
                    return Verification::Busy;
                }
                let job = Arc::new(HashJob {
                    turn: queue.next_turn(client),
                    key,
                    client,
                    is_nobody: found.user.is_none(),
                    hash: found.hash.clone(),
                    password: Zeroizing::new(password.to_vec()),
                    attempt,
                    state: Mutex::default(),
                });
                queue.add(job.clone());
                self.shared.has_work.notify_one();
                job
            }
        };
        Verification::Waits(Ticket::new(&self.shared, job, found.user.cloned()))
    }

    /// Counts a secret without a name that was wrong; otherwise how long to wait before anything is said of one.
    pub fn note_wrong(&self, secret: &[u8], asker: Asker<'_>, now: Instant) -> Result<(), Duration> {
        let Some(quotas) = asker.failures else { return Ok(()) };
        let attempt = self.shared.failures.attempt(quotas, asker.place, asker.client, (b"", secret));
        self.shared.failures.count_address(&attempt, now.saturating_duration_since(self.shared.began))
    }

    /// Whether a thread will take what is added now; starts one where there may be one more. False: the system has none
    /// to give.
    fn has_thread(&self, queue: &mut Queue) -> bool {
        if queue.idle <= queue.waiting.len() && queue.threads < self.threads_max {
            let shared = self.shared.clone();
            let started = std::thread::Builder::new().name("passwords".into()).spawn(move || shared.work());
            if started.is_ok() {
                queue.threads += 1;
            }
        }
        // Those of tests have none, and do the work themselves.
        queue.threads > 0 || self.threads_max == 0
    }
}

/// A panic while one of them is held leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// One round later than the client's last question, and never earlier than what is being answered.
    fn next_turn(&self, client: IpAddr) -> u64 {
        self.of_clients.get(&client).map_or(self.turn, |client| self.turn.max(client.turn + 1))
    }

    fn add(&mut self, job: Arc<HashJob>) {
        let client = self.of_clients.entry(job.client).or_default();
        client.questions += 1;
        client.turn = job.turn;
        self.under_way.insert(job.key, job.clone());
        self.waiting.push_back(job);
    }

    fn take(&mut self) -> Option<Arc<HashJob>> {
        // `min_by_key` takes the first of several, which has waited longest.
        let (position, _) = self.waiting.iter().enumerate().min_by_key(|(_, job)| job.turn)?;
        let job = self.waiting.remove(position)?;
        self.turn = self.turn.max(job.turn);
        Some(job)
    }

    /// Takes out a job that was answered, or that nobody waits for any more.
    fn remove(&mut self, job: &Arc<HashJob>) {
        self.under_way.remove(&job.key);
        if let Some(client) = self.of_clients.get_mut(&job.client) {
            client.questions -= 1;
            if client.questions == 0 {
                self.of_clients.remove(&job.client);
            }
        }
    }
}

impl Shared {
    /// The life of a thread.
    fn work(&self) {
        // Requests that need no password come first.
        rt::lower_priority_of_thread();
        while let Some(job) = self.next() {
            self.answer(&job);
        }
    }

    /// The next question; `None` when there was none for long enough that this thread, counted out already, may end.
    fn next(&self) -> Option<Arc<HashJob>> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.take() {
                return Some(job);
            }
            queue.idle += 1;
            let (woken, waited) = self.has_work.wait_timeout(queue, THREAD_IDLE).unwrap_or_else(PoisonError::into_inner);
            queue = woken;
            queue.idle -= 1;
            if waited.timed_out() && queue.waiting.is_empty() {
                queue.threads -= 1;
                return None;
            }
        }
    }

    /// The attempt was no failure.
    fn give_back(&self, attempt: Option<Attempt>, now: Instant) {
        if let Some(mut attempt) = attempt {
            self.failures.give_back(&mut attempt, now.saturating_duration_since(self.began));
        }
    }

    fn answer(&self, job: &Arc<HashJob>) {
        let verified = catch_unwind(AssertUnwindSafe(|| job.hash.verify(&job.password)));
        let outcome = match verified {
            Ok(Ok(fits)) if fits && !job.is_nobody => PasswordVerdict::Fits,
            Ok(Ok(_)) => PasswordVerdict::DoesNotFit,
            Ok(Err(_)) | Err(_) => PasswordVerdict::NotVerified,
        };
        match outcome {
            PasswordVerdict::Fits => {
                let now = Instant::now();
                lock(&self.answers).add(job.key, true, now);
                self.give_back(job.attempt, now);
                if let Some(attempt) = &job.attempt {
                    self.failures.note_success(attempt, now.saturating_duration_since(self.began));
                }
            }
            PasswordVerdict::DoesNotFit => lock(&self.answers).add(job.key, false, Instant::now()),
            PasswordVerdict::NotVerified => {
                self.give_back(job.attempt, Instant::now());
                tracing::error!("a password could not be verified: there is not enough memory for its hash");
            }
        }
        // After this nobody joins, so nobody waits in vain.
        lock(&self.queue).remove(job);
        let mut state = lock(&job.state);
        state.outcome = Some(outcome);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().filter_map(|(_, waker)| waker).for_each(Waker::wake);
    }
}

impl Ticket {
    /// The caller holds the queue, so that the job is not answered or given up meanwhile.
    fn new(shared: &Arc<Shared>, job: Arc<HashJob>, user: Option<Arc<Identity>>) -> Ticket {
        let mut state = lock(&job.state);
        let number = state.next_ticket;
        state.next_ticket += 1;
        state.wakers.push((number, None));
        drop(state);
        Ticket { shared: shared.clone(), job, number, user }
    }

    /// Who it will have been, if the password fits.
    pub fn user(&self) -> Option<Arc<Identity>> {
        self.user.clone()
    }
}

impl Future for Ticket {
    type Output = PasswordVerdict;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<PasswordVerdict> {
        let mut state = lock(&self.job.state);
        if let Some(outcome) = state.outcome {
            return Poll::Ready(outcome);
        }
        if let Some((_, waker)) = state.wakers.iter_mut().find(|(number, _)| *number == self.number) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        let mut state = lock(&self.job.state);
        state.wakers.retain(|(number, _)| *number != self.number);
        if state.outcome.is_some() || !state.wakers.is_empty() {
            return;
        }
        drop(state);
        // Nobody wants to know any more: unless it is being verified, its place is somebody else's.
        if let Some(position) = queue.waiting.iter().position(|job| Arc::ptr_eq(job, &self.job)) {
            queue.waiting.remove(position);
            queue.remove(&self.job);
            self.shared.give_back(self.job.attempt, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
