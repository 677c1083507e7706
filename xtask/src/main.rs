//! The project's own checks and tools, run as `cargo xtask <name>`. What a machine checks here stays true; see
//! CONTRIBUTING.md. Each task is one module: `tidy` reads the sources, `deny` reads the dependency graph, `ci` runs
//! every gate in order, `quick` those that fit what changed, `instructions` counts what a request costs, `bench` builds
//! and runs the lab, `static` the program that needs nothing of the system, `apps` real applications behind the
//! program, `kubernetes` builds the programs of a control plane for tests and renders the chart, `long` runs what the
//! pipeline has no time for, `dist` what people install, `readme` holds README.md against its report. No task is needed
//! to build or to use Tidegate.

mod apps;
mod bench;
mod ci;
mod deny;
mod dist;
mod finding;
mod graph;
mod instructions;
mod kubernetes;
mod long;
mod process;
mod quick;
mod readme;
mod release;
mod repository;
mod scratch;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <task>

  quick               after each change: format, tidy, lints and unit tests of what changed, some cases
  tidy                layers, rooms, lengths, names, comments, unsafe, documents, the five places of a step
  tidy --rooms [x]    the circles of modules in each crate; with a crate's name, what closes them
  tidy --hostile      how many hostile inputs the tree has, by class
  tidy --examples     `tidegate check` on every file in examples/
  deny                refused crates, duplicates, licences, reasons, advisories
  ci                  every gate, in the order the pipeline runs them
  long [NAME...] [--program PATH] [--list]
                      what is too long for the pipeline, behind a real control plane; two hours, with a table of figures
  instructions [--accept REASON] [--program PATH]
                      instructions per request, held against xtask/instructions.txt
  bench [args...]     builds the release binaries and runs the lab: `targets`, or the experiments that are named
  static [--program PATH]
                      builds the program as it is given out, and shows that it needs nothing of the system
  dist [PART...] [--check]
                      packages, repositories, the image, the manual as a site; see docs/packages.md
  apps [NAME...]      installs real applications, puts them behind Tidegate and uses them; `--list` names them
  kubernetes build    builds an API server, etcd, Helm and what belongs to them, for tests; once, into a cache
  kubernetes manifests [--check]
                      writes the manifests in packaging/kubernetes anew from the chart
  readme [--write]    the figures in README.md are those of the report that it names";

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
    let Some((task, rest)) = arguments.split_first() else { return Err(USAGE.into()) };
    match (task.as_str(), rest) {
        ("tidy", []) => tidy::run(),
        ("tidy", [flag]) if flag == "--examples" => tidy::run_examples(),
        ("tidy", [flag]) if flag == "--hostile" => tidy::run_hostile(),
        ("tidy", [flag]) if flag == "--rooms" => tidy::run_rooms(None),
        ("tidy", [flag, name]) if flag == "--rooms" => tidy::run_rooms(Some(name)),
        ("quick", []) => quick::run(),
        ("deny", []) => deny::run(),
        ("ci", []) => ci::run(),
        ("instructions", rest) => instructions::run(rest),
        ("bench", rest) => bench::run(rest),
        ("dist", rest) => dist::run(rest),
        ("static", rest) => release::run(rest),
        ("apps", rest) => apps::run(rest),
        ("kubernetes", rest) => kubernetes::run(rest),
        ("long", rest) => long::run(rest),
        ("readme", []) => readme::run(false),
        ("readme", [flag]) if flag == "--write" => readme::run(true),
        ("help" | "--help" | "-h", []) => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(format!("xtask: `{}` is not understood\n\n{USAGE}", arguments.join(" "))),
    }
}
