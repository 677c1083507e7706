//! `cargo xtask long`: what takes too long for the pipeline, behind a real control plane and alone on the machine: six
//! runs of every change in front of clients, endpoints that come and go for ten minutes among ten thousand Ingresses,
//! an API server that is away for ten, and the soak. It fails where somebody got a wrong answer, and prints the figures
//! as a table. The pipeline runs the same tests in a short form.

use crate::process::{Invocation, cargo};
use crate::repository::{root, target_directory};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// As tests print what they have measured.
const FIGURE: &str = "figure: ";
/// What a failure shows of its log.
const LINES_SHOWN_MAX: usize = 30;

/// A test that is run for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LongTest {
    name: &'static str,
    binary: &'static str,
    /// Tests whose names contain this.
    filter: &'static str,
    minutes: u32,
    about: &'static str,
}

const TESTS: &[LongTest] = &[
    LongTest {
        name: "servers",
        binary: "kubernetes",
        filter: "rollout::servers_",
        minutes: 12,
        about: "pods of a Service 5 to 7 to 5, three times in each of six runs, 1 × 250 and 5 × 50 connections",
    },
    LongTest {
        name: "replicas",
        binary: "kubernetes",
        filter: "rollout::replicas_",
        minutes: 20,
        about: "the same with replicas of the program",
    },
    LongTest {
        name: "annotations",
        binary: "kubernetes",
        filter: "rollout::annotations_",
        minutes: 35,
        about: "CORS and a redirect put on and taken off, for 30 s each, the same six runs",
    },
    LongTest {
        name: "roll-out",
        binary: "kubernetes",
        filter: "rollout::the_program_",
        minutes: 9,
        about: "three replicas replaced by the next version, with WebSockets and streams, six times",
    },
    LongTest {
        name: "flaps",
        binary: "kubernetes",
        filter: "flaps::",
        minutes: 14,
        about: "1,000 endpoints a minute come and go for 10 minutes beside 10,000 Ingresses",
    },
    LongTest {
        name: "chaos",
        binary: "kubernetes",
        filter: "chaos::",
        minutes: 18,
        about: "an API server away for 10 minutes, set back, refusing for 5, cut off",
    },
    LongTest {
        name: "rights",
        binary: "kubernetes",
        filter: "rights::",
        minutes: 6,
        about: "no right is used that the chart does not give, and each one that is missing",
    },
    // Beside `chaos`: neither of them judges how long something takes.
    LongTest {
        name: "soak",
        binary: "load",
        filter: "soak::",
        minutes: 10,
        about: "aborts, kills and slow readers, 5 minutes a driver",
    },
];
/// Runs beside another one.
const BESIDE: (&str, &str) = ("soak", "chaos");
const SOAK_SECONDS: &str = "300";

pub fn run(arguments: &[String]) -> Result<(), String> {
    let wanted = Wanted::read(arguments)?;
    if wanted.is_list {
        for test in TESTS {
            println!("{:12} about {:2} minutes: {}", test.name, test.minutes, test.about);
        }
        return Ok(());
    }
    let root = root();
    let program = match &wanted.program {
        Some(program) => program.clone(),
        None => {
            cargo(&["build", "--locked", "--release", "--package", "tidegate"]).run(&root)?;
            target_directory(&root)?.join("release/tidegate")
        }
    };
    let program = fs::canonicalize(&program).map_err(|error| format!("{}: {error}", program.display()))?;
    let folder = target_directory(&root)?.join("long");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // Both tests are built before one is measured.
    cargo(&["test", "--locked", "--workspace", "--test", "kubernetes", "--test", "load", "--no-run"]).run(&root)?;
    let (began, mut outcomes) = (Instant::now(), Vec::new());
    for tests in in_order(&wanted.tests) {
        let place = |test: &LongTest| (*test, folder.join(format!("{}.log", test.name)));
        std::thread::scope(|beside| {
            let runs: Vec<_> = tests
                .iter()
                .map(place)
                .map(|(test, log)| {
                    let (root, program) = (&root, &program);
                    beside.spawn(move || outcome_of(test, root, program, log))
                })
                .collect();
            let ended = runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Err("a run broke off".to_owned())));
            outcomes.extend(ended);
        });
    }
    let outcomes = outcomes.into_iter().collect::<Result<Vec<LongOutcome>, String>>()?;
    let table = table(&outcomes);
    let file = folder.join("figures.md");
    fs::write(&file, &table).map_err(|error| format!("{}: {error}", file.display()))?;
    println!("\n{table}\n{} minutes; also in {}", began.elapsed().as_secs() / 60, file.display());
    let failed: Vec<&str> = outcomes.iter().filter(|outcome| !outcome.has_passed).map(|outcome| outcome.test.name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("FAILED: {}", failed.join(", "))) }
}

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    tests: Vec<&'static LongTest>,
    program: Option<PathBuf>,
    is_list: bool,
}

impl Wanted {
    fn read(arguments: &[String]) -> Result<Wanted, String> {
        let mut wanted = Wanted::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--list" => wanted.is_list = true,
                "--program" => wanted.program = Some(words.next().ok_or("--program is followed by a path")?.into()),
                name => {
                    let test = TESTS.iter().find(|test| test.name == name);
                    wanted.tests.push(test.ok_or_else(|| format!("there is no `{name}`; `cargo xtask long --list` names all"))?);
                }
            }
        }
        if wanted.tests.is_empty() {
            wanted.tests = TESTS.iter().collect();
        }
        Ok(wanted)
    }
}

