//! A client and a server with their drivers, a socket between them that takes and gives any number of bytes, and
//! requests of every kind at once, in an order drawn from a seed. Whoever sleeps must have asked for what will wake it,
//! nobody may wait for ever, and every body comes whole or its stream ends with a fault that both sides see.
//!
//! `SEEDS=20000 cargo test -p tidegate-message --test connections` runs more of them, `SEED=7` one alone.

use crate::memory::{Memory, Way};
use crate::tasks::{Random, Spawner, Tasks};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::LazyLock;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tidegate_message::h2::{FrameIo, FrameOwner, H2Shared, Opened, Request, StreamFault, StreamHandle};
use tidegate_transport::buffer::CAPACITY;
use tidegate_transport::{Buf, Stream, rt};
use tidegate_wire::h2::connection::Role;
use tidegate_wire::h2::fault::ConnectionEnd;
use tidegate_wire::h2::frame::ErrorCode;
use tidegate_wire::h2::settings::OurSettings;
use tidegate_wire::http1::parse_request;
use tidegate_wire::{Fields, HeadLimits, HeaderId, RequestHead, ResponseHead};

const SEEDS: u64 = 60;
/// Longer than any run: here nobody is late, only asleep.
const NEVER: Duration = Duration::from_secs(3600);

/// What one request and its answer are to be.
#[derive(Debug, Clone, Copy)]
struct Plan {
    number: usize,
    conduct: Conduct,
    request_bytes: usize,
    response_bytes: usize,
    piece_bytes: usize,
    has_trailers: bool,
    interim: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conduct {
    /// The server answers when it has read all.
    InTurn,
    /// The server answers while it reads.
    AtOnce,
    /// The server sends back what it reads.
    Echo,
    /// The server answers and reads nothing.
    Unread,
    /// The server ends the stream in the middle.
    ServerResets,
    /// The client leaves in the middle.
    ClientLeaves,
}

impl Plan {
    fn draw(number: usize, random: &mut Random) -> Plan {
        use Conduct::*;
        let sizes = [0, 1, 9, 1000, 16_384, 16_385, 70_000, 200_000];
        let conduct = random.pick(&[InTurn, InTurn, AtOnce, AtOnce, Echo, Echo, Unread, ServerResets, ClientLeaves]);
        let request_bytes = random.pick(&sizes);
        Plan {
            number,
            conduct,
            request_bytes,
            response_bytes: if conduct == Echo { request_bytes } else { random.pick(&sizes) },
            piece_bytes: random.pick(&[1, 100, 5000, 16_384, 40_000, 60_000]).max(request_bytes / 50).min(CAPACITY),
            has_trailers: random.one_in(3),
            interim: random.pick(&[0, 0, 1, 3]),
        }
    }

    /// Whether both sides come to their ends.
    fn is_whole(&self) -> bool {
        !matches!(self.conduct, Conduct::ServerResets | Conduct::ClientLeaves)
    }
}

/// A part of a body, known from its place.
fn pattern(seed: usize, place: usize, count: usize) -> &'static [u8] {
    static PATTERN: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..1_usize << 19).map(|place| (place.wrapping_mul(31) ^ (place >> 8).wrapping_mul(7)) as u8).collect());
    &PATTERN[seed * 1000 + place..][..count]
}

async fn send_body(stream: &StreamHandle, seed: usize, bytes: usize, piece: usize, trailers: bool) -> Result<(), ()> {
    let mut at = 0;
    while at < bytes {
        let count = piece.min(bytes - at);
        let piece = pattern(seed, at, count);
        at += count;
        let is_last = at == bytes && !trailers;
        stream.send_body(Buf::copy_of(piece), is_last, NEVER).await.map_err(drop)?;
    }
    if trailers {
        let mut fields = Fields::default();
        fields.push(b"X-Sum", bytes.to_string().as_bytes());
        return stream.finish(Some(&fields)).map_err(drop);
    }
    if bytes == 0 { stream.finish(None).map_err(drop) } else { Ok(()) }
}

