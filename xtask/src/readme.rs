//! `cargo xtask readme`: the table of measured figures in README.md is the one that the lab makes of the report that
//! stands above it, and the picture is the report's. Nobody edits them by hand; `--write` puts them there anew.

use crate::process::cargo;
use crate::repository::root;
use std::path::Path;

const DOCUMENT: &str = "README.md";
const BEGIN: &str = "<!-- lab: ";
const BEGIN_END: &str = " -->\n";
const END: &str = "<!-- /lab -->";

pub fn run(write: bool) -> Result<(), String> {
    let root = root();
    let path = root.join(DOCUMENT);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{DOCUMENT}: {error}"))?;
    let part = generated_part(&text)?;
    let expected = of_lab(&root, &[part.report])?;
    let picture = of_lab(&root, &["--picture", part.report])?;
    let picture_path = picture_of(part.report);
    if !text.contains(&format!("({picture_path})")) {
        return Err(format!("{DOCUMENT} does not show the picture of its report, {picture_path}"));
    }
    let shown = std::fs::read_to_string(root.join(&picture_path)).unwrap_or_default();
    if part.text == expected && shown == picture {
        println!("{DOCUMENT} and its picture agree with {}", part.report);
        return Ok(());
    }
    if !write {
        return Err(format!(
            "{DOCUMENT} or its picture does not agree with {}; write both anew with `cargo xtask readme --write`",
            part.report
        ));
    }
    std::fs::write(root.join(&picture_path), picture).map_err(|error| format!("{picture_path}: {error}"))?;
    let text = format!("{}{expected}{}", &text[..part.begin], &text[part.begin + part.text.len()..]);
    std::fs::write(&path, text).map_err(|error| format!("{DOCUMENT}: {error}"))?;
    println!("{DOCUMENT} has the table and the picture of {}", part.report);
    Ok(())
}

/// The picture stands beside the report.
fn picture_of(report: &str) -> String {
    let folder = report.rsplit_once('/').map_or(".", |(folder, _)| folder);
    format!("{folder}/readme.svg")
}

/// What stands between the two marks.
struct GeneratedPart<'a> {
    /// Path of the report, from the root.
    report: &'a str,
    begin: usize,
    text: &'a str,
}

fn generated_part(text: &str) -> Result<GeneratedPart<'_>, String> {
    let marks = format!("{DOCUMENT} needs one part between `{BEGIN}PATH-OF-REPORT.json -->` and `{END}`");
    let begin = text.find(BEGIN).ok_or(&marks)?;
    let report_begin = begin + BEGIN.len();
    let report_end = report_begin + text[report_begin..].find(BEGIN_END).ok_or(&marks)?;
    let begin = report_end + BEGIN_END.len();
    let length = text[begin..].find(END).ok_or(&marks)?;
    Ok(GeneratedPart { report: &text[report_begin..report_end], begin, text: &text[begin..begin + length] })
}

fn of_lab(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let run = [&["run", "--quiet", "--locked", "--package", "lab", "--", "readme"], arguments].concat();
    let output = cargo(&run).capture(root)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{generated_part, picture_of};

    #[test]
    fn the_picture_stands_beside_the_report() {
        assert_eq!(picture_of("lab/reports/x/report.json"), "lab/reports/x/readme.svg");
        assert_eq!(picture_of("report.json"), "./readme.svg");
    }

    #[test]
    fn the_part_between_the_marks_is_found() {
        let text = "a\n<!-- lab: lab/reports/x/report.json -->\n| t |\n<!-- /lab -->\nb\n";
        let part = generated_part(text).unwrap();
        assert_eq!((part.report, part.text), ("lab/reports/x/report.json", "| t |\n"));
        assert_eq!(&text[part.begin..part.begin + part.text.len()], part.text);
        for text in ["", "<!-- lab: x -->\n| t |\n", "<!-- lab: x\n<!-- /lab -->", "| t |\n<!-- /lab -->"] {
            assert!(generated_part(text).is_err(), "{text}");
        }
    }
}
