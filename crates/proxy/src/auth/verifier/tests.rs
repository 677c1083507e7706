//! One verification for a question, answers that are remembered, places that are bounded and given back.

use super::{Asker, PasswordVerdict, Ticket, Verification, Verifier, WAITING_MAX, WAITING_OF_CLIENT_MAX, lock};
use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tidegate_limiting::FailureQuotas;
use tidegate_passwords::Users;

/// Of `U*U`, as cheap as can be made.
const HASH: &str = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
const PASSWORD: &[u8] = b"U*U";

fn users() -> Users {
    Users::listed([("alice", HASH)]).expect("a list").expect("a user")
}

fn client(number: usize) -> IpAddr {
    IpAddr::from([10, 0, (number >> 8) as u8, number as u8])
}

fn asker(number: usize) -> Asker<'static> {
    Asker { client: client(number), place: "site", failures: None }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll(ticket: &mut Ticket, woken: &Arc<Woken>) -> Poll<PasswordVerdict> {
    pin!(ticket).poll(&mut Context::from_waker(&Waker::from(woken.clone())))
}

fn waits(asked: Verification) -> Ticket {
    let Verification::Waits(ticket) = asked else { panic!("it should have to wait") };
    ticket
}

/// As a thread does it.
fn answer_next(verifier: &Verifier) -> bool {
    let job = lock(&verifier.shared.queue).take();
    let Some(job) = job else { return false };
    verifier.shared.answer(&job);
    true
}

#[test]
fn equal_questions_are_verified_once_and_everybody_is_told() {
    let (verifier, users, woken) = (Verifier::with_threads(0), users(), Arc::new(Woken::default()));
    let ask = || verifier.ask(&users, (b"alice", PASSWORD), asker(1), Instant::now());
    let (mut first, mut second) = (waits(ask()), waits(ask()));
    assert_eq!((poll(&mut first, &woken), poll(&mut second, &woken)), (Poll::Pending, Poll::Pending));
    assert!(answer_next(&verifier) && !answer_next(&verifier));
    assert_eq!(woken.0.load(Ordering::SeqCst), 2);
    assert_eq!(
        (poll(&mut first, &woken), poll(&mut second, &woken)),
        (Poll::Ready(PasswordVerdict::Fits), Poll::Ready(PasswordVerdict::Fits))
    );
    assert_eq!(first.user().map(|user| user.name.to_string()).as_deref(), Some("alice"));
    let Verification::Answered(Some(user)) = ask() else { panic!("it is remembered") };
    assert_eq!(&*user.name, "alice");
}

#[test]
fn nobody_is_let_in_by_the_password_of_somebody_else() {
    let (verifier, users, woken) = (Verifier::with_threads(0), users(), Arc::new(Woken::default()));
    let check = |name: &[u8], password: &[u8]| {
        let mut ticket = waits(verifier.ask(&users, (name, password), asker(1), Instant::now()));
        assert!(answer_next(&verifier));
        assert_eq!(poll(&mut ticket, &woken), Poll::Ready(PasswordVerdict::DoesNotFit), "{name:?}");
        assert!(matches!(verifier.ask(&users, (name, password), asker(1), Instant::now()), Verification::Answered(None)));
    };
    check(b"alice", b"wrong");
    // The hash that is verified in its place is the only one there is.
    check(b"mallory", PASSWORD);
    check(b"", PASSWORD);
}

#[test]
fn places_are_bounded_and_given_back() {
    let (verifier, users) = (Verifier::with_threads(0), users());
    let ask = |number: usize, from: usize| {
        verifier.ask(&users, (b"alice", format!("guess {number}").as_bytes()), asker(from), Instant::now())
    };
    let of_one: Vec<Ticket> = (0..WAITING_OF_CLIENT_MAX).map(|number| waits(ask(number, 1))).collect();
    assert!(matches!(ask(900, 1), Verification::Busy), "one client has as many places as it may");
    let joined = waits(ask(0, 1));
    let others: Vec<Ticket> = (WAITING_OF_CLIENT_MAX..WAITING_MAX).map(|number| waits(ask(number, number))).collect();
    assert!(matches!(ask(901, 900), Verification::Busy), "all places are taken");
    drop(of_one);
    assert_eq!(lock(&verifier.shared.queue).waiting.len(), 1 + others.len(), "somebody still waits for the first");
    let again = waits(ask(902, 1));
    drop((joined, others, again));
    let queue = lock(&verifier.shared.queue);
    assert!(queue.waiting.is_empty() && queue.under_way.is_empty() && queue.of_clients.is_empty());
}

