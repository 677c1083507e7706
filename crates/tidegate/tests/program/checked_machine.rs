//! What `check` says of the machine and of who will run the service: files that its user may not read, a state folder
//! that takes nothing more, ports that only another user may have. Units, users and full disks are those of a mount
//! namespace of the test, so that it needs root.

use super::driver::free_port;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const USERS: &str = "root:x:0:0::/root:/bin/sh\ntidegate:x:64991:64992::/:/sbin/nologin\n";
const GROUPS: &str = "root:x:0:\ntidegate:x:64992:\n";
/// Nobody's.
const ORDINARY: &str = "setpriv --reuid=64993 --regid=64993 --clear-groups";

fn can_unshare() -> bool {
    let may = Command::new("unshare").args(["-m", "mount", "--bind", "/etc", "/etc"]).output();
    let may = may.is_ok_and(|output| output.status.success());
    if !may {
        println!("skipped: no mount namespace can be had here");
    }
    may
}

/// With these commands in front of it, all in a mount namespace of its own.
fn checked(folder: &Path, before: &str, run_as: &str, file: &str) -> (i32, String) {
    let script = format!("set -e; {before}\nexec {run_as} {PROGRAM} check {file}");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).current_dir(folder).env("STATE_DIRECTORY", folder.join("state"));
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&stderr).into_owned() + &String::from_utf8_lossy(&stdout);
    (status.code().expect("an exit code"), said)
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).expect("written");
    fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o644)).expect("ours");
}

#[test]
fn files_that_the_user_of_the_unit_may_not_read_are_named_to_root() {
    if !can_unshare() {
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("ours");
    fs::create_dir(folder.join("state")).expect("a folder");
    fs::create_dir(folder.join("units")).expect("a folder");
    write(folder, "passwd", USERS);
    write(folder, "group", GROUPS);
    write(folder, "users", "alice:$2y$05$abcdefghijklmnopqrstuuE2v1n1Yb3o7u0a7bU8m1x3f4wJm5d8S\n");
    let config = format!(
        "admin \"off\"\nsite \"http://127.0.0.1:{}\" {{\n    basic-auth realm=\"r\" file=\"users\"\n    respond 200\n}}\n",
        free_port()
    );
    write(folder, "a.kdl", &config);
    let unit = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/tidegate.service"));
    // The folder of the test is below /tmp.
    let unit = unit.expect("the unit is there").replace("PrivateTmp=yes", "");
    write(&folder.join("units"), "tidegate.service", &unit);
    let machine = "for name in passwd group; do mount --bind $PWD/$name /etc/$name; done; mkdir -p /etc/systemd/system; mount --bind $PWD/units /etc/systemd/system";
    let (code, said) = checked(folder, machine, "", "a.kdl");
    assert!(code == 0 && !said.contains("closed-file"), "{said}");
    fs::set_permissions(folder.join("users"), fs::Permissions::from_mode(0o600)).expect("ours");
    let (code, said) = checked(folder, machine, "", "a.kdl");
    let file = folder.join("users").canonicalize().expect("it is there");
    let file = file.display();
    let expected = [
        format!("the user `tidegate` of tidegate.service cannot read {file} (owner root, group root, mode 0600)"),
        format!("`chgrp tidegate {file} && chmod 640 {file}`"),
        "a.kdl:3:".to_owned(),
    ];
    assert!(code == 0 && expected.iter().all(|words| said.contains(words)), "{code}: {said}");
    // What the unit has been changed to.
    write(&folder.join("units"), "tidegate.service", &unit.replace("User=tidegate", "User=root"));
    assert!(!checked(folder, machine, "", "a.kdl").1.contains("closed-file"));
}

#[test]
fn a_state_folder_that_takes_nothing_more_is_named() {
    if !can_unshare() {
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path();
    fs::create_dir(folder.join("state")).expect("a folder");
    write(folder, "a.kdl", &format!("admin \"off\"\nsite \"http://127.0.0.1:{}\" {{ respond 200; }}\n", free_port()));
    let small = "mount -t tmpfs -o size=256k none $PWD/state";
    for (machine, why) in [
        ("mount -t tmpfs -o size=8m none $PWD/state", None),
        (small, Some("less than 1 MiB is free on its disk")),
        ("mount -t tmpfs -o size=8m,ro none $PWD/state", Some("ead-only")),
    ] {
        let (code, said) = checked(folder, machine, "", "a.kdl");
        assert_eq!(code, 0, "{machine}: {said}");
        match why {
            Some(why) => assert!(said.contains("warning[state-folder]") && said.contains(why), "{machine}: {said}"),
            None => assert!(!said.contains("state-folder"), "{machine}: {said}"),
        }
    }
}

#[test]
fn a_port_that_only_another_user_may_have_is_no_error() {
    if !can_unshare() {
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("ours");
    // None of the test's programs listens there.
    write(folder, "a.kdl", "admin \"off\"\nsite \"http://127.0.0.1:998\" { respond 200; }\n");
    let (code, said) = checked(folder, "true", ORDINARY, "a.kdl");
    if !said.contains("address-in-use") {
        println!("skipped: every user may listen on every port here");
        return;
    }
    assert!(code == 0 && said.contains("warning[address-in-use]: cannot listen on 127.0.0.1:998"), "{code}: {said}");
    assert!(said.contains("which the unit `tidegate.service` has"), "{said}");
}
