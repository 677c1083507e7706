//! E2: everybody does the same work. Figures per request in tables by case; latencies of the open loads as curves.
//! The study's ranking stands beside.

use crate::report::chart::{Axis, Chart, Lines, Scale, Series};
use crate::report::document::{Block, Column, Entry, Table, mark_best, say_once};
use crate::report::grid::{self, Grid, Row};
use crate::report::tables::{bars, capital, has_best, matrix, suffix};
use crate::report::{ladder, published};
use crate::results::figure::{Better, Figure};
use crate::results::{Cell, ExperimentRecord, Flavour, Report};

const PERCENTILES: [(Figure, &str); 6] = [
    (Figure::LatencyP50Us, "p50"),
    (Figure::LatencyP75Us, "p75"),
    (Figure::LatencyP90Us, "p90"),
    (Figure::LatencyP95Us, "p95"),
    (Figure::LatencyP99Us, "p99"),
    (Figure::LatencyP999Us, "p99.9"),
];

/// With more participants the table takes the whole width.
const BESIDE_MAX: usize = 6;

pub fn layout(report: &Report, experiment: &ExperimentRecord) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (flavour, grid) in grid::by_flavour(report, experiment) {
        blocks.extend(flavour.map(|flavour| Block::heading(3, capital(flavour.title()))));
        let suffix = suffix(flavour);
        blocks.extend(matrix(&grid, Figure::CpuUsPerRequest, &suffix).map(Block::Table));
        blocks.extend(bars(&grid, Figure::CpuUsPerRequest));
        let rates = matrix(&grid, Figure::RequestsPerSecond, &suffix).map(Block::Table);
        let rates: Vec<Block> = rates.into_iter().chain([published_table()]).collect();
        if grid.participants.len() <= BESIDE_MAX {
            blocks.push(Block::Beside(rates));
        } else {
            blocks.extend(rates);
        }
        blocks.extend(matrix(&grid, Figure::ReceivedBytesPerRequest, &suffix).map(Block::Table));
        blocks.extend(matrix(&grid, Figure::ProxyCoresBusy, &suffix).map(Block::Table));
        let open: Vec<&Row> = grid.rows.iter().filter(|row| row.case.contains("open")).collect();
        blocks.extend(open.iter().map(|row| Block::Table(percentile_table(&grid, row, &suffix))));
        if !open.is_empty() {
            blocks.push(Block::Charts(open.iter().map(|row| curve(&grid, row)).collect()));
        }
    }
    blocks.push(ladder::study(published::EQUALISED));
    blocks
}

fn percentile_table(grid: &Grid, row: &Row, suffix: &str) -> Table {
    let mut head = vec![Column::text("participant")];
    head.extend(PERCENTILES.map(|(_, name)| Column::number(format!("{name} µs"))));
    head.extend([Column::number("max µs"), Column::number("sent late, p99 µs"), Column::number("dropped")]);
    let mut table = Table::new(format!("Latency, {}{suffix}", row.label), head);
    let figures = PERCENTILES.map(|(figure, _)| figure);
    let all = || figures.into_iter().chain([Figure::LatencyMaxUs, Figure::SentLateP99Us, Figure::Dropped]);
    for name in &grid.participants {
        let cell = grid.find(row, name);
        let mut entries = vec![Entry::plain(*name)];
        entries.extend(all().map(|figure| Entry::of_figure(cell, figure, &mut table.notes)));
        say_once(&mut entries);
        table.rows.push(entries);
    }
    let marked = figures.into_iter().enumerate().filter(|(_, figure)| has_best(grid, row, *figure));
    for (index, figure) in marked {
        let value = |name: &&str| grid.cell(row, name).filter(|cell| is_rival(cell)).and_then(|cell| cell.median(figure));
        let values: Vec<_> = grid.participants.iter().map(value).collect();
        mark_best(table.rows.iter_mut().map(|row| &mut row[index + 1]).zip(values), Better::Lower);
    }
    table
}

fn is_rival(cell: &Cell) -> bool {
    cell.flavour != Flavour::Floor
}

fn curve(grid: &Grid, row: &Row) -> Chart {
    let points = |cell: &Cell| -> Vec<(f64, f64)> {
        let medians = PERCENTILES.iter().enumerate().map(|(index, (figure, _))| Some((index as f64, cell.median(*figure)?)));
        medians.flatten().collect()
    };
    let series = |name: &&str| Series { name: (*name).to_owned(), points: grid.cell(row, name).map(points).unwrap_or_default() };
    Chart::Lines(Lines {
        title: format!("{}: latency by percentile", row.label),
        x: Axis {
            label: "percentile".to_owned(),
            scale: Scale::Steps(PERCENTILES.iter().map(|(_, name)| (*name).to_owned()).collect()),
        },
        y: Axis { label: "latency, µs".to_owned(), scale: Scale::Log },
        series: grid.participants.iter().filter(|name| !grid.is_absent(name)).map(series).collect(),
    })
}

fn published_table() -> Block {
    let head = vec![
        Column::text("proxy"),
        Column::text("answer"),
        Column::text("place"),
        Column::number("thousand requests/s"),
        Column::text("remark"),
    ];
    let mut table = Table::new(format!("Published ({})", published::EQUALISED.cited()), head);
    for row in published::EQUALISED_ROWS {
        let rate = match row.thousand_per_second {
            None => Entry::weak("not stated"),
            Some((from, to)) if from < to => Entry::plain(format!("{from:.0}–{to:.0}")),
            Some((from, _)) => Entry::plain(format!("about {from:.0}")),
        };
        table.rows.push(vec![
            Entry::plain(row.proxy),
            Entry::plain(row.size),
            Entry::plain(row.place),
            rate,
            Entry::plain(row.remark),
        ]);
    }
    Block::Table(table)
}
