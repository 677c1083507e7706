//! Slots for staples: who shares one, what handshakes get of it, and what `check` says. Answers are signed by OpenSSL;
//! skipped where there is none.

use super::support::site;
use crate::check::check_site;
use crate::files::LoadedCertificate;
use crate::process_state::TlsProcessState;
use crate::site::{ServedFiles, SiteCertificates};
use crate::staple::{StapleSlot, Staples};
use jiff::Timestamp;
use std::path::Path;
use std::sync::{Arc, Weak};
use tempfile::TempDir;
use tidegate_model::{Certificate, TlsSource};
use tidegate_ocsp::{Effect, Question};
use tidegate_testkit::responder::{Issued, Key, Leaf, ResponderAuthority, Signer, installed};

struct World {
    folder: TempDir,
    authority: ResponderAuthority,
}

impl World {
    fn new() -> World {
        let folder = TempDir::new().expect("a folder");
        let authority = ResponderAuthority::new(folder.path(), "authority", Key::Ecdsa).expect("an authority");
        World { folder, authority }
    }

    fn issue(&self, name: &str, must_staple: bool) -> Issued {
        // Long, so that it is asked by POST.
        let responder = format!("http://127.0.0.1:1/{}", "a".repeat(250));
        self.authority.issue(name, &Leaf { responder: Some(responder), must_staple }).expect("a certificate")
    }

    fn answer(&self, slot: &StapleSlot) -> Vec<u8> {
        let Question::Post { body, .. } = slot.question() else { panic!("its URL is long") };
        self.authority.answer(&body, Signer::Issuer, 1).expect("an answer")
    }
}

fn pair(issued: &Issued) -> Certificate {
    Certificate { cert: issued.chain.clone().into(), key: Some(issued.key.clone().into()) }
}

fn slots(staples: &Staples) -> Vec<Arc<StapleSlot>> {
    staples.take_new().iter().filter_map(Weak::upgrade).collect()
}

#[test]
fn sites_with_the_same_certificate_share_what_is_stapled_until_its_end() {
    if !installed() {
        return;
    }
    let world = World::new();
    let files = [pair(&world.issue("a.example", false))];
    let staples = Arc::new(Staples::default());
    let load = |staples: Option<&Arc<Staples>>| {
        SiteCertificates::from_files(&files, staples.cloned(), &ServedFiles::new(), Timestamp::now()).expect("certificates")
    };
    let (one, other, without) = (load(Some(&staples)), load(Some(&staples)), load(None));
    let served = |site: &SiteCertificates| site.current().all()[0].served().ocsp.clone();
    let [slot] = &slots(&staples)[..] else { panic!("one is asked about") };
    assert!(!staples.has_news());
    assert_eq!(served(&one), None);
    let answer = world.answer(slot);
    let effect = slot.take(&answer, Timestamp::now(), 0.5).expect("it is good");
    let Effect::Staple { until } = effect else { panic!("{effect:?}") };
    assert_eq!((served(&one).as_ref(), served(&other).as_ref()), (Some(&answer), Some(&answer)));
    assert_eq!(served(&without), None);
    let until = until.as_second() as u64;
    assert!(slot.served_at(|| until - 1).ocsp.is_some());
    assert!(slot.served_at(|| until).ocsp.is_none());
    assert_eq!(slot.served_at(|| until).cert, slot.served_at(|| 0).cert);
    // A reload finds it again, and what nobody serves any more is forgotten.
    let reloaded = load(Some(&staples));
    drop((one, other));
    assert_eq!(served(&reloaded), Some(answer));
    assert!(slots(&staples).is_empty());
    drop(reloaded);
    assert_eq!(staples.all().len(), 1, "the one that is held here");
}

