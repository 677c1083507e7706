//! What the store's tests share: heads in short, wakers that count, and the bounds under random use and under threads.
//! The single behaviours are in `tests`.

use crate::key::Key;
use crate::message::{Field, Now, RequestHead, ResponseHead};
use crate::policy::storing::Exchange;
use crate::settings::Settings;
use crate::store::{Begun, FetchTicket, Lookup, Object, Purge, PurgeKind, Store, WaitHandle, WaitOutcome};
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};

pub const NOW: Now = Now { seconds: 1_700_000_000, wall: std::time::UNIX_EPOCH };

pub fn at(seconds: u64) -> Now {
    Now { seconds: NOW.seconds + seconds, ..NOW }
}

pub fn key(path: &str) -> Key {
    Key::new(b"http", b"a.example", path.as_bytes()).expect("a key")
}

pub fn fields<'a>(lines: &'a [(&'a str, &'a str)]) -> Vec<Field<'a>> {
    lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
}

pub fn get(store: &Store, path: &str, request: &[(&str, &str)], now: Now) -> Lookup {
    store.lookup(&key(path), RequestHead::new(b"GET", &fields(request)), now)
}

pub fn begin(ticket: FetchTicket, request: &[(&str, &str)], status: u16, response: &[(&str, &str)], now: Now) -> Begun {
    let (request, response) = (fields(request), fields(response));
    let request = RequestHead::new(b"GET", &request);
    ticket.begin(Exchange { request, response: ResponseHead { status, fields: &response }, sent: now, received: now })
}

/// The ticket of a request that is the first.
pub fn ticket(store: &Store, path: &str, request: &[(&str, &str)], now: Now) -> FetchTicket {
    match get(store, path, request, now) {
        Lookup::Fetch(ticket, _) => ticket,
        other => panic!("no ticket but {}", word(&other)),
    }
}

/// Fetches and stores.
pub fn fill(
    store: &Store,
    path: &str,
    request: &[(&str, &str)],
    response: &[(&str, &str)],
    body: &[u8],
    now: Now,
) -> Option<Arc<Object>> {
    let Begun::Storing(mut writer) = begin(ticket(store, path, request, now), request, 200, response, now) else { return None };
    writer.push(body);
    writer.finish().ok()
}

/// A lookup in one word.
pub fn word(lookup: &Lookup) -> &'static str {
    match lookup {
        Lookup::Hit { .. } => "hit",
        Lookup::Stale { revalidation: Some(_), .. } => "stale, revalidate",
        Lookup::Stale { revalidation: None, .. } => "stale",
        Lookup::Fetch(ticket, _) if ticket.stale().is_some() => "validate",
        Lookup::Fetch(..) => "fetch",
        Lookup::Wait(..) => "wait",
        Lookup::Bypass(_) => "bypass",
        Lookup::GatewayTimeout => "504",
    }
}

/// Counts how often it is woken.
#[derive(Default)]
pub struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Bell {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

pub fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::new(Bell::default());
    (bell.clone(), Waker::from(bell))
}

/// Wakes a thread that is parked.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Drives a poll function on this thread; a wake-up that is lost would hang it.
fn block_on<R>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>) -> R {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        if let Poll::Ready(result) = poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        std::thread::park();
    }
}

/// One request from start to end; returns its body. The first `failures` fetches fail.
fn request(store: &Store, path: &str, tickets: &AtomicUsize, failures: usize, body: &[u8]) -> Vec<u8> {
    let mut lookup = get(store, path, &[], NOW);
    loop {
        let ticket = match lookup {
            Lookup::Hit { object, .. } => return object.body.concat(),
            Lookup::Fetch(ticket, _) => ticket,
            Lookup::Wait(mut wait, _) => match block_on(|context| wait.poll(&[], context)) {
                WaitOutcome::Read(mut reader) => {
                    let mut read = Vec::new();
                    while let Some(chunk) = block_on(|context| reader.poll_chunk(context)) {
                        read.extend_from_slice(&chunk.expect("a whole body"));
                    }
                    return read;
                }
                WaitOutcome::Serve(object) => return object.body.concat(),
                WaitOutcome::Fetch(ticket) => ticket,
                WaitOutcome::LookUpAgain => {
                    lookup = get(store, path, &[], NOW);
                    continue;
                }
                WaitOutcome::Alone => panic!("sent away"),
            },
            other => panic!("{}", word(&other)),
        };
        if tickets.fetch_add(1, Ordering::SeqCst) < failures {
            drop(ticket);
            lookup = get(store, path, &[], NOW);
            continue;
        }
        let Begun::Storing(mut writer) = begin(ticket, &[], 200, &[("cache-control", "max-age=60")], NOW) else {
            panic!("not stored")
        };
        for piece in body.chunks(1000) {
            writer.push(piece);
            std::thread::yield_now();
        }
        return writer.finish().expect("stored").body.concat();
    }
}

