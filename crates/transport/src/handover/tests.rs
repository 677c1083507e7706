//! Handovers between two parties of this process, over real sockets: what waits in an accept queue is accepted by
//! whoever has the socket afterwards, and whatever a peer does, nobody hangs, panics or keeps what it did not want.

use super::link::{Link, LinkDeadline, Witness};
use super::message::{Malformed, Message, Place, Purpose, STATE_PIECE_BYTES_MAX};
use super::rendezvous::{Peer, Rendezvous, Request, Serving, peers, peers_for};
use super::socket::{Handed, Lent, Listener};
use super::succession::{Inherited, Outcome, Succession, Verdict, take_over};
use super::{Fault, OFFERED_MAX, PATIENCE, SOCKETS_MAX, STATE_BYTES_MAX};
use crate::sockets::{ListenOptions, bind};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, send, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{JoinHandle, scope, spawn};
use std::time::Duration;

/// For exchanges that are expected to run into their deadline.
const IMPATIENCE: Duration = Duration::from_millis(50);
/// More than two packets can carry.
const MANY: u16 = 600;

fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn listen(address: SocketAddr) -> TcpListener {
    bind(address, ListenOptions::default()).expect("a listening socket")
}

fn address_of(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().expect("an address")
}

fn lent(listener: &TcpListener, worker: u16) -> Lent<'_> {
    Lent::tcp(listener, Purpose::Site, Some(worker)).expect("a listening socket")
}

/// A client that has sent something and waits in the accept queue.
fn waiting_client(address: SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(address).expect("a connection");
    client.write_all(b"hello").expect("a greeting");
    client
}

/// The client is accepted, and bytes go both ways.
fn check_serves(listener: &TcpListener, mut client: TcpStream) {
    listener.set_nonblocking(false).expect("blocking");
    let (mut accepted, _) = listener.accept().expect("the client that waited");
    let mut said = [0; 5];
    accepted.read_exact(&mut said).expect("the greeting");
    assert_eq!(&said, b"hello");
    accepted.write_all(b"world").expect("an answer");
    client.read_exact(&mut said).expect("the answer");
    assert_eq!(&said, b"world");
}

