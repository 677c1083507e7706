//! The index of what holds the lines of the security documents: every row of their tables is in it, every paragraph
//! of the one that describes defaults, and what it names is there. And how many hostile inputs the tree has, counted
//! from the tree itself.

use crate::finding::Finding;
use crate::repository::Repository;
use std::path::Path;

const INDEX: &str = "tests/held-by.md";
/// The document whose prose says what the program does, so that it is held like a table.
const DEFAULTS: &str = "docs/security-defaults.md";
const DOCUMENTS: &[&str] = &[DEFAULTS, "SECURITY.md"];

pub fn check(repository: &Repository) -> Vec<Finding> {
    let index = repository.text(INDEX).unwrap_or_default();
    let mut findings = check_tests(index, |path| std::fs::read_to_string(repository.root.join(path)).ok());
    for document in DOCUMENTS {
        findings.extend(check_rows(document, repository.text(document).unwrap_or_default(), index));
    }
    findings.extend(check_prose(DEFAULTS, repository.text(DEFAULTS).unwrap_or_default(), index));
    findings
}

/// The part of the index about a document.
fn section_of<'i>(document: &str, index: &'i str) -> &'i str {
    index.split("\n## ").find_map(|section| section.strip_prefix(document)).unwrap_or_default()
}

/// Paragraphs and items of lists of which the index has no words, and words of the index that stand nowhere.
fn check_prose(document: &str, text: &str, index: &str) -> Vec<Finding> {
    let section = section_of(document, index);
    let paragraphs = paragraphs(text);
    let known: Vec<&str> = rows(section).map(|(_, cells)| cells[0]).collect();
    let unheld = paragraphs.iter().filter(|(_, paragraph)| !known.iter().any(|words| paragraph.contains(words)));
    let unheld = unheld.map(|(line, paragraph)| {
        let begin: String = paragraph.chars().take(60).collect();
        Finding::at(document, *line, "held-by", format!("{INDEX} does not say what holds \"{begin}…\""))
    });
    let of_tables: Vec<&str> = rows(text).map(|(_, cells)| cells[0]).collect();
    let gone = known
        .iter()
        .filter(|words| !of_tables.contains(words) && !paragraphs.iter().any(|(_, paragraph)| paragraph.contains(**words)));
    let gone = gone.map(|words| Finding::at(INDEX, 1, "held-by", format!("{document} does not say \"{words}\"")));
    unheld.chain(gone).collect()
}

/// Prose below the first heading of a section, with the line that each paragraph begins on. What stands above says what
/// the page is. A line that leads to a table or a list, and ends with a colon, is held by what it leads to.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    let body = text.lines().enumerate().skip_while(|(_, line)| !line.starts_with("## "));
    for (index, line) in body {
        let is_prose = !line.trim().is_empty() && !line.starts_with(['#', '|']);
        if is_prose && (!is_open || line.starts_with("- ")) {
            found.push((index + 1, line.trim().to_owned()));
        } else if is_prose && let Some((_, paragraph)) = found.last_mut() {
            paragraph.push(' ');
            paragraph.push_str(line.trim());
        }
        is_open = is_prose;
    }
    found.retain(|(_, paragraph)| !paragraph.ends_with(':'));
    found
}

/// Rows of the document that the index does not have in the document's section.
fn check_rows(document: &str, text: &str, index: &str) -> Vec<Finding> {
    let known: Vec<&str> = rows(section_of(document, index)).map(|(_, cells)| cells[0]).collect();
    let unheld = rows(text).filter(|(_, cells)| !known.contains(&cells[0]));
    unheld
        .map(|(line, cells)| Finding::at(document, line, "held-by", format!("{INDEX} does not say what holds `{}`", cells[0])))
        .collect()
}

/// What the index names and nobody has: a file, or a test in it as `file::test`.
fn check_tests(index: &str, text: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, cells) in rows(index) {
        for named in cells[1].split(',').map(str::trim) {
            let (path, test) = named.split_once("::").unwrap_or((named, ""));
            match text(path) {
                Some(text) if text.contains(test) => {}
                Some(_) => findings.push(Finding::at(INDEX, line, "held-by", format!("{path} has no `{test}`"))),
                None => findings.push(Finding::at(INDEX, line, "held-by", format!("there is no {path}"))),
            }
        }
    }
    findings
}

