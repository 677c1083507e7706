//! Rules about words and lines: notes left behind, paths of somebody's machine, line numbers in comments, how a file
//! opens.

use super::allow::{AllowList, MACHINE_PATH};
use super::source::Source;
use crate::finding::Finding;
use std::path::Path;

/// Written in two halves, so that this file passes its own rule.
const NOTES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];
const PERSONAL_FOLDERS: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/bui", "lds/")];

/// Files a tool writes; nobody can word them differently.
const GENERATED: &[&str] = &["Cargo.lock"];

/// Where people and pipelines keep checkouts, and where this very checkout and its build output are.
pub fn banned_paths(root: &Path) -> Vec<String> {
    let mut banned: Vec<String> = PERSONAL_FOLDERS.iter().map(|folder| (*folder).to_owned()).collect();
    let target = std::env::var_os("CARGO_TARGET_DIR").map(std::path::PathBuf::from);
    // A checkout at `/` or `/src` says nothing about a machine, and its path would be found everywhere.
    let telling = |path: &Path| path.is_absolute() && path.components().count() > 2;
    for path in std::iter::once(root.to_path_buf()).chain(target).filter(|path| telling(path)) {
        banned.push(path.to_string_lossy().into_owned());
    }
    banned
}

/// Any text file.
pub fn check(path: &str, text: &str, banned_paths: &[String], allow: &AllowList) -> Vec<Finding> {
    if GENERATED.contains(&path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let is_rust = Path::new(path).extension().is_some_and(|extension| extension == "rs");
    for (index, line) in text.lines().enumerate() {
        for note in NOTES.iter().filter(|note| has_word(line, note)) {
            findings.push(Finding::at(path, index + 1, "note", format!("`{note}`: do it, or write an issue")));
        }
        let is_banned = |banned: &&String| line.contains(banned.as_str()) && !allow.permits(MACHINE_PATH, path);
        for banned in banned_paths.iter().filter(is_banned) {
            findings.push(Finding::at(path, index + 1, MACHINE_PATH, format!("`{banned}` is a path of one machine")));
        }
        // In Rust only comments count, see `check_comments`: a test of this rule needs such text as data.
        if !is_rust && let Some(reference) = line_reference(line) {
            findings.push(reference_finding(path, index + 1, reference));
        }
    }
    findings
}

/// A reference by line is wrong after the next edit; the name of an item stays right, or fails a search.
pub fn check_comments(source: &Source) -> Vec<Finding> {
    let references = source.comments.iter().filter_map(|comment| Some((comment.line, line_reference(&comment.text)?)));
    references.map(|(line, reference)| reference_finding(source.path, line, reference)).collect()
}

/// Every file of the product and its tools says first what it is.
pub fn check_opening(source: &Source) -> Option<Finding> {
    let ours = ["crates/", "lab/", "apps/", "xtask/"].iter().any(|folder| source.path.starts_with(folder));
    let opens = source.text.lines().next().is_some_and(|line| line.len() > 4 && line.starts_with("//! "));
    (ours && !opens).then(|| {
        Finding::at(
            source.path,
            1,
            "opening",
            "open with two to five `//!` lines: what this is, what it is not, where to look next",
        )
    })
}

fn reference_finding(path: &str, line: usize, reference: &str) -> Finding {
    Finding::at(path, line, "line-reference", format!("`{reference}`: name the item instead, line numbers go stale"))
}

/// The first file name with a line number behind it.
fn line_reference(line: &str) -> Option<&str> {
    for (position, found) in line.match_indices(".rs:") {
        let digits = line[position + found.len()..].bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            let name = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
            let start = line[..position]
                .rfind(|c| !name(c))
                .map_or(0, |before| before + line[before..].chars().next().map_or(1, char::len_utf8));
            return Some(&line[start..position + found.len() + digits]);
        }
    }
    None
}

fn has_word(line: &str, word: &str) -> bool {
    let joins = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(position, _)| !line[..position].ends_with(joins) && !line[position + word.len()..].starts_with(joins))
}

