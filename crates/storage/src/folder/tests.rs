//! A store in a folder, on real file systems: what it writes, whom it keeps out, and what it says when the file system
//! does not play along. Locks between processes are in the crate's `tests` folder.

use super::locks::{LOCKS, Locks};
use super::privacy::Ownership;
use super::{Files, Folder, FolderKind, UNFINISHED};
use crate::Store;
use crate::fault::Problem;
use crate::key::Key;
use crate::lease::LEASE;
use crate::observed::Observations;
use crate::owner::Owner;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::time::Duration;
use tempfile::TempDir;
use tidegate_model::Storage;

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

fn key(text: &str) -> Key {
    Key::parse(text).expect("a key")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o7777
}

struct Fixture {
    above: TempDir,
    root: PathBuf,
    folder: Folder,
}

fn fixture() -> Fixture {
    let above = tempfile::tempdir().expect("a folder");
    let root = above.path().join("store");
    let folder = run(Folder::open(&root, FolderKind::Named)).expect("opens");
    Fixture { above, root, folder }
}

#[test]
fn values_are_kept_listed_and_removed() {
    let Fixture { above: _above, root, folder } = fixture();
    run(async {
        let (certificate, wildcard) = (key("certs/example.org/cert.pem"), key("certs/*.example.org/cert.pem"));
        assert_eq!(folder.read(&certificate).await, Ok(None));
        folder.write(&certificate, b"one").await.expect("written");
        folder.write(&certificate, b"two").await.expect("written again");
        folder.write(&wildcard, b"").await.expect("written");
        folder.write(&key("account"), b"three").await.expect("written");
        assert_eq!(folder.read(&certificate).await, Ok(Some(b"two".to_vec())));
        assert_eq!(folder.read(&wildcard).await, Ok(Some(Vec::new())));
        assert_eq!(folder.read(&key("certs")).await, Ok(None), "a folder is no value");
        assert_eq!(folder.read(&key("account/below")).await, Ok(None));

        let check = async |prefix: &str, expected: &[&str]| {
            assert_eq!(folder.list(prefix).await.expect("listed"), expected, "{prefix}");
        };
        check("", &["account", "certs/*.example.org/cert.pem", "certs/example.org/cert.pem"]).await;
        check("certs/", &["certs/*.example.org/cert.pem", "certs/example.org/cert.pem"]).await;
        check("certs/e", &["certs/example.org/cert.pem"]).await;
        check("certs/example.org/cert.pem", &["certs/example.org/cert.pem"]).await;
        check("acc", &["account"]).await;
        check("account/", &[]).await;
        check("../", &[]).await;
        check("/", &[]).await;

        folder.remove(&certificate).await.expect("removed");
        folder.remove(&certificate).await.expect("removed, though it is not there");
        folder.remove(&key("certs")).await.expect("nothing of this name");
        check("certs/", &["certs/*.example.org/cert.pem"]).await;
        assert!(!root.join("certs/example.org").exists(), "a folder goes with its last value");
    });
}

#[test]
fn only_the_owner_sees_it_whatever_the_umask() {
    let Fixture { above: _above, root, folder } = fixture();
    // The umask belongs to the whole process, so other tests would see it too: rights of the owner stay.
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    run(folder.write(&key("a/b"), b"secret")).expect("written");
    rustix::process::umask(before);
    assert_eq!((mode(&root), mode(&root.join("a")), mode(&root.join("a/b"))), (0o700, 0o700, 0o600));
}

/// A folder of this mode with this in it: mended or refused?
fn check_open_folder(kind: FolderKind, content: Option<&str>, expected: Result<u32, Problem>) {
    let above = tempfile::tempdir().expect("a folder");
    let root = above.path().join("store");
    fs::create_dir(&root).expect("made");
    if let Some(name) = content {
        fs::create_dir(root.join(name)).expect("made");
    }
    fs::set_permissions(&root, Permissions::from_mode(0o755)).expect("set");
    let opened = run(Folder::open(&root, kind)).map(|_| mode(&root)).map_err(|fault| fault.problem().clone());
    assert_eq!(opened, expected, "{kind:?} with {content:?}");
}

#[test]
fn a_folder_that_others_may_read_is_mended_when_it_is_the_stores_and_refused_otherwise() {
    check_open_folder(FolderKind::Named, None, Ok(0o700));
    check_open_folder(FolderKind::Named, Some(LOCKS), Ok(0o700));
    check_open_folder(FolderKind::Named, Some("home"), Err(Problem::OpenToOthers { mode: 0o755 }));
    check_open_folder(FolderKind::Own, Some("home"), Ok(0o700));
}