/// Each alone, but for the one that disturbs nobody.
fn in_order(tests: &[&'static LongTest]) -> Vec<Vec<LongTest>> {
    let has = |name: &str| tests.iter().any(|test| test.name == name);
    let both = has(BESIDE.0) && has(BESIDE.1);
    let with = |test: &&LongTest| match (both && test.name == BESIDE.1, TESTS.iter().find(|other| other.name == BESIDE.0)) {
        (true, Some(other)) => vec![**test, *other],
        _ => vec![**test],
    };
    tests.iter().filter(|test| !(both && test.name == BESIDE.0)).map(with).collect()
}

struct LongOutcome {
    test: LongTest,
    has_passed: bool,
    took: Duration,
    figures: Vec<(String, String)>,
}

fn outcome_of(test: LongTest, root: &Path, program: &Path, log: PathBuf) -> Result<LongOutcome, String> {
    let invocation = invocation(test, program);
    println!("=== {}, about {} minutes: {}", test.name, test.minutes, invocation.line());
    let began = Instant::now();
    let output = invocation.capture(root)?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    fs::write(&log, &text).map_err(|error| format!("{}: {error}", log.display()))?;
    let (has_passed, took) = (output.status.success(), began.elapsed());
    println!("=== {}: {} after {} s; {}", test.name, if has_passed { "passed" } else { "FAILED" }, took.as_secs(), log.display());
    if !has_passed {
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(FIGURE)).collect();
        println!("{}", lines[lines.len().saturating_sub(LINES_SHOWN_MAX)..].join("\n"));
    }
    Ok(LongOutcome { test, has_passed, took, figures: figures(&text) })
}

fn invocation(test: LongTest, program: &Path) -> Invocation {
    let words = ["test", "--locked", "--workspace", "--test", test.binary, test.filter, "--", "--nocapture", "--test-threads=1"];
    cargo(&words)
        .with_environment("ROLLOUT_LONG", "1")
        .with_environment("SOAK_SECONDS", SOAK_SECONDS)
        .with_environment("TIDEGATE_KUBERNETES_REQUIRED", "1")
        .with_environment("PROGRAM", &program.to_string_lossy())
}

/// What was measured, and the figure.
fn figures(text: &str) -> Vec<(String, String)> {
    let figure = |line: &str| {
        // The name of a test may stand in front, without an end of its line.
        let (what, figure) = line.split_once(FIGURE)?.1.split_once(" | ")?;
        Some((what.to_owned(), figure.to_owned()))
    };
    text.lines().filter_map(figure).collect()
}

fn table(outcomes: &[LongOutcome]) -> String {
    let mut table = "| Test | What | Figure |\n| --- | --- | --- |\n".to_owned();
    for LongOutcome { test, has_passed, took, figures } in outcomes {
        let outcome = if *has_passed { "passed" } else { "**FAILED**" };
        let _ = writeln!(table, "| {} | {} | {outcome} in {} s |", test.name, test.about, took.as_secs());
        for (what, figure) in figures {
            let _ = writeln!(table, "| | {what} | {figure} |");
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{TESTS, Wanted, figures, in_order, invocation};
    use std::path::Path;

    #[test]
    fn all_of_it_takes_two_hours_at_most() {
        let beside = TESTS.iter().find(|test| test.name == "soak").map_or(0, |test| test.minutes);
        let minutes: u32 = TESTS.iter().map(|test| test.minutes).sum();
        // What builds the program and the tests has its own time.
        assert!(minutes - beside <= 120, "{minutes}");
    }

    #[test]
    fn the_soak_runs_beside_a_test_that_does_not_mind() {
        let names = |words: &[&str]| -> Vec<Vec<&str>> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let wanted = Wanted::read(&words).expect("they are understood");
            in_order(&wanted.tests).iter().map(|tests| tests.iter().map(|test| test.name).collect()).collect()
        };
        assert_eq!(names(&["flaps", "chaos", "soak"]), [vec!["flaps"], vec!["chaos", "soak"]]);
        assert_eq!(names(&["soak"]), [["soak"]]);
        assert_eq!(names(&[]).len(), TESTS.len() - 1);
        assert!(Wanted::read(&["flap".to_owned()]).is_err());
    }

    #[test]
    fn a_run_is_told_which_program_it_is_about() {
        let flaps = TESTS.iter().find(|test| test.name == "flaps").expect("it is there");
        let line = invocation(*flaps, Path::new("/opt/tidegate")).line();
        let expected = "ROLLOUT_LONG=1 SOAK_SECONDS=300 TIDEGATE_KUBERNETES_REQUIRED=1 PROGRAM=/opt/tidegate cargo test --locked \
                        --workspace --test kubernetes flaps:: -- --nocapture --test-threads=1";
        assert_eq!(line, expected);
    }

    #[test]
    fn figures_are_found_among_other_lines() {
        let text = "running 1 test\ntest a::b ... figure: servers, run 1 | p99 2 ms\nfigure: x | y | z\nfigure: nothing\n";
        let seen = figures(text);
        let expected = [("servers, run 1", "p99 2 ms"), ("x", "y | z")];
        assert_eq!(seen, expected.map(|(what, figure)| (what.to_owned(), figure.to_owned())));
    }
}
