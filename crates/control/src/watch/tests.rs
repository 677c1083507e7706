//! The watch as a whole, with real files in a temporary folder: what editors, certbot, Kubernetes and scripts do to
//! them, and what is reported. Nothing is measured: a change that must not be reported is followed by one that is, to a
//! file that is looked at first.

use super::{BOUNDS, Bounds, FileWatch};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tempfile::TempDir;

const DEBOUNCE: Duration = Duration::from_millis(60);
/// A report that has not come by then never will.
const LIMIT: Duration = Duration::from_secs(20);
/// Sorts before every other name here, so it is looked at before them.
const MARK: &str = "0-mark";

struct Scene {
    _folder: TempDir,
    root: PathBuf,
    watch: FileWatch,
    reports: Receiver<Vec<PathBuf>>,
}

impl Scene {
    /// Beneath a folder in which `prepare` has put something; `paths` are relative to it, those with a star are
    /// patterns.
    fn within(bounds: Bounds, debounce: Duration, prepare: impl Fn(&Path), paths: &[&str]) -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a real folder");
        prepare(&root);
        let (sender, reports) = channel();
        let watch = FileWatch::start_within(bounds, debounce, move |paths| {
            let _ = sender.send(paths);
        });
        let scene = Scene { _folder: folder, root, watch: watch.expect("a thread"), reports };
        scene.set_paths(paths);
        scene
    }

    fn set_paths(&self, paths: &[&str]) {
        let (patterns, mut files): (Vec<PathBuf>, Vec<PathBuf>) =
            paths.iter().map(|path| self.root.join(path)).partition(|path| path.to_string_lossy().contains('*'));
        files.push(self.root.join(MARK));
        self.watch.set_paths(&files, &patterns).expect("valid paths");
    }

    fn next_report(&self) -> BTreeSet<String> {
        let paths = self.reports.recv_timeout(LIMIT).expect("a report");
        paths.iter().map(|path| path.strip_prefix(&self.root).expect("a path of ours").display().to_string()).collect()
    }

    /// Everything that is reported because of `change`.
    fn reported(&self, change: impl Fn(&Path)) -> BTreeSet<String> {
        change(&self.root);
        let mark = self.root.join(MARK);
        let length = fs::metadata(&mark).map_or(0, |metadata| metadata.len());
        fs::write(&mark, "x".repeat(length as usize + 1)).expect("written");
        let mut reported = BTreeSet::new();
        while !reported.contains(MARK) {
            reported.extend(self.next_report());
        }
        reported.remove(MARK);
        reported
    }
}

/// A change, and the paths that are reported because of it.
type Change<'a> = (&'a dyn Fn(&Path), &'a [&'a str]);

