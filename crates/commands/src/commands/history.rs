//! `tidegate history`: the configurations that ran, and what is different between two of them.

use super::reach;
use super::status::time;
use super::table::{cut, uncut_table};
use crate::cli::Running;
use crate::output;
use jiff::Timestamp;
use std::process::ExitCode;
use std::time::Duration;
use tidegate_api::{Difference, Generations};

pub fn run(from: Option<u64>, to: Option<u64>, since: Option<Duration>, running: &Running) -> ExitCode {
    reach::with(reach::running(running), |client| {
        let Some(from) = from else {
            let path = match since.and_then(|since| Timestamp::now().checked_sub(since).ok()) {
                Some(since) => format!("/v1/generations?since={since}"),
                None => "/v1/generations".to_owned(),
            };
            let generations: Generations = client.fetch(&path)?;
            output::say(&generations, || list(&generations, output::columns()));
            return Ok(());
        };
        let to = match to {
            Some(to) => to,
            None => client.fetch::<Generations>("/v1/generations")?.running,
        };
        let difference: Difference = client.fetch(&format!("/v1/generations/{from}/difference/{to}"))?;
        let text = || format!("{}{} from generation {from} to {to}\n", difference.plan.text, difference.plan.summary);
        output::say(&difference, text);
        Ok(())
    })
}

/// The newest first, cut at so many columns; whoever reads it otherwise than on a terminal has all of it.
fn list(generations: &Generations, columns: Option<usize>) -> String {
    let rows: Vec<Vec<String>> = generations
        .generations
        .iter()
        .rev()
        .map(|generation| {
            let number = format!("{}{}", generation.number, if generation.running { " *" } else { "" });
            vec![number, time(generation.applied), generation.origin.clone(), generation.summary.clone()]
        })
        .collect();
    let page = uncut_table(&["GENERATION", "APPLIED (UTC)", "BY", "WHAT"], &rows);
    let lines: Vec<String> =
        page.lines().map(|line| columns.map_or_else(|| line.to_owned(), |columns| cut(line, columns))).collect();
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
        let all = Generations {
            running: 2,
            previous: Some(1),
            generations: vec![generation(1, "start"), generation(2, "apply /a.kdl")],
        };
        let page = list(&all, None);
        assert_eq!(
            page,
            "GENERATION  APPLIED (UTC)        BY            WHAT\n\
             2 *         2026-11-20 10:00:00  apply /a.kdl  1 route changed\n\
             1           2026-11-20 10:00:00  start         1 route changed\n"
        );
        let narrow = list(&all, Some(40));
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
        let mut long = all;
        long.generations[1].summary = "x".repeat(300);
        assert!(list(&long, None).contains(&long.generations[1].summary));
        assert!(list(&long, Some(200)).lines().any(|line| line.chars().count() == 200));
    }
}
