//! The table of `balance "hash"`: which server a key belongs to, in one look-up, with hardly any key moved when a
//! server comes or leaves. Built when a configuration is published. "Maglev: A Fast and Reliable Software Network Load
//! Balancer" (NSDI 2016), section 3.4, with weights.

use crate::hash::mix;
use tidegate_model::Server;

/// For up to 81 units of weight, so that one unit has a hundred slots and servers differ by less than a percent. Both
/// sizes are prime, as the method asks. There are only two, because a pool that comes to have another one moves nearly
/// all its keys, once.
const SIZE_SMALL: u32 = 8_191;
/// For all others. Of u16, so 128 KiB.
const SIZE_LARGE: u32 = 65_537;
/// What a slot needs at least for each unit of weight before the large table is taken.
const SLOTS_PER_UNIT: u64 = 100;
/// Positions are kept in 16 bits; servers beyond get no slot.
const SERVERS_MAX: usize = 1 << 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The position of the server that each slot belongs to. Empty if there is no server.
    slots: Box<[u16]>,
}

/// A server as it takes slots, in the order of its own permutation of them.
struct Claimant {
    position: u16,
    weight: u64,
    offset: u64,
    skip: u64,
    /// Slots of its permutation that it has looked at.
    looked: u64,
    /// The claimant may take a slot once the rounds times its weight have come so far.
    due: u64,
}

impl Table {
    /// Servers as (identity, weight), in the order of the pool: the table answers with positions in it. The same
    /// servers give every key the same server, whatever their order.
    pub fn new(servers: &[(u64, u32)]) -> Table {
        let weight = |weight: u32| u64::from(weight.clamp(1, Server::WEIGHT_MAX));
        let units: u64 = servers.iter().map(|(_, units)| weight(*units)).sum();
        let size = if units * SLOTS_PER_UNIT <= u64::from(SIZE_SMALL) { SIZE_SMALL } else { SIZE_LARGE };
        let claimant = |(position, (identity, units)): (usize, &(u64, u32))| Claimant {
            position: position as u16,
            weight: weight(*units),
            offset: mix(*identity) % u64::from(size),
            skip: mix(identity.wrapping_add(0x9e37_79b9_7f4a_7c15)) % (u64::from(size) - 1) + 1,
            looked: 0,
            due: 0,
        };
        let mut claimants: Vec<_> = servers.iter().enumerate().take(SERVERS_MAX).map(claimant).collect();
        // Who comes first in a round must not depend on the order in the file.
        claimants.sort_by_key(|claimant| (servers[usize::from(claimant.position)].0, claimant.position));
        Table { slots: fill(&mut claimants, size as usize) }
    }

    /// Where a key goes: at attempt 0 its own server, then others in an order that is the key's own; a server comes
    /// more than once. `None` only if the table was made of no servers.
    pub fn position(&self, key_hash: u64, attempt: u32) -> Option<usize> {
        let size = self.slots.len() as u64;
        if size == 0 {
            return None;
        }
        // Steps of a key's own, so that the keys of a server that is out go to all others and not to a neighbour. The
        // size is prime, so every step leads through all slots.
        let step = mix(key_hash) % (size - 1) + 1;
        let slot = (key_hash % size + u64::from(attempt) % size * step) % size;
        Some(usize::from(self.slots[slot as usize]))
    }
}

/// Every server takes its most wanted free slot in turn, a lighter one in fewer rounds.
fn fill(claimants: &mut [Claimant], size: usize) -> Box<[u16]> {
    let Some(weight_max) = claimants.iter().map(|claimant| claimant.weight).max() else { return Box::default() };
    let mut slots: Vec<Option<u16>> = vec![None; size];
    let mut free = size;
    let mut round = 0;
    while free > 0 {
        round += 1;
        for claimant in &mut *claimants {
            if round * claimant.weight < claimant.due + weight_max || free == 0 {
                continue;
            }
            claimant.due += weight_max;
            let slot = claimant.next_free(&slots);
            slots[slot] = Some(claimant.position);
            free -= 1;
        }
    }
    slots.into_iter().flatten().collect()
}

