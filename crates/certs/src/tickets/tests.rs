//! Whose tickets are accepted, for how long, and what becomes of keys.

use super::{EXPORTED_KEY_LEN, ExportedKeys, FileKeys, ROTATION_SECS, TICKET_LIFETIME_SECS, TicketKeys, TicketSource};
use std::path::PathBuf;
use std::sync::Arc;

const NOW: u64 = 1_800_000_000;
const SESSION: &[u8] = b"a session";

fn keys() -> Arc<TicketKeys> {
    TicketKeys::made_at(NOW).expect("randomness")
}

#[test]
fn a_ticket_lives_for_one_rotation_at_least_and_for_two_at_most() {
    let check = |made_after: u64, used_after: u64, expected: bool| {
        let keys = keys();
        let ticket = keys.encrypt(SESSION, None, NOW + made_after).expect("a ticket");
        // Others come meanwhile, and keys rotate.
        for hour in made_after / 3600..used_after / 3600 {
            keys.encrypt(SESSION, None, NOW + hour * 3600).expect("a ticket");
        }
        let seen = keys.decrypt(&ticket, None, NOW + used_after);
        assert_eq!(seen.as_deref(), expected.then_some(SESSION), "made after {made_after} s, used after {used_after} s");
    };
    check(0, 0, true);
    check(0, ROTATION_SECS - 1, true);
    check(0, ROTATION_SECS + 1, true);
    check(0, TICKET_LIFETIME_SECS - 1, true);
    check(0, TICKET_LIFETIME_SECS, false);
    check(ROTATION_SECS - 1, TICKET_LIFETIME_SECS - 1, true);
    check(ROTATION_SECS - 1, TICKET_LIFETIME_SECS + ROTATION_SECS, false);
}

#[test]
fn a_clock_that_is_set_back_neither_ends_tickets_nor_keeps_keys() {
    let keys = keys();
    let ticket = keys.encrypt(SESSION, None, NOW).expect("a ticket");
    assert!(keys.decrypt(&ticket, None, NOW - 60).is_some());
    let first = |keys: &TicketKeys| keys.set.load().encrypting(NOW).map(|key| key.name).expect("a key");
    let before = first(&keys);
    keys.rotate(NOW - ROTATION_SECS - 1);
    assert_ne!(first(&keys), before);
}

#[test]
fn a_ticket_is_good_under_its_own_policy_only() {
    let keys = keys();
    let policies = [None, Some([1; 32]), Some([2; 32])];
    for made in &policies {
        let ticket = keys.encrypt(SESSION, made.as_ref(), NOW).expect("a ticket");
        for used in &policies {
            assert_eq!(
                keys.decrypt(&ticket, used.as_ref(), NOW).is_some(),
                made == used,
                "made under {made:?}, used under {used:?}"
            );
        }
    }
}

#[test]
fn bytes_that_are_no_ticket_of_ours_are_refused() {
    let keys = keys();
    let ticket = keys.encrypt(SESSION, None, NOW).expect("a ticket");
    assert!(
        super::TicketKeys::made_at(NOW).expect("randomness").decrypt(&ticket, None, NOW).is_none(),
        "another process's ticket"
    );
    for len in 0..ticket.len() {
        assert!(keys.decrypt(&ticket[..len], None, NOW).is_none(), "cut after {len} bytes");
    }
    for place in 0..ticket.len() {
        let mut changed = ticket.clone();
        changed[place] ^= 1;
        assert!(keys.decrypt(&changed, None, NOW).is_none(), "byte {place} changed");
    }
    assert_ne!(ticket, keys.encrypt(SESSION, None, NOW).expect("a ticket"), "each has a nonce of its own");
}

#[test]
fn keys_that_were_handed_over_open_what_they_made() {
    let (before, after) = (keys(), keys());
    let old = before.encrypt(SESSION, None, NOW).expect("a ticket");
    before.rotate(NOW + ROTATION_SECS);
    let new = before.encrypt(SESSION, None, NOW + ROTATION_SECS).expect("a ticket");
    let exported = before.export().expect("keys of its own");
    assert!(after.adopt_at(&ExportedKeys::from_bytes(exported.reveal().to_vec()), NOW + ROTATION_SECS));
    for ticket in [old, new] {
        assert_eq!(after.decrypt(&ticket, None, NOW + ROTATION_SECS + 1).as_deref(), Some(SESSION));
    }
    assert_eq!(after.export(), Some(exported), "no key but those");
    assert_eq!(format!("{:?}", after.export()), "Some(***)");
}

