//! E1: rates that rise until a proxy breaks. Says for each participant how far it came and why no further.
//! The tuned variants of nginx (`e1-nginx`) are laid out the same way, in one table.

use crate::report::chart::{Axis, Chart, Lines, Scale, Series};
use crate::report::document::{Block, Column, Entry, Notes, Table, Tone, mark_best, say_once};
use crate::report::grid::{self, Grid, Row};
use crate::report::number;
use crate::report::published::{self, OutOfTheBoxRow, Study};
use crate::report::standing::{Bound, Contender, Standing, competes};
use crate::report::tables::{capital, suffix};
use crate::results::compare::Sample;
use crate::results::figure::{Better, Figure};
use crate::results::ladder::{self as rule, Miss};
use crate::results::{Cell, ExperimentRecord, Flavour, Outcome, Report};

/// How one participant did at one rate.
#[derive(Debug, Clone, PartialEq)]
enum Rung {
    Passed,
    Broke(Vec<String>),
    Limited(String),
    Failed(String),
    Unavailable(String),
}

/// How far one participant came.
struct Climb<'a> {
    /// The highest rate below the first at which it did not pass.
    highest: Option<(f64, &'a Cell)>,
    end: Option<(f64, Rung)>,
    why_absent: Option<&'static str>,
}

pub fn layout(report: &Report, experiment: &ExperimentRecord) -> Vec<Block> {
    let is_nginx = experiment.name == "e1-nginx";
    let grids = if is_nginx { vec![(None, Grid::of(report, &experiment.cells))] } else { grid::by_flavour(report, experiment) };
    let mut blocks = vec![Block::Paragraph(format!(
        "A rate is passed with at least {:.0} % right answers, less than {:.0} % failed, a p95 below {:.0} ms, and at least {:.0} % of the offered \
         rate answered. The ladder ends where a participant first does not pass: it is not asked for more. The charts show the rates that were passed.",
        rule::CHECKS_SHARE_MIN * 100.0,
        rule::FAILED_SHARE_MAX * 100.0,
        rule::P95_US_MAX / 1000.0,
        rule::SERVED_SHARE_MIN * 100.0
    ))];
    for (flavour, grid) in grids {
        blocks.extend(flavour.map(|flavour| Block::heading(3, capital(flavour.title()))));
        let rates = rates(&grid);
        let published = if is_nginx {
            published_table(&published::NGINX_TUNED_ROWS, published::OUT_OF_THE_BOX)
        } else {
            published_table(&published::OUT_OF_THE_BOX_ROWS, published::OUT_OF_THE_BOX)
        };
        blocks.push(Block::Table(climbs(report, experiment, &grid, flavour)));
        // The study measured out of the box; with the equalised ladder its figures would mislead.
        match flavour {
            None | Some(Flavour::OutOfTheBox | Flavour::Tuned) => blocks.push(published),
            Some(Flavour::Equalised | Flavour::Floor) => {}
        }
        blocks.push(charts(&grid, &rates, flavour));
        blocks.extend(rates.iter().map(|(rate, row)| Block::Table(at_rate(&grid, *rate, row, flavour))));
    }
    blocks.push(study(published::OUT_OF_THE_BOX));
    blocks
}

/// What stood in the study, so that its figures are not read without it.
pub fn study(study: Study) -> Block {
    let cited = study.cited();
    Block::Paragraph(format!(
        "Published: {cited}. {} {} The machines, versions and tools differ from this run: compare the order and how a proxy fails, not the figures.",
        study.setting, study.doubts
    ))
}

pub fn standings(report: &Report, experiment: &ExperimentRecord) -> Vec<Standing> {
    let grids = grid::by_flavour(report, experiment).into_iter();
    let all = grids.map(|(flavour, grid)| standing(report, experiment, flavour, &grid));
    all.filter(|standing| standing.contenders.iter().any(|contender| contender.sample.is_some())).collect()
}

