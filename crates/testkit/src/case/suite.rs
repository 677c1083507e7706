//! A folder of case files: found, run by a few threads, one result line each.

use super::run::{Over, Verdict, check_text, run_text_over, variants_of};
use super::script::ClientProtocol;
use crate::driver;
use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Instant;

/// Cases mostly wait, so more of them than processors may run; not many more, because their bounds are in real time.
const THREADS: usize = 4;

/// A case over one of its protocols.
struct Run {
    /// `topic/name`, and the protocol where it is not HTTP/1.1.
    name: String,
    case: String,
    text: String,
    over: Over,
    as_written: bool,
}

/// Runs the cases under `folder`, each over all of its protocols, whose name contains one of the parts, separated by
/// commas, of the variable `CASE`; with `CASE_EVERY` only one of so many of them. `Err` holds the reports of those that
/// failed.
pub fn run_folder(folder: &Path, binary: &Path) -> Result<(), String> {
    let filter = std::env::var("CASE").unwrap_or_default();
    let every = std::env::var("CASE_EVERY").ok().and_then(|text| text.parse().ok()).unwrap_or(1).max(1);
    let is_wanted = |run: &Run| filter.split(',').any(|part| run.name.contains(part));
    let wanted: VecDeque<Run> = runs(folder, has_rings(binary)?)?.into_iter().filter(is_wanted).step_by(every).collect();
    let total = wanted.len();
    if total == 0 {
        return Err(format!("no case in {} has `{filter}` in its name", folder.display()));
    }
    let counts = ClientProtocol::ALL.map(|protocol| {
        let count =
            wanted.iter().filter(|run| run.over.driver.is_none() && run.over.protocol == protocol && !run.as_written).count();
        format!("{count} over {}", protocol.word())
    });
    let as_written = wanted.iter().filter(|run| run.over.driver.is_none() && run.as_written).count();
    let on_a_ring = wanted.iter().filter(|run| run.over.driver.is_some()).count();
    let queue = Mutex::new(wanted);
    let (results, finished) = mpsc::channel();
    let mut failures = Vec::new();
    thread::scope(|scope| {
        for _ in 0..THREADS.min(total) {
            let (queue, results) = (&queue, results.clone());
            scope.spawn(move || {
                while let Some(run) = next(queue) {
                    let begin = Instant::now();
                    let verdict = run_text_over(&run.case, &run.text, run.over, Some(binary));
                    let _ = results.send((run.name, verdict, begin.elapsed()));
                }
            });
        }
        drop(results);
        for (name, verdict, time) in finished {
            let word = match &verdict {
                Verdict::Passed => "ok".to_owned(),
                Verdict::Skipped(reason) => format!("skipped: {reason}"),
                Verdict::Failed(_) => "FAILED".to_owned(),
            };
            say(&format!("case {name} ... {word} ({:.2} s)", time.as_secs_f32()));
            if let Verdict::Failed(report) = verdict {
                failures.push((name, report));
            }
        }
    });
    say(&format!("cases run: {}, {as_written} over what their clients say, {on_a_ring} on rings", counts.join(", ")));
    if failures.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = failures.iter().map(|(name, _)| name.as_str()).collect();
    let reports: Vec<String> = failures.iter().map(|(name, report)| format!("==== {name}\n{report}")).collect();
    Err(format!("{}\n{} of {total} runs failed: {}", reports.join("\n"), failures.len(), names.join(", ")))
}

/// Whether workers can run on rings here. Where the kernel forbids it, this says so and the cases run without; any
/// other fault of a ring is one.
fn has_rings(binary: &Path) -> Result<bool, String> {
    let reason = driver::why_no_ring(binary)?;
    if let Some(reason) = &reason {
        say(&format!("no case runs on a ring: {reason}"));
    }
    Ok(reason.is_none())
}

fn runs(folder: &Path, on_rings: bool) -> Result<Vec<Run>, String> {
    let mut runs = Vec::new();
    for (case, path) in cases(folder)? {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let variants = variants_of(&case, &text).map_err(|error| format!("{}, {error}", path.display()))?;
        // Each case once on a ring, over its protocols in turn, so that all of them meet it.
        if on_rings && variants.takes_a_driver {
            let protocol = variants.protocols[runs.len() % variants.protocols.len()];
            let over = Over { protocol, driver: Some(driver::RING) };
            let name = format!("{case} over {} on a ring", protocol.word());
            runs.push(Run { name, case: case.clone(), text: text.clone(), over, as_written: variants.as_written });
        }
        for protocol in variants.protocols {
            let name = match protocol {
                ClientProtocol::Http1 => case.clone(),
                ClientProtocol::H2c | ClientProtocol::H2 => format!("{case} over {}", protocol.word()),
            };
            let over = Over { protocol, driver: None };
            runs.push(Run { name, case: case.clone(), text: text.clone(), over, as_written: variants.as_written });
        }
    }
    Ok(runs)
}

/// How many cases there are, and how many of them are run over every protocol; and of the others, why they are not.
pub fn coverage(folder: &Path) -> Result<(usize, usize, Vec<String>), String> {
    let (mut over_all, mut others) = (0, Vec::new());
    let cases = cases(folder)?;
    for (case, path) in &cases {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let variants = variants_of(case, &text).map_err(|error| format!("{}, {error}", path.display()))?;
        if variants.protocols.len() == ClientProtocol::ALL.len() {
            over_all += 1;
        } else {
            let words: Vec<&str> = variants.protocols.iter().map(|protocol| protocol.word()).collect();
            let words = if variants.as_written { "as written".to_owned() } else { format!("over {}", words.join(", ")) };
            others.push(format!("{case} {words}: {}", variants.reason.unwrap_or_default()));
        }
    }
    Ok((cases.len(), over_all, others))
}

/// Reads all cases under `folder` without running them.
pub fn check_syntax(folder: &Path) -> Result<usize, String> {
    let cases = cases(folder)?;
    let mut faults = Vec::new();
    for (name, path) in &cases {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        if let Err(error) = check_text(name, &text) {
            faults.push(format!("{}, {error}", path.display()));
        }
    }
    if faults.is_empty() { Ok(cases.len()) } else { Err(faults.join("\n")) }
}

fn next(queue: &Mutex<VecDeque<Run>>) -> Option<Run> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

/// `topic/name` and path of every case, sorted.
fn cases(folder: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let mut cases = Vec::new();
    for topic in entries(folder)? {
        if !topic.is_dir() {
            continue;
        }
        for path in entries(&topic)? {
            if path.extension().is_some_and(|extension| extension == "case") {
                let part = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                cases.push((format!("{}/{}", part(&topic), part(&path)), path));
            }
        }
    }
    cases.sort();
    Ok(cases)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let read = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(read.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect())
}

/// Written past the test harness, which would hold it back until the end.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
