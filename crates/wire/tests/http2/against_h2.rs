//! The crate `h2` as the other end, in memory: requests and answers drawn from a seed go through its client to our
//! server and through our client to its server, cut into pieces of any size, and come out as they went in. `SEED=7`
//! runs one alone, `SEEDS=5000` more of them. What both make of connections with a fault is in `faults`.

mod faults;

use crate::against_python::Random;
use crate::peer::{Endpoint, Fact};
use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tidegate_wire::ResponseHead;
use tidegate_wire::h2::connection::Role;
use tidegate_wire::h2::frame::FRAME_PAYLOAD_MAX;
use tidegate_wire::head::Fields;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const SEEDS: u64 = 150;
/// Far more than any run takes.
const ROUNDS_MAX: usize = 20_000;
/// For what is said last.
const ROUNDS_BEHIND: usize = 20;

/// Bytes on their way, both ways.
#[derive(Default)]
pub struct Wires {
    to_h2: VecDeque<u8>,
    from_h2: VecDeque<u8>,
    /// Nothing more comes to `h2`.
    is_closed: bool,
}

/// The socket of `h2`. Whoever waits for it is polled again by the test.
pub struct Socket(Rc<RefCell<Wires>>);

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut wires = self.0.borrow_mut();
        if wires.to_h2.is_empty() {
            return if wires.is_closed { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let count = buffer.remaining().min(wires.to_h2.len());
        let bytes: Vec<u8> = wires.to_h2.drain(..count).collect();
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().from_h2.extend(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

type Lines = Vec<(String, String)>;

/// A message: what is sent, and what comes out at the other end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Message {
    /// Method and path, or the status.
    first: String,
    fields: Lines,
    body: Vec<u8>,
    trailers: Lines,
    reset: Option<u32>,
}

impl Message {
    fn draw(first: String, random: &mut Random, mut has_body: bool) -> Message {
        has_body &= random.below(4) > 0;
        let size = random.pick(&[0, 1, 100, 5000, 16_384, 16_385, 70_000]);
        let body: Vec<u8> = (0..if has_body { size } else { 0 }).map(|place| (place * 31 + place / 256) as u8).collect();
        let mut fields: Lines = Vec::new();
        for number in 0..random.below(6) {
            let name = random.pick(&["x-a", "accept", "cookie", "user-agent", "x-empty", "cache-control", "etag", "x-long"]);
            if fields.iter().any(|(known, _)| known == name) && name == "cookie" {
                continue;
            }
            let value = match name {
                "x-empty" => String::new(),
                "x-long" => "v".repeat(random.pick(&[200, 5000, 20_000])),
                _ => format!("{}{number}", random.pick(&["value", "a, b; c=\"d\"", "~!*", "\u{e4}"])),
            };
            fields.push((name.into(), value));
        }
        if has_body && random.below(3) == 0 {
            fields.push(("content-length".into(), body.len().to_string()));
        }
        let trailers = if has_body && random.below(3) == 0 { vec![("x-sum".into(), body.len().to_string())] } else { Vec::new() };
        Message { first, fields, body, trailers, reset: None }
    }

    fn header_map(lines: &Lines) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
            map.append(HeaderName::from_bytes(name.as_bytes()).expect("a name"), value);
        }
        map
    }

    fn our_fields(lines: &Lines) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in lines {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        fields
    }

    /// Fields of different names have no order.
    fn settled(mut self) -> Message {
        self.fields.sort_by(|a, b| a.0.cmp(&b.0));
        self
    }
}

fn lines_of(map: &HeaderMap) -> Lines {
    map.iter().map(|(name, value)| (name.to_string(), String::from_utf8(value.as_bytes().to_vec()).expect("text"))).collect()
}

/// What one of our facts has as text, as lines again.
fn lines_of_text(text: &str) -> Lines {
    let unescaped = |value: &str| String::from_utf8(unescape(value)).expect("text");
    text.lines().filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_owned(), unescaped(value))).collect()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let (byte, count) = match (first, rest.as_bytes().get(1)) {
            (b'\\', Some(b'x')) => (u8::from_str_radix(&rest[2..4], 16).expect("a number"), 4),
            (b'\\', Some(escaped)) => (*escaped, 2),
            _ => (first, 1),
        };
        bytes.push(byte);
        rest = &rest[count..];
    }
    bytes
}

