//! The choice as a request meets it: tiers, weights, load, latency and keys. Shares over many workers are in
//! `tests/simulation.rs`.

use super::{Chosen, Draw, choose};
use crate::hash::{hash_bytes, mix};
use crate::maglev::Table;
use crate::server::{Candidate, HealthStatus, ServerState};
use crate::slow_start::WHOLE_SHARE;
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::{Duration, Instant};
use tidegate_model::{Balance, Template};

#[derive(Debug)]
struct Known {
    state: ServerState,
    standing: HealthStatus,
    share: u32,
}

impl Candidate for Known {
    fn state(&self) -> &ServerState {
        &self.state
    }

    fn health_status(&self, _: Instant) -> HealthStatus {
        self.standing
    }

    fn share(&self, _: Instant) -> u32 {
        self.share
    }
}

fn server(position: usize, weight: u32) -> Known {
    server_of_phase(position, weight, 0)
}

fn server_of_phase(position: usize, weight: u32, phase: u64) -> Known {
    let state = ServerState::new(weight, 0, hash_bytes(&position.to_le_bytes()), phase);
    Known { state, standing: HealthStatus::Serving, share: WHOLE_SHARE }
}

fn servers(weights: &[u32]) -> Vec<Known> {
    weights.iter().enumerate().map(|(position, weight)| server(position, *weight)).collect()
}

fn table(servers: &[Known]) -> Table {
    let taken: Vec<_> = servers.iter().map(|server| (server.state.identity_hash, server.state.weight.get())).collect();
    Table::new(&taken)
}

fn hash(load_percent_max: Option<u32>) -> Balance {
    Balance::Hash { key: Template::default(), load_percent_max }
}

fn every_balance() -> Vec<Balance> {
    vec![Balance::P2c, Balance::RoundRobin, Balance::LeastConn, Balance::Ewma, Balance::Random, hash(None), hash(Some(125))]
}

/// How often each server is chosen in `rounds` draws.
fn shares(balance: &Balance, table: Option<&Table>, servers: &[Known], rounds: u64) -> Vec<u64> {
    let now = Instant::now();
    let mut counts = vec![0; servers.len()];
    for round in 0..rounds {
        let draw = Draw { key_hash: mix(round), random: mix(round + 1_000_003), now, tried: &[] };
        counts[choose(balance, table, servers, draw).expect("a server").position] += 1;
    }
    counts
}

fn assert_shares(counts: &[u64], weights: &[u64], context: &str) {
    let (total, sum) = (weights.iter().sum::<u64>(), counts.iter().sum::<u64>());
    for (count, weight) in counts.iter().zip(weights) {
        let ideal = sum * weight / total;
        assert!(count.abs_diff(ideal) <= ideal / 20 + 1, "{context}: {counts:?} for {weights:?}");
    }
}

#[test]
fn every_balance_follows_the_weights() {
    for balance in [Balance::P2c, Balance::RoundRobin, Balance::LeastConn, Balance::Random, hash(None)] {
        let pool = servers(&[1, 2, 5]);
        assert_shares(&shares(&balance, None, &pool, 80_000), &[1, 2, 5], &format!("{balance:?}"));
        assert_shares(&shares(&balance, Some(&table(&pool)), &pool, 80_000), &[1, 2, 5], &format!("{balance:?} with a table"));
    }
}

#[test]
fn a_server_that_starts_slowly_gets_its_share() {
    for balance in [Balance::P2c, Balance::RoundRobin, Balance::LeastConn, Balance::Random, hash(None)] {
        let mut pool = servers(&[1, 1, 1]);
        pool[1].share = 64;
        let weights = [4, 1, 4];
        assert_shares(&shares(&balance, None, &pool, 90_000), &weights, &format!("{balance:?}"));
    }
    let mut pool = servers(&[1, 1, 1]);
    let made = table(&pool);
    pool[1].share = 64;
    // A key that a slow server does not have yet goes on to any server, of which every third is that one again.
    let counts = shares(&hash(None), Some(&made), &pool, 90_000);
    assert!(counts[1] > 7_000 && counts[1] < 12_000, "{counts:?}");
}

