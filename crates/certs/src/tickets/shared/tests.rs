//! When keys of a storage are made, used and gone, on clocks that the tests set.

use super::super::{STORED_KEY_LEN, TICKET_KEYS_MAX, TicketKey, TicketKeys, TicketSource};
use super::{SharedKeys, UnreadableKeys};
use std::sync::Arc;

const HOUR: u64 = 3600;
/// Clocks of tests begin here.
const START: u64 = 1_800_000_000;
const SESSION: &[u8] = b"a session";

/// Keys that begin at these hours.
fn keys(begins: &[i64]) -> SharedKeys {
    SharedKeys::of(begins.iter().map(|hour| TicketKey::random(at(*hour)).expect("a key")).collect())
}

fn at(hour: i64) -> u64 {
    START.checked_add_signed(hour * HOUR as i64).expect("a time")
}

fn hours(secs: u64) -> f64 {
    (secs as f64 - START as f64) / HOUR as f64
}

/// A host, and what it last saw of the storage.
struct Host {
    tickets: Arc<TicketKeys>,
    /// How far the host's clock is ahead.
    ahead_secs: i64,
}

impl Host {
    fn new(ahead_hours: i64) -> Host {
        let tickets = TicketKeys::made_at(START).expect("randomness");
        tickets.follow(&TicketSource::Shared).expect("in use");
        Host { tickets, ahead_secs: ahead_hours * HOUR as i64 }
    }

    fn clock(&self, now_secs: u64) -> u64 {
        now_secs.checked_add_signed(self.ahead_secs).expect("a time")
    }

    /// What the shell does, with the storage as a value. Whether it wrote.
    fn look(&self, storage: &mut Vec<u8>, now_secs: u64) -> bool {
        let read = if storage.is_empty() { SharedKeys::default() } else { SharedKeys::read(storage).expect("keys") };
        let now_secs = self.clock(now_secs);
        let due = read.next_due(now_secs);
        let keys = due.map(|begin| read.with_next(begin, now_secs).expect("a key"));
        if let Some(keys) = &keys {
            *storage = keys.write().to_vec();
        }
        self.tickets.take_shared(keys.clone().unwrap_or(read));
        keys.is_some()
    }

    fn make(&self, now_secs: u64) -> Vec<u8> {
        self.tickets.encrypt(SESSION, None, self.clock(now_secs)).expect("a ticket")
    }

    fn takes(&self, ticket: &[u8], now_secs: u64) -> bool {
        self.tickets.decrypt(ticket, None, self.clock(now_secs)).is_some()
    }
}

#[test]
fn the_next_key_is_made_three_hours_ahead_and_at_once_when_it_is_late() {
    let check = |begins: &[i64], expected: Option<f64>| {
        let seen = keys(begins).next_due(START).map(hours);
        assert_eq!(seen, expected, "keys that begin at {begins:?}");
    };
    check(&[], Some(0.0));
    check(&[0], None);
    check(&[-2], None);
    check(&[-3], Some(3.0));
    check(&[-5], Some(1.0));
    check(&[-6], Some(0.0));
    check(&[-11], Some(0.0));
    check(&[-12], Some(0.0));
    check(&[-5, 1], None);
    check(&[-9, -3], Some(3.0));
    // Of hosts whose clocks are ahead.
    check(&[2], None);
    check(&[13], Some(0.0));
    check(&[-1, 11], None);
    check(&[-3, 11], Some(3.0));
    check(&[24 * 365], Some(0.0));
}

