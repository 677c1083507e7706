//! E3: instances come and go and the configuration changes while requests arrive. Counts what was answered wrongly, and
//! when. A case is `variant | phase`; the phase `whole run`, where it exists, has the percentiles over all of them.

use std::collections::BTreeMap;

use crate::report::document::{Block, Column, Entry, Notes, Table, Tone};
use crate::report::grid::{self, Grid, Row};
use crate::report::published::{self, UnderChangeRow};
use crate::report::standing::{Bound, Contender, Standing, competes};
use crate::report::tables::{bars, capital, matrix, suffix};
use crate::report::{ladder, number};
use crate::results::compare::Sample;
use crate::results::figure::{Better, Figure};
use crate::results::summary::Summary;
use crate::results::{Cell, ExperimentRecord, Outcome, Report};

const PERCENTILES: [(Figure, &str); 4] = [
    (Figure::LatencyP75Us, "p75 s"),
    (Figure::LatencyP90Us, "p90 s"),
    (Figure::LatencyP95Us, "p95 s"),
    (Figure::LatencyP99Us, "p99 s"),
];
const STATUSES: [u16; 5] = [200, 404, 502, 503, 504];
const WHOLE_RUN: &str = "whole run";
/// The second count of each variant.
pub const SENT_AGAIN: &str = "requests sent again";
pub const SENT_AGAIN_MEANS: &str = "Sent again means that a kept connection was closed or reset under a request before a byte of the answer, \
                                    and the client sent the request once more, as browsers and Go's client do: no wrong answer, but \
                                    waiting for the client.";
const INCOMPLETE: &str =
    "Incomplete: not every phase was measured, so percentiles are of fewer phases too; see the phases below.";

/// What one participant did in all phases of one variant.
#[derive(Default)]
struct Total {
    statuses: BTreeMap<u16, u64>,
    failures: BTreeMap<String, u64>,
    wrong: u64,
    sent_again: u64,
}

pub fn layout(report: &Report, experiment: &ExperimentRecord) -> Vec<Block> {
    let mut blocks = vec![
        Block::paragraph(
            "Counts are sums over all phases and rounds of a variant. A wrong answer is a request without the right answer: refused, reset, \
             timed out, or another status than was due. Percentiles are those of the whole run where it was recorded as such, and otherwise \
             the median of the phases.",
        ),
        Block::paragraph(SENT_AGAIN_MEANS),
    ];
    for (flavour, grid) in grid::by_flavour(report, experiment) {
        blocks.extend(flavour.map(|flavour| Block::heading(3, capital(flavour.title()))));
        for variant in variants(&grid) {
            blocks.push(Block::heading(3, format!("Variant {variant}{}", suffix(flavour))));
            let cells = grid.cells().iter().copied().filter(|cell| variant_of(&cell.case) == variant);
            let grid = Grid::of(report, cells);
            blocks.push(Block::Table(totals(&grid, variant)));
            blocks.extend(published_table(variant));
            blocks.push(Block::Table(wrong_by_phase(&grid, variant)));
            let suffix = format!(", variant {variant}");
            for figure in
                [Figure::SecondsToTakeEffect, Figure::CpuUsPerRequest, Figure::RequestsPerSecond, Figure::ProxyCoresBusy]
            {
                blocks.extend(matrix(&grid, figure, &suffix).map(Block::Table));
            }
            let steady = grid.cells().iter().copied().filter(|cell| phase_of(&cell.case) == "steady");
            blocks.extend(bars(&Grid::of(report, steady), Figure::CpuUsPerRequest));
        }
    }
    blocks.push(ladder::study(published::UNDER_CHANGE));
    blocks
}

/// Wrong answers of each variant, and beside them what its clients had to send again.
pub fn standings(report: &Report, experiment: &ExperimentRecord) -> Vec<Standing> {
    let mut standings = Vec::new();
    for (flavour, grid) in grid::by_flavour(report, experiment) {
        for variant in variants(&grid) {
            let cells = grid.cells().iter().copied().filter(|cell| variant_of(&cell.case) == variant);
            let part = Grid::of(report, cells);
            let standing = |unit: &str, count: fn(&Total) -> u64| Standing {
                experiment: experiment.name.clone(),
                label: format!("{variant}{}", suffix(flavour)),
                unit: unit.to_owned(),
                better: Better::Lower,
                main: true,
                contenders: part.participants.iter().map(|name| contender(report, &part, name, count)).collect(),
            };
            standings.push(standing("wrong answers", |total| total.wrong));
            standings.push(standing(SENT_AGAIN, |total| total.sent_again));
        }
    }
    standings
}

