//! When the waits of one socket end, the same for every driver: how long reading may wait for input, and sending for
//! progress.

use crate::deadline::{Deadlines, Direction, ticks};
use crate::sock::ReadLimit;
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Until somebody sets another: nothing waits for ever.
const DEFAULT_IDLE: Duration = Duration::from_secs(75);

/// The limits of one socket's waits, on the worker's wheel.
pub(crate) struct Waits {
    deadlines: Rc<Deadlines>,
    read_limit: Cell<Limit>,
    write_idle_ticks: Cell<u32>,
}

/// [`ReadLimit`] as the wheel counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    IdleTicks(u32),
    Until(Instant),
    Never,
}

impl Waits {
    pub fn new() -> Waits {
        Waits {
            deadlines: Deadlines::new(),
            read_limit: Cell::new(Limit::IdleTicks(ticks(DEFAULT_IDLE))),
            write_idle_ticks: Cell::new(ticks(DEFAULT_IDLE)),
        }
    }

    /// Nothing to do now: ends the wait when its deadline has passed, else sees to it that somebody wakes us then.
    pub fn wait<T>(&self, direction: Direction, cx: &Context<'_>) -> Poll<io::Result<T>> {
        if self.deadlines.take_fired(direction) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let ticks = match (direction, self.read_limit.get()) {
            (Direction::Read, Limit::Never) => return Poll::Pending,
            (Direction::Read, Limit::Until(at)) => {
                self.deadlines.arm(direction, at, cx);
                return Poll::Pending;
            }
            (Direction::Read, Limit::IdleTicks(ticks)) => ticks,
            (Direction::Write, _) => self.write_idle_ticks.get(),
        };
        if self.deadlines.is_armed(direction) {
            // Polled again: the wait goes on from where it began.
            self.deadlines.remember_waker(direction, cx);
        } else {
            self.deadlines.arm_after(direction, ticks, cx);
        }
        Poll::Pending
    }

    /// The wait is over.
    #[inline]
    pub fn disarm(&self, direction: Direction) {
        self.deadlines.disarm(direction);
    }

    pub fn set_read_limit(&self, limit: ReadLimit) {
        let limit = match limit {
            ReadLimit::Idle(idle) => Limit::IdleTicks(ticks(idle)),
            ReadLimit::Until(at) => Limit::Until(at),
            ReadLimit::Never => Limit::Never,
        };
        if self.read_limit.replace(limit) != limit {
            self.deadlines.disarm(Direction::Read);
        }
    }

    pub fn set_write_idle(&self, idle: Duration) {
        self.write_idle_ticks.set(ticks(idle));
    }

    pub fn set_between_requests(&self, between: bool) {
        self.deadlines.set_between_requests(between);
    }

    pub fn end_idle_by(&self, at: Instant) {
        self.deadlines.end_idle_by(at);
    }

    /// See [`Sock::poll_patience`](crate::Sock::poll_patience).
    #[inline]
    pub fn poll_patience(&self, cx: &Context<'_>) -> Poll<()> {
        if self.deadlines.take_fired(Direction::Read) {
            return Poll::Ready(());
        }
        if self.deadlines.is_armed(Direction::Read) {
            self.deadlines.remember_waker(Direction::Read, cx);
        } else {
            self.deadlines.arm_after(Direction::Read, 1, cx);
        }
        Poll::Pending
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.deadlines.end();
    }
}
