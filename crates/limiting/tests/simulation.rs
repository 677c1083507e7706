//! Honest clients and an attacker with very many addresses, over hours of simulated time, and several threads at one
//! table. Nothing here waits, so no machine is too slow for it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tidegate_limiting::{Quota, Rates, Taken};

/// A stand-in for hashes with a secret.
fn hashed(number: u64) -> u64 {
    let mixed = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (mixed >> 32)
}

fn is_let(rates: &Rates, number: u64, quota: &Quota, now: Duration) -> bool {
    matches!(rates.take(hashed(number), quota, 1, now), Taken::Yes(_))
}

const KEYS_MAX: u32 = 4_096;
const HONEST: u64 = 500;

/// 10 a minute each; honest clients send one each 10 s, the attacker as much as it likes from a million addresses in
/// turn.
fn attacked(per_second: u64, seconds: u64) -> (u64, u64, usize) {
    let quota = Quota::new(10, Duration::from_secs(60), 10);
    let rates = Rates::new(KEYS_MAX);
    let (mut honest_refused, mut attack_let, mut address) = (0, 0, 0);
    for second in 0..seconds {
        let now = Duration::from_secs(100 + second);
        for client in (0..HONEST).filter(|client| client % 10 == second % 10) {
            honest_refused += u64::from(!is_let(&rates, client, &quota, now));
        }
        // The attack begins when the others are known.
        for _ in 0..if second < 60 { 0 } else { per_second } {
            address = (address + 1) % 1_000_000;
            attack_let += u64::from(is_let(&rates, HONEST + address, &quota, now));
        }
    }
    (honest_refused, attack_let, rates.bytes())
}

#[test]
fn nobody_is_refused_for_the_addresses_of_an_attacker_while_there_is_room() {
    // 300 a second are 1,800 keys in use: each is forgotten after 6 s.
    let (honest_refused, attack_let, bytes) = attacked(300, 600);
    assert_eq!((honest_refused, attack_let), (0, 300 * 540));
    assert!(bytes <= KEYS_MAX as usize * 32, "{bytes}");
}

#[test]
fn an_attacker_gets_no_more_than_the_table_has_slots_for() {
    let seconds = 600;
    let (honest_refused, attack_let, bytes) = attacked(20_000, seconds);
    let slots = u64::from(KEYS_MAX) * 2;
    // Each slot is worth one limit: a burst, and 10 a minute.
    let most = slots * (10 + (seconds - 60) / 6 + 1);
    assert!(attack_let <= most, "{attack_let} of at most {most}");
    assert!(attack_let < 20_000 * (seconds - 60) / 10, "nine of ten are refused: {attack_let}");
    assert_eq!(bytes, slots as usize * 16);
    // Light clients are among those that are pushed out, and begin anew with what is missing in their group; still they
    // fare better than the attacker.
    let share = |refused: u64, all: u64| refused as f64 / all as f64;
    let (honest, attack) = (HONEST * (seconds - 60) / 10, 20_000 * (seconds - 60));
    assert!(share(honest_refused, honest) < 0.8 * share(attack - attack_let, attack), "{honest_refused} of {honest}");
}

#[test]
fn threads_share_one_limit() {
    let (rates, quota) = (Rates::new(1_000), Quota::new(1_000, Duration::from_secs(3_600), 1_000));
    let counts: Vec<AtomicU32> = (0..3).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for request in 0..3_000 {
                    let client = request % 3;
                    if is_let(&rates, client, &quota, Duration::from_secs(1)) {
                        counts[client as usize].fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1_000), "{counts:?}");
}
