//! What all workers know of a server: whether it may get requests, and why not. Written when something happens to it (a check, a failure, a
//! command), read with one load per choice. Which server is chosen is decided in `balancing`; what counts as a failure, in `forward`.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tidegate_balancing::{Standing as Tier, outlier, slow_start};

/// What health checks say of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// Nobody asks it.
    Unasked,
    /// It has not answered for the first time.
    Unknown,
    Up,
    Down,
}

/// Somebody took it out of use (`tidegate drain`).
const DRAINED: u32 = 1;
/// Whoever named it says that it is going away.
const LEAVING: u32 = 1 << 1;
/// Health checks have not found out yet.
const UNKNOWN: u32 = 1 << 2;
/// Health checks fail.
const DOWN: u32 = 1 << 3;
/// It failed requests, and gets none until `out_until`.
const OUT: u32 = 1 << 4;
/// It is `OUT`, its time is over, and one request finds out how it is.
const PROBED: u32 = 1 << 5;
/// It has not long been in use.
const STARTING: u32 = 1 << 6;
/// Health checks are made.
const ASKED: u32 = 1 << 7;
/// It is `OUT` because it asked for a pause itself.
const PAUSED: u32 = 1 << 8;

/// What a request may take to find out. One whose body comes slowly, or never ends, must not keep a server out for as long.
const PROBE_MOST: Duration = Duration::from_secs(10);

/// Everything ordinary is 0, so that the common case is one load and one compare.
#[derive(Debug)]
pub struct Health {
    began: Instant,
    flags: AtomicU32,
    /// Milliseconds since `began`.
    out_until_ms: AtomicU64,
    /// The same: when a request began to find out.
    probed_since_ms: AtomicU64,
    /// The same.
    in_use_since_ms: AtomicU64,
    /// Failed requests in a row, of all workers.
    failures: AtomicU32,
    /// Whether it is out for its failures; otherwise for a moment only, because it could not be reached.
    is_ejected: AtomicBool,
    /// Why it was last, for who asks.
    last_ejection: Mutex<Option<outlier::Why>>,
    /// Those that nobody has counted yet.
    ejections: AtomicU32,
}

/// Why a server gets no requests, or fewer than its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Drained,
    Leaving,
    /// Health checks fail.
    Down,
    /// It is not known yet whether it is well.
    Unknown,
    /// For its failures; tried again after so long.
    Ejected(Duration),
    /// It could not be reached a moment ago; tried again after so long.
    Unreachable(Duration),
    /// It asked for a pause; tried again after so long.
    Paused(Duration),
    /// One request finds out whether it is well again.
    Probed,
    /// It gets so many 256ths of its share.
    Starting(u32),
}

impl Health {
    pub fn new(began: Instant) -> Health {
        Health {
            began,
            flags: AtomicU32::new(0),
            out_until_ms: AtomicU64::new(0),
            probed_since_ms: AtomicU64::new(0),
            in_use_since_ms: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            is_ejected: AtomicBool::new(false),
            last_ejection: Mutex::default(),
            ejections: AtomicU32::new(0),
        }
    }

    /// Whether it may be chosen, by what all workers know.
    #[inline]
    pub fn tier(&self, now: Instant) -> Tier {
        let flags = self.flags.load(Ordering::Acquire);
        if flags & !(STARTING | ASKED | PAUSED) == 0 { Tier::Serving } else { self.unusual_tier(flags, now) }
    }

    #[cold]
    fn unusual_tier(&self, flags: u32, now: Instant) -> Tier {
        if flags & (DRAINED | LEAVING) != 0 {
            return Tier::Closed;
        }
        let is_out = flags & OUT != 0 && (self.is_probed(flags, now) || self.out_for(now).is_some());
        if flags & DOWN != 0 || is_out {
            return Tier::Shunned;
        }
        if flags & UNKNOWN != 0 { Tier::Unknown } else { Tier::Serving }
    }

