//! How long files and functions may be. A file has at most 1,000 lines, a function 70 lines of code; tests may have
//! longer functions.

use super::allow::{AllowList, FILE_LENGTH, FUNCTION_LENGTH};
use super::source::{Source, is_test_only};
use crate::finding::Finding;
use crate::repository::is_test;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const FILE_LINES_MAX: usize = 1_000;
/// Above this a file is worth splitting, and named in a warning.
const FILE_LINES_AIM: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

pub fn check_file(source: &Source, allow: &AllowList) -> Option<Finding> {
    let lines = source.text.lines().count();
    let too_long = lines > FILE_LINES_MAX && !allow.permits(FILE_LENGTH, source.path);
    too_long.then(|| Finding::whole(source.path, FILE_LENGTH, format!("{lines} lines; {FILE_LINES_MAX} is the stop")))
}

pub fn warn_file(source: &Source, allow: &AllowList) -> Option<Finding> {
    let lines = source.text.lines().count();
    let long = lines > FILE_LINES_AIM && lines <= FILE_LINES_MAX && !allow.permits(FILE_LENGTH, source.path);
    long.then(|| Finding::whole(source.path, FILE_LENGTH, format!("{lines} lines; {FILE_LINES_AIM} is the aim")))
}

pub fn check_functions(source: &Source, allow: &AllowList) -> Vec<Finding> {
    if is_test(source.path) {
        return Vec::new();
    }
    let mut measure = Measure { source, allow, findings: Vec::new() };
    measure.visit_file(&source.file);
    measure.findings
}

struct Measure<'a> {
    source: &'a Source<'a>,
    allow: &'a AllowList,
    findings: Vec<Finding>,
}

impl Measure<'_> {
    /// Code lines from the `fn` to the closing brace; blank lines and comments are free.
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.span().start().line;
        let last = block.brace_token.span.close().end().line;
        let lines = self.source.code_lines.range(first..=last).count();
        let name = signature.ident.to_string();
        if lines > FUNCTION_LINES_MAX && !self.allow.permits(FUNCTION_LENGTH, &format!("{}::{name}", self.source.path)) {
            let message = format!("`{name}` has {lines} lines of code; {FUNCTION_LINES_MAX} is the stop");
            self.findings.push(Finding::at(self.source.path, first, FUNCTION_LENGTH, message));
        }
    }
}

impl<'ast> Visit<'ast> for Measure<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test_only(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !is_test_only(&function.attrs) {
            self.function(&function.sig, &function.block);
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::{AllowList, Source, check_file, check_functions, warn_file};

    fn check(path: &str, text: &str, allowed: &str, expected: &[&str]) {
        let source = Source::parse(path, text).expect("valid Rust");
        let (allow, _) = AllowList::parse("allow.txt", allowed);
        let mut seen: Vec<String> = check_functions(&source, &allow).iter().map(ToString::to_string).collect();
        seen.extend(check_file(&source, &allow).iter().map(ToString::to_string));
        seen.extend(warn_file(&source, &allow).iter().map(|warning| format!("warning: {warning}")));
        assert_eq!(seen, expected);
    }

    fn function(name: &str, statements: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    g();\n".repeat(statements))
    }

    #[test]
    fn functions_stop_at_seventy_lines_of_code() {
        let too_long = ["a.rs:1: function-length: `f` has 71 lines of code; 70 is the stop"];
        check("a.rs", &function("f", 68), "", &[]);
        check("a.rs", &function("f", 69), "", &too_long);
        check("a.rs", &function("f", 69), "function-length a.rs::f one table of all the answers", &[]);
        check("a.rs", &function("f", 69), "function-length a.rs::other one table of all the answers", &too_long);
    }

    #[test]
    fn blank_lines_comments_and_attributes_are_free() {
        let commented = function("f", 68).replace("    g();\n", "\n    // Why.\n    g();\n");
        check("a.rs", &commented, "", &[]);
        check("a.rs", &format!("/// Doc.\n#[inline]\n{}", function("f", 68)), "", &[]);
    }

    #[test]
    fn methods_and_nested_functions_are_measured() {
        let method = format!("impl A {{\n{}}}\n", function("f", 69));
        check("a.rs", &method, "", &["a.rs:2: function-length: `f` has 71 lines of code; 70 is the stop"]);
        let provided = format!("trait A {{\n{}}}\n", function("f", 69));
        check("a.rs", &provided, "", &["a.rs:2: function-length: `f` has 71 lines of code; 70 is the stop"]);
        let nested = format!("fn f() {{\n{}}}\n", function("g", 69));
        check(
            "a.rs",
            &nested,
            "",
            &[
                "a.rs:1: function-length: `f` has 73 lines of code; 70 is the stop",
                "a.rs:2: function-length: `g` has 71 lines of code; 70 is the stop",
            ],
        );
    }

    #[test]
    fn test_functions_may_be_longer() {
        let long = function("f", 80);
        check("a.rs", &format!("#[cfg(test)]\nmod tests {{\n{long}}}\n"), "", &[]);
        check("a.rs", &format!("#[test]\n{long}"), "", &[]);
        check("a.rs", &format!("#[tokio::test]\n{long}"), "", &[]);
        check("a.rs", &format!("#[cfg(all(test, unix))]\nmod tests {{\n{long}}}\n"), "", &[]);
        check("a/tests.rs", &long, "", &[]);
        check("tests/a.rs", &long, "", &[]);
        check(
            "a.rs",
            &format!("#[cfg(unix)]\n{long}"),
            "",
            &["a.rs:2: function-length: `f` has 82 lines of code; 70 is the stop"],
        );
    }

    #[test]
    fn files_stop_at_a_thousand_lines() {
        let lines = |count: usize| "use a::b;\n".repeat(count);
        check("a.rs", &lines(600), "", &[]);
        check("a.rs", &lines(601), "", &["warning: a.rs: file-length: 601 lines; 600 is the aim"]);
        check("a.rs", &lines(1000), "", &["warning: a.rs: file-length: 1000 lines; 600 is the aim"]);
        check("a.rs", &lines(1001), "", &["a.rs: file-length: 1001 lines; 1000 is the stop"]);
        check("a.rs", &lines(1001), "file-length a.rs a table written by a tool", &[]);
    }
}
