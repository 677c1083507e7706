//! Near the memory budget a worker ends the connections that hold most, so that those who hold little are served. How
//! near it is, and what is to be freed, is found out in `pressure`.

use crate::pressure::Relief;
use crate::worker::Worker;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::Instant;
use tidegate_transport::{Sock, buffer, memory};

/// Of what the heaviest connection of all workers holds, this part makes another one heavy. A worker whose connections
/// are all light ends none for those of others.
const HEAVY_PART: u64 = 4;

/// A connection, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holder {
    /// Less is older.
    id: u64,
    bytes: u64,
}

/// Ends connections if that was asked for since the worker last did; whether it was.
#[inline]
pub fn relieve_if_asked<S: Sock>(worker: &Worker<S>) -> bool {
    let asked = worker.process.pressure.relief_since(worker.relieved.get());
    if let Some(relief) = asked {
        relieve(worker, relief);
    }
    asked.is_some()
}

#[cold]
fn relieve<S: Sock>(worker: &Worker<S>, relief: Relief) {
    worker.relieved.set(relief.round);
    // Before anybody is ended: what nobody holds is taken back first.
    buffer::free_spares();
    tidegate_coding::give_back_kept();
    let mut holders = Vec::new();
    worker.listeners.each(|listener| listener.each_held(|id, bytes| holders.push(Holder { id, bytes: bytes as u64 })));
    let heaviest = worker.process.pressure.note_heaviest(holders.iter().map(|holder| holder.bytes).max().unwrap_or(0));
    let meant = choose(&mut holders, relief.bytes, memory::taken_bytes(), heaviest);
    if meant.is_empty() {
        return;
    }
    let count = meant.len() as u64;
    worker.listeners.each(|listener| listener.end_those(|id| meant.contains(&id)));
    worker.metrics.connections_ended_for_memory.add(count);
    if let Some(suppressed) = worker.gates.accept.allow(Instant::now()) {
        tracing::warn!(
            connections = count,
            heaviest_bytes = heaviest,
            suppressed,
            "near the memory budget: the connections that hold most of it were ended; `memory` sets the budget"
        );
    }
}

/// Who is to be ended so that the worker frees its part of what is wanted, which is as large as its part of `taken`:
/// the heaviest first, and of equal ones the oldest.
fn choose(holders: &mut [Holder], wanted: u64, taken: u64, heaviest: u64) -> HashSet<u64> {
    let held: u64 = holders.iter().map(|holder| holder.bytes).sum();
    let part = u128::from(wanted) * u128::from(held) / u128::from(taken.max(held).max(1));
    holders.sort_unstable_by_key(|holder| (Reverse(holder.bytes), holder.id));
    let mut freed = 0;
    let is_heavy = |holder: &&Holder| holder.bytes.saturating_mul(HEAVY_PART) >= heaviest;
    let meant = holders.iter().take_while(is_heavy).take_while(|holder| {
        let is_wanted = freed < part;
        freed += u128::from(holder.bytes);
        is_wanted
    });
    meant.map(|holder| holder.id).collect()
}

#[cfg(test)]
mod tests {
    use super::{Holder, choose};

    #[test]
    fn who_holds_most_is_ended_and_of_equal_ones_the_oldest() {
        let check = |held: &[u64], wanted: u64, taken: u64, heaviest: u64, expected: &[u64]| {
            let mut holders: Vec<Holder> = held.iter().zip(1..).map(|(&bytes, id)| Holder { id, bytes }).collect();
            let mut meant: Vec<u64> = choose(&mut holders, wanted, taken, heaviest).into_iter().collect();
            meant.sort_unstable();
            assert_eq!(meant, expected, "{held:?} {wanted} of {taken}");
        };
        check(&[], 100, 0, 0, &[]);
        check(&[10, 50, 20], 40, 80, 50, &[2]);
        check(&[10, 50, 20], 60, 80, 50, &[2, 3]);
        check(&[20, 20, 20, 20], 40, 80, 20, &[1, 2]);
        check(&[20, 20, 20, 20], 0, 80, 20, &[]);
        // A worker frees its part of what all workers are to free.
        check(&[20, 20, 20, 20], 80, 320, 20, &[1]);
        // Whoever is light beside the heaviest of all is left alone, also when that one is another worker's.
        check(&[10, 50, 1], 61, 61, 50, &[2]);
        check(&[10, 11], 100, 1000, 4000, &[]);
        // What is counted here may be more than the process was told of.
        check(&[50, 50], 60, 10, 50, &[1, 2]);
    }
}