/// What came on each stream of our end.
fn seen_by_us(facts: &[Fact]) -> BTreeMap<u32, (Message, bool)> {
    let mut streams: BTreeMap<u32, (Message, bool)> = BTreeMap::new();
    for fact in facts {
        match fact {
            Fact::Head { stream, text, ends_stream } => {
                let (first, fields) = text.split_once('\n').expect("a first line");
                // Interim answers have a head of their own.
                *streams.entry(*stream).or_default() =
                    (Message { first: first.to_owned(), fields: lines_of_text(fields), ..Message::default() }, *ends_stream);
            }
            Fact::Data { stream, bytes, ends_stream } => {
                let seen = streams.entry(*stream).or_default();
                seen.0.body.extend(bytes);
                seen.1 |= ends_stream;
            }
            Fact::Trailers { stream, text } => {
                let seen = streams.entry(*stream).or_default();
                (seen.0.trailers, seen.1) = (lines_of_text(text), true);
            }
            Fact::Reset { stream, code, by_peer: true } => {
                let seen = streams.entry(*stream).or_default();
                (seen.0.reset, seen.1) = (Some(*code as u32), true);
            }
            fault @ (Fact::Malformed { .. } | Fact::Reset { .. }) => panic!("our end takes for wrong: {fault:?}"),
            Fact::GoAway { .. } | Fact::Pong => {}
        }
    }
    streams
}

/// Streams of our end on which nothing more comes.
fn whole_streams(facts: &[Fact]) -> impl Iterator<Item = u32> + '_ {
    facts.iter().filter_map(|fact| match fact {
        Fact::Head { stream, ends_stream: true, .. }
        | Fact::Data { stream, ends_stream: true, .. }
        | Fact::Trailers { stream, .. }
        | Fact::Reset { stream, .. } => Some(*stream),
        Fact::Head { .. } | Fact::Data { .. } | Fact::Malformed { .. } | Fact::GoAway { .. } | Fact::Pong => None,
    })
}

/// A body on its way out of our end.
struct OurBody {
    bytes: VecDeque<u8>,
    trailers: Lines,
}

/// Our end with the bodies that it sends.
struct Ours {
    endpoint: Endpoint,
    bodies: BTreeMap<u32, OurBody>,
}

impl Ours {
    fn send_later(&mut self, id: u32, message: &Message) {
        let body = OurBody { bytes: message.body.iter().copied().collect(), trailers: message.trailers.clone() };
        self.bodies.insert(id, body);
        let key = self.endpoint.key(id).expect("a stream");
        self.endpoint.connection.offer(key);
    }

    fn send_bodies(&mut self, random: &mut Random) {
        let connection = &mut self.endpoint.connection;
        while let Some((key, bytes_max)) = connection.next_to_send() {
            let Some(body) = self.bodies.get_mut(&key.id()) else {
                connection.send_nothing_more(key);
                continue;
            };
            let most = random.pick(&[1, 1000, FRAME_PAYLOAD_MAX]).max(body.bytes.len() / 50);
            let count = body.bytes.len().min(bytes_max).min(most);
            let piece: Vec<u8> = body.bytes.drain(..count).collect();
            let is_last = body.bytes.is_empty();
            connection.send_data(key, &piece, is_last && body.trailers.is_empty(), !is_last);
            if is_last {
                if !body.trailers.is_empty() {
                    connection.send_trailers(key, &Message::our_fields(&body.trailers));
                }
                self.bodies.remove(&key.id());
            }
        }
    }
}

type Tasks = RefCell<Vec<Pin<Box<dyn Future<Output = ()>>>>>;