fn standing(report: &Report, experiment: &ExperimentRecord, flavour: Option<Flavour>, grid: &Grid) -> Standing {
    let rates = rates(grid);
    let contender = |name: &&str| {
        let climb = climb(grid, &rates, name);
        let cell = grid.cells().iter().find(|cell| cell.participant == **name).copied();
        let sample = climb.highest.map(|(rate, _)| Sample::exact(rate));
        let sample = sample.or_else(|| matches!(climb.end, Some((_, Rung::Broke(_)))).then(|| Sample::exact(0.0)));
        // The variants of nginx are rivals of each other.
        let is_variant = cell.is_some_and(|cell| cell.flavour == Flavour::Tuned);
        let competes = is_variant || competes(report, name, cell);
        Contender { name: (*name).to_owned(), sample, bound: climb.bound(), text: climb.text(), competes }
    };
    Standing {
        experiment: experiment.name.clone(),
        label: format!("highest rate passed{}", suffix(flavour)),
        unit: "requests/s".to_owned(),
        better: Better::Higher,
        main: true,
        contenders: grid.participants.iter().map(contender).collect(),
    }
}

/// The rows that are rates, ascending.
fn rates<'a>(grid: &Grid<'a>) -> Vec<(f64, Row<'a>)> {
    let mut rates: Vec<_> = grid.rows.iter().filter_map(|row| Some((rate_of(row.case)?, row.clone()))).collect();
    rates.sort_by(|left, right| left.0.total_cmp(&right.0));
    rates
}

/// `1000` for `1000/s`.
pub fn rate_of(case: &str) -> Option<f64> {
    let rate: f64 = case.strip_suffix("/s")?.trim().parse().ok()?;
    (rate > 0.0 && rate.is_finite()).then_some(rate)
}

/// Whether the figures of this cell are those of a rate that was passed.
pub fn is_passed(cell: &Cell) -> bool {
    rate_of(&cell.case).is_some_and(|rate| rung(cell, rate) == Rung::Passed)
}

fn climb<'a>(grid: &Grid<'a>, rates: &[(f64, Row)], name: &str) -> Climb<'a> {
    let mut climb = Climb { highest: None, end: None, why_absent: grid.why_absent(name) };
    for (rate, row) in rates {
        let Some(cell) = grid.cell(row, name) else { continue };
        match rung(cell, *rate) {
            Rung::Passed => climb.highest = Some((*rate, cell)),
            end @ (Rung::Broke(_) | Rung::Limited(_) | Rung::Failed(_) | Rung::Unavailable(_)) => {
                climb.end = Some((*rate, end));
                break;
            }
        }
    }
    climb
}

impl Climb<'_> {
    /// At least, if it passed all that it was asked, or if something else was the limit.
    fn bound(&self) -> Bound {
        match (&self.end, self.highest) {
            (None | Some((_, Rung::Passed | Rung::Limited(_) | Rung::Unavailable(_))), Some(_)) => Bound::AtLeast,
            (Some((_, Rung::Limited(_))), None) => Bound::Withheld,
            (None | Some((_, Rung::Passed | Rung::Unavailable(_))), None) | (Some((_, Rung::Broke(_) | Rung::Failed(_))), _) => {
                Bound::Exact
            }
        }
    }

    fn nothing(&self) -> String {
        self.why_absent.unwrap_or(grid::NOTHING).to_owned()
    }

    fn text(&self) -> String {
        let rate = |rate: f64| format!("{}/s", number::whole(rate));
        match (self.highest, &self.end) {
            (None, None) => self.nothing(),
            (Some((highest, _)), Some((_, Rung::Broke(_) | Rung::Failed(_)))) => rate(highest),
            // It might have gone further.
            (Some((highest, _)), None | Some((_, Rung::Passed | Rung::Limited(_) | Rung::Unavailable(_)))) => {
                format!("≥ {}", rate(highest))
            }
            (None, Some((first, Rung::Broke(_)))) => format!("< {}", rate(*first)),
            (None, Some((_, Rung::Failed(_)))) => "failed".to_owned(),
            (None, Some((_, Rung::Unavailable(_)))) => "n/a".to_owned(),
            (None, Some((_, Rung::Passed | Rung::Limited(_)))) => "–".to_owned(),
        }
    }

    fn ending(&self) -> String {
        let (at, rung) = match (&self.end, self.highest) {
            (Some((at, rung)), _) => (number::whole(*at), rung),
            (None, Some((highest, _))) => return format!("not broken up to {}/s", number::whole(highest)),
            (None, None) => return self.nothing(),
        };
        match rung {
            Rung::Passed => format!("not broken up to {at}/s"),
            Rung::Broke(reasons) => format!("at {at}/s: {}", reasons.join(", ")),
            Rung::Limited(by) => format!("at {at}/s limited by {by}"),
            Rung::Failed(reason) => format!("at {at}/s failed: {reason}"),
            Rung::Unavailable(reason) => format!("not available: {reason}"),
        }
    }
}

