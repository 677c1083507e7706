//! Routes of one site: which of the old ones each new one is, and which changed places. A route has no name, so it is
//! recognised by what it takes: first those that are equal in everything, then those with equal paths and conditions,
//! then those with equal paths.

use super::sites::{BlockLine, block_lines, line_changes, with_origin};
use super::without_common_ends;
use crate::titles::route_title;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use tidegate_api::{ChangeKind, RouteChange};
use tidegate_config::writing::{self, Form};
use tidegate_model::{Filled, Route};

/// A new route and the old one that it was, by positions in the lists.
struct Pair {
    before: usize,
    after: usize,
}

/// Each list with where its texts came from.
pub fn changes((before, filled_before): (&[Route], &Filled), (after, filled): (&[Route], &Filled)) -> Vec<RouteChange> {
    let start = before.iter().zip(after).take_while(|(old, new)| old == new).count();
    let (before, after) = without_common_ends(before, after);
    let pairs = pair(before, after);
    let stays = longest_rising(&pairs.iter().map(|pair| pair.before).collect::<Vec<_>>());

    let mut is_paired_before = vec![false; before.len()];
    let mut pair_of_after: Vec<Option<(usize, bool)>> = vec![None; after.len()];
    for (pair, stays) in pairs.iter().zip(stays) {
        is_paired_before[pair.before] = true;
        pair_of_after[pair.after] = Some((pair.before, stays));
    }
    let rank = |position: usize| start + position + 1;
    let entry = |position: usize, route: &Route, filled: &Filled, change| {
        let title = route_title(route, filled);
        RouteChange { rank: rank(position), title, change, moved_from: None, lines: Vec::new() }
    };
    let removed = before.iter().enumerate().filter(|(position, _)| !is_paired_before[*position]);
    let mut changes: Vec<RouteChange> =
        removed.map(|(position, route)| entry(position, route, filled_before, ChangeKind::Removed)).collect();
    for (position, new) in after.iter().enumerate() {
        let Some((old_position, stays)) = pair_of_after[position] else {
            changes.push(entry(position, new, filled, ChangeKind::Added));
            continue;
        };
        let lines = line_changes(&lines(&before[old_position], filled_before), &lines(new, filled));
        let moved_from = (!stays).then(|| rank(old_position));
        if moved_from.is_some() || !lines.is_empty() {
            changes.push(RouteChange { moved_from, lines, ..entry(position, new, filled, ChangeKind::Changed) });
        }
    }
    changes
}

/// In the order of the new routes. Linear: each way of recognising looks at every route that is left once.
fn pair(before: &[Route], after: &[Route]) -> Vec<Pair> {
    let ways: [fn(&Route) -> String; 3] = [
        |route| format!("{route:?}"),
        |route| format!("{:?}{:?}", route.paths, route.matches),
        |route| format!("{:?}", route.paths),
    ];
    let mut left_before: Vec<usize> = (0..before.len()).collect();
    let mut left_after: Vec<usize> = (0..after.len()).collect();
    let mut pairs = Vec::new();
    for key in ways {
        let mut known: HashMap<String, VecDeque<usize>> = HashMap::new();
        for position in left_before.drain(..) {
            known.entry(key(&before[position])).or_default().push_back(position);
        }
        left_after.retain(|position| match known.get_mut(&key(&after[*position])).and_then(VecDeque::pop_front) {
            Some(before) => {
                pairs.push(Pair { before, after: *position });
                false
            }
            None => true,
        });
        left_before.extend(known.into_values().flatten());
        left_before.sort_unstable();
    }
    pairs.sort_unstable_by_key(|pair| pair.after);
    pairs
}

/// Positions in both lists of items with equal keys that did not change places with each other.
pub fn kept_in_order<'a, T, K: Hash + Eq>(before: &'a [T], after: &'a [T], key: impl Fn(&'a T) -> K) -> Vec<(usize, usize)> {
    let mut known: HashMap<K, VecDeque<usize>> = HashMap::new();
    for (position, item) in before.iter().enumerate() {
        known.entry(key(item)).or_default().push_back(position);
    }
    let in_both = |(new, item)| Some((known.get_mut(&key(item))?.pop_front()?, new));
    let pairs: Vec<(usize, usize)> = after.iter().enumerate().filter_map(in_both).collect();
    let stays = longest_rising(&pairs.iter().map(|(old, _)| *old).collect::<Vec<_>>());
    pairs.into_iter().zip(stays).filter(|(_, stays)| *stays).map(|(pair, _)| pair).collect()
}

/// For each number whether it is in the longest rising subsequence: those that kept their order among each other, so
/// that as few as possible count as moved.
fn longest_rising(numbers: &[usize]) -> Vec<bool> {
    // The position of the lowest last number of a rising sequence of each length.
    let mut last_of_length: Vec<usize> = Vec::new();
    let mut predecessor = vec![None; numbers.len()];
    for (position, number) in numbers.iter().enumerate() {
        let length = last_of_length.partition_point(|last| numbers[*last] < *number);
        predecessor[position] = length.checked_sub(1).map(|shorter| last_of_length[shorter]);
        if length == last_of_length.len() {
            last_of_length.push(position);
        } else {
            last_of_length[length] = position;
        }
    }
    let mut rises = vec![false; numbers.len()];
    let mut at = last_of_length.last().copied();
    while let Some(position) = at {
        rises[position] = true;
        at = predecessor[position];
    }
    rises
}

/// What stands in the block of a route.
fn lines(route: &Route, filled: &Filled) -> Vec<BlockLine> {
    let form = Form::Shown(filled);
    let Route { name, origin, paths: _, matches, options, steps, terminal } = route;
    let mut lines: Vec<BlockLine> = name.iter().map(|name| BlockLine::new(name, format!("name={name:?}"))).collect();
    let matches = matches.iter().map(|line| BlockLine::new(line, writing::match_line(line, form)));
    lines.extend(matches);
    lines.extend(block_lines(options, steps, filled));
    lines.push(BlockLine::new(terminal, writing::terminal(terminal, form)));
    with_origin(origin.as_deref(), lines, filled)
}

#[cfg(test)]
mod tests {
    use super::longest_rising;

    #[test]
    fn as_few_as_possible_count_as_moved() {
        let check = |numbers: &[usize], expected_moved: &[usize]| {
            let rises = longest_rising(numbers);
            let moved: Vec<usize> = numbers.iter().zip(rises).filter(|(_, rises)| !rises).map(|(number, _)| *number).collect();
            assert_eq!(moved, expected_moved, "in {numbers:?}");
        };
        check(&[], &[]);
        check(&[0, 1, 2], &[]);
        check(&[3, 0, 1, 2], &[3]);
        check(&[1, 2, 3, 0], &[0]);
        check(&[0, 5, 1, 2, 4, 9], &[5]);
        check(&[2, 1, 0], &[2, 1]);
    }
}
