//! Workers on rings: on the kernel's where it can be had, and on queues that complete in any order, late, in part and
//! with errors. Peers are ordinary sockets of the standard library, in threads of their own.

use super::executor;
use super::fake::FakeQueue;
use super::kernel::KernelQueue;
use super::listener::RingListener;
use super::probe;
use super::queue::Queue;
use super::socket::RingSock;
use crate::buffer::CAPACITY;
use crate::sock::FilePart;
use crate::{Buf, ReadLimit, Sock, Stream, rt};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

/// Seeds of the fake queue for each test; `SEEDS` asks for more.
fn seeds() -> u64 {
    std::env::var("SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(24)
}

/// Runs on a fake queue for each seed, and on the kernel's ring.
fn on_every_queue<F: Future<Output = ()>>(test: impl Fn() -> F) {
    for seed in 0..seeds() {
        run(Box::new(FakeQueue::new(seed)), test());
    }
    // The tests of the program fail where a ring cannot be had and nothing says that the kernel forbids it.
    // Miri has no system call for rings.
    if !cfg!(miri) && probe(1).is_ok() {
        run(Box::new(KernelQueue::new().expect("a ring")), test());
    }
}

fn run(queue: Box<dyn Queue>, test: impl Future<Output = ()>) {
    // Miri is some hundred times slower.
    let limit = Duration::from_secs(if cfg!(miri) { 1800 } else { 30 });
    let outcome = executor::run(queue, rt::timeout(limit, test)).expect("the queue works");
    outcome.expect("the test ends in time");
}

fn listener() -> (RingListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it may");
    let address = listener.local_addr().expect("it has one");
    (RingListener::adopt(listener), address)
}

async fn accept(listener: &RingListener) -> Stream<RingSock> {
    Stream::plain(poll_fn(|cx| listener.poll_accept(cx)).await.expect("a connection").0)
}

/// A connection whose other end is an ordinary socket.
async fn pair() -> (Stream<RingSock>, TcpStream) {
    let (listener, address) = listener();
    let peer = TcpStream::connect(address).expect("it listens");
    (accept(&listener).await, peer)
}

async fn finished<T>(thread: &thread::JoinHandle<T>) {
    while !thread.is_finished() {
        rt::sleep(Duration::from_millis(1)).await;
    }
}

/// Of a body: less where Miri looks at each byte.
fn long(bytes: usize) -> usize {
    if cfg!(miri) { bytes / 50 } else { bytes }
}

fn pattern(length: usize, from: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8).wrapping_add(from)).collect()
}

async fn echo(stream: Stream<RingSock>) {
    while let Ok(data) = stream.read().await {
        if data.is_empty() || stream.write(data).await.is_err() {
            break;
        }
    }
    stream.close().await;
}

