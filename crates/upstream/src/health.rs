//! What all workers know of a server: whether it may get requests, and why not. One word, exchanged as a whole when
//! something happens to it (a check, a failure, a command), and read with one load per choice. Which server is chosen
//! is decided in `balancing`; what counts as a failure, in `verdict`.

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_balancing::{HealthStatus as Tier, outlier, slow_start};

/// What health checks say of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// Nobody asks it.
    Unasked,
    /// The server has not answered for the first time.
    Unknown,
    Up,
    Down,
}

/// What a request may take to find out. One whose body comes slowly, or never ends, must not keep a server out for as
/// long.
pub(crate) const PROBE_MOST: Duration = Duration::from_secs(10);

/// All that decides about a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    /// Somebody took it out of use (`tidegate drain`).
    pub(crate) is_drained: bool,
    /// Whoever named it says that it is going away.
    pub(crate) is_leaving: bool,
    pub(crate) checked: Checked,
    pub(crate) usage: Usage,
}

/// What requests have found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    InUse,
    /// The server gets no requests until then; the first one after that finds out how it is.
    Out {
        cause: Cause,
        until: Ticks,
    },
    /// One request finds out, since then. Without an answer it is out as before.
    Probed {
        cause: Cause,
        until: Ticks,
        since: Ticks,
    },
}

/// Why a server is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Unreachable,
    /// The server asked for a pause.
    Paused,
    /// The server's requests failed.
    Ejected,
}

/// Time since the process began, in steps of 8 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticks(pub(crate) u64);

impl Ticks {
    const MILLISECONDS: u64 = 8;
    /// As many as fit: 34 years.
    const UNTIL_BITS: u32 = 37;
    /// When a probe began is kept for 70 minutes, and counts for [`PROBE_MOST`].
    const SINCE_BITS: u32 = 19;

    /// The moment itself, or the step before it.
    fn of(elapsed: Duration) -> Ticks {
        Ticks(elapsed.as_millis() as u64 / Ticks::MILLISECONDS)
    }

    /// The moment itself, or the step behind it.
    fn after(elapsed: Duration) -> Ticks {
        let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        Ticks(milliseconds.div_ceil(Ticks::MILLISECONDS).min(mask(Ticks::UNTIL_BITS)))
    }

    /// How long it is until then.
    fn left(self, elapsed: Duration) -> Option<Duration> {
        Duration::from_millis(self.0 * Ticks::MILLISECONDS).checked_sub(elapsed).filter(|left| !left.is_zero())
    }
}

const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// Beside `DRAINED` and `LEAVING` two bits for each of what checks and requests say, one for a probe, and the times.
/// All of it is 0 for a server that nothing is said of, and only `UP` is set for one whose checks are well: the common
/// case is one load and one compare.
const DRAINED: u64 = 1;
const LEAVING: u64 = 1 << 1;
const UP: u64 = 1 << 2;
const UNWELL: u64 = 1 << 3;
const CAUSE_SHIFT: u32 = 4;
const PROBED: u64 = 1 << 6;
const UNTIL_SHIFT: u32 = 7;
const SINCE_SHIFT: u32 = UNTIL_SHIFT + Ticks::UNTIL_BITS;

impl State {
    pub(crate) fn of(word: u64) -> State {
        let has = |bit: u64| word & bit != 0;
        let until = Ticks(word >> UNTIL_SHIFT & mask(Ticks::UNTIL_BITS));
        let cause = match word >> CAUSE_SHIFT & 3 {
            1 => Some(Cause::Unreachable),
            2 => Some(Cause::Paused),
            3 => Some(Cause::Ejected),
            _ => None,
        };
        State {
            is_drained: has(DRAINED),
            is_leaving: has(LEAVING),
            checked: match (has(UNWELL), has(UP)) {
                (false, false) => Checked::Unasked,
                (false, true) => Checked::Up,
                (true, true) => Checked::Unknown,
                (true, false) => Checked::Down,
            },
            usage: match cause {
                None => Usage::InUse,
                Some(cause) if has(PROBED) => {
                    Usage::Probed { cause, until, since: Ticks(word >> SINCE_SHIFT & mask(Ticks::SINCE_BITS)) }
                }
                Some(cause) => Usage::Out { cause, until },
            },
        }
    }

