//! Behaviours of the store one by one, with interleavings played by hand: whoever is polled when, and who is dropped.
//! Threads and random orders are in `simulation`.

mod simulation;

use super::{Begun, Broken, Lookup, Purge, PurgeKind, Reader, Store, WaitHandle, WaitOutcome};
use crate::message::RequestHead;
use crate::policy::serving::StaleReason;
use crate::policy::{Forward, WhyNot};
use crate::settings::{Rules, Settings};
use simulation::{NOW, at, begin, bell, fields, fill, get, key, ticket, word};
use std::task::{Context, Poll, Waker};

const FRESH: [(&str, &str); 1] = [("cache-control", "max-age=60")];

fn store() -> Store {
    Store::new(Settings::default())
}

fn wait(store: &Store, path: &str, request: &[(&str, &str)]) -> WaitHandle {
    match get(store, path, request, NOW) {
        Lookup::Wait(wait, _) => wait,
        other => panic!("{}", word(&other)),
    }
}

fn poll(wait: &mut WaitHandle, request: &[(&str, &str)], waker: &Waker) -> Poll<WaitOutcome> {
    wait.poll(&fields(request), &mut Context::from_waker(waker))
}

fn outcome(polled: &Poll<WaitOutcome>) -> &'static str {
    match polled {
        Poll::Pending => "pending",
        Poll::Ready(WaitOutcome::Read(_)) => "read",
        Poll::Ready(WaitOutcome::Serve(_)) => "serve",
        Poll::Ready(WaitOutcome::Fetch(_)) => "fetch",
        Poll::Ready(WaitOutcome::LookUpAgain) => "again",
        Poll::Ready(WaitOutcome::Alone) => "alone",
    }
}

fn reader(wait: &mut WaitHandle) -> Reader {
    match poll(wait, &[], Waker::noop()) {
        Poll::Ready(WaitOutcome::Read(reader)) => reader,
        other => panic!("{}", outcome(&other)),
    }
}

