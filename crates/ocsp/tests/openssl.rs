//! Answers that OpenSSL's responder signs: which are believed and which are not. Skipped where there is no `openssl`.

use jiff::{SignedDuration, Timestamp};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tidegate_ocsp::{Answer, CertificateId, Fault, Question, ResponderStatus, Verdict, question, verify};
use tidegate_testkit::responder::{Issued, Key, Leaf, ResponderAuthority, Signer, installed};

const WEEK_DAYS: u32 = 7;

struct World {
    _folder: TempDir,
    authority: ResponderAuthority,
    leaf: Issued,
    issuer: Vec<u8>,
    id: CertificateId,
}

impl World {
    fn new(key: Key) -> World {
        let folder = TempDir::new().expect("a folder");
        let authority = ResponderAuthority::new(folder.path(), "authority", key).expect("an authority");
        let leaf = authority.issue("a.example", &Leaf::default()).expect("a certificate");
        let issuer = der(&authority.root());
        let id = CertificateId::of(&der(&leaf.certificate), &issuer).expect("the issuer's");
        World { _folder: folder, authority, leaf, issuer, id }
    }

    fn question(&self) -> Vec<u8> {
        match question("http://responder.example/ocsp", &self.id, 1) {
            Question::Post { body, .. } => body,
            Question::Get { url } => panic!("a POST was asked for: {url}"),
        }
    }

    fn answer(&self, signer: Signer) -> Vec<u8> {
        self.authority.answer(&self.question(), signer, WEEK_DAYS).expect("an answer")
    }

    fn verify(&self, response: &[u8]) -> Result<Answer, Fault> {
        verify(response, &self.id, &self.issuer, Timestamp::now())
    }
}

fn der(pem: &Path) -> Vec<u8> {
    let output = Command::new("openssl").args(["x509", "-outform", "DER", "-in"]).arg(pem).output().expect("it runs");
    assert!(output.status.success());
    output.stdout
}

#[test]
fn the_question_is_the_one_that_openssl_asks() {
    if !installed() {
        return;
    }
    let world = World::new(Key::Ecdsa);
    assert_eq!(world.question(), world.authority.question(&world.leaf).expect("a question"));
}

#[test]
fn short_questions_are_asked_by_get_and_others_by_post() {
    if !installed() {
        return;
    }
    let world = World::new(Key::Ecdsa);
    let is_get = |responder: &str, failures: u32| matches!(question(responder, &world.id, failures), Question::Get { .. });
    assert!(is_get("http://responder.example", 0));
    assert!(!is_get("http://responder.example", 1), "it may know POST only");
    assert!(is_get("http://responder.example", 2));
    assert!(!is_get("http://responder.example/?a=b", 0));
    assert!(!is_get(&format!("http://responder.example/{}", "a".repeat(200)), 0));
    let Question::Get { url } = question("http://responder.example/", &world.id, 0) else { panic!("it is short") };
    assert!(url.len() <= 255 && url.starts_with("http://responder.example/ME"), "{url}");
    assert!(url.bytes().skip(25).all(|byte| byte.is_ascii_alphanumeric() || byte == b'%'), "{url}");
}

#[test]
fn answers_of_the_issuer_and_of_its_delegate_are_believed() {
    if !installed() {
        return;
    }
    for key in [Key::Ecdsa, Key::Rsa] {
        let world = World::new(key);
        for signer in [Signer::Issuer, Signer::Delegate] {
            let answer = world.verify(&world.answer(signer)).expect("it is good");
            assert_eq!(answer.verdict, Verdict::Good, "{key:?} {signer:?}");
            let life = answer.next_update.duration_since(answer.this_update);
            assert_eq!(life, SignedDuration::from_hours(24 * i64::from(WEEK_DAYS)), "{key:?} {signer:?}");
        }
    }
}

#[test]
fn an_answer_ends_with_the_certificate_of_the_delegate_that_has_signed_it() {
    if !installed() {
        return;
    }
    let world = World::new(Key::Ecdsa);
    let days_of = |signer| {
        let response = world.authority.answer(&world.question(), signer, 60).expect("an answer");
        let answer = world.verify(&response).expect("it is good");
        answer.next_update.duration_since(answer.this_update).as_hours() / 24
    };
    assert_eq!(days_of(Signer::Issuer), 60);
    assert!(days_of(Signer::Delegate) < 25, "the delegate's does not last that long");
}

