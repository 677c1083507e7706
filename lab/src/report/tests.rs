//! What reports of the fixture look like, and what no report may do: load anything, or take text for markup.
//! The charts are tested where they are made.

use std::path::Path;

use super::*;
use crate::report::standing::{Place, standings};
use crate::results::figure::Figure;
use crate::results::{Cell, ExperimentRecord, Outcome, PeerRecord, Round};

#[test]
fn markdown_of_a_whole_run() {
    insta::assert_snapshot!(markdown(&fixture::report()));
}

#[test]
fn page_of_one_experiment() {
    // The style sheet and the script are files of their own.
    let page = html(&fixture::small());
    let style = page.find("<style>").unwrap()..page.find("</style>").unwrap();
    let script = page.rfind("<script>").unwrap()..page.rfind("</script>").unwrap();
    let text = format!("{}{}{}", &page[..style.start], &page[style.end..script.start], &page[script.end..]);
    insta::assert_snapshot!(text);
}

#[test]
fn table_of_the_readme() {
    insta::assert_snapshot!(readme::readme(&fixture::report()));
}

#[test]
fn the_page_loads_nothing() {
    let page = html(&fixture::report());
    for loads in ["http://", "https://", "src=", "<link", "@import", "url(", "fetch(", "<img", "<iframe", "xlink"] {
        assert!(!page.contains(loads), "{loads} is on the page");
    }
    let links: Vec<_> = page.split("href=\"").skip(1).collect();
    assert!(links.len() >= 7 && links.iter().all(|link| link.starts_with('#')), "{} links", links.len());
}

#[test]
fn text_is_never_markup() {
    let page = html(&fixture::report());
    assert_eq!(page.matches("<script>").count(), 1, "only the page's own");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;&#x2f;script&gt;&amp;&quot;"));
    for raw in [fixture::HOSTILE, "<fast>", "<by peer>", "<b>"] {
        assert!(!page.contains(raw), "{raw} is on the page as it is");
        assert!(!markdown(&fixture::report()).contains(raw), "{raw} is in the Markdown as it is");
    }
}

#[test]
fn every_element_is_closed_and_every_anchor_unique() {
    let page = html(&fixture::report());
    for element in
        ["table", "tr", "td", "th", "caption", "details", "summary", "figure", "svg", "g", "div", "ul", "ol", "li", "p", "text"]
    {
        let opened = page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
        assert!(opened > 0, "no {element}");
        assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
    }
    let mut ids: Vec<_> = page.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert_eq!(page.matches("<table").count(), page.matches("<caption").count());
    assert_eq!(page.matches("<svg").count(), page.matches("<desc").count());
    for broken in ["NaN", "inf\"", "None"] {
        assert!(!page.contains(broken), "{broken}");
    }
}

#[test]
fn whoever_is_not_there_is_named() {
    let page = html(&fixture::report());
    for wanted in [
        "absent. To get it: <code>tidegate-lab fetch traefik</code>",
        "does not run: cannot execute binary file",
        "Absent: envoy (does not run: cannot execute binary file); traefik (to get it: <code>tidegate-lab fetch traefik</code>)",
        "This run was interrupted",
        "Withheld: limited by the generator, 0.99 cores of 1",
        "Failed: it ended with signal 11",
        "Not available: it was built without tickets",
    ] {
        assert!(page.contains(wanted), "{wanted} is not on the page");
    }
}

#[test]
fn standings_say_where_tidegate_loses() {
    let standings = standings(&fixture::report());
    let place = |subject: &str| {
        let found = standings.iter().find(|standing| standing.subject() == subject);
        found.unwrap_or_else(|| panic!("no {subject}")).place()
    };
    assert_eq!(place("e2, 2k plain closed, CPU µs/request"), Place::Best);
    let Place::Behind { best, ratio } = place("e2, 100k compressed closed, CPU µs/request") else { panic!("not behind") };
    assert_eq!((best.as_str(), format!("{ratio:.3}").as_str()), ("haproxy", "1.104"));
    assert_eq!(place("memory, at start, resident MB at start"), Place::Level { with: "haproxy".into() });
    // Whoever stopped half-way with none so far may have none, and who has some already has lost.
    assert_eq!(place("e3, 1×250, wrong answers"), Place::Best);
    assert_eq!(place("e3, 1×250, requests sent again"), Place::Behind { best: "haproxy".into(), ratio: 7.0 / 6.0 });
    // HAProxy passed a rate at which Tidegate could not be measured.
    assert_eq!(place("e1, highest rate passed, requests/s"), Place::Unknown);
}

/// The fixture with a second column of Tidegate in everything that it was measured in, at a share of the cost.
fn with_a_ring(share: f64) -> Report {
    let mut report = fixture::report();
    let ring = PeerRecord { name: "tidegate io-uring".into(), ..report.peers[0].clone() };
    report.peers.insert(1, ring);
    for experiment in &mut report.experiments {
        let ours: Vec<Cell> = experiment.cells.iter().filter(|cell| cell.participant == "tidegate").cloned().collect();
        experiment.cells.extend(ours.into_iter().map(|mut cell| {
            cell.participant = "tidegate io-uring".into();
            let costs = cell.rounds.iter_mut().filter_map(|round| round.figures.get_mut(&Figure::CpuUsPerRequest));
            costs.for_each(|cost| *cost *= share);
            cell
        }));
    }
    report
}