/// With the system's notices, and again without them.
fn check(prepare: impl Fn(&Path), paths: &[&str], changes: &[Change<'_>]) {
    let blind = Bounds { folders_max: 0, poll: Duration::from_millis(10), ..BOUNDS };
    for bounds in [BOUNDS, blind] {
        let scene = Scene::within(bounds, DEBOUNCE, &prepare, paths);
        for (number, (change, expected)) in changes.iter().enumerate() {
            let expected: BTreeSet<String> = expected.iter().map(|path| (*path).to_owned()).collect();
            assert_eq!(scene.reported(change), expected, "change {number} of {paths:?}, at most {} folders", bounds.folders_max);
        }
    }
}

fn write(root: &Path, path: &str, text: &str) {
    fs::write(root.join(path), text).expect("written");
}

fn two_files(root: &Path) {
    write(root, "a", "one");
    write(root, "b", "one");
}

#[test]
fn a_file_written_in_place_is_reported_and_its_neighbour_is_not() {
    check(two_files, &["a", "b"], &[(&|root| write(root, "a", "two"), &["a"]), (&|root| write(root, "b", "two"), &["b"])]);
    check(two_files, &["a"], &[(&|root| write(root, "b", "two"), &[])]);
}

#[test]
fn a_file_renamed_over_another_is_reported() {
    let replace = |root: &Path| {
        write(root, "a.new", "two");
        fs::rename(root.join("a.new"), root.join("a")).expect("renamed");
    };
    // The second time the new file has the same content.
    check(two_files, &["a"], &[(&replace, &["a"]), (&replace, &[])]);
}

#[test]
fn what_does_not_change_the_content_is_not_reported() {
    let touch = |root: &Path| {
        let file = fs::File::options().write(true).open(root.join("a")).expect("opened");
        file.set_modified(std::time::SystemTime::now() + Duration::from_secs(5)).expect("touched");
    };
    let read = |root: &Path| drop(fs::read(root.join("a")).expect("read"));
    let write_the_same = |root: &Path| write(root, "a.new", "one");
    check(two_files, &["a"], &[(&touch, &[]), (&read, &[]), (&write_the_same, &[])]);
}

#[test]
fn a_file_that_vanishes_and_comes_back_is_reported_both_times() {
    let remove = |root: &Path| fs::remove_file(root.join("a")).expect("removed");
    check(two_files, &["a"], &[(&remove, &["a"]), (&|root| write(root, "a", "one"), &["a"])]);
}

#[test]
fn a_half_written_file_is_reported_again_when_it_is_finished() {
    let scene = Scene::within(BOUNDS, DEBOUNCE, two_files, &["a"]);
    let mut file = fs::File::create(scene.root.join("a")).expect("created");
    std::io::Write::write_all(&mut file, b"half").expect("written");
    assert_eq!(scene.next_report(), ["a".to_owned()].into());
    std::io::Write::write_all(&mut file, b" and half").expect("written");
    assert_eq!(scene.next_report(), ["a".to_owned()].into());
}

#[test]
fn a_mounted_volume_that_is_swapped_is_reported() {
    let version = |root: &Path, number: u8, text: &str| {
        fs::create_dir(root.join(format!("..{number}"))).expect("made");
        write(root, &format!("..{number}/a"), text);
        write(root, &format!("..{number}/b"), "one");
    };
    let swap = |root: &Path, from: u8, to: u8, text: &str| {
        version(root, to, text);
        symlink(format!("..{to}"), root.join("..data_tmp")).expect("linked");
        fs::rename(root.join("..data_tmp"), root.join("..data")).expect("renamed");
        fs::remove_dir_all(root.join(format!("..{from}"))).expect("removed");
    };
    let prepare = |root: &Path| {
        version(root, 1, "one");
        symlink("..1", root.join("..data")).expect("linked");
        symlink("..data/a", root.join("a")).expect("linked");
        symlink("..data/b", root.join("b")).expect("linked");
    };
    check(
        prepare,
        &["a", "b", "*.kdl"],
        &[
            (&|root| swap(root, 1, 2, "two"), &["a"]),
            (&|root| swap(root, 2, 3, "three"), &["a"]),
            (&|root| swap(root, 3, 4, "three"), &[]),
        ],
    );
}

#[test]
fn links_that_lead_elsewhere_are_reported_wherever_they_are() {
    let prepare = |root: &Path| {
        for folder in ["archive", "live"] {
            fs::create_dir(root.join(folder)).expect("made");
        }
        write(root, "archive/cert1.pem", "one");
        write(root, "archive/cert2.pem", "two");
        symlink("../archive/cert1.pem", root.join("live/cert.pem")).expect("linked");
        symlink("live", root.join("current")).expect("linked");
    };
    let renew = |root: &Path| {
        fs::remove_file(root.join("live/cert.pem")).expect("removed");
        symlink("../archive/cert2.pem", root.join("live/cert.pem")).expect("linked");
    };
    let write_at_the_end = |root: &Path| write(root, "archive/cert2.pem", "three");
    let move_the_folder = |root: &Path| {
        fs::create_dir(root.join("other")).expect("made");
        write(root, "other/cert.pem", "four");
        symlink("other", root.join("current.new")).expect("linked");
        fs::rename(root.join("current.new"), root.join("current")).expect("renamed");
    };
    check(
        prepare,
        &["current/cert.pem"],
        &[
            (&renew, &["current/cert.pem"]),
            (&write_at_the_end, &["current/cert.pem"]),
            (&move_the_folder, &["current/cert.pem"]),
            (&|root| write(root, "archive/cert2.pem", "five"), &[]),
            (&|root| write(root, "other/cert.pem", "five"), &["current/cert.pem"]),
        ],
    );
}

#[test]
fn folders_that_appear_vanish_and_are_replaced_are_followed() {
    let make = |root: &Path| {
        fs::create_dir_all(root.join("x/y")).expect("made");
        write(root, "x/y/a", "one");
    };
    let remove = |root: &Path| fs::remove_dir_all(root.join("x")).expect("removed");
    let replace = |root: &Path| {
        fs::create_dir(root.join("x/z")).expect("made");
        write(root, "x/z/a", "two");
        fs::rename(root.join("x/y"), root.join("x/old")).expect("renamed");
        fs::rename(root.join("x/z"), root.join("x/y")).expect("renamed");
    };
    check(
        |_| {},
        &["x/y/a"],
        &[
            (&make, &["x/y/a"]),
            (&|root| write(root, "x/y/a", "three"), &["x/y/a"]),
            (&replace, &["x/y/a"]),
            (&|root| write(root, "x/y/a", "four"), &["x/y/a"]),
            (&|root| write(root, "x/old/a", "four"), &[]),
            (&remove, &["x/y/a"]),
            (&make, &["x/y/a"]),
        ],
    );
}

#[test]
fn matches_of_a_pattern_are_reported_when_they_come_change_and_go() {
    let prepare = |root: &Path| {
        fs::create_dir(root.join("conf.d")).expect("made");
        write(root, "conf.d/a.kdl", "one");
    };
    check(
        prepare,
        &["conf.d/*.kdl"],
        &[
            (&|root| write(root, "conf.d/b.kdl", "one"), &["conf.d/b.kdl"]),
            (&|root| write(root, "conf.d/b.kdl", "two"), &["conf.d/b.kdl"]),
            (&|root| write(root, "conf.d/b.kdl~", "one"), &[]),
            (&|root| fs::remove_file(root.join("conf.d/a.kdl")).expect("removed"), &["conf.d/a.kdl"]),
            (
                &|root| fs::rename(root.join("conf.d/b.kdl"), root.join("conf.d/c.kdl")).expect("renamed"),
                &["conf.d/b.kdl", "conf.d/c.kdl"],
            ),
        ],
    );
    let in_a_new_folder = |root: &Path| {
        fs::create_dir(root.join("sites")).expect("made");
        fs::create_dir(root.join("sites/a")).expect("made");
        write(root, "sites/a/site.kdl", "one");
    };
    check(|_| {}, &["sites/*/site.kdl"], &[(&in_a_new_folder, &["sites/a/site.kdl"])]);
}

#[test]
fn changes_that_follow_each_other_closely_are_one_report() {
    let scene = Scene::within(BOUNDS, Duration::from_secs(1), two_files, &["a", "b"]);
    write(&scene.root, "a", "two");
    write(&scene.root, "b", "two");
    write(&scene.root, "a", "three");
    assert_eq!(scene.next_report(), ["a".to_owned(), "b".to_owned()].into());
    assert_eq!(scene.reported(|_| {}), BTreeSet::new());
}

#[test]
fn paths_set_anew_replace_those_before() {
    let prepare = |root: &Path| {
        two_files(root);
        fs::create_dir(root.join("conf.d")).expect("made");
    };
    let scene = Scene::within(BOUNDS, DEBOUNCE, prepare, &["a", "conf.d/*"]);
    scene.set_paths(&["b"]);
    assert_eq!(scene.reported(|root| write(root, "a", "two")), BTreeSet::new());
    assert_eq!(scene.reported(|root| write(root, "b", "two")), ["b".to_owned()].into());
    assert_eq!(scene.reported(|root| write(root, "conf.d/x", "two")), BTreeSet::new());
}

#[test]
fn what_changes_while_paths_are_set_anew_is_not_lost() {
    let prepare = |root: &Path| {
        two_files(root);
        fs::create_dir(root.join("conf.d")).expect("made");
    };
    let scene = Scene::within(BOUNDS, Duration::from_secs(1), prepare, &["a", "conf.d/*"]);
    write(&scene.root, "a", "two");
    write(&scene.root, "b", "two");
    write(&scene.root, "conf.d/x", "one");
    scene.set_paths(&["a", "b", "conf.d/*"]);
    assert_eq!(scene.next_report(), ["a".to_owned(), "conf.d/x".to_owned()].into());
}

#[test]
fn paths_may_be_set_while_a_change_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = [folder.path().join("a"), folder.path().join("b")];
    let (sender, reports) = channel();
    let watch: Arc<OnceLock<Mutex<FileWatch>>> = Arc::default();
    let (within, next) = (watch.clone(), paths[1].clone());
    let started = FileWatch::start(DEBOUNCE, move |changed| {
        let watch = within.get().expect("set before the first change").lock().expect("whole");
        watch.set_paths(std::slice::from_ref(&next), &[]).expect("valid paths");
        let _ = sender.send(changed);
    });
    assert!(watch.set(Mutex::new(started.expect("a thread"))).is_ok());
    watch.get().expect("set").lock().expect("whole").set_paths(&paths[..1], &[]).expect("valid paths");
    for path in &paths {
        fs::write(path, "one").expect("written");
        assert_eq!(reports.recv_timeout(LIMIT).expect("a report"), std::slice::from_ref(path));
    }
}

#[test]
fn paths_that_cannot_be_watched_change_nothing() {
    let scene = Scene::within(BOUNDS, DEBOUNCE, two_files, &["a"]);
    let error = scene.watch.set_paths(&[], &[scene.root.join("[b")]).expect_err("no pattern");
    assert!(error.to_string().contains("this pattern is not valid"), "{error}");
    let many: Vec<PathBuf> = (0..=super::FILES_MAX).map(|number| PathBuf::from(format!("/{number}"))).collect();
    let error = scene.watch.set_paths(&many, &[]).expect_err("too many");
    assert!(error.to_string().contains("the limit is 262144"), "{error}");
    assert_eq!(scene.reported(|root| write(root, "a", "two")), ["a".to_owned()].into());
}