#[test]
fn what_is_no_folder_is_refused() {
    let above = tempfile::tempdir().expect("a folder");
    let file = above.path().join("file");
    fs::write(&file, "").expect("written");
    let check = |path: &Path, kind, expected: Problem| {
        let fault = run(Folder::open(path, kind)).expect_err("refused");
        assert_eq!(fault.problem(), &expected);
        assert!(!fault.problem().is_transient());
    };
    check(&file, FolderKind::Named, Problem::NotAFolder);
    check(&file.join("below"), FolderKind::Named, Problem::NotAFolder);
    check(&above.path().join("not/mounted"), FolderKind::Named, Problem::NothingAbove);
    assert!(run(Folder::open(&above.path().join("state/storage"), FolderKind::Own)).is_ok());
}

#[test]
fn a_value_and_a_folder_of_one_name_are_told_apart() {
    let Fixture { above: _above, root, folder } = fixture();
    run(async {
        folder.write(&key("a/b"), b"1").await.expect("written");
        let in_the_way = |path: PathBuf| Problem::InTheWay { path: path.display().to_string() };
        let fault = folder.write(&key("a"), b"2").await.expect_err("a folder is there");
        assert_eq!(fault, in_the_way(root.join("a")));
        let fault = folder.write(&key("a/b/c/d"), b"2").await.expect_err("a value is there");
        assert_eq!(fault, in_the_way(root.join("a/b")));
        assert_eq!(folder.list("").await.expect("listed"), ["a/b"]);
        assert_eq!(fs::read_dir(root.join("a")).expect("a folder").count(), 1, "nothing unfinished stays");
    });
}

#[test]
fn what_a_crash_left_unfinished_is_removed_and_what_others_work_on_is_not() {
    let Fixture { above: _above, root, folder } = fixture();
    let mut child = Command::new("true").spawn().expect("a process");
    let gone = Owner { process: child.id(), ..Owner::here() };
    child.wait().expect("its end");
    fs::create_dir(root.join("certs")).expect("made");
    let left = root.join("certs").join(format!("{UNFINISHED}{}", gone.to_text()));
    let in_work = root.join("certs").join(format!("{UNFINISHED}{}", Owner::here().to_text()));
    for file in [&left, &in_work] {
        fs::write(file, "half").expect("written");
    }
    assert_eq!(run(folder.list("certs/")), Ok(Vec::new()));
    assert_eq!((left.exists(), in_work.exists()), (false, true));

    let prepared = root.join(LOCKS).join(format!("{UNFINISHED}{}", gone.to_text()));
    fs::create_dir(&prepared).expect("made");
    fs::write(prepared.join("x"), "").expect("written");
    run(Folder::open(&root, FolderKind::Named)).expect("opens");
    assert!(!prepared.exists());
}

/// Others write another value, read, remove, and with the last value its folder: nobody sees a part of a value, and no
/// write fails.
#[test]
fn values_are_whole_whoever_else_is_at_work() {
    const ROUNDS: usize = 400;
    let above = tempfile::tempdir().expect("a folder");
    let files = Files::open(&above.path().join("store"), FolderKind::Named).expect("opens");
    let wanted = key("a/b/c");
    std::thread::scope(|scope| {
        for byte in [b'x', b'y'] {
            let (files, wanted) = (&files, &wanted);
            scope.spawn(move || (0..ROUNDS).for_each(|_| files.write(wanted, &[byte; 5000]).expect("written")));
            scope.spawn(move || (0..ROUNDS).for_each(|_| files.remove(wanted).expect("removed")));
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let value = files.read(wanted).expect("readable").unwrap_or_else(|| vec![byte; 5000]);
                    assert!(value == [b'x'; 5000] || value == [b'y'; 5000], "a part of a value");
                    files.list("a").expect("listed");
                }
            });
        }
    });
    files.remove(&wanted).expect("removed");
    let left: Vec<_> =
        fs::read_dir(above.path().join("store")).expect("a folder").map(|entry| entry.expect("readable").file_name()).collect();
    assert_eq!(left, [LOCKS]);
}

/// A file system of its own for the time of the test; `None`, with a message, where this process may not mount one.
struct Mounted(PathBuf);