#[test]
fn a_second_column_of_tidegate_is_nobodys_rival_and_has_a_ratio_of_its_own() {
    let report = with_a_ring(0.5);
    let all = standings(&report);
    let of = |subject: &str| all.iter().find(|standing| standing.subject() == subject).unwrap();
    let small = of("e2, 2k plain closed, CPU µs/request");
    assert_eq!(small.place(), Place::Best);
    let ratio = |name: &str| {
        let contender = small.contenders.iter().find(|contender| contender.name == name).unwrap();
        (format!("{:.2}", small.ratio(contender).unwrap()), small.is_best(contender))
    };
    // Of 12.7, 6.35, and 16.1 of nginx, which is the cheapest of the others.
    assert_eq!(ratio("tidegate"), ("0.79".to_owned(), false));
    assert_eq!(ratio("tidegate io-uring"), ("0.39".to_owned(), true));
    assert_eq!(ratio("nginx"), ("2.54".to_owned(), false));
    let table = readme::readme(&report);
    let head = table.lines().find(|line| line.starts_with("| |")).unwrap();
    assert!(head.ends_with("| Tidegate to the best other | tidegate io-uring to the best other |"), "{head}");
    let row = table.lines().find(|line| line.starts_with("| e2 2k plain closed")).unwrap();
    assert!(row.contains("| **6.35** |") && row.ends_with("| 0.79 | 0.39 |"), "{row}");
    let text = markdown(&report);
    assert!(text.contains("× 0.39") && !text.contains("Not in this experiment: tidegate io-uring"), "{text}");
    assert!(!standing::is_ours("tidegates") && standing::is_ours("tidegate-before") && !standing::is_ours("nginx"));
}

/// E3 of the fixture with `wrong` answers of Tidegate at first, and without its last phase.
fn incomplete(wrong: u64) -> Report {
    let mut report = fixture::report();
    let e3 = report.experiments.iter_mut().find(|experiment| experiment.name == "e3").unwrap();
    for cell in &mut e3.cells {
        if cell.participant == "haproxy" {
            cell.rounds[0].figures.remove(&Figure::Failed);
            cell.rounds[0].failures.clear();
        } else if cell.participant == "tidegate" && cell.case.ends_with("removed") {
            cell.rounds.clear();
            cell.outcome = Outcome::Unavailable { reason: "not yet".into() };
        } else if cell.participant == "tidegate" && cell.case.ends_with("steady") {
            cell.rounds[0].figures.insert(Figure::Failed, wrong as f64);
        }
    }
    report
}

#[test]
fn what_is_incomplete_is_a_lower_bound() {
    let check = |wrong: u64, place: &Place, text: &str, loss: bool| {
        let report = incomplete(wrong);
        let standings = standings(&report);
        let standing = standings.iter().find(|standing| standing.subject() == "e3, 1×250, wrong answers").unwrap();
        assert_eq!((&standing.place(), standing.ours().unwrap().text.as_str()), (place, text));
        assert!(!standing.is_best(standing.ours().unwrap()));
        let sentence = format!("e3, 1×250, wrong answers: {text} against 0 of haproxy");
        for page in [markdown(&report), readme::readme(&report)] {
            assert_eq!(page.contains(&sentence), loss, "{page}");
            assert!(page.contains(text));
        }
        // No figure of a round is bold red for being none so far.
        assert!(!markdown(&report).contains("**0, incomplete**"));
    };
    check(0, &Place::Unknown, "0, incomplete", false);
    check(1, &Place::Behind { best: "haproxy".into(), ratio: f64::INFINITY }, "≥ 1, incomplete", true);
}

#[test]
fn limited_phases_keep_their_counts_and_lose_their_percentiles() {
    let mut report = incomplete(1);
    let e3 = report.experiments.iter_mut().find(|experiment| experiment.name == "e3").unwrap();
    for cell in e3.cells.iter_mut().filter(|cell| cell.participant == "nginx") {
        cell.outcome = Outcome::Limited { by: "the generator".into() };
    }
    let text = markdown(&report);
    let row = text.lines().find(|line| line.starts_with("| nginx | **41** |")).unwrap();
    assert!(row.ends_with("| – [2] | – [2] | – [2] | – [2] |"), "{row}");
}