fn check_nobody_listens(address: SocketAddr) {
    let refused = TcpStream::connect(address).expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

fn tcp(handed: Handed) -> TcpListener {
    match handed.listener {
        Listener::Tcp(listener) => listener,
        Listener::Unix(listener) => panic!("{listener:?} where TCP was awaited"),
    }
}

type Heard = Result<Request, Fault>;

/// A process that hands what it is asked to the test.
fn serving(patience: Duration) -> (Serving, Peer, Receiver<Heard>) {
    let (sender, requests) = channel();
    let rendezvous = Rendezvous::open().expect("a rendezvous");
    let serving = rendezvous.serve(patience, move |request| drop(sender.send(request))).expect("a thread");
    let peer = found(serving.name());
    (serving, peer, requests)
}

/// As another process finds it. The kernel may skip a line of its list while other sockets come and go, so it is asked
/// again.
fn found(name: &str) -> Peer {
    (0..100)
        .find_map(|_| peers("").expect("the list").into_iter().find(|peer| peer.name() == name))
        .expect("a peer in the kernel's list")
}

/// The next peer that is turned away, in words.
fn turned_away(requests: &Receiver<Heard>) -> String {
    requests.recv().expect("a peer").expect_err("a peer that is turned away").to_string()
}

/// What the next peer wants.
fn request(requests: &Receiver<Heard>) -> Request {
    requests.recv().expect("a peer").expect("a request")
}

#[test]
fn processes_find_each_other_while_they_live() {
    let (one, other) = (Rendezvous::open().expect("a rendezvous"), Rendezvous::open().expect("a rendezvous"));
    let other_name = other.name().to_owned();
    let is_seen = |name: &str| peers(one.name()).expect("the list").iter().any(|peer| peer.name() == name);
    assert_eq!(found(&other_name).name(), other_name);
    assert!(!is_seen(one.name()));
    drop(other);
    assert!(!is_seen(&other_name));
}

#[test]
fn a_connection_that_waits_survives_the_process_that_leaves() {
    for address in [any_port(), SocketAddr::from((Ipv6Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))] {
        let (_serving, peer, requests) = serving(PATIENCE);
        let leaving = listen(address);
        let client = waiting_client(address_of(&leaving));
        let adopting = spawn(move || match request(&requests) {
            Request::Offer(offer) => {
                assert_eq!(offer.pid(), Some(std::process::id()));
                offer.take(|_| true).expect("an adoption")
            }
            request => panic!("{request:?}"),
        });
        assert_eq!(peer.offer(&[lent(&leaving, 3)], PATIENCE).expect("an offer"), [0]);
        drop(leaving);
        let adopted = adopting.join().expect("no panic");
        let [handed] = <[Handed; 1]>::try_from(adopted.sockets).expect("one socket");
        assert_eq!((handed.announced.worker, handed.announced.purpose), (Some(3), Purpose::Site));
        let listener = tcp(handed);
        assert!(rustix::io::fcntl_getfd(&listener).expect("flags").contains(rustix::io::FdFlags::CLOEXEC));
        check_serves(&listener, client);
    }
}

#[test]
fn what_is_not_wanted_is_closed_and_stays_with_its_owner() {
    let (_serving, peer, requests) = serving(PATIENCE);
    let (wanted, unwanted) = (listen(any_port()), listen(any_port()));
    let (wanted_address, unwanted_address) = (address_of(&wanted), address_of(&unwanted));
    let client = waiting_client(unwanted_address);
    let adopting = spawn(move || match request(&requests) {
        Request::Offer(offer) => {
            let here = |place: &Place| matches!(place, Place::Tcp { address, .. } if *address == wanted_address);
            (offer.take(|announced| here(&announced.place)).expect("an adoption"), requests)
        }
        request => panic!("{request:?}"),
    });
    let taken = peer.offer(&[lent(&unwanted, 0), lent(&wanted, 1), lent(&unwanted, 2)], PATIENCE);
    assert_eq!(taken.expect("an offer"), [1]);
    let (adopted, requests) = adopting.join().expect("no panic");
    assert_eq!(adopted.sockets.len(), 1);
    check_serves(&unwanted, client);
    drop(unwanted);
    check_nobody_listens(unwanted_address);

    // A process that drains drops the offer.
    let draining = spawn(move || drop(requests.recv()));
    assert!(matches!(peer.offer(&[lent(&wanted, 1)], PATIENCE), Err(Fault::Closed)));
    draining.join().expect("no panic");
    drop((wanted, adopted));
    check_nobody_listens(wanted_address);
}

#[test]
fn a_starting_process_gets_what_others_have_too_much_of() {
    let (_serving, peer, requests) = serving(PATIENCE);
    let (surplus, elsewhere) = (listen(any_port()), listen(any_port()));
    let address = address_of(&surplus);
    let client = waiting_client(address);
    let giving = spawn(move || match request(&requests) {
        Request::Spare(wanted) => {
            assert_eq!((wanted.pid(), wanted.addresses()), (Some(std::process::id()), &[address][..]));
            let given = wanted.give(&[lent(&elsewhere, 0), lent(&surplus, 1)], PATIENCE);
            // What was not asked for is not taken either.
            assert_eq!(given.expect("a gift"), [1]);
            drop(surplus);
            requests
        }
        request => panic!("{request:?}"),
    });
    let adopted = peer.ask_spare(&[address], PATIENCE).expect("an answer");
    let requests = giving.join().expect("no panic");
    let [handed] = <[Handed; 1]>::try_from(adopted.sockets).expect("one socket");
    check_serves(&tcp(handed), client);

    let nothing = spawn(move || match request(&requests) {
        Request::Spare(wanted) => wanted.give(&[], PATIENCE).expect("an empty answer"),
        request => panic!("{request:?}"),
    });
    assert!(peer.ask_spare(&[address], PATIENCE).expect("an answer").sockets.is_empty());
    assert!(nothing.join().expect("no panic").is_empty());
}

/// A successor that takes over all of `lent` and `state`, and the predecessor that waits for its word.
fn succeed(lent: &[Lent<'_>], state: &[u8]) -> (Inherited, Succession, Verdict) {
    let (serving, _peer, requests) = serving(PATIENCE);
    scope(|scope| {
        let successor = scope.spawn(|| take_over(serving.name(), PATIENCE).expect("an inheritance"));
        let verdict = match request(&requests) {
            Request::Upgrade(upgrade) => upgrade.hand_over(std::process::id(), lent, state, PATIENCE).expect("a handover"),
            request => panic!("{request:?}"),
        };
        let (inherited, succession) = successor.join().expect("no panic");
        (inherited, succession, verdict)
    })
}

#[test]
fn a_successor_inherits_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    let admin_path = folder.path().join("admin.sock");
    let (site, admin) = (listen(any_port()), UnixListener::bind(&admin_path).expect("an admin socket"));
    let client = waiting_client(address_of(&site));
    let state: Vec<u8> = (0..STATE_BYTES_MAX).map(|n| (n / 3) as u8).collect();
    let everything = [lent(&site, 0), Lent::unix(&admin, Purpose::Admin).expect("a path")];
    let (inherited, succession, verdict) = succeed(&everything, &state);
    drop((site, admin));
    assert!(inherited.rejected.is_empty());
    assert!(inherited.state == state, "state of {} bytes", inherited.state.len());
    let [site, admin] = <[Handed; 2]>::try_from(inherited.sockets).expect("two sockets");
    assert_eq!((admin.announced.purpose, admin.announced.place), (Purpose::Admin, Place::Unix { path: admin_path }));
    assert!(matches!(admin.listener, Listener::Unix(_)));
    check_serves(&tcp(site), client);

    assert!(matches!(verdict.outcome(Duration::ZERO), Err(Fault::TimedOut)));
    succession.ready().expect("a word");
    assert_eq!(verdict.outcome(PATIENCE).expect("a word"), Outcome::Ready);
}

#[test]
fn the_predecessor_hears_what_became_of_its_successor() {
    fn check(speak: impl FnOnce(Succession), expected: Outcome) {
        let (inherited, succession, verdict) = succeed(&[], b"");
        assert!(inherited.sockets.is_empty() && inherited.state.is_empty());
        speak(succession);
        assert_eq!(verdict.outcome(PATIENCE).expect("a word"), expected);
    }
    check(|succession| succession.ready().expect("a word"), Outcome::Ready);
    check(|succession| succession.failed("no key").expect("a word"), Outcome::Failed { reason: "no key".to_owned() });
    check(drop, Outcome::Gone);
}

#[test]
fn only_the_spawned_process_succeeds() {
    let (serving, _peer, requests) = serving(PATIENCE);
    let name = serving.name().to_owned();
    let asking = spawn(move || [(); 2].map(|()| take_over(&name, PATIENCE).expect_err("no inheritance").to_string()));
    let next = || match request(&requests) {
        Request::Upgrade(upgrade) => upgrade,
        request => panic!("{request:?}"),
    };
    let site = listen(any_port());
    let refused = next().hand_over(std::process::id() + 1, &[lent(&site, 0)], b"secret", PATIENCE);
    assert!(matches!(refused, Err(Fault::NotSpawned { pid }) if pid == Some(std::process::id())));
    next().refuse("a reload is under way").expect("a word");
    assert_eq!(
        asking.join().expect("no panic"),
        [
            "the other process closed the connection before the handover was complete",
            "the other process refused: a reload is under way"
        ]
    );
}

/// Both parties and the clients are this process, and the usual limit is 1024. Says what it is now.
fn raise_limit_of_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).expect("the limit of open files");
    limit.maximum.map_or(usize::MAX, |maximum| maximum as usize)
}

