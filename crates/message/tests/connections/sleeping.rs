//! What a driver has asked for when it goes to sleep: whatever the peer does next must wake it.

use crate::memory::{Memory, Way};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;
use tidegate_message::h2::{FrameIo, FrameOwner, H2Shared, Opened, StreamHandle};
use tidegate_transport::{Buf, Stream, rt};
use tidegate_wire::h2::PREFACE;
use tidegate_wire::h2::connection::Role;
use tidegate_wire::h2::fault::ConnectionEnd;
use tidegate_wire::h2::frame::{END_HEADERS, END_STREAM, FrameKind, write_frame};
use tidegate_wire::h2::settings::OurSettings;
use tidegate_wire::{HeadLimits, RequestHead, ResponseHead};

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Answers each request with a head, and leaves the rest to the test.
struct Answering {
    shared: Rc<H2Shared>,
    streams: Vec<StreamHandle>,
}

impl FrameOwner for Answering {
    fn poll_requests(&mut self, _: &mut Context<'_>) {}

    fn poll_deadlines(&mut self, _: &mut Context<'_>) -> Poll<Option<ConnectionEnd>> {
        Poll::Pending
    }

    fn begin(&mut self, opened: Opened, _: Instant) -> Result<(), ConnectionEnd> {
        let (stream, read) = self.shared.read_request(opened, &HeadLimits::default(), &mut RequestHead::default())?;
        read.expect("a good request");
        stream.send_response(&ResponseHead { status: 200, ..ResponseHead::default() }, false).expect("an open stream");
        self.streams.push(stream);
        Ok(())
    }
}

/// A server's connection whose peer is the test.
struct Server {
    io: FrameIo<Memory>,
    owner: Answering,
    inbound: Rc<RefCell<Way>>,
    outbound: Rc<RefCell<Way>>,
    woken: Arc<Woken>,
}

impl Server {
    /// With a socket that takes so many bytes, and a client that has opened so many streams.
    fn new(socket_bytes: usize, streams: u32) -> Server {
        let settings = OurSettings {
            streams_max: 100,
            initial_window_bytes: 65_535,
            connection_window_bytes: 1 << 20,
            header_list_bytes_max: 65_536,
            takes_protocol: false,
        };
        let shared = H2Shared::new(Role::Server, settings, HeadLimits::default(), 65_535, Instant::now());
        let (inbound, outbound) = (Way::new(1 << 20, usize::MAX), Way::new(socket_bytes, usize::MAX));
        let stream = Stream::plain(Memory { inbound: inbound.clone(), outbound: outbound.clone() });
        let io = FrameIo::new(shared.clone(), Rc::new(stream));
        let owner = Answering { shared, streams: Vec::new() };
        let mut server = Server { io, owner, inbound, outbound, woken: Arc::default() };
        let mut bytes = PREFACE.to_vec();
        write_frame(&mut bytes, FrameKind::Settings, 0, 0, &[]);
        write_frame(&mut bytes, FrameKind::Settings, 1, 0, &[]);
        for stream in 0..streams {
            write_frame(&mut bytes, FrameKind::Headers, END_HEADERS | END_STREAM, 2 * stream + 1, b"\x82\x84\x86\x01\x01a");
        }
        server.put(&bytes);
        server
    }

    /// Has the client send, and polls the driver if that woke it. Whether it did.
    fn put(&mut self, bytes: &[u8]) -> bool {
        self.inbound.borrow_mut().put(bytes);
        let is_first = self.owner.streams.is_empty();
        let was_woken = self.woken.0.load(Ordering::Relaxed);
        if is_first || was_woken {
            self.poll();
        }
        was_woken
    }

    fn poll(&mut self) {
        loop {
            self.woken.0.store(false, Ordering::Relaxed);
            let waker = Waker::from(self.woken.clone());
            assert!(self.io.poll(&mut Context::from_waker(&waker), &mut self.owner).is_pending());
            if !self.woken.0.load(Ordering::Relaxed) {
                break;
            }
        }
    }