/// Over all rounds.
fn failed_share(cell: &Cell) -> Option<f64> {
    let sum = |figure| cell.rounds.iter().filter_map(|round| round.figures.get(&figure)).sum::<f64>();
    let (right, failed) = (sum(Figure::Requests), sum(Figure::Failed));
    let all = right + failed;
    (all > 0.0).then(|| failed / all)
}

/// Whoever broke at a lower rate is not asked for more; a floor that was not is no news.
fn asked<'a>(grid: &Grid<'a>, row: &Row, name: &str) -> Result<&'a Cell, &'static str> {
    grid.find(row, name).map_err(|why| if why == grid::NOTHING { "not asked" } else { why })
}

fn rung(cell: &Cell, rate: f64) -> Rung {
    match &cell.outcome {
        Outcome::Measured => {}
        Outcome::Limited { by } => return Rung::Limited(by.clone()),
        Outcome::Failed { reason } => return Rung::Failed(reason.clone()),
        Outcome::Unavailable { reason } => return Rung::Unavailable(reason.clone()),
    }
    let misses = rule::misses(cell, rate);
    // With no right answer at all, every bound is missed, and one reason says all.
    let is_silent = misses.contains(&Miss::Checks(0.0));
    let reasons: Vec<_> = if is_silent { vec!["no right answer".to_owned()] } else { misses.iter().map(reason).collect() };
    if reasons.is_empty() { Rung::Passed } else { Rung::Broke(reasons) }
}

fn reason(miss: &Miss) -> String {
    match miss {
        Miss::Checks(right) => format!("only {} right", number::percent(*right)),
        Miss::FailedShare(failed) => format!("{} failed", number::percent(*failed)),
        Miss::P95Us(p95) => format!("p95 {} ms", number::short(p95 / 1000.0)),
        Miss::Served(answered) => format!("only {}/s answered", number::short(*answered)),
    }
}

fn climbs(report: &Report, experiment: &ExperimentRecord, grid: &Grid, flavour: Option<Flavour>) -> Table {
    let rates = rates(grid);
    let head = vec![
        Column::text("participant"),
        Column::number("highest rate passed"),
        Column::text("and then"),
        Column::number("CPU µs/request there"),
        Column::number("cores busy there"),
    ];
    let mut table = Table::new(format!("How far each came{}", suffix(flavour)), head);
    for name in &grid.participants {
        let climb = climb(grid, &rates, name);
        let cell = climb.highest.map(|(_, cell)| cell);
        let of = |figure, notes: &mut Notes| match cell {
            Some(cell) => Entry::of_figure(Ok(cell), figure, notes),
            None => Entry::weak(grid::NOTHING),
        };
        let entries = vec![
            Entry::plain(*name),
            Entry::plain(climb.text()),
            Entry::plain(climb.ending()),
            of(Figure::CpuUsPerRequest, &mut table.notes),
            of(Figure::ProxyCoresBusy, &mut table.notes),
        ];
        table.rows.push(entries);
    }
    let standing = standing(report, experiment, flavour, grid);
    for (row, contender) in table.rows.iter_mut().zip(&standing.contenders) {
        if standing.is_best(contender) {
            row[1].tone = Tone::Best;
        }
    }
    table
}

