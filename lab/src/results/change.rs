//! How the cases of the experiment `change` are named: `10,000 sites | start`, `1 site | during changes, open`. Pure.

/// From the start of a process to its first right answer.
pub const START: &str = "start";
/// One change at a time, without a load.
pub const CHANGE: &str = "change";
/// A moderate load, and nothing else. It is offered at a rate, which `open` says.
pub const CALM: &str = "calm, open";
/// The same load while one change follows the other.
pub const CHANGING: &str = "during changes, open";

/// Behind the number of sites.
pub fn part_of(case: &str) -> &str {
    case.split_once('|').map_or("", |(_, part)| part.trim())
}
