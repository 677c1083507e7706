//! `tidegate plan`, `apply`, `confirm` and `rollback`: changes of the running process's configuration. It reads the
//! file itself, on its machine and with its variables; a text from standard input is sent.

use super::{plural, reach, read_stdin};
use crate::cli::{Reach, Running};
use crate::output;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tidegate_admin::client::Client;
use tidegate_api::{Applied, ApplyRequest, Confirmed, DrainedConnections, Generations, NoOptions, PlanRequest, Planned};
use tidegate_config::{load_path, load_text};

/// What standard input is called in messages and in the history.
const STDIN_NAME: &str = "<stdin>";

/// A configuration as the process is given it, and the process.
struct Proposed {
    client: Result<Client, String>,
    request: PlanRequest,
}

fn propose(file: &Path, reach: &Reach) -> Proposed {
    if file == Path::new("-") {
        let text = read_stdin();
        let directory = std::env::current_dir().unwrap_or_default();
        let client = reach::client(reach, &load_text(STDIN_NAME, &text, &directory), Path::new(STDIN_NAME));
        let directory = Some(directory.display().to_string());
        return Proposed {
            client,
            request: PlanRequest { file: None, text: Some(text), name: Some(STDIN_NAME.to_owned()), directory },
        };
    }
    let client = reach::client(reach, &load_path(file), file);
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let file = Some(absolute.display().to_string());
    Proposed { client, request: PlanRequest { file, text: None, name: None, directory: None } }
}

/// Exit code of `plan --exit-code` when something would change.
const WOULD_CHANGE: u8 = 3;

pub fn plan(file: &Path, exit_code: bool, reach: &Reach) -> ExitCode {
    let Proposed { client, request } = propose(file, reach);
    reach::with_code(client, |client| {
        let planned: Planned = client.post("/v1/plan", &request, None)?;
        if !output::is_json() {
            eprint!("{}", planned.warnings);
        }
        output::say(&planned, || text_of(&planned));
        Ok(if exit_code && !planned.plan.empty { ExitCode::from(WOULD_CHANGE) } else { ExitCode::SUCCESS })
    })
}

fn text_of(Planned { generation, plan, warnings: _, connections_drained }: &Planned) -> String {
    let mut text = plan.text.clone();
    for DrainedConnections { listener, connections } in connections_drained {
        text.push_str(&format!("{connections} open connection{} of {listener} would be drained\n", plural(*connections)));
    }
    let yet = if plan.empty { "" } else { "nothing has happened, " };
    text.push_str(&format!("{}; {yet}generation {generation} runs\n", plan.summary));
    text
}

pub fn apply(file: &Path, confirm: Option<Duration>, max_error_rise: Option<f64>, reach: &Reach) -> ExitCode {
    let Proposed { client, request } = propose(file, reach);
    let PlanRequest { file, text, name, directory } = request;
    let request = ApplyRequest {
        file,
        text,
        name,
        directory,
        confirm_within_seconds: confirm.map(|time| time.as_secs()),
        max_error_rise,
        expected_generation: None,
    };
    reach::with(client, |client| {
        let applied: Applied = client.post("/v1/apply", &request, None)?;
        say(&applied);
        Ok(())
    })
}

fn say(applied: &Applied) {
    if output::is_json() {
        return output::say(applied, String::new);
    }
    let Applied { generation, changed, plan, warnings, confirm_within_seconds } = applied;
    eprint!("{warnings}");
    print!("{}", plan.text);
    if !changed {
        println!("nothing changes; generation {generation} runs on");
        return;
    }
    println!("{}; generation {generation} runs", plan.summary);
    if let Some(seconds) = confirm_within_seconds {
        println!("it is taken back in {seconds} s unless you say `tidegate confirm`");
    }
}

pub fn confirm(running: &Running) -> ExitCode {
    reach::with(reach::running(running), |client| {
        let confirmed: Confirmed = client.post("/v1/confirm", &NoOptions {}, None)?;
        output::say(&confirmed, || format!("generation {} stays\n", confirmed.generation));
        Ok(())
    })
}

pub fn roll_back(to: Option<u64>, running: &Running) -> ExitCode {
    reach::with(reach::running(running), |client| {
        let (to, expected) = match to {
            Some(to) => (to, None),
            None => {
                let known: Generations = client.fetch("/v1/generations")?;
                // "The one before" is meant of what runs now.
                (known.previous.unwrap_or_default(), Some(known.running))
            }
        };
        let applied: Applied = client.post(&format!("/v1/generations/{to}/rollback"), &NoOptions {}, expected)?;
        say(&applied);
        Ok(())
    })
}
