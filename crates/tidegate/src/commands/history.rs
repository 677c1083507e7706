//! `tidegate history`: the configurations that ran, and what is different between two of them.

use super::reach;
use super::status::time;
use super::table::{COLUMNS, cut, table};
use crate::cli::Running;
use std::process::ExitCode;
use tidegate_api::{Difference, Generations};

pub fn run(from: Option<u64>, to: Option<u64>, running: &Running) -> ExitCode {
    reach::with(reach::running(running), |client| {
        let Some(from) = from else {
            print!("{}", list(&client.fetch("/v1/generations")?));
            return Ok(());
        };
        let to = match to {
            Some(to) => to,
            None => client.fetch::<Generations>("/v1/generations")?.running,
        };
        let difference: Difference = client.fetch(&format!("/v1/generations/{from}/difference/{to}"))?;
        print!("{}", difference.plan.text);
        println!("{} from generation {from} to {to}", difference.plan.summary);
        Ok(())
    })
}

/// The newest first.
fn list(generations: &Generations) -> String {
    let rows: Vec<Vec<String>> = generations
        .generations
        .iter()
        .rev()
        .map(|generation| {
            let number = format!("{}{}", generation.number, if generation.running { " *" } else { "" });
            vec![number, time(generation.applied), generation.origin.clone(), generation.summary.clone()]
        })
        .collect();
    let page = table(&["GENERATION", "APPLIED (UTC)", "BY", "WHAT"], &rows);
    let lines: Vec<String> = page.lines().map(|line| cut(line, COLUMNS)).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::list;
    use tidegate_api::{Generation, Generations};

    #[test]
    fn the_newest_is_first_and_the_running_one_marked() {
        let generation = |number: u64, origin: &str| Generation {
            number,
            applied: "2026-11-20T10:00:00Z".parse().unwrap(),
            origin: origin.into(),
            summary: "1 route changed".into(),
            running: number == 2,
            files: Vec::new(),
        };
        let page = list(&Generations {
            running: 2,
            previous: Some(1),
            generations: vec![generation(1, "start"), generation(2, "apply /a.kdl")],
        });
        assert_eq!(
            page,
            "GENERATION  APPLIED (UTC)        BY            WHAT\n\
             2 *         2026-11-20 10:00:00  apply /a.kdl  1 route changed\n\
             1           2026-11-20 10:00:00  start         1 route changed\n"
        );
    }
}
