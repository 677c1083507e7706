//! `tidegate upgrade`: another process takes over from the running one.

use super::reach;
use crate::cli::Running;
use crate::output;
use std::path::Path;
use std::process::ExitCode;
use tidegate_api::{UpgradeRequest, Upgraded};

pub fn run(binary: Option<&Path>, running: &Running) -> ExitCode {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    let request = UpgradeRequest { binary: binary.map(absolute) };
    reach::with(reach::running(running), |client| {
        let upgraded: Upgraded = client.post("/v1/upgrade", &request, None)?;
        if output::is_json() {
            output::say(&upgraded, String::new);
            return Ok(());
        }
        let Upgraded { process_id, left_behind } = upgraded;
        for difference in left_behind {
            eprintln!("warning: before the upgrade {difference}; the new process has read it anew");
        }
        println!("process {process_id} has taken over; the one before finishes its requests and ends");
        Ok(())
    })
}
