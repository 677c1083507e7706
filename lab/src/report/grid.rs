//! The cells of an experiment as rows of cases and columns of participants. Pure.
//! What stands in a cell is the layouts' business.

use crate::results::{Cell, ExperimentRecord, Flavour, Outcome, PeerRecord, PeerState, Placement, Report};

/// What stands where a peer could not be had, and nowhere else.
const ABSENT: &str = "absent";
/// What stands where this machine forbids what the column is about, as rings of io_uring.
const FORBIDDEN: &str = "forbidden";
/// What stands where there is nothing to measure: no such codec or level, a floor that does not take the case.
pub const NOTHING: &str = "–";

/// Cells of one flavour. The floor belongs to each.
pub struct Grid<'a> {
    /// The lab's peers in its order, those that could not be had as well, then variants and the floor as they came.
    pub participants: Vec<&'a str>,
    /// With the word for why.
    absent: Vec<(&'a str, &'static str)>,
    pub rows: Vec<Row<'a>>,
    cells: Vec<&'a Cell>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row<'a> {
    pub case: &'a str,
    pub placement: Placement,
    /// `None` where nobody was measured with several.
    pub threads: Option<usize>,
    /// The case, with what else tells it from other rows.
    pub label: String,
}

impl<'a> Grid<'a> {
    pub fn of(report: &'a Report, cells: impl IntoIterator<Item = &'a Cell>) -> Grid<'a> {
        let cells: Vec<&Cell> = cells.into_iter().collect();
        let by_placement = cells.iter().any(|cell| cell.placement != cells[0].placement);
        let by_threads = cells.iter().any(|cell| cells.iter().any(|other| same_but_threads(cell, other)));
        let mut rows: Vec<Row> = Vec::new();
        for cell in &cells {
            let threads = by_threads.then_some(cell.threads);
            let letter = if by_placement { format!(" {}", cell.placement.letter()) } else { String::new() };
            let count = match threads {
                None => String::new(),
                Some(0) => ", threads as chosen by itself".to_owned(),
                Some(1) => ", 1 thread".to_owned(),
                Some(several) => format!(", {several} threads"),
            };
            let label = format!("{}{letter}{count}", cell.case);
            let row = Row { case: &cell.case, placement: cell.placement, threads, label };
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        let absent = absent(report, &cells);
        Grid { participants: participants(report, &cells, &absent), absent, rows, cells }
    }

    pub fn cell(&self, row: &Row, participant: &str) -> Option<&'a Cell> {
        self.cells.iter().copied().find(|cell| {
            cell.participant == participant
                && cell.case == row.case
                && cell.placement == row.placement
                && row.threads.is_none_or(|threads| threads == cell.threads)
        })
    }

    /// The cell, or the word for why there is none: an absent peer is called so and nobody else is.
    pub fn find(&self, row: &Row, participant: &str) -> Result<&'a Cell, &'static str> {
        self.cell(row, participant).ok_or(self.why_absent(participant).unwrap_or(NOTHING))
    }

    /// The word that stands in every cell of a peer that could not be had.
    pub fn why_absent(&self, participant: &str) -> Option<&'static str> {
        self.absent.iter().find(|(name, _)| *name == participant).map(|(_, word)| *word)
    }

    pub fn is_absent(&self, participant: &str) -> bool {
        self.why_absent(participant).is_some()
    }

    /// Whether something else than a rival limited it here: then nobody knows who is the best by a rate or a latency.
    pub fn is_limited(&self, row: &Row) -> bool {
        let mut cells = self.participants.iter().filter_map(|name| self.cell(row, name));
        cells.any(|cell| cell.flavour != Flavour::Floor && matches!(cell.outcome, Outcome::Limited { .. }))
    }

    pub fn cells(&self) -> &[&'a Cell] {
        &self.cells
    }
}

/// One grid for each flavour that occurs, with its name if there are several. What is only floor is one without a name.
pub fn by_flavour<'a>(report: &'a Report, experiment: &'a ExperimentRecord) -> Vec<(Option<Flavour>, Grid<'a>)> {
    let mut flavours: Vec<Flavour> =
        experiment.cells.iter().map(|cell| cell.flavour).filter(|flavour| *flavour != Flavour::Floor).collect();
    flavours.sort_unstable();
    flavours.dedup();
    if flavours.len() < 2 {
        return vec![(None, Grid::of(report, &experiment.cells))];
    }
    let grid = |flavour: Flavour| {
        // A floor belongs to a flavour where it had the same load; the rates of an open loop may be others.
        let had_the_load_of = move |floor: &Cell| {
            let mut cells = experiment.cells.iter().filter(|cell| cell.flavour == flavour);
            floor.flavour == Flavour::Floor && cells.any(|cell| cell.case == floor.case && cell.load == floor.load)
        };
        let cells = experiment.cells.iter().filter(move |cell| cell.flavour == flavour || had_the_load_of(cell));
        (Some(flavour), Grid::of(report, cells))
    };
    flavours.into_iter().map(grid).collect()
}

/// The peers that no cell is about: they must not vanish silently.
pub fn missing<'a>(report: &'a Report, cells: &[&Cell]) -> Vec<&'a str> {
    let names = report.peers.iter().map(|peer| peer.name.as_str());
    names.filter(|name| !cells.iter().any(|cell| peer_of(report, cell) == Some(*name))).collect()
}