/// Both ends, until nobody has anything to do: `act` is what the owner of our end does after each step.
fn run(
    ours: &mut Ours,
    wires: &Rc<RefCell<Wires>>,
    tasks: &Rc<Tasks>,
    random: &mut Random,
    mut act: impl FnMut(&mut Ours),
    is_over: impl Fn() -> bool,
) {
    let mut context = Context::from_waker(Waker::noop());
    let mut rounds_left = ROUNDS_BEHIND;
    for _ in 0..ROUNDS_MAX {
        let mut polled = std::mem::take(&mut *tasks.borrow_mut());
        polled.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
        tasks.borrow_mut().append(&mut polled);
        let size = random.pick(&[1, 9, 100, 5000, 1 << 20]);
        let piece: Vec<u8> = {
            let mut wires = wires.borrow_mut();
            // Small pieces of large bodies would take for ever.
            let size = size.max(wires.from_h2.len() / 10).min(wires.from_h2.len());
            wires.from_h2.drain(..size).collect()
        };
        ours.endpoint.receive(&piece);
        assert_eq!(ours.endpoint.end, None, "our end ends the connection");
        act(ours);
        ours.send_bodies(random);
        let output = ours.endpoint.connection.take_output(Vec::new());
        wires.borrow_mut().to_h2.extend(output);
        if is_over() && wires.borrow().from_h2.is_empty() {
            rounds_left -= 1;
            if rounds_left == 0 {
                return;
            }
        }
    }
    let facts: Vec<String> = ours.endpoint.facts.iter().map(|fact| format!("{fact:?}").chars().take(120).collect()).collect();
    panic!("nobody comes to an end; our end has seen {facts:#?}");
}

async fn send_body(mut stream: SendStream<Bytes>, message: &Message, piece: usize) -> SendStream<Bytes> {
    let mut rest = Bytes::from(message.body.clone());
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len().min(piece));
        while stream.capacity() == 0 {
            poll_fn(|context| stream.poll_capacity(context)).await.expect("an open stream").expect("a window");
        }
        let piece = rest.split_to(rest.len().min(stream.capacity()).min(piece));
        let is_last = rest.is_empty() && message.trailers.is_empty() && message.reset.is_none();
        stream.send_data(piece, is_last).expect("it is taken");
    }
    if let Some(reason) = message.reset {
        stream.send_reset(Reason::from(reason));
    } else if !message.trailers.is_empty() {
        stream.send_trailers(Message::header_map(&message.trailers)).expect("they are taken");
    }
    stream
}

async fn receive_body(stream: &mut RecvStream, into: &mut Message) {
    while let Some(piece) = stream.data().await {
        let piece = piece.expect("a body");
        into.body.extend_from_slice(&piece);
        stream.flow_control().release_capacity(piece.len()).expect("it was received");
    }
    into.trailers = stream.trailers().await.expect("a good end").map(|trailers| lines_of(&trailers)).unwrap_or_default();
}

fn ends_with_head(message: &Message) -> bool {
    message.body.is_empty() && message.trailers.is_empty() && message.reset.is_none()
}

fn draw_requests(random: &mut Random) -> Vec<Message> {
    (0..=random.below(8))
        .map(|number| {
            let method = random.pick(&["GET", "POST", "PUT", "PATCH"]);
            let query = random.pick(&["", "?", "?a=b&c=%20"]);
            Message::draw(format!("{method} a.test /{number}{query}"), random, method != "GET")
        })
        .collect()
}

fn draw_answers(count: usize, random: &mut Random) -> Vec<Message> {
    let mut answers = Vec::new();
    for _ in 0..count {
        let status = random.pick(&[200, 200, 206, 404, 503]);
        answers.push(Message::draw(status.to_string(), random, true));
    }
    answers
}

/// Which request a first line is.
fn number_of(first: &str) -> usize {
    let path = first.rsplit('/').next().unwrap_or_default();
    path.split('?').next().and_then(|number| number.parse().ok()).expect("a number")
}