#[test]
fn many_sockets_arrive_in_order() {
    raise_limit_of_files();
    let first = listen(any_port());
    let address = address_of(&first);
    let mut listeners = vec![first];
    listeners.extend((1..MANY).map(|_| listen(address)));
    let clients: Vec<TcpStream> = (0..MANY).map(|_| waiting_client(address)).collect();
    let everything: Vec<Lent<'_>> = listeners.iter().zip(0..).map(|(listener, worker)| lent(listener, worker)).collect();
    let (inherited, _succession, _verdict) = succeed(&everything, b"");
    drop(everything);
    drop(listeners);
    let workers: Vec<Option<u16>> = inherited.sockets.iter().map(|handed| handed.announced.worker).collect();
    assert_eq!(workers, (0..MANY).map(Some).collect::<Vec<_>>());
    let mut accepted = 0;
    for listener in inherited.sockets.into_iter().map(tcp) {
        while listener.accept().is_ok() {
            accepted += 1;
        }
    }
    assert_eq!(accepted, clients.len());
}

#[test]
fn a_successor_inherits_more_than_an_offer_carries() {
    // As many descriptors as arrive here, and those of the other tests.
    let limit = raise_limit_of_files();
    let count = (limit / 2).min(2 * OFFERED_MAX);
    let site = listen(any_port());
    let everything: Vec<Lent<'_>> = (0..count).map(|number| lent(&site, number as u16)).collect();
    let (inherited, _succession, _verdict) = succeed(&everything, b"state");
    assert!(inherited.rejected.is_empty() && inherited.state == b"state");
    let workers = inherited.sockets.iter().map(|handed| handed.announced.worker);
    assert!(workers.eq((0..count).map(|number| Some(number as u16))));
}

