//! `cargo xtask instructions`: how many instructions the program executes for one request, held against the figures in
//! `xtask/instructions.txt`. Unlike time they hardly depend on the machine's mood, so two percent can be a limit.
//! `measurement` drives the programs, `callgrind` reads what was counted, `figures` compares; this file says in what
//! order. Not a benchmark: waiting, caches and system calls count nothing here. Time is the lab's business (`cargo
//! xtask bench`).

mod callgrind;
mod figures;
mod measurement;
mod tools;

use crate::process::cargo;
use crate::release::{self, Machine};
use crate::repository::{root, target_directory};
use figures::{Figures, Judgement, Verdict};
use measurement::{Bench, SCENARIOS, Scenario};
use std::path::{Path, PathBuf};

const FIGURES: &str = "xtask/instructions.txt";
/// A figure that does not fit is measured so often in all: a failure shall not be an accident. In how many reads 100 KB
/// arrive is the kernel's business, and the same program has taken 16,674 and 17,630 instructions for them.
const ATTEMPTS: usize = 3;

pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let root = root();
    let here = tools::describe(&root)?;
    let path = root.join(FIGURES);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{FIGURES}: {error}"))?;
    let kept = Figures::parse(&text).map_err(|message| format!("{FIGURES}: {message}"))?;
    if kept.measured_with != here && options.accept.is_none() {
        return Err(other_tools(&kept.measured_with, &here));
    }
    let bench = Bench::new(build(&root, options.program)?)?;
    // Other tools make other figures, none of which can be kept.
    let kept = if kept.measured_with == here { kept } else { Figures { measured_with: here, lines: Vec::new() } };
    let mut measured = Vec::new();
    for scenario in SCENARIOS {
        let instructions = measure(&bench, scenario, &kept)?;
        println!("{}", Judgement::of(&kept, scenario.name, instructions));
        measured.push((scenario.name, instructions));
    }
    let judgements = figures::judge(&kept, &measured);
    let Some(reason) = options.accept else { return conclude(&judgements) };
    std::fs::write(&path, kept.accept(&measured, &reason).render()).map_err(|error| format!("{FIGURES}: {error}"))?;
    println!("{FIGURES} has the figures that did not fit, with the reason");
    Ok(())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// Why the figures that do not fit are to be kept from now on.
    accept: Option<String>,
    /// What is measured, instead of a fresh release build.
    program: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().filter(|value| !value.trim().is_empty()).ok_or(format!("`{word}` needs a value"));
            match word.as_str() {
                "--accept" => options.accept = Some(value()?.split_whitespace().collect::<Vec<_>>().join(" ")),
                "--program" => options.program = Some(value()?.into()),
                _ => {
                    return Err(format!(
                        "instructions: `{word}` is not understood; there are --accept REASON and --program PATH"
                    ));
                }
            }
        }
        Ok(options)
    }
}

/// The program under test as users build it, and the lab, which is client and upstream and is not counted.
fn build(root: &Path, program: Option<PathBuf>) -> Result<measurement::Programs, String> {
    let target = target_directory(root)?;
    cargo(&["build", "--locked", "--package", "lab"]).run(root)?;
    let proxy = release::program(root, Machine::this()?, program.as_deref())?;
    Ok(measurement::Programs { proxy, lab: target.join("debug/tidegate-lab") })
}

/// The first count that fits, else the median of all attempts.
fn measure(bench: &Bench, scenario: Scenario, kept: &Figures) -> Result<u64, String> {
    let mut seen = Vec::new();
    while seen.len() < ATTEMPTS {
        let instructions = bench.measure(scenario)?;
        if !Judgement::of(kept, scenario.name, instructions).verdict.is_off() {
            return Ok(instructions);
        }
        seen.push(instructions);
    }
    seen.sort_unstable();
    Ok(seen[seen.len() / 2])
}

fn conclude(judgements: &[Judgement]) -> Result<(), String> {
    let failed: Vec<String> = judgements
        .iter()
        .filter(|judgement| judgement.verdict != Verdict::Fits)
        .map(|judgement| format!("  {judgement}"))
        .collect();
    if failed.is_empty() {
        println!("instructions: {} scenarios agree with {FIGURES}", judgements.len());
        return Ok(());
    }
    Err(format!(
        "instructions: these do not agree with {FIGURES}\n{}\n\n\
         Fewer have to be accepted as well: beside a stale figure, later losses would not be seen.\n\
         If the change is worth it, say why, and commit the file:\n\n    cargo xtask instructions --accept \"REASON\"",
        failed.join("\n")
    ))
}

fn other_tools(kept: &str, here: &str) -> String {
    format!(
        "instructions: the figures in {FIGURES} cannot be compared with what is counted here\n  \
         there: {kept}\n  here:  {here}\n\n\
         Either use those tools (`.ci/run` on Debian 12 does), or, if the project moves to others, measure all anew on a commit that changes\n\
         nothing else:\n\n    cargo xtask instructions --accept \"REASON\""
    )
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn options_are_understood() {
        let check = |arguments: &[&str], expected: Result<(Option<&str>, Option<&str>), &str>| {
            let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
            let expected =
                expected.map(|(accept, program)| Options { accept: accept.map(Into::into), program: program.map(Into::into) });
            match (Options::parse(&arguments), expected) {
                (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
                (options, expected) => assert_eq!(options.as_ref().ok(), expected.as_ref().ok(), "for {arguments:?}"),
            }
        };
        check(&[], Ok((None, None)));
        check(&["--accept", "two\nlines  of it"], Ok((Some("two lines of it"), None)));
        check(&["--program", "a/b", "--accept", "x"], Ok((Some("x"), Some("a/b"))));
        check(&["--accept"], Err("`--accept` needs a value"));
        check(&["--accept", " "], Err("`--accept` needs a value"));
        check(&["--what"], Err("`--what` is not understood"));
    }
}
