//! Deadlines of a worker's sockets: a coarse wheel, because idle times need no precision and arming one must cost
//! nothing. A deadline that moves later is left where it is and looked at again when its slot comes up, so a busy
//! connection touches the wheel once a minute. Timers that need precision (connect, back-off) use `rt::sleep`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

/// Length of a tick, and so the precision of every idle time.
pub const TICK: Duration = Duration::from_millis(100);
/// Ticks the wheel reaches ahead (51 s); what is later is looked at again on the way.
const SLOTS: u64 = 512;
/// Sockets for which a slot keeps room: 1 MiB in all slots.
const SLOT_KEPT_MAX: usize = 256;
const NEVER: u64 = u64::MAX;

/// The two deadlines of one socket.
#[derive(Debug)]
pub struct Deadlines {
    read: SocketDeadline,
    write: SocketDeadline,
    /// The tick at which the wheel will look at this socket; `NEVER` when it is in no slot.
    queued: Cell<u64>,
    /// Where it is in the slot of that tick.
    place: Cell<usize>,
    between_requests: Cell<bool>,
}

#[derive(Debug)]
struct SocketDeadline {
    /// `NEVER` when nobody waits.
    tick: Cell<u64>,
    fired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

impl Deadlines {
    pub fn new() -> Rc<Deadlines> {
        let deadline = || SocketDeadline { tick: Cell::new(NEVER), fired: Cell::new(false), waker: RefCell::new(None) };
        Rc::new(Deadlines {
            read: deadline(),
            write: deadline(),
            queued: Cell::new(NEVER),
            place: Cell::new(0),
            between_requests: Cell::new(false),
        })
    }

    /// The socket is no more, and leaves the wheel. Left in its slot until that comes up, with a waker that keeps the
    /// memory of its task, each client that comes and goes would hold a kilobyte for a minute.
    pub fn end(self: &Rc<Self>) {
        for direction in [Direction::Read, Direction::Write] {
            self.disarm(direction);
            // Dropped where nothing is borrowed: with it a task may end.
            drop(self.of(direction).waker.take());
        }
        // A thread that ends has taken its wheel down already.
        let _ = WHEEL.try_with(|wheel| wheel.remove(self));
    }

