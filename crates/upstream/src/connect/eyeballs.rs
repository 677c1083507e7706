//! Which of a server's addresses to try, in what order and when (RFC 8305, happy eyeballs): both families in turn,
//! beginning with the address that worked last, the next one when the last takes long or fails; the first connection
//! wins. The addresses are found in `control`, and what happens on the connection is in `upstream`.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tidegate_transport::rt;

/// Addresses tried for one connection. The next connection goes on with others, so a long list is worked through all
/// the same.
const ADDRESSES_MAX: usize = 8;
/// The connection attempt delay of RFC 8305 section 5, with the value that it recommends.
const NEXT_AFTER: Duration = Duration::from_millis(250);

/// Connects to one of the addresses. `turn` is the position to begin with, and is left at the one that worked. `limit`
/// is how long the caller waits; `failed` is told of every address that fails.
///
/// Fails with the last address's error, or with `None` where there is no address.
pub async fn connect<T, F: Future<Output = io::Result<T>>>(
    addresses: &[SocketAddr],
    turn: &Cell<usize>,
    limit: Duration,
    open: impl Fn(SocketAddr) -> F,
    failed: impl Fn(&io::Error),
) -> Result<T, Option<io::Error>> {
    if let [address] = addresses {
        // The usual case, and free of timers and boxes.
        return open(*address).await.inspect_err(&failed).map_err(Some);
    }
    // Half of a short limit, so that a second address has its chance at all.
    let pause = NEXT_AFTER.min(limit / 2);
    let schedule = Schedule::new(addresses, turn.get());
    let mut race = Box::new(Race { addresses, turn, pause, schedule, running: Vec::new(), clock: None, last: None });
    poll_fn(move |cx| race.poll(cx, &open, &failed)).await
}

/// Which address is tried next.
#[derive(Debug, PartialEq, Eq)]
struct Schedule {
    /// Positions, at most [`ADDRESSES_MAX`].
    order: Vec<usize>,
    /// The first position that is not in `order`, where there are more.
    beyond: Option<usize>,
    started: usize,
    /// The next one may start: nothing has, the last has failed, or it takes long.
    is_due: bool,
    /// Whether a try was started and has failed or taken long.
    is_troubled: bool,
}

impl Schedule {
    fn new(addresses: &[SocketAddr], turn: usize) -> Schedule {
        let count = addresses.len();
        let mut left: Vec<usize> = (0..count).map(|step| (turn + step) % count).collect();
        let mut order: Vec<usize> = Vec::with_capacity(count.min(ADDRESSES_MAX));
        while !left.is_empty() && order.len() < ADDRESSES_MAX {
            let is_other_family =
                |position: &usize| order.last().is_some_and(|last| addresses[*last].is_ipv6() != addresses[*position].is_ipv6());
            // Of the other family where there is one left.
            let next = left.iter().position(is_other_family).unwrap_or(0);
            order.push(left.remove(next));
        }
        Schedule { order, beyond: left.first().copied(), started: 0, is_due: true, is_troubled: false }
    }

    /// The position to start now, once.
    fn start(&mut self) -> Option<usize> {
        if !self.is_due {
            return None;
        }
        let position = *self.order.get(self.started)?;
        self.started += 1;
        self.is_due = false;
        Some(position)
    }

    /// The last one started has failed or has taken long.
    fn go_on(&mut self) {
        self.is_due = true;
        self.is_troubled = true;
    }

    fn has_more(&self) -> bool {
        self.started < self.order.len()
    }

    /// Where the next connection begins when this one came to nothing: with what was not tried. `None`: nothing speaks
    /// against the first.
    fn turn_after_loss(&self) -> Option<usize> {
        if !self.is_troubled {
            return None;
        }
        self.order.get(self.started).copied().or(self.beyond).or(self.order.get(1).copied())
    }
}

type RunningConnect<F> = (usize, Pin<Box<F>>);

struct Race<'a, F> {
    addresses: &'a [SocketAddr],
    turn: &'a Cell<usize>,
    pause: Duration,
    schedule: Schedule,
    running: Vec<RunningConnect<F>>,
    /// Since the last start.
    clock: Option<Pin<Box<dyn Future<Output = ()>>>>,
    last: Option<io::Error>,
}

impl<T, F: Future<Output = io::Result<T>>> Race<'_, F> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        open: &impl Fn(SocketAddr) -> F,
        failed: &impl Fn(&io::Error),
    ) -> Poll<Result<T, Option<io::Error>>> {
        loop {
            if let Some(position) = self.schedule.start() {
                self.running.push((position, Box::pin(open(self.addresses[position]))));
                self.clock =
                    self.schedule.has_more().then(|| Box::pin(rt::sleep(self.pause)) as Pin<Box<dyn Future<Output = ()>>>);
            }
            match self.poll_running(cx) {
                Some((position, Ok(opened))) => {
                    self.turn.set(position);
                    // Nothing was lost: the turn stays.
                    self.schedule.is_troubled = false;
                    return Poll::Ready(Ok(opened));
                }
                Some((_, Err(error))) => {
                    failed(&error);
                    self.last = Some(error);
                    self.schedule.go_on();
                    continue;
                }
                None => {}
            }
            if self.running.is_empty() && !self.schedule.has_more() {
                return Poll::Ready(Err(self.last.take()));
            }
            let is_long = self.clock.as_mut().is_some_and(|clock| clock.as_mut().poll(cx).is_ready());
            if !is_long {
                return Poll::Pending;
            }
            self.clock = None;
            self.schedule.go_on();
        }
    }

    /// The first attempt that has come to its end.
    fn poll_running(&mut self, cx: &mut Context<'_>) -> Option<(usize, io::Result<T>)> {
        for index in 0..self.running.len() {
            if let Poll::Ready(outcome) = self.running[index].1.as_mut().poll(cx) {
                let (position, _) = self.running.swap_remove(index);
                return Some((position, outcome));
            }
        }
        None
    }
}

