//! The bounds that the project has set itself, and how they were kept; behind them the measurements as everywhere.

use crate::report::document::{Block, Column, Entry, Table, Tone};
use crate::report::{number, tables};
use crate::results::judgement::{Judgement, Verdict};
use crate::results::{ExperimentRecord, Report};

pub fn layout(report: &Report, experiment: &ExperimentRecord) -> Vec<Block> {
    let mut blocks = judgements(experiment);
    blocks.extend(tables::generic(report, experiment));
    blocks
}

/// Nothing where there are none.
pub fn judgements(experiment: &ExperimentRecord) -> Vec<Block> {
    if experiment.judgements.is_empty() {
        return Vec::new();
    }
    vec![Block::Paragraph(summary(&experiment.judgements)), Block::Table(table(&experiment.judgements))]
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
            judgement.ratio.map_or_else(|| Entry::weak("–"), |ratio| Entry::plain(ratio_text(ratio, &judgement.target))),
            Entry::plain(&judgement.target),
            verdict(judgement.verdict),
        ]);
    }
    table
}

/// With as many digits as tell it from the bound: `0.75` would look kept where `≤ 0.75 ×` was missed by 0.754.
fn ratio_text(ratio: f64, target: &str) -> String {
    let bound: Option<f64> = target.split(' ').find_map(|word| word.parse().ok());
    let looks_equal = |text: &String| text.parse().ok() == bound;
    let short = format!("{ratio:.2}");
    let mut longer = (3..=5).map(|digits| format!("{ratio:.digits$}"));
    let told_apart = if looks_equal(&short) { longer.find(|text| !looks_equal(text)) } else { None };
    told_apart.unwrap_or(short)
}

fn verdict(verdict: Verdict) -> Entry {
    let (text, tone) = match verdict {
        Verdict::Reached => ("reached", Tone::Plain),
        Verdict::Missed => ("missed", Tone::Bad),
        Verdict::Unknown => ("not measured", Tone::Weak),
    };
    Entry { tone, ..Entry::plain(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_told_from_its_bound() {
        for (ratio, target, expected) in [
            (0.754, "≤ 0.75 ×", "0.754"),
            (0.750_4, "≤ 0.75 ×", "0.7504"),
            (0.75, "≤ 0.75 ×", "0.75"),
            (0.768, "≤ 0.75 ×", "0.77"),
            (0.999_9, "≤ 1.00 ×", "0.9999"),
            (0.5, "4", "0.50"),
        ] {
            assert_eq!(ratio_text(ratio, target), expected, "{ratio} {target}");
        }
    }
}