#[test]
fn nothing_is_stapled_to_what_is_revoked_or_after_a_bad_answer() {
    if !installed() {
        return;
    }
    let world = World::new();
    let issued = world.issue("a.example", false);
    let staples = Arc::new(Staples::default());
    let site = SiteCertificates::from_files(&[pair(&issued)], Some(staples.clone()), &ServedFiles::new(), Timestamp::now())
        .expect("certificates");
    let served = || site.current().all()[0].served().ocsp.clone();
    let [slot] = &slots(&staples)[..] else { panic!("one is asked about") };
    let good = world.answer(slot);
    assert!(slot.take(&good[..good.len() / 2], Timestamp::now(), 0.5).is_err());
    assert_eq!(served(), None);
    slot.take(&good, Timestamp::now(), 0.5).expect("it is good");
    assert!(slot.take(b"garbage", Timestamp::now(), 0.5).is_err());
    assert_eq!(served(), Some(good), "what was good before stays");
    world.authority.revoke(&issued).expect("written");
    let revoked = world.answer(slot);
    assert_eq!(slot.take(&revoked, Timestamp::now(), 0.5), Ok(Effect::Withdraw { is_news: true }));
    assert_eq!(served(), None);
}

#[test]
fn obtained_certificates_have_slots_while_some_site_staples() {
    if !installed() {
        return;
    }
    let world = World::new();
    let state = TlsProcessState::new(world.folder.path().join("state")).expect("state");
    let load = |name: &str| {
        let issued = world.issue(name, false);
        let read = |path: &Path| std::fs::read(path).expect("a file");
        LoadedCertificate::from_pem((&issued.chain, &read(&issued.chain)), Some((&issued.key, &read(&issued.key))))
            .expect("a certificate")
    };
    let obtained = &state.obtained;
    obtained.put("a.example", load("a.example"));
    assert!(!state.staples.has_news(), "no site staples so far");
    obtained.set_stapled(true);
    obtained.put("b.example", load("b.example"));
    let slots = slots(&state.staples);
    assert_eq!(slots.len(), 2);
    for slot in &slots {
        slot.take(&world.answer(slot), Timestamp::now(), 0.5).expect("it is good");
    }
    for name in ["a.example", "b.example"] {
        assert!(obtained.find(name, true).expect("a certificate").ocsp.is_some(), "{name}");
        assert!(obtained.find(name, false).expect("a certificate").ocsp.is_none(), "{name}");
    }
    let of_a = obtained.get("a.example").and_then(|certificate| certificate.staple).expect("a slot");
    obtained.put("also.example", obtained.get("a.example").expect("a certificate"));
    let mut names = obtained.names_of(&of_a);
    names.sort_unstable();
    assert_eq!(names, ["a.example", "also.example"]);
    obtained.remove("also.example");
    drop(of_a);
    obtained.set_stapled(false);
    assert!(obtained.find("a.example", true).expect("a certificate").ocsp.is_none());
    drop(slots);
    assert!(state.staples.all().is_empty());
}

#[test]
fn check_says_what_clients_will_refuse_and_what_cannot_be_stapled() {
    if !installed() {
        return;
    }
    let world = World::new();
    let (usual, required) = (world.issue("a.example", false), world.issue("b.example", true));
    let lonely = world.authority.issue("c.example", &Leaf { responder: None, must_staple: true }).expect("a certificate");
    let check = |name: &str, issued: &Issued, is_chain: bool, is_on: bool, expected: &str| {
        let cert = if is_chain { issued.chain.clone() } else { issued.certificate.clone() };
        let source = TlsSource::Files(vec![Certificate { cert: cert.into(), key: Some(issued.key.clone().into()) }]);
        let mut site = site(&[name], source);
        site.tls.ocsp_stapling = is_on;
        let seen: Vec<String> = check_site(&site, Timestamp::now()).into_iter().map(|finding| finding.message).collect();
        match seen.as_slice() {
            [] => assert_eq!(expected, ""),
            [one] => assert!(!expected.is_empty() && one.contains(expected), "{one}"),
            several => panic!("{several:?}"),
        }
    };
    check("a.example", &usual, true, true, "");
    check("a.example", &usual, false, true, "does not have the certificate of the issuer");
    check("a.example", &usual, false, false, "");
    check("b.example", &required, true, true, "");
    check("b.example", &required, true, false, "`ocsp-stapling` is off");
    check("c.example", &lonely, true, true, "it names no responder");
}
