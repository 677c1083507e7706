//! `tidegate-lab peers`: several builds of a peer, what an install shows, and that nothing of it goes on once the user
//! has had enough. The programs are scripts.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something was not as expected")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

const LAB: &str = env!("CARGO_BIN_EXE_tidegate-lab");
/// What a machine that does something else needs at the most.
const PATIENCE: Duration = Duration::from_secs(60);

fn script(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The lab with these programs before all others, and a cache of its own.
fn lab(folder: &Path) -> Command {
    let mut command = Command::new(LAB);
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env("XDG_CACHE_HOME", folder).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process of this number is still at work; one that has ended and that nobody has asked about is not.
fn is_at_work(process: Pid) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    let is_zombie = state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'));
    test_kill_process(process).is_ok() && !is_zombie
}

#[test]
fn an_interrupted_install_leaves_no_process_behind() {
    // The second is as stubborn as a compiler that has to finish a file, and does not hear of the end.
    for (signal, trap) in [(Signal::INT, ""), (Signal::TERM, "trap '' TERM INT\n")] {
        let folder = tempfile::tempdir().unwrap();
        let pids = folder.path().join("pids");
        // Two processes: the one that the lab has started, and one that this has started.
        let go = format!("#!/bin/sh\n{trap}sleep 600 &\necho $$ $! > {0}.new\nmv {0}.new {0}\nwait\nsleep 600\n", pids.display());
        script(&folder.path().join("go"), &go);
        let install = lab(folder.path())
            .args(["peers", "install", "caddy", "traefik"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("the build runs", || pids.exists());
        let started: Vec<Pid> = std::fs::read_to_string(&pids)
            .unwrap()
            .split_whitespace()
            .map(|word| Pid::from_raw(word.parse().unwrap()).unwrap())
            .collect();
        assert!(started.len() == 2 && started.iter().all(|process| is_at_work(*process)));
        kill_process(Pid::from_raw(i32::try_from(install.id()).unwrap()).unwrap(), signal).unwrap();
        let output = install.wait_with_output().unwrap();
        let left: Vec<_> = started.iter().filter(|process| is_at_work(**process)).collect();
        for process in &left {
            let _ = kill_process(**process, Signal::KILL);
        }
        assert!(left.is_empty(), "{signal:?}: {left:?} of {started:?} go on");
        let (said, errors) = text(&output);
        assert_eq!(output.status.code(), Some(1), "{signal:?}: {said}{errors}");
        assert!(said.contains("caddy (1 of 2): go install caddy, after 0:0"), "{said}");
        assert!(said.contains("caddy: not installed. go install caddy: go: interrupted"), "{said}");
        assert!(!said.contains("traefik"), "the next one was begun: {said}");
        assert!(errors.contains("interrupted"), "{errors}");
    }
}

#[test]
fn builds_by_path_stand_side_by_side_with_what_they_say_of_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = vec!["peers".to_owned()];
    for (name, version) in [("haproxy", "2.6.12"), ("haproxy-3.4", "3.4.0-64a335366"), ("haproxy-next", "3.5-dev1")] {
        let path = folder.path().join(version);
        script(
            &path,
            &format!(
                "#!/bin/sh\necho HAProxy version {version} 2026/06/03\necho Running on OpenSSL version : OpenSSL 3.0.19 x\n"
            ),
        );
        arguments.push(format!("--peer={name}={}", path.display()));
    }
    let output = lab(folder.path()).args(&arguments).output().unwrap();
    let (said, errors) = text(&output);
    assert!(output.status.success(), "{errors}");
    let rows: Vec<Vec<&str>> =
        said.lines().filter(|line| line.starts_with("haproxy")).map(|line| line.split_whitespace().take(4).collect()).collect();
    let expected = [
        ["haproxy", "2.6.12", "OpenSSL", "3.0.19"],
        ["haproxy-3.4", "3.4.0-64a335366", "OpenSSL", "3.0.19"],
        ["haproxy-next", "3.5-dev1", "OpenSSL", "3.0.19"],
    ];
    assert_eq!(rows, expected, "{said}");
}

#[test]
fn a_check_tells_a_missing_module_from_a_refused_configuration() {
    let folder = tempfile::tempdir().unwrap();
    // Has neither Brotli nor zstd as a file, and does not know what a redirect is written with.
    let angie = "#!/bin/sh\ncase $1 in -V) echo Angie version: Angie/1.12.0 >&2; exit;; esac\n\
                 while [ $# -gt 1 ]; do shift; done\n\
                 if module=$(grep -o 'ngx_http_[a-z]*_filter_module' \"$1\"); then\n\
                 echo \"angie: [emerg] dlopen() \\\"/usr/lib/angie/modules/$module.so\\\" failed (no such file)\" >&2; exit 1; fi\n\
                 if grep -q gzip_comp_level \"$1\"; then echo 'angie: [emerg] invalid value \"1\" in x:3' >&2; exit 1; fi\n";
    let path = folder.path().join("angie-1.12");
    script(&path, angie);
    let peer = format!("--peer=angie={}", path.display());
    let output = lab(folder.path()).args(["peers", "check", "angie", &peer]).output().unwrap();
    let (said, errors) = text(&output);
    let line = |start: &str| said.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start}: {said}"));
    let brotli = line("angie: equalised, brotli 1:");
    assert!(brotli.contains("not checked") && brotli.contains("install `angie-module-brotli`"), "{brotli}");
    let zstd = line("angie: equalised, zstd 3:");
    assert!(zstd.contains("not checked") && zstd.contains("install `angie-module-zstd`"), "{zstd}");
    assert!(line("angie: equalised, gzip 1:").contains("REFUSED: exit status: 1: angie: [emerg] invalid value"), "{said}");
    assert!(line("angie: equalised:").ends_with("accepted"), "{said}");
    assert!(said.contains("12 configurations were not checked"), "{said}");
    assert!(!output.status.success() && errors.contains("6 configurations were refused"), "{errors}");
}
