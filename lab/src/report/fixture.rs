//! A small run with everything in it that a report must cope with: measured, limited, failed and unavailable cells,
//! absent and broken peers, an interruption, text that would be markup. Its figures are made up.

use std::collections::BTreeMap;

use crate::procfs::Machine;
use crate::results::figure::Figure;
use crate::results::judgement::Judgement;
use crate::results::{
    Cell, Configuration, Cores, ExperimentRecord, FORMAT, Flavour, Outcome, PeerRecord, PeerState, Placement, Report, Round,
};

pub const HOSTILE: &str = "HAProxy 2.6.12 <script>alert(1)</script>&\"";

/// The cost of a request and who pays it; what is not told apart otherwise follows from it.
const COSTS: [(&str, f64); 4] = [("tidegate", 12.7), ("haproxy", 16.7), ("nginx", 16.1), ("caddy", 61.0)];

pub fn report() -> Report {
    let machine = Machine {
        cpu: "Some(R) CPU 9 <fast> @ 3 GHz".into(),
        cores: 4,
        memory_bytes: 8 << 30,
        kernel: "6.1.0".into(),
        system: "Debian GNU/Linux 12 (bookworm)".into(),
    };
    Report {
        format: FORMAT,
        began: "2026-02-03 04:05 UTC".into(),
        seconds: 754.0,
        complete: false,
        command: "tidegate-lab run --preset quick".into(),
        preset: "quick".into(),
        machine,
        cores: Cores { proxy: vec![2, 3], generator: vec![0], backend: vec![1] },
        open_files: 65_536,
        warnings: vec!["Generator and backend have one core each: rates above what they manage are withheld.".into()],
        peers: peers(),
        experiments: vec![e1(), e1_nginx(), e2(), e3(), handshake(), memory(), targets()],
    }
}

/// Only one small experiment.
pub fn small() -> Report {
    Report { complete: true, warnings: Vec::new(), experiments: vec![handshake()], ..report() }
}

fn peers() -> Vec<PeerRecord> {
    let found = |name: &str, version: &str, tls_library: &str| PeerRecord {
        name: name.into(),
        state: PeerState::Found,
        path: format!("/usr/sbin/{name}"),
        version: version.into(),
        tls_library: tls_library.into(),
    };
    let other = |name: &str, state| PeerRecord {
        name: name.into(),
        state,
        path: String::new(),
        version: String::new(),
        tls_library: String::new(),
    };
    vec![
        found("tidegate", "tidegate 0.1.0", "rustls 0.23 with AWS-LC"),
        found("haproxy", HOSTILE, "OpenSSL 3.0.15"),
        other("envoy", PeerState::Broken { reason: "cannot execute binary file".into() }),
        found("nginx", "nginx/1.22.1", "OpenSSL 3.0.15"),
        found("caddy", "v2.9.1", "crypto/tls of Go"),
        other("traefik", PeerState::Absent { how_to_get: "`tidegate-lab fetch traefik`".into() }),
        other("angie", PeerState::Absent { how_to_get: "`tidegate-lab fetch angie`".into() }),
    ]
}

pub fn experiment(name: &str, title: &str, cells: Vec<Cell>) -> ExperimentRecord {
    ExperimentRecord {
        name: name.into(),
        title: title.into(),
        began: String::new(),
        command: String::new(),
        versions: BTreeMap::new(),
        seconds: 75.0,
        description: vec![format!("What {name} does, with `64` connections.")],
        fairness: vec!["The same certificate for everybody.".into(), "TLS libraries differ & cannot be made equal.".into()],
        configurations: vec![Configuration {
            participant: "nginx".into(),
            flavour: Flavour::Equalised,
            command: "nginx -c nginx.conf".into(),
            files: vec![("nginx.conf".into(), "events {}\nhttp { # <b>\n}\n".into())],
            note: "Keeps 128 upstream connections.".into(),
        }],
        cells,
        remarks: Vec::new(),
        judgements: Vec::new(),
    }
}

pub fn cell(case: &str, participant: &str, flavour: Flavour, rounds: Vec<Round>) -> Cell {
    Cell {
        case: case.into(),
        participant: participant.into(),
        flavour,
        placement: Placement::OwnCores,
        threads: 1,
        load: "--connections 64".into(),
        rounds,
        outcome: Outcome::Measured,
    }
}

/// Three rounds, 2 % around the figures.
pub fn rounds(figures: &[(Figure, f64)]) -> Vec<Round> {
    let round = |factor: f64| Round {
        figures: figures.iter().map(|(figure, value)| (*figure, value * factor)).collect(),
        ..Round::default()
    };
    vec![round(1.0), round(0.99), round(1.01)]
}

fn failed(mut cell: Cell, reason: &str) -> Cell {
    cell.rounds.clear();
    cell.outcome = Outcome::Failed { reason: reason.into() };
    cell
}

