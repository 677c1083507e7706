//! Whole runs with the real haproxy and nginx, small and short: what is reported when all goes well, when a peer is
//! absent, broken or ends half-way, and when the user has had enough. A peer that is not installed is said and left out
//! of these tests.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something was not as expected")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const LAB: &str = env!("CARGO_BIN_EXE_tidegate-lab");

/// Runs at a time lock each other out, so each has a temporary folder of its own.
fn lab(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    Command::new(LAB).args(arguments).env("TMPDIR", folder.path()).stdin(Stdio::null()).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn installed(name: &str) -> Option<PathBuf> {
    let found = ["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"].map(|folder| Path::new(folder).join(name));
    let found = found.into_iter().find(|path| path.is_file());
    if found.is_none() {
        // The pipeline installs it; a pipeline that does not would test nothing and be green.
        assert!(std::env::var_os("CI").is_none(), "{name} is not installed");
        println!("{name} is not installed: nothing was tested with it");
    }
    found
}

fn report(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("report.json")).unwrap()).unwrap()
}

fn script(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn cells<'a>(report: &'a Value, participant: &str) -> Vec<&'a Value> {
    let experiments = report["experiments"].as_array().unwrap();
    let all = experiments.iter().flat_map(|experiment| experiment["cells"].as_array().unwrap());
    all.filter(|cell| cell["participant"] == participant).collect()
}

/// A cell that came to a figure, or whose load was told not to have been what it was to be: a rate in rounds of 100 ms
/// is missed by any machine that does something else for a moment, and then the lab has to say so instead of giving a
/// figure.
fn is_answered(outcome: &Value) -> bool {
    let missed_its_rate =
        outcome["failed"]["reason"].as_str().is_some_and(|reason| reason.starts_with("could not keep the rate"));
    outcome == "measured" || outcome["limited"].is_object() || missed_its_rate
}

