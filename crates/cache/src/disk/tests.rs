//! The tier on disk: what is written comes back, and what is damaged never does.
//! Each has a folder of its own; errors are made in ways that stop root too.

use super::format::{PREFIX_BYTES, read_header, read_prefix};
use super::{Disk, Loaded};
use crate::key::Key;
use crate::message::{Field, Now, RequestHead, ResponseHead};
use crate::policy::storing::{Exchange, storable};
use crate::settings::{DiskSettings, Rules, Settings};
use crate::store::{Adopted, Begun, Lookup, Object, Purge, PurgeKind, Store};
use bytes::Bytes;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const OBJECT_BYTES_MAX: u64 = 8 << 20;
const GZIP: [Field<'static>; 1] = [(b"accept-encoding", b"gzip")];

fn now(seconds: u64) -> Now {
    Now::at(1_700_000_000 + seconds)
}

fn key(path: &str) -> Key {
    Key::new(b"http", b"a.example", path.as_bytes()).expect("a key")
}

fn object(path: &str, body: &[u8]) -> Arc<Object> {
    let fields: [Field<'_>; 4] = [
        (b"cache-control", b"max-age=60, stale-if-error=9, immutable"),
        (b"vary", b"accept-encoding, x-other"),
        (b"surrogate-key", b"one two"),
        (b"etag", b"\"a\""),
    ];
    let request = RequestHead::new(b"GET", &GZIP);
    let response = ResponseHead { status: 200, fields: &fields };
    let exchange = Exchange { request, response, sent: now(0), received: now(0) };
    let body = body.chunks(64 << 10).map(Bytes::copy_from_slice).collect();
    Arc::new(Object::new(key(path), storable(&Rules::default(), exchange).expect("storable"), body))
}

fn disk(folder: &Path) -> Disk {
    Disk::new(DiskSettings::new(folder.join("cache")), OBJECT_BYTES_MAX)
}

fn loaded(folder: &Path) -> Disk {
    let disk = disk(folder);
    while disk.load(2, now(0)) == Loaded::More {}
    disk
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder.join("cache")).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
}

fn read(disk: &Disk, path: &str, at: Now) -> Option<Object> {
    disk.find(&key(path), &GZIP).and_then(|found| disk.read(&found, at))
}

#[test]
fn what_is_written_is_read_again_after_a_restart_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = loaded(folder.path());
    let large = vec![3; 200_000];
    for (path, body) in [("/a", &b"body"[..]), ("/b", b""), ("/c", &large)] {
        assert!(disk.write(&object(path, body), now(5)), "{path}");
    }
    for disk in [disk, loaded(folder.path())] {
        for (path, body) in [("/a", &b"body"[..]), ("/b", b""), ("/c", &large)] {
            let (written, found) = (object(path, body), read(&disk, path, now(50)).expect("found"));
            assert!(found.body.concat() == body && found.body.iter().all(|chunk| chunk.len() <= 64 << 10));
            assert_eq!((&found.head, &found.terms, &found.tags), (&written.head, &written.terms, &written.tags));
            assert_eq!(found.age_seconds(now(50)), 50);
        }
        assert!(read(&disk, "/d", now(50)).is_none());
        assert!(disk.find(&key("/a"), &[]).is_none(), "another variant");
        let counts = disk.counts();
        assert_eq!((counts.objects, counts.read, counts.damaged, counts.errors), (3, 3, 0, 0));
        assert_eq!(counts.bytes, files(folder.path()).iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>());
    }
}

#[test]
fn a_steady_clock_that_began_anew_tells_the_same_age() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(loaded(folder.path()).write(&object("/a", b""), now(0)));
    let disk = loaded(folder.path());
    let later = Now { seconds: 1_000_000, wall: now(40).wall };
    assert_eq!(read(&disk, "/a", later).expect("found").age_seconds(later), 40);
}

#[test]
fn a_file_cut_at_any_length_is_deleted_and_counted_at_start() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(loaded(folder.path()).write(&object("/a", b"body"), now(0)));
    let path = files(folder.path()).remove(0);
    let whole = fs::read(&path).expect("a file");
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).expect("written");
        let disk = loaded(folder.path());
        assert_eq!((disk.counts().damaged, disk.counts().objects), (1, 0), "{length}");
        assert!(!path.exists(), "{length}");
    }
    fs::write(&path, [&whole[..], b"x"].concat()).expect("written");
    assert_eq!(loaded(folder.path()).counts().damaged, 1);
}

