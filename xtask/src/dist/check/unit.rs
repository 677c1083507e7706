//! The unit as systemd reads it: without a word against it, and no more exposed than what we promise.

use super::{CheckOutcome, asked, is_missing};
use crate::dist::Distribution;
use crate::process::Invocation;

/// In tenths, as `--threshold=` wants it.
const EXPOSURE_MAX: &str = "15";
const UNIT: &str = "packaging/systemd/tidegate.service";

pub fn check(distribution: &Distribution) -> Result<CheckOutcome, String> {
    if let Some(left) = is_missing("systemd-analyze", "systemd") {
        return Ok(left);
    }
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let arguments = ["security", "--offline=true", "--no-pager", &threshold, UNIT];
    let said = asked(&Invocation::new("systemd-analyze", &arguments), &distribution.root)?;
    let line = said.lines().rev().find(|line| line.contains("exposure level"));
    Ok(CheckOutcome::Passed(
        line.ok_or("it says nothing of the exposure")?.trim_start_matches(|c: char| !c.is_alphabetic()).trim().to_owned(),
    ))
}