/// Also when the caller's time is up, or nobody wants the connection any more.
impl<F> Drop for Race<'_, F> {
    fn drop(&mut self) {
        if let Some(position) = self.schedule.turn_after_loss() {
            self.turn.set(position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ADDRESSES_MAX, Schedule, connect};
    use std::cell::{Cell, RefCell};
    use std::future::pending;
    use std::io;
    use std::net::SocketAddr;
    use std::time::Duration;
    use tidegate_transport::rt;

    /// `4` and `6` are addresses of that family, each with its position as its port.
    fn addresses(families: &str) -> Vec<SocketAddr> {
        let ip = |family| if family == '4' { "192.0.2.1".parse() } else { "2001:db8::1".parse() };
        let address = |(position, family)| SocketAddr::new(ip(family).expect("an address"), position as u16);
        families.chars().enumerate().map(address).collect()
    }

    #[test]
    fn families_alternate_from_the_one_that_worked_last() {
        let check = |families: &str, turn: usize, order: &[usize], beyond: Option<usize>| {
            let schedule = Schedule::new(&addresses(families), turn);
            assert_eq!((&*schedule.order, schedule.beyond), (order, beyond), "{families} from {turn}");
        };
        check("", 3, &[], None);
        check("4", 5, &[0], None);
        check("666444", 0, &[0, 3, 1, 4, 2, 5], None);
        check("666444", 1, &[1, 3, 2, 4, 0, 5], None);
        check("666444", 4, &[4, 0, 5, 1, 3, 2], None);
        check("6664", 0, &[0, 3, 1, 2], None);
        check("4444", 2, &[2, 3, 0, 1], None);
        check("444444444444", 0, &[0, 1, 2, 3, 4, 5, 6, 7], Some(8));
        check("444444444444", 8, &[8, 9, 10, 11, 0, 1, 2, 3], Some(4));
    }

    #[test]
    fn every_address_of_a_long_list_gets_its_turn() {
        let list = addresses(&format!("{}{}", "6".repeat(30), "4".repeat(11)));
        let mut seen = vec![false; list.len()];
        let mut turn = 0;
        for _ in 0..list.len() {
            let mut schedule = Schedule::new(&list, turn);
            while let Some(position) = schedule.start() {
                seen[position] = true;
                schedule.go_on();
            }
            assert!(schedule.order.len() <= ADDRESSES_MAX);
            turn = schedule.turn_after_loss().expect("all were troubled");
        }
        assert!(seen.iter().all(|seen| *seen), "{seen:?}");
    }

    /// What an address does, by its position.
    #[derive(Clone, Copy)]
    enum Does {
        Connect,
        Refuse,
        Hang,
    }

    /// The position that won, which ones were tried, and the turn afterwards.
    fn race(families: &str, does: &[Does], turn: usize, limit: Duration) -> (Option<Result<u16, String>>, Vec<u16>, usize) {
        let (list, turn, tried) = (addresses(families), Cell::new(turn), RefCell::new(Vec::new()));
        let open = async |address: SocketAddr| {
            tried.borrow_mut().push(address.port());
            match does[address.port() as usize] {
                Does::Connect => Ok(address.port()),
                Does::Refuse => Err(io::Error::other(format!("refused by {}", address.port()))),
                Does::Hang => pending().await,
            }
        };
        let outcome = rt::run(tidegate_transport::Driver::Epoll, async {
            rt::timeout(limit, connect(&list, &turn, limit, open, |_| ())).await
        })
        .expect("a runtime");
        let outcome = outcome.map(|outcome| outcome.map_err(|error| error.map_or(String::new(), |error| error.to_string())));
        (outcome, tried.take(), turn.get())
    }

    #[test]
    fn the_first_to_connect_wins_and_is_tried_first_the_next_time() {
        use Does::{Connect, Hang, Refuse};
        let long = Duration::from_secs(30);
        assert_eq!(race("4", &[Connect], 0, long), (Some(Ok(0)), vec![0], 0));
        assert_eq!(race("4", &[Refuse], 0, long), (Some(Err("refused by 0".into())), vec![0], 0));
        assert_eq!(race("", &[], 0, long), (Some(Err(String::new())), vec![], 0));
        assert_eq!(race("66", &[Connect, Connect], 1, long), (Some(Ok(1)), vec![1], 1));
        assert_eq!(race("6644", &[Refuse, Connect, Refuse, Connect], 0, long), (Some(Ok(1)), vec![0, 2, 1], 1));
        assert_eq!(race("6644", &[Hang, Connect, Connect, Connect], 0, long), (Some(Ok(2)), vec![0, 2], 2));
        assert_eq!(race("64", &[Refuse, Refuse], 0, long), (Some(Err("refused by 1".into())), vec![0, 1], 1));
    }

    #[test]
    fn what_was_not_tried_in_time_is_tried_first_the_next_time() {
        use Does::{Connect, Hang};
        let short = Duration::from_millis(300);
        let (outcome, tried, turn) = race("444", &[Hang, Hang, Connect], 0, short);
        assert!(outcome.is_none() || outcome == Some(Ok(2)), "a slow machine gets as far as the third");
        assert!(tried.starts_with(&[0, 1]) && turn == 2, "{tried:?} {turn}");
    }
}