fn their_client_with_our_server(seed: u64) {
    let mut random = Random(seed);
    let mut requests = draw_requests(&mut random);
    let answers = Rc::new(draw_answers(requests.len(), &mut random));
    for request in &mut requests {
        if request.body.len() > 1 && random.below(6) == 0 {
            request.reset = Some(random.pick(&[Reason::CANCEL, Reason::INTERNAL_ERROR]).into());
            request.trailers.clear();
        }
    }
    let wires = Rc::<RefCell<Wires>>::default();
    let (tasks, answered) = (Rc::<Tasks>::default(), Rc::new(RefCell::new(BTreeMap::new())));
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(random.pick(&[200, 1000, 65_535, 1 << 20]));
    builder.header_table_size(random.pick(&[0, 100, 4096, 10_000]));
    let piece = random.pick(&[100, 10_000, 100_000]);
    let (socket, spawner, asked, results) = (Socket(wires.clone()), tasks.clone(), requests.clone(), answered.clone());
    tasks.borrow_mut().push(Box::pin(async move {
        let (sender, connection) = builder.handshake::<_, Bytes>(socket).await.expect("a handshake");
        spawner.borrow_mut().push(Box::pin(async move { connection.await.expect("a good connection") }));
        for (number, message) in asked.into_iter().enumerate() {
            let (sender, results) = (sender.clone(), results.clone());
            spawner.borrow_mut().push(Box::pin(async move {
                let mut sender = sender.ready().await.expect("a place");
                let (method, target) = message.first.split_once(" a.test ").expect("two parts");
                let mut request = Request::new(());
                *request.method_mut() = method.parse::<Method>().expect("a method");
                *request.uri_mut() = format!("http://a.test{target}").parse().expect("an address");
                *request.headers_mut() = Message::header_map(&message.fields);
                let (answer, stream) = sender.send_request(request, ends_with_head(&message)).expect("it is taken");
                let stream = if ends_with_head(&message) { stream } else { send_body(stream, &message, piece).await };
                if message.reset.is_some() {
                    results.borrow_mut().insert(number, None);
                    return;
                }
                let (head, mut body) = answer.await.expect("an answer").into_parts();
                let mut seen =
                    Message { first: head.status.as_str().into(), fields: lines_of(&head.headers), ..Message::default() };
                receive_body(&mut body, &mut seen).await;
                drop(stream);
                results.borrow_mut().insert(number, Some(seen));
            }));
        }
    }));
    let mut ours = Ours { endpoint: Endpoint::new(Role::Server), bodies: BTreeMap::new() };
    let mut begun: Vec<u32> = Vec::new();
    let to_send = answers.clone();
    let act = |ours: &mut Ours| {
        if whole_streams(&ours.endpoint.facts).all(|id| begun.contains(&id)) {
            return;
        }
        for (id, (request, is_whole)) in seen_by_us(&ours.endpoint.facts) {
            if !is_whole || begun.contains(&id) {
                continue;
            }
            if request.reset.is_some() {
                begun.push(id);
                continue;
            }
            begun.push(id);
            let answer = &to_send[number_of(&request.first)];
            let key = ours.endpoint.key(id).expect("a stream");
            let head = ResponseHead {
                status: answer.first.parse().expect("a status"),
                fields: Message::our_fields(&answer.fields),
                ..ResponseHead::default()
            };
            if id % 3 == 0 {
                let interim = ResponseHead { status: 103, ..ResponseHead::default() };
                ours.endpoint.connection.send_response(key, &interim, false);
            }
            ours.endpoint.connection.send_response(key, &head, ends_with_head(answer));
            if !ends_with_head(answer) {
                ours.send_later(id, answer);
            }
        }
    };
    let (count, done) = (requests.len(), answered.clone());
    run(&mut ours, &wires, &tasks, &mut random, act, || done.borrow().len() == count);
    for (request, is_whole) in seen_by_us(&ours.endpoint.facts).into_values() {
        let sent = requests[number_of(&request.first)].clone();
        assert!(is_whole, "{:?} {sent:?}", request.reset);
        match sent.reset {
            // What was on its way may be lost with it.
            Some(code) => assert_eq!(request.reset, Some(code)),
            None => assert_eq!(request.settled(), sent.settled()),
        }
    }
    for (number, seen) in answered.borrow_mut().iter_mut() {
        if let Some(seen) = seen.take() {
            assert_eq!(seen.settled(), answers[*number].clone().settled());
        }
    }
}