#[test]
fn tickets_are_made_with_the_last_key_that_has_begun() {
    let check = |begins: &[i64], expected: Option<(f64, f64)>| {
        let keys = keys(begins);
        let used = keys.in_use(START).map(|key| hours(key.not_before_secs));
        assert_eq!(used.zip(keys.used_until_secs(START).map(hours)), expected, "keys that begin at {begins:?}");
        assert_eq!(used.is_some(), expected.is_some(), "keys that begin at {begins:?}");
    };
    check(&[], None);
    check(&[0], Some((0.0, 6.0)));
    check(&[-5, 1], Some((-5.0, 7.0)));
    check(&[-6, 0], Some((0.0, 6.0)));
    check(&[-12, -6, 0, 6], Some((0.0, 12.0)));
    // The storage has been away for long.
    check(&[-6], None);
    check(&[-12, -6], None);
    // This clock is behind, or that of the host that made them is ahead.
    check(&[2], Some((2.0, 8.0)));
    check(&[-8, 2], Some((2.0, 8.0)));
    check(&[4], None);
}

#[test]
fn any_host_takes_any_hosts_tickets_through_a_week_of_rotations() {
    let check = |ahead_hours: &[i64]| {
        let hosts: Vec<Host> = ahead_hours.iter().map(|hours| Host::new(*hours)).collect();
        let (mut storage, mut writes) = (Vec::new(), 0);
        for minute in 0..7 * 24 * 60_u64 {
            let now = START + minute * 60;
            // One after the other, each within its minute; the first round is the start of the first two.
            for host in &hosts {
                writes += usize::from(host.look(&mut storage, now));
            }
            if minute < 2 || minute % 30 != 0 {
                continue;
            }
            for maker in &hosts {
                let ticket = maker.make(now);
                for taker in &hosts {
                    assert!(taker.takes(&ticket, now), "{ahead_hours:?}: minute {minute}");
                    assert!(taker.takes(&ticket, now + 3 * HOUR), "{ahead_hours:?}: minute {minute}, three hours later");
                }
            }
        }
        assert!((28..=30).contains(&writes), "{ahead_hours:?}: {writes} keys in a week");
        assert!(storage.len() <= 1 + 4 * STORED_KEY_LEN, "what is over is gone");
    };
    check(&[0, 0, 0]);
    check(&[0, 1, -1]);
    check(&[0, 2]);
}

#[test]
fn without_its_storage_a_host_goes_on_with_its_keys_then_own_ones_and_comes_back() {
    let (one, other) = (Host::new(0), Host::new(0));
    let mut storage = Vec::new();
    for minute in 0..4 * 60 {
        one.look(&mut storage, START + minute * 60);
        other.look(&mut storage, START + minute * 60);
    }
    // From here on it is away. There is a key up to the twelfth hour.
    let check = |hour: u64, is_shared: bool| {
        let ticket = one.make(START + hour * HOUR);
        assert_eq!(other.takes(&ticket, START + hour * HOUR), is_shared, "made in hour {hour}");
        assert!(one.takes(&ticket, START + hour * HOUR + HOUR), "made in hour {hour}, and brought back");
    };
    check(4, true);
    check(11, true);
    let last = one.make(START + 11 * HOUR);
    check(12, false);
    check(23, false);
    assert!(other.takes(&last, START + 17 * HOUR), "keys are good to their end");
    assert!(!other.takes(&last, START + 18 * HOUR));
    let own = one.make(START + 23 * HOUR);
    for host in [&one, &other] {
        host.look(&mut storage, START + 24 * HOUR);
    }
    check(24, true);
    assert!(one.takes(&own, START + 25 * HOUR), "a key of its own is accepted for as long as it would have been");
    assert!(!one.takes(&own, START + 36 * HOUR));
}

#[test]
fn a_clock_that_is_wrong_by_a_day_or_a_decade_stops_nobody_else() {
    for ahead_hours in [13, 24 * 365 * 10, -13, -24 * 365 * 10] {
        let (one, other, wrong) = (Host::new(0), Host::new(0), Host::new(ahead_hours));
        let (mut storage, mut writes) = (Vec::new(), 0);
        for minute in 0..7 * 24 * 60_u64 {
            let now = START + minute * 60;
            for host in [&one, &wrong, &one, &other] {
                writes += usize::from(host.look(&mut storage, now));
            }
            let ticket = one.make(now);
            assert!(other.takes(&ticket, now), "{ahead_hours} hours wrong, minute {minute}");
        }
        // Those whose clocks are right may have to make theirs anew when the other has written, and no more than that.
        assert!(writes <= 3 * 30, "{ahead_hours} hours wrong: {writes} keys in a week");
        assert!(storage.len() <= 1 + TICKET_KEYS_MAX * STORED_KEY_LEN);
    }
}

