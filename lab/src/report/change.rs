//! What a change costs: the targets, then starting, changing, and what a load feels meanwhile, with each number of
//! sites. A case is `sites | part`.

use crate::report::document::{Block, Column, Entry, Table};
use crate::report::grid::{self, Grid};
use crate::report::tables::{bars, matrix};
use crate::report::targets;
use crate::report::under_change::{SENT_AGAIN_MEANS, wrong_entry};
use crate::results::change::{CALM, CHANGE, CHANGING, START, part_of};
use crate::results::figure::Figure;
use crate::results::{Cell, ExperimentRecord, Outcome, Report};

pub fn layout(report: &Report, experiment: &ExperimentRecord) -> Vec<Block> {
    let of = |parts: &[&str]| Grid::of(report, experiment.cells.iter().filter(|cell| parts.contains(&part_of(&cell.case))));
    let mut blocks = targets::judgements(experiment);

    blocks.push(Block::heading(3, "From the start to the first answer"));
    let start = of(&[START]);
    let figures = [Figure::StartMs, Figure::ResidentAtStartMb, Figure::SharedOnceAtStartMb];
    blocks.extend(figures.into_iter().filter_map(|figure| matrix(&start, figure, "")).map(Block::Table));
    blocks.extend(bars(&start, Figure::StartMs));

    blocks.push(Block::heading(3, "One changed route"));
    let change = of(&[CHANGE]);
    let figures = [Figure::ChangeSeenMs, Figure::CpuMsPerChange];
    blocks.extend(figures.into_iter().filter_map(|figure| matrix(&change, figure, "")).map(Block::Table));
    blocks.extend(bars(&change, Figure::ChangeSeenMs));

    blocks.push(Block::heading(3, "A load while one change follows the other"));
    blocks.push(Block::paragraph(SENT_AGAIN_MEANS));
    let changing = of(&[CHANGING]);
    blocks.extend(wrong_answers(&changing).map(Block::Table));
    let figures = [Figure::SentAgain, Figure::Dropped, Figure::ChangesMade, Figure::LatencyP50Ratio, Figure::LatencyP99Ratio];
    blocks.extend(figures.into_iter().filter_map(|figure| matrix(&changing, figure, "")).map(Block::Table));
    let both = of(&[CALM, CHANGING]);
    let figures = [Figure::LatencyP50Us, Figure::LatencyP99Us];
    blocks.extend(figures.into_iter().filter_map(|figure| matrix(&both, figure, "")).map(Block::Table));
    let figures = [Figure::ChangeSeenMs, Figure::ResidentMb];
    let suffix = [" under load", " after the changes"];
    let tables = figures.into_iter().zip(suffix).filter_map(|(figure, suffix)| matrix(&changing, figure, suffix));
    blocks.extend(tables.map(Block::Table));
    blocks
}

fn wrong_answers(grid: &Grid) -> Option<Table> {
    let mut head = vec![Column::text("case")];
    head.extend(grid.participants.iter().map(|name| Column::number(*name)));
    let mut table = Table::new("Wrong answers and broken connections", head);
    for row in &grid.rows {
        let entry = |name: &&str, table: &mut Table| match grid.find(row, name) {
            Ok(cell) => entry_of(cell, table),
            Err(why) => Entry::weak(why),
        };
        let mut entries = vec![Entry::plain(&row.label)];
        entries.extend(grid.participants.iter().map(|name| entry(name, &mut table)).collect::<Vec<_>>());
        table.rows.push(entries);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Also of whoever stopped half-way: what was counted until then happened.
fn entry_of(cell: &Cell, table: &mut Table) -> Entry {
    let is_counted = cell.rounds.iter().any(|round| round.figures.contains_key(&Figure::Failed));
    if !is_counted {
        return Entry::weak(grid::NOTHING);
    }
    let note = match &cell.outcome {
        Outcome::Failed { reason } => Some(table.notes.mark(format!("Incomplete: {reason}"))),
        Outcome::Measured | Outcome::Limited { .. } | Outcome::Unavailable { .. } => None,
    };
    let counted = Cell { outcome: Outcome::Measured, ..cell.clone() };
    let entry = wrong_entry(&counted, &mut table.notes);
    Entry { note: note.or(entry.note), ..entry }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{fixture, markdown};
    use crate::results::Round;

    fn cell(like: &Cell, participant: &str, case: &str, figures: &[(Figure, f64)]) -> Cell {
        let round = Round { figures: figures.iter().copied().collect(), ..Round::default() };
        Cell {
            case: case.to_owned(),
            participant: participant.to_owned(),
            load: String::new(),
            rounds: vec![round],
            outcome: Outcome::Measured,
            ..like.clone()
        }
    }

    #[test]
    fn every_part_has_its_tables_and_wrong_answers_stand_whatever_happened() {
        let mut report = fixture::small();
        let mut experiment = report.experiments.remove(0);
        let like = experiment.cells[0].clone();
        experiment.name = "change".to_owned();
        experiment.cells.clear();
        for (name, factor) in [("tidegate", 1.0), ("nginx", 3.0)] {
            let calm = [(Figure::LatencyP99Us, 300.0 * factor), (Figure::Failed, 0.0)];
            let changing = [
                (Figure::LatencyP99Us, 330.0 * factor),
                (Figure::LatencyP99Ratio, 1.1 * factor),
                (Figure::Failed, factor - 1.0),
                (Figure::SentAgain, 7.0 * (factor - 1.0)),
                (Figure::ChangesMade, 100.0),
            ];
            experiment.cells.extend([
                cell(&like, name, "10,000 sites | start", &[(Figure::StartMs, 100.0 * factor)]),
                cell(&like, name, "10,000 sites | change", &[(Figure::ChangeSeenMs, 20.0 * factor)]),
                cell(&like, name, "10,000 sites | calm, open", &calm),
                cell(&like, name, "10,000 sites | during changes, open", &changing),
            ]);
        }
        let last = experiment.cells.last_mut().unwrap();
        last.rounds[0].failures = [("reset".to_owned(), 2)].into();
        last.outcome = Outcome::Failed { reason: "a change was not seen".to_owned() };
        report.experiments.push(experiment);
        let text = markdown(&report);
        let row = |caption: &str, row: &str| {
            let table = text.split(&format!("\n{caption}:")).nth(1).unwrap_or_else(|| panic!("no table {caption}: {text}"));
            table.lines().find(|line| line.starts_with(row)).unwrap().to_owned()
        };
        assert!(row("ms to the first answer", "| 10,000 sites").contains("| **100** |"), "{text}");
        assert!(row("ms until a change is seen", "| 10,000 sites").contains("| **20.0** |"));
        assert!(row("p99 µs", "| 10,000 sites \\| calm").contains("300"));
        let wrong = row("Wrong answers and broken connections", "| 10,000 sites");
        assert!(
            wrong.contains("| 0 |") && wrong.contains("reset 2") && text.contains("Incomplete: a change was not seen"),
            "{wrong}"
        );
        // What a start or a change costs is a comparison like any other.
        assert!(text.contains("Of ") && !text.contains("Of 0 comparisons"), "{text}");
    }
}
