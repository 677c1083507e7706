//! Programs of the user's: what they are given, how they end, and what becomes of those that do not.

use crate::{published, publisher, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tidegate_dns_records::DnsFault;
use tidegate_model::DnsProvider;

/// Written by a process of its own: a file that this one has open for writing, if only in a child of another test,
/// cannot be run.
fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("hook");
    let mut writer = Command::new("sh");
    writer.args(["-c", "printf '#!/bin/sh\\n%s' \"$1\" > \"$0\" && chmod 755 \"$0\""]).arg(&path).arg(text);
    assert!(writer.status().expect("a shell").success());
    path
}

fn publish(command: PathBuf) -> Result<(), DnsFault> {
    run(async {
        let publisher = publisher(DnsProvider::Exec { command });
        let done = publisher.publish("_acme-challenge.example.com", "some-words").await?;
        publisher.withdraw(&done).await
    })
}

#[test]
fn it_is_told_what_to_do_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = folder.path().join("told");
    let text = format!(
        "echo \"$@\" >> {0}\nenv | grep -v '^PATH=\\|^PWD=\\|^_=\\|^SHLVL=\\|^OLDPWD=' | sort >> {0}\nread line && exit 9\nexit 0",
        told.display()
    );
    assert_eq!(publish(script(folder.path(), &text)), Ok(()));
    let expected = |action: &str| {
        format!(
            "{action} _acme-challenge.example.com some-words\nTIDEGATE_ACTION={action}\nTIDEGATE_NAME=_acme-challenge.example.com\n\
             TIDEGATE_TTL=60\nTIDEGATE_VALUE=some-words\n"
        )
    };
    assert_eq!(fs::read_to_string(told).expect("a file"), expected("present") + &expected("cleanup"));
}

#[test]
fn failures_say_what_it_said_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |text: Option<&str>, expected: &str| {
        let command = text.map_or_else(|| folder.path().join("not-there"), |text| script(folder.path(), text));
        let fault = publish(command.clone()).expect_err(expected);
        let expected = expected.replace('@', &command.display().to_string());
        assert_eq!(fault.to_string(), format!("exec: for _acme-challenge.example.com the command {expected}"));
    };
    check(Some("echo one >&2; echo 'two words' >&2; echo >&2; exit 3"), "`@ present` ended with exit code 3: two words");
    check(Some("exit 1"), "`@ present` ended with exit code 1");
    check(Some("kill -TERM $$"), "`@ present` was ended by signal 15");
    check(Some("[ $1 = present ] || { echo no >&2; exit 4; }"), "`@ cleanup` ended with exit code 4: no");
    check(Some("head -c 1000000 /dev/zero | tr '\\0' a; echo; echo end >&2; exit 5"), "`@ present` ended with exit code 5: end");
    check(None, "`@ present` cannot be started: No such file or directory (os error 2)");
}

#[test]
fn what_it_leaves_behind_is_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid = folder.path().join("pid");
    // It keeps the outputs open, so its end is also that of the waiting for them.
    let text = format!("sleep 600 & echo $! > {}", pid.display());
    let command = script(folder.path(), &text);
    run(async {
        let publisher = publisher(DnsProvider::Exec { command });
        publisher.withdraw(&published("a.example.com", "words")).await.expect("done");
    });
    let pid = fs::read_to_string(pid).expect("a file");
    // The system takes a moment to end it, and whoever collects orphans here to collect it.
    let stat = PathBuf::from(format!("/proc/{}/stat", pid.trim()));
    let is_alive = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    let deadline = Instant::now() + Duration::from_secs(30);
    while is_alive() {
        assert!(Instant::now() < deadline, "it is still there");
        std::thread::yield_now();
    }
}

#[test]
fn values_that_no_challenge_has_go_nowhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = folder.path().join("told");
    let command = script(folder.path(), &format!("touch {}", told.display()));
    run(async {
        let publisher = publisher(DnsProvider::Exec { command });
        for (name, value) in
            [("a.example.com", "a\"b"), ("a.example.com", ""), ("a.example.com", "a\nb"), ("a.example.com;x", "a"), ("-a.b", "a")]
        {
            publisher.publish(name, value).await.expect_err(value);
        }
    });
    assert!(!told.exists());
}