/// From the first request on, wherever in the round a worker begins.
#[test]
fn each_round_is_exact_whatever_the_phase() {
    let now = Instant::now();
    let check = |weights: &[u32]| {
        let (round, mut begins) = (weights.iter().sum::<u32>(), std::collections::BTreeSet::new());
        for phase in 0..200 {
            let phase = mix(phase);
            let pool: Vec<_> =
                weights.iter().enumerate().map(|(position, weight)| server_of_phase(position, *weight, mix(phase))).collect();
            let mut begin = Vec::new();
            for _ in 0..3 {
                let mut counts = vec![0; weights.len()];
                for _ in 0..round {
                    let draw = Draw { key_hash: 0, random: 0, now, tried: &[] };
                    let position = choose(&Balance::RoundRobin, None, &pool, draw).expect("a server").position;
                    counts[position] += 1;
                    begin.push(position);
                }
                assert_eq!(counts, weights, "{phase}");
            }
            begin.truncate(round as usize);
            begins.insert(begin);
        }
        assert_eq!(begins.len(), round as usize, "workers begin everywhere: {weights:?}");
    };
    check(&[5, 2, 1]);
    check(&[1, 1, 1]);
    check(&[7, 3]);
    check(&[3, 3, 2, 1, 1]);
}

#[test]
fn round_robin_is_smooth() {
    let check = |weights: &[u32], expected: &[usize]| {
        let servers = servers(weights);
        let draw = Draw { key_hash: 0, random: 0, now: Instant::now(), tried: &[] };
        let order: Vec<_> = expected
            .iter()
            .filter_map(|_| choose(&Balance::RoundRobin, None, &servers, draw))
            .map(|chosen| chosen.position)
            .collect();
        assert_eq!(order, expected, "{weights:?}");
    };
    check(&[2, 1], &[0, 1, 0, 0, 1, 0]);
    check(&[1, 1, 1], &[0, 1, 2, 0, 1, 2]);
    check(&[5, 1, 1], &[0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn workers_begin_their_rounds_at_another_server_each() {
    let draw = Draw { key_hash: 0, random: 0, now: Instant::now(), tried: &[] };
    let first = |worker: u64, weights: [u32; 3]| {
        let servers: Vec<_> = (0..3)
            .map(|position| {
                let state = ServerState::new(weights[position], 0, 0, mix(worker * 3 + position as u64));
                Known { state, ..server(position, 1) }
            })
            .collect();
        choose(&Balance::RoundRobin, None, &servers, draw).expect("a server").position
    };
    let counts = |weights| {
        (0..40_000).fold([0; 3], |mut counts: [u64; 3], worker| {
            counts[first(worker, weights)] += 1;
            counts
        })
    };
    assert_shares(&counts([1, 1, 1]), &[1, 1, 1], "equal servers");
    assert_shares(&counts([1, 1, 6]), &[1, 1, 6], "a heavy one");
}

#[test]
fn load_decides_for_p2c_and_least_conn() {
    let check = |balance: &Balance, load: &[(u32, u32)], expected: &[u64]| {
        let pool = servers(&load.iter().map(|(weight, _)| *weight).collect::<Vec<_>>());
        for (server, (_, in_flight)) in pool.iter().zip(load) {
            server.state.in_flight.set(*in_flight);
        }
        assert_eq!(shares(balance, None, &pool, 100), expected, "{balance:?} {load:?}");
    };
    for balance in [Balance::P2c, Balance::LeastConn] {
        check(&balance, &[(1, 3), (1, 0)], &[0, 100]);
        check(&balance, &[(1, 0), (1, 1)], &[100, 0]);
        check(&balance, &[(4, 20), (1, 0)], &[0, 100]);
        check(&balance, &[(4, 0), (1, 1)], &[100, 0]);
    }
    check(&Balance::LeastConn, &[(1, 3), (1, 3), (1, 2), (1, 5)], &[0, 0, 100, 0]);
}

#[test]
fn ewma_prefers_the_server_that_answers_sooner() {
    let now = Instant::now();
    let pool = servers(&[1, 1]);
    pool[0].state.latency.observe(Duration::from_millis(10), now);
    pool[1].state.latency.observe(Duration::from_millis(50), now);
    assert_eq!(shares(&Balance::Ewma, None, &pool, 100), [100, 0]);
    // Five requests there take longer than one here.
    pool[0].state.in_flight.set(5);
    assert_eq!(shares(&Balance::Ewma, None, &pool, 100), [0, 100]);
    // Nothing is known of it, so it counts as fast.
    let unknown = servers(&[1, 1]);
    unknown[0].state.latency.observe(Duration::from_millis(10), now);
    assert_eq!(shares(&Balance::Ewma, None, &unknown, 100), [0, 100]);
}

#[test]
fn a_hashed_key_moves_only_when_its_own_server_is_out() {
    let pool = servers(&[1, 1, 1, 1]);
    let made = table(&pool);
    let now = Instant::now();
    for table in [None, Some(&made)] {
        for key in 0..1000 {
            let chosen = |tried: &[usize], random| {
                let draw = Draw { key_hash: mix(key), random, now, tried };
                choose(&hash(None), table, &pool, draw).expect("a server").position
            };
            let home = chosen(&[], 0);
            assert_eq!(chosen(&[(home + 1) % 4], 1), home);
            let second = chosen(&[home], 2);
            assert_ne!(second, home);
            assert_eq!(chosen(&[home], 3), second, "always the same second");
        }
    }
}

#[test]
fn a_table_of_other_servers_does_no_harm() {
    let of_five = table(&servers(&[1; 5]));
    let pool = servers(&[1, 1]);
    let counts = shares(&hash(None), Some(&of_five), &pool, 10_000);
    assert!(counts.iter().all(|count| *count > 4000), "{counts:?}");
    let of_none = Table::new(&[]);
    assert_shares(&shares(&hash(None), Some(&of_none), &pool, 40_000), &[1, 1], "an empty table");
}

#[test]
fn a_bound_of_load_passes_hot_keys_on() {
    for with_table in [false, true] {
        let pool = servers(&[1, 1, 2]);
        let made = table(&pool);
        let draw = Draw { key_hash: 7, random: 0, now: Instant::now(), tried: &[] };
        for sent in 1..=400_u32 {
            let chosen = choose(&hash(Some(125)), with_table.then_some(&made), &pool, draw).expect("a server");
            let state = &pool[chosen.position].state;
            state.in_flight.set(state.in_flight.get() + 1);
            let bound = (f64::from(sent) * 1.25 * f64::from(state.weight.get()) / 4.0).ceil();
            assert!(f64::from(state.in_flight.get()) <= bound, "{} of {sent} at {}", state.in_flight.get(), chosen.position);
        }
        let home = choose(&hash(None), with_table.then_some(&made), &pool, draw).expect("a server");
        let most = if home.position == 2 { 250 } else { 125 };
        assert_eq!(pool[home.position].state.in_flight.get(), most, "the key's own server is used up to the bound");
    }
}

#[test]
fn tiers_are_used_in_their_order() {
    use HealthStatus::{Closed, Serving, Unhealthy, Unknown};
    /// HealthStatus, priority and whether it is local, for each server; then all of them in the order in which they are
    /// tried.
    fn check(servers: &[(HealthStatus, u8, bool)], expected: &[usize]) {
        let pool: Vec<_> = servers
            .iter()
            .enumerate()
            .map(|(position, (standing, priority, is_local))| {
                let known = Known { standing: *standing, ..server(position, 1) };
                known.state.priority.set(*priority);
                known.state.is_local.set(*is_local);
                known
            })
            .collect();
        for balance in every_balance() {
            let mut tried = Vec::new();
            let next =
                |tried: &[usize]| choose(&balance, None, &pool, Draw { key_hash: 3, random: 7, now: Instant::now(), tried });
            while let Some(Chosen { position, is_last_resort }) = next(&tried) {
                assert_eq!(is_last_resort, pool[position].standing == Unhealthy, "{balance:?} {servers:?}");
                tried.push(position);
            }
            assert_eq!(tried, expected, "{balance:?} {servers:?}");
        }
    }
    check(&[], &[]);
    check(&[(Closed, 0, true)], &[]);
    check(&[(Serving, 1, true), (Serving, 0, true)], &[1, 0]);
    check(&[(Serving, 0, false), (Serving, 0, true), (Serving, 1, true)], &[1, 0, 2]);
    check(&[(Unhealthy, 0, true), (Unknown, 0, true), (Serving, 7, false), (Closed, 0, true)], &[2, 1, 0]);
    check(&[(Unhealthy, 1, true), (Unhealthy, 0, false), (Unhealthy, 0, true)], &[2, 1, 0]);
    check(&[(Unknown, 0, false), (Unknown, 0, true), (Unhealthy, 0, true), (Unknown, 2, true)], &[1, 0, 3, 2]);
}

#[test]
fn large_pools_are_chosen_from_as_small_ones() {
    for balance in every_balance() {
        let pool: Vec<_> = (0..200)
            .map(|position| Known {
                standing: if position % 3 == 0 { HealthStatus::Serving } else { HealthStatus::Unhealthy },
                ..server(position, 1)
            })
            .collect();
        let made = table(&pool);
        let counts = shares(&balance, Some(&made), &pool, 20_000);
        for (position, count) in counts.iter().enumerate() {
            assert_eq!(*count > 0, position % 3 == 0, "{balance:?} at {position}: {count}");
        }
    }
}

fn health_status() -> impl Strategy<Value = HealthStatus> {
    prop::sample::select(vec![HealthStatus::Serving, HealthStatus::Unknown, HealthStatus::Unhealthy, HealthStatus::Closed])
}

prop_compose! {
    fn known()(
        standing in health_status(),
        weight in 0..300_u32,
        priority in 0..3_u8,
        is_local: bool,
        share in prop_oneof![Just(WHOLE_SHARE), 0..400_u32],
        in_flight in prop_oneof![0..5_u32, any::<u32>()],
        identity: u64,
        phase: u64,
        latency in prop::option::of(any::<u64>()),
    ) -> Known {
        let state = ServerState::new(weight, priority, identity, phase);
        state.is_local.set(is_local);
        state.in_flight.set(in_flight);
        if let Some(latency) = latency {
            state.latency.observe(Duration::from_nanos(latency), Instant::now());
        }
        Known { state, standing, share }
    }
}

proptest! {
    #[test]
    fn never_a_closed_or_tried_server_nor_a_worse_one_than_there_is(
        pool in prop_oneof![vec(known(), 0..6), vec(known(), 60..80)],
        tried in vec(0..8_usize, 0..4),
        draws in vec((any::<u64>(), any::<u64>()), 1..8),
    ) {
        let made = table(&pool);
        let rank = |position: usize| {
            let Known { standing, state, .. } = &pool[position];
            let is_usable = *standing != HealthStatus::Closed && !tried.contains(&position);
            is_usable.then(|| (*standing, state.priority.get(), !state.is_local.get()))
        };
        let best = (0..pool.len()).filter_map(rank).min();
        for balance in every_balance() {
            for (key_hash, random) in &draws {
                let draw = Draw { key_hash: *key_hash, random: *random, now: Instant::now(), tried: &tried };
                for table in [None, Some(&made)] {
                    let chosen = choose(&balance, table, &pool, draw);
                    prop_assert_eq!(chosen.and_then(|chosen| rank(chosen.position)), best, "{:?}", balance);
                }
            }
        }
    }

    #[test]
    fn round_robin_is_never_further_than_a_round_from_the_weights(
        weights in vec(1..20_u32, 2..6),
        phases in vec(any::<u64>(), 6),
    ) {
        let pool: Vec<_> = weights
            .iter()
            .zip(phases)
            .map(|(weight, phase)| Known { state: ServerState::new(*weight, 0, 0, phase), ..server(0, 1) })
            .collect();
        let total: u32 = weights.iter().sum();
        let draw = Draw { key_hash: 0, random: 0, now: Instant::now(), tried: &[] };
        let mut counts = vec![0_u32; weights.len()];
        for round in 1..=total * 3 {
            counts[choose(&Balance::RoundRobin, None, &pool, draw).expect("a server").position] += 1;
            for (count, weight) in counts.iter().zip(&weights) {
                let ideal = f64::from(round * weight) / f64::from(total);
                let off = (f64::from(*count) - ideal).abs();
                prop_assert!(off < weights.len() as f64, "{:?} after {}: {:?}", weights, round, counts);
            }
        }
    }
}

proptest! {
    // Each case is some 100,000 choices.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn shares_follow_any_weights(weights in vec(1..20_u32, 2..6)) {
        let expected: Vec<_> = weights.iter().map(|weight| u64::from(*weight)).collect();
        let pool = servers(&weights);
        let made = table(&pool);
        // Randomness and keys that are spread evenly over their whole range, so that nothing but the choice makes
        // shares differ.
        let draw = |round: u64| {
            Draw { key_hash: round, random: round.wrapping_mul(0x9e37_79b9), now: Instant::now(), tried: &[] }
        };
        for (balance, rounds) in [(Balance::RoundRobin, 5_000), (Balance::Random, 20_000), (hash(None), 65_537)] {
            let mut counts = vec![0; pool.len()];
            for round in 0..rounds {
                counts[choose(&balance, Some(&made), &pool, draw(round)).expect("a server").position] += 1;
            }
            assert_shares(&counts, &expected, &format!("{balance:?}"));
        }
    }
}