#[test]
fn nobody_is_the_best_where_it_cannot_be_known() {
    let mut report = fixture::report();
    let text = markdown(&report);
    let row = |caption: &str, row: &str| {
        let table = text.split(caption).nth(1).unwrap();
        table.lines().find(|line| line.starts_with(row)).unwrap().to_owned()
    };
    // nginx was limited in one of the two.
    assert!(row("\nrequests/s:", "| 2k plain closed").contains("**"));
    assert!(!row("\nrequests/s:", "| 100k compressed closed").contains("**"));
    assert!(row("\nCPU µs/request:", "| 100k compressed closed").contains("**"), "cost stands");
    let e2 = report.experiments.iter_mut().find(|experiment| experiment.name == "e2").unwrap();
    let limited = e2.cells.iter_mut().find(|cell| cell.case.contains("30 %") && cell.participant == "caddy").unwrap();
    limited.outcome = Outcome::Limited { by: "the backend".into() };
    let e2 = e2.clone();
    let place = |report: &Report| {
        let found = standings(report).into_iter().find(|standing| standing.subject() == "e2, 2k plain open 30 %, p99 µs");
        found.unwrap().place()
    };
    assert_eq!((place(&fixture::report()), place(&report)), (Place::Best, Place::Unknown));
    for (figure, case, experiment, expected) in [
        (Figure::RequestsPerSecond, "open 50 %", "x", false),
        (Figure::RequestsPerSecond, "closed", "x", true),
        (Figure::ResidentMb, "closed", "x", false),
        (Figure::ResidentMb, "closed", "memory", true),
        (Figure::ResidentPeakMb, "closed", "memory", true),
    ] {
        let cell = |participant: &str, value: f64| Cell {
            case: case.into(),
            participant: participant.into(),
            rounds: vec![Round { figures: [(figure, value)].into(), ..Round::default() }],
            outcome: Outcome::Measured,
            ..e2.cells[0].clone()
        };
        let cells = vec![cell("tidegate", 1.0), cell("nginx", 2.0)];
        let experiments = vec![ExperimentRecord { name: experiment.into(), cells, ..e2.clone() }];
        let text = markdown(&Report { experiments, ..fixture::small() });
        let row = text.lines().find(|line| line.starts_with(&format!("| {case}"))).unwrap();
        assert_eq!(row.contains("**"), expected, "{figure:?} {case} {experiment}: {row}");
    }
}

#[test]
fn cost_is_compared_at_rates_that_were_passed() {
    let report = fixture::report();
    let all = standings(&report);
    let at = |rate: &str| all.iter().find(|standing| standing.subject() == format!("e1, {rate}/s, CPU µs/request"));
    let text = |rate: &str, name: &str| {
        at(rate)
            .unwrap()
            .contenders
            .iter()
            .find(|contender| contender.name == name)
            .map(|contender| contender.text.clone())
            .unwrap()
    };
    assert_eq!(at("16000").unwrap().place(), Place::Best);
    assert_eq!(text("64000", "tidegate"), "limited");
    assert_eq!(at("64000").unwrap().place(), Place::Unknown);
    let mut report = report;
    for cell in report.experiments[0].cells.iter_mut().filter(|cell| cell.participant == "haproxy" && cell.case == "16000/s") {
        cell.rounds.iter_mut().for_each(|round| _ = round.figures.insert(Figure::LatencyP95Us, 2e6));
    }
    let all = standings(&report);
    let standing = all.iter().find(|standing| standing.subject() == "e1, 16000/s, CPU µs/request").unwrap();
    let haproxy = standing.contenders.iter().find(|contender| contender.name == "haproxy").unwrap();
    assert_eq!((haproxy.text.as_str(), haproxy.sample), ("not passed", None));
}

#[test]
fn files_are_written_and_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let report = fixture::report();
    let inner = folder.path().join("a/b");
    write(&inner, &report).unwrap();
    let mut names: Vec<_> =
        std::fs::read_dir(&inner).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["report.html", "report.json", "report.md"]);
    let read = Report::read(&inner.join("report.json")).unwrap();
    assert!(html(&read) == html(&report), "what was written and read again is another page");
    std::fs::remove_file(inner.join("report.md")).unwrap();
    rerender(&RenderOptions { report: inner.join("report.json") }).unwrap();
    assert_eq!(std::fs::read_to_string(inner.join("report.md")).unwrap(), markdown(&report));
}

#[test]
fn the_folder_is_named_after_day_and_machine() {
    let check = |cpu: &str, expected: &str| {
        let mut report = fixture::small();
        report.machine.cpu = cpu.into();
        assert_eq!(default_folder(&report, Path::new("lab/reports")), Path::new("lab/reports").join(expected));
    };
    check("Some(R) CPU 9 @ 3 GHz", "2026-02-03-some-4c");
    check("AMD EPYC 9554 64-Core Processor (family 25 model 17)", "2026-02-03-amd-epyc-9554-64-4c");
    check("", "2026-02-03-4c");
    let base = tempfile::tempdir().unwrap();
    let report = fixture::small();
    write(&default_folder(&report, base.path()), &report).unwrap();
    assert_eq!(default_folder(&report, base.path()), base.path().join("2026-02-03-0405-some-4c"));
}

#[test]
fn an_empty_run_is_a_report_too() {
    let report = Report { experiments: Vec::new(), peers: Vec::new(), ..fixture::report() };
    assert!(html(&report).contains("Of 0 comparisons"));
    assert!(markdown(&report).contains("## Participants"));
    assert!(readme::readme(&report).contains("None of the main cases was measured"));
}