#[test]
fn a_run_tells_of_every_peer_and_goes_on_without_the_broken_one() {
    let (Some(_), Some(_)) = (installed("haproxy"), installed("nginx")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let broken = script(folder.path(), "caddy", "#!/bin/sh\necho 'no such library' >&2\nexit 127\n");
    let output = folder.path().join("report");
    let outcome = lab(&[
        "run",
        "e2",
        "--peers",
        "haproxy,nginx,angie,caddy",
        "--peer",
        &format!("caddy={broken}"),
        "--cache",
        &folder.path().display().to_string(),
        "--rounds",
        "2",
        "--round-time",
        "100ms",
        "--output",
        &output.display().to_string(),
    ]);
    assert!(outcome.status.success(), "{}", errors(&outcome));
    let report = report(&output);
    assert_eq!((&report["complete"], &report["preset"]), (&Value::Bool(true), &Value::from("quick")));
    let states: Vec<_> =
        report["peers"].as_array().unwrap().iter().map(|peer| (peer["name"].clone(), peer["state"].clone())).collect();
    assert_eq!(states[0].1, "found");
    assert!(states[2].1["absent"]["how-to-get"].is_string() || states[2].1["absent"]["how_to_get"].is_string(), "{states:?}");
    assert!(states[3].1["broken"]["reason"].as_str().is_some_and(|reason| reason.contains("no such library")), "{states:?}");
    for name in ["haproxy", "nginx"] {
        let cells = cells(&report, name);
        assert!(cells.len() >= 10, "{name}: {} cells", cells.len());
        for cell in cells {
            assert!(is_answered(&cell["outcome"]), "{cell}");
            assert_eq!(cell["rounds"].as_array().unwrap().len(), 2);
        }
    }
    for name in ["report.md", "report.html"] {
        let text = std::fs::read_to_string(output.join(name)).unwrap();
        assert!(text.contains("angie") && text.contains("no such library"), "{name}");
    }
}

#[test]
fn a_peer_that_ends_half_way_is_told_and_the_others_go_on() {
    let (Some(haproxy), Some(_)) = (installed("haproxy"), installed("nginx")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let real = haproxy.display();
    let pipe = folder.path().join("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Ends when somebody writes into the pipe, which is when a first case is being measured.
    let text = format!(
        "#!/bin/sh\ncase $1 in -v*) exec {real} \"$@\";; esac\n{real} \"$@\" & child=$!\nread line < {pipe}\n\
         kill -9 $child\necho 'out of luck' >&2\nexit 3\n"
    );
    let mortal = script(folder.path(), "haproxy", &text);
    let output = folder.path().join("report");
    let mut run = Command::new(LAB);
    run.args(["run", "http2", "--peers", "haproxy,nginx", "--rounds", "6", "--round-time", "300ms"]);
    run.args(["--peer", &format!("haproxy={mortal}"), "--output"]).arg(&output).env("TMPDIR", folder.path());
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let ours = folder.path().display().to_string();
    wait_until("a case is measured", || processes_with(&ours).iter().any(|line| line.contains("--streams 16")));
    std::fs::write(&pipe, "\n").unwrap();
    assert!(run.wait().unwrap().success());
    let report = report(&output);
    let failed: Vec<_> = cells(&report, "haproxy")
        .iter()
        .filter_map(|cell| cell["outcome"]["failed"]["reason"].as_str().map(str::to_owned))
        .collect();
    assert!(failed.iter().any(|reason| reason.contains("out of luck")), "{failed:?}");
    assert!(cells(&report, "nginx").iter().all(|cell| is_answered(&cell["outcome"])));
    assert_eq!(cells(&report, "nginx").len(), 3);
}

#[test]
fn an_interrupted_run_leaves_a_report_and_no_process() {
    if installed("nginx").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("report");
    let arguments = ["run", "sizes", "--peers", "nginx", "--preset", "full", "--output"];
    let mut run = Command::new(LAB);
    // Its temporary folder lies in ours, so that its processes can be told by their command lines.
    run.args(arguments).arg(&output).env("TMPDIR", folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = run.spawn().unwrap();
    let ours = folder.path().display().to_string();
    wait_until("a load runs", || processes_with(&ours).iter().any(|line| line.contains("load")));
    let id = rustix::process::Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let status = run.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    let report = report(&output);
    assert_eq!(report["complete"], false);
    assert!(report["warnings"][0].as_str().unwrap().contains("interrupted"), "{}", report["warnings"]);
    assert_eq!(processes_with(&ours), Vec::<String>::new());
    assert!(output.join("report.html").is_file());
}

/// Command lines of living processes that name this folder, but for the run itself.
fn processes_with(text: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap();
    let lines = all.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text) && !line.contains("--output")).collect()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_change_costs_is_measured_with_few_sites_and_with_more() {
    let (Some(_), Some(_)) = (installed("haproxy"), installed("nginx")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("report");
    let arguments = ["run", "change", "--peers", "haproxy,nginx", "--sites", "1,20", "--rounds", "1", "--round-time", "200ms"];
    let outcome = lab(&[arguments.as_slice(), &["--output", &output.display().to_string()]].concat());
    assert!(outcome.status.success(), "{}", errors(&outcome));
    let report = report(&output);
    for name in ["haproxy", "nginx"] {
        let cells = cells(&report, name);
        let cases: Vec<_> = cells.iter().map(|cell| cell["case"].as_str().unwrap()).collect();
        let parts = ["start", "change", "calm, open", "during changes, open"];
        let expected: Vec<_> =
            ["1 site", "20 sites"].iter().flat_map(|sites| parts.iter().map(move |part| format!("{sites} | {part}"))).collect();
        assert_eq!(cases, expected, "{name}");
        let figure = |case: &str, figure: &str| {
            let cell = cells.iter().find(|cell| cell["case"] == case).unwrap();
            cell["rounds"][0]["figures"][figure].as_f64().unwrap_or_else(|| panic!("{name} has no {figure}: {cell}"))
        };
        // On a busy machine the calm phase may fail to send its load, and a proxy may take long over a reload: neither
        // is what is tested.
        let is_slow = |reason: &serde_json::Value| reason.as_str().unwrap_or("").contains("was not seen within");
        let failed = cells.iter().filter(|cell| {
            let outcome = &cell["outcome"]["failed"];
            outcome.is_object() && !cell["case"].as_str().unwrap().contains("calm") && !is_slow(&outcome["reason"])
        });
        assert_eq!(failed.count(), 0, "{name}: {cells:?}");
        for sites in ["1 site", "20 sites"] {
            assert!(figure(&format!("{sites} | start"), "start-ms") > 0.0);
            assert!(figure(&format!("{sites} | start"), "resident-at-start-mb") > 0.0);
            assert!(figure(&format!("{sites} | change"), "change-seen-ms") > 0.0);
            assert!(figure(&format!("{sites} | change"), "cpu-ms-per-change") > 0.0);
            // The processes that serve then are others than those that were started.
            assert!(figure(&format!("{sites} | calm, open"), "cpu-us-per-request") > 1.0);
            assert!(figure(&format!("{sites} | during changes, open"), "changes-made") >= 1.0);
            assert!(figure(&format!("{sites} | during changes, open"), "requests") > 0.0);
        }
    }
    let text = std::fs::read_to_string(output.join("report.md")).unwrap();
    assert!(text.contains("Wrong answers and broken connections") && text.contains("ms until a change is seen"), "{text}");
}

#[test]
fn what_is_served_without_a_backend_is_measured_and_what_a_peer_lacks_is_said() {
    let (Some(_), Some(_)) = (installed("haproxy"), installed("nginx")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("report");
    let arguments = ["run", "content", "--peers", "haproxy,nginx", "--rounds", "1", "--round-time", "200ms"];
    let outcome = lab(&[arguments.as_slice(), &["--output", &output.display().to_string()]].concat());
    assert!(outcome.status.success(), "{}", errors(&outcome));
    let report = report(&output);
    let fixed = ["cache hit, 2k plain", "respond, 2k plain", "cache hit, 2k TLS", "respond, 2k TLS"];
    let files = ["file, 2k plain", "file, 100k plain", "file, 1m plain", "file, 10m plain"];
    let long: Vec<String> = ["zstd", "br"]
        .iter()
        .flat_map(|coding| ["first third", "middle", "last third"].map(|part| format!("100k {coding} | {part}")))
        .collect();
    let check = |name: &str, case: &str, is_measured: bool| {
        let cells = cells(&report, name);
        let cell =
            cells.iter().find(|cell| cell["case"] == case).unwrap_or_else(|| panic!("{name} has no cell {case}: {cells:?}"));
        if is_measured {
            assert!(is_answered(&cell["outcome"]), "{cell}");
            // In so short a round a busy machine may not come to the end of ten megabytes.
            let is_told = cell["rounds"][0]["figures"]["cpu-us-per-request"].as_f64().is_some_and(|us| us > 0.0);
            assert!(is_told || case.contains("10m"), "{cell}");
        } else {
            assert!(cell["outcome"]["unavailable"]["reason"].as_str().is_some_and(|reason| reason.starts_with(name)), "{cell}");
        }
    };
    for name in ["haproxy", "nginx"] {
        for case in fixed {
            check(name, case, true);
        }
        for case in files {
            check(name, case, name == "nginx");
        }
        for case in &long {
            check(name, case, false);
        }
    }
    // What is promised is promised of Tidegate, which was not there.
    let judgements = report["experiments"][0]["judgements"].as_array().unwrap();
    assert_eq!(judgements.len(), 6);
    assert!(judgements.iter().all(|judgement| judgement["verdict"] == "unknown"), "{judgements:?}");
    let text = std::fs::read_to_string(output.join("report.md")).unwrap();
    assert!(text.contains("sendfile-class, 10m plain S") && text.contains("it serves no files"), "{text}");
}

#[test]
fn wrong_inputs_are_named_with_their_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "{}").unwrap();
    let file = file.display().to_string();
    let check = |arguments: &[&str], expected: &[&str]| {
        let output = lab(arguments);
        let text = errors(&output);
        assert!(!output.status.success(), "{arguments:?} went well");
        for expected in expected {
            assert!(text.contains(expected), "{arguments:?}: `{expected}` is not in\n{text}");
        }
    };
    check(&["run", "e4"], &["e4", "e1, e1-nginx, e2, e3"]);
    check(&["run", "--peers", "ngnix"], &["ngnix", "perhaps `nginx` is meant"]);
    check(&["run", "--peer", "nginx"], &["nginx", "NAME=PATH"]);
    check(&["run", "--peers", "haproxy-3.4"], &["nobody has said where `haproxy-3.4` is", "--peer haproxy-3.4=PATH"]);
    check(&["run", "--peer", "haproxi-3.4=/x"], &["haproxi", "perhaps `haproxy` is meant"]);
    check(&["run", "--drivers", "kqueue"], &["no driver is called `kqueue`, but epoll and io-uring"]);
    check(
        &["run", "--peers", "nginx", "--peer", "nginx=/nowhere/nginx"],
        &["/nowhere/nginx", "no such file", "no proxy to measure"],
    );
    check(&["run", "--cores", "proxy=x"], &["`x` is not the number of a processor"]);
    check(&["run", "--round-time", "5"], &["500ms, 3s or 1m"]);
    check(&["run", "change", "--sites", "0"], &["0 is not in 1..=100000"]);
    check(&["run", "--preset", "slow"], &["slow", "quick, full"]);
    check(&["compare", "/nowhere.json", &file], &["/nowhere.json"]);
    check(&["readme", &file], &["not a report of tidegate-lab", "report.json of a run"]);
    if installed("nginx").is_some() {
        let output = format!("{file}/report");
        check(&["run", "--peers", "nginx", "--cores", "proxy=999"], &["may not run on processor 999"]);
        check(&["run", "--peers", "nginx", "--output", &output], &[&output, "--output"]);
        check(&["run", "--peers", "nginx", "--cgroup", &folder.path().display().to_string()], &["not a control group"]);
    }
}

#[test]
fn too_few_file_descriptors_are_said_before_anything_starts() {
    let output = Command::new("sh").args(["-c", &format!("ulimit -n 1000; exec {LAB} run e1")]).output().unwrap();
    assert!(errors(&output).contains("the limit of open files is 1000, and the lab needs 4096"), "{}", errors(&output));
    assert!(!output.status.success());
}