#[test]
fn ten_thousand_lookups_of_one_key_from_several_threads_make_one_ticket() {
    const THREADS: usize = 8;
    let store = Store::new(Settings::default());
    let barrier = Barrier::new(THREADS);
    let (held, waiting) = (std::sync::Mutex::new(Vec::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..10_000 / THREADS {
                    match get(&store, "/", &[], NOW) {
                        Lookup::Fetch(ticket, _) => held.lock().unwrap().push(ticket),
                        Lookup::Wait(wait, _) => {
                            waiting.fetch_add(1, Ordering::SeqCst);
                            // Kept to the end, as that of a client that waits.
                            std::mem::forget(wait);
                        }
                        other => panic!("{}", word(&other)),
                    }
                }
            });
        }
    });
    assert_eq!(held.into_inner().unwrap().len(), 1);
    assert_eq!(waiting.into_inner(), 9_999);
    assert_eq!((store.counts().collapsed, store.counts().misses), (9_999, 1));
}

#[test]
fn every_request_of_a_stampede_gets_the_whole_body_whatever_fails() {
    let body: Vec<u8> = (0..50_000_u32).map(|number| number as u8).collect();
    for (round, failures) in [0, 1, 2, 0, 1].into_iter().enumerate() {
        let store = Store::new(Settings::default());
        let (tickets, barrier) = (AtomicUsize::new(0), Barrier::new(32));
        std::thread::scope(|scope| {
            for _ in 0..32 {
                scope.spawn(|| {
                    barrier.wait();
                    assert!(request(&store, "/", &tickets, failures, &body) == body, "round {round}");
                });
            }
        });
        assert_eq!(tickets.into_inner(), failures + 1, "round {round}");
        let counts = store.counts();
        assert_eq!((counts.objects, counts.stored, counts.in_flight_bytes), (1, 1, 0));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Get(u8),
    Fill { path: u8, bytes: u16, is_cut: bool },
    Purge(u8),
    Tag(u8),
    All(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..40_u8).prop_map(Step::Get),
        8 => (0..40_u8, any::<u16>(), 0..8_u8).prop_map(|(path, bytes, cut)| Step::Fill { path, bytes, is_cut: cut == 0 }),
        1 => (0..40_u8).prop_map(Step::Purge),
        1 => (0..4_u8).prop_map(Step::Tag),
        1 => any::<bool>().prop_map(Step::All),
    ]
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn bytes_stay_within_their_bound_and_are_all_given_back(steps in proptest::collection::vec(step(), 1..300)) {
        let bytes_max = 400_000;
        let settings = Settings { bytes_max, in_flight_bytes_max: 100_000, object_bytes_max: 60_000, ..Settings::default() };
        let store = Store::new(settings);
        for step in steps {
            match step {
                Step::Get(path) => drop(get(&store, &format!("/{path}"), &[], NOW)),
                Step::Fill { path, bytes, is_cut } => {
                    let tag = format!("t{}", path % 4);
                    let head = [("cache-control", "max-age=60"), ("surrogate-key", tag.as_str())];
                    let Lookup::Fetch(ticket, _) = get(&store, &format!("/{path}"), &[], NOW) else { continue };
                    let Begun::Storing(mut writer) = begin(ticket, &[], 200, &head, NOW) else { panic!("refused") };
                    let is_going = writer.push(&vec![path; usize::from(bytes)]);
                    assert!(is_going || bytes > 50_000);
                    if !is_cut {
                        assert_eq!(writer.finish().is_ok(), is_going);
                    }
                }
                Step::Purge(path) => {
                    store.purge(&Purge::Url(key(&format!("/{path}"))), PurgeKind::Hard, NOW);
                }
                Step::Tag(tag) => {
                    store.purge(&Purge::Tag(format!("t{tag}").into_bytes()), PurgeKind::Hard, NOW);
                }
                Step::All(is_hard) if is_hard => {
                    store.purge(&Purge::Prefix(b"http://a.example/1".to_vec()), PurgeKind::Hard, NOW);
                }
                Step::All(_) => {
                    store.purge(&Purge::Prefix(b"http://a.example/".to_vec()), PurgeKind::Soft, NOW);
                }
            }
            let counts = store.counts();
            assert!(counts.bytes + counts.in_flight_bytes <= bytes_max);
            assert_eq!(counts.bytes == 0, counts.objects == 0);
        }
        store.purge(&Purge::All, PurgeKind::Hard, NOW);
        let counts = store.counts();
        assert_eq!((counts.bytes, counts.objects, counts.in_flight_bytes), (0, 0, 0));
    }
}

