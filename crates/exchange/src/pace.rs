//! How slowly a client may send the body of its request. What counts is decided by [`LeastRate`], which is given the
//! times; the rest is how a body of each version is waited for.

use crate::body_reader::BodyReader;
use std::io;
use std::time::Duration;
use tidegate_message::body::BodyFault;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};

/// A request body may be slow for so long before its rate counts.
const GRACE: Duration = Duration::from_secs(10);
/// What a client can be ahead by. A wireless network that is gone for half a minute ends no upload; without this bound
/// a quick beginning would pay for hours of silence.
const AHEAD_MAX: Duration = Duration::from_secs(60);

/// A least rate as an account of time: waiting spends it, bytes earn it at the rate, and it is never more than
/// [`AHEAD_MAX`]. It is overdrawn exactly when there is some stretch of waiting, however long, in which fewer bytes
/// came than the rate asks for beyond [`AHEAD_MAX`], or beyond [`GRACE`] for one that starts with the body. A piece
/// earns what its own bytes are worth and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LeastRate {
    bytes_per_second: u64,
    left: Duration,
}

impl LeastRate {
    fn new(bytes_per_second: u64) -> LeastRate {
        LeastRate { bytes_per_second: bytes_per_second.max(1), left: GRACE }
    }

    /// So much came after so long a wait; false when it was too late.
    fn note(&mut self, waited: Duration, bytes: u64) -> bool {
        let Some(left) = self.left.checked_sub(waited) else { return false };
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let earned = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.left = left.saturating_add(earned).min(AHEAD_MAX);
        true
    }
}

/// The least rate of a request body that is being read. Only time spent waiting for the client counts, so a slow
/// upstream is not held against it.
pub struct Pace {
    /// `None`: the body may take its time.
    rate: Option<LeastRate>,
    /// Before the first piece: a client that waits for a 100 waits for the upstream.
    first_grace: Duration,
    /// How long a body may be silent whose rate does not count.
    idle: Duration,
}

impl Pace {
    /// Of a body that is passed on as it comes. `first_grace` is what the client may wait for before it begins.
    pub fn new(rate_bytes: u64, first_grace: Duration, idle: Duration) -> Pace {
        Pace { rate: (rate_bytes > 0).then(|| LeastRate::new(rate_bytes)), first_grace, idle }
    }

    /// Of a body that is collected before it goes anywhere, whatever it calls itself: nothing streams there.
    pub fn of_collected(rate_bytes: u64, idle: Duration) -> Pace {
        Pace { rate: (rate_bytes > 0).then(|| LeastRate::new(rate_bytes)), first_grace: Duration::ZERO, idle }
    }

    /// The next piece. `is_answering`: the answer has begun, so that both sides stream, and the body may pause for as
    /// long as it likes.
    pub async fn read<S: Sock>(
        &mut self,
        body: &mut BodyReader<'_, S>,
        is_answering: impl Fn() -> bool,
    ) -> Result<Option<Buf>, BodyFault> {
        if let Some(rate) = self.rate
            && !is_answering()
        {
            let started = rt::now();
            match read_within(body, rate.left + self.first_grace).await {
                // Meanwhile the answer has begun.
                Err(BodyFault::Io(error)) if error.kind() == io::ErrorKind::TimedOut && is_answering() => {}
                Err(fault) => return Err(fault),
                Ok(piece) => {
                    let waited = if self.first_grace.is_zero() { started.elapsed() } else { Duration::ZERO };
                    self.first_grace = Duration::ZERO;
                    let bytes = piece.as_ref().map_or(0, |piece| piece.len() as u64);
                    if !self.rate.insert(rate).note(waited, bytes) && !is_answering() {
                        return Err(BodyFault::Io(io::ErrorKind::TimedOut.into()));
                    }
                    return Ok(piece);
                }
            }
        }
        self.rate = None;
        if let BodyReader::H1(reader) = body {
            reader.stream.sock.set_read_limit(ReadLimit::Idle(self.idle));
        }
        body.read().await
    }
}