    pub(crate) fn word(self) -> u64 {
        let flag = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        let checked = match self.checked {
            Checked::Unasked => 0,
            Checked::Up => UP,
            Checked::Unknown => UNWELL | UP,
            Checked::Down => UNWELL,
        };
        let out = |cause: Cause, until: Ticks| {
            let cause = match cause {
                Cause::Unreachable => 1,
                Cause::Paused => 2,
                Cause::Ejected => 3,
            };
            cause << CAUSE_SHIFT | until.0 << UNTIL_SHIFT
        };
        let usage = match self.usage {
            Usage::InUse => 0,
            Usage::Out { cause, until } => out(cause, until),
            Usage::Probed { cause, until, since } => {
                out(cause, until) | PROBED | (since.0 & mask(Ticks::SINCE_BITS)) << SINCE_SHIFT
            }
        };
        flag(self.is_drained, DRAINED) | flag(self.is_leaving, LEAVING) | checked | usage
    }

    fn tier(self, elapsed: Duration) -> Tier {
        match self {
            State { is_drained: true, .. } | State { is_leaving: true, .. } => Tier::Closed,
            State { checked: Checked::Down, .. } => Tier::Unhealthy,
            State { usage, .. } if usage.keeps_out(elapsed) => Tier::Unhealthy,
            State { checked: Checked::Unknown, .. } => Tier::Unknown,
            State { checked: Checked::Unasked | Checked::Up, .. } => Tier::Serving,
        }
    }
}

impl Usage {
    fn keeps_out(self, elapsed: Duration) -> bool {
        match self {
            Usage::InUse => false,
            Usage::Out { until, .. } => until.left(elapsed).is_some(),
            Usage::Probed { until, .. } => self.is_probed(elapsed) || until.left(elapsed).is_some(),
        }
    }

    /// Whether a request is about to find out.
    fn is_probed(self, elapsed: Duration) -> bool {
        match self {
            Usage::InUse | Usage::Out { .. } => false,
            Usage::Probed { since, .. } => {
                let age = Ticks::of(elapsed).0.wrapping_sub(since.0) & mask(Ticks::SINCE_BITS);
                age < Ticks::of(PROBE_MOST).0
            }
        }
    }

    fn cause_and_end(self) -> Option<(Cause, Ticks)> {
        match self {
            Usage::InUse => None,
            Usage::Out { cause, until } | Usage::Probed { cause, until, .. } => Some((cause, until)),
        }
    }
}

/// What is known of one server.
#[derive(Debug)]
pub struct Health {
    began: Instant,
    /// A [`State`].
    word: AtomicU64,
    /// Since when it gets its share little by little: milliseconds since `began`, and one more. 0: it gets all of it.
    starting_since: AtomicU64,
    /// Failed requests in a row, of all workers.
    failures: AtomicU32,
    /// Ejections that nobody has counted yet, and above them why it was ejected last, for who asks.
    ejections: AtomicU64,
    news: HealthNews,
}

/// Whether anything happened to a server of a pool since somebody looked: who shows thousands of pools looks at those
/// alone.
#[derive(Debug, Clone)]
pub struct HealthNews(Arc<AtomicBool>);

impl Default for HealthNews {
    fn default() -> HealthNews {
        HealthNews(Arc::new(AtomicBool::new(true)))
    }
}

impl HealthNews {
    /// Before the states are read: what happens after that is news again.
    pub fn take(&self) -> bool {
        // Mostly there are none, and a load leaves the line shared.
        self.0.load(Ordering::Acquire) && self.0.swap(false, Ordering::AcqRel)
    }

    /// After the state was changed, or because it changes with time.
    pub fn note(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Why a server gets no requests, or fewer than its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Drained,
    Leaving,
    /// Health checks fail.
    Down,
    /// Whether the server is well is not known yet.
    Unknown,
    /// For its failures; tried again after so long.
    Ejected(Duration),
    /// The server could not be reached a moment ago; tried again after so long.
    Unreachable(Duration),
    /// The server asked for a pause; tried again after so long.
    Paused(Duration),
    /// One request finds out whether it is well again.
    Probed,
    /// The server gets so many 256ths of its share.
    Starting(u32),
}

impl Health {
    pub fn new(began: Instant, news: HealthNews) -> Health {
        Health {
            began,
            word: AtomicU64::new(0),
            starting_since: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            ejections: AtomicU64::new(0),
            news,
        }
    }

    /// Whether it may be chosen, by what all workers know.
    #[inline]
    pub fn tier(&self, now: Instant) -> Tier {
        let word = self.word.load(Ordering::Acquire);
        if word & !UP == 0 { Tier::Serving } else { self.unusual_tier(word, now) }
    }

    #[cold]
    fn unusual_tier(&self, word: u64, now: Instant) -> Tier {
        State::of(word).tier(self.elapsed(now))
    }

    /// For a client that belongs to this server: draining keeps it, being down does not.
    pub fn keeps_its_own(&self, now: Instant) -> bool {
        let state = State { is_drained: false, is_leaving: false, ..self.state() };
        state.tier(self.elapsed(now)) != Tier::Unhealthy
    }