    /// For a client that belongs to this server: draining keeps it, being down does not.
    pub fn keeps_its_own(&self, now: Instant) -> bool {
        let flags = self.flags.load(Ordering::Acquire);
        self.unusual_tier(flags & !(DRAINED | LEAVING), now) != Tier::Shunned
    }

    /// How much of its share it gets, in 256ths, when it takes `whole` to the whole of it.
    #[inline]
    pub fn share(&self, whole: Duration, now: Instant) -> u32 {
        if self.flags.load(Ordering::Relaxed) & STARTING == 0 {
            return slow_start::WHOLE_SHARE;
        }
        let since = Duration::from_millis(self.in_use_since_ms.load(Ordering::Relaxed));
        let share = slow_start::share(self.elapsed(now).saturating_sub(since), whole);
        if share >= slow_start::WHOLE_SHARE {
            self.flags.fetch_and(!STARTING, Ordering::Relaxed);
        }
        share
    }

    /// A request is going to a server whose time out is over: true for the one that may find out. It must end with [`Health::come_back`],
    /// a failure, or [`Health::found_nothing_out`].
    pub fn begin_probe(&self, now: Instant) -> Probing {
        let flags = self.flags.load(Ordering::Acquire);
        if flags & OUT == 0 {
            return Probing::NotNeeded;
        }
        if self.is_probed(flags, now) {
            return Probing::Another;
        }
        // Of two that come here at once one is behind: its time is not the one that was looked at.
        let since = self.probed_since_ms.load(Ordering::Acquire);
        let now_ms = self.elapsed(now).as_millis() as u64 + 1;
        if self.probed_since_ms.compare_exchange(since, now_ms, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return Probing::Another;
        }
        let before = self.flags.fetch_or(PROBED, Ordering::AcqRel);
        if before & PROBED == flags & PROBED { Probing::This } else { Probing::Another }
    }

    fn is_probed(&self, flags: u32, now: Instant) -> bool {
        let since = Duration::from_millis(self.probed_since_ms.load(Ordering::Acquire));
        flags & PROBED != 0 && self.elapsed(now).saturating_sub(since) < PROBE_MOST
    }

    /// The request that was to find out ended without an answer of the server's.
    pub fn found_nothing_out(&self) {
        self.flags.fetch_and(!PROBED, Ordering::AcqRel);
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
        if !self.forget_out() {
            return false;
        }
        let was_ejected = self.is_ejected.swap(false, Ordering::AcqRel);
        if was_ejected {
            self.begin_slowly(now);
        }
        was_ejected
    }

    /// It is in use again, and the time that it was to be out is over with that: the next one begins anew, and may be a second. Whether it was out.
    fn forget_out(&self) -> bool {
        let was_out = self.flags.fetch_and(!(OUT | PROBED), Ordering::AcqRel) & OUT != 0;
        if was_out {
            self.out_until_ms.store(0, Ordering::Release);
        }
        was_out
    }

    /// Whether it was left, and nothing good was heard of it since.
    #[inline]
    pub fn is_out(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & OUT != 0
    }