fn at_rate(grid: &Grid, rate: f64, row: &Row, flavour: Option<Flavour>) -> Table {
    let mut head = vec![Column::text("participant")];
    head.extend(
        [
            "answered/s",
            "failed",
            "dropped",
            "p50 ms",
            "p95 ms",
            "max ms",
            "CPU µs/request",
            "cores busy",
            "received MB",
            "sent MB",
        ]
        .map(Column::number),
    );
    head.push(Column::text("passed"));
    let mut table = Table::new(format!("{}/s offered{}", number::whole(rate), suffix(flavour)), head);
    for name in &grid.participants {
        let cell = asked(grid, row, name);
        let notes = &mut table.notes;
        let scaled = |figure, divisor: f64, notes: &mut Notes| match cell.ok().and_then(|cell| cell.median(figure)) {
            Some(median) => Entry::plain(number::short(median / divisor)),
            None => Entry::of_median(cell, figure, notes),
        };
        let failed = match cell.ok().filter(|cell| matches!(cell.outcome, Outcome::Measured)).and_then(failed_share) {
            Some(failed) => Entry::plain(number::percent(failed)),
            None => Entry::of_median(cell, Figure::Requests, notes),
        };
        let mut entries = vec![
            Entry::plain(*name),
            scaled(Figure::RequestsPerSecond, 1.0, notes),
            failed,
            Entry::of_median(cell, Figure::Dropped, notes),
            scaled(Figure::LatencyP50Us, 1e3, notes),
            scaled(Figure::LatencyP95Us, 1e3, notes),
            scaled(Figure::LatencyMaxUs, 1e3, notes),
            Entry::of_figure(cell, Figure::CpuUsPerRequest, notes),
            scaled(Figure::ProxyCoresBusy, 1.0, notes),
            scaled(Figure::ReceivedBytes, 1e6, notes),
            scaled(Figure::SentBytes, 1e6, notes),
            passed(cell, rate),
        ];
        say_once(&mut entries);
        table.rows.push(entries);
    }
    mark_cheapest(&mut table, grid, row, 7);
    table
}

/// What a request costs is compared among those who passed: a failed request may cost more or less than an answered
/// one.
fn mark_cheapest(table: &mut Table, grid: &Grid, row: &Row, column: usize) {
    let is_rival = |cell: &&Cell| cell.flavour != Flavour::Floor && is_passed(cell);
    let cells = grid.participants.iter().map(|name| grid.cell(row, name).filter(is_rival));
    let values: Vec<_> = cells.map(|cell| cell.and_then(|cell| cell.median(Figure::CpuUsPerRequest))).collect();
    mark_best(table.rows.iter_mut().map(|row| &mut row[column]).zip(values), Better::Lower);
}

fn passed(cell: Result<&Cell, &'static str>, rate: f64) -> Entry {
    match cell.map(|cell| rung(cell, rate)) {
        Err(why) => Entry::weak(why),
        Ok(Rung::Passed) => Entry::plain("yes"),
        Ok(Rung::Broke(reasons)) => Entry::bad(format!("no: {}", reasons.join(", "))),
        Ok(Rung::Limited(_)) => Entry::weak("not known"),
        Ok(Rung::Failed(_)) => Entry::bad("failed"),
        Ok(Rung::Unavailable(_)) => Entry::weak("n/a"),
    }
}

fn charts(grid: &Grid, rates: &[(f64, Row)], flavour: Option<Flavour>) -> Block {
    let series = |figure: Figure, divisor: f64| -> Vec<Series> {
        let point = |name: &str, rate: f64, row: &Row| {
            let cell = grid.cell(row, name).filter(|cell| is_passed(cell))?;
            Some((rate, cell.median(figure)? / divisor))
        };
        let points = |name: &str| rates.iter().filter_map(|(rate, row)| point(name, *rate, row)).collect();
        let there = grid.participants.iter().filter(|name| !grid.is_absent(name));
        there.map(|name| Series { name: (*name).to_owned(), points: points(name) }).collect()
    };
    let offered = || Axis { label: "offered requests/s".to_owned(), scale: Scale::Log };
    let p95 = Lines {
        title: format!("p95 over the offered rate{}", suffix(flavour)),
        x: offered(),
        y: Axis { label: "p95, ms".to_owned(), scale: Scale::Log },
        series: series(Figure::LatencyP95Us, 1e3),
    };
    let cpu = Lines {
        title: format!("CPU time per request over the offered rate{}", suffix(flavour)),
        x: offered(),
        y: Axis { label: Figure::CpuUsPerRequest.title().to_owned(), scale: Scale::Linear },
        series: series(Figure::CpuUsPerRequest, 1.0),
    };
    Block::Charts(vec![Chart::Lines(p95), Chart::Lines(cpu)])
}

