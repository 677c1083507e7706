//! Requests around each boundary of what was imported, as a file that `tidegate compare` reads. Which requests these
//! are is found out by `explain` from the configuration that was written.

use crate::commands::whole_file;
use std::fmt::Write;
use std::path::Path;
use tidegate_compare::{is_field, is_host, is_of_connection};
use tidegate_explain::{Boundaries, BoundaryRequest, boundaries};

/// Writes the requests, and says how many they are.
pub fn write(configuration: &str, file: &Path) -> Result<String, String> {
    let found = boundaries(&tidegate_config::shape(configuration));
    let (text, count) = as_text(&found);
    whole_file::write(file, &text).map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    Ok(format!("{}: {count} requests", file.display()))
}

/// The sentence that nobody has tried yet what keeps clients out, and how that is done.
pub fn not_proved(file: Option<&Path>) -> String {
    match file {
        Some(file) => format!(
            "not proved: run `tidegate compare --old http://… --new http://… --all-methods {}`, as docs/switching.md has it",
            file.display()
        ),
        None => "not proved: what keeps clients out was read and not tried; with `--questions FILE`, `import` writes requests \
                 for `tidegate compare --old http://… --new http://… --all-methods FILE`"
            .to_owned(),
    }
}

fn as_text(found: &Boundaries) -> (String, usize) {
    let mut text = "# Requests around each boundary of what was imported, for `tidegate compare --all-methods`.\n".to_owned();
    for note in &found.notes {
        let _ = writeln!(text, "# not asked here: {}", note.replace(['\n', '\r'], " "));
    }
    let mut count = 0;
    for request in found.requests.iter().filter(|request| is_written(request)) {
        let _ = writeln!(text, "{} {}\n    Host: {}", request.method, request.target, request.host);
        if let Some((name, value)) = &request.field {
            let _ = writeln!(text, "    {name}: {value}");
        }
        count += 1;
    }
    (text, count)
}

/// Whether `compare` sends it as it is.
fn is_written(request: &BoundaryRequest) -> bool {
    let is_sent = |(name, value): &(String, String)| is_field(name, value) && !is_of_connection(name);
    let is_own = |(name, _): &(String, String)| name.eq_ignore_ascii_case("host");
    request.method != "CONNECT"
        && is_host(request.host.as_bytes())
        && request.field.as_ref().is_none_or(|field| is_sent(field) && !is_own(field))
}
