//! Addresses of the names of upstream servers. A resolver answers when it likes, so it is asked in threads of its own:
//! a change waits for all its names together for one bounded time, and what has no address by then is looked up again
//! in the background. Which names a change needs is decided in `compile`.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tidegate_model::{TcpAddress, UpstreamAddress};
use tidegate_proxy::snapshot::Snapshot;

/// What a change waits for all its names together. Nothing else happens on the control thread meanwhile, and a resolver
/// that works answers in milliseconds.
pub const CHANGE_LIMIT: Duration = Duration::from_secs(3);
/// Names that are looked up at once for changes, and as many for the background: a silent resolver keeps each thread
/// for half a minute, and the names of a change must not wait behind those that are dead already.
const LOOKUPS_MAX: usize = 16;
/// How often names without an address are looked up again.
const RETRY_PERIOD: Duration = Duration::from_secs(10);
/// Addresses that are found one after the other within this are taken on together: each time is a new snapshot.
const BATCH_PERIOD: Duration = Duration::from_secs(1);

/// A name and the port behind it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    pub host: String,
    pub port: u16,
}

impl Name {
    /// `None` for an address, which nobody needs to be asked for.
    pub fn of(address: &UpstreamAddress) -> Option<Name> {
        let UpstreamAddress::Tcp(TcpAddress { host, port, .. }) = address else { return None };
        let is_address = host.parse::<IpAddr>().is_ok();
        (!is_address).then(|| Name { host: host.clone(), port: *port })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Addresses of the names that have one.
pub type Found = HashMap<Name, Vec<SocketAddr>>;

/// Asks the system. Blocks for as long as its resolver does.
pub fn of_system(name: &Name) -> io::Result<Vec<SocketAddr>> {
    let mut addresses: Vec<_> = (name.host.as_str(), name.port).to_socket_addrs()?.collect();
    addresses.dedup();
    Ok(addresses)
}

/// Told in a thread of its own what a round in the background has found, and whether it is over.
type Tell = dyn Fn(Found, bool) + Send + Sync;

/// Looks names up, for changes and again.
pub struct Names {
    for_changes: Lookups,
    again: Lookups,
    limit: Duration,
    tell: Arc<Tell>,
    /// When the last round in the background began; at first when this process looked.
    round_began: Instant,
    is_round_under_way: bool,
}

impl Names {
    pub(crate) fn new(
        look_up: impl Fn(&Name) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
        limit: Duration,
        tell: impl Fn(Found, bool) + Send + Sync + 'static,
    ) -> Names {
        let look_up: Arc<LookUp> = Arc::new(look_up);
        let lookups = || Lookups { look_up: look_up.clone(), queue: Arc::default() };
        let (for_changes, again) = (lookups(), lookups());
        Names { for_changes, again, limit, tell: Arc::new(tell), round_began: Instant::now(), is_round_under_way: false }
    }

    /// All at once, within the limit; a name that has no address by then has a sentence that says why.
    pub fn look_up(&self, names: BTreeSet<Name>) -> HashMap<Name, Result<Vec<SocketAddr>, String>> {
        let until = Instant::now() + self.limit;
        let asked = self.for_changes.ask(names.iter().cloned());
        let mut outcomes = HashMap::with_capacity(names.len());
        let mut why = format!("no answer within {:?}", self.limit);
        while outcomes.len() < names.len() {
            match asked.answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((name, answer)) => drop(outcomes.insert(name, answer.map_err(|error| error.to_string()))),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    "the system gives no thread to look it up".clone_into(&mut why);
                    break;
                }
            }
        }
        for name in names {
            outcomes.entry(name).or_insert_with(|| Err(why.clone()));
        }
        outcomes
    }

    /// Begins a round in the background when it is time for one and none is under way.
    pub fn look_again(&mut self, now: Instant, names: impl FnOnce() -> BTreeSet<Name>) {
        if self.is_round_under_way || now.saturating_duration_since(self.round_began) < RETRY_PERIOD {
            return;
        }
        self.round_began = now;
        let names = names();
        if names.is_empty() {
            return;
        }
        let asked = self.again.ask(names.into_iter());
        let tell = self.tell.clone();
        let follow = move || follow(&asked, BATCH_PERIOD, &*tell);
        self.is_round_under_way = std::thread::Builder::new().name("names".into()).spawn(follow).is_ok();
    }

    /// Takes what a round has found. Gives the addresses that the running configuration misses.
    pub fn take(&mut self, mut found: Found, is_over: bool, running: &Snapshot) -> Found {
        self.is_round_under_way &= !is_over;
        let missed = without_address(running);
        found.retain(|name, _| missed.contains(name));
        found
    }
}