#[test]
fn more_than_an_exchange_carries_is_not_sent() {
    let (serving, peer, requests) = serving(PATIENCE);
    let site = listen(any_port());
    let too_many: Vec<Lent<'_>> = (0..=SOCKETS_MAX).map(|_| lent(&site, 0)).collect();
    let offered = peer.offer(&too_many[..=OFFERED_MAX], PATIENCE);
    assert!(matches!(offered, Err(Fault::TooMuch { what: "sockets", max: OFFERED_MAX })));
    assert_eq!(turned_away(&requests), "the other process closed the connection before the handover was complete");
    assert!(matches!(peer.ask_spare(&vec![any_port(); 2000], PATIENCE), Err(Fault::TooMuch { what: "addresses", .. })));
    assert_eq!(turned_away(&requests), "the other process closed the connection before the handover was complete");

    let name = serving.name().to_owned();
    let successor = spawn(move || take_over(&name, PATIENCE).expect_err("no inheritance"));
    let Request::Upgrade(upgrade) = request(&requests) else { panic!("no upgrade") };
    let handed_over = upgrade.hand_over(std::process::id(), &too_many, b"", PATIENCE);
    assert!(matches!(handed_over, Err(Fault::TooMuch { what: "sockets", max: SOCKETS_MAX })));
    assert!(matches!(successor.join().expect("no panic"), Fault::Closed));
}

/// What is announced as the socket of `announced` and is `descriptor` instead.
fn check_rejected(announced: &TcpListener, descriptor: BorrowedFd<'_>, expected: &str) {
    let mut lie = lent(announced, 0);
    lie.socket = descriptor;
    let (inherited, _succession, _verdict) = succeed(&[lie, lent(announced, 1)], b"");
    assert_eq!(inherited.sockets.len(), 1, "{expected}");
    let seen: Vec<String> = inherited.rejected.iter().map(ToString::to_string).collect();
    let place = address_of(announced);
    assert_eq!(seen, [format!("what was handed over as the socket of {place} was closed: {expected}")]);
}

#[test]
fn what_is_no_such_socket_is_closed_and_reported() {
    let (site, other) = (listen(any_port()), listen(any_port()));
    let stream = TcpStream::connect(address_of(&other)).expect("a connection");
    let file = tempfile::tempfile().expect("a file");
    let datagrams = UdpSocket::bind(any_port()).expect("a datagram socket");
    check_rejected(&site, file.as_fd(), "Socket operation on non-socket (os error 88)");
    check_rejected(&site, datagrams.as_fd(), "it is no stream socket");
    check_rejected(&site, stream.as_fd(), "it does not listen");
    check_rejected(&site, other.as_fd(), &format!("it listens on {}", address_of(&other)));
    let folder = tempfile::tempdir().expect("a folder");
    let unix = UnixListener::bind(folder.path().join("a")).expect("a unix socket");
    let mut lie = lent(&site, 0);
    lie.socket = unix.as_fd();
    assert_eq!(succeed(&[lie], b"").0.rejected.len(), 1);
}

