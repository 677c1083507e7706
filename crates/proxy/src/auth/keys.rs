//! Keys of issuers as all workers see them, read without a lock. Those of files are read by whoever compiles a
//! configuration and when they changed (`control`); those of addresses are fetched by a thread of `control`, ahead of
//! their end and when a token names one that is not there. Requests wait for an answer that is on its way, with a
//! bound. When to ask is decided in `access`.

use arc_swap::{ArcSwapOption, Guard};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};
use tidegate_access::{KeyCourse, KeySet, KeySetFault, KeySetOrigin, SET_BYTES_MAX};
use tidegate_model::KeySource;

/// Requests that wait for the keys of one issuer. Above it, the next goes on with what there is.
pub const WAITING_MAX: usize = 1000;

/// The keys of an issuer.
pub struct IssuerKeys {
    pub source: KeySource,
    current: ArcSwapOption<KeySet>,
    asking: Mutex<KeyAsking>,
    follower: Arc<Follower>,
}

impl fmt::Debug for IssuerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuerKeys").field("source", &self.source).finish_non_exhaustive()
    }
}

/// Wakes the thread that fetches keys.
#[derive(Default)]
struct Follower(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl Follower {
    fn wake(&self) {
        if let Some(wake) = self.0.get() {
            wake();
        }
    }
}

struct KeyAsking {
    course: KeyCourse,
    /// When they were had last, and why they could not be had since.
    read: Option<SystemTime>,
    fault: Option<String>,
    /// Counts answers, good and bad.
    answers: u64,
    next_ticket: u64,
    waiting: Vec<(u64, Option<Waker>)>,
}

/// What is known of a set, for who looks after the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeysState {
    pub keys: usize,
    pub read: Option<SystemTime>,
    /// The last attempt came to nothing; the keys at hand stay.
    pub fault: Option<String>,
}

/// Why a request waits for keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// There are none at all.
    Keys,
    /// The one that its token names is not among them.
    ThisKey,
}

/// A place among those who wait for keys; given up when it is dropped. A future of the moment when it is worth to look
/// again.
pub struct KeysTicket {
    keys: Arc<IssuerKeys>,
    number: u64,
    answers: u64,
}

/// Why the keys of a file cannot be had.
#[derive(Debug)]
pub enum KeyFileFault {
    Unreadable { path: PathBuf, error: io::Error },
    Unusable { path: PathBuf, fault: KeySetFault },
}

impl KeyFileFault {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            KeyFileFault::Unreadable { .. } => "name a file that exists and that this user may read",
            KeyFileFault::Unusable { .. } => "the file is a JWK set (RFC 7517), as in `{\"keys\": [{\"kty\": \"EC\", …}]}`",
        }
    }
}

impl fmt::Display for KeyFileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyFileFault::Unreadable { path, error } => write!(f, "the keys in {} cannot be read: {error}", path.display()),
            KeyFileFault::Unusable { path, fault } => write!(f, "the keys in {} cannot be used: it {fault}", path.display()),
        }
    }
}

impl std::error::Error for KeyFileFault {}

/// A panic while it is held leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl IssuerKeys {
    fn new(source: KeySource, keys: Option<KeySet>, follower: &Arc<Follower>, now: Instant) -> Arc<IssuerKeys> {
        let read = keys.is_some().then(SystemTime::now);
        let asking =
            KeyAsking { course: KeyCourse::new(now), read, fault: None, answers: 0, next_ticket: 0, waiting: Vec::new() };
        let current = ArcSwapOption::new(keys.map(Arc::new));
        Arc::new(IssuerKeys { source, current, asking: Mutex::new(asking), follower: follower.clone() })
    }

    /// As they are now; none before the first have come.
    pub fn current(&self) -> Guard<Option<Arc<KeySet>>> {
        self.current.load()
    }

    pub fn state(&self) -> KeysState {
        let asking = lock(&self.asking);
        KeysState { keys: self.current().as_ref().map_or(0, |keys| keys.len()), read: asking.read, fault: asking.fault.clone() }
    }

    fn note(&self, outcome: Result<(), String>) {
        let mut asking = lock(&self.asking);
        match outcome {
            Ok(()) => (asking.read, asking.fault) = (Some(SystemTime::now()), None),
            Err(fault) => asking.fault = Some(fault),
        }
    }

    /// Whether newer keys are on their way for a request that lacks some; it may wait for them. Asks for them where
    /// that may be done again.
    pub fn wait_for(self: &Arc<IssuerKeys>, lack: Lack, now: Instant) -> Option<KeysTicket> {
        if matches!(self.source, KeySource::File(_)) {
            return None;
        }
        let mut asking = lock(&self.asking);
        let are_coming = match lack {
            Lack::Keys => asking.course.is_coming(now),
            Lack::ThisKey => asking.course.note_unknown(now),
        };
        if !are_coming || asking.waiting.len() >= WAITING_MAX {
            return None;
        }
        let number = asking.next_ticket;
        asking.next_ticket += 1;
        asking.waiting.push((number, None));
        let answers = asking.answers;
        drop(asking);
        self.follower.wake();
        Some(KeysTicket { keys: self.clone(), number, answers })
    }

    /// When to fetch them next; not while they are being fetched.
    pub fn due(&self) -> Option<Instant> {
        lock(&self.asking).course.due()
    }

    /// Whether to fetch them now. Who is told so says how it went by one of the next two.
    pub fn begin(&self, now: Instant) -> bool {
        lock(&self.asking).course.begin(now)
    }

    /// A document has come, fresh for so long. The keys at hand stay where it has none. Gives them where they are
    /// others than before.
    pub fn take(&self, document: &[u8], life: Option<Duration>, now: Instant) -> Result<Option<Arc<KeySet>>, KeySetFault> {
        let keys = match KeySet::parse(document, KeySetOrigin::Address) {
            Ok(keys) => Arc::new(keys),
            Err(fault) => {
                self.failed(now, &format!("what was sent {fault}"));
                return Err(fault);
            }
        };
        let is_new = self.current().as_ref().is_none_or(|before| before.digest != keys.digest);
        if is_new {
            self.current.store(Some(keys.clone()));
        }
        self.note(Ok(()));
        let mut asking = lock(&self.asking);
        asking.course.note_keys(now, life);
        asking.tell();
        Ok(is_new.then_some(keys))
    }

    /// Nothing has come, for that reason.
    pub fn failed(&self, now: Instant, cause: &str) {
        self.note(Err(cause.to_owned()));
        let mut asking = lock(&self.asking);
        asking.course.note_failure(now);
        asking.tell();
    }
}

