//! Choosing a server of a pool. Pure: state in, position out; the caller gives randomness and the time.

use std::cell::Cell;
use std::time::{Duration, Instant};
use tidegate_model::Balance;

/// How long a server that refused a connection is left alone while others can serve.
pub const COOL_DOWN: Duration = Duration::from_secs(1);

/// What a choice depends on, for one server of one worker.
#[derive(Debug, Default)]
pub struct ServerState {
    /// 1 to 256. A change of the configuration may give it another.
    pub weight: Cell<u32>,
    pub backup: Cell<bool>,
    /// Taken out of use: it gets no request that it has not already.
    pub drained: Cell<bool>,
    /// Identity for `hash`: the same server keeps its keys whatever its position.
    pub identity_hash: u64,
    /// Requests of this worker that are with the server now.
    pub in_flight: Cell<u32>,
    /// Set when connecting failed.
    pub cooling_until: Cell<Option<Instant>>,
    /// Smooth weighted round robin: grows by the weight each round, the winner pays the total.
    credit: Cell<i64>,
}

impl ServerState {
    pub fn new(weight: u32, backup: bool, identity_hash: u64) -> ServerState {
        ServerState { weight: Cell::new(weight.max(1)), backup: Cell::new(backup), identity_hash, ..ServerState::default() }
    }

    pub fn is_cooling(&self, now: Instant) -> bool {
        self.cooling_until.get().is_some_and(|until| now < until)
    }
}

/// What the request brings to the choice.
#[derive(Debug, Clone, Copy)]
pub struct Draw<'a> {
    /// Hash of the rendered key; used by `Balance::Hash` only.
    pub key_hash: u64,
    /// Uniform random bits.
    pub random: u64,
    pub now: Instant,
    /// Positions that this request has tried already.
    pub tried: &'a [usize],
}

/// The position of the server to try, or `None` when every one was tried.
///
/// Servers that cool down are passed over while another can be used; backups serve when no other server can; when all cool down the
/// choice is made among them after all, since trying beats refusing. A drained server is never chosen.
pub fn choose<S: AsRef<ServerState>>(balance: &Balance, servers: &[S], draw: Draw<'_>) -> Option<usize> {
    let tiers: [fn(&ServerState, Instant) -> bool; 4] = [
        |server, now| !server.backup.get() && !server.is_cooling(now),
        |server, now| server.backup.get() && !server.is_cooling(now),
        |server, _| !server.backup.get(),
        |server, _| server.backup.get(),
    ];
    tiers.iter().find_map(|tier| {
        let eligible = |position: &usize| {
            let server = servers[*position].as_ref();
            !server.drained.get() && !draw.tried.contains(position) && tier(server, draw.now)
        };
        choose_among(balance, servers, draw, eligible)
    })
}

fn choose_among<S: AsRef<ServerState>>(
    balance: &Balance,
    servers: &[S],
    draw: Draw<'_>,
    eligible: impl Fn(&usize) -> bool + Copy,
) -> Option<usize> {
    let candidates = || (0..servers.len()).filter(eligible);
    let state = |position: usize| servers[position].as_ref();
    if servers.len() == 1 {
        return candidates().next();
    }
    match balance {
        // Latency is not measured yet.
        Balance::P2c | Balance::Ewma => {
            let first = weighted(candidates(), state, draw.random & 0xffff_ffff)?;
            let Some(second) = weighted(candidates().filter(|position| *position != first), state, draw.random >> 32) else {
                return Some(first);
            };
            Some(if less_loaded(state(second), state(first)) { second } else { first })
        }
        Balance::RoundRobin => {
            let total: i64 = candidates().map(|position| i64::from(state(position).weight.get())).sum();
            let mut best = None;
            for position in candidates() {
                let server = state(position);
                server.credit.set(server.credit.get() + i64::from(server.weight.get()));
                if best.is_none_or(|best: usize| server.credit.get() > state(best).credit.get()) {
                    best = Some(position);
                }
            }
            let winner = best?;
            state(winner).credit.set(state(winner).credit.get() - total);
            Some(winner)
        }
        Balance::LeastConn => {
            // The start moves with every draw, so that equally loaded servers share.
            let count = servers.len();
            let start = draw.random as usize % count;
            (0..count)
                .map(|step| (start + step) % count)
                .filter(|position| eligible(position))
                .reduce(|best, position| if less_loaded(state(position), state(best)) { position } else { best })
        }
        Balance::Random => weighted(candidates(), state, draw.random & 0xffff_ffff),
        Balance::Hash { .. } => candidates().max_by(|a, b| {
            let score = |position: usize| rendezvous_score(state(position), draw.key_hash);
            score(*a).total_cmp(&score(*b))
        }),
    }
}

/// One of the candidates by weight; `random` is uniform below 2^32.
fn weighted<'s>(
    candidates: impl Iterator<Item = usize> + Clone,
    state: impl Fn(usize) -> &'s ServerState,
    random: u64,
) -> Option<usize> {
    let total: u64 = candidates.clone().map(|position| u64::from(state(position).weight.get())).sum();
    let mut left = (random * total) >> 32;
    let mut last = None;
    for position in candidates {
        let weight = u64::from(state(position).weight.get());
        if left < weight {
            return Some(position);
        }
        left -= weight;
        last = Some(position);
    }
    last
}