/// Rows of tables below their heads, each with its line; two cells at least.
fn rows(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let mut is_body = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let cells: Vec<&str> = line.strip_prefix('|')?.trim_end().trim_end_matches('|').split('|').map(str::trim).collect();
        let is_rule = cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| c == '-' || c == ':'));
        // The row after a head is a rule; heads are followed by one, and have to be left out.
        let is_head = text.lines().nth(index + 1).is_some_and(|next| next.starts_with("| ---"));
        is_body = is_rule || (is_body && !is_head);
        (is_body && !is_rule && !is_head && cells.len() > 1).then_some((index + 1, cells))
    })
}

/// Classes of hostile inputs with how many there are, from the files themselves.
pub fn hostile(repository: &Repository) -> Vec<(&'static str, usize)> {
    let lines = |folder: &str, wanted: &[&str]| -> usize {
        let files = repository.files.iter().filter(|file| file.path.starts_with(folder));
        let is_wanted = |line: &&str| wanted.iter().any(|word| line.trim_start().starts_with(word));
        files.map(|file| file.text.lines().filter(is_wanted).count()).sum()
    };
    let files = |folder: &str, part: &str| {
        repository.files.iter().filter(|file| file.path.starts_with(folder) && file.path.contains(part)).count()
    };
    let within = |part: &str| -> usize { repository.with_extension("rs").map(|file| file.text.matches(part).count()).sum() };
    vec![
        ("requests that are refused, as written; most over HTTP/1.1, h2c and h2", lines("tests/cases/", &["expect-refusal"])),
        ("texts of clients that paths are made of", lines("tests/cases/steps/texts_of_clients_", &["get "])),
        ("frames of HTTP/2 by hand", lines("tests/cases/", &["h2-frame", "h2-headers"])),
        ("floods of HTTP/2", lines("tests/cases/", &["h2-flood"])),
        ("answers of upstreams that become a 502", lines("tests/cases/upstream/", &["expect-status 502"])),
        ("scenarios of strictness", files("tests/cases/strictness/", ".case")),
        ("configurations with faults", files("crates/config/tests/diagnostics/", ".kdl")),
        (
            "texts of the configuration with a secret in them",
            repository
                .files
                .iter()
                .filter(|file| file.path.contains("/secrets/"))
                .map(|file| file.text.matches('«').count())
                .sum(),
        ),
        ("fuzz targets and properties, each with random inputs", within("bolero::check!") + within("check!()")),
        ("kept inputs of fuzz targets", kept_inputs(&repository.root.join("crates"), false)),
    ]
}

/// Files in folders of the name `corpus`; most are no text, and no files of the repository to other rules.
fn kept_inputs(folder: &Path, is_corpus: bool) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let count = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => kept_inputs(&entry.path(), is_corpus || entry.file_name() == "corpus"),
        Ok(_) | Err(_) => usize::from(is_corpus),
    };
    entries.map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::{check_prose, check_rows, check_tests};

    const INDEX: &str = "# a\n\n## doc.md\n\n| Line | Held by |\n| --- | --- |\n| one | a.case, b.rs::works |\n";

    #[test]
    fn a_row_without_a_test_is_found() {
        let check = |text: &str, expected: &[&str]| {
            let found = check_rows("doc.md", text, INDEX);
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "for {text}");
        };
        check("| What | By |\n| --- | --- |\n| one | x |\n", &[]);
        check(
            "| What | By |\n| --- | --- |\n| one | x |\n| two | y |\n",
            &["doc.md:4: held-by: tests/held-by.md does not say what holds `two`"],
        );
    }

    #[test]
    fn a_paragraph_without_a_test_is_found() {
        let check = |text: &str, expected: &[&str]| {
            let found = check_prose("doc.md", text, INDEX);
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "for {text}");
        };
        check("# Title\n\nWhat this is.\n\n## A\n\nHere is\none thing.\n\nAs follows:\n\n- this is one\n  line\n", &[]);
        check(
            "## A\n\n- one\n- two of\n  them\n\nOr\n",
            &[
                "doc.md:4: held-by: tests/held-by.md does not say what holds \"- two of them…\"",
                "doc.md:7: held-by: tests/held-by.md does not say what holds \"Or…\"",
            ],
        );
        check("| What | By |\n| --- | --- |\n| one | x |\n", &[]);
        check("## A\n", &["tests/held-by.md:1: held-by: doc.md does not say \"one\""]);
    }

    #[test]
    fn a_test_that_is_gone_is_found() {
        let check = |files: &[(&str, &str)], expected: &[&str]| {
            let found =
                check_tests(INDEX, |path| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned()));
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "for {files:?}");
        };
        check(&[("a.case", ""), ("b.rs", "fn works()")], &[]);
        check(
            &[("b.rs", "fn other()")],
            &["tests/held-by.md:7: held-by: there is no a.case", "tests/held-by.md:7: held-by: b.rs has no `works`"],
        );
    }
}