impl KeyAsking {
    fn tell(&mut self) {
        self.answers += 1;
        for (_, waker) in std::mem::take(&mut self.waiting) {
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl Future for KeysTicket {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut asking = lock(&self.keys.asking);
        if asking.answers != self.answers {
            return Poll::Ready(());
        }
        if let Some((_, waker)) = asking.waiting.iter_mut().find(|(number, _)| *number == self.number) {
            *waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for KeysTicket {
    fn drop(&mut self) {
        lock(&self.keys.asking).waiting.retain(|(number, _)| *number != self.number);
    }
}

/// Keys that some configuration uses, had once whoever names them.
#[derive(Default)]
pub struct KeySets {
    known: Mutex<HashMap<KeySource, Weak<IssuerKeys>>>,
    follower: Arc<Follower>,
}

impl fmt::Debug for KeySets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySets").field("known", &lock(&self.known).len()).finish_non_exhaustive()
    }
}

impl KeySets {
    /// The keys that a configuration means. Those in use already are not read again; those of an address need not have
    /// come.
    pub fn of(&self, source: &KeySource, now: Instant) -> Result<Arc<IssuerKeys>, KeyFileFault> {
        let mut known = lock(&self.known);
        known.retain(|_, keys| keys.strong_count() > 0);
        if let Some(keys) = known.get(source).and_then(Weak::upgrade) {
            return Ok(keys);
        }
        let of_file = match source {
            KeySource::File(path) => Some(read_keys(path)?),
            KeySource::Url { .. } => None,
        };
        let keys = IssuerKeys::new(source.clone(), of_file, &self.follower, now);
        known.insert(source.clone(), Arc::downgrade(&keys));
        drop(known);
        self.follower.wake();
        Ok(keys)
    }

    /// Says who is woken when there is something to fetch. To be said once; it must not block.
    pub fn are_followed_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.follower.0.set(Box::new(wake));
    }

    /// Sets that are fetched.
    pub fn of_addresses(&self) -> Vec<Arc<IssuerKeys>> {
        let known = lock(&self.known);
        let of_addresses = known.iter().filter(|(source, _)| matches!(source, KeySource::Url { .. }));
        of_addresses.filter_map(|(_, keys)| keys.upgrade()).collect()
    }

    /// Every set, in the order of their sources.
    pub fn all(&self) -> Vec<Arc<IssuerKeys>> {
        let mut all: Vec<Arc<IssuerKeys>> = lock(&self.known).values().filter_map(Weak::upgrade).collect();
        all.sort_by(|one, other| one.source.cmp(&other.source));
        all
    }

    /// Reads all files again. One that cannot be used leaves the keys that it had. Gives how many keys each changed
    /// file has now, and the faults.
    pub fn read_again(&self) -> (Vec<(PathBuf, usize)>, Vec<KeyFileFault>) {
        let of_files: Vec<(PathBuf, Arc<IssuerKeys>)> = {
            let known = lock(&self.known);
            let path = |source: &KeySource| match source {
                KeySource::File(path) => Some(path.clone()),
                KeySource::Url { .. } => None,
            };
            known.iter().filter_map(|(source, keys)| Some((path(source)?, keys.upgrade()?))).collect()
        };
        let (mut renewed, mut faults) = (Vec::new(), Vec::new());
        for (path, keys) in of_files {
            match read_keys(&path) {
                Ok(read) if keys.current().as_ref().is_some_and(|before| before.digest == read.digest) => keys.note(Ok(())),
                Ok(read) => {
                    renewed.push((path, read.len()));
                    keys.current.store(Some(Arc::new(read)));
                    keys.note(Ok(()));
                }
                Err(fault) => {
                    keys.note(Err(fault.to_string()));
                    faults.push(fault);
                }
            }
        }
        (renewed, faults)
    }
}

/// The keys of a file, or why there are none.
pub fn read_keys(path: &Path) -> Result<KeySet, KeyFileFault> {
    let unreadable = |error: io::Error| KeyFileFault::Unreadable { path: path.to_owned(), error };
    // A pipe would have the control thread wait for whoever writes into it.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is not a regular file")));
    }
    let mut bytes = Vec::new();
    let bytes_max = SET_BYTES_MAX as u64 + 1;
    File::open(path).and_then(|file| file.take(bytes_max).read_to_end(&mut bytes)).map_err(unreadable)?;
    let unusable = |fault| KeyFileFault::Unusable { path: path.to_owned(), fault };
    KeySet::parse(&bytes, KeySetOrigin::File).map_err(unusable)
}

#[cfg(test)]
mod tests {
    use super::{KeySets, KeysState, Lack, WAITING_MAX};
    use std::fs;
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Waker};
    use std::time::{Duration, Instant};
    use tidegate_model::KeySource;