/// Compares requests per weight without dividing. The one that is being chosen counts already.
fn less_loaded(a: &ServerState, b: &ServerState) -> bool {
    (u64::from(a.in_flight.get()) + 1) * u64::from(b.weight.get())
        < (u64::from(b.in_flight.get()) + 1) * u64::from(a.weight.get())
}

/// Weighted rendezvous hashing: the server with the highest score for a key gets it, so a server that leaves moves only its own keys.
fn rendezvous_score(server: &ServerState, key_hash: u64) -> f64 {
    let mixed = mix(server.identity_hash ^ mix(key_hash));
    // 53 bits make a uniform number strictly between 0 and 1.
    let uniform = ((mixed >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    f64::from(server.weight.get()) / -uniform.ln()
}

/// The finaliser of SplitMix64: every input bit reaches every output bit.
pub fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// FNV-1a, then mixed: keys are short and the result only has to spread.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let folded =
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    mix(folded)
}

impl AsRef<ServerState> for ServerState {
    fn as_ref(&self) -> &ServerState {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{COOL_DOWN, Draw, ServerState, choose, hash_bytes, mix};
    use std::time::Instant;
    use tidegate_model::{Balance, Template};

    fn servers(weights: &[u32]) -> Vec<ServerState> {
        weights
            .iter()
            .enumerate()
            .map(|(position, weight)| ServerState::new(*weight, false, hash_bytes(&[position as u8])))
            .collect()
    }

    /// How often each server is chosen in `rounds` draws.
    fn shares(balance: &Balance, servers: &[ServerState], rounds: u64) -> Vec<u64> {
        let now = Instant::now();
        let mut counts = vec![0; servers.len()];
        for round in 0..rounds {
            let draw = Draw { key_hash: mix(round), random: mix(round + 1_000_003), now, tried: &[] };
            counts[choose(balance, servers, draw).expect("a server")] += 1;
        }
        counts
    }

    fn hash() -> Balance {
        Balance::Hash { key: Template::default(), load_percent_max: None }
    }

    #[test]
    fn every_balance_follows_the_weights() {
        for balance in [Balance::RoundRobin, Balance::Random, hash()] {
            let counts = shares(&balance, &servers(&[1, 2, 5]), 80_000);
            for (count, ideal) in counts.iter().zip([10_000_u64, 20_000, 50_000]) {
                assert!(count.abs_diff(ideal) < ideal / 20, "{balance:?}: {counts:?}");
            }
        }
    }

    #[test]
    fn round_robin_is_smooth() {
        let servers = servers(&[2, 1]);
        let draw = Draw { key_hash: 0, random: 0, now: Instant::now(), tried: &[] };
        let order: Vec<_> = (0..6).filter_map(|_| choose(&Balance::RoundRobin, &servers, draw)).collect();
        assert_eq!(order, [0, 1, 0, 0, 1, 0]);
    }

    #[test]
    fn load_decides_for_p2c_and_least_conn() {
        for balance in [Balance::P2c, Balance::LeastConn] {
            let servers = servers(&[1, 1]);
            servers[0].in_flight.set(3);
            assert_eq!(shares(&balance, &servers, 100), [0, 100], "{balance:?}");
            let weighted = [ServerState::new(4, false, 1), ServerState::new(1, false, 2)];
            weighted[0].in_flight.set(2);
            weighted[1].in_flight.set(1);
            assert_eq!(shares(&balance, &weighted, 100), [100, 0], "{balance:?}");
        }
    }

    #[test]
    fn a_hashed_key_moves_only_when_its_own_server_leaves() {
        let all = servers(&[1, 1, 1, 1]);
        let now = Instant::now();
        for key in 0..1000 {
            let draw = |tried| Draw { key_hash: mix(key), random: 0, now, tried };
            let home = choose(&hash(), &all, draw(&[])).expect("a server");
            let gone = (home + 1) % 4;
            assert_eq!(choose(&hash(), &all, draw(&[gone])), Some(home));
        }
    }

    #[test]
    fn backups_serve_only_when_no_other_can_and_tried_servers_are_not_tried_again() {
        let now = Instant::now();
        let pool = [ServerState::new(1, false, 1), ServerState::new(1, true, 2)];
        let draw = |tried| Draw { key_hash: 0, random: 7, now, tried };
        assert_eq!(choose(&Balance::P2c, &pool, draw(&[])), Some(0));
        assert_eq!(choose(&Balance::P2c, &pool, draw(&[0])), Some(1));
        assert_eq!(choose(&Balance::P2c, &pool, draw(&[0, 1])), None);
        pool[0].cooling_until.set(Some(now + COOL_DOWN));
        assert_eq!(choose(&Balance::P2c, &pool, draw(&[])), Some(1));
        pool[1].cooling_until.set(Some(now + COOL_DOWN));
        assert_eq!(choose(&Balance::P2c, &pool, draw(&[])), Some(0));
        let later = Draw { now: now + COOL_DOWN, ..draw(&[]) };
        assert_eq!(choose(&Balance::P2c, &pool, later), Some(0));
        pool[0].drained.set(true);
        assert_eq!(choose(&Balance::P2c, &pool, later), Some(1), "a drained server gets nothing");
        pool[1].drained.set(true);
        assert_eq!(choose(&Balance::P2c, &pool, later), None, "not even when all are");
    }
}