/// A future that waits, as an executor sees it: polled at first, and then only when it was woken.
struct Task {
    wait: WaitHandle,
    bell: Arc<Bell>,
    waker: Waker,
    /// Times it was woken when it was last polled.
    seen: Option<usize>,
}

impl Task {
    fn is_due(&self) -> bool {
        self.seen != Some(self.bell.count())
    }
}

/// Requests of one URL in any interleaving.
#[derive(Default)]
struct Crowd {
    tasks: Vec<Task>,
    tickets: Vec<FetchTicket>,
}

impl Crowd {
    fn arrive(&mut self, lookup: Lookup) {
        match lookup {
            Lookup::Fetch(ticket, _) => self.tickets.push(ticket),
            Lookup::Wait(wait, _) => {
                let (bell, waker) = bell();
                self.tasks.push(Task { wait, bell, waker, seen: None });
            }
            Lookup::Hit { .. } => {}
            other => panic!("{}", word(&other)),
        }
    }

    /// Polls one of those that an executor would poll.
    fn run(&mut self, store: &Store, choice: usize) -> bool {
        let due: Vec<usize> = (0..self.tasks.len()).filter(|place| self.tasks[*place].is_due()).collect();
        let Some(place) = due.get(choice % due.len().max(1)).copied() else { return false };
        let task = &mut self.tasks[place];
        task.seen = Some(task.bell.count());
        let Poll::Ready(outcome) = task.wait.poll(&[], &mut Context::from_waker(&task.waker)) else { return true };
        self.tasks.remove(place);
        match outcome {
            WaitOutcome::Fetch(ticket) => self.tickets.push(ticket),
            WaitOutcome::Read(_) | WaitOutcome::Serve(_) | WaitOutcome::Alone => {}
            WaitOutcome::LookUpAgain => self.arrive(get(store, "/", &[], NOW)),
        }
        true
    }
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(512))]
    #[test]
    fn nobody_who_waits_is_forgotten_in_any_order(steps in proptest::collection::vec((0..10_u8, any::<u8>()), 1..80)) {
        let store = Store::new(Settings::default());
        let mut crowd = Crowd::default();
        for (step, choice) in steps {
            let choice = usize::from(choice);
            match step {
                0..4 => crowd.arrive(get(&store, "/", &[], NOW)),
                4..7 => {
                    crowd.run(&store, choice);
                }
                7 if !crowd.tasks.is_empty() => drop(crowd.tasks.remove(choice % crowd.tasks.len())),
                _ if !crowd.tickets.is_empty() => drop(crowd.tickets.remove(choice % crowd.tickets.len())),
                _ => {}
            }
            assert!(crowd.tickets.len() <= 1, "two fetch the same");
        }
        // Everybody runs to the end; fetches succeed.
        loop {
            while crowd.run(&store, 0) {}
            let Some(ticket) = crowd.tickets.pop() else { break };
            let Begun::Storing(writer) = begin(ticket, &[], 200, &[("cache-control", "max-age=60")], NOW) else { panic!("refused") };
            writer.finish().expect("stored");
        }
        assert!(crowd.tasks.is_empty(), "{} are forgotten", crowd.tasks.len());
    }
}