    const ONE: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    fn is_ready(ticket: impl Future<Output = ()>) -> bool {
        pin!(ticket).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn a_file_is_one_set_and_keeps_its_keys_while_it_is_bad() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys.json");
        let (sets, source, now) = (KeySets::default(), KeySource::File(path.clone()), Instant::now());
        let missing = sets.of(&source, now).expect_err("there is no file").to_string();
        assert!(missing.contains("cannot be read"), "{missing}");
        fs::write(&path, ONE).expect("a file");
        let keys = sets.of(&source, now).expect("a good file");
        assert!(Arc::ptr_eq(&keys, &sets.of(&source, now).expect("a good file")));
        let check = |text: &str, renewed: &[usize], faults: usize, id: &str| {
            fs::write(&path, text).expect("a file");
            let (seen, seen_faults) = sets.read_again();
            assert_eq!(seen.iter().map(|(_, keys)| *keys).collect::<Vec<_>>(), renewed, "{text}");
            assert_eq!(seen_faults.len(), faults, "{seen_faults:?}");
            assert!(keys.current().as_ref().is_some_and(|keys| keys.has(id)), "{id} after {text}");
        };
        check(ONE, &[], 0, "1");
        check("{\"keys\":", &[], 1, "1");
        check("{\"keys\":[]}", &[], 1, "1");
        check(&ONE.replace("\"1\"", "\"2\""), &[1], 0, "2");
        assert!(keys.wait_for(Lack::ThisKey, now).is_none(), "nobody fetches a file");
        assert!(sets.of_addresses().is_empty());
    }

    #[test]
    fn who_lacks_a_key_waits_for_those_on_their_way_and_for_no_others() {
        let (sets, now) = (KeySets::default(), Instant::now());
        let woken = Arc::new(AtomicUsize::new(0));
        let counted = woken.clone();
        sets.are_followed_by(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let keys = sets.of(&KeySource::Url { url: "https://idp.example.com/keys".into(), ca: None }, now).expect("an address");
        assert_eq!(sets.of_addresses().len(), 1);
        let mut ticket = pin!(keys.wait_for(Lack::Keys, now).expect("they are due"));
        assert_eq!(woken.load(Ordering::Relaxed), 2);
        let poll = |ticket: &mut std::pin::Pin<&mut super::KeysTicket>| {
            ticket.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
        };
        assert!(keys.begin(now) && !keys.begin(now));
        assert!(!poll(&mut ticket));
        keys.failed(now, "nothing");
        assert_eq!(keys.state(), KeysState { keys: 0, read: None, fault: Some("nothing".into()) });
        assert!(poll(&mut ticket), "it is told that nothing has come");
        assert!(keys.wait_for(Lack::Keys, now).is_none(), "nothing is on its way for a second");
        let later = now + Duration::from_secs(1);
        assert!(keys.begin(later));
        let waiting: Vec<_> = (0..WAITING_MAX).map(|_| keys.wait_for(Lack::ThisKey, later).expect("a place")).collect();
        assert!(keys.wait_for(Lack::ThisKey, later).is_none(), "all places are taken");
        drop(waiting);
        let ticket = keys.wait_for(Lack::Keys, later).expect("places were given back");
        assert!(keys.take(ONE.as_bytes(), None, later).expect("keys").is_some());
        assert!(is_ready(ticket));
        assert!(keys.current().as_ref().is_some_and(|keys| keys.has("1")));
        // What was made up causes a question, and then none for half a minute.
        assert!(keys.wait_for(Lack::ThisKey, later).is_some());
        assert!(keys.begin(later));
        assert!(keys.state().read.is_some() && keys.state().fault.is_none());
        assert!(keys.take(b"<html>", None, later).is_err());
        assert!(keys.state().fault.is_some_and(|fault| fault.contains("no JSON")) && keys.state().keys == 1);
        assert!(keys.current().as_ref().is_some_and(|keys| keys.has("1")), "those at hand stay");
        assert!(keys.wait_for(Lack::ThisKey, later).is_none());
    }
}