    /// One more failure; how many there are in a row.
    pub fn failed(&self) -> u32 {
        self.failures.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// It could not be reached: no request until then, unless no other server can be used.
    pub fn back_off(&self, now: Instant, pause: Duration) {
        self.set(PAUSED, false);
        self.leave_out(self.elapsed(now) + pause);
    }

    /// The same, because it asked for it.
    pub fn pause(&self, now: Instant, pause: Duration) {
        self.set(PAUSED, true);
        self.leave_out(self.elapsed(now) + pause);
    }

    /// Out for its failures, until that time of the process.
    pub fn eject(&self, until: Duration, why: outlier::Why) {
        *self.last_ejection.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        self.failures.store(0, Ordering::Release);
        self.is_ejected.store(true, Ordering::Release);
        self.ejections.fetch_add(1, Ordering::Relaxed);
        self.leave_out(until);
    }

    /// Whether it is out for its failures.
    pub fn is_ejected(&self) -> bool {
        self.is_ejected.load(Ordering::Acquire)
    }

    /// Ejections since this was asked last: whoever keeps the count adds them.
    pub fn take_ejections(&self) -> u32 {
        self.ejections.swap(0, Ordering::Relaxed)
    }

    pub fn last_ejection(&self) -> Option<outlier::Why> {
        *self.last_ejection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave_out(&self, until: Duration) {
        self.out_until_ms.fetch_max(until.as_millis() as u64, Ordering::AcqRel);
        self.flags.fetch_or(OUT, Ordering::AcqRel);
        self.flags.fetch_and(!PROBED, Ordering::AcqRel);
    }

    /// How long it is still out.
    fn out_for(&self, now: Instant) -> Option<Duration> {
        let until = Duration::from_millis(self.out_until_ms.load(Ordering::Acquire));
        until.checked_sub(self.elapsed(now)).filter(|left| !left.is_zero())
    }

    pub fn is_drained(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & DRAINED != 0
    }

    pub fn set_drained(&self, drained: bool) {
        self.set(DRAINED, drained);
    }

    /// It gets no new requests, and no connection in advance.
    pub fn is_closed(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (DRAINED | LEAVING) != 0
    }

    pub fn is_leaving(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & LEAVING != 0
    }

    pub fn set_leaving(&self, leaving: bool) {
        self.set(LEAVING, leaving);
    }

    /// What health checks say. A server that comes up begins slowly, where that is asked for.
    pub fn set_checked(&self, checked: Checked, now: Instant) {
        let before = self.checked();
        self.set(ASKED, checked != Checked::Unasked);
        match checked {
            Checked::Unasked | Checked::Up => {
                if before == Checked::Down {
                    self.begin_slowly(now);
                    // It was out because it was down, and is known to be well again.
                    self.forget_out();
                    self.is_ejected.store(false, Ordering::Release);
                }
                self.flags.fetch_and(!(UNKNOWN | DOWN), Ordering::AcqRel);
            }
            Checked::Unknown => {
                self.flags.fetch_and(!DOWN, Ordering::AcqRel);
                self.set(UNKNOWN, true);
            }
            Checked::Down => {
                self.flags.fetch_or(DOWN, Ordering::AcqRel);
                self.set(UNKNOWN, false);
            }
        }
    }

    pub fn checked(&self) -> Checked {
        let flags = self.flags.load(Ordering::Acquire);
        match (flags & DOWN != 0, flags & UNKNOWN != 0, flags & ASKED != 0) {
            (true, _, _) => Checked::Down,
            (false, true, _) => Checked::Unknown,
            (false, false, true) => Checked::Up,
            (false, false, false) => Checked::Unasked,
        }
    }

    /// From now on it gets its share little by little, where its pool says so.
    pub fn begin_slowly(&self, now: Instant) {
        self.in_use_since_ms.store(self.elapsed(now).as_millis() as u64, Ordering::Relaxed);
        self.flags.fetch_or(STARTING, Ordering::AcqRel);
    }

    /// What is unusual about it, for who looks; the most serious first.
    pub fn why(&self, slow_start: Duration, now: Instant) -> Option<Why> {
        let flags = self.flags.load(Ordering::Acquire);
        let has = |flag: u32| flags & flag != 0;
        let out_for = self.out_for(now);
        let is_ejected = self.is_ejected.load(Ordering::Acquire);
        match () {
            () if has(DRAINED) => Some(Why::Drained),
            () if has(LEAVING) => Some(Why::Leaving),
            () if has(DOWN) => Some(Why::Down),
            () if has(OUT) && is_ejected && out_for.is_some() => out_for.map(Why::Ejected),
            () if has(OUT) && is_ejected => Some(Why::Probed),
            () if has(OUT) && has(PAUSED) => Some(Why::Paused(out_for.unwrap_or_default())),
            () if has(OUT) => Some(Why::Unreachable(out_for.unwrap_or_default())),
            () if has(UNKNOWN) => Some(Why::Unknown),
            () if has(STARTING) => {
                Some(self.share(slow_start, now)).filter(|share| *share < slow_start::WHOLE_SHARE).map(Why::Starting)
            }
            () => None,
        }
    }

    fn set(&self, flag: u32, on: bool) {
        if on {
            self.flags.fetch_or(flag, Ordering::AcqRel);
        } else {
            self.flags.fetch_and(!flag, Ordering::AcqRel);
        }
    }

    /// Since the process began.
    pub fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
}

/// Whether a request finds out how a server is that was out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probing {
    NotNeeded,
    This,
    Another,
}

#[cfg(test)]
mod tests {
    use super::{Checked, Health, PROBE_MOST, Probing, Tier, Why};
    use std::time::{Duration, Instant};
    use tidegate_balancing::outlier;

