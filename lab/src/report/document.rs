//! What a report says, before it is HTML or Markdown: headings, tables, charts. The layouts of the experiments build
//! it. No text here is escaped; the templates in `page/` do that, for everything (`page.rs`).

use crate::report::chart::Chart;
use crate::report::number;
use crate::results::figure::{Better, Figure};
use crate::results::{Cell, Outcome};
use serde::Serialize;

#[derive(Debug, Serialize)]
#[serde(tag = "kind", content = "content", rename_all = "lowercase")]
pub enum Block {
    /// Headings of level 2 have an anchor and stand in the table of contents.
    Heading {
        level: u8,
        text: String,
        anchor: String,
    },
    /// In all texts, `…` is a code span.
    Paragraph(String),
    /// Must not be overlooked.
    Notice(String),
    List(Vec<String>),
    Table(Table),
    /// Only on the page; every value of a chart stands in a table too.
    Charts(Vec<Chart>),
    Code(String),
    /// Only on the page, folded away.
    Fold {
        summary: String,
        blocks: Vec<Block>,
    },
    /// Beside each other where there is room.
    Beside(Vec<Block>),
}

#[derive(Debug, Serialize)]
pub struct Table {
    pub caption: String,
    pub head: Vec<Column>,
    /// The first entry of each row is its head.
    pub rows: Vec<Vec<Entry>>,
    pub notes: Notes,
}

#[derive(Debug, Serialize)]
pub struct Column {
    pub title: String,
    pub kind: ColumnKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnKind {
    Text,
    Number,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub text: String,
    /// Smaller, after or below the text.
    pub aside: Option<String>,
    /// The number of a footnote, from one.
    pub note: Option<usize>,
    pub tone: Tone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    Plain,
    Best,
    /// Not a figure.
    Weak,
    Bad,
}

/// The footnotes of one table. The same text is one note.
#[derive(Debug, Default, Serialize)]
pub struct Notes(pub Vec<String>);

impl Block {
    pub fn heading(level: u8, text: impl Into<String>) -> Block {
        let text = text.into();
        Block::Heading { level, anchor: anchor(&text), text }
    }

    pub fn paragraph(text: impl Into<String>) -> Block {
        Block::Paragraph(text.into())
    }
}

impl Table {
    pub fn new(caption: impl Into<String>, head: Vec<Column>) -> Table {
        Table { caption: caption.into(), head, rows: Vec::new(), notes: Notes::default() }
    }
}

impl Column {
    pub fn text(title: impl Into<String>) -> Column {
        Column { title: title.into(), kind: ColumnKind::Text }
    }

    pub fn number(title: impl Into<String>) -> Column {
        Column { title: title.into(), kind: ColumnKind::Number }
    }
}

impl Notes {
    pub fn mark(&mut self, text: impl Into<String>) -> usize {
        let text = text.into();
        match self.0.iter().position(|known| *known == text) {
            Some(index) => index + 1,
            None => {
                self.0.push(text);
                self.0.len()
            }
        }
    }
}

impl Entry {
    pub fn plain(text: impl Into<String>) -> Entry {
        Entry { text: text.into(), aside: None, note: None, tone: Tone::Plain }
    }

    pub fn weak(text: impl Into<String>) -> Entry {
        Entry { tone: Tone::Weak, ..Entry::plain(text) }
    }

    pub fn bad(text: impl Into<String>) -> Entry {
        Entry { tone: Tone::Bad, ..Entry::plain(text) }
    }

    /// For a figure that an existing cell does not have: why it does not.
    pub fn of_outcome(outcome: &Outcome, notes: &mut Notes) -> Entry {
        match outcome {
            Outcome::Measured => Entry::weak("–"),
            Outcome::Limited { by } => {
                let note = notes.mark(format!("Withheld: limited by {by}, so this is not the proxy's."));
                Entry { note: Some(note), ..Entry::weak("–") }
            }
            Outcome::Failed { reason } => Entry { note: Some(notes.mark(format!("Failed: {reason}"))), ..Entry::bad("failed") },
            Outcome::Unavailable { reason } => {
                Entry { note: Some(notes.mark(format!("Not available: {reason}"))), ..Entry::weak("n/a") }
            }
        }
    }

    /// The median, with the lowest and highest round where there are several.
    /// For whom there is no cell, the word that says why.
    pub fn of_figure(cell: Result<&Cell, &'static str>, figure: Figure, notes: &mut Notes) -> Entry {
        let cell = match cell {
            Ok(cell) => cell,
            Err(why) => return Entry::weak(why),
        };
        match cell.summary(figure) {
            Some(summary) => {
                let text = number::figure(figure, summary.median);
                let range = number::range(figure, summary.min, summary.max);
                // Rounds that are written alike need not be written twice.
                let is_wide = range != format!("{text}–{text}");
                Entry { aside: is_wide.then_some(range), ..Entry::plain(text) }
            }
            None => Entry::of_outcome(&cell.outcome, notes),
        }
    }

    /// Without the rounds, for wide tables.
    pub fn of_median(cell: Result<&Cell, &'static str>, figure: Figure, notes: &mut Notes) -> Entry {
        Entry { aside: None, ..Entry::of_figure(cell, figure, notes) }
    }
}

/// Where a whole row says the same, as with `failed`, once is enough.
pub fn say_once(entries: &mut [Entry]) {
    for index in (1..entries.len()).rev() {
        let is_repeated = entries[index] == entries[index - 1];
        if is_repeated && matches!(entries[index].text.as_str(), "absent" | "not asked" | "failed" | "n/a") {
            entries[index] = Entry::weak("–");
        }
    }
}

/// Marks the best of a row or column. Several that are equal are all the best; a single one is not marked, as it was
/// best of nobody.
pub fn mark_best<'a>(candidates: impl IntoIterator<Item = (&'a mut Entry, Option<f64>)>, better: Better) {
    let candidates: Vec<_> = candidates.into_iter().filter_map(|(entry, value)| Some((entry, value?))).collect();
    let values = candidates.iter().map(|(_, value)| *value);
    let best = match better {
        Better::Neither => None,
        Better::Lower => values.min_by(f64::total_cmp),
        Better::Higher => values.max_by(f64::total_cmp),
    };
    if candidates.len() < 2 {
        return;
    }
    for (entry, value) in candidates {
        if Some(value) == best {
            entry.tone = Tone::Best;
        }
    }
}

/// Letters and digits, the rest as single hyphens.
fn anchor(text: &str) -> String {
    let words = text.to_lowercase();
    let words: Vec<_> = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("-")
}