/// Reports the addresses of a round as they come, several at once where they do, and its end.
fn follow(asked: &Asked, batch: Duration, mut report: impl FnMut(Found, bool)) {
    let mut found = Found::new();
    loop {
        match asked.answers.recv_timeout(batch) {
            Ok((name, Ok(addresses))) => drop(found.insert(name, addresses)),
            // Said when it was looked up first.
            Ok((_, Err(_))) => {}
            Err(RecvTimeoutError::Timeout) if found.is_empty() => {}
            Err(RecvTimeoutError::Timeout) => report(std::mem::take(&mut found), false),
            Err(RecvTimeoutError::Disconnected) => return report(found, true),
        }
    }
}

type LookUp = dyn Fn(&Name) -> io::Result<Vec<SocketAddr>> + Send + Sync;
type ResolvedName = (Name, io::Result<Vec<SocketAddr>>);

/// Threads that look names up, no more of them than [`LOOKUPS_MAX`], and none when there is nothing to do.
struct Lookups {
    look_up: Arc<LookUp>,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    threads: usize,
}

struct Job {
    name: Name,
    answers: Sender<ResolvedName>,
    asker: Weak<()>,
}

/// Answers in the order in which they come; ends when there are no more. What nobody waits for any more is not begun.
struct Asked {
    answers: Receiver<ResolvedName>,
    _asker: Arc<()>,
}

impl Lookups {
    fn ask(&self, names: impl Iterator<Item = Name>) -> Asked {
        let (answer, answers) = channel();
        let asker = Arc::new(());
        let mut queue = locked(&self.queue);
        // Left by askers that have gone, while every thread hangs.
        queue.waiting.retain(|job| job.asker.strong_count() > 0);
        let before = queue.waiting.len();
        queue.waiting.extend(names.map(|name| Job { name, answers: answer.clone(), asker: Arc::downgrade(&asker) }));
        for _ in before..queue.waiting.len() {
            if queue.threads >= LOOKUPS_MAX {
                break;
            }
            let (look_up, shared) = (self.look_up.clone(), self.queue.clone());
            if std::thread::Builder::new().name("lookup".into()).spawn(move || work(&*look_up, &shared)).is_ok() {
                queue.threads += 1;
            }
        }
        if queue.threads == 0 {
            queue.waiting.clear();
        }
        Asked { answers, _asker: asker }
    }
}

