//! Rows that are networks: the most specific one that has an address, and those around it. Networks lie within one
//! another or apart, so they become ranges side by side, each with the row that decides it; every row knows the next
//! one around it. A range is found by way of every sixteenth start, and every sixteenth of these, and so on: one line
//! of the processor's cache a step. Among a million it takes two thirds of the time of a binary search (`look_up`, an
//! example of this crate).

use ipnet::IpNet;
use std::net::IpAddr;

/// Nothing.
const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct Networks {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
}

/// Where a row begins in the text of all, and how long its prefix is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NetworkRow {
    pub offset: u32,
    pub prefix_length: u8,
    /// The row around it.
    parent: u32,
}

#[derive(Debug)]
struct Ranges<A> {
    starts: Box<[A]>,
    /// Every [`STEP`]th of the starts, then every `STEP`th of those, until there are no more than that.
    steps: Vec<Box<[A]>>,
    /// By range, the row that decides it; one without an offset where none does.
    deciding: Box<[NetworkRow]>,
    rows: Box<[NetworkRow]>,
}

/// Starts of IPv4 in a line of the cache.
const STEP: usize = 16;

impl<A> Default for Ranges<A> {
    fn default() -> Self {
        Ranges { starts: Box::default(), steps: Vec::new(), deciding: Box::default(), rows: Box::default() }
    }
}

impl Networks {
    /// No two of one network.
    pub fn new(rows: &[(IpNet, u32)]) -> Networks {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (network, offset) in rows {
            match network {
                IpNet::V4(net) => {
                    v4.push((u32::from(net.network()), u32::from(net.broadcast()), net.prefix_len(), *offset));
                }
                IpNet::V6(net) => {
                    v6.push((u128::from(net.network()), u128::from(net.broadcast()), net.prefix_len(), *offset));
                }
            }
        }
        let (after4, after6) = (|end: u32| end.checked_add(1), |end: u128| end.checked_add(1));
        Networks { v4: Ranges::new(v4, after4), v6: Ranges::new(v6, after6) }
    }

    pub fn is_empty(&self) -> bool {
        self.v4.rows.is_empty() && self.v6.rows.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes()
    }

    /// The rows that have the address, the most specific first.
    pub fn of(&self, address: IpAddr) -> impl Iterator<Item = NetworkRow> {
        let (rows, first) = match address {
            IpAddr::V4(address) => (&self.v4.rows, self.v4.find(u32::from(address))),
            IpAddr::V6(address) => (&self.v6.rows, self.v6.find(u128::from(address))),
        };
        std::iter::successors(first, |row| rows.get(row.parent as usize).copied())
    }
}

impl<A: Copy + Ord> Ranges<A> {
    fn new(mut networks: Vec<(A, A, u8, u32)>, after: impl Fn(A) -> Option<A>) -> Ranges<A> {
        networks.sort_unstable_by_key(|(start, _, length, _)| (*start, *length));
        let (mut starts, mut decided): (Vec<A>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut rows: Vec<NetworkRow> = Vec::with_capacity(networks.len());
        // Of the networks around the place that has been reached, by the ends of their ranges, the innermost last.
        let mut open: Vec<(A, u32)> = Vec::new();
        let mut begin = |start: A, row: u32| {
            if starts.last() == Some(&start) {
                starts.pop();
                decided.pop();
            }
            if decided.last() != Some(&row) {
                starts.push(start);
                decided.push(row);
            }
        };
        for (start, end, prefix_length, offset) in networks {
            while let Some((ended, _)) = open.pop_if(|(ended, _)| *ended < start) {
                if let Some(next) = after(ended) {
                    begin(next, open.last().map_or(NONE, |(_, row)| *row));
                }
            }
            let row = rows.len() as u32;
            rows.push(NetworkRow { offset, prefix_length, parent: open.last().map_or(NONE, |(_, row)| *row) });
            begin(start, row);
            open.push((end, row));
        }
        while let Some((ended, _)) = open.pop() {
            if let Some(next) = after(ended) {
                begin(next, open.last().map_or(NONE, |(_, row)| *row));
            }
        }
        let outside = NetworkRow { offset: NONE, prefix_length: 0, parent: NONE };
        let deciding = decided.iter().map(|row| rows.get(*row as usize).copied().unwrap_or(outside)).collect();
        Ranges { steps: steps_of(&starts), starts: starts.into(), deciding, rows: rows.into() }
    }

    fn find(&self, address: A) -> Option<NetworkRow> {
        let begun = |starts: &[A]| starts.iter().filter(|start| **start <= address).count();
        let mut range = 0;
        for level in self.steps.iter().rev().chain([&self.starts]) {
            // Of those before the sixteen all have begun, of those behind them none has.
            let here = &level[range * STEP..level.len().min((range + 1) * STEP)];
            range = (range * STEP + begun(here)).checked_sub(1)?;
        }
        Some(self.deciding[range]).filter(|row| row.offset != NONE)
    }

    fn bytes(&self) -> usize {
        let steps: usize = self.steps.iter().map(|step| size_of_val(&**step)).sum();
        size_of_val(&*self.starts) + steps + size_of_val(&*self.deciding) + size_of_val(&*self.rows)
    }
}

/// The lowest level first.
fn steps_of<A: Copy>(starts: &[A]) -> Vec<Box<[A]>> {
    let mut steps: Vec<Box<[A]>> = Vec::new();
    loop {
        let below = steps.last().map_or(starts, |step| step);
        if below.len() <= STEP {
            return steps;
        }
        let step = below.iter().step_by(STEP).copied().collect();
        steps.push(step);
    }
}