impl Mounted {
    fn new(above: &Path, options: &str) -> Option<Mounted> {
        let path = above.join("mounted");
        fs::create_dir(&path).expect("made");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&path).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Mounted(path));
        }
        eprintln!("skipped: a tmpfs cannot be mounted here");
        None
    }

    fn remount(&self, options: &str) {
        let status = Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&self.0).status();
        assert!(status.is_ok_and(|status| status.success()), "remounted");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_file_system_keeps_the_old_value() {
    let above = tempfile::tempdir().expect("a folder");
    let Some(mounted) = Mounted::new(above.path(), "size=64k,mode=0700") else {
        return;
    };
    run(async {
        let folder = Folder::open(&mounted.0, FolderKind::Named).await.expect("opens");
        folder.write(&key("a/b"), b"old").await.expect("written");
        let fault = folder.write(&key("a/b"), &vec![b'x'; 100_000]).await.expect_err("full");
        assert_eq!(fault, Problem::Full);
        assert!(!fault.is_transient());
        assert_eq!(folder.read(&key("a/b")).await, Ok(Some(b"old".to_vec())));
        assert_eq!(fs::read_dir(mounted.0.join("a")).expect("a folder").count(), 1, "nothing unfinished stays");
        folder.write(&key("a/b"), b"new").await.expect("fits");
    });
}

#[test]
fn a_read_only_file_system_is_read_and_said_to_be_one() {
    let above = tempfile::tempdir().expect("a folder");
    let Some(mounted) = Mounted::new(above.path(), "size=64k,mode=0700") else {
        return;
    };
    run(async {
        let folder = Folder::open(&mounted.0, FolderKind::Named).await.expect("opens");
        folder.write(&key("a"), b"old").await.expect("written");
        mounted.remount("ro");
        let folder = Folder::open(&mounted.0, FolderKind::Named).await.expect("opens again");
        assert_eq!(folder.read(&key("a")).await, Ok(Some(b"old".to_vec())));
        let store = Store::open(&Storage::Folder(mounted.0.clone()), above.path()).await.expect("opens again");
        let fault = store.write("a", b"new").await.expect_err("read-only");
        assert_eq!(fault.problem(), &Problem::ReadOnly);
        assert_eq!(
            fault.to_string(),
            format!(
                "`a` cannot be written in the folder {}: the file system is read-only; mount its file system for writing, or name another folder",
                mounted.0.display()
            )
        );
        assert_eq!(folder.remove(&key("a")).await.expect_err("read-only"), Problem::ReadOnly);
        assert_eq!(folder.try_take(&key("a")).await.expect_err("read-only"), Problem::ReadOnly);
        let missing = Folder::open(&mounted.0.join("new"), FolderKind::Named).await.expect_err("read-only");
        assert_eq!(missing.problem(), &Problem::ReadOnly);
    });
}

/// `sudo tidegate cert …` in the folder of the service's user.
#[test]
fn what_root_makes_in_the_folder_of_somebody_else_is_theirs() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: this needs root");
        return;
    }
    let above = tempfile::tempdir().expect("a folder");
    let root = above.path().join("store");
    fs::create_dir(&root).expect("made");
    std::os::unix::fs::chown(&root, Some(65534), Some(65534)).expect("given away");
    run(async {
        let folder = Folder::open(&root, FolderKind::Named).await.expect("opens");
        folder.write(&key("a/b"), b"1").await.expect("written");
        folder.try_take(&key("l")).await.expect("works").expect("free");
    });
    let lock = fs::read_dir(root.join(LOCKS).join("l")).expect("a folder").next().expect("an entry").expect("readable").path();
    for path in [root.join("a"), root.join("a/b"), root.join(LOCKS), root.join(LOCKS).join("l"), lock] {
        let metadata = fs::metadata(&path).expect("it is there");
        assert_eq!((metadata.uid(), metadata.gid()), (65534, 65534), "{}", path.display());
    }
}

// --- locks ---

struct Hosts {
    folder: TempDir,
    locks: Locks,
}

impl Hosts {
    fn new() -> Hosts {
        let folder = tempfile::tempdir().expect("a folder");
        let locks = Locks::new(folder.path(), Ownership::Ours);
        Hosts { folder, locks }
    }

    /// What a host sees of the lock that looks at it at this second.
    fn is_taken_by(&self, host: &mut Observations, second: u64) -> bool {
        self.locks.try_take(&key("l"), &Owner::here(), host, || Duration::from_secs(second)).expect("works").is_some()
    }
}

fn of_another_host() -> Owner {
    Owner { host: "elsewhere".into(), ..Owner::here() }
}

#[test]
fn a_lock_is_held_by_one_and_free_after_it_was_given_back() {
    let Hosts { locks, folder } = Hosts::new();
    let mut observations = Observations::default();
    let mut take = || locks.try_take(&key("certs/*.example.org"), &Owner::here(), &mut observations, || LEASE).expect("works");
    let mut first = take().expect("free");
    assert_eq!(take(), None);
    let name = key("certs/*.example.org");
    assert!(locks.renew(&name, &mut first).expect("works"));
    assert_eq!(locks.holder(&name).expect("works").expect("held").process, std::process::id());
    locks.release(&name, &first).expect("works");
    assert_eq!(locks.holder(&name).expect("works"), None);
    assert_eq!(fs::read_dir(folder.path().join(LOCKS)).expect("a folder").count(), 0, "nothing is left of a lock");
    assert!(take().is_some());
    assert!(!locks.renew(&name, &mut first).expect("works"), "what was given back is not renewed");
    locks.release(&name, &first).expect("works");
    assert_eq!(take(), None, "nor given back twice");
}

