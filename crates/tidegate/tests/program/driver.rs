//! Where a ring cannot be had: the kernel forbids it, is too old or short of memory. `driver "io-uring"` ends with one
//! sentence that says what to do, `auto` runs on epoll. What a kernel would answer is said by a seccomp filter in its
//! place, which a launcher installs before it becomes the program.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use tidegate_testkit::driver::{self, RING};
use tidegate_testkit::{Proxy, get};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const ALLOW: &str = "their seccomp profile allows io_uring_setup, io_uring_enter and io_uring_register";

/// Becomes the program behind a filter that answers some system calls with an error (seccomp(2): each instruction is a
/// code, two jumps and a value).
const LAUNCHER: &str = r#"#!/usr/bin/python3
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
step = lambda code, value, yes=0, no=0: struct.pack("HBBI", code, yes, no, value)
text = step(0x20, 0)
for number in NUMBERS:
    text += step(0x15, number, 0, 1) + step(0x06, 0x00050000 | ERROR)
text += step(0x06, 0x7FFF0000)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("text", ctypes.c_char_p)]
held = ctypes.create_string_buffer(text, len(text))
filter = Filter(len(text) // 8, ctypes.cast(held, ctypes.c_char_p))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(filter)):
    sys.exit(f"no filter: {ctypes.get_errno()}")
os.execv("PROGRAM", ["PROGRAM"] + sys.argv[1:])
"#;
/// The numbers are the same on every processor since Linux 5.1.
const SETUP: u32 = 425;
const ENTER: u32 = 426;
const REGISTER: u32 = 427;
const EPERM: u32 = 1;
const ENOMEM: u32 = 12;
const EINVAL: u32 = 22;
const ENOSYS: u32 = 38;

fn write_launcher(folder: &Path, name: &str, script: &str) -> String {
    let file = folder.join(name);
    fs::write(&file, script).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("may be run");
    file.display().to_string()
}

fn filtered(folder: &Path, numbers: &[u32], error: u32) -> String {
    let script = LAUNCHER.replace("NUMBERS", &format!("{numbers:?}")).replace("ERROR", &error.to_string());
    write_launcher(folder, &format!("filtered-{numbers:?}-{error}"), &script.replace("PROGRAM", PROGRAM))
}

fn is_here(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: {program} is not here");
    }
    found
}

fn run(launcher: &str, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(launcher);
    command.args(arguments).current_dir(folder).env("STATE_DIRECTORY", folder.join("state"));
    command.output().expect("it runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port is free").port()
}

/// What a process says whose log is JSON, with plain quotation marks.
fn unescaped(output: &Output) -> String {
    text(output).replace("\\\"", "\"")
}

