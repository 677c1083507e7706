//! `tidegate.kdl(5)`: the reference of the configuration as a manual page, from its Markdown. Headings become sections,
//! tables lists of terms, links their words.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

pub fn from_markdown(markdown: &str, version: &str) -> String {
    let mut page = Page::default();
    page.out += &format!(".TH TIDEGATE.KDL 5 \"\" \"tidegate {version}\" \"File formats\"\n");
    page.out += ".SH NAME\ntidegate.kdl \\- the configuration of tidegate\n.SH DESCRIPTION\n";
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        page.take(event);
    }
    page.out += ".SH \"SEE ALSO\"\n.BR tidegate (1),\n.BR tidegate\\-check (1)\n";
    page.out
}

#[derive(Default)]
struct Page {
    out: String,
    /// Text of the paragraph, heading or cell that is being read.
    text: String,
    cells: Vec<String>,
    is_literal: bool,
    /// The title of the document, which the page has as its name.
    is_title: bool,
}

impl Page {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.begin(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.is_literal => self.out += &literal(&text),
            Event::Text(text) => self.text += &escaped(&text),
            Event::Code(code) => self.text += &format!("\\fB{}\\fR", escaped(&code)),
            Event::SoftBreak | Event::HardBreak => self.text.push(' '),
            Event::Html(_)
            | Event::InlineHtml(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::Rule
            | Event::TaskListMarker(_) => {}
        }
    }

    fn begin(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => self.is_title = *level == HeadingLevel::H1,
            Tag::CodeBlock(_) => {
                self.out += ".PP\n.RS 4\n.nf\n";
                self.is_literal = true;
            }
            Tag::Emphasis => self.text += "\\fI",
            Tag::Strong => self.text += "\\fB",
            Tag::Item => self.out += ".IP \\(bu 2\n",
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => {
                let title = std::mem::take(&mut self.text);
                if !self.is_title {
                    let macro_name = if level == HeadingLevel::H2 { "SH" } else { "SS" };
                    self.out += &format!(".{macro_name} \"{}\"\n", title.replace('"', "\\(dq"));
                }
                self.is_title = false;
            }
            TagEnd::Paragraph => {
                let text = std::mem::take(&mut self.text);
                // The first paragraph of an item follows its mark.
                let follows_mark = self.out.ends_with(".IP \\(bu 2\n");
                self.out += &if follows_mark { format!("{}\n", line(&text)) } else { format!(".PP\n{}\n", line(&text)) };
            }
            TagEnd::Item => {
                let text = std::mem::take(&mut self.text);
                if !text.is_empty() {
                    self.out += &format!("{}\n", line(&text));
                }
            }
            TagEnd::CodeBlock => {
                self.out += ".fi\n.RE\n";
                self.is_literal = false;
            }
            TagEnd::TableCell => self.cells.push(std::mem::take(&mut self.text)),
            TagEnd::TableHead => self.cells.clear(),
            TagEnd::TableRow => self.row(),
            TagEnd::Emphasis | TagEnd::Strong => self.text += "\\fR",
            _ => {}
        }
    }

    /// The first cell is the term, the others say what it is.
    fn row(&mut self) {
        let cells = std::mem::take(&mut self.cells);
        let Some((term, rest)) = cells.split_first() else { return };
        let rest: Vec<&str> = rest.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
        self.out += &format!(".TP\n{}\n{}\n", line(term), line(&rest.join(". ")));
    }
}

/// A line that begins with a dot or an apostrophe would be a request.
fn line(text: &str) -> String {
    let text = text.trim();
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text.to_owned() }
}

fn literal(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|part| {
            let part = escaped(part);
            if part.starts_with(['.', '\'']) { format!("\\&{part}") } else { part }
        })
        .collect()
}

/// Letters beyond ASCII by number, as groff_char(7) has them: what reads the page may not know its encoding.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '\\' => out += "\\e",
            '-' => out += "\\-",
            '~' => out += "\\(ti",
            '^' => out += "\\(ha",
            '`' => out += "\\(ga",
            letter if letter.is_ascii() => out.push(letter),
            letter => out += &format!("\\[u{:04X}]", u32::from(letter)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::from_markdown;

    #[test]
    fn markdown_becomes_a_page() {
        let check = |markdown: &str, expected: &str| {
            let page = from_markdown(markdown, "1.0");
            let (_, body) = page.split_once(".SH DESCRIPTION\n").unwrap();
            let (body, _) = body.split_once(".SH \"SEE ALSO\"").unwrap();
            assert_eq!(body, expected, "{markdown}");
        };
        check("# Title\n\nA `b-c` [link](x.md).\n", ".PP\nA \\fBb\\-c\\fR link.\n");
        check("## Two\n\n### `three`\n", ".SH \"Two\"\n.SS \"\\fBthree\\fR\"\n");
        check("```kdl\nsite \"a\" {\n.x\n```\n", ".PP\n.RS 4\n.nf\nsite \"a\" {\n\\&.x\n.fi\n.RE\n");
        check("| a | b |\n| --- | --- |\n| `x` | *y* |\n", ".TP\n\\fBx\\fR\n\\fIy\\fR\n");
        check("- one\n- two\n", ".IP \\(bu 2\none\n.IP \\(bu 2\ntwo\n");
        check("a … b\n", ".PP\na \\[u2026] b\n");
        check(".dot\n", ".PP\n\\&.dot\n");
        check("a\\\\b\n", ".PP\na\\eb\n");
    }
}