    /// Has each stream send so much of a body, beyond what windows allow.
    fn send(&mut self, bytes: usize) {
        for stream in &self.owner.streams {
            stream.send(Buf::copy_of(&vec![b'x'; bytes]), false).expect("an open stream");
        }
        self.poll();
    }
}

fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    write_frame(&mut frame, FrameKind::WindowUpdate, 0, stream, &increment.to_be_bytes());
    frame
}

/// Windows that let through just what fills one output: the socket took all of it, and nobody had asked for the frame
/// that opens them again.
#[test]
fn whoever_has_sent_all_that_windows_let_through_hears_of_more() {
    for increment in (65_400..65_600).chain([1, 1000, 16_384, 32_768, 131_000]) {
        // The first closes the window of the connection, and the others have theirs.
        let mut server = Server::new(1 << 20, 3);
        server.send(65_535);
        server.outbound.borrow_mut().take();
        assert!(server.put(&window_update(0, increment)), "{increment}");
        assert!(server.inbound.borrow().has_reader(), "unheard behind a window of {increment} bytes");
        let sent = server.outbound.borrow_mut().take().len();
        assert!(sent > increment as usize, "{increment}: {sent} were sent");
        server.put(&window_update(0, 1 << 20));
        let more = server.outbound.borrow_mut().take().len();
        assert!(sent + more > 2 * 65_535, "{increment}: {sent} and {more} were sent");
    }
}

/// A client that reads nothing until we have read what it sends, as it has filled its own output: two that do so would
/// wait for each other for ever (RFC 9113 section 5.2.2).
#[test]
fn whoever_cannot_send_still_reads() {
    for socket_bytes in [0, 100, 70_000] {
        let mut server = Server::new(socket_bytes, 4);
        server.send(60_000);
        server.put(&window_update(0, 1 << 20));
        assert!(server.outbound.borrow().has_writer());
        for _ in 0..100 {
            assert!(server.put(&window_update(1, 1)), "a connection whose socket of {socket_bytes} bytes is full is deaf");
        }
    }
}

/// Frames that have to be answered, from a client that takes no answers and pays for each by a byte of a body: what
/// waits for it is bounded.
#[test]
fn whoever_takes_no_answers_is_read_up_to_a_bound() {
    let mut server = Server::new(100, 0);
    let mut bytes = Vec::new();
    write_frame(&mut bytes, FrameKind::Headers, END_HEADERS, 1, b"\x83\x84\x86\x01\x01a");
    for _ in 0..60_000 {
        write_frame(&mut bytes, FrameKind::Data, 0, 1, b"x");
        write_frame(&mut bytes, FrameKind::Ping, 0, 0, &[7; 8]);
    }
    let mut heard = 0;
    for piece in bytes.chunks(9000) {
        heard += usize::from(server.put(piece));
    }
    let held = server.io.shared.output_bytes();
    assert!((50_000..300_000).contains(&held), "{held} bytes of answers wait");
    assert!(heard < bytes.len() / 9000, "it was read to the end");
    while !server.outbound.borrow_mut().take().is_empty() {
        server.poll();
    }
    assert!(server.inbound.borrow().has_reader() && server.owner.shared.output_bytes() == 0, "all is sent, and more is heard");
}

/// What is written while the driver sleeps wakes it, from every place that writes.
#[test]
fn whoever_writes_wakes_the_driver() {
    rt::run(tidegate_transport::Driver::Epoll, async {
        let check = |what: &str, write: &dyn Fn(&Server)| {
            let mut server = Server::new(1 << 20, 1);
            server.poll();
            assert!(!server.woken.0.load(Ordering::Relaxed));
            write(&server);
            assert!(server.woken.0.load(Ordering::Relaxed), "{what}");
        };
        check("a piece", &|server| server.owner.streams[0].send(Buf::copy_of(b"x"), false).expect("sent"));
        check("the end", &|server| server.owner.streams[0].finish(None).expect("sent"));
        check("a reset", &|server| server.owner.streams[0].reset(tidegate_wire::h2::frame::ErrorCode::Cancel));
        check("a ping", &|server| server.io.shared.ping());
        check("shutting down", &|server| server.io.shared.shut_down());
        check("a fault", &|server| server.owner.streams[0].reset_for_fault(Instant::now()).expect("the first"));
    })
    .expect("a runtime");
}