    fn of(&self, direction: Direction) -> &SocketDeadline {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    /// The wait is over.
    #[inline]
    pub fn disarm(&self, direction: Direction) {
        let deadline = self.of(direction);
        deadline.tick.set(NEVER);
        deadline.fired.set(false);
    }

    /// True once after the deadline has passed.
    #[inline]
    pub fn take_fired(&self, direction: Direction) -> bool {
        self.of(direction).fired.take()
    }

    /// Whether a wait is under way.
    #[inline]
    pub fn is_armed(&self, direction: Direction) -> bool {
        self.of(direction).tick.get() != NEVER
    }

    pub fn set_between_requests(&self, between: bool) {
        self.between_requests.set(between);
    }

    /// Wakes the waiting task at `at` or up to a tick later. Arming again replaces the deadline and the waker.
    pub fn arm(self: &Rc<Self>, direction: Direction, at: Instant, cx: &Context<'_>) {
        WHEEL.with(|wheel| self.arm_tick(wheel, direction, wheel.tick_of(at), cx));
    }

    /// As [`arm`](Self::arm), so many ticks from now. The wheel's own clock is precise enough, so this reads none.
    #[inline]
    pub fn arm_after(self: &Rc<Self>, direction: Direction, ticks: u32, cx: &Context<'_>) {
        // One more, because the current tick has begun already.
        WHEEL.with(|wheel| self.arm_tick(wheel, direction, wheel.current.get() + u64::from(ticks) + 1, cx));
    }

    #[inline]
    fn arm_tick(self: &Rc<Self>, wheel: &Wheel, direction: Direction, tick: u64, cx: &Context<'_>) {
        self.of(direction).tick.set(tick);
        self.remember_waker(direction, cx);
        wheel.enqueue(self, tick);
    }

    /// A wait for the next request ends at this moment or before; any other goes on as it was.
    pub fn end_idle_by(self: &Rc<Self>, at: Instant) {
        if !self.between_requests.get() || !self.is_armed(Direction::Read) {
            return;
        }
        WHEEL.with(|wheel| {
            let tick = self.read.tick.get().min(wheel.tick_of(at));
            self.read.tick.set(tick);
            wheel.enqueue(self, tick);
        });
    }

    /// The deadline stays; the task that waits is now this one.
    #[inline]
    pub fn remember_waker(&self, direction: Direction, cx: &Context<'_>) {
        let mut waker = self.of(direction).waker.borrow_mut();
        match &mut *waker {
            Some(known) if known.will_wake(cx.waker()) => {}
            Some(known) => known.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
    }

    fn fire(&self, direction: Direction) {
        let deadline = self.of(direction);
        deadline.tick.set(NEVER);
        deadline.fired.set(true);
        if let Some(waker) = deadline.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    fn next_tick(&self) -> u64 {
        self.read.tick.get().min(self.write.tick.get())
    }
}

struct Wheel {
    origin: Instant,
    /// The last tick that was worked off.
    current: Cell<u64>,
    slots: RefCell<Vec<Vec<Rc<Deadlines>>>>,
}

thread_local! {
    static WHEEL: Wheel = Wheel {
        origin: Instant::now(),
        current: Cell::new(0),
        slots: RefCell::new((0..SLOTS).map(|_| Vec::new()).collect()),
    };
}

impl Wheel {
    /// Rounded up, so that nothing fires early.
    fn tick_of(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.origin).as_millis() as u64;
        (since / TICK.as_millis() as u64 + 1).max(self.current.get() + 1)
    }

    #[inline]
    fn enqueue(&self, deadlines: &Rc<Deadlines>, tick: u64) {
        let tick = tick.min(self.current.get() + SLOTS - 1);
        if deadlines.queued.get() > tick {
            self.insert(deadlines, tick);
        }
    }

    fn insert(&self, deadlines: &Rc<Deadlines>, tick: u64) {
        self.remove(deadlines);
        let slot = &mut self.slots.borrow_mut()[(tick % SLOTS) as usize];
        deadlines.queued.set(tick);
        deadlines.place.set(slot.len());
        slot.push(deadlines.clone());
    }

    /// Takes it out of the slot that it is in.
    fn remove(&self, deadlines: &Rc<Deadlines>) {
        let tick = deadlines.queued.replace(NEVER);
        if tick == NEVER {
            return;
        }
        let slot = &mut self.slots.borrow_mut()[(tick % SLOTS) as usize];
        let place = deadlines.place.get();
        // A slot that is being worked off has been taken out, with all sockets in it.
        if slot.get(place).is_some_and(|there| Rc::ptr_eq(there, deadlines)) {
            slot.swap_remove(place);
            if let Some(moved) = slot.get(place) {
                moved.place.set(place);
            }
        }
    }

    fn advance_to(&self, now: Instant) {
        let target = now.saturating_duration_since(self.origin).as_millis() as u64 / TICK.as_millis() as u64;
        // After a long sleep of the machine one turn visits every slot; more would visit them twice.
        if target > self.current.get() + SLOTS {
            self.current.set(target - SLOTS);
        }
        while self.current.get() < target {
            let tick = self.current.get() + 1;
            self.current.set(tick);
            let due = std::mem::take(&mut self.slots.borrow_mut()[(tick % SLOTS) as usize]);
            for deadlines in &due {
                // One before it has ended the socket.
                if deadlines.queued.get() > tick {
                    continue;
                }
                deadlines.queued.set(NEVER);
                for direction in [Direction::Read, Direction::Write] {
                    if deadlines.of(direction).tick.get() <= tick {
                        deadlines.fire(direction);
                    }
                }
                let next = deadlines.next_tick();
                if next != NEVER {
                    self.enqueue(deadlines, next);
                }
            }
            self.give_back(tick, due);
        }
    }

    /// Keeps the slot's allocation for its next turn.
    fn give_back(&self, tick: u64, mut due: Vec<Rc<Deadlines>>) {
        due.clear();
        let slot = &mut self.slots.borrow_mut()[(tick % SLOTS) as usize];
        if slot.is_empty() && due.capacity() <= SLOT_KEPT_MAX {
            *slot = due;
        }
    }
}

/// A duration in ticks, rounded up.
pub fn ticks(duration: Duration) -> u32 {
    let ticks = duration.as_secs().saturating_mul(10) + u64::from(duration.subsec_millis().div_ceil(100));
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// Works off the slots up to `now`. Called by the worker's ticking task.
pub fn advance(now: Instant) {
    WHEEL.with(|wheel| wheel.advance_to(now));
}

#[cfg(test)]
mod tests {
    use super::{Deadlines, Direction, TICK, WHEEL, advance};
    use std::rc::Rc;
    use std::sync::Arc;
    use std::task::{Context, Waker};
    use std::time::{Duration, Instant};

    fn context() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    #[test]
    fn a_deadline_fires_once_after_its_time_and_never_before() {
        let start = Instant::now();
        let deadlines = Deadlines::new();
        deadlines.arm(Direction::Read, start + Duration::from_secs(5), &context());
        advance(start + Duration::from_millis(4900));
        assert!(!deadlines.take_fired(Direction::Read));
        advance(start + Duration::from_secs(5) + 2 * TICK);
        assert!(deadlines.take_fired(Direction::Read));
        assert!(!deadlines.take_fired(Direction::Read));
    }

    #[test]
    fn moving_later_and_earlier_is_honoured_and_far_ones_survive_turns_of_the_wheel() {
        let start = Instant::now();
        let deadlines = Deadlines::new();
        deadlines.arm(Direction::Read, start + Duration::from_secs(10), &context());
        deadlines.arm(Direction::Read, start + Duration::from_secs(3600), &context());
        deadlines.arm(Direction::Write, start + Duration::from_secs(2), &context());
        let mut seconds = 0;
        while !deadlines.take_fired(Direction::Read) {
            seconds += 1;
            advance(start + Duration::from_secs(seconds));
            assert_eq!(deadlines.take_fired(Direction::Write), seconds == 3, "at {seconds} s");
        }
        assert_eq!(seconds, 3601);
    }

    #[test]
    fn relative_deadlines_are_rounded_up() {
        let start = Instant::now();
        advance(start);
        let deadlines = Deadlines::new();
        deadlines.arm_after(Direction::Read, super::ticks(Duration::from_millis(250)), &context());
        advance(start + Duration::from_millis(200));
        assert!(!deadlines.take_fired(Direction::Read));
        advance(start + Duration::from_millis(250) + 2 * TICK);
        assert!(deadlines.take_fired(Direction::Read));
    }

    #[test]
    fn a_disarmed_deadline_does_not_fire() {
        let start = Instant::now();
        let deadlines = Deadlines::new();
        deadlines.arm(Direction::Read, start + Duration::from_secs(1), &context());
        deadlines.disarm(Direction::Read);
        advance(start + Duration::from_secs(60));
        assert!(!deadlines.take_fired(Direction::Read));
    }

    struct Task;

    impl std::task::Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_socket_that_ended_leaves_nothing_in_the_wheel() {
        let task = Arc::new(Task);
        let waker = Waker::from(task.clone());
        let cx = Context::from_waker(&waker);
        let start = Instant::now();
        let of_wheel = || WHEEL.with(|wheel| wheel.slots.borrow().iter().map(Vec::len).sum::<usize>());
        let armed: Vec<Rc<Deadlines>> = (0..100).map(|_| Deadlines::new()).collect();
        for (index, deadlines) in armed.iter().enumerate() {
            // Moved earlier, into a slot that it shares with others.
            deadlines.arm(Direction::Read, start + Duration::from_secs(40), &cx);
            deadlines.arm(Direction::Write, start + Duration::from_secs(index as u64 % 3 + 1), &cx);
        }
        assert_eq!(of_wheel(), 100, "each in one slot");
        // In an order that is not that of the slots.
        for deadlines in armed.iter().step_by(2).chain(armed.iter().skip(1).step_by(4)) {
            deadlines.end();
            deadlines.end();
            assert_eq!(Rc::strong_count(deadlines), 1);
        }
        assert_eq!((of_wheel(), Arc::strong_count(&task)), (25, 2 + 2 * 25), "one waker each way for those that are left");
        advance(start + Duration::from_secs(5));
        let fired = |deadlines: &&Rc<Deadlines>| deadlines.take_fired(Direction::Write);
        assert_eq!(armed.iter().filter(fired).count(), 25);
        assert!(armed.iter().all(|deadlines| !deadlines.take_fired(Direction::Read)), "that is later");
        armed.iter().for_each(super::Deadlines::end);
        assert_eq!((of_wheel(), Arc::strong_count(&task)), (0, 2));
    }

    #[test]
    fn an_idle_wait_is_shortened_and_no_other() {
        let start = Instant::now();
        let (idle, sooner, busy) = (Deadlines::new(), Deadlines::new(), Deadlines::new());
        idle.set_between_requests(true);
        sooner.set_between_requests(true);
        for (deadlines, seconds) in [(&idle, 60), (&sooner, 1), (&busy, 60)] {
            deadlines.arm(Direction::Read, start + Duration::from_secs(seconds), &context());
            deadlines.end_idle_by(start + Duration::from_secs(3));
        }
        advance(start + Duration::from_secs(2));
        assert!(sooner.take_fired(Direction::Read) && !idle.take_fired(Direction::Read));
        advance(start + Duration::from_secs(4));
        assert!(idle.take_fired(Direction::Read));
        assert!(!busy.take_fired(Direction::Read));
    }
}