/// What was counted until somebody stopped is a lower bound, and may be a loss already.
fn contender(report: &Report, grid: &Grid, name: &str, count: fn(&Total) -> u64) -> Contender {
    let cell = grid.cells().iter().find(|cell| cell.participant == name).copied();
    let is_begun = phases(grid).any(|row| grid.cell(row, name).is_some_and(is_counted));
    let value = count(&total(grid, name));
    let text = match cell.map(|cell| &cell.outcome) {
        None => grid.why_absent(name).unwrap_or(grid::NOTHING).to_owned(),
        Some(_) if is_begun => count_text(value, is_whole(grid, name)),
        Some(Outcome::Unavailable { .. }) => "n/a".to_owned(),
        Some(Outcome::Failed { .. } | Outcome::Measured | Outcome::Limited { .. }) => "failed".to_owned(),
    };
    Contender {
        name: name.to_owned(),
        sample: is_begun.then(|| Sample::exact(value as f64)),
        bound: if is_begun && !is_whole(grid, name) { Bound::AtLeast } else { Bound::Exact },
        text,
        competes: competes(report, name, cell),
    }
}

fn count_text(value: u64, is_whole: bool) -> String {
    match (value, is_whole) {
        (_, true) => number::count(value),
        (0, false) => "0, incomplete".to_owned(),
        (_, false) => format!("≥ {}, incomplete", number::count(value)),
    }
}

fn variants<'a>(grid: &Grid<'a>) -> Vec<&'a str> {
    let mut variants: Vec<&str> = Vec::new();
    for row in &grid.rows {
        if !variants.contains(&variant_of(row.case)) {
            variants.push(variant_of(row.case));
        }
    }
    variants
}

fn variant_of(case: &str) -> &str {
    case.split('|').next().unwrap_or_default().trim()
}

fn phase_of(case: &str) -> &str {
    case.split_once('|').map_or("", |(_, phase)| phase.trim())
}

/// The rows that are phases; the whole run would count everything twice.
fn phases<'g, 'a>(grid: &'g Grid<'a>) -> impl Iterator<Item = &'g Row<'a>> {
    grid.rows.iter().filter(|row| phase_of(row.case) != WHOLE_RUN)
}

fn is_whole(grid: &Grid, name: &str) -> bool {
    phases(grid).all(|row| grid.cell(row, name).is_some_and(is_counted))
}

/// Who was slow does not change which answers were wrong.
fn is_counted(cell: &Cell) -> bool {
    match cell.outcome {
        Outcome::Measured | Outcome::Limited { .. } => true,
        Outcome::Failed { .. } | Outcome::Unavailable { .. } => false,
    }
}

fn nothing(grid: &Grid, name: &str) -> Entry {
    Entry::weak(grid.why_absent(name).unwrap_or(grid::NOTHING))
}

fn sum_of(cell: &Cell, figure: Figure) -> u64 {
    cell.rounds.iter().filter_map(|round| round.figures.get(&figure)).sum::<f64>() as u64
}

fn wrong(cell: &Cell) -> u64 {
    let by_kind: u64 = cell.failures().values().sum();
    by_kind.max(sum_of(cell, Figure::Failed))
}

fn total(grid: &Grid, name: &str) -> Total {
    let mut total = Total::default();
    for cell in phases(grid).filter_map(|row| grid.cell(row, name)) {
        for (status, count) in cell.statuses() {
            *total.statuses.entry(status).or_default() += count;
        }
        for (kind, count) in cell.failures() {
            *total.failures.entry(kind).or_default() += count;
        }
        total.wrong += wrong(cell);
        total.sent_again += sum_of(cell, Figure::SentAgain);
    }
    total
}

fn totals(grid: &Grid, variant: &str) -> Table {
    let mut head = vec![Column::text("participant"), Column::number("wrong")];
    head.extend(STATUSES.map(|status| Column::number(status.to_string())));
    head.extend(["other status", "refused", "reset", "other failures", "sent again"].map(Column::number));
    head.extend(PERCENTILES.map(|(_, title)| Column::number(title)));
    let mut table = Table::new(format!("Answers and failures, variant {variant}"), head);
    for name in &grid.participants {
        let mut cells = phases(grid).filter_map(|row| grid.cell(row, name));
        let first = cells.next();
        if !first.into_iter().chain(cells).any(is_counted) {
            let why = first.map_or_else(|| nothing(grid, name), |cell| Entry::of_outcome(&cell.outcome, &mut table.notes));
            let rest = std::iter::repeat_with(|| Entry::weak(grid::NOTHING)).take(table.head.len() - 2);
            table.rows.push([Entry::plain(*name), why].into_iter().chain(rest).collect());
            continue;
        }
        let total = total(grid, name);
        let mut entries = vec![Entry::plain(*name), wrong_total(grid, name, &total, &mut table.notes)];
        let status = |status: &u16| total.statuses.get(status).copied().unwrap_or_default();
        let all: u64 = total.statuses.values().sum();
        let mut counts: Vec<u64> = STATUSES.iter().map(status).collect();
        counts.push(all - counts.iter().sum::<u64>());
        let failed = |kind: &str| total.failures.get(kind).copied().unwrap_or_default();
        // A wrong status is counted among the statuses already.
        let others =
            total.failures.iter().filter(|(kind, _)| !kind.starts_with("status ") && *kind != "refused" && *kind != "reset");
        counts.extend([failed("refused"), failed("reset"), others.map(|(_, count)| count).sum(), total.sent_again]);
        entries.extend(counts.into_iter().map(|count| Entry::plain(number::count(count))));
        let percentiles = PERCENTILES.map(|(figure, _)| percentile(grid, name, figure, &mut table.notes));
        entries.extend(percentiles);
        table.rows.push(entries);
    }
    table
}

