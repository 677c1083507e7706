//! The table of the project's README, made of one report: the main cases, the best in bold, and where Tidegate loses.
//! The same report always gives the same text.

use crate::report::page::{cell, escape};
use crate::report::standing::{OURS, Place, Standing, is_ours, standings};
use crate::report::{grid, head, under_change};
use crate::results::figure::Better;
use crate::results::{PeerState, Report};
use std::collections::BTreeMap;

pub fn readme(report: &Report) -> String {
    let all = standings(report);
    let main: Vec<_> = all.iter().filter(|standing| standing.main).collect();
    if main.is_empty() {
        return format!("{}\n\nNone of the main cases was measured in this run.\n", escape(&setting(report)));
    }
    let names = head::columns(report, &main);
    let mut text = format!("{}\n\n| |", escape(&setting(report)));
    for name in &names {
        text += &format!(" {} |", cell(name));
    }
    let ours: Vec<&str> = names.iter().copied().filter(|name| is_ours(name)).collect();
    for name in &ours {
        let column = if *name == OURS { "Tidegate" } else { name };
        text += &format!(" {} to the best other |", cell(column));
    }
    text += "\n| --- |";
    text += &" ---: |".repeat(names.len() + ours.len());
    text += "\n";
    for standing in &main {
        text += &row(standing, &names, &ours);
    }
    text += &meanings(&main);
    if main.iter().any(|standing| standing.unit == under_change::SENT_AGAIN) {
        text += &format!("\n{}\n", escape(under_change::SENT_AGAIN_MEANS));
    }
    text += &format!("\n{}\n", escape(&losses(&main)));
    if !report.complete {
        text += "\nThe run was interrupted: what is missing above was not measured.\n";
    }
    text
}

/// What the names of the rows stand for, in the order in which they come.
const MEANINGS: [(&str, &str); 5] = [
    (
        "e1",
        "requests for 11 bytes at constant rates, each higher than the one before, with each proxy's shortest configuration (out of the box) and with the same settings for all (equalised); passed is the highest at which none was lost or late",
    ),
    (
        "e2",
        "pages of 2 KB and 100 KB with the same settings for all, as many requests as come back (closed), plain or compressed by the proxy",
    ),
    (
        "e3",
        "instances come and go behind one port while 250 connections (1×250) or five generators with 50 each (5×50) ask; whatever was not the right answer is counted",
    ),
    ("handshake", "new connections, each with a full TLS handshake or a resumed one"),
    ("http2", "pages over HTTP/2, on so many connections with so many streams at once"),
];

fn meanings(main: &[&Standing]) -> String {
    let known = MEANINGS.iter().filter(|(name, _)| main.iter().any(|standing| standing.experiment == *name));
    let lines: Vec<String> = known.map(|(name, meaning)| format!("- **{name}**: {meaning}.\n")).collect();
    if lines.is_empty() { String::new() } else { format!("\n{}", lines.concat()) }
}

fn setting(report: &Report) -> String {
    let machine = &report.machine;
    let found = report.peers.iter().filter(|peer| peer.state == PeerState::Found);
    let versions: Vec<_> = found
        .map(|peer| {
            let library = if peer.tls_library.is_empty() { String::new() } else { format!(" ({})", peer.tls_library) };
            // A version often begins with the name.
            let named = peer.version.to_lowercase().contains(&peer.name);
            if named { format!("{}{library}", peer.version) } else { format!("{} {}{library}", peer.name, peer.version) }
        })
        .collect();
    let once = head::once(report);
    let once = if once.is_empty() { once } else { format!("; {}", once.trim_end_matches('.')) };
    format!(
        "{} on {}, {} cores, Linux {}, {}; preset {}, {}. {}. Less is better unless it says more. Medians over interleaved rounds \
         where there were several{once}.",
        if begins(report).len() > 1 { "Several runs" } else { "One run" },
        machine.cpu,
        machine.cores,
        machine.kernel,
        machine.system,
        report.preset,
        when(report),
        versions.join(", ")
    )
}

/// An updated report has experiments of earlier runs in it, and they may have measured an earlier Tidegate.
fn when(report: &Report) -> String {
    let begins = begins(report);
    match (begins.first(), begins.last()) {
        (Some(first), Some(last)) if first != last => {
            format!("the first experiment begun {first}, the last {last}; the report says of each when, and with which command")
        }
        _ => format!("began {}", report.began),
    }
}

/// When the commands were given whose experiments the report has, the earliest first.
fn begins(report: &Report) -> Vec<&str> {
    let commands: BTreeMap<&str, &str> =
        report.experiments.iter().rev().map(|experiment| (experiment.command.as_str(), experiment.began.as_str())).collect();
    let mut begins: Vec<_> = commands.into_values().collect();
    begins.sort_unstable();
    begins
}

fn row(standing: &Standing, names: &[&str], ours: &[&str]) -> String {
    let more = if standing.better == Better::Higher { ", more is better" } else { "" };
    let mut text = format!("| {} {}: {}{more} |", cell(&standing.experiment), cell(&standing.label), cell(&standing.unit));
    for name in names {
        let contender = standing.contenders.iter().find(|contender| contender.name == *name);
        let written = contender.map_or(grid::NOTHING, |contender| contender.text.as_str());
        let is_best = contender.is_some_and(|contender| standing.is_best(contender));
        text += &if is_best { format!(" **{}** |", cell(written)) } else { format!(" {} |", cell(written)) };
    }
    for name in ours {
        text += &format!(" {} |", to_best_rival(standing, name).unwrap_or_else(|| "–".to_owned()));
    }
    text + "\n"
}

fn to_best_rival(standing: &Standing, name: &str) -> Option<String> {
    let contender = standing.contenders.iter().find(|contender| contender.name == name)?;
    let ratio = contender.ratio_to(standing.best_rival()?)?;
    Some(format!("{ratio:.2}"))
}

fn losses(main: &[&Standing]) -> String {
    if !main
        .iter()
        .any(|standing| standing.contenders.iter().any(|contender| contender.name == OURS && contender.sample.is_some()))
    {
        return "Tidegate was not measured in this run.".to_owned();
    }
    let behind: Vec<_> = main.iter().filter_map(|standing| standing.shortfall()).collect();
    let unknown: Vec<_> =
        main.iter().filter(|standing| standing.place() == Place::Unknown).map(|standing| standing.subject()).collect();
    let mut text = if behind.is_empty() {
        "In none of these is somebody better than Tidegate beyond the noise.".to_owned()
    } else {
        format!("Tidegate is not the best in: {}.", behind.join("; "))
    };
    if !unknown.is_empty() {
        text +=
            &format!(" Not told by this run, as somebody was not measured or not brought to the limit: {}.", unknown.join("; "));
    }
    text
}
