//! Choosing a server of a pool: first the tier of servers that are the best to be had, then one of the tier by
//! `Balance`. Pure: the caller gives state, randomness and the time, counts what is in flight, and says where servers
//! stand. Hashing is in `maglev`.

use crate::hash::{fraction, mix, rendezvous_score};
use crate::maglev;
use crate::server::{Candidate, HealthStatus, weight_now};
use crate::slow_start::WHOLE_SHARE;
use std::time::Instant;
use tidegate_model::Balance;

/// Slots of a table that a key looks at before its server is found by scores: where one server in ten can be used, one
/// key in a thousand.
const WALK_MAX: u32 = 64;
/// Looks at servers that a worker's first round robin may take to get to where it begins: some tens of microseconds,
/// once. In large pools workers begin in a part of the round.
const BEGIN_STEPS_MAX: u64 = 1 << 14;
/// Servers of a tier that are remembered by a bit; those behind are judged again where they are met.
const REMEMBERED_MAX: usize = u64::BITS as usize;

/// What the request brings to the choice.
#[derive(Debug, Clone, Copy)]
pub struct Draw<'a> {
    /// Hash of the rendered key, as of `hash_bytes`; used by `Balance::Hash` only.
    pub key_hash: u64,
    /// Uniform random bits.
    pub random: u64,
    pub now: Instant,
    /// Positions that this request has tried already.
    pub tried: &'a [usize],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    pub position: usize,
    /// The server is believed to be down; every better one was tried, or there is none.
    pub is_last_resort: bool,
}

/// The server to try, or `None` when every one was tried or is closed.
///
/// Serving servers come first, by rising priority, and within a priority those of this zone. Then those not asked yet,
/// and then even those that are down, since trying beats refusing. A closed server and one that was tried is never
/// chosen. `table` is used by `Balance::Hash`; without one, or when servers came or left since it was made, a key keeps
/// its server by weighted rendezvous.
pub fn choose<C: Candidate>(balance: &Balance, table: Option<&maglev::Table>, servers: &[C], draw: Draw<'_>) -> Option<Chosen> {
    let tier = Tier::best(servers, draw)?;
    let position = if tier.count == 1 {
        tier.first
    } else {
        match balance {
            Balance::P2c => tier.by_load(),
            Balance::RoundRobin => tier.by_turn(),
            Balance::LeastConn => tier.by_least_load(),
            Balance::Ewma => tier.by_expected_time(),
            Balance::Random => tier.by_weight(None, low(draw.random)),
            Balance::Hash { key: _, load_percent_max } => tier.by_hash(table, *load_percent_max),
        }
        // Standings are shared with other threads and may have changed between two looks.
        .unwrap_or(tier.first)
    };
    Some(Chosen { position, is_last_resort: tier.rank.standing == HealthStatus::Unhealthy })
}

/// The order of tiers is that of the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    standing: HealthStatus,
    priority: u8,
    is_elsewhere: bool,
}

/// The servers that are equally good to choose from.
struct Tier<'a, C> {
    servers: &'a [C],
    draw: Draw<'a>,
    rank: Rank,
    /// Which of the first [`REMEMBERED_MAX`] servers belong to it.
    members: u64,
    first: usize,
    count: usize,
    weight: u64,
    /// All servers belong to it and have the same weight, as most pools are.
    is_even: bool,
}