fn unavailable(mut cell: Cell, reason: &str) -> Cell {
    cell.rounds.clear();
    cell.outcome = Outcome::Unavailable { reason: reason.into() };
    cell
}

fn rung(rate: f64, participant: &str, flavour: Flavour, cost: f64) -> Cell {
    // A core and a half is what the proxy has before it queues.
    let capacity = 1.5e6 / cost;
    let answered = rate.min(capacity);
    let load = (rate / capacity).min(0.999);
    let late = if rate > capacity { 900_000.0 } else { 0.0 };
    let figures = [
        (Figure::RequestsPerSecond, answered),
        (Figure::Requests, answered * 10.0),
        (Figure::Failed, if rate > capacity { (rate - capacity) * 2.0 } else { 0.0 }),
        (Figure::Dropped, if rate > capacity { (rate - capacity) * 8.0 } else { 0.0 }),
        (Figure::LatencyP50Us, 180.0 / (1.0 - load) + late / 3.0),
        (Figure::LatencyP95Us, 420.0 / (1.0 - load) + late),
        (Figure::LatencyMaxUs, 3_000.0 / (1.0 - load) + late * 3.0),
        (Figure::CpuUsPerRequest, cost * (1.15 - 0.15 * load)),
        (Figure::ProxyCoresBusy, answered * cost / 1e6),
        (Figure::ReceivedBytes, answered * 10.0 * 180.0),
        (Figure::SentBytes, answered * 10.0 * 90.0),
    ];
    cell(&format!("{rate:.0}/s"), participant, flavour, rounds(&figures))
}

fn e1() -> ExperimentRecord {
    let mut cells = Vec::new();
    for rate in [1000.0, 4000.0, 16_000.0, 64_000.0] {
        for (name, cost) in COSTS {
            cells.push(rung(rate, name, Flavour::OutOfTheBox, cost * 1.2));
        }
        cells.push(rung(rate, "backend", Flavour::Floor, 6.0));
    }
    for cell in cells.iter_mut().filter(|cell| cell.case == "64000/s") {
        match cell.participant.as_str() {
            "tidegate" => cell.outcome = Outcome::Limited { by: "the generator, 0.99 cores of 1".into() },
            "nginx" => *cell = failed(cell.clone(), "it ended with signal 11"),
            _ => {}
        }
    }
    // Caddy broke at 64,000/s already in the round before, so somebody has no cell there.
    cells.retain(|cell| !(cell.participant == "caddy" && cell.case == "64000/s"));
    let mut experiment = experiment("e1", "Out of the box", cells);
    experiment.remarks.push("nginx ended at 64,000/s.".into());
    experiment
}

fn e1_nginx() -> ExperimentRecord {
    let variants = [("nginx", 19.0), ("nginx keepalive-4", 17.5), ("nginx multi-accept", 18.0), ("nginx aes-128-first", 18.5)];
    let mut cells = Vec::new();
    for rate in [1000.0, 4000.0] {
        for (name, cost) in variants {
            let flavour = if name == "nginx" { Flavour::OutOfTheBox } else { Flavour::Tuned };
            cells.push(rung(rate, name, flavour, cost));
        }
    }
    experiment("e1-nginx", "nginx, tuned as readers asked", cells)
}

fn e2() -> ExperimentRecord {
    let mut cells = Vec::new();
    for (case, factor, bytes) in [("2k plain closed", 1.0, 2_300.0), ("100k compressed closed", 9.0, 21_000.0)] {
        for (name, cost) in COSTS {
            // Somebody has to be better than Tidegate for the report to say so.
            let cost = if name == "haproxy" && factor > 1.0 { 11.5 } else { cost } * factor;
            let figures = [
                (Figure::CpuUsPerRequest, cost),
                (Figure::RequestsPerSecond, 1e6 / cost),
                (Figure::ReceivedBytesPerRequest, bytes),
            ];
            cells.push(cell(case, name, Flavour::Equalised, rounds(&figures)));
        }
    }
    for case in ["2k plain open 30 %", "2k plain open 70 %"] {
        for (name, cost) in COSTS {
            let at = |factor: f64| cost * factor * if case.contains("70") { 22.0 } else { 11.0 };
            let figures = [
                (Figure::CpuUsPerRequest, cost * 1.3),
                (Figure::LatencyP50Us, at(1.0)),
                (Figure::LatencyP75Us, at(1.3)),
                (Figure::LatencyP90Us, at(2.0)),
                (Figure::LatencyP95Us, at(2.8)),
                (Figure::LatencyP99Us, at(6.0)),
                (Figure::LatencyP999Us, at(16.0)),
                (Figure::LatencyMaxUs, at(40.0)),
                (Figure::SentLateP99Us, 20.0),
                (Figure::Dropped, 0.0),
            ];
            cells.push(cell(case, name, Flavour::Equalised, rounds(&figures)));
        }
    }
    let limited = cells.iter_mut().find(|cell| cell.participant == "nginx" && cell.case.starts_with("100k")).unwrap();
    limited.outcome = Outcome::Limited { by: "the backend, 1.00 cores of 1".into() };
    experiment("e2", "Equalised", cells)
}