fn connected(name: &str) -> Link {
    Link::connect(name, LinkDeadline::after(PATIENCE), &Witness::new().expect("a witness")).expect("a connection")
}

/// A connection of somebody who does not speak as we do.
fn raw(name: &str) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket");
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name")).expect("a connection");
    socket
}

#[test]
fn garbage_is_turned_away_and_the_next_peer_is_heard() {
    const NO_MESSAGE: &str = "the other process sent what is no message:";
    let (serving, peer, requests) = serving(PATIENCE);
    let check = |packet: &[u8], expected: &str| {
        send(raw(serving.name()), packet, SendFlags::NOSIGNAL).expect("a packet");
        assert_eq!(turned_away(&requests), expected);
    };
    check(
        b"GET / HTTP/1.1\r\n\r\n",
        &format!(
            "{NO_MESSAGE} it is of version 71, and this process speaks version 1\n  help: these two versions cannot hand over; stop the old process and start the new one"
        ),
    );
    check(&[1], &format!("{NO_MESSAGE} it ends too early"));
    check(&vec![1; 70_000], &format!("{NO_MESSAGE} too many bytes"));
    check(&Message::Ready.encode(), "the other process sent a message that has no place here");
    check(&Message::Taken { indices: vec![0] }.encode(), "the other process sent a message that has no place here");
    drop(raw(serving.name()));
    assert_eq!(turned_away(&requests), "the other process closed the connection before the handover was complete");

    // Fewer descriptors than sockets, and more.
    let site = listen(any_port());
    let announced = lent(&site, 0).announced().clone();
    let offer = Message::Offer { sockets: vec![announced], more: false };
    for attached in [&[][..], &[site.as_fd(), site.as_fd()]] {
        let deadline = LinkDeadline::after(PATIENCE);
        let link = connected(serving.name());
        link.send(&offer, attached, deadline).expect("a packet");
        assert_eq!(turned_away(&requests), format!("{NO_MESSAGE} 1 sockets and {} descriptors", attached.len()));
    }

    let taking = spawn(move || match request(&requests) {
        Request::Offer(offer) => offer.take(|_| true).expect("an adoption").sockets.len(),
        request => panic!("{request:?}"),
    });
    assert_eq!(peer.offer(&[lent(&site, 0)], PATIENCE).expect("an offer"), [0]);
    assert_eq!(taking.join().expect("no panic"), 1);
}