fn published_table(rows: &[OutOfTheBoxRow], study: Study) -> Block {
    let complete = rows.iter().any(|row| row.median_ms.is_some());
    let mut head = vec![Column::text("target"), Column::number("answered/s"), Column::number("failed")];
    if complete {
        head.extend([Column::number("dropped"), Column::number("p50 ms")]);
    }
    head.push(Column::number("p95 ms"));
    if complete {
        let titles = ["max ms", "cores busy of 32", "received MB", "sent MB"];
        head.extend(titles.map(Column::number));
    }
    let mut table = Table::new(format!("Published ({}), 50,000/s offered", study.cited()), head);
    let optional = |value: Option<f64>| value.map_or_else(|| Entry::weak("–"), |value| Entry::plain(number::published(value)));
    for row in rows {
        let failed = Entry::plain(number::percent(row.failed_percent / 100.0));
        let mut entries = vec![Entry::plain(row.target), Entry::plain(number::whole(row.answered_per_second)), failed];
        if complete {
            entries.push(row.dropped.map_or_else(|| Entry::weak("–"), |dropped| Entry::plain(number::count(dropped))));
            entries.push(optional(row.median_ms));
        }
        entries.push(optional(Some(row.p95_ms)));
        if complete {
            entries.extend([row.max_ms, row.cores_busy, row.received_mb, row.sent_mb].map(optional));
        }
        table.rows.push(entries);
    }
    Block::Table(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_rate_is_passed_or_says_why_not() {
        let report = fixture::report();
        let grid = Grid::of(&report, &report.experiments[0].cells);
        let passed = grid.cell(&grid.rows[0], "nginx").unwrap();
        let with = |figure: Figure, value: f64| {
            let mut cell = passed.clone();
            for round in &mut cell.rounds {
                round.figures.insert(figure, value);
            }
            match rung(&cell, 1000.0) {
                Rung::Passed => "passed".to_owned(),
                Rung::Broke(reasons) => reasons.join(", "),
                other @ (Rung::Limited(_) | Rung::Failed(_) | Rung::Unavailable(_)) => format!("{other:?}"),
            }
        };
        for (figure, value, expected) in [
            (Figure::Failed, 99.0, "passed"),
            (Figure::Failed, 200.0, "1.96 % failed"),
            (Figure::Failed, 2_500.0, "only 80.0 % right, 20.0 % failed"),
            (Figure::LatencyP95Us, 499_999.0, "passed"),
            (Figure::LatencyP95Us, 500_000.0, "p95 500 ms"),
            (Figure::RequestsPerSecond, 950.0, "passed"),
            (Figure::RequestsPerSecond, 949.0, "only 949/s answered"),
            (Figure::Requests, 0.0, "no right answer"),
        ] {
            assert_eq!(with(figure, value), expected, "{figure:?} {value}");
        }
    }

    #[test]
    fn the_ladder_ends_where_somebody_first_breaks() {
        let mut report = fixture::report();
        for cell in report.experiments[0].cells.iter_mut().filter(|cell| cell.participant == "haproxy" && cell.case == "4000/s") {
            for round in &mut cell.rounds {
                round.figures.insert(Figure::LatencyP95Us, 2e6);
            }
        }
        let grid = Grid::of(&report, &report.experiments[0].cells);
        let rates = rates(&grid);
        let check = |name: &str, text: &str, ending: &str| {
            let climb = climb(&grid, &rates, name);
            assert_eq!((climb.text().as_str(), climb.ending().as_str()), (text, ending), "{name}");
        };
        check("haproxy", "1,000/s", "at 4,000/s: p95 2,000 ms");
        check("nginx", "16,000/s", "at 64,000/s failed: it ended with signal 11");
        check("tidegate", "≥ 16,000/s", "at 64,000/s limited by the generator, 0.99 cores of 1");
        check("backend", "≥ 64,000/s", "not broken up to 64,000/s");
        check("angie", "absent", "absent");
    }

    #[test]
    fn only_passed_rates_are_drawn() {
        let report = fixture::report();
        let grid = Grid::of(&report, &report.experiments[0].cells);
        let Block::Charts(charts) = charts(&grid, &rates(&grid), None) else { panic!("no charts") };
        for chart in charts {
            let Chart::Lines(lines) = chart else { panic!("no lines") };
            let points: Vec<_> = lines.series.iter().map(|series| (series.name.as_str(), series.points.len())).collect();
            // Tidegate was limited and nginx failed at the highest of four rates; HAProxy passed it.
            assert_eq!(points, [("tidegate", 3), ("haproxy", 4), ("nginx", 3), ("caddy", 3), ("backend", 4)]);
        }
    }

    #[test]
    fn cases_that_are_no_rates_are_left_out() {
        for (case, expected) in [("1000/s", Some(1000.0)), ("0/s", None), ("NaN/s", None), ("1000", None), ("fast/s", None)] {
            assert_eq!(rate_of(case), expected, "{case}");
        }
    }
}