#[cfg(test)]
mod tests {
    use super::{AllowList, NOTES, PERSONAL_FOLDERS, Source, banned_paths, check, check_comments, check_opening};
    use std::path::Path;

    fn check_text(path: &str, text: &str, expected: &[&str]) {
        let findings = check(path, text, &["/srv/checkout".to_owned(), PERSONAL_FOLDERS[0].to_owned()], &AllowList::default());
        let seen: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(seen, expected, "for {text:?}");
    }

    #[test]
    fn notes_left_behind_are_found_as_words() {
        let note = NOTES[0];
        check_text("a.md", &format!("fine\n{note}: later"), &[&format!("a.md:2: note: `{note}`: do it, or write an issue")]);
        check_text("a.md", &format!("{note}S and MY_{note} are other words"), &[]);
        check_text("Cargo.lock", note, &[]);
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        check_text(
            "a.toml",
            "x = \"/srv/checkout/target\"",
            &["a.toml:1: machine-path: `/srv/checkout` is a path of one machine"],
        );
        let personal = PERSONAL_FOLDERS[0];
        check_text(
            "a.rs",
            &format!("// {personal}me"),
            &[&format!("a.rs:1: machine-path: `{personal}` is a path of one machine")],
        );
        check_text("a.rs", "// /etc/tidegate and /run/secrets are the user's", &[]);
    }

    #[test]
    fn a_file_may_be_excused_for_its_paths() {
        let (allow, _) = AllowList::parse("allow.txt", "machine-path a.rs its tests need a home folder");
        let text = format!("const HOME: &str = \"{}me\";", PERSONAL_FOLDERS[0]);
        assert!(check("a.rs", &text, &[PERSONAL_FOLDERS[0].to_owned()], &allow).is_empty());
    }

    #[test]
    fn only_a_telling_checkout_path_is_banned() {
        let has = |root: &str| banned_paths(Path::new(root)).contains(&root.to_owned());
        assert!(has("/srv/checkout"));
        assert!(!has("/src"));
        assert!(!has("/"));
    }

    #[test]
    fn line_references_are_found_in_documents() {
        check_text(
            "a.md",
            "see crates/wire/src/head.rs:12 for",
            &["a.md:1: line-reference: `crates/wire/src/head.rs:12`: name the item instead, line numbers go stale"],
        );
        check_text("a.md", "`head.rs:` then, and lib.rs: 4 lines", &[]);
        check_text("a.md", "…head.rs:7", &["a.md:1: line-reference: `head.rs:7`: name the item instead, line numbers go stale"]);
    }

    #[test]
    fn line_references_are_found_in_comments_only() {
        let check = |text: &str, expected: &[usize]| {
            let source = Source::parse("a.rs", text).expect("valid Rust");
            let seen: Vec<usize> = check_comments(&source).iter().filter_map(|finding| finding.line).collect();
            assert_eq!(seen, expected, "for {text:?}");
        };
        check("// as in lib.rs:40\nfn f() {}\n", &[1]);
        check("/// See `head.rs:3`.\nfn f() {}\n", &[1]);
        check("const A: &str = \"lib.rs:40\";\n", &[]);
    }

    #[test]
    fn a_file_opens_with_what_it_is() {
        let check = |path: &str, text: &str, expected: bool| {
            let source = Source::parse(path, text).expect("valid Rust");
            assert_eq!(check_opening(&source).is_none(), expected, "for {path} {text:?}");
        };
        check("crates/wire/src/a.rs", "//! Bytes in, facts out.\n", true);
        check("crates/wire/src/a.rs", "fn f() {}\n", false);
        check("crates/wire/src/a.rs", "//!\n", false);
        check("crates/wire/src/a.rs", "\n//! Late.\n", false);
        check("lab/src/a.rs", "// Not a doc comment.\n", false);
        check("tests/data/a.rs", "fn f() {}\n", true);
    }
}