fn our_client_with_their_server(seed: u64) {
    let mut random = Random(seed);
    let requests = draw_requests(&mut random);
    let mut answers = draw_answers(requests.len(), &mut random);
    for answer in &mut answers {
        if answer.body.len() > 1 && random.below(6) == 0 {
            answer.reset = Some(random.pick(&[Reason::CANCEL, Reason::INTERNAL_ERROR, Reason::ENHANCE_YOUR_CALM]).into());
            (answer.trailers, answer.fields) = (Vec::new(), Vec::new());
        }
    }
    let answers = Rc::new(answers);
    let wires = Rc::<RefCell<Wires>>::default();
    let (tasks, received) = (Rc::<Tasks>::default(), Rc::new(RefCell::new(Vec::<Message>::new())));
    let answered = Rc::new(RefCell::new(0));
    let mut builder = h2::server::Builder::new();
    // None below the default: what was read before its SETTINGS were acknowledged is not given back by `h2` then, and a
    // client that began before it knew of them waits for ever.
    builder.initial_window_size(random.pick(&[65_535, 100_000, 1 << 20]));
    builder.header_table_size(random.pick(&[0, 100, 4096, 10_000]));
    builder.max_frame_size(random.pick(&[16_384, 100_000]));
    let piece = random.pick(&[100, 10_000, 100_000]);
    let (socket, spawner, results, to_send, counted) =
        (Socket(wires.clone()), tasks.clone(), received.clone(), answers.clone(), answered.clone());
    tasks.borrow_mut().push(Box::pin(async move {
        let mut connection = builder.handshake::<_, Bytes>(socket).await.expect("a handshake");
        while let Some(accepted) = connection.accept().await {
            let (request, mut respond) = accepted.expect("a good request");
            let (results, to_send, counted) = (results.clone(), to_send.clone(), counted.clone());
            spawner.borrow_mut().push(Box::pin(async move {
                let (head, mut body) = request.into_parts();
                let target = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
                let authority = head.uri.authority().map(ToString::to_string).unwrap_or_default();
                let first = format!("{} {authority} {target}", head.method);
                let mut seen = Message { first, fields: lines_of(&head.headers), ..Message::default() };
                receive_body(&mut body, &mut seen).await;
                let answer = &to_send[number_of(&seen.first)];
                results.borrow_mut().push(seen);
                let mut response = Response::new(());
                *response.status_mut() = answer.first.parse().expect("a status");
                *response.headers_mut() = Message::header_map(&answer.fields);
                let stream = respond.send_response(response, ends_with_head(answer)).expect("it is taken");
                if !ends_with_head(answer) {
                    send_body(stream, answer, piece).await;
                }
                *counted.borrow_mut() += 1;
            }));
        }
    }));
    let mut ours = Ours { endpoint: Endpoint::new(Role::Client), bodies: BTreeMap::new() };
    let mut ids = Vec::new();
    for request in &requests {
        let (method, target) = request.first.split_once(" a.test ").expect("two parts");
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n");
        request.fields.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
        let key = ours.endpoint.ask(&format!("{text}\r\n"), !ends_with_head(request));
        ids.push(key.id());
        if !ends_with_head(request) {
            ours.send_later(key.id(), request);
        }
    }
    let (count, done) = (requests.len(), answered.clone());
    let has_come = Rc::new(RefCell::new(false));
    let (came, wanted) = (has_come.clone(), ids.clone());
    let act = move |ours: &mut Ours| {
        *came.borrow_mut() = wanted.iter().all(|wanted| whole_streams(&ours.endpoint.facts).any(|id| id == *wanted));
    };
    run(&mut ours, &wires, &tasks, &mut random, act, || *done.borrow() == count && *has_come.borrow());
    for request in received.borrow_mut().drain(..) {
        assert_eq!(request.clone().settled(), requests[number_of(&request.first)].clone().settled());
    }
    let seen = seen_by_us(&ours.endpoint.facts);
    for (number, id) in ids.iter().enumerate() {
        let (answer, _) = seen.get(id).cloned().expect("an answer");
        match answers[number].reset {
            Some(code) => assert_eq!(answer.reset, Some(code)),
            None => assert_eq!(answer.settled(), answers[number].clone().settled()),
        }
    }
}

fn for_seeds(run: fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn requests_of_their_client_and_answers_of_our_server_come_whole() {
    for_seeds(their_client_with_our_server);
}

#[test]
fn requests_of_our_client_and_answers_of_their_server_come_whole() {
    for_seeds(our_client_with_their_server);
}
