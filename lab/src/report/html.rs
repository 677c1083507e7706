//! The document as one page that loads nothing: style, the few lines of script and the charts are inside.
//! Every text is escaped here, wherever it came from.

use crate::report::document::{Block, ColumnKind, Entry, Table, Tone};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// With as many columns, a table is set smaller and closer, so that it fits a screen of 1280 pixels.
const WIDE_MIN: usize = 9;

/// Whose rows and columns stand out.
const OURS: &str = "tidegate";

pub fn page(title: &str, blocks: &[Block]) -> String {
    let mut page = Page { text: String::new(), charts: 0 };
    for block in blocks {
        page.block(block);
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<header><button id=\"theme\" type=\"button\" hidden>Light or dark</button></header>\n\
         <h1>{}</h1>\n{}<main>\n{}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        escape(title),
        escape(title),
        contents(blocks),
        page.text
    )
}

fn contents(blocks: &[Block]) -> String {
    let mut text = "<nav aria-label=\"Contents\"><ul>\n".to_owned();
    for block in blocks {
        if let Block::Heading { level: 2, text: heading, anchor } = block {
            text += &format!("<li><a href=\"#{}\">{}</a></li>\n", escape(anchor), inline(heading));
        }
    }
    text + "</ul></nav>\n"
}

struct Page {
    text: String,
    charts: usize,
}

impl Page {
    fn block(&mut self, block: &Block) {
        match block {
            Block::Heading { level, text, anchor } => {
                let id = if *level == 2 { format!(" id=\"{}\"", escape(anchor)) } else { String::new() };
                self.text += &format!("<h{level}{id}>{}</h{level}>\n", inline(text));
            }
            Block::Paragraph(text) => self.text += &format!("<p>{}</p>\n", inline(text)),
            Block::Notice(text) => self.text += &format!("<p class=\"notice\" role=\"note\">{}</p>\n", inline(text)),
            Block::List(items) => {
                self.text += "<ul>\n";
                for item in items {
                    self.text += &format!("<li>{}</li>\n", inline(item));
                }
                self.text += "</ul>\n";
            }
            Block::Table(table) => self.table(table),
            Block::Charts(charts) => {
                self.text += "<div class=\"charts\">\n";
                for chart in charts {
                    self.charts += 1;
                    let svg = chart.svg(self.charts);
                    self.text += &format!("<figure><figcaption>{}</figcaption>\n{svg}</figure>\n", inline(chart.title()));
                }
                self.text += "</div>\n";
            }
            Block::Code(text) => self.text += &format!("<pre><code>{}</code></pre>\n", escape(text)),
            Block::Fold { summary, blocks } => {
                self.text += &format!("<details>\n<summary>{}</summary>\n", inline(summary));
                for block in blocks {
                    self.block(block);
                }
                self.text += "</details>\n";
            }
            Block::Beside(blocks) => {
                self.text += "<div class=\"beside\">\n";
                for block in blocks {
                    self.text += "<div>\n";
                    self.block(block);
                    self.text += "</div>\n";
                }
                self.text += "</div>\n";
            }
        }
    }

    fn table(&mut self, table: &Table) {
        // A wide table scrolls by itself, also with the keyboard.
        self.text += "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"";
        self.text += &escape(&table.caption);
        let wide = if table.head.len() >= WIDE_MIN { " class=\"wide\"" } else { "" };
        self.text += &format!("\"><table{wide}>\n<caption>{}</caption>\n<thead><tr>", inline(&table.caption));
        for column in &table.head {
            let ours = if column.title == OURS { " ours" } else { "" };
            self.text += &format!("<th scope=\"col\" class=\"{}{ours}\">{}</th>", class(column.kind), inline(&column.title));
        }
        self.text += "</tr></thead>\n<tbody>\n";
        for row in &table.rows {
            let ours = row.first().is_some_and(|entry| entry.text == OURS);
            self.text += if ours { "<tr class=\"ours\">" } else { "<tr>" };
            for (index, (entry, column)) in row.iter().zip(&table.head).enumerate() {
                if index == 0 {
                    self.text += &format!("<th scope=\"row\">{}</th>", content(entry));
                } else {
                    let ours = if column.title == OURS { " ours" } else { "" };
                    self.text +=
                        &format!("<td class=\"{}{ours}{}\">{}</td>", class(column.kind), tone(entry.tone), content(entry));
                }
            }
            self.text += "</tr>\n";
        }
        self.text += "</tbody>\n</table></div>\n";
        if !table.notes.0.is_empty() {
            self.text += "<ol class=\"notes\">\n";
            for note in &table.notes.0 {
                self.text += &format!("<li>{}</li>\n", inline(note));
            }
            self.text += "</ol>\n";
        }
    }
}

fn class(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Text => "text",
        ColumnKind::Number => "number",
    }
}

fn tone(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Best => " best",
        Tone::Weak => " weak",
        Tone::Bad => " bad",
    }
}

fn content(entry: &Entry) -> String {
    let mut text = inline(&entry.text);
    if let Some(note) = entry.note {
        text += &format!("<sup>{note}</sup>");
    }
    if let Some(aside) = &entry.aside {
        text += &format!(" <small>{}</small>", inline(aside));
    }
    text
}

/// Escaped, with `…` as code.
fn inline(text: &str) -> String {
    let pieces: Vec<_> = text.split('`').collect();
    if pieces.len() % 2 == 0 {
        // An unpaired sign is only a sign.
        return escape(text);
    }
    let piece = |(index, piece): (usize, &&str)| {
        if index % 2 == 1 { format!("<code>{}</code>", escape(piece)) } else { escape(piece) }
    };
    pieces.iter().enumerate().map(piece).collect()
}

pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_code_marked() {
        for (text, expected) in [
            ("a < b & \"c\" 'd'", "a &lt; b &amp; &quot;c&quot; &#39;d&#39;"),
            ("run `x <y>` now", "run <code>x &lt;y&gt;</code> now"),
            ("an odd ` sign", "an odd ` sign"),
        ] {
            assert_eq!(inline(text), expected);
        }
    }
}
