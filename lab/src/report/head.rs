//! The beginning of a report: what to know before believing a figure, who took part, and the summary.

use crate::report::document::{Block, Column, Entry, Table, Tone};
use crate::report::standing::{Place, Standing};
use crate::report::{grid, number, section, under_change};
use crate::results::figure::Better;
use crate::results::{PeerRecord, PeerState, Report};

const GIB: f64 = (1u64 << 30) as f64;

pub fn blocks(report: &Report, standings: &[Standing]) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !report.complete {
        blocks.push(Block::Notice("This run was interrupted: what stands here was measured, the rest was not.".to_owned()));
    }
    blocks.extend(report.warnings.iter().map(|warning| Block::Notice(warning.clone())));
    let once = once(report);
    let once = if once.is_empty() { once } else { format!(" {once}") };
    blocks.push(Block::Paragraph(format!(
        "A figure is the median over interleaved rounds, with the lowest and highest beside it, where there were several.{once} CPU time is user \
         and system time of all threads and processes of the proxy, per answered request. A dash with a footnote is a figure that is withheld \
         because something else than the proxy was the bottleneck. The letter S behind a case means that proxy, generator and backend shared \
         one core, C that the proxy had cores of its own."
    )));
    blocks.push(Block::heading(2, "Summary"));
    blocks.extend(summary(report, standings));
    blocks.push(Block::heading(2, "Machine and run"));
    blocks.push(Block::List(machine(report)));
    blocks.push(Block::heading(2, "Participants"));
    blocks.push(Block::Table(participants(report)));
    blocks
}

/// What was measured once is no median of anything.
pub fn once(report: &Report) -> String {
    let experiments = report.experiments.iter().filter(|experiment| section::is_of_one_round(experiment));
    let names: Vec<_> = experiments.map(|experiment| experiment.name.as_str()).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!("{one} was measured once: its counts and figures have no spread."),
        [first @ .., last] => {
            format!("{} and {last} were measured once each: their counts and figures have no spread.", first.join(", "))
        }
    }
}

fn machine(report: &Report) -> Vec<String> {
    let machine = &report.machine;
    vec![
        format!("Processor: {}, {} cores, {:.1} GiB of memory", machine.cpu, machine.cores, machine.memory_bytes as f64 / GIB),
        format!("System: Linux {}, {}", machine.kernel, machine.system),
        format!(
            "Processors of the proxy: {}; of the generator: {}; of the backend: {}",
            cores(&report.cores.proxy),
            cores(&report.cores.generator),
            cores(&report.cores.backend)
        ),
        format!("Open files allowed for each process: {}", number::count(report.open_files)),
        format!("Command: `{}`, preset {}", report.command, report.preset),
        format!(
            "Began {}, took {}; {}",
            report.began,
            number::duration(report.seconds),
            if report.complete { "complete" } else { "interrupted" }
        ),
    ]
}

fn cores(cores: &[usize]) -> String {
    if cores.is_empty() {
        return "not pinned".to_owned();
    }
    let names: Vec<_> = cores.iter().map(ToString::to_string).collect();
    format!("number {}", names.join(", "))
}

fn participants(report: &Report) -> Table {
    let head = vec![
        Column::text("peer"),
        Column::text("state"),
        Column::text("version"),
        Column::text("TLS library"),
        Column::text("program"),
    ];
    let mut table = Table::new("Peers of this run", head);
    table.rows.extend(report.peers.iter().map(participant));
    table
}

fn participant(peer: &PeerRecord) -> Vec<Entry> {
    let known = |text: &str| if text.is_empty() { Entry::weak("–") } else { Entry::plain(text) };
    let state = match &peer.state {
        PeerState::Found => Entry::plain("found"),
        PeerState::Absent { how_to_get } => Entry { tone: Tone::Bad, ..Entry::plain(format!("absent. To get it: {how_to_get}")) },
        PeerState::Broken { reason } => Entry { tone: Tone::Bad, ..Entry::plain(format!("does not run: {reason}")) },
        PeerState::Forbidden { reason } => Entry { tone: Tone::Bad, ..Entry::plain(format!("not measured here: {reason}")) },
    };
    let path = if peer.path.is_empty() { Entry::weak("–") } else { Entry::plain(format!("`{}`", peer.path)) };
    vec![Entry::plain(&peer.name), state, known(&peer.version), known(&peer.tls_library), path]
}

