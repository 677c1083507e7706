//! Plain words: a doc comment names its subject first, a comment line has an end, and a type's name means one thing in
//! its crate. Which names say nothing is in `names`; what comments must not refer to is in `text`.

use super::allow::{AllowList, WORDS};
use super::source::{Comment, Source};
use crate::finding::Finding;
use std::collections::BTreeMap;
use syn::visit::{self, Visit};

/// The widest a line with a comment may be, in characters: what fits beside a second file on one screen.
const COMMENT_COLUMNS_MAX: usize = 120;

/// First words that point at something which a tooltip does not show.
const BARE_OPENINGS: &[&str] = &[
    "it",
    "its",
    "it's",
    "they",
    "them",
    "their",
    "theirs",
    "those",
    "these",
    "that",
    "such",
    "the same",
    "the other",
    "the others",
    "one",
    "one that",
    "one who",
    "one for",
    "one with",
    "one more",
    "one of those",
    "one of these",
    "he",
    "his",
];
/// What follows makes a subject of those words: "those who wait", "one line", "the same key goes to …".
fn names_its_subject(words: &str, rest: &str) -> bool {
    let next = rest.split_whitespace().next().unwrap_or_default().trim_matches(|mark: char| !mark.is_alphanumeric());
    let is_word_of_subject = !next.is_empty()
        && !rest.starts_with(|mark: char| ",.;:".contains(mark))
        && !["as", "at", "by", "for", "from", "in", "is", "of", "on", "that", "to", "was", "when", "where", "with"]
            .contains(&next);
    match words {
        "one" | "the same" | "the other" | "the others" | "these" => is_word_of_subject,
        "those" => next == "who",
        _ => false,
    }
}

/// Whether a doc comment can be understood where only it is shown.
pub fn check_openings(source: &Source, allow: &AllowList) -> Vec<Finding> {
    let bare = doc_blocks(&source.comments).into_iter().filter(|comment| has_bare_opening(&comment.text));
    bare.filter(|_| !allow.permits(WORDS, crate_folder(source.path)))
        .map(|comment| {
            let message = format!("`{}` points at nothing that a tooltip shows: begin with the name of the thing", comment.text);
            Finding::at(source.path, comment.line, "doc-subject", message)
        })
        .collect()
}

/// Whether comments end where a reader's window does.
pub fn check_widths(source: &Source) -> Vec<Finding> {
    let lines: Vec<&str> = source.text.lines().collect();
    let width = |comment: &Comment| lines.get(comment.line - 1).map_or(0, |line| line.chars().count());
    let wide =
        source.comments.iter().map(|comment| (comment.line, width(comment))).filter(|(_, width)| *width > COMMENT_COLUMNS_MAX);
    wide.map(|(line, width)| {
        let message = format!("the line is {width} columns wide; comments end by column {COMMENT_COLUMNS_MAX}");
        Finding::at(source.path, line, "comment-width", message)
    })
    .collect()
}

/// A type that a file declares outside its tests.
#[derive(Debug)]
pub struct DeclaredType {
    name: String,
    path: String,
    line: usize,
}

/// The types of a file. Files of tests have types of their own, which nobody else sees.
pub fn declared_types(source: &Source) -> Vec<DeclaredType> {
    if !is_product_source(source.path) {
        return Vec::new();
    }
    let mut types = TypesOfFile(Vec::new());
    types.visit_file(&source.file);
    types.0.into_iter().map(|(name, line)| DeclaredType { name, path: source.path.to_owned(), line }).collect()
}

/// Each name that a crate gives to more than one type.
pub fn check_types(types: &[DeclaredType], allow: &AllowList) -> Vec<Finding> {
    let mut by_name: BTreeMap<(&str, &str), Vec<&DeclaredType>> = BTreeMap::new();
    for declared in types {
        by_name.entry((crate_folder(&declared.path), &declared.name)).or_default().push(declared);
    }
    let shared = by_name.into_iter().filter(|((folder, _), places)| places.len() > 1 && !allow.permits(WORDS, folder));
    shared
        .map(|((_, name), places)| {
            let others: Vec<&str> = places[1..].iter().map(|place| place.path.as_str()).collect();
            let message = format!("`{name}` is also a type in {}: one name, one thing in a crate", others.join(", "));
            Finding::at(&places[0].path, places[0].line, "type-name", message)
        })
        .collect()
}

/// `crates/wire` of `crates/wire/src/head.rs`, and `lab` of `lab/src/main.rs`.
fn crate_folder(path: &str) -> &str {
    let end = path.find("/src/").or_else(|| path.find("/tests/")).unwrap_or(path.len());
    &path[..end]
}

fn is_product_source(path: &str) -> bool {
    let Some(source) = path.find("/src/") else { return false };
    let is_test = path.ends_with("/tests.rs") || path.ends_with("_tests.rs") || path[source..].contains("/tests/");
    !is_test
}

struct TypesOfFile(Vec<(String, usize)>);

impl TypesOfFile {
    fn note(&mut self, name: &syn::Ident) {
        self.0.push((name.to_string(), name.span().start().line));
    }
}