/// Somebody who accepts one connection on `name`, hears what is said and then says `answers`.
fn answering(name: &str, answers: Vec<Message>) -> JoinHandle<()> {
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket");
    rustix::net::bind(&listener, &SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name")).expect("a free name");
    rustix::net::listen(&listener, 1).expect("a listening socket");
    spawn(move || {
        let deadline = LinkDeadline::after(PATIENCE);
        let witness = Witness::new().expect("a witness");
        let link = witness.trusted(rustix::net::accept(&listener).expect("a connection")).expect("our own user");
        let _heard = link.receive(deadline).expect("a question");
        for answer in answers {
            link.send(&answer, &[], deadline).expect("a packet");
        }
    })
}

#[test]
fn answers_that_make_no_sense_inherit_nothing() {
    fn check(case: &str, answers: Vec<Message>, expected: impl FnOnce(&Fault) -> bool) {
        let name = format!("tidegate-test-{}-{case}", std::process::id());
        let answering = answering(&name, answers);
        let fault = take_over(&name, PATIENCE).expect_err("no inheritance");
        assert!(expected(&fault), "{case}: {fault:?}");
        answering.join().expect("no panic");
    }
    let no_sockets = || Message::Sockets { sockets: Vec::new(), more: false };
    let piece = Message::State { piece: vec![0; STATE_PIECE_BYTES_MAX], more: true };
    check("nothing", vec![], |fault| matches!(fault, Fault::Closed));
    check("other", vec![Message::Ready], |fault| matches!(fault, Fault::Unexpected));
    check("twice", vec![no_sockets(), no_sockets()], |fault| matches!(fault, Fault::Unexpected));
    check("torn", vec![no_sockets(), piece.clone()], |fault| matches!(fault, Fault::Closed));
    let mut endless = vec![no_sockets()];
    endless.extend(std::iter::repeat_n(piece, STATE_BYTES_MAX / STATE_PIECE_BYTES_MAX + 1));
    check("endless", endless, |fault| matches!(fault, Fault::Malformed(Malformed::TooMany("bytes of state"))));
}

#[test]
fn a_peer_that_hangs_is_given_up_on() {
    // It has a name and never answers.
    let silent = Rendezvous::open().expect("a rendezvous");
    let site = listen(any_port());
    let peer = found(silent.name());
    assert!(matches!(peer.offer(&[lent(&site, 0)], IMPATIENCE), Err(Fault::TimedOut)));
    assert!(matches!(peer.ask_spare(&[any_port()], IMPATIENCE), Err(Fault::TimedOut)));
    assert!(matches!(take_over(silent.name(), IMPATIENCE), Err(Fault::TimedOut)));

    // Its queue of connections is full: whoever is to be found there is waited for, and what may be a stranger is not.
    let witness = Witness::new().expect("a witness");
    let crowd: Vec<_> = std::iter::from_fn(|| Link::connect_at_once(silent.name(), &witness).ok()).take(1000).collect();
    assert!(crowd.len() < 1000);
    assert!(matches!(peer.offer(&[lent(&site, 0)], PATIENCE), Err(Fault::Crowded)));
    assert!(matches!(peer.ask_spare(&[any_port()], PATIENCE), Err(Fault::Crowded)));
    assert!(matches!(take_over(silent.name(), IMPATIENCE), Err(Fault::TimedOut)));

    // It connects and never asks.
    let (serving, _peer, requests) = serving(IMPATIENCE);
    let _mute = raw(serving.name());
    assert_eq!(turned_away(&requests), "the other process did not answer in time");
}

/// A process of another user than the one that all are of here.
fn stranger() -> Witness {
    Witness::of(rustix::process::geteuid().as_raw().wrapping_add(1)).expect("a witness")
}

#[test]
fn strangers_are_told_nothing_and_never_heard() {
    let uid = rustix::process::geteuid().as_raw();
    let site = listen(any_port());

    // One that has a name like ours never answers, and is not waited for.
    let silent = Rendezvous::open().expect("a rendezvous");
    let is_silent = |peer: &Peer| peer.name() == silent.name();
    let look = || peers_for(stranger(), "").expect("the list").into_iter().find(is_silent);
    let peer = (0..100).find_map(|_| look()).expect("a peer in the kernel's list");
    assert!(matches!(peer.offer(&[lent(&site, 0)], PATIENCE), Err(Fault::Stranger { uid: seen }) if seen == uid));
    assert!(matches!(peer.ask_spare(&[any_port()], PATIENCE), Err(Fault::Stranger { uid: seen }) if seen == uid));

    // One that connects is turned away before it has said anything.
    let (sender, requests) = channel();
    let rendezvous = Rendezvous::open().expect("a rendezvous");
    let serving = rendezvous.serve_those(stranger(), PATIENCE, move |heard| drop(sender.send(heard))).expect("a thread");
    let _mute = raw(serving.name());
    let talking = raw(serving.name());
    send(&talking, &Message::Upgrade.encode(), SendFlags::NOSIGNAL).ok();
    for _ in 0..2 {
        assert_eq!(turned_away(&requests), format!("the other process runs as user {uid}, and sockets stay with one user"));
    }
}

#[test]
fn a_process_that_stops_serving_is_not_offered_sockets() {
    let (serving, peer, requests) = serving(PATIENCE);
    drop(serving);
    let site = listen(any_port());
    assert!(
        matches!(peer.offer(&[lent(&site, 0)], PATIENCE), Err(Fault::Io(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused)
    );
    // The thread has ended, and what it would have called with it.
    assert!(requests.recv().is_err());
}
