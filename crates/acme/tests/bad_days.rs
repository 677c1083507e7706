//! What is obtained on a bad day: while storage is full or read-only, while clocks disagree, from a CA that has not
//! what was asked for, and while name servers lie or say nothing. Nothing is ordered twice for it, and what was good
//! goes on being used.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the line that did")]

mod support;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use support::proxy::{Action, Proxy};
use support::{Engine, ReadOnly, World, quick};
use tidegate_acme::{Fault, News, Refusal, RevocationReason, State, Timing};
use tidegate_model::{Acme, AcmeAuthority, AcmeChallenge, AcmeDns, DnsProvider};
use tidegate_testkit::pebble::Options;

fn not_kept(engine: &Engine, name: &str) -> Fault {
    engine.until(&format!("word that the certificate of {name} is not stored"), |news| match news {
        News::NotKept { name: told, fault } if told == name => Some(fault.clone()),
        _ => None,
    })
}

/// In the middle of an order something happens to storage, and ends later.
fn storage_fails_in_the_middle<T>(world: &World, break_it: impl FnOnce(&Path) -> Option<T>, expected: &str) {
    let proxy = Proxy::start(world);
    let arrival = Arc::new(Barrier::new(2));
    proxy.add("/finalize-order/", Action::Meet(arrival.clone()), 1);
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme_behind(&proxy));
    arrival.wait();
    let Some(broken) = break_it(&world.storage()) else {
        eprintln!("skipped: nothing takes storage away from this user");
        arrival.wait();
        engine.certificate("a.example");
        return;
    };
    arrival.wait();
    let fault = not_kept(&engine, "a.example");
    assert!(fault.cause.contains("is in use, but is not stored") && fault.cause.contains(expected), "{fault:?}");
    assert!(fault.remedy.contains("not ordered again"), "{fault:?}");
    let first = engine.certificate("a.example");
    // It is tried again, and goes on being said.
    thread::sleep(Duration::from_secs(2));
    let status = engine.status("a.example");
    assert_eq!((status.state, status.serial.as_deref()), (State::Ready, Some(first.serial.as_str())), "{status:?}");
    assert!(status.last_fault.is_some_and(|fault| fault.cause.contains(expected)), "{:?}", engine.status("a.example"));
    // Whoever wants another one is told at once, and the CA is not asked.
    let refused = engine.renew("a.example");
    assert!(matches!(&refused, Err(Refusal::Failed(fault)) if fault.cause.contains(expected)), "{refused:?}");
    let files = world.files("acme/certificates");
    assert!(files.iter().any(|file| file.contains("order.json")), "its order is not forgotten before: {files:?}");
    drop(broken);
    engine.until_status("a stored certificate", || engine.status("a.example").last_fault.is_none());
    let files = world.files("acme/certificates");
    assert!(
        files.iter().any(|file| file.contains("bundle.pem")) && files.iter().all(|file| !file.contains("order.json")),
        "{files:?}"
    );
    drop(engine);
    // The next process has it.
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme_behind(&proxy));
    assert_eq!(engine.certificate("a.example").serial, first.serial);
    assert_eq!((world.pebble.orders(), world.pebble.issued()), (1, 1));
}

#[test]
fn a_storage_that_becomes_read_only_in_an_order_gets_the_certificate_later() {
    let Some(world) = World::new(Options::default()) else { return };
    fs::create_dir(world.storage()).unwrap();
    let folder = world.storage();
    storage_fails_in_the_middle(&world, |_| ReadOnly::make(&folder), "permission was denied");
}

#[test]
fn a_storage_that_becomes_full_in_an_order_gets_the_certificate_later() {
    let Some(world) = World::new(Options::default()) else { return };
    let Some(_small) = Small::mount(&world.storage()) else {
        eprintln!("skipped: this needs a file system of its own, which root can mount");
        return;
    };
    storage_fails_in_the_middle(&world, |folder| Some(Filled::to_the_brim(folder)), "no space is left");
}

/// A file system of its own, which is full soon.
struct Small(PathBuf);

impl Small {
    fn mount(folder: &Path) -> Option<Small> {
        fs::create_dir(folder).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k,mode=0700", "none"]).arg(folder).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Small(folder.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Takes all the room there is, and that which others give back.
struct Filled {
    file: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Filled {
    fn to_the_brim(folder: &Path) -> Filled {
        let file = folder.join("ballast");
        assert!(fs::write(&file, vec![0; 1 << 20]).is_err(), "a small file system is full by now");
        let is_over = Arc::new(AtomicBool::new(false));
        let (mut ballast, seen) = (fs::File::options().append(true).open(&file).unwrap(), is_over.clone());
        let thread = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                let _ = ballast.write_all(&[0; 4096]);
                thread::sleep(Duration::from_micros(100));
            }
        });
        Filled { file, is_over, thread: Some(thread) }
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        fs::remove_file(&self.file).unwrap();
    }
}