/// A sum over fewer phases than there are says so. None so far is neither good nor bad.
fn wrong_total(grid: &Grid, name: &str, total: &Total, notes: &mut Notes) -> Entry {
    let is_whole = is_whole(grid, name);
    let text = count_text(total.wrong, is_whole);
    let note = (!is_whole).then(|| notes.mark(INCOMPLETE));
    let tone = match (total.wrong, is_whole) {
        (0, true) => Tone::Best,
        (0, false) => Tone::Weak,
        (_, true | false) => Tone::Bad,
    };
    Entry { note, tone, ..Entry::plain(text) }
}

fn percentile(grid: &Grid, name: &str, figure: Figure, notes: &mut Notes) -> Entry {
    let whole = grid.rows.iter().find(|row| phase_of(row.case) == WHOLE_RUN).and_then(|row| grid.cell(row, name));
    let mut cells = phases(grid).filter_map(|row| grid.cell(row, name));
    let limited = cells.find(|cell| matches!(cell.outcome, Outcome::Limited { .. }));
    let summary = match whole {
        Some(cell) => cell.summary(figure),
        // Of a part of the phases, they would be of another load than those of the others.
        None if limited.is_some() => None,
        None => Summary::of(phases(grid).filter_map(|row| grid.cell(row, name)?.median(figure))),
    };
    let whole = whole.or(limited);
    // The range of the phases beside it would be read as that of rounds.
    match (summary, whole.or_else(|| phases(grid).find_map(|row| grid.cell(row, name)))) {
        (Some(summary), _) => Entry::plain(format!("{:.4}", summary.median / 1e6)),
        (None, Some(cell)) => Entry::of_outcome(&cell.outcome, notes),
        (None, None) => nothing(grid, name),
    }
}

fn wrong_by_phase(grid: &Grid, variant: &str) -> Table {
    let mut head = vec![Column::text("phase")];
    head.extend(grid.participants.iter().map(|name| Column::number(*name)));
    let mut table = Table::new(format!("Wrong answers by phase, variant {variant}"), head);
    for row in phases(grid) {
        let mut entries = vec![Entry::plain(row.label.split_once('|').map_or(row.label.as_str(), |(_, phase)| phase.trim()))];
        for name in &grid.participants {
            entries.push(match grid.cell(row, name) {
                None => nothing(grid, name),
                Some(cell) => wrong_entry(cell, &mut table.notes),
            });
        }
        table.rows.push(entries);
    }
    table
}

pub fn wrong_entry(cell: &Cell, notes: &mut Notes) -> Entry {
    match &cell.outcome {
        // Who was slow does not change which answers were wrong.
        Outcome::Measured | Outcome::Limited { .. } => {
            let count = wrong(cell);
            let first = cell.rounds.iter().find_map(|round| round.first_failure.as_deref());
            let kinds: Vec<_> = cell.failures().iter().map(|(kind, count)| format!("{kind} {}", number::count(*count))).collect();
            let note = (count > 0 && first.is_some()).then(|| notes.mark(format!("The first: {}", first.unwrap_or_default())));
            let aside = (!kinds.is_empty()).then(|| kinds.join(", "));
            Entry { aside, note, tone: if count == 0 { Tone::Plain } else { Tone::Bad }, ..Entry::plain(number::count(count)) }
        }
        outcome @ (Outcome::Failed { .. } | Outcome::Unavailable { .. }) => Entry::of_outcome(outcome, notes),
    }
}

fn published_table(variant: &str) -> Option<Block> {
    let (rows, name): (&[UnderChangeRow], _) = match variant {
        "1×250" => (&published::UNDER_CHANGE_1X250, "1 × 250"),
        "5×50" => (&published::UNDER_CHANGE_5X50, "5 × 50"),
        _ => return None,
    };
    let mut head = vec![Column::text("controller")];
    head.extend(["200", "404", "502", "503", "504"].map(Column::number));
    head.extend(PERCENTILES.map(|(_, title)| Column::number(title)));
    let mut table = Table::new(format!("Published ({}), variant {name}", published::UNDER_CHANGE.cited()), head);
    let optional =
        |value: Option<u64>| value.map_or_else(|| Entry::weak("not stated"), |value| Entry::plain(number::count(value)));
    for row in rows {
        let mut entries = vec![Entry::plain(row.controller), optional(row.status_200), optional(row.status_404)];
        entries.extend([row.status_502, row.status_503, row.status_504].map(|count| Entry::plain(number::count(count))));
        entries.extend(row.seconds.map(|seconds| Entry::plain(format!("{seconds:.4}"))));
        table.rows.push(entries);
    }
    Some(Block::Table(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_a_variant_and_a_phase() {
        assert_eq!((variant_of("5×50 | cors added"), phase_of("5×50 | cors added")), ("5×50", "cors added"));
        assert_eq!((variant_of("5×50"), phase_of("5×50")), ("5×50", ""));
    }
}
