//! The frame that every experiment has in the report: its words, the layout of its figures, who is missing, spreads,
//! configurations and loads. What layouts are made of is in `tables`.

use crate::report::document::{Block, Column, Entry, Table, say_once};
use crate::report::grid;
use crate::report::tables::{generic, suffix};
use crate::report::{change, equalised, ladder, number, targets, under_change};
use crate::results::figure::Figure;
use crate::results::{Configuration, ExperimentRecord, PeerState, Report};

/// The whole section of an experiment.
pub fn of(report: &Report, experiment: &ExperimentRecord) -> Vec<Block> {
    let mut blocks = vec![Block::heading(2, format!("{}: {}", experiment.name, experiment.title))];
    blocks.extend(experiment.description.iter().map(Block::paragraph));
    blocks.extend(rounds(experiment));
    if !experiment.remarks.is_empty() {
        blocks.push(Block::heading(3, "Remarks"));
        blocks.push(Block::List(experiment.remarks.clone()));
    }
    if experiment.cells.is_empty() && experiment.judgements.is_empty() {
        blocks.push(Block::Notice("Nothing was measured here.".to_owned()));
    } else {
        blocks.extend(match experiment.name.as_str() {
            "e1" | "e1-nginx" => ladder::layout(report, experiment),
            "e2" => equalised::layout(report, experiment),
            "e3" | "kubernetes" => under_change::layout(report, experiment),
            "change" => change::layout(report, experiment),
            "targets" | "content" | "certificates" => targets::layout(report, experiment),
            _ => generic(report, experiment),
        });
    }
    blocks.extend(missing(report, experiment));
    if !experiment.fairness.is_empty() {
        blocks.push(Block::heading(3, "What is equal, and what cannot be"));
        blocks.push(Block::List(experiment.fairness.clone()));
    }
    blocks.extend(spreads(report, experiment));
    blocks.extend(configurations(experiment));
    blocks.extend(loads(experiment));
    let took = number::duration(experiment.seconds);
    let took = if experiment.began.is_empty() {
        format!("This experiment took {took}.")
    } else {
        // A report may hold experiments of several runs.
        format!("Measured {} in {took} with `{}`.", experiment.began, experiment.command)
    };
    blocks.push(Block::Paragraph(took));
    blocks
}

/// The peers that have no cell in this experiment, and how those that could not be had are had.
fn missing(report: &Report, experiment: &ExperimentRecord) -> Vec<Block> {
    // The variants of one peer are no comparison of peers.
    if experiment.name == "e1-nginx" {
        return Vec::new();
    }
    let cells: Vec<_> = experiment.cells.iter().collect();
    let names = grid::missing(report, &cells);
    let (mut absent, mut not_asked) = (Vec::new(), Vec::new());
    for peer in report.peers.iter().filter(|peer| names.contains(&peer.name.as_str())) {
        match &peer.state {
            PeerState::Found => not_asked.push(peer.name.clone()),
            PeerState::Absent { how_to_get } => absent.push(format!("{} (to get it: {how_to_get})", peer.name)),
            PeerState::Broken { reason } => absent.push(format!("{} (does not run: {reason})", peer.name)),
            PeerState::Forbidden { reason } => absent.push(format!("{} (not measured here: {reason})", peer.name)),
        }
    }
    let line = |title: &str, names: Vec<String>, separator: &str| {
        (!names.is_empty()).then(|| Block::Paragraph(format!("{title}: {}.", names.join(separator))))
    };
    let absent = line("Absent", absent, "; ");
    absent.into_iter().chain(line("Not in this experiment", not_asked, ", ")).collect()
}

/// Whoever reads a figure must know whether it was measured more than once.
fn rounds(experiment: &ExperimentRecord) -> Option<Block> {
    let rounds = || experiment.cells.iter().map(|cell| cell.rounds.len()).filter(|rounds| *rounds > 0);
    let (all, single) = (rounds().count(), rounds().filter(|rounds| *rounds == 1).count());
    let text = match single {
        0 => return None,
        _ if single == all => "Everything here was measured once: counts and figures of one round have no spread.".to_owned(),
        _ => format!("{single} of {all} cells were measured once: figures without a range beside them have no known spread."),
    };
    Some(Block::Paragraph(text))
}

pub fn is_of_one_round(experiment: &ExperimentRecord) -> bool {
    let mut rounds = experiment.cells.iter().map(|cell| cell.rounds.len()).filter(|rounds| *rounds > 0).peekable();
    rounds.peek().is_some() && rounds.all(|rounds| rounds == 1)
}

/// Everything that was measured, with the lowest and highest round of each figure.
fn spreads(report: &Report, experiment: &ExperimentRecord) -> Option<Block> {
    let mut blocks = vec![Block::paragraph("Median, and the lowest and highest round below it.")];
    for (flavour, grid) in grid::by_flavour(report, experiment) {
        let cells = grid.cells();
        let mut figures: Vec<Figure> =
            cells.iter().flat_map(|cell| &cell.rounds).flat_map(|round| round.figures.keys().copied()).collect();
        figures.sort_unstable();
        figures.dedup();
        if figures.is_empty() {
            continue;
        }
        let mut head = vec![Column::text("case"), Column::text("participant"), Column::number("rounds")];
        head.extend(figures.iter().map(|figure| Column::number(figure.title())));
        let mut table = Table::new(format!("All figures and their spread{}", suffix(flavour)), head);
        for row in &grid.rows {
            for name in &grid.participants {
                let Some(cell) = grid.cell(row, name) else { continue };
                let mut entries =
                    vec![Entry::plain(&row.label), Entry::plain(*name), Entry::plain(cell.rounds.len().to_string())];
                entries.extend(figures.iter().map(|figure| Entry::of_figure(Ok(cell), *figure, &mut table.notes)));
                say_once(&mut entries);
                table.rows.push(entries);
            }
        }
        blocks.push(Block::Table(table));
    }
    (blocks.len() > 1).then(|| Block::Fold { summary: "All figures and their spread over the rounds".to_owned(), blocks })
}

fn configurations(experiment: &ExperimentRecord) -> Option<Block> {
    let folds = experiment.configurations.iter().map(configuration).collect::<Vec<_>>();
    (!folds.is_empty())
        .then(|| Block::Fold { summary: "Configurations and commands of the participants".to_owned(), blocks: folds })
}

fn configuration(configuration: &Configuration) -> Block {
    let mut blocks = Vec::new();
    if !configuration.note.is_empty() {
        blocks.push(Block::paragraph(&configuration.note));
    }
    if !configuration.command.is_empty() {
        blocks.push(Block::Code(configuration.command.clone()));
    }
    for (name, text) in &configuration.files {
        blocks.push(Block::Paragraph(format!("`{name}`")));
        blocks.push(Block::Code(text.clone()));
    }
    Block::Fold { summary: format!("{}, {}", configuration.participant, configuration.flavour.title()), blocks }
}

/// The generator's arguments, where they are the same for all participants once.
fn loads(experiment: &ExperimentRecord) -> Option<Block> {
    let mut lines: Vec<String> = Vec::new();
    for cell in experiment.cells.iter().filter(|cell| !cell.load.is_empty()) {
        let line = format!("{} {}: {}", cell.case, cell.placement.letter(), cell.load);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let code = Block::Code(lines.join("\n"));
    (!lines.is_empty()).then(|| Block::Fold { summary: "Loads, to repeat them by hand".to_owned(), blocks: vec![code] })
}
