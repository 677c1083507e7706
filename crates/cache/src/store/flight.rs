//! One fetch that several requests may share: who waits for its head, who reads its body along, and how it ends.
//! Everything is behind one mutex, and wakers are called after it is released. Tickets, waiters and readers are handles
//! on this, in `ticket` and `wait`; nothing in here takes a shard's lock.

use super::counters::Accounts;
use super::object::{CHUNK_OVERHEAD_BYTES, Object};
use crate::key::{Key, Vary};
use crate::message::{Field, StoredHead};
use crate::policy::storing::Terms;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Fetches of one URL that fail one after the other before those who wait go on their own.
const FAILURES_MAX: u8 = 3;

pub struct Flight {
    pub key: Key,
    /// What answers to this URL depended on so far, and what the first request said in it.
    pub guess: (Vary, Box<[u8]>),
    /// The stored answer that is asked about.
    pub stale: Option<Arc<Object>>,
    /// Purges of the shard when it began.
    pub purges: u64,
    accounts: Arc<Accounts>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    phase: Phase,
    waiters: BTreeMap<u64, Option<Waker>>,
    next_id: u64,
    failures: u8,
}

#[derive(Default)]
enum Phase {
    /// Somebody holds the ticket, and the head is not known.
    #[default]
    Led,
    /// The fetch failed; whoever comes first takes it over.
    Leaderless,
    Open(Stream),
    /// The stored answer was validated, or found on disk.
    Settled(Arc<Object>),
    /// Everybody goes on their own.
    Released,
}

/// What those who read along know from the start.
#[derive(Debug)]
pub struct Opening {
    pub head: StoredHead,
    pub terms: Terms,
    pub vary: Vary,
    pub secondary: Box<[u8]>,
    pub content_length: Option<u64>,
}

struct Stream {
    opening: Arc<Opening>,
    chunks: VecDeque<Bytes>,
    /// Number of the first chunk that is still here.
    first: u64,
    end: End,
    /// The body is too large to be stored, and only passes through.
    is_passing: bool,
    /// Those who wait may be given it without asking the upstream.
    is_shared: bool,
    /// By the number of the next chunk, so that the slowest is first.
    readers: BTreeMap<(u64, u64), Option<Waker>>,
    writer: Option<Waker>,
    held_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Complete,
    Truncated,
}

/// Why a body ends before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The fetch failed in the middle of the body.
    Truncated,
    /// The body is not stored, and this reader fell behind by more than is kept.
    TooSlow,
}

/// What has become of one who waits.
pub enum Standing {
    Leader,
    Reader(Arc<Opening>, (u64, u64)),
    Settled(Arc<Object>),
    /// The answer is another variant, or broke off.
    LookUpAgain,
    Alone,
}

/// What a new request finds.
pub enum Joined {
    Waiter(u64),
    Leader,
    /// The fetch is over, or there is no room; `true` when it should not be found any more.
    No(bool),
}

impl Flight {
    pub fn new(
        key: Key,
        guess: (Vary, Box<[u8]>),
        stale: Option<Arc<Object>>,
        purges: u64,
        accounts: Arc<Accounts>,
    ) -> Arc<Flight> {
        Arc::new(Flight { key, guess, stale, purges, accounts, state: Mutex::default() })
    }

