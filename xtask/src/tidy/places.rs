//! The five places of a step or an option of a route: a variant or a field in the model, a directive file, a middleware
//! file or folder, an end-to-end case, and an example that uses it. The model decides which there are, so a new variant
//! without a row here is a finding.

use super::examples;
use crate::finding::Finding;
use crate::repository::Repository;

const MODEL: &str = "crates/model/src/step.rs";
const OPTIONS: &str = "crates/model/src/route_options.rs";
const DIRECTIVES: &str = "crates/config/src/directives";
const MIDDLEWARE: &str = "crates/middleware/src";
const CASES: &str = "tests/cases";
const RULE: &str = "five-places";

/// One step or option: the word that is the same in every place, and where to look for it.
struct StepRow {
    word: &'static str,
    /// The model's variants of it, or its field among the options.
    variants: &'static [&'static str],
    /// The words that use it in a configuration.
    written: &'static [&'static str],
    /// How the paths of its end-to-end cases begin, beneath `tests/cases`.
    cases: &'static str,
    /// `proxy`, `files` and `fastcgi` are carried out by the crates of these names, what concerns the way to an
    /// upstream in `proxy`, and spellings of a path in `routing`.
    in_middleware: bool,
}

const STEPS: &[StepRow] = &[
    StepRow { word: "respond", variants: &["Respond"], written: &["respond"], cases: "steps/respond", in_middleware: true },
    StepRow { word: "redirect", variants: &["Redirect"], written: &["redirect"], cases: "steps/redirect", in_middleware: true },
    StepRow {
        word: "header",
        variants: &["RequestHeader", "ResponseHeader"],
        written: &["header", "request-header", "response-header"],
        cases: "steps/response_header",
        in_middleware: true,
    },
    StepRow {
        word: "rewrite",
        variants: &["Rewrite", "StripPrefix", "AddPrefix"],
        written: &["rewrite", "strip-prefix", "add-prefix"],
        cases: "steps/rewrite",
        in_middleware: true,
    },
    StepRow {
        word: "body-limit",
        variants: &["BodyLimit"],
        written: &["body-limit"],
        cases: "steps/body_limit",
        in_middleware: true,
    },
    StepRow {
        word: "path-policy",
        variants: &["path_policy"],
        written: &["path-policy"],
        cases: "steps/path_policy",
        in_middleware: false,
    },
    StepRow { word: "compress", variants: &["compress"], written: &["compress"], cases: "steps/compress", in_middleware: true },
    StepRow {
        word: "allow",
        variants: &["Allow", "Deny"],
        written: &["allow", "deny"],
        cases: "steps/allow",
        in_middleware: true,
    },
    StepRow { word: "cors", variants: &["Cors"], written: &["cors"], cases: "steps/cors", in_middleware: true },
    StepRow {
        word: "basic-auth",
        variants: &["BasicAuth"],
        written: &["basic-auth"],
        cases: "steps/basic_auth",
        in_middleware: true,
    },
    StepRow {
        word: "client-auth",
        variants: &["ClientAuth"],
        written: &["client-auth"],
        cases: "steps/client_auth",
        in_middleware: true,
    },
    StepRow {
        word: "error-page",
        variants: &["error_pages"],
        written: &["error-page"],
        cases: "steps/error_page",
        in_middleware: true,
    },
    StepRow {
        word: "decompress",
        variants: &["decompress"],
        written: &["decompress"],
        cases: "steps/decompress",
        in_middleware: true,
    },
    StepRow { word: "cache", variants: &["cache"], written: &["cache"], cases: "cache/", in_middleware: false },
    StepRow {
        word: "rate-limit",
        variants: &["RateLimit"],
        written: &["rate-limit"],
        cases: "steps/rate_limit",
        in_middleware: true,
    },
    StepRow {
        word: "concurrency-limit",
        variants: &["ConcurrencyLimit"],
        written: &["concurrency-limit"],
        cases: "steps/concurrency_limit",
        in_middleware: true,
    },
    StepRow { word: "timeout", variants: &["timeouts"], written: &["timeout"], cases: "steps/timeout", in_middleware: false },
    StepRow { word: "mirror", variants: &["mirrors"], written: &["mirror"], cases: "steps/mirror", in_middleware: false },
    StepRow { word: "log", variants: &["log"], written: &["log"], cases: "steps/log", in_middleware: true },
    StepRow { word: "split", variants: &["Split"], written: &["split"], cases: "steps/split", in_middleware: false },
    StepRow { word: "files", variants: &["Files"], written: &["files"], cases: "files/", in_middleware: false },
    StepRow { word: "fastcgi", variants: &["FastCgi"], written: &["fastcgi"], cases: "fastcgi/", in_middleware: false },
    StepRow { word: "proxy", variants: &["Proxy"], written: &["proxy"], cases: "forwarding/", in_middleware: false },
];