impl<'a, C: Candidate> Tier<'a, C> {
    fn best(servers: &'a [C], draw: Draw<'a>) -> Option<Tier<'a, C>> {
        let rank = Rank { standing: HealthStatus::Closed, priority: u8::MAX, is_elsewhere: true };
        let mut tier = Tier { servers, draw, rank, members: 0, first: 0, count: 0, weight: 0, is_even: true };
        for position in 0..servers.len() {
            let Some(rank) = tier.rank_of(position) else { continue };
            if tier.count == 0 || rank < tier.rank {
                (tier.rank, tier.members, tier.first, tier.count, tier.weight) = (rank, 0, position, 0, 0);
                tier.is_even = true;
            }
            if rank == tier.rank {
                if position < REMEMBERED_MAX {
                    tier.members |= 1 << position;
                }
                let weight = tier.weight_of(position);
                tier.count += 1;
                tier.weight += weight;
                tier.is_even &= tier.weight == weight * tier.count as u64;
            }
        }
        tier.is_even &= tier.count == servers.len();
        (tier.count > 0).then_some(tier)
    }

    /// `None` if it must not be chosen at all.
    fn rank_of(&self, position: usize) -> Option<Rank> {
        if self.draw.tried.contains(&position) {
            return None;
        }
        let server = &self.servers[position];
        let standing = server.health_status(self.draw.now);
        let state = server.state();
        let rank = Rank { standing, priority: state.priority.get(), is_elsewhere: !state.is_local.get() };
        (standing != HealthStatus::Closed).then_some(rank)
    }

    fn contains(&self, position: usize) -> bool {
        if position < REMEMBERED_MAX {
            self.members & (1 << position) != 0
        } else {
            position < self.servers.len() && self.rank_of(position) == Some(self.rank)
        }
    }

    fn positions(&self) -> impl Iterator<Item = usize> {
        (0..self.servers.len()).filter(|position| self.contains(*position))
    }

    fn weight_of(&self, position: usize) -> u64 {
        weight_now(&self.servers[position], self.draw.now)
    }

    fn in_flight(&self, position: usize) -> u32 {
        self.servers[position].state().in_flight.get()
    }

    /// A server of the tier, by weight; `random` is uniform below 2^32.
    fn by_weight(&self, without: Option<usize>, random: u64) -> Option<usize> {
        let total = self.weight.saturating_sub(without.map_or(0, |position| self.weight_of(position)));
        let mut left = ((u128::from(random) * u128::from(total)) >> 32) as u64;
        let mut last = None;
        for position in self.positions().filter(|position| Some(*position) != without) {
            let weight = self.weight_of(position);
            if left < weight {
                return Some(position);
            }
            left -= weight;
            last = Some(position);
        }
        last
    }

    /// The first of two that are drawn, unless the second would relieve it.
    fn by_load(&self) -> Option<usize> {
        self.by_two_choices(|second, first| {
            // How often a server is drawn first and the other second grows with the first one's part in all but itself.
            let others = |weight: u64| self.weight.saturating_sub(weight).max(1) as f64;
            self.relieves(second, first, |weight_second, weight_first| others(weight_second) / others(weight_first))
        })
    }

    fn by_expected_time(&self) -> Option<usize> {
        self.by_two_choices(|second, first| self.expected_seconds(second) < self.expected_seconds(first))
    }

    fn by_two_choices(&self, is_better: impl Fn(usize, usize) -> bool) -> Option<usize> {
        let (first, second) = if self.is_even {
            self.two_alike()
        } else {
            let first = self.by_weight(None, low(self.draw.random))?;
            (first, self.by_weight(Some(first), self.draw.random >> 32)?)
        };
        Some(if is_better(second, first) { second } else { first })
    }

    /// Two different servers of those that are all alike: the same draw without looking at each.
    fn two_alike(&self) -> (usize, usize) {
        let part = |random: u64, count: usize| ((random * count as u64) >> 32) as usize;
        let first = part(low(self.draw.random), self.count);
        let second = part(self.draw.random >> 32, self.count - 1);
        (first, second + usize::from(second >= first))
    }

    /// Whether a request that would go to `first` does better at `second`, which has fewer for its weight.
    ///
    /// A worker has few requests in flight at a server, most often none or one. Comparing (requests + 1) / weight would
    /// then always take the heavier of two idle servers, and comparing requests / weight would turn to the lighter one
    /// whenever the heavier has anything to do. So `second` has to be better by a random part of what one request is to
    /// the lighter of the two: then about as many requests move from the heavy to the light one as back, and shares
    /// stay those of the weights however little there is to do. `excess` is how much more often the question is put
    /// with a heavy first than with a light one, from the weights of `second` and `first`; the margin makes up for it.
    fn relieves(&self, second: usize, first: usize, excess: impl Fn(u64, u64) -> f64) -> bool {
        let (weight_second, weight_first) = (self.weight_of(second), self.weight_of(first));
        let (requests_second, requests_first) = (self.in_flight(second), self.in_flight(first));
        if weight_second == weight_first || requests_first == 0 {
            return requests_second < requests_first;
        }
        let load = |requests: u32, weight: u64| f64::from(requests) / weight as f64;
        let part = fraction(mix(self.draw.random ^ second as u64));
        let margin = part * excess(weight_second, weight_first).max(1.0) / weight_second.min(weight_first) as f64;
        load(requests_second, weight_second) + margin <= load(requests_first, weight_first)
    }

    /// How long a request that joins those at the server is expected to take, for its weight.
    fn expected_seconds(&self, position: usize) -> f64 {
        let seconds = self.servers[position].state().latency.now(self.draw.now);
        seconds * (f64::from(self.in_flight(position)) + 1.0) / self.weight_of(position) as f64
    }

    /// A worker begins somewhere in the round, or all that begin together would take the servers in step. It gets there
    /// by taking turns: after random credits instead, the first rounds gave a server a turn too many or too few.
    fn by_turn(&self) -> Option<usize> {
        let first = self.servers[self.first].state();
        if !first.has_had_turns() {
            let turns = self.turns_of_round().min(BEGIN_STEPS_MAX / self.servers.len() as u64 + 1);
            for _ in 0..first.first_turn(turns) {
                self.take_turn();
            }
        }
        self.take_turn()
    }

    /// After so many turns all stand where they stood.
    fn turns_of_round(&self) -> u64 {
        let divisor = self.positions().map(|position| self.weight_of(position)).fold(0, greatest_common_divisor);
        self.weight / divisor.max(1)
    }

    /// Smooth weighted round robin, as nginx does it: a heavy server's turns are spread over the round.
    fn take_turn(&self) -> Option<usize> {
        let earned = self.positions().map(|position| {
            let credit = self.servers[position].state().earn(self.weight_of(position), self.weight);
            (position, credit)
        });
        let (winner, _) = earned.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        self.servers[winner].state().pay(self.weight);
        Some(winner)
    }

    /// A server by weight, then in turn each that would relieve the one before: with equal weights, one with the fewest
    /// requests.
    fn by_least_load(&self) -> Option<usize> {
        let first = self.by_weight(None, low(self.draw.random))?;
        // The order begins anywhere and goes either way, so that no server comes behind a busy one more often than
        // others.
        let count = self.servers.len();
        let start = (self.draw.random >> 32) as usize % count;
        let is_forward = mix(self.draw.random) & 1 == 0;
        let position = |step: usize| (start + if is_forward { step } else { count - step }) % count;
        let order = (0..count).map(position).filter(|position| self.contains(*position));
        // A heavy server is first as often as its weight says and then meets all others. With two servers the excess is
        // the relation of their weights; with more, the exponent is the one that simulation shows to give shares by
        // weight.
        let exponent = 2.0 - 2.0 / self.count as f64;
        let excess = |weight_next: u64, weight_best: u64| (weight_best as f64 / weight_next as f64).powf(exponent);
        Some(order.fold(first, |best, next| if self.relieves(next, best, excess) { next } else { best }))
    }

    fn by_hash(&self, table: Option<&maglev::Table>, load_percent_max: Option<u32>) -> Option<usize> {
        let bound = load_percent_max.map(|percent| {
            let requests = self.positions().map(|position| u64::from(self.in_flight(position))).sum::<u64>() + 1;
            u128::from(requests) * u128::from(percent)
        });
        // A server may have its part, by weight, of `percent` of all requests in flight, this one among them, rounded
        // up.
        let has_room = |position: usize| {
            let part = |bound: u128| {
                u128::from(self.in_flight(position)) * 100 * u128::from(self.weight)
                    < bound * u128::from(self.weight_of(position))
            };
            bound.is_none_or(part)
        };
        let walk = |table: &maglev::Table| {
            (0..WALK_MAX)
                .map_while(|attempt| table.position(self.draw.key_hash, attempt))
                .find(|position| self.contains(*position) && self.has_key(*position) && has_room(*position))
        };
        let by_score = |is_allowed: &dyn Fn(usize) -> bool| {
            let scored =
                self.positions().filter(|position| is_allowed(*position)).map(|position| (position, self.score(position)));
            scored.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(position, _)| position)
        };
        table.and_then(walk).or_else(|| by_score(&has_room)).or_else(|| by_score(&|_| true))
    }

    /// While a server starts slowly, a part of its keys is its own already, always the same ones.
    fn has_key(&self, position: usize) -> bool {
        let server = &self.servers[position];
        let drawn = mix(server.state().identity_hash ^ self.draw.key_hash) % u64::from(WHOLE_SHARE);
        drawn < u64::from(server.share(self.draw.now))
    }

    fn score(&self, position: usize) -> f64 {
        rendezvous_score(self.servers[position].state().identity_hash, self.weight_of(position), self.draw.key_hash)
    }
}

fn greatest_common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

fn low(random: u64) -> u64 {
    random & 0xffff_ffff
}

#[cfg(test)]
mod tests;