impl Claimant {
    /// There is one: its permutation leads through all slots.
    fn next_free(&mut self, slots: &[Option<u16>]) -> usize {
        let size = slots.len() as u64;
        loop {
            let slot = ((self.offset + self.looked % size * self.skip) % size) as usize;
            self.looked += 1;
            if slots[slot].is_none() {
                return slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SIZE_LARGE, SIZE_SMALL, Table};
    use crate::hash::mix;

    const KEYS: u64 = 50_000;

    fn servers(weights: &[u32]) -> Vec<(u64, u32)> {
        weights.iter().enumerate().map(|(position, weight)| (mix(position as u64 + 1), *weight)).collect()
    }

    fn home(table: &Table, servers: &[(u64, u32)], key: u64) -> u64 {
        servers[table.position(mix(key), 0).expect("there are servers")].0
    }

    /// The part of all keys that go elsewhere.
    fn moved(before: &[(u64, u32)], after: &[(u64, u32)]) -> f64 {
        let (table_before, table_after) = (Table::new(before), Table::new(after));
        let count = (0..KEYS).filter(|key| home(&table_before, before, *key) != home(&table_after, after, *key)).count();
        count as f64 / KEYS as f64
    }

    fn check_shares(weights: &[u32]) {
        let table = Table::new(&servers(weights));
        let total: u32 = weights.iter().sum();
        for (position, weight) in weights.iter().enumerate() {
            let slots = table.slots.iter().filter(|slot| usize::from(**slot) == position).count() as f64;
            let ideal = table.slots.len() as f64 * f64::from(*weight) / f64::from(total);
            assert!((slots - ideal).abs() <= ideal * 0.02 + 1.0, "{weights:?}: {slots} slots at {position}, ideal {ideal}");
        }
    }

    #[test]
    fn slots_follow_the_weights() {
        check_shares(&[1]);
        check_shares(&[1, 1, 1]);
        check_shares(&[1, 2, 5]);
        check_shares(&[256, 1, 1, 128]);
        check_shares(&[3; 27]);
        check_shares(&[1; 500]);
    }

    #[test]
    fn the_size_follows_the_units_of_weight() {
        assert_eq!(Table::new(&servers(&[1; 81])).slots.len(), SIZE_SMALL as usize);
        assert_eq!(Table::new(&servers(&[1; 82])).slots.len(), SIZE_LARGE as usize);
        assert_eq!(Table::new(&servers(&[256, 256])).slots.len(), SIZE_LARGE as usize);
        assert_eq!(Table::new(&[]).position(7, 0), None);
    }

    #[test]
    fn a_server_that_leaves_moves_hardly_more_than_its_own_keys() {
        for weights in [vec![1; 3], vec![1; 10], vec![1; 50], vec![1, 2, 3, 4, 5], vec![1; 300]] {
            let all = servers(&weights);
            let total: u32 = weights.iter().sum();
            for gone in [0, weights.len() / 2, weights.len() - 1] {
                let mut rest = all.clone();
                rest.remove(gone);
                let own = f64::from(weights[gone]) / f64::from(total);
                let seen = moved(&all, &rest);
                assert!(seen >= own * 0.9 && seen < own + 0.04, "{weights:?} without {gone}: {seen} moved, {own} its own");
            }
        }
    }

    #[test]
    fn the_order_of_servers_moves_no_key() {
        let all = servers(&[1, 2, 1, 5, 1]);
        let mut turned = all.clone();
        turned.reverse();
        assert!(moved(&all, &turned) <= 0.0);
    }

    #[test]
    fn the_keys_of_a_server_that_is_out_spread_over_all_others() {
        let table = Table::new(&servers(&[1; 5]));
        let mut second = [0_u64; 5];
        for key in (0..KEYS).map(mix).filter(|key| table.position(*key, 0) == Some(2)) {
            let next = (1..100).find_map(|attempt| table.position(key, attempt).filter(|position| *position != 2));
            second[next.expect("another server")] += 1;
        }
        assert_eq!(second[2], 0);
        let least = second.iter().enumerate().filter(|(position, _)| *position != 2).map(|(_, count)| *count).min();
        assert!(least.expect("four others") > KEYS / 5 / 4 * 8 / 10, "{second:?}");
    }
}
