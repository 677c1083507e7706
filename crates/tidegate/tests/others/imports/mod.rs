//! Another proxy with its file and this one with what `tidegate import` makes of it, before the same upstreams: asked
//! the same by `tidegate compare`, thousands of requests around each boundary of the file. The cases are folders of
//! `tests/imports`, see its README. What differs has to be expected, with the reason, and what is expected has to be
//! seen.

mod drawn;
pub mod echo;
mod expected;
mod pair;
mod peers;
mod scripts;
mod seeds;

use crate::programs::{Said, find, run};
use expected::{Expected, Unmended};
use pair::{NOTHING, Pair};
use peers::Peer;
use seeds::Seeds;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Requests that `import` writes of a case, at least.
const QUESTIONS_MIN: u64 = 20;
const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

#[test]
fn nginx() {
    check_all(Peer::Nginx);
}

#[test]
fn haproxy() {
    check_all(Peer::Haproxy);
}

#[test]
fn caddy() {
    check_all(Peer::Caddy);
}

#[test]
fn traefik() {
    check_all(Peer::Traefik);
}

#[test]
fn envoy() {
    check_all(Peer::Envoy);
}

fn folder(peer: Peer) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/imports").join(peer.name())
}

/// Every case of a peer, or the one that `CASE` names.
fn check_all(peer: Peer) {
    let Some(program) = peer.find() else { return };
    let wanted = std::env::var("CASE").ok();
    let entries = std::fs::read_dir(folder(peer)).expect("cases");
    let mut cases: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect();
    cases.sort();
    let is_wanted = |case: &&PathBuf| {
        wanted.as_ref().is_none_or(|wanted| case.ends_with(wanted.trim_start_matches(peer.name()).trim_start_matches('/')))
    };
    let (mut faults, mut requests, mut unmended) = (String::new(), 0, 0);
    for case in cases.iter().filter(is_wanted) {
        match check(peer, &program, case) {
            Ok((sent, wrong)) => {
                requests += sent;
                unmended += wrong;
            }
            Err(fault) => writeln!(faults, "=== {}/{}\n{fault}", peer.name(), name_of(case)).expect("a text takes all"),
        }
    }
    println!("{}: {} cases, {requests} requests to each side, {unmended} differences not yet mended", peer.name(), cases.len());
    assert!(faults.is_empty(), "\n{faults}");
    assert!(!cases.is_empty(), "there are no cases of {}", peer.name());
}

fn name_of(case: &Path) -> String {
    case.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn check(peer: Peer, program: &Path, case: &Path) -> Result<(u64, usize), String> {
    let seeds = Seeds::read(&case.join("seeds.txt"))?;
    let pair = match Pair::start(peer, program, case, &seeds) {
        Err(fault) if fault.starts_with(NOTHING) => {
            let found = [(NOTHING.to_owned(), (1, vec![fault]))].into();
            return settle(case, &found, &[]).map(|unmended| (0, unmended)).map_err(|faults| faults.join("\n"));
        }
        started => started?,
    };
    let expected = Expected::read(case, &seeds, &pair.report)?;
    let requests = pair.folder().join("requests.txt");
    std::fs::write(&requests, seeds.requests()).map_err(|error| error.to_string())?;
    let said = compared(&pair, &expected, &requests);
    if said.text.contains("--new: the server at") {
        let found = [("what is imported listens elsewhere".to_owned(), (1, vec![said.text, pair.configuration.clone()]))].into();
        return settle(case, &found, &[]).map(|unmended| (0, unmended)).map_err(|faults| faults.join("\n"));
    }
    let report = read(&said, &pair)?;
    if name_of(case) == asked_by_import(peer) {
        let report = read(&compared(&pair, &expected, &pair.questions), &pair)?;
        let found = expected.unexpected(&report);
        if !found.is_empty() || report["requests"]["sent"].as_u64().unwrap_or_default() < QUESTIONS_MIN {
            let shown: Vec<String> = found.into_values().flat_map(|(_, shown)| shown).collect();
            return Err(format!("of the questions of `import`:\n{}\n{}", shown.join("\n"), report["requests"]));
        }
    }
    match settle(case, &expected.unexpected(&report), &expected.unseen()) {
        Ok(unmended) => Ok((report["requests"]["sent"].as_u64().unwrap_or_default(), unmended)),
        Err(faults) => {
            Err(format!("{}\n--- the configuration\n{}\n--- the report\n{}", faults.join("\n"), pair.configuration, pair.report))
        }
    }
}

/// The case that is asked by the requests that `import` writes of it as well.
fn asked_by_import(peer: Peer) -> &'static str {
    match peer {
        Peer::Nginx | Peer::Envoy => "access",
        Peer::Haproxy => "conditions",
        Peer::Caddy => "matchers",
        Peer::Traefik => "rules",
    }
}

/// Both sides asked by a file.
fn compared(pair: &Pair, expected: &Expected, requests: &Path) -> Said {
    let ports = pair.ports_pattern();
    let file = requests.display().to_string();
    let (old, new) = (format!("http://127.0.0.1:{}", pair.peer_port), format!("http://127.0.0.1:{}", pair.our_port));
    let ignored = expected.ignored();
    let mut arguments = vec!["compare", "--json", "--old", &old, "--new", &new, "--all-methods", "--examples", "1000000"];
    for pattern in ignored.iter().chain([&ports]) {
        arguments.extend(["--ignore-body", pattern]);
    }
    arguments.push(&file);
    run(Path::new(PROGRAM), &arguments, "")
}

fn read(said: &Said, pair: &Pair) -> Result<Value, String> {
    let report: Value = serde_json::from_slice(&said.stdout).map_err(|error| format!("{error}: {}", said.text))?;
    match report["stopped"].as_str() {
        Some(why) => Err(format!("{why}\n{}", pair.said())),
        None => Ok(report),
    }
}

/// How many differences are known to be wrong; `Err` for others, and for what is expected and not seen.
fn settle(case: &Path, found: &BTreeMap<String, (usize, Vec<String>)>, unseen: &[String]) -> Result<usize, Vec<String>> {
    if std::env::var_os("UPDATE").is_some() {
        Unmended::read(case).update(found);
    }
    let unmended = Unmended::read(case);
    let faults = [unmended.faults(found), unseen.to_vec()].concat();
    if faults.is_empty() { Ok(unmended.total()) } else { Err(faults) }
}