#[test]
fn a_lock_of_another_host_is_taken_over_when_it_shows_no_life_for_a_lease() {
    let hosts = Hosts::new();
    let (mut here, mut there) = (Observations::default(), Observations::default());
    let clock = || Duration::from_secs(1_000_000);
    let mut held = hosts.locks.try_take(&key("l"), &of_another_host(), &mut there, clock).expect("works").expect("free");
    assert!(!hosts.is_taken_by(&mut here, 0));
    assert!(!hosts.is_taken_by(&mut here, 29));
    assert!(hosts.locks.renew(&key("l"), &mut held).expect("works"));
    assert!(!hosts.is_taken_by(&mut here, 30));
    assert!(!hosts.is_taken_by(&mut here, 59));
    assert!(hosts.is_taken_by(&mut here, 60));
    assert!(!hosts.locks.renew(&key("l"), &mut held).expect("works"), "its former holder is told");
    hosts.locks.release(&key("l"), &held).expect("works");
    assert!(
        hosts.locks.holder(&key("l")).expect("works").is_some_and(|owner| owner.host != "elsewhere"),
        "and takes nothing away"
    );
}

/// A holder that was stopped for a while, and goes on after somebody else had judged its lock stale, but before that
/// one acted.
#[test]
fn who_comes_back_in_time_keeps_its_lock() {
    let hosts = Hosts::new();
    let (mut here, mut there) = (Observations::default(), Observations::default());
    let held = hosts.locks.try_take(&key("l"), &of_another_host(), &mut there, || LEASE).expect("works").expect("free");
    assert!(!hosts.is_taken_by(&mut here, 0));
    let renewed_meanwhile = || {
        let mut held = held.clone();
        assert!(hosts.locks.renew(&key("l"), &mut held).expect("works"));
        LEASE
    };
    // The first judgement names an entry that is gone when it is acted on; the next look sees a new one.
    let clock = std::cell::Cell::new(Some(renewed_meanwhile));
    let taken = hosts.locks.try_take(&key("l"), &Owner::here(), &mut here, || clock.take().map_or(LEASE, |renew| renew()));
    assert_eq!(taken.expect("works"), None);
    assert_eq!(hosts.locks.holder(&key("l")).expect("works").expect("held").host, "elsewhere");
}

/// Everybody judges the same lock stale, or finds it free, at the same moment.
#[test]
fn of_many_who_take_at_once_one_has_it() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 300;
    let hosts = Hosts::new();
    let name = key("l");
    for round in 0..ROUNDS {
        let is_take_over = round % 2 == 0;
        if is_take_over {
            let mut there = Observations::default();
            hosts.locks.try_take(&name, &of_another_host(), &mut there, || LEASE).expect("works").expect("free");
        }
        let barrier = Barrier::new(THREADS);
        let contend = || {
            let mut here = Observations::default();
            if is_take_over {
                assert!(!hosts.is_taken_by(&mut here, 0));
            }
            barrier.wait();
            hosts.locks.try_take(&name, &Owner::here(), &mut here, || LEASE).expect("works")
        };
        let taken: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(contend)).collect();
            threads.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(taken.len(), 1, "round {round}");
        let left = fs::read_dir(hosts.folder.path().join(LOCKS)).expect("a folder").count();
        assert_eq!(left, 1, "nothing unfinished stays");
        hosts.locks.release(&name, &taken[0]).expect("works");
    }
}

/// What a crash between two steps, a person or a file server can leave in the folder of locks.
#[test]
fn what_is_no_entry_holds_a_lock_for_a_lease_only() {
    let hosts = Hosts::new();
    let mut here = Observations::default();
    let folder = hosts.folder.path().join(LOCKS).join("l");
    fs::create_dir_all(&folder).expect("made");
    assert!(hosts.is_taken_by(&mut here, 0), "an empty folder is free");
    fs::remove_dir_all(&folder).expect("removed");
    fs::create_dir_all(&folder).expect("made");
    fs::write(folder.join("strange"), "").expect("written");
    assert!(!hosts.is_taken_by(&mut here, 0));
    assert!(hosts.is_taken_by(&mut here, 30));
}