pub fn check(repository: &Repository) -> Vec<Finding> {
    let paths: Vec<&str> = repository.files.iter().map(|file| file.path.as_str()).collect();
    let examples: Vec<&str> =
        examples::paths(paths.iter().copied()).into_iter().filter_map(|path| repository.text(path)).collect();
    let variants = match variants(repository.text(MODEL).unwrap_or_default(), repository.text(OPTIONS).unwrap_or_default()) {
        Ok(variants) => variants,
        Err(message) => return vec![Finding::whole(MODEL, RULE, message)],
    };
    check_places(&variants, &paths, &examples)
}

fn check_places(variants: &[String], paths: &[&str], examples: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for variant in variants {
        if !STEPS.iter().any(|row| row.variants.contains(&variant.as_str())) {
            findings.push(Finding::whole(MODEL, RULE, format!("`{variant}` has no row in the table of steps of `xtask`")));
        }
    }
    for row in STEPS {
        let file = row.word.replace('-', "_");
        let mut missing = |path: &str, message: &str| {
            findings.push(Finding::whole(path, RULE, format!("the step `{}` {message}", row.word)));
        };
        if !row.variants.iter().all(|wanted| variants.iter().any(|variant| variant == wanted)) {
            missing(MODEL, "has a variant that the model does not know");
        }
        if !has_module(paths, DIRECTIVES, &file) {
            missing(DIRECTIVES, &format!("has no directive: `{file}.rs`"));
        }
        if row.in_middleware && !has_module(paths, MIDDLEWARE, &file) {
            missing(MIDDLEWARE, &format!("has no `{file}.rs` and no folder `{file}`"));
        }
        if !paths.iter().any(|path| path.starts_with(&format!("{CASES}/{}", row.cases))) {
            missing(CASES, &format!("has no end-to-end case `{}…`", row.cases));
        }
        if !examples.iter().any(|example| row.written.iter().any(|word| uses(example, word))) {
            missing("examples", "is in no example");
        }
    }
    findings
}

/// The variants of the model's two enums of steps, and the fields of its options.
fn variants(model: &str, options: &str) -> Result<Vec<String>, String> {
    let file = syn::parse_file(model).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for wanted in ["Step", "Terminal"] {
        let item = file.items.iter().find_map(|item| match item {
            syn::Item::Enum(item) if item.ident == wanted => Some(item),
            _ => None,
        });
        let item = item.ok_or_else(|| format!("there is no `enum {wanted}`"))?;
        found.extend(item.variants.iter().map(|variant| variant.ident.to_string()));
    }
    let file = syn::parse_file(options).map_err(|error| error.to_string())?;
    let item = file.items.iter().find_map(|item| match item {
        syn::Item::Struct(item) if item.ident == "RouteOptions" => Some(item),
        _ => None,
    });
    let item = item.ok_or("there is no `struct RouteOptions`")?;
    found.extend(item.fields.iter().filter_map(|field| field.ident.as_ref()).map(ToString::to_string));
    Ok(found)
}

fn has_module(paths: &[&str], folder: &str, name: &str) -> bool {
    paths.iter().any(|path| *path == format!("{folder}/{name}.rs") || in_folder(path, folder, name))
}

fn in_folder(path: &str, parent: &str, folder: &str) -> bool {
    path.strip_prefix(parent).and_then(|rest| rest.strip_prefix('/')).is_some_and(|rest| rest.starts_with(&format!("{folder}/")))
}

