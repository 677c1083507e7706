//! `tidegate proxy`: a site and its upstreams from the command line. The text it makes is a configuration like any other, so every check
//! and every default of the file holds here too.

use super::{report, run};
use std::path::Path;
use std::process::ExitCode;
use tidegate_certs::default_state_dir;
use tidegate_config::load_text;

pub fn run(from: &[String], to: &[String]) -> ExitCode {
    let text = format!("site {} {{\n    proxy {}\n}}\n", quote_all(from), quote_all(to));
    let loaded = load_text("<command line>", &text, Path::new("."));
    report(&loaded);
    match loaded.configuration {
        Some(configuration) => run::serve(configuration, default_state_dir(), || {}),
        None => ExitCode::from(super::FAILED),
    }
}

/// KDL strings, one after the other.
fn quote_all(words: &[String]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))).collect();
    quoted.join(" ")
}
