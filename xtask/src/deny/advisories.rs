//! Known vulnerabilities, asked of `cargo audit` where it is installed and its database can be reached. Where not, the
//! gate says so and goes on: a pipeline without a network must still be able to build what it has.

use crate::finding::Finding;
use crate::process::cargo;
use serde_json::Value;
use std::path::Path;

pub enum AdvisoriesOutcome {
    Checked(Vec<Finding>),
    /// With the reason.
    Skipped(String),
}

pub fn check(root: &Path) -> Result<AdvisoriesOutcome, String> {
    if !cargo(&["audit", "--version"]).capture(root)?.status.success() {
        return Ok(AdvisoriesOutcome::Skipped("cargo-audit is not installed".into()));
    }
    let output = cargo(&["audit", "--json"]).capture(root)?;
    Ok(read_report(&String::from_utf8_lossy(&output.stdout), &String::from_utf8_lossy(&output.stderr)))
}

/// The report is JSON; anything else means that there was no database to report from.
fn read_report(report: &str, complaints: &str) -> AdvisoriesOutcome {
    let list =
        serde_json::from_str::<Value>(report).ok().and_then(|report| Some(report["vulnerabilities"]["list"].as_array()?.clone()));
    let Some(list) = list else {
        let last = complaints.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        return AdvisoriesOutcome::Skipped(format!("cargo-audit gave no report: {}", last.trim()));
    };
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let finding = |entry: &Value| {
        let (package, advisory) = (&entry["package"], &entry["advisory"]);
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        Finding::whole(
            "Cargo.lock",
            "advisory",
            format!("{name} {version}: {} {}", text(&advisory["id"]), text(&advisory["title"])),
        )
    };
    AdvisoriesOutcome::Checked(list.iter().map(finding).collect())
}

#[cfg(test)]
mod tests {
    use super::{AdvisoriesOutcome, read_report};

    fn check(report: &str, complaints: &str, expected: &[&str]) {
        let seen = match read_report(report, complaints) {
            AdvisoriesOutcome::Checked(findings) => findings.iter().map(ToString::to_string).collect(),
            AdvisoriesOutcome::Skipped(why) => vec![format!("skipped: {why}")],
        };
        assert_eq!(seen, expected, "for {report:?}");
    }

    #[test]
    fn a_report_becomes_findings_and_no_report_a_skip() {
        check(r#"{"vulnerabilities":{"found":false,"list":[]}}"#, "", &[]);
        check(
            r#"{"vulnerabilities":{"list":[{"package":{"name":"a","version":"1.0.0"},"advisory":{"id":"RUSTSEC-1","title":"It leaks"}}]}}"#,
            "",
            &["Cargo.lock: advisory: a 1.0.0: RUSTSEC-1 It leaks"],
        );
        check("", "Fetching\nerror: no route to host\n", &["skipped: cargo-audit gave no report: error: no route to host"]);
        check("{}", "", &["skipped: cargo-audit gave no report: it said nothing"]);
    }
}
