//! What reports of the fixture look like, and what no report may do: load anything, or take text for markup.
//! The charts are tested where they are made.

use std::path::Path;

use super::*;
use crate::report::standing::{Place, standings};

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
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;"));
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
    assert_eq!(place("e3, 1×250, wrong answers"), Place::Best);
    // HAProxy passed a rate at which Tidegate could not be measured.
    assert_eq!(place("e1, highest rate passed, requests/s"), Place::Unknown);
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
}

#[test]
fn an_empty_run_is_a_report_too() {
    let report = Report { experiments: Vec::new(), peers: Vec::new(), ..fixture::report() };
    assert!(html(&report).contains("Of 0 comparisons"));
    assert!(markdown(&report).contains("## Participants"));
    assert!(readme::readme(&report).contains("None of the main cases was measured"));
}