fn locked(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work(look_up: &LookUp, queue: &Mutex<Queue>) {
    loop {
        let next = {
            let mut queue = locked(queue);
            let next = queue.waiting.pop_front();
            queue.threads -= usize::from(next.is_none());
            next
        };
        let Some(Job { name, answers, asker }) = next else { return };
        if asker.strong_count() == 0 {
            continue;
        }
        let answer = look_up(&name).and_then(|addresses| match addresses.len() {
            0 => Err(io::Error::other("it has no address")),
            _ => Ok(addresses),
        });
        // Too late for whoever asked, perhaps.
        let _ = answers.send((name, answer));
    }
}

/// Names of servers that have no address so far.
pub fn without_address(snapshot: &Snapshot) -> BTreeSet<Name> {
    let servers = snapshot.pools.iter().flatten().flat_map(|pool| &pool.servers);
    servers.filter(|server| !server.addresses.are_known()).filter_map(|server| Name::of(&server.model.address)).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Found, LOOKUPS_MAX, Lookups, Name, Names, RETRY_PERIOD, follow};
    use std::collections::BTreeSet;
    use std::io;
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::{Duration, Instant};

    /// A resolver: `dead…` is unknown, `silent…` is never answered, everything else is the loopback address.
    #[derive(Clone, Default)]
    pub struct Resolver {
        /// Held by a test for as long as the resolver is to be silent.
        pub silence: Arc<Mutex<()>>,
        pub asked: Arc<Mutex<Vec<String>>>,
        at_once: Arc<AtomicUsize>,
        pub most_at_once: Arc<AtomicUsize>,
    }

    impl Resolver {
        pub fn look_up(&self, name: &Name) -> io::Result<Vec<SocketAddr>> {
            let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(name.host.clone());
            if name.host.starts_with("silent") {
                drop(self.silence.lock().unwrap_or_else(PoisonError::into_inner));
            }
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            if name.host.starts_with("dead") {
                return Err(io::Error::other("unknown"));
            }
            Ok(vec![SocketAddr::from(([127, 0, 0, 1], name.port))])
        }

        /// Whose changes wait for a moment only, and what it tells the control thread.
        pub fn names(&self, limit: Duration) -> (Names, mpsc::Receiver<(Found, bool)>) {
            let (sender, told) = mpsc::channel();
            let resolver = self.clone();
            let tell = move |found, is_over| drop(sender.send((found, is_over)));
            (Names::new(move |name| resolver.look_up(name), limit, tell), told)
        }

        pub fn take_asked(&self) -> Vec<String> {
            let mut asked = std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner));
            asked.sort();
            asked
        }
    }

    fn name(host: impl Into<String>) -> Name {
        Name { host: host.into(), port: 80 }
    }

    fn names(hosts: &[&str]) -> BTreeSet<Name> {
        hosts.iter().map(|host| name(*host)).collect()
    }

    const LONG: Duration = Duration::from_secs(60);
    const MOMENT: Duration = Duration::from_millis(50);

    #[test]
    fn who_is_late_has_no_address_and_holds_up_nobody_else() {
        let resolver = Resolver::default();
        let silence = resolver.silence.lock().expect("not poisoned");
        let (looking, _events) = resolver.names(Duration::from_millis(300));
        let outcomes = looking.look_up(names(&["silent.test", "silent.example", "dead.test", "good.test"]));
        let check = |host: &str, expected: Result<&str, &str>| {
            let seen = outcomes[&name(host)].as_ref().map(|addresses| addresses[0].to_string());
            assert_eq!(seen.as_deref().map_err(|why| why.as_str()), expected, "{host}");
        };
        check("silent.test", Err("no answer within 300ms"));
        check("silent.example", Err("no answer within 300ms"));
        check("dead.test", Err("unknown"));
        check("good.test", Ok("127.0.0.1:80"));
        drop(silence);
    }

    #[test]
    fn names_are_looked_up_together_and_only_so_many_at_once() {
        let resolver = Resolver::default();
        let silence = resolver.silence.lock().expect("not poisoned");
        let own = resolver.clone();
        let lookups = Lookups { look_up: Arc::new(move |name: &Name| own.look_up(name)), queue: Arc::default() };
        let all = 3 * LOOKUPS_MAX;
        let asked = lookups.ask((0..all).map(|number| name(format!("silent{number}.test"))));
        while resolver.asked.lock().expect("not poisoned").len() < LOOKUPS_MAX {
            std::thread::yield_now();
        }
        // Nobody waits for these any more when their turn comes.
        drop(lookups.ask([name("forgotten.test")].into_iter()));
        drop(silence);
        assert_eq!(asked.answers.iter().count(), all);
        let last = lookups.ask([name("last.test")].into_iter());
        assert_eq!(last.answers.iter().count(), 1);
        assert_eq!(resolver.most_at_once.load(Ordering::SeqCst), LOOKUPS_MAX);
        let hosts = resolver.take_asked();
        assert_eq!((hosts.len(), hosts.contains(&"forgotten.test".to_owned())), (all + 1, false));
    }

    #[test]
    fn what_a_round_finds_is_told_before_the_round_is_over() {
        let resolver = Resolver::default();
        let mut silence = Some(resolver.silence.lock().expect("not poisoned"));
        let own = resolver.clone();
        let lookups = Lookups { look_up: Arc::new(move |name: &Name| own.look_up(name)), queue: Arc::default() };
        let hosts = ["silent.test", "dead.test", "a.test", "b.test"];
        let asked = lookups.ask(hosts.into_iter().map(name));
        let mut told = BTreeSet::new();
        let mut ends = 0;
        follow(&asked, MOMENT, |found: Found, is_over| {
            told.extend(found.into_keys());
            ends += usize::from(is_over);
            // Without being told of these the resolver would be silent for ever.
            if told == names(&["a.test", "b.test"]) {
                silence = None;
            }
        });
        assert_eq!((told, ends), (names(&["a.test", "b.test", "silent.test"]), 1));
    }

    #[test]
    fn one_round_at_a_time_and_not_sooner_than_the_period() {
        let resolver = Resolver::default();
        let (mut looking, told) = resolver.names(LONG);
        let begin = Instant::now();
        looking.look_again(begin, || panic!("it is not time yet"));
        let later = begin + RETRY_PERIOD * 2;
        looking.look_again(later, BTreeSet::new);
        assert!(!looking.is_round_under_way, "there is nothing to look up");
        let later = later + RETRY_PERIOD;
        looking.look_again(later, || names(&["dead.test"]));
        assert!(looking.is_round_under_way);
        looking.look_again(later + RETRY_PERIOD, || panic!("a round is under way"));
        assert!(
            matches!(told.recv(), Ok((found, true)) if found.is_empty()),
            "the end of a round that found nothing is told as well"
        );
        assert_eq!(resolver.take_asked(), ["dead.test"]);
    }
}