fn summary(report: &Report, standings: &[Standing]) -> Vec<Block> {
    let main: Vec<_> = standings.iter().filter(|standing| standing.main).collect();
    let mut blocks = vec![Block::Paragraph(places(standings))];
    let behind: Vec<_> = standings.iter().filter_map(Standing::shortfall).collect();
    if !behind.is_empty() {
        blocks.push(Block::paragraph("Tidegate is behind the best in:"));
        blocks.push(Block::List(behind));
    }
    let level: Vec<_> = standings.iter().filter_map(level).collect();
    if !level.is_empty() {
        blocks.push(Block::Paragraph(format!(
            "Level with the best, as far as the noise of this run can tell: {}.",
            level.join("; ")
        )));
    }
    if !main.is_empty() {
        blocks.push(Block::Table(glance(report, &main)));
        if main.iter().any(|standing| standing.unit == under_change::SENT_AGAIN) {
            blocks.push(Block::paragraph(under_change::SENT_AGAIN_MEANS));
        }
    }
    blocks
}

/// How often Tidegate was the best, level, or behind.
pub fn places(standings: &[Standing]) -> String {
    let (mut best, mut level, mut behind, mut unknown) = (0, 0, 0, 0);
    for standing in standings {
        match standing.place() {
            Place::Best => best += 1,
            Place::Level { .. } => level += 1,
            Place::Behind { .. } => behind += 1,
            Place::Unknown => unknown += 1,
        }
    }
    format!(
        "Of {} comparisons in this run (CPU time, memory, latency at a given rate, what breaks), Tidegate is the best or shares the best \
         figure in {best}, is level with the best within the noise in {level}, and is behind the best in {behind}; {unknown} cannot be told \
         because Tidegate or a rival was not measured, or not brought to its limit.",
        standings.len()
    )
}

fn level(standing: &Standing) -> Option<String> {
    match standing.place() {
        Place::Level { with } => Some(format!("{} ({with})", standing.subject())),
        Place::Best | Place::Behind { .. } | Place::Unknown => None,
    }
}

/// The peers that took part in any of these, in the lab's order.
pub fn columns<'a>(report: &'a Report, standings: &[&Standing]) -> Vec<&'a str> {
    let takes_part = |name: &str| {
        standings.iter().any(|standing| standing.contenders.iter().any(|contender| contender.name == name && contender.competes))
    };
    report.peers.iter().map(|peer| peer.name.as_str()).filter(|name| takes_part(name)).collect()
}

fn glance(report: &Report, main: &[&Standing]) -> Table {
    let names = columns(report, main);
    let mut head = vec![Column::text("comparison"), Column::text("figure")];
    head.extend(names.iter().map(|name| Column::number(*name)));
    let mut table = Table::new("The main cases; × is the ratio to the best, with Tidegate to the best of the others", head);
    for standing in main {
        let mut entries =
            vec![Entry::plain(format!("{}: {}", standing.experiment, standing.label)), Entry::plain(figure(standing))];
        entries.extend(names.iter().map(|name| glance_entry(standing, name)));
        table.rows.push(entries);
    }
    table
}

fn figure(standing: &Standing) -> String {
    match standing.better {
        Better::Lower => format!("{}, less is better", standing.unit),
        Better::Higher => format!("{}, more is better", standing.unit),
        Better::Neither => standing.unit.clone(),
    }
}

fn glance_entry(standing: &Standing, name: &str) -> Entry {
    let Some(contender) = standing.contenders.iter().find(|contender| contender.name == name) else {
        return Entry::weak(grid::NOTHING);
    };
    let Some(sample) = contender.sample else { return Entry::weak(&contender.text) };
    let summary = sample.summary;
    let ratio = standing.ratio(contender).map(|ratio| format!("× {ratio:.2}"));
    let range = (summary.min < summary.max).then(|| format!("{}–{}", number::short(summary.min), number::short(summary.max)));
    let aside: Vec<String> = ratio.into_iter().chain(range).collect();
    Entry {
        aside: (!aside.is_empty()).then(|| aside.join("; ")),
        tone: if standing.is_best(contender) { Tone::Best } else { Tone::Plain },
        ..Entry::plain(&contender.text)
    }
}