#[test]
fn bytes_come_back_as_they_were_whatever_the_order() {
    on_every_queue(|| async {
        let (listener, address) = listener();
        let clients: Vec<_> = (0..6_u8)
            .map(|number| {
                thread::spawn(move || {
                    let mut peer = TcpStream::connect(address).expect("it listens");
                    let sent = pattern(long(150_000), number);
                    let mut writing = peer.try_clone().expect("a copy");
                    let to_write = sent.clone();
                    let writer = thread::spawn(move || {
                        to_write.chunks(7001).for_each(|chunk| writing.write_all(chunk).expect("it reads"));
                        writing.shutdown(Shutdown::Write).expect("it is open");
                    });
                    let mut received = Vec::new();
                    peer.read_to_end(&mut received).expect("a clean end");
                    writer.join().expect("no panic");
                    assert!(received == sent, "client {number} got {} bytes", received.len());
                })
            })
            .collect();
        for _ in &clients {
            rt::spawn(echo(accept(&listener).await));
        }
        for client in clients {
            finished(&client).await;
            client.join().expect("its bytes");
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no TCP_KEEPIDLE")]
fn connects_and_is_refused() {
    on_every_queue(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let server = thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("a connection");
            let mut bytes = [0; 5];
            peer.read_exact(&mut bytes).and_then(|()| peer.write_all(&bytes)).expect("both ways");
        });
        let stream = Stream::plain(RingSock::connect(address).await.expect("it listens"));
        assert_eq!(stream.sock.local_ip(), Some(address.ip()));
        stream.write(Buf::copy_of(b"hello")).await.expect("it reads");
        let mut answer = Vec::new();
        while answer.len() < 5 {
            answer.extend_from_slice(&stream.read().await.expect("an answer"));
        }
        assert_eq!(answer, b"hello");
        finished(&server).await;
        server.join().expect("no panic");
        assert!(stream.read().await.expect("a clean end").is_empty());
        assert!(stream.sock.stale() && stream.sock.stale_now());
        let refused = RingSock::connect(address).await.map(drop).map_err(|error| error.kind());
        assert_eq!(refused, Err(io::ErrorKind::ConnectionRefused));
    });
}

#[test]
fn what_was_handed_over_arrives_although_the_socket_is_dropped() {
    on_every_queue(|| async {
        let (stream, mut peer) = pair().await;
        let sent = pattern(long(60_000), 3);
        stream.write(Buf::copy_of(&sent)).await.expect("the driver takes it");
        drop(stream);
        let reader = thread::spawn(move || {
            let mut received = Vec::new();
            peer.read_to_end(&mut received).map(|_| received)
        });
        finished(&reader).await;
        assert!(reader.join().expect("no panic").expect("a clean end") == sent);
    });
}

#[test]
fn the_end_of_output_comes_behind_what_was_sent() {
    on_every_queue(|| async {
        let (stream, mut peer) = pair().await;
        let sent = pattern(long(60_000), 9);
        stream.write(Buf::copy_of(&sent)).await.expect("the driver takes it");
        stream.sock.shutdown();
        let reader = thread::spawn(move || {
            let mut received = Vec::new();
            peer.read_to_end(&mut received).expect("a clean end");
            peer.write_all(b"still here").expect("only one side has ended");
            received
        });
        let answer = stream.read().await.expect("the other side is open");
        assert!(b"still here".starts_with(&answer) && !answer.is_empty());
        assert!(reader.join().expect("no panic") == sent);
    });
}

#[test]
fn a_peer_that_does_not_read_holds_the_writer_until_its_time_is_up() {
    on_every_queue(|| async {
        let (stream, peer) = pair().await;
        stream.sock.set_write_idle(Duration::from_millis(100));
        let mut sent = 0;
        let fault = loop {
            match stream.write(Buf::copy_of(&vec![b'x'; 64 << 10])).await {
                Ok(()) => sent += 1,
                Err(error) => break error.kind(),
            }
            assert!(sent < 2000, "the kernel's buffers have an end");
        };
        assert_eq!(fault, io::ErrorKind::TimedOut);
        drop((stream, peer));
    });
}

#[test]
fn a_reader_that_gets_nothing_is_told_when_its_time_is_up() {
    on_every_queue(|| async {
        let (stream, peer) = pair().await;
        stream.sock.set_read_limit(ReadLimit::Idle(Duration::from_millis(100)));
        assert_eq!(stream.read().await.map(drop).map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        drop(peer);
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri takes megabytes a minute, and sockets take six of them")]
fn little_is_taken_ahead_of_a_reader_that_does_not_read() {
    on_every_queue(|| async {
        let (stream, mut peer) = pair().await;
        let mut nothing = pattern(1, 0);
        peer.write_all(&nothing).expect("it is open");
        assert_eq!(stream.read().await.expect("a byte").len(), 1);
        peer.set_nonblocking(true).expect("a socket");
        nothing.resize(64 << 10, 0);
        // More than the kernel and the bound of pieces together hold is not taken.
        let mut taken = 0;
        let mut quiet = Instant::now();
        while quiet.elapsed() < Duration::from_millis(50) {
            match peer.write(&nothing) {
                Ok(count) => (taken, quiet) = (taken + count, Instant::now()),
                Err(_) => rt::sleep(Duration::from_millis(1)).await,
            }
            assert!(taken < 64 << 20, "the peer is held back");
        }
        assert!(stream.sock.stale(), "input waits");
        assert!(stream.sock.ahead_bytes() <= CAPACITY, "a slow client must not have a large answer kept for it");
        peer.set_nonblocking(false).and_then(|()| peer.shutdown(Shutdown::Write)).expect("a socket");
        let mut received = 0;
        loop {
            let data = stream.read().await.expect("all of it");
            if data.is_empty() {
                break;
            }
            received += data.len();
        }
        assert_eq!(received, taken);
    });
}

#[test]
fn what_waits_for_a_reader_keeps_no_more_than_it_needs() {
    on_every_queue(|| async {
        let (stream, mut peer) = pair().await;
        peer.write_all(b"first").expect("it is open");
        let mut first = Vec::new();
        while first.len() < 5 {
            first.extend_from_slice(&stream.read().await.expect("it came"));
        }
        // The kernel waits for more already, and gives it a buffer of a full read's size.
        peer.write_all(b"x").expect("it is open");
        while stream.sock.ahead_held_bytes() != 1 {
            rt::sleep(Duration::from_millis(5)).await;
        }
        let mut later = stream.read().await.expect("it is there");
        later.prepend(b"a head in front of ");
        assert_eq!(&*later, b"a head in front of x");
        peer.write_all(b"more").expect("it is open");
        let mut more = Vec::new();
        while more.len() < 4 {
            more.extend_from_slice(&stream.read().await.expect("it came"));
        }
        assert_eq!(more, b"more");
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri reads a file of megabytes for ten minutes")]
fn files_go_out_behind_their_heads() {
    on_every_queue(|| async {
        let (stream, mut peer) = pair().await;
        let content = pattern(3_000_000, 1);
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&content).expect("room");
        let reader = thread::spawn(move || {
            let mut received = Vec::new();
            peer.read_to_end(&mut received).map(|_| received)
        });
        let mut head = Some(Buf::copy_of(b"head"));
        let mut offset = 0;
        while offset < content.len() {
            let part = FilePart { file: &file, offset: offset as u64, length: content.len() - offset };
            offset += poll_fn(|cx| stream.poll_send_file(cx, &mut head, part)).await.expect("it reads");
        }
        stream.close().await;
        finished(&reader).await;
        let received = reader.join().expect("no panic").expect("a clean end");
        assert!(received.starts_with(b"head") && received[4..] == content);
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri is not done with it in seven minutes")]
fn clients_that_vanish_in_any_state_leave_nothing_behind() {
    on_every_queue(|| async {
        let (listener, address) = listener();
        for state in 0..30_u64 {
            let mut peer = TcpStream::connect(address).expect("it listens");
            let stream = accept(&listener).await;
            if state % 3 > 0 {
                peer.write_all(&pattern(1000 * state as usize, 0)).expect("it is open");
            }
            let ended = Rc::new(Cell::new(false));
            let is_over = ended.clone();
            let serving = rt::spawn_abortable(async move {
                let _end = SetOnDrop(is_over);
                echo(stream).await;
            });
            rt::sleep(Duration::from_micros(state * 50)).await;
            match state % 5 {
                0 => socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).expect("a socket"),
                1 => peer.shutdown(Shutdown::Both).expect("a socket"),
                2 => serving.abort(),
                _ => {}
            }
            drop(peer);
            while !ended.get() {
                rt::sleep(Duration::from_millis(1)).await;
            }
        }
    });
}

struct SetOnDrop(Rc<Cell<bool>>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri is not done with it in seven minutes")]
fn what_was_accepted_before_a_stop_is_still_given() {
    on_every_queue(|| async {
        let (listener, address) = listener();
        let peers: Vec<_> = (0..100).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        let mut taken = vec![accept(&listener).await.sock];
        listener.stop().await;
        while let Some((sock, _)) = listener.accept_now().expect("connections") {
            taken.push(sock);
        }
        assert_eq!(taken.len(), peers.len());
    });
}

#[test]
fn a_client_that_resets_before_it_is_accepted_holds_nobody_up() {
    on_every_queue(|| async {
        let (listener, address) = listener();
        let mut first = Box::pin(accept(&listener));
        // Accepting is under way, so that the driver takes them before anybody asks.
        assert!(rt::timeout(Duration::from_millis(1), first.as_mut()).await.is_none());
        for _ in 0..20 {
            let peer = TcpStream::connect(address).expect("it listens");
            socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).expect("a socket");
        }
        let mut peer = TcpStream::connect(address).expect("it listens");
        peer.write_all(b"here").expect("it is open");
        // A reset that comes after the accept is the reader's to see.
        let mut stream = first.await;
        while !matches!(stream.read().await, Ok(data) if !data.is_empty()) {
            stream = accept(&listener).await;
        }
    });
}

#[test]
fn other_threads_wake_tasks_and_work_beside() {
    on_every_queue(|| async {
        let (sender, mut receiver) = rt::mailbox(8);
        let sending = thread::spawn(move || (0..500).for_each(|number| while sender.try_send(number).is_err() {}));
        for number in 0..500 {
            assert_eq!(receiver.recv().await, Some(number));
        }
        sending.join().expect("no panic");
        assert_eq!(receiver.recv().await, None);
        let here = thread::current().id();
        assert_ne!(rt::beside(|| thread::current().id()).await.expect("a thread"), here);
        assert!(rt::look_up("127.0.0.1", 80).await.is_ok());
    });
}

#[test]
#[cfg_attr(miri, ignore = "the time that Miri takes is longer than what lies between the timers")]
fn timers_fire_in_their_order() {
    on_every_queue(|| async {
        let order = Rc::new(RefCell::new(Vec::new()));
        // From one moment, so that a busy machine changes nothing about their order.
        let base = Instant::now();
        for pause in [30_u64, 10, 20, 10] {
            let order = order.clone();
            rt::spawn(async move {
                rt::sleep(Duration::from_millis(pause).saturating_sub(base.elapsed())).await;
                order.borrow_mut().push(pause);
            });
        }
        let begun = Instant::now();
        assert_eq!(rt::timeout(Duration::from_millis(5), std::future::pending::<()>()).await, None);
        rt::sleep(Duration::from_millis(60)).await;
        assert!(begun.elapsed() >= Duration::from_millis(65));
        assert_eq!(*order.borrow(), [10, 10, 20, 30]);
    });
}

#[test]
fn a_task_that_panics_or_is_cut_ends_alone() {
    on_every_queue(|| async {
        let dropped = Rc::new(Cell::new(false));
        let guard = SetOnDrop(dropped.clone());
        rt::spawn(async {
            rt::yield_now().await;
            std::panic::resume_unwind(Box::new("as if a task had panicked"));
        });
        let task = rt::spawn_abortable(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        rt::yield_now().await;
        rt::yield_now().await;
        assert!(!dropped.get());
        task.abort();
        rt::sleep(Duration::from_millis(1)).await;
        assert!(dropped.get());
    });
}