#[test]
fn a_process_that_ends_before_storage_took_the_certificate_takes_its_order_up_again() {
    let Some(world) = World::new(Options::default()) else { return };
    let proxy = Proxy::start(&world);
    let arrival = Arc::new(Barrier::new(2));
    proxy.add("/finalize-order/", Action::Meet(arrival.clone()), 1);
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme_behind(&proxy));
    arrival.wait();
    let storage = world.storage();
    let Some(read_only) = ReadOnly::make(&storage) else {
        eprintln!("skipped: nothing makes a folder read-only for this user");
        arrival.wait();
        return;
    };
    arrival.wait();
    let first = engine.certificate("a.example");
    drop(engine);
    drop(read_only);
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme_behind(&proxy));
    assert_eq!(engine.certificate("a.example").serial, first.serial);
    assert_eq!((world.pebble.orders(), world.pebble.issued()), (1, 1));
}

#[test]
fn what_was_revoked_while_storage_takes_nothing_is_replaced_when_it_does() {
    let Some(world) = World::new(Options::default()) else { return };
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme(&[AcmeChallenge::Http01]));
    let first = engine.certificate("a.example");
    let storage = world.storage();
    let Some(read_only) = ReadOnly::make(&storage) else {
        eprintln!("skipped: nothing makes a folder read-only for this user");
        return;
    };
    let refusal = engine.runtime.block_on(engine.issuing.revoke("a.example", RevocationReason::KeyCompromise)).unwrap_err();
    assert!(refusal.to_string().contains("the CA has revoked it, and this process knows"), "{refusal}");
    let status = engine.status("a.example");
    assert!(status.is_revoked && status.serial.as_ref() == Some(&first.serial), "{status:?}");
    drop(read_only);
    assert_ne!(engine.certificate("a.example").serial, first.serial);
    assert!(!engine.status("a.example").is_revoked);
}

#[test]
fn a_profile_that_the_ca_does_not_have_is_told_and_the_next_ca_is_asked() {
    let Some(world) = World::new(Options::default()) else { return };
    let with = |profile: &str, acme: Acme| Acme { profile: Some(profile.into()), ..acme };
    let engine = world.engine();
    // This pebble has none at all.
    engine.want(&["a.example"], &with("shortlived", world.acme(&[AcmeChallenge::Http01])));
    let fault = engine.failure("a.example");
    assert!(fault.cause.contains("pebble has no profiles") && fault.remedy.contains("leave `profile` out"), "{fault:?}");
    let proxy = Proxy::start(&world);
    proxy.state.lock().unwrap().profiles = vec!["shortlived", "default"];
    engine.want(&["b.example"], &with("short", world.acme_behind(&proxy)));
    let fault = engine.failure("b.example");
    assert!(fault.cause.contains("has no profile `short`") && fault.remedy.contains("default, shortlived"), "{fault:?}");
    assert_eq!(world.pebble.orders(), 0);
    // The first CA has not what is asked for, and the second has.
    let both = vec![world.authority(), world.acme_behind(&proxy).authorities.remove(0)];
    engine.want(&["c.example"], &with("shortlived", Acme { authorities: both, ..world.acme_behind(&proxy) }));
    assert_eq!(engine.certificate("c.example").directory.as_deref(), Some(proxy.directory.as_str()));
    assert_eq!(proxy.state.lock().unwrap().profiles_asked, ["shortlived"]);
}

/// The CA hands out certificates with these dates while one that is good is in use.
fn while_one_is_in_use(from_hours: i64, to_hours: i64, expected: [&str; 2]) {
    let Some(world) = World::new(Options { authorisations_reused: 0, ..Options::default() }) else { return };
    let proxy = Proxy::start(&world);
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme_behind(&proxy));
    let first = engine.certificate("a.example");
    let hours = |hours: i64| Timestamp::now() + SignedDuration::from_hours(hours);
    proxy.state.lock().unwrap().dates = Some((hours(from_hours), hours(to_hours)));
    for _ in 0..2 {
        let refused = engine.renew("a.example");
        let Err(Refusal::Failed(fault)) = refused else { panic!("{refused:?}") };
        assert!(fault.cause.contains(expected[0]) && fault.remedy.contains(expected[1]), "{fault:?}");
        let status = engine.status("a.example");
        assert_eq!((status.state, status.serial.as_deref()), (State::Ready, Some(first.serial.as_str())), "{status:?}");
        assert!(status.last_fault.is_some_and(|fault| fault.cause.contains(expected[0])));
    }
    assert_eq!(world.pebble.orders(), 2, "the one in use, and one that is taken up again");
    proxy.state.lock().unwrap().dates = None;
    engine.renew("a.example").unwrap();
    let status = engine.status("a.example");
    assert!(status.serial.is_some_and(|serial| serial != first.serial) && status.last_fault.is_none());
    assert_eq!((status.failures_in_a_row, world.pebble.orders()), (0, 2));
}