fn e3() -> ExperimentRecord {
    let mut cells = Vec::new();
    for phase in ["steady", "instances 5→7 (1)", "instances 7→5 (1)", "cors added", "redirect removed"] {
        for (name, cost) in COSTS {
            let wrong = match (name, phase) {
                ("haproxy", "instances 7→5 (1)") => 3,
                ("nginx", "cors added") => 41,
                _ => 0,
            };
            let mut figures = vec![
                (Figure::Requests, 50_000.0),
                // Nobody who asks again shows it in the wrong answers.
                (Figure::SentAgain, f64::from(if (name, phase) == ("tidegate", "instances 5→7 (1)") { 7 } else { wrong * 2 })),
                (Figure::LatencyP75Us, cost * 800.0),
                (Figure::LatencyP90Us, cost * 1_200.0),
                (Figure::LatencyP95Us, cost * 1_500.0),
                (Figure::LatencyP99Us, cost * 2_500.0),
                (Figure::CpuUsPerRequest, cost * 1.1),
            ];
            if phase != "steady" {
                figures.push((Figure::SecondsToTakeEffect, cost / 100.0));
            }
            let mut cell = cell(&format!("1×250 | {phase}"), name, Flavour::OutOfTheBox, rounds(&figures));
            cell.rounds.truncate(1);
            let round = &mut cell.rounds[0];
            round.statuses = BTreeMap::from([(200, 50_000)]);
            if wrong > 0 {
                round.figures.insert(Figure::Failed, f64::from(wrong));
                round.statuses.insert(502, 2);
                round.failures = BTreeMap::from([("status 502".to_owned(), 2), ("reset".to_owned(), wrong as u64 - 2)]);
                round.first_failure = Some("GET /: connection reset <by peer>".into());
            }
            cells.push(cell);
        }
    }
    let redirect = cells.iter_mut().find(|cell| cell.participant == "caddy" && cell.case.ends_with("removed")).unwrap();
    *redirect = failed(redirect.clone(), "its admin endpoint did not answer within 10 s");
    experiment("e3", "Under change", cells)
}

fn handshake() -> ExperimentRecord {
    let mut cells = Vec::new();
    for (case, factor) in [("full", 10.0), ("resumed", 8.0)] {
        for placement in [Placement::Shared, Placement::OwnCores] {
            for (name, cost) in COSTS {
                let figures = [
                    (Figure::CpuUsPerRequest, cost * factor),
                    (Figure::HandshakesPerSecond, 1e6 / (cost * factor)),
                    (Figure::ResumedShare, if case == "full" { 0.0 } else { 0.99 }),
                ];
                cells.push(Cell { placement, ..cell(case, name, Flavour::Equalised, rounds(&figures)) });
            }
            let relay = cell(case, "relay", Flavour::Floor, rounds(&[(Figure::CpuUsPerRequest, 40.0)]));
            cells.push(Cell { placement, ..relay });
        }
    }
    let resumed = cells.iter_mut().find(|cell| cell.participant == "caddy" && cell.case == "resumed").unwrap();
    *resumed = unavailable(resumed.clone(), "it was built without tickets");
    experiment("handshake", "Handshakes", cells)
}

fn memory() -> ExperimentRecord {
    let mut cells = Vec::new();
    for (name, cost) in COSTS {
        // HAProxy is level: better by less than the noise.
        let start = if name == "haproxy" { 12.6 } else { cost };
        cells.push(cell("at start", name, Flavour::Equalised, rounds(&[(Figure::ResidentAtStartMb, start)])));
        cells.push(cell("5000 idle", name, Flavour::Equalised, rounds(&[(Figure::IdleKibPerConnection, cost * 0.8)])));
    }
    experiment("memory", "Memory", cells)
}

fn targets() -> ExperimentRecord {
    let mut experiment = experiment("targets", "The project's own targets", Vec::new());
    let nginx = Some(("nginx".to_owned(), 16.1));
    experiment.judgements = vec![
        Judgement::relative("h1-2k S", "CPU µs/request", Some(12.7), nginx.clone(), 0.80),
        Judgement::relative("open-5000 C", "p99 µs", Some(200.0), Some(("haproxy".to_owned(), 150.0)), 1.0),
        Judgement::absolute("idle", "MB resident", None, 25.0, "≤ 25 MB"),
    ];
    experiment
}