#[test]
fn keys_that_cannot_be_used_change_nothing() {
    let check = |bytes: Vec<u8>| {
        let keys = keys();
        let before = keys.export();
        assert!(!keys.adopt_at(&ExportedKeys::from_bytes(bytes.clone()), NOW), "{bytes:?}");
        assert_eq!(keys.export(), before);
    };
    check(vec![]);
    check(vec![1]);
    check(vec![2; 1 + EXPORTED_KEY_LEN]);
    check(vec![1; EXPORTED_KEY_LEN]);
    check(vec![1; 2 + EXPORTED_KEY_LEN]);
    let old = TicketKeys::made_at(NOW - TICKET_LIFETIME_SECS).expect("randomness");
    check(old.export().expect("keys of its own").reveal().to_vec());
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    }
}

#[test]
fn hosts_with_the_same_files_accept_each_others_tickets() {
    let folder = Folder(tempfile::tempdir().expect("a folder"));
    let old = folder.file("old", &std::array::from_fn::<u8, 48, _>(|place| place as u8));
    let new = folder.file("new", &[7; 80]);
    let host = |files: &[&PathBuf]| {
        let keys = keys();
        let files: Vec<PathBuf> = files.iter().map(|file| (*file).clone()).collect();
        keys.follow(&TicketSource::Files(FileKeys::load(&files).expect("keys"))).expect("in use");
        keys
    };
    let check = |made: &[&PathBuf], used: &[&PathBuf], expected: bool| {
        let ticket = host(made).encrypt(SESSION, None, NOW).expect("a ticket");
        assert_eq!(host(used).decrypt(&ticket, None, NOW).is_some(), expected, "made with {made:?}, used with {used:?}");
        // The key stays, and yet a stolen ticket is of no use for ever.
        assert!(host(used).decrypt(&ticket, None, NOW + TICKET_LIFETIME_SECS).is_none());
    };
    check(&[&old], &[&old], true);
    check(&[&old], &[&new, &old], true);
    check(&[&new, &old], &[&old, &new], true);
    check(&[&new, &old], &[&old], false);
}

#[test]
fn keys_of_files_come_and_go_with_the_configuration() {
    let folder = Folder(tempfile::tempdir().expect("a folder"));
    let files = [folder.file("a", &[1; 48])];
    let keys = keys();
    keys.follow(&TicketSource::Files(FileKeys::load(&files).expect("keys"))).expect("in use");
    assert_eq!(keys.export(), None, "everybody reads files for himself");
    let ticket = keys.encrypt(SESSION, None, NOW).expect("a ticket");
    keys.follow(&TicketSource::Files(FileKeys::load(&files).expect("keys"))).expect("in use");
    assert!(keys.decrypt(&ticket, None, NOW).is_some());
    keys.follow(&TicketSource::Own).expect("in use");
    assert!(keys.decrypt(&ticket, None, NOW).is_none());
    let own = keys.export();
    keys.follow(&TicketSource::Own).expect("in use");
    assert_eq!(keys.export(), own);
}

#[test]
fn what_is_wrong_with_a_key_file_is_said_with_its_remedy() {
    let folder = Folder(tempfile::tempdir().expect("a folder"));
    let check = |files: &[PathBuf], message: &str, help: &str| {
        let errors = FileKeys::load(files).err().expect("a fault");
        let seen = errors[0].message().replace(folder.0.path().to_str().expect("a path"), "");
        assert_eq!(seen, message);
        assert!(errors[0].help().unwrap_or_default().contains(help), "{:?}", errors[0].help());
    };
    check(&[folder.file("short", &[0; 47])], "the ticket key in /short has 47 bytes instead of 48 or 80", "openssl rand 80 >");
    check(
        &[folder.file("long", &[0; 400])],
        "the ticket key in /long has more than 80 bytes instead of 48 or 80",
        "openssl rand 80 >",
    );
    let twice = [folder.file("a", &[1; 48]), folder.file("b", &[1; 80])];
    check(&twice, "the ticket key in /b has the name of one before it", "openssl rand 80 >");
    check(&[folder.0.path().join("none")], "cannot read /none: there is no such file", "");
}
