//! A client and a server of ours speak with each other in an order drawn from a seed, over wires that deliver any
//! number of bytes: no valid conversation may break a rule, every message comes whole or both sides know how its stream
//! ended, and windows are the same on both sides whenever nothing is on its way.
//!
//! `SEEDS=100000 cargo test -p tidegate-wire simulation` runs more of them, `SEED=7` one alone.

use super::{Connection, Event, Role};
use crate::h2::frame::{ErrorCode, FrameKind, ID_MAX, write_frame};
use crate::h2::heads::RequestForm;
use crate::h2::priority::Priority;
use crate::h2::settings::OurSettings;
use crate::h2::stream::{Receiving, Sending, Stream, StreamKey};
use crate::head::{Fields, RequestHead, ResponseHead};
use crate::http1::parse_request;
use crate::limits::HeadLimits;
use std::collections::BTreeMap;
use std::time::Instant;

const SEEDS: u64 = 200;

/// A generator of numbers (SplitMix64): the same seed, the same run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// One direction of one stream.
#[derive(Debug, Clone, Copy)]
struct Spoken {
    bytes: usize,
    has_trailers: bool,
    declares_length: bool,
}

fn message(seed: u64, id: u32, of_server: bool) -> Spoken {
    let mut random = Random(seed ^ u64::from(id) << 32 ^ u64::from(of_server) << 31);
    Spoken {
        bytes: random.pick(&[0, 0, 1, 10, 1000, 16_383, 16_384, 16_385, 40_000, 100_000]),
        has_trailers: random.below(3) == 0,
        declares_length: random.below(2) == 0,
    }
}

fn byte(id: u32, of_server: bool, place: usize) -> u8 {
    (place ^ place >> 7 ^ id as usize) as u8 ^ if of_server { 0x55 } else { 0 }
}

/// What one side knows of one stream, also when it is gone.
#[derive(Debug, Default)]
struct Known {
    key: Option<StreamKey>,
    received: usize,
    unread: usize,
    sent: usize,
    /// All of the other's message has come.
    is_whole: bool,
    has_sent_all: bool,
    reset_by_peer: Option<ErrorCode>,
    reset_by_us: Option<ErrorCode>,
    is_unprocessed: bool,
}

/// One end, and what it has sent that has not come across.
struct Side {
    role: Role,
    connection: Connection<()>,
    on_its_way: Vec<u8>,
    delivered: usize,
    streams: BTreeMap<u32, Known>,
    /// What the other side was told last of how large windows are at first.
    told_initial: u32,
    ours: OurSettings,
    settings_told: usize,
    pings: usize,
}

impl Side {
    fn new(role: Role, random: &mut Random, now: Instant) -> Side {
        let ours = OurSettings {
            streams_max: random.pick(&[1, 3, 100]),
            initial_window_bytes: random.pick(&[0, 1, 100, 16_384, 65_535, 100_000, 1 << 20, ID_MAX]),
            connection_window_bytes: random.pick(&[65_535, 65_536, 1 << 18]),
            header_list_bytes_max: 65_536,
            takes_protocol: random.below(2) == 0,
        };
        let told_initial = ours.initial_window_bytes;
        let connection = Connection::new(role, ours, now);
        let (on_its_way, streams) = (Vec::new(), BTreeMap::new());
        Side { role, connection, on_its_way, delivered: 0, streams, told_initial, ours, settings_told: 0, pings: 0 }
    }

    fn is_server(&self) -> bool {
        self.role == Role::Server
    }

    /// The live streams.
    fn keys(&self) -> Vec<StreamKey> {
        self.connection.keys().collect()
    }

    fn sending(&self, key: StreamKey) -> Option<Sending> {
        self.connection.streams.lookup(key).map(|stream| stream.sending)
    }

    fn is_over(&self, key: StreamKey) -> bool {
        self.connection.streams.lookup(key).is_some_and(Stream::is_over)
    }

