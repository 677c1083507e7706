//! The document as Markdown: the same tables, without charts and without what the page folds away.
//! Text of others is escaped so far that it can neither leave its table cell nor become an element.

use crate::report::document::{Block, ColumnKind, Entry, Table, Tone};

pub fn text(title: &str, blocks: &[Block]) -> String {
    let mut text = format!("# {}\n\n", escape(title));
    for block in blocks {
        push(&mut text, block);
    }
    // One newline at the end, as every text file has.
    format!("{}\n", text.trim_end())
}

fn push(text: &mut String, block: &Block) {
    match block {
        Block::Heading { level, text: heading, .. } => {
            *text += &format!("{} {}\n\n", "#".repeat(usize::from(*level)), escape(heading));
        }
        Block::Paragraph(paragraph) => *text += &format!("{}\n\n", escape(paragraph)),
        Block::Notice(notice) => *text += &format!("> **{}**\n\n", escape(notice)),
        Block::List(items) => {
            for item in items {
                *text += &format!("- {}\n", escape(item));
            }
            *text += "\n";
        }
        Block::Table(table) => push_table(text, table),
        Block::Code(code) => *text += &format!("```\n{}\n```\n\n", code.trim_end()),
        Block::Charts(_) | Block::Fold { .. } => {}
        Block::Beside(blocks) => blocks.iter().for_each(|block| push(text, block)),
    }
}

fn push_table(text: &mut String, table: &Table) {
    *text += &format!("{}:\n\n|", escape(&table.caption));
    for column in &table.head {
        *text += &format!(" {} |", cell(&column.title));
    }
    *text += "\n|";
    for column in &table.head {
        *text += match column.kind {
            ColumnKind::Text => "---|",
            ColumnKind::Number => "--:|",
        };
    }
    *text += "\n";
    for row in &table.rows {
        *text += "|";
        for entry in row {
            *text += &format!(" {} |", content(entry));
        }
        *text += "\n";
    }
    *text += "\n";
    for (index, note) in table.notes.0.iter().enumerate() {
        *text += &format!("{}. {}\n", index + 1, escape(note));
    }
    if !table.notes.0.is_empty() {
        *text += "\n";
    }
}

fn content(entry: &Entry) -> String {
    let mut text = cell(&entry.text);
    match entry.tone {
        Tone::Best | Tone::Bad if !text.is_empty() => text = format!("**{text}**"),
        Tone::Plain | Tone::Best | Tone::Weak | Tone::Bad => {}
    }
    if let Some(note) = entry.note {
        text += &format!(" [{note}]");
    }
    if let Some(aside) = &entry.aside {
        text += &format!(" ({})", cell(aside));
    }
    text
}

pub fn cell(text: &str) -> String {
    escape(text).replace('|', "\\|")
}

/// On one line, and without the start of an element. Code spans show what they hold, so they stay as they are.
pub fn escape(text: &str) -> String {
    let line = text.replace(['\n', '\r'], " ");
    let pieces: Vec<_> = line.split('`').collect();
    let is_code = |index: usize| pieces.len() % 2 == 1 && index % 2 == 1;
    let piece = |(index, piece): (usize, &&str)| {
        if is_code(index) { (*piece).to_owned() } else { piece.replace('&', "&amp;").replace('<', "&lt;") }
    };
    pieces.iter().enumerate().map(piece).collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_in_its_cell_and_is_no_element() {
        for (text, expected) in [
            ("1×250 | steady", "1×250 \\| steady"),
            ("<script>&\nx", "&lt;script>&amp; x"),
            ("run `a < b` & c", "run `a < b` &amp; c"),
            ("odd ` <", "odd ` &lt;"),
        ] {
            assert_eq!(cell(text), expected);
        }
    }
}
