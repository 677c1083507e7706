//! Renewal: by lifetime, by what the CA advises, and what happens when an answer of the CA gets lost or it has had
//! enough of us.

mod support;

use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use support::World;
use support::proxy::{Action, Proxy};
use tidegate_acme::{News, Refusal, State};
use tidegate_model::AcmeChallenge;
use tidegate_testkit::pebble::Options;

#[test]
fn a_short_life_is_renewed_at_its_half() {
    let options = Options { validity_secs: Some(20), ..Options::default() };
    let Some(world) = World::new(options) else { return };
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme(&[AcmeChallenge::Http01]));
    let first = engine.certificate("a.example");
    let second = engine.certificate("a.example");
    assert!(second.is_new && second.serial != first.serial);
    let half = first.not_before + (first.not_after.duration_since(first.not_before)) / 2;
    assert!(first.renew_at >= half, "{first:?}");
    // Not before its time, and before it was over.
    // (The CA counts whole seconds.)
    assert!(
        second.not_before >= half - SignedDuration::from_secs(1) && second.not_before < first.not_after,
        "{first:?} {second:?}"
    );
    assert_eq!(world.pebble.issued(), 2);
}

#[test]
fn the_ca_may_ask_for_renewal_at_once_and_is_told_what_is_replaced() {
    let Some(world) = World::new(Options::default()) else { return };
    let proxy = Proxy::start(&world);
    let now = Timestamp::now();
    let days = |days: i64| (now + SignedDuration::from_hours(24 * days)).to_string();
    proxy.state.lock().unwrap().window = Some((days(30), days(31)));
    let acme = world.acme_behind(&proxy);
    let engine = world.engine();
    engine.want(&["a.example"], &acme);
    let first = engine.certificate("a.example");
    // The window is asked for after the order.
    let advised = || {
        let status = engine.status("a.example");
        status
            .renew_at
            .is_some_and(|at| at >= now + SignedDuration::from_hours(24 * 29) && at <= now + SignedDuration::from_hours(24 * 32))
    };
    engine.until_status("the CA's window", advised);
    drop(engine);

    // The CA wants it renewed: the window is over. It asks to be asked every six hours, so what is remembered is taken
    // away.
    proxy.state.lock().unwrap().over_for = Some(base64_of(&first.serial));
    std::fs::write(
        world.storage().join("acme/certificates/a.example/facts.json"),
        serde_json::json!({"serial": first.serial, "directory": proxy.directory, "issued_at": now.to_string()}).to_string(),
    )
    .unwrap();
    let engine = world.engine();
    engine.want(&["a.example"], &acme);
    let kept = engine.certificate("a.example");
    assert!(!kept.is_new);
    let second = engine.certificate("a.example");
    assert!(second.is_new && second.serial != first.serial);
    let replaced = proxy.state.lock().unwrap().replaced.clone();
    let serial = replaced[0].split_once('.').unwrap().1.to_owned();
    let bytes = base64_of(&first.serial);
    assert_eq!((replaced.len(), serial), (1, bytes));
    assert_eq!(world.pebble.issued(), 2);
}

#[test]
fn what_a_responder_calls_revoked_is_in_use_until_there_is_another() {
    let Some(world) = World::new(Options::default()) else { return };
    let proxy = Proxy::start(&world);
    let engine = world.engine();
    let acme = world.acme_behind(&proxy);
    engine.want(&["a.example"], &acme);
    let first = engine.certificate("a.example");
    let leaf = CertificateDer::from_pem_slice(first.bundle.0.as_bytes()).unwrap();
    // Somebody else's certificate, and a name that nobody wants, change nothing.
    engine.runtime.block_on(engine.issuing.found_revoked("a.example", b"another"));
    engine.runtime.block_on(engine.issuing.found_revoked("b.example", &leaf));
    assert_eq!(engine.status("a.example").state, State::Ready);

    let problem = r#"{"type":"urn:ietf:params:acme:error:serverInternal","detail":"out of order","status":500}"#;
    proxy.add("/order-plz", Action::Answer(500, "X-None: 1".into(), problem.into()), 1_000);
    engine.runtime.block_on(engine.issuing.found_revoked("a.example", &leaf));
    let fault = engine.failure("a.example");
    assert!(fault.cause.contains("out of order"), "{fault:?}");
    let status = engine.status("a.example");
    assert_eq!((status.state, status.serial.as_ref()), (State::Missing, Some(&first.serial)), "{status:?}");
    assert!(status.failures_in_a_row >= 1, "{status:?}");
    let withdrawn = engine.seen.lock().unwrap().iter().any(|news| matches!(news, News::Withdrawn { .. }));
    assert!(!withdrawn, "it is better than none");

    // It is remembered over a restart.
    drop(engine);
    proxy.state.lock().unwrap().rules.clear();
    let engine = world.engine();
    engine.want(&["a.example"], &acme);
    let kept = engine.certificate("a.example");
    assert!(!kept.is_new && kept.serial == first.serial);
    let second = engine.certificate("a.example");
    assert!(second.is_new && second.serial != first.serial);
    assert_eq!(engine.status("a.example").failures_in_a_row, 0);
}