#[test]
fn a_file_that_is_cut_or_flipped_while_in_use_is_never_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = loaded(folder.path());
    assert!(disk.write(&object("/a", b"body"), now(0)));
    let path = files(folder.path()).remove(0);
    let whole = fs::read(&path).expect("a file");
    let mut damaged = 0;
    let mut check = |bytes: &[u8], what: &str| {
        fs::write(&path, bytes).expect("written");
        assert!(read(&disk, "/a", now(0)).is_none(), "{what}");
        damaged += 1;
        assert_eq!(disk.counts().damaged, damaged, "{what}");
        assert!(!path.exists() && disk.find(&key("/a"), &GZIP).is_none(), "{what}");
        assert!(disk.write(&object("/a", b"body"), now(0)));
    };
    for bit in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        check(&flipped, &format!("bit {bit}"));
    }
    for length in 0..whole.len() {
        check(&whole[..length], &format!("{length} bytes"));
    }
    assert_eq!(read(&disk, "/a", now(0)).expect("whole").body.concat(), b"body");
}

#[test]
fn a_file_under_a_foreign_name_is_deleted_and_other_files_are_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(loaded(folder.path()).write(&object("/a", b"body"), now(0)));
    let path = files(folder.path()).remove(0);
    let name = |name: &str| path.with_file_name(name);
    fs::rename(&path, name(&format!("{:032x}.tidecache", 7))).expect("renamed");
    fs::write(name(&format!("{:032x}.tidecache-part", 8)), b"half").expect("written");
    fs::write(name("notes.txt"), b"mine").expect("written");
    fs::write(name("7.tidecache"), b"mine").expect("written");
    // Reading a folder as a file fails for every user.
    fs::create_dir(name(&format!("{:032x}.tidecache", 9))).expect("created");
    let disk = loaded(folder.path());
    assert_eq!((disk.counts().damaged, disk.counts().objects, disk.counts().errors), (2, 0, 1));
    assert_eq!(files(folder.path()).len(), 3);
    assert!(disk.write(&object("/a", b"body"), now(0)), "the tier is on");
}

#[test]
fn bytes_and_objects_are_bounded_and_what_was_used_stays_longer() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = DiskSettings { bytes_max: 30_000, objects_max: 20, ..DiskSettings::new(folder.path().join("cache")) };
    let disk = Disk::new(settings, OBJECT_BYTES_MAX);
    while disk.load(8, now(0)) != Loaded::Done {}
    for number in 0..100 {
        assert!(disk.write(&object(&format!("/{number}"), &vec![1; number * 50]), now(0)), "{number}");
        assert!(disk.find(&key("/0"), &GZIP).is_some(), "{number}");
        let on_disk: u64 = files(folder.path()).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
        assert!(disk.counts().bytes <= 30_000 && disk.counts().objects <= 20 && on_disk == disk.counts().bytes, "{number}");
    }
    assert!(disk.counts().evicted > 80);
    assert!(!disk.write(&object("/large", &vec![1; 31_000]), now(0)));
    assert!(disk.counts().objects > 0, "nothing is given up for what can never fit");
    let small = Disk::new(DiskSettings { bytes_max: 6_000, ..DiskSettings::new(folder.path().join("cache")) }, OBJECT_BYTES_MAX);
    while small.load(8, now(0)) != Loaded::Done {}
    assert!(small.counts().bytes <= 6_000);
}

#[test]
fn purges_reach_files_that_were_not_read_yet() {
    let check = |purge: &Purge, left: &[&str]| {
        for is_loaded in [true, false] {
            let folder = tempfile::tempdir().expect("a folder");
            let before = loaded(folder.path());
            for path in ["/a/1", "/a/2", "/b"] {
                assert!(before.write(&object(path, b""), now(0)));
            }
            let disk = if is_loaded { before } else { disk(folder.path()) };
            assert_eq!(disk.purge(purge), if is_loaded { 3 - left.len() } else { 0 }, "{purge:?}");
            while disk.load(1, now(0)) != Loaded::Done {}
            let found: Vec<_> = ["/a/1", "/a/2", "/b"].into_iter().filter(|path| read(&disk, path, now(0)).is_some()).collect();
            assert_eq!((found.as_slice(), files(folder.path()).len()), (left, left.len()), "{purge:?}");
        }
    };
    check(&Purge::Url(key("/a/1")), &["/a/2", "/b"]);
    check(&Purge::Prefix(b"http://a.example/a/".to_vec()), &["/b"]);
    check(&Purge::Tag(b"two".to_vec()), &[]);
    check(&Purge::Tag(b"tw".to_vec()), &["/a/1", "/a/2", "/b"]);
    check(&Purge::All, &[]);
}

