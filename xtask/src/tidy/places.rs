//! The places of a step or an option of a route beside the model's variant or field, which the compiler asks for: its
//! entry in the table of directives, the middleware module of a step, an end-to-end case and an example. The entries
//! are read from the code of the directives, so nothing is listed here.

use super::examples;
use crate::finding::Finding;
use crate::repository::Repository;

const DIRECTIVES: &str = "crates/config/src/directives/";
const MIDDLEWARE: &str = "crates/middleware/src/";
const CASES: &str = "tests/cases/";
const RULE: &str = "five-places";

/// One entry of the table of directives that is a step, an option or a terminal step.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    name: String,
    /// The module of the entry: steps that are two sides of one thing share it, here and in `middleware`.
    family: String,
    /// What it does to a head is in `middleware`; of options and terminal steps it may be elsewhere.
    is_step: bool,
}

pub fn check(repository: &Repository) -> Vec<Finding> {
    let paths: Vec<&str> = repository.files.iter().map(|file| file.path.as_str()).collect();
    let examples: Vec<&str> =
        examples::paths(paths.iter().copied()).into_iter().filter_map(|path| repository.text(path)).collect();
    let cases = repository.with_extension("case").filter(|file| file.path.starts_with(CASES));
    let cases: Vec<String> = cases.map(|file| configurations(&file.text)).collect();
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    let mut words = Vec::new();
    for file in &repository.files {
        let Some(family) = file.path.strip_prefix(DIRECTIVES).and_then(|name| name.strip_suffix(".rs")) else { continue };
        match words_of(family, &file.text) {
            Ok(found) => words.extend(found),
            Err(message) => return vec![Finding::whole(&file.path, RULE, message)],
        }
    }
    if words.is_empty() {
        return vec![Finding::whole(DIRECTIVES, RULE, "has no entry of a step".to_owned())];
    }
    words.iter().flat_map(|word| missing(word, &paths, &cases, &examples)).collect()
}

fn missing(word: &Word, paths: &[&str], cases: &[&str], examples: &[&str]) -> Vec<Finding> {
    let Word { name, family, is_step } = word;
    let finding = |path: &str, message: &str| Finding::whole(path, RULE, format!("the step `{name}` {message}"));
    let module = format!("{MIDDLEWARE}{family}");
    let is_module = |path: &&str| path.strip_prefix(&module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'));
    let mut findings = Vec::new();
    if *is_step && !paths.iter().any(is_module) {
        findings.push(finding(MIDDLEWARE, &format!("has no `{family}.rs` and no folder `{family}`")));
    }
    if !cases.iter().any(|case| uses(case, name)) {
        findings.push(finding(CASES, "is in the configuration of no case"));
    }
    if !examples.iter().any(|example| uses(example, name)) {
        findings.push(finding("examples", "is in no example"));
    }
    findings
}

/// The entries of one file of directives that belong to a route: `static X: Directive = Directive { name: "…", lower:
/// Lower::Step(…), … }`.
fn words_of(family: &str, text: &str) -> Result<Vec<Word>, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let mut words = Vec::new();
    for item in &file.items {
        let syn::Item::Static(item) = item else { continue };
        let syn::Expr::Struct(entry) = &*item.expr else { continue };
        let (Some(name), Some(lower)) = (field(entry, "name").and_then(literal), field(entry, "lower").and_then(called)) else {
            continue;
        };
        if ["Step", "Option", "Terminal"].contains(&lower.as_str()) {
            words.push(Word { name, family: family.to_owned(), is_step: lower == "Step" });
        }
    }
    Ok(words)
}

fn field<'e>(entry: &'e syn::ExprStruct, wanted: &str) -> Option<&'e syn::Expr> {
    let is_wanted = |field: &&syn::FieldValue| matches!(&field.member, syn::Member::Named(name) if name == wanted);
    entry.fields.iter().find(is_wanted).map(|field| &field.expr)
}