    /// Whether a request may expect its answer from this one.
    pub fn may_fit(&self, request: &[Field<'_>]) -> bool {
        let opening = match &self.lock().phase {
            Phase::Open(stream) => Some(stream.opening.clone()),
            Phase::Led | Phase::Leaderless | Phase::Settled(_) | Phase::Released => None,
        };
        let (vary, expected) = opening.as_ref().map_or((&self.guess.0, &self.guess.1), |open| (&open.vary, &open.secondary));
        vary.fits(request, expected)
    }

    pub fn join(&self, waiters_max: usize) -> Joined {
        let mut state = self.lock();
        match &state.phase {
            Phase::Leaderless => {
                state.phase = Phase::Led;
                return Joined::Leader;
            }
            Phase::Settled(_) | Phase::Released => return Joined::No(true),
            Phase::Open(stream) if stream.is_passing || !stream.is_shared || stream.end == End::Truncated => {
                return Joined::No(true);
            }
            Phase::Led | Phase::Open(_) if state.waiters.len() >= waiters_max => return Joined::No(false),
            Phase::Led | Phase::Open(_) => {}
        }
        let id = state.next_id;
        state.next_id += 1;
        state.waiters.insert(id, None);
        Joined::Waiter(id)
    }

    /// Ready means that the waiter is none any more.
    pub fn poll_waiter(&self, id: u64, request: &[Field<'_>], context: &mut Context<'_>) -> Poll<Standing> {
        let mut state = self.lock();
        let standing = match &mut state.phase {
            Phase::Led => {
                let waker = state.waiters.entry(id).or_default();
                if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    *waker = Some(context.waker().clone());
                }
                return Poll::Pending;
            }
            Phase::Leaderless => {
                state.phase = Phase::Led;
                Standing::Leader
            }
            Phase::Settled(object) if object.fits(request) => Standing::Settled(object.clone()),
            Phase::Released => Standing::Alone,
            Phase::Open(stream) if stream.is_passing || !stream.is_shared => Standing::Alone,
            // Nothing was given to its client yet, so it need not share the failure.
            Phase::Open(stream) if stream.end == End::Truncated => Standing::LookUpAgain,
            Phase::Open(stream) if stream.opening.fits(request) => {
                let place = (stream.first, id);
                stream.readers.insert(place, None);
                Standing::Reader(stream.opening.clone(), place)
            }
            Phase::Settled(_) | Phase::Open(_) => Standing::LookUpAgain,
        };
        state.waiters.remove(&id);
        Poll::Ready(standing)
    }

    /// A waiter that goes before it was served. Says whether nobody is left who would take a failed fetch over.
    pub fn leave(&self, id: u64) -> bool {
        let mut state = self.lock();
        state.waiters.remove(&id);
        if !matches!(state.phase, Phase::Leaderless) {
            return false;
        }
        // This one may have been woken to take over: the next has to hear of it.
        let next = state.next_waker();
        let is_last = state.waiters.is_empty();
        drop(state);
        next.into_iter().for_each(Waker::wake);
        is_last
    }

    /// The fetch failed before its head was known. Says whether it is over for all.
    pub fn fail(&self) -> bool {
        let mut state = self.lock();
        state.failures += 1;
        if state.failures >= FAILURES_MAX || state.waiters.is_empty() {
            drop(state);
            self.release();
            return true;
        }
        state.phase = Phase::Leaderless;
        let next = state.next_waker();
        drop(state);
        next.into_iter().for_each(Waker::wake);
        false
    }

    /// Ends it if nobody came since it failed.
    pub fn release_if_abandoned(&self) -> bool {
        let mut state = self.lock();
        let is_abandoned = matches!(state.phase, Phase::Leaderless) && state.waiters.is_empty();
        if is_abandoned {
            state.phase = Phase::Released;
        }
        is_abandoned
    }

    /// Everybody who waits goes on their own.
    pub fn release(&self) {
        self.move_to(Phase::Released);
    }

    pub fn settle(&self, object: Arc<Object>) {
        self.move_to(Phase::Settled(object));
    }

    /// Those who wait read along from now on, or go on their own if it is not shared.
    pub fn open(&self, opening: Arc<Opening>, is_shared: bool) {
        self.move_to(Phase::Open(Stream {
            opening,
            chunks: VecDeque::new(),
            first: 0,
            end: End::Open,
            is_passing: false,
            is_shared,
            readers: BTreeMap::new(),
            writer: None,
            held_bytes: 0,
        }));
    }

    /// A reader from the first chunk on: the one whose request fetches.
    pub fn read_from_start(&self) -> Option<(Arc<Opening>, (u64, u64))> {
        let mut state = self.lock();
        let id = state.next_id;
        state.next_id += 1;
        let Phase::Open(stream) = &mut state.phase else { return None };
        if stream.first > 0 {
            return None;
        }
        let place = (stream.first, id);
        stream.readers.insert(place, None);
        Some((stream.opening.clone(), place))
    }

    pub fn has_readers(&self) -> bool {
        self.with_stream(|stream, _| (!stream.readers.is_empty(), Vec::new())).unwrap_or(false)
    }

    fn move_to(&self, phase: Phase) {
        let mut state = self.lock();
        state.phase = phase;
        let wakers: Vec<Waker> = state.waiters.values_mut().filter_map(Option::take).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Keeps a chunk for storing and for those who read along; `false` if there is no room, or if it only passes
    /// through.
    pub fn keep(&self, chunk: &Bytes, bytes_max: u64) -> bool {
        let cost = chunk.len() as u64 + CHUNK_OVERHEAD_BYTES;
        self.with_stream(|stream, accounts| {
            let is_kept = !stream.is_passing && stream.held_bytes + cost <= bytes_max && accounts.reserve_in_flight(cost);
            if is_kept {
                stream.append(chunk.clone(), cost);
            }
            (is_kept, if is_kept { stream.waiting_at_end() } else { Vec::new() })
        })
        .unwrap_or(false)
    }

    /// From here on chunks are kept only until all have read them.
    pub fn begin_passing(&self) {
        let _: Option<()> = self.with_stream(|stream, accounts| {
            stream.is_passing = true;
            stream.free_read(accounts);
            ((), Vec::new())
        });
    }

    /// Hands a chunk of a passing body to those who read along. Those who are too far behind to keep within `bytes_max`
    /// are cut off.
    pub fn pass(&self, chunk: &Bytes, bytes_max: u64) {
        let cost = chunk.len() as u64 + CHUNK_OVERHEAD_BYTES;
        let _: Option<()> = self.with_stream(|stream, accounts| {
            let mut woken = Vec::new();
            while !stream.readers.is_empty() {
                if stream.held_bytes + cost <= bytes_max {
                    // Not refused when the budget is used up by others: who reads this along would be cut off for them.
                    accounts.take_in_flight(cost);
                    stream.append(chunk.clone(), cost);
                    woken.extend(stream.waiting_at_end());
                    break;
                }
                stream.cut_slowest(&mut woken);
                stream.free_read(accounts);
            }
            ((), woken)
        });
    }

    /// Ready when what is held for the slowest is less than this.
    pub fn poll_room(&self, bytes_max: u64, context: &mut Context<'_>) -> Poll<()> {
        let is_full = self.with_stream(|stream, _| {
            let is_full = stream.is_passing && !stream.readers.is_empty() && stream.held_bytes >= bytes_max;
            stream.writer = is_full.then(|| context.waker().clone());
            (is_full, Vec::new())
        });
        if is_full.unwrap_or(false) { Poll::Pending } else { Poll::Ready(()) }
    }

    /// The body as it was kept.
    pub fn chunks(&self) -> Vec<Bytes> {
        self.with_stream(|stream, _| (stream.chunks.iter().cloned().collect(), Vec::new())).unwrap_or_default()
    }

    pub fn end(&self, is_complete: bool) {
        let _: Option<()> = self.with_stream(|stream, _| {
            stream.end = if is_complete { End::Complete } else { End::Truncated };
            ((), stream.readers.values_mut().filter_map(Option::take).collect())
        });
    }

    pub fn poll_reader(&self, place: &mut (u64, u64), context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        self.with_stream(|stream, accounts| {
            let Some(waker) = stream.readers.get_mut(place) else { return (Poll::Ready(Some(Err(Broken::TooSlow))), Vec::new()) };
            let Some(chunk) = stream.chunks.get((place.0 - stream.first) as usize).cloned() else {
                let answer = match stream.end {
                    End::Open => {
                        *waker = Some(context.waker().clone());
                        Poll::Pending
                    }
                    End::Complete => Poll::Ready(None),
                    End::Truncated => Poll::Ready(Some(Err(Broken::Truncated))),
                };
                return (answer, Vec::new());
            };
            stream.readers.remove(place);
            place.0 += 1;
            stream.readers.insert(*place, None);
            (Poll::Ready(Some(Ok(chunk))), stream.free_read(accounts))
        })
        .unwrap_or(Poll::Ready(Some(Err(Broken::Truncated))))
    }

    pub fn leave_reading(&self, place: (u64, u64)) {
        let _: Option<()> = self.with_stream(|stream, accounts| {
            stream.readers.remove(&place);
            ((), stream.free_read(accounts))
        });
    }

    /// Runs with the stream, if there is one, and wakes whom it says, outside the lock.
    fn with_stream<R>(&self, run: impl FnOnce(&mut Stream, &Accounts) -> (R, Vec<Waker>)) -> Option<R> {
        let mut state = self.lock();
        let (result, wakers) = match &mut state.phase {
            Phase::Open(stream) => run(stream, &self.accounts),
            Phase::Led | Phase::Leaderless | Phase::Settled(_) | Phase::Released => return None,
        };
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        Some(result)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Phase::Open(stream) = &state.phase {
            self.accounts.release_in_flight(stream.held_bytes);
        }
    }
}

impl State {
    fn next_waker(&mut self) -> Option<Waker> {
        self.waiters.values_mut().next().and_then(Option::take)
    }
}

impl Opening {
    fn fits(&self, request: &[Field<'_>]) -> bool {
        self.vary.fits(request, &self.secondary)
    }
}

impl Stream {
    fn append(&mut self, chunk: Bytes, cost: u64) {
        self.chunks.push_back(chunk);
        self.held_bytes += cost;
    }

    /// Those who had read all there was before the newest chunk.
    fn waiting_at_end(&mut self) -> Vec<Waker> {
        let newest = self.first + self.chunks.len() as u64 - 1;
        self.readers.range_mut((newest, 0)..).filter_map(|(_, waker)| waker.take()).collect()
    }

    /// Drops what everybody has read of a body that only passes through, and says whom that helps.
    fn free_read(&mut self, accounts: &Accounts) -> Vec<Waker> {
        let slowest = self.readers.keys().next().map_or(u64::MAX, |place| place.0);
        let mut is_freed = false;
        while self.is_passing && self.first < slowest {
            let Some(chunk) = self.chunks.pop_front() else { break };
            let cost = chunk.len() as u64 + CHUNK_OVERHEAD_BYTES;
            self.held_bytes -= cost;
            self.first += 1;
            accounts.release_in_flight(cost);
            is_freed = true;
        }
        if is_freed || self.readers.is_empty() { self.writer.take().into_iter().collect() } else { Vec::new() }
    }

    fn cut_slowest(&mut self, woken: &mut Vec<Waker>) {
        let Some(slowest) = self.readers.keys().next().map(|place| place.0) else { return };
        while let Some(entry) = self.readers.first_entry().filter(|entry| entry.key().0 == slowest) {
            woken.extend(entry.remove());
        }
    }
}