    const SECOND: Duration = Duration::from_secs(1);
    const WHY: outlier::Why = outlier::Why::ConsecutiveFailures(5);

    fn health() -> (Health, Instant) {
        let began = Instant::now();
        (Health::new(began), began)
    }

    #[test]
    fn what_is_known_of_a_server_decides_whether_it_is_chosen() {
        let check = |change: fn(&Health, Instant), expected: Tier, why: Option<Why>| {
            let (health, now) = health();
            change(&health, now);
            assert_eq!((health.tier(now), health.why(SECOND, now)), (expected, why));
        };
        check(|_, _| {}, Tier::Serving, None);
        check(|health, _| health.set_drained(true), Tier::Closed, Some(Why::Drained));
        check(|health, _| health.set_leaving(true), Tier::Closed, Some(Why::Leaving));
        check(|health, now| health.set_checked(Checked::Unknown, now), Tier::Unknown, Some(Why::Unknown));
        check(|health, now| health.set_checked(Checked::Up, now), Tier::Serving, None);
        check(|health, now| health.set_checked(Checked::Down, now), Tier::Shunned, Some(Why::Down));
        check(|health, now| health.back_off(now, SECOND), Tier::Shunned, Some(Why::Unreachable(SECOND)));
        check(|health, now| health.pause(now, SECOND), Tier::Shunned, Some(Why::Paused(SECOND)));
        check(|health, _| health.eject(SECOND * 10, WHY), Tier::Shunned, Some(Why::Ejected(SECOND * 10)));
        // Who is drained and down is drained.
        let both = |health: &Health, now| {
            health.set_checked(Checked::Down, now);
            health.set_drained(true);
        };
        check(both, Tier::Closed, Some(Why::Drained));
    }

    #[test]
    fn one_request_finds_out_whether_a_server_is_well_again() {
        let (health, began) = health();
        assert_eq!(health.begin_probe(began), Probing::NotNeeded);
        health.eject(SECOND * 10, WHY);
        let later = began + SECOND * 10;
        assert_eq!((health.tier(later), health.why(SECOND, later)), (Tier::Serving, Some(Why::Probed)));
        assert_eq!(health.begin_probe(later), Probing::This);
        assert_eq!((health.begin_probe(later), health.tier(later)), (Probing::Another, Tier::Shunned));
        health.found_nothing_out();
        assert_eq!((health.tier(later), health.begin_probe(later)), (Tier::Serving, Probing::This));
        // What was on its way when it was ejected says nothing of how it is now.
        health.served_well();
        assert!(health.is_out());
        assert!(health.come_back(later));
        assert!(!health.is_out() && !health.is_ejected());
        assert_eq!(health.tier(later), Tier::Serving);
        assert!(!health.come_back(later), "it was there");
    }

    #[test]
    fn failures_are_counted_in_a_row() {
        let (health, _) = health();
        assert_eq!([health.failed(), health.failed()], [1, 2]);
        health.served_well();
        assert_eq!(health.failed(), 1);
        health.eject(SECOND, WHY);
        assert_eq!((health.failed(), health.last_ejection()), (1, Some(WHY)));
    }

