//! Diagnostics of a configuration for programs: as JSON, and as lines of the log of a process that starts. For people
//! they are rendered by the configuration itself.

use serde_json::{Value, json};
use tidegate_config::{Diagnostic, Location, Severity, Sources};

/// Where something stands, counted from 1.
struct Spot<'s> {
    file: &'s str,
    line: usize,
    column: usize,
}

fn spot<'s>(location: &Location, files: &'s Sources) -> Spot<'s> {
    let file = files.file(location.file);
    let before = file.text.get(..location.span.start).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    Spot { file: &file.name, line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// A list, in the order in which they are shown.
pub fn json_of(diagnostics: &[Diagnostic], files: &Sources) -> Value {
    let one = |diagnostic: &Diagnostic| {
        let Spot { file, line, column } = spot(&diagnostic.primary.location, files);
        let beside: Vec<Value> = diagnostic
            .labels
            .iter()
            .map(|label| {
                let Spot { file, line, column } = spot(&label.location, files);
                json!({ "file": file, "line": line, "column": column, "text": label.text })
            })
            .collect();
        json!({
            "severity": severity(diagnostic.severity),
            "code": diagnostic.code,
            "message": diagnostic.message,
            "file": file,
            "line": line,
            "column": column,
            "notes": diagnostic.notes,
            "help": diagnostic.help,
            "beside": beside,
        })
    };
    json!({ "diagnostics": diagnostics.iter().map(one).collect::<Vec<_>>() })
}

/// A line of the log each.
pub fn log(diagnostics: &[Diagnostic], files: &Sources) {
    for diagnostic in diagnostics {
        let Spot { file, line, column } = spot(&diagnostic.primary.location, files);
        let (code, message, help) = (diagnostic.code, &*diagnostic.message, diagnostic.help.as_deref());
        match diagnostic.severity {
            Severity::Error => tracing::error!(code, file, line, column, help, "{message}"),
            Severity::Warning => tracing::warn!(code, file, line, column, help, "{message}"),
            Severity::Note => tracing::info!(code, file, line, column, help, "{message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::json_of;
    use std::path::Path;
    use tidegate_config::load_text;

    #[test]
    fn diagnostics_say_where_they_are() {
        let loaded = load_text("a.kdl", "site \"http://a.test\" {\n    frobnicate\n}\n", Path::new("/"));
        let seen = json_of(&loaded.diagnostics, &loaded.files);
        let one = &seen["diagnostics"][0];
        assert_eq!((&one["severity"], &one["code"]), (&"error".into(), &"unknown-word".into()), "{seen}");
        assert_eq!((&one["file"], &one["line"], &one["column"]), (&"a.kdl".into(), &2.into(), &5.into()), "{seen}");
        assert!(one["message"].as_str().is_some_and(|message| message.contains("frobnicate")), "{seen}");
    }
}
