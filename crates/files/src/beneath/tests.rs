//! Both ways of opening, the kernel's and the walk, against one tree: they agree, and neither leaves the folder.

use super::{Beneath, Purpose};
use crate::Symlinks;
use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};
use rustix::io::Errno;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tempfile::TempDir;

/// `outside/secret` beside `served`, in which symlinks of all kinds are.
static TREE: LazyLock<TempDir> = LazyLock::new(|| {
    let tree = TempDir::new().expect("a folder");
    let (served, outside) = (tree.path().join("served"), tree.path().join("outside"));
    fs::create_dir_all(served.join("a/b/c")).expect("folders");
    fs::create_dir(&outside).expect("a folder");
    fs::write(outside.join("secret"), "secret").expect("a file");
    for file in ["file", "a/file", "a/b/file", "a/b/c/file"] {
        fs::write(served.join(file), file).expect("a file");
    }
    for (target, link) in [
        ("a/file", "to_file"),
        ("a", "to_folder"),
        ("b/../../file", "a/up_and_down"),
        ("../../outside/secret", "a/out"),
        ("../outside", "out"),
        ("../served/file", "out_and_in"),
        ("..", "parent"),
        (".", "self"),
        ("to_folder/b", "chain"),
        ("loop_2", "loop_1"),
        ("loop_1", "loop_2"),
        ("nothing", "dangling"),
        ("/etc/passwd", "absolute"),
        ("/proc/self/root", "magic"),
    ] {
        symlink(target, served.join(link)).expect("a symlink");
    }
    symlink(served.join("file"), served.join("absolute_within")).expect("a symlink");
    tree
});

fn served() -> PathBuf {
    TREE.path().join("served")
}

fn both(symlinks: Symlinks) -> [Beneath; 2] {
    [Beneath::open(&served(), symlinks).expect("a folder"), Beneath::open(&served(), symlinks).expect("a folder").walking()]
}

/// Where a descriptor really is.
fn place(descriptor: &OwnedFd) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).expect("the path of a descriptor")
}

fn found(beneath: &Beneath, path: &str) -> Result<PathBuf, Errno> {
    beneath.descriptor(path.as_bytes(), Purpose::Read).map(|descriptor| place(&descriptor))
}

#[test]
fn symlinks_lead_where_they_may() {
    let check = |path: &str, symlinks: Symlinks, expected: Result<&str, Errno>| {
        for beneath in both(symlinks) {
            let expected = expected.map(|place| fs::canonicalize(served()).expect("a folder").join(place));
            assert_eq!(found(&beneath, path), expected, "{path} {symlinks:?} {:?}", beneath.way);
        }
    };
    for symlinks in [Symlinks::Within, Symlinks::Refuse, Symlinks::Follow] {
        check(".", symlinks, Ok(""));
        check("file", symlinks, Ok("file"));
        check("a/b/c/file", symlinks, Ok("a/b/c/file"));
        check("a/b", symlinks, Ok("a/b"));
        check("none", symlinks, Err(Errno::NOENT));
        check("file/none", symlinks, Err(Errno::NOTDIR));
        check(&"x".repeat(300), symlinks, Err(Errno::NAMETOOLONG));
        check("loop_1", symlinks, Err(Errno::LOOP));
    }
    for (path, place) in [
        ("to_file", "a/file"),
        ("to_folder/b/file", "a/b/file"),
        ("chain/c/file", "a/b/c/file"),
        ("a/up_and_down", "file"),
        ("self/self/file", "file"),
        ("self", ""),
    ] {
        check(path, Symlinks::Within, Ok(place));
        check(path, Symlinks::Follow, Ok(place));
        check(path, Symlinks::Refuse, Err(Errno::LOOP));
    }
    for path in ["a/out", "out/secret", "out_and_in", "parent", "absolute", "absolute_within", "magic/etc/passwd"] {
        check(path, Symlinks::Within, Err(Errno::XDEV));
        check(path, Symlinks::Refuse, Err(Errno::LOOP));
    }
    check("dangling", Symlinks::Within, Err(Errno::NOENT));
    check("out_and_in", Symlinks::Follow, Ok("file"));
    check("absolute_within", Symlinks::Follow, Ok("file"));
    for beneath in both(Symlinks::Follow) {
        assert_eq!(found(&beneath, "a/out"), Ok(fs::canonicalize(TREE.path().join("outside/secret")).expect("a file")));
    }
}

#[test]
fn only_folders_can_be_listed_and_anything_can_be_looked_at() {
    for beneath in both(Symlinks::Within) {
        let check = |path: &str, purpose: Purpose, expected: Result<(), Errno>| {
            assert_eq!(beneath.descriptor(path.as_bytes(), purpose).map(drop), expected, "{path} {:?}", beneath.way);
        };
        check("a", Purpose::List, Ok(()));
        check(".", Purpose::List, Ok(()));
        check("to_folder", Purpose::List, Ok(()));
        check("file", Purpose::List, Err(Errno::NOTDIR));
        check("file", Purpose::Look, Ok(()));
        check("to_file", Purpose::Look, Ok(()));
        check("a", Purpose::Look, Ok(()));
        check("out", Purpose::Look, Err(Errno::XDEV));
    }
}

#[test]
fn a_root_that_is_no_folder_is_refused() {
    assert_eq!(Beneath::open(&served().join("file"), Symlinks::Within).map(drop), Err(Errno::NOTDIR));
    assert_eq!(Beneath::open(Path::new("/nonexistent/folder"), Symlinks::Within).map(drop), Err(Errno::NOENT));
}

/// Names of the tree and some others, joined as a hostile sender could.
fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        proptest::sample::select(vec![
            "a",
            "b",
            "c",
            "file",
            "to_file",
            "to_folder",
            "up_and_down",
            "out",
            "out_and_in",
            "parent",
            "self",
            "chain",
            "loop_1",
            "dangling",
            "absolute",
            "absolute_within",
            "magic",
            "..",
            ".",
            "",
            "secret",
            "outside",
            "etc",
            "passwd",
        ])
        .prop_map(str::to_owned),
        ".{0,5}",
        Just("/".to_owned()),
    ];
    proptest::collection::vec(name, 1..7).prop_map(|names| names.join("/"))
}

proptest! {
    #[test]
    fn no_text_opens_anything_outside(path in path(), refuses in proptest::bool::ANY) {
        let served = fs::canonicalize(served()).expect("a folder");
        for beneath in both(if refuses { Symlinks::Refuse } else { Symlinks::Within }) {
            for purpose in [Purpose::Read, Purpose::Look, Purpose::List] {
                if let Ok(descriptor) = beneath.descriptor(path.as_bytes(), purpose) {
                    prop_assert!(place(&descriptor).starts_with(&served), "{} opened {:?}", path, place(&descriptor));
                }
            }
        }
    }

    #[test]
    fn both_ways_find_the_same(path in path(), refuses in proptest::bool::ANY) {
        // What `path::parse` lets through: other text never comes here from a request.
        let Ok(parsed) = crate::path::parse(path.as_bytes()) else { return Ok(()) };
        let relative = String::from_utf8_lossy(&parsed.relative).into_owned();
        let [kernel, walk] = both(if refuses { Symlinks::Refuse } else { Symlinks::Within });
        prop_assert_eq!(found(&kernel, &relative), found(&walk, &relative));
    }
}