#[test]
fn a_revoked_certificate_is_known_as_such_and_an_unknown_one_is_a_fault() {
    if !installed() {
        return;
    }
    let world = World::new(Key::Ecdsa);
    world.authority.revoke(&world.leaf).expect("written");
    let at = "2026-01-01T00:00:00Z".parse().expect("a time");
    assert_eq!(world.verify(&world.answer(Signer::Issuer)).expect("it is signed").verdict, Verdict::Revoked { at });
    // Who says so of a certificate that it does not know has not revoked it.
    world.authority.disown(&world.leaf).expect("written");
    assert_eq!(world.verify(&world.answer(Signer::Issuer)), Err(Fault::Unknown));
    // Of the same name, with the key of another: its index does not have the serial.
    let other = World::new(Key::Ecdsa);
    let strange = other.authority.issue("b.example", &Leaf::default()).expect("a certificate");
    let id = CertificateId::of(&der(&strange.certificate), &world.issuer).expect("the name is the same");
    let Question::Post { body, .. } = question("http://a.example", &id, 1) else { panic!("a POST") };
    let response = world.authority.answer(&body, Signer::Issuer, WEEK_DAYS).expect("an answer");
    assert_eq!(verify(&response, &id, &world.issuer, Timestamp::now()), Err(Fault::Unknown));
}

#[test]
fn what_strangers_sign_is_not_believed() {
    if !installed() {
        return;
    }
    let world = World::new(Key::Ecdsa);
    assert_eq!(world.verify(&world.answer(Signer::Undelegated)), Err(Fault::Stranger), "a certificate for something else");
    // An authority with the very same names signs as the issuer, and as its delegate.
    let other = World::new(Key::Ecdsa);
    let answer = |signer| other.authority.answer(&world.question(), signer, WEEK_DAYS).expect("an answer");
    assert_eq!(world.verify(&answer(Signer::Issuer)), Err(Fault::Signature));
    assert_eq!(world.verify(&answer(Signer::Delegate)), Err(Fault::Stranger));
}

#[test]
fn answers_for_others_and_for_other_times_are_not_believed() {
    if !installed() {
        return;
    }
    let world = World::new(Key::Ecdsa);
    let response = world.answer(Signer::Delegate);
    let at = |hours: i64| Timestamp::now().saturating_add(SignedDuration::from_hours(hours)).expect("a time");
    let check = |hours: i64, expected: fn(&Result<Answer, Fault>) -> bool| {
        let seen = verify(&response, &world.id, &world.issuer, at(hours));
        assert!(expected(&seen), "after {hours} hours: {seen:?}");
    };
    check(0, Result::is_ok);
    check(24 * 7 - 1, Result::is_ok);
    check(24 * 7 + 1, |seen| matches!(seen, Err(Fault::Expired { .. })));
    // Before it, the delegate's certificate is not valid either.
    check(-1, |seen| matches!(seen, Err(Fault::DelegateOutOfDate)));
    check(24 * 25, |seen| matches!(seen, Err(Fault::DelegateOutOfDate)));
    let by_issuer = world.answer(Signer::Issuer);
    assert!(matches!(verify(&by_issuer, &world.id, &world.issuer, at(-1)), Err(Fault::TooEarly { .. })));
    let neighbour = world.authority.issue("b.example", &Leaf::default()).expect("a certificate");
    let id = CertificateId::of(&der(&neighbour.certificate), &world.issuer).expect("the issuer's");
    assert_eq!(verify(&response, &id, &world.issuer, Timestamp::now()), Err(Fault::OtherCertificate));
}

#[test]
fn no_changed_byte_changes_what_is_believed() {
    if !installed() {
        return;
    }
    let world = World::new(Key::Ecdsa);
    let response = world.answer(Signer::Delegate);
    let now = Timestamp::now();
    let good = verify(&response, &world.id, &world.issuer, now).expect("it is good");
    let mut believed = 0;
    for position in 0..response.len() {
        for bit in [0x01, 0x80] {
            let mut changed = response.clone();
            changed[position] ^= bit;
            if let Ok(answer) = verify(&changed, &world.id, &world.issuer, now) {
                assert_eq!(answer, good, "byte {position}");
                believed += 1;
            }
        }
    }
    // Of the delegate's certificate nothing is free either, and nothing else stands in it.
    assert_eq!(believed, 0, "of {} bytes", response.len());
    for length in 0..response.len() {
        assert!(verify(&response[..length], &world.id, &world.issuer, now).is_err(), "{length} bytes");
    }
}

#[test]
fn what_a_responder_says_instead_of_an_answer_is_said_again() {
    if !installed() {
        return;
    }
    let world = World::new(Key::Ecdsa);
    let check = |bytes: &[u8], expected: Fault| assert_eq!(world.verify(bytes), Err(expected), "{bytes:02x?}");
    check(&[0x30, 3, 0x0a, 1, 6], Fault::Declined(ResponderStatus::Unauthorized));
    check(&[0x30, 3, 0x0a, 1, 3], Fault::Declined(ResponderStatus::TryLater));
    check(b"<html>404</html>", Fault::Malformed("its beginning"));
    check(&vec![0; 17 << 10], Fault::TooLarge { bytes_max: 16 << 10 });
    // Asked for garbage, OpenSSL says so.
    let declined = world.authority.answer(b"garbage", Signer::Issuer, WEEK_DAYS);
    assert!(declined.is_err() || world.verify(&declined.expect("bytes")).is_err());
}