    fn flush(&mut self) {
        let output = self.connection.take_output(Vec::new());
        self.on_its_way.extend(output);
    }

    fn in_flight(&self) -> usize {
        self.on_its_way.len() - self.delivered
    }

    fn known(&mut self, key: StreamKey) -> &mut Known {
        self.streams.get_mut(&key.id()).expect("a known stream")
    }

    /// Sends the next head of a stream that has sent none.
    fn send_head(&mut self, key: StreamKey, seed: u64, random: &mut Random) {
        let message = message(seed, key.id(), self.is_server());
        let ends_stream = message.bytes == 0 && !message.has_trailers;
        if self.is_server() {
            let mut head = ResponseHead { status: 103, ..ResponseHead::default() };
            if random.below(3) == 0 {
                head.fields.push(b"Link", b"</a>");
                return self.connection.send_response(key, &head, false);
            }
            head.status = 200;
            if message.declares_length {
                head.fields.push(b"Content-Length", message.bytes.to_string().as_bytes());
            }
            head.fields.push(b"X-Long", &vec![b'x'; random.pick(&[0, 10, 100, 40_000])]);
            self.connection.send_response(key, &head, ends_stream);
        } else {
            let length = if message.declares_length { format!("Content-Length: {}\r\n", message.bytes) } else { String::new() };
            let long = "x".repeat(random.pick(&[0, 10, 5000, 40_000]));
            let text = format!("POST /{} HTTP/1.1\r\nHost: a.test\r\n{length}X-Long: {long}\r\n\r\n", key.id());
            let mut head = RequestHead::default();
            parse_request(text.as_bytes(), &HeadLimits::default(), &mut head).expect("a request");
            let form = RequestForm { scheme: "http", wants_trailers: random.below(2) == 0, protocol: None };
            self.connection.send_request(key, &head, form, &mut Vec::new(), ends_stream);
        }
        self.known(key).has_sent_all = ends_stream;
        if message.bytes > 0 {
            self.connection.offer(key);
        } else if message.has_trailers {
            self.send_trailers(key);
        }
    }

    fn send_trailers(&mut self, key: StreamKey) {
        let mut trailers = Fields::default();
        trailers.push(b"X-Sum", b"1");
        self.connection.send_trailers(key, &trailers);
        self.known(key).has_sent_all = true;
    }

    /// Sends a frame of the stream whose turn it is. Whether there was one.
    fn send_data(&mut self, seed: u64, at_most: usize) -> bool {
        let Some((key, bytes_max)) = self.connection.next_to_send() else { return false };
        let of_server = self.is_server();
        let message = message(seed, key.id(), of_server);
        let sent = self.known(key).sent;
        let count = (message.bytes - sent).min(bytes_max).min(at_most);
        assert!(count > 0, "a turn without anything to send");
        let bytes: Vec<u8> = (sent..sent + count).map(|place| byte(key.id(), of_server, place)).collect();
        let is_last = sent + count == message.bytes;
        self.connection.send_data(key, &bytes, is_last && !message.has_trailers, !is_last);
        let known = self.known(key);
        known.sent += count;
        known.has_sent_all = is_last && !message.has_trailers;
        if is_last && message.has_trailers {
            self.send_trailers(key);
        }
        true
    }

    /// The owner of the stream reads some of what came.
    fn read(&mut self, key: StreamKey, at_most: usize) {
        let known = self.known(key);
        let count = known.unread.min(at_most);
        known.unread -= count;
        self.connection.free(key, count);
    }

    fn reset(&mut self, key: StreamKey, code: ErrorCode) {
        // A client's stream whose head was not sent is not there for the peer.
        let is_sent = self.is_server() || self.sending(key) != Some(Sending::Head);
        if is_sent && !self.is_over(key) {
            self.connection.reset(key, code);
            self.known(key).reset_by_us = Some(code);
        }
    }

