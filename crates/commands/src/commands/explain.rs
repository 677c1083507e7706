//! `tidegate explain`: where a request would go by a configuration file, and why not elsewhere. Nothing is sent and
//! nothing needs to run.

use super::{fail, load, report};
use crate::output;
use std::path::Path;
use std::process::ExitCode;
use tidegate_control::{StartFault, read_geo, read_maps, share_certificates};
use tidegate_explain::{Known, Maps, Question, explain};

/// Exit code of a request that no site or no route takes.
const NOBODY: u8 = 2;

pub fn run(config: &Path, method: &str, url: &str, headers: &[String], from: Option<&str>) -> ExitCode {
    let request = match Question::parse(method, url, headers, from) {
        Ok(request) => request,
        Err(message) => return fail(&message),
    };
    let loaded = load(config);
    report(&loaded);
    let Some(mut configuration) = loaded.configuration else { return ExitCode::from(super::FAILED) };
    // What is wrong with files, `check` says.
    let _ = share_certificates(&mut configuration);
    // Which rows there are is a matter of files.
    let maps = match read_maps(&configuration) {
        Ok(maps) => Maps::of(maps.iter().cloned()),
        Err(faults) => return fail(&StartFault::from(faults).to_string()),
    };
    let geo = match read_geo(&configuration) {
        Ok(geo) => geo,
        Err(faults) => return fail(&StartFault::from(faults).to_string()),
    };
    match explain(&configuration, &request, Known { maps: &maps, geo: &geo }) {
        Ok(explanation) => {
            output::say(&explanation, || explanation.text.clone());
            if explanation.has_route { ExitCode::SUCCESS } else { ExitCode::from(NOBODY) }
        }
        Err(message) => fail(&message),
    }
}