fn literal(value: &syn::Expr) -> Option<String> {
    match value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// `Step` of `Lower::Step(lower)`.
fn called(value: &syn::Expr) -> Option<String> {
    let syn::Expr::Call(call) = value else { return None };
    let syn::Expr::Path(path) = &*call.func else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

/// What stands in the sections `config` and `file` of a case.
fn configurations(case: &str) -> String {
    let mut is_configuration = false;
    let mut found = String::new();
    for line in case.lines() {
        if line.starts_with(|first: char| first.is_ascii_alphabetic()) {
            is_configuration = matches!(line.split_whitespace().next(), Some("config" | "file"));
        } else if is_configuration {
            found.push_str(line);
            found.push('\n');
        }
    }
    found
}

/// Whether a node of that name stands in the text: first on its line, after a brace, or after a semicolon.
fn uses(example: &str, word: &str) -> bool {
    // A comment, and not the middle of a URL.
    let lines = example.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.map(|line| line.split(" //").next().unwrap_or(line));
    code.flat_map(|line| line.split(['{', '}', ';'])).any(|node| node.split_whitespace().next() == Some(word))
}

#[cfg(test)]
mod tests {
    use super::{Word, configurations, missing, uses, words_of};

    #[test]
    fn a_step_has_its_places() {
        let check = |is_step: bool, module: &str, case: &str, example: &str, expected: &[&str]| {
            let word = Word { name: "strip-prefix".into(), family: "rewrite".into(), is_step };
            let seen: Vec<String> = missing(&word, &[module], &[case], &[example]).iter().map(ToString::to_string).collect();
            assert_eq!(seen, expected);
        };
        let (module, line) = ("crates/middleware/src/rewrite/mod.rs", "site \"a\" { strip-prefix \"/a\"; }");
        check(true, module, line, line, &[]);
        check(true, "crates/middleware/src/rewrite.rs", line, line, &[]);
        check(
            true,
            "crates/middleware/src/rewriting.rs",
            line,
            line,
            &["crates/middleware/src/: five-places: the step `strip-prefix` has no `rewrite.rs` and no folder `rewrite`"],
        );
        check(false, "", line, line, &[]);
        check(true, module, "", line, &["tests/cases/: five-places: the step `strip-prefix` is in the configuration of no case"]);
        check(true, module, line, "// strip-prefix", &["examples: five-places: the step `strip-prefix` is in no example"]);
    }

    #[test]
    fn words_are_the_entries_of_the_table_that_belong_to_a_route() {
        let entry = |name: &str, lower: &str| {
            format!("pub static X: Directive = Directive {{ name: \"{name}\", lower: {lower}, ..Directive::PLAIN }};")
        };
        let check = |lower: &str, expected: Option<bool>| {
            let words = words_of("juggle", &entry("juggle", lower)).expect("Rust");
            assert_eq!(words.first().map(|word| word.is_step), expected, "for {lower}");
        };
        check("Lower::Step(lower)", Some(true));
        check("Lower::Option(lower)", Some(false));
        check("Lower::Terminal(lower)", Some(false));
        check("Lower::Top(lower)", None);
        check("Lower::Inside", None);
        assert!(words_of("juggle", "pub static").is_err());
    }

    #[test]
    fn only_configurations_of_a_case_count() {
        let case = "# cors\nconfig\n    respond\nclient\n    cors\nfile a.kdl\n    deny\n";
        assert_eq!(configurations(case), "    respond\n    deny\n");
    }

    #[test]
    fn a_word_counts_only_as_a_node() {
        let check = |example: &str, expected: bool| assert_eq!(uses(example, "header"), expected, "for {example:?}");
        check("    header remove=\"Server\"", true);
        check("route { header \"X\" \"1\" }", true);
        check("log level=\"info\"; header x=1", true);
        check("match header=\"X: 1\"", false);
        check("// header x=1", false);
        check("respond 204 // header x=1", false);
        check("site \"http://:80\" { header x=1; respond; }", true);
        check("request-header x=1", false);
    }
}