#[test]
fn a_certificate_whose_time_has_not_come_does_not_replace_a_good_one() {
    while_one_is_in_use(5, 2000, ["valid from", "clock (NTP)"]);
}

#[test]
fn a_certificate_that_had_ended_before_it_was_ordered_is_the_fault_of_a_clock() {
    while_one_is_in_use(-2000, -30, ["has issued a certificate that ended on", "set this machine's clock (NTP)"]);
}

#[test]
fn a_certificate_whose_time_has_not_come_is_better_than_none_and_the_clock_is_named() {
    let Some(world) = World::new(Options::default()) else { return };
    let proxy = Proxy::start(&world);
    let hours = |hours: i64| Timestamp::now() + SignedDuration::from_hours(hours);
    proxy.state.lock().unwrap().dates = Some((hours(5), hours(2000)));
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme_behind(&proxy));
    let first = engine.certificate("a.example");
    assert!(first.not_before > hours(4));
    // Storage is looked at again after an order; the fault is the same then.
    engine.until_status("the end of the look", || engine.status("a.example").next_attempt_at.is_some());
    let fault = engine.status("a.example").last_fault.expect("a fault");
    assert!(fault.cause.contains("valid from") && fault.remedy.contains("clock (NTP)"), "{fault:?}");
    assert_eq!(world.pebble.orders(), 1);
}

/// With the look before; names are looked up there.
fn careful(world: &World, resolver: SocketAddr) -> Acme {
    let provider = DnsProvider::Exec { command: "/nonexistent".into() };
    let dns = AcmeDns { provider, propagation: AcmeDns::PROPAGATION, resolver: Some(resolver) };
    Acme { preflight: true, dns: Some(dns), ..world.acme(&[AcmeChallenge::Http01]) }
}

#[test]
fn a_name_server_that_fails_is_named_and_holds_up_no_other_name() {
    let Some(world) = World::new(Options::default()) else { return };
    world.pebble.dns("set-servfail", &json!({"host": "lost.example."})).unwrap();
    let engine = world.engine();
    engine.want(&["lost.example", "fine.example"], &careful(&world, world.pebble.dns));
    let fault = engine.failure("lost.example");
    assert!(fault.cause.contains("seen from here, ") && fault.cause.contains("SERVFAIL"), "{fault:?}");
    assert!(fault.remedy.contains("check that all servers of the zone answer"), "{fault:?}");
    engine.certificate("fine.example");
}

#[test]
fn a_name_that_leads_elsewhere_is_told_beside_what_the_ca_says() {
    let Some(world) = World::new(Options::default()) else { return };
    // For documentation (RFC 5737): nobody is there.
    world.pebble.dns("add-a", &json!({"host": "away.example.", "addresses": ["192.0.2.1"]})).unwrap();
    let timing = Timing { probe_max: Duration::from_millis(500), ..quick() };
    let engine = world.engine_in(&world.storage(), timing);
    engine.want(&["away.example", "fine.example"], &careful(&world, world.pebble.dns));
    engine.certificate("fine.example");
    let fault = engine.failure("away.example");
    assert!(fault.cause.contains("seen from here, away.example leads to 192.0.2.1"), "{fault:?}");
    assert!(fault.remedy.contains("the address is this machine's"), "{fault:?}");
}

#[test]
fn a_name_server_that_says_nothing_is_waited_for_within_a_bound() {
    let Some(world) = World::new(Options::default()) else { return };
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // Whoever comes by TCP is not answered either.
    let _tcp = TcpListener::bind(silent.local_addr().unwrap());
    let timing = Timing { probe_max: Duration::from_millis(400), ..quick() };
    let engine = world.engine_in(&world.storage(), timing);
    let begin = Instant::now();
    engine.want(&["a.example"], &careful(&world, silent.local_addr().unwrap()));
    // Nothing is certain, so the CA is asked, which knows it better.
    engine.certificate("a.example");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn a_ca_that_hangs_holds_up_no_name_of_another_ca() {
    let Some(world) = World::new(Options::default()) else { return };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = format!("https://{}/dir", silent.local_addr().unwrap());
    let hanging = AcmeAuthority { name: "hanging".into(), directory, ..world.authority() };
    let fine = world.acme(&[AcmeChallenge::Http01]);
    let hung = Acme { authorities: vec![hanging], ..fine.clone() };
    let engine = world.engine_in(&world.storage(), Timing { request_max: Duration::from_secs(8), ..quick() });
    // More than are tried at the same time.
    let names: Vec<String> = (0..40).map(|number| format!("hung{number}.example")).collect();
    let mut all: Vec<_> = names.iter().map(|name| support::wanted(name, &hung)).collect();
    all.push(support::wanted("fine.example", &fine));
    let begin = Instant::now();
    engine.runtime.block_on(engine.issuing.want(all, Vec::new()));
    engine.certificate("fine.example");
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    let fault = engine.failure("hung0.example");
    assert!(fault.cause.contains("hanging") && fault.cause.contains("timed out"), "{fault:?}");
}
