//! Open loop over HTTP/1.1: requests arrive at a constant rate on a pool of connections, whatever the answers do.
//! A kernel timer gives the beat: the runtime's own has a resolution of a millisecond, which would send five requests in a bunch.

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
use tokio::time::timeout;

use crate::client::connection::Connection;
use crate::client::response::Response;
use crate::load::meter::Phase;
use crate::load::schedule::Schedule;
use crate::load::{GRACE, LoadOptions, Work, closed};
use crate::net::Error;

/// Above this rate arrivals come in pairs or more; a faster beat would cost more than it tells.
const BEAT_MIN: Duration = Duration::from_micros(50);

struct Arrivals {
    schedule: Schedule,
    /// Connections without work, the one that has rested longest first, so that all are used alike.
    resting: VecDeque<Waker>,
    over: bool,
}

pub async fn run(options: &LoadOptions, rate: u32, work: &Rc<Work>) -> Result<(), Error> {
    let connections = closed::connect_all(options.connections, work).await?;
    let begin = Instant::now();
    let measured_from = begin + options.warmup;
    let schedule = Schedule::new(begin, rate);
    let beat = Beat::new(schedule.interval().max(BEAT_MIN))?;
    let arrivals = Rc::new(RefCell::new(Arrivals { schedule, resting: VecDeque::new(), over: false }));
    let mut tasks: Vec<_> = connections
        .into_iter()
        .map(|connection| {
            tokio::task::spawn_local(answer_arrivals(connection, Rc::clone(&arrivals), Rc::clone(work), measured_from))
        })
        .collect();
    dispatch(options, &arrivals, work, beat, measured_from).await?;

    work.meter.record_dropped(arrivals.borrow().schedule.waiting_since(measured_from));
    let under_way = async {
        while let Some(task) = tasks.last_mut() {
            task.await.ok();
            tasks.pop();
        }
    };
    timeout(GRACE, under_way).await.ok();
    for task in tasks {
        // A connection still waiting for its answer after the grace time will not get it.
        if !task.is_finished() {
            work.meter.record_unanswered(&"no answer within the grace time after the end");
            task.abort();
        }
    }
    Ok(())
}

async fn dispatch(
    options: &LoadOptions,
    arrivals: &RefCell<Arrivals>,
    work: &Work,
    beat: Beat,
    measured_from: Instant,
) -> Result<(), Error> {
    let measured_until = measured_from + options.duration;
    loop {
        beat.next().await?;
        let now = Instant::now();
        if work.meter.phase() == Phase::WarmingUp && now >= measured_from {
            work.meter.begin()?;
        }
        let mut arrivals = arrivals.borrow_mut();
        if now >= measured_until {
            // What became due since the last beat is left out altogether: nobody had a chance to send it.
            arrivals.over = true;
            arrivals.resting.drain(..).for_each(Waker::wake);
            return work.meter.end();
        }
        let due = arrivals.schedule.handle_time(now);
        let woken = due.min(arrivals.resting.len());
        arrivals.resting.drain(..woken).for_each(Waker::wake);
    }
}

/// One connection: takes the next arrival whenever it is free.
async fn answer_arrivals(connection: Connection, arrivals: Rc<RefCell<Arrivals>>, work: Rc<Work>, measured_from: Instant) {
    let mut connection = Some(connection);
    let mut response = Response::default();
    while let Some(intended) = next_arrival(&arrivals).await {
        let lateness = intended.elapsed();
        match closed::ask(&mut connection, &mut response, &work).await {
            Ok(()) => {
                work.meter.record_answer(work.expected_body.len());
                if intended >= measured_from {
                    work.meter.record_latency(intended.elapsed());
                    work.meter.record_lateness(lateness);
                }
            }
            Err(error) => {
                connection = None;
                work.meter.record_unanswered(&error);
            }
        }
    }
}

/// `None` once it is over.
async fn next_arrival(arrivals: &RefCell<Arrivals>) -> Option<Instant> {
    poll_fn(|cx| {
        let mut arrivals = arrivals.borrow_mut();
        if arrivals.over {
            return Poll::Ready(None);
        }
        if let Some(intended) = arrivals.schedule.next_request() {
            return Poll::Ready(Some(intended));
        }
        arrivals.resting.push_back(cx.waker().clone());
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