    fn release(&mut self, key: StreamKey) {
        let before = self.connection.output.len();
        self.connection.release(key);
        let reset = self.connection.output[before..].last_chunk::<4>().copied();
        let known = self.known(key);
        known.key = None;
        if let Some(code) = reset {
            known.reset_by_us = Some(ErrorCode::of(u32::from_be_bytes(code)));
        }
    }

    /// Has the other side deliver so many bytes here.
    fn deliver(&mut self, from: &mut Side, count: usize, seed: u64, now: Instant) {
        let end = from.on_its_way.len().min(from.delivered.saturating_add(count));
        let mut input = &from.on_its_way[from.delivered..end];
        while let Some(event) = self.connection.receive(&mut input, now).expect("no rule was broken") {
            take(&mut self.connection, &mut self.streams, self.role, seed, event);
        }
        from.delivered = end;
        if from.delivered == from.on_its_way.len() {
            (from.on_its_way, from.delivered) = (Vec::new(), 0);
        }
    }
}

fn take(connection: &mut Connection<()>, streams: &mut BTreeMap<u32, Known>, role: Role, seed: u64, event: Event<'_>) {
    let limits = HeadLimits::default();
    let by_server = role == Role::Client;
    match event {
        Event::Request { key, ends_stream } => {
            let mut head = RequestHead::default();
            connection.read_request(key, &limits, &mut head).expect("decodes").expect("a request");
            assert_eq!(head.path(), format!("/{}", key.id()).as_bytes());
            let known = Known { key: Some(key), is_whole: ends_stream, ..Known::default() };
            assert!(streams.insert(key.id(), known).is_none(), "an id twice");
        }
        Event::Response { key, ends_stream } => {
            let mut head = ResponseHead::default();
            connection.read_response(key, &limits, false, &mut head).expect("decodes").expect("an answer");
            assert_eq!(head.status == 103, head.fields.iter().any(|(name, _)| name == b"link"));
            streams.get_mut(&key.id()).expect("a known stream").is_whole = ends_stream;
        }
        Event::Trailers { key } => {
            let mut trailers = Fields::default();
            connection.read_trailers(&limits, &mut trailers).expect("decodes").expect("trailers");
            assert_eq!(trailers.iter().count(), 1);
            assert!(message(seed, key.id(), by_server).has_trailers);
            streams.get_mut(&key.id()).expect("a known stream").is_whole = true;
        }
        Event::Data { key, bytes, ends_stream } => {
            let known = streams.get_mut(&key.id()).expect("a known stream");
            let is_right = bytes.iter().enumerate().all(|(at, found)| *found == byte(key.id(), by_server, known.received + at));
            assert!(is_right, "stream {} at {}", key.id(), known.received);
            known.received += bytes.len();
            known.unread += bytes.len();
            known.is_whole |= ends_stream;
        }
        Event::Reset { key, code, by_peer } => {
            assert!(by_peer, "a good message was called bad: {code:?} on {}", key.id());
            streams.get_mut(&key.id()).expect("a known stream").reset_by_peer = Some(code);
        }
        Event::Malformed { key, fault, .. } => panic!("a good message was called bad: {fault:?} on {}", key.id()),
        Event::GoAway { last_id, code } => {
            assert_eq!(code, ErrorCode::NoError);
            for (_, known) in streams.iter_mut().filter(|(id, _)| **id > last_id && role == Role::Client) {
                known.is_unprocessed = true;
            }
        }
        Event::Pong => {}
    }
}

struct World {
    seed: u64,
    random: Random,
    sides: [Side; 2],
    now: Instant,
    total: usize,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

impl World {
    fn new(seed: u64) -> World {
        let (mut random, now) = (Random(seed), Instant::now());
        let sides = [Role::Client, Role::Server].map(|role| Side::new(role, &mut random, now));
        let total = random.pick(&[1, 3, 20]);
        World { seed, random, sides, now, total }
    }

    fn deliver(&mut self, to: usize, count: usize) {
        let [client, server] = &mut self.sides;
        let (to, from) = if to == CLIENT { (client, server) } else { (server, client) };
        to.deliver(from, count, self.seed, self.now);
    }