/// The next piece, in the time that is left for it.
pub async fn read_within<S: Sock>(body: &mut BodyReader<'_, S>, left: Duration) -> Result<Option<Buf>, BodyFault> {
    match body {
        BodyReader::H1(reader) => {
            reader.stream.sock.set_read_limit(ReadLimit::Until(rt::now() + left));
            body.read().await
        }
        BodyReader::H2(_) | BodyReader::Made(_) | BodyReader::Empty => {
            let late = || Err(BodyFault::Io(io::ErrorKind::TimedOut.into()));
            rt::timeout(left, body.read()).await.unwrap_or_else(late)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AHEAD_MAX, GRACE, LeastRate};
    use std::time::Duration;

    /// Whether a body with these arrivals (waited for so long, so many bytes) is ended, by the account.
    fn is_ended(rate: u64, arrivals: &[(Duration, u64)]) -> bool {
        let mut account = LeastRate::new(rate);
        !arrivals.iter().all(|(waited, bytes)| account.note(*waited, *bytes))
    }

    /// Whether it is by the definition: each stretch of waiting that ends with an arrival, with what came within it.
    fn has_slow_stretch(rate: u64, arrivals: &[(Duration, u64)]) -> bool {
        (0..arrivals.len()).any(|first| {
            let free = if first == 0 { GRACE } else { AHEAD_MAX };
            (first..arrivals.len()).any(|last| {
                let waited: Duration = arrivals[first..=last].iter().map(|(waited, _)| *waited).sum();
                // The bytes that end the stretch came after it.
                let bytes: u64 = arrivals[first..last].iter().map(|(_, bytes)| *bytes).sum();
                waited.saturating_sub(free).as_nanos() * u128::from(rate) > u128::from(bytes) * 1_000_000_000
            })
        })
    }

    #[test]
    fn what_a_byte_earns_is_what_it_is_worth() {
        let check = |rate: u64, times: usize, (waited, bytes): (u64, u64), expected: bool| {
            let arrivals = vec![(Duration::from_millis(waited), bytes); times];
            assert_eq!(is_ended(rate, &arrivals), expected, "{bytes} bytes after {waited} ms, {times} times, of {rate} a second");
        };
        check(100, 1000, (9_000, 1), true);
        check(100, 2, (9_000, 1), true);
        check(100, 1, (9_000, 1), false);
        check(100, 1, (10_001, 1_000_000), true);
        check(100, 10_000, (1_000, 100), false);
        check(100, 10_000, (1_000, 99), true);
        check(100, 500, (1_000, 99), false);
        check(100, 10_000, (9_000, 900), false);
        check(1, 1000, (900, 1), false);
        check(u64::MAX, 1000, (9, 1), false);
        check(0, 1000, (1_000, 1), false);
    }

    #[test]
    fn a_quick_beginning_pays_for_a_minute() {
        let check = |silence: u64, expected: bool| {
            let arrivals = [(Duration::ZERO, 1 << 40), (Duration::from_secs(silence), 1)];
            assert_eq!(is_ended(100, &arrivals), expected, "{silence} s");
        };
        check(59, false);
        check(60, false);
        check(61, true);
        check(1 << 40, true);
    }

    /// Rates that divide a second, so that no rounding comes between the two.
    #[test]
    fn a_body_is_ended_exactly_when_some_stretch_of_it_is_too_slow() {
        bolero::check!().with_type::<(u8, Vec<(u16, u16)>)>().for_each(|(rate, arrivals)| {
            let rate = [1, 10, 100, 1_000][usize::from(*rate) % 4];
            let arrivals: Vec<_> =
                arrivals.iter().map(|(waited, bytes)| (Duration::from_millis(u64::from(*waited)), u64::from(*bytes))).collect();
            assert_eq!(is_ended(rate, &arrivals), has_slow_stretch(rate, &arrivals), "{rate} a second: {arrivals:?}");
        });
    }

    #[test]
    fn a_body_that_keeps_its_rate_is_never_ended() {
        bolero::check!().with_type::<(u16, Vec<u16>)>().for_each(|(rate, waits)| {
            let rate = u64::from(*rate).max(1);
            let keeps = |waited: &u16| {
                let waited = u64::from(*waited) % 10_000;
                (Duration::from_millis(waited), (waited * rate).div_ceil(1_000))
            };
            let arrivals: Vec<_> = waits.iter().map(keeps).collect();
            assert!(!is_ended(rate, &arrivals), "{rate} a second: {arrivals:?}");
        });
    }
}