#[test]
fn what_is_kept_reads_back_and_nothing_else_does() {
    let written = keys(&[-6, 0, 6]).write();
    let read = SharedKeys::read(&written).expect("keys");
    assert_eq!(read.write(), written);
    let check = |bytes: &[u8], expected: UnreadableKeys| {
        assert_eq!(SharedKeys::read(bytes).err(), Some(expected), "{} bytes", bytes.len());
    };
    check(&[], UnreadableKeys::Damaged);
    check(&[2], UnreadableKeys::OtherVersion(2));
    check(&written[..written.len() - 1], UnreadableKeys::Damaged);
    let key = &written[1..=STORED_KEY_LEN];
    check(&[&[1][..], key, key].concat(), UnreadableKeys::Damaged);
    let many = SharedKeys::of((0..=TICKET_KEYS_MAX as i64).flat_map(|hour| keys(&[hour]).keys().to_vec()).collect());
    check(&many.write(), UnreadableKeys::Damaged);
    // For ever, and ended before it begins.
    for end in [u64::MAX, START - 1] {
        let mut bytes = keys(&[0]).write().to_vec();
        let end_at = bytes.len() - 8;
        bytes[end_at..].copy_from_slice(&end.to_be_bytes());
        check(&bytes, UnreadableKeys::Damaged);
    }
    assert_eq!(format!("{read:?}"), "SharedKeys { count: 3, .. }", "no secret is shown");
}

#[test]
fn more_keys_than_are_accepted_are_never_kept() {
    let full = keys(&(1..=TICKET_KEYS_MAX as i64).map(|hour| hour - 12 + 1).collect::<Vec<_>>());
    let more = full.with_next(at(20), START).expect("a key");
    assert_eq!(more.keys().len(), TICKET_KEYS_MAX);
    assert_eq!(more.keys().last().map(|key| hours(key.not_before_secs)), Some(20.0));
}

#[test]
fn a_successor_goes_on_with_what_its_predecessor_had_read() {
    let (before, other) = (Host::new(0), Host::new(0));
    let mut storage = Vec::new();
    let own = before.make(START);
    before.look(&mut storage, START);
    other.look(&mut storage, START);
    let after = TicketKeys::made_at(START).expect("randomness");
    assert!(after.adopt_at(&before.tickets.export().expect("keys to hand over"), START + 60));
    after.follow(&TicketSource::Shared).expect("in use");
    let ticket = after.encrypt(SESSION, None, START + 60).expect("a ticket");
    assert!(other.takes(&ticket, START + 60), "without having asked the storage");
    assert!(after.decrypt(&own, None, START + 60).is_some());
    assert!(!after.adopt_at(&before.tickets.export().expect("keys to hand over"), START + 12 * HOUR), "all of them have ended");
}

#[test]
fn keys_of_a_storage_come_and_go_with_the_configuration() {
    let host = Host::new(0);
    let of_before = host.make(START);
    host.look(&mut Vec::new(), START);
    let shared = host.make(START);
    assert!(host.takes(&of_before, START), "sessions from before are resumed");
    assert_eq!(host.tickets.shared_until_secs(START).map(hours), Some(6.0));
    host.tickets.follow(&TicketSource::Own).expect("in use");
    assert!(host.takes(&of_before, START) && !host.takes(&shared, START));
    host.tickets.take_shared(keys(&[0]));
    assert_eq!(host.tickets.shared_until_secs(START), None, "an answer of the storage that came too late");
}
