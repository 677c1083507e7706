//! `cargo xtask apps`: real applications behind Tidegate, with the first configuration that a newcomer would write.
//! Each is installed from its registry into a cache, started on loopback, and used as people use it: with a browser
//! where there is a page, otherwise with its own client. docs/applications.md shows the same configurations. No part of
//! the pipeline: installs take long, and need the registries.

mod browser;
mod cache;
mod example;
mod interrupt;
mod processes;
mod stage;
mod suite;
mod visitor;

use cache::Cache;
use stage::Stage;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use suite::{APPLICATIONS, Application};

const USAGE: &str = "\
usage: cargo xtask apps [NAME...]

  NAME...     only these; all of them when none is named
  --list      their names, what they are and what is done with them
  --install   installs them and runs none
  --clear     removes what was installed of them";

/// What folders of a run are called, with the id of its process behind it.
const RUN: &str = "run-";

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Run,
    List,
    Install,
    Clear,
    Help,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let (task, named) = read(arguments)?;
    let chosen: Vec<&Application> = if named.is_empty() { APPLICATIONS.iter().collect() } else { named.clone() };
    interrupt::watch()?;
    let cache = Cache::open()?;
    match task {
        Task::List => {
            for one in chosen {
                println!("{:12} {}\n{:12} {}", one.name, one.title, "", one.story);
            }
            Ok(())
        }
        Task::Help => {
            println!("{USAGE}");
            Ok(())
        }
        Task::Clear => chosen.iter().try_for_each(|one| cache.clear(one.name)),
        Task::Install => each(&present(chosen, &named)?, |one| (one.install)(&cache)),
        Task::Run => {
            let program = program()?;
            let chosen = present(chosen, &named)?;
            each(&chosen, |one| {
                (one.install)(&cache).map_err(|reason| format!("not installed: {reason}"))?;
                use_once(one, &cache, &program)
            })
        }
    }
}

fn read(arguments: &[String]) -> Result<(Task, Vec<&'static Application>), String> {
    let (mut task, mut chosen) = (Task::Run, Vec::new());
    for argument in arguments {
        match argument.as_str() {
            "--list" => task = Task::List,
            "--install" => task = Task::Install,
            "--clear" => task = Task::Clear,
            "--help" | "-h" => task = Task::Help,
            name => {
                let found = APPLICATIONS.iter().find(|one| one.name == name);
                let names = || APPLICATIONS.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
                chosen.push(found.ok_or_else(|| format!("there is no application `{name}`, but {}\n\n{USAGE}", names()))?);
            }
        }
    }
    Ok((task, chosen))
}

/// Applications that are there or can be had. Without the others the suite goes on, unless they were asked for.
fn present<'a>(chosen: Vec<&'a Application>, named: &[&Application]) -> Result<Vec<&'a Application>, String> {
    let absent = |one: &Application| one.program.filter(|program| !is_on_path(program));
    for one in &chosen {
        let Some(program) = absent(one) else { continue };
        let reason = format!("`{program}` is not on the PATH, and no registry has it: install it as its makers say");
        if !named.is_empty() {
            return Err(format!("{}: {reason}", one.name));
        }
        println!("=== {}: skipped, since {reason}", one.name);
    }
    Ok(chosen.into_iter().filter(|one| absent(one).is_none()).collect())
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// One after the other; one that fails stops no other.
fn each(chosen: &[&Application], act: impl Fn(&Application) -> Result<(), String>) -> Result<(), String> {
    let mut failed = Vec::new();
    for one in chosen {
        println!("=== {}: {}", one.name, one.title);
        let begin = Instant::now();
        let outcome = act(one);
        let took = begin.elapsed().as_secs();
        match outcome {
            Ok(()) => println!("=== {}: well, after {took} s", one.name),
            Err(reason) => {
                println!("=== {}: FAILED after {took} s\n{reason}", one.name);
                failed.push(one.name);
            }
        }
    }
    println!("{} passed, {} failed", chosen.len() - failed.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { Err(format!("repeat it with `cargo xtask apps {}`", failed.join(" "))) }
}

fn use_once(one: &Application, cache: &Cache, program: &Path) -> Result<(), String> {
    // Beside what was installed: Node.js finds packages in the folders above a file.
    let folder = cache.of(one.name).join(format!("{RUN}{}", std::process::id()));
    forget_earlier(&cache.of(one.name));
    let stage = Stage::new(cache, folder.clone(), program, one.configuration.text()?)?;
    (one.act)(&stage).map_err(|reason| format!("{reason}\nlogs are in {}", folder.display()))?;
    std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// What a failure or an interruption has left for its reader stays until the next run.
fn forget_earlier(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(id) = name.strip_prefix(RUN) else { continue };
        if !Path::new("/proc").join(id).exists() {
            // Where that cannot be done it is in nobody's way.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Beside this one: the task has built both.
fn program() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = own.with_file_name("tidegate");
    if program.is_file() { Ok(program) } else { Err(format!("there is no {}; `cargo xtask apps` builds it", program.display())) }
}

#[cfg(test)]
mod tests {
    use super::{Task, read};
    use crate::example::Configuration;
    use crate::suite::APPLICATIONS;

    #[test]
    fn names_choose_and_one_that_is_none_is_refused_with_those_there_are() {
        let names = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            read(&arguments).map(|(task, chosen)| (task, chosen.iter().map(|one| one.name).collect::<Vec<_>>()))
        };
        assert_eq!(names(&["vite", "acme"]), Ok((Task::Run, vec!["vite", "acme"])));
        assert_eq!(names(&["--list"]), Ok((Task::List, vec![])));
        let refused = names(&["vit"]).expect_err("it is none");
        assert!(refused.contains("`vit`") && refused.contains("vite"), "{refused}");
    }

    /// The manual shows what the suite uses.
    #[test]
    fn the_manual_has_each_configuration_word_for_word() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/applications.md")).expect("the page");
        for one in APPLICATIONS {
            // Others are taken out of their page.
            let Configuration::File(text) = one.configuration else { continue };
            let block = format!("\n```kdl\n{text}```\n");
            assert!(page.contains(&block), "docs/applications.md has not configurations/{}.kdl", one.name);
        }
    }
}