/// Whether a node of that name stands in the text: first on its line, after a brace, or after a semicolon.
fn uses(example: &str, word: &str) -> bool {
    let code = example.lines().map(|line| line.split("//").next().unwrap_or(line));
    code.flat_map(|line| line.split(['{', '}', ';'])).any(|node| node.split_whitespace().next() == Some(word))
}

#[cfg(test)]
mod tests {
    use super::{STEPS, check_places, uses, variants};

    /// What is complete, less what the case takes away.
    fn check(without_variant: &str, without_path: &str, example: &str, expected: &[&str]) {
        let variants: Vec<String> =
            STEPS.iter().flat_map(|row| row.variants).filter(|name| **name != without_variant).map(ToString::to_string).collect();
        let mut paths = Vec::new();
        for row in STEPS {
            let file = row.word.replace('-', "_");
            paths.push(format!("crates/config/src/directives/{file}.rs"));
            paths.push(format!("crates/middleware/src/{file}.rs"));
            paths.push(format!("tests/cases/{}_one.case", row.cases));
        }
        let paths: Vec<&str> = paths.iter().map(String::as_str).filter(|path| *path != without_path).collect();
        let seen: Vec<String> = check_places(&variants, &paths, &[example]).iter().map(ToString::to_string).collect();
        assert_eq!(seen, expected);
    }

    const ALL: &str = "respond 200\nredirect \"/x\"\nheader remove=\"Server\"\nstrip-prefix \"/a\"\nbody-limit \"1MB\"\nproxy \"a:1\"\npath-policy\ncompress\ndecompress\ncache\nallow \"10.0.0.0/8\"\ncors origins=\"*\"\nbasic-auth \"off\"\nerror-page 404 body=\"x\"\nfiles \"www\"\nrate-limit \"1/s\"\nconcurrency-limit 1\nfastcgi \"php:9000\" root=\"/srv\"\ntimeout total=\"1s\"\nmirror \"a:1\"\nlog \"off\"\nsplit { proxy \"a:1\" }\nclient-auth \"off\"";

    #[test]
    fn a_step_has_its_five_places() {
        check("", "", ALL, &[]);
        check(
            "Redirect",
            "",
            ALL,
            &["crates/model/src/step.rs: five-places: the step `redirect` has a variant that the model does not know"],
        );
        check(
            "",
            "crates/config/src/directives/body_limit.rs",
            ALL,
            &["crates/config/src/directives: five-places: the step `body-limit` has no directive: `body_limit.rs`"],
        );
        check(
            "",
            "crates/middleware/src/header.rs",
            ALL,
            &["crates/middleware/src: five-places: the step `header` has no `header.rs` and no folder `header`"],
        );
        check(
            "",
            "tests/cases/steps/rewrite_one.case",
            ALL,
            &["tests/cases: five-places: the step `rewrite` has no end-to-end case `steps/rewrite…`"],
        );
        check("", "", &ALL.replace("redirect", "// redirect"), &["examples: five-places: the step `redirect` is in no example"]);
        check("", "crates/middleware/src/proxy.rs", ALL, &[]);
    }

    #[test]
    fn a_new_variant_needs_a_row() {
        let steps = "enum Step { Juggle }\nenum Terminal { Respond { status: u16 } }";
        let variants = variants(steps, "struct RouteOptions { log: u8 }").expect("two enums and a struct");
        assert_eq!(variants, ["Juggle", "Respond", "log"]);
        let findings = check_places(&variants, &[], &[]);
        assert_eq!(findings[0].message, "`Juggle` has no row in the table of steps of `xtask`");
    }

    #[test]
    fn a_word_counts_only_as_a_node() {
        let check = |example: &str, expected: bool| assert_eq!(uses(example, "header"), expected, "for {example:?}");
        check("    header remove=\"Server\"", true);
        check("route { header \"X\" \"1\" }", true);
        check("log level=\"info\"; header x=1", true);
        check("match header=\"X: 1\"", false);
        check("// header x=1", false);
        check("request-header x=1", false);
    }
}