/// `nginx` for `nginx keepalive-4`, and `tidegate io-uring` for itself: the longest name that it is or begins with.
fn peer_of<'a>(report: &'a Report, cell: &Cell) -> Option<&'a str> {
    let is_of =
        |name: &&str| cell.participant.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ',']));
    report.peers.iter().map(|peer| peer.name.as_str()).filter(is_of).max_by_key(|name| name.len())
}

/// The peers that could not be had, and so have no cell. The variants of one peer are no comparison of peers.
fn absent<'a>(report: &'a Report, cells: &[&Cell]) -> Vec<(&'a str, &'static str)> {
    if cells.iter().any(|cell| cell.flavour == Flavour::Tuned) {
        return Vec::new();
    }
    let missing = missing(report, cells);
    let why = |state: &PeerState| match state {
        PeerState::Found => None,
        PeerState::Absent { .. } | PeerState::Broken { .. } => Some(ABSENT),
        PeerState::Forbidden { .. } => Some(FORBIDDEN),
    };
    let of_peer = |peer: &'a PeerRecord| Some((peer.name.as_str(), why(&peer.state)?));
    report.peers.iter().filter_map(of_peer).filter(|(name, _)| missing.contains(name)).collect()
}

fn participants<'a>(report: &Report, cells: &[&'a Cell], absent: &[(&'a str, &'static str)]) -> Vec<&'a str> {
    let mut names: Vec<&str> = absent.iter().map(|(name, _)| *name).collect();
    for cell in cells {
        if !names.contains(&cell.participant.as_str()) {
            names.push(&cell.participant);
        }
    }
    // The sort is stable: whoever is no peer keeps the order of the experiment, behind the peers.
    names.sort_by_key(|name| report.peers.iter().position(|peer| peer.name == *name).unwrap_or(report.peers.len()));
    names
}

fn same_but_threads(left: &Cell, right: &Cell) -> bool {
    left.case == right.case
        && left.participant == right.participant
        && left.flavour == right.flavour
        && left.placement == right.placement
        && left.threads != right.threads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn labels(grid: &Grid) -> Vec<String> {
        grid.rows.iter().map(|row| row.label.clone()).collect()
    }

    #[test]
    fn rows_say_what_tells_them_apart() {
        let report = fixture::small();
        let cells = &report.experiments[0].cells;
        assert_eq!(labels(&Grid::of(&report, cells)), ["full S", "full C", "resumed S", "resumed C"]);
        let shared = || cells.iter().filter(|cell| cell.placement == Placement::Shared);
        assert_eq!(labels(&Grid::of(&report, shared())), ["full", "resumed"]);
        let several: Vec<Cell> = shared().flat_map(|cell| [1, 4].map(|threads| Cell { threads, ..cell.clone() })).collect();
        let grid = Grid::of(&report, &several);
        assert_eq!(labels(&grid), ["full, 1 thread", "full, 4 threads", "resumed, 1 thread", "resumed, 4 threads"]);
        assert_eq!(grid.cell(&grid.rows[1], "nginx").unwrap().threads, 4);
    }

    #[test]
    fn each_driver_and_each_build_has_a_column_and_a_forbidden_one_says_so() {
        let mut report = fixture::small();
        let mut add = |name: &str, after: &str, state: PeerState| {
            let at = report.peers.iter().position(|peer| peer.name == after).unwrap();
            report.peers.insert(at + 1, PeerRecord { name: name.to_owned(), state, ..report.peers[at].clone() });
        };
        add("tidegate io-uring", "tidegate", PeerState::Found);
        add("haproxy-3.4", "haproxy", PeerState::Found);
        add("tidegate-old io-uring", "tidegate io-uring", PeerState::Forbidden { reason: "no rings".to_owned() });
        let shared = |cell: &&Cell| cell.placement == Placement::Shared && cell.participant != "relay";
        let mut cells: Vec<Cell> = report.experiments[0].cells.iter().filter(shared).cloned().collect();
        for (like, name) in [("tidegate", "tidegate io-uring"), ("haproxy", "haproxy-3.4"), ("caddy", "relay io-uring")] {
            let copy = cells.iter().find(|cell| cell.participant == like).cloned().unwrap();
            cells.push(Cell { participant: name.to_owned(), ..copy });
        }
        let grid = Grid::of(&report, &cells);
        let expected = [
            "tidegate",
            "tidegate io-uring",
            "tidegate-old io-uring",
            "haproxy",
            "haproxy-3.4",
            "envoy",
            "nginx",
            "caddy",
            "traefik",
            "angie",
            "relay io-uring",
        ];
        assert_eq!(grid.participants, expected);
        let found = |name: &str| grid.find(&grid.rows[0], name).map(|cell| cell.participant.as_str());
        assert_eq!(found("tidegate io-uring"), Ok("tidegate io-uring"));
        assert_eq!(found("haproxy-3.4"), Ok("haproxy-3.4"));
        assert_eq!(found("tidegate-old io-uring"), Err("forbidden"));
        assert_eq!(found("angie"), Err("absent"));
        // A column with a ring does not stand for the one with epoll.
        cells.retain(|cell| cell.participant != "tidegate");
        let cells: Vec<&Cell> = cells.iter().collect();
        assert!(missing(&report, &cells).contains(&"tidegate"));
        assert!(!missing(&report, &cells).contains(&"tidegate io-uring"));
    }

    #[test]
    fn peers_come_in_the_order_of_the_lab() {
        let report = fixture::small();
        let reversed = Grid::of(&report, report.experiments[0].cells.iter().rev());
        assert_eq!(reversed.participants, ["tidegate", "haproxy", "envoy", "nginx", "caddy", "traefik", "angie", "relay"]);
    }
}
