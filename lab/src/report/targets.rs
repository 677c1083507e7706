//! The bounds that the project has set itself, and how they were kept; behind them the measurements as everywhere.

use crate::report::document::{Block, Column, Entry, Table, Tone};
use crate::report::{number, section};
use crate::results::judgement::{Judgement, Verdict};
use crate::results::{ExperimentRecord, Report};

pub fn layout(report: &Report, experiment: &ExperimentRecord) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !experiment.judgements.is_empty() {
        blocks.push(Block::Paragraph(summary(&experiment.judgements)));
        blocks.push(Block::Table(table(&experiment.judgements)));
    }
    blocks.extend(section::generic(report, experiment));
    blocks
}

fn summary(judgements: &[Judgement]) -> String {
    let count = |verdict| judgements.iter().filter(|judgement| judgement.verdict == verdict).count();
    let (reached, missed, unknown) = (count(Verdict::Reached), count(Verdict::Missed), count(Verdict::Unknown));
    format!("Of {} targets {reached} were reached, {missed} missed, and {unknown} not measured.", judgements.len())
}

fn table(judgements: &[Judgement]) -> Table {
    let head = vec![
        Column::text("subject"),
        Column::text("figure"),
        Column::number("tidegate"),
        Column::number("compared with"),
        Column::number("ratio"),
        Column::number("target"),
        Column::text("verdict"),
    ];
    let mut table = Table::new("Targets", head);
    let optional = |value: Option<f64>| value.map_or_else(|| Entry::weak("–"), |value| Entry::plain(number::short(value)));
    for judgement in judgements {
        let reference = match &judgement.reference {
            Some((name, value)) => Entry::plain(format!("{} ({name})", number::short(*value))),
            None => Entry::weak("–"),
        };
        table.rows.push(vec![
            Entry::plain(&judgement.subject),
            Entry::plain(&judgement.figure),
            optional(judgement.ours),
            reference,
            judgement.ratio.map_or_else(|| Entry::weak("–"), |ratio| Entry::plain(format!("{ratio:.2}"))),
            Entry::plain(&judgement.target),
            verdict(judgement.verdict),
        ]);
    }
    table
}

fn verdict(verdict: Verdict) -> Entry {
    let (text, tone) = match verdict {
        Verdict::Reached => ("reached", Tone::Plain),
        Verdict::Missed => ("missed", Tone::Bad),
        Verdict::Unknown => ("not measured", Tone::Weak),
    };
    Entry { tone, ..Entry::plain(text) }
}
