//! Differences that a case expects, each with its reason: `status 404 → 200 | GET \S+ /a/ | why`. The first part is
//! what the report calls it, of a header with both values as in `header vary changed (a → b)`, and with `*` for
//! whatever stands there; the second a regular expression over method, host and target.
//!
//! A reason `report: words` holds only where the report of the import has these words. `ignore REGEX` in place of a
//! kind leaves what fits out of bodies, and `never KIND` is wrong whatever other lines expect. `{folder}` in the second
//! part is a boundary that ends with a slash, without it.
//!
//! What is wrong and not yet mended is counted in `unmended.txt`, so that it becomes less and never more.

use super::echo::normal;
use super::seeds::Seeds;
use regex::Regex;
use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Statuses of answers that a proxy made itself have pages of its own, unless the file says what they are: their bodies
/// are nobody's business. What an upstream says is compared at every status, by its headers.
const OWN_PAGES_FROM: u64 = 300;
const OF_OWN_PAGES: [&str; 1] = ["content-type"];

/// Requests that are shown of each kind.
const SHOWN_OF_EACH_MAX: usize = 12;

pub struct Expected(Vec<Line>);

struct Line {
    what: String,
    kind: Regex,
    whom: Regex,
    /// What the report has to say.
    said: Option<String>,
    /// Whether it is wrong, whatever other lines say.
    is_never: bool,
    text: String,
    is_seen: Cell<bool>,
}

impl Expected {
    /// Lines of the case, all of which have to be seen, of all cases of its proxy, and of all cases.
    pub fn read(case: &Path, seeds: &Seeds, report: &str) -> Result<Expected, String> {
        // Reports are broken into lines where people read them.
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lines = Vec::new();
        for (above, folder) in case.ancestors().take(3).enumerate() {
            let file = folder.join("expected-differences.txt");
            let text = match std::fs::read_to_string(&file) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(format!("{}: {error}", file.display())),
            };
            for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
                let line = Line::of(&line.replace("{folder}", &seeds.folders()))?;
                line.is_seen.set(above > 0 || line.is_never || line.ignored().is_some());
                if line.said.as_ref().is_none_or(|said| report.contains(said.as_str())) {
                    lines.push(line);
                }
            }
        }
        Ok(Expected(lines))
    }

    /// What differs and is not expected, by kind, with how often and the first requests.
    pub fn unexpected(&self, report: &Value) -> BTreeMap<String, (usize, Vec<String>)> {
        let mut found: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
        for group in report["differences"].as_array().into_iter().flatten() {
            let text = |key: &str| group[key].as_str().unwrap_or_default().to_owned();
            let (kind, name, what) = (text("kind"), text("name"), text("what"));
            let called = [kind.as_str(), &name, &what].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
            let is_page = kind == "body" || (kind == "header" && OF_OWN_PAGES.contains(&name.as_str()));
            for example in group["examples"].as_array().into_iter().flatten() {
                let is_own_page = is_page && example["status"].as_u64().is_some_and(|status| status >= OWN_PAGES_FROM);
                let part = |key: &str| example[key].as_str().unwrap_or_default();
                let target = part("target");
                let whom = format!("{} {} {target}{}", part("method"), part("host"), oddities(target));
                let values = format!("{called} ({} → {})", part("old"), part("new"));
                if self.has(if kind == "header" { &values } else { &called }, &whom) || is_own_page {
                    continue;
                }
                let (count, shown) = found.entry(called.clone()).or_default();
                *count += 1;
                if shown.len() < SHOWN_OF_EACH_MAX {
                    shown.push(format!("{called} | {whom} | old: {:?} new: {:?}", part("old"), part("new")));
                }
            }
        }
        found
    }

    /// Regular expressions of what is left out of bodies.
    pub fn ignored(&self) -> Vec<String> {
        self.0.iter().filter_map(Line::ignored).map(str::to_owned).collect()
    }

    /// Lines of the case that expect what does not differ.
    pub fn unseen(&self) -> Vec<String> {
        let unseen = self.0.iter().filter(|line| !line.is_seen.get());
        unseen.map(|line| format!("expected, and not seen: {}", line.text)).collect()
    }

    fn has(&self, called: &str, whom: &str) -> bool {
        let mut is_expected = false;
        let (never, others): (Vec<&Line>, Vec<&Line>) = self.0.iter().partition(|line| line.is_never);
        for line in never.into_iter().chain(others) {
            let is_it = line.kind.is_match(called);
            if is_it && line.is_never && line.whom.is_match(whom) {
                return false;
            }
            if is_it && !line.is_never && line.whom.is_match(whom) {
                line.is_seen.set(true);
                is_expected = true;
            }
        }
        is_expected
    }
}