#[test]
fn an_answer_that_nobody_waits_for_any_more_is_remembered() {
    let (verifier, users) = (Verifier::with_threads(0), users());
    let ask = || verifier.ask(&users, (b"alice", PASSWORD), asker(1), Instant::now());
    let ticket = waits(ask());
    let job = lock(&verifier.shared.queue).take().expect("a job");
    drop(ticket);
    verifier.shared.answer(&job);
    assert!(matches!(ask(), Verification::Answered(Some(_))));
    assert!(lock(&verifier.shared.queue).under_way.is_empty());
}

#[test]
fn the_addresses_of_a_subscriber_are_one_client() {
    let check = |one: &str, other: &str, expected: bool| {
        let network = |text: &str| super::network(text.parse().expect("an address"), super::IPV6_PREFIX);
        assert_eq!(network(one) == network(other), expected, "{one} {other}");
    };
    check("192.0.2.1", "192.0.2.2", false);
    check("192.0.2.1", "::ffff:192.0.2.1", true);
    check("2001:db8::1", "2001:db8::ffff:0:0:1", true);
    check("2001:db8::1", "2001:db8:0:1::1", false);
}

#[test]
fn threads_answer() {
    let (verifier, users, woken) = (Verifier::with_threads(2), users(), Arc::new(Woken::default()));
    let mut tickets: Vec<Ticket> = (0..8)
        .map(|number| {
            waits(verifier.ask(&users, (b"alice", format!("guess {number}").as_bytes()), asker(number), Instant::now()))
        })
        .collect();
    let deadline = Instant::now() + std::time::Duration::from_secs(60);
    while !tickets.iter_mut().all(|ticket| poll(ticket, &woken) == Poll::Ready(PasswordVerdict::DoesNotFit)) {
        assert!(Instant::now() < deadline, "no answer");
        std::thread::yield_now();
    }
    assert!(lock(&verifier.shared.queue).threads <= 2);
}

#[test]
fn clients_take_turns_however_many_questions_each_has() {
    let (verifier, users) = (Verifier::with_threads(0), users());
    let ask = |guess: &str, from: usize| waits(verifier.ask(&users, (b"alice", guess.as_bytes()), asker(from), Instant::now()));
    let _many: Vec<Ticket> = ["1a", "1b", "1c", "1d"].into_iter().map(|guess| ask(guess, 1)).collect();
    let next = || lock(&verifier.shared.queue).take().map(|job| String::from_utf8_lossy(&job.password).into_owned());
    assert_eq!(next().as_deref(), Some("1a"));
    let _others = [ask("2a", 2), ask("2b", 2), ask("3a", 3)];
    let order: Vec<String> = std::iter::from_fn(next).collect();
    assert_eq!(order, ["2a", "3a", "1b", "2b", "1c", "1d"]);
}

#[test]
fn guesses_are_counted_before_they_are_verified() {
    let (verifier, users) = (Verifier::with_threads(0), users());
    let failures = Some(FailureQuotas::by_name(3, Duration::from_secs(600)));
    let ask = |name: &str, password: &[u8], from: usize| {
        verifier.ask(&users, (name.as_bytes(), password), Asker { failures, ..asker(from) }, Instant::now())
    };
    let is_held_up = |asked: Verification| matches!(asked, Verification::HeldUp(wait) if wait > Duration::from_secs(100));
    let at_once: Vec<Ticket> = [b"a", b"b", b"c"].into_iter().map(|guess| waits(ask("alice", guess, 1))).collect();
    assert!(is_held_up(ask("alice", b"d", 1)));
    // Who does not wait for the answer has learnt nothing.
    drop(at_once);
    let at_once: Vec<Ticket> = [b"a", b"b", PASSWORD].into_iter().map(|guess| waits(ask("alice", guess, 1))).collect();
    while answer_next(&verifier) {}
    drop(at_once);
    let Verification::Answered(Some(_)) = ask("alice", PASSWORD, 1) else { panic!("two were wrong") };
    drop(waits(ask("alice", b"c", 1)));
    let wrong = waits(ask("alice", b"d", 1));
    assert!(answer_next(&verifier));
    drop(wrong);
    for guess in [b"e", PASSWORD, b"a"] {
        assert!(is_held_up(ask("alice", guess, 1)), "right or wrong, known or not");
    }
    let Verification::Answered(Some(_)) = ask("alice", PASSWORD, 2) else { panic!("elsewhere nobody has guessed") };
    drop(waits(ask("bob", b"a", 1)));
}