    /// How much of its share it gets, in 256ths, when it takes `whole` to the whole of it.
    #[inline]
    pub fn share(&self, whole: Duration, now: Instant) -> u32 {
        let Some(since) = self.starting_since.load(Ordering::Relaxed).checked_sub(1) else { return slow_start::WHOLE_SHARE };
        let share = slow_start::share(self.elapsed(now).saturating_sub(Duration::from_millis(since)), whole);
        if share >= slow_start::WHOLE_SHARE {
            // Unless it began anew meanwhile.
            let _ = self.starting_since.compare_exchange(since + 1, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        share
    }

    /// A request is going to a server whose time out is over: [`Probing::This`] for the one that may find out. It must
    /// end with [`Health::come_back`], a failure, or [`Health::found_nothing_out`].
    pub fn begin_probe(&self, now: Instant) -> Probing {
        let elapsed = self.elapsed(now);
        let begin = |state: State| {
            let (cause, until) = state.usage.cause_and_end().filter(|_| !state.usage.is_probed(elapsed))?;
            Some(State { usage: Usage::Probed { cause, until, since: Ticks::of(elapsed) }, ..state })
        };
        match self.change(begin) {
            Ok(_) => Probing::This,
            Err(State { usage: Usage::InUse, .. }) => Probing::NotNeeded,
            Err(State { usage: Usage::Out { .. } | Usage::Probed { .. }, .. }) => Probing::Another,
        }
    }

    /// The request that was to find out ended without an answer of the server's.
    pub fn found_nothing_out(&self) {
        let _ = self.change(|state| match state.usage {
            Usage::Probed { cause, until, .. } => Some(State { usage: Usage::Out { cause, until }, ..state }),
            Usage::InUse | Usage::Out { .. } => None,
        });
    }

    /// A request ended without a failure: those before are forgotten. One load, since failures are rare.
    #[inline]
    pub fn served_well(&self) {
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// The request that was to find out was answered well. True when that brought it back after it had been ejected.
    #[cold]
    pub fn come_back(&self, now: Instant) -> bool {
        let back = self.change(|state| state.usage.cause_and_end().map(|_| State { usage: Usage::InUse, ..state }));
        let was_ejected = back.is_ok_and(|before| matches!(before.usage.cause_and_end(), Some((Cause::Ejected, _))));
        if was_ejected {
            self.begin_slowly(now);
        }
        was_ejected
    }

    /// Whether it was left, and nothing good was heard of it since.
    #[inline]
    pub fn is_out(&self) -> bool {
        self.word.load(Ordering::Relaxed) >> CAUSE_SHIFT & 3 != 0
    }

    /// Notes a failure; gives how many there are in a row.
    pub fn failed(&self) -> u32 {
        self.failures.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Notes that the server could not be reached: no request for so long, unless no other can be used.
    pub fn back_off(&self, now: Instant, pause: Duration) {
        self.leave_out(Cause::Unreachable, self.elapsed(now).saturating_add(pause));
    }

    /// Notes that the server asked for a pause of that length.
    pub fn pause(&self, now: Instant, pause: Duration) {
        self.leave_out(Cause::Paused, self.elapsed(now).saturating_add(pause));
    }

    /// Out for its failures, until that time of the process.
    pub fn eject(&self, until: Duration, why: outlier::Why) {
        let count = |ejections: u64| Some(why_word(why) << 16 | (ejections & COUNT_MASK).saturating_add(1).min(COUNT_MASK));
        let _ = self.ejections.fetch_update(Ordering::AcqRel, Ordering::Acquire, count);
        self.failures.store(0, Ordering::Release);
        self.leave_out(Cause::Ejected, until);
    }

    /// Whether it is out for its failures.
    pub fn is_ejected(&self) -> bool {
        matches!(self.state().usage.cause_and_end(), Some((Cause::Ejected, _)))
    }

    /// Ejections since this was asked last: whoever keeps the count adds them.
    pub fn take_ejections(&self) -> u32 {
        (self.ejections.fetch_and(!COUNT_MASK, Ordering::AcqRel) & COUNT_MASK) as u32
    }

    pub fn last_ejection(&self) -> Option<outlier::Why> {
        why_of(self.ejections.load(Ordering::Acquire) >> 16)
    }

    /// The longer of two times holds. What was ejected stays so until it comes back, whatever happens meanwhile.
    fn leave_out(&self, cause: Cause, until: Duration) {
        let until = Ticks::after(until);
        let _ = self.change(|state| {
            let usage = match state.usage.cause_and_end() {
                None => Usage::Out { cause, until },
                Some((Cause::Ejected, before)) => Usage::Out { cause: Cause::Ejected, until: before.max(until) },
                Some((Cause::Unreachable | Cause::Paused, before)) => Usage::Out { cause, until: before.max(until) },
            };
            Some(State { usage, ..state })
        });
    }

    pub fn is_drained(&self) -> bool {
        self.state().is_drained
    }

    pub fn set_drained(&self, is_drained: bool) {
        let _ = self.change(|state| Some(State { is_drained, ..state }));
    }

    /// Whether the server gets no new requests, and no connection in advance.
    pub fn is_closed(&self) -> bool {
        self.word.load(Ordering::Relaxed) & (DRAINED | LEAVING) != 0
    }

    pub fn is_leaving(&self) -> bool {
        self.state().is_leaving
    }

    pub fn set_leaving(&self, is_leaving: bool) {
        let _ = self.change(|state| Some(State { is_leaving, ..state }));
    }

    /// What health checks say. A server that comes up begins slowly, where that is asked for; if it was out because it
    /// was down, it is known to be well.
    pub fn set_checked(&self, checked: Checked, now: Instant) {
        let comes_up = |before: Checked| before == Checked::Down && matches!(checked, Checked::Unasked | Checked::Up);
        let before = self.change(|state| {
            let usage = if comes_up(state.checked) { Usage::InUse } else { state.usage };
            Some(State { checked, usage, ..state })
        });
        if before.is_ok_and(|before| comes_up(before.checked)) {
            self.begin_slowly(now);
        }
    }

    pub fn checked(&self) -> Checked {
        self.state().checked
    }

    /// From now on it gets its share little by little, where its pool says so.
    pub fn begin_slowly(&self, now: Instant) {
        // Exchanged, which gives it a place in the order of what `share` exchanges.
        self.starting_since.swap(self.elapsed(now).as_millis() as u64 + 1, Ordering::Relaxed);
        self.news.note();
    }

    /// What is unusual about it, for who looks; the most serious first.
    pub fn why(&self, slow_start: Duration, now: Instant) -> Option<Why> {
        let elapsed = self.elapsed(now);
        match self.state() {
            State { is_drained: true, .. } => Some(Why::Drained),
            State { is_leaving: true, .. } => Some(Why::Leaving),
            State { checked: Checked::Down, .. } => Some(Why::Down),
            State { usage: Usage::Out { cause, until } | Usage::Probed { cause, until, .. }, .. } => {
                let left = until.left(elapsed);
                Some(match cause {
                    Cause::Ejected => left.map_or(Why::Probed, Why::Ejected),
                    Cause::Paused => Why::Paused(left.unwrap_or_default()),
                    Cause::Unreachable => Why::Unreachable(left.unwrap_or_default()),
                })
            }
            State { checked: Checked::Unknown, usage: Usage::InUse, .. } => Some(Why::Unknown),
            State { checked: Checked::Unasked | Checked::Up, usage: Usage::InUse, .. } => {
                Some(self.share(slow_start, now)).filter(|share| *share < slow_start::WHOLE_SHARE).map(Why::Starting)
            }
        }
    }

    fn state(&self) -> State {
        State::of(self.word.load(Ordering::Acquire))
    }

    /// Exchanges the state for what `make` makes of it, and says what it was; where it makes nothing of it, what it is,
    /// as an error.
    fn change(&self, make: impl Fn(State) -> Option<State>) -> Result<State, State> {
        let make = |word: u64| make(State::of(word)).map(State::word);
        let changed = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, make);
        if changed.is_ok() {
            self.news.note();
        }
        changed.map(State::of).map_err(State::of)
    }

    /// Since the process began.
    pub fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
}

/// Where ejections are counted, below the reason for the last of them.
const COUNT_MASK: u64 = 0xffff;
const RATE: u64 = 1 << 32;
const ROW: u64 = 1 << 33;

fn why_word(why: outlier::Why) -> u64 {
    match why {
        outlier::Why::ConsecutiveFailures(count) => ROW | u64::from(count),
        outlier::Why::SuccessRate { percent, others_percent } => RATE | u64::from(percent) << 8 | u64::from(others_percent),
    }
}

fn why_of(word: u64) -> Option<outlier::Why> {
    match (word & ROW != 0, word & RATE != 0) {
        (true, _) => Some(outlier::Why::ConsecutiveFailures(word as u32)),
        (false, true) => Some(outlier::Why::SuccessRate { percent: (word >> 8) as u8, others_percent: word as u8 }),
        (false, false) => None,
    }
}

/// Whether a request finds out how a server is that was out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probing {
    NotNeeded,
    This,
    Another,
}
