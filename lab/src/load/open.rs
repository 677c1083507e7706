//! Open loop: requests arrive at a constant rate, whatever the answers do.
//! A kernel timer gives the beat: the runtime's own has a resolution of a millisecond, which would send five requests
//! in a bunch. An arrival that finds no free client waits, or is dropped and brings another client into play, as k6's
//! virtual users do.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client::Client;
use crate::load::schedule::Schedule;
use crate::load::tally::Times;
use crate::load::{Work, ask_in_time};
use crate::net::Error;

/// Above this rate arrivals come in pairs or more; a faster beat would cost more than it tells.
const BEAT_MIN: Duration = Duration::from_micros(50);
/// So that the end is noticed at low rates, too.
const BEAT_MAX: Duration = Duration::from_millis(5);

/// What happens to an arrival that finds no free client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unserved {
    /// Waits for one, and its latency runs. Never sent by the end: dropped.
    Waits,
    /// Dropped at once; up to `clients_max` clients (of this thread), another one joins in. One at a time, and only
    /// when it is connected: k6, too, prepares one further user at a time, or a stall would end in a storm of
    /// handshakes.
    Dropped { clients_max: usize },
}

struct Arrivals {
    schedule: Schedule,
    /// Clients without work, the one that has rested longest first, so that all are used alike.
    resting: VecDeque<Rc<Slot>>,
    over: bool,
    /// A further client is connecting.
    joining: bool,
}

/// Where a client finds its next arrival.
#[derive(Default)]
struct Slot {
    handed: RefCell<Option<Instant>>,
    waker: RefCell<Option<Waker>>,
}

impl Slot {
    fn hand(&self, intended: Instant) {
        *self.handed.borrow_mut() = Some(intended);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// Runs until the timeline is over, and returns the clients that are still waiting for an answer.
pub async fn run(
    clients: Vec<Client>,
    schedule: Schedule,
    unserved: Unserved,
    work: &Rc<Work>,
) -> Result<Vec<JoinHandle<()>>, Error> {
    let beat = Beat::new(schedule.interval().clamp(BEAT_MIN, BEAT_MAX))?;
    let arrivals = Rc::new(RefCell::new(Arrivals { schedule, resting: VecDeque::new(), over: false, joining: false }));
    let join_in = |client| tokio::task::spawn_local(answer_arrivals(client, Rc::clone(&arrivals), Rc::clone(work)));
    let mut tasks: Vec<_> = clients.into_iter().map(join_in).collect();
    loop {
        beat.next().await?;
        let mut at = arrivals.borrow_mut();
        if work.meter.timeline().is_over() {
            // What became due since the last beat is left out altogether: nobody had a chance to send it.
            at.over = true;
            at.resting.drain(..).for_each(|slot| slot.wake());
            let never_sent = at.schedule.waiting().filter(|intended| work.meter.timeline().measures(*intended)).count();
            work.meter.record_dropped(never_sent as u64);
            return Ok(tasks);
        }
        at.schedule.handle_time(Instant::now());
        at.hand_out();
        if let Unserved::Dropped { clients_max } = unserved {
            let dropped = at.schedule.drop_waiting();
            work.meter.record_dropped(dropped);
            if dropped > 0 && !at.joining && tasks.len() < clients_max {
                at.joining = true;
                tasks.push(tokio::task::spawn_local(join_late(Rc::clone(&arrivals), Rc::clone(work))));
            }
        }
    }
}

impl Arrivals {
    fn hand_out(&mut self) {
        while let Some(slot) = self.resting.front() {
            let Some(intended) = self.schedule.next_request() else { return };
            slot.hand(intended);
            self.resting.pop_front();
        }
    }
}

/// Connects, and only then lets the next one join in.
async fn join_late(arrivals: Rc<RefCell<Arrivals>>, work: Rc<Work>) {
    let mut client = Client::one();
    // A failure is counted when the first arrival meets it.
    timeout(work.timeout, client.connect(&work.question)).await.ok();
    arrivals.borrow_mut().joining = false;
    answer_arrivals(client, arrivals, work).await;
}

/// One client: takes the next arrival whenever it is free.
async fn answer_arrivals(mut client: Client, arrivals: Rc<RefCell<Arrivals>>, work: Rc<Work>) {
    let slot = Rc::new(Slot::default());
    while let Some(Arrival { intended, found_free }) = next_arrival(&slot, &arrivals).await {
        let lateness = found_free.then(|| intended.elapsed());
        let outcome = ask_in_time(&mut client, &work).await;
        // The answer to an arrival of the warm-up is an answer of the measured time, but its latency is not.
        let measured = work.meter.timeline().measures(intended);
        let times = measured.then(|| Times { latency: intended.elapsed(), lateness });
        match outcome {
            Ok(answered) => work.meter.record_answer(answered, times),
            Err(failure) => work.meter.record_failure(&failure),
        }
    }
}

struct Arrival {
    intended: Instant,
    /// This client was free when it came.
    found_free: bool,
}

/// `None` once it is over.
async fn next_arrival(slot: &Rc<Slot>, arrivals: &RefCell<Arrivals>) -> Option<Arrival> {
    {
        let mut arrivals = arrivals.borrow_mut();
        if let Some(intended) = arrivals.schedule.next_request().filter(|_| !arrivals.over) {
            return Some(Arrival { intended, found_free: false });
        }
        arrivals.resting.push_back(Rc::clone(slot));
    }
    poll_fn(|cx| {
        if let Some(intended) = slot.handed.borrow_mut().take() {
            return Poll::Ready(Some(Arrival { intended, found_free: true }));
        }
        if arrivals.borrow().over {
            return Poll::Ready(None);
        }
        *slot.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    })
    .await
}

/// A periodic kernel timer.
struct Beat {
    timer: AsyncFd<OwnedFd>,
}

impl Beat {
    #[expect(
        deprecated,
        reason = "unsound only for types whose descriptor may change; an OwnedFd's cannot, and its successor is unsafe to call"
    )]
    fn new(interval: Duration) -> Result<Beat, Error> {
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let interval = Timespec { tv_sec: interval.as_secs() as i64, tv_nsec: i64::from(interval.subsec_nanos()) };
        let setting = Itimerspec { it_interval: interval, it_value: interval };
        rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting)?;
        Ok(Beat { timer: AsyncFd::with_interest(timer, Interest::READABLE)? })
    }

    async fn next(&self) -> Result<(), Error> {
        loop {
            let mut guard = self.timer.readable().await?;
            let mut expirations = [0; 8];
            // Without a result the readiness was stale, and the timer is waited for again.
            if let Ok(read) = guard.try_io(|timer| Ok(rustix::io::read(timer, &mut expirations)?)) {
                return read.map(|_| ()).map_err(Into::into);
            }
        }
    }
}
