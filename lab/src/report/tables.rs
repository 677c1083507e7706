//! The generic layout of figures: one table for each, and bars. Experiments with a layout of their own take pieces from
//! here.

use crate::report::chart::{Bar, Bars, Chart};
use crate::report::document::{Block, Column, Entry, Table, mark_best};
use crate::report::grid::{self, Grid, Row};
use crate::report::number;
use crate::results::figure::{Better, Figure};
use crate::results::{ExperimentRecord, Flavour, Outcome, Report};

/// More charts than this would hide the tables; the tables have every case.
const CHARTS_MAX: usize = 12;

/// What has a table of its own in the generic layout, in this order. The rest is in the table of spreads.
const TABLED: [Figure; 17] = [
    Figure::CpuUsPerRequest,
    Figure::RequestsPerSecond,
    Figure::HandshakesPerSecond,
    Figure::ResumedShare,
    Figure::LatencyP50Us,
    Figure::LatencyP99Us,
    Figure::ReceivedBytesPerRequest,
    Figure::StartMs,
    Figure::KibPerCertificate,
    Figure::IdleKibPerConnection,
    Figure::ResidentAtStartMb,
    Figure::ResidentMb,
    Figure::ResidentPeakMb,
    Figure::ResidentAfterRestMb,
    Figure::SocketCallsPerRequest,
    Figure::SystemCallsPerRequest,
    Figure::SecondsToTakeEffect,
];

/// What has bars.
const CHARTED: [Figure; 3] = [Figure::CpuUsPerRequest, Figure::IdleKibPerConnection, Figure::ResidentAtStartMb];

pub fn generic(report: &Report, experiment: &ExperimentRecord) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (flavour, grid) in grid::by_flavour(report, experiment) {
        blocks.extend(flavour.map(|flavour| Block::heading(3, capital(flavour.title()))));
        for figure in TABLED {
            // Resident memory of other experiments depends on how many requests came, and those came as fast as they
            // were answered.
            let is_context = matches!(figure, Figure::ResidentMb | Figure::ResidentPeakMb) && experiment.name != "memory";
            let better = if is_context { Better::Neither } else { figure.better() };
            blocks.extend(matrix_marked(&grid, figure, better, &suffix(flavour)).map(Block::Table));
            if CHARTED.contains(&figure) {
                blocks.extend(bars(&grid, figure));
            }
        }
    }
    blocks
}

/// Rows are cases and columns participants. `None` if nobody has the figure.
pub fn matrix(grid: &Grid, figure: Figure, suffix: &str) -> Option<Table> {
    matrix_marked(grid, figure, figure.better(), suffix)
}

fn matrix_marked(grid: &Grid, figure: Figure, better: Better, suffix: &str) -> Option<Table> {
    // A case in which all failed has no figure, and must be seen all the same: it stands where the first figure does.
    let is_shown = |row: &&Row| occurs(grid, row, figure) || (figure == Figure::CpuUsPerRequest && somebody_failed(grid, row));
    let rows: Vec<&Row> = grid.rows.iter().filter(is_shown).collect();
    if rows.is_empty() {
        return None;
    }
    let mut head = vec![Column::text("case")];
    head.extend(grid.participants.iter().map(|name| Column::number(*name)));
    let mut table = Table::new(format!("{}{suffix}", figure.title()), head);
    for row in rows {
        let cells: Vec<_> = grid.participants.iter().map(|name| grid.find(row, name)).collect();
        let mut entries: Vec<Entry> = cells.iter().map(|cell| Entry::of_figure(*cell, figure, &mut table.notes)).collect();
        let rivals = cells.iter().map(|cell| cell.ok().filter(|cell| cell.flavour != Flavour::Floor));
        let values = rivals.map(|cell| cell.and_then(|cell| cell.median(figure)));
        if has_best(grid, row, figure) {
            mark_best(entries.iter_mut().zip(values), better);
        }
        entries.insert(0, Entry::plain(&row.label));
        table.rows.push(entries);
    }
    Some(table)
}

/// Whether it can be known who is the best: not where somebody's figure is withheld, and not the rate where it is
/// given.
pub fn has_best(grid: &Grid, row: &Row, figure: Figure) -> bool {
    let is_given = figure == Figure::RequestsPerSecond && row.case.contains("open");
    let is_withheld = figure.needs_an_unlimited_run() && grid.is_limited(row);
    !is_given && !is_withheld
}

/// Whether somebody has it, or would have it, were it not withheld.
fn occurs(grid: &Grid, row: &Row, figure: Figure) -> bool {
    let mut cells = grid.participants.iter().filter_map(|name| grid.cell(row, name));
    cells.any(|cell| cell.rounds.iter().any(|round| round.figures.contains_key(&figure)))
}

fn somebody_failed(grid: &Grid, row: &Row) -> bool {
    let mut cells = grid.participants.iter().filter_map(|name| grid.cell(row, name));
    cells.any(|cell| matches!(cell.outcome, Outcome::Failed { .. }))
}

/// A chart for each case.
pub fn bars(grid: &Grid, figure: Figure) -> Option<Block> {
    let rows = grid.rows.iter().filter(|row| occurs(grid, row, figure)).take(CHARTS_MAX);
    let charts: Vec<Chart> = rows.map(|row| bars_of_row(grid, row, figure)).collect();
    (!charts.is_empty()).then_some(Block::Charts(charts))
}

fn bars_of_row(grid: &Grid, row: &Row, figure: Figure) -> Chart {
    let bar = |name: &&str| {
        let cell = grid.find(row, name);
        let summary = cell.ok().and_then(|cell| cell.summary(figure));
        let text = match (cell, summary) {
            (Err(why), _) => why.to_owned(),
            (Ok(_), Some(summary)) => number::figure(figure, summary.median),
            (Ok(cell), None) => outcome_word(&cell.outcome).to_owned(),
        };
        Bar { name: (*name).to_owned(), value: summary.map(|summary| (summary.median, summary.min, summary.max)), text }
    };
    Chart::Bars(Bars {
        title: format!("{}: {}", row.label, figure.title()),
        unit: figure.title().to_owned(),
        bars: grid.participants.iter().map(bar).collect(),
    })
}

fn outcome_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Measured => "–",
        Outcome::Limited { .. } => "withheld",
        Outcome::Failed { .. } => "failed",
        Outcome::Unavailable { .. } => "n/a",
    }
}

pub fn suffix(flavour: Option<Flavour>) -> String {
    flavour.map_or_else(String::new, |flavour| format!(", {}", flavour.title()))
}

pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