impl<'ast> Visit<'ast> for TypesOfFile {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.note(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.note(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.note(&item.ident);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.note(&item.ident);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let is_test = item.attrs.iter().any(|attribute| {
            attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok_and(|argument| argument == "test")
        });
        if !is_test {
            visit::visit_item_mod(self, item);
        }
    }

    /// Types within a function are nobody else's.
    fn visit_block(&mut self, _: &'ast syn::Block) {}
}

/// The first line of each doc comment.
fn doc_blocks(comments: &[Comment]) -> Vec<&Comment> {
    let is_doc = |comment: &Comment| comment.text.starts_with("///") && !comment.text.starts_with("////");
    let mut openings = Vec::new();
    let mut last_doc_line = None;
    for comment in comments.iter().filter(|comment| is_doc(comment)) {
        if last_doc_line != Some(comment.line - 1) {
            openings.push(comment);
        }
        last_doc_line = Some(comment.line);
    }
    openings
}

fn has_bare_opening(comment: &str) -> bool {
    let text = comment.trim_start_matches('/').trim_start().to_lowercase();
    let rest_behind = |words: &str| {
        let rest = text.strip_prefix(words)?;
        (!rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '-')).then_some(rest)
    };
    BARE_OPENINGS.iter().any(|words| rest_behind(words).is_some_and(|rest| !names_its_subject(words, rest)))
}

#[cfg(test)]
mod tests {
    use super::{AllowList, Source, check_openings, check_types, check_widths, declared_types};

    fn openings(source: &Source) -> Vec<crate::finding::Finding> {
        check_openings(source, &AllowList::default())
    }

    fn lines_of(text: &str, check: fn(&Source) -> Vec<crate::finding::Finding>) -> Vec<usize> {
        let source = Source::parse("a.rs", text).expect("valid Rust");
        check(&source).iter().filter_map(|finding| finding.line).collect()
    }

    #[test]
    fn a_doc_comment_names_its_subject() {
        let check = |text: &str, expected: &[usize]| assert_eq!(lines_of(text, openings), expected, "for {text:?}");
        check("/// It was us.\nfn f() {}\n", &[1]);
        check("/// Those that are to be made of it.\nfn f() {}\n", &[1]);
        check("/// The same, elsewhere.\nfn f() {}\n", &[1]);
        check("/// One that no client has sent.\nfn f() {}\n", &[1]);
        check("struct A {\n    /// Its own.\n    b: u8,\n}\n", &[2]);
        check("/// A request that waits.\n/// It was us.\nfn f() {}\n", &[]);
        check("/// One of the two ends.\nfn f() {}\n", &[1]);
        check("/// One sentence without a full stop.\nfn f() {}\n", &[]);
        check("/// The same key goes to the same server.\nfn f() {}\n", &[]);
        check("/// Those who wait.\nfn f() {}\n", &[]);
        check("/// Item by item.\nfn f() {}\n", &[]);
        check("// It was us.\nfn f() {}\n", &[]);
        check("/// A.\nfn f() {}\n/// They.\nfn g() {}\n", &[3]);
    }

    #[test]
    fn comments_end_by_a_column() {
        let check = |text: &str, expected: &[usize]| assert_eq!(lines_of(text, check_widths), expected, "for {text:?}");
        check(&format!("// {}\n", "a".repeat(117)), &[]);
        check(&format!("// {}\n", "a".repeat(118)), &[1]);
        check(&format!("// {}\n", "ä".repeat(117)), &[]);
        check(&format!("const A: &str = \"{}\";\n", "a".repeat(200)), &[]);
    }

    #[test]
    fn a_type_name_is_unique_in_its_crate() {
        let check = |files: &[(&str, &str)], expected: &[&str]| {
            let of_file = |(path, text): &(&str, &str)| declared_types(&Source::parse(path, text).expect("valid Rust"));
            let types: Vec<_> = files.iter().flat_map(of_file).collect();
            let seen: Vec<String> = check_types(&types, &AllowList::default()).iter().map(ToString::to_string).collect();
            assert_eq!(seen, expected, "for {files:?}");
        };
        let twice =
            "crates/a/src/b.rs:1: type-name: `Answer` is also a type in crates/a/src/c.rs: one name, one thing in a crate";
        check(&[("crates/a/src/b.rs", "struct Answer;"), ("crates/a/src/c.rs", "enum Answer {}")], &[twice]);
        check(&[("crates/a/src/b.rs", "struct Answer;"), ("crates/b/src/c.rs", "enum Answer {}")], &[]);
        check(&[("crates/a/src/b.rs", "struct Answer;\n#[cfg(test)]\nmod tests { struct Answer; }")], &[]);
        check(&[("crates/a/src/b.rs", "struct Answer;"), ("crates/a/src/tests.rs", "struct Answer;")], &[]);
        check(&[("crates/a/src/b.rs", "struct Answer;\nfn f() { struct Answer; }")], &[]);
    }

    #[test]
    fn a_crate_that_nobody_has_read_yet_is_excused_as_a_whole() {
        let (allow, _) = AllowList::parse("allow.txt", "words crates/a its comments have not been read");
        let source = Source::parse("crates/a/src/b.rs", "/// It.\nstruct Answer;").expect("valid Rust");
        assert!(check_openings(&source, &allow).is_empty());
        let types: Vec<_> = [&source, &source].into_iter().flat_map(declared_types).collect();
        assert!(check_types(&types, &allow).is_empty());
    }
}