/// What is odd about a path: `[odd]` for one that is not in its normal form, and `[above]` if it leads above the root.
fn oddities(target: &str) -> &'static str {
    let path = target.split('?').next().unwrap_or_default();
    let is_dots = |segment: &str| segment.to_ascii_lowercase().replace("%2e", ".") == "..";
    let mut depth = 0;
    let is_above = path.split('/').skip(1).any(|segment| {
        depth += match segment {
            "" | "." | "%2e" | "%2E" => 0,
            segment if is_dots(segment) => -1,
            _ => 1,
        };
        depth < 0
    });
    match (is_above, normal(path) == path) {
        (true, _) => " [odd] [above]",
        (false, false) => " [odd]",
        (false, true) => "",
    }
}

impl Line {
    fn of(text: &str) -> Result<Line, String> {
        let parts: Vec<&str> = text.split(" | ").map(str::trim).collect();
        let [what, whom, why] = parts[..] else { return Err(format!("`{text}` is not `what | whom | why`")) };
        if why.is_empty() {
            return Err(format!("`{text}` says no reason"));
        }
        let whom = Regex::new(whom).map_err(|error| error.to_string())?;
        let said = why.strip_prefix("report: ").map(str::to_owned);
        let (is_never, what) = what.strip_prefix("never ").map_or((false, what), |rest| (true, rest));
        let kind = format!("^{}$", regex::escape(what).replace(r"\*", ".*"));
        let kind = Regex::new(&kind).map_err(|error| error.to_string())?;
        Ok(Line { what: what.to_owned(), kind, whom, said, is_never, text: text.to_owned(), is_seen: Cell::new(false) })
    }

    fn ignored(&self) -> Option<&str> {
        self.what.strip_prefix("ignore ")
    }
}

/// How often each kind is wrong and not yet mended, as `17 status 200 → 404`.
pub struct Unmended {
    file: PathBuf,
    counts: BTreeMap<String, usize>,
}

impl Unmended {
    pub fn read(case: &Path) -> Unmended {
        let file = case.join("unmended.txt");
        // To be mended they have to be seen.
        let is_shown = std::env::var_os("SHOW").is_some();
        let text = if is_shown { String::new() } else { std::fs::read_to_string(&file).unwrap_or_default() };
        let counts = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(count, kind)| Some((kind.to_owned(), count.parse().ok()?)));
        Unmended { counts: counts.collect(), file }
    }

    /// What became more, with its requests. What became less is said, and written down by whoever mended it.
    pub fn faults(&self, found: &BTreeMap<String, (usize, Vec<String>)>) -> Vec<String> {
        let mut faults = Vec::new();
        for (kind, (count, shown)) in found {
            let known = self.counts.get(kind).copied().unwrap_or_default();
            if *count > known {
                faults.extend_from_slice(shown);
                faults.push(format!("{kind}: {count} in all, {known} known"));
            }
        }
        for (kind, known) in &self.counts {
            let count = found.get(kind).map_or(0, |(count, _)| *count);
            if count < *known {
                println!("{}: {kind}: only {count} of {known} are left; UPDATE=1 writes that down", self.file.display());
            }
        }
        faults
    }

    /// Writes down what is wrong now.
    pub fn update(&self, found: &BTreeMap<String, (usize, Vec<String>)>) {
        let text: Vec<String> = found.iter().map(|(kind, (count, _))| format!("{count} {kind}\n")).collect();
        if text.is_empty() {
            drop(std::fs::remove_file(&self.file));
        } else {
            std::fs::write(&self.file, text.concat()).expect("the case can be written");
        }
    }

    pub fn total(&self) -> usize {
        self.counts.values().sum()
    }
}