    #[test]
    fn who_came_back_before_its_time_begins_anew() {
        let backs_off_for = |come_back: fn(&Health, Instant)| {
            let (health, began) = health();
            health.set_checked(Checked::Down, began);
            health.eject(SECOND * 60, WHY);
            come_back(&health, began);
            health.back_off(began, SECOND);
            health.why(Duration::ZERO, began)
        };
        assert_eq!(backs_off_for(|health, now| health.set_checked(Checked::Up, now)), Some(Why::Unreachable(SECOND)));
        let by_request = |health: &Health, now: Instant| {
            health.set_checked(Checked::Unasked, now);
            health.come_back(now);
        };
        assert_eq!(backs_off_for(by_request), Some(Why::Unreachable(SECOND)));
    }

    #[test]
    fn a_short_pause_does_not_shorten_a_longer_one() {
        let (health, began) = health();
        health.eject(SECOND * 60, WHY);
        health.back_off(began, SECOND);
        assert_eq!(health.why(SECOND, began + SECOND * 2), Some(Why::Ejected(SECOND * 58)));
    }

    #[test]
    fn checks_bring_back_who_was_down_and_not_who_was_up() {
        let (health, began) = health();
        health.set_checked(Checked::Up, began);
        health.eject(SECOND * 10, WHY);
        health.set_checked(Checked::Up, began);
        assert_eq!(health.tier(began), Tier::Shunned, "its requests fail, whatever its checks say");
        health.set_checked(Checked::Down, began);
        assert_eq!(health.checked(), Checked::Down);
        health.set_checked(Checked::Up, began);
        assert_eq!((health.tier(began), health.checked()), (Tier::Serving, Checked::Up));
    }

    #[test]
    fn who_comes_into_use_gets_its_share_little_by_little() {
        let (health, began) = health();
        let share = |at: u32| health.share(SECOND * 10, began + SECOND * at);
        assert_eq!(share(0), 256);
        health.begin_slowly(began + SECOND * 5);
        assert_eq!((share(5), share(10), share(15), share(16)), (26, 141, 256, 256));
        assert_eq!(health.why(SECOND * 10, began + SECOND * 16), None);
    }

    #[test]
    fn a_client_stays_with_a_server_that_is_drained_and_not_with_one_that_is_down() {
        let (health, now) = health();
        assert!(health.keeps_its_own(now));
        health.set_drained(true);
        health.set_leaving(true);
        assert!(health.keeps_its_own(now));
        health.set_checked(Checked::Down, now);
        assert!(!health.keeps_its_own(now));
        health.set_checked(Checked::Up, now);
        health.back_off(now, SECOND);
        assert!(!health.keeps_its_own(now));
    }

    #[test]
    fn one_request_finds_out_and_another_one_when_it_takes_too_long() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let health = Health::new(began);
        assert_eq!(health.begin_probe(at(0)), Probing::NotNeeded);
        health.back_off(at(0), Duration::from_secs(5));
        assert_eq!((health.tier(at(4)), health.tier(at(5))), (Tier::Shunned, Tier::Serving));
        assert_eq!(health.begin_probe(at(5)), Probing::This);
        assert_eq!((health.tier(at(6)), health.begin_probe(at(6))), (Tier::Shunned, Probing::Another));
        let late = at(6) + PROBE_MOST;
        assert_eq!((health.tier(late), health.begin_probe(late)), (Tier::Serving, Probing::This));
        assert_eq!(health.tier(late), Tier::Shunned);
        health.found_nothing_out();
        assert_eq!(health.begin_probe(late), Probing::This);
        assert!(!health.come_back(late), "it was not ejected");
        assert_eq!((health.tier(late), health.begin_probe(late)), (Tier::Serving, Probing::NotNeeded));
    }
}