/// What whoever asks for a ring is told, by `check`, the start and `version`; and that `auto` serves.
fn check(launcher: &str, folder: &Path, expected: &str) {
    let file = folder.join("ring.kdl");
    let asked = "// A comment.\nadmin \"off\"\ndriver \"io-uring\"\nsite \"http://127.0.0.1:PORT\" { respond 204 }\n";
    fs::write(&file, asked.replace("PORT", &free_port().to_string())).expect("written");
    let checked = run(launcher, folder, &["check", "ring.kdl"]);
    let said = text(&checked);
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(said.contains("ring.kdl:3:8") && said.contains(expected), "{expected}: {said}");
    let started = run(launcher, folder, &["run", "--config", "ring.kdl"]);
    let said = unescaped(&started);
    assert_eq!(started.status.code(), Some(1), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.contains("\"level\":\"ERROR\"")).collect();
    assert!(errors.len() == 1 && errors[0].contains(expected), "one sentence that says {expected}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    let version = text(&run(launcher, folder, &["version"]));
    assert!(version.contains("io-uring cannot be had here: ") && version.contains(expected), "{version}");
    let auto = "driver \"auto\"\nadmin \"127.0.0.1:{admin}\"\nsite \"http://127.0.0.1:{port}\" { respond 200 body=\"here\" }\n";
    let mut proxy = Proxy::start(launcher, auto).expect("auto starts everywhere");
    assert_eq!(get(&proxy.address.to_string(), "/"), Ok((200, "here".to_owned())));
    proxy.wait_for_log("\"driver\":\"epoll\",\"driver_reason\":\"auto is epoll in this version\"").expect("said");
}

#[test]
fn a_ring_that_is_forbidden_is_told_in_one_sentence_and_auto_serves() {
    if !is_here("/usr/bin/python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let check_filtered = |numbers: &[u32], error, expected| {
        check(&filtered(folder.path(), numbers, error), folder.path(), expected);
    };
    // Container engines, and units whose SystemCallFilter leaves them out.
    check_filtered(&[SETUP, ENTER, REGISTER], EPERM, ALLOW);
    check_filtered(&[ENTER], EPERM, ALLOW);
    check_filtered(&[REGISTER], EPERM, ALLOW);
    check_filtered(&[SETUP, ENTER, REGISTER], ENOSYS, "this kernel has no io_uring");
    // Before 6.1 the flags of the ring are unknown, before 5.19 its rings of buffers.
    check_filtered(&[SETUP], EINVAL, "too old for the rings that are needed (Linux 6.1 has them)");
    check_filtered(&[REGISTER], EINVAL, "too old for the rings that are needed (Linux 6.1 has them)");
    check_filtered(&[SETUP], ENOMEM, "memory for a ring was refused (see `ulimit -l`, or LimitMEMLOCK of the unit)");
}

/// The setting is the machine's, so it is another one in a mount namespace alone.
#[test]
fn the_setting_that_forbids_rings_is_named() {
    const SETTING: &str = "/proc/sys/kernel/io_uring_disabled";
    let folder = tempfile::tempdir().expect("a folder");
    let setting = folder.path().join("setting");
    fs::write(&setting, "2\n").expect("written");
    let inside = format!("mount --bind {} {SETTING} && exec \"$@\"", setting.display());
    let may = Command::new("unshare").args(["-m", "sh", "-c", &inside, "sh", "true"]).output();
    if !is_here("/usr/bin/python3") || !may.is_ok_and(|output| output.status.success()) {
        println!("skipped: no namespace can be made here in which {SETTING} is another one");
        return;
    }
    let filtered = filtered(folder.path(), &[SETUP], EPERM);
    let script = format!("#!/bin/sh\nexec unshare -m sh -c '{inside}' sh '{filtered}' \"$@\"\n");
    let launcher = write_launcher(folder.path(), "disabled", &script);
    check(&launcher, folder.path(), "kernel.io_uring_disabled forbids rings (sysctl kernel.io_uring_disabled=0 allows them)");
}

/// The kernel's memory for a ring counts as locked, for those who may not lock what they like.
#[test]
fn a_process_that_may_lock_no_memory_is_told_so() {
    const UNPRIVILEGED: &str = "setpriv --bounding-set -ipc_lock";
    let folder = tempfile::tempdir().expect("a folder");
    let may = Command::new("sh").args(["-c", &format!("{UNPRIVILEGED} true")]).output();
    let can_give_up = may.is_ok_and(|output| output.status.success());
    if !is_here("prlimit") || (rustix::process::geteuid().is_root() && !can_give_up) {
        println!("skipped: this user may lock what it likes");
        return;
    }
    let unprivileged = if can_give_up { UNPRIVILEGED } else { "" };
    let script = format!("#!/bin/sh\nexec prlimit --memlock=0:0 {unprivileged} {PROGRAM} \"$@\"\n");
    let launcher = write_launcher(folder.path(), "unlocked", &script);
    if driver::drivers(PROGRAM).contains(&RING) {
        check(&launcher, folder.path(), "memory for a ring was refused (see `ulimit -l`, or LimitMEMLOCK of the unit)");
    }
}

/// One ring may be had, and not one for each worker.
#[test]
fn memory_that_does_not_suffice_for_every_ring_is_told_at_once() {
    const UNPRIVILEGED: &str = "setpriv --bounding-set -ipc_lock";
    let folder = tempfile::tempdir().expect("a folder");
    let limited = format!("prlimit --memlock=250000:250000 {UNPRIVILEGED} {PROGRAM} \"$@\"");
    let launcher = write_launcher(folder.path(), "limited", &format!("#!/bin/sh\nexec {limited}\n"));
    let version = Command::new(&launcher).arg("version").output();
    if !version.is_ok_and(|output| text(&output).contains(", io-uring\n")) {
        println!("skipped: no ring can be had here with a little memory");
        return;
    }
    let config = "driver \"io-uring\"\nadmin \"off\"\nthreads 6\nsite \"http://127.0.0.1:PORT\" { respond 204 }\n";
    fs::write(folder.path().join("six.kdl"), config.replace("PORT", &free_port().to_string())).expect("written");
    let started = run(&launcher, folder.path(), &["run", "--config", "six.kdl"]);
    let said = unescaped(&started);
    assert_eq!(started.status.code(), Some(1), "{said}");
    assert!(said.contains("memory for a ring was refused (see `ulimit -l`") && said.contains("`driver \"auto\"`"), "{said}");
}

/// Instead of an abort of the allocator.
#[test]
fn too_few_addresses_are_told_before_they_are_needed() {
    if !is_here("prlimit") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!("admin \"off\"\nsite \"http://127.0.0.1:{}\" {{ respond 204 }}\n", free_port());
    for (driver, mebibytes) in [("epoll", 200), (RING, 200), (RING, 400), (RING, 900)] {
        fs::write(folder.path().join("few.kdl"), driver::on(driver, &config)).expect("written");
        let script = format!("#!/bin/sh\nexec prlimit --as={} {PROGRAM} \"$@\"\n", mebibytes << 20);
        let launcher = write_launcher(folder.path(), "few", &script);
        let started = run(&launcher, folder.path(), &["run", "--config", "few.kdl"]);
        let said = text(&started);
        assert_eq!(started.status.code(), Some(1), "{driver} {mebibytes}: {said}");
        let expected = format!("the address space is limited to {mebibytes} MiB");
        assert!(said.contains(&expected) && said.contains("`ulimit -v unlimited`, or LimitAS"), "{driver}: {said}");
        let checked = run(&launcher, folder.path(), &["check", "few.kdl"]);
        let said = text(&checked);
        assert_eq!(checked.status.code(), Some(1), "{driver} {mebibytes}: {said}");
        assert!(said.contains(&expected) && said.contains("`ulimit -v unlimited`"), "{driver} {mebibytes}: {said}");
    }
}

/// Instead of whatever the first call that gets none makes of it.
#[test]
fn too_few_open_files_are_told_with_what_to_do() {
    if !is_here("prlimit") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let limited = |files: u32| {
        let script = format!("#!/bin/sh\nexec prlimit --nofile={files}:{files} {PROGRAM} \"$@\"\n");
        write_launcher(folder.path(), &format!("files-{files}"), &script)
    };
    const REMEDY: &str = "raise the limit of open files (`ulimit -n`, or LimitNOFILE of the unit)";
    let few = format!("admin \"off\"\nsite \"http://127.0.0.1:{}\" {{ respond 204 }}\n", free_port());
    fs::write(folder.path().join("few.kdl"), few).expect("written");
    for files in [8, 16, 24, 63] {
        let expected = format!("the process may have {files} files open, and Tidegate needs 64 to begin");
        for arguments in [&["run", "--config", "few.kdl"][..], &["check", "few.kdl"]] {
            let output = run(&limited(files), folder.path(), arguments);
            let said = text(&output);
            assert_eq!(output.status.code(), Some(1), "{arguments:?} {files}: {said}");
            assert!(said.contains(&expected) && said.contains(REMEDY), "{arguments:?} {files}: {said}");
            assert!(!said.contains("panicked"), "{said}");
        }
    }
    // More workers need more.
    let many = format!("admin \"off\"\nthreads 64\nsite \"http://127.0.0.1:{}\" {{ respond 204 }}\n", free_port());
    fs::write(folder.path().join("many.kdl"), many).expect("written");
    let output = run(&limited(64), folder.path(), &["run", "--config", "many.kdl"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(REMEDY) && !said.contains("panicked"), "{said}");
    // Enough to begin with is enough.
    for driver in driver::drivers(PROGRAM) {
        let config = "admin \"127.0.0.1:{admin}\"\nthreads 2\nsite \"http://127.0.0.1:{port}\" { respond 200 body=\"here\" }\n";
        let proxy = Proxy::start(&limited(64), &driver::on(driver, config)).expect("it starts");
        assert_eq!(get(&proxy.address.to_string(), "/"), Ok((200, "here".to_owned())), "{driver}");
    }
}

#[test]
fn a_part_of_its_name_is_understood_to_mean_the_ring() {
    let folder = tempfile::tempdir().expect("a folder");
    for written in ["uring", "io_uring", "iouring"] {
        let config = format!("driver \"{written}\"\nsite \"http://127.0.0.1:0\" {{ respond 204 }}\n");
        fs::write(folder.path().join("ring.kdl"), config).expect("written");
        let said = text(&run(PROGRAM, folder.path(), &["check", "ring.kdl"]));
        assert!(said.contains("did you mean `\"io-uring\"`?"), "{written}: {said}");
    }
}

/// What the sentence says to allow is what the unit allows.
#[test]
fn the_unit_allows_what_a_ring_needs() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/tidegate.service");
    let unit = fs::read_to_string(unit).expect("the unit is there");
    let allowed = unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")).filter(|names| !names.starts_with('~'));
    let allowed: Vec<&str> = allowed.flat_map(str::split_whitespace).collect();
    for name in ["io_uring_setup", "io_uring_enter", "io_uring_register"] {
        assert!(ALLOW.contains(name) && allowed.contains(&name), "{name}: {allowed:?}");
    }
    assert!(unit.lines().any(|line| line.starts_with("LimitMEMLOCK=")), "systemd's own bound is too low for many workers");
}