fn chunk(reader: &mut Reader) -> Poll<Option<Result<bytes::Bytes, Broken>>> {
    reader.poll_chunk(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_stored_answer_is_hit_until_it_is_stale_and_then_validated() {
    let store = store();
    let head = [("cache-control", "max-age=60"), ("etag", "\"a\"")];
    fill(&store, "/", &[], &head, b"body", NOW).expect("stored");
    let check = |path: &str, request: &[(&str, &str)], now: u64, expected: &str| {
        assert_eq!(word(&get(&store, path, request, at(now))), expected, "{path} {request:?} {now}");
    };
    check("/", &[], 59, "hit");
    check("/other", &[], 0, "fetch");
    check("/", &[], 60, "validate");
    check("/", &[("cache-control", "no-cache")], 0, "validate");
    check("/", &[("cache-control", "max-stale=10")], 65, "stale");
    check("/", &[("cache-control", "only-if-cached")], 0, "hit");
    check("/", &[("cache-control", "only-if-cached")], 60, "504");
    check("/none", &[("cache-control", "only-if-cached")], 0, "504");
    check("/none", &[("cache-control", "no-store")], 0, "bypass");
    check("/", &[("if-match", "\"a\"")], 0, "bypass");
    check("/", &[("range", "bytes=0-1")], 0, "hit");
    check("/none", &[("range", "bytes=0-1")], 0, "bypass");
    let Lookup::Hit { object, age_seconds, ttl_seconds } = get(&store, "/", &[], at(20)) else { panic!("no hit") };
    assert_eq!((object.body.concat().as_slice(), age_seconds, ttl_seconds), (&b"body"[..], 20, 40));
    for (method, expected) in [("HEAD", "hit"), ("POST", "bypass"), ("get", "bypass")] {
        let request = RequestHead::new(method.as_bytes(), &[]);
        assert_eq!(word(&store.lookup(&key("/"), request, NOW)), expected, "{method}");
    }
}

#[test]
fn a_304_makes_the_stored_answer_fresh_for_all_who_wait() {
    let store = store();
    let head = [("cache-control", "max-age=60"), ("etag", "\"a\""), ("x", "old")];
    fill(&store, "/", &[], &head, b"body", NOW).expect("stored");
    let late = at(100);
    let asking = ticket(&store, "/", &[], late);
    assert_eq!(asking.condition().collect::<Vec<_>>(), fields(&[("if-none-match", "\"a\"")]));
    let Lookup::Wait(mut waiting, Forward::Stale) = get(&store, "/", &[], late) else { panic!("does not wait") };
    let (bell, waker) = bell();
    assert!(poll(&mut waiting, &[], &waker).is_pending());
    let Begun::AskAgain(asking) = begin(asking, &[], 304, &[("etag", "\"b\"")], late) else { panic!("taken for ours") };
    assert_eq!((asking.condition().count(), bell.count()), (0, 0));
    let Begun::NotStored(WhyNot::Status) = begin(asking, &[], 304, &[], late) else { panic!("a 304 to nothing") };
    assert_eq!(outcome(&poll(&mut waiting, &[], &waker)), "alone");

    let asking = ticket(&store, "/", &[], at(200));
    let Begun::Validated(object, true) = begin(asking, &[], 304, &[("x", "new")], at(200)) else { panic!("not validated") };
    assert_eq!((object.body.concat().as_slice(), object.head.get("x").unwrap().as_ref()), (&b"body"[..], &b"new"[..]));
    assert_eq!(word(&get(&store, "/", &[], at(259))), "hit");
    assert_eq!(word(&get(&store, "/", &[], at(260))), "validate");
    assert_eq!(store.counts().objects, 1);
}

#[test]
fn what_a_304_says_to_one_client_reaches_it_and_is_not_kept() {
    let store = store();
    let head = [("cache-control", "max-age=60"), ("etag", "\"a\""), ("x", "old")];
    let check = |not_modified: &[(&str, &str)], field: &str, after: &str| {
        fill(&store, "/", &[], &head, b"body", NOW).expect("stored");
        let late = at(100);
        let asking = ticket(&store, "/", &[], late);
        let Begun::Validated(object, false) = begin(asking, &[], 304, not_modified, late) else {
            panic!("kept: {not_modified:?}")
        };
        let said = not_modified.iter().find(|(name, _)| *name == field).map(|(_, value)| value.as_bytes());
        assert_eq!((object.head.get(field).map(AsRef::as_ref), object.age_seconds(late)), (said, 0), "{not_modified:?}");
        assert_eq!(object.body.concat(), b"body");
        assert_eq!(word(&get(&store, "/", &[], late)), after, "{not_modified:?}");
        store.purge(&Purge::All, PurgeKind::Hard, late);
    };
    check(&[("set-cookie", "a=b")], "set-cookie", "validate");
    check(&[("cache-control", "private"), ("x", "new")], "x", "fetch");
    check(&[("cache-control", "no-store, private=\"x\""), ("x", "new")], "x", "fetch");
}

#[test]
fn waiters_read_along_as_chunks_come() {
    let store = store();
    let asking = ticket(&store, "/", &[], NOW);
    let (mut first, mut second) = (wait(&store, "/", &[]), wait(&store, "/", &[]));
    let (bell, waker) = bell();
    assert!(poll(&mut first, &[], &waker).is_pending());
    let Begun::Storing(mut writer) = begin(asking, &[], 200, &FRESH, NOW) else { panic!("not stored") };
    assert_eq!(bell.count(), 1);
    let mut reading = reader(&mut first);
    assert!(chunk(&mut reading).is_pending());
    assert!(writer.push(b"one"));
    assert_eq!(chunk(&mut reading), Poll::Ready(Some(Ok("one".into()))));
    assert!(writer.push(b"two"));
    // One who comes late begins at the beginning, even after the end.
    let mut third = wait(&store, "/", &[]);
    let object = writer.finish().expect("stored");
    for waiting in [&mut second, &mut third] {
        let mut late = reader(waiting);
        assert_eq!(late.opening().head, object.head);
        assert_eq!(chunk(&mut late), Poll::Ready(Some(Ok("one".into()))));
        assert_eq!(chunk(&mut late), Poll::Ready(Some(Ok("two".into()))));
        assert_eq!(chunk(&mut late), Poll::Ready(None));
    }
    assert_eq!(word(&get(&store, "/", &[], NOW)), "hit");
}

#[test]
fn a_body_that_breaks_off_is_not_stored_and_breaks_those_who_read_along() {
    let store = store();
    let head = [FRESH[0], ("content-length", "5")];
    for is_dropped in [true, false] {
        let asking = ticket(&store, "/", &[], NOW);
        let (mut waiting, mut late) = (wait(&store, "/", &[]), wait(&store, "/", &[]));
        let Begun::Storing(mut writer) = begin(asking, &[], 200, &head, NOW) else { panic!("not stored") };
        let mut reading = reader(&mut waiting);
        writer.push(b"four");
        if is_dropped {
            drop(writer);
        } else {
            assert_eq!(writer.finish().unwrap_err(), WhyNot::Malformed);
        }
        assert_eq!(chunk(&mut reading), Poll::Ready(Some(Ok("four".into()))));
        assert_eq!(chunk(&mut reading), Poll::Ready(Some(Err(Broken::Truncated))));
        assert_eq!(chunk(&mut reading), Poll::Ready(None));
        assert_eq!(outcome(&poll(&mut late, &[], Waker::noop())), "again");
        drop(reading);
        assert_eq!((store.counts().objects, store.counts().in_flight_bytes), (0, 0));
    }
}

#[test]
fn after_a_failure_the_next_fetches_and_nobody_is_forgotten() {
    let store = store();
    let failing = ticket(&store, "/", &[], NOW);
    let mut waiting: Vec<_> = (0..3).map(|_| (wait(&store, "/", &[]), bell())).collect();
    for (wait, (_, waker)) in &mut waiting {
        assert!(poll(wait, &[], waker).is_pending());
    }
    drop(failing);
    let rung = |waiting: &Vec<(WaitHandle, (std::sync::Arc<simulation::Bell>, Waker))>| -> Vec<usize> {
        waiting.iter().map(|(_, (bell, _))| bell.count()).collect()
    };
    assert_eq!(rung(&waiting), [1, 0, 0]);
    // The one who was woken goes away before it is polled: the next has to hear of it.
    waiting.remove(0);
    assert_eq!(rung(&waiting), [1, 0]);
    let (wait, (_, waker)) = &mut waiting[0];
    let Poll::Ready(WaitOutcome::Fetch(second)) = poll(wait, &[], waker) else { panic!("does not take over") };
    drop(second);
    assert_eq!(rung(&waiting), [1, 1]);
    // The third failure in a row is the last that others wait for.
    let (wait, (_, waker)) = &mut waiting[1];
    let Poll::Ready(WaitOutcome::Fetch(third)) = poll(wait, &[], waker) else { panic!("does not take over") };
    let mut late = simulation::get(&store, "/", &[], NOW);
    let Lookup::Wait(late, _) = &mut late else { panic!("{}", word(&late)) };
    drop(third);
    assert_eq!(outcome(&poll(late, &[], Waker::noop())), "alone");
    assert_eq!(word(&get(&store, "/", &[], NOW)), "fetch");
}

#[test]
fn when_all_who_waited_are_gone_the_next_request_is_the_first() {
    let store = store();
    let failing = ticket(&store, "/", &[], NOW);
    let waiting = wait(&store, "/", &[]);
    drop(failing);
    drop(waiting);
    let asking = ticket(&store, "/", &[], NOW);
    let waiting = wait(&store, "/", &[]);
    drop(asking);
    // Here one is still in the queue but has not been polled; a new request takes the fetch over.
    let asking = ticket(&store, "/", &[], NOW);
    drop((asking, waiting));
    assert_eq!(word(&get(&store, "/", &[], NOW)), "fetch");
}

#[test]
fn an_uncacheable_answer_sends_all_on_their_own_for_a_while() {
    let store = store();
    let asking = ticket(&store, "/", &[], NOW);
    let mut waiting = wait(&store, "/", &[]);
    let (bell, waker) = bell();
    assert!(poll(&mut waiting, &[], &waker).is_pending());
    let Begun::NotStored(WhyNot::NoStore) = begin(asking, &[], 200, &[("cache-control", "no-store")], NOW) else {
        panic!("stored")
    };
    assert_eq!((bell.count(), outcome(&poll(&mut waiting, &[], &waker))), (1, "alone"));
    // Two at a time, neither waits.
    let one = ticket(&store, "/", &[], at(9));
    let two = ticket(&store, "/", &[], at(9));
    // What has become cacheable is stored, and ends it.
    let Begun::Storing(writer) = begin(one, &[], 200, &FRESH, at(9)) else { panic!("not stored") };
    writer.finish().expect("stored");
    assert_eq!(word(&get(&store, "/", &[], at(9))), "hit");
    drop(two);
    let _first = ticket(&store, "/b", &[], NOW);
    assert_eq!(word(&get(&store, "/b", &[], NOW)), "wait");
}

#[test]
fn a_client_cannot_empty_the_cache_by_how_it_asks() {
    let store = store();
    fill(&store, "/", &[], &[FRESH[0], ("etag", "\"a\"")], b"", NOW).expect("stored");
    let check = |request: &[(&str, &str)], response: &[(&str, &str)], expected: &str| {
        let Begun::NotStored(_) = begin(ticket(&store, "/", request, NOW), request, 200, response, NOW) else { panic!("stored") };
        assert_eq!(word(&get(&store, "/", &[], NOW)), expected, "{request:?} {response:?}");
    };
    let reload = ("cache-control", "no-cache");
    check(&[reload, ("authorization", "x")], &FRESH, "hit");
    check(&[reload], &[FRESH[0], ("set-cookie", "a=b")], "hit");
    check(&[reload], &[("cache-control", "private")], "fetch");
}

#[test]
fn requests_with_credentials_neither_wait_nor_are_waited_for() {
    let store = store();
    let request = [("authorization", "x")];
    let (one, two) = (ticket(&store, "/", &request, NOW), ticket(&store, "/", &request, NOW));
    let Begun::NotStored(WhyNot::Authorization) = begin(one, &request, 200, &FRESH, NOW) else { panic!("stored") };
    let public = [("cache-control", "public, max-age=60")];
    let Begun::Storing(writer) = begin(two, &request, 200, &public, NOW) else { panic!("not stored") };
    writer.finish().expect("stored");
    assert_eq!(word(&get(&store, "/", &request, NOW)), "hit");
}

#[test]
fn answers_that_are_never_fresh_are_not_waited_for() {
    let store = store();
    let head = [("cache-control", "no-cache"), ("etag", "\"a\"")];
    let asking = ticket(&store, "/", &[], NOW);
    let mut waiting = wait(&store, "/", &[]);
    let Begun::Storing(writer) = begin(asking, &[], 200, &head, NOW) else { panic!("not stored") };
    assert_eq!(outcome(&poll(&mut waiting, &[], Waker::noop())), "alone");
    writer.finish().expect("stored");
    let (one, two) = (get(&store, "/", &[], NOW), get(&store, "/", &[], NOW));
    assert_eq!((word(&one), word(&two)), ("validate", "validate"));
    let Lookup::Fetch(one, Forward::Stale) = one else { panic!("no ticket") };
    let Begun::Validated(_, true) = begin(one, &[], 304, &[], NOW) else { panic!("not validated") };
}

#[test]
fn variants_are_fetched_and_waited_for_apart() {
    let store = store();
    let (gzip, plain) = ([("accept-encoding", "gzip")], [("accept-encoding", "identity")]);
    let head = [FRESH[0], ("vary", "Accept-Encoding")];
    // What it depends on is not known yet, so the second waits for the first.
    let asking = ticket(&store, "/", &gzip, NOW);
    let mut other = wait(&store, "/", &plain);
    let mut same = wait(&store, "/", &[("accept-encoding", "deflate, gzip;q=0.3")]);
    let Begun::Storing(writer) = begin(asking, &gzip, 200, &head, NOW) else { panic!("not stored") };
    assert_eq!(outcome(&poll(&mut other, &plain, Waker::noop())), "again");
    assert_eq!(outcome(&poll(&mut same, &[("accept-encoding", "gzip")], Waker::noop())), "read");
    let Lookup::Fetch(second, Forward::UriMiss) = get(&store, "/", &plain, NOW) else { panic!("no ticket") };
    writer.finish().expect("stored");
    drop(second);
    let Lookup::Fetch(second, Forward::VaryMiss) = get(&store, "/", &plain, NOW) else { panic!("no ticket") };
    let Begun::Storing(writer) = begin(second, &plain, 200, &head, NOW) else { panic!("not stored") };
    writer.finish().expect("stored");
    assert_eq!((word(&get(&store, "/", &gzip, NOW)), word(&get(&store, "/", &plain, NOW))), ("hit", "hit"));
    assert_eq!(store.purge(&Purge::Url(key("/")), PurgeKind::Hard, NOW), 2);
    assert_eq!(store.counts().objects, 0);
}

#[test]
fn those_beyond_the_bound_of_waiters_go_on_their_own() {
    let store = Store::new(Settings { waiters_max: 2, ..Settings::default() });
    let _asking = ticket(&store, "/", &[], NOW);
    let _waiting = (wait(&store, "/", &[]), wait(&store, "/", &[]));
    assert_eq!(word(&get(&store, "/", &[], NOW)), "bypass");
}

#[test]
fn an_operator_may_refuse_what_clients_ask_for() {
    let rules = Rules { obeys_request_directives: false, ..Rules::default() };
    let store = Store::new(Settings::default()).ruled_by(rules.into());
    fill(&store, "/", &[], &FRESH, b"", NOW).expect("stored");
    for request in [("cache-control", "no-cache"), ("cache-control", "max-age=0"), ("pragma", "no-cache")] {
        assert_eq!(word(&get(&store, "/", &[request], at(5))), "hit", "{request:?}");
    }
    assert_eq!(word(&get(&store, "/none", &[("cache-control", "only-if-cached")], NOW)), "504");
}

#[test]
fn variants_of_one_url_are_bounded() {
    let store = Store::new(Settings { variants_max: 3, ..Settings::default() });
    for number in 0..10 {
        let value = number.to_string();
        fill(&store, "/", &[("x", &value)], &[FRESH[0], ("vary", "x")], b"", NOW).expect("stored");
    }
    assert_eq!(store.counts().objects, 3);
    assert_eq!(word(&get(&store, "/", &[("x", "9")], NOW)), "hit");
    assert_eq!(word(&get(&store, "/", &[("x", "6")], NOW)), "fetch");
}

#[test]
fn one_request_at_a_time_revalidates_while_stale_is_served() {
    let store = store();
    let head = [("cache-control", "max-age=10, stale-while-revalidate=30"), ("etag", "\"a\"")];
    fill(&store, "/", &[], &head, b"", NOW).expect("stored");
    let Lookup::Stale { why: StaleReason::WhileRevalidate, revalidation: Some(asking), .. } = get(&store, "/", &[], at(15))
    else {
        panic!("nobody revalidates")
    };
    assert_eq!(word(&get(&store, "/", &[], at(16))), "stale");
    drop(asking);
    assert_eq!(word(&get(&store, "/", &[], at(15))), "stale");
    let Lookup::Stale { revalidation: Some(asking), .. } = get(&store, "/", &[], at(17)) else { panic!("given up") };
    let Begun::Validated(..) = begin(asking, &[], 304, &[], at(17)) else { panic!("not validated") };
    assert_eq!(word(&get(&store, "/", &[], at(26))), "hit");
}

#[test]
fn an_error_of_the_upstream_is_bridged_for_all_who_wait() {
    let store = store();
    fill(&store, "/", &[], &[("cache-control", "max-age=10, stale-if-error=30"), ("etag", "\"a\"")], b"old", NOW)
        .expect("stored");
    let mut asking = ticket(&store, "/", &[], at(20));
    let Lookup::Wait(mut waiting, _) = get(&store, "/", &[], at(20)) else { panic!("does not wait") };
    let (object, staleness) = asking.serve_stale(at(20)).expect("allowed");
    assert_eq!((object.body.concat().as_slice(), staleness.stale_seconds), (&b"old"[..], 10));
    drop(asking);
    assert_eq!(outcome(&poll(&mut waiting, &[], Waker::noop())), "serve");
    let mut asking = ticket(&store, "/", &[], at(40));
    assert!(asking.serve_stale(at(40)).is_none());
    // An error leaves what is stored; another answer that is not stored does not.
    let Begun::NotStored(_) = begin(asking, &[], 503, &[], at(40)) else { panic!("stored") };
    assert_eq!(store.counts().objects, 1);
    let Begun::NotStored(_) = begin(ticket(&store, "/", &[], at(41)), &[], 200, &[], at(41)) else { panic!("stored") };
    assert_eq!(store.counts().objects, 0);
}

#[test]
fn a_body_too_large_passes_through_and_laggards_are_cut() {
    let settings = Settings { object_bytes_max: 300 << 10, ..Settings::default() };
    let store = Store::new(settings);
    let long = [FRESH[0], ("content-length", "999999")];
    let Begun::NotStored(WhyNot::TooLarge) = begin(ticket(&store, "/long", &[], NOW), &[], 200, &long, NOW) else {
        panic!("stored")
    };
    let asking = ticket(&store, "/", &[], NOW);
    let (mut first, mut second, mut third) = (wait(&store, "/", &[]), wait(&store, "/", &[]), wait(&store, "/", &[]));
    let Begun::Storing(mut writer) = begin(asking, &[], 200, &FRESH, NOW) else { panic!("not stored") };
    let (mut keen, mut slow) = (reader(&mut first), reader(&mut second));
    let piece = vec![7; 50 << 10];
    let (mut is_storing, mut read, mut is_held_up) = (true, 0, false);
    for _ in 0..30 {
        is_storing &= writer.push(&piece);
        is_held_up |= writer.poll_room(&mut Context::from_waker(Waker::noop())).is_pending();
        while let Poll::Ready(Some(Ok(bytes))) = chunk(&mut keen) {
            read += bytes.len();
        }
        assert!(store.counts().in_flight_bytes <= (1 << 20) + (300 << 10));
    }
    assert!(!is_storing && is_held_up);
    assert_eq!(read, 30 * piece.len());
    assert_eq!(outcome(&poll(&mut third, &[], Waker::noop())), "alone");
    assert_eq!(chunk(&mut slow), Poll::Ready(Some(Err(Broken::TooSlow))));
    assert_eq!(writer.finish().unwrap_err(), WhyNot::TooLarge);
    assert_eq!(chunk(&mut keen), Poll::Ready(None));
    let (one, two) = (ticket(&store, "/", &[], NOW), ticket(&store, "/", &[], NOW));
    drop((keen, slow, first, second, third, one, two));
    assert_eq!((store.counts().objects, store.counts().in_flight_bytes), (0, 0));
}

#[test]
fn purges_meet_what_they_name_and_what_is_on_its_way() {
    let store = store();
    let tagged = |tags: &'static str| [FRESH[0], ("surrogate-key", tags), ("etag", "\"a\"")];
    for (path, tags) in [("/a/1", "x y"), ("/a/2", "y"), ("/b/1", "x"), ("/b/2", "z")] {
        fill(&store, path, &[], &tagged(tags), b"", NOW).expect("stored");
    }
    let check = |purge: Purge, kind: PurgeKind, met: usize, left: &str| {
        assert_eq!(store.purge(&purge, kind, NOW), met, "{purge:?}");
        let words: Vec<_> = ["/a/1", "/a/2", "/b/1", "/b/2"].map(|path| word(&get(&store, path, &[], NOW))).into_iter().collect();
        assert_eq!(words.join(" "), left, "{purge:?}");
    };
    check(Purge::Tag(b"none".to_vec()), PurgeKind::Hard, 0, "hit hit hit hit");
    check(Purge::Tag(b"x".to_vec()), PurgeKind::Soft, 2, "validate hit validate hit");
    check(Purge::Tag(b"y".to_vec()), PurgeKind::Hard, 2, "fetch fetch validate hit");
    check(Purge::Prefix(b"http://a.example/b/2".to_vec()), PurgeKind::Hard, 1, "fetch fetch validate fetch");
    check(Purge::All, PurgeKind::Hard, 1, "fetch fetch fetch fetch");

    let on_its_way = |purge: Option<Purge>| {
        let asking = ticket(&store, "/way", &[], NOW);
        let is_purged = purge.is_some();
        if let Some(purge) = &purge {
            store.purge(purge, PurgeKind::Hard, NOW);
        }
        // Who comes after the purge does not wait for what was asked for before it.
        assert_eq!(word(&get(&store, "/way", &[], NOW)), if is_purged { "fetch" } else { "wait" });
        let Begun::Storing(writer) = begin(asking, &[], 200, &FRESH, NOW) else { panic!("not stored") };
        writer.finish().is_ok()
    };
    for purge in [Purge::Url(key("/way")), Purge::All, Purge::Tag(b"q".to_vec()), Purge::Prefix(b"z".to_vec())] {
        assert!(!on_its_way(Some(purge)));
    }
    for number in 0..600 {
        store.purge(&Purge::Url(key(&format!("/elsewhere{number}"))), PurgeKind::Hard, NOW);
    }
    assert!(!on_its_way(Some(Purge::Url(key("/way")))));
    assert!(on_its_way(None));
}

#[test]
fn what_is_asked_for_again_outlives_what_is_asked_for_once() {
    let settings = Settings { bytes_max: 8 << 20, in_flight_bytes_max: 1 << 20, ..Settings::default() };
    let store = Store::new(settings);
    let body = vec![1; 10_000];
    for number in 0..50 {
        let path = format!("/often/{number}");
        fill(&store, &path, &[], &FRESH, &body, NOW).expect("stored");
        assert_eq!(word(&get(&store, &path, &[], NOW)), "hit");
    }
    for number in 0..3000 {
        fill(&store, &format!("/once/{number}"), &[], &FRESH, &body, NOW).expect("stored");
    }
    let left = (0..50).filter(|number| word(&get(&store, &format!("/often/{number}"), &[], NOW)) == "hit").count();
    assert!(left >= 40, "{left}");
    assert!(store.counts().evicted > 2000);
}

#[test]
fn a_body_of_single_bytes_is_kept_in_few_chunks() {
    let store = store();
    let Begun::Storing(mut writer) = begin(ticket(&store, "/", &[], NOW), &[], 200, &FRESH, NOW) else { panic!("not stored") };
    let body: Vec<u8> = (0..70_000_u32).map(|number| (number / 7) as u8).collect();
    for byte in &body {
        assert!(writer.push(&[*byte]));
    }
    let object = writer.finish().expect("stored");
    assert_eq!((object.body.len(), object.body.concat() == body), (2, true));
}

#[test]
fn routes_are_apart_and_purged_together() {
    let store = Store::new(Settings::default());
    let one = [(":partition", "one")];
    let two = [(":partition", "two")];
    fill(&store, "/", &one, &FRESH, b"1", NOW).expect("stored");
    assert_eq!(word(&get(&store, "/", &one, NOW)), "hit");
    assert_eq!(word(&get(&store, "/", &two, NOW)), "fetch");
    fill(&store, "/", &two, &FRESH, b"2", NOW).expect("stored");
    assert_eq!(store.purge(&Purge::Url(key("/")), PurgeKind::Hard, NOW), 2);
}

#[test]
fn a_body_is_kept_in_other_codings_and_counted() {
    let store = Store::new(Settings::default());
    let object = fill(&store, "/", &[], &FRESH, b"hello", NOW).expect("stored");
    let before = store.counts().bytes;
    let coded = [bytes::Bytes::from_static(b"hl")];
    assert!(store.keep_coded(&object, 1, &coded) && !store.keep_coded(&object, 1, &coded));
    assert_eq!(object.coded(1).map(|body| body.concat()), Some(b"hl".to_vec()));
    assert_eq!((object.coded(0), object.coded(9)), (None, None));
    assert!(store.counts().bytes > before);
    store.purge(&Purge::All, PurgeKind::Hard, NOW);
    assert_eq!(store.counts().bytes, 0);
    assert!(!store.keep_coded(&object, 2, &coded), "it is gone");
    assert_eq!(store.counts().bytes, 0);
}

#[test]
fn a_smaller_bound_is_kept_at_once() {
    let store = Store::new(Settings::default());
    for number in 0..100 {
        fill(&store, &format!("/{number}"), &[], &FRESH, &[0; 10_000], NOW).expect("stored");
    }
    store.resize(&Settings { bytes_max: 400_000, ..Settings::default() });
    assert!(store.counts().bytes <= 200_000, "{:?}", store.counts());
    assert!(store.counts().objects > 5);
}
