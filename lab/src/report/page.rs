//! The document through the templates in `page/`: one HTML page that loads nothing, and the same as Markdown without
//! charts and without what the page folds away. Every text is escaped as its template's kind wants it, wherever it came
//! from; templates say where that is not enough.

use crate::report::document::Block;
use minijinja::{AutoEscape, Environment, Error, Output, State, UndefinedBehavior, Value, context, escape_formatter};

/// Names and texts. What is no Markdown, style or script is HTML.
const TEMPLATES: [(&str, &str); 6] = [
    ("report.html", include_str!("page/report.html")),
    ("blocks.html", include_str!("page/blocks.html")),
    ("charts.html", include_str!("page/charts.html")),
    ("page.css", include_str!("page/page.css")),
    ("page.js", include_str!("page/page.js")),
    ("report.md", include_str!("page/report.md")),
];

pub fn html(title: &str, blocks: &[Block]) -> String {
    render("report.html", title, blocks)
}

pub fn markdown(title: &str, blocks: &[Block]) -> String {
    // One newline at the end, as every text file has.
    format!("{}\n", render("report.md", title, blocks).trim_end())
}

fn render(name: &str, title: &str, blocks: &[Block]) -> String {
    let environment = environment();
    let template = environment.get_template(name).expect("a template of this program");
    template.render(context! { title, blocks }).unwrap_or_else(|error| panic!("{name}: {error:#}"))
}

pub fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_keep_trailing_newline(true);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_auto_escape_callback(|name| match name.rsplit_once('.') {
        Some((_, "css" | "js")) => AutoEscape::None,
        Some((_, "md")) => AutoEscape::Custom("Markdown"),
        _ => AutoEscape::Html,
    });
    environment.set_formatter(written);
    environment.add_filter("at", |coordinate: f64| format!("{coordinate:.1}"));
    environment.add_filter("cell", |text: &str| Value::from_safe_string(cell(text)));
    environment.add_filter("fenced", |code: &str| Value::from_safe_string(code.trim_end().to_owned()));
    for (name, text) in TEMPLATES {
        environment.add_template(name, text).unwrap_or_else(|error| panic!("{name}: {error:#}"));
    }
    environment
}

fn written(output: &mut Output, state: &State, value: &Value) -> Result<(), Error> {
    match (state.auto_escape(), value.as_str()) {
        (AutoEscape::Custom(_), Some(text)) if !value.is_safe() => Ok(output.write_str(&escape(text))?),
        (AutoEscape::Custom(_), _) => Ok(write!(output, "{value}")?),
        _ => escape_formatter(output, state, value),
    }
}

/// Text of others can neither leave its cell of a Markdown table nor become an element.
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

    #[test]
    fn text_is_escaped_and_code_marked() {
        for (text, expected) in [
            ("a < b & \"c\" 'd'", "a &lt; b &amp; &quot;c&quot; &#x27;d&#x27;"),
            ("run `x <y>` now", "run <code>x &lt;y&gt;</code> now"),
            ("an odd ` sign", "an odd ` sign"),
        ] {
            let page = html("t", &[Block::paragraph(text)]);
            assert!(page.contains(&format!("<p>{expected}</p>\n")), "{page}");
        }
    }
}