#[test]
fn a_responder_that_calls_everything_revoked_does_not_empty_the_quota() {
    let Some(world) = World::new(Options::default()) else { return };
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme(&[AcmeChallenge::Http01]));
    for orders in 1..=2 {
        let found = engine.certificate("a.example");
        assert_eq!(world.pebble.orders(), orders);
        let leaf = CertificateDer::from_pem_slice(found.bundle.0.as_bytes()).unwrap();
        engine.runtime.block_on(engine.issuing.found_revoked("a.example", &leaf));
    }
    // Fifteen minutes, at a hundredth.
    let is_waited = || {
        let status = engine.status("a.example");
        status.is_revoked && status.next_attempt_at.is_some_and(|at| at > Timestamp::now() + SignedDuration::from_secs(3))
    };
    engine.until_status("a wait", is_waited);
    assert_eq!(world.pebble.orders(), 2);
    let fault = engine.status("a.example").last_fault.unwrap();
    assert!(fault.cause.contains("is revoked"), "{fault:?}");
}

fn base64_of(hex: &str) -> String {
    use base64::Engine;
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).filter_map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok()).collect();
    base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

#[test]
fn an_order_whose_answer_got_lost_is_taken_up_and_not_repeated() {
    fn check(path: &'static str, is_told: bool) {
        let Some(world) = World::new(Options::default()) else { return };
        let proxy = Proxy::start(&world);
        proxy.add(path, Action::LoseAnswer, 1);
        let engine = world.engine();
        engine.want(&["a.example"], &world.acme_behind(&proxy));
        engine.certificate("a.example");
        let told = engine.seen.lock().unwrap().iter().filter(|news| matches!(news, News::Failed { .. })).count();
        assert_eq!(told, usize::from(is_told), "{path}");
        assert_eq!(proxy.state.lock().unwrap().rules[0].times, 0, "{path}");
        assert_eq!((world.pebble.orders(), world.pebble.issued()), (1, 1), "{path}");
        assert_eq!(world.answers.left(), 0, "{path}");
    }
    // Finalising is not repeated blindly; the rest does the same when it arrives twice.
    check("/finalize-order/", true);
    check("/certZ/", false);
    check("/chalZ/", false);
    check("/my-order/", false);
}

#[test]
fn a_ca_that_has_had_enough_is_left_alone_until_it_says() {
    let Some(world) = World::new(Options::default()) else { return };
    let proxy = Proxy::start(&world);
    let problem = r#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many certificates","status":429}"#;
    proxy.add("/order-plz", Action::Answer(429, "Retry-After: 7200".into(), problem.into()), 1);
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme_behind(&proxy));
    let fault = engine.failure("a.example");
    assert!(fault.cause.contains("limits us: too many certificates"), "{fault:?}");
    let status = engine.status("a.example");
    let wait = status.next_attempt_at.unwrap().duration_since(Timestamp::now());
    assert!(wait > SignedDuration::from_mins(110) && wait <= SignedDuration::from_mins(120), "{wait:?}");
    // Whoever asks explicitly is told the same, and the CA is not asked.
    let before = proxy.requests("/order-plz");
    let refused = engine.renew("a.example");
    assert!(matches!(&refused, Err(Refusal::Failed(fault)) if fault.cause.contains("limits us")), "{refused:?}");
    drop(engine);
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme_behind(&proxy));
    engine.read();
    assert_eq!(proxy.requests("/order-plz"), before);
    assert!(engine.status("a.example").next_attempt_at.is_some());
}

#[test]
fn a_page_instead_of_an_answer_is_quoted() {
    let Some(world) = World::new(Options::default()) else { return };
    let proxy = Proxy::start(&world);
    let page = "<html>\n<h1>502 Bad Gateway</h1></html>";
    proxy.add("/order-plz", Action::Answer(502, "Server: cdn".into(), page.into()), 1);
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme_behind(&proxy));
    let fault = engine.failure("a.example");
    assert!(fault.cause.contains("502 Bad Gateway") && !fault.cause.contains('\n'), "{fault:?}");
    engine.certificate("a.example");
}

#[test]
fn an_order_that_hangs_ends_with_its_time_limit_and_goes_on_later() {
    let Some(world) = World::new(Options::default()) else { return };
    let proxy = Proxy::start(&world);
    proxy.add("/finalize-order/", Action::Hang, 1);
    let timing = tidegate_acme::Timing { request_max: std::time::Duration::from_millis(700), ..support::quick() };
    let engine = world.engine_in(&world.storage(), timing);
    engine.want(&["a.example"], &world.acme_behind(&proxy));
    let fault = engine.failure("a.example");
    assert!(fault.cause.contains("did not answer within 700ms"), "{fault:?}");
    engine.certificate("a.example");
    assert_eq!((world.pebble.orders(), world.pebble.issued()), (1, 1));
}
