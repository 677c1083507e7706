//! What holds for every text: loading never panics, formatting changes blanks only and is done after one time.
//! The texts are arbitrary, and valid configurations that were cut up and put together again.

use std::fs;
use std::path::Path;
use tidegate_config::{Environment, format_text, load_with, render};

/// Pieces that are worth putting anywhere.
const PIECES: [&str; 40] = [
    "{",
    "}",
    "\"",
    "\n",
    " ",
    ";",
    "/-",
    "//",
    "/*",
    "*/",
    "\\",
    "=",
    "#true",
    "#\"",
    "\"#",
    "\"\"\"",
    "(",
    ")",
    "{env.X}",
    "{file.",
    "{{",
    "$1",
    "~(",
    "/*\"",
    "*",
    "::",
    "\u{e9}",
    "\u{2028}",
    "\t",
    "\r\n",
    "0",
    "-1",
    "1e9",
    "site ",
    "route ",
    "match not ",
    "proxy ",
    "tls ",
    "pool ",
    "#null",
];

fn corpus() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    for directory in [root.join("tests/diagnostics"), root.join("../../examples")] {
        let mut paths: Vec<_> = fs::read_dir(directory).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "kdl"));
        texts.extend(paths.iter().map(|path| fs::read_to_string(path).expect("a text")));
    }
    texts
}

/// Which text, and what is done to it: where, how much is taken out there, and which piece or which other text's part
/// is put in.
type Recipe = (u8, Vec<(u16, u8, u8)>);

fn mutated(corpus: &[String], (which, changes): &Recipe) -> String {
    let mut text = corpus[*which as usize % corpus.len()].clone();
    // With many changes nothing is left that could be loaded.
    for (at, removed, inserted) in changes.iter().take(1 + *which as usize % 4) {
        let start = boundary(&text, *at as usize % (text.len() + 1));
        let end = boundary(&text, (start + *removed as usize / 4).min(text.len())).max(start);
        let piece = match *inserted as usize {
            index if index < PIECES.len() => PIECES[index].to_string(),
            index => {
                let other = &corpus[index % corpus.len()];
                let from = boundary(other, (*at as usize * 31) % (other.len() + 1));
                let to = boundary(other, (from + index).min(other.len())).max(from);
                other[from..to].to_string()
            }
        };
        text.replace_range(start..end, &piece);
    }
    text
}

fn boundary(text: &str, mut offset: usize) -> usize {
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

fn load(text: &str) -> tidegate_config::Loaded {
    let variables = [("X".to_string(), "s3cret\n".to_string())].into();
    load_with("test.kdl", text, Path::new("/nonexistent"), &Environment::Given(variables))
}

fn check(text: &str) {
    let loaded = load(text);
    let shown = render(&loaded.diagnostics, &loaded.files, false);
    assert!(!shown.contains("s3cret") || text.contains("s3cret"), "a secret is shown: {shown}");
    assert_eq!(loaded.configuration.is_none(), loaded.has_errors());
    let Ok(formatted) = format_text("test.kdl", text) else { return };
    let again = format_text("test.kdl", &formatted).expect("what was formatted can be read");
    assert_eq!(formatted, again, "formatting twice differs from once");
    let after = load(&formatted);
    assert_eq!(loaded.configuration, after.configuration, "formatting changed the meaning");
    let codes = |loaded: &tidegate_config::Loaded| -> Vec<&str> {
        let mut codes: Vec<&str> = loaded.diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
        codes.sort_unstable();
        codes
    };
    assert_eq!(codes(&loaded), codes(&after), "formatting changed what is wrong");
}

#[test]
fn arbitrary_texts() {
    bolero::check!().with_type::<String>().for_each(|text: &String| check(text));
}

#[test]
fn configurations_cut_up_and_put_together_again() {
    let corpus = corpus();
    bolero::check!().with_type::<Recipe>().for_each(|recipe: &Recipe| check(&mutated(&corpus, recipe)));
}

#[test]
fn configurations_as_they_are() {
    for text in corpus() {
        check(&text);
    }
}