    fn open(&mut self) {
        let client = &mut self.sides[CLIENT];
        if client.streams.len() < self.total
            && let Some(key) = client.connection.open(())
        {
            client.streams.insert(key.id(), Known { key: Some(key), ..Known::default() });
            // Streams begin in the order of their ids (RFC 9113 section 5.1.1).
            client.send_head(key, self.seed, &mut self.random);
        }
    }

    /// Tells the other side of another size of windows, never larger than they were said to be, or of tables.
    fn tell_settings(&mut self, side: usize, initial: u32) {
        let table = self.random.pick(&[0, 1, 100, 4096]);
        let side = &mut self.sides[side];
        side.settings_told += 1;
        side.told_initial = initial;
        let mut payload = Vec::new();
        for (id, value) in [(4_u16, initial), (1, table)] {
            payload.extend(id.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        write_frame(&mut side.connection.output, FrameKind::Settings, 0, 0, &payload);
    }

    fn step(&mut self) {
        let at = self.random.below(2);
        let side = &mut self.sides[at];
        let keys = side.keys();
        let key = (!keys.is_empty()).then(|| self.random.pick(&keys));
        match (self.random.below(40), key) {
            (0..4, _) => self.open(),
            (4..8, Some(key)) if side.sending(key) == Some(Sending::Head) => {
                side.send_head(key, self.seed, &mut self.random);
            }
            (8..16, _) => {
                let at_most = self.random.pick(&[1, 100, 16_384]);
                side.send_data(self.seed, at_most);
            }
            (16..19, _) => side.flush(),
            (19..29, _) => {
                let count = self.random.pick(&[1, 2, 9, 10, 100, 5000, 100_000]);
                self.deliver(at, count);
            }
            (29..33, Some(key)) => {
                let at_most = self.random.pick(&[1, 1000, 100_000]);
                side.read(key, at_most);
            }
            (33, Some(key)) => side.connection.widen(key, self.random.pick(&[1000, 200_000])),
            (34, Some(key)) if self.random.below(6) == 0 => {
                let code = self.random.pick(&[ErrorCode::Cancel, ErrorCode::NoError, ErrorCode::InternalError]);
                side.reset(key, code);
            }
            (35, Some(key)) if side.is_over(key) || self.random.below(8) == 0 => side.release(key),
            (36, _) if side.pings < 50 => {
                side.pings += 1;
                side.connection.ping();
            }
            (37, _) if side.settings_told < 15 => {
                let lower = self.random.next() % (u64::from(side.ours.initial_window_bytes) + 1);
                self.tell_settings(at, lower as u32);
            }
            (38, Some(key)) => {
                let priority = Priority { urgency: self.random.below(8) as u8, is_incremental: self.random.below(2) == 0 };
                side.connection.set_priority(key, priority);
            }
            (39, _) if self.random.below(60) == 0 => side.connection.shut_down(),
            _ => {}
        }
    }

    /// Has all that was sent come across, and what answers it.
    fn settle(&mut self) {
        for _ in 0..10 {
            for to in [SERVER, CLIENT] {
                self.sides[1 - to].flush();
                self.deliver(to, usize::MAX);
            }
        }
        assert!(self.sides.iter().all(|side| side.in_flight() == 0 && side.connection.output.is_empty()));
        for (sender, receiver) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
            let [sender, receiver] = [sender, receiver].map(|at| &self.sides[at]);
            let (open, unannounced, size) = receiver.connection.receive_window.parts();
            assert_eq!(sender.connection.send_window.bytes(), open, "the window of the connection to the {:?}", receiver.role);
            assert_eq!(i64::from(open) + i64::from(unannounced), i64::from(size));
            let lowered = i64::from(receiver.ours.initial_window_bytes) - i64::from(receiver.told_initial);
            for key in receiver.keys() {
                let theirs = receiver.connection.streams.lookup(key).expect("a live stream");
                let ours = sender.connection.streams.find(key.id()).and_then(|key| sender.connection.streams.lookup(key));
                let Some(ours) = ours.filter(|stream| stream.sending == Sending::Body) else { continue };
                if !matches!(theirs.receiving, Receiving::Body { .. }) {
                    continue;
                }
                let (open, unannounced, size) = theirs.receive_window.parts();
                let unread = receiver.streams[&key.id()].unread;
                assert_eq!(i64::from(ours.send_window.bytes()) + lowered, i64::from(open), "the window of stream {}", key.id());
                assert_eq!(i64::from(open) + i64::from(unannounced) + unread as i64, i64::from(size), "stream {}", key.id());
            }
        }
    }

    /// Has everything come to its end; nothing new is begun.
    fn finish(&mut self) {
        for at in [CLIENT, SERVER] {
            self.tell_settings(at, self.sides[at].ours.initial_window_bytes);
        }
        for _ in 0..4000 {
            self.settle();
            let mut has_live = false;
            for at in [CLIENT, SERVER] {
                let side = &mut self.sides[at];
                for key in side.keys() {
                    has_live = true;
                    let stream = side.connection.streams.lookup(key).expect("a live stream");
                    let (sending, is_over) = (stream.sending, stream.is_over());
                    side.read(key, usize::MAX);
                    side.connection.widen(key, 20_000);
                    if is_over || side.known(key).is_unprocessed {
                        side.release(key);
                    } else if sending == Sending::Head {
                        side.send_head(key, self.seed, &mut self.random);
                    }
                }
                while side.send_data(self.seed, usize::MAX) {}
            }
            if !has_live {
                break;
            }
        }
        self.settle();
        for side in &self.sides {
            let left: Vec<_> = side.streams.iter().filter(|(_, known)| known.key.is_some()).collect();
            assert!(side.connection.stream_count() == 0 && left.is_empty(), "nobody goes on at the {:?}: {left:#?}", side.role);
            assert!(side.connection.ready.is_empty());
        }
    }

    /// Both sides know the same of each stream.
    fn compare(&self) {
        let [client, server] = &self.sides;
        let nothing = Known::default();
        for (id, asked) in &client.streams {
            let answered = server.streams.get(id).unwrap_or(&nothing);
            let context = || format!("stream {id}: the client knows {asked:?}, the server {answered:?}");
            let check = |one: &Known, other: &Known, of_server: bool| {
                let message = message(self.seed, *id, of_server);
                assert!(!one.is_whole || one.received == message.bytes, "{}", context());
                assert!(!one.is_whole || other.has_sent_all, "{}", context());
                assert!(one.received <= other.sent, "{}", context());
                if let Some(code) = one.reset_by_peer {
                    let is_refused = code == ErrorCode::RefusedStream && of_server != server.streams.contains_key(id);
                    assert!(other.reset_by_us == Some(code) || is_refused, "{}", context());
                }
                if other.reset_by_us.is_some() {
                    let is_over = one.is_whole && one.has_sent_all;
                    let is_known = one.reset_by_peer.is_some() || one.reset_by_us.is_some() || is_over;
                    assert!(is_known || one.is_unprocessed || (!of_server && one.key.is_none()), "{}", context());
                }
            };
            check(asked, answered, true);
            check(answered, asked, false);
            let is_cut =
                [asked, answered].iter().any(|known| known.reset_by_peer.or(known.reset_by_us).is_some() || known.is_unprocessed);
            let is_unsent = asked.sent == 0 && !asked.has_sent_all && !server.streams.contains_key(id);
            assert!(is_cut || is_unsent || (asked.is_whole && answered.is_whole), "{}", context());
        }
    }
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    let steps = world.random.pick(&[50, 500, 3000]);
    for step in 0..steps {
        world.step();
        if step % 250 == 249 {
            world.settle();
        }
    }
    world.finish();
    world.compare();
}

#[test]
fn two_ends_agree_whatever_the_order() {
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