#[test]
fn a_ticket_takes_what_is_on_disk_and_asks_about_what_is_stale() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = loaded(folder.path());
    assert!(disk.write(&object("/a", b"body"), now(0)));
    let request = RequestHead::new(b"GET", &GZIP);
    let adopt = |store: &Store, at: Now| {
        let Lookup::Fetch(ticket, _) = store.lookup(&key("/a"), request, at) else { panic!("no ticket") };
        ticket.adopt(read(&disk, "/a", at).expect("found"), &GZIP, at)
    };
    let store = Store::new(Settings::default());
    let Adopted::Fetch(ticket) = adopt(&store, now(60)) else { panic!("served stale") };
    assert_eq!(ticket.condition().count(), 1);
    drop(ticket);
    let Adopted::Serve(object) = adopt(&store, now(50)) else { panic!("not served") };
    let (held, late) = (object.clone(), now(70));
    let Lookup::Fetch(ticket, _) = store.lookup(&key("/a"), request, late) else { panic!("no ticket") };
    let Adopted::Fetch(ticket) = ticket.adopt(read(&disk, "/a", late).expect("found"), &GZIP, now(10)) else {
        panic!("the older one is served")
    };
    assert!(Arc::ptr_eq(ticket.stale().expect("the newer one"), &held));
    drop(ticket);
    assert_eq!(object.body.concat(), b"body");
    assert!(matches!(store.lookup(&key("/a"), request, now(50)), Lookup::Hit { age_seconds: 50, .. }));
}

#[test]
fn an_object_that_was_purged_from_memory_is_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let (disk, store) = (loaded(folder.path()), Store::new(Settings::default()));
    let fields: [Field<'_>; 1] = [(b"cache-control", b"max-age=60")];
    let (request, response) = (RequestHead::new(b"GET", &[]), ResponseHead { status: 200, fields: &fields });
    let Lookup::Fetch(ticket, _) = store.lookup(&key("/a"), request, now(0)) else { panic!("no ticket") };
    let Begun::Storing(writer) = ticket.begin(Exchange { request, response, sent: now(0), received: now(0) }) else {
        panic!("not stored")
    };
    let held = writer.finish().expect("stored");
    assert!(disk.write(&held, now(0)));
    store.purge(&Purge::All, PurgeKind::Hard, now(0));
    assert!(!disk.write(&held, now(0)));
}

#[test]
fn an_error_switches_the_tier_off_for_a_while_and_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    // A file where the folder should be fails for every user, root too.
    fs::write(folder.path().join("cache"), b"").expect("written");
    let disk = disk(folder.path());
    assert_eq!(disk.load(1, now(0)), Loaded::Off);
    assert!(!disk.write(&object("/a", b""), now(1)));
    assert_eq!((disk.load(1, now(59)), disk.counts().errors), (Loaded::Off, 1));
    fs::remove_file(folder.path().join("cache")).expect("removed");
    while disk.load(1, now(60)) != Loaded::Done {}
    assert!(disk.write(&object("/a", b""), now(60)));
    fs::remove_dir_all(folder.path().join("cache")).expect("removed");
    assert!(read(&disk, "/a", now(61)).is_none(), "a file that is gone is a miss");
    assert_eq!(disk.counts().errors, 1);
    assert!(disk.write(&object("/a", b""), now(61)), "the folder is made again");
    fs::remove_dir_all(folder.path().join("cache"))
        .and_then(|()| fs::write(folder.path().join("cache"), b""))
        .expect("in the way");
    assert!(!disk.write(&object("/b", b""), now(61)));
    assert_eq!((disk.counts().errors, disk.is_off(now(120)), disk.is_off(now(121))), (2, true, false));
    assert_eq!(disk.counts().objects, 1, "what cannot be looked at is not known to be gone");
}

#[test]
fn any_bytes_are_read_as_a_header_or_refused() {
    let header = super::format::write(&object("/a", b"body"), 5);
    assert!(read_header(&header[PREFIX_BYTES..], read_prefix(&header[..PREFIX_BYTES]).expect("a prefix").1).is_some());
    bolero::check!().with_iterations(5_000).for_each(|bytes: &[u8]| {
        let _ = read_prefix(bytes);
        assert!(read_header(bytes, crc32fast::hash(bytes)).is_none_or(|read| bytes.len() > read.key.url().len()));
        // Near a real one: a few bytes changed, with a checksum that agrees.
        let mut changed = header[PREFIX_BYTES..].to_vec();
        for pair in bytes.chunks_exact(3) {
            let place = usize::from(u16::from_le_bytes([pair[0], pair[1]])) % changed.len();
            changed[place] = pair[2];
        }
        let _ = read_header(&changed, crc32fast::hash(&changed));
    });
}