/// Reads a body of that pattern to its end: how much it was.
async fn read_body(stream: &StreamHandle, seed: usize, at: &Cell<usize>) -> Result<(), StreamFault> {
    while let Some(piece) = poll_fn(|cx| stream.poll_read(cx)).await? {
        assert!(*piece == *pattern(seed, at.get(), piece.len()), "byte {} of a body, and those behind", at.get());
        at.set(at.get() + piece.len());
    }
    if let Some(trailers) = stream.take_trailers() {
        let (_, sum) = trailers.iter().next().expect("a field");
        assert_eq!(sum, at.get().to_string().as_bytes());
    }
    Ok(())
}

/// Both, polled in turn by one task.
async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut a_done, mut b_done) = (None, None);
    poll_fn(|cx| {
        if a_done.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(cx)
        {
            a_done = Some(output);
        }
        if b_done.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(cx)
        {
            b_done = Some(output);
        }
        if a_done.is_some() && b_done.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (a_done.expect("it is done"), b_done.expect("it is done"))
}

/// What the client does for a request.
async fn ask(stream: StreamHandle, plan: Plan) {
    let answered = Cell::new(0);
    let sending = send_body(&stream, plan.number, plan.request_bytes, plan.piece_bytes, plan.has_trailers);
    let reading = async {
        let mut head = ResponseHead::default();
        let mut interim = 0;
        loop {
            poll_fn(|cx| stream.poll_head(cx)).await?;
            assert!(stream.take_head(&mut head));
            if head.status == 200 {
                break;
            }
            interim += 1;
        }
        assert_eq!(interim, plan.interim, "{plan:?}");
        if plan.conduct == Conduct::ClientLeaves {
            return poll_fn(|cx| stream.poll_read(cx)).await.map(drop);
        }
        read_body(&stream, plan.number + 100, &answered).await
    };
    if plan.conduct == Conduct::ClientLeaves {
        // Whatever of it is done first, the client is gone.
        let (mut sending, mut reading) = (pin!(sending), pin!(reading));
        poll_fn(|cx| match (sending.as_mut().poll(cx), reading.as_mut().poll(cx)) {
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            _ => Poll::Ready(()),
        })
        .await;
        return;
    }
    let (sent, read) = both(sending, reading).await;
    match plan.conduct {
        Conduct::InTurn | Conduct::AtOnce | Conduct::Echo => {
            assert_eq!((sent, read), (Ok(()), Ok(())), "{plan:?}");
            assert_eq!(answered.get(), plan.response_bytes, "{plan:?}");
            assert!(stream.is_read());
        }
        // A request that nobody needs more of is cut, and its answer is whole all the same.
        Conduct::Unread => {
            assert_eq!((read, answered.get()), (Ok(()), plan.response_bytes), "{plan:?}");
        }
        Conduct::ServerResets => {
            let fault = Err(StreamFault::Reset { code: ErrorCode::InternalError, by_peer: true });
            assert_eq!(read, fault, "{plan:?}");
        }
        Conduct::ClientLeaves => {}
    }
}

/// What the server does for a request.
async fn answer(stream: StreamHandle, plan: Plan) {
    let received = Cell::new(0);
    for _ in 0..plan.interim {
        if stream.send_response(&ResponseHead { status: 103, ..ResponseHead::default() }, false).is_err() {
            return assert!(!plan.is_whole(), "{plan:?}");
        }
    }
    let head = ResponseHead { status: 200, ..ResponseHead::default() };
    let respond = async || {
        stream.send_response(&head, false).map_err(drop)?;
        send_body(&stream, plan.number + 100, plan.response_bytes, plan.piece_bytes, plan.has_trailers).await
    };
    let read = || read_body(&stream, plan.number, &received);
    let (responded, read) = match plan.conduct {
        Conduct::InTurn | Conduct::ClientLeaves => {
            let read = read().await;
            (respond().await, read)
        }
        Conduct::AtOnce => both(respond(), read()).await,
        Conduct::Unread => (respond().await, Ok(())),
        Conduct::Echo => {
            let echoed = stream.send_response(&head, false).map_err(drop);
            let mut at = 0;
            while let Some(piece) = poll_fn(|cx| stream.poll_read(cx)).await.expect("a whole request") {
                assert!(*piece == *pattern(plan.number, at, piece.len()), "{plan:?}");
                let back = pattern(plan.number + 100, at, piece.len());
                at += piece.len();
                stream.send_body(Buf::copy_of(back), false, NEVER).await.expect("a client that reads");
            }
            received.set(at);
            stream.finish(None).expect("an open stream");
            (echoed, Ok(()))
        }
        Conduct::ServerResets => {
            stream.send_response(&head, false).expect("an open stream");
            drop(poll_fn(|cx| stream.poll_read(cx)).await);
            return stream.reset(ErrorCode::InternalError);
        }
    };
    if plan.is_whole() {
        assert_eq!((responded, read), (Ok(()), Ok(())), "{plan:?}");
        assert!(plan.conduct == Conduct::Unread || received.get() == plan.request_bytes, "{plan:?} {}", received.get());
    }
}

/// The owner of the server's connection. Requests are lived in its own task, or in tasks of their own.
struct Owner {
    shared: Rc<H2Shared>,
    plans: Rc<Vec<Plan>>,
    spawner: Option<Spawner>,
    inside: Vec<Pin<Box<dyn Future<Output = ()>>>>,
}

impl FrameOwner for Owner {
    fn poll_requests(&mut self, cx: &mut Context<'_>) {
        self.inside.retain_mut(|request| request.as_mut().poll(cx).is_pending());
    }

    fn poll_deadlines(&mut self, _: &mut Context<'_>) -> Poll<Option<ConnectionEnd>> {
        Poll::Pending
    }

    fn begin(&mut self, opened: Opened, _: Instant) -> Result<(), ConnectionEnd> {
        let mut head = RequestHead::default();
        let (stream, read) = self.shared.read_request(opened, &HeadLimits::default(), &mut head)?;
        read.expect("a good request");
        let number: usize = std::str::from_utf8(&head.path()[1..]).expect("text").parse().expect("a number");
        let request = answer(stream, self.plans[number]);
        match &self.spawner {
            Some(spawner) => spawner.spawn(format!("answer {number}"), request),
            None => self.inside.push(Box::pin(request)),
        }
        Ok(())
    }
}

/// A driver's task, and when it may sleep: when it listens; or when it waits to send, and holds so much that more must
/// not come.
fn drive(
    tasks: &Tasks,
    name: &str,
    shared: &Rc<H2Shared>,
    ways: [&Rc<RefCell<Way>>; 2],
    mut owner: impl FrameOwner + 'static,
) -> Rc<Cell<bool>> {
    let [inbound, outbound] = ways.map(Rc::clone);
    let stream = Stream::plain(Memory { inbound: inbound.clone(), outbound: outbound.clone() });
    let mut io = FrameIo::new(shared.clone(), Rc::new(stream));
    let has_ended = Rc::new(Cell::new(false));
    let ended = has_ended.clone();
    let held = shared.clone();
    let of = name.to_owned();
    let task = async move {
        let end = poll_fn(|cx| io.poll(cx, &mut owner)).await;
        assert_eq!(end, None, "the connection of the {of} breaks no rule");
        ended.set(true);
    };
    tasks.spawner.spawn_watched(name.to_owned(), task, move || {
        let is_full = outbound.borrow().has_writer() && held.output_bytes() >= CAPACITY;
        let unheard = held.output_bytes() == 0 || outbound.borrow().has_writer();
        (inbound.borrow().has_reader() || is_full) && unheard
    });
    has_ended
}

fn request_head(plan: &Plan, random: &mut Random) -> RequestHead {
    let mut text = format!("POST /{} HTTP/1.1\r\nHost: a.test\r\n", plan.number);
    if random.one_in(2) {
        text += &format!("Content-Length: {}\r\n", plan.request_bytes);
    }
    text += random.pick(&["", "", "Priority: u=0\r\n", "Priority: u=5, i\r\n", "Priority: i\r\n"]);
    let mut head = RequestHead::default();
    parse_request(format!("{text}\r\n").as_bytes(), &HeadLimits::default(), &mut head).expect("a request");
    assert!(!head.fields.has(HeaderId::Te));
    head
}

fn settings(random: &mut Random, streams_max: u32) -> OurSettings {
    OurSettings {
        streams_max,
        initial_window_bytes: random.pick(&[1, 100, 16_384, 65_535, 1 << 20]),
        connection_window_bytes: random.pick(&[65_535, 100_000, 1 << 20]),
        header_list_bytes_max: 65_536,
        takes_protocol: false,
    }
}

fn run(seed: u64) {
    let mut random = Random(seed);
    let count = random.pick(&[1, 2, 5, 20]);
    let plans: Rc<Vec<Plan>> = Rc::new((0..count).map(|number| Plan::draw(number, &mut random)).collect());
    let (limits, now) = (HeadLimits::default(), Instant::now());
    let connection = |role, random: &mut Random| {
        let window_bytes = random.pick(&[1000, 65_535, 200_000]);
        H2Shared::new(role, settings(random, 100), limits, window_bytes, now)
    };
    let (client, server) = (connection(Role::Client, &mut random), connection(Role::Server, &mut random));
    let capacity =
        random.pick(&[1, 50, 5000, 100_000, 1 << 20]).max(plans.iter().map(|plan| plan.request_bytes).sum::<usize>() / 300);
    let way = |random: &mut Random| Way::new(capacity, random.pick(&[1, 10, 1000, 70_000]).max(capacity / 300));
    let (up, down) = (way(&mut random), way(&mut random));
    let mut tasks = Tasks::default();
    let spawner = random.one_in(2).then(|| tasks.spawner.clone());
    let owner = Owner { shared: server.clone(), plans: plans.clone(), spawner, inside: Vec::new() };
    let server_ended = drive(&tasks, "server", &server, [&up, &down], owner);
    let client_ended = drive(&tasks, "client", &client, [&down, &up], tidegate_message::h2::Nobody);
    let asked = Rc::new(Cell::new(0));
    for plan in plans.iter().copied() {
        let (client, asked, head) = (client.clone(), asked.clone(), request_head(&plan, &mut random));
        tasks.spawner.spawn(format!("ask {plan:?}"), async move {
            let request = Request { head: &head, scheme: "http", wants_trailers: false, protocol: None, ends_stream: false };
            ask(client.send_request(&request).expect("a free stream"), plan).await;
            asked.set(asked.get() + 1);
        });
    }
    let mut is_leaving = false;
    loop {
        let awake = tasks.awake();
        let ways: Vec<_> = [&up, &down].into_iter().filter(|way| way.borrow().travelling() > 0).collect();
        if awake > 0 && (ways.is_empty() || random.below(awake + ways.len()) < awake) {
            tasks.poll_one(&mut random);
            assert!(client.output_bytes().max(server.output_bytes()) < 3 * CAPACITY, "seed {seed}");
        } else if !ways.is_empty() {
            let mut way = random.pick(&ways).borrow_mut();
            let count = random.below(way.travelling()) + 1;
            way.arrive(count);
        } else if asked.get() == count && !is_leaving {
            is_leaving = true;
            if random.one_in(2) { client.shut_down() } else { server.shut_down() }
        } else {
            break;
        }
    }
    let is_over = client_ended.get() || server_ended.get();
    assert!(asked.get() == count && is_over, "seed {seed}: nobody goes on, and these wait: {:#?}", tasks.names());
    assert!(client.is_done() || server.is_done(), "seed {seed}: streams are left");
}

#[test]
fn every_message_comes_whole_or_both_sides_know() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        let ran =
            std::panic::catch_unwind(|| rt::run(tidegate_transport::Driver::Epoll, async { run(seed) }).expect("a runtime"));
        if let Err(panic) = ran {
            eprintln!("SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
